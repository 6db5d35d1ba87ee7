"""Rotations and rigid motions: retractions, their derivatives, and free motion on the groups."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.spaces import rotations

SPACES = {
    "SO3 cayley": carom.SO3(),
    "SO3 exponential": carom.SO3("exponential"),
    "SE3 cayley": carom.SE3(),
    "SE3 exponential": carom.SE3("exponential"),
    "power": carom.Power(carom.SE3(), 3),
    "product": carom.Product(carom.Euclidean(2), carom.SO3("exponential"), carom.SE3()),
}
EPS = np.finfo(float).eps


def _random(space, seed=0, size=0.7):
    """A configuration with unit quaternions, and vectors."""
    rng = np.random.default_rng(seed)
    still = jnp.asarray([1.0 if name.startswith("qw") else 0.0 for name in space.names])
    delta, v, other = (jnp.asarray(size * rng.standard_normal(space.dim)) for _ in range(3))
    return space.retract(still, delta), v, other


@pytest.mark.parametrize("name", SPACES)
def test_retractions_go_there_and_back(name):
    space = SPACES[name]
    q, v, _ = _random(space)
    np.testing.assert_allclose(space.inverse_retract(q, space.retract(q, v)), v, atol=100 * EPS)
    np.testing.assert_allclose(space.retract(q, jnp.zeros(space.dim)), q, atol=4 * EPS)


@pytest.mark.parametrize("name", SPACES)
def test_push_is_the_derivative_of_the_retraction_and_pull_its_transpose(name):
    space = SPACES[name]
    q, v, other = _random(space)
    rate = jax.jvp(lambda s: space.retract(q, s * v), (0.0,), (1.0,))[1]
    np.testing.assert_allclose(space.push(q, v), rate, atol=100 * EPS)
    slope = jnp.asarray(np.random.default_rng(1).standard_normal(space.size))
    assert float(slope @ space.push(q, other)) == pytest.approx(float(space.pull(q, slope) @ other), abs=100 * EPS)


@pytest.mark.parametrize("name", ["SO3 cayley", "SO3 exponential", "SE3 cayley"])
def test_momenta_belong_to_velocities_by_the_trivialised_derivative(name):
    """(3), (4), (5) of rotations.py against differentiating ζ ↦ τ⁻¹(τ(ζ)⁻¹ τ(x)), which is −dτ⁻¹."""
    space = SPACES[name]
    _, x, mu = _random(space, size=1.2)
    identity = jnp.zeros(space.size).at[0].set(1.0)
    away = lambda zeta: space.inverse_retract(space.retract(identity, zeta), space.retract(identity, x))  # noqa: E731
    wanted = -jax.vjp(away, jnp.zeros(space.dim))[1](mu)[0]
    omega, a = rotations.split(x)[:3], rotations.split(mu)[:3]
    if space.dim == 6:
        found = rotations.join(*rotations.rigid_cayley_momentum(omega, rotations.split(x)[3:], a, rotations.split(mu)[3:]))
    else:
        found = rotations.join((rotations.cayley_momentum if "cayley" in name else rotations.exponential_momentum)(omega, a))
    np.testing.assert_allclose(found, wanted, atol=200 * EPS)
    assert np.abs(np.asarray(found - mu)).max() > 0.1  # the control: they are not the same thing


def test_small_angles_meet_the_formulas_for_large_ones():
    """The series of the exponential and its friends, on both sides of where they take over."""
    for size in (0.99e-4, 1.01e-4, 0.99e-2, 1.01e-2):
        omega = jnp.asarray([0.6, 0.0, 0.8]) * size
        a = rotations.exponential(rotations.split(omega))
        np.testing.assert_allclose(rotations.join(a)[1:], omega * np.sin(size / 2) / size, rtol=4 * EPS)
        np.testing.assert_allclose(rotations.join(rotations.logarithm(a)), omega, rtol=8 * EPS)
        mu = rotations.split(jnp.asarray([0.3, 1.0, -0.2]))
        across = rotations.cross(rotations.split(omega), mu)
        c = 1 / 12 + size**2 / 720  # the next term is below 1e-12
        series = rotations.add(
            mu, rotations.scale(0.5, across), rotations.scale(c, rotations.cross(rotations.split(omega), across))
        )
        np.testing.assert_allclose(
            rotations.join(rotations.exponential_momentum(rotations.split(omega), mu)), rotations.join(series), rtol=1e-12
        )


def test_matrices_of_quaternions():
    a, b = (rotations.exponential(rotations.split(jnp.asarray(w))) for w in ([0.3, -1.0, 0.5], [1.0, 0.2, 0.1]))
    x = jnp.asarray([0.2, -0.4, 1.0])
    left, right = rotations.matrix(rotations.join(a)), rotations.matrix(rotations.join(b))
    np.testing.assert_allclose(left.T @ left, np.eye(3), atol=4 * EPS)
    np.testing.assert_allclose(rotations.matrix(rotations.join(rotations.multiply(a, b))), left @ right, atol=8 * EPS)
    np.testing.assert_allclose(rotations.join(rotations.unrotate(a, rotations.split(x))), left.T @ x, atol=8 * EPS)


@pytest.mark.parametrize("name", ["SO3 cayley", "SO3 exponential", "SE3 cayley", "SE3 exponential"])
def test_free_motion_keeps_momentum_goes_back_and_has_order_2(name):
    """Against the motion itself with tiny steps of another method: Euler's equations by scipy."""
    from scipy.integrate import solve_ivp

    space = SPACES[name]
    mass = jnp.asarray([1.0, 1.5, 2.0, 0.8, 0.8, 0.8][: space.dim])
    q, v, _ = _random(space, seed=3, size=1.0)
    p = mass * v
    drift = jax.jit(lambda q, p, h: space.drift(q, p, mass, h))
    there = drift(q, p, 0.1)
    assert bool(there.converged)
    back = drift(there.q, there.p, -0.1)
    np.testing.assert_allclose(back.q, q, atol=1e-14)  # symmetric: solved to rounding both ways
    np.testing.assert_allclose(back.p, p, atol=1e-14)

    def spatial(q, p):
        turn = rotations.matrix(q[:4])
        return turn @ p[:3] if space.dim == 3 else jnp.concatenate([turn @ p[:3] + jnp.cross(q[4:], turn @ p[3:]), turn @ p[3:]])

    np.testing.assert_allclose(spatial(there.q, there.p), spatial(q, p), atol=1e-14)  # momentum in space

    def euler(t, y):
        omega = y[4:] / np.asarray(mass[:3])
        w, u = y[0], y[1:4]
        turning = 0.5 * np.concatenate([[-u @ omega], w * omega + np.cross(u, omega)])
        return np.concatenate([turning, np.cross(y[4:], omega)])

    exact = solve_ivp(euler, (0, 1), np.concatenate([q[:4], p[:3]]), rtol=1e-11, atol=1e-12).y[:, -1]
    errors = []
    for steps in (20, 40, 80):
        state = (q, p)
        for _ in range(steps):
            out = drift(*state, 1 / steps)
            state = (out.q, out.p)
        errors.append(np.abs(np.asarray(state[0][:4]) - exact[:4]).max())
    assert carom.diagnostics.measured_order([4, 2, 1], errors) == pytest.approx(2, abs=0.2)


def test_bad_spaces_are_refused():
    with pytest.raises(ValueError, match="retraction must be one of cayley, exponential"):
        carom.SO3("euler")
    with pytest.raises(ValueError, match="count must be a whole number between 1 and"):
        carom.Power(carom.SO3(), 0)
    with pytest.raises(ValueError, match="at least one space"):
        carom.Product()


@pytest.mark.parametrize("name", SPACES)
def test_the_velocity_in_a_chart_bends_as_its_derivative_says(name):
    """D(x) ẋ along x + s ẋ, differentiated; control: it does bend on groups."""
    space = SPACES[name]
    _, x, rates = _random(space)
    wanted = jax.jit(lambda x, r: jax.jvp(lambda x: space.chart_velocity(x, r), (x,), (r,))[1])(x, rates)
    np.testing.assert_allclose(jax.jit(space.chart_bending)(x, rates), wanted, atol=100 * EPS)
    assert np.abs(wanted).max() > 0.01


@pytest.mark.parametrize("name", SPACES)
def test_transport_is_dual_to_the_bracket_of_two_velocities(name):
    """⟨ad*_v p, w⟩ = ⟨p, [v, w]⟩, with the bracket from two small displacements one after the other, in either order."""
    space = SPACES[name]
    q, v, w = _random(space)
    p = jnp.asarray(np.random.default_rng(2).standard_normal(space.dim))

    def twice(a, b):
        return space.inverse_retract(q, space.retract(space.retract(q, a * v), b * w))

    def swapped(a, b):
        return space.inverse_retract(q, space.retract(space.retract(q, b * w), a * v))

    mixed = lambda way: jax.jvp(lambda a: jax.jvp(lambda b: way(a, b), (0.0,), (1.0,))[1], (0.0,), (1.0,))[1]  # noqa: E731
    bracket = jax.jit(lambda: mixed(twice) - mixed(swapped))()
    assert float(space.transport(v, p) @ w) == pytest.approx(float(p @ bracket), abs=1000 * EPS)
    assert abs(float(p @ bracket)) > 0.01  # control
