"""Long flows stand once in a program: every step is then taken with care, and the numbers are those of two copies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.methods.loop import Grid, advance
from carom.methods.method import State
from carom.methods.variational import collision
from carom.xla.structure import operations

STEPS = 60


@pytest.mark.parametrize("name, once", [("beam", True), ("double_pendulum", False), ("particle", False)])
def test_a_long_flow_stands_once_in_a_program(name, once):
    model, method = getattr(carom.models, name)(), carom.VariationalCollision()
    mechanics = method.bind(model.system, model.params, len(model.q0))
    assert method.flies_once(mechanics) == once
    assert (method.glide(mechanics) is None) == once


def test_a_brief_run_holds_a_shorter_flow_once():
    """A run that is to be differentiated has few steps, which do not pay for a second copy; a flow that is written out stays."""
    for name, once in (("double_pendulum", True), ("particle", False)):
        model, method = getattr(carom.models, name)(), carom.VariationalCollision()
        mechanics = method.bind(model.system, model.params, len(model.q0))
        mechanics.brief = True
        assert method.flies_once(mechanics) == once


def run(monkeypatch, long: float):
    """The same motion, with flows counted as long from so many operations on."""
    monkeypatch.setattr(collision, "LONG", long)
    model, method = carom.models.drag(), carom.VariationalCollision(carom.Trapezoidal())
    q, v = jnp.asarray(model.q0, float), jnp.asarray(model.v0, float)
    p = model.system.bind(model.params, len(q)).momentum(q, v, jnp.zeros(()))
    whole = [jnp.asarray(i, jnp.int32) for i in (0, STEPS, 1000)]
    grid = Grid(jnp.asarray(0.05), *whole, length=STEPS, rows=128)
    steps = jax.jit(lambda q, p: advance(method, model.system, model.params, State(jnp.zeros(()), q, p), grid))
    chunk = steps(q, p)
    assert int(chunk.steps) == STEPS
    hits = int(chunk.num_impacts)
    return np.asarray(chunk.states)[:STEPS], np.asarray(chunk.impacts.t)[:hits], operations(steps, q, p)


def test_steps_with_care_are_the_steps_without(monkeypatch):
    states, times, both = run(monkeypatch, np.inf)
    careful, careful_times, one = run(monkeypatch, 0)
    assert one < both  # these are two programs
    assert len(times) == len(careful_times) > 1  # impacts are met by both
    # A flow with its energy is rounded otherwise than one without; impacts carry that on, some tenfold each.
    assert np.max(np.abs(states - careful)) < 1e-10
    assert np.max(np.abs(times - careful_times)) < 1e-10
