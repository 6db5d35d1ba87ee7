"""`solve` again and again with other numbers: nothing is compiled twice, and nothing piles up."""

import gc
import tracemalloc
import weakref

import jax
import numpy as np

import carom
from carom.closures.per_object import per_object
from carom.named import frozen
from carom.running import chunked_run

METHOD = carom.VariationalCollision(carom.Trapezoidal())


def _calls(count: int, model) -> list[carom.Solution]:
    runs = []
    for i in range(count):
        params = {**model.params, "gravity": 9.0 + 1e-3 * i}
        runs.append(carom.solve(model.system, METHOD, [0.0, 1.0 + 1e-3 * i], [0.0, 0.0], dt=0.01, num_steps=20, params=params))
    assert all(np.isfinite(run.q).all() for run in runs)
    return runs


def _standing() -> tuple[int, int, int]:
    gc.collect()
    return chunked_run._chunk._traces, len(jax.live_arrays()), len(chunked_run._chunk._known)


def test_a_thousand_calls_compile_nothing_and_keep_nothing():
    model = carom.models.particle()
    _calls(3, model)
    before = _standing()
    _calls(1000, model)
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


def _bytes_per_call(count: int, keep: bool) -> float:
    """By which the memory of Python grows, once JAX has laid its first objects by for the next ones."""
    model = carom.models.particle()
    tracemalloc.start()
    try:
        _calls(40, model)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        runs = _calls(count, model)
        runs = runs if keep else None
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / count
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow():
    """A run that is kept holds its 21 states of 32 bytes; one that is not leaves less than that behind."""
    held = 21 * 4 * 8
    assert _bytes_per_call(100, keep=False) < held < _bytes_per_call(100, keep=True)


def test_a_frozen_system_is_found_again_as_long_as_nothing_that_it_captures_changes():
    numbers = {"stiffness": 2.0}
    system = carom.System(lambda q, v: 0.5 * v @ v - 0.5 * numbers["stiffness"] * q @ q)
    first = frozen(system)
    assert frozen(system) is first and frozen(first) is first
    numbers["stiffness"] = 3.0
    assert frozen(system) is not first
    assert frozen(first) is first, "it has copies of its own"
    runs = []
    for stiffness in (3.0, 2.0):
        numbers["stiffness"] = stiffness
        runs.append(carom.solve(system, carom.VariationalCollision(), [1.0], [0.0], dt=0.01, num_steps=50))
    assert [run.energy[0] for run in runs] == [1.5, 1.0]


def test_what_is_known_of_an_object_is_forgotten_with_it():
    asked = []

    @per_object
    def name(x):
        asked.append(x.name)
        return [x.name]

    stop = carom.Stop(lambda t: t - 1.0, name="one")
    assert name(stop) is name(stop) and asked == ["one"]
    gone = weakref.ref(stop)
    del stop
    gc.collect()
    assert gone() is None
    assert name(carom.Stop(lambda t: t - 1.0, name="other")) == ["other"], "even where it has the place of the one before"
