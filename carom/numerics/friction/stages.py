"""The driver: islands, stages one after the other until the certificate is met, and an answer that says how good it is."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from carom.numerics.friction.gradient import projected_gradient
from carom.numerics.friction.interior import centre, interior_point, lifted
from carom.numerics.friction.polish import leap, polish
from carom.numerics.friction.problem import FrictionProblem
from carom.numerics.friction.row_path import RowPlace, row_path
from carom.numerics.friction.scaled import Scaled, scale_problem

BUNCH = 60  #             rows: islands smaller than this are solved together, up to this size
NEAR = 1e-3  #            a certificate from which a polish is worth a try
SHORT_POLISH, FIRST_POLISH, LONG_POLISH = 4, 12, 120
SCHEDULE = (  #           paths through folds (height, β, factorisations); interior points from the centre, from above the best x,
    ((), (1.0, 0.1), (), (), 500),  #                                            from above the gradient stage; gradient steps
    (((10.0, 3.0, 300), (10.0, 10.0, 250), (30.0, 3.0, 250)), (0.01,), (1.0, 0.1), (0.1,), 2000),
    (((100.0, 3.0, 200), (10.0, 1.0, 200), (1.0, 3.0, 300)), (10.0,), (1.0, 0.01), (0.1, 0.01), 8000),
    ((), (), (1.0, 0.3, 0.03), (0.3, 0.03), 0),
)
PATIENCE = 20  #           interior-point iterations that do not improve the certificate
WEIGHTS = (1.0, 1e2, 1e4, 1e-2)  #  ρ of (10), for careful steps
LEAP_WEIGHTS = (1.0, 0.1, 10.0)  #  and for bold ones


@dataclass(frozen=True, eq=False)
class FrictionSolution:
    """Impulses r and velocities u = Wr + q, with the certificate E(r) that was computed from them at the end."""

    impulses: np.ndarray
    velocities: np.ndarray
    residual: float
    converged: bool  #   residual ≤ tolerance
    stage: str  #        the last stage that any island needed: open, start, interior, gradient, long
    iterations: int  #   of all stages and islands
    seconds: float


@dataclass(frozen=True, eq=False)
class _Found:
    x: np.ndarray
    residual: float
    stage: str
    iterations: int


STAGES = ("open", "start", "interior", "gradient", "long")


def solve_friction(
    problem: FrictionProblem, start: np.ndarray | None = None, tolerance: float = 1e-10, *, rounds: int = len(SCHEDULE)
) -> FrictionSolution:
    """Solve (2) until E ≤ tolerance; `start` are impulses near the solution, of the step before. A solution that misses the
    tolerance is the best that was found, with converged = False. The same problem gives the same answer. `rounds` is how much of
    the schedule is gone through before giving up: who has another way to go on need not wait for all of it."""
    begin = time.perf_counter()
    if start is not None and (np.shape(start) != problem.q.shape or not np.all(np.isfinite(start))):
        raise ValueError(f"start needs {len(problem.q)} finite impulses, one per row")
    r = np.zeros_like(problem.q)
    stage, iterations = "open", 0
    for rows in _bunches(problem):
        found = _solve_rows(problem, rows, start, tolerance, rounds)
        if found.residual > tolerance and len(rows) <= BUNCH:  # one island of many may be hard: each by itself
            parts = [rows[inner] for inner in problem.part(rows).islands()]
            alone = [_solve_rows(problem, part, start, tolerance, rounds) for part in parts] if len(parts) > 1 else [found]
        else:
            parts, alone = [rows], [found]
        for part, one in zip(parts, alone, strict=True):
            r[part] = one.x
            stage = max(stage, one.stage, key=STAGES.index)
            iterations += one.iterations
    residual = problem.residual(r)
    return FrictionSolution(
        r, problem.velocities(r), residual, residual <= tolerance, stage, iterations, time.perf_counter() - begin
    )


def _bunches(problem: FrictionProblem) -> Iterator[np.ndarray]:
    """Large islands one by one; small ones several at a time, since the work to set up a problem is theirs to share."""
    waiting: list[np.ndarray] = []
    for rows in problem.islands():
        if len(rows) + sum(map(len, waiting)) > BUNCH and waiting:
            yield np.sort(np.concatenate(waiting))
            waiting = []
        if len(rows) > BUNCH:
            yield rows
        else:
            waiting.append(rows)
    if waiting:
        yield np.sort(np.concatenate(waiting))


def _solve_rows(problem: FrictionProblem, rows: np.ndarray, start, tolerance: float, rounds: int) -> _Found:
    """The impulses of some islands, by the first stage that meets the tolerance, or by the best."""
    part = problem if len(rows) == len(problem.q) else problem.part(rows)
    nothing = np.zeros(len(rows))
    best = _Found(nothing, part.residual(nothing), "open", 0)
    if best.residual <= tolerance or len(rows) == 0:
        return best
    scaled = scale_problem(part)
    iterations = 0
    with np.errstate(all="ignore"):  # a stage that breaks down ends in a certificate that is not met
        for name, x, taken in _attempts(scaled, None if start is None else start[rows], tolerance / 2, rounds):
            iterations += taken
            residual = scaled.residual(x)
            if residual < best.residual:
                best = _Found(scaled.impulses(x), residual, name, 0)
            if residual <= tolerance:
                break
    return replace(best, iterations=iterations)


def _attempts(scaled: Scaled, start: np.ndarray | None, tolerance: float, rounds: int) -> Iterator[tuple[str, np.ndarray, int]]:
    """(stage, x, iterations), one after the other; the caller stops when one is good enough."""
    begin = np.zeros_like(scaled.q) if start is None else scaled.unknowns(start)
    yield "start", *leap(scaled, begin, tolerance)
    if start is not None:
        yield "start", *polish(scaled, scaled.unknowns(start), tolerance, max_steps=FIRST_POLISH)
    ahead = np.zeros_like(scaled.q)  # where the gradient stage is
    best = ahead
    for curves, centres, from_best, from_gradient, iterations in SCHEDULE[:rounds]:
        for height, beta, most in curves:
            best = yield from _curve(scaled, row_path(scaled, height, beta, most), best, tolerance)
        for height in centres:
            best = yield from _interior(scaled, centre(scaled, height), best, tolerance)
        for height in from_best:
            best = yield from _interior(scaled, lifted(scaled, best, height), best, tolerance)
        for height in from_gradient:
            best = yield from _interior(scaled, lifted(scaled, ahead, height), best, tolerance)
        ahead, taken = projected_gradient(scaled, ahead, tolerance, iterations)
        yield "gradient", ahead, taken
        yield from _polishes("gradient", scaled, ahead, tolerance, FIRST_POLISH)
    for x in (ahead, best) if rounds >= len(SCHEDULE) else ():
        yield from _polishes("long", scaled, x, tolerance, LONG_POLISH)


def _interior(scaled: Scaled, begin, best: np.ndarray, tolerance: float):
    """Interior-point iterations; whenever the certificate has become a hundredth, a polish tries to end them. The best x."""
    here, least, goal, since = best, np.inf, NEAR, 0
    for x, _ in interior_point(scaled, *begin):
        residual = scaled.residual(x)
        yield "interior", x, 1
        here, least, since = (x, residual, 0) if residual < least else (here, least, since + 1)
        if residual <= goal:
            goal = 1e-2 * residual
            yield "interior", *polish(scaled, x, tolerance, WEIGHTS[0], SHORT_POLISH)
        if since > PATIENCE:
            break
    yield from _polishes("interior", scaled, here, tolerance, FIRST_POLISH)
    return here if least < scaled.residual(best) else best


def _curve(scaled: Scaled, path: Iterator[RowPlace], best: np.ndarray, tolerance: float):
    """Places of a path; from some of them Newton's method tries to end it. The best x."""
    least, goal = scaled.residual(best), NEAR
    for place in path:
        residual = scaled.residual(place.x)
        yield "interior", place.x, 1
        best, least = (place.x, residual) if residual < least else (best, least)
        if residual <= goal:
            goal = 0.1 * residual
            yield "interior", *leap(scaled, place.x, tolerance)
    return best


def _polishes(name: str, scaled: Scaled, x: np.ndarray, tolerance: float, max_steps: int):
    """Newton's method from x, near a solution: boldly first, since in problems with contacts that neither carry nor open (there are
    many in piles) F must grow before it vanishes, and then with the weights that were found to help the careful one."""
    if scaled.residual(x) <= NEAR or max_steps > FIRST_POLISH:
        for weight in LEAP_WEIGHTS:
            yield name, *leap(scaled, x, tolerance, weight)
        for weight in WEIGHTS:
            yield name, *polish(scaled, x, tolerance, weight, max_steps)
