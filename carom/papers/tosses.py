"""Tosses of a real cube against rigid bodies with one friction and one restitution.

The data (`load_tosses`) are poses of a cube thrown on a table [pfrommer2020], at 148 pictures a second. A toss is simulated by
`carom.World` from its first pose, with the velocity and the spin of its free flight (`flight`); the cube is a box with the given
mass and inertia, the table a half space. `fit` finds the friction and restitution with the least error over some tosses; `measure`
says how far the simulation is from the measurement, picture by picture: in position, in widths of the cube, and in angle.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from carom.bodies import quaternions
from carom.bodies.shapes import Box, HalfSpace
from carom.bodies.world import World
from carom.errors import InputError

RATE = 148.0  #                          pictures per second
WIDTH, MASS, INERTIA = 0.1048, 0.37, 0.00081
GRAVITY = 9.81
CLEAR = 0.01  #                          metres: a picture with all corners this high is one of free flight
SUBSTEPS = 2  #                          steps of the simulation to a picture
FRICTIONS, RESTITUTIONS = (0.1, 0.15, 0.2, 0.3), (0.0, 0.15, 0.3, 0.45)
CONJUGATE = np.array([1.0, -1.0, -1.0, -1.0])
CORNERS = 0.5 * WIDTH * np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])


@dataclass(frozen=True)
class Toss:
    """Measured poses of the cube, one row per picture."""

    number: int
    turn: np.ndarray  #      [k, 4]  unit quaternions (w, x, y, z)
    position: np.ndarray  #  [k, 3]  metres, the table at zero

    @property
    def t(self) -> np.ndarray:
        return np.arange(len(self.turn)) / RATE


@dataclass(frozen=True)
class TossErrors:
    """How far a simulated toss is from the measured one, picture by picture."""

    number: int
    position: np.ndarray  #  [k]  in widths of the cube
    angle: np.ndarray  #     [k]  in degrees

    @property
    def score(self) -> float:
        """One number to fit by: a width of the cube counts as much as a radian."""
        return float(np.mean(self.position) + np.mean(np.radians(self.angle)))


def load_tosses(path: str | Path) -> list[Toss]:
    """The tosses of a file *.npz: `rows` [n, 13] (quaternion, position, …), and `start`, where in them each toss starts."""
    try:
        with np.load(path, allow_pickle=False) as file:
            rows, start = np.asarray(file["rows"], float), file["start"]
    except (OSError, KeyError, ValueError) as error:
        raise InputError(f"{str(path)!r} is no file of tosses (rows, start): {error}") from error
    if rows.ndim != 2 or rows.shape[1] < 7 or start.ndim != 1 or len(start) < 2 or start[-1] > len(rows):
        raise InputError(f"{str(path)!r}: rows must be [n, 13] and start [tosses + 1]; got {rows.shape} and {start.shape}")
    return [Toss(i, quaternions.normalise(rows[a:b, :4]), rows[a:b, 4:7]) for i, (a, b) in enumerate(pairwise(start))]


def flight(toss: Toss) -> tuple[np.ndarray, np.ndarray]:
    """Velocity and spin, in space, at the first picture: those of the free flight before the first contact, by least squares. A
    cube has the same inertia about all axes, so its spin does not change in flight."""
    lowest = np.min((CORNERS @ np.swapaxes(quaternions.matrix(toss.turn), 1, 2))[..., 2] + toss.position[:, 2:], axis=1)
    low = np.flatnonzero(lowest < CLEAR)
    count = max(int(low[0]) if len(low) else len(lowest), 3)
    t = toss.t[:count]
    fall = toss.position[:count] + 0.5 * GRAVITY * np.outer(t**2, (0.0, 0.0, 1.0))
    velocity = np.linalg.lstsq(np.stack([np.ones(count), t], axis=1), fall, rcond=None)[0][1]
    steps = quaternions.multiply(toss.turn[1:count], toss.turn[: count - 1] * CONJUGATE)
    spin = RATE * np.mean([_rotation_vector(step) for step in steps], axis=0)
    return velocity, spin


def _rotation_vector(turn: np.ndarray) -> np.ndarray:
    turn = turn if turn[0] >= 0 else -turn
    size = float(np.linalg.norm(turn[1:]))
    return 2 * np.arctan2(size, turn[0]) / size * turn[1:] if size > 0 else np.zeros(3)


def simulate(toss: Toss, friction: float, restitution: float, substeps: int = SUBSTEPS) -> tuple[np.ndarray, np.ndarray]:
    """Poses of the cube at the pictures of the toss: quaternions [k, 4] and positions [k, 3]."""
    velocity, spin = flight(toss)
    world = World(gravity=(0, 0, -GRAVITY))
    world.fix(HalfSpace(), name="table")
    cube = world.add(
        Box(WIDTH, WIDTH, WIDTH),
        mass=MASS,
        inertia=3 * (INERTIA,),
        position=toss.position[0],
        orientation=toss.turn[0],
        velocity=velocity,
        spin=spin,
        name="cube",
    )
    world.material(friction, restitution)
    if _depth(toss) > 0:
        world.separate()
    run = world.solve(1 / RATE / substeps, substeps * (len(toss.turn) - 1), save_every=substeps)
    track = run.body(cube)
    return track.orientation, track.position


def _depth(toss: Toss) -> float:
    """How deep the first picture has the cube in the table."""
    return -float(np.min((CORNERS @ quaternions.matrix(toss.turn[0]).T)[:, 2] + toss.position[0, 2]))


def errors(toss: Toss, turn: np.ndarray, position: np.ndarray) -> TossErrors:
    """Distances between simulated and measured poses. A run that ended early counts with its last pose."""
    missing = len(toss.turn) - len(turn)
    turn, position = (np.concatenate([a, np.repeat(a[-1:], missing, axis=0)]) if missing > 0 else a for a in (turn, position))
    far = np.linalg.norm(position - toss.position, axis=1) / WIDTH
    alike = np.clip(np.abs(np.sum(turn * toss.turn, axis=1)), 0.0, 1.0)
    return TossErrors(toss.number, far, np.degrees(2 * np.arccos(alike)))


def measure(tosses: Sequence[Toss], friction: float, restitution: float) -> Iterator[TossErrors]:
    for toss in tosses:
        yield errors(toss, *simulate(toss, friction, restitution))


def fit(tosses: Sequence[Toss]) -> Iterator[tuple[float, float, float]]:
    """(friction, restitution, mean score) for all pairs that are tried: first friction with a middling restitution, then
    restitution with the best friction, then friction again."""
    tried: dict[tuple[float, float], float] = {}
    mu, e = FRICTIONS[1], RESTITUTIONS[2]
    for line in ([(m, None) for m in FRICTIONS], [(None, r) for r in RESTITUTIONS], [(m, None) for m in FRICTIONS]):
        for m, r in line:
            pair = (mu if m is None else m, e if r is None else r)
            if pair not in tried:
                tried[pair] = float(np.mean([found.score for found in measure(tosses, *pair)]))
                yield *pair, tried[pair]
        mu, e = min(tried, key=lambda pair: tried[pair])
