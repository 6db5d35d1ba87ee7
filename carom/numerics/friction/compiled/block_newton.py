"""The natural map of a problem about a point, and Newton's steps on it, compiled.

    z(x) = Âx + Γq + λ(x − x̄),       F(x) = x − P_L(x − ρy),       y = z + |z_T| e₀                                       (16)
    (C + EÂ) dx = −F,                E = ρP'B,     C = (1 + ε)I − P' + λE,     B = I + e₀tᵀ,  t = z_T/|z_T|               (17)
    (I + G D Gᵀ) dv = G C⁻¹b,        D = C⁻¹E,     dx = C⁻¹b − D Gᵀdv                                                     (18)

(18) solves (17) on the graph of the bodies that contacts with D ≠ 0 connect; what a row gives way, γ, counts as part of λ there.
"""

import math
from dataclasses import dataclass, replace

import numba
import numpy as np

from carom.numerics.friction.compiled import block_factors as factors
from carom.numerics.friction.compiled.block_gradient import felt, product, pushed
from carom.numerics.friction.compiled.block_problem import BILATERAL, ROUGH, BlockProblem

REFINEMENTS = 2
SMALLEST = 1e-8  # ε of (17)

_compiled = numba.njit(cache=True, fastmath=False, error_model="numpy")


@dataclass(frozen=True, eq=False)
class BodyGraph:
    """I + G D Gᵀ of (18), factorised, on the graph of the bodies that units with D ≠ 0 connect."""

    problem: BlockProblem
    factorised: factors.Factors

    @classmethod
    def of(cls, problem: BlockProblem, D: np.ndarray) -> "BodyGraph | None":
        """None where a pivot vanishes."""
        coordinates, R = problem.dims
        start, rows = factors.structure(problem.bodies, _acting(D, problem.pair, problem.bodies))
        blocks = start, rows, *_matrix(problem.G, problem.pair, D, start, rows, problem.bodies, coordinates, R)
        found = factors.Factors.of(*blocks)
        return None if found is None else cls(problem, found)

    def sign(self) -> float:
        """Of its determinant."""
        return self.factorised.sign()

    def solve(self, D: np.ndarray, begin: np.ndarray) -> np.ndarray:
        """begin − D Gᵀdv, with dv of (18) for C⁻¹b = begin."""
        dv = pushed(self.problem, begin)
        self.factorised.solve(dv[:-1])
        dv[-1] = 0.0
        return begin - _multiply(D, felt(self.problem, dv))


def natural_map(problem: BlockProblem, x: np.ndarray, z: np.ndarray, rho: float) -> tuple[np.ndarray, np.ndarray, float]:
    """F of (16), the points that it projects, and ‖F‖."""
    return _natural(x, z, problem.kind, rho, problem.dims[1])


def ordered(problem: BlockProblem, points: np.ndarray) -> BlockProblem:
    """With bodies in the order in which they are eliminated, found for the contacts that act where F projects these points."""
    acts = (points[:, 0] > -np.sqrt(np.sum(points[:, 1:] ** 2, axis=1))) | (problem.kind == BILATERAL)
    return ordered_by(problem, acts)


def ordered_by(problem: BlockProblem, acts: np.ndarray) -> BlockProblem:
    """The same for the units that act."""
    rank = factors.order(problem.pair[acts], problem.bodies)
    return replace(problem, pair=np.append(rank, problem.bodies)[problem.pair].astype(np.int64))


@dataclass(frozen=True, eq=False)
class Linearised:
    """C + EÂ of (17), factorised."""

    problem: BlockProblem
    C: np.ndarray
    E: np.ndarray
    inverse: np.ndarray  #  C⁻¹
    D: np.ndarray
    graph: BodyGraph

    @classmethod
    def at(
        cls, problem: BlockProblem, points: np.ndarray, z: np.ndarray, rho: float, proximal: float, epsilon: float = SMALLEST
    ) -> "Linearised | None":
        """None where a pivot vanishes."""
        blocks = _blocks(points, z, problem.kind, rho, epsilon, proximal, problem.soft, problem.dims[1])
        graph = BodyGraph.of(problem, blocks[3])
        return None if graph is None else cls(problem, *blocks, graph)

    def solve(self, b: np.ndarray, refinements: int = REFINEMENTS) -> np.ndarray | None:
        """Refined by its residual; None where there is none."""
        dx, size, rest = np.zeros_like(b), np.inf, b
        for _ in range(1 + refinements):
            better = dx + self.graph.solve(self.D, _multiply(self.inverse, rest))
            rates = product(self.problem, better)
            rates[:, 0] -= self.problem.soft * better[:, 0]  # which is in C
            rest = b - _multiply(self.C, better) - _multiply(self.E, rates)
            new = float(np.linalg.norm(rest))
            if not new < size:
                break
            dx, size, slow = better, new, not new < 0.5 * size
            if slow or size <= 1e-15 * np.linalg.norm(b):
                break
        return dx if np.isfinite(size) else None

    def sign(self) -> float:
        """Of the determinant of C + EÂ, that of C times that of I + GDGᵀ."""
        C = self.C.copy()
        for i in range(1, C.shape[1]):
            C[self.problem.kind != ROUGH, i, i] = 1.0  # rows that these units do not have
        return self.graph.sign() * float(np.prod(np.linalg.slogdet(C)[0]))


def newton_step(
    problem: BlockProblem, F: np.ndarray, points: np.ndarray, z: np.ndarray, rho: float, proximal: float
) -> np.ndarray | None:
    """dx of (17), refined by its residual; None where there is none."""
    there = Linearised.at(problem, points, z, rho, proximal)
    return None if there is None else there.solve(-F)


@_compiled
def _across(p, R):
    s = 0.0
    for i in range(1, len(R)):
        s += p[i] * p[i]
    return math.sqrt(s)


@_compiled
def _natural(x, z, kind, rho, R):
    F, points, total = np.zeros_like(x), np.zeros_like(x), 0.0
    for u in range(len(kind)):
        if kind[u] == 2:
            F[u, 0] = rho * z[u, 0]
        elif kind[u] == 1:
            points[u, 0] = x[u, 0] - rho * z[u, 0]
            F[u, 0] = x[u, 0] - max(points[u, 0], 0.0)
        else:
            for i in range(len(R)):
                points[u, i] = x[u, i] - rho * z[u, i]
            points[u, 0] -= rho * _across(z[u], R)
            p = points[u]
            length, height = _across(p, R), p[0]
            inside, middle = length <= height, 0.5 * (height + length)
            across = 1.0 if inside else (0.0 if length <= -height else middle / length)
            F[u, 0] = x[u, 0] - (height if inside else (0.0 if length <= -height else middle))
            for i in range(1, len(R)):
                F[u, i] = x[u, i] - across * p[i]
        for i in range(len(R)):
            total += F[u, i] * F[u, i]
    return F, points, math.sqrt(total)


@_compiled
def _derivative(p, P, R):
    """Of the projection onto L at p."""
    w = len(R)
    length = _across(p, R)
    P[:] = 0.0
    if length <= p[0]:
        for i in range(w):
            P[i, i] = 1.0
    elif length > -p[0]:
        ratio = p[0] / length
        P[0, 0] = 0.5
        for i in range(1, w):
            P[0, i] = P[i, 0] = 0.5 * p[i] / length
            for j in range(1, w):
                P[i, j] = -0.5 * ratio * p[i] * p[j] / (length * length)
            P[i, i] += 0.5 * (1 + ratio)


@_compiled
def _blocks(points, z, kind, rho, epsilon, proximal, soft, R):
    """C, E, C⁻¹ and D of (17), unit by unit."""
    w, units = len(R), len(kind)
    C, E = np.zeros((units, w, w)), np.zeros((units, w, w))
    inverse, D = np.zeros((units, w, w)), np.zeros((units, w, w))
    P = np.empty((w, w))
    for u in range(units):
        size = w if kind[u] == 0 else 1
        if kind[u] == 0:
            _derivative(points[u], P, R)
            sliding = _across(z[u], R)
        else:
            P[0, 0] = 1.0 if kind[u] == 2 or points[u, 0] > 0 else 0.0
            sliding = 0.0
        for i in range(size):
            for j in range(size):
                E[u, i, j] = rho * P[i, j]
                if j > 0 and sliding > 0:
                    E[u, i, j] += rho * P[i, 0] * z[u, j] / sliding
                C[u, i, j] = -P[i, j]
            C[u, i, i] += 1 + epsilon
        for i in range(size):
            for j in range(size):
                C[u, i, j] += (proximal + (soft[u] if j == 0 else 0.0)) * E[u, i, j]
        _invert_small(C[u], inverse[u], size)
        for i in range(size):
            for j in range(size):
                for c in range(size):
                    D[u, i, j] += inverse[u, i, c] * E[u, c, j]
    return C, E, inverse, D


@_compiled
def _invert_small(A, inverse, size):
    """The leading block of one to three rows, by cofactors."""
    if size == 1:
        inverse[0, 0] = 1.0 / A[0, 0]
    elif size == 2:
        scale = 1.0 / (A[0, 0] * A[1, 1] - A[0, 1] * A[1, 0])
        inverse[0, 0], inverse[1, 1] = A[1, 1] * scale, A[0, 0] * scale
        inverse[0, 1], inverse[1, 0] = -A[0, 1] * scale, -A[1, 0] * scale
    else:
        for i in range(3):
            for j in range(3):
                k, m, p, q = (i + 1) % 3, (i + 2) % 3, (j + 1) % 3, (j + 2) % 3
                inverse[j, i] = A[k, p] * A[m, q] - A[k, q] * A[m, p]
        scale = 1.0 / (A[0, 0] * inverse[0, 0] + A[0, 1] * inverse[1, 0] + A[0, 2] * inverse[2, 0])
        for i in range(3):
            for j in range(3):
                inverse[i, j] *= scale


@_compiled
def _multiply(blocks, x):
    """Block by block."""
    out = np.zeros_like(x)
    for u in range(len(x)):
        for i in range(x.shape[1]):
            s = 0.0
            for j in range(x.shape[1]):
                s += blocks[u, i, j] * x[u, j]
            out[u, i] = s
    return out


@_compiled
def _acts(block):
    for value in block.flat:  # noqa: SIM110  (numba compiles this at once, a generator slowly)
        if value != 0.0:
            return True
    return False


@_compiled
def _acting(D, pair, n):
    """Pairs of bodies that units with D ≠ 0 connect."""
    found, count = np.empty((len(pair), 2), np.int64), 0
    for u in range(len(pair)):
        if pair[u, 0] < n and pair[u, 1] < n and _acts(D[u]):
            found[count] = pair[u]
            count += 1
    return found[:count]


@_compiled
def _matrix(G, pair, DD, start, rows, n, D, R):
    """I + G D Gᵀ of (18): blocks on the diagonal, below it and above it."""
    d, w = len(D), len(R)
    diagonal = np.zeros((n, d, d))
    below, above = np.zeros((len(rows), d, d)), np.zeros((len(rows), d, d))
    for k in range(n):
        for c in range(d):
            diagonal[k, c, c] = 1.0
    X = np.empty((w, 2 * d))  # D Gᵀ
    for u in range(len(pair)):
        if not _acts(DD[u]):
            continue
        for i in range(w):
            for c in range(2 * d):
                s = 0.0
                for j in range(w):
                    s += DD[u, i, j] * G[u, j, c]
                X[i, c] = s
        for side in range(2):
            k, o = pair[u, side], side * d
            if k < n:
                for i in range(w):
                    for r in range(d):
                        for c in range(d):
                            diagonal[k, r, c] += G[u, i, o + r] * X[i, o + c]
        a, b = pair[u, 0], pair[u, 1]
        if a < n and b < n:
            low, high = (0, d) if a < b else (d, 0)  # where the columns of the earlier body and of the later one begin
            first, last = min(a, b), max(a, b)
            e = start[first] + np.searchsorted(rows[start[first] : start[first + 1]], last)
            for i in range(w):
                for r in range(d):
                    for c in range(d):
                        below[e, r, c] += G[u, i, high + r] * X[i, low + c]
                        above[e, r, c] += G[u, i, low + r] * X[i, high + c]
    return diagonal, below, above
