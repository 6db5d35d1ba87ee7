"""Does the order M + 1 of the time-discontinuous Galerkin methods survive impacts, if events are split?

[schindler2014] finds order 1 with impacts, whatever the degree M: an impact acts at the end of its step. `Hybrid` cuts the step at
the impact instead, by a collision integrator of order M + 1, and leaves contact that lasts to `TimeDG(M)`. Two problems with exact
solutions: a mass on a spring that bounces on a floor, and one that lands under a growing load and stays.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from carom.contact.contact import Contact
from carom.methods.hybrid import Hybrid
from carom.methods.timestepping.time_dg import TimeDG
from carom.papers.discoveries.collision_order import fitted, method_of
from carom.papers.discoveries.graph_distance import at, bounce, distance
from carom.papers.exhibit import Band, Row, axes, state
from carom.papers.studies import l1_errors
from carom.running.solve import solve
from carom.system.system import System

RESTITUTION, STIFFNESS, LOAD = 0.8, 4.0, 2.0
DURATION, LANDING = 3.3, 2.0
START = np.array([1.0]), np.array([0.0])


def _spring(q, v):
    return 0.5 * v[0] ** 2 - 0.5 * STIFFNESS * q[0] ** 2 - LOAD * q[0]


def _growing(q, v, t):
    return 0.5 * v[0] ** 2 - jnp.exp(1 + t) * q[0]


def _floor(q):
    return q[0]


BOUNCING = System(_spring, [Contact(_floor, restitution=RESTITUTION, name="floor")])
LANDED = System(_growing, [Contact(_floor, restitution=0.0, name="floor")])


def flow(q: np.ndarray, v: np.ndarray, t: Any) -> tuple[np.ndarray, np.ndarray]:
    """On the spring, whose rest is at −LOAD/STIFFNESS."""
    w, rest = np.sqrt(STIFFNESS), -LOAD / STIFFNESS
    c, s = np.cos(w * t), np.sin(w * t)
    return rest + c * (q - rest) + s * v / w, -w * s * (q - rest) + c * v


def exact_bounces() -> Any:
    return bounce(flow, lambda q: float(q[0]), lambda q: np.ones(1), *START, DURATION, RESTITUTION)


def landing(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """From 1 with velocity 0 under the load exp(1 + t): q, v and the interaction, with the impulse at the landing."""
    fall = 1 - np.e * (np.exp(t) - 1 - t)
    hit = _landing_time()
    speed = np.e * (np.exp(hit) - 1)
    down = t >= hit
    pressed = speed + np.e * (np.exp(t) - np.exp(hit))
    return np.where(down, 0.0, fall), np.where(down, 0.0, -np.e * (np.exp(t) - 1)), np.where(down, pressed, 0.0)


def _landing_time() -> float:
    """By Newton's method: the fall is concave."""
    t = 1.0
    for _ in range(50):
        t -= (1 - np.e * (np.exp(t) - 1 - t)) / (-np.e * (np.exp(t) - 1))
    return float(t)


def pair(degree: int) -> Hybrid:
    return Hybrid(method_of(degree + 1), TimeDG(degree))


@dataclass(frozen=True)
class Measured:
    sizes: np.ndarray
    errors: dict[str, np.ndarray]  # "q", "v", "i" in L1, "graph"

    def slope(self, what: str) -> float:
        return fitted(self.sizes, self.errors[what])[0]


def bouncing(method: Any, counts: np.ndarray, hits: Any) -> Measured:
    """L1 errors of q and v and the distance of graphs, on the spring."""

    def exact(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        q, v = at(flow, hits, *START, t)
        pushed = np.cumsum([0.0, *(float(hit.after[0] - hit.before[0]) for hit in hits)])
        return q[:, 0], v[:, 0], pushed[np.searchsorted([hit.t for hit in hits], t, side="right")]

    found = []
    for count in counts:
        run = solve(BOUNCING, method, *START, dt=DURATION / count, num_steps=int(count))
        found.append((*l1_errors(run, exact)[:3], distance(run, flow, hits).graph))
    columns = np.array(found).T
    return Measured(DURATION / counts, dict(zip(("q", "v", "i", "graph"), columns, strict=True)))


def landed(method: Any, counts: np.ndarray) -> Measured:
    """L1 errors where a mass lands and stays."""
    found = []
    for count in counts:
        run = solve(LANDED, method, *START, dt=LANDING / count, num_steps=int(count))
        found.append(l1_errors(run, landing)[:3])
    return Measured(LANDING / counts, dict(zip("qvi", np.array(found).T, strict=True)))


def counts_for(order: int, many: int) -> np.ndarray:
    """Odd numbers of steps, so that no impact falls on the grid, for errors above rounding."""
    low, high = {2: (31, 500), 4: (31, 300), 6: (21, 100)}[order]
    return np.unique(np.geomspace(low, high, many).astype(int) | 1)


def split_row(degree: int, found: Measured, hits: int) -> Row:
    order = degree + 1
    slopes = {what: found.slope(what) for what in ("q", "v", "i", "graph")}
    return state(
        f"with events split, order M + 1 = {order} survives {hits} impacts, in L1 and in the distance of graphs (M = {degree})",
        ", ".join(f"{what}: {slope:.2f}" for what, slope in slopes.items()),
        Band(order - 0.5, order + 0.5, "this order and neither of its neighbours"),
        *slopes.values(),
    )


def whole_row(degree: int, found: Measured) -> Row:
    slopes = {what: found.slope(what) for what in ("q", "v", "i", "graph")}
    return state(
        f"without, the order is 1, whatever the degree (TimeDG, M = {degree})",
        ", ".join(f"{what}: {slope:.2f}" for what, slope in slopes.items()),
        Band(0.6, 1.4, "order 1; it scatters with where in their steps the impacts fall"),
        *slopes.values(),
    )


def landing_rows(found: dict[str, Measured]) -> list[Row]:
    rows = []
    for name, measured in found.items():
        for columns, order, why in (
            ("vi", 1, "order 1: one step is taken whole, and velocities are wrong by O(1) for a time O(h)"),
            (
                "q",
                2,
                "order 2: a velocity that is wrong for a time O(h), over a time O(h); it scatters with where the landing falls",
            ),
        ):
            slopes = {what: measured.slope(what) for what in columns}
            rows.append(
                state(
                    f"where a mass lands and stays, the hand-over is not split: order {order} in {', '.join(columns)} ({name})",
                    ", ".join(f"{what}: {slope:.2f}" for what, slope in slopes.items()),
                    Band(order - 0.5, order + 0.5, why),
                    *slopes.values(),
                )
            )
    return rows


def split_events(full: bool, draw: Path | None) -> list[Row]:
    """The chapter."""
    hits, many = exact_bounces(), 14 if full else 8
    degrees = (1, 3) if full else (1,)
    split = {d: bouncing(pair(d), counts_for(d + 1, many), hits) for d in degrees}
    often = np.unique(np.geomspace(61, 500, 3 * many).astype(int) | 1)  # orders that scatter with where the impacts fall
    whole = {d: bouncing(TimeDG(d), often, hits) for d in degrees}
    down = {f"Hybrid, M = {d}": landed(pair(d), often) for d in degrees}
    rows = [split_row(d, found, len(hits)) for d, found in split.items()] + [whole_row(d, found) for d, found in whole.items()]
    rows += landing_rows(down)
    if draw:
        _draw(draw, split, whole, down)
    return rows


def _draw(draw: Path, split: dict[int, Measured], whole: dict[int, Measured], down: dict[str, Measured]) -> None:
    figure, ((left, middle, right),) = axes(1, 3, size=(4.4, 3.6))
    for ax, what, title in ((left, "v", "velocity in L1"), (middle, "graph", "distance of graphs")):
        for k, (degree, found) in enumerate(split.items()):
            ax.loglog(found.sizes, found.errors[what], "o-", color=f"C{k}", ms=3, label=f"M = {degree}, split")
        for k, (degree, found) in enumerate(whole.items()):
            ax.loglog(found.sizes, found.errors[what], "x:", color=f"C{k}", ms=3, lw=0.7, label=f"M = {degree}, whole")
        ax.set(xlabel="h", title=f"a mass that bounces: {title}")
    left.legend(fontsize=7)
    for name, found in down.items():
        right.loglog(found.sizes, found.errors["i"], "o-", ms=3, label=name)
    right.set(xlabel="h", title="a mass that lands: interaction in L1")
    right.legend(fontsize=7)
    figure.savefig(draw, dpi=110)
