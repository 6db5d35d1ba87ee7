"""Which pairs of pieces come near each other: few boxes are sorted along one axis, many are put into cells of their own size."""

import numpy as np

FEW = 1000  # boxes, up to which sorting is faster than cells
CORNERS = np.array(np.meshgrid([0, 1], [0, 1], [0, 1], indexing="ij")).reshape(3, 8).T
MIX = np.array([73856093, 19349663, 83492791])  # makes one number of a cell; cells that share one are told apart afterwards


def near_pairs(low: np.ndarray, high: np.ndarray, owner: np.ndarray, movable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (i, j), i < j, whose boxes [k, 3] overlap and that belong to two bodies, at least one of them movable."""
    nothing = np.zeros(0, int)
    if len(low) < 2:
        return nothing, nothing
    i, j = _sorted(low, high) if len(low) <= FEW else _in_cells(low, high)
    good = (owner[i] != owner[j]) & (movable[i] | movable[j])
    i, j = i[good], j[good]
    meet = np.all((low[i] <= high[j]) & (low[j] <= high[i]), axis=1)
    i, j = np.minimum(i[meet], j[meet]), np.maximum(i[meet], j[meet])
    by = np.lexsort((j, i))  # in an order that does not depend on where the bodies are
    return i[by], j[by]


def _sorted(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Candidates: along the axis on which the boxes are spread most, each meets those that begin before it ends."""
    spread = np.ptp(low + high, axis=0) - np.mean(high - low, axis=0)
    axis = int(np.argmax(spread))
    order = np.argsort(low[:, axis], kind="stable")
    last = np.searchsorted(low[order, axis], high[order, axis], side="right")
    first, second = _expanded(np.arange(1, len(order) + 1), np.maximum(last, np.arange(1, len(order) + 1)))
    return order[first], order[second]


def _in_cells(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Candidates: boxes of one size, up to a factor of two, lie in cells of that size, eight at most, and meet there all that are
    not larger. Time and memory are linear in the boxes, times the number of sizes there are."""
    finite = np.flatnonzero(np.all(np.isfinite(low) & np.isfinite(high), axis=1))
    extent = np.max(high[finite] - low[finite], axis=1)
    level = np.ceil(np.log2(np.maximum(extent, 1e-300)))
    pairs = []
    for size in np.unique(level):
        mine, smaller = finite[level == size], finite[level < size]
        cell = 2.0**size
        key, where, box = _cells(low, high, mine, cell)
        order = np.argsort(key, kind="stable")
        key, where, box = key[order], where[order], box[order]
        start = np.searchsorted(key, key, side="right")  # those of the same cell that come later share it: every pair once
        ours = _expanded(np.arange(1, len(key) + 1), start)
        pairs.append(_once(low, cell, where, box, where, box, *ours))
        if len(smaller):
            other_key, other_where, other = _cells(low, high, smaller, cell)
            begin, end = np.searchsorted(key, other_key), np.searchsorted(key, other_key, side="right")
            theirs = _expanded(begin, end)
            pairs.append(_once(low, cell, other_where, other, where, box, *theirs))
    return np.concatenate([p for p, _ in pairs]), np.concatenate([q for _, q in pairs])


def _expanded(begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(k, l) for all l in begin[k] … end[k] − 1."""
    count = np.maximum(end - begin, 0)
    first = np.repeat(np.arange(len(begin)), count)
    return first, begin[first] + np.arange(len(first)) - np.repeat(np.cumsum(count) - count, count)


def _cells(low: np.ndarray, high: np.ndarray, boxes: np.ndarray, cell: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The cells that boxes lie in: a number for each, the cell itself, and the box."""
    first, last = np.floor(low[boxes] / cell), np.floor(high[boxes] / cell)
    where = first[:, None, :] + CORNERS
    inside = np.all(where <= last[:, None, :], axis=2)
    row, corner = np.nonzero(inside)
    where = where[row, corner]
    folded = np.fmod(where, 2.0**31).astype(np.int64)
    return np.bitwise_xor.reduce(folded * MIX, axis=1), where, boxes[row]


def _once(low, cell: float, where_i, box_i, where_j, box_j, first, second) -> tuple[np.ndarray, np.ndarray]:
    """Of pairs that share several cells only the one in the first cell that they share."""
    i, j, where = box_i[first], box_j[second], where_i[first]
    shared = np.floor(np.maximum(low[i], low[j]) / cell)
    good = np.all((where == where_j[second]) & (where == shared), axis=1)
    return i[good], j[good]
