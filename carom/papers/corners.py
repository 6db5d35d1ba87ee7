"""Corners [fetecau2003, §5, Fig. 6]: a particle at the corner of an obstacle, and a corner against a corner."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from carom.contact.contact import Contact
from carom.methods.variational.collision import VariationalCollision
from carom.methods.variational.rules import Midpoint
from carom.papers.exhibit import Band, Row, axes, judge
from carom.running.solve import solve
from carom.system.system import System

METHOD = VariationalCollision(Midpoint())  # pyright: ignore[reportCallIssue]  # (57) with γ = ½
STEP = 0.1

# -- a particle and a square -------------------------------------------------------------------------------------------------


def _free(v):
    return 0.5 * jnp.sum(v**2)


def _square(q):
    """The faces of C̄ = [−1, 1]², a convex obstacle."""
    return jnp.stack([q[0] - 1, q[1] - 1, -q[0] - 1, -q[1] - 1])


PARTICLE = System(_free, [Contact(_square, obstacle=True, name="square")])


def aimed(target: np.ndarray, heading: float) -> Any:
    """A particle that comes from 2.03 away and meets `target` on the square."""
    way = np.array([np.cos(heading), np.sin(heading)])
    return solve(PARTICLE, METHOD, target - 2.03 * way, way, dt=STEP, num_steps=40)


def projected(run: Any) -> tuple[float, float]:
    """How far q̃ is from P_C̄(q_{i−α}) of (90), and from the same with α and 1 − α exchanged."""
    k, alpha = run.impacts.step[0], (run.impacts.t[0] - run.t[run.impacts.step[0]]) / run.dt
    ends, hit = run.q[k : k + 2], run.impacts.q[0]
    points = [np.clip((1 - a) * ends[0] + a * ends[1], -1, 1) for a in (alpha, 1 - alpha)]  # the closest point of a square
    return float(np.max(np.abs(points[0] - hit))), float(np.max(np.abs(points[1] - hit)))


# -- two bodies --------------------------------------------------------------------------------------------------------------

SQUARE = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]]) / 2
KITE = np.array([[-1.0, 0.0], [0.5, -0.7], [0.8, 0.0], [0.5, 0.7]])
INERTIAS = (1 / 6, 0.3)


def _two(v):
    return 0.5 * (v[0] ** 2 + v[1] ** 2 + INERTIAS[0] * v[2] ** 2 + v[3] ** 2 + v[4] ** 2 + INERTIAS[1] * v[5] ** 2)


def _corners(shape: np.ndarray, q: Any) -> Any:
    c, s = jnp.cos(q[2]), jnp.sin(q[2])
    return shape @ jnp.stack([jnp.stack([c, s]), jnp.stack([-s, c])]) + q[:2]


def _beyond(one: Any, other: Any) -> Any:
    """How far the corners of the other lie beyond each edge of the one, corners in the order of the clock."""
    edges = jnp.roll(one, -1, axis=0) - one
    normals = jnp.stack([edges[:, 1], -edges[:, 0]], axis=1) / jnp.sqrt(jnp.sum(edges**2, axis=1))[:, None]
    return jnp.min(jnp.sum(normals[:, None] * (other[None] - one[:, None]), axis=2), axis=1)


def separations(q):
    """Two convex bodies overlap where none of their edges separates them: faces of an obstacle in the space of both."""
    one, other = _corners(SQUARE, q[:3]), _corners(KITE, q[3:])
    return jnp.concatenate([_beyond(one, other), _beyond(other, one)])


BODIES = System(_two, [Contact(separations, obstacle=True, name="bodies")])


def meeting(offset: float = 0.0, spin: float = 0.0) -> Any:
    """A square on its corner flies at the tip of a kite that rests."""
    q0 = np.array([-3.0, offset, np.pi / 4, 0.0, 0.0, 0.0])
    return solve(BODIES, METHOD, q0, np.array([1.0, 0.0, spin, 0.0, 0.0, 0.0]), dt=0.05, num_steps=60)


def conserved(run: Any) -> float:
    """The largest change of energy, momentum and angular momentum, relative to an energy of ½ and a momentum of 1."""
    q, p = run.q, run.p
    spin = p[:, 2] + p[:, 5] + q[:, 0] * p[:, 1] - q[:, 1] * p[:, 0] + q[:, 3] * p[:, 4] - q[:, 4] * p[:, 3]
    kept = np.stack([run.energy, p[:, 0] + p[:, 3], p[:, 1] + p[:, 4], spin])
    return float(np.max(np.abs(kept - kept[:, :1])))


def corners(full: bool, draw: Path | None) -> list[Row]:
    """§5: (86), (90) and Fig. 6."""
    tip = np.array([1.0, 1.0])
    runs = [aimed(np.array([1.0, y]), a) for y, a in ((0.3, np.pi), (-0.6, 2.8), (0.9, 3.6))]
    runs += [aimed(tip, a) for a in (-2.2, -2.5, np.pi / 4 - np.pi)]
    near = [projected(run) for run in runs]
    at_tip = [run.impacts.p_after[0] - run.impacts.p_before[0] for run in runs[3:]]
    inside = min(float(np.min(jump)) for jump in at_tip) / 2
    head, aside = meeting(), meeting(0.12, 0.4)
    after = head.v[-1]
    error = float(np.max(np.abs(after - np.array([0, 0, 0, 1.0, 0, 0]))))
    kept = max(conserved(head), conserved(aside))
    if draw:
        _draw(draw, runs, head, aside)
    same = Band(0.0, 1e-9, "an identity, up to the rounding of a corner that is met by aim")
    return [
        judge(
            "(90): q̃ = P_C̄(q_{i−α}), the closest point of a convex obstacle (three faces, three times the corner of Fig. 6)",
            f"off by at most {max(a for a, _ in near):.0e}; with α and 1 − α exchanged by up to {max(b for _, b in near):.2g}",
            same,
            *(a for a, _ in near),
        ),
        judge(
            "(86): at the corner p⁺ − p⁻ lies in the normal cone, here the quadrant of both faces",
            f"smallest component of three jumps: {2 * inside:.2g}; the largest jump is {max(map(np.max, at_tip)):.2g}",
            Band(-1e-12, 1.0, "not negative, up to rounding, and at most twice the speed 1"),
            inside,
        ),
        judge(
            "§5: “corner-to-corner contact”: a square on its corner meets the tip of a kite of the same mass head on",
            f"velocities after it {np.round(after, 12) + 0.0}, {error:.0e} from (0, 0, 0, 1, 0, 0); {len(head.impacts)} impact",
            Band(0.0, 1e-9, "by symmetry nothing turns, and equal masses exchange their velocities"),
            error,
        ),
        judge(
            "the same beside the tip and with a spin: energy, momentum and angular momentum are kept",
            f"{len(aside.impacts)} impacts, largest change {kept:.0e}",
            Band(0.0, 1e-12, "free flight and impulses at one point: rounding"),
            kept,
        ),
    ]


def _draw(draw: Path, runs: list[Any], head: Any, aside: Any) -> None:
    figure, ((left, middle, right),) = axes(1, 3, size=(4.2, 3.6))
    left.fill([-1, 1, 1, -1], [-1, -1, 1, 1], color="0.85")
    for run in runs[3:]:
        path = np.concatenate([run.q[run.t < run.impacts.t[0]], run.impacts.q[:1], run.q[run.t > run.impacts.t[0]]])
        left.plot(*path.T, ".-", ms=3, lw=0.7)
    left.set(xlim=(0, 3), ylim=(0, 3), aspect="equal", title="a particle at a corner of C̄ (Fig. 6)")
    for ax, run, title in ((middle, head, "corner against corner"), (right, aside, "beside it, with a spin")):
        for k in (0, 20, 40, 60):
            for shape, part, colour in ((SQUARE, slice(0, 3), "C0"), (KITE, slice(3, 6), "C1")):
                outline = np.asarray(_corners(shape, run.q[k, part]))
                ax.plot(*np.concatenate([outline, outline[:1]]).T, color=colour, lw=0.5 + k / 60)
        ax.set(aspect="equal", title=title)
    figure.savefig(draw, dpi=110)
