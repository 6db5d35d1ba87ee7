"""Point masses."""

import jax.numpy as jnp
import numpy as np

from carom.calls import public
from carom.contact.contact import Contact
from carom.drawing import line, wall
from carom.models.model import Model
from carom.spaces.space import Euclidean
from carom.system.system import System
from carom.wanted import NotNegative, Number, Positive, Share


def _falling(q, v, params):
    m, g = params["mass"], params["gravity"]
    return 0.5 * m * jnp.sum(v**2) - m * (g * q[1] + params["cubic"] * q[1] ** 3)


def _floor(q):
    return q[1]


_PARTICLE = System(_falling, [Contact(_floor, name="floor")], space=Euclidean(2, ("x", "y")))


@public
def particle(mass: Positive = 1.0, gravity: Number = 9.81, cubic: Number = 0.0, restitution: Share = 1.0) -> Model:
    """A particle above a floor; V = m(g y + cubic·y³)."""
    system = _PARTICLE
    if restitution != 1.0:
        system = System(_falling, [Contact(_floor, restitution, name="floor")], space=system.space)
    return Model(
        name="particle",
        about="a particle bouncing on a floor",
        system=system,
        q0=[0.0, 1.0],
        v0=[-2.0, 0.0],
        params={"mass": mass, "gravity": gravity, "cubic": cubic},
        dt=0.01,
        num_steps=90_300,
        source="fetecau2003, §4.2",
        shape=_point,
        exact={"energy_kick": energy_kick},
    )


def _point(q, params):
    return [np.array([[q[0], q[1]]]), wall((0.0, 0.0), (1.0, 0.0))]


def energy_kick(dt: float, fraction_before: float, fraction_after: float, mass: float = 1.0, gravity: float = 9.81) -> float:
    """How much the energy jumps at an impact with the trapezoidal rule and linear gravity: exact.

    `fraction_before` and `fraction_after` are the lengths of the legs before and after, in steps. For one impact at the fraction
    α of a step they are α and 1 − α, and the kick is m(dt g)²/8 · (1 − 2α).
    """
    return mass * (dt * gravity) ** 2 / 8 * (fraction_after**2 - fraction_before**2)


def _dropping(q, v, params):
    m, g = params["mass"], params["gravity"]
    return 0.5 * m * jnp.sum(v**2) - m * g * q[1]


def _restitution(params):
    return params["restitution"]


def _tilted(q, v, params):
    """Gravity along the diagonal of the plane, so that x and y run along the walls of a right-angled corner."""
    m, g = params["mass"], params["gravity"]
    return 0.5 * m * jnp.sum(v**2) - m * g * (q[0] + q[1]) / np.sqrt(2)


def _wedge_faces(q, params):
    """The distances to two walls through the origin, `angle` apart; x and y themselves for a right angle."""
    tilt = (params["angle"] - np.pi / 2) / 2
    c, s = jnp.cos(tilt), jnp.sin(tilt)
    return jnp.stack([c * q[0] + s * q[1], s * q[0] + c * q[1]])


_CORNER = System(_tilted, [Contact(_wedge_faces, _restitution, name="wall")], space=Euclidean(2, ("x", "y")))


@public
def corner(
    mass: Positive = 1.0,
    gravity: Number = 9.81,
    angle: Number = np.pi / 2,
    height: Number = 1.0,
    offset: Number = 0.0,
    restitution: Share = 1.0,
) -> Model:
    """A particle dropped from `height` into a wedge with opening `angle`; with `offset` 0 it falls into the corner itself.

    There both contacts close at the same instant, and the momentum jump lies in the normal cone. By symmetry it bounces
    straight back, whatever the angle and the law, and in a right-angled corner it does so every 2√(2·height/g) for ever. In
    other wedges that motion is unstable: after a rounding to the left or to the right one wall is hit before the other.
    """
    along, across = height / np.sqrt(2), offset / np.sqrt(2)
    return Model(
        name="corner",
        about="a particle falling into the corner of a wedge: two contacts at once",
        system=_CORNER,
        q0=[along + across, along - across],
        v0=[0.0, 0.0],
        params={"mass": mass, "gravity": gravity, "angle": angle, "restitution": restitution},
        dt=0.01,
        num_steps=2_000,
        source="fetecau2003, §5",
        shape=_wedge_outline,
        exact={"period": corner_period},
    )


def corner_period(height: float = 1.0, gravity: float = 9.81) -> float:
    """From impact to impact in the corner, elastic: exact."""
    return float(2 * np.sqrt(2 * height / gravity))


def _wedge_outline(q, params):
    tilt = (float(params["angle"]) - np.pi / 2) / 2
    c, s = np.cos(tilt), np.sin(tilt)
    return [np.array([[q[0], q[1]]]), line(1.5 * np.array([[c, -s], [0.0, 0.0], [-s, c]]), fixed=True)]


def _air(v, params):
    """Quadratic drag, −c|v|v."""
    return -params["drag"] * jnp.sqrt(jnp.sum(v**2) + 1e-300) * v


_DRAG = System(_dropping, [Contact(_floor, _restitution, name="floor")], force=_air, space=Euclidean(2, ("x", "y")))


@public
def drag(mass: Positive = 1.0, gravity: Number = 9.81, drag: NotNegative = 0.05, restitution: Share = 0.9) -> Model:
    """A ball in air (force −drag·|v|v) that loses energy at every bounce; the run ends before it comes to rest.

    The bounces of an inelastic ball accumulate at a finite time, near t = 7.3 here; asking for more steps ends with a message.
    """
    return Model(
        name="drag",
        about="a ball with air drag and restitution 0.9, until shortly before it rests",
        system=_DRAG,
        q0=[0.0, 1.0],
        v0=[2.0, 0.0],
        params={"mass": mass, "gravity": gravity, "drag": drag, "restitution": restitution},
        dt=0.005,
        num_steps=1_200,
        shape=_point,
    )
