"""The ready-made models against their exact answers."""

import subprocess
import sys

import jax
import numpy as np
import pytest
from scipy.optimize import brentq

import carom
from carom import models
from carom.drawing import picture
from carom.models.particles import corner_period
from carom.models.pendulums import time_between_impacts
from carom.models.planar import rough_impact
from carom.models.rows import compressed_speed, cradle_outcome

EPS = float(np.finfo(float).eps)
TRAPEZOIDAL = carom.VariationalCollision(carom.Trapezoidal())  # exact between impacts for linear potentials, quick to compile
IMPULSE = carom.VariationalCollision(carom.Trapezoidal(), simultaneous="impulse")


@pytest.mark.parametrize("name", models.ALL)
def test_every_model_is_well_posed(name):
    """The start is admissible (a zero-step problem passes the checks), described, and drawable."""
    from carom.running.checks import check_problem

    model = models.ALL[name]()
    check_problem(model.system, model.q0, model.v0, model.params)
    assert model.name == name and model.about and model.dt > 0 and model.num_steps > 0
    for part in picture(model.shape, np.asarray(model.q0), 0.0, model.params):
        assert np.all(np.isfinite(part.points))


@pytest.mark.parametrize("name", models.ALL)
def test_a_model_built_twice_is_the_same_to_the_compiler(name):
    """Static parts (functions) must compare equal, or every new model would compile again."""
    import equinox as eqx

    first, second = (eqx.partition(models.ALL[name]().system, eqx.is_array)[1] for _ in range(2))
    assert jax.tree.structure(first) == jax.tree.structure(second)


def test_control_functions_made_on_the_spot_do_not_compare_equal():
    import equinox as eqx

    def build():
        return carom.System(lambda v: 0.5 * v @ v)

    first, second = (eqx.partition(build(), eqx.is_array)[1] for _ in range(2))
    assert jax.tree.structure(first) != jax.tree.structure(second)


@pytest.mark.parametrize(("method", "law"), [(TRAPEZOIDAL, "reflections"), (IMPULSE, "impulse")])
def test_three_touching_balls_follow_the_law(method, law):
    run = models.cradle(3).solve(method)
    expected = {"reflections": [0, 0, 1], "impulse": [-1 / 3, 2 / 3, 2 / 3]}[law]
    np.testing.assert_allclose(cradle_outcome(3, law), expected, atol=EPS)
    np.testing.assert_allclose(run.v[-1], expected, atol=10 * EPS)  # a few roundings in one impact
    other = cradle_outcome(3, "impulse" if law == "reflections" else "reflections")
    assert np.max(np.abs(run.v[-1] - other)) > 0.3  # control: the laws do differ
    assert run.v[-1].sum() == pytest.approx(1.0, abs=10 * EPS)
    assert run.energy[-1] == pytest.approx(0.5, abs=10 * EPS)
    apart = models.cradle(3, spacing=0.01).solve(method)  # balls that do not touch need no law but mechanics
    np.testing.assert_allclose(apart.v[-1], [0, 0, 1], atol=10 * EPS)
    assert len(apart.impacts) == 2 and len(run.impacts) == 1


def test_a_particle_in_a_corner_bounces_straight_back():
    model = models.corner()
    run = model.solve(TRAPEZOIDAL)
    assert np.all(run.q[:, 0] == run.q[:, 1])  # the symmetry is kept to the last bit
    assert np.all(run.impacts.impulses[:, 0] == run.impacts.impulses[:, 1]) and np.all(run.impacts.impulses > 0)
    # The energy of each bounce is off by O(dt²): a kick of m(dt g)²/8 at most, each way (`energy_kick`), so the period is too.
    kick = (model.dt * 9.81) ** 2 / 8 / 9.81
    np.testing.assert_allclose(np.diff(run.impacts.t), corner_period(), rtol=len(run.impacts) * kick)
    off = models.corner(offset=0.05).solve(TRAPEZOIDAL)  # control: off the diagonal the walls are hit one at a time
    assert np.any(off.impacts.impulses == 0) and np.max(np.abs(off.q[:, 0] - off.q[:, 1])) > 0.01


def test_a_wall_that_approaches_adds_twice_its_speed_at_each_hit():
    wall = 0.05
    run = models.piston(speed=-wall, amplitude=0.0).solve(TRAPEZOIDAL, num_steps=1500)
    hits = int(np.sum(run.impacts.contact == 1))
    assert hits > 20
    assert abs(run.v[-1, 0]) == pytest.approx(compressed_speed(hits, 1.0, wall), abs=100 * hits * EPS)  # a rounding walk
    assert abs(run.v[-1, 0]) != pytest.approx(compressed_speed(hits - 1, 1.0, wall), abs=1e-3)  # control


def test_the_oscillating_piston_follows_the_exact_map():
    """Free flight and v⁺ = 2u − v⁻, with the times of the hits from a root finder."""
    p = models.piston().params
    run = models.piston().solve(TRAPEZOIDAL, num_steps=3000)
    length, a, w = p["length"], p["amplitude"], p["frequency"]
    t, x, v, times = 0.0, 0.5, 1.0, []
    while len(times) < 20:
        gap = lambda s, t=t, x=x, v=v: length + a * np.sin(w * s) - (x + v * (s - t))  # noqa: E731
        if v > 0:
            grid = np.linspace(t + 1e-9, t + 3, 3001)
            first = int(np.argmax(gap(grid) < 0))
            hit = brentq(gap, grid[first - 1], grid[first], xtol=1e-15)
            x, v = x + v * (hit - t), 2 * a * w * np.cos(w * hit) - v
        else:
            hit, x, v = t - x / v, 0.0, -v
        t = hit
        times.append(t)
    np.testing.assert_allclose(run.impacts.t[:20], times, rtol=1e-10)  # the map is mildly chaotic: errors grow from 1e-16
    still = models.piston().solve(TRAPEZOIDAL, num_steps=3000, params={"amplitude": 0.0})
    assert np.max(np.abs(still.impacts.t[:20] - times)) > 1e-2  # control: the motion of the wall matters


def test_a_pendulum_meets_the_wall_after_half_periods():
    run = models.pendulum(angle=-1.0).solve(num_steps=2000)
    half = time_between_impacts(-1.0)
    assert half == pytest.approx(np.pi * np.sqrt(1 / 9.81) * (1 + 1 / 16 + 11 / 3072), rel=1e-3)  # the series in the amplitude
    np.testing.assert_allclose(run.impacts.t, half * (0.5 + np.arange(len(run.impacts))), atol=1e-6)  # order 4, dt = 0.01
    assert abs(run.impacts.t[0] - np.pi / 2 * np.sqrt(1 / 9.81)) > 1e-2  # control: not the small-angle pendulum


def test_a_rough_impact_follows_coulomb():
    model = models.friction_ball()
    p = model.params
    mass = np.array([p["mass"], p["mass"], p["inertia"]])
    run = model.solve(TRAPEZOIDAL, num_steps=1000)
    law = {key: p[key] for key in ("mass", "radius", "inertia", "friction", "restitution")}
    for before, after in zip(run.impacts.p_before / mass, run.impacts.p_after / mass, strict=True):
        np.testing.assert_allclose(after, rough_impact(before, **law), atol=1e-12)  # 1e-12: spin 40, and roundings in 1/inertia
    slide = run.impacts.p_after @ np.array([1 / p["mass"], 0, p["radius"] / p["inertia"]])
    assert slide[0] > 0.1 and abs(slide[-1]) < 1e-12  # slides at first, rolls at last
    wrong = rough_impact((run.impacts.p_before / mass)[0], **{**law, "friction": 0.1})
    assert np.max(np.abs(wrong - run.impacts.p_after[0] / mass)) > 0.1  # control


def test_drag_loses_energy_and_a_longer_run_ends_with_advice():
    model = models.drag()
    run = model.solve(TRAPEZOIDAL, num_steps=3000, throw=False)
    assert not run.status.ok and run.status.name == "too_many_impacts" and "coming to rest" in run.status.message
    assert run.status.step > model.num_steps  # the model itself stops in time
    assert np.all(np.diff(run.energy) < 1e-12)


def test_a_double_pendulum_stays_on_its_side_of_the_wall():
    """Its mass depends on the configuration, so that the trapezoidal rule is implicit here."""
    model = models.double_pendulum()
    run = model.solve(TRAPEZOIDAL, num_steps=1000)
    wall, joint, tip = model.params["wall"], np.sin(run.q[:, 0]), np.sin(run.q[:, 0]) + np.sin(run.q[:, 1])
    assert len(run.impacts) > 2
    assert np.max(joint) < wall + 1e-12 and np.max(tip) < wall + 1e-12
    assert np.max(np.abs(run.energy_error)) < 2e-3  # order 2 with dt = 0.005
    free = model.solve(TRAPEZOIDAL, num_steps=1000, params={"wall": 10.0})  # control: without the wall it goes further
    assert len(free.impacts) == 0 and np.max(np.sin(free.q).sum(axis=1)) > wall + 0.1


def test_a_misspelt_parameter_is_an_error_with_a_suggestion():
    with pytest.raises(carom.InputError, match="did you mean 'gravity'"):
        models.star().solve(params={"gravty": 1.0})
    with pytest.raises(carom.InputError, match="a whole number of at least 2"):
        models.cradle(1)


LOADED = """
import sys, carom
carom.models.particle()
print(*[name for name in ("scipy", "diffrax", "pandas", "zarr", "carom.bodies.world", "carom.models.beam") if name in sys.modules])
import carom.models.beam
from carom.models.bars import bars
from carom import models
print(callable(models.beam), callable(models.bars), models.bars is bars, len(models.ALL), len(models.SCENES))
"""


def test_a_particle_loads_neither_beams_nor_bodies():
    """And a module called like its model does not take its place."""
    ran = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["", f"True True True {len(carom.models.ALL)} {len(carom.models.SCENES)}"]
