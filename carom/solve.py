"""The verb: run compiled chunks from a host loop, with progress, bounded memory and everything kept when something fails."""

import sys
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom.errors import InputError, SolveError
from carom.methods.method import OK, Chunk, State
from carom.solution import Impacts, Solution, Status, describe
from carom.system import System
from carom.validate import Problem, check_grid, check_problem

LONGEST_CHUNK = 1 << 17
ROWS = 2048  # impacts per chunk; a chunk ends early when its table is full, and the next one goes on


def solve(
    system: System,
    method: Any,
    q0: Any,
    v0: Any,
    *,
    dt: float,
    num_steps: int,
    params: Any = None,
    t0: float = 0.0,
    max_impacts: int | None = None,
    stride: int = 1,
    progress: bool | None = None,
    throw: bool = True,
    name: str = "run",
    shape: Callable[..., Any] | None = None,
) -> Solution:
    """Simulate `system` with `method` from (q0, v0) over `num_steps` steps of length `dt`.

    - `params`: a dict (or any tree) of numbers, handed to the functions of the system.
    - `max_impacts`: stop after the step in which this many impacts have happened.
    - `stride`: keep every `stride`-th state of the grid (all impacts are kept): long runs in little memory.
    - `progress`: a bar on stderr; by default when that is a terminal and the run takes longer than a second.
    - `throw`: raise `carom.SolveError` (with `.solution`, up to there) when the run fails; otherwise look at `.status`.
    - `name`, `shape`: what plots, animations and reports call the run, and what they draw (see `carom.drawing`).
    """
    step, total = check_grid(dt, num_steps)
    problem = check_problem(system, q0, v0, params, t0)
    if stride < 1:
        raise InputError(f"stride must be a positive whole number; got {stride}")
    most = np.iinfo(np.int32).max if max_impacts is None else int(max_impacts)
    length = min(LONGEST_CHUNK, max(256, 1 << (total - 1).bit_length()))

    def advance(state: State, first: int, limit: int, most: int) -> Chunk:
        rows = ROWS + getattr(method, "max_impacts_per_step", 0)
        first_, limit_, most_ = (jnp.asarray(i, jnp.int32) for i in (first, limit, most))
        return _chunk(method, system, problem.params, state, jnp.asarray(step), first_, limit_, most_, length, rows)

    state = State(problem.t0, problem.q0, problem.p0)
    before = _traces[0]
    clock = time.perf_counter()
    jax.block_until_ready(advance(state, 0, 0, most))  # nothing is done here but compiling
    compile_seconds = time.perf_counter() - clock if _traces[0] > before else 0.0

    clock = time.perf_counter()
    states: list[np.ndarray] = []
    tables, done, code, interrupted = [], 0, OK, False
    with _Bar(total, most if max_impacts is not None else None, progress) as bar:
        while done < total and code == OK and sum(map(_rows, tables)) < most:
            try:
                chunk = advance(state, done, min(length, total - done), most - sum(map(_rows, tables)))
                steps, code = int(chunk.steps), int(chunk.status)
            except KeyboardInterrupt:
                interrupted = True
                break
            hits = int(chunk.num_impacts)
            kept = slice(-(done + 1) % stride, steps, stride)  # the states after steps stride, 2·stride, …
            states.append(np.asarray(chunk.states)[kept] if stride == 1 else np.asarray(chunk.states)[kept].copy())
            tables.append(jax.tree.map(lambda x, hits=hits: np.asarray(x)[:hits], chunk.impacts))
            state = State(problem.t0, chunk.state.q, chunk.state.p)
            done += steps
            bar.update(done, sum(map(_rows, tables)))
    seconds = time.perf_counter() - clock

    impacts = Impacts.from_tables(tables, problem.q0.size, problem.owner, problem.contact_names)
    status = _status(code, done, step, problem, impacts, method, max_impacts, interrupted)
    n = problem.q0.size
    grid = np.concatenate([np.concatenate([problem.q0, problem.p0])[None], *states])
    solution = Solution(
        t=float(problem.t0) + step * stride * np.arange(done // stride + 1),
        q=grid[:, :n],
        p=grid[:, n:],
        dt=step,
        impacts=impacts,
        status=status,
        system=system,
        method=method,
        params=problem.params,
        seconds=seconds,
        compile_seconds=compile_seconds,
        steps=done,
        name=name,
        shape=shape,
    )
    if throw and not status.ok:
        raise SolveError(f"{status.message}. What was computed before is in .solution of this error", solution)
    return solution


_traces = [0]  # how often `_chunk` was traced: tells a compilation from a cached call


@eqx.filter_jit
def _chunk(method, system, params, state, dt, first, limit, most, length, rows):
    _traces[0] += 1
    return method.advance(system, params, state, dt, first, limit, length, rows, most, kernel=True)


def _rows(table: Any) -> int:
    return len(table.t)


def _status(code, done, step, problem: Problem, impacts: Impacts, method, max_impacts, interrupted) -> Status:
    t = float(problem.t0) + done * step
    if interrupted:
        return Status("interrupted", f"interrupted at step {done} (t = {t:.9g})", True, done, t)
    if code != OK:
        where = f"; last impact at t = {impacts.t[-1]:.9g} on {impacts.names[impacts.contact[-1]]!r}" if len(impacts) else ""
        return describe(code, done, t, impacts, method, where)
    if max_impacts is not None and len(impacts) >= max_impacts:
        return Status("impacts_reached", f"{len(impacts)} impacts reached at step {done} (t = {t:.9g})", True, done, t)
    return Status("ok", f"{done} steps taken to t = {t:.9g}", True, done, t)


class _Bar:
    """A progress bar that appears only when a person is watching a run that takes longer than a second."""

    def __init__(self, total: int, impacts: int | None, wanted: bool | None):
        self.total, self.impacts = total, impacts
        self.wanted = sys.stderr.isatty() if wanted is None else wanted
        self.patience = 1.0 if wanted is None else 0.0
        self.clock = time.perf_counter()
        self.bar: Any = None

    def __enter__(self) -> "_Bar":
        return self

    def update(self, done: int, impacts: int) -> None:
        if not self.wanted or (self.bar is None and time.perf_counter() - self.clock < self.patience):
            return
        if self.bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeRemainingColumn())
            self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self.bar.start()
            self.task = self.bar.add_task("stepping", total=1.0)
        share = done / self.total if self.impacts is None else max(done / self.total, impacts / self.impacts)
        self.bar.update(self.task, completed=share, description=f"step {done:,}  {impacts:,} impacts")

    def __exit__(self, *_: Any) -> None:
        if self.bar is not None:
            self.bar.stop()
