"""Discs and spheres: exact collisions. Energy and momentum to rounding, no overlaps, and the right motion."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.models import Billiard, discs, spheres


@pytest.fixture(scope="module")
def gas():
    return discs(400, filling=0.5, speed=1.0, seed=3).solve(dt=2.0, num_steps=10)


def test_energy_and_momentum_stay_to_rounding(gas):
    assert gas.pairs[-1] > 10_000 and gas.walls[-1] > 100
    assert np.max(np.abs(gas.energy_error)) < 1e-14  # eps·√(collisions per body): 400 sums of squares, 50 collisions each
    assert np.max(gas.momentum_error) < 1e-14
    assert gas.smallest_gap.min() > -1e-12  # a root of (1) to rounding, in lengths of 25 radii


def test_control_a_wrong_impulse_shows(gas):
    """The same states with the momentum of one body reversed: energy alone does not see it, momentum does."""
    wrong = gas.v.copy()
    wrong[-1, 0] *= -1
    assert np.max(replace(gas, v=wrong).momentum_error) > 1e-5


def test_three_dimensions_and_many_spheres():
    run = spheres(3000, filling=0.3, seed=1).solve(dt=0.5, num_steps=4)
    assert run.pairs[-1] > 3000 and np.max(np.abs(run.energy_error)) < 1e-14 and np.max(run.momentum_error) < 1e-14
    assert run.smallest_gap.min() > -1e-12
    assert run.to_xarray().q.dims == ("time", "body", "axis") and "3000 spheres" in repr(run)


def _two(q0, v0, radius=(0.5, 0.5), mass=(1.0, 1.0), box=(10.0, 10.0)):
    return Billiard("two", *(np.array(x, float) for x in (q0, v0, radius, mass, box)))


def test_a_head_on_collision_is_exact():
    """Masses 1 and 3 on a line: v₁ = (m₁ − m₂)/(m₁ + m₂) = −½, v₂ = 2m₁/(m₁ + m₂) = ½, at t = 3 with a gap of 3."""
    run = _two([[1, 5], [5, 5]], [[1, 0], [0, 0]], mass=(1.0, 3.0)).solve(dt=4.0)
    np.testing.assert_allclose(run.v[-1], [[-0.5, 0], [0.5, 0]], atol=1e-15)
    np.testing.assert_allclose(run.q[-1], [[3.5, 5], [5.5, 5]], atol=1e-14)  # one second after the collision at 4 and 5
    assert run.pairs[-1] == 1


def test_a_single_ball_goes_straight_between_walls():
    """Unfolded, its motion is a straight line: fold it back."""
    run = _two([[2.3, 4.1]], [[1.7, -0.6]], radius=(0.5,), mass=(1.0,)).solve(dt=7.0, num_steps=9)
    line = np.array([2.3, 4.1]) - 0.5 + run.t[:, None] * np.array([1.7, -0.6])
    np.testing.assert_allclose(run.q[:, 0], 0.5 + 9 - np.abs(line % 18 - 9), atol=1e-12)


@pytest.mark.sensitive
def test_it_agrees_with_the_collision_integrator():
    """Two balls in a corner, by `solve`: free flight is exact there too, so impacts and states agree to rounding."""
    q0, v0 = np.array([[1.0, 1.2], [4.0, 1.4]]), np.array([[0.3, -0.2], [-1.0, -0.4]])
    run = _two(q0, v0).solve(dt=5.0)

    def gaps(q):
        between = q[2:] - q[:2]
        return jnp.concatenate([jnp.sqrt(between @ between)[None] - 1.0, q - 0.5])

    system = carom.System(lambda v: 0.5 * v @ v, [carom.Contact(gaps)])
    solution = carom.solve(system, carom.VariationalCollision(carom.Trapezoidal()), q0.ravel(), v0.ravel(), dt=0.05, num_steps=100)
    assert len(solution.impacts) == run.pairs[-1] + run.walls[-1] == 3
    np.testing.assert_allclose(solution.q[-1], run.q[-1].ravel(), atol=1e-12)  # collisions of curved bodies multiply errors


def test_ten_times_as_many_bodies_meet_ten_times_as_often():
    few, many = (discs(n, filling=0.3, seed=0).solve(dt=1.0) for n in (2000, 20_000))
    assert 8 < many.pairs[-1] / few.pairs[-1] < 12


@pytest.mark.stress
def test_cost_grows_about_linearly_with_the_number_of_bodies():
    """Ten times as many events, each O(log n): 10 · log(2e4)/log(2e3) = 13 times the cost, and what caches add; were it quadratic,
    100. The least of seven runs, because single ones of a few milliseconds are as long as their neighbours on the machine want."""
    few, many = (min(discs(n, filling=0.3, seed=0).solve(dt=1.0).seconds for _ in range(7)) for n in (2000, 20_000))
    assert 5 * few < many < 50 * few


def test_it_is_drawn_and_reported(gas, tmp_path):
    page = gas.report(tmp_path / "gas.html").read_text()
    assert "400 discs" in page and "data:image/png" in page and f"{gas.pairs[-1]:,}" in page and 'src="http' not in page
    assert gas.plot(tmp_path / "gas.png").axes[0].get_xlim() == (0, gas.billiard.box[0])
    assert "collisions with walls" in gas._repr_html_() and gas.summary()["bodies"] == 400


def test_bad_input_is_refused():
    with pytest.raises(carom.InputError, match="lattice, which is full at filling"):
        discs(100, filling=0.9)
    with pytest.raises(carom.InputError, match=r"overlap, or reach out of the box, by 0\.2"):
        _two([[1, 1], [1.8, 1]], [[0, 0], [0, 0]]).solve(dt=1.0)
    with pytest.raises(carom.InputError, match="radius must be finite"):
        _two([[1, 1], [3, 1]], [[0, 0], [0, 0]], radius=(0.5,)).solve(dt=1.0)
    with pytest.raises(carom.InputError, match="dt must be a positive number"):
        discs(4).solve(dt=0.0)


@pytest.mark.stress
def test_a_hundred_thousand_spheres():
    run = spheres(100_000).solve(dt=1.0)
    assert run.pairs[-1] > 200_000 and np.max(np.abs(run.energy_error)) < 1e-13 and run.smallest_gap.min() > -1e-12
