"""Hybrid: isolated impacts by the collision integrator, rest by timestepping, and back at lift-off."""

import numpy as np
import pytest

import carom
from carom import models
from carom.models.balls import zeno

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


def test_dense_output_in_flight_and_at_rest(landing):
    """Between impacts the flow of order 4 is exact, inside steps with impacts too; i(t) balances the momentum, whoever steps."""
    t = np.sort(np.random.default_rng(3).uniform(0.0, 2.8, 300))  # from 2.94 on, more than six impacts fall into one step
    q, v, i = zeno(t)
    np.testing.assert_allclose(landing.dense.q(t)[:, 0], q, atol=1e-11)
    np.testing.assert_allclose(landing.dense.v(t)[:, 0], v, atol=1e-11)
    np.testing.assert_allclose(landing.dense.interaction(t)[:, 0], i, atol=1e-11)
    late = np.linspace(3.2, 5.0, 50)
    np.testing.assert_allclose(landing.dense.interaction(late)[:, 0], 6 + 2 * (late - 3), atol=1e-11)
    np.testing.assert_allclose(landing.dense.force(late)[:, 0], 2.0, atol=1e-12)
    straight = np.interp(t, landing.t, landing.v[:, 0])  # control: between the points of the grid impacts cannot be guessed
    assert np.max(np.abs(straight - v)) > 0.1


def test_moreau_jean_takes_over_too():
    run = models.zeno_ball().solve(carom.Hybrid(HYBRID.collision, carom.MoreauJean()))
    assert run.status.ok and np.max(np.diff(run.energy)) < run.dt**2 * 2.0**2 / 8  # where a contact closes that was just opening
    np.testing.assert_allclose(run.impacts.t[:5], 3 - 2.0 ** (1 - np.arange(5)), atol=1e-12)
    assert np.all(run.v[run.t > 3.1] == 0.0)


@pytest.mark.stress
def test_friction_in_flight_is_part_of_the_interaction():
    """A block lands sliding: the jump of its momentum is (tangential, normal) impulse, and i(t) holds both."""
    run = models.block(slope=0.0).solve(HYBRID, q0=[0.0, 0.6, 0.0], v0=[1.0, -1.0, 0.0], num_steps=30)
    assert len(run.impacts) >= 1
    end = run.dense.interaction(run.t[-1])[0]
    weight = float(run.params["mass"] * run.params["gravity"] * run.t[-1])
    change = run.p[-1] - run.p[0]
    assert end[:2].sum() == pytest.approx(change[1] + weight, abs=1e-9)
    assert end[2:].sum() == pytest.approx(change[0], abs=1e-9) and change[0] < -0.1


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
