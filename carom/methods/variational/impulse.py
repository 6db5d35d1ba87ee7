"""The impulse of an impact: its direction from the law, its size from the balance of the discrete energy.

A leg starts at (q, p) at time t, possibly in contact: then an impulse κ d is still *pending*. Its direction d comes from the
law of impact, its size κ (1 for the law itself) from the balance of the discrete energy over the leg's length s,

    F(κ) = E_start(Φ_s(q, p + κ d)) + κ ρ − E⁻ = 0,        ρ = Σ λᵢ ∂φᵢ/∂t,                                   (1)

which is (48a), (56) of [fetecau2003] with moving walls. E⁻ is E_end of the leg before. Up to O(s), F is the parabola

    F(κ) ≈ ½ D (κ² − κ) + H⁻ − E⁻,                         D = dᵀM⁻¹d:                                        (2)

the smaller root passes through the obstacle, the larger one, κ ≈ 1, reflects.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from carom.numerics.held_fixed import held_fixed
from carom.numerics.linalg import dot
from carom.system.mechanics import Mechanics
from carom.xla.kernel import once

SCALE_ITERATIONS = 40


class Pending(NamedTuple):
    """An impulse that waits for its size. `active` is false for a leg that starts in free flight."""

    direction: Float[Array, " n"]  #    d = Nᵀλ (+ friction)
    multipliers: Float[Array, " k"]  #  λ
    closing: Int[Array, ""]  #          the contact that ended the leg before
    curvature: Float[Array, ""]  #      D of (2)
    wall_power: Float[Array, ""]  #     ρ
    energy: Float[Array, ""]  #         E⁻
    balance: Bool[Array, ""]  #         size from (1); otherwise 1
    active: Bool[Array, ""]
    elastic: Bool[Array, ""]  #         the law keeps the energy
    fallback: Bool[Array, ""]  #        (1) had no root for an elastic impact, or the contact was grazed without approach
    full: Bool[Array, ""]  #            more contacts touch than there was room for

    @staticmethod
    def none(q: Array, num_faces: int) -> "Pending":
        zero, no = jnp.zeros((), q.dtype), jnp.asarray(False)
        return Pending(
            jnp.zeros_like(q), jnp.zeros(num_faces, q.dtype), jnp.zeros((), jnp.int32), zero, zero, zero, no, no, no, no, no
        )


class Leg(NamedTuple):
    """Where a leg of some length ends."""

    q: Float[Array, " n"]
    p: Float[Array, " n"]
    energy_end: Float[Array, ""]
    scale: Float[Array, ""]  #          κ, 0 without a pending impulse
    balanced: Bool[Array, ""]  #        (1) was solved, if it had to be
    converged: Bool[Array, ""]


# -- resolve: the size of the impulse ------------------------------------------------------------------------------------


class _Sizing(NamedTuple):
    """The search for κ."""

    scale: Array  #   the next κ to try
    leg: Leg  #       of the κ tried last
    value: Array  #   F there
    before: Array  #  that κ
    update: Array  #  the last change of κ
    wanted: Array  #  the balance is still to be solved
    tries: Array


def launch(flow: Callable[..., Any], q, p, t, pending: Pending, balance, s) -> Leg:
    """Start a leg of length s: find the size of the pending impulse, apply it, flow.

    The larger root of (1) by the secant method, with the slope of (2) to begin with; it descends monotonically once it is right
    of the root. Where F does not come down to zero it runs past the minimum at κ ≈ ½: there is no root, and κ = 1 is taken.
    """
    eps = float(jnp.finfo(q.dtype).eps)

    def unfinished(now: _Sizing):
        return (now.tries == 0) | now.wanted

    def improve(now: _Sizing):
        # F at the proposed size, and the leg that it belongs to.
        out = flow(q, p + now.scale * pending.direction, t, s)
        value = out.energy_start + now.scale * pending.wall_power - pending.energy

        # The next size: along the secant, or the parabola (2) where there is none yet.
        secant = (value - now.value) / (now.scale - now.before)
        parabola = pending.curvature * (now.scale - 0.5)
        slope = jnp.where((now.tries > 0) & (secant > 0), secant, parabola)
        step = value / slope

        # At the noise of the energy the updates stop shrinking; at a double root (grazing) they shrink slowly.
        small = (jnp.abs(step) <= 4 * eps) | ((jnp.abs(step) <= 1e-6) & (jnp.abs(step) >= 0.5 * jnp.abs(now.update)))
        lost = ~(now.scale - step > 0.5) | (now.tries >= SCALE_ITERATIONS)
        step, small, lost = once((step, small, lost))
        balanced = ~now.wanted & now.leg.balanced | small
        leg = Leg(out.q, out.p, out.energy_end, now.scale, balanced, out.converged)
        scale = jnp.where(lost, 1.0, now.scale - step)
        again = _Sizing(scale, leg, value, now.scale, step, now.wanted & ~small & ~lost, now.tries + 1)

        # Without a root the leg is flown once more, at κ = 1. It is no longer wanted that (1) holds, and `tries` is set back to
        # zero, with which the loop goes round exactly once.
        lost = now.wanted & ~small & lost
        return again._replace(tries=jnp.where(lost, 0, again.tries), leg=leg._replace(balanced=leg.balanced & ~lost))

    one, no = jnp.ones((), q.dtype), jnp.asarray(False)
    leg = Leg(q, p, one, one, ~balance, no)
    start = _Sizing(jnp.where(pending.active, one, 0.0), leg, one, one, jnp.asarray(jnp.inf), balance, jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(unfinished, improve, start).leg


def resolve(method, mechanics: Mechanics, leg: Leg, t, dt, closing, *, differentiable: bool = False) -> tuple[Pending, Array]:
    """The impulse that the law asks for at the end of a leg, up to its size."""
    q, p, contacts = leg.q, leg.p, mechanics.contacts
    v = mechanics.velocity(q, p, t)
    gap_rounding = mechanics.gap_rounding(q, v, t, dt)
    touching = (contacts.gaps(q, t) <= gap_rounding) | (jnp.arange(contacts.num_contacts) == closing)
    impulse, direction = mechanics.impulse(q, v, t, touching, gap_rounding, method.simultaneous, differentiable)
    # κ must exist for every length down to 0, where the balance is exactly the parabola (2).
    curvature = dot(direction, mechanics.inverse_mass_times(q, v, t, direction))
    exists = leg.energy_end - held_fixed(mechanics.energy)(q, v, t) > -curvature / 8
    pending = Pending(
        direction=direction,
        multipliers=impulse.normal,
        closing=closing.astype(jnp.int32),
        curvature=curvature,
        wall_power=dot(impulse.normal, contacts.wall_speed(q, t)),
        energy=leg.energy_end,
        balance=impulse.elastic & impulse.any & exists & method.balances,
        active=jnp.asarray(True),
        elastic=impulse.elastic,
        fallback=impulse.elastic & ~(impulse.any & exists) & method.balances,
        full=jnp.asarray(impulse.full),
    )
    return pending, impulse.settled
