"""How the solution about a point changes with λ, followed through its folds.

About a fixed x̄ the solutions of (16) form a curve (x, ℓ), λ = exp ℓ, made of pieces on which contacts keep their states. Where λ
is large there is one, near x̄; where λ vanishes stands a solution of the problem itself. Near rest neither proximal points nor
Newton's method with a small λ come there: states change all along the way, and there are folds, at which λ has to grow for a
while. With J = C + EÂ of (17) the curve goes to smaller λ where det J > 0 and to larger λ where det J < 0,

    J b = −λE(x − x̄),     (dx, dℓ) = −sign(det J) (b, 1)                                                                 (21)

and corrections stay on a plane across this. At a corner, between two pieces, the curve may turn by more than a right angle; so
where steps have become short the plane is that of the piece beyond.
"""

import math
from dataclasses import dataclass

import numpy as np

from carom.numerics.friction.compiled.block_gradient import rate, residual
from carom.numerics.friction.compiled.block_newton import Linearised, _multiply, natural_map, ordered
from carom.numerics.friction.compiled.block_problem import BlockProblem

EPSILON, REFINEMENTS = 1e-10, 3
BEGIN = 20  #           steps of Newton at most, to the first solution,
TURNS, STRONGER = 4, 10.0  # and where they do not end λ is larger
START, LIMITS = 0.5, (1e-9, 2.0)  #  the length of steps: the first, and what it stays within
LONGER, SHORTER = ((1, 3.0), (4, 1.5), (8, 0.8)), 0.2  #  times this after so many corrections, and where they do not come back
SHORT = 0.02  #         a step that may be at a corner
CORRECTIONS = 7
NEAR, FIRST = 1e-2, 1e-3  # ‖F‖ beside λ‖x − x̄‖: what is left of the problem is the second
LOST = 30.0  #          times ‖F‖ in the first correction
LEAPS = 5.0  #          of ℓ, in corrections
AWAY, END = 20.0, 1e-12  # of λ: beside the first, and what it does not go below


@dataclass(frozen=True, eq=False)
class _Point:
    """Of the curve, or near it."""

    problem: BlockProblem
    centre: np.ndarray
    x: np.ndarray
    log: float

    def __post_init__(self) -> None:
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        put("strength", math.exp(self.log))
        put("rate", rate(self.problem, self.x))
        put("shifted", self.rate + self.strength * (self.x - self.centre))
        F, points, size = natural_map(self.problem, self.x, self.shifted, 1.0)
        put("F", F)
        put("points", points)
        put("size", size)

    def near(self, part: float) -> bool:
        return self.size <= part * self.strength * float(np.linalg.norm(self.x - self.centre))

    def certificate(self) -> float:
        return residual(self.problem, self.x, self.rate)

    def linearised(self) -> Linearised | None:
        return Linearised.at(self.problem, self.points, self.shifted, 1.0, self.strength, EPSILON)

    def along(self, there: Linearised) -> np.ndarray | None:
        """b of (21)."""
        return there.solve(-_multiply(there.E, self.strength * (self.x - self.centre)), REFINEMENTS)

    def ordered(self) -> "_Point":
        """With bodies in the order for the contacts that act here: far from where the curve begins these are others."""
        return _Point(ordered(self.problem, self.points), self.centre, self.x, self.log)

    def moved(self, dx: np.ndarray, dl: float) -> "_Point":
        return _Point(self.problem, self.centre, self.x + dx, self.log + dl)


def follow(problem: BlockProblem, centre: np.ndarray, tolerance: float, first: float, most: int) -> tuple[np.ndarray, float, int]:
    """From λ = `first`, or a larger one, to a certificate within the tolerance, or the best with so many factorisations; that, and
    how many."""
    begin = _Point(problem, centre, centre, 0.0)
    best, least = centre, begin.certificate()
    problem = ordered(problem, begin.points)
    point, taken = None, 0
    for turn in range(TURNS):
        point, more = _begun(_Point(problem, centre, centre, math.log(first * STRONGER**turn)))
        taken += more
        if point is not None:
            break
    if point is None:
        return best, least, taken
    length, away = START, AWAY * point.strength
    while END < point.strength < away:
        if (now := point.certificate()) < least:
            best, least = point.x, now
        if least <= tolerance or taken >= most:
            break
        point = point.ordered()
        there = point.linearised()
        taken += 1
        way = None if there is None else _tangent(there, point.along(there))
        if way is None:
            break
        point, length, more = _step(point, way, length, most - taken)
        taken += more
        if point is None:
            break
    return best, least, taken


def _begun(point: _Point) -> tuple[_Point | None, int]:
    """The first solution, by Newton's method from x̄, and its steps."""
    for taken in range(BEGIN):
        if taken and point.near(FIRST):
            return point, taken
        if (there := point.linearised()) is None or (dx := there.solve(-point.F, REFINEMENTS)) is None:
            return None, taken
        point = point.moved(dx, 0.0)
    return None, BEGIN


def _tangent(there: Linearised, b: np.ndarray | None) -> tuple[np.ndarray, float] | None:
    """(21), of length one."""
    if b is None:
        return None
    scale = -there.sign() / math.sqrt(float(np.sum(b * b)) + 1)
    return scale * b, scale


def _step(point: _Point, way: tuple[np.ndarray, float], length: float, most: int) -> tuple[_Point | None, float, int]:
    """The next point, the length to try next and the factorisations; None where none is found."""
    taken = 0
    while length > LIMITS[0] and taken < most:
        found, corrections = _corrected(point.moved(length * way[0], length * way[1]), way, length < SHORT)
        taken += corrections
        if found is not None:
            factor = next(times for upto, times in LONGER if corrections <= upto)
            return found, min(LIMITS[1], factor * length), taken
        length *= SHORTER
    return None, length, taken


def _corrected(point: _Point, way: tuple[np.ndarray, float], short: bool) -> tuple[_Point | None, int]:
    """The point of the curve on the plane across that way; where the step is short, across the way at the point where it ends."""
    begin, bound = point.log, LOST * point.size
    for taken in range(CORRECTIONS + 1):
        if point.near(NEAR):
            return point, taken
        if taken == CORRECTIONS or not point.size <= bound or (there := point.linearised()) is None:
            break
        back, b = there.solve(-point.F, REFINEMENTS), point.along(there)
        if back is None or b is None:
            break
        if short and taken == 0:
            way = _tangent(there, b)
        dl = -float(np.sum(way[0] * back)) / (float(np.sum(way[0] * b)) + way[1])
        point = point.moved(back + dl * b, dl)
        if not abs(point.log - begin) < LEAPS:
            break
    return None, taken + 1
