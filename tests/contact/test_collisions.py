"""The examples of [fetecau2003, §4] against what is known exactly about them."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ORDER_4, TRAPEZOIDAL

import carom
from carom.diagnostics import penetration
from carom.models.particles import energy_kick

EPS = np.finfo(float).eps
G, H = 9.81, 0.01


def legs(run, k):
    """The lengths of the legs of step k, in steps."""
    inside = run.impacts.t[run.impacts.step == k] / run.dt - k
    return np.diff([0.0, *inside, 1.0])


def test_energy_jumps_at_impacts_by_exactly_the_known_kick(particle_run):
    run = particle_run
    assert len(run.impacts) == 1000
    change = np.diff(run.energy)
    for k in np.unique(run.impacts.step):
        lengths = legs(run, k)
        kick = sum(energy_kick(run.dt, before, after) for before, after in itertools.pairwise(lengths))
        assert change[k] == pytest.approx(kick, abs=1e-12)
    smooth = np.delete(change, np.unique(run.impacts.step))
    assert np.max(np.abs(smooth)) < 100 * EPS * run.energy[0]  # linear gravity: free flight is exact, a few roundings per step
    wrong = [energy_kick(run.dt, after, before) for before, after in [legs(run, run.impacts.step[0])]]
    assert abs(change[run.impacts.step[0]] - wrong[0]) > 1e-6  # control: the kick has a sign


@pytest.mark.sensitive
def test_particle_figures(particle_run):
    assert particle_run.num_steps == pytest.approx(90_264, abs=2)
    assert np.max(np.abs(particle_run.energy_error)) == pytest.approx(4.78e-4, rel=5e-3)
    assert np.all(particle_run.p[:, 0] == -2.0)  # horizontal momentum: not a single rounding
    assert particle_run.fallbacks == 0


def sawtooth(num_impacts, h=H, g=G, height=1.0):
    """The bouncing particle with the trapezoidal rule as a map of (impact time, vertical energy)."""
    t, energy = np.sqrt(2 * height / g), g * height
    times, energies = [], []
    for _ in range(num_impacts):
        times.append(t)
        energy += (h * g) ** 2 / 8 * (1 - 2 * ((t / h) % 1.0))
        energies.append(energy)
        t += 2 * np.sqrt(2 * energy) / g
    return np.array(times), np.array(energies)


@pytest.mark.sensitive
def test_sawtooth_map_over_100_000_impacts():
    run = carom.models.particle().solve(TRAPEZOIDAL, num_steps=10**8, max_impacts=100_000, stride=1000)
    times, energies = sawtooth(100_000)
    # Impact times of 9e4 are known to 1e-11; each feeds the next, in an elliptic (not chaotic) map.
    assert np.max(np.abs(run.impacts.t - times)) < 1e-7
    vertical = run.impacts.p_after[:, 1] ** 2 / 2
    assert np.max(np.abs(vertical - energies)) < 1e-7
    error = np.abs(run.energy_error)
    assert np.max(error) < 1.5e-3  # 1.0e-3 over 10⁵ impacts, 4.8e-4 over the first 1000: bounded, and no trend:
    assert np.max(error[len(error) // 2 :]) < 1.2 * np.max(error[: len(error) // 2])
    other, _ = sawtooth(100_000, h=H * (1 + 1e-9))
    assert np.max(np.abs(run.impacts.t - other)) > 1e-5  # control: the map of another step is told apart


@pytest.mark.sensitive
def test_no_penetration(particle_run, star_run, star_run_4):
    for run in (particle_run, star_run, star_run_4):
        assert penetration(run, samples=3) < 100 * EPS * np.max(np.abs(run.q))  # roundings of the coordinates


@pytest.mark.sensitive
def test_star_with_the_rule_of_the_paper_walks_randomly(star_run):
    assert len(star_run.impacts) >= 1500
    assert 2e-5 < np.max(np.abs(star_run.energy_error)) < 1e-3  # zero-mean kicks, so the size varies from run to run
    assert np.ptp(star_run.p[:, 0]) == 0.0


@pytest.mark.sensitive
def test_star_with_order_4_keeps_its_energy(star_run_4, star_run):
    assert np.max(np.abs(star_run_4.energy_error)) < 1e-12
    assert np.max(np.abs(star_run.energy_error)) > 1e-6  # control: order 2 does not


@pytest.mark.sensitive
def test_star_in_the_cubic_potential():
    run = carom.models.star(cubic=0.1).solve(ORDER_4, num_steps=10**6, max_impacts=1500)
    assert np.max(np.abs(run.energy_error)) < 1e-7


@pytest.mark.sensitive
@pytest.mark.stress
def test_star_impacts_agree_with_another_rule_before_chaos():
    """Two rules of high order see the same first impacts; linear gravity is exact for both, so to rounding and its growth."""
    one = carom.models.star().solve(ORDER_4, num_steps=1600).impacts.t
    two = carom.models.star().solve(carom.VariationalCollision(carom.Galerkin(2)), num_steps=1600, dt=0.004).impacts.t
    assert np.max(np.abs(one[:4] - two[:4])) < 1e-8  # 1e-15, growing by up to 1000 per impact
    assert abs(one[0] - 0.755639) < 1e-6


def test_order_4_keeps_the_particle_bounded():
    run = carom.models.particle().solve(ORDER_4, num_steps=10**8, max_impacts=100_000, stride=1000)
    assert np.max(np.abs(run.energy_error)) < 1e-10  # a rounding per impact, walking
    assert abs(run.energy_drift) < 1e-10


@pytest.mark.sensitive
@pytest.mark.stress
def test_a_million_impacts_of_the_particle():
    run = carom.models.particle().solve(ORDER_4, num_steps=10**9, max_impacts=1_000_000, stride=10_000)
    assert len(run.impacts) >= 1_000_000
    assert np.max(np.abs(run.energy_error)) < 1e-9


def test_a_dip_inside_a_step_is_found():
    """A particle that crosses a hill between two nodes: both nodes are clear of it."""

    def hill(q):
        return q[1] - 0.4 / (1 + (q[0] / 0.3) ** 2)

    def free(v):
        return 0.5 * (v @ v)

    system = carom.System(free, [carom.Contact(hill, name="hill")])
    run = carom.solve(system, TRAPEZOIDAL, [-0.55, 0.2], [1.0, 0.0], dt=1.1, num_steps=1)
    assert len(run.impacts) == 1
    assert run.impacts.t[0] == pytest.approx(0.25, abs=1e-12)  # the hill is 0.2 high at x = ∓0.3
    naive = carom.solve(carom.System(free), TRAPEZOIDAL, [-0.55, 0.2], [1.0, 0.0], dt=1.1, num_steps=1)
    assert hill(naive.q[0]) > 0 and hill(naive.q[1]) > 0  # control: the nodes alone show nothing


def test_a_body_that_turns_fast_within_a_step_is_resolved():
    """A stick that spins by more than a full turn per step, sinking slowly to the floor: the tip hits at a known angle."""

    def tips(q):
        return jnp.stack([q[0] + jnp.sin(q[1]), q[0] - jnp.sin(q[1])])

    system = carom.System(lambda v: 0.5 * (v @ v), [carom.Contact(tips, name="tip")])
    run = carom.solve(system, TRAPEZOIDAL, [1.1, 0.0], [-0.2, 9.0], dt=1.0, num_steps=1)
    angle = 9.0 * run.impacts.t[0]
    assert run.impacts.q[0, 0] == pytest.approx(abs(np.sin(angle)), abs=1e-13)
    times = np.linspace(0, run.impacts.t[0], 100_001)[:-1]
    assert np.min(1.1 - 0.2 * times - np.abs(np.sin(9.0 * times))) > 0  # nothing touched before


def test_rapid_impacts_in_one_step():
    """A ball between two close walls: many impacts per step, at exactly known times."""

    def left(q):
        return q[0]

    def right(q):
        return 0.1 - q[0]

    system = carom.System(lambda v: 0.5 * (v @ v), [carom.Contact(left), carom.Contact(right)])
    run = carom.solve(system, TRAPEZOIDAL, [0.05], [1.0], dt=1.0, num_steps=3)
    expected = 0.05 + 0.1 * np.arange(30)
    assert np.max(np.abs(run.impacts.t - expected)) < 1e-13
    assert list(run.impacts.contact[:4]) == [1, 0, 1, 0]
    assert run.q[-1, 0] == pytest.approx(0.05, abs=1e-13)
