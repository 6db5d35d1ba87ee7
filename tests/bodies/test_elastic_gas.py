"""Elastic bodies of mixed shapes, in a closed box and in free space: no impact makes or takes energy, whatever turned into it.

That holds by the rules of the step (`carom.bodies.bounces`, `carom.bodies.stepping`), not by the luck of one run, so it is asked of
many short runs, each another one: the bodies are dense, turn fast and the steps are coarse, so that much happens which the start of
a step cannot foresee.
"""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.bodies_gas import balance, follow
from carom.bodies import bounces, contact_work, quaternions, shapes, stepping
from carom.bodies.detection import detect, manifold
from carom.bodies.scene import State
from carom.bodies.world import World
from carom.numerics.friction import compiled

TETRAHEDRON = [(0.3, 0, 0), (-0.2, 0.25, 0), (-0.2, -0.25, 0), (0, 0, 0.35)]
SHAPES = [shapes.Sphere(0.25), shapes.Box(0.3, 0.4, 0.35), shapes.Capsule(0.12, 0.3), shapes.ConvexPolyhedron(TETRAHEDRON)]


def _gas(count, restitution=1.0, walls=True, inwards=0.0, seed=0, gravity=0.0, spin=2.0):
    rng = np.random.default_rng(seed)
    world = World(gravity=(0, 0, -gravity))
    side = int(np.ceil(count ** (1 / 3)))
    for normal in (*np.eye(3), *-np.eye(3)) if walls else ():
        world.fix(shapes.HalfSpace(normal, offset=-0.5 * side))
    for i, cell in enumerate(list(np.ndindex(side, side, side))[:count]):
        where = np.array(cell) - 0.5 * side + 0.5
        world.add(
            SHAPES[i % len(SHAPES)],
            density=10.0 ** rng.uniform(0, 1),
            position=where,
            orientation=quaternions.normalise(rng.normal(size=4)),
            velocity=rng.normal(size=3) - inwards * where,
            spin=spin * rng.normal(size=3),
        )
    world.material(restitution=restitution)
    return world


def test_bodies_in_a_closed_box_keep_their_energy():
    run = _gas(12).solve(1e-2, 150)
    assert run.status.ok and len(run.contacts) > 30
    assert np.max(np.abs(run.energy / run.energy[0] - 1)) < 1e-13  # rounding of some tens of impacts
    lossy = _gas(12, restitution=0.9).solve(1e-2, 50)
    assert lossy.energy[-1] < 0.99 * lossy.energy[0] and np.max(np.diff(lossy.energy)) < 1e-14 * lossy.energy[0]  # control


def test_momentum_changes_by_what_the_walls_push_and_by_nothing_else():
    run = _gas(12).solve(2e-2, 40, save_every=4)
    hits = run.impacts
    assert np.any(run.free[hits.a] & run.free[hits.b]) and np.any(~(run.free[hits.a] & run.free[hits.b]))
    assert max(balance(run)) < 1e-14 * len(hits)  # rounding of each
    by_walls = np.flatnonzero(~(run.free[hits.a] & run.free[hits.b]))
    assert min(balance(replace(run, contacts=hits.take(np.delete(np.arange(len(hits)), by_walls[0]))))) > 1e-5  # control: one less


def test_bodies_in_free_space_keep_momentum_and_angular_momentum():
    run = _gas(12, walls=False, inwards=2.0).solve(1e-2, 60)
    p = run.mass[:, None] * run.v
    momentum, turning = p.sum(axis=1), (np.cross(run.x, p) + run.L).sum(axis=1)
    size, lever = np.sum(np.abs(p[0])), np.sum(np.abs(np.cross(run.x[0], p[0]))) + np.sum(np.abs(run.L[0]))
    assert len(run.contacts) > 5 and np.any(np.abs(run.v[-1] - run.v[0]) > 0.1)
    assert np.max(np.abs(momentum - momentum[0])) < 1e-14 * size and np.max(np.abs(turning - turning[0])) < 1e-14 * lever
    assert np.max(np.abs(run.energy / run.energy[0] - 1)) < 1e-13


def _coarse(seed, gravity):
    return _gas(8, seed=seed, gravity=gravity, spin=15.0).solve(5e-2, 20, progress=False)


def _lost(run):
    return np.max(np.abs(run.energy - run.energy[0])) / run.kinetic[0]


@pytest.mark.parametrize("gravity", [0.0, 9.81])
def test_short_coarse_runs_keep_their_energy(gravity):
    for seed in range(2):
        run = _coarse(seed, gravity)
        assert run.status.ok and len(run.impacts) > 10
        assert _lost(run) < 1e-12, (seed, gravity)  # rounding: each impact is exact to 1e-15


def test_without_late_impacts_the_same_runs_lose_energy(monkeypatch):
    """Control of the test above: what a body turned into is then an impact that does not bounce."""
    monkeypatch.setattr(stepping.Stepper, "_late", lambda self, middle, t, h, record: middle)
    for part in (stepping, contact_work):  # nothing is elastic where contacts press
        monkeypatch.setattr(part, "ELASTIC", 2.0)
    assert max(_lost(_coarse(seed, 0.0)) for seed in range(2)) > 1e-3


def test_every_change_of_motion_without_forces_is_listed_as_an_impact():
    run = _coarse(0, 0.0)
    jumps = np.abs(np.diff(run.v, axis=0)).max(axis=2) > 1e-12
    listed = np.zeros_like(jumps)
    for side in (run.impacts.a, run.impacts.b):
        listed[run.impacts.step - 1, side] = True
    assert np.sum(jumps) > 20 and np.all(listed[jumps]) and len(run.impacts) == len(run.contacts)


def _dropped(height, restitution=1.0):
    world = World()
    world.fix(shapes.HalfSpace())
    world.add(shapes.Sphere(0.1), density=1000.0, position=(0, 0, 0.1 + height))
    world.material(restitution=restitution)
    run = world.solve(1e-2, 100)
    unit = 9.81 * run.mass[1] * 0.5 * 9.81 * 1e-4  # of what is fallen in a step
    return run.x[:, 1, 2] - 0.1, (run.energy - run.energy[0]) / unit


@pytest.mark.parametrize("height", [1e-7, 1e-4, 6e-4, 3e-3])
def test_an_elastic_ball_that_falls_from_almost_nothing_keeps_its_energy(height, monkeypatch):
    """It meets the floor slower than CALM allows others to bounce. Below gh²/2 = 5e-4 it would meet it several times in a step:
    it stays where it is, which is as near to its motion as such a step can tell."""
    z, change = _dropped(height)
    assert np.max(np.abs(change)) < 1e-11 and np.min(z) > -1e-12 and np.max(z) < height * (1 + 1e-9)
    assert height < 5e-4 or np.ptp(z) > 0.5 * height
    assert _dropped(height, 0.9)[1][-1] < -0.9 * height / 5e-4  # control: with any less than 1 it comes to rest
    for part in (stepping, bounces, contact_work):
        monkeypatch.setattr(part, "ELASTIC", 2.0)
    assert height > 1e-3 or _dropped(height)[1][-1] < -0.5 * height / 5e-4  # control: with a threshold it is lost


def test_a_ball_in_a_slit_meets_its_walls_many_times_in_a_step():
    """Twelve impacts in each step: it is repeated in halves until they come one after the other."""
    world = World(gravity=(0, 0, 0))
    for side in (1, -1):
        world.fix(shapes.HalfSpace((side, 0, 0), offset=-0.1005))
    world.add(shapes.Sphere(0.1), density=1000.0, position=(0, 0, 0), velocity=(1.2, 0.3, 0.0))
    world.material(restitution=1.0)
    run = world.solve(1e-2, 2)
    assert run.status.ok and abs(run.energy[-1] / run.energy[0] - 1) < 1e-13
    assert np.max(np.abs(run.x[:, -1, 0])) < 1e-3 and abs(run.v[-1, -1, 0]) == pytest.approx(1.2, rel=1e-13)
    assert run.x[-1, -1, 1] == pytest.approx(0.006, abs=1e-13) and 20 < len(run.impacts) < 40  # 24, but it turns early


def _one_after_the_other(ratio):
    """How often a heavy and a light point meet, and the light one a wall, and their velocities afterwards."""
    light, heavy, count = 0.0, -1.0, 0
    while heavy < light or light < 0:
        if heavy < light:
            mean = (light + ratio * heavy) / (1 + ratio)
            light, heavy = 2 * mean - light, 2 * mean - heavy
        else:
            light = -light
        count += 1
    return count, [light, heavy]


@pytest.mark.parametrize(("ratio", "impacts"), [(1, 3), (100, 31), pytest.param(10_000, 314, marks=pytest.mark.stress)])
def test_a_heavy_disc_that_drives_a_light_one_to_a_wall_counts_the_digits_of_pi(ratio, impacts):
    """Velocities times the roots of the masses are reflected in two lines at an angle of arctan √(1/ratio), until that has turned
    them by π: most impacts fall into few steps, where a wrong one would be seen in the number and in the end."""
    world = World(gravity=(0, 0))
    world.fix(shapes.HalfPlane((1, 0)))
    world.add(shapes.Disc(0.1), mass=1.0, position=(1.0, 0))
    world.add(shapes.Disc(0.1), mass=float(ratio), position=(2.0, 0), velocity=(-1, 0))
    world.material(restitution=1.0)
    run = world.solve(2e-2, 200)
    count, velocities = _one_after_the_other(ratio)
    assert run.status.ok and len(run.impacts) == count == impacts
    assert np.allclose(run.v[-1, 1:, 0], velocities, atol=1e-11) and abs(run.energy[-1] / run.energy[0] - 1) < 1e-13


def _two_tetrahedra(seed, dt=5e-3):
    """How deep two of them get into each other that meet, turning by a tenth of a radian in a step; and what such a turn bends the
    way of their corners from straight in half a step, r(ωh/2)²/2 for each."""
    rng = np.random.default_rng(seed)
    world = World(gravity=(0, 0, 0))
    for side in (-1, 1):
        world.add(
            SHAPES[3],
            density=1.0,
            position=(0.5 * side, *(0.1 * rng.normal(size=2))),
            orientation=quaternions.normalise(rng.normal(size=4)),
            velocity=(-2.0 * side, 0, 0),
            spin=25 * quaternions.normalise(rng.normal(size=4))[:3],
        )
    world.material(restitution=1.0)
    run = world.solve(dt, round(0.6 / dt))
    scene, states = run.scene, zip(run.x, run.q, run.v, run.L, strict=True)
    gaps = [detect.detect(State(*state).placement(scene), scene.free, np.zeros(2)).gap.min(initial=0.0) for state in states]
    bends = 0.5 * scene.reach * (0.5 * dt * np.max(np.linalg.norm(run.spins, axis=2), axis=0)) ** 2
    assert run.status.ok and _lost(run) < 1e-12
    return -min(gaps), float(np.sum(bends)), len(run.impacts)


def test_edges_of_bodies_that_turn_fast_do_not_get_into_each_other(monkeypatch):
    """Control: with a point beside that in which the edges cross, and none over their faces, they are led into each other."""
    runs = [_two_tetrahedra(seed) for seed in (12, 13, 14, 15)]
    assert sum(impacts for _, _, impacts in runs) >= 2 and all(depth <= bends for depth, bends, _ in runs)
    exact = detect._crossing

    def beside(a, b, separation, n):
        x, y = exact(a, b, separation, n)
        return x + 0.2 * np.cross(n, [0, 0, 1]), y + 0.2 * np.cross(n, [0, 0, 1])

    monkeypatch.setattr(compiled, "available", lambda: False)  # loops do not go through it
    monkeypatch.setattr(detect, "_crossing", beside)
    monkeypatch.setattr(manifold, "STEEP", manifold.FLAT)
    monkeypatch.setattr(detect, "_within", lambda *args: [])
    depth, bends, _ = _two_tetrahedra(15)
    assert depth > 3 * bends


@pytest.mark.stress
@pytest.mark.parametrize("gravity", [0.0, 9.81])
def test_thirty_short_coarse_runs_keep_their_energy(gravity):
    lost = [_lost(_coarse(seed, gravity)) for seed in range(2, 32)]
    assert max(lost) < 1e-11, (int(np.argmax(lost)) + 2, max(lost))


@pytest.mark.stress
def test_a_hundred_bodies_keep_what_they_should_through_a_hundred_thousand_impacts():
    """A quarter of an hour. Each impact is exact to 1e-15 or so, and in free flight nothing changes at all: what is left is
    rounding, of a hundred thousand impacts (measured: `benchmarks/bodies.md`)."""
    run, _ = follow(100_000, None)
    assert run.status.ok and len(run.impacts) >= 100_000
    assert np.max(np.abs(run.energy / run.energy[0] - 1)) < 1e-10 and max(balance(run)) < 1e-10
