"""Half-spaces and plates against everything: the gap of a point is its height over the plane."""

from dataclasses import dataclass

import numpy as np

from carom.bodies.detection.geometry import Group, Placement, Single, rim_points, support_in_space
from carom.bodies.shapes.fixed import HalfSpace
from carom.bodies.shapes.round import Cylinder


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
    for group in placement.groups:
        others = (group.bodies != wall.body) & (movable[group.bodies] | movable[wall.body])
        if np.any(others):
            found.append(_polytopes(wall, placement, group, others, margin))
    for single in geometry.smooth:
        if single.body != wall.body and (movable[single.body] or movable[wall.body]):
            found.append(_smooth(wall, placement, single, margin))
    if not found:
        return WallPoints(np.zeros(0, int), np.zeros(0, int), np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0))
    return WallPoints(*(np.concatenate([getattr(f, name) for f in found]) for name in WallPoints.__dataclass_fields__))


def _surface(wall: Single, placement: Placement, middle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The normal [k, 3] and height [k] of the plane that points at `middle` [k, 3] see."""
    R = placement.R[wall.body] @ wall.turn
    origin = placement.x[wall.body] + placement.R[wall.body] @ wall.where
    normal = R @ wall.shape.normal
    if isinstance(wall.shape, HalfSpace):
        return np.broadcast_to(normal, middle.shape), np.full(len(middle), normal @ origin + wall.shape.offset)
    side = np.where((middle - origin) @ normal >= 0, 1.0, -1.0)
    return side[:, None] * normal, side * (normal @ origin) + 0.5 * wall.shape.thickness


def _polytopes(wall: Single, placement: Placement, group: Group, others: np.ndarray, margin: np.ndarray) -> WallPoints:
    normal, height = _surface(wall, placement, placement.x[group.bodies])
    low, high = placement.low[group.pieces], placement.high[group.pieces]
    lowest = 0.5 * np.sum((high + low) * normal - (high - low) * np.abs(normal), axis=1) - height  # of the box around each
    near = np.flatnonzero(others & (lowest < margin[group.bodies]))
    normal, radius, bodies = normal[near], group.radius[near], group.bodies[near]
    gap = np.einsum("kvi,ki->kv", group.points[near], normal) - (height[near] + radius)[:, None]
    row, corner = np.nonzero(gap < margin[bodies][:, None])
    point = group.points[near[row], corner] - radius[row][:, None] * normal[row]
    return WallPoints(group.pieces[near[row]], corner, point, normal[row], gap[row, corner])


def _smooth(wall: Single, placement: Placement, single: Single, margin: np.ndarray) -> WallPoints:
    normal, height = _surface(wall, placement, placement.x[[single.body]])
    n = normal[0]
    if isinstance(single.shape, Cylinder):
        points = _cylinder_points(single, placement, n)
    else:
        points = support_in_space(single, placement.x, placement.R)(-n)[None]
    gap = points @ n - height[0]
    rows = np.flatnonzero(gap < margin[single.body])
    return WallPoints(np.full(len(rows), single.piece), rows, points[rows], np.broadcast_to(n, (len(rows), 3)), gap[rows])


def _cylinder_points(single: Single, placement: Placement, n: np.ndarray) -> np.ndarray:
    turn = placement.R[single.body] @ single.turn
    origin = placement.x[single.body] + placement.R[single.body] @ single.where
    return rim_points(origin, turn[:, 2], single.shape.radius, 0.5 * single.shape.length, n)
