"""Shapes for what does not move by itself: half-space, plate, triangle mesh, height field. They are endless or hollow."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from carom.bodies.shapes.mesh_files import read_mesh
from carom.bodies.shapes.shape import Mass, Polytope, Shape, numbers, polytope, size, vector
from carom.calls import public
from carom.errors import InputError
from carom.wanted import Number


@public
@dataclass(frozen=True, eq=False)
class HalfSpace(Shape):
    """All points x with normal · x ≤ offset: a floor, a wall, an incline."""

    normal: Any = (0, 0, 1)
    offset: Number = 0.0

    fixed_only = True

    def __post_init__(self) -> None:
        normal = vector(self.normal, self.dim, f"{self._name()}: the normal")
        length = float(np.linalg.norm(normal))
        if length == 0:
            raise InputError(f"{self._name()}: the normal must not be zero")
        object.__setattr__(self, "normal", normal / length)

    @property
    def mass(self) -> Mass:
        raise InputError(f"a {self._name()} is endless and has no mass: use world.fix or world.prescribe")

    @property
    def reach(self) -> float:
        return np.inf


@public
class HalfPlane(HalfSpace):
    """All points x of the plane with normal · x ≤ offset. The normal points up if none is given."""

    dim = 2

    def __init__(self, normal: Any = (0, 1), offset: Number = 0.0):
        super().__init__(normal, offset)


@public
@dataclass(frozen=True, eq=False)
class Plate(Shape):
    """An endless plate of the given thickness whose middle plane holds the origin; bodies may be on either side."""

    normal: Any = (0, 0, 1)
    thickness: float = 0.01

    fixed_only = True

    def __post_init__(self) -> None:
        normal = vector(self.normal, 3, "Plate: the normal")
        if not np.any(normal):
            raise InputError("Plate: the normal must not be zero")
        object.__setattr__(self, "normal", normal / np.linalg.norm(normal))
        object.__setattr__(self, "thickness", size(self.thickness, "Plate: the thickness"))

    @property
    def mass(self) -> Mass:
        raise InputError("a Plate is endless and has no mass: use world.fix, or a Box")

    @property
    def reach(self) -> float:
        return np.inf


@public
@dataclass(frozen=True, eq=False)
class TriangleMesh(Shape):
    """A surface of triangles, met from either side: from points [k, 3] and triangles [m, 3], or from a file (.stl, .obj)."""

    points: Any
    triangles: Any = None
    _pieces: tuple[Polytope, ...] = field(init=False, repr=False)

    fixed_only = True

    def __post_init__(self) -> None:
        read = isinstance(self.points, (str, Path))
        points, triangles = read_mesh(self.points) if read else (numbers(self.points), _whole(self.triangles))
        if points.ndim != 2 or points.shape[1] != 3 or not np.all(np.isfinite(points)):
            raise InputError(f"TriangleMesh: the points must be finite numbers [k, 3]; got an array of shape {points.shape}")
        if triangles.ndim != 2 or triangles.shape[1] != 3 or triangles.dtype.kind not in "iu":
            raise InputError(
                f"TriangleMesh: triangles must be whole numbers [m, 3]; got {triangles.dtype} of shape {triangles.shape}"
            )
        if triangles.size == 0 or triangles.min() < 0 or triangles.max() >= len(points):
            raise InputError(f"TriangleMesh: the triangles name points that are not there; there are {len(points)}")
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "triangles", triangles)
        object.__setattr__(self, "_pieces", tuple(triangle(points[t], i) for i, t in enumerate(triangles)))

    @property
    def mass(self) -> Mass:
        raise InputError("a TriangleMesh is hollow and has no mass: use world.fix, or ConvexPolyhedron for a body that moves")

    @property
    def pieces(self) -> tuple[Polytope, ...]:
        return self._pieces

    @cached_property
    def reach(self) -> float:
        return float(np.max(np.linalg.norm(self.points, axis=1)))


def _whole(value: Any) -> np.ndarray:
    """An array, of whatever kind; an empty one where it is none."""
    try:
        return np.asarray(value)
    except ValueError:  # rows of different lengths
        return np.zeros(0)


def triangle(corners: np.ndarray, number: int) -> Polytope:
    """A flat polytope with two faces."""
    n = np.cross(corners[1] - corners[0], corners[2] - corners[0])
    length = np.linalg.norm(n)
    longest = max(np.linalg.norm(corners[k] - corners[k - 1]) for k in range(3))
    if length <= 1e-12 * longest**2:  # the sine of its angles: rounding
        raise InputError(f"TriangleMesh: triangle {number} has no area: its corners lie on one line")
    n = n / length
    return polytope(corners, [(0, 1, 2), (0, 2, 1)], [n, -n], [(0, 1), (1, 2), (0, 2)])


@public
@dataclass(frozen=True, eq=False)
class HeightField(Shape):
    """Ground whose heights [nx, ny] stand on a grid of the given spacing; the first one is at x = y = 0."""

    heights: Any
    spacing: float = 1.0
    mesh: TriangleMesh = field(init=False, repr=False)

    fixed_only = True

    def __post_init__(self) -> None:
        z = numbers(self.heights)
        if z.ndim != 2 or min(z.shape) < 2 or not np.all(np.isfinite(z)):
            raise InputError(
                f"HeightField: the heights must be finite numbers [nx, ny], two each way at least; got shape {z.shape}"
            )
        step = size(self.spacing, "HeightField: the spacing")
        nx, ny = z.shape
        i, j = np.meshgrid(np.arange(nx), np.arange(ny), indexing="ij")
        points = np.stack([step * i, step * j, z], axis=-1).reshape(-1, 3)
        corner = (i * ny + j)[:-1, :-1].ravel()
        below = np.stack([corner, corner + ny, corner + ny + 1], axis=1)
        above = np.stack([corner, corner + ny + 1, corner + 1], axis=1)
        object.__setattr__(self, "heights", z)
        object.__setattr__(self, "mesh", TriangleMesh(points, np.concatenate([below, above])))

    @property
    def mass(self) -> Mass:
        raise InputError("a HeightField is a surface and has no mass: use world.fix")

    @property
    def pieces(self) -> tuple[Polytope, ...]:
        return self.mesh.pieces

    @property
    def reach(self) -> float:
        return self.mesh.reach
