"""Balls on a line: rows that touch, and a ball between two walls of which one moves."""

import jax.numpy as jnp
import numpy as np

from carom.calls import public
from carom.contact.contact import Contact
from carom.drawing import disk, wall
from carom.models.model import Model
from carom.spaces.space import Euclidean
from carom.system.system import System
from carom.wanted import AtLeastTwo, NotNegative, Number, Positive, Share


def _free(v, params):
    return 0.5 * params["mass"] * jnp.sum(v**2)


def _restitution(params):
    return params["restitution"]


def _neighbours(q, params):
    """One gap per pair of neighbours."""
    return q[1:] - q[:-1] - 2 * params["radius"]


_PAIRS = Contact(_neighbours, _restitution, name="pair")


@public
def cradle(
    n: AtLeastTwo = 3,
    mass: Positive = 1.0,
    radius: Positive = 0.5,
    speed: Number = 1.0,
    spacing: NotNegative = 0.0,
    restitution: Share = 1.0,
) -> Model:
    """A row of n touching balls at rest, hit from the left by the first of them: several contacts act in one instant.

    Mechanics alone does not say what happens; the law for simultaneous contacts does. Elastic, three balls, speed 1:

        reflections   (1, 0, 0) → (0, 0, 1)           the last ball leaves
        impulse       (1, 0, 0) → (−1/3, 2/3, 2/3)    one impulse on all contacts

    Both keep momentum and energy. With `spacing` > 0 the balls do not touch, impacts follow one another, and the outcome is
    (0, 0, 1) for both laws.
    """
    approach = 2 * radius + np.concatenate([[radius], np.full(n - 2, spacing)])  # from ball to ball; the first keeps a distance
    return Model(
        name="cradle",
        about=f"{n} balls in a row, the first hits the others: simultaneous contacts",
        system=System(_free, [_PAIRS], space=Euclidean(n, tuple(f"x{i + 1}" for i in range(n)))),
        q0=[0.0, *np.cumsum(approach).tolist()],
        v0=[speed] + [0.0] * (n - 1),
        params={"mass": mass, "radius": radius, "restitution": restitution},
        dt=0.01,
        num_steps=200,
        source="smith2012",
        shape=_row_outline,
        exact={"outcome": cradle_outcome},
    )


def cradle_outcome(n: int, simultaneous: str, speed: float = 1.0) -> np.ndarray:
    """The velocities after the hit on n touching equal balls, elastic: exact.

    "impulse" reflects the velocity about its projection on "no contact approaches", in which all n balls move with the mean:
    v ← 2·mean − v.
    """
    before = np.zeros(n)
    before[0] = speed
    return before[::-1].copy() if simultaneous == "reflections" else 2 * before.mean() - before


def _row_outline(q, params):
    return [disk(x, 0.0, params["radius"]) for x in q]


def _fixed_wall(q):
    return q[0]


def piston_position(t, params):
    """Where the moving wall is: length + speed·t + amplitude·sin(frequency·t)."""
    return params["length"] + params["speed"] * t + params["amplitude"] * jnp.sin(params["frequency"] * t)


def _moving_wall(q, t, params):
    return piston_position(t, params) - q[0]


_PISTON = System(
    _free,
    [Contact(_fixed_wall, _restitution, name="wall"), Contact(_moving_wall, _restitution, name="piston")],
    space=Euclidean(1, ("x",)),
)


@public
def piston(
    mass: Positive = 1.0,
    length: Positive = 1.0,
    speed: Number = 0.0,
    amplitude: NotNegative = 0.05,
    frequency: NotNegative = 3.0,
    restitution: Share = 1.0,
) -> Model:
    """The Fermi–Ulam accelerator: a ball between a fixed wall at 0 and a wall at length + speed·t + amplitude·sin(frequency·t).

    The moving wall does work, so the energy changes at its impacts: v⁺ = 2u − v⁻ for the wall's velocity u.
    """
    return Model(
        name="piston",
        about="a ball between a fixed and an oscillating wall (Fermi and Ulam)",
        system=_PISTON,
        q0=[0.5 * length],
        v0=[1.0],
        params={
            "mass": mass,
            "length": length,
            "speed": speed,
            "amplitude": amplitude,
            "frequency": frequency,
            "restitution": restitution,
        },
        dt=0.01,
        num_steps=20_000,
        source="ulam1961",
        shape=_piston_outline,
        exact={"speed_after": compressed_speed},
    )


def compressed_speed(hits: int, ball: float, wall: float) -> float:
    """The speed of a ball after so many elastic hits on a wall that comes towards it with constant speed `wall`: exact."""
    return ball + 2 * hits * wall


def _piston_outline(q, t, params):
    walls = [wall((x, -1.0), (x, 1.0)) for x in (0.0, float(piston_position(t, params)))]
    return [disk(q[0], 0.0, 0.02 * float(params["length"])), *walls]
