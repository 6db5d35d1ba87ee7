"""Products with Â, the certificate, and the first-order stage, compiled.

    w = xⁿ + β(xⁿ − xⁿ⁻¹),     xⁿ⁺¹ = P_L(w − y(w) / ℓ),     y(w) = z + |z_T| e₀,   z = Âw + Γq                          (12)

The iteration is that of `carom.numerics.friction.gradient`. D and R are tuples as long as a body has coordinates and a contact
rows.
"""

import math

import numba
import numpy as np

from carom.numerics.friction.compiled.block_problem import BlockProblem

POWERS = 20  #      of Â, for the first ℓ
LOOKS = 25  #       iterations between two looks at the certificate
ROUNDING = 1e-13  # of Âw: what a step shows of ℓ below this is noise
EPS = float(np.finfo(float).eps)

_compiled = numba.njit(cache=True, fastmath=False, error_model="numpy")


def rate(problem: BlockProblem, x: np.ndarray) -> np.ndarray:
    """z = Âx + Γq."""
    z = _product(problem.G, problem.pair, problem.soft, x, np.empty((problem.bodies + 1, len(problem.dims[0]))), *problem.dims)
    return z + problem.q


def product(problem: BlockProblem, x: np.ndarray) -> np.ndarray:
    """Âx."""
    return _product(problem.G, problem.pair, problem.soft, x, np.empty((problem.bodies + 1, len(problem.dims[0]))), *problem.dims)


def pushed(problem: BlockProblem, x: np.ndarray) -> np.ndarray:
    """Gx [bodies + 1, d]; nothing moves what is not a body."""
    v = np.empty((problem.bodies + 1, len(problem.dims[0])))
    _into_bodies(problem.G, problem.pair, x, v, *problem.dims)
    return v


def felt(problem: BlockProblem, v: np.ndarray) -> np.ndarray:
    """Gᵀv [units, w]."""
    z = np.empty_like(problem.q)
    _out_of_bodies(problem.G, problem.pair, v, z, *problem.dims)
    return z


def residual(problem: BlockProblem, x: np.ndarray, z: np.ndarray) -> float:
    """E of (3) from x and z = Âx + Γq; infinite where something is not finite."""
    return _certificate(x, z, *_law(problem), problem.dims[1])


def projected_gradient(problem: BlockProblem, x: np.ndarray, tolerance: float, most: int) -> tuple[np.ndarray, float, int]:
    """(12) from x: the best of the iterates looked at, its certificate, and the iterations taken."""
    operator = problem.G, problem.pair, problem.soft
    return _gradient(*operator, problem.q, *_law(problem), np.ascontiguousarray(x), problem.bodies, tolerance, most, *problem.dims)


def _law(problem: BlockProblem):
    return problem.kind, problem.factor, problem.friction, problem.rho, problem.norm


@_compiled
def _into_bodies(G, pair, x, v, D, R):
    v[:] = 0.0
    d, w = len(D), len(R)
    for u in range(len(pair)):
        a, b = pair[u, 0], pair[u, 1]
        for i in range(w):
            f = x[u, i]
            for c in range(d):
                v[a, c] += G[u, i, c] * f
            for c in range(d):
                v[b, c] += G[u, i, d + c] * f


@_compiled
def _out_of_bodies(G, pair, v, z, D, R):
    d, w = len(D), len(R)
    for u in range(len(pair)):
        a, b = pair[u, 0], pair[u, 1]
        for i in range(w):
            s = 0.0
            for c in range(d):
                s += G[u, i, c] * v[a, c]
            for c in range(d):
                s += G[u, i, d + c] * v[b, c]
            z[u, i] = s


@_compiled
def _product_into(G, pair, soft, x, v, z, D, R):
    _into_bodies(G, pair, x, v, D, R)
    _out_of_bodies(G, pair, v, z, D, R)
    for u in range(len(soft)):
        z[u, 0] += soft[u] * x[u, 0]


@_compiled
def _product(G, pair, soft, x, v, D, R):
    z = np.empty_like(x)
    _product_into(G, pair, soft, x, v, z, D, R)
    return z


@_compiled
def _length_across(p, R):
    s = 0.0
    for i in range(1, len(R)):
        s += p[i] * p[i]
    return math.sqrt(s)


@_compiled
def _project(p, kind, R):
    """In place: the nearest point of the unit's cone."""
    if kind == 1:
        p[0] = max(p[0], 0.0)
    elif kind == 0:
        length = _length_across(p, R)
        if length <= -p[0]:
            for i in range(len(R)):
                p[i] = 0.0
        elif length > p[0]:
            middle = 0.5 * (p[0] + length)
            p[0] = middle
            for i in range(1, len(R)):
                p[i] *= middle / length


@_compiled
def _coulomb_defect(r, u, mu, rho, R):
    """|r − P_K(r − ρũ)|² of one contact; u is written over."""
    height = r[0] - rho * (u[0] + mu * _length_across(u, R))
    for i in range(1, len(R)):
        u[i] = r[i] - rho * u[i]
    length = _length_across(u, R)
    if mu * length <= -height:
        normal, across = 0.0, 0.0
    elif length <= mu * height:
        normal, across = height, 1.0
    else:
        normal = (height + mu * length) / (1 + mu * mu)
        across = mu * normal / length
    total = (r[0] - normal) ** 2
    for i in range(1, len(R)):
        total += (r[i] - across * u[i]) ** 2
    return total


@_compiled
def _certificate(x, z, kind, factor, friction, rho, norm, R):
    total, whole = 0.0, 0.0
    r, u = np.empty(len(R)), np.empty(len(R))
    for k in range(len(kind)):
        for i in range(len(R)):
            r[i], u[i] = factor[k, i] * x[k, i], z[k, i] / factor[k, i]
            whole += r[i] * r[i]
        if kind[k] == 0:
            total += _coulomb_defect(r, u, friction[k], rho, R)
        elif kind[k] == 1:
            total += (r[0] - max(r[0] - rho * u[0], 0.0)) ** 2
        else:
            total += (rho * u[0]) ** 2
    if norm == 0.0:
        return 1.0 if total > 0 else 0.0
    found = (math.sqrt(total) + EPS * math.sqrt(whole)) / (rho * norm)
    return found if math.isfinite(found) else math.inf


@_compiled
def _largest(G, pair, soft, kind, v, z, D, R):
    """About the largest value of Â, by the power method from a fixed start."""
    x = np.zeros_like(z)
    place = 0
    for u in range(len(kind)):
        for i in range(len(R) if kind[u] == 0 else 1):
            x[u, i] = 1.0 + 0.5 * math.cos(place)
            place += 1
    size = math.sqrt((x * x).sum())
    for _ in range(POWERS):
        x /= size
        _product_into(G, pair, soft, x, v, z, D, R)
        size = math.sqrt((z * z).sum())
        if size == 0.0:
            return 1.0
        x[:] = z
    return 1.1 * size


@_compiled
def _next(x, step, rate, change, q, kind, ahead, bound, new, R):
    """xⁿ⁺¹ of (12)."""
    for u in range(len(kind)):
        sliding = 0.0
        for i in range(len(R)):
            y = rate[u, i] + ahead * change[u, i] + q[u, i]
            new[u, i] = x[u, i] + ahead * step[u, i] - y / bound
            if i > 0:
                sliding += y * y
        if kind[u] == 0:
            new[u, 0] -= math.sqrt(sliding) / bound
        _project(new[u], kind[u], R)


@_compiled
def _gradient(G, pair, soft, q, kind, factor, friction, rho, norm, start, bodies, tolerance, most, D, R):
    v = np.empty((bodies + 1, len(D)))
    x, rate, new, new_rate = start.copy(), np.empty_like(q), np.empty_like(q), np.empty_like(q)
    step, change = np.zeros_like(q), np.zeros_like(q)
    bound = _largest(G, pair, soft, kind, v, rate, D, R)
    _product_into(G, pair, soft, x, v, rate, D, R)
    best, least = x.copy(), _certificate(x, rate + q, kind, factor, friction, rho, norm, R)
    momentum, iteration = 1.0, 0
    while iteration < most:
        iteration += 1
        following = 0.5 * (1 + math.sqrt(1 + 4 * momentum * momentum))
        ahead = (momentum - 1) / following
        _next(x, step, rate, change, q, kind, ahead, bound, new, R)
        _product_into(G, pair, soft, new, v, new_rate, D, R)
        square, curved, size, along = 0.0, 0.0, 0.0, 0.0
        for u in range(len(kind)):
            for i in range(len(R)):
                move = new[u, i] - x[u, i] - ahead * step[u, i]
                square += move * move
                curved += move * (new_rate[u, i] - rate[u, i] - ahead * change[u, i])
                size += new_rate[u, i] * new_rate[u, i]
                along += move * (new[u, i] - x[u, i])
        if curved > 1.01 * bound * square + ROUNDING * math.sqrt(square * size):
            bound *= 2
            continue
        for u in range(len(kind)):
            for i in range(len(R)):
                step[u, i], change[u, i] = new[u, i] - x[u, i], new_rate[u, i] - rate[u, i]
                x[u, i], rate[u, i] = new[u, i], new_rate[u, i]
        momentum = 1.0 if along < 0 else following
        if iteration % LOOKS == 0:
            found = _certificate(x, rate + q, kind, factor, friction, rho, norm, R)
            if found < least:
                least = found
                best[:] = x
            if least <= tolerance:
                break
    return best, least, iteration
