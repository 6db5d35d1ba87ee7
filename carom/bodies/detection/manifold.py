"""The points in which two polytopes meet: a face clipped against a face, or one point; each with a number that lasts.

Where the normal of contact is the normal of a face (the *reference*), the polygon of the other one that looks at it most (the
*incident*) is laid over it along the normal. The corners of the common polygon are corners of the one inside the other, and
crossings of their sides: all candidates are tried at once, and a candidate's place in that list is its number from step to step.

Where the normal is that of two edges, and the faces beside them are tilted by θ against each other, a point at a distance s from
where the edges cross is s sin θ away from its face. A step over h in which they turn by hω closes it, if at all, with a depth of at
most hωs. Up to TILT such points are told as well (those that are far away are dropped with all others); beyond, only those with
s < hv / sin θ can be reached, so that what is left out is of order h².
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from carom.bodies.detection.geometry import Group
from carom.bodies.detection.nearest import following, inside
from carom.bodies.quaternions import crossing, lengths

LEAN = 1e-3  #   radians: a normal this close to that of a face is that of the face, so that flat things meet flatly
TILT = 0.2  #    radians: up to here the other points of two faces may meet in the same step
SIDE = 1e-3  #   relative to the size: how far from the nearest points they count
FLAT, STEEP = float(np.cos(LEAN)), float(np.cos(TILT))
SAME = 1e-7  #   relative to the size: points closer than this are one
LONE = 4000  #   the number of a point that belongs to no face
GUARD = 2 * LONE - 1  # that of a point of a ball inside a piece (`carom.bodies.detection.within`)


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
    lean = np.maximum(lean_a, lean_b)
    flat, tilted = lean >= FLAT, lean >= STEEP
    by_a = tilted & (lean_a >= lean_b - 1e-9)  # rather a than b where they tie
    found, lone = [], np.ones(k, bool)
    for chosen, faces in _references(a, b, face_a, face_b, tilted, by_a):
        points = _named(_clip(*faces), chosen, ~by_a[chosen])
        lies = flat[points.pair]
        lone[points.pair[lies]] = False
        found.append(points if np.count_nonzero(lies) == len(lies) else _apart(points, lies, x, SIDE * (a.size + b.size)))
    if a.normals.shape[1] == b.normals.shape[1] == 0 and a.points.shape[1] == b.points.shape[1] == 2:
        beside = _beside(a, b, normal)
        lone[beside.pair] = False
        found.append(beside)
    rows = lone.nonzero()[0]
    if len(rows) or not found:
        found.append(Points(rows, x[rows], y[rows], normal[rows], np.full(len(rows), LONE)))
    if len(found) == 1:
        return found[0]
    return Points(*(np.concatenate([getattr(f, name) for f in found]) for name in ("pair", "x", "y", "normal", "feature")))


Faces = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None, np.ndarray]


def _references(
    a: Group, b: Group, face_a: np.ndarray, face_b: np.ndarray, flat: np.ndarray, by_a: np.ndarray
) -> Iterator[tuple[np.ndarray, Faces]]:
    """Rows, with what `_clip` asks about them. Of polytopes of one kind all rows at once, whichever of the two is the reference."""
    if a.loops.shape == b.loops.shape and a.points.shape == b.points.shape and np.count_nonzero(flat > by_a):
        chosen = flat.nonzero()[0]
        first, other, mine = (a.take(chosen), b.take(chosen), by_a[chosen]) if len(chosen) < len(flat) else (a, b, by_a)
        mine, column = mine[:, None], mine[:, None, None]
        top_a, top_b = _face(first, face_a[chosen]), _face(other, face_b[chosen])
        top, n = np.where(column, top_a[0], top_b[0]), np.where(mine, top_a[1], top_b[1])
        low = (np.where(column, pair[0], pair[1]) for pair in ((other.normals, first.normals), (other.points, first.points)))
        face = _lowest_face(*low, np.where(column, other.loops, first.loops), n)
        low_a, low_b = _face(first, face), _face(other, face)
        incident, slope = np.where(column, low_b[0], low_a[0]), np.where(mine, low_b[1], low_a[1])
        yield chosen, (top, n, incident, slope, first.size + other.size)
        return
    for rows, ref, inc, face in ((by_a, a, b, face_a), (flat > by_a, b, a, face_b)):
        chosen = rows.nonzero()[0]
        if len(chosen):
            if len(chosen) < len(rows):
                ref, inc, face = ref.take(chosen), inc.take(chosen), face[chosen]
            top, n = _face(ref, face)
            yield chosen, (top, n, *_incident(inc, n), ref.size + inc.size)


def _apart(points: Points, lies: np.ndarray, x: np.ndarray, least: np.ndarray) -> Points:
    """Those of pairs that lie flat, and of the others all that are not beside their nearest points, which say the same there."""
    kept = lies | (lengths(points.x - x[points.pair]) > least[points.pair])
    return Points(*(getattr(points, name)[kept] for name in ("pair", "x", "y", "normal", "feature")))


def _face(group: Group, face: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The corners [k, n, 3] and the normal [k, 3] of one face of each."""
    rows = np.arange(len(face))
    return group.points[rows[:, None], group.loops[rows, face]], group.normals[rows, face]


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


def _named(points: Points, chosen: np.ndarray, turned: np.ndarray) -> Points:
    """Rows of all pairs instead of the chosen ones; a and b changed back where b was the reference."""
    back, pair = turned[points.pair], chosen[points.pair]
    if not np.count_nonzero(back):
        return Points(pair, points.x, points.y, points.normal, points.feature)
    column = back[:, None]
    x, y = np.where(column, points.y, points.x), np.where(column, points.x, points.y)
    return Points(pair, x, y, np.where(column, -points.normal, points.normal), points.feature + back * (LONE // 2))


def _facing(group: Group, normal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The face that looks most along the normal, and the cosine between them."""
    if group.normals.shape[1] == 0:
        return np.full(len(normal), -2.0), np.zeros(len(normal), int)
    cosine = np.vecdot(group.normals, normal[:, None])
    face = cosine.argmax(axis=1)
    return cosine[np.arange(len(normal)), face], face


def _clip(top: np.ndarray, n: np.ndarray, incident: np.ndarray, slope: np.ndarray | None, size: np.ndarray) -> Points:
    """Candidates of the common polygon of the reference face [k, n, 3] with normal n and the incident one [k, m, 3] with normal
    `slope`, where it has one."""
    tie = (SAME * size)[:, None, None]
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
    pair, feature = mask.nonzero()
    y = y[pair, feature]
    kept = _first(pair, y, tie[:, 0, 0])
    pair, feature, y = pair[kept], feature[kept], y[kept]
    normal = n[pair]
    height = np.vecdot(y - top[pair, 0], normal)
    return Points(pair, y - height[:, None] * normal, y, normal, feature)


def _incident(inc: Group, n: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """The polygon of the other one that looks at the reference, with its normal; a segment or a point is its own polygon."""
    return (inc.points, None) if inc.normals.shape[1] == 0 else _face(inc, _lowest_face(inc.normals, inc.points, inc.loops, n))


def _lowest_face(normals: np.ndarray, points: np.ndarray, loops: np.ndarray, n: np.ndarray) -> np.ndarray:
    """The face that looks most against n, of those around the corner that is lowest along it: another may lie higher, and look so
    more."""
    lowest = np.vecdot(points, n[:, None]).argmin(axis=1)
    around = (loops == lowest[:, None, None]).any(axis=2)
    return np.where(around, np.vecdot(normals, -n[:, None]), -2.0).argmax(axis=1)


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


def _first(pair: np.ndarray, points: np.ndarray, tie: np.ndarray) -> np.ndarray:
    """Which points [m, 3] have no earlier one of their pair at the same place; those of a pair stand together."""
    count = np.bincount(pair, minlength=len(tie))
    place = np.arange(len(pair)) - (count.cumsum() - count)[pair]  # of each among those of its pair
    table = np.full((len(tie), int(count.max(initial=0)), 3), np.inf)
    table[pair, place] = points
    same = np.abs(table[pair] - points[:, None]).max(axis=2) <= tie[pair][:, None]
    return (~(same & (np.arange(table.shape[1]) < place[:, None])).any(axis=1)).nonzero()[0]
