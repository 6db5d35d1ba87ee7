"""Contact time integrator 2 of [demoures2017] with ±λ: crossings that balance the discrete energy, (4.15) and (4.17)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TRAPEZOIDAL

import carom
from carom.diagnostics import action_gradient
from carom.models import bars

BALANCED = carom.VariationalCollision(carom.Trapezoidal(), crossing="balance")
ROUNDINGS = 50  # as in tests/diagnostics/test_action.py


@pytest.fixture(scope="module")
def model():
    return bars(elements=(5, 5), integrator=2, densities=(1.0, 1.3))


def test_a_crossing_with_its_impulse_is_critical(model):
    """With λ from (4.15), (4.17) the action is stationary in the times of contact and release too, which λ = 0 is not."""
    run = model.solve(BALANCED, num_steps=300)
    gradient = action_gradient(run)
    assert len(run.impacts) >= 2 and run.fallbacks == 0
    assert gradient.in_roundings < ROUNDINGS
    free = model.solve(TRAPEZOIDAL, num_steps=300)
    assert action_gradient(free).in_roundings > 1e3 * ROUNDINGS  # control
    sizes = run.impacts.impulses[:, 0]
    np.testing.assert_allclose(gradient.impulses[gradient.impact >= 0, 0], sizes, rtol=1e-6, atol=1e-12)
    assert np.all(sizes != 0) and np.all(free.impacts.impulses == 0)
    assert np.ptp(run.p.sum(axis=1)) < 1e-14 * np.abs(run.p).sum(axis=1).max()  # +λ and −λ


def test_the_impulse_is_the_small_root(model):
    """λ is of the order of the jump of the discrete energy that it removes, O(Δt²), and the run stays beside that with λ = 0; the
    other root would send the bars back."""
    largest, apart = [], []
    for dt in (0.02, 0.005):
        one, free = (model.solve(method, dt=dt, num_steps=round(6 / dt)) for method in (BALANCED, TRAPEZOIDAL))
        largest.append(np.abs(one.impacts.impulses).max())
        apart.append(np.abs(one.q[-1] - free.q[-1]).max())
    speed, mass = 0.2, model.params["mass"][5] / 2
    assert largest[0] < 0.1 * speed * mass and largest[1] < largest[0] / 4
    assert apart[0] < 1e-2 and apart[1] < apart[0] / 4


@pytest.mark.stress
def test_derivatives_through_balanced_crossings(model):
    """By replay, against differences; with a contact inside of a step: at the end of one λ is not continuous."""
    start = np.asarray(model.v0, float)

    def end(shift):
        v0 = jnp.asarray(start) + shift * jnp.where(jnp.arange(len(start)) < 6, 1.0, 0.0)
        out = carom.rollout(model.system, BALANCED, model.q0, v0, dt=0.0213, num_steps=60, params=model.params, max_impacts=8)
        return out.q[-1, 4]

    slope = float(jax.jit(jax.grad(end))(0.0))
    assert slope == pytest.approx(float(end(1e-5) - end(-1e-5)) / 2e-5, rel=1e-5)


def test_other_words_are_refused():
    with pytest.raises(carom.InputError, match="crossing must be one of free, balance"):
        carom.VariationalCollision(crossing="reflected")
