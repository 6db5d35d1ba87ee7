"""Worlds that mix contacts with e = 1 and with e = 0: each follows its own restitution, also where they meet in one impact."""

import numpy as np
import pytest

from carom.bodies import shapes, stepping
from carom.bodies.world import World

G = 9.81


def _ball_and_block(ball_mass, block_mass, gravity=0.0, restitution=1.0, blocks=1, speed=2.0):
    """A ball above a block (or a tower of them) that rests on a floor without bouncing."""
    world = World(gravity=(0, 0, -gravity))
    floor = world.fix(shapes.HalfSpace())
    tower = [world.add(shapes.Box(0.4, 0.4, 0.2), mass=block_mass, position=(0, 0, 0.1 + 0.2 * i)) for i in range(blocks)]
    top = 0.2 * blocks
    ball = world.add(shapes.Sphere(0.1), mass=ball_mass, position=(0, 0, top + 0.1 + 0.0137), velocity=(0, 0, -speed))
    world.material(restitution=0.0)
    world.material(restitution=restitution, between=(ball, tower[-1]))
    return world, floor, tower, ball


@pytest.mark.parametrize("ratio", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("blocks", [1, 3])
def test_an_elastic_ball_comes_back_from_a_block_that_rests_as_fast_as_it_came(ratio, blocks):
    """Newton's law for the ball, u⁺ = −u⁻, and for the floor, u⁺ = 0, with the momenta m v⁺ = m v⁻ + r and 0 = R − r: v⁺ = −v⁻,
    whatever the masses. One impact after the other would leave the ball (ratio − 1)/(ratio + 1) of its speed."""
    world, _, tower, ball = _ball_and_block(ratio, 1.0, blocks=blocks)
    run = world.solve(1e-3, 20)
    assert run.status.ok and run.body(ball).velocity[-1, 2] == pytest.approx(2.0, rel=1e-12)
    assert all(np.max(np.abs(run.body(block).velocity)) < 1e-12 for block in tower)
    assert run.energy[-1] == pytest.approx(run.energy[0], rel=1e-12)
    hit = run.impacts.of(ball)
    assert np.sum(hit.normal_impulse) == pytest.approx(2 * ratio * 2.0, rel=1e-12)


def test_control_the_same_ball_without_bouncing_or_without_supports_stays(monkeypatch):
    world, _, _, ball = _ball_and_block(1.0, 1.0, restitution=0.0)
    assert abs(world.solve(1e-3, 20).body(ball).velocity[-1, 2]) < 1e-12
    monkeypatch.setattr(stepping, "supports", lambda posed, ahead, meets, rates, room: np.zeros_like(meets))
    world, _, _, ball = _ball_and_block(1.0, 1.0)
    assert abs(world.solve(1e-3, 20).body(ball).velocity[-1, 2]) < 1e-12  # equal masses: all is given to the block, and lost


def test_in_gravity_the_ball_keeps_bouncing_on_the_block():
    """It falls back and bounces, three times; its energy is kept, and the block does not stir."""
    world, _, tower, ball = _ball_and_block(0.5, 1.0, gravity=G)
    run = world.solve(1e-3, 1000)
    assert run.status.ok and len(set(run.impacts.of(ball).step)) >= 3
    assert np.max(np.abs(run.energy - run.energy[0])) < 1e-11 * run.kinetic[0]
    assert np.max(np.abs(run.body(tower[0]).position - run.body(tower[0]).position[0])) < 1e-15


def test_a_ball_bounces_for_ever_beside_a_box_that_comes_to_rest():
    """They share a floor and its steps, nothing else. The ball alone is the same ball."""

    def dropped(with_box):
        world = World()
        floor = world.fix(shapes.HalfSpace())
        ball = world.add(shapes.Sphere(0.1), mass=1.0, position=(0, 0, 0.3))
        world.material(friction=0.5)
        world.material(restitution=1.0, between=(ball, floor))
        if with_box:
            box = world.add(shapes.Box(0.2, 0.2, 0.2), mass=3.0, position=(1, 0, 0.25), spin=(0.3, 0.1, 0.0))
            return world.solve(2e-3, 500), ball, box
        return world.solve(2e-3, 500), ball, None

    run, ball, box = dropped(True)
    alone, _, _ = dropped(False)
    track = run.body(ball)
    energy = 0.5 * np.sum(track.velocity**2, axis=1) + G * track.position[:, 2]
    assert run.status.ok and np.max(np.abs(energy - energy[0])) < 1e-11
    assert np.max(np.abs(track.position - alone.body("body 1").position)) < 1e-11
    assert np.max(np.abs(run.body(box).velocity[-1])) == 0.0  # and the box has lost all of its own
    assert len(set(run.impacts.of(ball).step)) >= 2


def test_what_rides_on_a_block_that_lands_bounces_off_it():
    """A block with e = 0 to the floor carries a ball with e = 1 to the block. It stops, and the ball meets it with the speed they
    had: it flies back with that. Wherever in a step the block lands."""
    for height in (0.0101, 0.0115, 0.01199):
        world = World(gravity=(0, 0, 0))
        world.fix(shapes.HalfSpace())
        block = world.add(shapes.Box(0.4, 0.4, 0.2), mass=2.0, position=(0, 0, 0.1 + height), velocity=(0, 0, -2.0))
        ball = world.add(shapes.Sphere(0.1), mass=1.0, position=(0, 0, 0.3 + height), velocity=(0, 0, -2.0))
        world.material(restitution=0.0)
        world.material(restitution=1.0, between=(ball, block))
        run = world.solve(1e-3, 20)
        assert run.status.ok and run.body(ball).velocity[-1, 2] == pytest.approx(2.0, rel=1e-12)
        assert abs(run.body(block).velocity[-1, 2]) < 1e-12 and np.min(run.body(block).position[:, 2]) > 0.1 - 1e-12
        world.material(restitution=0.0)  # control: nothing bounces
        assert abs(world.solve(1e-3, 20).body(ball).velocity[-1, 2]) < 1e-12


def test_a_row_of_elastic_balls_on_a_floor_without_bouncing_still_passes_an_impact_on():
    """The floor supports, and takes nothing; the balls have their turns one after the other."""
    world = World(gravity=(0, 0, -G))
    floor = world.fix(shapes.HalfSpace())
    balls = [world.add(shapes.Sphere(0.1), mass=1.0, position=(0.2 * i, 0, 0.1)) for i in range(4)]
    first = world.add(shapes.Sphere(0.1), mass=1.0, position=(-0.2 - 0.0123, 0, 0.1), velocity=(1.5, 0, 0))
    world.material(restitution=1.0)
    world.material(restitution=0.0, of=floor)
    run = world.solve(1e-3, 30)
    speeds = [run.body(ball).velocity[-1, 0] for ball in (first, *balls)]
    assert run.status.ok and np.allclose(speeds, [0, 0, 0, 0, 1.5], atol=1e-12)
