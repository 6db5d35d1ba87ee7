"""Joints hold, keep energy and angular momentum, and are refused where they do not fit."""

import numpy as np
import pytest

import carom
from carom.bodies import motions, quaternions, shapes
from carom.bodies.world import World

STEPS, DT = 100, 1e-2


def _pair(kind, **said):
    """Two bodies that tumble in free space, joined."""
    world = World(gravity=(0, 0, 0))
    a = world.add(shapes.Box(0.2, 0.3, 0.4), density=50, position=(0, 0, 0), name="a")
    b = world.add(shapes.Box(0.3, 0.2, 0.3), density=80, position=(1, 0, 0), name="b")
    at = ((0.2, 0, 0), (0.8, 0, 0)) if kind == "distance" else (0.5, 0, 0)
    world.joint(kind, a, b, at=at, **said)
    world.force(a, lambda t: ((0, 9.0, 4.0), (0.5, 0.1, 0.3)) if t < 0.3 else ((0, 0, 0), (0, 0, 0)))
    return world, world.solve(DT, STEPS)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("ball", {}),
        ("hinge", {"axis": (0, 0, 1)}),
        ("fixed", {}),
        ("distance", {}),
        ("slider", {"axis": (1, 0, 0)}),
        ("universal", {"axis": (0, 1, 0), "second": (0, 0, 1)}),
    ],
)
def test_a_joint_between_free_bodies_does_no_work_and_no_twist(kind, said):
    _, run = _pair(kind, **said)
    coasts = run.t > 0.32
    assert run.status.ok and run.kinetic[-1] > 0.1
    assert np.ptp(run.kinetic[coasts]) < 1e-12 * run.kinetic[-1] * STEPS  # the certificate of each step
    assert np.max(np.ptp(run.angular_momentum[coasts], axis=0)) < 1e-11
    assert np.max(np.ptp(run.momentum[coasts], axis=0)) < 1e-12


@pytest.mark.parametrize(("kind", "said", "turns"), [("ball", {}, 3), ("hinge", {"axis": (0, 0, 1)}, 1), ("fixed", {}, 0)])
def test_joined_bodies_stay_together_and_turn_as_they_may(kind, said, turns):
    errors = []
    for dt in (DT, DT / 2):
        world, _ = World(gravity=(0, 0, 0)), None
        a = world.add(shapes.Box(0.2, 0.3, 0.4), density=50, position=(0, 0, 0))
        b = world.add(shapes.Box(0.3, 0.2, 0.3), density=80, position=(1, 0, 0))
        world.joint(kind, a, b, at=(0.5, 0, 0), **said)
        world.force(a, lambda t: ((0, 9.0, 4.0), (0.5, 0.1, 0.3)))
        run = world.solve(dt, round(0.5 / dt))
        R = quaternions.matrix(run.q)
        ends = run.x[:, 0] + R[:, 0] @ [0.5, 0, 0], run.x[:, 1] + R[:, 1] @ [-0.5, 0, 0]
        errors.append(np.max(np.linalg.norm(ends[1] - ends[0], axis=1)))
        between = np.swapaxes(R[-1, 0], 0, 1) @ R[-1, 1]
        free = int(np.sum(np.abs([between[2, 1], between[0, 2], between[1, 0]]) > 1e-3))
    assert free == turns
    assert errors[0] < 1e-2 and errors[0] / errors[1] > 3  # order 2: a quarter at half the step


def test_a_pendulum_swings_with_its_energy():
    world = World()
    bob = world.add(shapes.Sphere(0.1), mass=1, position=(1, 0, 0))
    world.joint("ball", bob, None, at=(0, 0, 0))
    run = world.solve(1e-2, 150)
    assert np.ptp(run.energy) < 1e-12 and run.kinetic.max() > 9  # falls by its length: 9.81 less the lag of the grid


def test_a_rope_is_slack_and_then_holds():
    world = World(gravity=(0, 0, -9.81))
    ball = world.add(shapes.Sphere(0.1), mass=1, position=(0.5, 0, 0))
    world.joint("rope", ball, None, at=((0.5, 0, 0), (0, 0, 0)), length=1.0)
    run = world.solve(4e-3, 200)
    length = np.linalg.norm(run.body(ball).position, axis=1)
    assert np.max(length) < 1 + 1e-3 and np.min(length[-50:]) > 1 - 1e-3  # order 2 of a step that moves 4 cm
    assert np.all(np.diff(run.energy) < 1e-3)
    free = run.t < 0.35  # √(1 − ½²) deep at t = 0.4202
    assert np.allclose(run.body(ball).position[free, 2], -0.5 * 9.81 * run.t[free] ** 2, atol=1e-12)


def test_a_taut_rope_stretches_by_the_order_of_the_method_only():
    longest = []
    for dt in (4e-3, 2e-3):
        world = World()
        ball = world.add(shapes.Sphere(0.1), mass=1, position=(0.5, 0, 0))
        world.joint("rope", ball, None, at=((0.5, 0, 0), (0, 0, 0)), length=1.0)
        run = world.solve(dt, round(0.8 / dt))
        longest.append(np.max(np.linalg.norm(run.body(ball).position, axis=1)) - 1)
        assert np.max(np.diff(run.energy)) < 1e-13  # rounding of 6 J
    assert 3.5 < longest[0] / longest[1] < 4.5  # order 2, though the contact is unilateral and its way a circle


def test_a_motor_turns_at_its_speed_and_a_table_shakes():
    world = World(gravity=(0.0, 0.0))
    wheel = world.add(shapes.Disc(0.3), mass=2)
    world.joint("hinge", wheel, None, at=(0, 0), speed=3.0)  # of the wheel against space
    assert np.allclose(world.solve(1e-2, 20).body(wheel).spin[1:], 3.0, atol=1e-12)
    world = World(gravity=(0.0, -10.0))
    table = world.prescribe(shapes.HalfPlane(), motions.Shaking((0, 1e-3), 5.0))
    box = world.add(shapes.Polygon.box(0.1, 0.1), mass=1, position=(0, 0.05), velocity=(0, 1e-3 * 10 * np.pi))
    run = world.solve(2e-3, 100)
    rides = run.body(box).position[:, 1] - 0.05 - run.body(table).position[:, 1]
    assert np.max(np.abs(rides)) < 1e-6  # order 2: (2π · 5 · 2e-3)² of 1e-3, and less


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"kind": "glue"}, "one of ball, hinge"),
        ({"kind": "ball"}, "needs at="),
        ({"kind": "hinge", "at": (0, 0, 0)}, "needs axis="),
        ({"kind": "hinge", "at": (0, 0, 0), "axis": (0, 0, 0)}, "must not be zero"),
        ({"kind": "ball", "at": (0, 0, 0), "speed": 1.0}, "has no motor"),
        ({"kind": "distance", "at": (0, 0, 0)}, "two points"),
        ({"kind": "ball", "at": (0, 0, 0), "b": "nobody"}, "there is no body 'nobody'"),
        ({"kind": "ball", "at": (0, 0, 0), "b": "a"}, "to itself"),
        ({"kind": "universal", "at": (0, 0, 0), "axis": (1, 0, 0), "second": (1, 1, 0)}, "right angles"),
    ],
)
def test_joints_that_do_not_fit_are_refused(said, says):
    world = World()
    world.add(shapes.Sphere(0.1), mass=1, name="a")
    with pytest.raises(carom.InputError, match=says):
        world.joint(said.pop("kind"), "a", said.pop("b", None), **said)


def test_velocities_and_lengths_that_contradict_a_joint_are_refused():
    world = World()
    a = world.add(shapes.Sphere(0.1), mass=1, position=(1, 0, 0), velocity=(1, 0, 0))
    world.joint("ball", a, None, at=(0, 0, 0))
    with pytest.raises(carom.InputError, match="contradict a joint"):
        world.solve(1e-2, 1)
    world = World()
    a = world.add(shapes.Sphere(0.1), mass=1, position=(1, 0, 0))
    world.joint("rope", a, None, at=((1, 0, 0), (0, 0, 0)), length=0.5)
    with pytest.raises(carom.InputError, match="take more rope"):
        world.solve(1e-2, 1)


def test_two_shafts_in_their_bearings_turn_by_cardans_law():
    """ω₂ = ω₁ cos β / (1 − sin²β sin²ω₁t). Two hinges, a motor and a universal joint are 15 rows on 12 velocities. They agree but
    for rounding, which is more than 1e-10 of the little that rates of joints are: the run used to end in its first steps."""
    bend, speed = 0.6, 3.0
    along = np.array([np.cos(bend), 0, np.sin(bend)])
    half, lean = np.pi / 4, np.pi / 4 - bend / 2
    world = World(gravity=(0, 0, 0))
    shaft = shapes.Cylinder(0.05, 1.0)
    first = world.add(shaft, density=100, position=(-0.5, 0, 0), orientation=(np.cos(half), 0, np.sin(half), 0), spin=(speed, 0, 0))
    turn = (np.cos(lean), 0, np.sin(lean), 0)
    second = world.add(shaft, density=100, position=0.5 * along, orientation=turn, spin=speed * np.cos(bend) * along)
    world.joint("hinge", first, None, at=(-0.5, 0, 0), axis=(1, 0, 0), speed=speed)
    world.joint("hinge", second, None, at=0.5 * along, axis=along)
    world.joint("universal", first, second, at=(0, 0, 0), axis=(0, 1, 0), second=np.cross(along, (0, 1, 0)))
    run = world.solve(2e-3, 300, progress=False)
    assert run.status.ok
    found = run.body(second).spin @ along
    law = speed * np.cos(bend) / (1 - np.sin(bend) ** 2 * np.sin(speed * run.t) ** 2)
    # u is that of the middle of a step, where it is told for the end: ω̇ h/2 < 3e-3; that the two ends of the law are met says more
    assert np.max(np.abs(found - law)) < 5e-3
    assert abs(np.max(found) - speed / np.cos(bend)) < 1e-4 and abs(np.min(found) - speed * np.cos(bend)) < 1e-4  # order 2: 2e-5
