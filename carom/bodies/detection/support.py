"""Shapes known by their support functions (cylinder, ellipsoid) against everything, one pair at a time.

The difference D = {y − x} of two convex sets holds the origin iff they overlap. Apart, the point of D nearest to the origin gives
the distance and the normal: it is found by growing a simplex of support points [gilbert1988]. Overlapping, the face of D nearest to
the origin gives the depth: it is found by growing a polytope from inside [bergen2001].
"""

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from carom.bodies.detection.geometry import Placement
from carom.bodies.detection.manifold import LEAN, SAME, side_by_side
from carom.bodies.detection.nearest import inside
from carom.bodies.detection.sharpen import sharpen
from carom.bodies.detection.smooth_pieces import SmoothPiece, Support, smooth_piece
from carom.bodies.detection.within import ball_in_space
from carom.bodies.quaternions import cross

if TYPE_CHECKING:
    from scipy.spatial import ConvexHull

ROUNDS = 120
CLOSE = 1e-11  # relative to the size: where the search ends


@dataclass(frozen=True)
class SmoothPoints:
    point: np.ndarray  #   [m, 3]
    normal: np.ndarray  #  [m, 3]
    gap: np.ndarray  #     [m]


def smooth_pair(placement: Placement, p: int, q: int, limit: float) -> SmoothPoints:
    """The points where piece p and piece q meet, at least one of them smooth, with a gap below the limit."""
    a, b = smooth_piece(placement, p), smooth_piece(placement, q)
    size = a.size + b.size
    normal, gap, x, y = separate(a.support, b.support, b.middle - a.middle, size)
    if gap >= limit:
        return SmoothPoints(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0))
    normal, gap, x, y = sharpen(a, b, normal, gap, x, y)
    flat = _flat(a, b, normal) or _flat(b, a, -normal)
    if flat is None and a.line is not None and b.line is not None:
        n = normal[None]
        pair, x_axis, y_axis = side_by_side(a.line[None, :2], b.line[None, :2], n, np.array([1e-7 * size]))
        if len(pair):  # two rods side by side
            x_side, y_side = x_axis + a.line[2, 0] * n, y_axis - b.line[2, 0] * n
            gaps = (y_side - x_side) @ normal
            rows = np.flatnonzero(gaps < limit)
            return SmoothPoints(0.5 * (x_side + y_side)[rows], np.broadcast_to(normal, (len(rows), 3)), gaps[rows])
    if flat is None:
        return SmoothPoints(0.5 * (x + y)[None], normal[None], np.array([gap]))
    n, points, height = flat
    sign = 1.0 if n @ normal > 0 else -1.0
    gaps = points @ n - height
    rows = np.flatnonzero(gaps < limit)
    middle = points[rows] - 0.5 * gaps[rows][:, None] * n
    return SmoothPoints(middle, np.broadcast_to(sign * n, (len(rows), 3)), gaps[rows])


def inner_ball(placement: Placement, p: int, q: int, limit: float, least: float) -> SmoothPoints:
    """Where the ball inside the piece p meets q, if its centre may come there and this is not what the surface says."""
    middle, inner = ball_in_space(placement, p)
    b = smooth_piece(placement, q)
    normal, apart, _, _ = separate(lambda d: middle, b.support, b.middle - middle, inner + b.size)
    gap = apart - inner
    rows = [0] if gap > least + SAME * inner and apart < limit else []
    return SmoothPoints((middle + (inner + 0.5 * gap) * normal)[None][rows], normal[None][rows], np.array([gap])[rows])


def _flat(ref: SmoothPiece, inc: SmoothPiece, normal: np.ndarray) -> tuple[np.ndarray, np.ndarray, float] | None:
    """A flat face of `ref` whose normal is that of the contact, met by points of rims or of a face: n, points, height."""
    for n, loop in ref.faces:
        if n @ normal < np.cos(LEAN):
            continue
        origin = ref.middle + ref.disc[1] * n if ref.disc else loop[0]
        lowest = inc.support(-n)
        points = [
            lowest[None],
            inc.rims(n),
            _lying(ref, inc, n, loop),
            *(corners for m, corners in inc.faces if corners is not None and m @ n < -np.cos(LEAN)),
        ]
        points = np.concatenate(points)
        points = points[_over(ref, n, loop, points)]
        if ref.disc and loop is None:  # the rim of the reference over the other one's face
            points = np.concatenate([points, *_rim_over(ref, inc, n)])
        if len(points):
            return n, _distinct(points, 1e-7 * ref.size), float(n @ origin)
    return None


def _lying(ref: SmoothPiece, inc: SmoothPiece, n: np.ndarray, loop: np.ndarray | None) -> np.ndarray:
    """Of a rod that lies on the face, and may reach over its border, the ends of what lies on it [2, 3]; nothing of others."""
    if inc.line is None:
        return np.zeros((0, 3))
    low, high = inc.rims(n)[[0, 4]] if inc.disc else inc.line[:2] - inc.line[2, 0] * n
    along = high - low
    if abs(along @ n) > LEAN * np.linalg.norm(along):
        return np.zeros((0, 3))
    if loop is None:  # where t along + low - middle is as long as the radius, seen along n
        from_middle, flat = (part - (part @ n) * n for part in (low - ref.middle, along))
        middle, square = -(from_middle @ flat) / (flat @ flat), flat @ flat
        half = np.sqrt(max(0.0, middle**2 - (from_middle @ from_middle - ref.disc[0] ** 2) / square))
        ends = np.array([max(0.0, middle - half), min(1.0, middle + half)])
    else:
        inward = cross(n, np.roll(loop, -1, axis=0) - loop)
        depth, slope = np.vecdot(inward, low - loop), inward @ along
        crossing = -depth / np.where(slope == 0, 1.0, slope)
        outside = np.any((slope == 0) & (depth < 0))
        ends = np.array([max(0.0, *crossing[slope > 0], 0.0), -1.0 if outside else min(1.0, *crossing[slope < 0], 1.0)])
    return low + ends[:, None] * along if ends[1] > ends[0] else np.zeros((0, 3))


def _over(ref: SmoothPiece, n: np.ndarray, loop: np.ndarray | None, points: np.ndarray) -> np.ndarray:
    if loop is not None:
        return inside(loop[None], n[None], points[None], 1e-7 * ref.size)[0]
    across = points - ref.middle
    across = across - (across @ ref.axis)[:, None] * ref.axis
    return np.linalg.norm(across, axis=1) <= ref.disc[0] * (1 + 1e-7)


def _rim_over(ref: SmoothPiece, inc: SmoothPiece, n: np.ndarray) -> list[np.ndarray]:
    """Points of the reference's rim lifted onto a face of the other that looks at it."""
    lifted = []
    for m, corners in inc.faces:
        if m @ n < -np.cos(LEAN):
            base = corners[0] if corners is not None else inc.middle + inc.disc[1] * m
            rims = ref.rims(m)
            rim = rims[:4] if (rims[0] - ref.middle) @ n > 0 else rims[4:]
            up = rim + np.outer((base - rim) @ m / (n @ m), n)
            lifted.append(up[_over(inc, m, corners, up)])
    return lifted


def _distinct(points: np.ndarray, tie: float) -> np.ndarray:
    kept: list[np.ndarray] = []
    for point in points:
        if all(np.max(np.abs(point - k)) > tie for k in kept):
            kept.append(point)
    return np.array(kept)


# -- distance and depth of two support functions -------------------------------------------------------------------------


def separate(a: Support, b: Support, guess: np.ndarray, size: float) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    """The unit normal from a to b, the signed distance, and the points x of a and y of b."""
    direction = guess if np.any(guess) else np.array([0.0, 0.0, 1.0])
    pairs, last = [_pair(a, b, direction)], np.inf
    for _ in range(ROUNDS):
        weights, nearest = _nearest_in_simplex([y - x for x, y in pairs])
        pairs = [pair for pair, w in zip(pairs, weights, strict=True) if w > 0]
        weights = weights[weights > 0]
        distance = float(np.linalg.norm(nearest))
        if distance <= 1e-9 * size or len(pairs) == 4:
            return _depth(a, b, pairs, size)
        new = _pair(a, b, nearest)
        if distance - nearest @ (new[1] - new[0]) / distance <= CLOSE * size or distance >= last:  # rounding ends it too
            break
        pairs, last = [*pairs, new], distance
    pairs = pairs[: len(weights)]
    x, y = (sum(w * pair[k] for w, pair in zip(weights, pairs, strict=True)) for k in (0, 1))
    return nearest / distance, distance, x, y


def _pair(a: Support, b: Support, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The points whose difference is least along the direction from a to b."""
    return a(direction), b(-direction)


def _nearest_in_simplex(points: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The point of a simplex nearest to the origin: weights and point. All faces are tried; there are 15 at most."""
    best, weights_of_best = np.inf, np.zeros(len(points))
    for count in range(1, len(points) + 1):
        for chosen in combinations(range(len(points)), count):
            P = np.array([points[i] for i in chosen])
            edges = P[1:] - P[0]
            t = np.linalg.lstsq(edges.T, -P[0], rcond=1e-14)[0] if count > 1 else np.zeros(0)
            w = np.concatenate([[1 - t.sum()], t])
            if np.all(w >= 0):
                d = float(np.linalg.norm(w @ P))
                if d < best * (1 - 1e-14):
                    best, weights_of_best = d, np.zeros(len(points))
                    weights_of_best[list(chosen)] = w
    return weights_of_best, weights_of_best @ np.array(points)


def _hull(pairs: list, size: float, known: "ConvexHull | None" = None) -> "ConvexHull":
    """The hull of all differences, from that of all but the last where there is one. Points that are nearly in one face may be too
    much for a hull that grows: then it is made afresh."""
    from scipy.spatial import ConvexHull, QhullError

    points = np.array([y - x for x, y in (pairs if known is None else pairs[-1:])]) / size
    try:
        if known is None:
            return ConvexHull(points, incremental=True, qhull_options="QJ Pp")
        known.add_points(points)
        return known
    except QhullError:
        every = np.array([y - x for x, y in pairs]) / size
        return ConvexHull(every, incremental=True, qhull_options="Qt Q12 Pp")


def _depth(a: Support, b: Support, pairs: list, size: float) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    """The least depth of an overlap: a polytope inside D grows until its face nearest to the origin lies on the border of D."""
    axes = np.concatenate([np.eye(3), -np.eye(3)])
    pairs = [*pairs, *(_pair(a, b, d) for d in axes)]
    hull = _hull(pairs, size)
    n, offset, corners = axes[0], 0.0, np.zeros(3, int)
    for _ in range(ROUNDS):
        near = int(np.argmin(-hull.equations[:, 3]))
        n, offset, corners = hull.equations[near, :3], -size * hull.equations[near, 3], hull.simplices[near]
        new = _pair(a, b, -n)
        if (new[1] - new[0]) @ n - offset <= 1e-9 * size:
            break
        pairs.append(new)
        hull = _hull(pairs, size, hull)
    hull.close()
    x, y = _pair(a, b, -n)
    D = np.array([pairs[i][1] - pairs[i][0] for i in corners])
    w = np.linalg.lstsq(np.vstack([D.T, np.ones(3)]), np.append(offset * n, 1.0), rcond=None)[0]
    if np.all(w > -1e-6):
        x, y = (sum(wi * pairs[i][k] for wi, i in zip(w, corners, strict=True)) for k in (0, 1))
    return -n, -float(offset), x, y
