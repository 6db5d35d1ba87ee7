"""The inside of the cones, unit by unit: Nesterov and Todd's scaling, what a step aims at, and how far it may go.

As in `carom.numerics.friction.interior`, Θx = Θ⁻¹y = λ. S = I − e₀tᵀ is the shift of (9); where its kink is rounded off, |y_T| is
√(|y_T|² + blur²) and t is y_T over that.
"""

import math

import numba
import numpy as np

from carom.numerics.friction.compiled.block_newton import _across, _invert_small

ROUNDING = 1e-16  #  of a point inside a cone: what is left to its boundary at least

_compiled = numba.njit(cache=True, fastmath=False, error_model="numpy")


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
def _scalings(x, y, kind, soft, free, blur, R):
    """Θ, Θ⁻¹, Θ², λ of the cones, S and D = (SΘ² + γ)⁻¹; of bilateral rows Θ and λ vanish, S is one and D is 1/free."""
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
        sliding = math.hypot(_across(y[u], R), blur)
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
def _slidings(y, kind, blur, R):
    out = np.zeros(len(y))
    for u in range(len(y)):
        if kind[u] == 0:
            out[u] = math.hypot(_across(y[u], R), blur)
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
