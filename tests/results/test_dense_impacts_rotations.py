"""Dense output through an impact of a body that turns in space, against the exact motion.

A symmetric top flies freely, without weight, until the tip of its axis meets a smooth floor, and flies on. Both flights are known
[landau1976, §35], the instant of the impact is a zero of a known function, and the impulse follows from the masses.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from kinds import turned
from scipy.optimize import brentq
from scipy.spatial.transform import Rotation

import carom

MOMENTS, LENGTH = np.array([0.2, 0.2, 0.35]), 0.5  # unit mass; the tip lies so far below the centre, along the axis
TIP = np.array([0.0, 0.0, -LENGTH])
UP = np.array([0.0, 0.0, 1.0])
SPIN, VELOCITY = np.array([-0.8, 0.6, 1.5]), np.array([0.1, -0.05, -0.9])  # in the body; in space


class Flight:
    """Free motion from t0, with the angular velocity in the body and the velocity in space."""

    def __init__(self, t0, turn: Rotation, place, spin, velocity):
        self.t0, self.turn, self.place, self.velocity = t0, turn, place, velocity
        self.momentum, self.own = turn.apply(MOMENTS * spin), spin[2] * (1 - MOMENTS[2] / MOMENTS[0])

    def at(self, t):
        """It spins about its axis, and that about the momentum, both evenly."""
        turn = Rotation.from_rotvec(self.momentum / MOMENTS[0] * (t - self.t0)) * self.turn
        turn = turn * Rotation.from_rotvec(self.own * (t - self.t0) * UP)
        spin = turn.inv().apply(self.momentum) / MOMENTS
        return turn, self.place + self.velocity * (t - self.t0), spin

    def gap(self, t):
        turn, place, _ = self.at(t)
        return place[2] + turn.apply(TIP)[2]


START = Flight(0.0, Rotation.from_rotvec([0.5, 0.3, 0.2]), np.array([0.0, 0.0, 0.8]), SPIN, VELOCITY)


def _after() -> Flight:
    """The elastic impact: the impulse along the vertical that turns the rate of the gap round."""
    hit = brentq(START.gap, 0.0, 1.0, xtol=1e-15)
    turn, place, spin = START.at(hit)
    arm = turn.apply(TIP)
    lever = np.cross(arm, UP)  # what a unit impulse adds to the angular momentum about the centre
    rate = VELOCITY[2] + lever @ turn.apply(spin)
    impulse = -2 * rate / (1 + lever @ turn.apply(turn.inv().apply(lever) / MOMENTS))
    assert rate < -0.3 and impulse > 0
    return Flight(hit, turn, place, spin + turn.inv().apply(impulse * lever) / MOMENTS, VELOCITY + impulse * UP)


AFTER = _after()


def exact(times):
    """Poses as (w, x, y, z, position), velocities in the body."""
    poses, velocities = [], []
    for t in times:
        flight = START if t < AFTER.t0 else AFTER
        turn, place, spin = flight.at(t)
        poses.append([*np.roll(turn.as_quat(), 1), *place])
        velocities.append([*spin, *turn.inv().apply(flight.velocity)])
    return np.array(poses), np.array(velocities)


SYSTEM = carom.System(
    lambda v: 0.5 * v[:3] @ (jnp.asarray(MOMENTS) * v[:3]) + 0.5 * v[3:] @ v[3:],
    [carom.Contact(lambda q: q[6] + turned(q, jnp.asarray(TIP))[2], name="tip")],
    space=carom.SE3(),
)


def _errors(method, dt, num_steps):
    """The run; the largest and the mean error of poses; the mean error of velocities; that of straight lines between the grid."""
    pose, velocity = (rows[0] for rows in exact([0.0]))
    run = carom.solve(SYSTEM, method, pose, velocity, dt=dt, num_steps=num_steps, progress=False)
    t = np.linspace(0.0, run.t[-1], 401)
    poses, velocities = exact(t)
    q, v = run.dense.q(t), run.dense.v(t)
    poses[:, :4] *= np.sign(np.sum(q * poses, axis=1, where=np.arange(7) < 4))[:, None]  # q and −q are one turn
    straight = np.stack([np.interp(t, run.t, column) for column in run.q.T], axis=1)
    away = np.abs(q - poses).max(axis=1)
    return run, away.max(), away.mean(), np.abs(v - velocities).max(axis=1).mean(), np.abs(straight - poses).max()


def test_the_exact_motion_has_one_impact():
    times = np.linspace(0, 1, 2001)
    gaps = [(START if t < AFTER.t0 else AFTER).gap(t) for t in times]
    assert 0.2 < AFTER.t0 < 0.8 and min(gaps) > -1e-12
    energy = lambda f: MOMENTS @ f.at(0.5)[2] ** 2 + f.velocity @ f.velocity  # noqa: E731
    assert energy(AFTER) == pytest.approx(energy(START), rel=1e-14)
    assert min(START.gap(t) for t in times) < -0.1  # control: without the impact it would have gone on


@pytest.mark.stress
def test_a_collision_integrator_between_the_points_of_its_grid():
    method = carom.VariationalCollision()
    (_, far, _, fast, straight), (run, near, _, slow, _) = _errors(method, 0.1, 10), _errors(method, 0.05, 20)
    assert len(run.impacts) == 1 and run.impacts.t[0] == pytest.approx(AFTER.t0, abs=1e-6)
    assert np.log2(far / near) > 3.7 and np.log2(fast / slow) > 3.7 and near < 1e-6  # its order, through the impact
    assert straight > 1e3 * far  # control: straight lines between the points of the grid
    # On both sides of the impact, which lies inside a step: the body's own motion before and after it.
    hit, apart = run.impacts.t[0], 1e-7
    before, after = run.dense.v([hit - apart, hit + apart])
    for found, t in ((before, AFTER.t0 - apart), (after, AFTER.t0 + apart)):
        np.testing.assert_allclose(found, exact([t])[1][0], atol=1e-5)
    assert np.abs(after - before).max() > 0.5
    t = np.linspace(hit - 0.05, hit + 0.05, 201)
    gaps = np.array([float(SYSTEM.contacts[0].gap(q=jnp.asarray(q), t=0.0, params={})) for q in run.dense.q(t)])
    assert gaps.min() > -1e-7  # the flow of a leg is of its order inside, too


@pytest.mark.stress
@pytest.mark.parametrize("method", [carom.MoreauJean(0.5), carom.TimeDG(2)], ids=["MoreauJean", "TimeDG"])
def test_timestepping_is_of_first_order_in_the_mean(method):
    """They meet the impact at a point of the grid: velocities are wrong for a part of one step, and poses by that much after it.
    Steps are chosen so that the impact falls into the same part of one: what is missing is then proportional to their length."""
    runs = [_errors(method, AFTER.t0 / (n + 0.3), 2 * n) for n in (20, 80)]
    (_, _, far, fast, _), (run, _, near, slow, _) = runs
    assert len(run.impacts) == 1 and near < 0.01
    assert np.log2(far / near) / 2 == pytest.approx(1, abs=0.3) and np.log2(fast / slow) / 2 == pytest.approx(1, abs=0.3)
