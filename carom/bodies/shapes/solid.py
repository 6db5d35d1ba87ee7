"""The box, and how volume, centre and inertia of any solid bounded by triangles are found."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from carom.bodies.shapes.shape import Mass, Polytope, Shape, polytope, size
from carom.calls import public

CORNERS = np.array([[x, y, z] for z in (-0.5, 0.5) for y in (-0.5, 0.5) for x in (-0.5, 0.5)])
FACES = [(0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5)]
NORMALS = [(0, 0, -1), (0, 0, 1), (0, -1, 0), (0, 1, 0), (-1, 0, 0), (1, 0, 0)]
EDGES = [(i, j) for i in range(8) for j in range(i + 1, 8) if bin(i ^ j).count("1") == 1]


@public
@dataclass(frozen=True)
class Box(Shape):
    """A box with its centre at the origin; `x`, `y`, `z` are the full lengths of its sides."""

    x: float
    y: float
    z: float

    def __post_init__(self) -> None:
        for axis in "xyz":
            object.__setattr__(self, axis, size(getattr(self, axis), f"Box: the length {axis}"))

    @cached_property
    def mass(self) -> Mass:
        a, b, c = self.x**2, self.y**2, self.z**2
        volume = self.x * self.y * self.z
        return Mass(volume, np.zeros(3), volume / 12 * np.diag([b + c, a + c, a + b]))

    @cached_property
    def core(self) -> Polytope:
        return polytope(CORNERS * np.array([self.x, self.y, self.z]), FACES, NORMALS, EDGES)

    @property
    def reach(self) -> float:
        return 0.5 * float(np.sqrt(self.x**2 + self.y**2 + self.z**2))

    def support(self, direction: np.ndarray) -> np.ndarray:
        return 0.5 * np.array([self.x, self.y, self.z]) * np.where(direction >= 0, 1.0, -1.0)


def mass_of_triangles(points: np.ndarray, triangles: np.ndarray) -> Mass:
    """Volume, centre and inertia of what a closed surface bounds: exact sums over the tetrahedra from one inner point.

    The integral of x xᵀ over a tetrahedron with corners 0, a, b, c is |det|/120 (Σ xᵢxᵢᵀ + (Σxᵢ)(Σxᵢ)ᵀ), summed over a, b, c.
    """
    origin = points.mean(axis=0)  # near the solid: nothing cancels
    a, b, c = (points[triangles[:, k]] - origin for k in range(3))
    det = np.einsum("ij,ij->i", a, np.cross(b, c))
    volume = det.sum() / 6
    total = a + b + c
    center = np.einsum("i,ij->j", det, total) / 24 / volume
    squares = sum(np.einsum("i,ij,ik->jk", det, x, x) for x in (a, b, c, total)) / 120
    squares = squares - volume * np.outer(center, center)
    return Mass(float(volume), origin + center, np.trace(squares) * np.eye(3) - squares)
