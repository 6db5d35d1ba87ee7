"""The geometrically exact beam [demoures2017, §5] on a plane."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TRAPEZOIDAL

import carom
from carom.models import beam, beam_energies, momentum_maps
from carom.models.beam import highest_frequency, strains
from carom.report.elastic import plot_beam

# (start_time, end, first impact of the far end [s], its speed [m/s], largest relative energy error): the three runs of §5.3 with
# 10 elements and Δt = 4e-5, as an independent program found them.
RUNS = {
    "fast": (4e-5, 0.5, 4.663e-3, 30.8, 5.5e-5),
    "medium": (8e-5, 2.5, 9.30e-3, 15.5, 3.2e-5),
    "slow": (2e-4, 5.0, 22.9e-3, 6.35, 2.9e-5),
}


PREDICTABLE = 0.1  # seconds: two instruction sets part at t = 0.13 in the slow run, by the rounding of a chaotic motion


def _walk(run):
    """The standard deviation of the energy if its changes at the impacts, as the run had them, were independent and of mean zero.

    The trapezoidal rule leaves a kick of O(Δt²) at every impact, of either sign. A bias of one sign would add them up instead.
    """
    before = np.unique(np.searchsorted(run.t, run.impacts.t) - 1)  # output intervals with an impact
    kicks = np.diff(run.energy_error)[before]
    return np.sqrt(np.sum(kicks**2))


@pytest.mark.sensitive
def test_control_kicks_of_one_sign_are_no_walk(runs):
    run = runs("slow")
    before = np.unique(np.searchsorted(run.t, run.impacts.t) - 1)
    assert np.sum(np.abs(np.diff(run.energy_error)[before])) > 4 * _walk(run)


@pytest.fixture(scope="module")
def runs():
    done = {}

    def get(name):
        if name not in done:
            start_time, end, *_ = RUNS[name]
            done[name] = beam(start_time=start_time).solve(TRAPEZOIDAL, dt=4e-5, num_steps=round(end / 4e-5), stride=5)
        return done[name]

    return get


@pytest.mark.sensitive
@pytest.mark.parametrize("name", ["fast", pytest.param("medium", marks=pytest.mark.stress), "slow"])
def test_the_three_runs_of_the_paper(runs, name):
    run, (_, _, t_first, speed, energy) = runs(name), RUNS[name]
    far = np.flatnonzero(run.impacts.contact == 10)[0]  # in the slow run the near end is set down before, gently
    assert run.impacts.t[far] == pytest.approx(t_first, rel=1e-3)  # as many digits as there are
    mass = np.asarray(run.params["mass"]).reshape(-1, 6)[10, 3]
    assert run.impacts.impulse[far] / (2 * mass) == pytest.approx(speed, rel=2e-3)  # reflected: 2 m v
    early = run.t < PREDICTABLE
    assert np.abs(run.energy_error[early]).max() < 2 * energy  # the same size as that program, which kept another grid
    assert np.abs(run.energy_error).max() < 4 * _walk(run)  # and later: a random walk, which stays within 4σ but once in 10⁴ runs
    assert run.fallbacks == 0 and run.status.ok
    maps = momentum_maps(run)
    change = np.ptp(maps, axis=0) / np.abs(maps).max(axis=0)
    assert change[[0, 1, 5]].max() < 1e-10  # a vertical impulse leaves p_x, p_y, J_z alone: a rounding walk
    assert change[[2, 3, 4]].min() > 0.1  # the control
    if name == "slow":
        assert len(run.impacts) == pytest.approx(200, abs=50)  # "≈200"; 200, 210 and 229 with three ways of rounding
        assert run.impacts.impulse.min() > 0 and np.ptp(np.log10(run.impacts.impulse)) > 2  # weak ones too
        assert len(set(run.impacts.contact)) == 11  # at any node


def test_contact_forces_are_on_the_nodes_that_touch(runs):
    hits = runs("slow").impacts
    heights = hits.q.reshape(len(hits), -1, 7)[:, :, 6]
    struck = hits.impulses > 0
    assert np.abs(heights[struck]).max() < 1e-12 and heights[~struck].min() > -1e-12
    change = (hits.p_after - hits.p_before).reshape(len(hits), -1, 6)
    np.testing.assert_allclose(np.linalg.norm(change[:, :, 3:], axis=2), hits.impulses, atol=1e-12)
    assert np.all(change[:, :, :3] == 0)


@pytest.mark.sensitive
def test_energy_by_kind_adds_up(runs):
    run = runs("fast")
    parts = beam_energies(run)
    np.testing.assert_allclose(sum(parts), run.energy, rtol=1e-12)
    assert parts.bending.max() > 10 * parts.bending[0] and parts.kinetic.min() > 0


def test_several_nodes_strike_at_once():
    """A straight beam that lies flat hits with all its nodes in one instant, and leaves as it came."""
    model = beam()
    nodes = np.zeros((11, 7))
    half = np.sqrt(0.5)
    nodes[:, :4] = (half, 0.0, half, 0.0)  # E₃ of every section along x
    nodes[:, 4], nodes[:, 6] = 0.05 * np.arange(11), 0.01
    velocity = np.zeros((11, 6))
    velocity[:, 3] = 1.0  # body x points down
    run = model.solve(TRAPEZOIDAL, q0=nodes.reshape(-1), v0=velocity.reshape(-1), dt=4e-5, num_steps=5000, stride=5)
    assert np.ptp(run.impacts.t) < 1e-13  # one instant, to the rounding of a time
    assert np.max(np.sum(run.impacts.impulses > 0, axis=1)) > 1 and np.all(np.sum(run.impacts.impulses > 0, axis=0) == 1)
    mass = np.asarray(model.params["mass"]).reshape(-1, 6)[:, 3]
    np.testing.assert_allclose(
        run.impacts.impulses.sum(axis=0) / mass, 2 * np.sqrt(1 + 2 * 10 * 0.01), rtol=1e-4
    )  # 2v, v by free fall
    assert np.abs(run.energy_error).max() < 1e-6
    bent = np.abs(np.asarray(strains(jnp.asarray(run.q[-1]), 0.05)) - [0, 0, 0, 0, 0, 1]).max()
    assert bent < 1e-5  # rounding sorts the nodes into a few groups, each with its own κ = 1 + O(h²)


def test_a_beam_draws_itself(runs, tmp_path):
    figure = plot_beam(runs("fast"), tmp_path / "beam.png", times=[0.0, 0.005, 0.1])
    solids = [axis for axis in figure.axes if axis.name == "3d"]
    flat = [axis for axis in figure.axes if axis.name != "3d"]
    assert [axis.get_title() for axis in solids] == ["t = 0", "t = 0.005", "t = 0.1"]
    assert len(solids[1].lines) == 12  # its line and 11 sections
    drawn = np.array(solids[1].lines[0].get_data_3d())
    row = np.searchsorted(runs("fast").t, 0.005)
    np.testing.assert_allclose(drawn.T, runs("fast").q[row].reshape(-1, 7)[:, 4:], atol=1e-12)
    assert [line.get_label() for line in flat[1].lines] == ["energy", "p_x", "p_y", "J_z"]
    assert max(line.get_ydata().max() for line in flat[1].lines[1:]) < 1e-10 < flat[1].lines[0].get_ydata().max()
    assert (tmp_path / "beam.png").stat().st_size > 20_000


@pytest.mark.stress
def test_order_2_without_contact():
    """Halving the steps of a beam in the air; ξ⁰ taken as the velocity of the first interval would give order 1."""
    model = beam(height=5.0, start_time=2e-4)
    ends = [model.solve(TRAPEZOIDAL, dt=0.4 / n, num_steps=n, stride=n).q[-1] for n in (5000, 10_000, 20_000, 40_000)]
    errors = [np.abs(end - ends[-1]).max() for end in ends[:-1]]
    # Errors against the finest of steps h: (h² − h₄²), that is 63 : 15 : 3.
    assert errors[0] / errors[1] == pytest.approx(63 / 15, rel=0.1) and errors[1] / errors[2] == pytest.approx(15 / 3, rel=0.1)


def test_the_force_is_the_slope_of_the_potential():
    model = beam(elements=4)
    mechanics = model.system.bind(jax.tree.map(jnp.asarray, model.params), 0)
    rng = np.random.default_rng(0)

    @jax.jit
    def both(delta):
        q = mechanics.space.retract(jnp.asarray(model.q0), delta)
        return mechanics.force(q), mechanics.pull_back(q)

    np.testing.assert_allclose(*both(jnp.asarray(0.3 * rng.standard_normal(30))), rtol=1e-10, atol=1e-10)
    wrong = carom.LumpedSystem(
        model.system.masses.function,
        model.system.potential.function,
        model.system.space,
        force=lambda q, params: 1.01 * model.system.slope.function(q, params),
    )
    with pytest.raises(carom.InputError, match="but the potential falls by"):
        carom.solve(wrong, TRAPEZOIDAL, model.q0, model.v0, dt=1e-5, num_steps=1, params=model.params)


def test_courant_limit_of_a_beam():
    """The frequencies of a straight beam: stretching alone has 2c/Δs; the stiffest mode here mixes shear and rotation."""
    model = beam()
    highest = highest_frequency(model.params)
    assert highest > 2 * np.sqrt(1e3 / 1e3) / 0.05
    with pytest.raises(carom.InputError, match="Courant"):
        model.solve(TRAPEZOIDAL, dt=2.01 / highest)


@pytest.mark.stress
def test_the_highest_frequency_is_that_of_a_whole_beam():
    """All modes of a straight beam of 20 elements: the matrix, once, for a test."""
    fine = beam(elements=20)
    mechanics = fine.system.bind(jax.tree.map(jnp.asarray, fine.params), 0)
    straight = jnp.zeros((21, 7)).at[:, 0].set(1.0).at[:, 6].set(0.025 * jnp.arange(21)).reshape(-1)
    stiffness = -np.asarray(jax.jacfwd(lambda x: mechanics.force(mechanics.space.retract(straight, x)))(jnp.zeros(126)))
    root = 1 / np.sqrt(np.asarray(mechanics.masses))
    exact = np.sqrt(np.linalg.eigvalsh(root[:, None] * (stiffness + stiffness.T) / 2 * root)[-1])
    assert highest_frequency(fine.params) == pytest.approx(exact, rel=0.05)


@pytest.mark.stress
def test_a_beam_folded_beyond_half_a_turn_is_a_failure_with_a_status():
    """Neighbours that turn past each other leave the reach of the Cayley map: the run ends there."""
    model = beam(height=5.0)
    velocity = np.zeros((11, 6))
    velocity[::2, 0], velocity[1::2, 0] = 3000.0, -3000.0
    run = model.solve(TRAPEZOIDAL, v0=velocity.reshape(-1), dt=4e-5, num_steps=5000, stride=5, throw=False)
    assert run.status.name == "not_converged" and 0 < run.num_steps < 200


@pytest.mark.stress
@pytest.mark.parametrize(("elements", "dt"), [(5, 4e-5), (16, 2e-5), (20, 1e-5)])
def test_other_numbers_of_elements(elements, dt):
    run = beam(elements=elements).solve(TRAPEZOIDAL, dt=dt, num_steps=round(0.5 / dt), stride=10)
    maps = momentum_maps(run)
    assert (np.ptp(maps, axis=0) / np.abs(maps).max(axis=0))[[0, 1, 5]].max() < 1e-10
    assert np.abs(run.energy_error).max() < 1e-4 and run.fallbacks == 0
    assert run.impacts.contact[0] == elements and 3e-3 < run.impacts.t[0] < 7e-3  # the far end first, at some 30 m/s
    assert len(run.impacts) >= elements / 2


@pytest.mark.parametrize(
    ("arguments", "message"), [({"elements": 0}, "positive whole number"), ({"side": -1.0}, "side must be a positive number")]
)
def test_bad_beams_are_refused(arguments, message):
    with pytest.raises(carom.InputError, match=message):
        beam(**arguments)
