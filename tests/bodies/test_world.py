"""Scenes whose answers are known exactly, in space and in the plane."""

import numpy as np
import pytest

from carom.bodies import motions, quaternions, shapes
from carom.bodies.detection import within
from carom.bodies.world import World

G = 9.81


def _world(dim, gravity=G, tilt=0.0):
    """A floor under gravity; a tilted floor is a tilted gravity."""
    down = gravity * np.array([np.sin(tilt), *[0.0] * (dim - 2), -np.cos(tilt)])
    world = World(gravity=down)
    world.fix(shapes.HalfSpace() if dim == 3 else shapes.HalfPlane(), name="floor")
    return world


def _box(dim, x, z):
    return shapes.Box(x, x, z) if dim == 3 else shapes.Polygon.box(x, z)


def _at(dim, x, z):
    return (x, 0, z) if dim == 3 else (x, z)


@pytest.mark.parametrize("dim", [2, 3])
def test_a_sliding_cube_stops_where_it_must_and_never_tips(dim):
    world = _world(dim)
    cube = world.add(_box(dim, 0.1, 0.1), density=1000, position=_at(dim, 0, 0.05), velocity=_at(dim, 6, 0))
    world.material(friction=0.5)
    dt = 1e-2
    run = world.solve(dt, 130)
    track = run.body(cube)
    stop = 6 / (0.5 * G)
    still = run.t[np.flatnonzero(np.all(track.velocity == 0, axis=1))[0]]
    assert run.status.ok and 0 <= still - stop <= dt  # the grid
    assert track.position[-1, 0] == pytest.approx(6 * stop / 2, abs=0.5 * G * 0.5 * dt**2)  # the part of a step in which it stops
    assert np.max(np.abs(track.position[:, -1] - 0.05)) < 1e-12  # never tips: rounding
    before = run.t < stop - dt
    exact = 6 * run.t - 0.25 * G * run.t**2
    assert np.max(np.abs(track.position[:, 0] - exact)[before]) < 1e-12  # constant forces are exact


def test_a_ball_comes_to_roll_at_five_sevenths():
    world = _world(3)
    ball = world.add(shapes.Sphere(0.1), mass=1, position=(0, 0, 0.1), velocity=(2, 0, 0))
    world.material(friction=0.3)
    track = world.solve(5e-3, 60).body(ball)
    assert track.velocity[-1, 0] == pytest.approx(10 / 7, abs=1e-12)
    assert track.spin[-1, 1] * 0.1 == pytest.approx(10 / 7, abs=1e-12)  # rolls


def test_backspin_brings_a_ball_back():
    world = _world(3)
    ball = world.add(shapes.Sphere(0.25), mass=1, position=(0, 0, 0.25), velocity=(4, 0, 0), spin=(0, -200, 0))
    world.material(friction=0.5)
    dt = 2e-2
    run = world.solve(dt, 160)
    track = run.body(ball)
    slip = np.abs(track.velocity[:, 0] - 0.25 * track.spin[:, 1])
    rolls = run.t[np.flatnonzero(slip < 1e-9)[0]]
    assert 0 <= rolls - 3.145478 <= dt
    assert track.velocity[-1, 0] == pytest.approx(-80 / 7, abs=1e-10)


@pytest.mark.parametrize("dim", [2, 3])
def test_a_box_on_an_incline_holds_up_to_the_angle_of_friction(dim):
    tilt = 0.3

    def moved(friction):
        world = _world(dim, tilt=tilt)
        box = world.add(_box(dim, 0.3, 0.1), mass=1, position=_at(dim, 0, 0.05))
        world.material(friction=friction)
        return np.max(np.abs(world.solve(1e-2, 20).body(box).position - np.array(_at(dim, 0, 0.05))))

    assert moved(np.tan(tilt) + 1e-6) == 0.0
    slides = 0.5 * G * np.cos(tilt) * 1e-6 * 0.2**2
    assert moved(np.tan(tilt) - 1e-6) == pytest.approx(slides, rel=0.1)  # a start that lags by half a step, of twenty


@pytest.mark.parametrize("dim", [2, 3])
def test_a_tall_box_tips_where_its_weight_leaves_its_base(dim):
    def lifted(slope):
        world = _world(dim, tilt=np.arctan(slope))
        box = world.add(_box(dim, 0.3, 0.6), mass=1, position=_at(dim, 0, 0.3))
        world.material(friction=1.0)
        run = world.solve(1e-2, 100)
        return np.max(np.abs(run.body(box).position - np.array(_at(dim, 0, 0.3))))

    assert lifted(0.5 - 1e-6) == 0.0
    assert lifted(0.5 + 1e-6) > 1e-6


def test_a_turntable_carries_a_box_iff_friction_suffices():
    def outwards(factor):
        world = World()
        speed = factor * np.sqrt(0.5 * G)
        world.prescribe(shapes.HalfSpace(), motions.Turning((0, 0, speed)))
        box = world.add(shapes.Box(0.1, 0.1, 0.1), mass=1, position=(1, 0, 0.05), velocity=(0, speed, 0), spin=(0, 0, speed))
        world.material(friction=0.5)
        track = world.solve(2e-3, 30).body(box)
        return np.max(np.abs(np.hypot(track.position[:, 0], track.position[:, 1]) - 1))

    assert outwards(1 - 1e-3) < 1e-9
    assert outwards(1 + 1e-3) > 1e-6


def test_a_mass_on_a_spring_turns_and_sticks_where_it_must():
    world = _world(2, gravity=10)
    box = world.add(shapes.Polygon.box(0.1, 0.1), mass=1, position=(8.5e-4, 0.05))
    world.material(friction=0.1)
    world.spring(box, None, 1e4, at=((8.5e-4, 0.05), (-10, 0.05)), length=10.0)
    run = world.solve(4e-4, 400)
    x = run.body(box).position[:, 0]
    for n, turn in enumerate([-6.5e-4, 4.5e-4, -2.5e-4, 0.5e-4], start=1):
        assert np.interp(n * np.pi / 100, run.t, x) == pytest.approx(turn, abs=3e-7)  # order 2: (ωh)² of 8.5e-4
    assert np.all(x[run.t > 0.128] == x[-1])


@pytest.mark.parametrize("dim", [2, 3])
def test_a_stack_of_ten_rests_exactly(dim):
    world = _world(dim)
    boxes = [world.add(_box(dim, 0.1, 0.1), density=1000, position=_at(dim, 0.003 * (i % 2), 0.05 + 0.1 * i)) for i in range(10)]
    world.material(friction=0.5)
    run = world.solve(1e-3, 1000)
    assert np.max(np.abs(run.x - run.x[0])) == 0.0 and np.max(np.abs(run.q - run.q[0])) == 0.0
    assert run.residual.max() < 1e-12 and len(boxes) == 10


def test_control_a_stack_whose_top_leans_over_falls():
    world = _world(2)
    for i, x in enumerate([0.0, 0.0, 0.051]):
        world.add(shapes.Polygon.box(0.1, 0.1), density=1000, position=(x, 0.05 + 0.1 * i))
    world.material(friction=0.5)
    run = world.solve(5e-3, 60)
    assert np.max(np.abs(run.x - run.x[0])) > 1e-3


def test_a_dropped_stack_comes_to_rest_exactly():
    world = _world(2)
    for i in range(3):
        world.add(shapes.Polygon.box(0.1, 0.1), density=1000, position=(0.002 * i, 0.06 + 0.11 * i))
    world.material(friction=0.5)
    run = world.solve(4e-3, 120)
    assert np.all(run.v[-1] == 0) and np.all(run.x[-1] == run.x[-20])
    assert -run.deepest.min() < 1e-9


def test_an_elastic_ball_keeps_its_energy():
    world = _world(3)
    world.add(shapes.Sphere(0.1), mass=1, position=(0, 0, 1))
    world.material(restitution=1.0)
    run = world.solve(5e-3, 400)
    assert np.sum(run.contacts.impact) >= 2
    assert np.ptp(run.energy) < 400 * 4e-16 * run.energy[0]  # rounding of the steps


def test_restitution_is_the_ratio_of_speeds():
    world = _world(3, gravity=0.0)
    ball = world.add(shapes.Sphere(0.1), mass=1, position=(0, 0, 0.5), velocity=(0, 0, -2))
    world.material(restitution=0.7)
    assert world.solve(1e-2, 40).body(ball).velocity[-1, 2] == pytest.approx(1.4, abs=1e-14)


def test_touching_balls_pass_an_impulse_on():
    """Newton's cradle: of five elastic balls that touch, only the last one leaves."""
    world = World(gravity=(0, 0, 0))
    row = [world.add(shapes.Sphere(0.05), mass=1, position=(0.1 * i, 0, 0)) for i in range(5)]
    first = world.add(shapes.Sphere(0.05), mass=1, position=(-0.3, 0, 0), velocity=(1, 0, 0))
    world.material(restitution=1.0)
    run = world.solve(1e-2, 60)
    speeds = [run.body(ball).velocity[-1, 0] for ball in (first, *row)]
    assert speeds == pytest.approx([0, 0, 0, 0, 0, 1], abs=1e-14)


def test_control_without_restitution_they_go_on_together():
    world = World(gravity=(0, 0, 0))
    row = [world.add(shapes.Sphere(0.05), mass=1, position=(0.1 * i, 0, 0)) for i in range(2)]
    world.add(shapes.Sphere(0.05), mass=1, position=(-0.3, 0, 0), velocity=(1, 0, 0))
    run = world.solve(1e-2, 60)
    assert [run.body(ball).velocity[-1, 0] for ball in row] == pytest.approx([1 / 3, 1 / 3], abs=1e-14)


def _collide(dim, elastic):
    world = World(gravity=[0.0] * dim)
    rng = np.random.default_rng(1)
    turn = quaternions.normalise(rng.normal(size=(2, 4))) if dim == 3 else [0.3, 1.0]
    spin = rng.normal(size=(2, 3)) if dim == 3 else [0.7, -0.4]
    world.add(
        _box(dim, 0.4, 0.7), density=3, position=_at(dim, -1, 0.1), velocity=_at(dim, 3, 0.2), orientation=turn[0], spin=spin[0]
    )
    world.add(
        _box(dim, 0.5, 0.3), density=2, position=_at(dim, 1, 0), velocity=_at(dim, -1, 0.1), orientation=turn[1], spin=spin[1]
    )
    world.material(friction=0.4, restitution=1.0 if elastic else 0.2)
    return world.solve(5e-3, 160)


@pytest.mark.parametrize("dim", [2, 3])
def test_two_free_bodies_that_collide_keep_momentum_and_angular_momentum(dim):
    run = _collide(dim, elastic=False)
    assert len(run.contacts) >= 1 and np.ptp(run.kinetic) > 0.1
    rounding = 160 * 4e-16 * np.max(np.linalg.norm(run.v, axis=2)) * np.max(run.mass)
    assert np.max(np.ptp(run.momentum, axis=0)) < rounding
    assert np.max(np.ptp(run.angular_momentum, axis=0)) < 10 * rounding  # and the rounding of positions
    assert np.max(np.diff(run.energy)) < rounding  # nothing adds energy


def test_control_an_impulse_at_two_points_does_not_keep_angular_momentum():
    """What a contact does if its two bodies feel it where their surfaces are, and these are apart across the normal."""
    impulse, a, b = np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.0, 0.0]), np.array([1e-3, 0.0, 0.0])
    assert np.max(np.abs(np.cross(b, impulse) - np.cross(a, impulse))) > 1e-4


def test_a_free_body_keeps_energy_and_angular_momentum_to_rounding():
    world = World(gravity=(0, 0, 0))
    world.add(shapes.Box(0.2, 0.5, 1.0), density=10, spin=(0.1, 3, 0.2))
    run = world.solve(2e-2, 300)
    assert np.max(np.ptp(run.angular_momentum, axis=0)) < 1e-13 and np.ptp(run.energy) < 300 * 4e-16 * run.energy[0]
    turned = quaternions.matrix(run.q[:, 0])[:, 1, 1]
    assert np.min(turned) < -0.9  # the axis of middle inertia turns over: it did move


@pytest.mark.parametrize("obstacle", ["half-space", "plate", "box", "mesh"])
def test_nothing_passes_through_a_thin_thing_at_any_speed(obstacle):
    world = World(gravity=(0, 0, 0))
    shape = {
        "half-space": shapes.HalfSpace(),
        "plate": shapes.Plate((0, 0, 1), 1e-3),
        "box": shapes.Box(4, 4, 1e-3),
        "mesh": shapes.TriangleMesh([(-9, -9, 0), (9, -9, 0), (0, 9, 0)], [(0, 1, 2)]),
    }[obstacle]
    world.fix(shape)
    ball = world.add(shapes.Sphere(0.01), mass=1, position=(0.1, 0.2, 3.0), velocity=(10, 0, -1000.0))
    track = world.solve(1e-2, 5).body(ball)
    assert np.all(track.position[:, 2] > 0.0099)


def _lowest(shape, obstacle, throws=6):
    """How low the centres of bodies get that are thrown at a thin thing in any position, ten of their lengths a step."""
    rng, lowest = np.random.default_rng(14), np.inf
    for _ in range(throws):
        world = World(gravity=(0, 0, 0))
        world.fix(obstacle)
        world.material(friction=0.3)
        turn = quaternions.normalise(rng.normal(size=4))
        thrown = world.add(shape, mass=1, position=(0, 0, 0.5), velocity=(0, 0, -30), orientation=turn)
        run = world.solve(1e-2, 5)
        assert run.status.ok
        lowest = min(lowest, float(np.min(run.body(thrown).center[:, 2])))
    return lowest


@pytest.mark.parametrize("obstacle", [shapes.Plate((0, 0, 1), 1e-6), shapes.Box(4, 4, 1e-5)], ids=["plate", "box"])
def test_ellipsoids_do_not_pass_through_a_thin_thing_either(obstacle, monkeypatch):
    """They meet it in one point beside their centre, which may go on: a third of them were thrown through."""
    thrown = shapes.Ellipsoid(0.01, 0.02, 0.005)
    assert _lowest(thrown, obstacle) > 0
    monkeypatch.setattr(shapes.Ellipsoid, "inner", np.inf)  # control: without the ball inside
    assert _lowest(thrown, obstacle) < -0.1


SHEET = shapes.TriangleMesh([(-9, -9, 0), (9, -9, 0), (0, 9, 0)], [(0, 1, 2)])
LEAF = shapes.Box(0.03, 0.01, 0.002)
STONE = shapes.ConvexPolyhedron(0.01 * np.random.default_rng(0).normal(size=(12, 3)))  # its corners are not about its centre


@pytest.mark.parametrize(
    ("thrown", "obstacle"),
    [(LEAF, shapes.Cylinder(4, 1e-3)), (STONE, shapes.Box(4, 4, 1e-3)), (STONE, SHEET)],
    ids=["leaf at a disk", "stone at a box", "stone at a mesh"],
)
def test_what_hits_a_thin_thing_with_a_corner_does_not_turn_through_it(thrown, obstacle, monkeypatch):
    """One in ten to one in three were on the other side after the step in which they hit."""
    assert _lowest(thrown, obstacle, 10) > 0
    monkeypatch.setattr(within, "_depth", lambda group, point: np.zeros(len(point)))  # control: without the ball inside
    assert _lowest(thrown, obstacle, 10) < -0.01


def test_control_without_looking_ahead_it_does(monkeypatch):
    from carom.bodies import stepping

    monkeypatch.setattr(stepping, "HORIZON", 0.0)
    monkeypatch.setattr(stepping.Stepper, "_impacts", lambda self, state, t, h, record: state)
    world = World(gravity=(0, 0, 0))
    world.fix(shapes.Box(4, 4, 1e-3))
    ball = world.add(shapes.Sphere(0.01), mass=1, position=(0.1, 0.2, 3.0), velocity=(10, 0, -1000.0))
    assert world.solve(1e-2, 5).body(ball).position[-1, 2] < 0


@pytest.mark.parametrize("friction", [0.05, 5.0])
def test_a_spinning_ball_leaves_the_floor_with_the_exact_spin(friction):
    """Sliding all through, or stuck: J = min(μ(1 + e)m v_N, 2/7 m v_T), whatever the gap at which the step takes the impact."""
    world = World(gravity=(0, 0, 0))
    world.fix(shapes.HalfSpace())
    ball = world.add(shapes.Sphere(0.1), mass=1.0, position=(0, 0, 0.1513), velocity=(3, 0, -2), spin=(0, 20, 0))
    world.material(friction=friction, restitution=0.6)
    track = world.solve(1e-3, 60, progress=False).body(ball)
    impulse = min(friction * 1.6 * 2, 2 / 7 * (3 - 0.1 * 20))
    assert np.max(np.abs(track.velocity[-1] - [3 - impulse, 0, 1.2])) < 1e-12  # rounding
    assert np.max(np.abs(track.spin[-1] - [0, 20 + impulse * 0.1 / 0.004, 0])) < 1e-11  # the same over the radius
    assert track.spin[-1, 1] != 20  # control: there was an impact; half a gap of 0.001 would turn it by 0.04 or more otherwise
