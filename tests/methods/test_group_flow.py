"""The discrete Euler–Lagrange equations on groups, written out, against derivatives of the discrete Lagrangian itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kinds import rotations, turned

import carom
from carom.methods.variational.group_flow import _Path, group_lagrangian
from carom.xla.structure import operations

PRODUCT = carom.Product(carom.SO3("exponential"), carom.Euclidean(2))
CASES = [
    pytest.param(carom.SE3(), carom.Trapezoidal(), id="SE3-Trapezoidal"),
    pytest.param(carom.SE3(), carom.Gamma(0.3), id="SE3-Gamma", marks=pytest.mark.stress),
    *[
        pytest.param(PRODUCT, rule, id=f"product-{rule.name}", marks=pytest.mark.stress)
        for rule in (carom.Trapezoidal(), carom.Midpoint(), carom.Gamma(0.3), carom.Left(), carom.Right())
    ],
]
H, T = jnp.asarray(0.2), jnp.asarray(0.4)


def _lagrangian(q, v, t, params):
    """Inertia that depends on the attitude and the time, a gyroscopic term, and a potential."""
    height = turned(q, jnp.array([0.3, 0.1, 1.0]))[2]
    inertia = jnp.array([1.0, 1.5, 2.2]) * (1.0 + 0.3 * height**2 + 0.1 * jnp.sin(t))
    linear = 0.5 * params["mass"] * v[3:] @ v[3:] + 0.2 * v[0] * v[-1]
    return 0.5 * v[:3] @ (inertia * v[:3]) + linear + height * v[1] - 2.0 * height - 0.5 * q[4:] @ q[4:]


def _push(q, v, t):
    return jnp.sin(jnp.arange(v.shape[0]) + t) * (1.0 + q[0]) - 0.3 * v


def _start(space, seed):
    rng = np.random.default_rng(seed)
    q = rng.normal(size=space.size)
    q[:4] /= np.linalg.norm(q[:4])
    return jnp.asarray(q), jnp.asarray(rng.normal(size=space.dim))


def _systems(space, rule):
    """The equations of one rule, without forces and with them."""
    numbers = rule.tableau()
    for more in ({}, {"force": _push}):
        mechanics = carom.System(_lagrangian, space=space, **more).bind({"mass": 1.7}, space.size)
        yield mechanics, _Path(numbers.nodes, numbers.weights, mechanics)


@pytest.mark.parametrize(("space", "rule"), CASES)
def test_momenta_are_the_slopes_of_the_discrete_lagrangian(space, rule):
    (mechanics, path), _ = _systems(space, rule)
    value = group_lagrangian(path.nodes, path.weights, mechanics)

    @jax.jit
    def both(q, W):
        q1, slope = space.retract(q, H * W), mechanics.functions.slope
        early, late = slope(lambda moved: value(moved, q1, T, H), q), slope(lambda moved: value(q, moved, T, H), q1)
        return jnp.stack([path.start(W, q, T, H), path.end(W, q, T, H)]), jnp.stack([-early, late])

    found, wanted = both(*_start(space, 1))
    assert np.abs(wanted[0] - wanted[1]).min() > 1e-3  # control: the two are told apart
    np.testing.assert_allclose(found, wanted, atol=1e-12)  # rounding of numbers of size one, divided by h


@pytest.mark.parametrize(("space", "rule"), CASES)
def test_forces_work_on_the_displacements_of_the_nodes(space, rule):
    (_, plain), (_, pushed) = _systems(space, rule)

    @jax.jit
    def both(q, W):
        """What forces add, and their work when q is moved, and when q₁ is."""
        q1, early, late = space.retract(q, H * W), jnp.zeros(space.dim), jnp.zeros(space.dim)
        for c, b in zip(plain.nodes, plain.weights, strict=True):
            here, v = plain.node(c, q, W, H)

            def moved(first, last, c=c, here=here):
                start, end = space.retract(q, first), space.retract(q1, last)
                return space.inverse_retract(here, plain.node(c, start, space.inverse_retract(start, end) / H, H)[0])

            by_first, by_last = jax.jacfwd(moved, argnums=(0, 1))(0.0 * W, 0.0 * W)
            force = H * b * _push(here, v, T + c * H)
            early, late = early + by_first.T @ force, late + by_last.T @ force
        ends = [pushed.start(W, q, T, H) - plain.start(W, q, T, H), pushed.end(W, q, T, H) - plain.end(W, q, T, H)]
        return jnp.stack(ends), jnp.stack([-early, late])

    found, wanted = both(*_start(space, 1))
    assert np.abs(wanted).max() > 1e-2  # control
    np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize("space", [carom.SO3(), carom.SE3(), carom.SE3("exponential"), carom.Power(carom.SO3(), 3)])
def test_velocity_along_a_straight_line(space):
    _, W = _start(space, 2)
    found, wanted = jax.jit(lambda s: (space.straight_velocity(W, s), space.chart_velocity(s * W, W)))(0.7)
    np.testing.assert_allclose(found, wanted, atol=1e-13)


def test_a_step_of_a_rigid_body_is_a_short_program():
    """What compiling costs. As derivatives of the discrete Lagrangian it was 4,200 operations, a third of a compiled ensemble."""
    kind = rotations()
    mechanics = kind.system.bind(kind.params, len(kind.q0))
    flow = carom.Trapezoidal().flow(mechanics, without_energy=True)
    found = operations(lambda q, p: flow(q, p, T, H), jnp.asarray(kind.q0), jnp.asarray(kind.v0))
    assert 500 < found < 2200  # 1,500, and room for other versions of JAX
