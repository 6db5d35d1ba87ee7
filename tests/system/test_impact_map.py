"""The law of impact by itself, called again and again: it is compiled once, and derivatives go through it as before."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.system import impact_map as module


def _floor(restitution):
    contact = carom.Contact(lambda q: q[1], restitution=restitution, name="floor")
    return carom.System(lambda v, params: 0.5 * params["m"] * v @ v, [contact])


@pytest.fixture
def traced(monkeypatch):
    """One entry for each time that the law is traced."""
    found = []

    def counted(*args):
        found.append(args[0])
        return after(*args)

    after = module._after
    monkeypatch.setattr(module, "_compiled", eqx.filter_jit(counted))
    return found


def test_it_is_compiled_once_for_all_numbers(traced):
    for speed, e in ((1.0, 0.5), (2.0, 0.5), (5.0, 0.25)):  # and for a system that is made again
        after = carom.impact_map(_floor(e), "floor", [0.0, 0.0], [speed, -speed], params={"m": speed})
        np.testing.assert_allclose(after, [speed, e * speed], rtol=1e-15)
    assert len(traced) == 1
    # A control: another choice of contacts, here those that are closed, is another program; and none is closed.
    after = carom.impact_map(_floor(0.25), None, [0.0, 0.1], [1.0, -1.0], params={"m": 1.0})
    np.testing.assert_allclose(after, [1.0, -1.0], rtol=1e-15)
    assert len(traced) == 2


def _first_of_two(mass):
    """Two masses on a line; the one in front has a mass that the functions capture. p₁⁺ = (1 − m)/(1 + m)."""
    system = carom.System(lambda v: 0.5 * v[0] ** 2 + 0.5 * mass * v[1] ** 2, [carom.Contact(lambda q: q[1] - q[0])])
    return carom.impact_map(system, 0, jnp.zeros(2), jnp.array([1.0, 0.0]))[0]


def test_a_captured_number_can_be_differentiated(traced):
    assert float(_first_of_two(2.0)) == pytest.approx(-1 / 3, rel=1e-15)
    assert len(traced) == 1
    value, slope = jax.jit(jax.value_and_grad(_first_of_two))(2.0)
    assert float(value) == pytest.approx(-1 / 3, rel=1e-15)
    assert float(slope) == pytest.approx(-2 / 9, rel=1e-13)  # of (1 − m)/(1 + m)
    assert len(traced) == 1  # a value that is being traced has no program of its own
