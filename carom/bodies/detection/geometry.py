"""The convex pieces of all bodies, in arrays of equal kind, and their place in space."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from carom.bodies import quaternions
from carom.bodies.once import once
from carom.bodies.shapes.fixed import HalfSpace, Plate
from carom.bodies.shapes.shape import Placed, Polytope, Shape


@dataclass(frozen=True)
class Group:
    """Polytopes with the same numbers of corners, faces and edges, in the frames of their bodies."""

    pieces: np.ndarray  #      [g]        their numbers among all pieces
    bodies: np.ndarray  #      [g]
    points: np.ndarray  #      [g, V, 3]
    normals: np.ndarray  #     [g, F, 3]
    directions: np.ndarray  #  [g, D, 3]
    loops: np.ndarray  #       [g, F, n]
    edges: np.ndarray  #       [g, E, 2]
    radius: np.ndarray  #      [g]
    size: np.ndarray  #        [g]        extent of the core: what rounding is relative to

    @once
    def bound(self) -> np.ndarray:
        """[g] how far each reaches from the centre of mass of its body."""
        return np.max(quaternions.lengths(self.points), axis=1) + self.radius

    @once
    def sharp(self) -> bool:
        """All of them have no radius."""
        return not self.radius.any()

    def corners(self, x: np.ndarray, R: np.ndarray) -> np.ndarray:
        """[g, V, 3] in space, for bodies at x [n, 3] with rotations R [n, 3, 3]."""
        return self.points @ R[self.bodies].swapaxes(-1, -2) + x[self.bodies][:, None]

    def placed(self, points: np.ndarray, R: np.ndarray) -> "Group":
        """In space, where its corners are known."""
        turn = R[self.bodies].swapaxes(-1, -2)
        kind = (self.loops, self.edges, self.radius, self.size)
        return Group(self.pieces, self.bodies, points, self.normals @ turn, self.directions @ turn, *kind)

    def take(self, rows: np.ndarray) -> "Group":
        """Some of them, by their numbers."""
        kind = (self.loops, self.edges, self.radius, self.size)
        arrays = (self.pieces, self.bodies, self.points, self.normals, self.directions, *kind)
        return Group(*(a.take(rows, 0) for a in arrays))


@dataclass(frozen=True)
class Single:
    """A piece that is not a polytope: a half-space, a plate, a cylinder, an ellipsoid."""

    piece: int
    body: int
    shape: Shape
    where: np.ndarray  #  [3]     its origin in the frame of the body
    turn: np.ndarray  #   [3, 3]

    @once
    def plane(self) -> tuple[np.ndarray, float]:
        """Of a half-space, the normal and the height of its surface in the frame of the body."""
        normal = self.turn @ self.shape.normal
        return normal, float(normal @ self.where + self.shape.offset)


@dataclass
class Geometry:
    """All pieces of all bodies. Walls (half-spaces, plates) are apart: they are near everything."""

    dim: int
    groups: list[Group] = field(default_factory=list)
    walls: list[Single] = field(default_factory=list)
    smooth: list[Single] = field(default_factory=list)
    owner: np.ndarray = field(default_factory=lambda: np.zeros(0, int))  #  [pieces] the body of each
    part: np.ndarray = field(default_factory=lambda: np.zeros(0, int))  #  [pieces] of which shape of its body
    group_of: np.ndarray = field(default_factory=lambda: np.zeros(0, int))  #  [pieces] −1: smooth, −2: wall
    row_of: np.ndarray = field(default_factory=lambda: np.zeros(0, int))  #  [pieces] its row in the group or list

    @once
    def finite(self) -> np.ndarray:
        """The pieces that are not walls."""
        return np.flatnonzero(self.group_of > -2)

    @once
    def bound(self) -> np.ndarray:
        """[pieces] how far each reaches from the centre of mass of its body."""
        bound = np.full(len(self.owner), np.inf)
        for group in self.groups:
            bound[group.pieces] = group.bound
        for single in self.smooth:
            bound[single.piece] = np.linalg.norm(single.where) + single.shape.reach
        return bound

    def couples(self, movable: np.ndarray, ignored: frozenset[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The pairs (i, j) of finite pieces that may ever touch, and how far apart their bodies are at most when they do; found
        once. For few pieces: there are as many as the square of their number."""
        known = self.__dict__.get("_couples")
        if known is None or known[0] is not movable or known[1] is not ignored:
            i, j = (self.finite[side] for side in np.triu_indices(len(self.finite), 1))
            a, b = self.owner[i], self.owner[j]
            good = (a != b) & (movable[a] | movable[b])
            if ignored:
                pairs = zip(np.minimum(a, b).tolist(), np.maximum(a, b).tolist(), strict=True)
                good &= np.array([pair not in ignored for pair in pairs], bool)
            i, j = i[good], j[good]
            known = self.__dict__["_couples"] = (movable, ignored, (i, j, self.bound[i] + self.bound[j]))
        return known[2]

    def over(self, wall: Single, group: int, movable: np.ndarray) -> np.ndarray:
        """Which pieces of a group may meet a wall; found once."""
        known = self.__dict__.setdefault("_over", {})
        if (wall.piece, group) not in known or known[wall.piece, group][0] is not movable:
            bodies = self.groups[group].bodies
            known[wall.piece, group] = (movable, (bodies != wall.body) & (movable[bodies] | movable[wall.body]))
        return known[wall.piece, group][1]


def build(dim: int, bodies: list[tuple[list[Placed], np.ndarray]]) -> Geometry:
    """The geometry of bodies, each given by its placed shapes and the centre of mass in the frame of the shapes."""
    geometry = Geometry(dim)
    buckets: dict[tuple[int, ...], list[tuple[int, int, Polytope]]] = {}
    owner: list[int] = []
    part: list[int] = []
    for body, (shapes, center) in enumerate(bodies):
        for number, placed in enumerate(shapes):
            R, where = quaternions.matrix(placed.turn), placed.where - center
            pieces = getattr(placed.shape, "pieces", None) or ([placed.shape.core] if placed.shape.core else [])
            for core in pieces:
                moved = _moved(core, where, R, dim)
                buckets.setdefault(moved.signature, []).append((len(owner), body, moved))
                owner.append(body)
            if not pieces:
                single = Single(len(owner), body, placed.shape, where, R)
                (geometry.walls if isinstance(placed.shape, (HalfSpace, Plate)) else geometry.smooth).append(single)
                owner.append(body)
            part += [number] * (len(owner) - len(part))
    geometry.owner, geometry.part = np.array(owner, int), np.array(part, int)
    geometry.groups = [_group(bucket) for bucket in buckets.values()]
    geometry.group_of, geometry.row_of = np.full(len(owner), -2), np.zeros(len(owner), int)
    for g, group in enumerate(geometry.groups):
        geometry.group_of[group.pieces], geometry.row_of[group.pieces] = g, np.arange(len(group.pieces))
    for kind, singles in ((-1, geometry.smooth), (-2, geometry.walls)):
        for row, single in enumerate(singles):
            geometry.group_of[single.piece], geometry.row_of[single.piece] = kind, row
    return geometry


def _moved(core: Polytope, where: np.ndarray, R: np.ndarray, dim: int) -> Polytope:
    directions = core.directions @ R.T if dim == 3 else np.zeros((0, 3))  # in the plane no edge crosses another
    return Polytope(core.points @ R.T + where, core.normals @ R.T, core.loops, core.edges, directions, core.radius)


def _group(bucket: list[tuple[int, int, Polytope]]) -> Group:
    pieces, bodies, cores = zip(*bucket, strict=True)
    stack = lambda name: np.array([getattr(core, name) for core in cores])  # noqa: E731
    points = stack("points")
    size = np.max(np.ptp(points, axis=1), axis=1) + stack("radius")
    arrays = (stack("normals"), stack("directions"), stack("loops"), stack("edges"), stack("radius"), size)
    return Group(np.array(pieces), np.array(bodies), points, *arrays)


@dataclass
class Placement:
    """All pieces in space at one moment, with a box around each."""

    geometry: Geometry
    x: np.ndarray  #      [n, 3]  centres of mass
    R: np.ndarray  #      [n, 3, 3]
    still: np.ndarray | None = None  # [n] which bodies never move

    @once
    def corners(self) -> list[np.ndarray]:
        """[g, V, 3] of each group."""
        return [group.corners(self.x, self.R) for group in self.geometry.groups]

    @once
    def groups(self) -> list[Group]:
        return [group.placed(points, self.R) for group, points in zip(self.geometry.groups, self.corners, strict=True)]

    @once
    def boxes(self) -> tuple[np.ndarray, np.ndarray]:
        """The lowest and the highest corner [pieces, 3]."""
        geometry = self.geometry
        low, high = np.full((len(geometry.owner), 3), -np.inf), np.full((len(geometry.owner), 3), np.inf)
        for group, points in zip(geometry.groups, self.corners, strict=True):
            low[group.pieces] = points.min(axis=1) - group.radius[:, None]
            high[group.pieces] = points.max(axis=1) + group.radius[:, None]
        for single in geometry.smooth:
            support = support_in_space(single, self.x, self.R)
            high[single.piece] = [support(axis)[k] for k, axis in enumerate(np.eye(3))]
            low[single.piece] = [support(-axis)[k] for k, axis in enumerate(np.eye(3))]
        return low, high


def place(geometry: Geometry, x: np.ndarray, R: np.ndarray, still: np.ndarray | None = None) -> Placement:
    return Placement(geometry, x, R, still)


def support_in_space(single: Single, x: np.ndarray, R: np.ndarray) -> Any:
    """The support function of a piece in space."""
    turn, origin = R[single.body] @ single.turn, x[single.body] + R[single.body] @ single.where
    return lambda direction: origin + turn @ single.shape.support(turn.T @ direction)


def rim_points(middle: np.ndarray, axis: np.ndarray, radius: float, half: float, n: np.ndarray) -> np.ndarray:
    """Of a cylinder, the lowest points of both rims along n, and three more on each: enough to stand on an end and to lie on the
    side. [8, 3]"""
    across = n - (n @ axis) * axis
    size = float(np.linalg.norm(across))
    if size <= 1e-12:  # upright to rounding: any direction is lowest
        across = np.eye(3)[np.argmin(np.abs(axis))]
        across = across - (across @ axis) * axis
        size = float(np.linalg.norm(across))
    down = -across / size
    side = quaternions.cross(axis, down)
    rim = radius * np.array([down, side, -down, -side])
    return np.concatenate([middle - half * axis + rim, middle + half * axis + rim])
