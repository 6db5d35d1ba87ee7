"""The scenes of bodies, each against what mechanics says of it."""

import numpy as np
import pytest

import carom
from carom import models
from carom.bodies import quaternions
from carom.models.grains import runout
from carom.models.tabletop import arch_threshold, card_threshold, face_up, fallen
from carom.models.toys import jellett, whirling

EPS = float(np.finfo(float).eps)


def _moved(run) -> float:
    assert run.status.ok, run.status  # what ended early has not moved either
    return float(max(np.max(np.abs(run.x - run.x[0])), np.max(np.abs(run.q - run.q[0]))))


@pytest.mark.parametrize("name", models.SCENES)
def test_every_scene_can_be_built_and_starts(name):
    model = models.SCENES[name]()
    run = model.solve(num_steps=2)
    assert model.name == name and model.about and run.status.ok and np.max(run.residual) <= 1e-10
    assert models.SCENES[name].__doc__


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: models.dice(0), "a positive whole number"),
        (lambda: models.dominoes(1), "at least two"),
        (lambda: models.card_house(lean=2.0), "lean"),
        (lambda: models.arch(2), "three stones"),
        (lambda: models.newtons_cradle(lifted=5), "lifted"),
        (lambda: models.euler_disk(tilt=0.0), "tilt"),
        (lambda: models.grain_column(0), "column"),
        (lambda: models.chain_over_peg(bends=1), "bends"),
        (lambda: models.chain_over_peg(bends=2, rim=0.008), "room for a peg"),
    ],
)
def test_impossible_scenes_are_refused(make, what):
    with pytest.raises(carom.InputError, match=what):
        make()


# -- tabletop ------------------------------------------------------------------------------------------------------------


def test_a_die_comes_to_rest_on_a_face():
    run = models.dice(1).solve()
    face, across = face_up(run.q[-1, 1])
    assert np.all(run.v[-1] == 0) and np.all(run.x[-1] == run.x[-50])  # rest, exactly
    # Flat as far as the tolerance of contacts goes: 1e-5 of its size at its corners.
    assert 1 <= face <= 6 and across < 1e-4
    assert np.max(np.diff(run.energy)) < 10 * EPS * run.energy[0]  # no impact and no friction adds energy


def test_a_die_turned_to_begin_with_shows_another_face():
    """A quarter turn of the die about its own axis renames its faces and changes nothing else."""
    faces = {}
    for quarter in (0, 1):
        model = models.dice(1)
        body = model.world.bodies[1]
        turn = quaternions.exponential(np.array([0.5 * np.pi * quarter, 0.0, 0.0]))
        body.turn = quaternions.multiply(body.turn, turn)
        run = model.solve(num_steps=150)  # up to the first tumbles: rounding grows with every bounce
        faces[quarter] = quaternions.matrix(run.q[-1, 1]) @ quaternions.matrix(turn).T, run.x[-1, 1]
    np.testing.assert_allclose(faces[0][1], faces[1][1], atol=1e-9)
    np.testing.assert_allclose(faces[0][0], faces[1][0], atol=1e-7)
    assert [face_up(quaternions.exponential(np.array(a)))[0] for a in ([0, 0, 0], [np.pi, 0, 0], [np.pi / 2, 0, 0])] == [3, 4, 2]


def test_dominoes_four_times_as_high_fall_at_half_the_pace():
    small, large = (models.dominoes(3, height=h, flat=True) for h in (0.048, 0.192))
    one, two = small.solve(num_steps=120), large.solve(num_steps=120)
    assert large.dt == pytest.approx(2 * small.dt, rel=EPS)
    np.testing.assert_allclose(two.x, 4 * one.x, atol=1e-9)
    assert np.all(np.isfinite(fallen(one))) and np.all(np.diff(fallen(one)) > 0)  # one after the other
    np.testing.assert_allclose(fallen(two), 2 * fallen(one), rtol=1e-12)


@pytest.mark.stress
def test_the_wave_of_dominoes_has_a_speed_of_its_own():
    paces = [np.diff(fallen(models.dominoes(12, push=p, flat=True).solve(num_steps=900)))[-4:] for p in (3.0, 5.0)]
    assert np.ptp(paces) < 0.15 * np.mean(paces)  # the push is forgotten; the grid of 2 % of a period blurs it
    wide = np.diff(fallen(models.dominoes(8, spacing=0.6, flat=True).solve(num_steps=900)))[-2:]
    assert abs(np.mean(wide) - np.mean(paces)) > 0.2 * np.mean(paces)  # control: the spacing is not


@pytest.mark.stress
def test_a_row_of_dominoes_in_space_falls_to_its_end():
    """Half a minute. Fallen, it touches at some forty points with 60 velocities: without `carom.bodies.dense_proximal` some of its
    steps took a minute each, repeated in halves."""
    run = models.dominoes().solve()
    assert run.status.ok and run.num_steps == 700 and np.max(run.residual) <= 1e-10
    assert np.all(np.isfinite(fallen(run))) and np.all(np.diff(fallen(run)) > 0)
    assert run.kinetic[-1] < 1e-3 * np.max(run.kinetic)


def test_cards_in_the_plane_of_space_lean_up_to_their_threshold():
    threshold = card_threshold(0.35)
    assert threshold == pytest.approx(0.5 * np.tan(0.35), rel=0.02)  # but for the thickness
    stands, falls = (models.card_house(1, friction=threshold + d).solve(num_steps=25) for d in (1e-6, -1e-6))
    assert _moved(stands) == 0.0
    assert _moved(falls) > 1e-9


def test_a_house_of_cards_stands():
    run = models.card_house(3).solve(num_steps=60)
    assert _moved(run) == 0.0 and np.max(run.residual) < 1e-11
    assert int(np.sum(run.free)) == 14


def test_control_a_slippery_house_falls():
    assert _moved(models.card_house(1, friction=0.15).solve(num_steps=40)) > 1e-3


@pytest.mark.parametrize(("voussoirs", "thickness"), [(9, 0.25), (7, 0.2)])
def test_an_arch_stands_as_the_static_problem_says(voussoirs, thickness):
    threshold = arch_threshold(voussoirs, thickness)
    assert 0.2 < threshold < 0.6
    stands, falls = (
        models.arch(voussoirs, thickness, friction=threshold + d).solve(num_steps=25 if d > 0 else 60) for d in (1e-6, -1e-6)
    )
    assert _moved(stands) == 0.0
    assert _moved(falls) > 1e-9  # a millionth of gravity for 0.12 s


def test_an_arch_that_is_too_thin_falls_whatever_the_friction():
    assert np.isinf(arch_threshold(9, 0.1)) and np.isfinite(arch_threshold(9, 0.12))  # 0.1075 for a ring of thin stones
    assert _moved(models.arch(9, 0.1, friction=100.0).solve(num_steps=15)) > 1e-6


# -- toys ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lifted", [1, 2])
def test_as_many_balls_leave_as_were_lifted(lifted):
    model = models.newtons_cradle(balls=4, lifted=lifted)
    run = model.solve(num_steps=370)
    rise = np.max(run.x[:, run.free, 2], axis=0) / model.numbers["height"]
    np.testing.assert_allclose(rise[-lifted:], 1.0, atol=1e-3)
    assert np.all(rise[lifted:-lifted] < 1e-3)  # those between do not leave, but for the order of the method
    assert np.ptp(run.energy) < 1e-8 * (run.energy[0] - np.min(run.potential))


def _spins(model, steps):
    run = model.solve(num_steps=steps)
    assert run.status.ok and np.max(np.diff(run.energy)) < 1e-5 * run.energy[0]
    return run.body("rattleback").spin[:, 2]


@pytest.mark.stress
def test_a_rattleback_turns_back_one_way_and_not_the_other():
    wrong, right = (_spins(models.rattleback(spin=s), 1000) for s in (-5.0, 5.0))
    assert wrong[0] < 0 and np.max(wrong) > 2.0  # it goes the other way, and fast
    assert np.min(right) > 4.9  # control: nothing of the kind
    plain = _spins(models.rattleback(spin=-5.0, skew=0.0), 1000)
    assert np.max(plain) < -4.9  # control: without the skew neither


def test_a_rattleback_begins_to_rock_only_when_it_is_spun_the_wrong_way():
    """What makes it turn back: the rocking grows."""
    rocks = {}
    for spin in (-5.0, 5.0):
        run = models.rattleback(spin=spin).solve(num_steps=200)
        tilt = np.arccos(np.clip(quaternions.matrix(run.body("rattleback").orientation)[:, 2, 2], -1, 1))
        rocks[spin] = np.max(tilt[100:]) / np.max(tilt[:100])
    assert rocks[-5.0] > 1.5 and rocks[5.0] < 1.0


def test_friction_keeps_the_integral_of_jellett():
    model = models.tippe_top()
    run = model.solve(num_steps=200)
    kept = jellett(run, model.numbers["radius"])
    height = (run.x[:, run.names.index("top")] - run.body("top").position)[:, 2]
    assert np.ptp(kept) < 1e-6 * abs(kept[0])  # 2e-7 through the whole inversion at this step
    assert np.ptp(run.L[:, run.names.index("top"), 2]) > 1e-3 * abs(run.L[0, 1, 2])  # control: friction does change the spin
    assert height[-1] > height[0] > -1.001 * model.numbers["offset"]  # it rises


@pytest.mark.stress
def test_a_tippe_top_turns_over():
    model = models.tippe_top()
    run = model.solve()
    height = (run.x[:, run.names.index("top")] - run.body("top").position)[:, 2] / model.numbers["offset"]
    assert height[0] < -0.9 and height[-1] > 0.9
    kept = jellett(run, model.numbers["radius"])
    assert np.ptp(kept) < 1e-6 * abs(kept[0]) and np.max(np.diff(run.energy)) < 1e-8 * run.energy[0]
    smooth = models.tippe_top(friction=0.0).solve(num_steps=1000)  # control: friction is what lifts it
    assert np.max((smooth.x[:, 1] - smooth.body("top").position)[:, 2]) < -0.9 * model.numbers["offset"]


def test_a_disk_without_losses_whirls_on():
    """It rolls: the energy stays, and the rate is that of the steady circle of a thin disc."""
    model = models.euler_disk(tilt=0.3, loss=0.0, thickness=0.0006)
    run = model.solve(num_steps=200)
    tilt, rate = whirling(run)
    steady = rate**2 * 0.0375 * np.sin(tilt) / (4 * 9.81)
    assert np.ptp(run.energy) < 3e-3 * run.energy[0]
    np.testing.assert_allclose(steady, 1.0, atol=0.05)  # a thickness of 1.6 % of the radius, which lets it sway a little


@pytest.mark.stress
def test_the_disk_ends_in_finite_time_like_the_power_two_thirds():
    from scipy.optimize import curve_fit

    run = models.euler_disk().solve()
    tilt, _ = whirling(run)
    part = (tilt > 0.05) & (tilt < 0.25)
    power = lambda t, a, end, n: np.log(a) + n * np.log(end - t)  # noqa: E731
    last = run.t[part].max()
    (_, end, exponent), _ = curve_fit(
        power, run.t[part], np.log(tilt[part]), p0=(0.3, 1.05 * last, 0.6), bounds=([0, last + 1e-6, 0], [10, 3, 3])
    )
    assert abs(exponent - 2 / 3) < 0.07  # 1/2 and 1/3, of other laws of loss, are farther away
    still = run.t[np.flatnonzero(np.any(run.v != 0, axis=(1, 2)))[-1]]
    assert abs(still - end) < 0.1 * end and np.all(run.x[-1] == run.x[-100])  # and then it lies still


# -- grains --------------------------------------------------------------------------------------------------------------


def test_a_column_of_grains_collapses():
    model = models.grain_column(3, 5)
    run = model.solve(num_steps=150)
    heights = run.x[:, run.free, 1].mean(axis=1)
    assert heights[-1] < 0.9 * heights[0]
    given = np.sum(run.mass[run.free]) * (9.81 * model.dt) ** 2 / 8  # what contacts that open may give in a step, if all do
    assert np.max(np.diff(run.energy)) < given and run.energy[-1] < 0.9 * run.energy[0]
    assert -np.min(run.deepest) < 1e-6 * model.numbers["height"]  # nothing is pressed into anything


@pytest.mark.stress
def test_a_taller_column_runs_out_farther():
    """By more than it is taller: the spread relative to the half width grows with the ratio of height and width."""
    spread = []
    for rows in (4, 8, 14):
        model = models.grain_column(6, rows)
        run = model.solve(num_steps=600)
        spread.append(runout(run) / model.numbers["half_width"])
    assert spread[0] < spread[1] < spread[2] and spread[2] > 1.5 * spread[0]


def test_a_chain_slides_over_a_peg_like_a_rope():
    model = models.chain_over_peg(left=4, right=7, bends=5)
    run = model.solve(num_steps=70)
    fall = run.x[0, run.free, 1][-1] - run.x[:, run.free, 1][:, -1]
    excess = model.numbers["excess"] + fall
    expected = model.numbers["excess"] * np.cosh(model.numbers["rate"] * run.t)
    np.testing.assert_allclose(excess, expected, rtol=2e-2)  # links are not a rope: 0.25 % for a chain of 33 links
    assert np.max(expected) > 1.5 * expected[0]
    # Links that meet the peg stop there: 0.12 % of the energy that the fall has set free. None comes back, but for what contacts
    # that open may give in a step.
    given = np.sum(run.mass[run.free]) * (9.81 * model.dt) ** 2 / 8
    assert run.energy[0] - run.energy[-1] < 5e-3 * np.max(run.kinetic) and np.max(np.diff(run.energy)) < given


def test_a_rough_peg_holds_a_chain_that_is_not_too_uneven():
    """e^(πμ) = 3.5 at μ = 0.4."""
    holds, slides = (models.chain_over_peg(left=2, right=r, bends=5, friction=0.4).solve(num_steps=40) for r in (3, 14))
    speed = [np.max(np.abs(run.v[-1])) for run in (holds, slides)]
    assert speed[0] < 1e-3 and speed[1] > 0.05
