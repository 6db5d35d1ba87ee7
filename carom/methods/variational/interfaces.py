"""Interfaces: contacts that the motion goes through. Flow, locate, go on.

A spring that pushes but does not pull changes the potential where its gap φ changes sign. The force is continuous there and the
impulse is zero, λ = 0 of (4.14) in [demoures2017]. What is left of its contact time integrator 2 is to end a leg where φ = 0:

    flow      (q₁, p₁) = Φ_h(q, p); if no φᵢ changed its sign, this is the step                                  (1)
    locate    the first τ with φᵢ(Φ_τ(q, p)) = 0, in either direction                                          (2)
    go on     from there with the rest of the step                                                             (3)

The balances of energy (4.15), (4.17) are one equation more than there are unknowns; they hold to the order of the rule. To make
them hold exactly, `crossing="balance"` lets an impulse ±λ act on the two sides of the gap where a leg starts on it,

    E_start(Φ_s(q, p + λ ∇φ)) = E⁻,      F(λ) = F(0) + λ φ̇ + ½ λ² ∇φᵀM⁻¹∇φ + O(s),   the root beside 0:                    (4)

small of the order of the jump that it removes; the other root would reflect the motion. Where there is none, λ = 0 and the row of
the table says so. Every crossing is a row of the impact table with the impulse 0 or λ: into contact where the rate of the gap is
negative, out of it otherwise. A gap that goes in and out again within one step is not split there; the flow itself is the same on
both sides, and does not mind.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from carom.methods.method import Glide, ImpactTable, StepEnd, StepStart
from carom.methods.status import NOT_CONVERGED, NOT_FINITE, OK, TABLE_FULL, TOO_MANY_IMPACTS
from carom.methods.variational.flow import Flow, FlowMap
from carom.methods.variational.impulse import Pending
from carom.numerics.bracketing import is_narrow, open_bracket, propose, update
from carom.system.mechanics import Mechanics
from carom.xla.kernel import once, sealed
from carom.xla.trees import choose, write_row

MOST_CROSSINGS = 64  # in one step
MOST_TRIES = 20  # for λ
CROSSINGS = ("free", "balance")


class Sides(NamedTuple):
    """What a step hands on to the next."""

    inside: Bool[Array, " k"]  #  on which side of each interface
    noise: Float[Array, " k"]  #  a gap that is zero for long changes its sign by rounding


def sides(mechanics: Mechanics, q, p, t, dt) -> Sides:
    speed = mechanics.velocity(q, p, t)
    gaps, rates = mechanics.contacts.approach(q, speed, t)
    return Sides((gaps < 0) | ((gaps == 0) & (rates < 0)), mechanics.gap_rounding(q, speed, t, dt))


def glide(mechanics: Mechanics, flow: FlowMap):
    """(1), in a tight loop that ends where a gap changes sign."""

    def step(q, p, t, dt, seen, memory: Sides) -> Glide:
        out = flow(q, p, t, dt)
        gaps = mechanics.contacts.faces(out.q, t + dt)
        crossed = jnp.any(jnp.where(memory.inside, gaps, -gaps) > memory.noise)
        return Glide(out.q, out.p, seen, once(~crossed & out.converged & jnp.all(jnp.isfinite(out.p))))

    return lambda q, p, t: (), step


class _Now(NamedTuple):
    q: Float[Array, " n"]
    p: Float[Array, " n"]
    t: Float[Array, ""]
    inside: Bool[Array, " k"]
    crossed: Int[Array, ""]  #  the interface on which the leg starts, −1 for none
    pending: Pending  #         λ of (4) is still to be found
    table: ImpactTable
    num_impacts: Int[Array, ""]
    finished: Bool[Array, ""]
    status: Int[Array, ""]


def step(method: Any, mechanics: Mechanics, start: StepStart) -> StepEnd:
    """(1)–(3): leg after leg until the end of the step."""
    most = MOST_CROSSINGS if method.max_impacts_per_step is None else method.max_impacts_per_step
    balances = method.crossing == "balance"
    flow = sealed(method.flow(mechanics, without_energy=not balances))
    memory: Sides = start.memory
    k = mechanics.contacts.num_faces

    def go_on(now: _Now) -> _Now:
        found, length, (end, size, balanced), gaps, closing = _leg(mechanics, flow, now, start.t_end, memory.noise, balances)
        table = _settled(now, size, balanced) if balances else now.table
        t = jnp.where(found, now.t + length, start.t_end)
        no = jnp.asarray(False)
        row = ImpactTable(start.step, t, end.q, end.p, end.p, jnp.zeros(k), closing, jnp.zeros(()), no, no)
        num_impacts = now.num_impacts + found
        finite = jnp.all(jnp.isfinite(end.q)) & jnp.all(jnp.isfinite(end.p))
        failures = [~finite, ~end.converged, num_impacts - start.num_impacts >= most, num_impacts >= now.table.room]
        status = jnp.select(failures, [NOT_FINITE, NOT_CONVERGED, TOO_MANY_IMPACTS, TABLE_FULL], OK).astype(jnp.int32)
        flipped = now.inside ^ (jnp.arange(k) == closing)
        inside = jnp.where(found, flipped, jnp.where(jnp.abs(gaps) > memory.noise, gaps < 0, now.inside))
        table = write_row(table, now.num_impacts, row)
        pending = balanced_crossing(mechanics, end, t, closing) if balances else now.pending
        pending = pending._replace(active=pending.active & found)
        return _Now(end.q, end.p, t, inside, jnp.where(found, closing, -1), pending, table, num_impacts, ~found, status)

    nowhere, ok, none = jnp.asarray(-1), jnp.asarray(OK, jnp.int32), Pending.none(start.p, k)
    begin = _Now(start.q, start.p, start.t, memory.inside, nowhere, none, start.table, start.num_impacts, ~start.asked, ok)
    final = jax.lax.while_loop(lambda now: ~now.finished & (now.status == OK), go_on, begin)
    final = choose(begin.finished, begin._replace(table=final.table), final)
    return StepEnd(final.q, final.p, final.status, final.table, final.num_impacts, memory._replace(inside=final.inside))


def balanced_crossing(mechanics: Mechanics, end: Any, t, closing) -> Pending:
    """The impulse along ∇φ that waits for its size (4), at the end of a leg that crosses an interface."""
    k = mechanics.contacts.num_faces
    one = jnp.where(jnp.arange(k) == closing, 1.0, 0.0)
    _, back = jax.vjp(lambda x: mechanics.contacts.faces(x, t), end.q)
    normal = mechanics.admissible_part(end.q, None, t, mechanics.space.pull(end.q, back(one)[0]))
    yes = jnp.asarray(True)
    return Pending.none(end.p, k)._replace(
        direction=normal, multipliers=one, closing=closing.astype(jnp.int32), energy=end.energy_end, balance=yes, active=yes
    )


def _sized(mechanics: Mechanics, flow, now: _Now, s) -> tuple[Flow, Array, Array]:
    """(4) by the secant method from λ = 0: the leg of length s, λ, and whether it was found."""
    pending, eps = now.pending, float(jnp.finfo(now.q.dtype).eps)
    rate = jnp.sum(pending.direction * mechanics.velocity(now.q, now.p, now.t))

    def look(size):
        out = flow(now.q, now.p + size * pending.direction, now.t, s)
        return out, out.energy_start - pending.energy

    def improve(carry):
        size, value, slope, _, tries = carry
        change = -value / slope
        new = look(size + change)[1]
        steeper = (new - value) / jnp.where(change == 0, 1.0, change)
        good = jnp.isfinite(steeper) & (steeper * rate > 0) & (jnp.abs(change) > 0)
        small = jnp.abs(new) <= 4 * eps * jnp.abs(pending.energy)
        return size + change, new, jnp.where(good, steeper, slope), small | (change == 0), tries + 1

    _, first = look(jnp.zeros_like(s))
    start = jnp.zeros_like(s), first, rate, ~pending.active | (first == 0), jnp.zeros((), jnp.int32)
    size, value, slope, _, _ = jax.lax.while_loop(lambda c: ~c[3] & (c[4] < MOST_TRIES), improve, start)
    found = (jnp.abs(value) <= 1e3 * eps * jnp.abs(pending.energy)) & (slope * rate > 0) & pending.active
    size = jnp.where(found, size, 0.0)
    return look(size)[0], size, found


def _settled(now: _Now, size, balanced) -> ImpactTable:
    """The row of the crossing on which a leg starts, now that λ is known. Other legs write into a row that stays free."""
    pending = now.pending
    no, after = jnp.asarray(False), now.p + size * pending.direction
    index = jnp.where(pending.active, jnp.maximum(now.num_impacts - 1, 0), now.num_impacts)
    step = now.table.step[jnp.maximum(now.num_impacts - 1, 0)]
    row = ImpactTable(step, now.t, now.q, now.p, after, size * pending.multipliers, pending.closing, size, balanced, no)
    return write_row(now.table, index, row._replace(fallback=pending.active & ~balanced))


def _leg(mechanics: Mechanics, flow, now: _Now, t_end, noise, balances: bool):
    """(1), (2): whether an interface is crossed before the end of the step, after which length, and what is there."""
    s = jnp.maximum(t_end - now.t, 0.0)
    here = jnp.arange(mechanics.contacts.num_faces) == now.crossed

    def distances(gaps, length):
        """Positive on the side where each gap is; that of departure per unit of time, so that it is not found again at once."""
        return jnp.where(now.inside, -gaps, gaps) / jnp.where(here & (length > 0), length, 1.0)

    def look(sigma):
        zero = jnp.zeros_like(s)
        sized = _sized(mechanics, flow, now, sigma) if balances else (flow(now.q, now.p, now.t, sigma), zero, zero > 0)
        return sized, mechanics.contacts.faces(sized[0].q, now.t + sigma)

    _, gaps = look(s)
    gaps0, rates0 = mechanics.contacts.approach(now.q, mechanics.velocity(now.q, now.p, now.t), now.t)
    begin = jnp.min(jnp.where(here, jnp.where(now.inside, -rates0, rates0), jnp.maximum(distances(gaps0, 0.0), 0.0)))
    ahead = jnp.min(distances(gaps, s))
    found = once((begin >= 0) & jnp.any(jnp.where(now.inside, gaps, -gaps) > noise) & (ahead < 0))
    bracket = open_bracket(jnp.zeros_like(s), begin, None, s, ahead)

    def narrower(bracket):
        x = propose(bracket)
        return update(bracket, x, jnp.min(distances(look(x)[1], x)), None)

    bracket = jax.lax.while_loop(lambda b: found & ~is_narrow(b) & (b.high > 0), narrower, bracket)
    length = jnp.where(found, bracket.low, s)
    end, gaps = look(length)
    return found, length, end, gaps, jnp.argmin(distances(gaps, length))
