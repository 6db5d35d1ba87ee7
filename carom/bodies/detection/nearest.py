"""The nearest points of two polytopes that are apart: a corner over a face, or a point of an edge and a point of an edge."""

from dataclasses import dataclass

import numpy as np

from carom.bodies.detection.geometry import Group
from carom.bodies.quaternions import crossing, lengths

ANYWHERE = np.array([0.0, 1.0, 0.0])  # the way out of a point that is in the middle
TIE = 1e-10  # relative to the size: a corner over a face is preferred to edges that are as near


@dataclass(frozen=True)
class Nearest:
    """x on a, y on b, their distance, and the unit vector from a to b. The normal of a face where one is nearest."""

    distance: np.ndarray  #  [k]
    x: np.ndarray  #         [k, 3]
    y: np.ndarray  #         [k, 3]
    normal: np.ndarray  #    [k, 3]


def nearest_points(a: Group, b: Group) -> Nearest:
    """For the pairs (a, b), row by row: the best of all corners against all faces and of all edges against all edges."""
    edges = nearest_of_edges(a, b)
    over_a, over_b = _corners(a, b), _swapped(_corners(b, a))
    size = TIE * (a.size + b.size)
    best = edges
    for other in (over_b, over_a):
        better = other.distance <= best.distance + size
        pick = lambda name, other=other, better=better, best=best: np.where(  # noqa: E731
            better if name == "distance" else better[:, None], getattr(other, name), getattr(best, name)
        )
        best = Nearest(*(pick(name) for name in ("distance", "x", "y", "normal")))
    return best


def _swapped(found: Nearest) -> Nearest:
    return Nearest(found.distance, found.y, found.x, -found.normal)


def _corners(a: Group, b: Group) -> Nearest:
    """The corner of b that is nearest to a face of a, among those that stand over one."""
    k, faces, corners = len(a.pieces), a.normals.shape[1], b.points.shape[1]
    if faces == 0:
        return Nearest(np.full(k, np.inf), np.zeros((k, 3)), np.zeros((k, 3)), np.zeros((k, 3)))
    rows = np.arange(k)
    loop = a.points[rows[:, None, None], a.loops]  # [k, F, n, 3]
    height = np.vecdot(a.normals[:, :, None], b.points[:, None, :, :] - loop[:, :, :1, :])
    distance = np.where((height >= 0) & inside(loop, a.normals, b.points[:, None, :, :], 0.0), height, np.inf).reshape(k, -1)
    best = np.argmin(distance, axis=1)
    normal, y = a.normals[rows, best // corners], b.points[rows, best % corners]
    d = distance[rows, best]
    return Nearest(d, y - np.where(np.isfinite(d), d, 0.0)[:, None] * normal, y, normal)


def inside(loop: np.ndarray, normal: np.ndarray, points: np.ndarray, slack: np.ndarray | float) -> np.ndarray:
    """Which points [..., v, 3], seen along the normal [..., 3], lie in the polygon loop [..., n, 3], widened by slack.

    A loop of two points is a side in the plane: its points are those between the ends."""
    along = following(loop) - loop
    inward = along if loop.shape[-2] == 2 else along @ crossing(normal)
    length = lengths(inward)[..., None]
    inward = inward / np.where(length > 0, length, 1.0)  # corners repeated at the end of a loop make sides of no length
    depth = points @ inward.swapaxes(-1, -2) - np.vecdot(inward, loop)[..., None, :]
    return (depth >= -np.asarray(slack)).all(axis=-1)


def following(loop: np.ndarray) -> np.ndarray:
    """Of each corner of a loop [..., n, 3] the next one."""
    return np.concatenate([loop[..., 1:, :], loop[..., :1, :]], axis=-2)


def nearest_of_edges(a: Group, b: Group) -> Nearest:
    """The nearest points of all edges of a and all of b."""
    k = len(a.pieces)
    rows = np.arange(k)[:, None]
    p, q = a.points[rows, a.edges[:, :, 0]], b.points[rows, b.edges[:, :, 0]]
    u, v = a.points[rows, a.edges[:, :, 1]] - p, b.points[rows, b.edges[:, :, 1]] - q
    p, u, q, v = p[:, :, None, :], u[:, :, None, :], q[:, None, :, :], v[:, None, :, :]
    s, t = _closest(p, u, q, v)
    x, y = p + s[..., None] * u, q + t[..., None] * v
    distance = lengths(y - x).reshape(k, -1)
    best, rows = np.argmin(distance, axis=1), np.arange(k)
    x, y, d = x.reshape(k, -1, 3)[rows, best], y.reshape(k, -1, 3)[rows, best], distance[rows, best]
    normal = (y - x) / np.where(d > 0, d, 1.0)[:, None]
    for i in np.flatnonzero(d == 0):
        normal[i] = _across(u[i, best[i] // v.shape[2], 0], v[i, 0, best[i] % v.shape[2]])
    return Nearest(d, x, y, normal)


def _across(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A unit vector at right angles to two edges that meet in a point (balls with one centre have edges of no length): the way out
    is as long in all directions across them."""
    u, v = (edge / np.linalg.norm(edge) if np.any(edge) else edge for edge in (u, v))
    along = u if np.any(u) else v
    for product in (np.cross(u, v), np.cross(along, np.eye(3)[np.argmin(np.abs(along))])):
        length = np.linalg.norm(product)
        if length > 1e-12:  # parallel to rounding
            return product / length
    return ANYWHERE


def _closest(p: np.ndarray, u: np.ndarray, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where on the segments p + s u and q + t v, s and t in [0, 1], they are nearest; segments of no length are allowed."""
    w = p - q
    uu, vv, uv = np.vecdot(u, u), np.vecdot(v, v), np.vecdot(u, v)
    uw, vw = np.vecdot(u, w), np.vecdot(v, w)
    det = uu * vv - uv * uv
    skew = det > 1e-14 * uu * vv  # parallel ones start at s = 0
    safe = lambda x: np.where(x > 0, x, 1.0)  # noqa: E731
    s = np.where(skew, np.clip((uv * vw - vv * uw) / np.where(skew, det, 1.0), 0, 1), 0.0)
    t = np.where(vv > 0, np.clip((uv * s + vw) / safe(vv), 0, 1), 0.0)
    s = np.where(uu > 0, np.clip((uv * t - uw) / safe(uu), 0, 1), 0.0)
    return s, t
