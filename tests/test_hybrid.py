"""Hybrid: isolated impacts by the collision integrator, rest by timestepping, and back at lift-off."""

import numpy as np
import pytest

import carom
from carom import models

HYBRID = carom.Hybrid(carom.VariationalCollision(max_impacts_per_step=6), carom.TimeDG(1))


@pytest.fixture(scope="module")
def landing():
    return models.zeno_ball().solve(HYBRID)


def test_impacts_are_exact_until_they_accumulate_and_then_it_rests(landing):
    assert landing.status.ok
    exact = 3 - 2.0 ** (1 - np.arange(5))
    np.testing.assert_allclose(landing.impacts.t[:5], exact, atol=1e-12)  # order 4: exact for a uniform force
    late = landing.t > 3.1
    assert np.all(landing.v[late] == 0.0) and np.all(np.abs(landing.q[late]) < 1e-15)
    alone = models.zeno_ball().solve(HYBRID.contact)  # control: without the collision integrator impacts come late
    assert np.max(np.abs(alone.impacts.t[:5] - exact)) > 1e-3


def test_no_hand_over_adds_energy(landing):
    assert np.max(np.diff(landing.energy)) < 1e-14


def test_it_flies_again_after_lift_off():
    """The push −2 + t² turns at t = √2; from rest on, y = (t⁴ − …)/12 exactly."""
    params = {"constant": -2.0, "quadratic": 1.0, "restitution": 0.5}
    run = models.zeno_ball().solve(HYBRID, q0=[0.0], params=params, num_steps=300)
    s = np.sqrt(2.0)
    t = run.t[-1]
    exact = (t**4 - s**4) / 12 - (t**2 - s**2) - (s**3 / 3 - 2 * s) * (t - s)
    assert run.q[-1, 0] == pytest.approx(exact, abs=2e-3)  # lift-off is met within a step of 0.01
    on_floor = run.t < 1.4
    assert np.all(np.abs(run.q[on_floor]) < 1e-15)


def test_bad_input_is_an_error():
    with pytest.raises(TypeError, match="collision"):
        carom.Hybrid(carom.MoreauJean())
    with pytest.raises(TypeError, match="contact"):
        carom.Hybrid(contact=carom.VariationalCollision())
