"""Thresholds of friction between rest and motion, bracketed to a millionth, and rest that lasts."""

import numpy as np
import pytest

from carom.bodies import motions, quaternions, shapes
from carom.bodies.world import World

G = 9.81


def _moved(run) -> float:
    assert run.status.ok, run.status  # what ended early has not moved either
    return float(max(np.max(np.abs(run.x - run.x[0])), np.max(np.abs(run.q - run.q[0]))))


def _on_slope(slope: float, friction: float, size: tuple, steps: int) -> float:
    """How far a box moves on an incline, which is a gravity that leans; in space, along the diagonal of its base."""
    angle = np.arctan(slope)
    across = np.sin(angle) / np.sqrt(2)
    world = World(gravity=(G * across, G * across, -G * np.cos(angle)))
    world.fix(shapes.HalfSpace())
    world.add(shapes.Box(*size), mass=1, position=(0, 0, 0.5 * size[2]))
    world.material(friction=friction)
    return _moved(world.solve(5e-3, steps))


def test_a_box_slides_on_an_incline_from_the_angle_of_friction_on_in_any_direction():
    """Along the diagonal, where a pyramid instead of a cone would hold up to √2 times as steep a slope, or as little as 1/√2."""
    assert _on_slope(0.5, 0.5 + 1e-6, (0.3, 0.3, 0.1), 20) == 0.0
    assert _on_slope(0.5, 0.5 - 1e-6, (0.3, 0.3, 0.1), 20) > 1e-9


def test_a_box_tips_over_its_corner_where_its_weight_leaves_its_base():
    """Down the diagonal of a square base the weight leaves it at the corner: slope = √2 · side / height."""
    limit = np.sqrt(2) * 0.2 / 0.6
    assert _on_slope(limit * (1 - 1e-6), 1.0, (0.2, 0.2, 0.6), 20) == 0.0
    assert _on_slope(limit * (1 + 1e-6), 1.0, (0.2, 0.2, 0.6), 100) > 1e-7


@pytest.mark.parametrize(("friction", "tips"), [(0.5 + 1e-6, True), (0.5 - 1e-6, False)])
def test_friction_decides_whether_a_pushed_box_tips_or_slides(friction, tips):
    """A box of 0.3 × 0.6 on a slope steeper than both limits: it tips iff μ > 0.5, the ratio of its sides; else it only slides."""
    world = World(gravity=(G * np.sin(0.6), -G * np.cos(0.6)))
    world.fix(shapes.HalfPlane())
    box = world.add(shapes.Polygon.box(0.3, 0.6), mass=1, position=(0, 0.3))
    world.material(friction=friction)
    track = world.solve(5e-3, 40).body(box)
    turned = float(np.max(np.abs(track.orientation)))
    assert np.max(np.abs(track.position[:, 0])) > 1e-3  # it moves in any case
    assert turned > 1e-9 if tips else turned < 1e-13


@pytest.mark.parametrize(("excess", "holds"), [(1e-6, True), (-1e-6, False)])
def test_a_log_on_two_logs_holds_from_the_tangent_of_fifteen_degrees_on(excess, holds):
    """The lower two touch and may roll apart: the floor rubs a log as much as the upper one does, so that the force between logs
    halves the 30° of their normal. With normals that are known to 10⁻⁵ only, they held below that."""
    world, lying, r = World(), quaternions.exponential(np.array([np.pi / 2, 0.0, 0.0])), 0.1
    world.fix(shapes.HalfSpace())
    places = [(-r, 0, r), (r, 0, r), (0, 0, (1 + np.sqrt(3)) * r)]
    logs = [world.add(shapes.Cylinder(r, 0.5), density=10, position=place, orientation=lying) for place in places]
    world.material(friction=1.0)
    world.material(friction=0.0, between=tuple(logs[:2]))
    for log in logs[:2]:
        world.material(friction=np.tan(np.pi / 12) * (1 + excess), between=(log, logs[2]))
    moved = _moved(world.solve(1e-2, 30))
    assert moved == 0.0 if holds else moved > 1e-8


def test_a_turntable_carries_a_box_iff_friction_suffices_to_a_millionth():
    """ω² r = μ g: on one side every contact sticks, on the other the box slides outwards by what lacks."""
    speed, dt, steps = np.sqrt(0.5 * G), 1e-3, 60

    def turned(friction: float) -> tuple[float, int]:
        world = World()
        world.prescribe(shapes.HalfSpace(), motions.Turning((0, 0, speed)))
        box = world.add(shapes.Box(0.1, 0.1, 0.1), mass=1, position=(1, 0, 0.05), velocity=(0, speed, 0), spin=(0, 0, speed))
        world.material(friction=friction)
        run = world.solve(dt, steps)
        place = run.body(box).position[-1]
        return float(np.hypot(place[0], place[1]) - 1), int(np.sum(run.contacts.state == "slide"))

    held, sliding = turned(0.5 + 1e-6)
    assert sliding == 0 and abs(held) < steps * dt * (speed * dt) ** 3  # goes round to order three
    slid, sliding = turned(0.5 - 1e-6)
    outwards = 0.5 * 1e-6 * G * (steps * dt) ** 2
    assert sliding > steps and 0.8 * outwards < slid < 1.6 * outwards  # and 20 % for the chords of the scheme, (ωh)²/24


def _pile(dim: int) -> World:
    world = World(gravity=(0, 0, -G) if dim == 3 else (0, -G))
    world.fix(shapes.HalfSpace() if dim == 3 else shapes.HalfPlane())
    return world


def _planks(levels: int) -> World:
    """A tower of planks, three to a level, across those below."""
    world = _pile(3)
    for level in range(levels):
        for i in (-1, 0, 1):
            size = (0.24, 0.06, 0.04) if level % 2 == 0 else (0.06, 0.24, 0.04)
            where = (0, 0.08 * i, 0.04 * level + 0.02) if level % 2 == 0 else (0.08 * i, 0, 0.04 * level + 0.02)
            world.add(shapes.Box(*size), density=600, position=where)
    world.material(friction=0.5)
    return world


def test_a_tower_of_planks_rests():
    run = _planks(4).solve(1e-2, 20)
    assert _moved(run) == 0.0 and np.max(run.residual) < 1e-10


def test_control_a_plank_beyond_its_support_falls():
    world = _planks(2)
    world.add(shapes.Box(0.24, 0.06, 0.04), density=600, position=(0.2, 0, 0.1))  # the tower ends at 0.11
    assert _moved(world.solve(1e-2, 12)) > 1e-3


@pytest.mark.stress
@pytest.mark.parametrize("dim", [2, 3])
def test_a_stack_of_ten_rests_for_a_hundred_thousand_steps(dim):
    world = _pile(dim)
    for i in range(10):
        box = shapes.Box(0.1, 0.1, 0.1) if dim == 3 else shapes.Polygon.box(0.1, 0.1)
        x = 0.003 * (i % 2)
        world.add(box, density=1000, position=(x, 0, 0.05 + 0.1 * i) if dim == 3 else (x, 0.05 + 0.1 * i))
    world.material(friction=0.5)
    run = world.solve(1e-3, 100_000, save_every=1000)
    assert _moved(run) < 1e-12


@pytest.mark.stress
def test_a_tower_of_fifty_planks_rests_for_a_hundred_thousand_steps():
    world = _pile(2)
    for i in range(50):
        world.add(shapes.Polygon.box(0.24, 0.04), density=600, position=(0.01 * (i % 3 - 1), 0.02 + 0.04 * i))
    world.material(friction=0.5)
    run = world.solve(1e-3, 100_000, save_every=1000)
    assert _moved(run) < 1e-12
