"""Numbers that are none for a processor: whole ones beyond 1.8e308, steps that time does not notice, and steps of a pure run that go
nowhere or backwards. All of these ran, or ended in an error of Python's."""

# ruff: noqa: E501  # a table: one row, one line

import jax
import numpy as np
import pytest
from answers import answered

import carom

METHOD = carom.VariationalCollision(carom.Trapezoidal())
FALLING = carom.System(lambda q, v: 0.5 * v @ v - 9.81 * q[1], [carom.Contact(lambda q: q[1], name="floor")])
HEAVY = carom.System(lambda q, v, params: 0.5 * v @ v - params["g"] * q[1])
HUGE = 10**400  # no float


def solve(system=FALLING, q0=(0.0, 1.0), dt=0.01, num_steps=5, **more):
    return carom.solve(system, METHOD, q0, (0.0, 0.0), dt=dt, num_steps=num_steps, **more)


def pure(dt=0.01, num_steps=3, **more):
    return carom.rollout(FALLING, METHOD, [0.0, 1.0], [0.0, 0.0], dt=dt, num_steps=num_steps, **more)


def many(q0s=((0.0, 1.0),), dt=0.01, **more):
    return carom.ensemble(FALLING, METHOD, q0s, [0.0, 0.0], dt=dt, num_steps=5, progress=False, **more)


TABLE = {
    "q0 beyond numbers": (lambda: solve(q0=[0, HUGE]), "q0 must be a list of numbers"),
    "dt beyond numbers": (lambda: solve(dt=HUGE), "dt must be a positive number"),
    "t0 beyond numbers": (lambda: solve(t0=HUGE), "t0 must be a finite number"),
    "a parameter beyond numbers": (lambda: solve(HEAVY, params={"g": HUGE}), r"params\['g'\] must be a number"),
    "lanes beyond numbers": (lambda: many([[0, HUGE]]), "q0s must be an array of numbers"),
    "more impacts than can be counted": (lambda: solve(max_impacts=10**12), "max_impacts is 1000000000000, and 2147483647 is the most"),
    "a step that is zero for a processor": (lambda: solve(dt=1e-320), "dt must be a positive number; got .*, which compiled programs take for zero"),
    "a step that time does not notice": (lambda: solve(t0=1e17), r"a step of dt = 0.01 is lost in the rounding of t = 1e\+17"),
    "every other step lost": (lambda: solve(t0=1e14), r"a step of dt = 0.01 is lost in the rounding of t = 1e\+14"),
    "before the origin": (lambda: solve(t0=-1e17), r"is lost in the rounding of t = 1e\+17"),
    "the end beyond numbers": (lambda: solve(dt=1e308), "5 steps of dt = 1e.308 end beyond all numbers"),
    "lanes that time does not notice": (lambda: many(t0=1e17), "is lost in the rounding"),
    "an orbit that time does not notice": (
        lambda: carom.diagnostics.lyapunov(FALLING, METHOD, [0.0, 1.0], [0.0, 0.0], dt=0.01, num_steps=5, t0=1e17), "is lost in the rounding"),
    "a stride that keeps the start only": (lambda: solve(stride=6), "stride=6 would keep nothing but the start: there are 5 steps"),
    "a rollout with a parameter beyond numbers": (
        lambda: carom.rollout(HEAVY, METHOD, [0.0, 1.0], [0.0, 0.0], dt=0.01, num_steps=2, params={"g": HUGE}), r"params\['g'\] must be a number"),
    "a rollout backwards": (lambda: pure(dt=-0.01), "dt must be a positive number; got -0.01"),
    "a rollout that stands": (lambda: pure(dt=0.0), "dt must be a positive number; got 0.0"),
    "a rollout of no number": (lambda: pure(dt=np.nan), "dt must be a positive number; got nan"),
    "a rollout without end": (lambda: pure(dt=np.inf), "dt must be a positive number; got inf"),
    "a rollout with a step backwards": (lambda: pure(dt=np.array([0.01, -0.01, 0.01])), "dt must be a positive number; got -0.01"),
    "a rollout with a step of no number": (lambda: pure(dt=np.array([0.01, np.nan, 0.01])), "dt must be a positive number; got nan"),
    "a rollout that time does not notice": (lambda: pure(t0=1e17), "is lost in the rounding"),
}  # fmt: skip


@pytest.mark.parametrize("row", TABLE)
def test_it_is_answered_with_a_sentence(row):
    answered(*TABLE[row])


def test_control_what_is_only_large_or_small_runs():
    assert solve(t0=1e11).status.ok and solve(dt=1e-300).status.ok and solve(stride=5).t.shape == (2,)
    assert solve(HEAVY, params={"g": 2**70}).status.ok and solve(q0=[0, 2**70]).status.ok


def test_control_lengths_of_steps_that_are_traced_are_taken():
    """Nobody knows them; the derivative by dt is that of the fall, q = 1 − g (3 dt)²/2."""
    slope = jax.jit(jax.grad(lambda dt: pure(dt=dt).q[-1, 1]))(0.01)
    assert slope == pytest.approx(-9.81 * 9 * 0.01, rel=1e-12)  # exact for a parabola


def test_single_precision_is_called_by_its_name():
    """JAX was told after carom was imported; the Lagrangian was blamed for a cast."""
    jax.config.update("jax_enable_x64", False)
    try:
        answered(
            lambda: solve(carom.System(lambda q, v: 0.5 * v @ v - 3.21 * q[1])), "jax_enable_x64.* after carom had been imported"
        )
    finally:
        jax.config.update("jax_enable_x64", True)
