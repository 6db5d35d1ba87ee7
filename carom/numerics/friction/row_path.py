"""The path (19) of `curve.py` in rows, for problems with W given or made of bodies."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from carom.numerics.friction import cones, curve
from carom.numerics.friction.curve import Motion
from carom.numerics.friction.interior import FREE, centre
from carom.numerics.friction.scaled import Factors, Groups, Scaled, Singular, join, multiply


@dataclass(frozen=True, eq=False)
class Curve:
    """(19): the problem, R₀, τ₀ and β."""

    scaled: Scaled
    defect: np.ndarray
    gap: float
    beta: float


@dataclass(frozen=True, eq=False)
class RowPlace(curve.Place):
    curve: Curve
    x: np.ndarray
    y: np.ndarray
    share: float

    @cached_property
    def scalings(self) -> list[cones.Scaling]:
        split = self.curve.scaled.split
        return [cones.scale(a, b) for a, b in zip(split(self.x)[:2], split(self.y)[:2], strict=True)]

    @cached_property
    def sliding(self) -> np.ndarray:
        """σ of (19)."""
        return _slidings(self.curve.scaled, self.y, self.curve.beta * self.share * self.curve.gap)

    @cached_property
    def shear(self) -> Groups:
        """S of (8), with σ for |y_T|."""
        tangential = self.curve.scaled.split(self.y)[0][:, 1:]
        rough, smooth, free = self.curve.scaled.counts
        shear = np.broadcast_to(np.eye(self.curve.scaled.columns), (rough, *(self.curve.scaled.columns,) * 2)).copy()
        shear[:, 0, 1:] -= tangential / self.sliding[:, None]
        return [shear, np.ones((smooth, 1, 1)), np.ones((free, 1, 1))]

    @cached_property
    def factors(self) -> Factors | None:
        free = FREE * np.ones((self.curve.scaled.counts[2], 1, 1))
        blocks = [s @ n.theta_squared for s, n in zip(self.shear[:2], self.scalings, strict=True)]
        try:
            return self.curve.scaled.factorise([*blocks, free], None)
        except (Singular, np.linalg.LinAlgError):
            return None

    @cached_property
    def rest(self) -> np.ndarray:
        """What is left of (19)."""
        return _defect(self.curve.scaled, self.x, self.y, self.sliding) - self.share * self.curve.defect

    def sign(self) -> float:
        return 0.0 if self.factors is None else self.factors.sign()

    def near(self) -> bool:
        bound = curve.NEAR * self.share * float(np.linalg.norm(self.curve.defect))
        if not float(np.linalg.norm(self.rest)) <= bound:
            return False
        return all(curve.is_centred(n.point, self.share * self.curve.gap) for n in self.scalings)

    def directions(self, corrected: bool) -> tuple[Motion | None, Motion]:
        gap = self.curve.gap
        back = self._direction(self._aimed(self.share * gap, 1.0), -self.rest, 0.0) if corrected else None
        grows = self.curve.defect.copy()
        self.curve.scaled.split(grows)[0][:, 0] -= (self.curve.beta * gap) ** 2 * self.share / self.sliding
        return back, self._direction(self._aimed(gap, 0.0), grows, 1.0)

    def _aimed(self, gap: float, less: float) -> Groups:
        """λ \\ (gap e₀ − less λ ∘ λ)."""
        aims = [-less * cones.product(n.point, n.point) for n in self.scalings]
        for aim in aims:
            aim[:, 0] += gap
        return [cones.divide(n.point, aim) for n, aim in zip(self.scalings, aims, strict=True)]

    def _direction(self, c: Groups, b: np.ndarray, share: float) -> Motion:
        pushed = [cones.apply(n.theta, part) for n, part in zip(self.scalings, c, strict=True)]
        none = np.zeros((self.curve.scaled.counts[2], 1))
        dx = self.factors.solve(multiply(self.shear, [*pushed, none]) + b)
        moved = self.curve.scaled.split(dx)[:2]
        dy = [a - cones.apply(n.theta_squared, part) for a, n, part in zip(pushed, self.scalings, moved, strict=True)]
        return Motion(dx, join([*dy, none]), share)

    def inner(self, one: Motion, other: Motion) -> float:
        split, total = self.curve.scaled.split, 0.0
        pairs = zip(self.scalings, split(one.x), split(other.x), split(one.y), split(other.y), strict=False)
        for n, a, b, c, d in pairs:  # bilateral rows, the last, have no scaling
            total += float(np.sum(cones.apply(n.theta, a) * cones.apply(n.theta, b)))
            total += float(np.sum(cones.apply(n.inverse, c) * cones.apply(n.inverse, d)))
        return total / (self.share * self.curve.gap) + one.share * other.share / self.share**2

    def reach(self, way: Motion) -> float:
        split = self.curve.scaled.split
        ends = ((self.x, way.x), (self.y, way.y))
        return min(cones.longest_step(a, d) for z, dz in ends for a, d in zip(split(z)[:2], split(dz)[:2], strict=True))

    def moved(self, way: Motion, length: float) -> "RowPlace":
        return RowPlace(self.curve, self.x + length * way.x, self.y + length * way.y, self.share + length * way.share)


def row_path(scaled: Scaled, height: float, beta: float, most: int) -> Iterator[RowPlace]:
    """Places along the curve that begins at x = y = height · e₀, as long as it can be followed with so many factorisations."""
    x, y = centre(scaled, height)
    gap = height**2
    begin = _defect(scaled, x, y, _slidings(scaled, y, beta * gap))
    return curve.follow(RowPlace(Curve(scaled, begin, gap, beta), x, y, 1.0), most)


def _slidings(scaled: Scaled, y: np.ndarray, blur: float) -> np.ndarray:
    tangential = scaled.split(y)[0][:, 1:]
    return np.sqrt(np.vecdot(tangential, tangential) + blur**2)


def _defect(scaled: Scaled, x: np.ndarray, y: np.ndarray, sliding: np.ndarray) -> np.ndarray:
    """z + σe₀ − y; y of the bilateral rows is zero."""
    rest = scaled.rate(x) - y
    scaled.split(rest)[0][:, 0] += sliding
    return rest
