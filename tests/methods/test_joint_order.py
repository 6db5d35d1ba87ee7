"""Declared orders with joints: a pendulum as a point on a rod, whose motion is known by elliptic functions."""

import numpy as np
import pytest
from scipy.special import ellipj, ellipk

import carom
from carom.diagnostics import measured_order

GRAVITY, AMPLITUDE, TIME = 9.81, 2.0, 1.2  # a swing of 115 degrees, about halfway through
ROD = carom.System(lambda q, v: 0.5 * v @ v - GRAVITY * q[1], joints=[carom.Joint(lambda q: q @ q - 1.0)])
METHODS = {  # the order that is declared for systems with joints, and where it is measured
    "TimeDG-1": (carom.TimeDG(1), 2, (512, 1024)),
    "TimeDG-2": (carom.TimeDG(2), 4, (128, 256)),
    "TimeDG-3": (carom.TimeDG(3), 4, (128, 256)),
    "TimeDG-2+": (carom.TimeDG(2, "+"), 4, (128, 256)),
    "MoreauJean": (carom.MoreauJean(), 1, (1024, 2048)),  # a joint's impulse is that of a whole step, in one direction
    "trapezoidal": (carom.VariationalCollision(carom.Trapezoidal()), 2, (64, 128)),
    "composition": (carom.VariationalCollision(), 4, (64, 128)),
}


def point(angle):
    return np.array([np.sin(angle), -np.cos(angle)])


def exact(t):
    """sin(θ/2) = k sn(ωt + K), let go at the amplitude; and the velocity from the energy, downwards first."""
    k, omega = np.sin(AMPLITUDE / 2), np.sqrt(GRAVITY)
    sn, cn, _, _ = ellipj(omega * t + ellipk(k**2), k**2)
    angle, rate = 2 * np.arcsin(k * sn), 2 * omega * k * cn
    return np.concatenate([point(angle), rate * np.array([np.cos(angle), np.sin(angle)])])


def error(method, n):
    run = carom.solve(ROD, method, point(AMPLITUDE), [0.0, 0.0], dt=TIME / n, num_steps=n)
    return np.max(np.abs(np.concatenate([run.q[-1], run.v[-1]]) - exact(TIME))), abs(run.q[-1] @ run.q[-1] - 1)


@pytest.mark.parametrize("name", METHODS)
def test_the_declared_order_is_the_measured_one(name):
    method, declared, steps = METHODS[name]
    errors, lengths = zip(*(error(method, n) for n in steps), strict=True)
    # The next term is worth a tenth at these steps: 2.09, 3.94, 3.92, 4.11, 0.98, 2.00, 4.00.
    assert measured_order([TIME / n for n in steps], list(errors)) == pytest.approx(declared, abs=0.15)
    assert max(lengths) < 1e-12  # the rod itself is kept to rounding
    # A control: `order`, which does not know the system, is for motion without joints, and MoreauJean has less with them.
    assert method.order == (2 if name == "MoreauJean" else declared)


def test_the_event_driven_method_keeps_its_tolerance():
    """Its error is set by rtol and atol, not by dt."""
    for tolerance in (1e-6, 1e-9):
        found, length = error(carom.EventDriven(rtol=tolerance, atol=tolerance), 8)
        assert 0.01 < found / tolerance < 3 and length < 1e-12
