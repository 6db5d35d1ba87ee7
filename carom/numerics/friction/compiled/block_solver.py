"""The driver: first order, then proximal points with Newton's method inside, until the certificate is met.

Impulses of a heap are not unique, and Newton's method on F goes along those that move nothing until contacts leave their cones.
About a point x̄ the problem (16) is regular: Newton's method solves it in a few steps, its solution is the next x̄, and with λ → 0
the points come to a solution of the problem itself [rockafellar1976]. λ falls after a point that was found and rises after one
that was not. Of 78 problems of a hundred settling balls and boxes, from 300 iterations of (12), steps held as in (14) solve 52
(boxes: half of them), proximal points 74 in the first turn and 77 in the second.
"""

import math
from dataclasses import dataclass

import numpy as np

from carom.numerics.friction.compiled import block_factors as factors
from carom.numerics.friction.compiled.block_folds import follow
from carom.numerics.friction.compiled.block_gradient import projected_gradient, rate, residual
from carom.numerics.friction.compiled.block_newton import natural_map, newton_step, ordered
from carom.numerics.friction.compiled.block_path import interior_path
from carom.numerics.friction.compiled.block_problem import BILATERAL, BlockProblem


@dataclass(frozen=True)
class Path:
    """How λ goes."""

    first: float
    fall: float  #   after a point that was found
    rise: float  #   and after one that was not
    steps: int  #    of Newton, for a point
    points: int


@dataclass(frozen=True)
class Inside:
    """Instead of iterations of (12): from places of a path through the inside of the cones. Each height is another path."""

    height: float  #  of all contacts, where it begins
    points: Path


@dataclass(frozen=True)
class Folds:
    """Instead of all these: the curve of solutions about the best that was found, with λ, through its folds."""

    below: float  #  a certificate
    most: int  #     factorisations


TURNS = (  #          iterations of (12), and the points after them
    (0, Path(1e-3, 0.1, 10.0, 6, 2)),  # from the impulses of the step before: where contacts keep their states this is all
    (300, Path(0.1, 0.3, 4.0, 8, 100)),
    Folds(1e-7, 150),  # of boxes most are here
    Inside(0.1, Path(0.1, 0.3, 10.0, 8, 25)),
    Folds(1e-4, 300),
    Inside(1.0, Path(0.1, 0.3, 10.0, 8, 25)),
    Folds(1e-4, 300),
    Inside(10.0, Path(0.1, 0.3, 10.0, 8, 25)),
    Folds(1e-4, 300),
    (1000, Path(1e-3, 0.1, 5.0, 12, 60)),
    (1000, Path(1e-2, 0.7, 3.0, 20, 100)),
    (3000, Path(0.1, 0.5, 4.0, 12, 100)),
)
SOME_TURNS = {
    "all": TURNS,
    "first": (TURNS[0], (300, Path(0.1, 0.3, 10.0, 8, 3))),  # what is left will be asked for again, island by island,
    "early": TURNS[:2],  #                                     or all of it, if it is not near enough,
    "late": TURNS[2:],  #                                      and then with these
}
GOALS = 3e-4, 0.3  #  the certificate at which proximal points are tried from such a path, and by how much it is less each time,
INNER = 400  #        and the factorisations that it may take
FINISH = 2e-8  #      a certificate from which folds go on sooner than the path
STRONG = 0.1  #       λ where the curve of solutions begins
NEAR = 1e-8  #        a certificate with which (12) stops: the rest is Newton's
ITERATION = 100.0  #  operations of (12) for each row, as long as those of a factorisation take
NEWTONS = 24  #       steps of Newton that (12) may cost
GETS_ON = 0.8  #      what is left of a certificate after a turn of (12) that is worth another
CHEAP = 3e4  #        operations of a factorisation for each row, beyond which no solution is made more exact than is asked for
IN_VAIN = 200  #      Newton steps of a turn: no problem that was solved took more than 160
LOST = 3, 30.0  #     steps of Newton after which a point is given up where ‖F‖ is so many times that at x̄,
AGAIN = 1.5, 0.5  #   times the λ of such a point is where it falls slowly, until that has been halved often enough,
SLOWLY = 0.8, 0.6  #  and how it falls then, and after a point that took more steps than half of what it may
FOUND = 0.1  #        of ‖F‖ at x̄: a point with less is the next x̄
FEW = 300  #          bodies, for which an order is found once and not for each point
LEAST, MOST = 1e-9, 10.0  # of λ
EXACT = 1e-4  #       of the tolerance: certificates above this are made less by some steps
LAST = Path(LEAST, 1.0, 10.0, 6, 1)  # with the least λ, since most solutions are exact then


@dataclass(frozen=True, eq=False)
class Reached:
    impulses: np.ndarray
    residual: float
    iterations: int


def solve_in_blocks(problem: BlockProblem, start: np.ndarray | None, tolerance: float, turns: str = "all") -> Reached:
    """Impulses with E ≤ tolerance, or the best that were found, from `start` (impulses of the step before, or None)."""
    best = ahead = np.zeros_like(problem.q) if start is None else problem.unknowns(start)
    least, iterations = residual(problem, best, rate(problem, best)), 0
    for turn in SOME_TURNS[turns]:
        if least <= tolerance:
            break
        if isinstance(turn, Folds):
            if least > turn.below:
                continue
            x, found, taken = follow(problem, best, tolerance, STRONG, turn.most)
        elif isinstance(turn, Inside):
            x, found, taken = _from_inside(problem, turn, tolerance)
        else:
            steps, path = turn
            if steps == 0 and start is None:
                continue
            if steps > 0:
                ahead, found, taken = _first_order(problem, ahead, tolerance, steps)
                iterations += taken
                if found < least:
                    best, least = ahead, found
            if least <= tolerance:
                break
            x, found, taken = _proximal_points(problem, ahead, tolerance, path)
        iterations += taken
        if found < least:
            best, least = x, found
    if iterations and EXACT * tolerance < least <= tolerance and _work(problem, best) <= CHEAP * problem.q.size:
        best, least, taken = _proximal_points(problem, best, EXACT * tolerance, LAST)
        iterations += taken
    return Reached(problem.impulses(best), least, iterations)


def _first_order(problem: BlockProblem, x: np.ndarray, tolerance: float, steps: int) -> tuple[np.ndarray, float, int]:
    """(12), and again for as long as it gets on and all of it costs less than a few Newton steps: in a packing of 10⁴ contacts one
    of these takes ten thousand million operations, and a thousand iterations a third of that."""
    x, found, taken = projected_gradient(problem, x, max(NEAR, tolerance), steps)
    room = 0.0
    while found > max(NEAR, tolerance):
        room = room or NEWTONS * _work(problem, x) / (ITERATION * problem.q.size)
        if taken >= room:
            break
        better, now, more = projected_gradient(problem, x, max(NEAR, tolerance), steps)
        taken += more
        slow, x, found = now > GETS_ON * found, better, now
        if slow:
            break
    return x, found, taken


def _from_inside(problem: BlockProblem, turn: Inside, tolerance: float) -> tuple[np.ndarray, float, int]:
    """Proximal points from some places of a path through the inside of the cones. In heaps near rest it knows which contacts
    carry; where contacts neither carry nor open x and y vanish like √τ, so that the end is Newton's."""
    best, least, taken, goal = np.zeros_like(problem.q), np.inf, 0, GOALS[0]
    for place in interior_path(problem, turn.height, INNER):
        taken += 1
        if (now := residual(problem, place.x, rate(problem, place.x))) >= goal:
            continue
        x, found, more = _proximal_points(problem, place.x, tolerance, turn.points)
        goal, taken = GOALS[1] * now, taken + more
        if found < least:
            best, least = x, found
        if least <= max(tolerance, FINISH):
            break
    return best, least, taken


def _work(problem: BlockProblem, x: np.ndarray) -> float:
    """Operations of a factorisation with the contacts that press."""
    n = problem.bodies
    pairs = problem.pair[(x[:, 0] > 0) | (problem.kind == BILATERAL)]
    pairs = pairs[np.all(pairs < n, axis=1)]
    start, _ = factors.structure(n, factors.order(pairs, n)[pairs].astype(np.int64))
    return factors.dense_tail(start, len(problem.dims[0]))[1]


def _proximal_points(problem: BlockProblem, x: np.ndarray, tolerance: float, path: Path) -> tuple[np.ndarray, float, int]:
    """Point after point from x; the best by its certificate, that, and the Newton steps taken. Where a point is missed, the next
    try is from the last that was found, which may have a larger certificate than the first, and λ falls more slowly near the λ that
    was too small. Points in a row go on as they went, with (12)'s β, as long as ‖F‖ falls from one to the next."""
    z = rate(problem, x)
    best, least = x, residual(problem, x, z)
    held, held_z = x, z
    strength, small, taken = path.first, 0.0, 0
    momentum, before = 1.0, np.inf
    for _ in range(path.points):
        if taken >= IN_VAIN:
            break
        centre, aim, begun, steps, found = x, np.inf, np.inf, 0, False
        for steps in range(path.steps + 1):
            shifted = z + strength * (x - centre)
            F, points, size = natural_map(problem, x, shifted, 1.0)
            if steps == 0:
                aim, begun = FOUND * size, size
                if problem.bodies > FEW or not taken:
                    problem = ordered(problem, points)
            found = size <= aim
            if found or (steps >= LOST[0] and size > LOST[1] / FOUND * aim):
                break
            dx = newton_step(problem, F, points, shifted, 1.0, strength)
            if dx is None:
                break
            taken += 1
            x = x + dx
            z = rate(problem, x)
            if (now := residual(problem, x, z)) < least:
                best, least = x, now
            if least <= tolerance:
                return best, least, taken
        if found:
            momentum, before = (momentum if begun <= before else 1.0), begun
            following = 0.5 * (1 + math.sqrt(1 + 4 * momentum**2))
            ahead, momentum = (momentum - 1) / following, following
            (x, z), (held, held_z) = (x + ahead * (x - held), z + ahead * (z - held_z)), (x, z)
            strength, small = _weaker(strength, small, path.fall if 2 * steps <= path.steps else max(path.fall, SLOWLY[1]))
        else:
            x, z, strength, small = held, held_z, path.rise * strength, AGAIN[0] * strength
            momentum, before = 1.0, np.inf
            if strength > MOST:
                break
    return best, least, taken


def _weaker(strength: float, small: float, fall: float) -> tuple[float, float]:
    """The next λ after a point that was found, and the λ below which the next falls slowly."""
    new = fall * strength
    if new >= small:
        return max(new, LEAST), small
    return max(new, min(SLOWLY[0] * strength, small), LEAST), AGAIN[1] * small
