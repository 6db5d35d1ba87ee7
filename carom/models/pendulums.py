"""Pendulums that swing against a vertical wall: angles from the downward vertical, the wall to the right."""

import jax.numpy as jnp
import numpy as np

from carom.calls import public
from carom.contact.contact import Contact
from carom.drawing import disk, wall
from carom.models.model import Model
from carom.spaces.space import Euclidean
from carom.system.system import System
from carom.wanted import Number, Positive, Share


def _restitution(params):
    return params["restitution"]


def _swinging(q, v, params):
    m, length, g = params["mass"], params["length"], params["gravity"]
    return 0.5 * m * (length * v[0]) ** 2 + m * g * length * jnp.cos(q[0])


def _bob_gap(q, params):
    return params["wall"] - params["length"] * jnp.sin(q[0])


_PENDULUM = System(_swinging, [Contact(_bob_gap, _restitution, name="wall")], space=Euclidean(1, ("theta",)))


@public
def pendulum(
    mass: Positive = 1.0,
    length: Positive = 1.0,
    gravity: Number = 9.81,
    wall: Number = 0.0,
    angle: Number = -1.0,
    restitution: Share = 1.0,
) -> Model:
    """A pendulum released at rest from `angle` against a wall at x = `wall`; by default it meets the wall at its lowest point."""
    return Model(
        name="pendulum",
        about="a pendulum swinging against a wall",
        system=_PENDULUM,
        q0=[angle],
        v0=[0.0],
        params={"mass": mass, "length": length, "gravity": gravity, "wall": wall, "restitution": restitution},
        dt=0.01,
        shape=_pendulum_outline,
        exact={"time_between_impacts": time_between_impacts},
    )


def time_between_impacts(angle: float, length: float = 1.0, gravity: float = 9.81) -> float:
    """Half a period of the free pendulum with amplitude `angle`, by the arithmetic–geometric mean: exact for a wall at x = 0.

    The first impact comes after half of it.
    """
    a, b = 1.0, float(np.cos(angle / 2))
    while abs(a - b) > 1e-15 * a:
        a, b = (a + b) / 2, float(np.sqrt(a * b))
    return float(np.pi * np.sqrt(length / gravity) / a)


def _pendulum_outline(q, params):
    length, position = float(params["length"]), float(params["wall"])
    x, y = length * np.sin(q[0]), -length * np.cos(q[0])
    return [np.array([[0.0, 0.0], [x, y]]), disk(x, y, 0.05 * length), wall((position, 0.0), (position, 1.0))]


def _double(q, v, params):
    m1, m2, l1, l2, g = (params[name] for name in ("mass1", "mass2", "length1", "length2", "gravity"))
    kinetic = 0.5 * (m1 + m2) * (l1 * v[0]) ** 2 + 0.5 * m2 * (l2 * v[1]) ** 2
    kinetic = kinetic + m2 * l1 * l2 * v[0] * v[1] * jnp.cos(q[0] - q[1])
    return kinetic + (m1 + m2) * g * l1 * jnp.cos(q[0]) + m2 * g * l2 * jnp.cos(q[1])


def _joint_gap(q, params):
    return params["wall"] - params["length1"] * jnp.sin(q[0])


def _tip_gap(q, params):
    return _joint_gap(q, params) - params["length2"] * jnp.sin(q[1])


_DOUBLE = System(
    _double,
    [Contact(_joint_gap, _restitution, name="joint"), Contact(_tip_gap, _restitution, name="tip")],
    space=Euclidean(2, ("theta1", "theta2")),
)


@public
def double_pendulum(
    mass1: Positive = 1.0,
    mass2: Positive = 1.0,
    length1: Positive = 1.0,
    length2: Positive = 1.0,
    gravity: Number = 9.81,
    wall: Number = 0.3,
    restitution: Share = 1.0,
) -> Model:
    """Two masses on two links, and a wall at x = `wall` that either of them may hit.

    The mass matrix depends on the configuration, so every rule is implicit here; `carom.Galerkin(2)` and
    `carom.Composition(carom.Midpoint(), 4)` are good choices beside the default.
    """
    return Model(
        name="double_pendulum",
        about="two links swinging against a wall: mass depends on configuration",
        system=_DOUBLE,
        q0=[-1.2, -0.6],
        v0=[0.0, 0.0],
        params={
            "mass1": mass1,
            "mass2": mass2,
            "length1": length1,
            "length2": length2,
            "gravity": gravity,
            "wall": wall,
            "restitution": restitution,
        },
        dt=0.005,
        num_steps=4_000,
        shape=_double_outline,
    )


def _double_outline(q, params):
    l1, l2, position = (float(params[name]) for name in ("length1", "length2", "wall"))
    joint = np.array([l1 * np.sin(q[0]), -l1 * np.cos(q[0])])
    tip = joint + np.array([l2 * np.sin(q[1]), -l2 * np.cos(q[1])])
    size = 0.04 * (l1 + l2)
    links = np.stack([np.zeros(2), joint, tip])
    return [links, disk(joint[0], joint[1], size), disk(tip[0], tip[1], size), wall((position, 0.0), (position, 1.0))]
