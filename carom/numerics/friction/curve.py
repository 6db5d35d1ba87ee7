"""A path through the inside of the cones, followed through its folds.

With R₀ = z + σ e₀ − y at a point (x₀, y₀) where x₀ ∘ y₀ = τ₀e₀, points (x, y, θ) with

    z + σ e₀ − y = θR₀,      x ∘ y = θτ₀e₀,      σ² = |y_T|² + (βθτ₀)²                                                   (19)

form a curve from θ = 1. The shift makes the problem non-monotone: near rest the curve turns back on its way, θ grows for a while,
and a method that asks for a smaller θ in each step ends there. The curve does not: with K = Â + SΘ² of (9) it goes to smaller θ
where det K > 0 and to larger θ where det K < 0, and it ends at θ = 0 or nowhere. Steps are tangents

    K b = SΘg + ∂(θR₀ − σe₀)/∂θ,   g = λ \\ τ₀e₀,      (dx, dy, dθ) = −sign(det K) (b, Θg − Θ²b, 1)                       (20)

and corrections stay on the plane across them, where K may vanish; both are a factorisation and two solutions. Lengths and
angles are those of Nesterov and Todd's scaling, (‖Θdx‖² + ‖Θ⁻¹dy‖²)/θτ₀ + (dθ/θ)². σ rounds the kink of |y_T| off where a contact
sticks, whose y is as small as θτ₀: there t may turn round at once, and no correction comes back.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np

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


class Place(ABC):
    """A point on the curve or near it, and what its linearisation needs."""

    x: np.ndarray
    y: np.ndarray
    share: float  # θ

    @abstractmethod
    def sign(self) -> float:
        """Of det K; zero where K could not be factorised."""

    @abstractmethod
    def near(self) -> bool:
        """Whether (19) holds nearly enough."""

    @abstractmethod
    def directions(self, corrected: bool) -> tuple[Motion | None, Motion]:
        """What leads back to (19) with θ as it is, where that is asked for, and how the curve changes with θ."""

    @abstractmethod
    def inner(self, one: Motion, other: Motion) -> float: ...

    @abstractmethod
    def reach(self, way: Motion) -> float:
        """How far the cones allow to go that way."""

    @abstractmethod
    def moved(self, way: Motion, length: float) -> Self: ...


P = TypeVar("P", bound=Place)


def is_centred(points: np.ndarray, gap: float) -> bool:
    """Whether λ ∘ λ of these contacts is near enough to gap · e₀."""
    along = np.sum(points**2, axis=1) - gap
    across = 4 * points[:, 0] ** 2 * np.sum(points[:, 1:] ** 2, axis=1)
    return bool(np.all(np.sqrt(along**2 + across) <= CENTRED * gap))


def follow(place: P, most: int) -> Iterator[P]:
    """Places along the curve from its beginning, as long as it can be followed with so many factorisations."""
    taken, before, part, way = 0, None, FAR, None
    while taken < most and END < place.share < AWAY:
        taken += 1
        if not place.sign():
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
    return along.times(-place.sign() / length)


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
        if taken == CORRECTIONS or not place.sign():
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
