"""The rows of contacts and the problem they make, compiled: what `carom.bodies.contact_rows` and `velocity` do by arrays.

Rows know their two bodies, so rates, impulses and W = HᵀM⁻¹H + γ need no matrix H: six numbers a body and row.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from carom.bodies.compiled import inner, outer, plain

if TYPE_CHECKING:
    from carom.bodies.contact_rows import Rows
    from carom.bodies.posed import Posed
    from carom.bodies.scene import Scene

LINE, TABLE, BLOCK, NUMBERS, FLAGS = "float64[::1]", "float64[:, ::1]", "float64[:, :, ::1]", "int64[::1]", "boolean[::1]"
ROWS = f"{NUMBERS}, {NUMBERS}, {TABLE}, {TABLE}, {TABLE}"
NOTHING = np.zeros(0)


def contact_columns(
    normal: np.ndarray, point: np.ndarray, a: np.ndarray, b: np.ndarray, x: np.ndarray, moves: np.ndarray, dim: int
) -> tuple[np.ndarray, ...]:
    return contact_rows(plain(normal), plain(point), plain(a), plain(b), plain(x), moves, dim)


def rates_of(rows: "Rows", v: np.ndarray, spin: np.ndarray) -> np.ndarray:
    return rates_of_rows(*_columns(rows), plain(v), plain(spin))


def kick_of(rows: "Rows", impulses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return kick_of_rows(*_columns(rows), plain(impulses), rows.bodies)


def parts_of(a: np.ndarray, b: np.ndarray, n: int) -> np.ndarray:
    return parts_of_pairs(plain(a), plain(b), n)


def delassus(scene: "Scene", rows: "Rows", inverse: np.ndarray) -> np.ndarray:
    give = NOTHING if rows.compliance is None else rows.compliance
    return matrix_of_rows(*_columns(rows), 1 + rows.tangents, rows.contacts, scene.inverse_mass, plain(inverse), plain(give))


def velocities_after(posed: "Posed", v: np.ndarray, L: np.ndarray, impulses: np.ndarray, size: np.ndarray) -> tuple[Any, ...]:
    scene, rows = posed.scene, posed.rows
    of = (rows.a, rows.b) if len(size) == len(rows.a) else (plain(posed.contacts.a), plain(posed.contacts.b))
    given = plain(v), plain(L), plain(impulses), *of, plain(size)
    return after_impulses(*_columns(rows), *given, scene.inverse_mass, scene.reach, scene.free, plain(posed.inverse))


def _columns(rows: "Rows") -> tuple[np.ndarray, ...]:
    """As signatures expect them: rows are made here, or by arrays that are in one piece."""
    return rows.a, rows.b, plain(rows.linear), plain(rows.turn_a), plain(rows.turn_b)


@inner
def _frame(linear, at, nx, ny, nz, dim):
    """A normal and directions across it, as rows of `linear`."""
    linear[at, 0], linear[at, 1], linear[at, 2] = nx, ny, nz
    if dim == 2:
        linear[at + 1, 0], linear[at + 1, 1], linear[at + 1, 2] = -ny, nx, 0.0
        return
    if abs(nx) <= abs(ny) and abs(nx) <= abs(nz):
        fx, fy, fz = 0.0, nz, -ny
    elif abs(ny) <= abs(nz):
        fx, fy, fz = -nz, 0.0, nx
    else:
        fx, fy, fz = ny, -nx, 0.0
    length = math.sqrt(fx * fx + fy * fy + fz * fz)
    fx, fy, fz = fx / length, fy / length, fz / length
    linear[at + 1, 0], linear[at + 1, 1], linear[at + 1, 2] = fx, fy, fz
    linear[at + 2, 0], linear[at + 2, 1], linear[at + 2, 2] = ny * fz - nz * fy, nz * fx - nx * fz, nx * fy - ny * fx


@inner
def _turn(turn, linear, row, px, py, pz):
    lx, ly, lz = linear[row, 0], linear[row, 1], linear[row, 2]
    turn[row, 0], turn[row, 1], turn[row, 2] = py * lz - pz * ly, pz * lx - px * lz, px * ly - py * lx


@outer(f"Tuple(({NUMBERS}, {NUMBERS}, {TABLE}, {TABLE}, {TABLE}))({TABLE}, {TABLE}, {NUMBERS}, {NUMBERS}, {TABLE}, {FLAGS}, int64)")
def contact_rows(normal, point, a, b, x, moves, dim):
    """The bodies of all rows, their directions, and the levers r × direction on both; what never moves has none."""
    count = len(a)
    m = count * dim
    first, second = np.empty(m, np.int64), np.empty(m, np.int64)
    linear, turn_a, turn_b = np.empty((m, 3)), np.zeros((m, 3)), np.zeros((m, 3))
    for c in range(count):
        i, j, at = a[c], b[c], c * dim
        _frame(linear, at, normal[c, 0], normal[c, 1], normal[c, 2], dim)
        for row in range(at, at + dim):
            first[row], second[row] = i, j
            if moves[i]:
                _turn(turn_a, linear, row, point[c, 0] - x[i, 0], point[c, 1] - x[i, 1], point[c, 2] - x[i, 2])
            if moves[j]:
                _turn(turn_b, linear, row, point[c, 0] - x[j, 0], point[c, 1] - x[j, 1], point[c, 2] - x[j, 2])
    return first, second, linear, turn_a, turn_b


@inner
def _rates_into(a, b, linear, turn_a, turn_b, v, spin, u):
    for k in range(len(a)):
        i, j, value = a[k], b[k], 0.0
        for d in range(3):
            value += linear[k, d] * (v[j, d] - v[i, d])
        for d in range(3):
            value += turn_b[k, d] * spin[j, d] - turn_a[k, d] * spin[i, d]
        u[k] = value


@outer(f"{LINE}({ROWS}, {TABLE}, {TABLE})")
def rates_of_rows(a, b, linear, turn_a, turn_b, v, spin):
    u = np.empty(len(a))
    _rates_into(a, b, linear, turn_a, turn_b, v, spin, u)
    return u


@inner
def _kick_into(a, b, linear, turn_a, turn_b, impulses, p, L):
    for k in range(len(a)):
        r, i, j = impulses[k], a[k], b[k]
        for d in range(3 if r != 0.0 else 0):
            p[i, d] -= r * linear[k, d]
            p[j, d] += r * linear[k, d]
            L[i, d] -= r * turn_a[k, d]
            L[j, d] += r * turn_b[k, d]


@outer(f"UniTuple({TABLE}, 2)({ROWS}, {LINE}, int64)")
def kick_of_rows(a, b, linear, turn_a, turn_b, impulses, bodies):
    p, L = np.zeros((bodies, 3)), np.zeros((bodies, 3))
    _kick_into(a, b, linear, turn_a, turn_b, impulses, p, L)
    return p, L


@inner
def _root(first, i):
    while first[i] != i:
        i = first[i]
    return i


@outer(f"{NUMBERS}({NUMBERS}, {NUMBERS}, int64)")
def parts_of_pairs(a, b, n):
    """The first of all that the pairs connect, for each."""
    first = np.arange(n)
    for k in range(len(a)):
        i, j = _root(first, a[k]), _root(first, b[k])
        first[max(i, j)] = min(i, j)
        first[a[k]] = first[b[k]] = min(i, j)
    for i in range(n):
        first[i] = first[first[i]]
    return first


@inner
def _times(matrix, body, turn, row, out, side):
    for d in range(3):
        value = 0.0
        for e in range(3):
            value += matrix[body, d, e] * turn[row, e]
        out[row, side, d] = value


@inner
def _entry(i, j, mine, theirs, sign, turn, light, side, linear, inverse_mass):
    """What a body that rows i and j share adds to W."""
    if mine != theirs or inverse_mass[mine] == 0.0:
        return 0.0
    value = 0.0
    for d in range(3):
        value += inverse_mass[mine] * linear[i, d] * linear[j, d] + turn[i, d] * light[j, side, d]
    return sign * value


@outer(f"{TABLE}({ROWS}, int64, int64, {LINE}, {BLOCK}, {LINE})")
def matrix_of_rows(a, b, linear, turn_a, turn_b, width, contacts, inverse_mass, inverse, give):
    """W: entries of rows that share a body that is free."""
    m, edge = len(a), contacts * width
    units = contacts + m - edge
    W, light = np.zeros((m, m)), np.empty((m, 2, 3))
    for k in range(m):
        _times(inverse, a[k], turn_a, k, light, 0)
        _times(inverse, b[k], turn_b, k, light, 1)
    for one in range(units):
        first = one * width if one < contacts else edge + one - contacts
        end = first + (width if one < contacts else 1)
        p, q = a[first], b[first]
        for other in range(one, units):
            start = other * width if other < contacts else edge + other - contacts
            stop = start + (width if other < contacts else 1)
            r, s = a[start], b[start]
            if p != r and p != s and q != r and q != s:
                continue
            for i in range(first, end):
                for j in range(start, stop):
                    value = _entry(i, j, p, r, 1.0, turn_a, light, 0, linear, inverse_mass)
                    value += _entry(i, j, p, s, -1.0, turn_a, light, 1, linear, inverse_mass)
                    value += _entry(i, j, q, r, -1.0, turn_b, light, 0, linear, inverse_mass)
                    value += _entry(i, j, q, s, 1.0, turn_b, light, 1, linear, inverse_mass)
                    W[i, j] = W[j, i] = value
    for k in range(len(give)):
        W[k, k] += give[k]
    return W


@inner
def _spin_of(inverse, free, L, body, spin):
    """ω of a momentum; what is prescribed tells its spin in its place."""
    for d in range(3):
        if free[body]:
            value = 0.0
            for e in range(3):
                value += inverse[body, d, e] * L[body, e]
            spin[body, d] = value
        else:
            spin[body, d] = L[body, d]


@outer(
    f"Tuple(({TABLE}, {TABLE}, {TABLE}, {LINE}, {LINE}))({ROWS}, {TABLE}, {TABLE}, {LINE}, {NUMBERS}, {NUMBERS}, {LINE}, {LINE}, "
    f"{LINE}, {FLAGS}, {BLOCK})"
)
def after_impulses(a, b, linear, turn_a, turn_b, v, L, impulses, size_a, size_b, size, inverse_mass, reach, free, inverse):
    """Velocities, momenta and spins after the impulses, rates of the rows, and the largest velocity that each body's problem is
    about: of its points before, or of its contacts."""
    n, m = len(inverse_mass), len(impulses)
    new_v, new_L, spin, scale = np.zeros((n, 3)), np.zeros((n, 3)), np.empty((n, 3)), np.empty(n)
    for body in range(n):
        _spin_of(inverse, free, L, body, spin)
        fast = turning = 0.0
        for d in range(3):
            fast += v[body, d] * v[body, d]
            turning += spin[body, d] * spin[body, d]
        scale[body] = math.sqrt(fast) + reach[body] * math.sqrt(turning)
    for k in range(len(size)):
        i, j = size_a[k], size_b[k]
        scale[i], scale[j] = max(scale[i], size[k]), max(scale[j], size[k])
    _kick_into(a, b, linear, turn_a, turn_b, impulses, new_v, new_L)
    for body in range(n):
        for d in range(3):
            new_v[body, d] = v[body, d] + inverse_mass[body] * new_v[body, d]
            new_L[body, d] = L[body, d] + (new_L[body, d] if free[body] else 0.0)
        _spin_of(inverse, free, new_L, body, spin)
    u = np.empty(m)
    _rates_into(a, b, linear, turn_a, turn_b, new_v, spin, u)
    return new_v, new_L, spin, u, scale
