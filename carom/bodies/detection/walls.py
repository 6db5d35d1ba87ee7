"""Half-spaces and plates against everything: the gap of a point is its height over the plane."""

from dataclasses import dataclass

import numpy as np

from carom.bodies.compiled import by_loops
from carom.bodies.detection.geometry import Placement, Single, rim_points, support_in_space
from carom.bodies.detection.manifold import GUARD, SAME
from carom.bodies.shapes.fixed import HalfSpace
from carom.bodies.shapes.round import Cylinder, Ellipsoid


@dataclass(frozen=True)
class WallPoints:
    """Points of other pieces over a wall."""

    piece: np.ndarray  #    [m]     of the other body
    feature: np.ndarray  #  [m]
    point: np.ndarray  #    [m, 3]  on the other body
    normal: np.ndarray  #   [m, 3]  out of the wall
    gap: np.ndarray  #      [m]


def over_wall(wall: Single, placement: Placement, movable: np.ndarray, margin: np.ndarray) -> WallPoints:
    """Points of all pieces whose gap is below the margin of their body [n], where one of the two can move."""
    geometry = placement.geometry
    found = []
    for number in range(len(geometry.groups)):
        points = _polytopes(wall, placement, number, movable, margin)
        if points is not None:
            found.append(points)
    for single in geometry.smooth:
        if single.body != wall.body and (movable[single.body] or movable[wall.body]):
            found.append(_smooth(wall, placement, single, margin))
    if not found:
        return WallPoints(np.zeros(0, int), np.zeros(0, int), np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0))
    if len(found) == 1:
        return found[0]
    return WallPoints(*(np.concatenate([getattr(f, name) for f in found]) for name in WallPoints.__dataclass_fields__))


def _surface(wall: Single, placement: Placement, middle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The normal [k, 3] and height [k] of the plane that points at `middle` [k, 3] see."""
    if isinstance(wall.shape, HalfSpace):
        normal, height = _plane(wall, placement)
        return np.broadcast_to(normal, middle.shape), np.full(len(middle), height)
    origin = placement.x[wall.body] + placement.R[wall.body] @ wall.where
    normal = placement.R[wall.body] @ wall.turn @ wall.shape.normal
    side = np.where((middle - origin) @ normal >= 0, 1.0, -1.0)
    return side[:, None] * normal, side * (normal @ origin) + 0.5 * wall.shape.thickness


def _plane(wall: Single, placement: Placement) -> tuple[np.ndarray, float]:
    """The normal and the height of the surface of a half-space."""
    normal = placement.R[wall.body] @ wall.plane[0]
    return normal, float(normal @ placement.x[wall.body]) + wall.plane[1]


def _polytopes(wall: Single, placement: Placement, number: int, movable: np.ndarray, margin: np.ndarray) -> WallPoints | None:
    """Of the group with this number; None where nothing is near."""
    may = placement.geometry.over(wall, number, movable)
    if isinstance(wall.shape, HalfSpace):  # one plane for all
        normal, height = _plane(wall, placement)
        found = WallPoints(*over_half_space(placement, number, may, normal, height, margin))
        return found if len(found.gap) else None
    group = placement.geometry.groups[number]
    middle, limit = placement.x.take(group.bodies, 0), margin.take(group.bodies)
    normal, height = _surface(wall, placement, middle)
    near = (may & (np.vecdot(middle, normal) - height - group.bound < limit)).nonzero()[0]
    if len(near) == 0:
        return None
    points, radius, limit = placement.corners[number].take(near, 0), group.radius.take(near)[:, None], limit.take(near)[:, None]
    gap = np.vecdot(points, normal[near][:, None]) - (height[near][:, None] + radius)
    row, corner = (gap < limit).nonzero()
    normals = normal[near[row]]
    return WallPoints(group.pieces[near[row]], corner, points[row, corner] - radius[row] * normals, normals, gap[row, corner])


@by_loops("motion_loops")
def over_half_space(
    placement: Placement, number: int, may: np.ndarray, normal: np.ndarray, height: float, margin: np.ndarray
) -> tuple[np.ndarray, ...]:
    """The points of a group whose pieces may meet a half-space, in the columns of `WallPoints`."""
    group = placement.geometry.groups[number]
    limit = margin.take(group.bodies)
    lowest = placement.x.take(group.bodies, 0).dot(normal) - height - group.bound
    near = (may & (lowest < limit)).nonzero()[0]
    points, radius, limit = placement.corners[number].take(near, 0), group.radius.take(near)[:, None], limit.take(near)[:, None]
    gap = points.dot(normal) - (height + radius)
    row, corner = (gap < limit).nonzero()
    normals = normal[None].repeat(len(row), axis=0)
    point = points[row, corner] if group.sharp else points[row, corner] - radius[row] * normals
    return group.pieces.take(near.take(row)), corner, point, normals, gap[row, corner]


def _smooth(wall: Single, placement: Placement, single: Single, margin: np.ndarray) -> WallPoints:
    normal, height = _surface(wall, placement, placement.x[[single.body]])
    n = normal[0]
    if isinstance(single.shape, Cylinder):
        points = _cylinder_points(single, placement, n)
    else:
        points = support_in_space(single, placement.x, placement.R)(-n)[None]
    feature = np.arange(len(points))
    if isinstance(single.shape, Ellipsoid) and (inner := single.shape.inner) < margin[single.body]:  # it could jump over the wall
        inside = placement.x[single.body] + placement.R[single.body] @ single.where - inner * n
        if (inside - points[0]) @ n > SAME * single.shape.reach:
            points, feature = np.stack([points[0], inside]), np.array([0, GUARD])
    gap = points @ n - height[0]
    rows = np.flatnonzero(gap < margin[single.body])
    normals = np.broadcast_to(n, (len(rows), 3))
    return WallPoints(np.full(len(rows), single.piece), feature[rows], points[rows], normals, gap[rows])


def _cylinder_points(single: Single, placement: Placement, n: np.ndarray) -> np.ndarray:
    turn = placement.R[single.body] @ single.turn
    origin = placement.x[single.body] + placement.R[single.body] @ single.where
    return rim_points(origin, turn[:, 2], single.shape.radius, 0.5 * single.shape.length, n)
