"""Derivatives through impacts: forward = reverse = finite differences = exact where known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ORDER_4, TRAPEZOIDAL

import carom

G = 9.81


def bounce(x, num_impacts, t_end):
    """The exact motion of a particle with linear gravity: x = (height, velocity, gravity) ↦ (height, velocity) at t_end."""
    y, v, g = x
    t = 0.0
    for _ in range(num_impacts):
        fall = (v + jnp.sqrt(v**2 + 2 * g * y)) / g
        y, v, t = 0.0, -(v - g * fall), t + fall
    rest = t_end - t
    return jnp.stack([y + v * rest - g * rest**2 / 2, v - g * rest])


def particle_end(x, t_end):
    model = carom.models.particle()
    params = {"mass": 1.0, "gravity": x[2], "cubic": 0.0}
    run = carom.rollout(
        model.system,
        ORDER_4,
        jnp.stack([0.0, x[0]]),
        jnp.stack([-2.0, x[1]]),
        dt=t_end / 50,
        num_steps=50,
        params=params,
        max_impacts=8,
    )
    return jnp.stack([run.q[-1, 1], run.p[-1, 1]])


forward, reverse = jax.jit(jax.jacfwd(particle_end)), jax.jit(jax.jacrev(particle_end))
plain = jax.jit(particle_end)


@pytest.mark.parametrize(("num_impacts", "t_end"), [(0, 0.3), (1, 1.0), (2, 1.9), (5, 4.7)])
def test_particle_against_the_exact_derivative(num_impacts, t_end):
    x = jnp.array([1.0, 0.1, G])
    assert plain(x, t_end) == pytest.approx(np.asarray(bounce(x, num_impacts, t_end)), abs=1e-12)
    exact = np.asarray(jax.jacfwd(bounce)(x, num_impacts, t_end))
    size = np.max(np.abs(exact))
    assert np.max(np.abs(forward(x, t_end) - exact)) < 1e-12 * size
    assert np.max(np.abs(reverse(x, t_end) - exact)) < 1e-12 * size
    if num_impacts == 1:  # control: with the impact time held fixed the derivative is another
        fall = float(jnp.sqrt(0.1**2 + 2 * G) + 0.1) / G
        frozen = jax.jacfwd(lambda x: -(x[1] - x[2] * fall) * (t_end - fall) - x[2] * (t_end - fall) ** 2 / 2)(x)
        assert np.max(np.abs(np.asarray(frozen) - exact[0])) > 0.1


def differences(function, x, h):
    """Central differences of order 4."""
    columns = []
    for i in range(len(x)):
        e = np.zeros(len(x))
        e[i] = h
        columns.append((8 * (function(x + e) - function(x - e)) - (function(x + 2 * e) - function(x - 2 * e))) / (12 * h))
    return np.stack(columns, axis=-1)


def star_end(x):
    model = carom.models.star(cubic=0.1)
    params = {**{k: jnp.asarray(v) for k, v in model.params.items()}, "gravity": x[6], "inertia": x[7]}
    run = carom.rollout(model.system, TRAPEZOIDAL, x[:3], x[3:6], dt=x[8], num_steps=100, params=params, max_impacts=8)
    return jnp.concatenate([run.q[-1], run.p[-1], run.impacts.t[:3], jnp.sum(run.impacts.impulse[:3], axis=1)])


@pytest.mark.stress
def test_star_state_parameters_and_step_through_three_impacts():
    model = carom.models.star()
    x = jnp.array([*model.q0, *model.v0, G, model.params["inertia"], 0.032])
    value = jax.jit(star_end)
    run = carom.models.star(cubic=0.1).solve(TRAPEZOIDAL, dt=0.032, num_steps=100)
    assert len(run.impacts) == 3
    assert value(x)[:3] == pytest.approx(run.q[-1], abs=1e-9)
    one, two = np.asarray(jax.jit(jax.jacfwd(star_end))(x)), np.asarray(jax.jit(jax.jacrev(star_end))(x))
    scale = np.max(np.abs(one), axis=1, keepdims=True)
    assert np.max(np.abs(one - two) / scale) < 1e-11
    # Finite differences of a motion that amplifies by about 1e4: h⁴ × fifth derivatives, and rounding / h.
    assert np.max(np.abs(one - differences(value, x, 2e-7)) / scale) < 1e-5


def rough_disc(x):
    contact = carom.Contact(
        lambda q: q[1] - 0.5, lambda params: params["e"], friction=lambda params: params["mu"], slip=lambda q: q[0] + 0.5 * q[2]
    )
    system = carom.System(lambda q, v: 0.5 * (v[0] ** 2 + v[1] ** 2 + 0.125 * v[2] ** 2) - G * q[1], [contact])
    params = {"e": x[6], "mu": x[7]}
    run = carom.rollout(system, TRAPEZOIDAL, x[:3], x[3:6], dt=0.05, num_steps=30, params=params, max_impacts=6)
    return jnp.concatenate([run.q[-1], run.p[-1]])


rough_value, rough_forward, rough_reverse = jax.jit(rough_disc), jax.jit(jax.jacfwd(rough_disc)), jax.jit(jax.jacrev(rough_disc))


@pytest.mark.stress
@pytest.mark.parametrize("mu", [0.05, 2.0], ids=["sliding", "sticking"])
def test_friction_and_restitution(mu):
    x = jnp.array([0.0, 1.5, 0.0, 2.0, 0.0, 1.0, 0.8, mu])
    value, (one, two) = rough_value, (np.asarray(rough_forward(x)), np.asarray(rough_reverse(x)))
    assert np.max(np.abs(one - two)) < 1e-11 * np.max(np.abs(one))
    assert np.max(np.abs(one - differences(value, x, 1e-4))) < 1e-7 * np.max(np.abs(one))
    assert (np.max(np.abs(one[:, 7])) > 0.1) == (mu < 1)  # sticking does not depend on how rough it is


@pytest.mark.stress
def test_moving_wall_and_simultaneous_contacts():
    def walls(q, t, params):
        return jnp.stack([q[0] - params["reach"] * jnp.sin(3 * t), q[1], 2.0 - q[0]])

    system = carom.System(lambda q, v: 0.5 * (v @ v) - 0.2 * q[1] ** 3, [carom.Contact(walls)])

    def end(x):
        run = carom.rollout(system, ORDER_4, x[:2], x[2:4], dt=0.1, num_steps=20, params={"reach": x[4]}, t0=x[5], max_impacts=8)
        return jnp.concatenate([run.q[-1], run.p[-1]])

    x = jnp.array([0.9, 0.6, -1.3, -1.0, 0.2, 0.3])
    one, two = np.asarray(jax.jit(jax.jacfwd(end))(x)), np.asarray(jax.jit(jax.jacrev(end))(x))
    assert np.max(np.abs(one - two)) < 1e-11 * np.max(np.abs(one))
    assert np.max(np.abs(one - differences(jax.jit(end), x, 1e-4))) < 1e-6 * np.max(np.abs(one))


def test_rollout_under_vmap_and_against_solve():
    model = carom.models.star()
    params = {k: jnp.asarray(v) for k, v in model.params.items()}
    heights = jnp.linspace(2.0, 3.0, 3)

    def one(y):
        return carom.rollout(model.system, TRAPEZOIDAL, jnp.stack([0.0, y, 0.0]), model.v0, dt=0.01, num_steps=200, params=params).q

    many = jax.jit(jax.vmap(one))(heights)
    for y, q in zip(heights, many, strict=True):
        run = model.solve(TRAPEZOIDAL, q0=[0.0, float(y), 0.0], dt=0.01, num_steps=200)
        assert np.max(np.abs(q - run.q)) < 1e-9  # rounding, amplified by the impacts


def test_a_failed_rollout_is_not_a_trajectory():
    system = carom.System(lambda q, v: 0.5 * (v @ v) - G * q[0], [carom.Contact(lambda q: q[0], 0.5)])
    run = carom.rollout(system, TRAPEZOIDAL, [1.0], [0.0], dt=0.01, num_steps=300)
    assert int(run.status) != 0
    assert bool(jnp.isnan(run.q[-1, 0])) and bool(jnp.isfinite(run.q[100, 0]))


def test_what_comes_after_a_failure_has_no_derivative():
    """Zero would be taken for one: a minimum. What was before it has one, forwards and backwards, alone and in lanes."""
    system = carom.System(lambda q, v: 0.5 * v @ v - 9.81 * q[0], [carom.Contact(lambda q: q[0], restitution=0.5)])

    def height(row):
        return lambda x: carom.rollout(system, TRAPEZOIDAL, jnp.stack([x]), jnp.zeros(1), dt=0.01, num_steps=200).q[row, 0]

    value, slope = jax.value_and_grad(height(-1))(1.0)
    assert np.isnan(value) and np.isnan(slope) and np.isnan(jax.jvp(height(-1), (1.0,), (1.0,))[1])
    assert np.isnan(jax.vmap(jax.grad(height(-1)))(jnp.array([1.0, 4.0]))).tolist() == [True, False]  # the other bounces on
    early = (height(70)(1 + 1e-6) - height(70)(1 - 1e-6)) / 2e-6
    assert (
        abs(jax.grad(height(70))(1.0) - early) < 1e-7 and abs(jax.jvp(height(70), (1.0,), (1.0,))[1] - early) < 1e-7
    )  # differences


@pytest.mark.parametrize(
    "twice",
    [jax.hessian, lambda f: jax.jacfwd(jax.jacfwd(f)), lambda f: jax.jacrev(jax.grad(f)), lambda f: jax.jit(jax.hessian(f))],
)
def test_second_derivatives_are_refused_not_wrong(twice):
    """The replay has exact first derivatives only; the second ones of its Newton steps would be wrong."""

    def height(x):
        system = carom.System(lambda q, v, params: 0.5 * v @ v - params["g"] * q[0], [carom.Contact(lambda q: q[0])])
        return carom.rollout(system, TRAPEZOIDAL, jnp.ones(1), jnp.zeros(1), dt=0.1, num_steps=8, params={"g": x}).q[-1, 0]

    with pytest.raises(carom.InputError, match="second derivatives of a run"):
        twice(height)(G)


def test_control_the_first_ones_are_there_and_can_be_mapped():
    def height(x):
        system = carom.System(lambda q, v, params: 0.5 * v @ v - params["g"] * q[0], [carom.Contact(lambda q: q[0])])
        return carom.rollout(system, TRAPEZOIDAL, jnp.ones(1), jnp.zeros(1), dt=0.1, num_steps=8, params={"g": x}).q[-1, 0]

    several, run = jax.vmap(jax.grad(height))(jnp.array([G, 5.0])), jax.jit(height)
    differences = [float(run(g + 1e-5) - run(g - 1e-5)) / 2e-5 for g in (G, 5.0)]
    assert several == pytest.approx(np.asarray(differences), rel=1e-6)  # 1e-16 over 1e-5, and the square of that


def test_hybrid_before_and_after_a_bounce():
    """Its record is not a number in steps that are flown; the derivative is one. Parabolas, which the rule follows exactly."""
    system = carom.System(lambda q, v: 0.5 * v @ v - G * q[0], [carom.Contact(lambda q: q[0], 0.8, name="floor")])

    def height(h):
        run = carom.rollout(system, carom.Hybrid(), jnp.stack([h]), jnp.zeros(1), dt=0.05, num_steps=12)
        return jnp.stack([run.q[8, 0], run.q[12, 0]])

    def exact(h):
        fall = jnp.sqrt(2 * h / G)
        rest = 0.6 - fall
        return jnp.stack([h - G * 0.4**2 / 2, 0.8 * G * fall * rest - G * rest**2 / 2])

    wanted = np.asarray(jax.jacfwd(exact)(1.0))
    assert np.allclose(height(1.0), exact(1.0), atol=1e-12) and abs(wanted[1]) < 0.5 * wanted[0]
    np.testing.assert_allclose(jax.jit(jax.jacfwd(height))(1.0), wanted, atol=1e-11)
    np.testing.assert_allclose(jax.jit(jax.jacrev(height))(1.0), wanted, atol=1e-11)
