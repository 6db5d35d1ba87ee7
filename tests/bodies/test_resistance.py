"""Dampers and forces that depend on velocity: exact answers, their order, and what no step resolves."""

import numpy as np
import pytest

from carom import World, shapes
from carom.bodies import stiffness
from carom.errors import InputError

EPS = np.finfo(float).eps


def _damped(damping, dt, steps, **more):
    world = World(gravity=(0, 0))
    body = world.add(shapes.Disc(0.1), mass=2.0, velocity=(1, 0))
    world.joint("slider", body, None, at=(0, 0), axis=(1, 0), damping=damping, **more)
    return world.solve(dt, steps, progress=False)


def _error(run, damping):
    rate = damping / 2.0
    return np.max(np.abs(run.x[:, 0, 0] - (1 - np.exp(-rate * run.t)) / rate))


def test_a_damper_is_of_order_two():
    coarse, fine = _error(_damped(4.0, 4e-3, 125), 4.0), _error(_damped(4.0, 2e-3, 250), 4.0)
    assert fine < 1e-6  # (zh)²/12 of the way, z = 2: 3e-7
    assert 3.5 < coarse / fine < 4.5  # a force at the old velocity, as it was before, halves


@pytest.mark.parametrize("damping", [4e3, 4e9])
def test_a_damper_that_no_step_resolves_stops_what_it_holds(damping):
    run = _damped(damping, 1e-3, 20)
    assert run.status.ok and np.all(np.diff(run.energy) <= 0)  # control: f = −cv at v₀ multiplies v by −1 or more in each step
    assert np.max(np.abs(run.v[-1])) < 1e-12
    assert run.x[-1, 0, 0] <= 0.5e-3 * (1 + 1e-9) + 2 / damping  # half a step at the old speed, and the exact way


def test_a_damped_pendulum_beside_its_joint():
    """Reaction and damper are coupled: I θ̈ = −g cos θ − c θ̇ − kθ, by an integrator of order 8."""
    from scipy.integrate import solve_ivp

    moment = 1.0 + 0.5 * 0.1**2
    exact = solve_ivp(
        lambda t, y: [y[1], (-9.81 * np.cos(y[0]) - 0.5 * y[1] - 2 * y[0]) / moment],
        (0, 1),
        [0, 0],
        "DOP853",
        rtol=1e-11,
        atol=1e-12,
    ).y[0, -1]
    errors = []
    for steps in (125, 250):
        world = World(gravity=(0, -9.81))
        body = world.add(shapes.Disc(0.1), mass=1.0, position=(1, 0))
        world.joint("hinge", body, None, at=(0, 0), damping=0.5, stiffness=2.0)
        x, y = world.solve(1 / steps, steps, progress=False).body(body).position[-1]
        errors.append(abs(np.arctan2(y, x) - exact))
    assert 3.5 < errors[0] / errors[1] < 4.5  # order 2


def test_a_damped_spring_between_free_bodies_keeps_their_momentum():
    world = World(gravity=(0, 0, 0))
    a = world.add(shapes.Sphere(0.1), mass=1.0)
    b = world.add(shapes.Sphere(0.1), mass=2.0, position=(1, 0, 0), velocity=(0, 1, 0))
    world.spring(a, b, 5.0, at=((0, 0, 0), (1, 0, 0)), damping=2.0, length=0.8)
    run = world.solve(4e-3, 250, progress=False)
    assert np.max(np.abs(run.momentum - run.momentum[0])) < 250 * EPS * 10  # rounding of each step
    assert run.energy[-1] < run.energy[0] - 5e-3  # control: it does damp


def _dragged(dt, drag):
    world = World(gravity=(0, 0, -10))
    ball = world.add(shapes.Sphere(0.1), mass=2.0)
    world.force(ball, lambda velocity: -drag * velocity)
    return world.solve(dt, round(0.5 / dt), progress=False)


def test_a_force_of_velocity_is_of_order_two():
    exact = -5 * (1 - np.exp(-1.0))
    errors = [abs(_dragged(dt, 4.0).v[-1, 0, 2] - exact) for dt in (4e-3, 2e-3)]
    assert 3.5 < errors[0] / errors[1] < 4.5  # the force at the old velocity was of order 1


def test_a_force_of_velocity_that_no_step_resolves_is_told():
    run = _dragged(1e-2, 1e5)  # h c / 2m = 250; it grew by as much in each step, and the run said that all was well
    assert run.status.name == "force_unresolved" and "damping=" in run.status.message


@pytest.mark.parametrize("ratio", [1e6, 1e8])
def test_what_lies_under_a_body_a_million_times_heavier_rests(ratio):
    """Impulses are so large beside what the light ones need that their last bits are more than the tolerance."""
    world = World(gravity=(0, 0, -10))
    world.fix(shapes.HalfSpace())
    for i in range(5):
        world.add(shapes.Box(1, 1, 1), density=ratio if i % 2 else 1.0, position=(0.03 * i, 0, 0.5 + i))
    world.material(friction=0.5)
    run = world.solve(1e-3, 50, progress=False)
    assert run.status.ok and not np.any(run.v)
    assert (
        1e-10 < np.max(run.residual) < 1e-16 * ratio * 1e2
    )  # control: the tolerance alone is not met; nor is it far from rounding


def test_rounding_is_no_excuse_where_there_is_no_solution():
    from carom.bodies.dense_newton import BLURRED, Dense

    together = Dense(np.ones((2, 2)), np.array([1.0, -1.0]), np.zeros(0), 2, 0.0)  # u₁ = u₂ asked to differ
    huge = np.array([1e18, -1e18])
    assert together.rounding(huge) <= BLURRED < together.residual(huge)


def _on_a_spring(dt, steps, stiffness=1e4, **more):
    world = World(gravity=(0, 0, 0))
    ball = world.add(shapes.Sphere(0.1), mass=1.0, position=(1.1, 0, 0))
    world.spring(None, ball, stiffness, at=((0, 0, 0), (1.1, 0, 0)), length=1.0, **more)
    return world.solve(dt, steps, progress=False)


def test_a_spring_that_is_too_stiff_for_a_step_is_refused():
    """hω ≤ 2, ω = 100: beyond, the swing grew beyond all numbers, and the run said that all was well."""
    kept = _on_a_spring(0.019, 200)
    assert np.max(np.abs(kept.x[:, 0, 0] - 1)) < 0.1 / np.sqrt(1 - 0.95**2) * 1.01  # the leapfrog's largest swing at hω = 1.9
    with pytest.raises(InputError, match="each swing would be larger"):
        _on_a_spring(0.0201, 1)
    assert _on_a_spring(0.0201, 50, damping=2e3).status.ok  # a damper that no step resolves carries it


def test_a_joint_makes_a_body_heavier_for_its_spring():
    """A light body on a spring, fixed to a heavy one behind it: the two swing together, and slowly enough."""
    for joined in (True, False):
        world = World(gravity=(0, 0, 0))
        light = world.add(shapes.Sphere(0.1), mass=1e-3, position=(1, 0, 0))
        heavy = world.add(shapes.Sphere(0.1), mass=1.0, position=(1.5, 0, 0))
        world.spring(None, light, 1e3, at=((0, 0, 0), (1, 0, 0)))
        if joined:
            world.joint("fixed", light, heavy, at=(1.2, 0, 0))
            assert world.solve(1e-2, 3, progress=False).status.ok
        else:
            with pytest.raises(InputError, match="too long for the springs"):
                world.solve(1e-2, 3, progress=False)


@pytest.mark.parametrize("most", [stiffness.MOST, 0])  # one small problem, and by products alone
def test_a_row_of_springs_is_refused_from_its_fastest_swing_on(monkeypatch, most):
    """n masses between walls: ω = 2√(k/m) sin(nπ/2(n + 1)). On a rail each (a joint) that is all there is."""
    monkeypatch.setattr(stiffness, "MOST", most)
    n, k = 12, 1e4
    for railed in (False, True):
        world = World(gravity=(0, 0, 0))
        balls = [world.add(shapes.Sphere(0.1), mass=1.0, position=(i, 0, 0)) for i in range(n)]
        for i, (a, b) in enumerate(zip([None, *balls], [*balls, None], strict=True)):
            world.spring(a, b, k, at=((i - 1, 0, 0), (i, 0, 0)))
        for i, ball in enumerate(balls if railed else ()):
            world.joint("slider", None, ball, at=(i, 0, 0), axis=(1, 0, 0))
        longest = 1 / (np.sqrt(k) * np.sin(n * np.pi / (2 * (n + 1))))  # 2/ω
        slack = 2 * stiffness.CLOSE  # of what Lanczos' method is asked for
        stiffness.refuse_stiff(*world.scene(), longest * (1 - slack))
        with pytest.raises(InputError, match="too long for the springs"):
            stiffness.refuse_stiff(*world.scene(), longest * (1 + slack))


def test_a_force_that_jumps_is_taken_as_it_is():
    """Dry friction by a sign has no slope to follow: its repetition goes to and fro, and that is no reason to end a run."""
    world = World(gravity=(0, 0, 0))
    ball = world.add(shapes.Sphere(0.1), mass=0.5, position=(0, 0, 0), velocity=(1, 0, 0))
    world.force(ball, lambda velocity: -2.0 * np.sign(velocity))
    run = world.solve(dt=1e-3, num_steps=400)
    v = run.body(ball).velocity[:, 0]
    assert run.status.ok and v[100] == pytest.approx(1 - 4.0 * 0.1, abs=1e-12)
    assert np.max(np.abs(v[260:])) <= 4.0 * 1e-3 + 1e-12  # it has stopped at 0.25, but for one step's share of the jump
