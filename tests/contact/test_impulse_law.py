"""A law of impact of one's own, from the whole state to the impulse: exact answers, all methods, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom

G, SOFT, HARD = 10.0, 0.25, 1.0


def floor(q):
    return q[1]


def patchy(q, speed, mass):
    """A floor that is soft where x < 0.8 and hard beyond."""
    return (1 + jnp.where(q[0] < 0.8, SOFT, HARD)) * mass * speed


def lagrangian(q, v, params):
    return 0.5 * params["mass"] * v @ v - params["mass"] * G * q[1]


SYSTEM = carom.System(lagrangian, [carom.Contact(floor, impulse=patchy)])
START = dict(q0=[0.0, 0.8], v0=[1.5, 0.0], params={"mass": 2.0})
TIMES = np.array([0.4, 0.6, 0.8])  # at x = 0.6, which is soft, and x = 0.9 and 1.2, which are hard; none is a point of the grid
RATIOS = np.array([SOFT, HARD, HARD])

INNER = carom.VariationalCollision(carom.Trapezoidal())
METHODS = {
    "variational": (carom.VariationalCollision(), 1e-9),
    "events": (carom.EventDriven(), 1e-8),
    "moreau": (carom.Adaptive(carom.MoreauJean(), 1e-5), 1e-4),  # to the tolerance
    "galerkin": (carom.Adaptive(carom.TimeDG(2), 1e-5), 1e-4),
}


@pytest.mark.parametrize(
    "name", ["variational", "events", *(pytest.param(n, marks=pytest.mark.stress) for n in ("moreau", "galerkin"))]
)
def test_every_impact_has_the_impulse_of_its_place(name):
    method, tolerance = METHODS[name]
    run = carom.solve(SYSTEM, method, dt=0.07, num_steps=12, **START)
    before, after = run.impacts.p_before[:, 1], run.impacts.p_after[:, 1]
    np.testing.assert_allclose(run.impacts.t, TIMES, atol=tolerance)
    np.testing.assert_allclose(-after / before, RATIOS, rtol=1e-3 if tolerance > 1e-6 else 1e-9)
    np.testing.assert_allclose(run.impacts.impulse, (1 + RATIOS) * 2.0 * np.array([4.0, 1.0, 1.0]), rtol=10 * tolerance)
    height = 1.0 * 0.1 - G * 0.1**2 / 2  # between the second and the third
    assert run.q[10, 1] == pytest.approx(height, abs=10 * tolerance)


def test_a_law_of_the_velocity_alone():
    """Half of the speed, 2 of 4, is left after t = 0.4."""
    system = carom.System(lagrangian, [carom.Contact(floor, impulse=lambda v, mass: -1.5 * mass * v[1])])
    run = carom.solve(system, INNER, dt=0.07, num_steps=10, **START)
    assert run.q[-1, 1] == pytest.approx(2.0 * 0.3 - G * 0.3**2 / 2, abs=1e-10)


@pytest.mark.stress
def test_derivatives_go_through_it():
    def end(x):
        law = lambda params, speed, mass: (1 + params["e"] * jnp.exp(-0.1 * speed)) * mass * speed  # noqa: E731
        system = carom.System(lambda q, v: 0.5 * v @ v - G * q[0], [carom.Contact(lambda q: q[0], impulse=law)])
        run = carom.rollout(system, INNER, x[:1], jnp.zeros(1), dt=0.055, num_steps=10, params={"e": x[1]}, max_impacts=4)
        return run.q[-1, 0]

    def exact(x):
        fall = jnp.sqrt(2 * x[0] / G)
        back, rest = x[1] * jnp.exp(-0.1 * G * fall) * G * fall, 0.55 - fall
        return back * rest - G * rest**2 / 2

    x = jnp.array([0.8, 0.7])
    np.testing.assert_allclose(jax.grad(end)(x), jax.grad(exact)(x), rtol=1e-9)


def test_what_is_no_law_is_refused():
    gains = carom.System(lagrangian, [carom.Contact(floor, impulse=lambda speed, mass: 2.1 * mass * speed, name="spring")])
    with pytest.raises(carom.InputError, match=r"'spring': at speed .*more would add energy"):
        carom.solve(gains, INNER, dt=0.07, num_steps=10, **START)
    for wrong in ({"restitution": 0.5}, {"departure": lambda speed: speed}, {"law": "poisson"}):
        with pytest.raises(carom.InputError, match="whole law of impact"):
            carom.Contact(floor, impulse=patchy, **wrong)
    with pytest.raises(carom.InputError, match="did you mean 'speed'"):
        carom.Contact(floor, impulse=lambda speeds: speeds)


def test_an_impact_that_would_add_energy_ends_the_run():
    """A law that asks for q is known at impacts only: the second one, at x = 0.9, is not one."""
    grows = carom.Contact(floor, impulse=lambda q, speed, mass: (1 + jnp.where(q[0] < 0.8, SOFT, 1.2)) * mass * speed, name="floor")
    run = carom.solve(carom.System(lagrangian, [grows]), INNER, dt=0.07, num_steps=12, throw=False, **START)
    assert not run.status.ok and run.t[-1] == pytest.approx(0.56)
    assert run.impacts.t == pytest.approx([0.4, 0.6]) and np.isnan(run.impacts.impulse[-1])  # its row has no impulse
    assert "more would add energy" in run.status.message
