"""A world as a System: its gaps are those of detection, and all methods run it with what they promise."""

import numpy as np
import pytest

import carom
from carom.bodies import quaternions, shapes
from carom.bodies.detection.detect import detect
from carom.bodies.world import World

ORDER_4 = carom.VariationalCollision(carom.Composition(carom.Trapezoidal(), 4))


def _gaps(world):
    """The gaps of the system and the smallest distance that detection finds, at the start."""
    system, start = world.system, world.start
    gaps = np.concatenate([np.atleast_1d(contact.gap(q=np.asarray(start["q0"]), t=0.0, params={})) for contact in system.contacts])
    scene, state = world.scene()
    found = detect(state.placement(scene), scene.free, np.full(len(scene.mass), 50.0))
    return float(gaps.min()), float(found.gap.min())


PAIRS = [
    (shapes.Sphere(0.3), shapes.Sphere(0.5)),
    (shapes.Capsule(0.2, 1.0), shapes.Capsule(0.3, 0.5)),
    (shapes.Capsule(0.2, 1.0), shapes.Sphere(0.5)),
    (shapes.Box(0.5, 0.8, 1.1), shapes.Sphere(0.3)),
    (shapes.Box(0.5, 0.8, 1.1), shapes.HalfSpace((0.6, 0, 0.8), -3.0)),
    (shapes.ConvexPolyhedron([(0, 0, 0), (0.9, 0, 0), (0, 0.5, 0), (0, 0, 0.7)]), shapes.HalfSpace(offset=-3.0)),
    (shapes.Ellipsoid(0.3, 0.5, 0.8), shapes.HalfSpace((0, 0.6, 0.8), -3.0)),
    (shapes.Capsule(0.2, 1.0), shapes.Plate((0, 0, 1), 0.2)),
    (shapes.Disc(0.3), shapes.Segment((-0.5, 0), (0.5, 0), 0.1)),
    (shapes.Polygon.box(0.5, 0.8), shapes.HalfPlane((0, 1), -3.0)),
]


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=lambda s: type(s).__name__)
def test_gaps_are_those_of_detection(first, second):
    rng = np.random.default_rng(1)
    dim = first.dim
    for _ in range(4):
        turn = lambda: rng.uniform(0, 6) if dim == 2 else quaternions.normalise(rng.normal(size=4))  # noqa: E731
        world = World(gravity=[0.0] * dim)
        world.add(first, density=1, position=rng.uniform(-0.5, 0.5, dim) + 1.2 * np.eye(dim)[-1], orientation=turn())
        if second.fixed_only:
            world.fix(second)
        else:
            world.add(second, density=1, position=-rng.uniform(0.2, 1, dim), orientation=turn())
        mine, detected = _gaps(world)
        assert mine == pytest.approx(detected, abs=1e-12)


def test_polytopes_touch_in_the_system_where_detection_says():
    def gap(depth, turn):
        world = World(gravity=(0, 0, 0))
        world.add(shapes.Box(1, 1, 1), density=1)
        world.add(shapes.Box(0.3, 0.3, 0.3), density=1, position=(0.2, 0.1, 0.5 + np.sqrt(3) * 0.15 - depth), orientation=turn)
        return _gaps(world)

    corner = quaternions.from_user(_corner_down(), 3)  # standing on a corner
    for depth in (-1e-3, 0.0, 1e-3):
        mine, detected = gap(depth, corner)
        assert mine == pytest.approx(-depth, abs=1e-12) == pytest.approx(detected, abs=1e-9)


def _corner_down():
    z = np.ones(3) / np.sqrt(3)
    x = np.array([1.0, -1.0, 0.0]) / np.sqrt(2)
    return np.stack([x, np.cross(z, x), z])


def test_what_has_no_smooth_gap_is_refused_with_what_would_do():
    world = World()
    world.fix(shapes.HalfSpace(), name="floor")
    world.add(shapes.Cylinder(0.1, 0.2), density=1, position=(0, 0, 1), name="can")
    with pytest.raises(carom.InputError, match=r"'floor' \(HalfSpace\) and 'can' \(Cylinder\).*world\.solve"):
        _ = world.system
    world = World()
    world.add(shapes.Box(1, 1, 1), density=1)
    world.add(shapes.Box(1, 1, 1), density=1, position=(0, 0, 2))
    world.material(friction=0.5)
    with pytest.raises(carom.InputError, match="with friction has no smooth point"):
        _ = world.system


def _two(dim, shape, other, spin):
    world = World(gravity=[0.0] * dim)
    zero = [0.0] * (dim - 1)
    world.add(shape, density=1.0, position=[-1.0, *zero], velocity=[1.0, *[0.1] * (dim - 1)], spin=spin)
    world.add(other, density=2.0, position=[1.0, *[0.2] * (dim - 1)], velocity=[-0.5, *zero], spin=spin)
    world.material(restitution=1.0)
    return world


def _momenta(world, solution):
    """Momentum and angular momentum of all bodies along a run of the system."""
    n, dim = len(solution.params["mass"]), world.dim
    mass, inertia = solution.params["mass"], solution.params["inertia"]
    if dim == 2:
        q, v = solution.q.reshape(-1, n, 3), solution.v.reshape(-1, n, 3)
        p = mass[:, None] * v[:, :, :2]
        return p.sum(axis=1), np.sum(q[:, :, 0] * p[:, :, 1] - q[:, :, 1] * p[:, :, 0] + inertia * v[:, :, 2], axis=1)
    x, turn = solution.q[:, : 3 * n].reshape(-1, n, 3), solution.q[:, 3 * n :].reshape(-1, n, 4)
    p, spin = mass[:, None] * solution.v[:, : 3 * n].reshape(-1, n, 3), solution.v[:, 3 * n :].reshape(-1, n, 3)
    own = quaternions.apply(quaternions.matrix(turn), inertia * spin)
    return p.sum(axis=1), (np.cross(x, p) + own).sum(axis=1)


def test_two_bodies_of_the_plane_collide_and_keep_everything():
    world = _two(2, shapes.Polygon.box(0.6, 0.4), shapes.Polygon([(0.5, 0), (-0.3, 0.4), (-0.3, -0.4)]), 0.7)
    solution = carom.solve(world.system, ORDER_4, **world.start, dt=0.01, num_steps=300)
    momentum, turning = _momenta(world, solution)
    assert solution.status.ok and len(solution.impacts) > 0
    assert np.max(np.abs(solution.energy_error)) < 1e-12  # free flight of the plane is exact, and so is the elastic impact
    assert np.max(np.abs(momentum - momentum[0])) < 1e-12 and np.max(np.abs(turning - turning[0])) < 1e-12
    film = solution.film
    assert film is not None and [part.name for part in film.parts] == ["body 0", "body 1"]


@pytest.mark.stress
@pytest.mark.parametrize(
    "pair", [(shapes.Sphere(0.4), shapes.Box(0.5, 0.6, 0.7)), (shapes.Box(0.8, 0.3, 0.5), shapes.Box(0.5, 0.6, 0.7))]
)
def test_two_bodies_of_space_collide_and_keep_everything(pair):
    """§2.4 of [fetecau2003]: the collision of two free bodies, with order 4 in the energy and momenta to rounding. What an impact
    does to the energy depends on where in its step it falls, by factors of ten: so steps are chosen that have it in the middle."""
    world = _two(3, *pair, (0.3, 1.5, -0.7))
    system, start = world.system, world.start
    rough = carom.solve(system, ORDER_4, **start, dt=0.02, num_steps=50)
    times = [*np.asarray(rough.impacts.t), np.inf]
    errors, steps = [], []
    for before in (40, 80):
        dt = float(times[0]) / (before + 0.5)
        count = min(int(times[1] / dt) if np.isfinite(times[1]) else before + 10, before + 10)  # before a second impact
        solution = carom.solve(system, ORDER_4, **start, dt=dt, num_steps=before + 10)
        momentum, turning = _momenta(world, solution)
        assert solution.status.ok and count > before
        assert np.max(np.abs(momentum - momentum[0])) < 1e-14 and np.max(np.abs(turning - turning[0])) < 1e-14
        errors.append(np.max(np.abs(solution.energy_error[: count + 1])))
        steps.append(dt)
    order = np.log(errors[0] / errors[1]) / np.log(steps[0] / steps[1])
    assert order == pytest.approx(4.0, abs=0.1) and errors[1] < 1e-7


@pytest.mark.stress
def test_a_system_rolls_as_the_world_does():
    """A ball without spin rolls in the end at 5/7 of its speed, whatever the steps: about the point of contact the impulses have no
    moment, and where body and space have parallel axes the steps of MoreauJean add nothing of their own. Until it rolls it slides
    and slows down by μ g."""
    world = World()
    world.fix(shapes.HalfSpace())
    world.add(shapes.Sphere(0.1), mass=1, position=(0, 0, 0.1), velocity=(2, 0, 0))
    world.material(friction=0.3)
    system, start = world.system, world.start
    rolls = 2 / (3.5 * 0.3 * 9.81)  # v − μ g t = (5/2) μ g t
    for k in (1, 2, 4):
        run = carom.solve(system, carom.MoreauJean(), **start, dt=5e-3 / k, num_steps=60 * k)
        slides = run.t < rolls
        assert np.max(np.abs(run.v[slides, 0] - (2 - 0.3 * 9.81 * run.t[slides]))) < 1e-12
        assert np.max(np.abs(run.v[run.t > rolls + 5e-3 / k, 0] - 10 / 7)) < 1e-12
        assert np.any(np.abs(run.v[~slides, 0] - (2 - 0.3 * 9.81 * run.t[~slides])) > 0.1)  # control: it does not slide on
