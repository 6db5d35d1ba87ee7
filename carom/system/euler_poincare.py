"""The equations of motion on rotations and rigid motions, and from them the acceleration in a chart.

In a chart (`carom.system.charts`) the Lagrangian is that of the user, behind a retraction and its derivative, and what an
acceleration asks of it are second derivatives: thousands of operations for one rigid body, which every Newton iteration and every
derivative of a run differentiates again. On the space itself little is left. With body velocities v and body momenta p = ∂L/∂v,

    ṗ = ad*_v p + ∂L/∂q + f        Euler–Poincaré,        p = ∂L/∂v(q, v, t)                                     (1)
    M v̇ = ad*_v p + ∂L/∂q + f − ∂p/∂q q̇ − ∂p/∂t                                                                 (2)
    v = D(x) ẋ,        D ẍ = v̇ − Ḋ ẋ                                                                            (3)

ad* (`Space.transport`), D⁻¹ and Ḋ (`Space.chart_bending`) have closed forms, and in (2) the mass is most often constant.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from carom.xla.structure import depends_on


def chart_acceleration(mechanics: Any, x, rates, t) -> Float[Array, " dim"]:
    """ẍ, without contacts, joints and velocity constraints, of mechanics in a chart."""
    chart, space = mechanics.functions, mechanics.functions.base.space
    v = chart.body_velocity(x, rates)
    change = body_acceleration(mechanics.around, space, chart.place(x), v, t)
    return chart.chart_rates(x, change - space.chart_bending(x, rates))  # (3)


def body_acceleration(mechanics: Any, space: Any, q, v, t) -> Float[Array, " dim"]:
    """v̇ of (2), of mechanics on the space itself."""
    slope, p = jax.grad(mechanics.lagrangian, argnums=(0, 1))(q, v, t)
    push = space.transport(v, p) + space.pull(q, slope)
    if mechanics.functions.forced:
        push = push + mechanics.functions.force(q, v, t)
    by_q, _, by_t = depends_on(mechanics.momentum, q, v, t)
    if by_q or by_t:
        moving = (space.push(q, v), jnp.ones_like(t))
        push = push - jax.jvp(lambda q, t: mechanics.momentum(q, v, t), (q, t), moving)[1]
    return mechanics.inverse_mass_times(q, v, t, push)
