"""L(q, v) = K(v) − V(q): what moves by kicks and drifts.

A kick changes the momentum by the force at a configuration, a drift the configuration by the momentum. Where neither force depends
on velocities nor mass on the configuration, the trapezoidal rule is made of these two, and nothing has to be solved.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from carom.numerics.linalg import dot, matvec
from carom.xla.structure import depends_on, lean


class Splitting(NamedTuple):
    force: Callable[[Array], Float[Array, " n"]]  #      −∂V/∂q
    drift: Callable[[Array, Array, Array], Any]  #      (q, p, h) ↦ (q₁, p₁, kinetic energy, converged): free motion over h
    potential: Callable[[Array], Float[Array, ""]]  #    V
    admissible: Callable[[Array], Bool[Array, ""]]
    inverse_mass: Float[Array, "n n"] | None = None  #   on a vector space: the drift is q + h M⁻¹(p − at_rest)
    at_rest: Any = 0.0


def is_split(lagrangian: Callable[..., Any], n: int) -> bool:
    """Of a Lagrangian on a vector space, with constant mass and without explicit time: does no force depend on velocities?"""
    zero, t = jnp.zeros(n), jnp.zeros(())
    slopes = jax.grad(lagrangian, argnums=(0, 1))
    by_v, by_q = depends_on(lambda v, q: slopes(q, v, t)[0], zero, zero), depends_on(lambda q, v: slopes(q, v, t)[1], zero, zero)
    return not (by_v[0] or by_q[0])


def split(lagrangian: Callable[..., Any], inverse_mass: Float[Array, "n n"]) -> Splitting:
    """The parts of one that is split."""
    n = inverse_mass.shape[0]
    zero, t = jnp.zeros(n), jnp.zeros(())
    at_rest = jax.grad(lagrangian, argnums=1)(zero, zero, t)  # of a term that is linear in v

    def drift(q, p, h):
        v = matvec(inverse_mass, p - at_rest)
        return q + h * v, p, 0.5 * dot(p - at_rest, v), jnp.asarray(True)

    return Splitting(
        force=lean(lambda q: jax.grad(lagrangian)(q, zero, t), zero),
        drift=drift,
        potential=lean(lambda q: -lagrangian(q, zero, t), zero),
        admissible=lambda q: jnp.asarray(True),
        inverse_mass=inverse_mass,
        at_rest=at_rest,
    )
