"""Which pairs of pieces come near each other: boxes sorted along one axis, and compared where they overlap on it."""

import numpy as np


def near_pairs(low: np.ndarray, high: np.ndarray, owner: np.ndarray, movable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (i, j), i < j, whose boxes [k, 3] overlap and that belong to two bodies, at least one of them movable.

    Sorted along the axis on which the boxes are spread most, each box meets those that begin before it ends."""
    nothing = np.zeros(0, int)
    if len(low) < 2:
        return nothing, nothing
    spread = np.ptp(low + high, axis=0) - np.mean(high - low, axis=0)
    axis = int(np.argmax(spread))
    order = np.argsort(low[:, axis], kind="stable")
    start = low[order, axis]
    last = np.searchsorted(start, high[order, axis], side="right")
    count = np.maximum(last - np.arange(1, len(order) + 1), 0)
    first = np.repeat(np.arange(len(order)), count)
    offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    i, j = order[first], order[first + 1 + offset]
    good = (owner[i] != owner[j]) & (movable[i] | movable[j])
    i, j = i[good], j[good]
    meet = np.all((low[i] <= high[j]) & (low[j] <= high[i]), axis=1)
    i, j = np.minimum(i[meet], j[meet]), np.maximum(i[meet], j[meet])
    by = np.lexsort((j, i))  # in an order that does not depend on where the bodies are
    return i[by], j[by]
