"""Runs of worlds that end where a function of the bodies is zero, and callbacks that look on."""

import contextlib

import numpy as np
import pytest

import carom
from carom import shapes

G = 9.81
FALL = np.sqrt(2 / G)  # of the lowest point, from a height of 1


def _world(restitution=1.0):
    world = carom.World(gravity=(0, -G))
    world.fix(shapes.HalfPlane(), name="floor")
    world.add(shapes.Disc(0.1), density=10, position=(0, 1.1), velocity=(2, 0), spin=3.0, name="ball")
    world.material(restitution=restitution)
    return world


def height(now):
    return now.body("ball").position[1] - 0.6


def test_a_run_ends_at_the_zero():
    run = _world().solve(0.01, 200, stop=height)
    assert run.status.ok and run.status.name == "stopped" and "'height'" in run.status.message
    assert abs(run.body("ball").position[-1, 1] - 0.6) < 1e-14 and run.t[-1] == run.status.t
    assert abs(run.t[-1] - np.sqrt(1 / G)) < 1e-13  # a parabola is exact here
    whole = _world().solve(0.01, 200)
    assert whole.status.name == "done"  # the control
    np.testing.assert_array_equal(run.x[:-1], whole.x[: len(run.x) - 1])
    assert run.num_steps == len(run.t) - 1 == 32


def test_directions_lists_times_and_thinned_runs():
    rising = _world().solve(0.01, 200, stop=carom.Stop(height, "rising"), save_every=7)
    # An impact is taken at the start of the step in which it is due: its time is known to a step.
    assert abs(rising.t[-1] - (2 * FALL - np.sqrt(1 / G))) < 0.01 and len(rising.impacts) == 1
    assert abs(rising.body("ball").position[-1, 1] - 0.6) < 1e-14
    clock = carom.Stop(lambda t: t - 0.123, name="clock")
    first = _world().solve(0.01, 200, stop=[height, clock])
    assert "'clock'" in first.status.message and abs(first.t[-1] - 0.123) < 1e-15
    impact = carom.Stop(lambda now: now.body("ball").velocity[1], "rising", "impact")  # v jumps: the instant of the jump
    jump = _world().solve(0.01, 200, stop=impact)
    assert abs(jump.t[-1] - FALL) < 0.01 and len(jump.impacts) == 1 and jump.body("ball").velocity[-1, 1] > 4


def test_it_goes_on_from_there_and_meets_the_next_zero(tmp_path):
    run = _world().solve(0.01, 200, stop=height)
    run.save(tmp_path / "run.zarr")
    longer, loaded = run.extend(50), carom.load(tmp_path / "run.zarr").extend(50, world=_world())
    assert longer.status.name == "done" and abs(longer.t[-1] - (run.t[-1] + 0.5)) < 1e-14 and longer.num_steps == 82
    np.testing.assert_array_equal(longer.x, loaded.x)
    assert abs(longer.energy[-1] / run.energy[0] - 1) < 1e-12
    t = longer.t[longer.t < FALL - 0.01]
    np.testing.assert_allclose(longer.body("ball").position[: len(t), 1], 1.1 - G / 2 * t**2, atol=1e-13)  # across the short step


def test_stops_and_checkpoints(tmp_path):
    path = tmp_path / "run.zarr"
    plain = _world().solve(0.01, 200, stop=height)
    run = _world().solve(0.01, 200, stop=height, checkpoint=path, every=10)
    np.testing.assert_array_equal(run.x, plain.x)
    again = _world().solve(0.01, 200, stop=height, checkpoint=path, every=10)
    np.testing.assert_array_equal(run.x, again.x)
    assert again.status == run.status and not path.with_name("run.zarr.parts").exists()
    with pytest.raises(carom.InputError, match="stop differs"):
        _world().solve(0.01, 200, stop=lambda now: now.body("ball").position[1] - 0.5, checkpoint=path, every=10)


def test_callbacks_look_and_end(tmp_path):
    seen = []
    run = _world().solve(0.01, 120, callback=seen.append, callback_every=50, save_every=120)
    assert [now.step for now in seen] == [50, 100, 120] and run.status.name == "done"
    now, last = seen[-1].body("ball"), run.body("ball")
    assert np.exp(1j * now.orientation) == pytest.approx(np.exp(1j * last.orientation[-1]), abs=1e-14)
    for name in ("position", "velocity", "spin", "center", "center_velocity"):
        np.testing.assert_allclose(getattr(now, name), getattr(last, name)[-1], atol=1e-14)
    assert seen[-1].energy == pytest.approx(run.energy[-1], rel=1e-14)
    assert [now.num_impacts for now in seen] == [1, 1, 1] and seen[0].t == 0.5
    short = _world().solve(0.01, 120, callback=lambda now: now.num_impacts > 0, callback_every=20, save_every=7)
    assert short.status.name == "ended" and short.status.ok and short.num_steps == 60 and short.t[-1] == 0.6
    parts = []
    _world().solve(0.01, 120, callback=parts.append, callback_every=50, checkpoint=tmp_path / "run.zarr", every=30)
    assert [(now.step, now.num_impacts) for now in parts] == [(now.step, now.num_impacts) for now in seen]


def test_what_is_refused():
    ball = carom.System(lambda q, v: 0.5 * v @ v)
    solve = lambda **more: _world().solve(0.01, 5, **more)  # noqa: E731
    rows = [
        (lambda: solve(stop=3.0), "function of now, t"),
        (lambda: solve(stop=lambda q: q[0]), "asks for 'q'; here it can ask for now, t"),
        (lambda: solve(stop=lambda now: now.body("nobody").position[0]), "no body 'nobody'"),
        (lambda: solve(stop=lambda now: now.body("ball").position), "one number"),
        (lambda: solve(stop=lambda now: now.bodies[0]), "AttributeError"),
        (lambda: solve(callback=3), "callback must be"),
        (lambda: solve(callback_every=3), "pass callback="),
        (lambda: carom.solve(ball, carom.VariationalCollision(), [0.0], [1.0], dt=0.1, num_steps=2, stop=height), "asks for 'now'"),
    ]
    for call, words in rows:
        with pytest.raises(carom.InputError, match=words):
            call()


@pytest.mark.parametrize("speed, done", [(1.0, False), (-1.0, True)], ids=["a table that comes down", "control: one that goes up"])
def test_what_is_squeezed_has_no_solution_and_says_so(speed, done):
    """Impulses without end swallow the rates they leave: the certificate must not be zero then."""
    world = carom.World(gravity=(0, 0))
    world.fix(carom.shapes.HalfPlane())
    world.add(carom.shapes.Disc(0.1), mass=1, position=(0, 0.1))
    table = carom.shapes.Polygon([[-1, -0.1], [1, -0.1], [1, 0.1], [-1, 0.1]])
    world.prescribe(table, lambda t: (0.0, 0.31 - speed * t))
    with contextlib.nullcontext() if done else pytest.warns(UserWarning, match="squeezed by what moves as prescribed"):
        run = world.solve(0.01, 4, progress=False)
    assert run.status.ok == done
    assert (run.residual.max() <= 1e-10) == done
