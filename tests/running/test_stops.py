"""Runs that end where a function is zero, and callbacks that look on."""

import jax
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


# -- in rollout, with derivatives ----------------------------------------------------------------------------------------

DROPPED = carom.System(
    lambda q, v, params: 0.5 * v @ v - params["g"] * q[0], [carom.Contact(lambda q: q[0], restitution=0.8, name="floor")]
)
# sign = 1: the top of a bounce. sign = −1: the impact, where v jumps. A level of 99: never.
STOPS = [
    carom.Stop(lambda v, params: params["sign"] * v[0] + params["level"], "falling", "top"),
    carom.Stop(lambda t: t - 2.0, name="late"),
]


def dropped(height, g, sign=1.0, level=0.0, method=METHODS["variational"]):
    params = {"g": g, "sign": sign, "level": level}
    q0, v0 = jnp.stack([height]), jnp.zeros(1)
    return carom.rollout(DROPPED, method, q0, v0, dt=0.05, num_steps=24, params=params, max_impacts=3, stop=STOPS)


@jax.jit  # one program for all tests
def weighed(height, g, sign, level, weights):
    """A sum of the time and the place of the end, and its derivatives with respect to the height and g."""

    def total(height, g):
        run = dropped(height, g, sign, level)
        return weights @ jnp.stack([run.end.t, run.end.q[0]]), run

    (_, run), slopes = jax.value_and_grad(total, (0, 1), has_aux=True)(height, g)
    return run, jnp.stack(slopes)


TIME, PLACE = np.eye(2)


def test_a_rollout_ends_at_the_zero_with_exact_derivatives():
    """The top of the first bounce: after T = (1 + e) √(2h/g), at the height e² h."""
    run, of_time = weighed(1.0, G, 1.0, 0.0, TIME)
    end, of_place = run.end, weighed(1.0, G, 1.0, 0.0, PLACE)[1]
    T = 1.8 * np.sqrt(2 / G)
    assert abs(end.t - T) < 1e-13 and abs(end.q[0] - 0.64) < 1e-13 and abs(end.v[0]) < 1e-12
    assert (int(end.stop), int(end.steps), int(run.status)) == (0, 17, 0)
    # Rounding: the zero is found to 4 ε t. Were the last step as long for every h, the first of these would be 0 instead.
    np.testing.assert_allclose(of_time, [T / 2, -T / (2 * G)], rtol=1e-11)
    np.testing.assert_allclose(of_place, [0.64, 0.0], rtol=1e-11, atol=1e-12)
    assert np.all(np.isnan(run.q[18:])) and np.all(np.isnan(run.t[18:])) and np.all(np.isfinite(run.q[:18]))
    assert abs(run.t[17] - T) < 1e-13


def test_where_no_stop_is_met_the_end_is_that_of_the_grid():
    run, slope = weighed(1.0, G, 1.0, 99.0, PLACE)
    assert (int(run.end.stop), int(run.end.steps)) == (-1, 24) and abs(run.end.t - 1.2) < 1e-14
    above, below = (weighed(1.0 + h, G, 1.0, 99.0, PLACE)[0].end.q[0] for h in (1e-5, -1e-5))
    np.testing.assert_allclose(slope[0], (above - below) / 2e-5, rtol=1e-7)
    np.testing.assert_array_equal(weighed(1.0, G, 1.0, 99.0, TIME)[1], 0.0)


def test_a_jump_through_zero_has_no_derivative():
    run, slope = weighed(1.0, G, -1.0, 0.0, TIME)
    assert abs(run.end.t - FALL) < 1e-12 and np.all(np.isnan(slope))  # no theorem, no number


@pytest.mark.stress
@pytest.mark.parametrize("name", ["event-driven", "timestepping"])
def test_derivatives_of_stops_with_other_methods(name):
    """Forwards, against differences over 2e-5, whose own error is rounding over that. (Moreau–Jean bounces on its grid: its top is
    met in the same step for all heights nearby, and the height of the start is carried along.)"""

    def ends(height):
        end = dropped(height, G, method=METHODS[name]).end
        return jnp.stack([end.t, end.q[0]])

    both = jax.jit(lambda height: jax.jvp(ends, (height,), (1.0,)))
    differences = (both(1.0 + 1e-5)[0] - both(1.0 - 1e-5)[0]) / 2e-5
    np.testing.assert_allclose(both(1.0)[1], differences, rtol=1e-6, atol=1e-8)


def captured(level):
    stop = lambda q: q[0] - level  # noqa: E731
    return carom.rollout(BALL, METHODS["variational"], [1.0], [0.0], dt=0.1, num_steps=3, stop=stop).end.t


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
        (lambda: carom.rollout(BALL, METHODS["variational"], [1.0], [0.0], dt=0.1, num_steps=3, stop="top"), "function of q, v, t"),
        (lambda: carom.rollout(BALL, METHODS["variational"], [1.0], [0.0], dt=0.1, num_steps=3, stop=lambda v: v[2]), r"v\[2\]"),
        (lambda: jax.grad(captured)(0.5), "captures a value that JAX is tracing"),
        (lambda: carom.ensemble(BALL, METHODS["variational"], [[1.0]], [[0.0]], dt=0.1, num_steps=3, stop=halfway), "has no stop"),
    ]
    for call, words in rows:
        with pytest.raises(carom.InputError, match=words):
            call()
