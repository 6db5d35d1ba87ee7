"""Many coordinates: what is looked at before a run, and what a chunk holds, grows with their number and not with its square."""

import tracemalloc

import numpy as np
import pytest

import carom
from carom.errors import InputError
from carom.running import chunked_run
from carom.running.probes import check_signs

MANY = 4_000


def look(gap):
    system = carom.System(lambda q, v: 0.5 * v @ v - q[0], [carom.Contact(gap, name="floor")])
    check_signs(system, None, np.full(MANY, 0.5), 0.0, ("floor",), np.zeros(1, int))


def test_a_gap_of_many_coordinates_is_looked_at_and_needs_memory_for_these_alone():
    with pytest.raises(InputError, match="does not become negative beyond its zero"):
        look(lambda q: (q[0] + q[-1]) ** 2)
    tracemalloc.start()  # sees numpy's arrays
    try:
        look(lambda q: q[0] + q[-1])  # a good one
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    state = 8 * MANY
    assert state < most < 1000 * state  # 32 MB; two matrices of coordinates by coordinates would be 256


@pytest.mark.parametrize("n", [1, 100, 10_000, 1_000_000])
def test_a_chunk_is_bounded(n):
    length = chunked_run._chunk_length(10**9, n)
    most = max(chunked_run.LARGEST_CHUNK, chunked_run.FEWEST * n)  # a few steps, however long a state
    assert 1 <= length <= chunked_run.LONGEST_CHUNK and length * n <= most
