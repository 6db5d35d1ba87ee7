"""Convex polyhedra, from points or from a mesh file."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from carom.bodies.shapes.mesh_files import read_mesh, refuse_open
from carom.bodies.shapes.shape import Mass, Polytope, Shape, numbers, polytope
from carom.bodies.shapes.solid import mass_of_triangles
from carom.calls import public
from carom.errors import InputError

FLAT = 1e-9  # relative to the extent: thinner hulls are refused, and facets closer to one plane are one face


@public
@dataclass(frozen=True, eq=False)
class ConvexPolyhedron(Shape):
    """The convex hull of points [k, 3], or of the points of a closed mesh file (.stl or .obj). Its frame is that of the points."""

    points: Any
    _core: Polytope = field(init=False, repr=False)
    _mass: Mass = field(init=False, repr=False)

    def __post_init__(self) -> None:
        points = self.points
        if isinstance(points, (str, Path)):
            points, triangles = read_mesh(points)
            refuse_open(points, triangles, self.points)
        core, mass = hull(points, "ConvexPolyhedron")
        object.__setattr__(self, "points", core.points)
        object.__setattr__(self, "_core", core)
        object.__setattr__(self, "_mass", mass)

    @property
    def mass(self) -> Mass:
        return self._mass

    @property
    def core(self) -> Polytope:
        return self._core

    @cached_property
    def reach(self) -> float:
        return float(np.max(np.linalg.norm(self.points, axis=1)))

    def support(self, direction: np.ndarray) -> np.ndarray:
        return self.points[int(np.argmax(self.points @ direction))]


def hull(points: Any, what: str) -> tuple[Polytope, Mass]:
    """The convex hull of points with its faces, edges, and mass; refused where it has no volume."""
    from scipy.spatial import ConvexHull, QhullError

    cloud = numbers(points)
    if cloud.ndim != 2 or cloud.shape[1] != 3 or not np.all(np.isfinite(cloud)):
        raise InputError(f"{what}: the points must be finite numbers [k, 3]; got an array of shape {cloud.shape}")
    middle = cloud.mean(axis=0) if len(cloud) else np.zeros(3)
    extent = float(np.max(np.abs(cloud - middle), initial=0.0))
    spread = np.linalg.svd(cloud - middle, compute_uv=False) if len(cloud) > 3 else np.zeros(3)
    if len(cloud) < 4 or spread[2] <= FLAT * spread[0] or spread[0] == 0:
        raise InputError(
            f"{what}: the {len(cloud)} points lie in one plane (or fewer dimensions), so their hull has no volume. "
            "Give at least four points that do not; for a thin sheet use a Box"
        )
    try:
        found = ConvexHull((cloud - middle) / extent)  # near the origin and of size 1: qhull's tolerances are absolute
    except QhullError as error:
        raise InputError(f"{what}: the hull of the {len(cloud)} points could not be built: {str(error).splitlines()[0]}") from error
    corners = cloud[found.vertices]
    number = np.full(len(cloud), -1)
    number[found.vertices] = np.arange(len(found.vertices))
    triangles = _outward(corners, number[found.simplices], found.equations[:, :3])
    loops, normals, edges = _faces(corners, triangles, found.equations)
    return polytope(corners, loops, normals, edges), mass_of_triangles(corners, triangles)


def _outward(points: np.ndarray, triangles: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """The triangles with their corners in the order that makes their normals point outwards."""
    a, b, c = (points[triangles[:, k]] for k in range(3))
    wrong = np.einsum("ij,ij->i", np.cross(b - a, c - a), normals) < 0
    return np.where(wrong[:, None], triangles[:, ::-1], triangles)


def _faces(
    points: np.ndarray, triangles: np.ndarray, planes: np.ndarray
) -> tuple[list[list[int]], np.ndarray, list[tuple[int, int]]]:
    """Triangles in one plane joined to polygons: their corners in order, their normals, and the edges between polygons."""
    groups: list[list[int]] = []
    for i, plane in enumerate(planes):
        mine = next((g for g in groups if np.max(np.abs(planes[g[0]] - plane)) < FLAT), None)
        if mine is None:
            groups.append([i])
        else:
            mine.append(i)
    loops, normals, edges = [], [], set()
    for group in groups:
        n = planes[group[0], :3] / np.linalg.norm(planes[group[0], :3])
        corners = np.unique(triangles[group])
        middle = points[corners].mean(axis=0)
        first = points[corners[0]] - middle
        second = np.cross(n, first)
        angle = np.arctan2((points[corners] - middle) @ second, (points[corners] - middle) @ first)
        loop = corners[np.argsort(angle)]
        loops.append(loop.tolist())
        normals.append(_newell(points[loop]))
        edges |= {(min(a, b), max(a, b)) for a, b in zip(loop.tolist(), np.roll(loop, -1).tolist(), strict=True)}
    return loops, np.array(normals), sorted(edges)


def _newell(loop: np.ndarray) -> np.ndarray:
    """The normal of a polygon, from the corners themselves: the hull's is good to 1e-15 of its scaled copy only."""
    n = np.cross(loop - loop[0], np.roll(loop, -1, axis=0) - loop[0]).sum(axis=0)
    return n / np.linalg.norm(n)
