"""carom discover: chapters that were written by this code, criteria that refuse controls, and quick versions."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from carom.cli.commands import app
from carom.papers import DISCOVERIES, Exhibit, Row, insert
from carom.papers.discoveries import bar_waves, collision_order, energy_walk, graph_distance, rolling_volume, split_events
from carom.papers.exhibit import END, FAILS, HOLDS, START, read_table
from carom.papers.star_walk import Walk, growth

DOCS = Path(__file__).parents[2] / "docs" / "discoveries"


def _chapter(exhibit):
    return (DOCS / f"{exhibit.name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("exhibit", DISCOVERIES, ids=lambda e: e.name)
def test_every_chapter_was_written_by_this_code(exhibit):
    """Where this fails, run `carom discover NAME --full --out docs/discoveries`."""
    text = _chapter(exhibit)
    code, rows = read_table(text.partition(START)[2].partition(END)[0].splitlines())
    assert code == exhibit.code, f"the chapter {exhibit.name} is older than its code"
    assert rows and all(row.verdict in (HOLDS, FAILS) and row.accepts for row in rows)
    assert f"carom discover {exhibit.name}" in text and f"({exhibit.name}.png)" in text
    assert (DOCS / f"{exhibit.name}.png").stat().st_size < 300_000


def _agrees(exhibit):
    page = {row.claim: row.verdict for row in read_table(_chapter(exhibit).splitlines())[1]}
    rows = exhibit.make(False, None)
    assert rows
    for row in rows:
        assert page.get(row.claim) == row.verdict, row


@pytest.mark.stress
@pytest.mark.parametrize("exhibit", DISCOVERIES, ids=lambda e: e.name)
def test_chapters_say_what_quick_runs_say(exhibit):
    _agrees(exhibit)


def test_the_command(tmp_path, monkeypatch):
    quick = [Exhibit("fetecau2003", "quick", "A question", lambda full, draw: [Row("a", "1", HOLDS, accepts="0 to 2: so")])]
    monkeypatch.setattr("carom.papers.DISCOVERIES", quick)
    assert CliRunner().invoke(app, ["discover", "quick", "--out", str(tmp_path)]).exit_code == 0
    text = (tmp_path / "quick.md").read_text()
    assert text.startswith("# A question") and "| a | 1 | 0 to 2: so | holds |" in text
    (tmp_path / "quick.md").write_text(text.replace("# A question", "# A question\n\nProse."))
    insert(tmp_path / "quick.md", quick[0], [Row("b", "2", FAILS)])
    text = (tmp_path / "quick.md").read_text()
    assert "Prose." in text and "| b | 2 |  | does not hold |" in text and "| a |" not in text and text.count(START) == 1
    assert CliRunner().invoke(app, ["discover", "nothing"]).exit_code == 2


# -- the energy ----------------------------------------------------------------------------------------------------------


def _kicks(lanes=4000, impacts=100, seed=3):
    return 1 - 2 * np.random.default_rng(seed).uniform(size=(lanes, impacts))


def _walked(energy):
    """Energies in K after 1, 2, … impacts, none of which share a step."""
    lanes, impacts = energy.shape
    return Walk(np.arange(1.0, impacts + 1), np.zeros(impacts), np.var(energy, axis=0), lanes, 500)


def test_a_walk_is_told_from_a_conserved_energy():
    found = _kicks()
    one, walk = found.ravel()[:5000], _walked(np.cumsum(found, axis=1))
    assert [row.verdict for row in energy_walk.walk_rows(walk, one, 5000)] == [HOLDS] * 4
    exponent, size, _, _ = energy_walk.walk_rows(_walked(found), one, 5000)
    assert exponent.verdict == size.verdict == FAILS
    larger = walk._replace(variance=1.2 * walk.variance)
    assert energy_walk.walk_rows(larger, one, 5000)[1].verdict == FAILS  # kicks of another size
    assert energy_walk.walk_rows(walk, 1.2 * one, 5000)[2].verdict == FAILS
    assert energy_walk.walk_rows(walk, np.repeat(one[::2], 2), 5000)[3].verdict == FAILS


def test_impacts_that_share_a_step_take_five_ninths_away():
    """(4): pairs of impacts less than a step apart, laid anywhere on the grid."""
    random = np.random.default_rng(7)
    start, apart = random.uniform(size=(2, 400_000))
    second = start + apart
    share = second < 1
    energy = np.where(share, (1 - second) ** 2 - start**2, (1 - 2 * start) + (1 - 2 * (second - 1)))
    n, m = 2.0, np.mean(share)
    error = 4 * np.sqrt(2 / len(start))  # of a sample's variance
    assert np.var(energy) / ((n - 5 / 3 * m) / 3) == pytest.approx(1.0, abs=error)
    assert np.var(energy) / (n / 3) < 1 - 10 * error  # control


def test_the_errors_of_a_sample_are_those_of_many_samples():
    """(5), for the exponent and for the variance at the end."""
    walks = [_walked(np.cumsum(_kicks(lanes=400, seed=seed), axis=1)) for seed in range(200)]
    for measured, told in ((w.exponent for w in walks), walks[0].exponent_error), ((w.ratio for w in walks), walks[0].ratio_error):
        measured = np.array(list(measured))
        assert np.std(measured) == pytest.approx(told, rel=4 / np.sqrt(2 * len(walks)))  # four standard errors of a deviation
        assert np.mean(measured) == pytest.approx(1.0, abs=4 * told / np.sqrt(len(walks)) + 2 / 400)  # log s is low by 1/N
    assert (
        walks[0].exponent_error < 0.8 * walks[0].ratio_error
    )  # they are not the same: a control for the one in place of the other


def test_the_particle_does_not_walk():
    n, variance = energy_walk.sawtooth(3000, 300)
    assert abs(growth(n, variance)) < 0.3 and variance[-1] < 30 < n[-1] / 3


# -- order ---------------------------------------------------------------------------------------------------------------


def test_orders_are_judged_from_both_sides():
    h = np.geomspace(0.1, 0.01, 8)
    verdicts = [collision_order.order_row(4, h, 0.1 * h**power, 3).verdict for power in (3.0, 4.0, 5.0)]
    assert verdicts == [FAILS, HOLDS, FAILS]
    assert collision_order.order_row(4, h, 0 * h, 3).verdict == FAILS  # rounding has no order


def test_the_exact_motion_keeps_energy_and_meets_the_circle():
    c = collision_order
    hits = graph_distance.bounce(c.flow, c.gap, c._normal, c.START, c.SPEED, c.DURATION)
    assert len(hits) == 4

    def energy(q, v):
        return 0.5 * np.sum(v**2) + 0.5 * np.sum((c.OMEGA * q) ** 2)

    for hit in hits:
        assert abs(c.gap(hit.q)) < 1e-14 and hit.before @ (hit.q - c.CENTRE) > 0 > hit.after @ (hit.q - c.CENTRE)
        assert abs(energy(hit.q, hit.after) - energy(c.START, c.SPEED)) < 1e-13


def test_order_two_through_a_circle_and_none_pointwise():
    """Two steps of one compiled program: the quotient of the errors, and a grid point between both impacts."""
    c = collision_order
    hits = graph_distance.bounce(c.flow, c.gap, c._normal, c.START, c.SPEED, c.DURATION)
    sizes = np.array([150, 212, 300, 424, 600])
    errors = np.array([graph_distance.distance(c._run(c.method_of(2), int(n), c.DURATION / n), c.flow, hits).graph for n in sizes])
    assert c.order_row(2, c.DURATION / sizes, errors, len(hits)).verdict == HOLDS
    assert c.pointwise_row(c.method_of(2), np.array([20, 28, 40]), hits).verdict == HOLDS


# -- bars ----------------------------------------------------------------------------------------------------------------


def _errors(power, tip=0.0):
    def norms(h):
        return {"v": h**power, "u": h ** (2 / 3), "momentum": h ** (2 / 3), "tip": h**tip}

    return [bar_waves.Errors(h, norms(h), round(10 / h), 0.0) for h in (0.2, 0.1, 0.05)]


def test_rates_of_waves_are_judged_from_both_sides():
    def verdicts(power):
        return [row.verdict for row in bar_waves.rate_rows({(2, 1): _errors(power), (2, 2): _errors(power)})]

    assert verdicts(1 / 3) == [HOLDS] * 6
    assert verdicts(0.0)[::3] == verdicts(0.5)[::3] == [FAILS] * 2
    found = {(2, 1): _errors(1 / 3), (2, 2): _errors(1 / 3)}
    assert [row.verdict for row in bar_waves.contact_rows(found)] == [HOLDS] * 4
    found = {(2, 1): _errors(1 / 3, 0.5), (2, 2): _errors(1 / 3, 0.5)}
    assert [row.verdict for row in bar_waves.contact_rows(found)][:2] == [FAILS] * 2


def test_exact_displacements_are_the_integral_of_exact_velocities():
    from carom.models.bars import BAR_ROWS
    from carom.models.bars_exact import bars_exact

    exact = bars_exact(**BAR_ROWS[3], gaps=(0.1,), t_end=40.0)
    s, t = np.array([0.0, 3.0, 9.9]), np.linspace(0.0, 30.0, 30_001)
    v = np.array([exact.velocity(1, s, time) for time in t])
    summed = np.sum(0.5 * (v[1:] + v[:-1]), axis=0) * (t[1] - t[0])
    np.testing.assert_allclose(bar_waves.displacement(exact, 1, s, 30.0), summed, atol=1e-3)  # jumps: one step each


# -- events ----------------------------------------------------------------------------------------------------------------


def test_the_exact_bounces_and_the_exact_landing():
    hits = split_events.exact_bounces()
    assert len(hits) == 3 and all(abs(hit.q[0]) < 1e-14 for hit in hits)
    np.testing.assert_allclose([hit.after[0] / hit.before[0] for hit in hits], -split_events.RESTITUTION)
    t = np.linspace(0.0, 2.0, 200_001)
    q, v, i = split_events.landing(t)
    load = np.cumsum(np.exp(1 + t)) * (t[1] - t[0])
    np.testing.assert_allclose(v, i - load, atol=1e-3)  # v' = −load + interaction; a sum over steps of 1e-5, load up to 20
    assert np.min(q) > -1e-12


def test_orders_with_events_are_judged_from_both_sides():
    h = np.geomspace(0.1, 0.01, 8)

    def measured(power):
        return split_events.Measured(h, {what: 0.1 * h**power for what in ("q", "v", "i", "graph")})

    assert [split_events.split_row(3, measured(p), 3).verdict for p in (3.0, 4.0, 5.0)] == [FAILS, HOLDS, FAILS]
    assert [split_events.whole_row(3, measured(p)).verdict for p in (0.3, 1.0, 2.0)] == [FAILS, HOLDS, FAILS]
    landed = {p: [row.verdict for row in split_events.landing_rows({"x": measured(p)})] for p in (0.0, 1.0, 2.0, 3.0)}
    assert landed == {0.0: [FAILS, FAILS], 1.0: [HOLDS, FAILS], 2.0: [FAILS, HOLDS], 3.0: [FAILS, FAILS]}


# -- volume ----------------------------------------------------------------------------------------------------------------


@pytest.mark.stress
def test_the_ball_keeps_volume_through_an_impact():
    z = np.array([0.2, 0.3, 0.9, -1.4])
    v = rolling_volume
    rate, hits = v.volume(v.ROLLING_BALL, v.lift_ball, v.read_ball, z, 0.02, 100)
    assert hits >= 1 and abs(rate) < 1e-6


def test_pauses_that_do_not_vanish_are_noticed():
    u, w = np.random.default_rng(4).uniform(size=(2, 4000))

    def verdicts(first, later):
        return [row.verdict for row in rolling_volume.zeno_rows(2.5 * np.stack([first, later], axis=1))]

    assert verdicts(np.sqrt(u), np.sqrt(w)) == [HOLDS, HOLDS]
    assert verdicts(np.sqrt(u), w) == [FAILS, FAILS]  # more of them than before, and as rare as ε only
    assert verdicts(1e-6**u, 1e-6**w) == [HOLDS, FAILS]  # bounces that accumulate: as many in every decade of ε


def test_returns_are_counted():
    """A motion round a circle is back every 2π, whatever the radius; one that goes away is not."""
    t = np.linspace(0, 200 * np.pi, 200_001)
    round_it = np.stack([np.cos(t) - 1, np.sin(t), 0 * t])
    np.testing.assert_allclose(rolling_volume.returns(round_it, t, rolling_volume.RADII), 2 * np.pi, rtol=0.02)
    assert np.all(rolling_volume.returns(np.stack([t, t, t]), t, rolling_volume.RADII) == t[-1])
