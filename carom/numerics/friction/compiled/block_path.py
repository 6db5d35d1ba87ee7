"""Paths through the inside of the cones that are followed through their folds, in compiled blocks.

With R₀ = z + σ e₀ − y at a point (x₀, y₀) where x₀ ∘ y₀ = τ₀e₀, points (x, y, θ) with

    z + σ e₀ − y = θR₀,      x ∘ y = θτ₀e₀,      σ² = |y_T|² + (βθτ₀)²                                                   (19)

form a curve from θ = 1. The shift makes the problem non-monotone: near rest the curve turns back on its way, θ grows for a while,
and a method that asks for a smaller θ in each step ends there. The curve does not: with K = Â + SΘ² of (9) it goes to smaller θ
where det K > 0 and to larger θ where det K < 0, and it ends at θ = 0 or nowhere. Steps are tangents

    K b = SΘg + ∂(θR₀ − σe₀)/∂θ,   g = λ \\ τ₀e₀,      (dx, dy, dθ) = −sign(det K) (b, Θg − Θ²b, 1)                        (20)

and corrections stay on the plane across them, where K may vanish; both are a factorisation and two solutions. Lengths and
angles are those of Nesterov and Todd's scaling, (‖Θdx‖² + ‖Θ⁻¹dy‖²)/θτ₀ + (dθ/θ)². σ rounds the kink of |y_T| off where a contact
sticks, whose y is as small as θτ₀: there t may turn round at once, and no correction comes back.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from carom.numerics.friction.compiled import block_factors as factors
from carom.numerics.friction.compiled.block_gradient import product, rate
from carom.numerics.friction.compiled.block_interior import _longest, _matrices, _scalings, _slidings, _targets
from carom.numerics.friction.compiled.block_newton import BodyGraph, _multiply
from carom.numerics.friction.compiled.block_problem import BILATERAL, ROUGH, BlockProblem

FAR = 0.95  #          of the way along a tangent to the boundary of the cones, at most,
SHORTER = 0.4, 0.3  #  times this where corrections do not come back, and where the tangent there turns by more than a right angle:
SHARP = 2e-3  #        the point may be on another curve, or have jumped over a fold; below this the curve has a corner
LEAST = 1e-5  #        below this there is no way on
LONGER = ((1, 3.0), (2, 1.5), (4, 1.0), (7, 0.7))  # times this after so many corrections
BACK = 3.0  #          times θ, in one step
CORRECTIONS = 7
CENTRED, NEAR = 0.5, 0.1  # x ∘ y within so much of θτ₀, and the defect within so much of θ‖R₀‖: near enough to go on
INSIDE = 0.9  #        of the way to the boundary, in a correction,
MOVES = 1e-3  #        and one that moves less is the last
AWAY, END = 3.0, 1e-12  # of θ: the path goes to infinity, and nothing more is to be seen
BLUR = 3.0  #          β of (19)
FREE = 1e-12  #        on the diagonal of bilateral rows, where Â may be singular
FREE_HERE = 1e-7  #    and in what is factorised, where a smaller one costs places: corrections make up for it
REFINEMENTS = 4


@dataclass(frozen=True, eq=False)
class Motion:
    """A change of x, y and θ."""

    x: np.ndarray
    y: np.ndarray
    share: float

    def times(self, factor: float) -> "Motion":
        return Motion(factor * self.x, factor * self.y, factor * self.share)

    def plus(self, other: "Motion", factor: float) -> "Motion":
        return Motion(self.x + factor * other.x, self.y + factor * other.y, self.share + factor * other.share)


@dataclass(frozen=True, eq=False)
class Curve:
    """(19): the problem, R₀ and τ₀."""

    problem: BlockProblem
    defect: np.ndarray
    gap: float

    @classmethod
    def through(cls, problem: BlockProblem, x: np.ndarray, y: np.ndarray) -> "Curve":
        units = max(1, int(np.sum(problem.kind != BILATERAL)))
        gap = float(np.sum(x * y)) / units
        return cls(problem, defect(problem, x, y, BLUR * gap), gap)


@dataclass(frozen=True, eq=False)
class Place:
    """A point on the curve or near it, and what its linearisation needs."""

    curve: Curve
    x: np.ndarray
    y: np.ndarray
    share: float  # θ

    @cached_property
    def scaled(self) -> tuple[np.ndarray, ...]:
        """Θ, Θ⁻¹, Θ², λ, S and (SΘ² + γ)⁻¹."""
        problem = self.curve.problem
        return _scalings(self.x, self.y, problem.kind, problem.soft, FREE_HERE, self.blur, problem.dims[1])

    @property
    def blur(self) -> float:
        return BLUR * self.share * self.curve.gap

    @cached_property
    def graph(self) -> BodyGraph | None:
        return BodyGraph.of(self.curve.problem, self.scaled[5])

    @cached_property
    def rest(self) -> np.ndarray:
        """What is left of (19)."""
        return defect(self.curve.problem, self.x, self.y, self.blur) - self.share * self.curve.defect

    def near(self) -> bool:
        """Whether (19) holds nearly enough."""
        bound = NEAR * self.share * float(np.linalg.norm(self.curve.defect))
        if not float(np.linalg.norm(self.rest)) <= bound:
            return False
        point, gap = self.scaled[3], self.share * self.curve.gap
        along = np.sum(point**2, axis=1) - gap
        across = 4 * point[:, 0] ** 2 * np.sum(point[:, 1:] ** 2, axis=1)
        contact = self.curve.problem.kind != BILATERAL
        return bool(np.all(np.sqrt(along**2 + across)[contact] <= CENTRED * gap))

    def directions(self, corrected: bool) -> tuple[Motion | None, Motion]:
        """What leads back to (19) with θ as it is, where that is asked for, and how the curve changes with θ."""
        curve, (theta, _, squared, _, shear, _) = self.curve, self.scaled
        back = None
        if corrected:
            c = self._aimed(self.share * curve.gap)
            pushed = _multiply(theta, c)
            x = self._solve(_multiply(shear, pushed) - self.rest)
            back = Motion(x, pushed - _multiply(squared, x), 0.0)
        pushed = _multiply(theta, self._aimed(curve.gap) - self._aimed(0.0))
        grows, rough = curve.defect.copy(), curve.problem.kind == ROUGH
        sliding = _slidings(self.y, curve.problem.kind, self.blur, curve.problem.dims[1])
        grows[rough, 0] -= self.blur * BLUR * curve.gap / sliding[rough]
        x = self._solve(_multiply(shear, pushed) + grows)
        return back, Motion(x, pushed - _multiply(squared, x), 1.0)

    def _aimed(self, gap: float) -> np.ndarray:
        theta, inverse, _, point, _, _ = self.scaled
        problem, nothing = self.curve.problem, np.zeros_like(self.x)
        return _targets(theta, inverse, point, nothing, nothing, problem.kind, gap, problem.dims[1])

    def _solve(self, b: np.ndarray) -> np.ndarray:
        problem, (_, _, squared, _, shear, D) = self.curve.problem, self.scaled
        sheared = _matrices(shear, squared)
        sheared[problem.kind == BILATERAL, 0, 0] = FREE
        dx, rest, size = np.zeros_like(b), b, np.inf
        for _ in range(1 + REFINEMENTS):
            better = dx + self.graph.solve(D, _multiply(D, rest))
            rest = b - product(problem, better) - _multiply(sheared, better)
            new = float(np.linalg.norm(rest))
            if not new < size:
                break
            dx, size, slow = better, new, not new < 0.5 * size
            if slow:
                break
        return dx

    def inner(self, one: Motion, other: Motion) -> float:
        theta, inverse = self.scaled[:2]
        cones = np.sum(_multiply(theta, one.x) * _multiply(theta, other.x))
        cones += np.sum(_multiply(inverse, one.y) * _multiply(inverse, other.y))
        return float(cones) / (self.share * self.curve.gap) + one.share * other.share / self.share**2

    def reach(self, way: Motion) -> float:
        """How far the cones allow to go that way."""
        kind, R = self.curve.problem.kind, self.curve.problem.dims[1]
        return min(_longest(self.x, way.x, kind, R), _longest(self.y, way.y, kind, R))

    def moved(self, way: Motion, length: float) -> "Place":
        return Place(self.curve, self.x + length * way.x, self.y + length * way.y, self.share + length * way.share)


def interior_path(problem: BlockProblem, height: float, most: int) -> Iterator[Place]:
    """Places along the curve that begins at x = y = height · e₀, as long as it can be followed with so many factorisations."""
    rank = factors.order(problem.pair, problem.bodies)
    problem = replace(problem, pair=np.append(rank, problem.bodies)[problem.pair].astype(np.int64))
    x = np.zeros_like(problem.q)
    x[problem.kind != BILATERAL, 0] = height
    place, taken = Place(Curve.through(problem, x, x), x, x.copy(), 1.0), 0
    before, part, way = None, FAR, None
    while taken < most and END < place.share < AWAY:
        taken += 1
        if place.graph is None:
            return
        way = _tangent(place)
        if before is not None and _turns(before[0], before[1], way) and before[2] > SHARP:
            (place, way, part), before = before, None
            part *= SHORTER[1]
        else:
            yield place
        found, part, more = _along(place, way, part)
        taken += more
        if found is None:
            return
        before = place, way, found[1]
        place = found[0]


def _tangent(place: Place) -> Motion:
    """(20), of length one."""
    along = place.directions(False)[1]
    length = math.sqrt(place.inner(along, along))
    return along.times(-place.graph.sign() / length)


def _turns(place: Place, way: Motion, new: Motion) -> bool:
    return not place.inner(way, new) > 0


def _along(place: Place, way: Motion, part: float) -> tuple[tuple[Place, float] | None, float, int]:
    """The next place, with how much of the way was gone, how much to try next, and the factorisations."""
    most = place.reach(way)
    if way.share:
        most = min(most, place.share * (BACK if way.share > 0 else 1.0) / abs(way.share))
    taken = 0
    while math.isfinite(most) and part >= LEAST:
        found, corrections = _corrected(place, way, part * most)
        taken += corrections
        if found is not None:
            factor = next(times for upto, times in LONGER if corrections <= upto)
            return (found, part), min(FAR, factor * part), taken
        part *= SHORTER[0]
    return None, part, taken


def _corrected(base: Place, way: Motion, length: float) -> tuple[Place | None, int]:
    """The point of the curve on the plane across the tangent, at this length; None where corrections do not find it."""
    place = base.moved(way, length)
    for taken in range(CORRECTIONS + 1):
        if not place.share > 0:
            return None, taken
        if place.near():
            return place, taken
        if taken == CORRECTIONS or place.graph is None:
            break
        back, along = place.directions(True)
        step = back.plus(along, -base.inner(way, back) / base.inner(way, along))
        step_length = min(1.0, INSIDE * place.reach(step))
        if step.share < 0:
            step_length = min(step_length, INSIDE * place.share / -step.share)
        if not step_length > MOVES:
            return None, taken + 1
        place = place.moved(step, step_length)
    return None, taken


def defect(problem: BlockProblem, x: np.ndarray, y: np.ndarray, blur: float) -> np.ndarray:
    """z + |y_T| e₀ − y."""
    rest = rate(problem, x) - y
    rest[:, 0] += _slidings(y, problem.kind, blur, problem.dims[1])
    return rest
