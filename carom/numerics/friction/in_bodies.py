"""Newton's systems of many bodies, block by block.

    (M + HΓ D ΓHᵀ) dv = HΓ C⁻¹b,      D = C⁻¹E,      dx = C⁻¹b − D ΓHᵀdv                                                  (7)

lives on the graph of the bodies: one block of d × d for each of them, and two for each pair that acting contacts, D ≠ 0, connect.
Where the blocks go, and the order in which bodies are eliminated (SuperLU's minimum degree of the graph, which is d² times smaller
than the matrix), is found once for a problem; what is left to a step are products of small blocks and one factorisation.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

Groups = list[np.ndarray]

MASSIVE = 100.0  # on the diagonal of the graph, so that its factorisation, made for its order alone, has a pivot everywhere


@dataclass(frozen=True, eq=False)
class Bodies:
    """HΓ in blocks: those of contacts with friction, of those without, and of bilateral rows. Bodies stand in the order in which
    they are eliminated."""

    width: int  #            d, coordinates of a body
    coordinates: np.ndarray  # [n d] of the problem, in this order
    H: Groups  #             [contacts, rows, 2 d], of the first and the second body of each
    slots: Groups  #         [contacts, 2, 2] places of their blocks, the number of places where there is no body
    mass: np.ndarray  #      [n, d, d]
    column: np.ndarray  #    [places] in columns one after the other
    row: np.ndarray  #       [places]
    work: float  #           of a factorisation for each body: the mean square of the blocks in a column of its factor

    def matrix(self, D: Groups) -> sparse.csc_matrix:
        """M + HΓ D ΓHᵀ of (7), with the places that D fills."""
        d, places = self.width, len(self.row)
        total, used = np.zeros((places + 1) * d * d), np.zeros(places + 1, int)
        inner = np.arange(d * d)
        for H, slots, blocks in zip(self.H, self.slots, D, strict=True):
            acting = np.flatnonzero(blocks.any(axis=(1, 2)))
            if not len(acting):
                continue
            H, place = H[acting], slots[acting].reshape(-1)
            # Columns one after the other: the transpose of each block, which is what D transposed makes.
            made = np.matmul(np.matmul(np.swapaxes(H, 1, 2), np.swapaxes(blocks[acting], 1, 2)), H)
            made = made.reshape(-1, 2, d, 2, d).transpose(0, 1, 3, 2, 4).reshape(-1)
            total += np.bincount((place[:, None] * (d * d) + inner).ravel(), made, len(total))
            used += np.bincount(place, minlength=places + 1)
        own = self.row == self.column
        values = total[: places * d * d].reshape(places, d, d)
        values[own] += self.mass
        kept = np.flatnonzero(own | (used[:places] > 0))
        n = len(self.mass)
        ends = np.searchsorted(self.column[kept], np.arange(n + 1))
        turned = sparse.bsr_matrix((values[kept], self.row[kept], ends), (n * d, n * d)).tocsr()
        return sparse.csc_matrix((turned.data, turned.indices, turned.indptr), turned.shape)


def bodies_of(H: sparse.csr_matrix, mass: sparse.csr_matrix, counts: tuple[int, int, int], columns: int) -> Bodies | None:
    """The blocks of HΓ [coordinates, rows]; None where bodies have not all as many coordinates, or a row more than two bodies."""
    d = block_width(mass)
    if d == 0:
        return None
    n = mass.shape[0] // d
    entries = H.tocoo()
    sizes = (columns, 1, 1)
    body, contact = entries.row // d, _owner(counts, sizes)[entries.col]
    number = sum(counts)
    low, high = np.full(number, n), np.full(number, -1)
    np.minimum.at(low, contact, body)
    np.maximum.at(high, contact, body)
    second = body != low[contact]
    if np.any(second & (body != high[contact])):
        return None
    pair = np.stack([low, np.where(high > low, high, n)], axis=1)  # n: no body
    rank, work = _order(pair, n)
    pair = np.append(rank, n)[pair]
    place, row, column = _places(pair, n)
    blocks, slots, start, first = [], [], 0, 0
    local = entries.row % d + d * second
    for count, size in zip(counts, sizes, strict=True):
        values = np.zeros((count, size, 2 * d))
        mine = (entries.col >= first) & (entries.col < first + count * size)
        inside = entries.col[mine] - first
        values[inside // size, inside % size, local[mine]] = entries.data[mine]
        blocks.append(values)
        slots.append(place[start : start + count])
        start, first = start + count, first + count * size
    back = np.argsort(rank)
    coordinates = (d * back[:, None] + np.arange(d)).ravel()
    inertia = mass.data.reshape(n, d, d)[back]
    return Bodies(d, coordinates, blocks, slots, np.swapaxes(inertia, 1, 2), column, row, work)


def block_width(mass: sparse.csr_matrix) -> int:
    """d, where the mass is blocks of d × d along the diagonal and has all their entries; else 0."""
    size = mass.shape[0]
    d = int(mass.indptr[1]) if size else 0
    if d == 0 or size % d or mass.nnz != size * d:
        return 0
    expected = d * (np.arange(size) // d)[:, None] + np.arange(d)
    return d if np.array_equal(mass.indices.reshape(size, d), expected) else 0


def _owner(counts: tuple[int, int, int], sizes: tuple[int, int, int]) -> np.ndarray:
    """[rows] the contact, or the bilateral row, of each."""
    return np.repeat(np.arange(sum(counts)), np.repeat(sizes, counts))


def _order(pair: np.ndarray, n: int) -> tuple[np.ndarray, float]:
    """[n] the place of each body in the elimination, and the work that it is."""
    both = pair[np.all(pair < n, axis=1)]
    ones = np.ones(len(both))
    graph = sparse.coo_matrix((ones, (both[:, 0], both[:, 1])), (n, n)).tocsc()
    graph.data[:] = 1.0
    graph = (graph + graph.T + sparse.diags(np.full(n, MASSIVE * max(len(both), 1)))).tocsc()
    factors = splu(graph, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return factors.perm_c, float(np.mean(np.diff(factors.L.indptr).astype(float) ** 2))


def _places(pair: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[contacts, 2, 2] where the block of a contact in the column of one body and the row of the other goes, and row and column
    of each place. A block of a body
    that is not there goes to the place after the last."""
    column, row = np.broadcast_arrays(pair[:, :, None], pair[:, None, :])
    key = np.where((column < n) & (row < n), column * n + row, n * n)
    known, place = np.unique(np.concatenate([key.ravel(), np.arange(n) * (n + 1), [n * n]]), return_inverse=True)
    return place[: key.size].reshape(key.shape), known[:-1] % n, known[:-1] // n
