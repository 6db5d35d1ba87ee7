"""A world that cannot be run says so before it runs; runs are saved, loaded and read."""

import numpy as np
import pytest

import carom
from carom.bodies import shapes
from carom.bodies.run import WorldRun
from carom.bodies.world import World

BALL = shapes.Sphere(0.1)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({}, "needs density= or mass="),
        ({"mass": 0.0}, "must be positive"),
        ({"density": -1.0}, "must be positive"),
        ({"mass": 1.0, "density": 1.0}, "one of them"),
        ({"mass": 1.0, "position": (0, 0)}, "3 finite numbers"),
        ({"mass": 1.0, "orientation": 0.3}, "quaternion"),
        ({"mass": 1.0, "spin": "fast"}, "spin"),
        ({"mass": 1.0, "inertia": (1, 1, 5)}, "sum of the other two"),
        ({"mass": 1.0, "velocity": (0, np.nan, 0)}, "finite"),
        ({"mass": 1.0, "name": "floor"}, "already"),
    ],
)
def test_bodies_that_cannot_be_are_refused(said, says):
    world = World()
    world.fix(shapes.HalfSpace(), name="floor")
    with pytest.raises(carom.InputError, match=says):
        world.add(BALL, **said)


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda world: world.add(shapes.HalfSpace(), mass=1), "cannot move freely"),
        (lambda world: world.add(shapes.Disc(1), mass=1), "does not fit a world in space"),
        (lambda world: world.add("ball", mass=1), "needs a shape"),
        (lambda world: world.material(friction=-1), "at least 0"),
        (lambda world: world.material(restitution=1.5), "restitution"),
        (lambda world: world.force("ball", lambda speed: (0, 0, 0)), "asks for 'speed'"),
        (lambda world: world.solve(0.0, 10), "dt must be positive"),
        (lambda world: world.prescribe(BALL, 3.0), "motion"),
        (lambda world: (world.force("ball", lambda t: 1.0), world.solve(1e-2, 1)), "must return three numbers"),
        (lambda world: world.solve(1e-2, 1, path="run.zip"), "saved as"),
    ],
)
def test_what_cannot_be_is_explained(act, says):
    world = World()
    world.add(BALL, mass=1, name="ball")
    with pytest.raises(carom.InputError, match=says):
        act(world)


def test_gravity_says_the_dimension():
    assert World(gravity=(0, -1)).dim == 2
    with pytest.raises(carom.InputError, match="two numbers"):
        World(gravity=9.81)
    with pytest.raises(carom.InputError, match="no body that moves"):
        World().solve(1e-2, 1)


def test_an_overlapping_start_is_explained_and_can_be_separated():
    world = World()
    world.fix(shapes.HalfSpace(), name="floor")
    world.add(shapes.Box(1, 1, 1), density=1, position=(0, 0, 0.4), name="low")
    world.add(shapes.Box(1, 1, 1), density=1, position=(0.1, 0.05, 1.3), name="high")
    world.material(friction=0.5)
    with pytest.raises(carom.InputError, match=r"'floor' and 'low' by 0\.1.*separate"):
        world.solve(1e-3, 1)
    assert world.separate() == pytest.approx(0.1, abs=1e-12)
    run = world.solve(1e-3, 20)
    assert run.status.ok and run.deepest.min() > -1e-9


def test_a_run_is_saved_and_loaded(tmp_path):
    world = World(gravity=(0, -9.81))
    world.fix(shapes.HalfPlane(), name="floor")
    box = world.add(shapes.Polygon.box(0.2, 0.1), density=10, position=(0, 0.08), orientation=0.2, velocity=(1, 0), name="box")
    world.material(friction=0.4, restitution=0.2)
    run = world.solve(5e-3, 40, path=tmp_path / "box.npz")
    again = WorldRun.load(tmp_path / "box.npz")
    assert np.array_equal(run.x, again.x) and np.array_equal(run.energy, again.energy) and again.status == run.status
    assert np.array_equal(run.contacts.impulse, again.contacts.impulse) and again.contacts.bodies == run.contacts.bodies
    assert np.array_equal(run.body(box).orientation, again.body("box").orientation) and run.body(box).position.shape == (41, 2)
    assert "floor – box" in repr(run.contacts) and "all 40 steps" in str(run)
    with pytest.raises(carom.InputError, match="no body 'cat'"):
        run.body("cat")
    (tmp_path / "bad.npz").write_bytes(b"no")
    with pytest.raises(carom.InputError, match="cannot be read"):
        WorldRun.load(tmp_path / "bad.npz")


def test_the_contacts_of_a_resting_box_carry_its_weight():
    world = World()
    world.fix(shapes.HalfSpace())
    box = world.add(shapes.Box(0.3, 0.2, 0.1), mass=2, position=(0, 0, 0.05))
    world.material(friction=0.5)
    run = world.solve(1e-2, 5)
    last = run.contacts.of(box).take(run.contacts.of(box).step == 5)
    assert np.sum(last.impulse, axis=0) == pytest.approx([0, 0, 2 * 9.81 * 1e-2], abs=1e-14)
    assert set(last.state) <= {"stick", "open"} and len(run.residual) == 5


def test_a_body_of_several_shapes_turns_about_its_centre_of_mass():
    world = World(gravity=(0, 0, 0))
    hammer = [shapes.Box(0.1, 0.1, 1.0), shapes.Box(0.5, 0.2, 0.2).at((0, 0, 0.5))]
    body = world.add(hammer, density=10, spin=(0, 2, 0))
    track = world.solve(1e-2, 50).body(body)
    assert np.allclose(track.velocity[0], 0) and np.linalg.norm(track.center[0]) > 0.1
    straight = track.center[0] + np.linspace(0, 0.5, 51)[:, None] * track.center_velocity[0]
    assert np.allclose(track.center, straight, atol=1e-13)  # rounding
    assert np.allclose(np.linalg.norm(track.position - track.center, axis=1), np.linalg.norm(track.center[0]), atol=1e-12)


CAPSULE = shapes.Capsule(0.1, 1.0)


@pytest.mark.parametrize("kinds", [(shapes.Sphere(0.5), BALL), (CAPSULE, CAPSULE), (CAPSULE, BALL)])
def test_bodies_with_one_centre_are_moved_apart(kinds):
    """Their nearest points are one, which has no direction: it used to be none, and all positions not a number."""
    world = World(gravity=(0, 0, -9.81))
    for kind in kinds:
        world.add(kind, density=1.0)
    assert world.separate() == pytest.approx(sum(kind.radius for kind in kinds), rel=1e-9)  # the radii of both
    run = world.solve(1e-3, 2, progress=False)
    assert run.status.ok and np.all(np.isfinite(run.x))


def test_capsules_that_cross_are_moved_apart_across_both():
    world = World(gravity=(0, 0, -9.81))
    world.add(shapes.Capsule(0.1, 1.0), density=1.0)
    world.add(shapes.Capsule(0.1, 1.0), density=1.0, orientation=(np.cos(0.4), np.sin(0.4), 0, 0))
    world.separate()
    way = world.bodies[1].position - world.bodies[0].position
    assert abs(way[0]) == pytest.approx(0.2, rel=1e-8) and np.max(np.abs(way[1:])) < 1e-9
