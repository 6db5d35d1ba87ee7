"""A run that ended well and should not be believed says so; one that can be believed says nothing."""

import re

import numpy as np
import pytest

import carom
from carom.results.caveats import _belts

FREE = lambda v: 0.5 * v @ v  # noqa: E731


def test_a_peg_that_was_passed_between_two_steps_is_told():
    peg = carom.Contact(lambda q: (q[0] ** 2 + q[1] ** 2) ** 0.5 - 0.03, name="peg")
    system = carom.System(FREE, [peg])
    run = carom.solve(system, carom.MoreauJean(), [-1.01, 0.012], [1.0, 0.0], dt=0.04, num_steps=60)
    assert run.status.ok and run.smallest_gap.min() < -0.01 and len(run.impacts) == 0  # the case that was silent
    (told,) = run.caveats
    assert "'peg' was passed through" in told and "nothing pushed" in told
    assert run.summary()["caveats"] == [told] and run.status.caveats == (told,)  # in the summary, and in the status
    assert told in str(run.status) and "was passed through" in run.status._repr_html_() and "#c4502d" in run.status._repr_html_()
    fine = carom.solve(system, carom.MoreauJean(), [-1.01, 0.012], [1.0, 0.0], dt=0.004, num_steps=600)
    assert fine.caveats == () and len(fine.impacts) == 1  # control
    assert str(fine.status) == fine.status.message and fine.status.caveats == ()


def test_steps_beyond_stability_are_told():
    spring = carom.System(lambda q, v: 0.5 * v @ v - 0.5 * 100.0 * q @ q)
    run = carom.solve(spring, carom.VariationalCollision(carom.Trapezoidal()), [1.0], [0.0], dt=0.21, num_steps=100)
    assert run.status.ok and np.abs(run.q).max() > 1e6
    grown, first = re.search(r"the energy grew by (\S+) of itself .* first at t = (\S+):", run.caveats[0]).groups()
    assert float(grown) > 1e12 and float(first) < 2.0  # |q| > 1e6: its square; and it began early
    fine = carom.solve(spring, carom.VariationalCollision(carom.Trapezoidal()), [1.0], [0.0], dt=0.05, num_steps=100)
    assert fine.caveats == ()


def test_energy_that_grows_after_losses_is_told():
    """The first impact takes nearly all of it. Then a spring that the steps do not resolve feeds the rest, which stays far below
    what there was at the start for as long as the run lasts. The control takes shorter steps."""
    wall = carom.Contact(lambda q: q[0], 0.0, name="wall")
    stiff = carom.System(lambda q, v: 0.5 * v @ v - 0.5 * 100.0 * q[1] ** 2, [wall])
    start = [0.1, 0.001], [-1000.0, 0.0]
    method = carom.VariationalCollision(carom.Trapezoidal())
    run = carom.solve(stiff, method, *start, dt=0.201, num_steps=40)
    assert run.status.ok and run.energy.max() == run.energy[0] and run.energy[-1] > 1e5 * run.energy[1]
    (told,) = run.caveats
    assert "in free flight, after t = 0.201, with no force to feed it" in told and "Take a smaller dt" in told
    assert carom.solve(stiff, method, *start, dt=0.01, num_steps=800).caveats == ()


def test_energy_that_has_a_source_is_no_caveat():
    pushed = carom.System(FREE, force=lambda q: np.ones(1))
    assert carom.solve(pushed, carom.VariationalCollision(), [0.0], [0.1], dt=0.1, num_steps=20).caveats == ()


def test_resting_contacts_and_impacts_are_no_caveat():
    for run in (carom.models.zeno_ball().solve(carom.TimeDG(1)), carom.models.block().solve(carom.MoreauJean())):
        assert run.caveats == ()


def test_what_is_preserved_depends_on_the_system():
    def declared(method, contact):
        return carom.solve(carom.System(FREE, [contact]), method, [1.0], [-1.0], dt=0.1, num_steps=2).preserved

    elastic, lossy = carom.Contact(lambda q: q[0]), carom.Contact(lambda q: q[0], 0.5)
    assert "symplectic" in declared(carom.VariationalCollision(), elastic)
    assert "symplectic" not in declared(carom.VariationalCollision(), lossy)
    assert "symplectic" not in declared(carom.VariationalCollision(elastic="reflection"), elastic)
    assert "non-penetration" not in declared(carom.MoreauJean(), elastic)


def test_a_peg_between_two_points_of_the_grid_is_told():
    """No gap is negative on the grid, nor halfway, where MoreauJean looks: the body is 0.0075 before the peg and behind it."""
    peg = carom.Contact(lambda q: ((q[0] - 0.5) ** 2 + (q[1] - 0.5) ** 2) ** 0.5 - 0.005, name="peg")
    system = carom.System(FREE, [peg])
    for method in (carom.MoreauJean(), carom.TimeDG(1, "-")):
        run = carom.solve(system, method, [0.0125, 0.5], [3.0, 0.0], dt=0.01, num_steps=40)
        assert run.smallest_gap.min() > 0.002 and len(run.impacts) == 0
        (told,) = run.caveats
        assert "'peg' was passed through within a step: its gap is -0.00" in told and "after t = 0.16" in told
    beside = carom.solve(system, carom.MoreauJean(), [0.0125, 0.5051], [3.0, 0.0], dt=0.01, num_steps=40)
    assert beside.caveats == ()  # control: 1e-4 beside it


@pytest.mark.parametrize("start", [-1.0, np.nextafter(-1.0, 0.0), -1.0 + 1e-9, -1.0 - 1e-9])
def test_a_peg_that_is_touched_at_a_point_of_the_grid_and_passed_is_told(start):
    """After 33 steps of 0.03 the body is at the rim of the peg, to rounding or 1e-9 beside it, and after one more behind it."""
    system = carom.System(FREE, [carom.Contact(lambda q: (q[0] ** 2 + q[1] ** 2) ** 0.5 - 0.01, name="peg")])
    run = carom.solve(system, carom.MoreauJean(), [start, 0.0], [3.0, 0.0], dt=0.01, num_steps=40)
    assert abs(run.gaps[33, 0]) < 2e-9 and run.gaps[34, 0] > 0.009
    assert len(run.impacts) or ["'peg' was passed through" in told for told in run.caveats] == [True]
    beside = carom.solve(system, carom.MoreauJean(), [-0.99, 0.01], [3.0, 0.0], dt=0.01, num_steps=40)  # control: touches its top
    assert abs(beside.gaps.min()) < 1e-15 and beside.caveats == ()


def test_a_way_that_is_bent_around_an_obstacle_did_not_pass_through_it():
    """On a circle around a disc, 1e-4 away, with steps whose chords cut it by 1.2e-3: control of what counts as passed."""
    disc = carom.Contact(lambda q: (q[0] ** 2 + q[1] ** 2) ** 0.5 - 0.9999, name="disc")
    system = carom.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q, [disc])
    run = carom.solve(system, carom.TimeDG(2, "-"), [1.0, 0.0], [0.0, 1.0], dt=0.1, num_steps=30)
    assert len(run.impacts) == 0 and run.caveats == ()


def test_energies_beyond_all_numbers_and_masses_that_vanish_are_told():
    stiff = carom.System(lambda q, v: 0.5 * v @ v - 0.5 * 1e5 * q @ q)
    run = carom.solve(stiff, carom.VariationalCollision(carom.Trapezoidal()), [1.0], [0.0], dt=0.01, num_steps=200)
    assert run.status.ok and not np.isfinite(run.energy).all()
    assert re.search(r"the energy (is beyond all numbers|grew)", run.caveats[0])
    fading = carom.System(lambda q, v: 0.5 * (1 - q[0]) * v @ v)  # t = ⅔ (1 − (1 − q)^(3/2)): it ends at t = ⅔
    run = carom.solve(fading, carom.Variational(carom.Midpoint()), [0.0], [1.0], dt=0.01, num_steps=300, throw=False)
    assert not run.status.ok or any("the kinetic energy is negative" in told for told in run.caveats)
    before = carom.solve(fading, carom.Variational(carom.Midpoint()), [0.0], [1.0], dt=0.01, num_steps=60)
    assert before.caveats == ()


def test_a_contact_that_is_closed_all_the_time_was_not_passed_through():
    """Its gap is rounding, and nothing pushes: a body that floats beside a wall, 5e-17 inside of it."""
    wall = carom.Contact(lambda q: q[0] - 0.3, name="wall")
    run = carom.solve(carom.System(FREE, [wall]), carom.MoreauJean(), [np.nextafter(0.3, 0), 0.0], [0.0, 1.0], dt=0.1, num_steps=10)
    assert -1e-16 < run.gaps.min() < 0 and len(run.impacts) == 0 and run.caveats == ()


def test_a_foot_that_was_lifted_by_another_one_was_not_passed_through():
    """Both feet of a heavy beam are in the floor after a step. One throws it back, so the other has nothing to push. The control
    is a peg that was passed while a floor that has nothing to do with it pushed."""
    hard = carom.Contact(lambda q: q[0] + 0.5 * q[1], 1.0, name="hard")
    soft = carom.Contact(lambda q: q[0] - 0.5 * q[1], 0.0, name="soft")
    beam = carom.System(lambda v: 0.5 * v[0] ** 2 + 50.0 * v[1] ** 2, [hard, soft])
    run = carom.solve(beam, carom.MoreauJean(0.5), [0.025, 0.0], [-1.0, 0.0], dt=0.04, num_steps=5)
    assert run.gaps[1].max() < -0.01 and run.impacts.impulses[:, 1].max() == 0 < run.impacts.impulses[:, 0].max()
    assert run.gaps[-1].min() > 0 and run.caveats == ()
    floor, peg = carom.Contact(lambda q: q[0], name="floor"), carom.Contact(lambda q: (q[1] ** 2) ** 0.5 - 0.012, name="peg")
    two = carom.System(FREE, [floor, peg])
    run = carom.solve(two, carom.MoreauJean(0.5), [0.025, 0.035], [-1.0, -1.0], dt=0.04, num_steps=5)
    assert run.impacts.impulses[:, 0].max() > 0 and "'peg' was passed through: its gap is -0.007" in run.caveats[0]


def test_lanes_whose_energy_grew_are_told():
    stiff = carom.System(lambda q, v: 0.5 * v @ v - 0.5e4 * q @ q)
    method, start = carom.Variational(carom.Left()), ([[1.0, 0.0], [0.5, 0.0]], [0.0, 0.0])
    many = carom.ensemble(stiff, method, *start, dt=0.05, num_steps=100, progress=False)
    assert "all ok, but the energy of 2 lanes grew: see .caveats" in repr(many)
    assert "lane 0: the energy grew by" in many.caveats[0] and many.summary()["caveats"] == list(many.caveats)
    good = carom.ensemble(stiff, method, *start, dt=0.001, num_steps=100, progress=False)  # the control
    assert good.caveats == () and repr(good).endswith("all ok")


def test_a_block_that_slides_from_the_origin_has_no_gap_but_rounding():
    """Its gap was -1e-57, and nothing was larger: the coordinate along the floor says what rounding is."""
    floor = carom.Contact(lambda q: q[1], 0.0, friction=0.2, slip=lambda v: v[0], name="floor")
    block = carom.System(lambda q, v: 0.5 * v @ v - 9.81 * q[1], [floor])
    run = carom.solve(block, carom.TimeDG(1, "-"), [0.0, 0.0], [2.0, 0.0], dt=0.001, num_steps=20)
    assert run.caveats == () and run.gaps.min() > -1e-15  # the control: told of a block that is deep, in the tests above


def _belt(slip):
    """A mass on a spring, on a belt that runs at 0.5: it sticks, is carried along and slips back."""
    contact = carom.Contact(lambda q: q[1], friction=0.3, slip=slip, name="belt")
    system = carom.System(lambda q, v: 0.5 * v @ v - 0.5 * q[0] ** 2 - 10 * q[1], [contact])
    return carom.solve(system, carom.TimeDG(1, "-"), [0.0, 0.0], [0.5, 0.0], dt=0.005, num_steps=1000, params={})


def test_a_belt_feeds_energy():
    """Friction against something that moves: no step is too long for that."""
    run = _belt(lambda v: v[0] - 0.5)
    assert run.energy[-1] > 10 * run.energy[0] and run.caveats == ()
    assert abs(run.q[-1, 0] - 2.5) < 1e-9  # carried for five seconds, exactly
    assert _belt(lambda v, t: v[0] - 0.5 * t).caveats == ()


def test_control_a_floor_at_rest_feeds_none():
    run = _belt(lambda v: v[0])
    assert run.caveats == () and run.energy[-1] < run.energy[0]
    assert not _belts(run) and _belts(_belt(lambda v: v[0] - 0.5))
