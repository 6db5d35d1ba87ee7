"""The criteria of carom reproduce: each accepts what its paper claims and refuses a control."""

from functools import partial

import numpy as np
import pytest

from carom.models.bars import BAR_ROWS, bars
from carom.papers import elastic_formulas, misprints
from carom.papers.beam_impacts import decay_row
from carom.papers.demoures2017 import TRAPEZOIDAL, leapfrog_invariant, match_row, shown_nodes
from carom.papers.exhibit import ANSWERED, DIFFERS, REPRODUCED, UNCLEAR, Band, judge
from carom.papers.fetecau2003 import walk_row
from carom.papers.schindler2014 import order_row, printed_zeno, zeno_defects
from carom.papers.star_walk import Walk
from carom.papers.studies import Measurement


def test_a_band_has_two_sides():
    band = Band(1.8, 2.2, "order 2")
    assert band.holds(2.0) and band.holds(1.8, 2.2)
    assert not band.holds(1.0) and not band.holds(3.0) and not band.holds(2.0, 2.3)
    assert not band.holds(float("nan")) and not band.holds()
    row = judge("claim", "measured", band, 3.0, why="too high", note="fine")
    assert (row.verdict, row.why, row.accepts) == (DIFFERS, "too high", "1.8 to 2.2: order 2")
    assert judge("claim", "measured", band, 2.0, why="too high", note="fine").why == "fine"


def test_orders_are_judged_from_both_sides():
    dt = np.geomspace(0.01, 0.001, 12)

    def row(power):
        return order_row("claim", Measurement("m", "p", dt, {"q": 3.0 * dt**power}), "q", 1)

    assert row(1.0).verdict == REPRODUCED and "1.00 ± 0.00" in row(1.0).measured and "from 3 to 3" in row(1.0).measured
    assert row(0.5).verdict == row(1.5).verdict == row(2.0).verdict == DIFFERS
    exact = order_row("claim", Measurement("m", "p", dt, {"q": 0.0 * dt}), "q", 1)
    assert exact.verdict == DIFFERS and exact.why  # an exact method has no order


def _energies(kind, lanes=2000, impacts=200):
    """Variances of energies after 1, 2, … impacts, in K²; none of them share a step."""
    random = np.random.default_rng(3)
    kicks = 1 - 2 * random.uniform(size=(lanes, impacts))
    energy = {"walk": np.cumsum(kicks, axis=1), "bounded": kicks, "drift": np.cumsum(np.abs(kicks[:, :1]) + 0 * kicks, axis=1)}[
        kind
    ]
    return Walk(np.arange(1.0, impacts + 1), np.zeros(impacts), np.var(energy, axis=0), lanes, 500)


def test_a_random_walk_is_told_from_a_conserved_energy():
    walk, bounded, drift = (walk_row(_energies(kind)) for kind in ("walk", "bounded", "drift"))
    assert walk.verdict == ANSWERED and walk.why.startswith("a random walk")
    assert bounded.verdict == ANSWERED and bounded.why.startswith("a nearby energy")
    assert drift.verdict == UNCLEAR
    found = _energies("walk")
    assert walk_row(found._replace(variance=2 * found.variance)).verdict == UNCLEAR  # grows as n, but kicks of another size


def test_the_zeno_solution_as_printed():
    assert zeno_defects() < 1e-13
    t = np.array([0.5, 1.5, 2.25, 2.9, 2.999])
    from carom.models.balls import zeno

    for printed, ours in zip(printed_zeno(t), zeno(t), strict=True):
        np.testing.assert_allclose(printed, ours, atol=1e-13)


def test_a_wrong_zeno_solution_is_found(monkeypatch):
    def wrong(t):
        q, v, i = printed_zeno(t)
        return q, 1.001 * v, i

    monkeypatch.setattr("carom.papers.schindler2014.printed_zeno", wrong)
    assert zeno_defects() > 1e-4


def test_misprints_are_consequences():
    rows = [misprints.discrete_energy_57(), misprints.rectangle_rule(), misprints.step_after_impact(), misprints.tangent_e2()]
    rows += [misprints.newton_law_20(-2.0, 1.0), misprints.jump_theorem_2(), misprints.series_springs()]
    assert all(row.verdict == DIFFERS and row.why for row in rows)


def test_misprints_would_hold_if_they_were_right(monkeypatch):
    """Controls: the same rows where the printed formula does what is said of it."""
    assert misprints.newton_law_20(0.0, 0.0).verdict == REPRODUCED  # a contact that is not approached
    # Where φ = φ̇: φ² = (a² − b²) sin θ cos θ, a quadratic equation in tan θ.
    b, tan = 0.2, np.roots([1.0, -(1 - 0.2**2), 0.2**2])[0]
    assert misprints.tangent_e2(1.0, b, float(np.arctan(tan))).verdict == REPRODUCED
    two_steps = misprints._two_steps
    monkeypatch.setattr(misprints, "_two_steps", lambda kinetic: two_steps(0.5))
    assert misprints.rectangle_rule().verdict == REPRODUCED


class _Run:
    num_steps = 1000

    def __init__(self, t):
        self.t = t
        self.impacts = type("Impacts", (), {"step": np.array([10, 500])})()


def test_a_decay_of_the_angular_momentum_would_be_seen():
    run = _Run(np.linspace(0, 2.5, 1001))
    J = np.ones((1001, 6))
    assert [row.verdict for row in decay_row(J, run)] == [DIFFERS]
    J[:, 5] -= 0.01 * np.maximum(run.t - 1, 0)
    assert [row.verdict for row in decay_row(J, run)] == [REPRODUCED]
    assert decay_row(J[:401], _Run(run.t[:401])) == []  # too short to tell


class _Bars:
    """Two bars of three nodes."""

    def __init__(self, apart):
        self.params = {"stiffness": np.array([1.0, 1.0, 0.0, 1.0, 1.0])}
        t = np.linspace(0.0, 1.0, 11)[:, None]
        self.q = np.arange(6.0) + t * (1 + apart)
        self.energy = 1 + 0.01 * apart * t[:, 0]


def test_figures_that_match_are_told_from_others():
    def verdict(apart):
        return match_row({1: _Bars(0.0)}, {1: _Bars(apart)}).verdict

    assert verdict(0.01) == REPRODUCED
    assert verdict(0.5) == DIFFERS and verdict(0.0) == DIFFERS  # the same run twice is no evidence


@pytest.mark.parametrize("row", ["5 (Fig. 4.2)", 5])
def test_every_bar_is_drawn_with_both_ends(row):
    model = bars(**BAR_ROWS[row], integrator=1)
    sizes = [n + 1 for n in BAR_ROWS[row]["elements"]]
    run = type("Run", (), {"params": model.params, "q": np.zeros((1, sum(sizes)))})()
    first, second = shown_nodes(run)
    assert (first[0], first[-1]) == (0, sizes[0] - 1) and (second[0], second[-1]) == (sizes[0], sum(sizes) - 1)
    assert len(second) == min(sizes[1], 11)


def test_leapfrog_keeps_its_own_invariant_and_not_the_energy():
    """Without contact: two short bars that vibrate, far apart."""
    model = bars(lengths=(1.0, 1.0), elements=(4, 4), gaps=(10.0,), integrator=1)
    v0 = np.sin(np.arange(10.0))
    run = model.solve(TRAPEZOIDAL, dt=0.02, num_steps=200, v0=v0)
    own = leapfrog_invariant(run)
    assert np.ptp(own) < 1e-12 * abs(own[0])
    assert np.ptp(run.energy) > 1e-4 * abs(own[0])  # the control


@pytest.mark.parametrize(
    "formula",
    [
        elastic_formulas.end_4_6,
        elastic_formulas.jump_4_7,
        elastic_formulas.force_4_14,
        elastic_formulas.step_4_16,
        elastic_formulas.weight_5_9,
        elastic_formulas.coadjoint_5_11,
        elastic_formulas.extremity_5_2,
        partial(elastic_formulas.energy_4_15, "(4.15)"),
        partial(elastic_formulas.energy_4_15, "(4.17)"),
    ],
)
def test_a_misprint_is_told_by_what_it_implies(formula):
    """The formula that is meant passes the criterion that the printed one fails."""
    found = formula()
    assert found.row.verdict == DIFFERS and found.printed > 1e-3
    assert elastic_formulas.EXACT.holds(found.meant)
