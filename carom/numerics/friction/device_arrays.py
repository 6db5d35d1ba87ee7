"""A contact problem as arrays of few shapes on a device, for compiled programs.

A product with Â is made of two with a sparse matrix, each row by itself: its entries stand in parts of one width, and a row that is
longer takes several, whose sums are summed in the same way. No two threads write to one place, so that the same problem gives
the same answer, and memory is proportional to the entries: for bodies to the contacts.

The number of contacts changes from step to step. What is compiled depends on it, so all sizes are rounded up, to 2ᵏ or 3·2ᵏ:
contacts that are added open, with nothing near them, and their impulses are zero.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from carom.numerics.friction.in_bodies import block_width
from carom.numerics.friction.scaled import Scaled

WIDTH = 12  #    entries of a part: a row of two bodies in space
BUNDLE = 8  #    parts, or sums of them, that are summed at once
SMALLEST = 16  # size of an array


class Ragged(NamedTuple):
    """A sparse matrix: entries of parts of rows, and which parts are summed, and so on until each row is one sum."""

    values: jax.Array  #                  [parts, width]
    columns: jax.Array  #                 [parts, width]  where there is no entry its value is zero
    sums: tuple[jax.Array, ...]  #        each [k, bundle] of parts before; one beyond the last is zero

    def __matmul__(self, x: jax.Array) -> jax.Array:
        y = _sums(self.values, x[self.columns])
        for which in self.sums:
            y = _sums(jnp.ones(which.shape), jnp.append(y, 0.0)[which])
        return y


class Placed(NamedTuple):
    """A scaled problem as arrays on a device; rows of contacts with friction stand first, as in `Scaled`."""

    outward: Ragged  #         M^½⁻¹ HΓ, or Â where that is what is given
    inward: Ragged | None  #   its transpose
    own: jax.Array  #          [rough, columns, columns]  Â of each contact with friction by itself
    diagonal: jax.Array  #     [others]  and of the other rows
    q: jax.Array  #            [rows]  Γq over the size
    factor: jax.Array  #       [rows]  Γ
    friction: jax.Array  #     [rough]
    rho: jax.Array  #          ρ of (3)
    size: jax.Array  #         ‖q‖ of (3) over that of `Scaled`

    def apply(self, x: jax.Array) -> jax.Array:
        return self.outward @ x if self.inward is None else self.inward @ (self.outward @ x)


@dataclass(frozen=True)
class Counts:
    """How many contacts have friction, how many none, and how many rows have the first; what is left is bilateral. Rounded up."""

    rough: int
    smooth: int
    columns: int

    def split(self, x):
        first, second = self.rough * self.columns, self.rough * self.columns + self.smooth
        return x[:first].reshape(self.rough, self.columns), x[first:second], x[second:]


def place(scaled: Scaled) -> tuple[Placed, Counts, np.ndarray]:
    """The arrays of a problem, on JAX's default device, and [rows] where each row of it stands in them."""
    problem, columns = scaled.problem, scaled.columns
    where, counts, total = _room(scaled.counts, columns)
    spread = sparse.csr_matrix((np.ones(len(where)), (np.arange(len(where)), where)), (len(where), total))
    if problem.delassus is not None:
        matrix = sparse.csr_matrix(spread.T @ scaled.matrix @ spread)
        outward, inward = ragged(matrix), None
        near = lambda shift: matrix.diagonal(shift)  # noqa: E731
    else:
        root = sparse.csr_matrix(_roots(problem.inverse_mass) @ scaled.H @ spread)
        root.resize(rounded(root.shape[0]), total)
        by_rows = root.T.tocsr()
        outward, inward = ragged(root), ragged(by_rows)
        near = lambda shift: np.asarray(by_rows[: total - shift].multiply(by_rows[shift:]).sum(axis=1)).ravel()  # noqa: E731
    edge = counts.rough * columns
    own = np.empty((counts.rough, columns, columns))
    for shift in range(columns):
        line = np.append(near(shift), np.zeros(shift))[:edge].reshape(counts.rough, columns)
        for a in range(columns - shift):
            own[:, a, a + shift] = own[:, a + shift, a] = line[:, a]
    q, factor, friction = np.zeros(total), np.ones(total), np.ones(counts.rough)
    q[:edge:columns] = q[edge : edge + counts.smooth] = 1.0  # what is added opens
    q[where], factor[where] = scaled.q, scaled.factor
    friction[: scaled.counts[0]] = problem.friction[(problem.friction > 0) & (problem.tangents > 0)]
    size = max(float(np.linalg.norm(problem.q)), problem.least_size) / scaled.size
    numbers = (own, near(0)[edge:], q, factor, friction, float(problem.step), size)
    return Placed(outward, inward, *map(jnp.asarray, numbers)), counts, where


def rounded(size: int) -> int:
    """The next 2ᵏ or 3·2ᵏ, and zero for zero."""
    if size <= SMALLEST:
        return SMALLEST if size else 0
    power = 1 << (size - 1).bit_length()
    return 3 * power // 4 if size <= 3 * power // 4 else power


def _room(counts: tuple[int, int, int], columns: int) -> tuple[np.ndarray, Counts, int]:
    rough, smooth, free = map(rounded, counts)
    starts = (0, rough * columns, rough * columns + smooth)
    lengths = (counts[0] * columns, counts[1], counts[2])
    where = np.concatenate([start + np.arange(length) for start, length in zip(starts, lengths, strict=True)])
    return where, Counts(rough, smooth, columns), starts[2] + free


def ragged(matrix) -> Ragged:
    """Rows of a sparse matrix in parts of one width."""
    matrix = sparse.csr_matrix(matrix)
    lengths = np.diff(matrix.indptr)
    counts, place, sums = np.maximum(-(-lengths // WIDTH), 1), _parts(lengths, WIDTH), []
    if np.any(counts > 1):
        place = _padded(place, matrix.nnz)
    values, columns = np.append(matrix.data, 0.0)[place], np.append(matrix.indices, 0)[place]
    while np.any(counts > 1):
        last = np.all(counts <= BUNDLE)
        which = _parts(counts, BUNDLE)
        sums.append(jnp.asarray(which if last else _padded(which, counts.sum())))
        counts = np.maximum(-(-counts // BUNDLE), 1)
    return Ragged(jnp.asarray(values), jnp.asarray(columns.astype(np.int32)), tuple(sums))


def _parts(lengths: np.ndarray, width: int) -> np.ndarray:
    """[parts, width] the places of entries that stand row after row, each row in as many parts as it needs, at least one; places
    that are left over point beyond the last."""
    ends = np.cumsum(lengths)
    counts = np.maximum(-(-lengths // width), 1)
    row = np.repeat(np.arange(len(lengths)), counts)
    inner = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = (ends - lengths)[row] + width * inner
    at = first[:, None] + np.arange(width)
    return np.where(at < ends[row][:, None], at, ends[-1] if len(ends) else 0).astype(np.int32)


def _padded(parts: np.ndarray, beyond: int) -> np.ndarray:
    more = rounded(len(parts)) - len(parts)
    return np.concatenate([parts, np.full((more, parts.shape[1]), beyond, np.int32)])


def _roots(inverse_mass: sparse.csr_matrix) -> sparse.csr_matrix:
    """R with RᵀR = M⁻¹: by Cholesky's method, block by block."""
    if d := block_width(inverse_mass):
        upper = np.swapaxes(np.linalg.cholesky(inverse_mass.data.reshape(-1, d, d)), 1, 2)
        return sparse.csr_matrix((upper.ravel(), inverse_mass.indices, inverse_mass.indptr), inverse_mass.shape)
    number, label = sparse.csgraph.connected_components(inverse_mass, directed=False)
    sizes = np.bincount(label, minlength=number)
    order, starts = np.argsort(label, kind="stable"), np.cumsum(sizes) - sizes
    pieces = []
    for size in np.unique(sizes):
        members = order[starts[sizes == size][:, None] + np.arange(size)]
        rows, columns = np.broadcast_arrays(members[:, :, None], members[:, None, :])
        blocks = np.asarray(inverse_mass[rows.ravel(), columns.ravel()]).reshape(rows.shape)
        pieces.append((np.swapaxes(np.linalg.cholesky(blocks), 1, 2).ravel(), rows.ravel(), columns.ravel()))
    data, rows, columns = (np.concatenate(part) for part in zip(*pieces, strict=True))
    return sparse.csr_matrix((data, (rows, columns)), inverse_mass.shape)


# -- compiled ------------------------------------------------------------------------------------------------------------


def _sums(values: jax.Array, x: jax.Array) -> jax.Array:
    """Of products, row by row, and made once: fused into what reads them, as XLA does, each sum would be made again for each of the
    entries that it goes into, and on the CPU a product with Â take 25 times as long. There it does not fuse matrix products."""
    on_cpu = lambda a, b: jax.lax.dot_general(a, b, (((1,), (1,)), ((0,), (0,))))  # noqa: E731
    elsewhere = lambda a, b: jax.lax.optimization_barrier(jnp.sum(a * b, axis=1))  # noqa: E731
    return jax.lax.platform_dependent(values, x, cpu=on_cpu, default=elsewhere)


def dot(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.sum(a * b)


def length_of(across: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum(across**2, axis=1))


def cone(height: jax.Array, across: jax.Array, slope) -> jax.Array:
    """The nearest points of {|across| ≤ slope · height}."""
    length = length_of(across)
    normal = (height + slope * length) / (1 + slope**2)
    edge = jnp.concatenate([normal[:, None], (slope * normal / jnp.where(length > 0, length, 1.0))[:, None] * across], axis=1)
    inside = jnp.concatenate([height[:, None], across], axis=1)
    polar = slope * length <= -height
    return jnp.where(polar[:, None], 0.0, jnp.where((length <= slope * height)[:, None], inside, edge))


def certificate(placed: Placed, x: jax.Array, rate: jax.Array, counts: Counts) -> jax.Array:
    """E of (3), of the unscaled problem, over the size of `Scaled`."""
    r, u = placed.factor * x, (rate + placed.q) / placed.factor
    (rough, smooth, _), (rates, opening, moving) = counts.split(r), counts.split(u)
    height = rates[:, 0] + placed.friction * length_of(rates[:, 1:])
    point = rough - placed.rho * jnp.concatenate([height[:, None], rates[:, 1:]], axis=1)
    first = rough - cone(point[:, 0], point[:, 1:], placed.friction)
    second = smooth - jnp.maximum(smooth - placed.rho * opening, 0.0)
    total = jnp.sqrt(jnp.sum(first**2) + jnp.sum(second**2) + jnp.sum((placed.rho * moving) ** 2))
    return (total + jnp.finfo(float).eps * jnp.sqrt(dot(r, r))) / (placed.rho * placed.size)
