"""Point masses."""

import jax.numpy as jnp
import numpy as np

from carom.contact.contact import Contact
from carom.models.model import Model
from carom.spaces import Euclidean
from carom.system import System


def _falling(q, v, params):
    m, g = params["mass"], params["gravity"]
    return 0.5 * m * jnp.sum(v**2) - m * (g * q[1] + params["cubic"] * q[1] ** 3)


def _floor(q):
    return q[1]


_PARTICLE = System(_falling, [Contact(_floor, name="floor")], space=Euclidean(2, ("x", "y")))


def particle(mass: float = 1.0, gravity: float = 9.81, cubic: float = 0.0, restitution: float = 1.0) -> Model:
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
        shape=lambda q, params: [np.array([[q[0], q[1]]])],
        exact={"energy_kick": energy_kick},
    )


def energy_kick(dt: float, fraction_before: float, fraction_after: float, mass: float = 1.0, gravity: float = 9.81) -> float:
    """How much the energy jumps at an impact with the trapezoidal rule and linear gravity: exact.

    `fraction_before` and `fraction_after` are the lengths of the legs before and after, in steps. For one impact at the fraction
    α of a step they are α and 1 − α, and the kick is m(dt g)²/8 · (1 − 2α).
    """
    return mass * (dt * gravity) ** 2 / 8 * (fraction_after**2 - fraction_before**2)
