"""Small matrices on one thread: set for as long as it lasts, put back by the last who leaves."""

import pytest

from carom.numerics.blas_threads import one_thread, threads


@pytest.mark.skipif(not threads(), reason="numpy has no OpenBLAS of its own here")
def test_threads_are_one_inside_and_as_before_outside():
    before = threads()
    with one_thread():
        assert threads() == [1] * len(before)
        with one_thread():
            assert threads() == [1] * len(before)
        assert threads() == [1] * len(before)  # one is still inside
    assert threads() == before
    with pytest.raises(ValueError), one_thread():
        raise ValueError
    assert threads() == before
