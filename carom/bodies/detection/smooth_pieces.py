"""One piece in space as the search for its contacts with smooth shapes sees it: a support function, how the surface bends, its
ridges (along which a normal may be met in many points) and its flat faces."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from carom.bodies.detection.geometry import Group, Placement, Single, rim_points, support_in_space
from carom.bodies.shapes.round import Cylinder, Ellipsoid

Support = Callable[[np.ndarray], np.ndarray]
Ridge = tuple[np.ndarray, np.ndarray, float]  # its unit direction, and a point of it but for so much along the normal

NEAR = 1e-2  # radians: a normal this close to being met by all of a ridge, or by a face, may be meant to be


@dataclass(frozen=True)
class SmoothPiece:
    """A piece that is smooth, or meets one that is."""

    support: Support
    middle: np.ndarray
    size: float
    faces: list[tuple[np.ndarray, np.ndarray | None]]  #  (outward normal, corners in order or None for a disc)
    disc: tuple[float, float] | None = None  #            radius and half length of a cylinder
    axis: np.ndarray | None = None  #                     of a cylinder
    line: np.ndarray | None = None  #                     [3, 3] of a cylinder or capsule: the ends of its axis; its radius, thrice
    points: np.ndarray | None = None  #                   [V, 3] of a polytope
    radius: float = 0.0  #                                by which it is swelled
    squares: np.ndarray | None = None  #                  [3, 3] of an ellipsoid: its support function is √nᵀSn

    def rims(self, n: np.ndarray) -> np.ndarray:
        """Points of a cylinder's rims [8, 3], first of each the one that is lowest along n; nothing of other shapes."""
        if self.disc is None or self.axis is None:
            return np.zeros((0, 3))
        return rim_points(self.middle, self.axis, *self.disc, n)

    def bend(self, n: np.ndarray) -> np.ndarray:
        """How the point that lies farthest along n moves with n: the second derivative of the support function [3, 3]."""
        if self.squares is not None:
            Sn = self.squares @ n
            height = np.sqrt(n @ Sn)
            return self.squares / height - np.outer(Sn, Sn) / height**3
        if self.disc is not None and self.axis is not None:
            across = n - (n @ self.axis) * self.axis
            length = np.linalg.norm(across)
            if length < 1e-12:  # upright to rounding: the face is met, not the rim
                return np.zeros((3, 3))
            down = across / length
            return self.disc[0] / length * (np.eye(3) - np.outer(self.axis, self.axis) - np.outer(down, down))
        return self.radius * (np.eye(3) - np.outer(n, n))

    def ridges(self, n: np.ndarray) -> list[Ridge]:
        """The edges of a polytope, and the side of a cylinder, that are nearly at right angles to n where they are met."""
        if self.disc is not None and self.axis is not None:
            return [(self.axis, self.middle, self.disc[0])] if abs(n @ self.axis) < NEAR else []
        if self.points is None or len(self.points) == 1:
            return []
        first = self.points[np.argmax(self.points @ n)]
        along = self.points - first
        length = np.linalg.norm(along, axis=1)
        beside = (length > 0) & (along @ n > -NEAR * length)
        return [(edge, first, self.radius) for edge in along[beside] / length[beside, None]]


def smooth_piece(placement: Placement, p: int) -> SmoothPiece:
    geometry = placement.geometry
    g, row = int(geometry.group_of[p]), int(geometry.row_of[p])
    if g >= 0:
        group: Group = placement.groups[g]
        points, radius = group.points[row], float(group.radius[row])
        faces = [] if radius else [(n, points[loop]) for n, loop in zip(group.normals[row], group.loops[row], strict=True)]
        line = np.array([*points, [radius] * 3]) if len(points) == 2 else None
        support = lambda d: points[int(np.argmax(points @ d))] + radius * d / np.linalg.norm(d)  # noqa: E731
        return SmoothPiece(support, points.mean(axis=0), float(group.size[row]), faces, line=line, points=points, radius=radius)
    single: Single = geometry.smooth[row]
    support = support_in_space(single, placement.x, placement.R)
    middle = placement.x[single.body] + placement.R[single.body] @ single.where
    turn = placement.R[single.body] @ single.turn
    if isinstance(single.shape, Ellipsoid):
        return SmoothPiece(support, middle, single.shape.reach, [], squares=turn * single.shape.axes**2 @ turn.T)
    if not isinstance(single.shape, Cylinder):
        return SmoothPiece(support, middle, single.shape.reach, [])
    axis = turn[:, 2]
    half, r = 0.5 * single.shape.length, single.shape.radius
    line = np.array([middle - half * axis, middle + half * axis, [r] * 3])
    return SmoothPiece(support, middle, single.shape.reach, [(axis, None), (-axis, None)], (r, half), axis, line)
