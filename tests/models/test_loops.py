"""The plain loops of the benchmark, written apart from carom, compute the same motions."""

import numpy as np
import pytest

pytest.importorskip("numba")

from benchmarks.continua import TARGETS, cases

STEPS = {"bars, 102 nodes": 1500, "bars, 10 002 nodes": 20, "beam, 11 nodes": 5000}


@pytest.mark.stress
@pytest.mark.parametrize("which", ["bars, 102 nodes", "beam, 11 nodes"])
def test_a_loop_without_carom_agrees(which):
    assert which in TARGETS
    (run, loop) = next((run, loop) for name, _, run, loop in cases(STEPS) if name == which)
    solution, states = run(), loop()
    n = solution.q.shape[1]
    if which.startswith("bars"):
        assert len(solution.impacts) > 50  # through all of the bouncing, which doubles roundings at every contact
        np.testing.assert_allclose(solution.q[1:], states[:, :n], atol=1e-6)
    else:
        np.testing.assert_allclose(solution.q[1:], states[:, :n], atol=1e-10)  # rounding over 5000 steps
        np.testing.assert_allclose(solution.p[1:], states[:, n:], atol=1e-9 * np.abs(states).max())
