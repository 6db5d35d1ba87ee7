"""What works in joints, against exact answers: stops, motors with a strength, dry friction, springs and dampers."""

import numpy as np
import pytest

import carom
from carom.bodies import shapes, velocity
from carom.bodies.world import World

INERTIA = 0.5 * 2 * 0.3**2  # of the wheel


def _wheel(gravity=(0.0, 0.0), spin=0.0, **drive):
    """A wheel on an axle; the joint counts the wheel (b) against the axle (a)."""
    world = World(gravity=gravity)
    axle = world.fix(shapes.Disc(0.01).at((9, 9)), name="axle")
    wheel = world.add(shapes.Disc(0.3), mass=2, spin=spin, name="wheel")
    world.joint("hinge", axle, wheel, at=(0, 0), **drive)
    return world


def test_a_motor_with_a_strength_speeds_up_evenly_and_holds_its_speed():
    run = _wheel(speed=3.0, strength=0.9).solve(1e-2, 60)
    exact = np.minimum(0.9 / INERTIA * run.t, 3.0)
    assert np.max(np.abs(run.body("wheel").spin - exact)) < 1e-12
    endless = _wheel(speed=3.0).solve(1e-2, 5)
    assert np.allclose(endless.body("wheel").spin[1:], 3.0, atol=1e-12)  # control: without a bound it is there at once


def test_dry_friction_stops_a_wheel_where_it_must_and_then_holds_it():
    world = _wheel(spin=2.0, friction=0.3)
    world.force("wheel", lambda t: ((0.0, 0.0), 0.29 if t > 0.75 else 0.0))
    run = world.solve(1e-2, 100)
    stop = 2.0 * INERTIA / 0.3
    spin = run.body("wheel").spin
    assert stop < 0.7
    assert np.max(np.abs(spin - np.maximum(2.0 - 0.3 / INERTIA * run.t, 0.0))) < 1e-12
    world = _wheel(friction=0.3)
    world.force("wheel", lambda: ((0.0, 0.0), 0.31))
    assert world.solve(1e-2, 50).body("wheel").spin[-1] == pytest.approx(0.01 / INERTIA * 0.5, abs=1e-12)  # control: it gives way


@pytest.mark.parametrize("dim", [2, 3])
def test_a_slider_goes_to_its_stop_and_no_farther(dim):
    world = World(gravity=[0.0] * dim)
    rail = world.fix((shapes.Disc(0.1) if dim == 2 else shapes.Sphere(0.1)).at([9.0] * dim), name="rail")
    cart = world.add(
        shapes.Polygon.box(0.2, 0.1) if dim == 2 else shapes.Box(0.2, 0.1, 0.1), mass=1, velocity=[1.3, *[0.0] * (dim - 1)]
    )
    axis = [1.0, *[0.0] * (dim - 1)]
    world.joint("slider", rail, cart, at=[0.0] * dim, axis=axis, limits=(-0.2, 0.5))
    run = world.solve(1e-2, 80)
    x = run.body(cart).position[:, 0]
    free = run.t < 0.5 / 1.3 - 1e-2
    assert np.allclose(x[free], 1.3 * run.t[free], atol=1e-12) and x.max() <= 0.5 + 1e-12 and x[-1] == pytest.approx(0.5, abs=1e-12)
    assert np.all(run.v[-1] == 0)


@pytest.mark.parametrize("dim", [2, 3])
def test_a_pendulum_falls_to_its_stop_and_rests_there(dim):
    world = World(gravity=(0, -9.81) if dim == 2 else (0, -9.81, 0))
    rod = shapes.Polygon.box(0.4, 0.02) if dim == 2 else shapes.Box(0.4, 0.02, 0.02)
    arm = world.add(rod, mass=1, position=[0.2, *[0.0] * (dim - 1)])
    about = {} if dim == 2 else {"axis": (0, 0, 1)}
    world.joint("hinge", arm, None, at=[0.0] * dim, limits=(-0.6, 0.1), **about)  # of the arm against space: it falls by 0.6
    run = world.solve(4e-3, 200)
    tip = run.body(arm).position[-1]
    assert np.all(run.v[-1] == 0)
    assert np.arctan2(-tip[1], tip[0]) == pytest.approx(0.6, abs=2e-4)  # one step lands beside the arc by order dt²


def test_a_spring_in_a_hinge_swings_with_its_period_and_a_damper_takes_its_share():
    stiffness, damping = 4.0, 0.02
    rate, decay = np.sqrt(stiffness / INERTIA), 0.5 * damping / INERTIA
    error = {}
    for dt in (4e-3, 2e-3):
        run = _wheel(stiffness=stiffness, rest=0.1).solve(dt, round(0.8 / dt))
        error[dt] = np.max(np.abs(run.body("wheel").orientation - 0.1 * (1 - np.cos(rate * run.t))))
        assert np.max(np.abs(run.energy - run.energy[0])) < (rate * dt) ** 2 * run.energy[0]
    assert error[2e-3] < error[4e-3] / 3.5 < 1e-3  # order 2
    run = _wheel(spin=1.0, damping=damping).solve(1e-3, 500)
    assert run.body("wheel").spin[-1] == pytest.approx(np.exp(-2 * decay * 0.5), rel=2e-3)  # order 1: the damper sees the start


def _on_an_axle(kind, dim, sides, rate=0.0, **drive):
    """Place and speed after 0.3 s of a body on a hinge about z or a slider along x, against space or a fixed body."""
    world = World(gravity=[0.0] * dim)
    round_ = shapes.Disc(0.3) if dim == 2 else shapes.Sphere(0.3)
    axis = np.eye(3)[0 if kind == "slider" else 2]
    moves = {"velocity": rate * axis[:dim]} if kind == "slider" else {"spin": rate if dim == 2 else rate * axis}
    named = {"body": world.add(round_, mass=2, name="body", **moves), "fixed": world.fix(round_.at([9.0] * dim)), "space": None}
    along = {} if dim == 2 and kind == "hinge" else {"axis": axis[:dim]}
    world.joint(kind, *(named[side] for side in sides), at=[0.0] * dim, **along, **drive)
    run = world.solve(1e-2, 30).body("body")
    if kind == "slider":
        return run.position[-1, 0], run.velocity[-1, 0]
    turned = run.orientation[-1]
    angle = turned if dim == 2 else 2 * np.arctan2(turned[3], turned[0])
    return float(angle), float(run.spin[-1] if dim == 2 else run.spin[-1, 2])


@pytest.mark.parametrize("kind", ["hinge", "slider"])
@pytest.mark.parametrize("dim", [2, 3])
def test_a_body_against_space_moves_along_its_axis_on_whichever_side_space_is_named(kind, dim):
    """Motor, stops and spring; between two bodies it is b against a, so the other order turns the sign."""
    for sides, sign in ((("body", "space"), 1), (("space", "body"), 1), (("fixed", "body"), 1), (("body", "fixed"), -1)):
        place, rate = _on_an_axle(kind, dim, sides, speed=3.0)
        assert place == pytest.approx(sign * (0.3 - 0.005) * 3, abs=1e-9)  # half the speed in the step in which the motor starts
        assert rate == pytest.approx(3.0 * sign, abs=1e-9)
        place, rate = _on_an_axle(kind, dim, sides, rate=2.0, limits=(-0.1, 0.2))
        assert place == pytest.approx(0.2 if sign > 0 else 0.1, abs=1e-9) and rate == pytest.approx(0.0, abs=1e-9)
        assert np.sign(_on_an_axle(kind, dim, sides, stiffness=1.0, rest=0.5)[0]) == sign


@pytest.mark.parametrize("dim", [2, 3])
def test_a_motor_that_meets_its_stop_pushes_at_once(dim, monkeypatch):
    """To hold its speed there has no solution, and the search for one took seconds in each step."""
    monkeypatch.setattr(velocity, "solve_friction", None)  # the long search: it is not needed
    for kind in ("hinge", "slider"):
        place, rate = _on_an_axle(kind, dim, ("body", "space"), speed=3.0, strength=50.0, limits=(-0.1, 0.2))
        assert place == pytest.approx(0.2, abs=1e-9) and rate == pytest.approx(0.0, abs=1e-9)


def test_joints_of_space_with_itself_are_refused():
    world = World(gravity=(0, 0))
    world.add(shapes.Disc(0.3), mass=2)
    with pytest.raises(carom.InputError, match="joins 'space' to itself"):
        world.joint("hinge", None, None, at=(0, 0))


@pytest.mark.parametrize(
    ("kind", "said", "says"),
    [
        ("ball", {"friction": 1.0}, "is a ball and has no friction"),
        ("hinge", {"strength": 1.0}, "but no motor"),
        ("hinge", {"speed": 1.0, "friction": 1.0}, "strength= instead"),
        ("hinge", {"limits": (0.1, 0.2)}, "low ≤ 0 ≤ high"),
        ("hinge", {"limits": (-4, 4)}, "inside"),
        ("hinge", {"friction": -1.0}, "must be a number ≥ 0"),
    ],
)
def test_drives_that_cannot_be_are_refused(kind, said, says):
    world = World(gravity=(0, 0))
    world.add(shapes.Disc(0.3), mass=2, name="wheel")
    with pytest.raises(carom.InputError, match=says):
        world.joint(kind, "wheel", None, at=(0, 0), **said)


@pytest.mark.parametrize(("dim", "rest"), [(2, 0.0), (3, 6 * np.pi)])
def test_a_spring_in_a_hinge_is_wound_by_many_turns(dim, rest, tmp_path):
    """I θ̈ = −k(θ − rest): the angle of two frames alone would jump by a turn, and the torque with it."""
    world = World(gravity=(0,) * dim)
    inertia, spin = (1.0, 20.0) if dim == 2 else (np.eye(3), (0, 0, 20.0))
    shape = shapes.Disc(0.5) if dim == 2 else shapes.Box(1, 1, 0.1)
    body = world.add(shape, mass=1.0, inertia=inertia, spin=spin)
    world.joint("hinge", body, None, at=(0,) * dim, stiffness=1.0, rest=rest, **({} if dim == 2 else {"axis": (0, 0, 1)}))
    run = world.solve(8e-3, 400, progress=False)
    found = run.body(body).spin if dim == 2 else run.body(body).spin[:, 2]
    # order 2: a phase of ωt (ωh)²/24 = 1e-5 after t = 3.2, of a swing of 20 to 28
    assert np.max(np.abs(found - 20 * np.cos(run.t) - rest * np.sin(run.t))) < 5e-4
    assert np.max(np.abs(run.energy / run.energy[0] - 1)) < 4e-5  # (ωh)²/4 = 1.6e-5
    assert np.max(run.turns) >= 3  # control: it did go round
    world.solve(8e-3, 200, progress=False).save(tmp_path / "wound.npz")
    longer = carom.load(tmp_path / "wound.npz").extend(200, world=world, progress=False)
    assert np.array_equal(longer.q, run.q) and np.array_equal(longer.energy, run.energy)


@pytest.mark.parametrize("frequency", [0.1, 100.0, 1e4])
def test_velocities_of_a_motion_by_a_function_at_any_frequency(frequency):
    """Differences over a fixed millisecond were 0.5 % off at 100 per second."""
    from carom.bodies.motions import from_function

    rate = 2 * np.pi * frequency
    motion = from_function(lambda t: ((np.sin(rate * t), 0, 1), (np.cos(rate * t / 3), 0, 0, np.sin(rate * t / 3))), "table", 3)
    for t in np.linspace(0, 1.7 / frequency, 9):
        _, _, velocity, spin = motion(t)
        # (rate · span)⁴/30 at the shortest span is 3e-9 for 1e4 per second; below, rounding over the longest that resolves it
        assert np.max(np.abs(velocity - [rate * np.cos(rate * t), 0, 0])) < 1e-8 * rate
        assert np.max(np.abs(spin - [0, 0, 2 / 3 * rate])) < 1e-8 * rate
