"""The stadium with short straight sides of length 2a: its exponent goes like √a [benettin1984], over two and a half decades.

What is compared with what: Benettin computed three billiards that are integrable for ε = 0, found λ ~ ε^β with one β for all of
them, about 1/2, and for products of random matrices two powers, as the matrices were chosen (his abstract; the numbers of the paper
could not be consulted). Here carom's exponents, through impacts, give the power. Where the sides are short a ray changes its chord
slowly, so one long run sees only a part of the table: the exponent is a mean over starts that are spread as the motion is, evenly,
and its error is that of the mean. Rays that share nothing with carom (test_known_billiards.py) are a second witness.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TRAPEZOIDAL
from test_known_billiards import in_stadium, next_in_stadium, on_stadium

import carom
from carom.diagnostics import lyapunov

pytestmark = pytest.mark.sensitive  # statistics of chaotic runs
HALVES = (3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4)
STEPS, DT, SKIPPED = 10_000, 0.4, 0.25  # the first quarter: until the perturbation has found its direction


def _wall(q, params):
    """The distance to the wall: 1 less that from the segment between the centres of the half circles."""
    x, half = q[0], params["half"]
    return 1.0 - jnp.sqrt((x - jnp.clip(x, -half, half)) ** 2 + q[1] ** 2)


STADIUM = carom.System(lambda v: 0.5 * v @ v, [carom.Contact(_wall, name="wall")])


def growths(half, count, seed, num_steps=STEPS):
    """By start: log growth after the first quarter of a run of carom, the time it took, and the bounces in it."""
    rows = []
    for x, d in zip(*in_stadium(np.random.default_rng(seed), count, half), strict=True):
        found = lyapunov(
            STADIUM, TRAPEZOIDAL, x, d, dt=DT, num_steps=num_steps, every=1, exponents=1, params={"half": half}, max_impacts=64
        )
        first = int(SKIPPED * num_steps)
        total = found.so_far[:, 0] * found.t
        rows.append((total[-1] - total[first - 1], found.t[-1] - found.t[first - 1], found.impacts[first:].sum()))
    return np.array(rows).T


def mean(growth, clock):
    """Growth per unit of the clock over all starts, and its standard error, that of a ratio of two sums."""
    value = np.sum(growth) / np.sum(clock)
    return value, np.std(growth - value * clock, ddof=1) / np.sqrt(len(growth)) / np.mean(clock)


def by_rays(half, count, seed, bounces):
    """The same from the curvature of a front: per unit of length and per bounce. All rays have the same number of bounces, so they
    start as bounces are spread; spread as time is, each ray weighted by one over its time, they gave 2 % more at a = 0.03."""
    nearest, (x, d) = next_in_stadium(half), on_stadium(np.random.default_rng(seed), count, half)
    front, growth, time, since = np.ones(len(x)), np.zeros(len(x)), np.zeros(len(x)), int(SKIPPED * bounces)
    for k in range(bounces):
        t, normal, curvature = nearest(x, d)
        grown = 1 + t * front
        if k >= since:
            growth, time = growth + np.log(np.abs(grown)), time + t
        x, cosine = x + t[:, None] * d, -np.sum(d * normal, axis=1)
        front = front / grown + 2 * curvature / cosine
        d = d + 2 * cosine[:, None] * normal
        d = d / np.linalg.norm(d, axis=1)[:, None]
    return mean(growth, time), mean(growth, np.full(len(x), bounces - since))


def slope_of(halves, values, errors):
    """β of λ ~ a^β by weighted least squares, and its standard error."""
    x, y, weight = np.log(halves), np.log(values), (np.asarray(values) / np.asarray(errors)) ** 2
    centred = x - np.sum(weight * x) / np.sum(weight)
    return np.sum(weight * centred * y) / np.sum(weight * centred**2), 1 / np.sqrt(np.sum(weight * centred**2))


# Of the powers that one might expect, 1/3, 1/2 and 2/3, it is the half: with three standard errors it is still nearest to that one.
HALFWAY = 1 / 12


def test_rays_follow_the_square_root():
    """Two decades; the control is a longer side, where the exponent falls again and has no such power."""
    halves = HALVES[1:4]
    found = np.array([by_rays(half, 200, seed, int(20 / np.sqrt(half))) for seed, half in enumerate(halves)])
    for clock in (0, 1):  # per unit of length, per bounce
        slope, error = slope_of(halves, *found[:, clock].T)
        assert abs(slope - 0.5) + 3 * error < HALFWAY
    ends = np.array([by_rays(half, 200, 9, 600)[0] for half in (0.3, 1.0)])
    assert slope_of((0.3, 1.0), *ends.T)[0] < 0.1


def test_control_in_a_circle_neighbours_part_in_proportion_to_time():
    """Integrable: from a quarter of the time to all of it a perturbation grows fourfold, but for its swing along a chord, and the
    exponent is none. Growth with the root of time would be twofold, with its square sixteenfold."""
    growth, time, _ = growths(0.0, 12, 1)
    power = growth / np.log(4)
    assert np.all((power > 0.75) & (power < 1.5)) and abs(np.mean(power) - 1) < 0.1
    assert np.mean(growth) / np.mean(time) < 0.1 * np.sqrt(HALVES[-1])


def exponents(starts=100, rays=4000):
    """By length of the sides: carom's exponents and those of rays, each per unit of length and per bounce, with standard errors.
    tools/stadium_exponents.py draws them."""
    found, second = [], []
    for seed, half in enumerate(HALVES):
        growth, time, bounces = growths(half, starts, 20 + seed)
        found.append((mean(growth, time), mean(growth, bounces)))
        second.append(by_rays(half, rays, 40 + seed, int(40 / np.sqrt(half))))
    return np.array(found), np.array(second)


@pytest.mark.stress
def test_the_exponent_goes_like_the_root_of_the_length():
    found, rays = exponents()
    assert np.all(np.abs(found - rays)[..., 0] < 4 * np.hypot(found[..., 1], rays[..., 1]))
    for clock in (0, 1):
        slope, error = slope_of(HALVES, *found[:, clock].T)
        assert abs(slope - 0.5) + 3 * error < HALFWAY
        assert min(abs(slope - 1 / 3), abs(slope - 2 / 3)) > 10 * error  # the control: other powers are far away
