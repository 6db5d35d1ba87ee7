"""A run in chunks: a compiled program called from the host, with progress, bounded memory, and all kept when something fails."""

import time
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from carom.kept.counted_program import Program
from carom.methods.loop import LONG_STATE, Chunk, Grid, advance
from carom.methods.method import Method, State
from carom.methods.status import CONTACT_UNSOLVED, CONTACTS_FULL, NOT_CONVERGED, NOT_FINITE, OK, STOPPED, TABLE_FULL
from carom.methods.stops import Stop, Watch
from carom.numerics.linalg import SMALL
from carom.results.solution import Impacts, Solution, Status, counted, describe
from carom.running.blame import blame, breaking_down
from carom.running.checkpoint import Checkpoint
from carom.running.checks import Problem
from carom.running.first_look import is_plain, rows_closed_at
from carom.running.interrupts import Interrupt
from carom.running.progress import Bar
from carom.system.system import System

LONGEST_CHUNK = 1 << 17  # steps
SHORTER_CHUNKS = (1 << 12, 1 << 15)
# Numbers in the states of a chunk: buffers beyond 32 MiB would be fresh memory, page by page, in every chunk.
LARGEST_CHUNK = 1 << 20
FEWEST = 8  # steps of a chunk, however large: what a chunk costs beside them is that of several steps
LONGEST_WAIT = 1 << 25  # numbers that the steps of a chunk go through, where few of them are kept: some tenths of a second
CONTACT_ROWS = SMALL  # of contacts that take part in a step, to begin with: as many as fit into a kernel
ROWS = 2048  # impacts per chunk; a chunk ends early when its table is full, and the next one goes on


class Snapshot(NamedTuple):
    """What a callback is shown: how far the run is, and where."""

    step: int
    t: float
    q: np.ndarray
    p: np.ndarray
    num_impacts: int


class Asked(NamedTuple):
    """What is asked of a run beside its problem."""

    step: float  #                           dt; the mean, where steps are of different length
    total: int  #                            steps
    max_impacts: int | None = None
    stride: int = 1
    stops: tuple[Stop, ...] = ()
    callback: Callable[[Snapshot], Any] | None = None
    callback_every: int | None = None
    instants: np.ndarray | None = None  #    [total + 1] of the steps, where they are of different length


class March:
    """Chunk after chunk, cut by the numbers of the problem alone, so that a run is the same whenever it is made.

    `earlier` is a run that goes on: its steps are counted, its end is where this one starts.
    """

    def __init__(self, method, problem: Problem, asked: Asked, disk: Checkpoint | None = None, earlier: Solution | None = None):
        self.system, self.method, self.problem, self.asked, self.disk = problem.system, method, problem, asked, disk
        self.step, self.total, self.stride = asked.step, asked.total, asked.stride
        self.max_impacts = np.iinfo(np.int32).max if asked.max_impacts is None else int(asked.max_impacts)
        room = max(1, LARGEST_CHUNK // (8 * problem.q0.size))  # a row holds three states
        self.rows, self.contact_rows = min(ROWS, room) + min(method.impacts_reserved, 2 * room), _contact_rows(problem)
        self.reserve = min(method.impacts_reserved, room)
        self.length = _chunk_length(self.total, problem.q0.size * (1 + len(method.nodes)))
        self.thins = problem.q0.size >= LONG_STATE and self.stride > 1  # only what `stride` asks for is written
        self.steps = max(self.length, FEWEST, LONGEST_WAIT // problem.q0.size) if self.thins else self.length
        self.states: list[np.ndarray] = []
        self.tables: list[Any] = []
        self.records: list[Any] = []
        self.done, self.impacts, self.code, self.ended_by = 0, 0, OK, ""
        self.since = (0, float(problem.t0))  # the step and the time from which steps have been dt long
        self.seconds = self.compile_seconds = 0.0
        self.q, self.p = problem.q0, problem.p0
        self.control = np.zeros(0) if self.system.controller is None else self.system.controller.start
        self.earlier = earlier
        if earlier is not None:
            self._go_on_from(earlier)
        self.first_row = np.concatenate([self.q, self.p, self.control])
        found = disk.resume() if disk is not None else None
        if found is not None:
            self.states, self.tables, self.records, last = found
            self.done, self.seconds = last["done"], last["seconds"]
            self.impacts = sum(len(table.t) for table in self.tables)
            self.contact_rows = last.get("contact_rows", CONTACT_ROWS)
            self.q, self.p, self.control = (jnp.asarray(last[name]) for name in ("q", "p", "control"))

    def _go_on_from(self, earlier: Solution) -> None:
        self.done = earlier.num_steps
        self.since = earlier.since or self.since
        if earlier.status.name == "stopped":  # its last step was shorter: another grid begins where it ended
            self.since = (self.done, float(earlier.t[-1]))
        self.q, self.p = jnp.asarray(earlier.q[-1]), jnp.asarray(earlier.p[-1])
        if earlier.commands is not None and earlier.controller_memory is not None:
            self.control = jnp.concatenate([earlier.commands[-1], earlier.controller_memory[-1]])

    @property
    def t(self) -> float:
        instants = self.asked.instants
        return self.since[1] + (self.done - self.since[0]) * self.step if instants is None else float(instants[self.done])

    def compile(self) -> None:
        self.compile_seconds += _chunk.compile(*self.arguments(0))  # nothing is done here but compiling

    def ahead(self) -> None:
        _chunk.ahead(*self.arguments(0))

    def arguments(self, limit: int) -> tuple[Any, ...]:
        """What the compiled program is called with, for so many steps."""
        times = None if self.asked.instants is None else self.asked.instants[self.done :]
        return self._arguments(limit, self.since[1], self.step, self.done - self.since[0], True, times)

    def _arguments(
        self, limit: int, t: float, step: float, first: int, armed: bool, times: Any = None, every: int | None = None
    ) -> tuple[Any, ...]:
        first_, last, most, number = (np.int32(i) for i in (first, limit, self.max_impacts - self.impacts, self.done))
        room = {"length": self.length, "rows": self.rows, "reserve": self.reserve, "contact_rows": self.contact_rows}
        if times is not None:
            times = np.append(times[: self.steps + 2], np.full(self.steps + 2, times[-1]))[: self.steps + 2]
        thin = np.int32(self.stride if every is None else every) if self.thins else None
        grid = Grid(np.float64(step), first_, last, most, number=number, armed=np.asarray(armed), times=times, every=thin, **room)
        state = State(np.float64(t), self.q, self.p, self.control)
        return self.method, self.system, self.problem.params, state, grid, self.asked.stops

    def go(self, bar: Bar) -> bool:
        """All chunks; whether Ctrl-C ended them."""
        with bar, Interrupt() as interrupt:
            while self._goes_on() and not interrupt.asked:
                try:
                    self.advance()
                    self._call_back()
                except KeyboardInterrupt:
                    interrupt.asked = True
                share = max(self.done / self.total, self.impacts / self.max_impacts)
                bar.update(share, f"step {self.done:,}  {self.impacts:,} impacts", self.done)
        unfinished = interrupt.asked and self._goes_on()
        if unfinished and self.disk is not None:
            self.disk.commit(self.done, self.rows_now(), self.seconds, self.contact_rows)
        return unfinished

    def _goes_on(self) -> bool:
        return self.done < self.total and self.code == OK and self.impacts < self.max_impacts and not self.ended_by

    def _call_back(self) -> None:
        every, call = self.asked.callback_every, self.asked.callback
        if call is None or self.code != OK or (every is not None and self.done % every and self.done < self.total):
            return
        if call(Snapshot(self.done, self.t, np.asarray(self.q), np.asarray(self.p), self.impacts)) is True:
            self.ended_by = "the callback"

    def rows_now(self) -> dict[str, np.ndarray]:
        """The state that the next chunk starts from."""
        return {"q": np.asarray(self.q), "p": np.asarray(self.p), "control": np.asarray(self.control)}

    def advance(self) -> None:
        limit = min(self.steps, self.length * (self.stride if self.thins else 1), self.total - self.done)
        for every in (None if self.disk is None else self.disk.every, self.asked.callback_every):
            limit = limit if every is None else min(limit, every - self.done % every)
        clock = time.perf_counter()
        chunk: Chunk = _chunk(*self.arguments(limit))
        self.keep(chunk, self.kept(int(chunk.steps)), clock)
        if self.code == TABLE_FULL:  # the step is taken again, with an empty table; or with a longer one, if it had that already
            self.code = OK
            if int(chunk.steps) == 0 and int(chunk.num_impacts) == 0:
                self.rows *= 8
                self.compile()
        if self.code == CONTACTS_FULL:  # the step is taken again, in a program with more room
            self.code, self.contact_rows = OK, 4 * self.contact_rows
            self.compile()
        if self.code == STOPPED:
            self.end_at_stop()

    def kept(self, steps: int) -> slice:
        """Which rows of a chunk with so many steps hold the states after steps stride, 2·stride, …"""
        before = self.done - self.since[0]
        if self.thins:
            return slice(0, (before + steps) // self.stride - before // self.stride)
        return slice(-(before + 1) % self.stride, steps, self.stride)

    def keep(self, chunk: Chunk, which: slice, clock: float) -> None:
        """What a chunk has computed."""
        steps, hits = int(chunk.steps), int(chunk.num_impacts)
        kept = np.asarray(chunk.states)[which]
        kept = kept if 2 * len(kept) > self.length else kept.copy()  # as in `_rows`
        table = jax.tree.map(lambda x: _rows(x, hits), chunk.impacts)
        self.states.append(kept)
        self.tables.append(table)
        record = None
        if chunk.record is not None and self.stride == 1:
            record = jax.tree.map(lambda x: _rows(x, steps), chunk.record)
            self.records.append(record)
        self.q, self.p, self.control = chunk.state.q, chunk.state.p, chunk.state.control
        self.done, self.impacts, self.code = self.done + steps, self.impacts + hits, int(chunk.status)
        self.seconds += time.perf_counter() - clock
        if self.disk is not None and self.code != STOPPED:  # the end of such a run is still to be found
            self.disk.add(kept, table, record, self.done, self.rows_now(), self.seconds, self.contact_rows)

    def end_at_stop(self) -> None:
        """How long the last step has to be: a stop has changed its sign at its end, not at its start. By halves, to rounding; the
        run ends on the far side, so that it can go on without meeting the same zero again."""
        uneven = self.asked.instants is not None
        clock, t, near, far = time.perf_counter(), self.t, 0.0, self.step
        far = float(self.asked.instants[self.done + 1]) - t if self.asked.instants is not None else far
        tiny = 4 * np.finfo(float).eps * max(abs(t), far)
        both = lambda h: np.array([t, t + h]) if uneven else None  # noqa: E731
        short = lambda h, armed: _chunk(*self._arguments(1, t, h, 0, armed, both(h), every=1))  # noqa: E731
        while far - near > tiny:
            middle = 0.5 * (near + far)
            near, far = (near, middle) if int(short(middle, True).status) == STOPPED else (middle, far)
        chunk: Chunk = short(far, False)
        self.ended_by = self._name_of_stop(t, chunk.state)
        self.stopped_at = t + far
        self.keep(chunk, slice(0, 1), clock)

    def _name_of_stop(self, t: float, end: State) -> str:
        watch = Watch(self.asked.stops, self.system, self.problem.params, self.q.size)
        before, after = np.asarray(watch.values(self.q, self.p, jnp.asarray(t))), np.asarray(watch.values(end.q, end.p, end.t))
        crossed = np.asarray(watch.crossed(jnp.sign(before), jnp.sign(after)))
        near = np.abs(after) / np.maximum(np.abs(before), 1e-300)  # outside of the loop a zero may be one rounding away
        return repr(self.asked.stops[int(np.argmin(np.where(crossed, 0.0, near)))].name)

    stopped_at: float | None = None

    def solution(self, name: str, shape: Any, interrupted: bool) -> Solution:
        """What there is, in one piece."""
        problem, n, dim = self.problem, self.problem.q0.size, self.problem.p0.size
        impacts = Impacts.from_tables(self.tables, n, problem.owner, problem.contact_names)
        grid = np.concatenate([self.first_row[None], *self.states])
        controller, m = self.system.controller, n + dim + (self.system.controller.commands if self.system.controller else 0)
        rest = Solution(
            t=self.times(len(grid)),
            q=grid[:, :n],
            p=grid[:, n : n + dim],
            dt=self.step,
            impacts=impacts,
            status=self.status(impacts, interrupted, grid[:, : n + dim]),
            system=self.system,
            method=self.method,
            params=problem.params,
            seconds=self.seconds,
            compile_seconds=self.compile_seconds,
            steps=self.done,
            name=name,
            shape=shape,
            record=self.record(),
            commands=None if controller is None else grid[1:, n + dim : m],
            controller_memory=None if controller is None else grid[:, m:],
            since=None if self.since[0] == 0 else self.since,
            uneven=self.asked.instants is not None,
        )
        return rest if self.earlier is None else joined(self.earlier, rest)

    def times(self, rows: int) -> np.ndarray:
        """Of the grid, never added up: a multiple of dt since a step was last cut short, or the instants that were asked for."""
        start = 0 if self.earlier is None else self.earlier.num_steps
        stopped, instants = self.stopped_at is not None, self.asked.instants
        if instants is not None:
            even = instants[start :: self.stride][: rows - stopped]
            return np.append(even, [self.stopped_at] if stopped else [])
        steps = start - self.since[0] + self.stride * np.arange(rows - stopped)
        return np.append(self.since[1] + self.step * steps, [self.stopped_at] if stopped else [])

    def status(self, impacts: Impacts, interrupted: bool, grid: np.ndarray) -> Status:
        done, t, code = self.done, self.t if self.stopped_at is None else self.stopped_at, self.code
        at = f"at step {done} (t = {t:.9g})"
        if interrupted:
            return Status("interrupted", f"interrupted {at}", True, done, t)
        if code != OK:
            where = f"; last impact at t = {impacts.t[-1]:.9g} on {impacts.names[impacts.contact[-1]]!r}" if len(impacts) else ""
            status = describe(code, done, t, impacts, self.method, where)
            return _blamed(status, code, self.problem, self.step, grid)
        if self.ended_by:
            return Status("stopped" if self.stopped_at is not None else "ended", f"stopped by {self.ended_by} {at}", True, done, t)
        if self.asked.max_impacts is not None and len(impacts) >= self.max_impacts:
            return Status("impacts_reached", f"{counted(len(impacts), 'impact')} reached {at}", True, done, t)
        return Status("ok", f"{counted(done, 'step')} taken to t = {t:.9g}", True, done, t)

    def record(self) -> Any:
        """What a timestepping method knows of each step; nothing for a run that was thinned by `stride`."""
        before = 0 if self.earlier is None else self.earlier.num_steps
        if sum(len(record.impulses) for record in self.records) != self.done - before or not self.records:
            return None
        return jax.tree.map(lambda *parts: np.concatenate(parts), *self.records)


def expected(method: Method, asked: Asked, problem: Problem) -> None:
    """Let another thread compile the run of a small system while its start is being checked. Of a large one the checks would wait
    until it is traced; and what is not plain may be another system once it is checked."""
    if is_plain(problem.system) and problem.q0.size <= SMALL and 3 * len(problem.owner) <= CONTACT_ROWS:
        March(method, problem, asked).ahead()


def _rows(buffer: Any, count: int) -> np.ndarray:
    """The first rows of what a chunk has written. A view keeps the whole buffer in memory, as long as the run: where little of it
    was used, a copy is kept instead."""
    rows = np.asarray(buffer)[:count]
    return rows if 2 * count > len(buffer) else rows.copy()


def _contact_rows(problem: Problem) -> int:
    """Rows for the contacts that take part in a step: so many that those have room which are closed at the start. A program with
    less would be compiled for nothing."""
    rows = CONTACT_ROWS
    if 3 * len(problem.owner) > rows and "nodes" not in problem.system.needs:
        closed = int(rows_closed_at(problem.system, problem.params, problem.q0, problem.t0))
        while rows < closed:
            rows *= 4  # as `advance` does
    return rows


def _chunk_length(total: int, n: int) -> int:
    """One of three, so that another number of steps is rarely another compilation, and a run of 20,000 steps does not wait for the
    memory of 131,072; with a bounded number of entries (a beam has hundreds of coordinates)."""
    longest = min(LONGEST_CHUNK, 1 << max(1, LARGEST_CHUNK // (2 * n)).bit_length() - 1)
    longest = max(longest, min(512, 1 << max(1, LARGEST_CHUNK // n).bit_length() - 1), FEWEST)
    return next((length for length in SHORTER_CHUNKS if total <= length <= longest), longest)


def _advance(method: Method, system: System, params: Any, state: State, grid: Grid, stops: tuple[Stop, ...]) -> Chunk:
    return advance(method, system, params, state, grid, stops=stops, kernel=True)


_chunk = Program(_advance)


def _blamed(status: Status, code: int, problem: Problem, step: float, grid: np.ndarray) -> Status:
    """The same, with the function that is not finite where the motion was going, or with coordinates that break down there."""
    at_once = not status.ok and status.step == 0 and code != NOT_FINITE  # whatever it says, the start may be at fault
    if code not in (NOT_FINITE, NOT_CONVERGED, CONTACT_UNSOLVED) and not at_once:
        return status
    n, culprit = problem.q0.size, ""
    if code == NOT_FINITE or at_once:
        q, p, t = jnp.asarray(grid[-1, :n]), jnp.asarray(grid[-1, n:]), jnp.asarray(status.t)
        v = problem.system.bind(problem.params, n).velocity(q, p, t)
        culprit = blame(problem.system, problem.params, q, v, status.t, step)
    if at_once and culprit:
        return replace(status, message=f"{culprit}. What came of it: {status.message}")
    culprit = culprit or breaking_down(problem.system, problem.params, grid, n, status.t, step)
    return replace(status, message=f"{status.message}; {culprit}") if culprit else status


def joined(first: Solution, rest: Solution) -> Solution:
    """A run and what followed it, as one."""
    columns = [f.name for f in fields(Impacts) if f.name != "names"]
    table = {name: np.concatenate([getattr(first.impacts, name), getattr(rest.impacts, name)]) for name in columns}
    record = None
    if first.record is not None and rest.record is not None:
        record = jax.tree.map(lambda a, b: np.concatenate([a, b]), first.record, rest.record)
    both = lambda a, b: None if a is None or b is None else np.concatenate([a, b])  # noqa: E731
    return replace(
        first,
        t=np.concatenate([first.t, rest.t[1:]]),
        q=np.concatenate([first.q, rest.q[1:]]),
        p=np.concatenate([first.p, rest.p[1:]]),
        impacts=Impacts(**table, names=first.impacts.names),
        status=rest.status,
        steps=rest.steps,
        seconds=first.seconds + rest.seconds,
        compile_seconds=first.compile_seconds + rest.compile_seconds,
        record=record,
        commands=both(first.commands, rest.commands),
        controller_memory=both(first.controller_memory, None if rest.controller_memory is None else rest.controller_memory[1:]),
        since=rest.since,
        uneven=first.uneven or rest.uneven,
        dt=float(rest.t[-1] - first.t[0]) / rest.steps if rest.uneven else first.dt,
    )
