"""Islands: bodies that touch one another directly or through others, and whose rows are a problem of their own."""

from collections.abc import Iterator

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from carom.bodies.compiled import by_loops
from carom.bodies.contact_rows import Rows
from carom.bodies.scene import Scene

BUNCH = 60  # rows: islands smaller than this are solved together
EDGES = 300  # rows between free bodies, up to which a loop finds islands sooner than a sparse matrix is built


def bunches(scene: Scene, rows: Rows) -> Iterator[np.ndarray]:
    """The rows of islands, bodies that touch one another directly or through others: large ones alone, small ones several at a time
    up to BUNCH rows, since setting a problem up is work that they share."""
    mine = islands(scene, rows)[rows.owner(scene.free)]
    order = np.argsort(mine, kind="stable")
    ends = np.flatnonzero(np.diff(mine[order])) + 1
    waiting: list[np.ndarray] = []
    for island in np.split(order, ends):
        if waiting and len(island) + sum(map(len, waiting)) > BUNCH:
            yield np.sort(np.concatenate(waiting))
            waiting = []
        if len(island) > BUNCH:
            yield island
        else:
            waiting.append(island)
    if waiting:
        yield np.sort(np.concatenate(waiting))


def islands(scene: Scene, rows: Rows, connecting: np.ndarray | bool = True) -> np.ndarray:
    """[n] a number for each body, the same for all that the connecting rows join."""
    both = np.flatnonzero(scene.free[rows.a] & scene.free[rows.b] & connecting)
    return parts_of(rows.a[both], rows.b[both], len(scene.mass))


@by_loops("rows_loops")
def parts_of(a: np.ndarray, b: np.ndarray, n: int) -> np.ndarray:
    """[n] a number for each body, the same for those that the pairs (a, b) connect, and in the order of the first of them."""
    if len(a) > EDGES:
        return connected_components(sparse.coo_matrix((np.ones(len(a)), (a, b)), (n, n)), directed=False)[1]
    first = list(range(n))  # of each body one that comes before it in its part, or itself
    for i, j in set(zip(a.tolist(), b.tolist(), strict=True)):
        while first[i] != i:
            i = first[i]
        while first[j] != j:
            j = first[j]
        first[max(i, j)] = min(i, j)
    for i in range(n):
        first[i] = first[first[i]]  # what comes before i has been followed to the end
    return np.array(first)
