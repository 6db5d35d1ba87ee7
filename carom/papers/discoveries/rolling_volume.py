"""Is there an invariant volume with rolling and impacts? [rodriguez2024; rodriguez2025], and the ellipse by the law.

A disk that rolls upright has constant velocities (θ′, φ′), so that its flow keeps dx dy dθ dφ dθ′ dφ′; a ball that rolls on a slope
has constant accelerations, likewise. An impact reflects the admissible velocities in the kinetic metric, of determinant −1, and
turns the rate of the gap around; with the time of the impact that makes, for the flow through it,

    det = det(reflection) · (rate after)/(rate before) = (−1)(−1) = 1.                                                    (1)

A system with an invariant volume on a bounded energy surface returns to where it was, almost always, by Poincaré's theorem; and
infinitely many impacts in finite time would squeeze that volume. The control is a sleigh whose runner is off its centre:

    log det = −∫ m a v/(I + m a²) dt.                                                                                   (2)
"""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from matplotlib.ticker import NullFormatter

from carom.contact.contact import Contact
from carom.methods.variational.collision import VariationalCollision
from carom.methods.variational.rules import Midpoint
from carom.models.nonholonomic import chaplygin_sleigh
from carom.models.planar import ellipse
from carom.papers.exhibit import Band, Row, axes, state
from carom.running.solve import solve
from carom.system.system import System

METHOD = VariationalCollision()
MIDPOINT = VariationalCollision(Midpoint())  # pyright: ignore[reportCallIssue]
MASS, INERTIA, TURNING, HALF = 1.0, 0.5, 0.25, 1.7  # a disk of radius 1 between walls at y = ±HALF
BALL, SLOPE, TABLE = 0.4, 1.0, 2.0  # inertia of a ball of radius 1 and mass 1; acceleration along x; radius of its table

WIDTH = 1e-4  # of the differences: their error is WIDTH⁴, and rounding over WIDTH


def _disk(q, v):
    return 0.5 * MASS * (v[0] ** 2 + v[1] ** 2) + 0.5 * INERTIA * v[2] ** 2 + 0.5 * TURNING * v[3] ** 2


def _upright(q):
    return jnp.stack([jnp.stack([1.0, 0.0, -jnp.cos(q[3]), 0.0]), jnp.stack([0.0, 1.0, -jnp.sin(q[3]), 0.0])])


def _channel(q):
    reach = jnp.sin(q[3])
    return HALF + jnp.stack([q[1] + reach, q[1] - reach, -q[1] + reach, -q[1] - reach])


def _ball(q, v):
    return 0.5 * (v[0] ** 2 + v[1] ** 2) + 0.5 * BALL * (v[2] ** 2 + v[3] ** 2) + SLOPE * q[0]


def _rolls(q):
    """The ball's turning, by quasi-coordinates (x, y, ∫ω_y, ∫ω_x): x′ = ω_y, y′ = −ω_x. ω_z is alone."""
    return jnp.array([[1.0, 0.0, -1.0, 0.0], [0.0, 1.0, 0.0, 1.0]])


def _table(q):
    return TABLE - jnp.sqrt(q[0] ** 2 + q[1] ** 2)


DISK = System(_disk, [Contact(_channel, name="walls")], constraints=_upright)
ROLLING_BALL = System(_ball, [Contact(_table, name="edge")], constraints=_rolls)


def volume(system: System, lift: Any, read: Any, z: np.ndarray, dt: float, steps: int, params: Any = None) -> tuple[float, int]:
    """log det of the flow in coordinates z of the admissible states, through its impacts, and how many there were. `lift(z)` is
    (q, v), `read(q, v)` is z again. Central differences of order 4: off by some 1e-9."""

    def end(z):
        run = solve(system, METHOD, *lift(z), dt=dt, num_steps=steps, params=params)
        return read(run.q[-1], run.v[-1]), len(run.impacts)

    columns = []
    for direction in WIDTH * np.eye(len(z)):
        far, near = end(z + 2 * direction)[0] - end(z - 2 * direction)[0], end(z + direction)[0] - end(z - direction)[0]
        columns.append((8 * near - far) / (12 * WIDTH))
    return float(np.linalg.slogdet(np.array(columns).T)[1]), end(z)[1]


def lift_disk(z):
    return z[:4], np.array([z[4] * np.cos(z[3]), z[4] * np.sin(z[3]), z[4], z[5]])


def read_disk(q, v):
    return np.concatenate([q, v[2:]])


def lift_ball(z):
    return np.array([z[0], z[1], 0.0, 0.0]), np.array([z[2], z[3], z[2], -z[3]])


def read_ball(q, v):
    return np.concatenate([q[:2], v[:2]])


def sleigh_volume(duration: float, dt: float) -> tuple[float, float, int]:
    """log det of the sleigh between walls, what (2) says, and the number of impacts."""
    model = chaplygin_sleigh()
    m, inertia, a = (float(model.params[k]) for k in ("mass", "inertia", "offset"))
    turning, steps = inertia + m * a**2, round(duration / dt)

    def lift(z):
        return z[:3], np.array([z[3] * np.cos(z[2]), z[3] * np.sin(z[2]), z[4]])

    def read(q, v):
        return np.array([*q, v[0] * np.cos(q[2]) + v[1] * np.sin(q[2]), v[2]])

    z = np.array([0.0, 0.0, 0.4, 2.0, 1.0])
    found, count = volume(model.system, lift, read, z, dt, steps, model.params)
    run = model.solve(METHOD, dt=dt, num_steps=steps)
    # ∫u dt is the length of the blade's path with its sign: pieces between points of the grid and impacts.
    t, q = np.concatenate([run.t, run.impacts.t]), np.concatenate([run.q, run.impacts.q])
    order = np.argsort(t, kind="stable")
    t, q = t[order], q[order]
    middle = 0.5 * (q[1:, 2] + q[:-1, 2])
    path = np.sum(np.diff(q[:, 0]) * np.cos(middle) + np.diff(q[:, 1]) * np.sin(middle))
    return found, float(-m * a / turning * path), count


def volume_rows(full: bool) -> list[Row]:
    dt, duration = (0.005, 6.0) if full else (0.01, 3.0)
    steps = round(duration / dt)
    disk, hits = volume(DISK, lift_disk, read_disk, np.array([0.0, 0.1, 0.0, 0.9, 1.5, 0.6]), dt, steps)
    ball, knocks = volume(ROLLING_BALL, lift_ball, read_ball, np.array([0.2, 0.3, 0.9, -1.4]), dt, steps)
    sleigh, expected, bumps = sleigh_volume(duration, dt)
    kept = Band(-1e-6, 1e-6, "zero, up to the error of a method of order 4 that is not built to keep it")
    return [
        state(
            "the rolling disk keeps volume through impacts",
            f"log det = {disk:.1e} after {hits} impacts, {duration:g} s",
            kept,
            disk,
        ),
        state(
            "so does the ball that rolls on a slope, on a round table",
            f"log det = {ball:.1e} after {knocks} impacts, {duration:g} s",
            kept,
            ball,
        ),
        state(
            "(2): the sleigh between walls does not: log det = −∫ m a v/(I + m a²) dt, impacts adding nothing",
            f"log det = {sleigh:.5f}, (2) {expected:.5f}, after {bumps} impacts",
            Band(-1e-3, 1e-3, "equal, up to the quadrature of the path, which is of order 2"),
            sleigh - expected,
        ),
    ]


def shares(run: Any) -> tuple[np.ndarray, np.ndarray]:
    """The share of time of the disk in eight cells of its energy surface, and that of the volume dy dφ dψ, where
    θ′ ∼ cos ψ, φ′ ∼ sin ψ in the kinetic metric: cells by the signs of y, of sin 2φ, of sin 2ψ."""
    y, phi = run.q[:, 1], run.q[:, 3]
    psi = np.arctan2(np.sqrt(TURNING) * run.v[:, 3], np.sqrt(MASS + INERTIA) * run.v[:, 2])
    cell = 4 * (y > 0) + 2 * (np.sin(2 * phi) > 0) + 1 * (np.sin(2 * psi) > 0)
    return np.bincount(cell, minlength=8) / len(y), np.full(8, 1 / 8)  # by symmetry all eight have the same volume


def disk_surface(run: Any) -> np.ndarray:
    """The disk on its energy surface: (y, φ, ψ), from the first state, angles modulo 2π."""
    psi = np.arctan2(np.sqrt(TURNING) * run.v[:, 3], np.sqrt(MASS + INERTIA) * run.v[:, 2])
    return np.stack([run.q[:, 1] - run.q[0, 1], _angle(run.q[:, 3] - run.q[0, 3]), _angle(psi - psi[0])])


def ball_surface(run: Any) -> np.ndarray:
    """The ball on its energy surface: (x, y, direction), from the first state."""
    direction = np.arctan2(run.v[:, 1], run.v[:, 0])
    return np.stack([run.q[:, 0] - run.q[0, 0], run.q[:, 1] - run.q[0, 1], _angle(direction - direction[0])])


def _angle(x: np.ndarray) -> np.ndarray:
    return np.mod(x + np.pi, 2 * np.pi) - np.pi


def returns(away: np.ndarray, t: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """Mean times between visits to balls around the first state."""
    inside = np.sqrt(np.sum(away**2, axis=0))[:, None] < radii
    visits = np.sum(inside[1:] & ~inside[:-1], axis=0)
    return t[-1] / np.maximum(visits, 1)


RADII = np.geomspace(1.0, 0.125, 4)


def recurrence_rows(full: bool) -> tuple[list[Row], tuple[Any, dict[str, np.ndarray]]]:
    steps, speed = 200_000 if full else 20_000, 1.5
    v0 = speed * np.array([np.cos(0.9), np.sin(0.9), 1.0, 0.6 / speed])
    run = solve(DISK, METHOD, [0.0, 0.1, 0.0, 0.9], v0, dt=0.02, num_steps=steps)
    ball = solve(ROLLING_BALL, METHOD, *lift_ball(np.array([0.2, 0.3, 0.9, -1.4])), dt=0.02, num_steps=steps)
    times = {"disk": returns(disk_surface(run), run.t, RADII), "ball": returns(ball_surface(ball), ball.t, RADII)}
    told = {name: ", ".join(f"r = {r:.2f}: {t:.1f} s" for r, t in zip(RADII, found, strict=True)) for name, found in times.items()}
    often = Band(0.0, float(run.t[-1]) / 10, "ten visits at least, in the time of the run")
    found, expected = shares(run)
    filled = kac_times(ball)
    visits, expected_visits = ball.t[-1] / times["ball"], ball.t[-1] / filled
    return [
        state(
            "the disk in a channel returns to every neighbourhood of its first state that was tried",
            f"{run.t[-1]:.0f} s, {len(run.impacts)} impacts; mean times between visits in (y, φ, ψ): {told['disk']}",
            often,
            *times["disk"],
        ),
        state(
            "it is not ergodic: an invariant volume does not mean that all of it is visited",
            f"{100 * found.min():.1f} % to {100 * found.max():.1f} % of the time in each of eight cells of equal volume",
            Band(0.05, 1.0, "the largest deviation from 12.5 %; 342 and more impacts would leave 3 % of an ergodic one, 1/√n"),
            float(np.max(np.abs(found - expected))),
        ),
        state(
            "the ball on its table returns as often as if it filled its energy surface, every V/(π r² |u|) (Kac)",
            f"{ball.t[-1]:.0f} s, {len(ball.impacts)} impacts; in (x, y, direction) {told['ball']}; by Kac's lemma "
            + ", ".join(f"{t:.1f} s" for t in filled),
            Band(-4.0, 4.0, "numbers of visits, in standard deviations of a Poisson count"),
            *((visits - expected_visits) / np.sqrt(expected_visits)),
        ),
    ], (run, times)


def kac_times(ball: Any) -> np.ndarray:
    """Mean times between visits for a motion that fills its energy surface: the volume of that, dx dy d(direction), over the flux
    π r² |u| into a ball of radius r that is passed at the speed u."""
    (x, _), (vx, vy) = ball.q[0, :2], ball.v[0, :2]
    speed, pull = np.hypot(vx, vy), SLOPE / (1 + BALL)
    edge = min(TABLE, 0.5 * (1 + BALL) * speed**2 / SLOPE - x)  # the ball turns back at x = −edge
    area = np.pi * TABLE**2 - (TABLE**2 * np.arccos(edge / TABLE) - edge * np.sqrt(TABLE**2 - edge**2))
    u = np.hypot(speed, pull * vy / speed**2)  # direction′ = −(pull/speed) sin(direction)
    return 2 * np.pi * area / (np.pi * RADII**2 * u)


LATER = 10  # impacts between the two pauses that are compared
EARLY = 1e-4  # a start that has just left the edge


def pauses(count: int, energy: float = 1.74) -> np.ndarray:
    """Balls that leave the edge at the angle β with the weight sin β dβ and their speed, the flux of the invariant volume: times to
    their next impact, and those after ten more."""
    random, found, pull = np.random.default_rng(8), [], SLOPE / (1 + BALL)
    most = np.sqrt(2 * (energy + SLOPE * TABLE) / (1 + BALL))
    while len(found) < count:
        place, cosine, chance = random.uniform(0, 2 * np.pi), random.uniform(-1, 1), random.uniform(0, most)
        x, kinetic = TABLE * np.cos(place), energy + SLOPE * TABLE * np.cos(place)
        if kinetic <= 0 or chance > (speed := np.sqrt(2 * kinetic / (1 + BALL))):
            continue
        away = place + np.arccos(cosine) + np.pi / 2  # β from the tangent, inwards
        v = speed * np.array([np.cos(away), np.sin(away)])
        q = np.array([x, TABLE * np.sin(place)]) + EARLY * v + np.array([0.5 * pull * EARLY**2, 0.0])
        z = np.concatenate([q, v + np.array([pull * EARLY, 0.0])])
        run = solve(ROLLING_BALL, METHOD, *lift_ball(z), dt=0.02, num_steps=10_000, max_impacts=LATER + 1)
        t = run.impacts.t
        if len(t) > LATER:
            found.append((t[0] + EARLY, t[LATER] - t[LATER - 1]))
    return np.array(found)


def zeno_rows(times: np.ndarray) -> list[Row]:
    """Impacts that accumulate would show as pauses that become shorter from impact to impact."""
    first, later = (times < 0.8).sum(axis=0)
    short = np.geomspace(0.2, 0.8, 7)
    share = np.array([np.mean(times[:, 1] < e) for e in short])
    slope = float(np.polyfit(np.log(short), np.log(np.maximum(share, 1e-9)), 1)[0])
    return [
        state(
            "impacts do not accumulate: after ten of them short pauses are as rare as before",
            f"below 0.8 s: {first} and {later} of {len(times)}, drawn by the flux of the invariant volume; the shortest "
            f"{times[:, 0].min():.2g} and {times[:, 1].min():.2g} s",
            Band(-4.0, 4.0, "the difference, in its standard deviations"),
            float((later - first) / np.sqrt(max(later + first, 1))),
        ),
        state(
            "and those shorter than ε as rare as ε²",
            f"ε^{slope:.2f} after ten impacts, {100 * share[-1]:.1f} % below {short[-1]:g} s to {100 * share[0]:.2f} % below "
            f"{short[0]:g} s",
            Band(1.5, 2.5, "an impact at the angle β has the weight sin β dβ, and the pause after it is ∼ sin β"),
            slope,
        ),
    ]


def ellipse_counts(lanes: int, torque_free: bool, spread: float = 1e-3) -> np.ndarray:
    """Impacts in 25 s of ellipses that start as in Fig. 2, with spins that differ by a thousandth."""
    model = ellipse(torque_free=torque_free)
    v0s = np.tile(model.v0, (lanes, 1))
    v0s[:, 2] += np.random.default_rng(2).uniform(-spread, spread, lanes)
    return np.array([len(model.solve(MIDPOINT, dt=0.01, num_steps=2500, v0=v0).impacts) for v0 in v0s])


def ellipse_rows(lanes: int) -> tuple[list[Row], dict[str, np.ndarray]]:
    counts = {"by the law": ellipse_counts(lanes, False), "without torque": ellipse_counts(lanes, True)}
    told = "; ".join(f"{name} {c.mean():.2f} ± {c.std():.2f}, 17 in {100 * np.mean(c == 17):.1f} %" for name, c in counts.items())
    law, free = counts["by the law"], counts["without torque"]
    return [
        state(
            "by the law, 17 impacts in 25 s are no accident of a chaotic motion: fewer than one in a hundred ellipses has so few",
            f"{lanes} ellipses: {told}",
            Band(0.0, 0.01, "at most one in a hundred"),
            float(np.mean(law <= 17)),
        ),
        state(
            "without torque nearly all have 17, the count that is printed",
            f"{lanes} ellipses: {told}",
            Band(0.9, 1.0, "nine of ten: the motion is regular, since θ′ never changes"),
            float(np.mean(free == 17)),
        ),
    ], counts


def rolling_volume(full: bool, draw: Path | None) -> list[Row]:
    """The chapter."""
    rows = volume_rows(full)
    more, picture = recurrence_rows(full)
    more += zeno_rows(pauses(2000 if full else 500))
    last, counts = ellipse_rows(400 if full else 40)
    if draw:
        _draw(draw, *picture, counts)
    return [*rows, *more, *last]


def _draw(draw: Path, run: Any, times: dict[str, np.ndarray], counts: dict[str, np.ndarray]) -> None:
    figure, ((left, middle, right),) = axes(1, 3, size=(4.4, 3.6))
    some = slice(None, None, max(1, len(run.t) // 8000))
    left.plot(np.mod(run.q[some, 3], 2 * np.pi), run.q[some, 1], ",")
    left.set(xlabel="heading φ", ylabel="y", title="a disk in a channel: where it has been")
    for name, found in times.items():
        middle.loglog(RADII, found, "o-", label=name)
    middle.set(xlabel="radius of the neighbourhood", ylabel="mean time between visits", title="recurrence")
    middle.xaxis.set_minor_formatter(NullFormatter())
    middle.set_xticks(RADII, [f"{r:g}" for r in RADII])
    middle.legend()
    most = max(int(c.max()) for c in counts.values())
    for name, c in counts.items():
        right.hist(c, np.arange(10, most + 2) - 0.5, density=True, alpha=0.6, label=name)
    right.axvline(17, color="black", lw=1, label="printed")
    right.set(xlabel="impacts in 25 s", ylabel="share", title="ellipses")
    right.legend(fontsize=7)
    figure.savefig(draw, dpi=110)
