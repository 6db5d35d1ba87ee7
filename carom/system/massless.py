"""Velocities along directions without kinetic energy: what the implicit (Pontryagin) form of the equations says about them.

Where L has no kinetic energy, along the rows of Z with Z ∂²L/∂v² = 0, the momentum does not determine the velocity. With
v = v_p + Zᵀw, p = ∂L/∂v and ṗ = ∂L/∂q + f hold together only if

    g(q, v, t) = Z (∂L/∂q + f − ∂²L/∂v∂q v − ∂²L/∂v∂t) = 0.                                                    (1)

If g depends on w (L linear in v, as for vortices; a massless coordinate with a damper), (1) is the equation for w. If it does not
(a massless coordinate in a potential), (1) is a condition on the state, and

    dg/dt = 0 along the motion                                                                                (2)

is the equation for w: implicit Lagrangian systems, (9) of [rodriguez2024].
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from carom.numerics.newton import newton
from carom.xla.structure import depends_on


def imbalance(mechanics: Any, Z: Float[Array, "r n"], q, v, t) -> Float[Array, " r"]:
    """g of (1)."""
    _, change = jax.jvp(lambda q, t: mechanics.momentum(q, v, t), (q, t), (v, jnp.ones_like(t)))
    return Z @ (mechanics.node(q, v, t).push - change)


def settles_at_once(mechanics: Any, Z: Float[Array, "r n"]) -> bool:
    """Does (1) determine w?"""
    n, r = mechanics.dim, Z.shape[0]
    q, t = jnp.zeros(n), jnp.zeros(())
    return depends_on(lambda w, q, v, t: imbalance(mechanics, Z, q, v + Z.T @ w, t), jnp.zeros(r), q, q, t)[0]


def massless_velocity(mechanics: Any, Z: Float[Array, "r n"], q, p, v_p, t) -> Float[Array, " n"]:
    """Zᵀw, from (1) or (2)."""
    if settles_at_once(mechanics, Z):
        equation = lambda w: imbalance(mechanics, Z, q, v_p + Z.T @ w, t)  # noqa: E731
    else:

        def equation(w):
            v = v_p + Z.T @ w
            g = lambda q, p, t: imbalance(mechanics, Z, q, mechanics.legendre(q, p, t)[0], t)  # noqa: E731
            return jax.jvp(g, (q, p, t), (v, mechanics.node(q, v, t).push, jnp.ones_like(t)))[1]

    return Z.T @ newton(equation, jnp.zeros(Z.shape[0])).x
