"""Steps of different length, and a degree for each: `solve` and `rollout` with a grid of the user's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom

GRAVITY = 10.0
METHOD = carom.VariationalCollision(carom.Trapezoidal())
BALL = carom.System(lambda q, v: 0.5 * v @ v - GRAVITY * q[0], contacts=[carom.Contact(lambda q: q[0], restitution=0.8)])
SPRING = carom.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q)  # q = cos t
LENGTHS = 0.02 * np.random.default_rng(1).uniform(0.3, 1.7, 60)  # about 1.2 in all, with one impact at √0.2 and another


def ball(t):
    """Height of a ball that falls from 1 and loses a fifth of its speed at each impact."""
    first, speed = np.sqrt(2 / GRAVITY), np.sqrt(2 * GRAVITY)
    if t < first:
        return 1 - GRAVITY * t**2 / 2
    t, speed = t - first, 0.8 * speed
    while t > 2 * speed / GRAVITY:
        t, speed = t - 2 * speed / GRAVITY, 0.8 * speed
    return speed * t - GRAVITY * t**2 / 2


def test_the_grid_is_the_one_that_was_asked_for():
    run = carom.solve(BALL, METHOD, [1.0], [0.0], dt=LENGTHS)
    np.testing.assert_array_equal(run.t, np.concatenate([[0.0], np.cumsum(LENGTHS)]))
    assert run.uneven and run.num_steps == 60 and "different length" in repr(run)
    # The rule is exact in free fall, and an impact with loss has the exact law: 1e-13 is rounding over 60 steps.
    np.testing.assert_allclose(run.q[:, 0], [ball(t) for t in run.t], atol=1e-13)
    assert len(run.impacts) == 2
    k = run.impacts.step
    assert np.all((run.t[k] <= run.impacts.t) & (run.impacts.t <= run.t[k + 1]))
    # A control: the same states at times of an even grid are not those of a ball.
    even = np.linspace(0.0, run.t[-1], 61)
    assert np.max(np.abs(run.q[:, 0] - [ball(t) for t in even])) > 1e-2


def test_a_function_says_how_long_a_step_is():
    run = carom.solve(BALL, METHOD, [1.0], [0.0], dt=lambda t: 0.01 * (1 + t), num_steps=60)
    np.testing.assert_allclose(run.t, 1.01 ** np.arange(61) - 1, rtol=1e-13)  # t ← 1.01 t + 0.01
    np.testing.assert_allclose(run.q[:, 0], [ball(t) for t in run.t], atol=1e-13)
    by_number = carom.solve(BALL, METHOD, [1.0], [0.0], dt=lambda step: LENGTHS[step], num_steps=60)
    np.testing.assert_array_equal(by_number.q, carom.solve(BALL, METHOD, [1.0], [0.0], dt=LENGTHS).q)


@pytest.mark.parametrize(
    "method", [carom.TimeDG([1, 3] * 32), carom.TimeDG([2, 3] * 32, "+"), METHOD], ids=["1, 3", "2, 3 +", "variational"]
)
def test_the_order_is_kept_on_uneven_grids(method):
    """Steps that alternate between h/2 and 3h/2. The declared order of a list of degrees is that of its lowest."""
    errors = []
    for n in (32, 64):
        lengths = np.tile([0.5, 1.5], n // 2) * 2.0 / n
        errors.append(abs(carom.solve(SPRING, method, [1.0], [0.0], dt=lengths).q[-1, 0] - np.cos(2.0)))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(method.order, abs=0.15)  # at n = 32 the next order is seen


def test_each_step_has_its_degree():
    """Step by step the same as runs of one step with one degree; with the degrees exchanged it is not."""
    degrees = (1, 3, 2)
    whole = carom.solve(SPRING, carom.TimeDG(degrees), [1.0], [0.5], dt=[0.3, 0.2, 0.4])
    q, v = [1.0], [0.5]
    for k, degree in enumerate(degrees):
        one = carom.solve(SPRING, carom.TimeDG(degree), q, v, dt=float(np.diff(whole.t)[k]), num_steps=1)
        q, v = one.q[-1], one.v[-1]
        np.testing.assert_allclose([*whole.q[k + 1], *whole.v[k + 1]], [*q, *v], atol=1e-14)
        inside = whole.t[k] + np.array([0.1, 0.7]) * np.diff(whole.t)[k]
        np.testing.assert_allclose(whole.dense.v(inside), one.dense.v(inside - whole.t[k]), atol=1e-14)
    other = carom.solve(SPRING, carom.TimeDG((3, 1, 2)), [1.0], [0.5], dt=[0.3, 0.2, 0.4])
    assert abs(other.q[1, 0] - whole.q[1, 0]) > 1e-5
    more = whole.extend(dt=[0.1])  # the last degree holds on
    last = carom.solve(SPRING, carom.TimeDG(2), q, v, dt=0.1, num_steps=1)
    np.testing.assert_allclose(more.q[-1], last.q[-1], atol=1e-14)


def test_it_does_not_depend_on_how_it_is_cut(tmp_path):
    whole = carom.solve(BALL, METHOD, [1.0], [0.0], dt=LENGTHS)
    seen = []
    cut = carom.solve(BALL, METHOD, [1.0], [0.0], dt=LENGTHS, callback=lambda now: seen.append(now.t), callback_every=7)
    np.testing.assert_array_equal(cut.q, whole.q)
    np.testing.assert_array_equal(cut.impacts.t, whole.impacts.t)
    np.testing.assert_array_equal(seen, [*whole.t[7::7], whole.t[-1]])
    half = carom.solve(BALL, METHOD, [1.0], [0.0], dt=LENGTHS[:33]).extend(dt=LENGTHS[33:])
    np.testing.assert_allclose(half.q, whole.q, atol=1e-14)  # its times are summed up in two parts
    np.testing.assert_array_equal(half.impacts.step, whole.impacts.step)
    kept = carom.solve(BALL, METHOD, [1.0], [0.0], dt=LENGTHS, checkpoint=tmp_path / "ball.zarr")
    again = carom.load(tmp_path / "ball.zarr")
    np.testing.assert_array_equal(again.t, kept.t)
    assert again.uneven and again.dt == pytest.approx(np.mean(LENGTHS))
    with pytest.raises(carom.InputError, match="dt"):
        carom.solve(BALL, METHOD, [1.0], [0.0], dt=LENGTHS[::-1], checkpoint=tmp_path / "ball.zarr")


def test_a_stop_inside_a_long_step():
    stop = carom.Stop(lambda q: q[0] - 0.5, "falling", "half way")
    lengths = [0.1, 0.4, 0.2, 0.05]
    run = carom.solve(BALL, METHOD, [1.0], [0.0], dt=lengths, stop=stop)
    assert run.status.name == "stopped" and run.num_steps == 2
    assert run.t[-1] == pytest.approx(np.sqrt(1 / GRAVITY), abs=1e-14)
    on = run.extend(dt=[0.1, 0.2])
    np.testing.assert_allclose(on.q[:, 0], [ball(t) for t in on.t], atol=1e-13)


def test_derivatives_with_respect_to_each_length():
    """After an impact the height is e√(2g)(T − t₁) − g(T − t₁)²/2 with T = Σ dt: the same derivative for all lengths."""
    lengths = jnp.asarray([0.2, 0.1, 0.25, 0.05])

    def height(lengths):
        return carom.rollout(BALL, METHOD, [1.0], [0.0], dt=lengths, num_steps=4, max_impacts=2).q[-1, 0]

    speed, gone = 0.8 * np.sqrt(2 * GRAVITY), 0.6 - np.sqrt(2 / GRAVITY)
    slope = np.full(4, speed - GRAVITY * gone)
    np.testing.assert_allclose(jax.grad(height)(lengths), slope, atol=1e-12)


def test_diagnostics_know_the_lengths():
    """E_d of the trapezoidal rule in free fall is E − (gh)²/8, with the h of each step."""
    run = carom.solve(BALL, METHOD, [1.0], [0.0], dt=LENGTHS[:20])
    np.testing.assert_allclose(carom.diagnostics.discrete_energy(run), GRAVITY - (GRAVITY * LENGTHS[:20]) ** 2 / 8, rtol=1e-13)


def test_a_model_takes_them_too():
    run = carom.models.particle().solve(dt=[0.01, 0.02])
    assert run.num_steps == 2 and run.t[-1] == pytest.approx(0.03)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dt": [0.1, -0.1]}, "step 1 is -0.1"),
        ({"dt": [0.1, 0.1], "num_steps": 3}, "leave num_steps out"),
        ({"dt": lambda t: 0.1 - t, "num_steps": 9}, "positive length"),
        ({"dt": lambda u: 0.1, "num_steps": 9}, "asks for 'u'"),
        ({"dt": [[0.1]]}, "shape"),
        ({"dt": [1.0, 1e-17]}, "lost in the rounding"),
        ({"dt": 0.1}, "num_steps"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(carom.InputError, match=words):
        carom.solve(BALL, METHOD, [1.0], [0.0], **options)


def test_refusals_elsewhere():
    for degree in ([1, 0], [], 13, [1.5], "x"):
        with pytest.raises(carom.InputError, match="degree"):
            carom.TimeDG(degree)
    run = carom.solve(BALL, METHOD, [1.0], [0.0], dt=[0.1, 0.2])
    with pytest.raises(carom.InputError, match="how long the next ones are"):
        run.extend(3)
    with pytest.raises(carom.InputError, match="one entry for each"):
        carom.rollout(BALL, METHOD, [1.0], [0.0], dt=jnp.ones(3), num_steps=2)
    controlled = carom.System(
        lambda q, v: 0.5 * v @ v, force=lambda u: u, controller=carom.Controller(lambda q: (-q, ()), period=0.1)
    )
    with pytest.raises(carom.InputError, match="same dt in all steps"):
        carom.solve(controlled, METHOD, [1.0], [0.0], dt=[0.1, 0.05])
    with pytest.raises(carom.InputError, match=r"for carom\.solve"):
        carom.diagnostics.lyapunov(SPRING, METHOD, [1.0], [0.0], dt=[0.1, 0.2], num_steps=2)
