"""Bodies that move as they are told, and what rolls and slides on them, against closed forms."""

import numpy as np
import pytest

from carom.bodies import contact_work, motions, quaternions, shapes
from carom.bodies.world import World

G = 9.81
LYING = quaternions.exponential(np.array([np.pi / 2, 0.0, 0.0]))


def _on_rollers(dim, spin, dt, seconds=0.2):
    """A plank on two rollers that turn inwards at (±½, 0): it sways as cos ωt with ω² = μg / (a − μh/2), whatever their spin. How
    far it is from that, and how far it rises or sinks."""
    friction, half, r, thick, start = 0.2, 0.5, 0.1, 0.02, 0.1
    world = World(gravity=(0, -G) if dim == 2 else (0, 0, -G))
    for side in (-1, 1):
        if dim == 2:
            world.prescribe(shapes.Disc(r), motions.Turning(side * spin), position=(side * half, -r))
        else:
            turning = motions.Turning((0, -side * spin, 0))
            world.prescribe(shapes.Cylinder(r, 1.0), turning, position=(side * half, 0, -r), orientation=LYING)
    if dim == 2:
        plank = world.add(shapes.Polygon.box(4, thick), mass=1, position=(start, thick / 2))
    else:
        plank = world.add(shapes.Box(4, 0.5, thick), mass=1, position=(start, 0, thick / 2))
    world.material(friction=friction)
    run = world.solve(dt, round(seconds / dt))
    place, rate = run.body(plank).position, np.sqrt(friction * G / (half - friction * thick / 2))
    return np.max(np.abs(place[:, 0] - start * np.cos(rate * run.t))), np.max(np.abs(place[:, -1] - thick / 2))


@pytest.mark.parametrize("spin", [30.0, 300.0])
@pytest.mark.parametrize("dim", [2, 3])
def test_a_plank_on_turning_rollers_sways_and_does_not_sink(dim, spin):
    """It sank by 85 mm, and through the faster ones, when all that touched a prescribed body was carried round by it."""
    dt = 2e-3
    wrong, rise = _on_rollers(dim, spin, dt)
    assert rise < 1e-12  # rounding over the width of the plank
    assert wrong < 0.1 * (2 * dt) ** 2  # order two: amplitude times (ωh)², ω = 2


def _on_a_turntable(dt, seconds=2.0):
    """A ball that rolls on a turntable goes round a circle at 2/7 of its spin, wherever that circle is."""
    spin, r, speed = 2.0, 0.1, 0.3
    world = World()
    world.prescribe(shapes.Box(10, 10, 0.2), motions.Turning((0, 0, spin)), position=(0, 0, -0.1))
    rolling = (-(speed - spin) / r, 0, 0)  # so that the point below moves as the table does
    ball = world.add(shapes.Sphere(r), density=1000, position=(1, 0, r), velocity=(0, speed, 0), spin=rolling)
    world.material(friction=1.0)
    run = world.solve(dt, round(seconds / dt))
    rate = 2 / 7 * spin
    x, y = 1 + speed / rate * (np.cos(rate * run.t) - 1), speed / rate * np.sin(rate * run.t)
    return np.max(np.abs(run.body(ball).position[:, :2] - np.column_stack([x, y])))


def test_a_ball_on_a_turntable_goes_round_at_two_sevenths_of_its_spin(monkeypatch):
    errors = [_on_a_turntable(dt) for dt in (0.02, 0.01)]
    assert errors[1] < 1e-5 and 1.9 < np.log2(errors[0] / errors[1]) < 2.1  # order two, by halving
    monkeypatch.setattr(contact_work, "ALIKE", 10.0)  # control: as if it rode on the table
    errors = [_on_a_turntable(dt) for dt in (0.02, 0.01)]
    assert errors[1] > 1e-3 and np.log2(errors[0] / errors[1]) < 1.1


def test_a_box_keeps_up_with_a_table_that_turns_faster_and_faster():
    """Its spin is that of the table at the end of each step, not in its middle."""
    world, speeding = World(), lambda t: np.array([np.cos(t**2), 0, 0, np.sin(t**2)])  # by an angle of 2t²: a spin of 4t
    world.prescribe(shapes.HalfSpace(), lambda t: ((0, 0, 0), speeding(t)))
    box = world.add(shapes.Box(0.2, 0.1, 0.1), density=1000, position=(0, 0, 0.05))
    world.material(friction=1.0)
    run = world.solve(1e-2, 50)
    assert np.allclose(run.body(box).spin[:, 2], 4 * run.t, atol=1e-9)  # velocities of a motion by a function are differences


@pytest.mark.parametrize("rod", [shapes.Capsule(0.05, 1.0), shapes.Cylinder(0.05, 1.0)])
@pytest.mark.parametrize(("stump", "ends"), [(shapes.Cylinder(0.3, 0.2), np.sqrt(0.08)), (shapes.Box(0.5, 0.3, 0.2), 0.25)])
def test_a_rod_that_reaches_over_what_it_lies_on_rests_on_a_line(rod, stump, ends):
    """Its centre is at x = 0.03, so that the ends of the line carry unequal shares. It had one point there, and rocked."""
    along = quaternions.exponential(np.array([0.0, np.pi / 2, 0.0]))
    world = World()
    world.fix(stump, position=(0, 0, -0.1))
    world.add(rod, mass=1, position=(0.03, 0.1, 0.05), orientation=along)
    world.material(friction=0.5)
    run = world.solve(1e-2, 40)
    assert np.array_equal(run.x[-1], run.x[0]) and np.array_equal(run.q[-1], run.q[0])
    last = run.contacts.take(np.flatnonzero(run.contacts.step == 40))
    order = np.argsort(last.point[:, 0])
    assert np.allclose(last.point[order], [(-ends, 0.1, 0), (ends, 0.1, 0)], atol=1e-12)
    share = (0.5 + 0.5 * np.array([-0.03, 0.03]) / ends) * G * 1e-2
    assert np.allclose(last.impulse[order, 2], share, rtol=1e-9)  # the certificate
