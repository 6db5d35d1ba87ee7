"""`solve` again and again with other numbers: nothing is compiled twice, and nothing piles up."""

import gc

import jax
import numpy as np
import pytest

import carom
from carom.running import chunked_run

METHOD = carom.VariationalCollision(carom.Trapezoidal())


def _calls(count: int, model) -> None:
    for i in range(count):
        params = {**model.params, "gravity": 9.0 + 1e-3 * i}
        run = carom.solve(model.system, METHOD, [0.0, 1.0 + 1e-3 * i], [0.0, 0.0], dt=0.01, num_steps=20, params=params)
    assert np.isfinite(run.q).all()


def _standing() -> tuple[int, int, int]:
    gc.collect()
    return chunked_run._chunk._traces, len(jax.live_arrays()), len(chunked_run._chunk._known)


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.stress)])
def test_no_compilation_and_nothing_kept(count):
    model = carom.models.particle()
    _calls(3, model)
    before = _standing()
    _calls(count, model)
    assert _standing() == before


def test_a_program_is_compiled_for_another_kind_of_call():
    """The control: another method is another program."""
    model = carom.models.particle()
    _calls(1, model)
    before = _standing()[0]
    carom.solve(
        model.system, carom.VariationalCollision(carom.Left()), [0.0, 1.0], [0.0, 0.0], dt=0.01, num_steps=20, params=model.params
    )
    assert _standing()[0] == before + 1
