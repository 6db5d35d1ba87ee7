"""Runs that end where a function is zero, and callbacks that look on."""

import jax.numpy as jnp
import numpy as np
import pytest

import carom

G = 9.81
BALL = carom.System(lambda q, v: 0.5 * v @ v - G * q[0], [carom.Contact(lambda q: q[0], name="floor")])
METHODS = {
    "variational": carom.VariationalCollision(),
    "event-driven": carom.EventDriven(),
    "timestepping": carom.MoreauJean(),
    "hybrid": carom.Hybrid(),
}
FALL = np.sqrt(2 / G)  # from a height of 1


def drop(name: str = "variational", **more):
    return carom.solve(BALL, METHODS[name], [1.0], [0.0], **{"dt": 0.01, "num_steps": 400, "throw": True, **more})


def halfway(q):
    return q[0] - 0.5


@pytest.mark.parametrize("name", METHODS)
def test_a_run_ends_at_the_zero(name):
    run = drop(name, stop=halfway)
    assert run.status.ok and run.status.name == "stopped" and "'halfway'" in run.status.message
    assert abs(run.q[-1, 0] - 0.5) < 1e-13 and run.t[-1] == run.status.t == run.summary()["t_end"]
    # Moreau–Jean falls like a parabola that starts half a step late; the others know where they are.
    assert abs(run.t[-1] - np.sqrt(1 / G)) < (0.01 if name == "timestepping" else 1e-9)
    plain = drop(name)
    np.testing.assert_array_equal(run.q[:-1], plain.q[: len(run.q) - 1])  # nothing else is changed by looking
    assert run.num_steps == len(run.t) - 1 and run.t[-2] < run.t[-1] < run.t[-2] + 0.01
    assert f"{run.t[-1]:.9g}" in run.status.message


def test_control_without_a_stop_the_run_goes_on():
    assert drop().num_steps == 400 and drop(stop=lambda q: q[0] + 1).status.name == "ok"


def test_directions_names_and_lists():
    rising = drop(stop=carom.Stop(halfway, "rising"))
    assert rising.t[-1] == pytest.approx(2 * FALL - np.sqrt(1 / G), abs=1e-9) and len(rising.impacts) == 1
    falling = drop(stop=[carom.Stop(lambda q: q[0] - 0.25, name="low"), carom.Stop(lambda t: t - 0.1, name="clock")])
    assert "'clock'" in falling.status.message and falling.t[-1] == pytest.approx(0.1, abs=1e-15)
    top = drop(stop=carom.Stop(lambda v: v[0], "falling"))
    assert top.t[-1] == pytest.approx(2 * FALL, abs=1e-9) and top.q[-1, 0] == pytest.approx(1.0, abs=1e-12)


def test_a_jump_through_zero_is_the_instant_of_the_impact():
    run = drop(stop=carom.Stop(lambda v: v[0], "rising"))
    assert run.t[-1] == pytest.approx(FALL, abs=1e-9) and len(run.impacts) == 1 and run.v[-1, 0] > 4


@pytest.mark.parametrize("name", ["variational", "timestepping"])
def test_what_is_computed_from_a_run_knows_its_short_step(name, tmp_path):
    run = drop(name, stop=carom.Stop(lambda t: t - 0.4567))
    assert run.impacts.step.tolist() == [45]
    np.testing.assert_allclose(np.sum(run.contact_forces[:, 0] * np.diff(run.t)), np.sum(run.impacts.impulses), rtol=1e-12)
    middle = 0.5 * (run.t[-2] + run.t[-1])
    between = run.dense.q([run.t[-1], middle])[:, 0]
    np.testing.assert_allclose(between, [run.q[-1, 0], 0.5 * (run.q[-1, 0] + run.q[-2, 0])], atol=0.05)
    assert abs(between[0] - run.q[-1, 0]) < 1e-9
    again = run.extend(30)
    assert again.num_steps == 76 and again.t[-1] == pytest.approx(run.t[-1] + 0.3, abs=1e-14) and again.status.name == "ok"
    np.testing.assert_array_equal(again.q[:47], run.q)
    twice = again.extend(10)
    assert twice.t[-1] == pytest.approx(run.t[-1] + 0.4, abs=1e-14) and twice.since == (46, run.t[-1])
    run.save(tmp_path / "run.zarr")
    loaded = carom.load(tmp_path / "run.zarr", system=BALL, method=METHODS[name])
    assert loaded.status == run.status
    np.testing.assert_array_equal(loaded.extend(30).q, again.q)


def test_the_next_zero_after_a_stop_is_another_one():
    run = drop(stop=halfway)
    later = run.extend(200, stop=halfway)
    assert later.status.name == "stopped" and later.t[-1] == pytest.approx(2 * FALL - np.sqrt(1 / G), abs=1e-9)


def test_stops_and_checkpoints(tmp_path):
    path = tmp_path / "run.zarr"
    run = drop(stop=halfway, checkpoint=path, every=10)
    again = drop(stop=halfway, checkpoint=path, every=10)
    np.testing.assert_array_equal(run.q, again.q)
    with pytest.raises(carom.InputError, match="stop differs"):
        drop(stop=lambda q: q[0] - 0.4, checkpoint=path, every=10)


def test_stops_on_rotations_and_thinned_grids():
    space = carom.SO3()
    top = carom.System(lambda v: 0.5 * (v[0] ** 2 + 2 * v[1] ** 2 + 3 * v[2] ** 2), space=space)
    q0, v0 = [1.0, 0, 0, 0], [0.0, 0.0, 2.0]
    run = carom.solve(top, METHODS["variational"], q0, v0, dt=0.05, num_steps=200, stride=3, stop=lambda q: q[0])
    assert run.t[-1] == pytest.approx(np.pi / 2, abs=1e-6)  # half a turn at order 4 and dt = 0.05
    assert abs(run.q[-1, 0]) < 1e-13
    assert np.allclose(np.diff(run.t)[:-1], 0.15)


def test_callbacks_look_and_end():
    seen = []
    run = drop(callback=lambda s: seen.append(s), callback_every=150)
    assert [s.step for s in seen] == [150, 300, 400] and run.status.name == "ok"
    np.testing.assert_array_equal(seen[0].q, run.q[150])
    assert seen[1].t == run.t[300] and seen[1].num_impacts == np.sum(run.impacts.step < 300)
    short = drop(callback=lambda s: bool(s.num_impacts >= 1), callback_every=20)
    assert short.status.name == "ended" and short.status.ok and short.num_steps == 60 and "callback" in short.status.message
    np.testing.assert_array_equal(short.q, run.q[:61])


def test_what_is_refused():
    rows = [
        (lambda: drop(stop=3.0), "function of q, v, t, params"),
        (lambda: drop(stop=lambda x: x), "asks for 'x'"),
        (lambda: drop(stop=lambda q: jnp.stack([q[0], q[0]])), "one number"),
        (lambda: drop(stop=lambda q: q[3]), r"q\[3\]"),
        (lambda: carom.Stop(halfway, "up"), "rising"),
        (lambda: drop(callback=3), "callback must be"),
        (lambda: drop(callback_every=3), "pass callback="),
        (lambda: drop(callback=print, callback_every=0), "callback_every"),
        (lambda: carom.rollout(BALL, METHODS["variational"], [1.0], [0.0], dt=0.1, num_steps=3, stop=halfway), "has no stop"),
        (lambda: carom.ensemble(BALL, METHODS["variational"], [[1.0]], [[0.0]], dt=0.1, num_steps=3, stop=halfway), "has no stop"),
    ]
    for call, words in rows:
        with pytest.raises(carom.InputError, match=words):
            call()
