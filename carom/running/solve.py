"""The verb: run compiled chunks from a host loop, with progress, bounded memory and everything kept when something fails."""

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from carom.errors import SolveError
from carom.methods.capabilities import require
from carom.methods.loop import Chunk, Grid, advance
from carom.methods.method import Method, State
from carom.methods.status import NOT_FINITE, OK, TABLE_FULL
from carom.results.solution import Impacts, Solution, Status, counted, describe
from carom.running.blame import blame
from carom.running.checkpoint import Checkpoint, identity
from carom.running.checks import Problem, check_problem, check_step, needs_of
from carom.running.options import check_grid, check_memory, check_options
from carom.running.progress import Bar
from carom.system.system import System
from carom.xla.counted_program import Program

LONGEST_CHUNK = 1 << 17  # steps
SHORT_CHUNK = 1 << 12
LARGEST_CHUNK = 1 << 21  # numbers in the states of a chunk
ROWS = 2048  # impacts per chunk; a chunk ends early when its table is full, and the next one goes on


def solve(
    system: System,
    method: Method,
    q0: Any,
    v0: Any = None,
    *,
    dt: float,
    num_steps: int,
    params: Any = None,
    p0: Any = None,
    t0: float = 0.0,
    max_impacts: int | None = None,
    stride: int = 1,
    progress: bool | None = None,
    throw: bool = True,
    checkpoint: str | Path | None = None,
    every: int | None = None,
    name: str = "run",
    shape: Callable[..., Any] | None = None,
) -> Solution:
    """Simulate `system` with `method` from (q0, v0) over `num_steps` steps of length `dt`.

    - `p0`: the initial momentum, instead of `v0`.
    - `params`: a dict (or any tree) of numbers, handed to the functions of the system.
    - `max_impacts`: stop after the step in which this many impacts have happened.
    - `stride`: keep every `stride`-th state of the grid (all impacts are kept): long runs in little memory.
    - `progress`: a bar on stderr; by default when that is a terminal and the run takes longer than a second.
    - `throw`: raise `carom.SolveError` (with `.solution`, up to there) when the run fails; otherwise look at `.status`.
    - `checkpoint`, `every`: write to this *.zarr every so many steps (by default once a minute). The same call goes on with a run
      that was killed, bit for bit, and returns one that is finished.
    - `name`, `shape`: what plots, animations and reports call the run, and what they draw (see `carom.drawing`).

    Ctrl-C ends the run after the chunk of steps that is being computed and keeps what there is; a second one at once.
    """
    check_options(method, stride, max_impacts, checkpoint, every)
    step, total = check_grid(dt, num_steps)
    verb = "solve" if checkpoint is None else "checkpoint"
    require(needs_of(system), method, verb)
    problem = check_problem(system, q0, v0, params, t0, p0)
    system = problem.system
    require(problem.needs, method, verb)
    check_memory(total if max_impacts is None else 1, stride, problem.q0.size + problem.p0.size)
    check_step(system, method, problem.params, step)
    method.check(system, problem.params, State(problem.t0, problem.q0, problem.p0), step)
    disk = None
    if checkpoint is not None:
        numbers = {"dt": step, "num_steps": total, "max_impacts": max_impacts, "stride": stride, "every": every}
        disk = Checkpoint(checkpoint, every, identity(system, method, problem, **numbers))
        finished = disk.finished(system=system, method=method, shape=shape)
        if finished is not None:
            return _checked(finished, throw)
    march = _March(system, method, problem, step, total, max_impacts, stride, disk)
    march.compile()
    interrupted = march.go(Bar(progress))

    solution = march.solution(name, shape, interrupted)
    if disk is not None:
        disk.release() if interrupted else disk.finish(solution)
    return _checked(solution, throw)


def _checked(solution: Solution, throw: bool) -> Solution:
    if throw and not solution.status.ok:
        raise SolveError(f"{solution.status.message}. What was computed before is in .solution of this error", solution)
    return solution


class _March:
    """The host loop: chunk after chunk, cut by the numbers of the problem alone, so that a run is the same whenever it is made."""

    def __init__(
        self, system, method, problem: Problem, step: float, total: int, max_impacts, stride: int, disk: Checkpoint | None
    ):
        self.system, self.method, self.problem, self.step, self.total = system, method, problem, step, total
        self.max_impacts = np.iinfo(np.int32).max if max_impacts is None else int(max_impacts)
        room = max(16, LARGEST_CHUNK // (8 * problem.q0.size))  # a row holds three states
        self.rows = min(ROWS, room) + method.impacts_reserved
        self.stride, self.disk = stride, disk
        self.length = _chunk_length(total, problem.q0.size * (1 + len(method.nodes)))
        self.state = State(problem.t0, problem.q0, problem.p0)
        self.states: list[np.ndarray] = []
        self.tables: list[Any] = []
        self.records: list[Any] = []
        self.done, self.impacts, self.code = 0, 0, OK
        self.seconds = self.compile_seconds = 0.0
        found = disk.resume() if disk is not None else None
        if found is not None:
            self.states, self.tables, self.records, last = found
            self.done, self.seconds = last["done"], last["seconds"]
            self.impacts = sum(len(table.t) for table in self.tables)
            self.state = State(problem.t0, jnp.asarray(last["q"]), jnp.asarray(last["p"]))

    def compile(self) -> None:
        self.compile_seconds += _chunk.compile(*self.arguments(0))  # nothing is done here but compiling

    def arguments(self, limit: int) -> tuple[Any, ...]:
        """What the compiled program is called with, for so many steps."""
        first, last, most = (jnp.asarray(i, jnp.int32) for i in (self.done, limit, self.max_impacts - self.impacts))
        grid = Grid(jnp.asarray(self.step), first, last, most, self.length, self.rows)
        return self.method, self.system, self.problem.params, self.state, grid

    def go(self, bar: Bar) -> bool:
        """All chunks; whether Ctrl-C ended them."""
        with bar, _Interrupt() as interrupt:
            while self.done < self.total and self.code == OK and self.impacts < self.max_impacts and not interrupt.asked:
                try:
                    self.advance()
                except KeyboardInterrupt:
                    interrupt.asked = True
                share = max(self.done / self.total, self.impacts / self.max_impacts)
                bar.update(share, f"step {self.done:,}  {self.impacts:,} impacts", self.done)
        unfinished = interrupt.asked and self.done < self.total and self.code == OK and self.impacts < self.max_impacts
        if unfinished and self.disk is not None:
            self.disk.commit(self.done, self.state, self.seconds)
        return unfinished

    def advance(self) -> None:
        limit = min(self.length, self.total - self.done)
        if self.disk is not None and self.disk.every is not None:
            limit = min(limit, self.disk.every - self.done % self.disk.every)
        clock = time.perf_counter()
        chunk: Chunk = _chunk(*self.arguments(limit))
        steps, code, hits = int(chunk.steps), int(chunk.status), int(chunk.num_impacts)
        kept = np.asarray(chunk.states)[-(self.done + 1) % self.stride : steps : self.stride]  # after steps stride, 2·stride, …
        kept = kept if 2 * len(kept) > self.length else kept.copy()  # a view would keep the whole buffer
        table = jax.tree.map(lambda x: np.asarray(x)[:hits], chunk.impacts)
        self.states.append(kept)
        self.tables.append(table)
        record = None
        if chunk.record is not None and self.stride == 1:
            record = jax.tree.map(lambda x: np.asarray(x)[:steps], chunk.record)
            self.records.append(record)
        if code == TABLE_FULL:  # the step is taken again, with an empty table; or with a longer one, if it had that already
            code = OK
            if steps == 0 and hits == 0:
                self.rows *= 8
                self.compile()
        self.state = State(self.problem.t0, chunk.state.q, chunk.state.p)
        self.done, self.impacts, self.code = self.done + steps, self.impacts + hits, code
        self.seconds += time.perf_counter() - clock
        if self.disk is not None:
            self.disk.add(kept, table, record, self.done, self.state, self.seconds)

    def solution(self, name: str, shape: Any, interrupted: bool) -> Solution:
        """What there is, in one piece."""
        problem, n, max_impacts = self.problem, self.problem.q0.size, self.max_impacts
        impacts = Impacts.from_tables(self.tables, n, problem.owner, problem.contact_names)
        grid = np.concatenate([np.concatenate([problem.q0, problem.p0])[None], *self.states])
        limit = None if max_impacts == np.iinfo(np.int32).max else max_impacts
        return Solution(
            t=float(problem.t0) + self.step * self.stride * np.arange(self.done // self.stride + 1),
            q=grid[:, :n],
            p=grid[:, n:],
            dt=self.step,
            impacts=impacts,
            status=_status(self.code, self.done, self.step, problem, impacts, self.method, limit, interrupted, grid[-1]),
            system=self.system,
            method=self.method,
            params=problem.params,
            seconds=self.seconds,
            compile_seconds=self.compile_seconds,
            steps=self.done,
            name=name,
            shape=shape,
            record=self.record(),
        )

    def record(self) -> Any:
        """What a timestepping method knows of each step; nothing for a run that was thinned by `stride`."""
        if sum(len(record.impulses) for record in self.records) != self.done or not self.records:
            return None
        return jax.tree.map(lambda *parts: np.concatenate(parts), *self.records)


def _chunk_length(total: int, n: int) -> int:
    """One of two, for short runs and for long ones, so that another number of steps is not another compilation; with a bounded
    number of entries (a beam has hundreds of coordinates; 128 MiB of a very long bar)."""
    longest = min(LONGEST_CHUNK, 1 << max(1, LARGEST_CHUNK // (2 * n)).bit_length() - 1)
    longest = max(longest, min(512, 1 << max(1, 4 * LARGEST_CHUNK // n).bit_length() - 1))
    short = min(SHORT_CHUNK, longest)
    return short if total <= short else longest


class _Interrupt:
    """Ctrl-C asks once and insists the second time; only where nobody else has taken the signal."""

    def __init__(self) -> None:
        self.asked = self.taken = False

    def __enter__(self) -> "_Interrupt":
        here = threading.current_thread() is threading.main_thread()
        if here and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self.taken = True
            signal.signal(signal.SIGINT, self._handle)
        return self

    def _handle(self, *_: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *_: Any) -> None:
        if self.taken:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _advance(method: Method, system: System, params: Any, state: State, grid: Grid) -> Chunk:
    return advance(method, system, params, state, grid, kernel=True)


_chunk = Program(_advance)


def _blamed(status: Status, problem: Problem, step: float, last: np.ndarray) -> Status:
    """The same, with the function that is not finite where the motion was going."""
    n = problem.q0.size
    q, p, t = jnp.asarray(last[:n]), jnp.asarray(last[n:]), jnp.asarray(status.t)
    v = problem.system.bind(problem.params, n).velocity(q, p, t)
    culprit = blame(problem.system, problem.params, q, v, status.t, step)
    return replace(status, message=f"{status.message}; {culprit}") if culprit else status


def _status(code, done, step, problem: Problem, impacts: Impacts, method, max_impacts, interrupted, last) -> Status:
    t = float(problem.t0) + done * step
    if interrupted:
        return Status("interrupted", f"interrupted at step {done} (t = {t:.9g})", True, done, t)
    if code != OK:
        where = f"; last impact at t = {impacts.t[-1]:.9g} on {impacts.names[impacts.contact[-1]]!r}" if len(impacts) else ""
        status = describe(code, done, t, impacts, method, where)
        return status if code != NOT_FINITE else _blamed(status, problem, step, last)
    if max_impacts is not None and len(impacts) >= max_impacts:
        return Status("impacts_reached", f"{counted(len(impacts), 'impact')} reached at step {done} (t = {t:.9g})", True, done, t)
    return Status("ok", f"{done} steps taken to t = {t:.9g}", True, done, t)
