"""One step of a collision integrator: leg after leg, from impact to impact, until the end of the step.

flow      (q₁, p₁) = Φ_s(q, p); if no gap closed on the way, this is the leg                                (1)
locate    the first τ with φᵢ(Φ_τ(q, p)) = 0 for some i                                                    (2)
resolve   the impulse that the law asks for there                                                         (3)
go on     with the rest of the step, as often as needed                                                   (4)
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from carom.methods.method import Glide, ImpactTable
from carom.methods.status import CONTACTS_FULL, NOT_CONVERGED, NOT_FINITE, OK, TABLE_FULL, TOO_MANY_IMPACTS, UNSETTLED
from carom.methods.variational.flow import FlowMap
from carom.methods.variational.impulse import Leg, Pending, launch, resolve
from carom.methods.variational.locate import End, closest_contact, locate, turns, unresolved
from carom.system.mechanics import Mechanics
from carom.xla.kernel import once, sealed
from carom.xla.trees import choose, write_row

MOST_LOSSES = 64  #      impacts with loss in one step: the motion comes to rest
MOST_IDLE = 64  #        impacts in a row without time between them: it rests already
MOST_ELASTIC = 100_000  # elastic impacts in one step end by themselves; a guard for memory and patience
NO_TIME = 1e-12  #       of a step
CLOSED = 1 / 8  #        of what rounding may do to a gap: a gap this small is closed, and looking closer sees noise


def glide_step(flow: FlowMap, approach, q, p, t, dt, seen) -> Glide:
    """One step of the flow with the gaps and rates at its end; clear where nothing closed or failed on the way."""
    out = flow(q, p, t, dt)
    new_gaps, new_rates = approach(out.q, out.p, t + dt)
    ends = (*seen, new_gaps, new_rates, dt)
    fine = out.converged & jnp.all(jnp.isfinite(out.p))
    open_ = jnp.all((new_gaps > 0) & ~turns(*ends) & ~unresolved(*ends)) if new_gaps.shape[0] else jnp.asarray(True)
    clear = once(open_ & fine)
    return Glide(out.q, out.p, (new_gaps, new_rates), clear)


class Moment(NamedTuple):
    """Where a step with impacts has come to."""

    q: Float[Array, " n"]
    p: Float[Array, " n"]
    t: Float[Array, ""]
    pending: Pending
    table: ImpactTable | None  #       None where impacts are only counted
    num_impacts: Int[Array, ""]
    losses: Int[Array, ""]  #          impacts of this step that were not elastic
    idle: Int[Array, ""]  #            impacts in a row without time between them
    finished: Bool[Array, ""]
    status: Int[Array, ""]

    @staticmethod
    def begin(q, p, t, num_faces: int, table: Any = None, num_impacts: Any = 0, finished: Any = False) -> "Moment":
        zero = jnp.zeros((), jnp.int32)
        return Moment(q, p, t, Pending.none(p, num_faces), table, num_impacts, zero, zero, finished, jnp.asarray(OK, jnp.int32))


def collision_step(
    method, mechanics: Mechanics, flow: FlowMap, start: Moment, t_end, step, impacts_are_rare: bool = False
) -> Moment:
    """(1)–(4). Where impacts are rare among such steps, the law is a branch; otherwise it is computed in any case, and chosen."""
    first, dt, k = start.num_impacts, t_end - start.t, mechanics.contacts.num_faces
    # Calls of their own: they are compiled once and not merged with what surrounds them.
    see = sealed(mechanics.approach)
    origin = sealed(lambda now, s: origin_of(mechanics, now, s))
    always = sealed(lambda leg, t, s, closing: resolve(method, mechanics, leg, t, s, closing))
    none = Pending.none(start.p, k)

    def law(found, *at):
        if impacts_are_rare:
            return jax.lax.cond(found, always, lambda *_: (none, jnp.asarray(True)), *at)
        impact, settled = always(*at)
        return choose(found, impact, none), settled

    def unfinished(now: Moment):
        return ~now.finished & (now.status == OK)

    def go_on(now: Moment):
        # (1), (2): fly, up to the first contact if there is one.
        pending, s = now.pending, jnp.maximum(t_end - now.t, 0.0)
        here, touching, allowance, tolerance = origin(now._replace(table=None), dt)
        look = lambda sigma, balance: look_ahead(see, flow, now, allowance, sigma, balance)  # noqa: E731
        end, found, balance = locate(look, here, touching, tolerance, pending.balance, s)
        # A step may start in contact, moving inwards by more than rounding.
        inwards = touching & (here.gaps + here.rates * s < allowance) & ~pending.active
        strikes = jnp.any(inwards)
        closing = jnp.where(strikes, jnp.argmin(jnp.where(inwards, here.rates, 0.0)), closest_contact(end, touching))
        found, end = once((found | strikes, choose(strikes, here, end)))
        leg, t_next = end.leg, jnp.where(found, now.t + end.length, t_end)

        # The impact at the start of this leg is known now: write it down and count it.
        table = None if now.table is None else _written(mechanics, now, balance, leg, step)
        num_impacts = now.num_impacts + pending.active
        losses = now.losses + (pending.active & ~pending.elastic)
        idle = jnp.where(pending.active & (end.length <= NO_TIME * dt), now.idle + 1, 0)

        # (3): the impact at its end.
        impact, settled = law(found, leg, t_next, dt, closing)
        finite = jnp.all(jnp.isfinite(leg.q)) & jnp.all(jnp.isfinite(leg.p))
        crowded = _is_crowded(method, num_impacts - first, losses, idle)
        full = jnp.asarray(False) if table is None else found & (num_impacts >= table.room)
        failures = [~finite, ~leg.converged, crowded, found & impact.full, found & ~settled, full]
        codes = [NOT_FINITE, NOT_CONVERGED, TOO_MANY_IMPACTS, CONTACTS_FULL, UNSETTLED, TABLE_FULL]
        status = jnp.select(failures, codes, OK).astype(jnp.int32)
        return Moment(leg.q, leg.p, t_next, impact, table, num_impacts, losses, idle, ~found, status)

    return jax.lax.while_loop(unfinished, go_on, start)


def _is_crowded(method, impacts, losses, idle) -> Bool[Array, ""]:
    """Do impacts accumulate? Elastic ones end by themselves; with loss, or without time between them, they do not."""
    if method.max_impacts_per_step is not None:
        return impacts >= method.max_impacts_per_step
    return (losses >= MOST_LOSSES) | (idle >= MOST_IDLE) | (impacts >= MOST_ELASTIC)


def origin_of(mechanics: Mechanics, now: Moment, dt) -> tuple[End, Bool[Array, " k"], Float[Array, " k"], Float[Array, ""]]:
    """The start of a leg as the contacts see it, which of them touch there, how far below zero rounding may take these, and how
    large a gap may be that counts as closed: none where one touches, since gaps are then looked at per unit of time."""
    scale = jnp.where(now.pending.active, 1.0, 0.0)
    p = now.p + scale * now.pending.direction
    v = mechanics.velocity(now.q, p, now.t)
    gaps, rates = mechanics.contacts.approach(now.q, v, now.t)
    gap_rounding = mechanics.gap_rounding(now.q, v, now.t, dt)
    touching = gaps <= gap_rounding
    energy = jnp.where(now.pending.active, now.pending.energy, mechanics.energy(now.q, v, now.t))
    here = Leg(now.q, p, energy, scale, ~now.pending.balance, jnp.asarray(True))
    allowance = jnp.where(touching, jnp.minimum(gaps, 0.0) - gap_rounding, 0.0)
    tolerance = jnp.where(jnp.any(touching), 0.0, CLOSED * jnp.min(gap_rounding))
    return End(jnp.zeros_like(dt), here, gaps, rates), touching, allowance, tolerance


def look_ahead(see, flow: FlowMap, now: Moment, allowance, s, balance) -> End:
    """(1): the leg of length s, and the contacts at its end."""
    leg = launch(flow, now.q, now.p, now.t, now.pending, balance, s)
    gaps, rates = see(leg.q, leg.p, now.t + s)
    return End(s, leg, gaps - allowance, rates)


def _written(mechanics: Mechanics, now: Moment, balance, leg: Leg, step) -> ImpactTable:
    """The impact at the start of a leg, now that its size is known. Free legs write into a row that stays free."""
    pending = now.pending
    q, before = mechanics.place(now.q, now.p)
    _, after = mechanics.place(now.q, now.p + leg.scale * pending.direction)
    row = ImpactTable(
        step=step,
        t=now.t,
        q=q,
        p_before=before,
        p_after=after,
        impulse=leg.scale * pending.multipliers,
        closing=pending.closing,
        scale=leg.scale,
        balanced=balance,
        fallback=pending.fallback | (pending.balance & ~balance),
    )
    assert now.table is not None
    return write_row(now.table, now.num_impacts, row)
