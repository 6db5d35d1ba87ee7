"""One body with small matrices, many nodes component by component: the same numbers, in far fewer operations."""

import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.spaces import cayley_matrices as one_body
from carom.spaces import rotations
from carom.spaces.rotations import join, split
from carom.xla.structure import operations

EPS = np.finfo(float).eps
SPACES = {"SO3": carom.SO3(), "SE3": carom.SE3()}


def _arguments(space):
    """A configuration, a displacement of a radian or so, a velocity, and derivatives by coordinates."""
    rng = np.random.default_rng(5)
    quaternion = rng.standard_normal(4)
    q = np.concatenate([quaternion / np.linalg.norm(quaternion), rng.standard_normal(space.size - 4)])
    return jnp.asarray(q), *(jnp.asarray(rng.standard_normal(n)) for n in (space.dim, space.dim, space.size))


@pytest.mark.parametrize("name", SPACES)
def test_one_body_is_one_of_many_nodes(name):
    space = SPACES[name]
    q, x, v, slope = _arguments(space)
    calls = {"retract": (q, x), "push": (q, v), "velocity": (q, slope), "pull": (q, slope)}
    for method, args in calls.items():
        one, many = getattr(space, method)(*args), getattr(space, method)(*(arg[None] for arg in args))[0]
        np.testing.assert_allclose(one, many, atol=64 * EPS)  # sums of a dozen products
        few, long = (operations(getattr(space, method), *(arg[None] if nodes else arg for arg in args)) for nodes in (0, 1))
        assert 2 * few < long, (method, few, long)
        assert np.abs(np.asarray(one - getattr(space, method)(args[0], 1.01 * args[1]))).max() > 1e-3  # control


def test_the_matrix_of_the_cayley_map():
    """(1) and what is said there, against the formulas of `rotations`."""
    omega, x = jnp.asarray([0.7, -1.1, 0.4]), jnp.asarray([0.3, 0.2, -0.9])
    turn, (w, y) = one_body.Turn.of(omega), (split(omega), split(x))
    np.testing.assert_allclose(one_body.cross(omega, x), np.cross(omega, x), atol=4 * EPS)
    np.testing.assert_allclose(turn.quaternion, join(rotations.cayley(w)), atol=4 * EPS)
    np.testing.assert_allclose(one_body.times(turn.K, x), join(rotations.cayley_momentum(w, y)), atol=8 * EPS)
    np.testing.assert_allclose(one_body.times(turn.K, turn.velocity(x)), x, atol=16 * EPS)  # D = K⁻¹
    np.testing.assert_allclose(turn.ahead(x), join(rotations.cayley_shift(w, y)), atol=8 * EPS)
    np.testing.assert_allclose(turn.behind(x), join(rotations.cayley_shift(split(-omega), y)), atol=8 * EPS)
    assert np.abs(np.asarray(turn.ahead(x) - turn.behind(x))).max() > 0.1  # control: they are two things
    a, b = turn.quaternion, one_body.Turn.of(x).quaternion
    np.testing.assert_allclose(one_body.product(a, b), join(rotations.multiply(split(a), split(b))), atol=4 * EPS)
    np.testing.assert_allclose(one_body.rotated(a, x), join(rotations.rotate(split(a), y)), atol=8 * EPS)
    np.testing.assert_allclose(one_body.rotated(a, x, -1.0), join(rotations.unrotate(split(a), y)), atol=8 * EPS)
