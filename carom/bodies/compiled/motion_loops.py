"""Free motion, and what comes near a half-space, compiled: `rotate_freely` of `carom.bodies.quaternions` and `detection.walls`,
body by body.

The numbers (1) and (2) are those of `rotate_freely`.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from carom.bodies.compiled import inner, outer, plain

if TYPE_CHECKING:
    from carom.bodies.detection.geometry import Placement
    from carom.bodies.scene import Scene, State

LINE, TABLE, BLOCK, NUMBERS, FLAGS = "float64[::1]", "float64[:, ::1]", "float64[:, :, ::1]", "int64[::1]", "boolean[::1]"


def drifted(scene: "Scene", state: "State", tau: float, limits: tuple[float, ...]) -> tuple[np.ndarray, ...]:
    middle, A, spread, trace, product = scene.moments
    given = plain(state.x), plain(state.q), plain(state.v), plain(state.L)
    *found, far = drift_bodies(*given, scene.free, middle, A, spread, trace, product, scene.round is not None, tau, limits)
    return () if far else tuple(found)  # what turns too far is left to arrays, which know its closed form


def over_half_space(
    placement: "Placement", number: int, may: np.ndarray, normal: np.ndarray, height: float, margin: np.ndarray
) -> tuple[Any, ...]:
    group = placement.geometry.groups[number]
    placed = group.points, group.bodies, group.pieces, group.radius, group.bound, may
    return corners_over_plane(*placed, plain(placement.x), plain(placement.R), plain(normal), height, plain(margin))


@inner
def _product(a, b):
    """The rotation b, then a."""
    return (
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[1] * b[0] + a[0] * b[1] - a[3] * b[2] + a[2] * b[3],
        a[2] * b[0] + a[3] * b[1] + a[0] * b[2] - a[1] * b[3],
        a[3] * b[0] - a[2] * b[1] + a[1] * b[2] + a[0] * b[3],
    )


@inner
def _exponential(x, y, z):
    half = 0.5 * math.sqrt(x * x + y * y + z * z)
    share = 0.5 * (math.sin(half) / half) if half > 0.0 else 0.5
    return math.cos(half), share * x, share * y, share * z


@inner
def _turned(q, x, y, z):
    """After a turn of space, of length one."""
    new = _product(_exponential(x, y, z), q)
    size = math.sqrt(new[0] * new[0] + new[1] * new[1] + new[2] * new[2] + new[3] * new[3])
    return new[0] / size, new[1] / size, new[2] / size, new[3] / size


@inner
def _rotate(q, v):
    """R v, as v + 2 w (p × v) + 2 p × (p × v)."""
    w, x, y, z = q
    a, b, c = 2 * (y * v[2] - z * v[1]), 2 * (z * v[0] - x * v[2]), 2 * (x * v[1] - y * v[0])
    return v[0] + w * a + y * c - z * b, v[1] + w * b + z * a - x * c, v[2] + w * c + x * b - y * a


@inner
def _matrix(q, R, body):
    """As `quaternions.matrix`, to the last bit where it is the identity."""
    w, x, y, z = q
    R[body, 0, 0], R[body, 1, 1], R[body, 2, 2] = 1 - 2 * (y * y + z * z), 1 - 2 * (x * x + z * z), 1 - 2 * (x * x + y * y)
    R[body, 0, 1], R[body, 1, 0] = 2 * (x * y - w * z), 2 * (x * y + w * z)
    R[body, 0, 2], R[body, 2, 0] = 2 * (x * z + w * y), 2 * (x * z - w * y)
    R[body, 1, 2], R[body, 2, 1] = 2 * (y * z - w * x), 2 * (y * z + w * x)


@inner
def _times(A, body, v):
    return (
        A[body, 0, 0] * v[0] + A[body, 0, 1] * v[1] + A[body, 0, 2] * v[2],
        A[body, 1, 0] * v[0] + A[body, 1, 1] * v[1] + A[body, 1, 2] * v[2],
        A[body, 2, 0] * v[0] + A[body, 2, 1] * v[1] + A[body, 2, 2] * v[2],
    )


@inner
def _dot(u, v):
    return u[0] * v[0] + u[1] * v[1] + u[2] * v[2]


@inner
def _free_rotation(q, L, body, middle, A, trace, product, tau, stretches, sweeps):
    """(1) with (2), in so many stretches."""
    step, energy, kept = tau / stretches, 0.0, 0.0
    square = _dot(L, L)
    size = math.sqrt(square)
    for stretch in range(stretches):
        start = _rotate((q[0], -q[1], -q[2], -q[3]), L)
        if stretch == 0:
            energy = _dot(start, _times(A, body, start))
            kept = 0.5 * product * square - trace * energy
        end, angle, last = start, start, math.inf
        for _ in range(sweeps):
            spin = _times(A, body, (0.5 * (start[0] + end[0]), 0.5 * (start[1] + end[1]), 0.5 * (start[2] + end[2])))
            share = step + step**3 / 6 * (_dot(spin, spin) + kept)
            angle = share * spin[0], share * spin[1], share * spin[2]
            new = _rotate(_exponential(-angle[0], -angle[1], -angle[2]), start)
            change = max(abs(new[0] - end[0]), abs(new[1] - end[1]), abs(new[2] - end[2]))
            end = new
            if change <= 1e-16 * size or (change >= last and change <= 1e-14 * size):
                break
            last = change
        q = _product(q, _exponential(angle[0], angle[1], angle[2]))
    about = tau * middle + stretches * step**3 / 12 * product * energy
    return _turned(q, about * L[0], about * L[1], about * L[2])


@outer(
    f"Tuple(({TABLE}, {TABLE}, {BLOCK}, boolean))({TABLE}, {TABLE}, {TABLE}, {TABLE}, {FLAGS}, {LINE}, {BLOCK}, {LINE}, {LINE}, "
    f"{LINE}, boolean, float64, UniTuple(float64, 5))"
)
def drift_bodies(x, q, v, L, free, middle, A, spread, trace, product, rounds, tau, limits):
    """Places, orientations and rotations after a free motion, and whether something turns too far for that. What turns fastest says
    in how many stretches all do; where two moments are equal one is exact."""
    longest, none, sweeps, long, alike = limits
    n, most, widest = len(x), 0.0, 0.0
    new_x, new_q, R = np.empty((n, 3)), np.empty((n, 4)), np.empty((n, 3, 3))
    for body in range(n):
        size = math.sqrt(L[body, 0] * L[body, 0] + L[body, 1] * L[body, 1] + L[body, 2] * L[body, 2])
        if free[body]:
            most = max(most, abs(tau) * size * spread[body])
            if not abs(product[body]) <= alike * spread[body] ** 2:
                widest = max(widest, abs(tau) * size * spread[body])
        for d in range(3):
            new_x[body, d] = x[body, d] + tau * v[body, d]
    far = not rounds and widest > long * longest and math.isfinite(widest)  # the step tells what is not finite
    stretches = max(1, math.ceil(widest / longest)) if math.isfinite(widest) and not far else 1
    for body in range(n):
        turn, before = (L[body, 0], L[body, 1], L[body, 2]), (q[body, 0], q[body, 1], q[body, 2], q[body, 3])
        after = before
        if free[body] and _dot(turn, turn) != 0.0:
            if rounds or most <= none:
                share = tau * middle[body]
                after = _turned(before, share * turn[0], share * turn[1], share * turn[2])
            else:
                more = trace[body], product[body], tau, stretches, int(sweeps)
                after = _free_rotation(before, turn, body, middle[body], A, *more)
        new_q[body, 0], new_q[body, 1], new_q[body, 2], new_q[body, 3] = after
        _matrix(after, R, body)
    return new_x, new_q, R, far


@outer(
    f"Tuple(({NUMBERS}, {NUMBERS}, {TABLE}, {TABLE}, {LINE}))({BLOCK}, {NUMBERS}, {NUMBERS}, {LINE}, {LINE}, {FLAGS}, {TABLE}, "
    f"{BLOCK}, {LINE}, float64, {LINE})"
)
def corners_over_plane(points, bodies, pieces, radius, bound, may, x, R, normal, height, margin):
    """Pieces, numbers, places, normals and gaps of the corners that are nearer to a half-space than the margin of their body."""
    count, corners = 0, points.shape[1]
    at, gaps = np.empty((len(bodies) * corners, 2), np.int64), np.empty(len(bodies) * corners)
    place, local = np.empty((len(bodies) * corners, 3)), np.empty(3)
    for g in range(len(bodies)):
        body = bodies[g]
        above = x[body, 0] * normal[0] + x[body, 1] * normal[1] + x[body, 2] * normal[2] - height
        if not may[g] or not above - bound[g] < margin[body]:
            continue
        for c in range(corners):
            for d in range(3):
                local[d] = R[body, d, 0] * points[g, c, 0] + R[body, d, 1] * points[g, c, 1] + R[body, d, 2] * points[g, c, 2]
                local[d] += x[body, d]
            gap = (local[0] * normal[0] + local[1] * normal[1] + local[2] * normal[2]) - (height + radius[g])
            if gap < margin[body]:
                at[count, 0], at[count, 1], gaps[count] = pieces[g], c, gap
                for d in range(3):
                    place[count, d] = local[d] - radius[g] * normal[d]
                count += 1
    piece, feature, gap = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)
    point, normals = np.empty((count, 3)), np.empty((count, 3))
    for k in range(count):
        piece[k], feature[k], gap[k] = at[k, 0], at[k, 1], gaps[k]
        for d in range(3):
            point[k, d], normals[k, d] = place[k, d], normal[d]
    return piece, feature, point, normals, gap
