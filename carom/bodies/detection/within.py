"""Balls inside bodies that come far in a step.

Where two pieces meet in one point, the impulse there may leave their centres as fast as to pass one another in the same step, and
the point itself stays where it is: a thin box that hits another with a corner, a hull, a coin on its rim. What then lies in the
way is a ball inside the piece: it meets whatever its centre would come to. It is about the centre of mass of the body, if that is
inside the piece: this goes straight on, whatever way the body turns. It is looked for where the centre may come that far, and told
where it says something else than the surface does.
"""

from dataclasses import dataclass

import numpy as np

from carom.bodies.detection.geometry import Geometry, Group, Placement
from carom.bodies.shapes.round import Cylinder, Ellipsoid


@dataclass(frozen=True)
class Balls:
    """The ball inside each piece; a radius of 0: there is none, or the piece is one itself."""

    middle: np.ndarray  #  [pieces, 3]  in the frame of the body
    radius: np.ndarray  #  [pieces]


def balls(geometry: Geometry) -> Balls:
    """Of all pieces; found once."""
    known = geometry.__dict__.get("_balls")
    if known is None:
        known = geometry.__dict__["_balls"] = _balls(geometry)
    return known


def _balls(geometry: Geometry) -> Balls:
    middle, radius = np.zeros((len(geometry.owner), 3)), np.zeros(len(geometry.owner))
    for group in geometry.groups:
        if group.points.shape[1] == 1:
            continue
        heart = _depth(group, np.zeros((len(group.pieces), 3)))
        centre = np.where(heart[:, None] > 0, 0.0, group.points.mean(axis=1))
        middle[group.pieces] = centre
        radius[group.pieces] = np.maximum(_depth(group, centre), 0.0) + group.radius
    for single in geometry.smooth:
        middle[single.piece], radius[single.piece] = single.where, _inside(single.shape)
    return Balls(middle, radius)


def _depth(group: Group, point: np.ndarray) -> np.ndarray:
    """How deep points [g, 3] lie in the cores of the pieces; 0 where those have no faces."""
    if group.normals.shape[1] == 0:
        return np.zeros(len(point))
    corner = group.points[np.arange(len(point))[:, None], group.loops[:, :, 0]]
    return np.vecdot(group.normals, corner - point[:, None]).min(axis=1)


def _inside(shape: object) -> float:
    if isinstance(shape, Ellipsoid):
        return shape.inner
    return min(shape.radius, 0.5 * shape.length) if isinstance(shape, Cylinder) else 0.0


def ball_in_space(placement: Placement, piece: int) -> tuple[np.ndarray, float]:
    """The middle and the radius of the ball inside a piece."""
    found, body = balls(placement.geometry), placement.geometry.owner[piece]
    return placement.x[body] + placement.R[body] @ found.middle[piece], float(found.radius[piece])


def balls_in_space(placement: Placement, pieces: np.ndarray) -> Group:
    """The balls inside some pieces."""
    found, bodies = balls(placement.geometry), placement.geometry.owner[pieces]
    points = (placement.R[bodies] @ found.middle[pieces][:, :, None])[:, :, 0] + placement.x[bodies]
    k, radius = len(pieces), found.radius[pieces]
    nothing = np.zeros((k, 0, 3))
    return Group(
        pieces, bodies, points[:, None], nothing, nothing, np.zeros((k, 0, 0), int), np.zeros((k, 1, 2), int), radius, radius
    )
