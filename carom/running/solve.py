"""The verb: check, run, keep."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from carom.errors import SolveError
from carom.methods.capabilities import require
from carom.methods.method import Method, State
from carom.results.solution import Solution
from carom.running.checkpoint import Checkpoint, identity
from carom.running.checks import check_problem, check_step, needs_of
from carom.running.host_loop import March
from carom.running.options import check_grid, check_memory, check_options
from carom.running.progress import Bar
from carom.system.system import System


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
    march = March(system, method, problem, step, total, max_impacts, stride, disk)
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
