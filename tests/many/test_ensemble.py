"""Ensembles: every lane is what `solve` computes, whatever the other lanes do."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import carom

METHOD = carom.VariationalCollision(carom.Trapezoidal())
LANES, STEPS = 1000, 150


@pytest.fixture(scope="module")
def balls():
    """A thousand balls in a cubic potential: heights, speeds, gravity and steps differ; 150 steps hold one to three impacts."""
    rng = np.random.default_rng(7)
    q0s = np.stack([rng.normal(size=LANES), rng.uniform(0.2, 1.5, LANES)], axis=1)
    v0s = np.stack([rng.normal(size=LANES), rng.uniform(-2.0, 2.0, LANES)], axis=1)
    model = carom.models.particle(cubic=0.3)
    return {
        "system": model.system,
        "method": METHOD,
        "q0s": q0s,
        "v0s": v0s,
        "params": {"mass": 1.0, "cubic": 0.3},
        "each": {"gravity": rng.uniform(5.0, 15.0, LANES)},
        "dt": rng.uniform(0.008, 0.012, LANES),
        "num_steps": STEPS,
    }


@pytest.fixture(scope="module")
def ball_run(balls):
    return carom.ensemble(**balls, save=[0, 50])


class Alone(carom.VariationalCollision):
    """The same method, but lane after lane through the loop of `solve`."""

    offers = carom.VariationalCollision.offers - {"lanes"}


@pytest.mark.sensitive
def test_an_ensemble_is_solve_lane_by_lane(balls, ball_run):
    """1000 random lanes, to rounding."""
    alone = carom.ensemble(**{**balls, "method": Alone(METHOD.rule)}, save=[0, 50])
    np.testing.assert_array_equal(alone.num_impacts, ball_run.num_impacts)
    assert np.sum(alone.num_impacts) > LANES
    # 150 steps and up to six impacts of numbers of size 10, each good to 1e-15; an impact at most doubles an error
    np.testing.assert_allclose(alone.q, ball_run.q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(alone.p, ball_run.p, rtol=0, atol=1e-12)
    for lane in (0, 1, LANES - 1):
        solution = ball_run.solve(lane)
        np.testing.assert_allclose(solution.q[ball_run.saved], ball_run.q[lane], rtol=0, atol=1e-12)
        assert abs(solution.energy_error[-1] - ball_run.energy_error[lane, -1]) < 1e-12 and solution.status.ok


@pytest.mark.sensitive
@pytest.mark.stress
@pytest.mark.parametrize("way", ["as chosen", "lane by lane", "side by side"])
@pytest.mark.parametrize(("name", "steps"), [("star", 500), ("pendulum", 400)])
def test_bodies_and_pendulums_too(name, steps, way, monkeypatch):
    """64 lanes against `solve`, one by one. An impact of the star multiplies an error by up to ten: three of them, and rounding."""
    module = sys.modules["carom.many.ensemble"]
    if way == "side by side":  # what a GPU does
        monkeypatch.setattr(module, "_way_of_impacts", lambda *_: module.TOGETHER)
    if way == "lane by lane":
        monkeypatch.setattr(module, "SCALAR", {"sin"})
    model, rng = getattr(carom.models, name)(), np.random.default_rng(1)
    q0s, v0s = np.tile(model.q0, (64, 1)), np.tile(model.v0, (64, 1))
    if name == "star":
        q0s[:, 1] += rng.uniform(-0.5, 0.5, 64)
        v0s[:, 2] += rng.normal(size=64)
    else:
        q0s[:, 0] = rng.uniform(-1.5, -0.3, 64)
    run = carom.ensemble(model.system, METHOD, q0s, v0s, dt=model.dt, num_steps=steps, params=model.params)
    assert run.ok.all() and run.num_impacts.sum() > 64
    for lane in range(64):
        alone = run.solve(lane)
        assert len(alone.impacts) == run.num_impacts[lane]
        np.testing.assert_allclose(alone.q[-1], run.q[lane, -1], atol=1e-10)


def test_control_another_step_is_another_trajectory(balls, ball_run):
    other = carom.ensemble(**{**balls, "dt": balls["dt"] * (1 + 1e-9)})
    assert np.max(np.abs(other.q_end - ball_run.q_end)) > 1e-10


def test_what_an_ensemble_returns(balls, ball_run):
    assert ball_run.saved.tolist() == [0, 50, STEPS] and ball_run.q.shape == (LANES, 3, 2) and len(ball_run) == LANES
    np.testing.assert_array_equal(ball_run.q[:, 0], balls["q0s"])
    np.testing.assert_allclose(ball_run.t[:, 1], 50 * balls["dt"])
    assert np.all(ball_run.ok) and np.all(ball_run.steps == STEPS) and ball_run.status(3).ok
    data = ball_run.to_xarray()
    assert data.q.dims == ("lane", "step", "coordinate") and data.param_gravity.dims == ("lane",)
    table = ball_run.impacts([5, 2])
    assert np.bincount(table.lane, minlength=6)[[2, 5]].tolist() == ball_run.num_impacts[[2, 5]].tolist()
    assert np.all(np.diff(table.t[table.lane == 5]) > 0) and np.all(np.abs(table.q[:, 1]) < 1e-12)
    assert ball_run.summary()["failed"] == 0 and "1000 lanes" in repr(ball_run)


def test_a_lane_that_fails_disturbs_no_other(balls, ball_run):
    """Lane 17 falls upwards in a potential without bottom until it is infinite; the others do not notice."""
    gravity, q0s = balls["each"]["gravity"].copy(), balls["q0s"].copy()
    gravity[17] = -1e9
    run = carom.ensemble(**{**balls, "q0s": q0s, "each": {"gravity": gravity}, "params": {"mass": 1.0, "cubic": 0.3}})
    clean = np.arange(LANES) != 17
    assert not run.ok[17] and np.all(run.ok[clean])
    assert np.all(np.isnan(run.q_end[17])) and run.steps[17] < STEPS
    np.testing.assert_array_equal(run.q_end[clean], ball_run.q_end[clean])
    status = run.status(17)
    assert not status.ok and "not a number" in status.message


def test_a_lane_that_meets_an_infinity_fails_as_solve_does():
    """Lanes leave out products with zeros that all of them share, and 0 · ∞ is 0 there. So a lane whose force is infinite keeps a
    finite height, but it has failed all the same: at x = 0, which the first lane meets exactly, and the second passes by."""
    lagrangian = lambda q, v: 0.5 * v @ v + 1e-300 / q[0]  # noqa: E731
    system = carom.System(lagrangian, [carom.Contact(lambda q: q[1])])
    method = carom.VariationalCollision(carom.Trapezoidal())
    starts, options = np.array([[-1.0, 1.0], [-1.1, 1.0]]), {"dt": 0.25, "num_steps": 8}
    lanes = carom.ensemble(system, method, starts, [[1.0, -0.25]], **options)
    runs = [carom.solve(system, method, q, [1.0, -0.25], **options, throw=False) for q in starts]
    assert [run.status.ok for run in runs] == lanes.ok.tolist() == [False, True]
    np.testing.assert_allclose(lanes.q_end[1], runs[1].q[-1], atol=1e-15)


def test_bad_input_names_the_lane(balls):
    deep = balls["q0s"].copy()
    deep[321, 1] = -0.5
    cases = [
        ({"q0s": deep}, "lane 321: the initial state lies inside an obstacle"),
        ({"dt": np.where(np.arange(LANES) == 4, -1.0, 0.01)}, "dt must be positive in every lane"),
        ({"v0s": balls["v0s"][:7]}, "v0s has 7 rows; there are 1000 lanes"),
        ({"each": {"gravity": np.ones(3)}}, "has 3 rows; there are 1000 lanes"),
        ({"each": {"gravty": np.ones(LANES)}}, "gravity"),
        ({"save": [0, 999]}, "save asks for step 999"),
        ({"save": "all"}, "save must be"),
        ({"q0s": np.full((LANES, 2), np.nan)}, "lane 0 is"),
    ]
    for changes, message in cases:
        with pytest.raises(carom.InputError, match=message.replace("(", r"\(")):
            carom.ensemble(**{**balls, **changes})
    free = carom.System(lambda v: 0.5 * v @ v)
    with pytest.raises(carom.InputError, match="one state of 3 coordinates, and nothing differs from lane to lane"):
        carom.ensemble(free, METHOD, np.ones(3), np.ones(3), dt=0.01, num_steps=10)  # three particles on a line, somebody thought
    flat = carom.System(hamiltonian=lambda q, p: 0.5 * p[0] ** 2 + q @ q)
    with pytest.raises(carom.InputError, match=r"∂²H/∂p² has no inverse.*choose EventDriven"):  # what the method cannot run
        carom.ensemble(flat, METHOD, [[1.0, 0.0]], [[1.0, 0.0]], dt=0.01, num_steps=10)


def test_every_lane_is_checked():
    skate = carom.System(lambda v: 0.5 * v @ v, constraints=lambda q: [[0.0, 1.0]])
    with pytest.raises(carom.InputError, match=r"lane 1: v0 violates the constraints: row 0 of A v0 is 0\.5"):
        carom.ensemble(skate, METHOD, [[0.0, 0.0]], [[1.0, 0.0], [1.0, 0.5]], dt=0.01, num_steps=2)
    rod = carom.System(lambda v: 0.5 * v @ v, joints=[carom.Joint(lambda q, params: q @ q - params["length"] ** 2, name="rod")])
    for q, v, length, words in (
        ([1.1, 0.0], [0.0, 0.0], 1.0, r"lane 1: joint 'rod' does not hold at the start: it is 0\.21.*q0 = \[ ?1\., -?0\.\]"),
        ([1.0, 0.0], [2.0, 0.0], 1.0, "lane 1: v0 tears joint 'rod' apart: its rate is 4"),
        ([1.0, 0.0], [0.0, 0.0], 2.0, "lane 1: joint 'rod' does not hold at the start: it is -3"),
    ):  # fmt: skip
        with pytest.raises(carom.InputError, match=words):
            each = {"length": [1.0, length]}
            carom.ensemble(rod, METHOD, [[1.0, 0.0], q], [[0.0, 1.0], v], dt=0.01, num_steps=2, each=each, progress=False)
    body = carom.models.rigid_body()
    starts = np.stack([body.q0, 1.01 * np.asarray(body.q0)])
    with pytest.raises(carom.InputError, match=r"lane 1: .*unit quaternion"):
        carom.ensemble(body.system, METHOD, starts, [body.v0], dt=0.01, num_steps=2, params=body.params)


@pytest.mark.stress
def test_single_precision_loses_digits_and_nothing_else(balls, ball_run):
    """float32 has a rounding of 6e-8; 150 steps and six impacts of numbers of size 10 stay within a thousand of them."""
    run = carom.ensemble(**{**balls, "dtype": np.float32})
    assert np.all(run.ok) and np.mean(run.num_impacts == ball_run.num_impacts) > 0.99  # an impact on the last step may move over
    error = np.median(np.abs(run.q_end - ball_run.q_end))
    assert 1e-9 < error < 1e-4


@pytest.mark.stress
def test_gradients_of_a_mean_over_lanes():
    """d/dg of the mean height after one bounce: exact, height = y₀-dependent parabola; against central differences and by hand."""
    ball, heights = carom.models.particle(), np.array([0.8, 1.0, 1.3])
    starts = np.stack([np.zeros(3), heights], axis=1)

    def mean_height(gravity):
        params = {**ball.params, "gravity": gravity}
        options = {"dt": 0.01, "num_steps": 70, "params": params, "max_impacts": 4}
        return carom.expectation(lambda run: run.q[-1, 1], ball.system, METHOD, starts, np.zeros(2), **options)

    def exact(gravity, t=0.7):
        fall = np.sqrt(2 * heights / gravity)
        return np.mean(gravity * fall * (t - fall) - gravity * (t - fall) ** 2 / 2)

    value, slope = jax.jit(jax.value_and_grad(mean_height))(9.81)
    by_hand = (exact(9.81 + 1e-5) - exact(9.81 - 1e-5)) / 2e-5
    assert abs(value - exact(9.81)) < 2e-3 and abs(slope - by_hand) < 2e-3  # order 2, dt = 0.01: the kicks are (dt g)²/8
    near = (float(jax.jit(mean_height)(9.81 + 1e-6)) - float(jax.jit(mean_height)(9.81 - 1e-6))) / 2e-6
    assert abs(slope - near) < 1e-7  # central differences: rounding / 1e-6
    assert abs(slope) > 0.01


@pytest.mark.stress
def test_several_devices_give_the_same_numbers():
    """Two CPU devices in a process of its own: blocks go to both, and nothing changes."""
    code = (
        "import numpy as np, jax, carom;"
        "m = carom.models.particle(); assert len(jax.devices()) == 2;"
        "q = np.stack([np.zeros(600), np.linspace(0.5, 1.5, 600)], 1);"
        "r = lambda d: carom.ensemble(m.system, carom.VariationalCollision(carom.Trapezoidal()), q, [1.0, 0.0], dt=0.01,"
        " num_steps=100, params=m.params, devices=d).q_end;"
        "np.testing.assert_array_equal(r(jax.devices()), r(jax.devices()[:1]))"
    )
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=300)


def test_lanes_are_brought_to_a_device_once(balls, monkeypatch):
    """Compiling begins with the first task, and running goes on with what was brought for that: on a GPU a task is all lanes."""
    from carom.many.ensemble import _Plan

    begun, begin = [], _Plan.begin
    monkeypatch.setattr(_Plan, "begin", lambda plan, task, device: begun.append(task) or begin(plan, task, device))
    run = carom.ensemble(**balls)
    assert len(begun) == len(set(map(str, begun)))  # with what `compile` had brought thrown away, the first task is here twice
    assert sum(task.stop - task.start for task in begun) == len(run)


def test_lanes_are_checked_in_pieces(balls, monkeypatch):
    """What is wrong in a later piece is found, and named by the number of its lane; momenta are those of one piece."""
    from carom.many import lane_inputs

    whole = carom.ensemble(**{**balls, "num_steps": 1}, save=[0])
    monkeypatch.setattr(lane_inputs, "PIECE", 256)
    parts = carom.ensemble(**{**balls, "num_steps": 1}, save=[0])
    assert np.array_equal(whole.p, parts.p) and np.array_equal(whole.energy_start, parts.energy_start)
    deep = balls["q0s"].copy()
    deep[700, 1] = -0.25
    with pytest.raises(carom.InputError, match=r"lane 700: the initial state lies inside an obstacle: .* is 0.25 deep"):
        carom.ensemble(**{**balls, "q0s": deep})
    deep[700, 1] = np.nan
    with pytest.raises(carom.InputError, match=r"lane 700 is .*must be finite"):
        carom.ensemble(**{**balls, "q0s": deep})
