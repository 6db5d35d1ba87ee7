"""A run that goes on: the same system and method from where it ended, and one solution of both parts."""

from typing import Any

import numpy as np

from carom.errors import InputError
from carom.results.solution import Solution
from carom.results.store import MethodRecord
from carom.running.checks import problem_of
from carom.running.chunked_run import Asked, March
from carom.running.instants import time_grid
from carom.running.options import check_method
from carom.running.progress import Bar
from carom.running.solve import checked
from carom.running.tracing import checked_stops
from carom.wanted import Flag


def extend(
    solution: Solution,
    num_steps: int | None = None,
    *,
    dt: Any = None,
    stop: object = None,
    throw: Flag = True,
    progress: Flag | None = None,
) -> Solution:
    """`solution` and `num_steps` more steps, as one run: what solve would have returned for all of them at once, bit for bit with
    methods that keep nothing from step to step. Time and the numbers of steps go on, and a controller keeps its memory. After a
    stop, the grid starts anew at its instant. `dt` gives steps of another length, or of several, as in `carom.solve`."""
    if isinstance(solution.method, MethodRecord):
        raise InputError(
            "a run from disk knows its numbers, and not the functions of its system, nor its method: hand them over, "
            "carom.load(path, system=…, method=…).extend(…)"
        )
    if dt is None and solution.uneven:
        raise InputError("this run has steps of different length: say how long the next ones are, dt=…")
    controller = solution.system.controller
    if dt is not None and controller is not None and controller.period is not None:
        raise InputError("a controller with a period goes on with the steps it has: leave dt out, or give it every= instead")
    grid = time_grid(solution.dt if dt is None else dt, num_steps, float(solution.t[-1]))
    more, instants = grid.total, None
    if dt is not None:  # counted from the start of the run; those before are known
        new = grid.instants if grid.instants is not None else solution.t[-1] + grid.step * np.arange(more + 1)
        instants = np.concatenate([np.full(solution.num_steps, np.nan), new])
    if not solution.status.ok:
        raise InputError(f"a run that failed has no end to go on from: {solution.status.message}")
    check_method(solution.method)
    stride = _stride(solution)
    if solution.status.name != "stopped" and (solution.num_steps - (solution.since or (0, 0))[0]) % stride:
        raise InputError(f"this run kept every {stride}-th step, and not its last: run it again for a multiple of {stride} steps")
    problem = problem_of(solution)
    stops = checked_stops(stop, solution.q[0], problem.params, solution.p.shape[1])
    asked = Asked(grid.step, solution.num_steps + more, stride=stride, stops=stops, instants=instants)
    march = March(solution.method, problem, asked, earlier=solution)
    march.compile()
    interrupted = march.go(Bar(progress))
    return checked(march.solution(solution.name, solution.shape, interrupted), throw)


def _stride(solution: Solution) -> int:
    if len(solution.t) == solution.num_steps + 1:
        return 1
    if solution.uneven:
        raise InputError("this run has steps of different length, and kept only some of them: run it again with stride=1")
    return max(1, int(np.round((solution.t[1] - solution.t[0]) / solution.dt)))
