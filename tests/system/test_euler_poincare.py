"""The equations of motion on groups against those of the Lagrangian in a chart, which share nothing but the Lagrangian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kinds import KINDS

import carom
from carom.methods.timestepping.motion import Motion
from carom.numerics.held_fixed import held_fixed
from carom.xla.structure import operations


def _tumbling(q, v, t, params):
    """A mass that depends on where the body is and when, and a potential."""
    heavy = 1.0 + 0.3 * q[0] ** 2 + 0.1 * jnp.sin(t)
    return 0.5 * v[:3] @ (jnp.array([0.3, 0.5, 0.7]) * heavy * v[:3]) + 0.5 * v[3:] @ v[3:] + 0.2 * v[0] * v[4] - params["g"] * q[6]


def _drag(q, v, t, params):
    return -0.3 * v + 0.1 * jnp.cos(t)


def _chart(retraction):
    system = carom.System(_tumbling, force=_drag, space=carom.SE3(retraction))
    q = np.array([0.9, 0.3, -0.2, 0.25, 0.1, 0.2, 0.8])
    q[:4] /= np.linalg.norm(q[:4])
    return system.bind({"g": 9.81}, 7, general=True).chart(jnp.asarray(q))


@pytest.mark.parametrize("retraction", ["cayley", "exponential"])
def test_the_acceleration_in_a_chart_is_that_of_the_lagrangian_in_it(retraction):
    rng = np.random.default_rng(0)
    x, rates = jnp.asarray(0.4 * rng.standard_normal(6)), jnp.asarray(rng.standard_normal(6))

    @jax.jit
    def found(x, rates, t):
        chart = _chart(retraction)
        motion, functions = Motion(chart), chart.functions
        bending = functions.chart_rates(x, functions.base.space.chart_bending(x, rates))
        return motion.acceleration(x, rates, t), chart.mass(x, rates, t), motion.force(x, rates, t), bending

    acceleration, mass, force, bending = found(x, rates, jnp.asarray(0.7))
    np.testing.assert_allclose(acceleration, np.linalg.solve(mass, force), rtol=1e-12)
    assert np.abs(bending).max() > 0.01 * np.abs(acceleration).max()  # control: it does count


@pytest.mark.parametrize("retraction", ["cayley", "exponential"])
def test_the_velocity_of_a_momentum_in_a_chart_is_the_inverse_of_its_mass(retraction):
    x, p = jnp.asarray(0.4 * np.random.default_rng(1).standard_normal((2, 6)))

    @jax.jit
    def found(x, p, t):
        chart = _chart(retraction)
        v = chart.velocity(x, p, t)
        return v, chart.momentum(x, v, t), chart.mass(x, 0 * x, t)

    v, again, mass = found(x, p, jnp.asarray(0.7))
    np.testing.assert_allclose(again, p, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(v, np.linalg.solve(mass, p), rtol=1e-11)


def test_a_rigid_body_with_contacts_is_a_program_of_bounded_size():
    """Counted in operations, not in seconds. Before the acceleration came from the group, and before derivatives stayed out of what
    is held fixed, these numbers were 2900 and 18500."""
    kind = KINDS["rotations"]()
    chart = lambda q: kind.system.bind(kind.params, 7, general=True).chart(q)  # noqa: E731
    there, x = jnp.asarray(kind.q0), jnp.zeros(6)

    def acceleration(q, x, v):
        return Motion(chart(q)).acceleration(x, v, jnp.zeros(()))

    def slopes(q, x, v):
        return jax.jacfwd(acceleration, argnums=(1, 2))(q, x, v)

    assert operations(acceleration, there, x, x) < 1200
    moved = operations(lambda q, x, v: jax.jvp(slopes, (q, x, v), (q, x, v))[1], there, x, x)
    assert operations(slopes, there, x, x) < 3000 and moved < 9000


class TestHeldFixed:
    """`held_fixed`: the same values, no derivatives, also of what is closed over."""

    def value(self, a, x):
        inside = held_fixed(lambda y: jax.lax.while_loop(lambda z: z < 10.0, lambda z: z + jnp.sin(a * y) ** 2 + 0.1, y))
        return inside(x) * a

    def test_values_stay_and_derivatives_go(self):
        a, x = jnp.asarray(2.0), jnp.asarray(3.0)
        plain = jax.lax.while_loop(lambda z: z < 10.0, lambda z: z + jnp.sin(a * x) ** 2 + 0.1, x)
        value, slope = jax.jvp(self.value, (a, x), (jnp.ones(()), jnp.ones(())))
        assert float(value) == pytest.approx(float(2 * plain)) and float(slope) == pytest.approx(float(plain))
        assert float(jax.grad(self.value)(a, x)) == pytest.approx(float(plain))  # backwards, though a loop has no reverse mode

    def test_nothing_of_it_is_differentiated(self):
        """Control: `stop_gradient` behind the loop leaves the derivatives of the loop in the program."""

        def stopped(a, x):
            return jax.lax.stop_gradient(jax.lax.while_loop(lambda z: z < 10.0, lambda z: z + jnp.sin(a * x) ** 2 + 0.1, x)) * a

        size = lambda f: str(jax.make_jaxpr(lambda a, x: jax.jvp(f, (a, x), (1.0, 1.0)))(2.0, 3.0)).count("cos ")  # noqa: E731
        assert size(self.value) == 0 and size(stopped) > 0
