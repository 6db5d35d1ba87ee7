"""The points of contact of polytopes, compiled: `carom.bodies.detection.separation`, `nearest` and `manifold`, pair by pair.

The same axes, nearest points and polygons, in the same order where two are as good, and the same numbers of points; what a number
means is told there. Vectors are tuples of three, a polytope is (points, normals, directions, loops, edges).
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from carom.bodies.compiled import inner, outer, plain

if TYPE_CHECKING:
    from carom.bodies.detection.geometry import Group

BLOCK, LOOPS, LINE, NUMBERS = "float64[:, :, ::1]", "int64[:, :, ::1]", "float64[::1]", "int64[::1]"
TABLE = "float64[:, ::1]"
GROUP = f"Tuple(({BLOCK}, {BLOCK}, {BLOCK}, {LOOPS}, {LOOPS}, {LINE}, {LINE}, {NUMBERS}, {NUMBERS}, {NUMBERS}))"


def polytope_points(
    a: "Group", rows_a: np.ndarray, b: "Group", rows_b: np.ndarray, margin: np.ndarray, pieces: int, limits: tuple[float, ...]
) -> tuple[Any, ...]:
    """a, b, point, normal, gap and key of `carom.bodies.detection.detect.Contacts`."""
    return points_of_pairs(_arrays(a, rows_a), _arrays(b, rows_b), plain(margin), pieces, limits)


def _arrays(group: "Group", rows: np.ndarray) -> tuple[np.ndarray, ...]:
    shape = group.points, group.normals, group.directions, group.loops, group.edges
    return *shape, group.radius, group.size, group.bodies, group.pieces, rows


@inner
def _at(points, k):
    return points[k, 0], points[k, 1], points[k, 2]


@inner
def _dot(u, v):
    return u[0] * v[0] + u[1] * v[1] + u[2] * v[2]


@inner
def _minus(u, v):
    return u[0] - v[0], u[1] - v[1], u[2] - v[2]


@inner
def _plus(u, s, v):
    return u[0] + s * v[0], u[1] + s * v[1], u[2] + s * v[2]


@inner
def _cross(u, v):
    return u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]


@inner
def _unit(u):
    length = math.sqrt(_dot(u, u))
    return (u[0] / length, u[1] / length, u[2] / length) if length > 0.0 else u


@inner
def _farthest(points, n, sign):
    """The point that is farthest along sign · n: its number and its height along n."""
    best, number = -math.inf, 0
    for k in range(len(points)):
        height = sign * _dot(_at(points, k), n)
        if height > best:
            best, number = height, k
    return number, sign * best


@inner
def _best_axis(a, b, size, tie, parallel):
    """Separation, normal, and whether it is a product of edges."""
    best, n, crossed = -math.inf, (0.0, 0.0, 0.0), False
    for f in range(len(a[1])):
        normal = _at(a[1], f)
        s = _farthest(b[0], normal, -1.0)[1] - _dot(normal, _at(a[0], a[3][f, 0]))
        if s > best:
            best, n = s, normal
    for f in range(len(b[1])):
        normal = _at(b[1], f)
        s = _farthest(a[0], normal, -1.0)[1] - _dot(normal, _at(b[0], b[3][f, 0]))
        if s > best:
            best, n = s, (-normal[0], -normal[1], -normal[2])
    least = best
    for i in range(len(a[2])):
        for j in range(len(b[2])):
            axis = _cross(_at(a[2], i), _at(b[2], j))
            if not math.sqrt(_dot(axis, axis)) > parallel:
                continue
            axis = _unit(axis)
            forth = _farthest(b[0], axis, -1.0)[1] - _farthest(a[0], axis, 1.0)[1]
            back = _farthest(a[0], axis, -1.0)[1] - _farthest(b[0], axis, 1.0)[1]
            s = max(forth, back)
            if s - tie * size > least:
                best, least, crossed = s, s - tie * size, True
                n = axis if forth >= back else (-axis[0], -axis[1], -axis[2])
    return best, n, crossed


@inner
def _inside(points, loop, normal, p, slack):
    """Whether a point, seen along the normal, lies in a polygon widened by slack; one of two corners is a side in the plane."""
    count = len(loop)
    for k in range(count):
        corner = _at(points, loop[k])
        along = _minus(_at(points, loop[k + 1 if k + 1 < count else 0]), corner)
        inward = _unit(along if count == 2 else _cross(normal, along))
        if not _dot(p, inward) - _dot(inward, corner) >= -slack:
            return False
    return True


@inner
def _corner_over_face(a, b):
    """The corner of b that is nearest to a face of a, among those that stand over one: distance, corner, normal."""
    best, corner, normal = math.inf, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    for f in range(len(a[1])):
        n, first = _at(a[1], f), _at(a[0], a[3][f, 0])
        for k in range(len(b[0])):
            p = _at(b[0], k)
            height = _dot(n, _minus(p, first))
            if 0.0 <= height < best and _inside(a[0], a[3][f], n, p, 0.0):
                best, corner, normal = height, p, n
    return best, corner, normal


@inner
def _closest(p, u, q, v):
    """Where on the segments p + s u and q + t v they are nearest; segments of no length are allowed."""
    w = _minus(p, q)
    uu, vv, uv, uw, vw = _dot(u, u), _dot(v, v), _dot(u, v), _dot(u, w), _dot(v, w)
    det = uu * vv - uv * uv
    s = min(max((uv * vw - vv * uw) / det, 0.0), 1.0) if det > 1e-14 * uu * vv else 0.0
    t = min(max((uv * s + vw) / vv, 0.0), 1.0) if vv > 0.0 else 0.0
    s = min(max((uv * t - uw) / uu, 0.0), 1.0) if uu > 0.0 else 0.0
    return s, t


@inner
def _across(u, v):
    """A unit vector at right angles to two edges that meet in a point."""
    u, v = _unit(u), _unit(v)
    product = _cross(u, v)
    if math.sqrt(_dot(product, product)) > 1e-12:
        return _unit(product)
    along = u if _dot(u, u) > 0.0 else v
    x, y, z = abs(along[0]), abs(along[1]), abs(along[2])
    least = (1.0, 0.0, 0.0) if x <= y and x <= z else ((0.0, 1.0, 0.0) if y <= z else (0.0, 0.0, 1.0))
    product = _cross(along, least)
    return _unit(product) if math.sqrt(_dot(product, product)) > 1e-12 else (0.0, 1.0, 0.0)


@inner
def _nearest_edges(a, b, out):
    """The nearest points of all edges of a and all of b moved by `out`: square of the distance, points and normal."""
    best, x, y, from_a, from_b = math.inf, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    for i in range(len(a[4])):
        p = _at(a[0], a[4][i, 0])
        u = _minus(_at(a[0], a[4][i, 1]), p)
        for j in range(len(b[4])):
            first = _at(b[0], b[4][j, 0])
            v = _minus(_at(b[0], b[4][j, 1]), first)
            q = _plus(first, 1.0, out)
            s, t = _closest(p, u, q, v)
            on_a, on_b = _plus(p, s, u), _plus(q, t, v)
            distance = math.sqrt(_dot(_minus(on_b, on_a), _minus(on_b, on_a)))
            if distance < best:
                best, x, y, from_a, from_b = distance, on_a, on_b, u, v
    return best, x, y, _unit(_minus(y, x)) if best > 0.0 else _across(from_a, from_b)


@inner
def _nearest(a, b, tie):
    """The nearest points of two polytopes that are apart, and the normal: of a face where one is nearest."""
    best, x, y, n = _nearest_edges(a, b, (0.0, 0.0, 0.0))
    distance, corner, normal = _corner_over_face(b, a)
    if distance <= best + tie and distance < math.inf:
        best, x, y, n = distance, corner, _plus(corner, -distance, normal), (-normal[0], -normal[1], -normal[2])
    distance, corner, normal = _corner_over_face(a, b)
    if distance <= best + tie and distance < math.inf:
        x, y, n = _plus(corner, -distance, normal), corner, normal
    return x, y, n


@inner
def _facing(normals, n, sign):
    """The face that looks most along sign · n, and the cosine between them."""
    best, face = -2.0, 0
    for f in range(len(normals)):
        cosine = sign * _dot(_at(normals, f), n)
        if f == 0 or cosine > best:
            best, face = cosine, f
    return best, face


@inner
def _lowest_face(inc, n):
    """Of the faces around the corner that is lowest along n the one that looks most against it."""
    lowest, best, face = _farthest(inc[0], n, -1.0)[0], -2.0, 0
    for f in range(len(inc[1])):
        cosine = -_dot(_at(inc[1], f), n)
        if cosine > best and (inc[3][f] == lowest).any():
            best, face = cosine, f
    return face


@inner
def _candidate(found, count, p, feature, tie):
    """The point counts if none that came before is at the same place."""
    found[count, 0], found[count, 1], found[count, 2], found[count, 3] = p[0], p[1], p[2], feature
    found[count, 4] = 1.0
    for k in range(count):
        if max(abs(found[k, 0] - p[0]), abs(found[k, 1] - p[1]), abs(found[k, 2] - p[2])) <= tie:
            found[count, 4] = 0.0
            break
    return count + 1


@inner
def _clip(ref, face, inc, other, tie, found):
    """Corners of the common polygon of a face of the reference and one of the incident (or all of it, where it has no face), on
    the incident; rows of `found` are a point, its number, and whether it counts."""
    top, n, count = ref[3][face], _at(ref[1], face), 0
    flat = len(inc[1]) > 0
    sides = len(inc[3][other]) if flat else len(inc[0])
    low = np.empty(sides, np.int64)
    for j in range(sides):
        low[j] = inc[3][other, j] if flat else j
        p = _at(inc[0], low[j])
        if _inside(ref[0], top, n, p, tie):
            count = _candidate(found, count, p, float(j), tie)
    corners, number = len(top), sides
    if flat:  # corners of the reference that lie in the incident polygon, lifted onto it
        slope, number = _at(inc[1], other), sides + corners
        steep = _dot(slope, n)
        for i in range(corners if abs(steep) > 1e-6 else 0):
            p = _at(ref[0], top[i])
            p = _plus(p, _dot(slope, _minus(_at(inc[0], low[0]), p)) / steep, n)
            if _inside(inc[0], low, slope, p, tie):
                count = _candidate(found, count, p, float(sides + i), tie)
    if corners <= 2 or sides <= 1:
        return count
    for i in range(corners):
        p = _at(ref[0], top[i])
        u = _minus(_at(ref[0], top[i + 1 if i + 1 < corners else 0]), p)
        across, uu = _cross(n, u), _dot(u, u)
        for j in range(sides):
            q = _at(inc[0], low[j])
            v = _minus(_at(inc[0], low[j + 1 if j + 1 < sides else 0]), q)
            det = _dot(across, v)
            if not abs(det) > 1e-9 * math.sqrt(uu * _dot(v, v)):  # parallel sides share corners, not crossings
                continue
            apart = _cross(n, _minus(q, p))
            s, t = _dot(apart, v) / det, _dot(apart, u) / det
            if 0.0 < s < 1.0 and 0.0 < t < 1.0:
                count = _candidate(found, count, _plus(q, t, v), float(number + i * sides + j), tie)
    return count


@inner
def _put(table, count, x, y, n, feature):
    for i in range(3):
        table[count, i], table[count, 3 + i], table[count, 6 + i] = x[i], y[i], n[i]
    table[count, 9] = feature
    return count + 1


@inner
def _side_by_side(a, b, n, lean, tie, numbers, table):
    """The two points in which segments meet that lie side by side."""
    p, q = _at(a[0], 0), _at(b[0], 0)
    u, v = _minus(_at(a[0], 1), p), _minus(_at(b[0], 1), q)
    long_u, long_v = math.sqrt(_dot(u, u)), math.sqrt(_dot(v, v))
    along = u[0] / long_u, u[1] / long_u, u[2] / long_u
    slope = _dot(along, v) / long_v
    level = max(abs(_dot(n, along)), abs(_dot(n, v)) / long_v) < lean
    begin = _dot(along, _minus(q, p))
    end = begin + slope * long_v
    low, high = max(min(begin, end), 0.0), min(max(begin, end), long_u)
    if not (level and 1.0 - abs(slope) < 0.5 * lean * lean and high - low > tie):
        return 0
    _put(table, 0, _plus(p, low, along), _plus(q, (low - begin) / (slope * long_v), v), n, numbers + 1.0)
    return _put(table, 1, _plus(p, high, along), _plus(q, (high - begin) / (slope * long_v), v), n, numbers + 2.0)


@inner
def _meet(a, b, n, x, y, size, constants, found, table):
    """Rows x, y, normal and number of the points in which two polytopes meet."""
    flat, steep, lean, side, same, lone = constants
    (lean_a, face_a), (lean_b, face_b) = _facing(a[1], n, 1.0), _facing(b[1], n, -1.0)
    tilt, count = max(lean_a, lean_b), 0
    if tilt >= steep:
        if lean_a >= lean_b - 1e-9:  # rather a than b where they tie
            top, sign, more = _at(a[1], face_a), 1.0, 0.0
            first = _at(a[0], a[3][face_a, 0])
            many = _clip(a, face_a, b, _lowest_face(b, top), same * size, found)
        else:
            top, sign, more = _at(b[1], face_b), -1.0, float(int(lone) // 2)
            first = _at(b[0], b[3][face_b, 0])
            many = _clip(b, face_b, a, _lowest_face(a, top), same * size, found)
        for k in range(many):
            if found[k, 4] == 0.0:
                continue
            on_inc = _at(found, k)
            on_ref = _plus(on_inc, -_dot(_minus(on_inc, first), top), top)
            on_a, on_b = (on_ref, on_inc) if sign > 0 else (on_inc, on_ref)
            away = _minus(on_a, x)
            if tilt >= flat or math.sqrt(_dot(away, away)) > side * size:
                normal = sign * top[0], sign * top[1], sign * top[2]
                count = _put(table, count, on_a, on_b, normal, found[k, 3] + more)
        if tilt >= flat and many > 0:
            return count
    if len(a[1]) == 0 and len(b[1]) == 0 and len(a[0]) == 2 and len(b[0]) == 2:
        both = _side_by_side(a, b, n, lean, same * size, lone, table)
        if both:
            return both
    return _put(table, count, x, y, n, lone)


@inner
def _pair(a, b, size, reach, limits, constants, found, table):
    """The same for two polytopes whose cores are nearer than `reach`; none where they are not."""
    tie, parallel, apart, out, near_tie = limits
    if len(a[0]) == 1 and len(b[0]) == 1:  # balls and discs
        x, y = _at(a[0], 0), _at(b[0], 0)
        n = _minus(y, x)
        distance = math.sqrt(_dot(n, n))
        if not distance < reach:
            return 0
        return _put(table, 0, x, y, _unit(n) if distance > 0.0 else (0.0, 1.0, 0.0), constants[5])
    most, least = max(len(a[1]), len(b[1])), min(len(a[1]), len(b[1]))
    separation, n, crossed = math.inf, (0.0, 0.0, 0.0), False
    if not (most == 0 or (least == 0 and most == 2 and (len(a[0]) == 1 or len(b[0]) == 1))):  # the difference has an inside
        separation, n, crossed = _best_axis(a, b, size, tie, parallel)
        if not separation < reach:
            return 0
    if separation > apart * size:
        x, y, n = _nearest(a, b, near_tie * size)
    elif crossed:
        far = out * size - separation
        move = far * n[0], far * n[1], far * n[2]
        _, x, y, _ = _nearest_edges(a, b, move)
        y = _minus(y, move)
    else:
        x, y = _at(a[0], _farthest(a[0], n, 1.0)[0]), _at(b[0], _farthest(b[0], n, -1.0)[0])
        across = _minus(y, x)
        across = _plus(across, -_dot(across, n), n)
        x, y = _plus(x, 0.5, across), _plus(y, -0.5, across)
    return _meet(a, b, n, x, y, size, constants, found, table)


@inner
def _larger(table, rows):
    new = np.empty((rows, table.shape[1]))
    new[: len(table)] = table
    return new


@outer(
    f"Tuple(({NUMBERS}, {NUMBERS}, {TABLE}, {TABLE}, {LINE}, {NUMBERS}))({GROUP}, {GROUP}, {LINE}, int64, UniTuple(float64, 11))"
)
def points_of_pairs(group_a, group_b, margin, pieces, limits):
    """Points, normals, gaps and numbers of all pairs (rows_a[k], rows_b[k])."""
    inner_limits, constants = limits[:5], limits[5:]
    points_a, normals_a, directions_a, loops_a, edges_a, radius_a, size_a, bodies_a, pieces_a, rows_a = group_a
    points_b, normals_b, directions_b, loops_b, edges_b, radius_b, size_b, bodies_b, pieces_b, rows_b = group_b
    sides = max(loops_a.shape[2], points_a.shape[1]), max(loops_b.shape[2], points_b.shape[1])
    most = sides[0] + sides[1] + sides[0] * sides[1] + 2
    found, table = np.empty((most, 5)), np.empty((most, 10))
    kept, total = np.empty((max(16, 8 * len(rows_a)), 10)), 0
    for k in range(len(rows_a)):
        i, j = rows_a[k], rows_b[k]
        a = points_a[i], normals_a[i], directions_a[i], loops_a[i], edges_a[i]
        b = points_b[j], normals_b[j], directions_b[j], loops_b[j], edges_b[j]
        limit, radii = margin[bodies_a[i]] + margin[bodies_b[j]], radius_a[i] + radius_b[j]
        count = _pair(a, b, size_a[i] + size_b[j], limit + radii, inner_limits, constants, found, table)
        if total + count > len(kept):
            kept = _larger(kept, 2 * (total + count))
        for c in range(count):
            n = table[c, 6], table[c, 7], table[c, 8]
            gap = _dot((table[c, 3] - table[c, 0], table[c, 4] - table[c, 1], table[c, 5] - table[c, 2]), n) - radii
            if gap < limit:
                for d in range(3):
                    kept[total, d], kept[total, 3 + d] = table[c, d] + (radius_a[i] + 0.5 * gap) * n[d], n[d]
                kept[total, 6], kept[total, 7], kept[total, 8], kept[total, 9] = gap, table[c, 9], i, j
                total += 1
    a, b, key = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    point, normal, gaps = np.empty((total, 3)), np.empty((total, 3)), np.empty(total)
    for c in range(total):
        i, j = int(kept[c, 8]), int(kept[c, 9])
        a[c], b[c], gaps[c] = bodies_a[i], bodies_b[j], kept[c, 6]
        key[c] = (pieces_a[i] * pieces + pieces_b[j]) * (2 * int(limits[10])) + int(kept[c, 7])
        point[c], normal[c] = kept[c, :3], kept[c, 3:6]
    return a, b, point, normal, gaps, key
