"""Small dense linear algebra that stays inside one fused loop.

XLA calls LAPACK for `jnp.linalg.solve`, which costs microseconds per call inside a compiled loop and is far worse under
`vmap`; a `dot` of two short vectors is a kernel of its own. The matrices of a mechanical system with a handful of
coordinates are tiny: products are written out up to `WRITTEN` columns, and sums over an axis up to `UNROLLED`, a handful of
operations instead of dozens to compile. Eliminations are written out up to `TINY` rows: XLA fuses each step into all uses of its
result, so the code grows exponentially with the rows (six rows took two minutes to compile). From there to `SMALL` rows they are
loops, beyond LAPACK takes over. In a program that is one kernel, which cannot call LAPACK and where a loop costs nothing but its
arithmetic, everything stays in place up to `MEDIUM` rows: measured with 40 rows, a product of matrices takes 3 µs there, an
elimination with pivots 22 and `solve_positive` 8, where LAPACK takes 11 and the rest of the program, in pieces, some 100.
"""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from carom.xla.kernel import for_this_kernel, once

WRITTEN, UNROLLED = 4, 8
TINY, SMALL, MEDIUM = 2, 32, 64
BAND = 4  # rows that `solve_positive` eliminates at a time


def matvec(A: Float[Array, "m n"], x: Float[Array, " n"]) -> Float[Array, " m"]:
    """A x, column by column when it is small, so that it fuses with its neighbours."""
    if A.shape[1] > UNROLLED or A.shape[1] == 0:
        return A @ x
    if A.shape[1] > WRITTEN:
        return jnp.sum(A * x, axis=1)
    if A.dtype != x.dtype:
        return jnp.sum(A * x, axis=1)
    terms = [_scaled(_entry(A, j, 1), _entry(x, j)) for j in range(A.shape[1])]
    return functools.reduce(jax.lax.add, terms)


def _entry(x: Array, j: int, axis: int = 0) -> Array:
    """x[j], or a column: one of the hundreds of a program, for which x[j] takes three times as long to trace."""
    return jax.lax.index_in_dim(x, j, axis, keepdims=False)


def _scaled(x: Array, factor: Array) -> Array:
    return jax.lax.mul(x, jax.lax.broadcast(factor, x.shape))


def matmul(A: Float[Array, "m n"], B: Float[Array, "n k"]) -> Float[Array, "m k"]:
    """A B as a sum of outer products when the inner dimension is small."""
    if A.shape[1] == 0 or (A.shape[1] > UNROLLED and not (A.shape[1] <= MEDIUM and for_this_kernel())):
        return A @ B
    if A.shape[1] > UNROLLED:
        B = once(B)  # along its rows, also where it was transposed
    if A.shape[1] > WRITTEN:
        return jnp.sum(A[:, :, None] * B[None, :, :], axis=1)
    total = A[:, 0, None] * B[0]
    for j in range(1, A.shape[1]):
        total = total + A[:, j, None] * B[j]
    return total


def dot(x: Float[Array, " n"], y: Float[Array, " n"]) -> Float[Array, ""]:
    """x · y, written out when it is short."""
    if x.shape[0] > UNROLLED or x.shape[0] == 0:
        return x @ y
    if x.shape[0] > WRITTEN:
        return jnp.sum(x * y)
    if x.dtype != y.dtype:
        return jnp.sum(x * y)
    return functools.reduce(jax.lax.add, [jax.lax.mul(_entry(x, j), _entry(y, j)) for j in range(x.shape[0])])


def solve(A: Float[Array, "n n"], b: Float[Array, "n *k"]) -> Float[Array, "n *k"]:
    """A⁻¹ b by Gauss–Jordan elimination with partial pivoting."""
    n = A.shape[0]
    if n > SMALL and not (n <= MEDIUM and for_this_kernel()):
        return jnp.linalg.solve(A, b)
    columns = b.reshape(n, -1)
    if n == 1:
        return (columns / A[0, 0]).reshape(b.shape)
    if n == 2:
        (a, b_), (c, d) = A
        det = a * d - b_ * c
        x, y = columns
        return jnp.stack([(d * x - b_ * y) / det, (a * y - c * x) / det]).reshape(b.shape)
    rows = jnp.concatenate([A, columns], axis=1)
    index = jnp.arange(n)

    def eliminate(k, rows):
        column = rows[:, k]
        pivot = jnp.argmax(jnp.where(index >= k, jnp.abs(column), -1.0))
        lead, here = rows[pivot], rows[k]
        lead = lead / lead[k]
        rows = jnp.where((index == pivot)[:, None], here, rows)
        return jnp.where((index == k)[:, None], lead, rows - rows[:, k, None] * lead)

    if n <= TINY:
        for k in range(n):
            rows = eliminate(k, rows)
    else:
        rows = jax.lax.fori_loop(0, n, eliminate, rows)
    return rows[:, n:].reshape(b.shape)


def solve_positive(A: Float[Array, "n n"], b: Float[Array, " n"]) -> Float[Array, " n"]:
    """A⁻¹ b of a symmetric positive definite A, which needs no pivots: `BAND` rows at a time are eliminated from all others."""
    n = A.shape[0]
    if n <= 2 * BAND or n > MEDIUM or not for_this_kernel():
        return solve(A, b)
    more = -n % BAND
    rows = jnp.concatenate([jnp.pad(A, ((0, more), (0, more))), jnp.pad(b, (0, more))[:, None]], axis=1)
    rows = rows + jnp.pad(jnp.eye(more, n + more + 1, n, dtype=A.dtype), ((n, 0), (0, 0)))
    index = jnp.arange(n + more)

    def eliminate(i, rows):
        first = i * BAND
        lead = jax.lax.dynamic_slice_in_dim(rows, first, BAND, 0)
        lead = once(solve(jax.lax.dynamic_slice_in_dim(lead, first, BAND, 1), lead))
        others = ((index < first) | (index >= first + BAND))[:, None]
        column = once(jnp.where(others, jax.lax.dynamic_slice_in_dim(rows, first, BAND, 1), 0.0))
        return jax.lax.dynamic_update_slice(once(rows - jnp.sum(column[:, :, None] * lead, axis=1)), lead, (first, 0))

    return jax.lax.fori_loop(0, (n + more) // BAND, eliminate, rows)[:n, -1]


def inverse(A: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """A⁻¹, for the few matrices that stay constant over a whole run."""
    return solve(A, jnp.eye(A.shape[0], dtype=A.dtype))
