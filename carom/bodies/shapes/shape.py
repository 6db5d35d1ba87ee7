"""What every shape tells: its volume, centre and inertia, how far it reaches, and the polytope at its core if it has one."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from carom.bodies import quaternions
from carom.calls import floats, public, real
from carom.errors import InputError


@dataclass(frozen=True)
class Polytope:
    """The convex hull of points, swelled by a radius: a ball has one point, a capsule two, a box eight and no radius.

    In the plane all points have z = 0, `normals` are those of the sides, and `loops` their two ends.
    """

    points: np.ndarray  #      [V, 3]
    normals: np.ndarray  #     [F, 3]   outward
    loops: np.ndarray  #       [F, n]   the corners of each face in order, the last one repeated to fill the row
    edges: np.ndarray  #       [E, 2]   a lone point is an edge from itself to itself
    directions: np.ndarray  #  [D, 3]   of the edges, each direction once
    radius: float

    @property
    def signature(self) -> tuple[int, ...]:
        """Polytopes with the same signature are handled in one array."""
        return (len(self.points), *self.loops.shape, len(self.edges), len(self.directions))


def polytope(points: Any, loops: Any = (), normals: Any = (), edges: Any = (), radius: float = 0.0) -> Polytope:
    """A polytope from corners and faces (lists of corners of any length)."""
    points = np.asarray(points, float).reshape(-1, 3)
    widest = max((len(loop) for loop in loops), default=0)
    table = np.array([[*loop, *[loop[-1]] * (widest - len(loop))] for loop in loops], int).reshape(len(loops), widest)
    edges = np.asarray(edges, int).reshape(-1, 2)
    return Polytope(points, np.asarray(normals, float).reshape(-1, 3), table, edges, _directions(points, edges), float(radius))


def _directions(points: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The directions of edges, parallel ones once."""
    kept: list[np.ndarray] = []
    for a, b in edges:
        d = points[b] - points[a]
        length = np.linalg.norm(d)
        if length > 0 and all(np.linalg.norm(np.cross(d / length, k)) > 1e-12 for k in kept):  # parallel to rounding
            kept.append(d / length)
    return np.array(kept).reshape(-1, 3)


@dataclass(frozen=True)
class Mass:
    """A volume (an area in the plane), its centre, and its second moments about the centre, all for density 1."""

    volume: float
    center: np.ndarray  #   [3]
    inertia: np.ndarray  #  [3, 3]

    def placed(self, position: np.ndarray, R: np.ndarray) -> "Mass":
        return Mass(self.volume, position + R @ self.center, R @ self.inertia @ R.T)

    def scaled(self, density: float) -> "Mass":
        return Mass(density * self.volume, self.center, density * self.inertia)


def together(parts: list[Mass]) -> Mass:
    """The sum of several masses, about their common centre (Steiner)."""
    total = sum(part.volume for part in parts)
    center = sum(part.volume * part.center for part in parts) / total
    inertia = sum(part.inertia + part.volume * steiner(part.center - center) for part in parts)
    return Mass(float(total), np.asarray(center), np.asarray(inertia))


def steiner(d: np.ndarray) -> np.ndarray:
    """The inertia of a unit mass at d."""
    return (d @ d) * np.eye(3) - np.outer(d, d)


class Shape(ABC):
    """A shape in its own frame. Subclasses say what they are; sizes are checked when they are made."""

    dim = 3
    fixed_only = False  # an endless or hollow thing that can only belong to a fixed or prescribed body

    @property
    @abstractmethod
    def mass(self) -> Mass:
        """Volume, centre and second moments for density 1."""

    @property
    def core(self) -> Polytope | None:
        """The polytope that this shape is, or None for shapes known by their support function alone."""
        return None

    @property
    @abstractmethod
    def reach(self) -> float:
        """The largest distance from the origin of the shape to a point of it."""

    def support(self, direction: np.ndarray) -> np.ndarray:
        """The point of the shape that lies farthest in a direction [3]."""
        core = self.core
        if core is None:
            raise InputError(f"{self._name()} is endless or hollow: no point of it lies farthest in a direction")
        return core.points[np.argmax(core.points @ direction)] + core.radius * direction / np.linalg.norm(direction)

    @property
    def volume(self) -> float:
        return self.mass.volume

    def at(self, position: Any = None, orientation: Any = None) -> "Placed":
        """This shape somewhere else in its body: `Box(1, 1, 1).at((0, 0, 2))`, with a quaternion or (in the plane) an angle."""
        return Placed(self, position, orientation)

    def _name(self) -> str:
        return type(self).__name__


@public
@dataclass(frozen=True)
class Placed:
    """A shape with its place in the frame of the body."""

    shape: Shape
    position: Any = None
    orientation: Any = None
    where: np.ndarray = field(init=False, repr=False)  #  [3]
    turn: np.ndarray = field(init=False, repr=False)  #   [4]

    def __post_init__(self) -> None:
        if not isinstance(self.shape, Shape):
            raise InputError(f"Placed: the shape must be one of carom.shapes, such as Sphere(0.1); got {self.shape!r}")
        turn = quaternions.from_user(self.orientation, self.shape.dim)
        if turn is None:
            raise InputError(
                f"{self.shape._name()}.at: the orientation must be {said_orientation(self.shape.dim)}; got {self.orientation!r}"
            )
        place = vector(self.position, self.shape.dim, f"{self.shape._name()}.at: the position")
        object.__setattr__(self, "where", place)
        object.__setattr__(self, "turn", turn)

    @property
    def mass(self) -> Mass:
        return self.shape.mass.placed(self.where, quaternions.matrix(self.turn))


def said_orientation(dim: int) -> str:
    return "an angle" if dim == 2 else "a quaternion (w, x, y, z) or a rotation matrix"


def vector(value: Any, dim: int, what: str) -> np.ndarray:
    """Two or three finite numbers as a vector of space."""
    try:
        array = np.zeros(dim) if value is None else floats(value)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.shape != (dim,) or not np.all(np.isfinite(array)):
        raise InputError(f"{what} must be {dim} finite numbers; got {value!r}")
    return np.concatenate([array, np.zeros(3 - dim)])


def numbers(value: Any) -> np.ndarray:
    """An array of them; one that is not a number where it is something else."""
    try:
        return floats(value)
    except (TypeError, ValueError):
        return np.full((), np.nan)


def size(value: Any, what: str) -> float:
    """A positive, finite length."""
    try:
        number = real(value)
    except (TypeError, ValueError):
        number = np.nan
    if not (np.isfinite(number) and number > 0):
        raise InputError(f"{what} must be a positive number; got {value!r}")
    return number
