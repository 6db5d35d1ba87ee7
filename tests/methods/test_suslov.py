"""Velocity constraints on a group, discretised with its retraction, §2.1 and §2.2 of [rodriguez2025]: Suslov's problem.

A body turns about a fixed point, and may not turn about its third axis: ω₃ = 0. With I₁₃ ≠ 0 and I₁₂ = I₂₃ = 0,

    I₁₁ ω₁' = −I₁₃ ω₁ ω₂,   I₂₂ ω₂' = I₁₃ ω₁²:      ω₂ = Ω tanh(kt),   ω₁ = Ω √(I₂₂/I₁₁) / cosh(kt),   k = I₁₃ Ω / I₁₁.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.diagnostics import measured_order

INERTIA = np.array([[2.0, 0.0, 0.6], [0.0, 1.5, 0.0], [0.6, 0.0, 1.8]])
SPIN, TIME = 1.3, 4.0
START = [SPIN * np.sqrt(1.5 / 2.0), 0.0, 0.0]


def body(retraction):
    return carom.System(
        lambda v: 0.5 * v @ jnp.asarray(INERTIA) @ v,
        space=carom.SO3(retraction=retraction),
        constraints=lambda: jnp.asarray([[0.0, 0.0, 1.0]]),
    )


def exact(t):
    k = 0.6 * SPIN / 2.0
    return np.array([START[0] / np.cosh(k * t), SPIN * np.tanh(k * t), 0.0])


def run_of(retraction, direction, n):
    method = carom.VariationalCollision(carom.Trapezoidal(), direction=direction)
    return carom.solve(body(retraction), method, [1.0, 0.0, 0.0, 0.0], START, dt=TIME / n, num_steps=n)


RETRACTIONS = pytest.mark.parametrize("retraction", ["cayley", pytest.param("exponential", marks=pytest.mark.stress)])


@RETRACTIONS
def test_suslovs_problem_is_solved_at_the_declared_order(retraction):
    counts, spread = (32, 64), []
    for n in counts:
        run = run_of(retraction, "symmetric", n)
        assert np.max(np.abs(run.v[:, 2])) < 1e-13
        spread.append(np.max(np.abs(run.v[-1] - exact(TIME))))
    assert measured_order([TIME / n for n in counts], spread) == pytest.approx(2, abs=0.1)
    middle = exact(TIME / 2)  # a control: without the constraint ω₃ would not stay zero
    assert abs(np.linalg.solve(INERTIA, np.cross(INERTIA @ middle, middle))[2]) > 0.05


def tilted(q):
    """ω₃ = −γ₁ ω₂, γ the vertical axis of space seen from the body: a row that neither the body nor space keeps constant."""
    w, x, y, z = q
    return jnp.stack([0.0 * w, 2 * (x * z - w * y), 1.0 + 0.0 * w])


@RETRACTIONS
def test_the_discrete_constraint_is_that_of_the_retraction(retraction):
    """(+): ω_q(R_q⁻¹(q₁)) = 0 at the start of a step, (−): ω_{q₁}(R_{q₁}⁻¹(q)) = 0 at its end. (−) undoes (+)."""
    space, h, start = carom.SO3(retraction=retraction), 0.1, np.array([0.8, 0.3, -0.4, 0.3]) / np.sqrt(0.98)
    system = carom.System(lambda v: 0.5 * v @ jnp.asarray(INERTIA) @ v, space=space, constraints=lambda q: tilted(q)[None])
    rule = carom.Trapezoidal()
    forward, backward = (carom.VariationalCollision(rule, direction=d) for d in ("forward", "backward"))

    def left(run, at_end):
        """The largest violation of the discrete constraint, looked at from the start or from the end of each step."""
        a, b = jnp.asarray(run.q[:-1]), jnp.asarray(run.q[1:])
        here, there = (b, a) if at_end else (a, b)
        rows = jax.vmap(lambda here, there: tilted(here) @ space.inverse_retract(here, there))(here, there)
        return float(np.max(np.abs(np.asarray(rows)))) / h

    v0 = np.array([0.5, 1.0, -float(tilted(start)[1])])
    run = carom.solve(system, forward, start, v0, dt=h, num_steps=20)
    back = carom.solve(system, backward, run.q[-1], -run.v[-1], dt=h, num_steps=20)
    assert left(run, False) < 1e-13 and left(back, True) < 1e-13
    assert min(left(run, True), left(back, False)) > 1e-3  # controls: the other end
    assert np.max(np.abs(back.q[::-1] - run.q)) < 1e-11
    again = carom.solve(system, forward, run.q[-1], -run.v[-1], dt=h, num_steps=20)
    assert np.max(np.abs(again.q[-1] - start)) > 1e-4  # a control: (+) does not undo itself
