"""The points in which two polytopes meet: a face clipped against a face, or one point; each with a number that lasts.

Where the normal of contact is the normal of a face (the *reference*), the polygon of the other one that looks at it most (the
*incident*) is laid over it along the normal. The corners of the common polygon are corners of the one inside the other, and
crossings of their sides: all candidates are tried at once, and a candidate's place in that list is its number from step to step.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from carom.bodies.detection.geometry import Group
from carom.bodies.detection.nearest import following, inside
from carom.bodies.quaternions import crossing

LEAN = 1e-3  #   radians: a normal this close to that of a face is that of the face, so that flat things meet flatly
SAME = 1e-7  #   relative to the size: points closer than this are one
LONE = 4000  #   the number of a point that belongs to no face


@dataclass(frozen=True)
class Points:
    """Points of contact, one row each; `pair` says of which pair. x lies on the core of a, y on that of b."""

    pair: np.ndarray  #     [m]
    x: np.ndarray  #        [m, 3]
    y: np.ndarray  #        [m, 3]
    normal: np.ndarray  #   [m, 3]  from a to b
    feature: np.ndarray  #  [m]


def meet(a: Group, b: Group, normal: np.ndarray, x: np.ndarray, y: np.ndarray) -> Points:
    """The points of the pairs (a, b) whose normal is known, with the nearest (or deepest) points x, y of each."""
    k = len(a.pieces)
    lean_a, face_a = _facing(a, normal)
    lean_b, face_b = _facing(b, -normal)
    flat = np.maximum(lean_a, lean_b) >= np.cos(LEAN)
    by_a = flat & (lean_a >= lean_b - 1e-9)  # rather a than b where they tie
    found, lone = [], np.ones(k, bool)
    for rows, ref, inc, face, turned in ((by_a, a, b, face_a, False), (flat & ~by_a, b, a, face_b, True)):
        chosen = np.flatnonzero(rows)
        if len(chosen):
            every = len(chosen) == k
            points = _clip(ref if every else ref.take(chosen), inc if every else inc.take(chosen), face[chosen])
            lone[chosen[points.pair]] = False
            found.append(_named(points, chosen, turned))
    if a.normals.shape[1] == b.normals.shape[1] == 0 and a.points.shape[1] == b.points.shape[1] == 2:
        beside = _beside(a, b, normal)
        lone[beside.pair] = False
        found.append(beside)
    rows = np.flatnonzero(lone)
    found.append(Points(rows, x[rows], y[rows], normal[rows], np.full(len(rows), LONE)))
    return Points(*(np.concatenate([getattr(f, name) for f in found]) for name in ("pair", "x", "y", "normal", "feature")))


def _beside(a: Group, b: Group, normal: np.ndarray) -> Points:
    """Two segments that lie side by side meet in two points; those that cross have none here."""
    pair, x, y = side_by_side(a.points, b.points, normal, SAME * (a.size + b.size))
    return Points(pair, x, y, normal[pair], np.tile([LONE + 1, LONE + 2], len(pair) // 2))


def side_by_side(a: np.ndarray, b: np.ndarray, normal: np.ndarray, tie: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of segments [k, 2, 3] that are parallel and at right angles to the normal: which, and the ends of what they share, two rows
    for each."""
    p, q = a[:, 0], b[:, 0]
    u, v = a[:, 1] - p, b[:, 1] - q
    long_u, long_v = np.sqrt(np.sum(u * u, axis=1)), np.sqrt(np.sum(v * v, axis=1))
    along = u / long_u[:, None]
    slope = np.sum(along * v, axis=1) / long_v  # the cosine of the angle between them
    level = np.maximum(np.abs(np.sum(normal * along, axis=1)), np.abs(np.sum(normal * v, axis=1)) / long_v) < LEAN
    ends = np.sum(along * (q - p), axis=1)[:, None] + np.stack([0 * slope, slope * long_v], axis=1)  # of b, along a
    low, high = np.maximum(ends.min(axis=1), 0.0), np.minimum(ends.max(axis=1), long_u)
    flat = level & (1 - np.abs(slope) < 0.5 * LEAN**2) & (high - low > tie)
    pair = np.repeat(np.flatnonzero(flat), 2)
    at = np.stack([low, high], axis=1)[flat].ravel()
    share = (at - ends[pair, 0]) / (slope * long_v)[pair]
    return pair, p[pair] + at[:, None] * along[pair], q[pair] + share[:, None] * v[pair]


def _named(points: Points, chosen: np.ndarray, turned: bool) -> Points:
    """Rows of all pairs instead of the chosen ones; a and b changed back where b was the reference."""
    if turned:
        return Points(chosen[points.pair], points.y, points.x, -points.normal, points.feature + LONE // 2)
    return Points(chosen[points.pair], points.x, points.y, points.normal, points.feature)


def _facing(group: Group, normal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The face that looks most along the normal, and the cosine between them."""
    if group.normals.shape[1] == 0:
        return np.full(len(normal), -2.0), np.zeros(len(normal), int)
    cosine = np.vecdot(group.normals, normal[:, None])
    face = cosine.argmax(axis=1)
    return cosine[np.arange(len(normal)), face], face


def _clip(ref: Group, inc: Group, face: np.ndarray) -> Points:
    """Candidates of the common polygon of the reference face and the incident one."""
    rows = np.arange(len(face))
    n = ref.normals[rows, face]
    top = ref.points[rows[:, None], ref.loops[rows, face]]  # [k, n, 3]
    incident, slope = _incident(inc, n)  # [k, m, 3], [k, 3]
    tie = (SAME * (ref.size + inc.size))[:, None, None]
    lists, masks = [incident], [inside(top, n, incident, tie)]
    if slope is not None:  # corners of the reference that lie in the incident polygon, lifted onto it
        steep = np.vecdot(slope, n)
        usable = np.abs(steep) > 1e-6
        lift = np.vecdot(slope[:, None], incident[:, :1] - top) / np.where(usable, steep, 1.0)[:, None]
        lifted = top + lift[:, :, None] * n[:, None, :]
        lists.append(lifted)
        masks.append(inside(incident, slope, lifted, tie) & usable[:, None])
    if top.shape[1] > 2 and incident.shape[1] > 1:
        points, mask = _crossings(top, incident, n)
        lists.append(points)
        masks.append(mask)
    y, mask = np.concatenate(lists, axis=1), np.concatenate(masks, axis=1)
    mask &= _first(y, mask, tie[:, :, 0])
    height = np.vecdot(y - top[:, :1], n[:, None])
    pair, feature = mask.nonzero()
    x = y[pair, feature] - height[pair, feature][:, None] * n[pair]
    return Points(pair, x, y[pair, feature], n[pair], feature)


def _incident(inc: Group, n: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """The polygon of the other one that looks at the reference, with its normal; a segment or a point is its own polygon."""
    if inc.normals.shape[1] == 0:
        return inc.points, None
    rows = np.arange(len(n))
    _, face = _facing(inc, -n)
    return inc.points[rows[:, None], inc.loops[rows, face]], inc.normals[rows, face]


def _crossings(top: np.ndarray, incident: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where sides of the two polygons cross, seen along n: the points on the incident sides."""
    p, u = top[:, :, None, :], (following(top) - top)[:, :, None, :]
    q, v = incident[:, None, :, :], (following(incident) - incident)[:, None, :, :]
    product = crossing(n)[:, None]  # n · (a × b) = (n × a) · b
    det = np.vecdot(u @ product, v)
    scale = np.sqrt(np.vecdot(u, u) * np.vecdot(v, v))
    usable = np.abs(det) > 1e-9 * scale  # parallel sides share corners, not crossings
    safe = np.where(usable, det, 1.0)
    apart = (q - p) @ product
    s, t = np.vecdot(apart, v) / safe, np.vecdot(apart, u) / safe
    k = len(top)
    points = (q + t[..., None] * v).reshape(k, -1, 3)
    return points, (usable & (s > 0) & (s < 1) & (t > 0) & (t < 1)).reshape(k, -1)


def _first(points: np.ndarray, mask: np.ndarray, tie: np.ndarray) -> np.ndarray:
    """Which points have no earlier one at the same place."""
    same = np.abs(points[:, :, None, :] - points[:, None, :, :]).max(axis=-1) <= tie[:, :, None]
    return ~(same & _earlier(points.shape[1]) & mask[:, None, :]).any(axis=2)


@cache
def _earlier(count: int) -> np.ndarray:
    """[i, j]: j stands before i."""
    return np.tri(count, k=-1, dtype=bool)
