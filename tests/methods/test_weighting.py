"""The weighting integrals of (53)–(55) [schindler2014]: as they stand, or by the quadrature (58)–(60)."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import Chebyshev
from scipy.integrate import solve_ivp

import carom
from carom.diagnostics import measured_order
from carom.methods.timestepping.time_dg import tableau, tableaus

STEP, IMPULSE = 0.3, 0.7


def through(nodes, values):
    """The polynomial through these values."""
    return Chebyshev.fit(nodes, values, len(nodes) - 1, domain=[0.0, 1.0])


def defect(degree, side, weighting):
    """By how much (54) or (55) is missed, for every test function l_l, with accelerations drawn at random and an impulse."""
    numbers, a = tableau(degree, side, weighting), np.random.default_rng(degree).normal(size=degree + 1)
    start, end = 0.4, 0.4 + STEP * numbers.weights @ a + IMPULSE
    stages = start + STEP * numbers.velocities @ a + numbers.kicks * IMPULSE
    ells = [through(numbers.nodes, values) for values in np.eye(degree + 1)]
    motion = through(numbers.nodes, stages)
    missed = []
    for at, ell in enumerate(ells):
        whole = (motion.deriv() * ell).integ()
        jump = (stages[0] - start) * ell(0.0) if side == "+" else (end - stages[-1]) * ell(1.0)
        missed.append(jump + whole(1.0) - whole(0.0) - STEP * numbers.weights[at] * a[at] - IMPULSE * ell(1.0))
    return np.max(np.abs(missed))


@pytest.mark.parametrize("side", ["-", "+"])
@pytest.mark.parametrize("degree", range(1, 8))
def test_the_weak_form_holds_with_the_integrals_as_they_stand(degree, side):
    assert defect(degree, side, "full") < 1e-13  # rounding
    if degree <= 2:  # the quadrature is exact for degree 2M − 1 = 1 and 3: the two are one method
        assert defect(degree, side, "reduced") < 1e-13
        full, reduced = (tableau(degree, side, weighting).velocities for weighting in ("full", "reduced"))
        np.testing.assert_allclose(full, reduced, atol=1e-14)
    else:
        assert defect(degree, side, "reduced") > 1e-3  # control
    numbers = tableau(degree, side, "full")
    assert numbers.weights @ numbers.kicks == pytest.approx(0.0, abs=1e-13)  # q₁ does not feel p here either


def swing(q, v):
    return 0.5 * v @ v + jnp.cos(q[0])


def drag(q, v, t):
    return jnp.array([-0.3 * v[0] * jnp.cos(q[0]) + 0.2 * jnp.cos(2 * t)])


PENDULUM = carom.System(swing, force=drag)
START, DURATION = ([1.0], [0.5]), 2.0


@pytest.fixture(scope="module")
def exact():
    rate = lambda t, y: [y[1], -np.sin(y[0]) - 0.3 * y[1] * np.cos(y[0]) + 0.2 * np.cos(2 * t)]  # noqa: E731
    return solve_ivp(rate, (0.0, DURATION), [1.0, 0.5], method="DOP853", rtol=1e-13, atol=1e-14).y[:, -1]


def order(method, exact):
    """At the end of a driven and damped pendulum: the acceleration depends on q, v and t."""
    sizes, errors = [], []
    for steps in (8, 12, 16):
        run = carom.solve(PENDULUM, method, *START, dt=DURATION / steps, num_steps=steps)
        sizes.append(DURATION / steps)
        errors.append(np.max(np.abs([run.q[-1, 0] - exact[0], run.v[-1, 0] - exact[1]])))
    return measured_order(sizes, errors)


@pytest.mark.parametrize(("degree", "side", "expected"), [(5, "-", 3), (4, "+", 5)])
def test_with_them_the_order_does_not_grow_with_the_degree(degree, side, expected, exact):
    full = carom.TimeDG(degree, side, weighting="full")
    assert full.order == expected
    assert order(full, exact) == pytest.approx(expected, abs=0.3)  # coarse steps, since errors are near rounding with fine ones
    reduced = carom.TimeDG(degree, side)
    assert reduced.order == 6
    assert order(reduced, exact) == pytest.approx(6, abs=0.3)  # control: (60)


def test_a_ball_comes_to_rest_with_them():
    """Problem 4.4 after the accumulation: q = v = 0 and i = 6 + 2 (t − 3)."""
    run = carom.models.zeno_ball().solve(carom.TimeDG(3, weighting="full"), dt=0.01, num_steps=400)
    late = run.t > 3.2
    assert np.abs(run.v[late]).max() < 1e-12 and np.abs(run.q[late]).max() < 1e-12
    t = np.array([3.3, 3.75])
    assert run.dense.interaction(t)[:, 0] == pytest.approx(6 + 2 * (t - 3), abs=0.02)  # 2 dt


def test_degrees_per_step_and_bad_names():
    assert carom.TimeDG([1, 3], weighting="full").order == 2 and carom.TimeDG([3, 4], weighting="full").order == 3
    second, _ = tableaus((1, 3), "+", "full", 1)
    np.testing.assert_allclose(second.velocities, tableau(3, "+", "full").velocities, atol=1e-14)
    assert np.abs(second.velocities - tableau(3, "+").velocities).max() > 1e-2  # control
    with pytest.raises(carom.InputError, match="weighting must be one of reduced, full; got 'exact'"):
        carom.TimeDG(2, weighting="exact")
