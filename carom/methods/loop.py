"""The loop that all methods share: steps until they are done, a step fails, a stop is met, or the impact table is full.

    sample    at its instants the controller is asked; its command is part of the system until the next of them           (0)
    glide     cheap steps in a tight loop, as long as nothing happens; it ends where a gap may have closed             (1)
    one step  the step in which something happens, with care                                                           (2)

and again. The tight loop holds no branch: what it costs is the method's own step. The step in which a stop changes its sign is not
taken: the caller finds out how long it has to be. On rotations each step is taken in a chart
around the configuration where it starts (`carom.system.charts`). A step that needs more rows than the table has left is not
taken: the caller goes on with an empty table, or a longer one. So it is with contacts: those that take part in a step are gathered
in a table (`carom.system.contacts_in_step`), and a step that needs more of them than that has room for is not taken.
"""

import sys
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from carom.methods.method import ImpactTable, Method, Parts, State, StepEnd, StepRecord, StepStart
from carom.methods.status import CONTACTS_FULL, NOT_FINITE, OK, STOPPED, TABLE_FULL
from carom.methods.stops import Stop, Watch
from carom.system.controller import sampler
from carom.system.mechanics import Mechanics
from carom.system.system import System
from carom.xla.kernel import single_kernel
from carom.xla.trees import choose, write_row

LONG_STATE = 4096  # coordinates: from here on a copy of the state in every step takes a tenth of it


class Grid(NamedTuple):
    """The steps that are asked for, and the room there is. The state at step 0 is at the time t of the start.

    Steps are dt long, or go from instant to instant of `times`, which are those of this grid alone: the first step from times[0] to
    times[1]. With `times`, neither `dt` nor the time of the start is looked at.
    """

    dt: Float[Array, ""]
    first: Int[Array, ""]  #        how many steps lie between the start and the first of these
    limit: Int[Array, ""]  #        how many steps
    max_impacts: Int[Array, ""]  #  how many impacts: the step that reaches them is the last
    length: int  #                  room for the states of so many steps
    rows: int  #                    room for so many impacts
    contact_rows: int = sys.maxsize  # room for so many rows of contacts that take part in a step
    number: Any = None  #           the number of the first step in its run, where that is not `first`
    armed: Any = True  #            do stops end the loop?
    times: Any = None  #            [length + 2] instants, where steps are of different length; beyond the last step, any
    brief: bool = False  #          so few steps that what is faster has to be quick to compile, too
    reserve: int | None = None  #   rows of the table that have to be free for a step to be begun; by default what the method says
    every: Any = None  #            of long states: the state of every so many-th step is kept, counted as `first` is

    def time(self, start: State, step) -> Float[Array, ""]:
        """When the step with this number, counted from `first`, begins. Never add up times: a run would depend on how it is cut."""
        return start.t + (self.first + step) * self.dt if self.times is None else self.times[step]

    def length_of(self, step) -> Float[Array, ""]:
        """How long the step with this number, counted from `first`, is."""
        return self.dt if self.times is None else self.times[step + 1] - self.times[step]

    def row_of(self, step) -> Int[Array, ""]:
        """Where the state after the step with this number, counted from `first`, is written. What is not kept goes to the last
        two rows in turns: a step that is not taken leaves the state that it starts from where it is."""
        if self.every is None:
            return step
        after = self.first + step + 1
        return jnp.where(after % self.every == 0, after // self.every - self.first // self.every - 1, self.length + 1 + step % 2)

    def number_of(self, step) -> Int[Array, ""]:
        """Its number in the run."""
        return (self.first if self.number is None else self.number) + step


class Chunk(NamedTuple):
    """Many steps."""

    state: State
    steps: Int[Array, ""]  #            how many were taken
    status: Int[Array, ""]
    states: Float[Array, "rows 2n+c"]  # q, p and the controller's row after each step that is kept; what follows is scratch
    impacts: ImpactTable
    num_impacts: Int[Array, ""]
    record: StepRecord | None  #        of timestepping methods: contact forces, and what dense output needs
    parts: Parts | None = None  #       the smaller steps that these were made of, where the method notes them


class _Advanced(NamedTuple):
    """What leaves a kernel. The final state is the last row of the history: a state that the loop does not change would be an
    argument handed through, and that is what a kernel must not do."""

    steps: Int[Array, ""]
    status: Int[Array, ""]
    history: Float[Array, "length 2n+c"]
    table: ImpactTable
    num_impacts: Int[Array, ""]
    record: StepRecord | None
    parts: Parts | None


def advance(
    method: Method,
    system: System,
    params: Any,
    start: State,
    grid: Grid,
    *,
    stops: tuple[Stop, ...] = (),
    kernel: bool = False,
) -> Chunk:
    """The steps of `grid` from `start`. `kernel=True` compiles them as one kernel, where the method allows it."""
    start = start._replace(control=controller_row(system, start))
    # Everything that may be traced goes in as an argument: a kernel closes over nothing.
    arrays, functions = eqx.partition((method, system, params, start, grid, stops), eqx.is_array)

    def run(witness, arrays):
        return _advance(*eqx.combine(arrays, functions), jnp.isfinite(witness))

    one_kernel = kernel and "one kernel" in method.offers
    out = single_kernel(run, arrays) if one_kernel else run(jnp.zeros(()), arrays)
    n, end = start.q.shape[0], start.q.shape[0] + start.p.shape[0]
    final = jnp.where(out.steps > 0, out.history[grid.row_of(out.steps - 1)], jnp.concatenate([start.q, start.p, start.control]))
    state = State(grid.time(start, out.steps), final[:n], final[n:end], final[end:])
    return Chunk(state, out.steps, out.status, out.history, out.table, out.num_impacts, out.record, out.parts)


def controller_row(system: System, start: State) -> Float[Array, " c"]:
    """Command and memory of the controller at the start; nothing without one."""
    if start.control is not None:
        return start.control
    return jnp.zeros(0, start.q.dtype) if system.controller is None else system.controller.start.astype(start.q.dtype)


class _Run(NamedTuple):
    steps: Int[Array, ""]
    q: Float[Array, " n"]
    p: Float[Array, " n"]
    control: Float[Array, " c"]
    signs: Float[Array, " stops"]
    history: Float[Array, "length 2n+c"]
    table: ImpactTable
    num_impacts: Int[Array, ""]
    status: Int[Array, ""]
    memory: Any
    record: StepRecord | None


def _advance(method: Method, system: System, params: Any, start: State, grid: Grid, stops: tuple[Stop, ...], good) -> _Advanced:
    n, dim = start.q.shape[0], start.p.shape[0]
    loop = _Loop(method, system, params, start, grid, stops)
    faces = loop.mechanics.contacts.num_faces
    reserve = min(method.impacts_reserved, grid.rows) if grid.reserve is None else grid.reserve

    def unfinished(run: _Run):
        room = run.num_impacts + (reserve if faces else 0) <= grid.rows
        return (run.steps < grid.limit) & (run.status == OK) & room & (run.num_impacts < grid.max_impacts)

    run = jax.lax.while_loop(unfinished, loop.go_on, _beginning(loop, good))
    if faces == 0:  # the loop hands these through, see `_Advanced`
        run = run._replace(table=ImpactTable.empty(grid.rows, n, 0, dim), num_impacts=jnp.zeros((), jnp.int32))
    return _Advanced(run.steps, run.status, run.history, run.table, run.num_impacts, run.record, method.parts(run.memory))


class _Loop:
    """What stays as it is while the loop goes round."""

    def __init__(self, method: Method, system: System, params: Any, start: State, grid: Grid, stops: tuple[Stop, ...]):
        self.method, self.system, self.params, self.start, self.grid = method, system, params, start, grid
        n = start.q.shape[0]
        self.mechanics = self._bound(system)
        self.flat = not method.needs_chart(self.mechanics)
        self.watch = Watch(stops, system, params, n)
        self.sample = sampler(system, params, n)
        self.cheap = self._prepared(self.mechanics) if self.sample is None else None

    def _bound(self, system: System) -> Mechanics:
        mechanics = self.method.bind(system, self.params, self.start.q.shape[0])
        mechanics.make_room(self.grid.contact_rows)
        mechanics.brief = self.grid.brief
        return mechanics

    def _prepared(self, mechanics: Mechanics) -> Any:
        if not self.flat:
            return None
        self.method.prepare(mechanics)
        return self.method.glide(mechanics)

    def time(self, step) -> Float[Array, ""]:
        return self.grid.time(self.start, step)

    def go_on(self, run: _Run) -> _Run:
        """(0), then (1), then (2)."""
        if self.sample is None:
            return self.careful(self.smooth(run, self.cheap, self.grid.limit), self.mechanics, self.grid.limit)
        grid, every = self.grid, self.system.controller.every
        number = grid.number_of(run.steps)
        asked = self.sample(run.control, run.q, run.p, self.time(run.steps))
        run = run._replace(control=jnp.where(number % every == 0, asked, run.control))
        mechanics = self._bound(self.system.holding(self.system.controller.command(run.control)))
        until = jnp.minimum(grid.limit, run.steps + every - number % every)
        return self.careful(self.smooth(run, self._prepared(mechanics), until), mechanics, until)

    def smooth(self, run: _Run, cheap: Any, until) -> _Run:
        """(1)"""
        if cheap is None:
            return run
        sight, glide = cheap

        def proceed(carry):
            return carry[0] & (carry[1] < until)

        # The state before is carried along, and taken where the last step was not clear: to choose in each step would let the
        # next one wait for the contacts, which take as long as the step. A long one lies in the history already.
        long = run.q.shape[0] >= LONG_STATE

        def step(carry):
            _, steps, (q, p, signs), seen, history, _ = carry
            end = glide(q, p, self.time(steps), self.grid.length_of(steps), seen, run.memory)
            after, stopped = self._watched(signs, end.q, end.p, steps + 1)
            clear = end.clear if stopped is None else end.clear & ~stopped
            history = self.written(history, steps, end.q, end.p, run.control)
            return clear, steps + 1, (end.q, end.p, after), end.sight, history, signs if long else (q, p, signs)

        now, sights = (run.q, run.p, run.signs), sight(run.q, run.p, self.time(run.steps))
        begin = (jnp.asarray(True), run.steps, now, sights, run.history, run.signs if long else now)
        clear, steps, now, _, history, before = jax.lax.while_loop(proceed, step, begin)
        if long:
            kept = jax.lax.dynamic_index_in_dim(history, self.grid.row_of(jnp.maximum(steps - 2, 0)), keepdims=False)
            q, p = jnp.split(kept[: run.q.shape[0] + run.p.shape[0]], (run.q.shape[0],))
            before = (*choose(steps - 1 > run.steps, (q, p), (run.q, run.p)), before)
        q, p, signs = choose(clear, now, before)
        return run._replace(steps=jnp.where(clear, steps, steps - 1), q=q, p=p, signs=signs, history=history)

    def careful(self, run: _Run, mechanics: Mechanics, until) -> _Run:
        """(2)"""
        grid = self.grid
        asked = run.steps < until  # false: the tight loop came to the end, and nothing below moves
        t, t_end = self.time(run.steps), self.time(run.steps + 1)
        now = StepStart(
            run.q, run.p, t, t_end, grid.length_of(run.steps), grid.number_of(run.steps), run.table, run.num_impacts,
            run.memory, asked,
        )  # fmt: skip
        end = step_in_chart(self.method, mechanics, now)
        signs, stopped = self._watched(run.signs, end.q, end.p, run.steps + 1)
        status = end.status if stopped is None else jnp.where((end.status == OK) & stopped, STOPPED, end.status)
        kept = asked & (status == OK)
        history = self.written(run.history, run.steps, end.q, end.p, run.control)
        record = None if run.record is None else write_row(run.record, run.steps, end.record)
        # What a step that is not taken wrote into the table does not count.
        void = (status == TABLE_FULL) | (status == CONTACTS_FULL) | (status == STOPPED)
        num_impacts = jnp.where(void | ~asked, run.num_impacts, end.num_impacts)
        q, p, memory, signs = choose(kept, (end.q, end.p, end.memory, signs), (run.q, run.p, run.memory, run.signs))
        status = jnp.where(asked, status, run.status).astype(jnp.int32)
        return _Run(run.steps + kept, q, p, run.control, signs, history, end.table, num_impacts, status, memory, record)

    def written(self, history, step, *parts):
        """The history with the state after this step. To rows that are written again and again it goes piece by piece: joined
        before, it would be gathered number by number, which fresh memory hides."""
        row = self.grid.row_of(step)
        if self.grid.every is None:
            return write_row(history, row, jnp.concatenate(parts))
        at = 0
        for part in parts:
            history = jax.lax.dynamic_update_slice(history, part[None], (row, jnp.asarray(at, row.dtype))) if part.size else history
            at += part.shape[0]
        return history

    def _watched(self, before, q, p, step) -> tuple[Any, Any]:
        """The signs of the stops after a step, and whether one of them ends the loop; None where there are none."""
        if not self.watch.stops:
            return before, None
        after = self.watch.signs(q, p, self.time(step))
        stopped = jnp.any(self.watch.crossed(before, after)) & self.grid.armed
        return jnp.where(after == 0, before, after), stopped


def _beginning(loop: _Loop, good) -> _Run:
    """Nothing done yet; nothing to do where an input is not finite."""
    method, mechanics, start, grid = loop.method, loop.mechanics, loop.start, loop.grid
    n, dim, t = start.q.shape[0], start.p.shape[0], grid.time(start, 0)
    return _Run(
        steps=jnp.where(good, 0, grid.limit).astype(jnp.int32),
        q=start.q,
        p=start.p,
        control=start.control,
        signs=loop.watch.signs(start.q, start.p, t),
        history=jnp.zeros((grid.length + (1 if grid.every is None else 3), n + dim + start.control.shape[0]), start.q.dtype),
        table=ImpactTable.empty(grid.rows, n, mechanics.contacts.num_faces, dim),
        num_impacts=jnp.zeros((), jnp.int32),
        status=jnp.where(good, OK, NOT_FINITE).astype(jnp.int32),
        memory=method.memory(mechanics, start.q, start.p, t, grid.length_of(0)),
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
