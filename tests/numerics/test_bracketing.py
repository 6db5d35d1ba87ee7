"""Bracketed roots: how many points they take, with slopes and without, and that they end whatever the slopes say."""

import jax.numpy as jnp
import numpy as np
import pytest

from carom.numerics.bracketing import is_narrow, open_bracket, propose, update

EPS = float(np.finfo(float).eps)


def search(f, slope, high, tolerance=0.0, known=True):
    """The bracket at the end, and how many points were looked at."""
    at = lambda x: slope(x) if known else jnp.inf  # noqa: E731
    zero, high = jnp.zeros(()), jnp.asarray(high)
    b = open_bracket(zero, jnp.asarray(f(0.0)), (), high, jnp.asarray(f(float(high))), (at(0.0), at(float(high))), tolerance)
    points = 0
    while not is_narrow(b):
        x = propose(b)
        assert float(b.low) < float(x) < float(b.high)
        value = f(float(x))
        b, points = update(b, x, jnp.asarray(value), (), jnp.asarray(at(float(x)))), points + 1
        assert points < 300
    return b, points


def fall(x):
    return 0.2 - 1.5 * x - 4.905 * x**2


def fall_rate(x):
    return -1.5 - 9.81 * x


ROOT = (np.sqrt(1.5**2 + 4 * 4.905 * 0.2) - 1.5) / 9.81


@pytest.mark.parametrize("high", [0.104, 0.11, 0.15, 0.3])
def test_a_fall_takes_few_points_by_slopes_and_more_without(high):
    tolerance = 8 * EPS * 0.2
    b, points = search(fall, fall_rate, high, tolerance)
    assert 0 <= fall(float(b.low)) <= tolerance
    assert abs(float(b.low) - ROOT) <= 2 * tolerance / abs(fall_rate(ROOT))
    assert points <= 5  # the first is off by C w⁴, and as one end stays, later ones by C e² w²: 1e-3, 1e-7, rounding; two to spare
    _, without = search(fall, fall_rate, high, tolerance, known=False)
    assert without > points  # the control: what slopes are for


@pytest.mark.parametrize("factor", [0.03, 0.5, 3.0, 100.0])
def test_slopes_that_are_wrong_cost_points_and_nothing_else(factor):
    b, points = search(fall, lambda x: factor * fall_rate(x), 0.3)
    assert float(b.high - b.low) <= EPS * float(b.high) or fall(float(b.low)) == 0
    assert abs(float(b.low) - ROOT) <= 4 * EPS  # a few roundings of the values, over a rate of 2.6
    assert points < 60


def test_noise_is_not_looked_at():
    """Values with noise of 1e-13: within the tolerance it ends at once, without it the bracket is halved down to rounding."""
    rng = np.random.default_rng(1)
    noisy = lambda x: fall(x) + 1e-13 * rng.uniform(-1, 1)  # noqa: E731
    _, points = search(noisy, fall_rate, 0.11, 8e-13)
    _, without = search(noisy, fall_rate, 0.11)
    assert points <= 4 < without
