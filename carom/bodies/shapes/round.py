"""Round solids: sphere, capsule, cylinder, ellipsoid."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from carom.bodies.shapes.shape import Mass, Polytope, Shape, polytope, size
from carom.calls import public


@public
@dataclass(frozen=True)
class Sphere(Shape):
    """A ball with its centre at the origin."""

    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", size(self.radius, "Sphere: the radius"))

    @cached_property
    def mass(self) -> Mass:
        volume = 4 / 3 * np.pi * self.radius**3
        return Mass(volume, np.zeros(3), 0.4 * volume * self.radius**2 * np.eye(3))

    @cached_property
    def core(self) -> Polytope:
        return polytope(np.zeros((1, 3)), edges=[(0, 0)], radius=self.radius)

    @property
    def reach(self) -> float:
        return self.radius

    def support(self, direction: np.ndarray) -> np.ndarray:
        return self.radius * direction / np.linalg.norm(direction)


@public
@dataclass(frozen=True)
class Capsule(Shape):
    """A cylinder with two half balls at its ends, along z: `length` is that of the cylinder between them."""

    radius: float
    length: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", size(self.radius, "Capsule: the radius"))
        object.__setattr__(self, "length", size(self.length, "Capsule: the length"))

    @cached_property
    def mass(self) -> Mass:
        r, d = self.radius, self.length
        rod, ball = np.pi * r**2 * d, 4 / 3 * np.pi * r**3
        along = 0.5 * rod * r**2 + 0.4 * ball * r**2
        # Two half balls whose centres of mass lie 3r/8 beyond the ends of the rod.
        across = rod * (r**2 / 4 + d**2 / 12) + ball * (0.4 * r**2 + d**2 / 4 + 3 / 8 * d * r)
        return Mass(rod + ball, np.zeros(3), np.diag([across, across, along]))

    @cached_property
    def core(self) -> Polytope:
        half = 0.5 * self.length
        return polytope([(0, 0, -half), (0, 0, half)], edges=[(0, 1)], radius=self.radius)

    @property
    def reach(self) -> float:
        return self.radius + 0.5 * self.length

    def support(self, direction: np.ndarray) -> np.ndarray:
        end = np.array([0.0, 0.0, np.copysign(0.5 * self.length, direction[2])])
        return end + self.radius * direction / np.linalg.norm(direction)


@public
@dataclass(frozen=True)
class Cylinder(Shape):
    """A cylinder along z with its centre at the origin."""

    radius: float
    length: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", size(self.radius, "Cylinder: the radius"))
        object.__setattr__(self, "length", size(self.length, "Cylinder: the length"))

    @cached_property
    def mass(self) -> Mass:
        r, d = self.radius, self.length
        volume = np.pi * r**2 * d
        across = volume * (r**2 / 4 + d**2 / 12)
        return Mass(volume, np.zeros(3), np.diag([across, across, 0.5 * volume * r**2]))

    @property
    def reach(self) -> float:
        return float(np.hypot(self.radius, 0.5 * self.length))

    def support(self, direction: np.ndarray) -> np.ndarray:
        across = np.hypot(direction[0], direction[1])
        rim = direction[:2] * (self.radius / across) if across > 0 else np.array([self.radius, 0.0])
        return np.array([rim[0], rim[1], np.copysign(0.5 * self.length, direction[2])])


@public
@dataclass(frozen=True)
class Ellipsoid(Shape):
    """An ellipsoid with the half axes `a`, `b`, `c` along x, y, z."""

    a: float
    b: float
    c: float

    def __post_init__(self) -> None:
        for axis in "abc":
            object.__setattr__(self, axis, size(getattr(self, axis), f"Ellipsoid: the half axis {axis}"))

    @property
    def axes(self) -> np.ndarray:
        return np.array([self.a, self.b, self.c])

    @cached_property
    def mass(self) -> Mass:
        squares = self.axes**2
        volume = 4 / 3 * np.pi * float(np.prod(self.axes))
        return Mass(volume, np.zeros(3), volume / 5 * np.diag(squares.sum() - squares))

    @property
    def reach(self) -> float:
        return float(np.max(self.axes))

    @property
    def inner(self) -> float:
        """The radius of the largest ball inside."""
        return float(np.min(self.axes))

    def support(self, direction: np.ndarray) -> np.ndarray:
        scaled = self.axes * direction
        return self.axes * scaled / np.linalg.norm(scaled)
