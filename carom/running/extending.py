"""A run that goes on: the same system and method from where it ended, and one solution of both parts."""

import numpy as np

from carom.errors import InputError
from carom.methods.stops import stops_of
from carom.named import frozen
from carom.results.solution import Solution
from carom.running.checks import problem_of
from carom.running.host_loop import Asked, March
from carom.running.options import check_method, whole
from carom.running.progress import Bar
from carom.running.solve import checked
from carom.running.tracing import check_stops


def extend(
    solution: Solution, num_steps: int, *, stop: object = None, throw: bool = True, progress: bool | None = None
) -> Solution:
    """`solution` and `num_steps` more steps, as one run: what solve would have returned for all of them at once, bit for bit with
    methods that keep nothing from step to step. Time and the numbers of steps go on, and a controller keeps its memory. After a
    stop, the grid starts anew at its instant."""
    more = whole(num_steps, "num_steps")
    if not solution.status.ok:
        raise InputError(f"a run that failed has no end to go on from: {solution.status.message}")
    check_method(solution.method)
    stride = _stride(solution)
    if solution.status.name != "stopped" and (solution.num_steps - (solution.since or (0, 0))[0]) % stride:
        raise InputError(f"this run kept every {stride}-th step, and not its last: run it again for a multiple of {stride} steps")
    problem = problem_of(solution)
    stops = frozen(stops_of(stop))
    check_stops(stops, solution.q[0], problem.params, solution.p.shape[1])
    asked = Asked(solution.dt, solution.num_steps + more, stride=stride, stops=stops)
    march = March(solution.method, problem, asked, earlier=solution)
    march.compile()
    interrupted = march.go(Bar(progress))
    return checked(march.solution(solution.name, solution.shape, interrupted), throw)


def _stride(solution: Solution) -> int:
    if len(solution.t) == solution.num_steps + 1:
        return 1
    return max(1, int(np.round((solution.t[1] - solution.t[0]) / solution.dt)))
