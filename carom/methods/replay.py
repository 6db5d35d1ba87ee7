"""Exact derivatives of runs: run fast, then replay what happened in a form that autodiff can follow.

A loop with a data-dependent number of iterations has no reverse mode, and a derivative through the bisections of a root
finder is silently wrong. So the run itself is not differentiated. It leaves its states and a table of its impacts: which step,
when, which contact, which size. The replay goes through the same *slots* with that table as its script. A slot is

- a *leg* of a collision integrator, from one impact or point of the grid to the next. Its length s and the size κ of the impulse at
  its start are known numbers that solve two scalar equations,

    φ(Φ_s(q, p + κ d)) = 0    (or s = the rest of the step),                                                  (1)
    E_start(Φ_s(q, p + κ d)) + κ ρ − E⁻ = 0    (or κ = 1),                                                    (2)

  and one Newton step on (1)–(2) at the solution attaches their exact first derivatives (the implicit function theorem; second
  derivatives would need more);
- or a *step* of a timestepping method, in its differentiable form: contacts keep their states (open, sticking, sliding).

The replay has a loop for each of forward and reverse mode (`replay_loops`), so that these, `vmap` and `jit` all work. It runs only
when a derivative is asked for.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool, Float, Int

from carom.errors import InputError
from carom.methods.loop import Chunk, Grid, advance, controller_row
from carom.methods.method import ImpactTable, State, StepStart
from carom.methods.replay_loops import Replay
from carom.methods.replay_script import Now, Script, Seen, script_of
from carom.methods.status import OK, TABLE_FULL
from carom.methods.variational.flow import Flow
from carom.methods.variational.impulse import Leg, Pending, resolve
from carom.methods.variational.interfaces import balanced_crossing
from carom.numerics.newton import polish
from carom.system.mechanics import Mechanics
from carom.xla.linear_pair import unless_batched

BRIEF = 1000  # steps of a run that is to be differentiated: so few are done before another copy of their flow is compiled


class Values(NamedTuple):
    """What can be differentiated by a replay; the times of the grid need none."""

    q: Float[Array, "steps n"]
    p: Float[Array, "steps n"]
    impact_t: Float[Array, " rows"]
    impact_q: Float[Array, "rows n"]
    impact_p_before: Float[Array, "rows n"]
    impact_p_after: Float[Array, "rows n"]
    impact_impulse: Float[Array, "rows k"]
    control: Float[Array, "steps c"]


class Run(NamedTuple):
    """A pure run: the grid (with the initial state), the impacts padded to a fixed number of rows, and how it ended."""

    t: Float[Array, " steps+1"]
    q: Float[Array, "steps+1 n"]
    p: Float[Array, "steps+1 n"]
    impacts: ImpactTable
    num_impacts: Int[Array, ""]
    status: Int[Array, ""]  # 0 is good; after any other the rest of the grid is NaN
    commands: Float[Array, "steps m"] | None = None  # of a controller: what was held in each step
    control: Float[Array, " c"] | None = None  #        command and memory at the end
    end: Any = None  #                                  with stops: an `End` (`carom.methods.stopped`)


def run(
    method: Any,
    system: Any,
    params: Any,
    start: State,
    dt: Array,
    num_steps: int,
    max_impacts: int,
    taken: Any = None,
    chunk: Chunk | None = None,
) -> Run:
    """`num_steps` steps from `start`, differentiable with respect to `start`, `dt`, `params` and all numbers in the system.

    `dt` is the length of all steps, or has one entry for each. Only the first `taken` of them are taken, where that is given.
    `chunk`: what happens in them (`advanced`), where that is known already.
    """
    method = method.noting()
    arrays, functions = eqx.partition((method, system), eqx.is_array)
    args = (arrays, params, start, dt)
    if chunk is None:
        chunk = advanced(method, system, params, start, dt, num_steps, max_impacts, taken)
    limit = jnp.asarray(num_steps if taken is None else taken, jnp.int32)
    full = (chunk.steps < limit) | (chunk.num_impacts > max_impacts)
    status = jnp.where((chunk.status == OK) & full, TABLE_FULL, chunk.status).astype(jnp.int32)
    table = jax.tree.map(lambda column: column[:max_impacts], chunk.impacts)
    n = start.q.shape[0]

    @jax.custom_jvp
    def values(args, chunk, table):
        start = args[2]
        q, p, control = jnp.split(chunk.states[:num_steps], (n, n + start.p.shape[0]), axis=1)
        return Values(q, p, table.t, table.q, table.p_before, table.p_after, table.impulse, control)

    def derivative(primals, tangents):
        # What does not move is known, and nothing is differentiated with respect to it.
        args = jax.tree.map(lambda x: once_only(x) if eqx.is_inexact_array(x) else x, primals[0])
        moves = lambda x, change: eqx.is_inexact_array(x) and not isinstance(change, SymbolicZero)  # noqa: E731
        live = jax.tree.map(lambda x, change: x if moves(x, change) else None, args, tangents[0])
        whole = jax.tree.map(lambda x, change: None if moves(x, change) else x, args, tangents[0])
        leaves, tree = jax.tree.flatten(live)
        changes = [change for x, change in zip(*map(jax.tree.leaves, (args, tangents[0])), strict=True) if moves(x, change)]
        parts = primals[1].parts
        slots = max_impacts + (num_steps if parts is None else len(parts.end) - 1)
        replay, out = _replay(functions, tree, num_steps, max_impacts, slots), values(*primals)
        # Which steps of a hybrid pressed; not the record, which is not a number where it flew: a kernel takes that for failed.
        chunk, table = primals[1:]
        pressed = None if chunk.record is None else ~jnp.isnan(chunk.record.velocities[:, 0, 0])
        known = (whole, chunk._replace(record=None), table, pressed)
        return out, Values(*replay.tangent(leaves, known, changes, list(out)))

    values.defjvp(derivative, symbolic_zeros=True)
    out = values(args, chunk, table)
    done = jnp.arange(num_steps) < chunk.steps
    blank = lambda rows: jnp.where(done[:, None], rows, jnp.nan)  # noqa: E731
    table = table._replace(
        t=out.impact_t, q=out.impact_q, p_before=out.impact_p_before, p_after=out.impact_p_after, impulse=out.impact_impulse
    )
    controller = system.controller
    return Run(
        t=jnp.concatenate([start.t[None], start.t + (jnp.cumsum(dt) if dt.ndim else jnp.arange(1, num_steps + 1) * dt)]),
        q=jnp.concatenate([start.q[None], blank(out.q)]),
        p=jnp.concatenate([start.p[None], blank(out.p)]),
        impacts=table,
        num_impacts=jnp.minimum(chunk.num_impacts, max_impacts),
        status=status,
        commands=None if controller is None else blank(out.control[:, : controller.commands]),
        control=None if controller is None else out.control[-1],
    )


def advanced(method: Any, system: Any, params: Any, start: State, dt: Array, num_steps: int, max_impacts: int, taken: Any) -> Chunk:
    """The run itself, of which no derivatives are taken."""
    still = jax.lax.stop_gradient(eqx.filter((method.noting(), system, params, start, dt), eqx.is_array))
    method, system, params, start, dt = eqx.combine(still, (method.noting(), system, params, start, dt))
    zero, most = jnp.zeros((), jnp.int32), jnp.asarray(max_impacts + 1, jnp.int32)
    limit, rows = jnp.asarray(num_steps if taken is None else taken, jnp.int32), max_impacts + method.impacts_reserved
    grid = Grid(dt, zero, limit, most, num_steps, rows, times=_uneven(start.t, dt), brief=num_steps <= BRIEF)
    fixed, rest = eqx.partition((method, system, params, start, grid), eqx.is_array)
    forwards = lambda kernel: lambda fixed: advance(*eqx.combine(fixed, rest), kernel=kernel)  # noqa: E731
    return unless_batched(forwards(True), forwards(False))(fixed)


def _uneven(t: Array, dt: Array) -> Array | None:
    """The instants of steps that are not of one length, with one that nobody asks for."""
    return None if dt.ndim == 0 else t + jnp.concatenate([jnp.zeros(1), jnp.cumsum(dt), jnp.sum(dt)[None]])


@jax.custom_jvp
def once_only(x: Array) -> Array:
    """Itself; but its derivative, which would be a second one of the run, is refused: a replay has the first only."""
    return x


@once_only.defjvp
def _twice(*_: Any) -> Any:
    raise InputError(
        "second derivatives of a run are not computed, and what JAX would make of them would be wrong: difference the gradient, "
        "(grad(x + h) − grad(x − h)) / 2h, or use Gauss–Newton, which takes first derivatives only"
    )


def one_step(method: Any, system: Any, state: State, dt: Any, params: Any = None, max_impacts: int = 64) -> State:
    """One step of any method, as a pure function that can be jitted, vmapped and differentiated, through impacts too. A controller
    is asked at its start."""
    result = run(method, system, params, state, jnp.asarray(dt, state.q.dtype), 1, max_impacts)
    return State(result.t[-1], result.q[-1], result.p[-1], result.control)


# -- the replay ----------------------------------------------------------------------------------------------------------


def _replay(functions: Any, tree: Any, num_steps: int, max_impacts: int, slots: int) -> Replay:
    """All slots of the run, in order."""

    def script(leaves: list[Array], known: Any) -> Script:
        whole, chunk, table, pressed = known
        args = eqx.combine(jax.tree.unflatten(tree, leaves), whole)
        return script_of(functions, args, chunk, table, pressed, num_steps, max_impacts)

    def slot(script: Script, now: Now) -> tuple[Now, list[tuple[Array, Array]]]:
        after, seen = _slot(script, now)
        by_step, by_row = [(seen.step, x) for x in (seen.q, seen.p)], [(seen.row, x) for x in seen.impact]
        return after, [*by_step, *by_row, (seen.step, seen.control)]  # the order of `Values`

    return Replay(script, _begin, slot, lambda known: known[1].steps, slots)


def _begin(script: Script) -> Now:
    start, zero = script.start, jnp.zeros((), jnp.int32)
    q = start.q if script.flat else jnp.zeros_like(start.p)
    control = controller_row(script.mechanics.system, start)
    control = control if script.sample is None else script.sample(control, start.q, start.p, start.t, zero)
    return Now(start.q, q, start.p, start.t, zero, zero, zero, Pending.none(start.p, script.mechanics.contacts.num_faces), control)


def _slot(script: Script, now: Now) -> tuple[Now, Seen]:
    k = script.mechanics.contacts.num_faces
    if script.legs is None:
        return _step(script, now, k)
    if script.pressed is None:
        return _leg(script, now, k)
    branches = (lambda now: _step(script, now, k), lambda now: _leg(script, now, k))
    return jax.lax.cond(script.pressed[now.step], *branches, now)


def _at(index: int) -> Array:
    return jnp.asarray(index, jnp.int32)


def _leg(script: Script, now: Now, k: int) -> tuple[Now, Seen]:
    """A leg of a collision integrator."""
    method, table = script.legs, script.table
    mechanics = script.here(now)
    if k == 0:
        out = method.replayed_flow(mechanics)(now.q, now.p, now.t, script.end_of(now.part) - now.t)
        return _ended(script, mechanics, now, out.q, out.p, script.end_of(now.part), _no_impact(now, k), 0)
    ahead = jnp.minimum(now.row, script.max_impacts - 1)
    hits: Bool[Array, ""] = (now.row < script.max_impacts) & (script.used[ahead] == now.part)
    t_end, pending = script.end_of(now.part), now.pending
    behind = jnp.maximum(now.row - 1, 0)
    scale = jnp.where(pending.active, table.scale[behind], 0.0)
    balance = pending.active & table.balanced[behind]

    def equations(x):  # (1), (2)
        out = method.replayed_flow(mechanics)(now.q, now.p + x[1] * pending.direction, now.t, x[0])
        gaps = mechanics.contacts.gaps(out.q, now.t + x[0])
        gap = jnp.sum(jnp.where(jnp.arange(gaps.shape[0]) == table.closing[ahead], gaps, 0.0))
        first = jnp.where(hits, gap, x[0] - (t_end - now.t))
        second = jnp.where(balance, out.energy_start + x[1] * pending.wall_power - pending.energy, x[1] - scale)
        return jnp.stack([first, second]), (out.q, out.p, out.energy_end)

    length = jnp.where(hits, table.t[ahead], t_end) - now.t
    (s, kappa), (q, p, energy_end) = polish(equations, jnp.stack([length, scale]))
    t = now.t + s
    impact = Pending.none(now.p, k)
    through = mechanics.system.transmits and method.crossing == "free"  # a crossing without an impulse
    if mechanics.system.transmits and not through:
        law = balanced_crossing(mechanics, Flow(q, p, energy_end, energy_end, hits), t, table.closing[ahead])
        impact = jax.tree.map(lambda a, b: jnp.where(hits, a, b), law, impact)
    if not mechanics.system.transmits:
        there = Leg(q, p, energy_end, kappa, hits, hits)
        law, settled = resolve(method, mechanics, there, t, script.length_of(now.part), table.closing[ahead], differentiable=True)
        # More rounds than are replayed: no derivative, rather than a wrong one.
        law = law._replace(direction=jnp.where(settled, law.direction, jnp.nan))
        impact = jax.tree.map(lambda a, b: jnp.where(hits, a, b), law, impact)
    place, before = mechanics.place(now.q, now.p)
    _, after = mechanics.place(now.q, now.p + kappa * pending.direction)
    row = (now.t, place, before, after, kappa * pending.multipliers)
    written = jnp.where(pending.active, behind, script.max_impacts).astype(jnp.int32)
    if through:  # its row is the end of the leg
        there_q, there_p = mechanics.place(q, p)
        row, written = (t, there_q, there_p, there_p, jnp.zeros(k)), jnp.where(hits, now.row, script.max_impacts).astype(jnp.int32)
    onwards = now._replace(q=q, p=p, t=t, row=now.row + hits, pending=impact)
    at_end, q_end, p_end = _recentred(script, mechanics, onwards)
    after_leg = jax.tree.map(lambda a, b: jnp.where(hits, a, b), onwards, at_end)
    if method.replay_tolerance is not None:
        known = jnp.where(hits, table.q[ahead], script.states[now.step, : q_end.shape[0]])
        close = jnp.max(jnp.abs(jax.lax.stop_gradient(q_end) - known)) <= method.replay_tolerance * (1 + jnp.max(jnp.abs(known)))
        after_leg = after_leg._replace(q=jnp.where(close, after_leg.q, jnp.nan), p=jnp.where(close, after_leg.p, jnp.nan))
        q_end, p_end = jnp.where(close, q_end, jnp.nan), jnp.where(close, p_end, jnp.nan)
    step = jnp.where(hits, script.num_steps, script.row_of(now)).astype(jnp.int32)
    return after_leg, Seen(step, q_end, p_end, written, row, now.control)


def _step(script: Script, now: Now, k: int) -> tuple[Now, Seen]:
    """A step of a timestepping method."""
    mechanics = script.here(now)
    table = ImpactTable.empty(1, now.centre.shape[0], k, now.p.shape[0])
    t_end, zero = script.end_of(now.part), jnp.zeros((), jnp.int32)
    dt = script.length_of(now.part)
    if script.parts is not None:
        dt = t_end - now.t
        if k:
            now, t_end = _later(script, mechanics, now, t_end)
    memory = script.steps.memory(mechanics, now.q, now.p, now.t, dt)
    begin = StepStart(now.q, now.p, now.t, t_end, dt, now.step, table, zero, memory, jnp.asarray(True), True)
    end = script.steps.one_step(mechanics, begin)
    hit = end.num_impacts > 0
    impact = (end.table.t[0], end.table.q[0], end.table.p_before[0], end.table.p_after[0], end.table.impulse[0])
    row = jnp.where(hit, now.row, script.max_impacts).astype(jnp.int32)
    return _ended(script, mechanics, now, end.q, end.p, t_end, impact, hit, row)


def _later(script: Script, mechanics: Mechanics, now: Now, t_end) -> tuple[Now, Float[Array, ""]]:
    """A part with an impact, as it would come later if the gap closes later: in value the same, with the derivative of when.

    Such a part was made so short that it is the instant t̃ at which a gap closes. That instant varies, by δt̃ = −δφ/φ̇, and the state
    before the impact with it, along the motion. With t̃ held fixed the derivative after the impact would be another.
    """
    ahead = jnp.minimum(now.row, script.max_impacts - 1)
    q_dot, p_dot = jax.lax.stop_gradient(mechanics.motion(now.q, now.p, now.t))
    gaps, rates = jax.jvp(mechanics.contacts.faces, (now.q, now.t), (q_dot, jnp.ones_like(now.t)))
    face = jnp.arange(gaps.shape[0]) == jnp.argmax(script.table.impulse[ahead])
    gap, rate = jnp.sum(jnp.where(face, gaps, 0.0)), jax.lax.stop_gradient(jnp.sum(jnp.where(face, rates, 0.0)))
    meets = (now.row < script.max_impacts) & (script.used[ahead] == now.part) & (rate < 0)
    late = jnp.where(meets, -(gap - jax.lax.stop_gradient(gap)) / jnp.where(meets, rate, 1.0), 0.0)
    return now._replace(q=now.q + q_dot * late, p=now.p + p_dot * late, t=now.t + late), t_end + late


def _no_impact(now: Now, k: int):
    zero = jnp.zeros_like
    return zero(now.t), zero(now.centre), zero(now.p), zero(now.p), jnp.zeros(k)


def _ended(script: Script, mechanics: Mechanics, now: Now, q, p, t_end, impact, hit, row=None) -> tuple[Now, Seen]:
    """A slot that ends a step."""
    after, q_end, p_end = _recentred(script, mechanics, now._replace(q=q, p=p, t=t_end, row=now.row + hit))
    row = _at(script.max_impacts) if row is None else row
    return after, Seen(script.row_of(now), q_end, p_end, row, impact, now.control)


def _recentred(script: Script, mechanics: Mechanics, now: Now) -> tuple[Now, Array, Array]:
    """The end of a step as the start of the next, in a chart of its own; and as a state of the system."""
    q, p = mechanics.place(now.q, now.p)
    step = script.step_of(now.part + 1)
    if script.sample is not None:
        asked = script.sample(now.control, q, p, now.t, step)
        now = now._replace(control=jnp.where(step > now.step, asked, now.control))
    now = now._replace(part=now.part + 1, step=step)
    if script.flat:
        return now, q, p
    return now._replace(centre=q, q=jnp.zeros_like(now.q), p=p), q, p
