"""Shapes of the plane: disc, convex polygon, segment (which may be round). z is zero throughout."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from carom.bodies.shapes.shape import Mass, Polytope, Shape, numbers, polytope, size, vector
from carom.calls import public
from carom.errors import InputError


def _about_z(moment: float) -> np.ndarray:
    return np.diag([0.0, 0.0, moment])


@public
@dataclass(frozen=True)
class Disc(Shape):
    """A disc with its centre at the origin."""

    radius: float
    dim = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", size(self.radius, "Disc: the radius"))

    @cached_property
    def mass(self) -> Mass:
        area = np.pi * self.radius**2
        return Mass(area, np.zeros(3), _about_z(0.5 * area * self.radius**2))

    @cached_property
    def core(self) -> Polytope:
        return polytope(np.zeros((1, 3)), edges=[(0, 0)], radius=self.radius)

    @property
    def reach(self) -> float:
        return self.radius


@public
@dataclass(frozen=True, eq=False)
class Polygon(Shape):
    """A convex polygon through its corners [k, 2], in either order. `Polygon.box(x, y)` is a rectangle about the origin."""

    corners: Any
    dim = 2

    def __post_init__(self) -> None:
        corners = numbers(self.corners)
        if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) < 3 or not np.all(np.isfinite(corners)):
            raise InputError(f"Polygon: the corners must be finite numbers [k, 2], three at least; got shape {corners.shape}")
        area, extent = _area(corners), np.max(np.ptp(corners, axis=0))
        if abs(area) <= 1e-12 * extent**2:  # rounding
            raise InputError("Polygon: the corners lie on one line, so it has no area; use Segment for a thin body")
        corners = corners if area > 0 else corners[::-1]
        side = np.roll(corners, -1, axis=0) - corners
        turns = side[:, 0] * np.roll(side[:, 1], -1) - side[:, 1] * np.roll(side[:, 0], -1)
        if np.any(turns <= 1e-12 * extent**2) or not np.isclose(_winding(side), 2 * np.pi):
            where = int(np.argmin(turns)) + 1
            raise InputError(
                f"Polygon: the corners do not bound a convex polygon (near corner {where % len(corners)}). "
                "Give a body several convex shapes instead, and leave out corners that lie on a side"
            )
        object.__setattr__(self, "corners", corners)

    @classmethod
    def box(cls, x: float, y: float) -> "Polygon":
        x, y = 0.5 * size(x, "Polygon.box: the length x"), 0.5 * size(y, "Polygon.box: the length y")
        return cls([(-x, -y), (x, -y), (x, y), (-x, y)])

    @cached_property
    def mass(self) -> Mass:
        origin = self.corners.mean(axis=0)
        a = self.corners - origin
        b = np.roll(a, -1, axis=0)
        cross = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
        area = cross.sum() / 2
        center = (cross[:, None] * (a + b)).sum(axis=0) / (6 * area)
        moment = (cross * np.sum(a * a + a * b + b * b, axis=1)).sum() / 12 - area * (center @ center)
        return Mass(float(area), np.array([*(origin + center), 0.0]), _about_z(float(moment)))

    @cached_property
    def core(self) -> Polytope:
        k = len(self.corners)
        points = np.column_stack([self.corners, np.zeros(k)])
        sides = [(i, (i + 1) % k) for i in range(k)]
        along = points[[b for _, b in sides]] - points[[a for a, _ in sides]]
        normals = np.column_stack([along[:, 1], -along[:, 0], np.zeros(k)])
        return polytope(points, sides, normals / np.linalg.norm(normals, axis=1)[:, None], sides)

    @cached_property
    def reach(self) -> float:
        return float(np.max(np.linalg.norm(self.corners, axis=1)))


@public
@dataclass(frozen=True, eq=False)
class Segment(Shape):
    """A straight piece from a to b with a round rim: all points within `radius` of it."""

    a: Any
    b: Any
    radius: float
    dim = 2

    def __post_init__(self) -> None:
        a, b = vector(self.a, 2, "Segment: the end a"), vector(self.b, 2, "Segment: the end b")
        if np.array_equal(a, b):
            raise InputError("Segment: its ends are the same point; use Disc")
        object.__setattr__(self, "a", a)
        object.__setattr__(self, "b", b)
        object.__setattr__(self, "radius", size(self.radius, "Segment: the radius"))

    @cached_property
    def mass(self) -> Mass:
        r, d = self.radius, float(np.linalg.norm(self.b - self.a))
        rod, disc = 2 * r * d, np.pi * r**2
        # Two half discs whose centres of mass lie 4r/3π beyond the ends.
        moment = rod * (d**2 + 4 * r**2) / 12 + disc * (0.5 * r**2 + d**2 / 4 + 4 / (3 * np.pi) * d * r)
        return Mass(rod + disc, 0.5 * (self.a + self.b), _about_z(moment))

    @cached_property
    def core(self) -> Polytope:
        along = (self.b - self.a) / np.linalg.norm(self.b - self.a)
        across = np.array([along[1], -along[0], 0.0])
        return polytope([self.a, self.b], [(0, 1), (1, 0)], [across, -across], [(0, 1)], self.radius)

    @property
    def reach(self) -> float:
        return float(max(np.linalg.norm(self.a), np.linalg.norm(self.b)) + self.radius)


def _area(corners: np.ndarray) -> float:
    a, b = corners, np.roll(corners, -1, axis=0)
    return float(np.sum(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) / 2)


def _winding(side: np.ndarray) -> float:
    """The sum of the turns: 2π unless the outline winds more than once."""
    angle = np.arctan2(side[:, 1], side[:, 0])
    return float(np.sum((np.roll(angle, -1) - angle) % (2 * np.pi)))
