"""Paths through the inside of the cones, in compiled blocks: where proximal points get stuck, as in balls that come to rest.

The iteration is that of `carom.numerics.friction.interior`,

    (Â + SΘ²) dx = SΘc − R,     R = z + |y_T| e₀ − y,     dy = Θc − Θ²dx                                                  (9)

and (9) is solved on the graph of the bodies, as (18): with D = (SΘ² + γ)⁻¹ and b on the right, (I + G D Gᵀ) dv = G D b and
dx = D (b − Gᵀdv). All contacts have a share in the matrix, those that open a small one. Where several of them nearly vanish no
more than some places of dx are right; it is corrected by its residual.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import numba
import numpy as np

from carom.numerics.friction.compiled import block_factors as factors
from carom.numerics.friction.compiled.block_gradient import product, rate
from carom.numerics.friction.compiled.block_newton import BodyGraph, _across, _invert_small, _multiply
from carom.numerics.friction.compiled.block_problem import BILATERAL, BlockProblem

STALLED, PATIENCE = 1e-3, 3  #  a step shorter than this moves nothing; so many in a row are the end
SHORT, CENTRED = 0.1, 0.8  #    below this step length one towards the middle is tried, with this σ
NEAREST = 1e-6  #               of the way to the boundary of the cones is always left
FREE = 1e-12  #                 on the diagonal of bilateral rows, where Â may be singular
FREE_HERE = 1e-7  #             and in what is factorised, where a smaller one costs places: corrections make up for it
REFINEMENTS = 4
ROUNDING = 1e-16  #             of a point inside a cone: what is left to its boundary at least

_compiled = numba.njit(cache=True, fastmath=False, error_model="numpy")


def interior_points(problem: BlockProblem, height: float, most: int) -> Iterator[np.ndarray]:
    """Impulses along a path that begins at x = y = height · e₀, until steps stall; where contacts neither carry nor open, x and y
    vanish like √τ: the caller looks at the certificate."""
    free = problem.kind == BILATERAL
    x = np.zeros_like(problem.q)
    x[~free, 0] = height
    y, contacts, stalled = x.copy(), max(1, int(np.sum(~free))), 0
    rank = factors.order(problem.pair, problem.bodies)
    problem = replace(problem, pair=np.append(rank, problem.bodies)[problem.pair].astype(np.int64))
    for _ in range(most):
        found = _step(problem, x, y, float(np.sum(x * y)) / contacts, contacts)
        if found is None:
            return
        dx, dy, alpha = found
        stalled = stalled + 1 if not alpha > STALLED else 0
        if stalled > PATIENCE or not math.isfinite(alpha):
            return
        x, y = x + alpha * dx, y + alpha * dy
        yield x


def _step(problem: BlockProblem, x: np.ndarray, y: np.ndarray, tau: float, contacts: int):
    """The predictor, the corrector and how far to go along it."""
    R, kind = problem.dims[1], problem.kind
    theta, inverse, squared, point, shear, D = _scalings(x, y, kind, problem.soft, FREE_HERE, R)
    graph = BodyGraph.of(problem, D)
    if graph is None:
        return None
    defect = rate(problem, x) - y
    defect[:, 0] += _slidings(y, kind, R)
    sheared = _matrices(shear, squared)  # SΘ²
    sheared[kind == BILATERAL, 0, 0] = FREE

    def direction(c: np.ndarray):
        pushed = _multiply(theta, c)
        b = _multiply(shear, pushed) - defect
        dx, rest, size = np.zeros_like(b), b, np.inf
        for _ in range(1 + REFINEMENTS):
            better = dx + graph.solve(D, _multiply(D, rest))
            rest = b - product(problem, better) - _multiply(sheared, better)
            new = float(np.linalg.norm(rest))
            if not new < size:
                break
            dx, size, slow = better, new, not new < 0.5 * size
            if slow:
                break
        dy = pushed - _multiply(squared, dx)
        return dx, dy

    def reach(dx, dy):
        return min(_longest(x, dx, kind, R), _longest(y, dy, kind, R))

    dx, dy = direction(-point)
    alpha = min(1.0, reach(dx, dy))
    ahead = float(np.sum((x + alpha * dx) * (y + alpha * dy))) / contacts
    sigma = max((max(ahead, 0.0) / tau) ** 3 if tau > 0 else 0.0, (1 - alpha) ** 3, 1e-6)
    dx, dy = direction(_targets(theta, inverse, point, dx, dy, kind, sigma * tau, R))
    fraction = min(max(0.99, 1 - tau), 1 - NEAREST)
    alpha = min(1.0, fraction * reach(dx, dy))
    if alpha < SHORT:  # the iterate is too near to the boundary: back to the middle
        middle = direction(_targets(theta, inverse, point, 0 * dx, 0 * dy, kind, CENTRED * tau, R))
        other = min(1.0, fraction * reach(*middle))
        if other > alpha:
            return *middle, other
    return dx, dy, alpha


@_compiled
def _determinant(x, R):
    length = _across(x, R)
    return max(x[0] - length, ROUNDING * x[0]) * (x[0] + length)


@_compiled
def _outer(a, block, factor, mirrored, w):
    """factor · (2aaᵀ − J), with Ja for a where it is mirrored."""
    for i in range(w):
        for j in range(w):
            sign = -1.0 if mirrored and (i == 0) != (j == 0) else 1.0
            block[i, j] = 2 * factor * sign * a[i] * a[j]
        block[i, i] += factor if i > 0 else -factor


@_compiled
def _scalings(x, y, kind, soft, free, R):
    """Θ, Θ⁻¹, Θ², λ of the cones, S and D, unit by unit; of bilateral rows Θ and λ vanish and S is one."""
    units, w = x.shape
    theta, inverse, squared = np.zeros((units, w, w)), np.zeros((units, w, w)), np.zeros((units, w, w))
    shear, D, point = np.zeros((units, w, w)), np.zeros((units, w, w)), np.zeros((units, w))
    a, v, M = np.empty(w), np.empty(w), np.empty((w, w))
    for u in range(units):
        for i in range(w):
            shear[u, i, i] = 1.0
        if kind[u] == 2:
            D[u, 0, 0] = 1.0 / (free + soft[u])
            continue
        if kind[u] == 1:
            ratio = y[u, 0] / x[u, 0]
            squared[u, 0, 0], theta[u, 0, 0], inverse[u, 0, 0] = ratio, math.sqrt(ratio), 1 / math.sqrt(ratio)
            point[u, 0] = math.sqrt(x[u, 0] * y[u, 0])
            D[u, 0, 0] = 1.0 / (ratio + soft[u])
            continue
        root_x, root_y = math.sqrt(_determinant(x[u], R)), math.sqrt(_determinant(y[u], R))
        inner = 0.0
        for i in range(w):
            inner += x[u, i] * y[u, i]
        gamma = math.sqrt(0.5 * (1 + inner / (root_x * root_y)))
        for i in range(w):
            a[i] = (x[u, i] / root_x + (y[u, i] if i == 0 else -y[u, i]) / root_y) / (2 * gamma)
        beta = math.sqrt(root_x / root_y)
        scale = 1 / math.sqrt(2 * (a[0] + 1))
        for i in range(w):
            v[i] = (a[i] + (1.0 if i == 0 else 0.0)) * scale
        _outer(v, theta[u], 1 / beta, True, w)
        _outer(v, inverse[u], beta, False, w)
        _outer(a, squared[u], 1 / (beta * beta), True, w)
        for i in range(w):
            for j in range(w):
                point[u, i] += theta[u, i, j] * x[u, j]
        sliding = _across(y[u], R)
        if sliding > 0:
            for j in range(1, w):
                shear[u, 0, j] = -y[u, j] / sliding
        for i in range(w):
            for j in range(w):
                M[i, j] = squared[u, i, j]
        for j in range(w):
            for c in range(1, w):
                M[0, j] += shear[u, 0, c] * squared[u, c, j]
        M[0, 0] += soft[u]
        _invert_small(M, D[u], w)
    return theta, inverse, squared, point, shear, D


@_compiled
def _matrices(A, B):
    out = np.zeros_like(A)
    w = A.shape[1]
    for u in range(len(A)):
        for i in range(w):
            for j in range(w):
                for c in range(w):
                    out[u, i, j] += A[u, i, c] * B[u, c, j]
    return out


@_compiled
def _slidings(y, kind, R):
    out = np.zeros(len(y))
    for u in range(len(y)):
        if kind[u] == 0:
            out[u] = _across(y[u], R)
    return out


@_compiled
def _targets(theta, inverse, point, dx, dy, kind, gap, R):
    """c of (9)."""
    units, w = dx.shape
    out, a, b, aim = np.zeros_like(dx), np.empty(w), np.empty(w), np.empty(w)
    for u in range(units):
        if kind[u] == 2:
            continue
        size = w if kind[u] == 0 else 1
        p = point[u]
        for i in range(size):
            a[i] = b[i] = 0.0
            for j in range(size):
                a[i] += theta[u, i, j] * dx[u, j]
                b[i] += inverse[u, i, j] * dy[u, j]
        aim[0] = gap
        for i in range(size):
            aim[0] -= p[i] * p[i] + a[i] * b[i]
        for i in range(1, size):
            aim[i] = -(2 * p[0] * p[i] + a[0] * b[i] + b[0] * a[i])
        head = p[0] * aim[0]
        for i in range(1, size):
            head -= p[i] * aim[i]
        head /= _determinant(p, R) if size > 1 else p[0] * p[0]
        out[u, 0] = head
        for i in range(1, size):
            out[u, i] = (aim[i] - head * p[i]) / p[0]
    return out


@_compiled
def _longest(x, dx, kind, R):
    """The largest α with x + α dx in the cones (∞ if there is none), for x inside."""
    most = 0.0
    w = x.shape[1]
    for u in range(len(x)):
        if kind[u] == 1:
            most = max(most, -dx[u, 0] / x[u, 0])
        elif kind[u] == 0:
            root = math.sqrt(_determinant(x[u], R))
            inner = x[u, 0] * dx[u, 0]
            for i in range(1, w):
                inner -= x[u, i] * dx[u, i]
            inner /= root
            ahead = (inner + dx[u, 0]) / (x[u, 0] / root + 1)
            tail = 0.0
            for i in range(1, w):
                tail += (dx[u, i] - ahead * x[u, i] / root) ** 2
            most = max(most, (math.sqrt(tail) - inner) / root)
    return 1 / most if most > 0 else math.inf
