"""Elastic bodies of mixed shapes, in a closed box and in free space: no impact makes or takes energy, whatever turned into it."""

import numpy as np
import pytest

from carom.bodies import quaternions, shapes
from carom.bodies.world import World

TETRAHEDRON = [(0.3, 0, 0), (-0.2, 0.25, 0), (-0.2, -0.25, 0), (0, 0, 0.35)]
SHAPES = [shapes.Sphere(0.25), shapes.Box(0.3, 0.4, 0.35), shapes.Capsule(0.12, 0.3), shapes.ConvexPolyhedron(TETRAHEDRON)]


def _gas(count, restitution=1.0, walls=True, inwards=0.0):
    rng = np.random.default_rng(0)
    world = World(gravity=(0, 0, 0))
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
            spin=2 * rng.normal(size=3),
        )
    world.material(restitution=restitution)
    return world


def test_bodies_in_a_closed_box_keep_their_energy():
    run = _gas(12).solve(1e-2, 150)
    assert run.status.ok and len(run.contacts) > 30
    assert np.max(np.abs(run.energy / run.energy[0] - 1)) < 1e-13  # rounding of some tens of impacts
    lossy = _gas(12, restitution=0.9).solve(1e-2, 50)
    assert lossy.energy[-1] < 0.99 * lossy.energy[0] and np.max(np.diff(lossy.energy)) < 1e-14 * lossy.energy[0]  # control


def test_bodies_in_free_space_keep_momentum_and_angular_momentum():
    run = _gas(12, walls=False, inwards=2.0).solve(1e-2, 60)
    p = run.mass[:, None] * run.v
    momentum, turning = p.sum(axis=1), (np.cross(run.x, p) + run.L).sum(axis=1)
    size, lever = np.sum(np.abs(p[0])), np.sum(np.abs(np.cross(run.x[0], p[0]))) + np.sum(np.abs(run.L[0]))
    assert len(run.contacts) > 5 and np.any(np.abs(run.v[-1] - run.v[0]) > 0.1)
    assert np.max(np.abs(momentum - momentum[0])) < 1e-14 * size and np.max(np.abs(turning - turning[0])) < 1e-14 * lever
    assert np.max(np.abs(run.energy / run.energy[0] - 1)) < 1e-13


@pytest.mark.stress
def test_a_hundred_bodies_keep_their_energy_through_four_thousand_impacts():
    """A hundred impacts take 2.5 s: a hundred thousand would take an hour."""
    run = _gas(100).solve(1e-2, 2000, save_every=50)
    assert run.status.ok and len(run.impacts) > 3000
    assert np.max(np.abs(run.energy / run.energy[0] - 1)) < 1e-12  # rounding: each impact is exact to 1e-15
