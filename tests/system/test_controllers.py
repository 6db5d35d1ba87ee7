"""Controllers that are sampled: the held command, the memory, what is kept of them, and derivatives through them.

The plant of most tests is the small pendulum q̈ = −ω² q + u, whose motion under a held command is known exactly: with x = q − u/ω²
it is a rotation. A PID controller in discrete time closes the loop; the recursion below shares nothing with carom.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TRAPEZOIDAL

import carom

SQUARE = 9.81  # ω²
PERIOD, TARGET = 0.04, 0.3
GAINS = {"kp": 30.0, "ki": 2.0, "kd": 4.0}
METHODS = {
    "variational": carom.VariationalCollision(),  # order 4
    "midpoint": carom.VariationalCollision(carom.Midpoint()),
    "timestepping": carom.MoreauJean(),
    "event-driven": carom.EventDriven(),
}


def pid(q, v, memory, params):
    error = TARGET - q[0]
    total = memory["total"] + error * PERIOD
    return params["kp"] * error + params["ki"] * total - params["kd"] * v[0], {"total": total, "calls": memory["calls"] + 1}


CONTROLLER = carom.Controller(pid, memory={"total": 0.0, "calls": 0.0}, period=PERIOD)
SYSTEM = carom.System(lambda q, v: 0.5 * v @ v - 0.5 * SQUARE * q @ q, force=lambda u: u, controller=CONTROLLER)


def exactly(samples: int, kp, ki, kd, delay: int = 0):
    """(q, v) at each sample, the commands, and the integral of the error."""
    w = np.sqrt(SQUARE)
    c, s = np.cos(w * PERIOD), np.sin(w * PERIOD)
    q, v, total, rows, commands, old = 0.0, 0.5, 0.0, [], [], [0.0] * delay
    for _ in range(samples):
        rows.append((q, v))
        total = total + (TARGET - q) * PERIOD
        old.append(kp * (TARGET - q) + ki * total - kd * v)
        u = old.pop(0)
        commands.append(u)
        x = q - u / SQUARE
        q, v = u / SQUARE + x * c + v / w * s, v * c - x * w * s
    return jnp.stack([jnp.stack(row) for row in [*rows, (q, v)]]), jnp.stack(commands), total


def run(name: str, every: int, **more):
    steps = round(2.0 / PERIOD) * every
    return carom.solve(SYSTEM, METHODS[name], [0.0], [0.5], dt=PERIOD / every, num_steps=steps, params=GAINS, **more)


@pytest.mark.parametrize("name", METHODS)
def test_a_pid_controlled_pendulum_is_the_exact_recursion(name):
    states, commands, total = exactly(50, **GAINS)
    errors = []
    for every in (2, 4):
        found = run(name, every)
        held = found.commands.reshape(-1, every)
        assert np.all(held == held[:, :1]) and len(np.unique(held[:, 0])) == 50  # held, and asked once per period
        errors.append(np.max(np.abs(np.stack([found.q[::every, 0], found.v[::every, 0]], axis=1) - states)))
        assert found.controller_memory[-1][0] == 50  # calls; "total" comes after it
        np.testing.assert_allclose(found.controller_memory[-1][1], float(total), atol=2 * errors[-1])
        np.testing.assert_allclose(held[:, 0], commands, atol=40 * errors[-1])  # kp + kd of an error in q and v
    order = METHODS[name].order
    if name == "event-driven":
        assert max(errors) < 1e-9  # its tolerances are 1e-10 and 1e-12
    else:
        assert 0.7 * 2**order < errors[0] / errors[1] < 1.4 * 2**order  # nothing but the error of the method itself


def test_control_other_samplings_are_other_motions():
    """What the test above could not tell apart from the right one would prove nothing: a delay of one period, a continuous law."""
    states, _, _ = exactly(50, **GAINS)
    late, _, _ = exactly(50, **GAINS, delay=1)
    assert np.max(np.abs(late - states)) > 0.1
    law = lambda q, v, params: params["kp"] * (TARGET - q) - params["kd"] * v  # noqa: E731
    always = carom.System(lambda q, v: 0.5 * v @ v - 0.5 * SQUARE * q @ q, force=law)
    gains = {name: GAINS[name] for name in ("kp", "kd")}
    smooth = carom.solve(always, METHODS["event-driven"], [0.0], [0.5], dt=PERIOD, num_steps=50, params=gains)
    sampled, _, _ = exactly(50, kp=GAINS["kp"], kd=GAINS["kd"], ki=0.0)
    assert np.max(np.abs(smooth.q[:, 0] - np.asarray(sampled)[:, 0])) > 1e-2


def test_a_computer_that_answers_one_period_later():
    def late(q, v, memory, params):
        u, inner = pid(q, v, memory["inner"], params)
        return memory["answer"], {"answer": u, "inner": inner}

    memory = {"answer": 0.0, "inner": {"total": 0.0, "calls": 0.0}}
    system = carom.System(
        lambda q, v: 0.5 * v @ v - 0.5 * SQUARE * q @ q, force=lambda u: u, controller=carom.Controller(late, memory, every=2)
    )
    found = carom.solve(system, METHODS["event-driven"], [0.0], [0.5], dt=PERIOD / 2, num_steps=40, params=GAINS)
    np.testing.assert_allclose(found.q[::2, 0], exactly(20, **GAINS, delay=1)[0][:, 0], atol=1e-9)


# -- a run in parts ------------------------------------------------------------------------------------------------------


def _same(a, b):
    for name in ("t", "q", "p", "commands", "controller_memory"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert a.num_steps == b.num_steps and a.status == b.status


def _part(steps: int, **more):
    return carom.solve(SYSTEM, METHODS["variational"], [0.0], [0.5], dt=PERIOD / 4, num_steps=steps, params=GAINS, **more)


def test_a_run_that_goes_on_keeps_the_memory_and_the_instants(tmp_path):
    whole = _part(203)
    _same(_part(101).extend(102), whole)  # 101 is within a period
    _part(101, checkpoint=tmp_path / "a.zarr", every=50)
    again = _part(203, checkpoint=tmp_path / "a.zarr", every=50)  # a finished checkpoint goes on
    _same(again, whole)
    _same(carom.load(tmp_path / "a.zarr"), whole)
    with pytest.raises(carom.InputError, match="num_steps differs"):
        _part(150, checkpoint=tmp_path / "a.zarr", every=50)


def test_a_run_that_died_goes_on_with_the_memory(tmp_path):
    def die(snapshot):
        if snapshot.step == 150:
            raise KeyError("power failure")

    path = tmp_path / "b.zarr"
    with pytest.raises(KeyError):
        _part(203, checkpoint=path, every=50, callback=die, callback_every=50)
    seen = []
    again = _part(203, checkpoint=path, every=50, callback=seen.append, callback_every=50)
    assert [snapshot.step for snapshot in seen] == [200, 203]  # 150 was on disk
    _same(again, _part(203))


def test_many_lanes_have_their_own_memory():
    gains = np.array([10.0, 20.0, 30.0])
    for name in ("variational", "timestepping"):
        arguments = {"dt": PERIOD / 4, "num_steps": 200, "params": {"ki": 2.0, "kd": 4.0}}
        lanes = carom.ensemble(SYSTEM, METHODS[name], [[0.0]], [[0.5]], each={"kp": gains}, save=[13, 100], **arguments)
        for lane in range(3):
            np.testing.assert_allclose(lanes.q[lane, :, 0], lanes.solve(lane).q[[13, 100, 200], 0], rtol=1e-12, atol=1e-13)


# -- derivatives ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["variational", "timestepping"])
def test_derivatives_with_respect_to_gains_are_those_of_the_recursion(name):
    def final(kp, kd):
        arguments = {"dt": PERIOD / 4, "num_steps": 80, "params": {"kp": kp, "ki": 2.0, "kd": kd}}
        return carom.rollout(SYSTEM, METHODS[name], jnp.zeros(1), jnp.full(1, 0.5), **arguments).q[-1, 0]

    found = jax.grad(final, argnums=(0, 1))(30.0, 4.0)
    exact = jax.grad(lambda kp, kd: exactly(20, kp, 2.0, kd)[0][-1, 0], argnums=(0, 1))(30.0, 4.0)
    rtol = {"variational": 1e-5, "timestepping": 2e-2}[name]  # orders 4 and 2 at ω dt = 0.03, in a stiff loop
    np.testing.assert_allclose(found, exact, rtol=rtol)
    gone = float(jax.grad(lambda kp: exactly(20, kp, 2.0, 4.0)[1][0])(30.0))  # control: the part of the first sample alone
    assert abs(gone - float(exact[0])) > 0.1 * abs(float(exact[0]))


def test_derivatives_through_an_impact_under_control():
    """A cart that is driven against a wall: the command changes after the impact, and so does everything after it."""
    rule = lambda q, v, memory, params: (params["k"] * (0.2 - q[0]) - v[0], memory)  # noqa: E731
    cart = carom.System(
        lambda v: 0.5 * v @ v,
        [carom.Contact(lambda q: 0.1 - q[0], restitution=0.6)],
        force=lambda u: u,
        controller=carom.Controller(rule, every=3),
    )

    def final(k):
        arguments = {"dt": 0.05, "num_steps": 30, "params": {"k": k}}
        out = carom.rollout(cart, TRAPEZOIDAL, jnp.zeros(1), jnp.zeros(1), **arguments)
        return out.q[-1, 0], out

    (_, out), slope = jax.jvp(final, (4.0,), (1.0,))
    assert int(out.num_impacts) >= 1 and out.commands.shape == (30, 1)
    h = 1e-5
    difference = (final(4.0 + h)[0] - final(4.0 - h)[0]) / (2 * h)
    np.testing.assert_allclose(slope[0], difference, rtol=1e-6)  # of central differences: h² and ε/h
    assert abs(float(difference)) > 1e-3


# -- input ---------------------------------------------------------------------------------------------------------------


def test_bad_controllers_are_refused_with_a_sentence():
    lagrangian, push = lambda v: 0.5 * v @ v, lambda u: u
    good = lambda q, memory: (q[0], memory)  # noqa: E731
    rows = [
        (lambda: carom.Controller(good), "every= or period="),
        (lambda: carom.Controller(good, every=0), "every must be a whole number between 1 and"),
        (lambda: carom.Controller(good, period=-1.0), "period must be a positive number"),
        (lambda: carom.Controller(good, every=1, commands=0), "commands"),
        (lambda: carom.Controller(good, memory={"a": "b"}, every=1), r"memory\['a'\]"),
        (lambda: carom.Controller(lambda x: x, every=1), "asks for 'x'"),
        (lambda: carom.System(lagrangian, force=push), "asks for 'u'"),
        (lambda: carom.System(lagrangian, controller=CONTROLLER), "no force that asks"),
        (lambda: carom.System(lagrangian, force=push, controller=good), "carom.Controller"),
    ]
    wrong = {
        "return u, memory": lambda q: q[0],
        "commands=1": lambda q, memory: (jnp.zeros(3), memory),
        "keep its names and shapes": lambda q, memory: (q[0], {"other": 1.0}),
        "nothing": lambda q: None,
        r"q\[4\]": lambda q, memory: (q[4], memory),
    }
    for words, rule in wrong.items():
        system = carom.System(lagrangian, force=push, controller=carom.Controller(rule, every=1))
        rows.append((lambda s=system: carom.solve(s, METHODS["midpoint"], [0.0], [1.0], dt=0.1, num_steps=3), words))
    slow = carom.System(lagrangian, force=push, controller=carom.Controller(good, period=0.05))
    rows.append(
        (lambda: carom.solve(slow, METHODS["midpoint"], [0.0], [1.0], dt=0.02, num_steps=3), "no whole multiple.*0.0166666667")
    )
    for call, words in rows:
        with pytest.raises(carom.InputError, match=words):
            call()
