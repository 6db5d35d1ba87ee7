"""Between the points of the grid on rotations: poses stay poses, velocities belong to them, with the order of the method."""

import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.spaces.rotations import multiply

MOMENT, AXIAL = 1.0, 1.8  # of a symmetric top
SPIN = np.array([0.5, -0.3, 1.2])
FREE = carom.System(lambda v: 0.5 * v @ (jnp.array([MOMENT, MOMENT, AXIAL]) * v), space=carom.SO3())
# The order between the points of the grid: TimeDG(2) has 4 on the grid, and polynomials of degree 2 for velocities in between.
METHODS = {
    "VariationalCollision": (carom.VariationalCollision(), 4),
    "MoreauJean": (carom.MoreauJean(0.5), 1),
    "TimeDG": (carom.TimeDG(2), 3),
    "Hybrid": (carom.Hybrid(), 4),
}


def _turn(axis, angle):
    """exp(angle axis) as a quaternion, for many angles; the axis need not be a unit."""
    size = np.linalg.norm(axis)
    half = 0.5 * angle * size
    return np.stack([np.cos(half), *(np.sin(half) * x / size for x in axis)], axis=-1)


def exact(t):
    """A free symmetric top: it spins about its axis, and that about the momentum, both evenly [landau1976, §35]."""
    momentum = np.array([MOMENT, MOMENT, AXIAL]) * SPIN
    own = SPIN[2] * (1 - AXIAL / MOMENT)
    about, spins = _turn(momentum / MOMENT, t), _turn(np.array([0.0, 0.0, 1.0]), own * t)
    pose = np.stack(multiply(tuple(about.T), tuple(spins.T)), axis=1)
    c, s = np.cos(own * t), np.sin(own * t)  # the momentum seen from the body: it turns back
    seen = np.stack([c * momentum[0] + s * momentum[1], c * momentum[1] - s * momentum[0], momentum[2] + 0 * t], axis=1)
    return pose, seen / np.array([MOMENT, MOMENT, AXIAL])


def _errors(method, dt):
    run = carom.solve(FREE, method, [1.0, 0, 0, 0], SPIN, dt=dt, num_steps=round(1.0 / dt), progress=False)
    t = np.linspace(0.0, 1.0, 97)  # hardly any of them on the grid
    pose, velocity = exact(t)
    q, v = run.dense.q(t), run.dense.v(t)
    np.testing.assert_allclose(np.linalg.norm(q, axis=1), 1.0, atol=1e-14)
    straight = np.stack([np.interp(t, run.t, column) for column in run.q.T], axis=1)
    return run, np.abs(q - pose).max(), np.abs(v - velocity).max(), np.abs(straight - pose).max()


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.stress if n == "Hybrid" else ()) for n in METHODS])
def test_poses_and_velocities_have_the_order_of_the_method(name):
    method, order = METHODS[name]
    (_, far, fast, straight), (run, near, slow, _) = _errors(method, 0.1), _errors(method, 0.05)
    assert np.log2(far / near) > order - 0.3 and near < 0.05
    assert np.log2(fast / slow) > order - 0.3
    if order > 2:
        assert straight > 20 * far  # control: straight lines between the points of the grid
    # What comes out as v is the velocity of what comes out as q.
    t, h = np.array([0.512, 0.731]), 1e-6
    rates = (run.dense.q(t + h) - run.dense.q(t - h)) / (2 * h)
    seen = np.stack([run.system.space.velocity(q, r) for q, r in zip(run.dense.q(t), rates, strict=True)])
    np.testing.assert_allclose(seen, run.dense.v(t), atol=1e-3 if order == 4 else 1e-8)  # a flow is consistent to its order
