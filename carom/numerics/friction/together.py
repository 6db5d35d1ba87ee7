"""Large problems, with all contacts that are near: first order, then Newton's method.

Where hundreds of contacts may open, close, stick and slide, Newton's method from the step before takes as many iterations as there
are layers through which a change runs, each with a factorisation. A hundred iterations of (12) cost as much as a few of these and
leave less to change. (11) follows, with full steps, in which contacts that open have no share in the matrix, and with

    λ = min(10 ‖F‖, 0.1)                                                                                                 (14)

since impulses of a heap are not unique: with a small λ steps along those that move nothing are so long that contacts leave their
cones. So all islands at once. Those that this does not solve go, one by one, through more of (12) and along paths (9).
"""

import numpy as np

from carom.numerics.friction.gradient import projected_gradient
from carom.numerics.friction.interior import Iterate, centre, interior_point, lifted
from carom.numerics.friction.polish import leap
from carom.numerics.friction.problem import FrictionProblem
from carom.numerics.friction.scaled import Scaled, scale_problem

TURNS = (100, 300)  #                    iterations of (12), with Newton steps after each,
MORE, FILLED = (600, 1000), 500.0  #     and where `Bodies.work` is more: 100 cost as much as one such step of 1000 balls
NEAR = 1e-7  #                           a certificate with which (12) stops: the rest is Newton's
IN_VAIN = 6  #                           Newton steps without progress
SLOPE = 10.0  #                          λ of (11) over ‖F‖: with none a third of the problems of settling heaps are missed here
EXACT, FREE = 1e-4, 6  #                 of the tolerance: certificates above this are made less by so many more steps, at most
ABOVE, MIDDLE = (1e-3, 0.1, 1.0), 0.1  # heights of paths above what was found, and of one from the middle of the cones
GOAL, SMALLER = 1e-3, 0.1  #             a certificate at which Newton's method is tried on the way, and so much less for the next
MANY, LONG = 2000, 1000  #               rows of large problems; iterations of (12) that cost less than a path, tried before
PATIENCE, MOST = 8, 45  #                iterations of (9) that do not improve the certificate, and in all


def solve_together(problem: FrictionProblem, start: np.ndarray | None, tolerance: float) -> Iterate:
    """Impulses near the solution, and the iterations they took: E ≤ tolerance, unless some island is hard."""
    scaled = scale_problem(problem, in_blocks=True)
    best = ahead = np.zeros_like(scaled.q) if start is None else scaled.unknowns(start)
    least, iterations = scaled.residual(best), 0
    with np.errstate(all="ignore"):  # a step that breaks down ends in a certificate that is not met
        for steps in _turns(scaled) if least > tolerance else ():
            if least <= tolerance:
                break
            ahead, taken = projected_gradient(scaled, ahead, max(NEAR, tolerance), steps)  # goes on where it was, not from Newton's
            x, more = leap(scaled, ahead, tolerance, in_vain=IN_VAIN, slope=SLOPE)
            iterations += taken + more
            if (residual := scaled.residual(x)) < least:
                best, least = x, residual
        if iterations and EXACT * tolerance < least <= tolerance:  # steps that nothing holds make most solutions exact
            best = leap(scaled, best, EXACT * tolerance, max_steps=FREE).x
    return Iterate(scaled.impulses(best), iterations)


def _turns(scaled: Scaled) -> tuple[int, ...]:
    """In a heap the work of a Newton step grows faster than that of (12), in rows of columns it does not."""
    return MORE if len(scaled.q) > MANY and scaled.bodies is not None and scaled.bodies.work > FILLED else TURNS


def solve_hard(problem: FrictionProblem, start: np.ndarray, tolerance: float) -> Iterate:
    """The same for an island that is hard, by (9) from several places near the start."""
    scaled = scale_problem(problem, in_blocks=True)
    begin = best = scaled.unknowns(start)
    least, iterations = scaled.residual(best), 0
    with np.errstate(all="ignore"):
        for height in (LONG, *ABOVE, None):
            if height == LONG:
                begin, iterations = projected_gradient(scaled, begin, max(NEAR, tolerance), LONG)
                found = leap(scaled, begin, tolerance, slope=SLOPE)
            else:
                found = _path(scaled, centre(scaled, MIDDLE) if height is None else lifted(scaled, begin, height), tolerance)
            iterations += found.iterations
            if (residual := scaled.residual(found.x)) < least:
                best, least = found.x, residual
            if least <= tolerance:
                break
    return Iterate(scaled.impulses(best), iterations)


def _path(scaled: Scaled, begin: tuple[np.ndarray, np.ndarray], tolerance: float) -> Iterate:
    """(9) from x and y inside the cones, and Newton's method from places on the way."""
    here, least, goal, since, taken = begin[0], np.inf, GOAL, 0, 0
    for x, iteration in interior_point(scaled, *begin):
        residual = scaled.residual(x)
        taken += 1
        if residual < least:
            here, least, since = x, residual, iteration
        if residual <= goal:
            goal = SMALLER * residual
            tried = leap(scaled, x, tolerance, in_vain=IN_VAIN, slope=SLOPE)
            taken += tried.iterations
            if scaled.residual(tried.x) <= tolerance:
                return Iterate(tried.x, taken)
        if iteration >= MOST or iteration - since > PATIENCE:
            break
    tried = leap(scaled, here, tolerance, in_vain=IN_VAIN, slope=SLOPE)
    return Iterate(tried.x, taken + tried.iterations)
