"""What a run keeps in memory is what was asked for: not the buffers that its chunks were computed in."""

import numpy as np
import pytest

import carom
from carom.running import chunked_run

NODES, STEPS, STRIDE = 20_000, 160, 80
METHOD = carom.VariationalCollision(carom.Trapezoidal(), elastic="reflection")


def held(arrays) -> int:
    """Bytes that the arrays keep alive: of the buffers they look into, each once."""
    owners = {}
    for array in arrays:
        while getattr(array, "base", None) is not None and isinstance(array.base, np.ndarray):
            array = array.base
        owners[id(array)] = array.nbytes
    return sum(owners.values())


@pytest.fixture
def kept(monkeypatch):
    """A run of bars, in four chunks, and the bytes that it held when all of them were done."""
    monkeypatch.setattr(chunked_run, "LONGEST_WAIT", STEPS // 4 * NODES)
    found = []
    whole = chunked_run.March.solution

    def solution(self, *args):
        tables = [column for table in self.tables for column in table]
        found.append((len(self.tables), held([*self.states, *tables])))
        return whole(self, *args)

    monkeypatch.setattr(chunked_run.March, "solution", solution)
    model = carom.models.bars(elements=(NODES // 2 - 1, NODES // 2 - 1), integrator=1)
    run = model.solve(METHOD, num_steps=STEPS, stride=STRIDE, progress=False)
    return run, *found[-1]


def test_a_long_bar_holds_the_states_that_were_asked_for(kept):
    run, chunks, memory = kept
    assert run.status.ok and len(run.t) == 1 + STEPS // STRIDE and chunks >= 4
    state = 2 * NODES * 8
    assert memory <= (STEPS // STRIDE + len(run.impacts) * 3 / 2) * state + 1e5  # q, p; a row of the table has three; small columns


def test_control_views_hold_their_chunks(kept, monkeypatch):
    """With views, as they once were, every chunk stays: its table alone is larger than all states that were asked for."""
    monkeypatch.setattr(chunked_run, "_rows", lambda buffer, count: np.asarray(buffer)[:count])
    found = []
    whole = chunked_run.March.solution
    monkeypatch.setattr(
        chunked_run.March,
        "solution",
        lambda self, *args: (found.append(held([x for table in self.tables for x in table])), whole(self, *args))[1],
    )
    model = carom.models.bars(elements=(NODES // 2 - 1, NODES // 2 - 1), integrator=1)
    model.solve(METHOD, num_steps=STEPS, stride=STRIDE, progress=False)
    assert found[-1] > 2 * kept[2]


@pytest.mark.parametrize("n", [2, 77, 1000, 100_000, 1_000_000])
@pytest.mark.parametrize("total", [10, 10**7])
def test_the_buffers_of_a_chunk_are_bounded(n, total):
    """16 MiB of states (q and p of n numbers), or those of a few steps where a single one is longer than that."""
    length = chunked_run._chunk_length(total, n)
    assert length * 2 * n * 8 <= max(2 * 8 * chunked_run.LARGEST_CHUNK, chunked_run.FEWEST * 2 * n * 8)
    assert length >= chunked_run.FEWEST
