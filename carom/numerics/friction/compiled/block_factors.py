"""The factorisation of a matrix of d × d blocks on a graph of bodies, compiled.

A = L D U without exchanges between blocks; inside a block D_k pivots are chosen. The pattern is symmetric: `structure` finds
where L and U fill up, column by column with the elimination tree, and a column j takes what all columns before it give to it:

    A_ij ← A_ij − L_ik U_kj,     L_ij = A_ij D_j⁻¹                                                                       (15)

SuperLU, which `carom.numerics.friction.in_bodies` asks, does the same number by number: at 7 · 10⁹ operations a second this is
some three times as fast. What matters more is the order of the bodies: that of the contacts that act, and not of all that are near,
leaves a fifth of the operations in a heap of 1000 balls.
"""

import numba
import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

MASSIVE = 100.0  # on the diagonal of the graph, so that its factorisation, made for its order alone, has a pivot everywhere

_compiled = numba.njit(cache=True, fastmath=False, error_model="numpy")


def order(pair: np.ndarray, n: int) -> np.ndarray:
    """[n] the place of each body in the elimination: SuperLU's minimum degree of the graph of these pairs."""
    both = pair[np.all(pair < n, axis=1)]
    ones = np.ones(len(both))
    graph = sparse.coo_matrix((ones, (both[:, 0], both[:, 1])), (n, n)).tocsc()
    graph.data[:] = 1.0
    graph = (graph + graph.T + sparse.diags(np.full(n, MASSIVE * max(len(both), 1)))).tocsc()
    return splu(graph, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}).perm_c


@_compiled
def structure(n, pair):
    """Where columns of L begin, and their rows, for the graph of these pairs [edges, 2] (repeats are welcome)."""
    count = np.zeros(n + 1, np.int64)
    for e in range(len(pair)):
        count[min(pair[e, 0], pair[e, 1]) + 1] += 1
    first = np.cumsum(count)
    neighbour, place = np.empty(len(pair), np.int64), first[:-1].copy()
    for e in range(len(pair)):
        low = min(pair[e, 0], pair[e, 1])
        neighbour[place[low]] = max(pair[e, 0], pair[e, 1])
        place[low] += 1
    child, sibling, mark = np.full(n, -1), np.full(n, -1), np.full(n, -1)  # of the elimination tree
    rows, start, end = np.empty(4 * len(pair) + n, np.int64), np.zeros(n + 1, np.int64), 0
    for k in range(n):
        mark[k] = k
        if end + n > len(rows):
            rows = np.concatenate((rows, np.empty(len(rows) + n, np.int64)))
        for e in range(first[k], first[k + 1]):
            if mark[neighbour[e]] != k:
                mark[neighbour[e]] = k
                rows[end] = neighbour[e]
                end += 1
        c = child[k]
        while c >= 0:  # what its children fill
            for e in range(start[c], start[c + 1]):
                if mark[rows[e]] != k:
                    mark[rows[e]] = k
                    rows[end] = rows[e]
                    end += 1
            c = sibling[c]
        rows[start[k] : end].sort()
        start[k + 1] = end
        if end > start[k]:
            parent = rows[start[k]]
            sibling[k] = child[parent]
            child[parent] = k
    return start, rows[:end].copy()


@_compiled
def factorise(start, rows, D, L, U, T):
    """In place: the inverses of D_j, L and U of (15), from the blocks of A on the diagonal, below it and above it. False where a
    pivot is zero. T is a tuple as long as a block."""
    n, d = len(D), len(T)
    first, column, place = _by_row(n, start, rows)
    where, inverse, work = np.empty(n, np.int64), np.empty((d, d)), np.empty((d, 2 * d))
    for j in range(n):
        for e in range(start[j], start[j + 1]):
            where[rows[e]] = e
        for g in range(first[j], first[j + 1]):
            e = place[g]
            _subtract(D[j], L[e], U[e], T)
            for f in range(e + 1, start[column[g] + 1]):
                to = where[rows[f]]
                _subtract(L[to], L[f], U[e], T)
                _subtract(U[to], L[e], U[f], T)
        if not _invert(D[j], inverse, work):
            return False
        D[j] = inverse
        for e in range(start[j], start[j + 1]):
            for i in range(d):
                for c in range(d):
                    s = 0.0
                    for k in range(d):
                        s += L[e, i, k] * inverse[k, c]
                    work[i, c] = s
            L[e] = work[:, :d]
    return True


@_compiled
def solve(start, rows, D, L, U, b, T):
    """In place: b [n, d] becomes the solution."""
    n, d = len(D), len(T)
    x = np.empty(d)
    for k in range(n):
        for e in range(start[k], start[k + 1]):
            for i in range(d):
                s = 0.0
                for c in range(d):
                    s += L[e, i, c] * b[k, c]
                b[rows[e], i] -= s
    for k in range(n - 1, -1, -1):
        for e in range(start[k], start[k + 1]):
            for i in range(d):
                s = 0.0
                for c in range(d):
                    s += U[e, i, c] * b[rows[e], c]
                b[k, i] -= s
        for i in range(d):
            s = 0.0
            for c in range(d):
                s += D[k, i, c] * b[k, c]
            x[i] = s
        for i in range(d):
            b[k, i] = x[i]


@_compiled
def _by_row(n, start, rows):
    """The same entries row by row: where rows begin, their columns, and their places."""
    count = np.zeros(n + 1, np.int64)
    for e in range(len(rows)):
        count[rows[e] + 1] += 1
    first = np.cumsum(count)
    column, place, at = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64), first[:-1].copy()
    for k in range(n):
        for e in range(start[k], start[k + 1]):
            column[at[rows[e]]], place[at[rows[e]]] = k, e
            at[rows[e]] += 1
    return first, column, place


@_compiled
def _subtract(C, A, B, T):
    """C − AB, in place."""
    for i in range(len(T)):
        for k in range(len(T)):
            a = A[i, k]
            for j in range(len(T)):
                C[i, j] -= a * B[k, j]


@_compiled
def _invert(A, inverse, work):
    """By Gauss and Jordan, with pivots; False where there is none. Its loops are not written out: that takes seconds to compile."""
    d = len(A)
    for i in range(d):
        for j in range(d):
            work[i, j], work[i, d + j] = A[i, j], 0.0
        work[i, d + i] = 1.0
    for k in range(d):
        best = k
        for i in range(k + 1, d):
            if abs(work[i, k]) > abs(work[best, k]):
                best = i
        if not abs(work[best, k]) > 0.0:  # also where it is not a number
            return False
        for j in range(2 * d):
            work[k, j], work[best, j] = work[best, j], work[k, j]
        scale = 1.0 / work[k, k]
        for j in range(2 * d):
            work[k, j] *= scale
        for i in range(d):
            if i != k:
                factor = work[i, k]
                for j in range(2 * d):
                    work[i, j] -= factor * work[k, j]
    for i in range(d):
        for j in range(d):
            inverse[i, j] = work[i, d + j]
    return True
