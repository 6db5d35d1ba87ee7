"""Ground made of many pieces is one ground: what lies between the pieces stops nobody, and nothing falls through."""

import numpy as np
import pytest

from carom import World, shapes
from carom.bodies.detection import detect as detection

G = 9.81


def _field():
    return [shapes.HeightField(np.zeros((10, 5)), 0.5).at((-0.25, -1, 0))]


def _mesh():
    points = [(-1, -1, 0), (2, -1, 0), (4, -1, 0), (4, 1, 0), (2, 1, 0), (-1, 1, 0), (1, 0.1, 0)]
    return [shapes.TriangleMesh(points, np.array([[0, 1, 6], [1, 4, 6], [4, 5, 6], [5, 0, 6], [1, 2, 3], [1, 3, 4]]))]


def _tiles():
    return [shapes.Box(0.5, 2, 0.2).at((-0.25 + 0.5 * i, 0, -0.1)) for i in range(8)]


GROUNDS = {"field": _field, "mesh": _mesh, "tiles": _tiles}


def _run(ground, shape, height, speed, steps=220, **material):
    world = World(gravity=(0, 0, -G))
    world.fix(ground())
    world.add(shape, density=1000, position=(0, 0.013, height), velocity=(speed, 0, 0))
    world.material(**material)
    return world.solve(4e-3, steps, progress=False)


@pytest.mark.parametrize("ground", GROUNDS)
def test_a_box_slides_over_the_edges_of_flat_ground(ground, monkeypatch):
    """It stops after v²/2μg = 1.63 m. It used to trip, turn over, and lie half a metre or more short of that."""
    run = _run(GROUNDS[ground], shapes.Box(0.1, 0.1, 0.1), 0.05, 4.0, friction=0.5)
    assert abs(run.x[-1, 1, 0] - 16 / 2 / 0.5 / G) < 1e-5  # μgh²/8: it stops within a step, in whose middle forces act
    wrong = np.max(run.residual) * 4.0 * np.sqrt(12)  # rates that the certificates allow: E of 4 m/s at four corners
    assert np.ptp(run.x[:, 1, 2]) < 1e-11  # rounding of 220 steps, over the size
    assert np.max(np.abs(run.q[-1, 1, 1:])) < 0.5 * wrong / 0.05 * run.t[-1]  # as a spin about its middle, for all the time
    assert np.max(run.residual) < 1e-10
    monkeypatch.setattr(detection, "neighbours", lambda placement: {})
    trips = _run(GROUNDS[ground], shapes.Box(0.1, 0.1, 0.1), 0.05, 4.0, friction=0.5)
    assert abs(trips.x[-1, 1, 0] - 16 / 2 / 0.5 / G) > 1e-2  # control


@pytest.mark.parametrize("ground", GROUNDS)
def test_a_ball_rolls_over_them_at_five_sevenths(ground):
    run = _run(GROUNDS[ground], shapes.Sphere(0.05), 0.05, 2.0, friction=0.5)
    assert abs(run.v[-1, 1, 0] - 10 / 7) < 1e-12 and np.ptp(run.x[:, 1, 2]) < 1e-14  # rounding


def test_tiles_that_are_bodies_of_their_own_and_tiles_of_the_plane():
    world = World(gravity=(0, 0, -G))
    for i in range(4):
        world.fix(shapes.Box(0.5, 2, 0.2), position=(-0.25 + 0.5 * i, 0, -0.1))
    box = world.add(shapes.Box(0.1, 0.1, 0.1), density=1000, position=(0, 0, 0.05), velocity=(2, 0, 0))
    world.material(friction=0.5)
    assert abs(world.solve(2e-3, 220, progress=False).body(box).position[-1, 0] - 4 / G) < 1e-5  # as above
    flat = World(gravity=(0, -G))
    flat.fix([shapes.Polygon.box(0.5, 0.2).at((-0.25 + 0.5 * i, -0.1)) for i in range(4)])
    box = flat.add(shapes.Polygon.box(0.1, 0.1), density=1000, position=(0, 0.05), velocity=(2, 0))
    flat.material(friction=0.5)
    assert abs(flat.solve(2e-3, 220, progress=False).body(box).position[-1, 0] - 4 / G) < 1e-5


@pytest.mark.parametrize("shape", [shapes.Box(0.1, 0.1, 0.1), shapes.Sphere(0.05)])
def test_a_wall_that_stands_on_the_floor_holds(shape):
    """The lower points of contact lie on the floor, a piece of the same body that reaches beyond them: they count all the same."""
    corner = [shapes.Box(4, 2, 0.2).at((0, 0, -0.1)), shapes.Box(0.2, 2, 1).at((1, 0, 0.5))]
    run = _run(lambda: corner, shape, 0.05, 4.0)
    assert np.max(np.abs(run.x[-1, 1] - [0.85, 0.013, 0.05])) < 1e-9 and not np.any(np.abs(run.v[-1]) > 1e-12)


def test_a_foot_that_slides_into_the_corner_meets_the_wall():
    world = World(gravity=(0, -G))
    world.fix([shapes.Polygon.box(4, 0.2).at((0, -0.1)), shapes.Polygon.box(0.2, 1).at((1, 0.5))])
    lean = 0.4
    height = 0.5 * (0.6 * np.cos(lean) + 0.1 * np.sin(lean))
    world.add(shapes.Polygon.box(0.1, 0.6), density=1, position=(0.4, height), orientation=-lean, velocity=(3, 0))
    run = world.solve(1e-3, 400, progress=False)
    angle = 2 * np.arctan2(run.q[:, 1, 3], run.q[:, 1, 0])
    reach = run.x[:, 1, 0] + 0.05 * np.abs(np.cos(angle)) + 0.3 * np.abs(np.sin(angle))
    assert 0.899 < np.max(reach) < 0.9 + 1e-6  # the wall, and the order of the method: r(ωh/2)²/2 with ω = 5


def test_nothing_falls_through_rough_ground():
    rng = np.random.default_rng(0)
    heights = 0.15 * rng.normal(size=(9, 9))
    for restitution in (0.0, 1.0):
        world = World(gravity=(0, 0, -G))
        world.fix(shapes.HeightField(heights, 0.25).at((-1, -1, 0)))
        kinds = [shapes.Sphere(0.06), shapes.Box(0.1, 0.08, 0.12), shapes.Capsule(0.04, 0.1)]
        for i, kind in enumerate(kinds):
            place = (*rng.uniform(-0.6, 0.6, 2), 0.8 + 0.3 * i)
            world.add(kind, density=1000, position=place, velocity=3 * rng.normal(size=3), spin=10 * rng.normal(size=3))
        world.material(friction=0.4, restitution=restitution)
        run = world.solve(2e-3, 200, progress=False)
        over = np.all(np.abs(run.x[:, 1:, :2]) < 0.9, axis=2)
        assert run.status.ok and np.all(run.x[:, 1:, 2][over] > np.min(heights))
        assert np.min(run.deepest) > -1e-3 and np.all(run.energy <= run.energy[0] * (1 + 1e-12))  # r(ωh/2)²/2 is 1e-5; rounding
