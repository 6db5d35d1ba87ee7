"""Bars and beams as fields: balances over any patch of space and time, and the multisymplectic form on variations."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TRAPEZOIDAL

import carom
from carom.diagnostics import configurational_balance, energy_balance, field_balance, multisymplectic_form

ROUNDINGS = 20  # a few operations per term


def unit():
    return jnp.ones(1)


@pytest.fixture(scope="module")
def bars():
    """Two bars of five elements, with ends that bounce: patches reach over contacts."""
    return carom.models.bars(elements=(5, 5), integrator=1).solve(TRAPEZOIDAL, num_steps=300)


@pytest.fixture(scope="module")
def momentum(bars):
    return field_balance(bars, unit)


@pytest.mark.parametrize("integrator", [1, 2])
@pytest.mark.parametrize("wall", [0, 1])
def test_a_chain_is_the_potential(integrator, wall):
    model = carom.models.bars(
        elements=(3, 2), gaps=(0.1,) * (1 + wall), wall=wall, integrator=integrator, gravity=0.3, moduli=(1.0, 2.0)
    )
    q = jnp.asarray(model.q0) + 0.2 * jnp.sin(3.0 * jnp.arange(len(model.q0)) - 1.0)
    here = float(model.system.potential(q=q, params=model.params))
    assert float(model.system.chain.potential(q, model.params)) == pytest.approx(here, rel=1e-13)


def test_the_covariant_noether_theorem_holds_on_every_patch(bars, momentum):
    """(3.14) of [demoures2017]: over the boundary of any part of space and time, and the contacts in it, momentum balances."""
    assert len(bars.impacts) >= 6
    last = len(momentum.t) - 1
    for patch in [(0, last, 0, 11), (10, 250, 2, 9), (30, 200, 5, 6), (5, 40, 0, 3), (100, 101, 7, 8)]:
        found = momentum.patch(*patch)
        assert abs(found.residual) < 1e-12 < 0.01 < found.size, patch
        assert abs(found.source) < 1e-13  # every cell is invariant
        assert abs(found.contacts) < 1e-12  # impulses come in pairs
    assert np.nanmax(np.abs(momentum.defect) / momentum.rounding) < ROUNDINGS


def test_control_a_broken_field_shows_where(bars, momentum):
    q = bars.q.copy()
    q[150, 3] += 1e-6
    broken = field_balance(dataclasses.replace(bars, q=q), unit)
    j, a = np.unravel_index(np.nanargmax(np.abs(broken.defect)), broken.defect.shape)
    assert broken.t[1:-1][j] == bars.t[150] and a == 3
    assert abs(broken.patch(140, 170, 1, 4).residual) > 1e-8 and abs(broken.patch(20, 60, 1, 4).residual) < 1e-13
    # A generator that is no symmetry has sources, and still balances: boundary + contacts = source.
    stretched = field_balance(bars, lambda q: q)
    found = stretched.patch(30, 200, 0, 4)
    assert abs(found.source) > 1e-3 and abs(found.residual) < 1e-11


def test_energy_flows_along_the_bars(bars):
    """(2.6)₁ over parts of the body: exact between nodes, to the order of the rule in time; jumps are at the contact only."""
    balance = energy_balance(bars)
    total = balance.defect.sum() + balance.jumps.sum()
    assert total == pytest.approx(bars.energy[-1] - bars.energy[0], abs=1e-15)
    assert set(np.nonzero(np.abs(balance.jumps) > 1e-12)[1]) == {5, 6}
    assert np.abs(balance.inflow).max() > 100 * np.abs(balance.defect).max()  # control: without the flow it would not balance


def _wave(n):
    """One free bar with two of its modes."""
    model = carom.models.bars(lengths=(10.0,), densities=(1.0,), moduli=(1.0,), elements=(10 * n,), speeds=(0.0,), gaps=())
    s = np.linspace(0, 1, 10 * n + 1)
    v0 = 0.1 * np.cos(np.pi * s) + 0.05 * np.cos(2 * np.pi * s)
    return carom.solve(model.system, TRAPEZOIDAL, model.q0, v0, dt=0.2 / n, num_steps=20 * n, params=model.params)


@pytest.mark.stress
def test_configurational_forces_balance_where_the_body_is_uniform():
    """(2.6)₂ of [demoures2017]: over the same part of the bar, with finer and finer elements, to second order."""
    found = []
    for n in (2, 4, 8):
        run = _wave(n)
        balance, energy = configurational_balance(run), energy_balance(run)
        size = np.nanmax(np.abs(balance.density[:, 2 * n : 7 * n]).sum(axis=1))
        found.append((abs(balance.patch(0, 20 * n, 2 * n, 7 * n)) / size, abs(energy.patch(0, 20 * n, 2 * n, 7 * n))))
    ratios = np.array(found)[:-1] / np.array(found)[1:]
    assert np.all((ratios > 3.0) & (ratios < 5.5))  # 4 for order 2
    # Control: a bar with a soft end feels a force where the material changes.
    model = carom.models.bars(lengths=(10.0,), densities=(1.0,), moduli=(1.0,), elements=(40,), speeds=(0.0,), gaps=())
    params = {**model.params, "stiffness": np.where(np.arange(40) < 20, 1.0, 0.3) * model.params["stiffness"]}
    v0 = 0.1 * np.cos(np.pi * np.linspace(0, 1, 41))
    run = carom.solve(model.system, TRAPEZOIDAL, model.q0, v0, dt=0.05, num_steps=80, params=params)
    balance = configurational_balance(run)
    assert abs(balance.patch(0, 80, 15, 25)) > 30 * abs(balance.patch(0, 80, 5, 15))


@pytest.mark.stress
def test_the_multisymplectic_form_formula(bars):
    """On two variations of a run, impact points and times varying along: zero over the boundary of patches."""
    rng = np.random.default_rng(1)
    form = multisymplectic_form(bars, rng.normal(size=(2, 12)), rng.normal(size=(2, 12)))
    hits = np.flatnonzero(form.at_contact.any(axis=1))
    last = len(form.t) - 1
    quiet = (int(hits[-1]) + 1, last, 3, 9)  # after the last impact: no time varies
    for patch in [(0, last, 0, 11), (10, 250, 0, 11), quiet]:  # in time, through all impacts; in time and space
        found = form.patch(*patch)
        assert abs(found.boundary + found.contacts) < 1e-11 * found.size
    # Some of the nodes across an impact, and over all times, in space: dE ∧ dt is left over.
    for patch in [(30, 200, 5, 6), (1, int(hits[0]), 2, 9), (0, last, 2, 9)]:
        found = form.patch(*patch)
        assert abs(found.residual) < 1e-11 * found.size < abs(found.source)
    # Control: a variation that is none of the run's.
    wrong = form.corners.copy()
    wrong[hits[-1] + 5, 6, 0] *= 1.001
    broken = type(form)(form.t, wrong, form.at_contact, form.lost).patch(*quiet)
    assert abs(broken.residual) > 1e-9 * broken.size


@pytest.mark.stress
def test_the_multisymplectic_form_formula_for_a_beam():
    """The same on SE(3): sections that turn, in canonical coordinates around each of them."""
    run = carom.models.beam(elements=2).solve(TRAPEZOIDAL, num_steps=200)
    assert len(run.impacts) >= 1
    rng = np.random.default_rng(2)
    scale = np.stack([np.full(18, 1.0), np.abs(run.p).max(axis=0).mean() * np.ones(18)])  # of displacements, of momenta
    form = multisymplectic_form(run, scale * rng.normal(size=(2, 18)), scale * rng.normal(size=(2, 18)))
    last, hit = len(form.t) - 1, int(np.flatnonzero(form.at_contact.any(axis=1))[0])
    quiet = (3, hit - 1, 0, 1)  # one of the elements, before anything is hit
    for patch in [(0, last, 0, 2), (10, hit + 5, 0, 2), quiet]:  # in time, through the impact; in time and space
        found = form.patch(*patch)
        assert abs(found.boundary + found.contacts) < 1e-10 * found.size, patch
    # Controls: a patch that ends at the impact, whose time varies, has dE ∧ dt left over; and variations that are none of the run.
    found = form.patch(10, hit, 0, 2)
    assert abs(found.residual) < 1e-10 * found.size < 0.01 * abs(found.source)
    wrong = form.corners.copy()
    wrong[hit - 3, 0, 1] *= 1.001
    broken = type(form)(form.t, wrong, form.at_contact, form.lost).patch(*quiet)
    assert abs(broken.boundary + broken.contacts) > 1e-5 * broken.size


@pytest.mark.stress
def test_the_beam_balances_momentum_and_angular_momentum_on_every_patch():
    run = carom.models.beam(elements=4).solve(TRAPEZOIDAL, num_steps=200)
    space, axes = carom.SE3(), jnp.eye(3)
    assert len(run.impacts) >= 1
    kept = {
        "p_x": lambda q: space.carried(q, jnp.zeros(3), axes[0]),
        "J_z": lambda q: space.carried(q, axes[2], jnp.zeros(3)),
    }
    for generator in kept.values():
        balance = field_balance(run, generator)
        for patch in [(3, 190, 1, 3), (0, len(balance.t) - 1, 0, 4)]:
            found = balance.patch(*patch)
            assert abs(found.residual) < 1e-12 * found.size and abs(found.source) < 1e-12 * found.size
    upwards = field_balance(run, lambda q: space.carried(q, jnp.zeros(3), axes[2])).patch(3, 190, 1, 3)
    assert abs(upwards.source) > 1e-3 * upwards.size and abs(upwards.residual) < 1e-12 * upwards.size  # control: the weight


def test_what_has_no_cells_is_refused(bars):
    run = carom.solve(carom.System(lambda v: 0.5 * v @ v), TRAPEZOIDAL, [0.0], [1.0], dt=0.1, num_steps=1)
    with pytest.raises(carom.InputError, match="LumpedSystem"):
        field_balance(run, unit)
    composed = dataclasses.replace(bars, method=carom.VariationalCollision())
    with pytest.raises(carom.InputError, match="trapezoidal rule"):
        field_balance(composed, unit)
    with pytest.raises(carom.InputError, match="a patch has"):
        field_balance(bars, unit).patch(0, 5, 7, 3)


def test_a_picture_of_the_balances(bars, tmp_path):
    carom.report.plot_balance(bars, unit, path=tmp_path / "balance.png")
    assert (tmp_path / "balance.png").stat().st_size > 10_000
