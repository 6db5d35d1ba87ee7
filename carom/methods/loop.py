"""The loop that all methods share: steps until they are done, a step fails, or the impact table is full.

    glide     cheap steps in a tight loop, as long as nothing happens; it ends where a gap may have closed             (1)
    one step  the step in which something happens, with care                                                           (2)

and again. The tight loop holds no branch: what it costs is the method's own step. On rotations each step is taken in a chart
around the configuration where it starts (`carom.system.charts`). A step that needs more rows than the table has left is not
taken: the caller goes on with an empty table, or a longer one. So it is with contacts: those that take part in a step are gathered
in a table (`carom.system.near`), and a step that needs more of them than that has room for is not taken.
"""

import sys
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from carom.methods.method import ImpactTable, Method, State, StepEnd, StepRecord, StepStart
from carom.methods.status import CONTACTS_FULL, NOT_FINITE, OK, TABLE_FULL
from carom.system.mechanics import Mechanics
from carom.system.system import System
from carom.xla.kernel import single_kernel
from carom.xla.trees import choose, write_row


class Grid(NamedTuple):
    """The steps that are asked for, and the room there is. The state at step 0 is at the time t of the start."""

    dt: Float[Array, ""]
    first: Int[Array, ""]  #        the number of the first step
    limit: Int[Array, ""]  #        how many steps
    max_impacts: Int[Array, ""]  #  how many impacts: the step that reaches them is the last
    length: int  #                  room for so many steps
    rows: int  #                    room for so many impacts
    contact_rows: int = sys.maxsize  # room for so many rows of contacts that take part in a step

    def time(self, start: State, step) -> Float[Array, ""]:
        """When the step with this number, counted from `first`, begins. Never add up times: a run would depend on how it is cut."""
        return start.t + (self.first + step) * self.dt


class Chunk(NamedTuple):
    """Many steps."""

    state: State
    steps: Int[Array, ""]  #            how many were taken
    status: Int[Array, ""]
    states: Float[Array, "rows 2n"]  #  q and p after each step; rows beyond `steps` are scratch
    impacts: ImpactTable
    num_impacts: Int[Array, ""]
    record: StepRecord | None  #        of timestepping methods: contact forces, and what dense output needs


class _Advanced(NamedTuple):
    """What leaves a kernel. The final state is the last row of the history: a state that the loop does not change would be an
    argument handed through, and that is what a kernel must not do."""

    steps: Int[Array, ""]
    status: Int[Array, ""]
    history: Float[Array, "length 2n"]
    table: ImpactTable
    num_impacts: Int[Array, ""]
    record: StepRecord | None


def advance(method: Method, system: System, params: Any, start: State, grid: Grid, *, kernel: bool = False) -> Chunk:
    """The steps of `grid` from `start`. `kernel=True` compiles them as one kernel, where the method allows it."""
    # Everything that may be traced goes in as an argument: a kernel closes over nothing.
    arrays, functions = eqx.partition((method, system, params, start, grid), eqx.is_array)

    def run(witness, arrays):
        return _advance(*eqx.combine(arrays, functions), jnp.isfinite(witness))

    one_kernel = kernel and "one kernel" in method.offers
    out = single_kernel(run, arrays) if one_kernel else run(jnp.zeros(()), arrays)
    n = start.q.shape[0]
    final = jnp.where(out.steps > 0, out.history[out.steps - 1], jnp.concatenate([start.q, start.p]))
    state = State(grid.time(start, out.steps), final[:n], final[n:])
    return Chunk(state, out.steps, out.status, out.history, out.table, out.num_impacts, out.record)


class _Run(NamedTuple):
    steps: Int[Array, ""]
    q: Float[Array, " n"]
    p: Float[Array, " n"]
    history: Float[Array, "length 2n"]
    table: ImpactTable
    num_impacts: Int[Array, ""]
    status: Int[Array, ""]
    memory: Any
    record: StepRecord | None


def _advance(method: Method, system: System, params: Any, start: State, grid: Grid, good) -> _Advanced:
    n, dim, dt = start.q.shape[0], start.p.shape[0], grid.dt
    mechanics = method.bind(system, params, n)
    mechanics.make_room(grid.contact_rows)
    flat = not method.needs_chart(mechanics)
    if flat:
        method.prepare(mechanics)
    faces = mechanics.contacts.num_faces
    reserve = min(method.impacts_reserved, grid.rows)
    cheap = method.glide(mechanics) if flat else None

    def time(step):
        return grid.time(start, step)

    def unfinished(run: _Run):
        room = run.num_impacts + (reserve if faces else 0) <= grid.rows
        return (run.steps < grid.limit) & (run.status == OK) & room & (run.num_impacts < grid.max_impacts)

    def smooth(run: _Run) -> _Run:
        """(1)"""
        if cheap is None:
            return run
        sight, glide = cheap

        def proceed(carry):
            return carry[0] & (carry[1] < grid.limit)

        def step(carry):
            _, steps, q, p, seen, history = carry
            end = glide(q, p, time(steps), dt, seen, run.memory)
            history = write_row(history, steps, jnp.concatenate([end.q, end.p]))
            q, p, seen = choose(end.clear, (end.q, end.p, end.sight), (q, p, seen))
            return end.clear, steps + end.clear, q, p, seen, history

        begin = (jnp.asarray(True), run.steps, run.q, run.p, sight(run.q, run.p, time(run.steps)), run.history)
        _, steps, q, p, _, history = jax.lax.while_loop(proceed, step, begin)
        return run._replace(steps=steps, q=q, p=p, history=history)

    def careful(run: _Run) -> _Run:
        """(2)"""
        asked = run.steps < grid.limit  # false: the tight loop came to the end, and nothing below moves
        t, t_end = time(run.steps), time(run.steps + 1)
        now = StepStart(run.q, run.p, t, t_end, dt, grid.first + run.steps, run.table, run.num_impacts, run.memory, asked)
        end = step_in_chart(method, mechanics, now)
        kept = asked & (end.status == OK)
        history = write_row(run.history, run.steps, jnp.concatenate([end.q, end.p]))
        record = None if run.record is None else write_row(run.record, run.steps, end.record)
        full = (end.status == TABLE_FULL) | (end.status == CONTACTS_FULL)  # what it wrote into the table does not count
        num_impacts = jnp.where(full | ~asked, run.num_impacts, end.num_impacts)
        q, p, memory = choose(kept, (end.q, end.p, end.memory), (run.q, run.p, run.memory))
        status = jnp.where(asked, end.status, run.status).astype(jnp.int32)
        return _Run(run.steps + kept, q, p, history, end.table, num_impacts, status, memory, record)

    run = _beginning(method, mechanics, start, grid, good)
    run = jax.lax.while_loop(unfinished, lambda run: careful(smooth(run)), run)
    if faces == 0:  # the loop hands these through, see `_Advanced`
        run = run._replace(table=ImpactTable.empty(grid.rows, n, 0, dim), num_impacts=jnp.zeros((), jnp.int32))
    return _Advanced(run.steps, run.status, run.history, run.table, run.num_impacts, run.record)


def _beginning(method: Method, mechanics: Mechanics, start: State, grid: Grid, good) -> _Run:
    """Nothing done yet; nothing to do where an input is not finite."""
    n, dim, t = start.q.shape[0], start.p.shape[0], grid.time(start, 0)
    return _Run(
        steps=jnp.where(good, 0, grid.limit).astype(jnp.int32),
        q=start.q,
        p=start.p,
        history=jnp.zeros((grid.length + 1, n + dim), start.q.dtype),
        table=ImpactTable.empty(grid.rows, n, mechanics.contacts.num_faces, dim),
        num_impacts=jnp.zeros((), jnp.int32),
        status=jnp.where(good, OK, NOT_FINITE).astype(jnp.int32),
        memory=method.memory(mechanics, start.q, start.p, t, grid.dt),
        record=method.record(mechanics, grid.length + 1),
    )


def step_in_chart(method: Method, mechanics: Mechanics, now: StepStart) -> StepEnd:
    """One step, in a chart around its start where the space has one."""
    if not method.needs_chart(mechanics):
        return method.one_step(mechanics, now)
    chart = mechanics.chart(now.q)
    method.prepare(chart)
    end = method.one_step(chart, now._replace(q=chart.functions.coordinates(now.q)))
    q, p = chart.place(end.q, end.p)
    return end._replace(q=q, p=p, memory=method.recentre(chart, end.q, end.memory))
