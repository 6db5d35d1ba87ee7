"""The factorisation of a matrix of d × d blocks on a graph of bodies, compiled.

A = L D U without exchanges between blocks; inside a block D_k pivots are chosen. The pattern is symmetric: `structure` finds
where L and U fill up, column by column with the elimination tree, and a column j takes what all columns before it give to it:

    A_ij ← A_ij − L_ik U_kj,     L_ij = A_ij D_j⁻¹                                                                       (15)

SuperLU, which `carom.numerics.friction.in_bodies` asks, does the same number by number: at 7 · 10⁹ operations a second this is
some three times as fast. What matters more is the order of the bodies: that of the contacts that act, and not of all that are near,
leaves a fifth of the operations in a heap of 1000 balls.

The last bodies in that order are nearly all connected with each other, and most of the operations are theirs: these columns only
take what the columns before them give, and what they are then is one dense matrix, which LAPACK factorises four times as fast and
with pivots across its blocks.
"""

from dataclasses import dataclass

import numba
import numpy as np
from scipy import sparse
from scipy.linalg.lapack import dgetrf, dgetrs
from scipy.sparse.linalg import splu

MASSIVE = 100.0  # on the diagonal of the graph, so that its factorisation, made for its order alone, has a pivot everywhere

SPEED = 4.0  #     of LAPACK beside the loops of this file
WORTH = 1e6  #     operations: where it saves fewer than this the loops do it all

_compiled = numba.njit(cache=True, fastmath=False, error_model="numpy")


def order(pair: np.ndarray, n: int) -> np.ndarray:
    """[n] the place of each body in the elimination: SuperLU's minimum degree of the graph of these pairs."""
    both = pair[np.all(pair < n, axis=1)]
    ones = np.ones(len(both))
    graph = sparse.coo_matrix((ones, (both[:, 0], both[:, 1])), (n, n)).tocsc()
    graph.data[:] = 1.0
    graph = (graph + graph.T + sparse.diags(np.full(n, MASSIVE * max(len(both), 1)))).tocsc()
    return splu(graph, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}).perm_c


@dataclass(frozen=True, eq=False)
class Factors:
    """L, D⁻¹ and U of (15) block by block, and of the last bodies those of one dense matrix."""

    blocks: tuple[np.ndarray, ...]  #          where they stand, and those on, below and above the diagonal
    dense: tuple[np.ndarray, np.ndarray] | None  # of LAPACK, with its exchanges

    @classmethod
    def of(cls, start, rows, D, L, U, tail: int | None = None) -> "Factors | None":
        """In place; None where a pivot is zero. `tail`: how many of the bodies are the last, by default as many as pay."""
        n, T = len(D), (0,) * D.shape[1]
        tail = dense_tail(start, D.shape[1])[0] if tail is None else tail
        if not factorise(start, rows, D, L, U, T, n - tail):
            return None
        dense = None
        if tail:
            lu, exchanges, failed = dgetrf(_together(start, rows, D, L, U, n - tail).T, overwrite_a=True)
            if failed:
                return None
            dense = lu, exchanges
        return cls((start, rows, D, L, U), dense)

    def sign(self) -> float:
        """Of the determinant."""
        inverses, tail = self.blocks[2], 0
        sign = 1.0
        if self.dense is not None:
            lu, exchanges = self.dense
            tail = len(lu) // inverses.shape[1]
            odd = np.count_nonzero(np.diag(lu) < 0) + np.count_nonzero(exchanges != np.arange(len(lu)))
            sign = -1.0 if odd % 2 else 1.0
        return sign * float(np.prod(np.linalg.slogdet(inverses[: len(inverses) - tail])[0]))

    def solve(self, b: np.ndarray) -> None:
        """In place: b [n, d] becomes the solution."""
        start, rows, D, L, U = self.blocks
        n, T = len(D), (0,) * D.shape[1]
        if self.dense is None:
            solve(start, rows, D, L, U, b, T)
            return
        split = n - len(self.dense[0]) // len(T)
        _forward(start, rows, L, b, split, T)
        b[split:] = dgetrs(*self.dense, b[split:].ravel(), trans=1)[0].reshape(
            -1, len(T)
        )  # of the transpose: LAPACK counts by columns
        _backward(start, rows, D, U, b, split, T)


def dense_tail(start: np.ndarray, d: int) -> tuple[int, float]:
    """How many of the last bodies had better be one dense matrix, and the operations that are left, as long as the loops take."""
    length = np.diff(start).astype(float)
    work = np.concatenate([[0.0], np.cumsum(length * (length + 2))]) * 2 * d**3
    last = np.arange(len(length), -1, -1.0)
    costs = work + 2 / 3 * (d * last) ** 3 / SPEED
    best = int(np.argmin(costs))
    if work[-1] - costs[best] < WORTH:
        return 0, float(work[-1])
    return int(last[best]), float(costs[best])


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
def factorise(start, rows, D, L, U, T, split):
    """In place: the inverses of D_j, L and U of (15), from the blocks of A on the diagonal, below it and above it. False where a
    pivot is zero. T is a tuple as long as a block. Columns from `split` on take what those before it give, and that is all."""
    n, d = len(D), len(T)
    first, column, place = _by_row(n, start, rows)
    where, inverse, work = np.empty(n, np.int64), np.empty((d, d)), np.empty((d, 2 * d))
    for j in range(n):
        for e in range(start[j], start[j + 1]):
            where[rows[e]] = e
        for g in range(first[j], first[j + 1]):
            if column[g] >= split:
                break
            e = place[g]
            _subtract(D[j], L[e], U[e], T)
            for f in range(e + 1, start[column[g] + 1]):
                to = where[rows[f]]
                _subtract(L[to], L[f], U[e], T)
                _subtract(U[to], L[e], U[f], T)
        if j >= split:
            continue
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
def _together(start, rows, D, L, U, split):
    """The blocks of columns from `split` on as one matrix."""
    n, d = len(D), D.shape[1]
    whole = np.zeros(((n - split) * d, (n - split) * d))
    for j in range(split, n):
        o = (j - split) * d
        whole[o : o + d, o : o + d] = D[j]
        for e in range(start[j], start[j + 1]):
            i = (rows[e] - split) * d
            whole[i : i + d, o : o + d] = L[e]
            whole[o : o + d, i : i + d] = U[e]
    return whole


@_compiled
def solve(start, rows, D, L, U, b, T):
    """In place: b [n, d] becomes the solution."""
    _forward(start, rows, L, b, len(D), T)
    _backward(start, rows, D, U, b, len(D), T)


@_compiled
def _forward(start, rows, L, b, split, T):
    d = len(T)
    for k in range(split):
        for e in range(start[k], start[k + 1]):
            for i in range(d):
                s = 0.0
                for c in range(d):
                    s += L[e, i, c] * b[k, c]
                b[rows[e], i] -= s


@_compiled
def _backward(start, rows, D, U, b, split, T):
    d = len(T)
    x = np.empty(d)
    for k in range(split - 1, -1, -1):
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
