"""The verb: check, run, keep."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from carom.calls import public
from carom.errors import InputError, SolveError
from carom.methods.capabilities import require
from carom.methods.method import Method, State
from carom.methods.stops import stops_of
from carom.named import renewed
from carom.results.solution import Solution
from carom.results.store import checksum
from carom.running.checkpoint import Checkpoint, identity
from carom.running.checks import check_problem, check_step, needs_of
from carom.running.chunked_run import Asked, March, Snapshot, expected
from carom.running.instants import time_grid
from carom.running.options import check_memory, check_options, check_stride
from carom.running.progress import Bar
from carom.running.tracing import checked_stops
from carom.system.system import System
from carom.wanted import Count, Flag


@public
def solve(
    system: System,
    method: Method,
    q0: Any,
    v0: Any = None,
    *,
    dt: Any,
    num_steps: int | None = None,
    params: Any = None,
    p0: Any = None,
    t0: float = 0.0,
    max_impacts: Count | None = None,
    stop: Any = None,
    stride: Count = 1,
    progress: Flag | None = None,
    throw: Flag = True,
    checkpoint: str | Path | None = None,
    every: Count | None = None,
    callback: Callable[[Snapshot], Any] | None = None,
    callback_every: Count | None = None,
    name: str = "run",
    shape: Callable[..., Any] | None = None,
) -> Solution:
    """Simulate `system` with `method` from (q0, v0) over `num_steps` steps of length `dt`.

    - `dt`: one length for all steps; or a list with the length of each (`num_steps` may be left out); or a function of t, where a
      step starts, and of its number `step`, by name. `solution.t` holds the instants.
    - `p0`: the initial momentum, instead of `v0`.
    - `params`: a dict (or any tree) of numbers, handed to the functions of the system.
    - `max_impacts`: stop after the step in which this many impacts have happened.
    - `stop`: a function of q, v, t, params (by name) whose zero ends the run, or a `carom.Stop`, or a list of them. The last
      state is that of the instant, located to rounding; `.status` is then "stopped" (and ok) and names the function and the time.
    - `stride`: keep every `stride`-th state of the grid (all impacts are kept): long runs in little memory.
    - `progress`: a bar on stderr; by default when that is a terminal and the run takes longer than a second.
    - `throw`: raise `carom.SolveError` (with `.solution`, up to there) when the run fails; otherwise look at `.status`.
    - `checkpoint`, `every`: write to this *.zarr every so many steps (by default once a minute). The same call goes on with a run
      that was killed, bit for bit, and returns one that is finished; with a larger `num_steps` a finished run goes on.
    - `callback`, `callback_every`: a function that is shown (step, t, q, p, num_impacts) every so many steps (by default when the
      loop returns to Python anyway); where it returns True the run ends, with the status "ended".
    - `name`, `shape`: what plots, animations and reports call the run, and what they draw (see `carom.drawing`).

    Ctrl-C ends the run after the chunk of steps that is being computed and keeps what there is; a second one at once.
    """
    check_options(method, stride, max_impacts, checkpoint, every, callback, callback_every)
    method = renewed(method)
    if not isinstance(name, str):
        raise InputError(f"name must be a text; got {name!r}")
    if shape is not None and not callable(shape):
        raise InputError(f"shape must be a function of any of q, t, params that returns the parts of a picture; got {shape!r}")
    grid = time_grid(dt, num_steps, t0)
    step, total = grid.step, grid.total
    check_stride(stride, total)
    stops_of(stop)
    verb = "solve" if checkpoint is None else "checkpoint"
    require(needs_of(system), method, verb)
    system = system if system.controller is None else system.on_grid(grid.lengths)
    asked = Asked(step, total, max_impacts, stride, (), callback, callback_every, grid.instants)
    expect = partial(expected, method, asked) if stop is None and checkpoint is None else None
    problem = check_problem(system, q0, v0, params, t0, p0, stop, shape, expect)
    system = problem.system
    stops = () if stop is None else checked_stops(stop, np.asarray(problem.q0), problem.params, problem.v0.size)
    require(problem.needs, method, verb)
    check_memory(total if max_impacts is None else 1, stride, problem.q0.size + problem.p0.size)
    check_step(system, method, problem.params, grid.longest)
    # By its class: equinox makes a module of a method that is bound to one, which takes as long as most of these checks.
    type(method).check(method, system, problem.params, State(problem.t0, problem.q0, problem.p0), grid.longest)
    disk, earlier = None, None
    if checkpoint is not None:
        lengths = step if grid.instants is None else checksum(grid.instants)
        numbers = {"dt": lengths, "num_steps": total, "max_impacts": max_impacts, "stride": stride, "every": every}
        who = identity(system, method, problem, stops, **numbers, callback_every=callback_every)
        disk = Checkpoint(checkpoint, every, who)
        earlier, whole = disk.finished(system=system, method=method, shape=shape)
        if earlier is not None and whole:
            return checked(earlier, throw)
    march = March(method, problem, asked._replace(stops=stops), disk, earlier)
    march.compile()
    interrupted = march.go(Bar(progress))

    solution = march.solution(name, shape, interrupted)
    if disk is not None:
        disk.release() if interrupted else disk.finish(solution)
    return checked(solution, throw)


def checked(solution: Solution, throw: bool) -> Solution:
    if throw and not solution.status.ok:
        raise SolveError(f"{solution.status.message}. What was computed before is in .solution of this error", solution)
    return solution
