"""Materials of bodies, shapes and pairs; friction against rolling and spinning, with exact answers."""

import warnings

import numpy as np
import pytest

import carom
from carom.bodies import quaternions, rolling, shapes
from carom.bodies.world import World

G, R = 9.81, 0.1


def _ball(dim=3, tilt=0.0, velocity=0.0, spin=None, **material):
    """A ball (a disc) that rolls on a floor, which is tilted by turning gravity."""
    world = World(gravity=G * np.array([np.sin(tilt), *[0.0] * (dim - 2), -np.cos(tilt)]))
    world.fix(shapes.HalfSpace() if dim == 3 else shapes.HalfPlane())
    zero = [0.0] * (dim - 2)
    turning = (0, velocity / R, 0) if dim == 3 else -velocity / R
    world.add(
        shapes.Sphere(R) if dim == 3 else shapes.Disc(R),
        mass=2.0,
        position=(0, *zero, R),
        velocity=(velocity, *zero, 0),
        spin=turning if spin is None else spin,
    )
    world.material(**({"friction": 0.5} | material))
    return world


@pytest.mark.parametrize("dim", [2, 3])
def test_a_ball_rolls_out_over_the_exact_distance(dim):
    """v̇ = −ρgR/(R² + I/m), so it rolls for v²/2|v̇|; exact but for the step in which it stops, h²|v̇|/8 at most."""
    rho, v, h = 0.02, 0.5, 4e-3
    inertia = 0.4 if dim == 3 else 0.5
    brake = rho * G / (R * (1 + inertia))
    run = _ball(dim, velocity=v, rolling=rho).solve(h, int(1.2 * v / brake / h))
    x, speed = run.body("body 1").position[:, 0], run.body("body 1").velocity[:, 0]
    assert run.status.ok and run.residual.max() <= 1e-10
    assert abs(x[-1] - v**2 / (2 * brake)) <= brake * h**2 / 8 * (1 + 1e-9) and speed[-1] == 0
    assert np.max(np.abs(speed - np.maximum(v - brake * run.t, 0.0))) < 1e-12  # the same in every step
    free = _ball(dim, velocity=v).solve(h, 10)
    assert free.body("body 1").velocity[-1, 0] == pytest.approx(v, abs=1e-14)  # control: without rolling friction it goes on


def test_a_spinning_ball_stops_at_the_exact_time():
    """Iω̇ = −σmg: it stops at 2R²ω/5σg."""
    sigma, omega, h = 0.02, 5.0, 2e-3
    stop = 0.4 * R**2 * omega / (sigma * G)
    run = _ball(spin=(0, 0, omega), spinning=sigma).solve(h, int(1.3 * stop / h))
    spin = run.body("body 1").spin
    assert np.max(np.abs(spin[:, 2] - np.maximum(omega * (1 - run.t / stop), 0.0))) < 1e-12 and not np.any(spin[:, :2])
    assert run.t[np.argmax(spin[:, 2] == 0)] - h < stop <= run.t[np.argmax(spin[:, 2] == 0)] + 1e-12
    assert _ball(spin=(0, 0, omega), rolling=sigma).solve(h, 10).body("body 1").spin[-1, 2] == omega  # control: rolling is another


@pytest.mark.parametrize("share", [1 - 1e-6, 1 + 1e-6])
def test_a_ball_on_an_incline_holds_iff_the_lever_is_long_enough(share):
    """The weight has the lever R tan α about the point of contact."""
    tilt = 0.1
    run = _ball(tilt=tilt, rolling=share * R * np.tan(tilt)).solve(1e-3, 20)
    assert np.any(run.v[-1] != 0) == (share < 1)


def test_rolling_and_spinning_of_a_box_and_of_two_balls_take_energy_and_settle():
    world = World()
    world.fix(shapes.HalfSpace())
    world.add(shapes.Sphere(R), mass=1, position=(0, 0, R), velocity=(1, 0.2, 0), spin=(0, 5, 20))
    world.add(shapes.Sphere(R), mass=2, position=(0.5, 0, R), velocity=(-1, 0, 0))
    world.add(shapes.Box(0.2, 0.1, 0.1), mass=1, position=(0, 0.6, 0.05), velocity=(0.3, 0, 0), spin=(0, 0, 4))
    world.material(friction=0.3, restitution=0.5, rolling=0.01, spinning=0.005)
    run = world.solve(2e-3, 150)
    assert run.status.ok and run.residual.max() <= 1e-10
    pressed = 4 * (G * run.dt) ** 2  # what a contact may give, see docs/bodies.md
    assert np.max(np.diff(run.energy)) <= pressed + 1e-12 and run.kinetic[-1] < 0.6 * run.kinetic[0]


def _sled(rub):
    """Two balls in one body, a rear one that rubs and a front one that does not."""
    world = World()
    floor = world.fix(shapes.HalfSpace())
    sled = world.add(
        [shapes.Sphere(R).at((-0.3, 0, 0)), shapes.Sphere(R).at((0.3, 0, 0))], density=100, position=(0, 0, R), velocity=(1, 0, 0)
    )
    rub(world, sled, floor)
    return world.solve(1e-3, 50).body(sled).velocity[-1, 0]


@pytest.mark.parametrize("tilt", [1e-8, -1e-8])
def test_a_log_that_lands_on_both_ends_may_resist_rolling(tilt, monkeypatch):
    """One end is not quite as high, so that it turns by that, very slowly, and the smaller of two torques against it crept."""

    def landing():
        lying = quaternions.multiply(*(quaternions.exponential(np.array([0.0, angle, 0.0])) for angle in (tilt, np.pi / 2)))
        world = World()
        world.fix(shapes.HalfSpace())
        falling = {"velocity": (0, 0, -0.8), "spin": (1e-3, 1.1, 0)}
        world.add(shapes.Cylinder(0.8, 1.5), mass=31, position=(0, 0, 0.8 + 2.3e-6), orientation=lying, **falling)
        world.material(rolling=0.04)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return world.solve(5e-3, 3, progress=False)

    assert landing().status.ok
    monkeypatch.setattr(rolling, "LEAPS", ())  # control
    assert not landing().status.ok


def test_each_shape_has_its_own_material():
    """μ = 0.4 on the rear ball alone: its load is mg/(2 + μR/d), by the balance of torques."""
    exact = 1 - 0.05 * 0.4 * G / (2 + 0.4 * R / 0.3)
    assert _sled(lambda w, sled, floor: w.material(friction=0.4, of=(sled, 0))) == pytest.approx(exact, abs=1e-12)
    assert _sled(lambda w, sled, floor: w.material(friction=0.4, between=((sled, 0), floor))) == pytest.approx(exact, abs=1e-12)

    def all_but_one(world, sled, floor):
        world.material(friction=0.4)
        world.material(friction=0.0, of=(sled, 1))

    assert _sled(all_but_one) == pytest.approx(exact, abs=1e-12)
    whole = _sled(lambda w, sled, floor: w.material(friction=0.4, of=sled))
    assert whole == pytest.approx(1 - 0.05 * 0.4 * G, abs=1e-12) and abs(whole - exact) > 0.05  # control


def test_materials_that_cannot_be_are_refused():
    world = _ball()
    for wrong in ({"rolling": -1}, {"spinning": -0.1}, {"restitution": 1.1}, {"friction": np.nan}):
        with pytest.raises(carom.InputError):
            world.material(**wrong)
    with pytest.raises(carom.InputError, match="has shapes 0 … 0"):
        world.material(friction=1, of=("body 1", 1))
    with pytest.raises(carom.InputError, match="not both"):
        world.material(friction=1, of="body 1", between=("body 1", "fixed 0"))
    with pytest.raises(carom.InputError, match="plane"):
        _ball(2, spinning=0.1)
    with pytest.raises(carom.InputError, match="rolling and spinning"):
        _ = _ball(rolling=0.1).system
