"""Between the points of a grid whose steps were made of smaller ones: `Adaptive` around timestepping methods, with a controller,
stops, rotations and many starts at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom

GRAVITY, RESTITUTION, TOLERANCE = 10.0, 0.5, 1e-5
METHODS = {"TimeDG": carom.TimeDG(2), "MoreauJean": carom.MoreauJean()}
DT, EVERY, STEPS = 0.1, 2, 12  # one command for two steps of the grid


def thrust(q, v, memory):
    """Towards the height 0.5, by what is missing and by its sum over all samples."""
    missing = 0.5 - q[0]
    return 6.0 * missing + memory["sum"] - 0.3 * v[0], {"sum": memory["sum"] + missing}


FLOOR = carom.Contact(lambda q: q[0], restitution=RESTITUTION)
CONTROLLER = carom.Controller(thrust, {"sum": 0.0}, every=EVERY)
ROCKET = carom.System(lambda q, v: 0.5 * v @ v - GRAVITY * q[0], [FLOOR], force=lambda u: u, controller=CONTROLLER)


def exactly(y, times):
    """The same by hand from the height y: parabolas from sample to sample, cut where they meet the floor. (y, v) at each time, and
    when it bounced."""
    state, memory, bounces, out, now, a = np.array([y, 0.0]), {"sum": 0.0}, [], [], 0.0, 0.0
    for k, end in enumerate(times):
        if k % EVERY == 0:
            u, memory = thrust(state[:1], state[1:], memory)
            a = u - GRAVITY
        while now < end:
            y, v = state
            roots = np.roots([0.5 * a, v, y])
            ahead = [x.real for x in roots if abs(x.imag) < 1e-12 and x.real > 1e-9 and v + a * x.real < 0]
            h = min([end - now, *ahead])
            hits = bool(ahead) and min(ahead) < end - now
            state, now = np.array([y + v * h + 0.5 * a * h**2, v + a * h]), now + h if hits else end
            if hits:
                bounces.append(now)
                state = np.array([0.0, -RESTITUTION * state[1]])
        out.append((now, state.copy(), a))
    return out, bounces


def along(y, t):
    """(y, v) of the exact motion at any times."""
    found = []
    for time in t:
        grid = np.arange(1, int(np.floor(time / DT + 1e-12)) + 1) * DT
        found.append(exactly(y, [*grid, time] if len(grid) == 0 or time > grid[-1] else grid)[0][-1][1])
    return np.array(found)


@pytest.fixture(scope="module")
def flight():
    return carom.solve(ROCKET, carom.Adaptive(METHODS["TimeDG"], TOLERANCE), [1.0], [0.0], dt=DT, num_steps=STEPS)


def test_a_controller_is_asked_at_points_of_the_grid_and_not_in_smaller_steps(flight):
    run = flight
    exact, bounces = exactly(1.0, run.t[1:])
    assert len(bounces) == len(run.impacts) >= 2
    np.testing.assert_allclose(run.impacts.t, bounces, atol=3 * TOLERANCE)
    np.testing.assert_allclose(run.q[1:, 0], [state[0] for _, state, _ in exact], atol=10 * TOLERANCE)
    np.testing.assert_allclose(run.commands[:, 0] - GRAVITY, [a for _, _, a in exact], atol=100 * TOLERANCE)
    assert np.all(run.commands[::2] == run.commands[1::2]) and len(np.unique(run.commands)) == STEPS // EVERY


def test_dense_output_follows_the_tolerance_between_the_points_of_the_grid(flight):
    run = flight
    t = np.linspace(0.0, run.t[-1], 241)
    exact = along(1.0, t[1:])
    assert np.max(np.abs(run.dense.q(t[1:])[:, 0] - exact[:, 0])) < 10 * TOLERANCE
    np.testing.assert_array_equal(run.dense.q(run.t[:-1]), run.q[:-1])  # on the grid it is the run
    # Velocities, but for the instants between a bounce and where the run has it: 1e-3 is longer than any of those.
    away = np.min(np.abs(t[1:, None] - run.impacts.t), axis=1) > 1e-3
    assert np.max(np.abs(run.dense.v(t[1:])[away, 0] - exact[away, 1])) < 100 * TOLERANCE and np.mean(away) > 0.9
    # Impulses and forces up to t are what has changed the momentum, beside gravity and the held command.
    held = np.array([np.interp(x, run.t, np.append(0.0, np.cumsum(run.commands[:, 0]) * DT)) for x in t[1:]])
    given = run.dense.v(t[1:])[:, 0] + GRAVITY * t[1:] - held
    np.testing.assert_allclose(run.dense.interaction(t[1:])[:, 0], given, atol=STEPS * 10 * TOLERANCE)
    # Controls: straight lines between the points of the grid, and the mean velocity of each of its steps, know no bounce.
    assert np.max(np.abs(np.interp(t[1:], run.t, run.q[:, 0]) - exact[:, 0])) > 1e3 * TOLERANCE
    assert len(run.dense.t) > len(run.t)


@pytest.mark.stress
def test_moreau_jean_between_the_points_of_its_grid():
    """Its velocity is constant in a step: at the ends of the smaller steps positions are right to the tolerance, and in between
    they are straight lines, off by a h²/8."""
    run = carom.solve(ROCKET, carom.Adaptive(METHODS["MoreauJean"], 1e-4), [1.0], [0.0], dt=DT, num_steps=STEPS)
    ends = run.dense.t[1:-1]
    assert np.max(np.abs(run.dense.q(ends)[:, 0] - along(1.0, ends)[:, 0])) < 10 * 1e-4
    t, largest = np.linspace(0.005, run.t[-1], 97), np.max(np.abs(run.commands - GRAVITY))
    step = np.diff(run.dense.t)[np.searchsorted(run.dense.t, t) - 1]
    assert np.all(np.abs(run.dense.q(t)[:, 0] - along(1.0, t)[:, 0]) < largest * step**2 / 8 + 10 * 1e-4)


@pytest.mark.stress
def test_a_stop_ends_the_run_between_the_points_and_dense_output_ends_there():
    top = carom.Stop(lambda v: v[0], "falling")  # the highest point after a bounce
    run = carom.solve(ROCKET, carom.Adaptive(METHODS["TimeDG"], TOLERANCE), [1.0], [0.0], dt=DT, num_steps=STEPS, stop=top)
    fine = np.linspace(0.01, 1.2, 1191)
    v = along(1.0, fine)[:, 1]
    first = fine[1:][(v[:-1] > 0) & (v[1:] <= 0)][0]
    assert run.status.name == "stopped" and run.t[-1] == pytest.approx(first, abs=1.1e-3)  # the fine grid
    assert abs(run.v[-1, 0]) < 1e-9 and run.t[-1] % DT > 1e-3
    t = np.linspace(0.01, run.t[-1], 50)
    assert np.max(np.abs(run.dense.q(t)[:, 0] - along(1.0, t)[:, 0])) < 10 * TOLERANCE
    with pytest.raises(carom.InputError, match="reaches from"):
        run.dense.q(run.t[-1] + 0.01)
    on = run.extend(3)
    assert on.t[-1] == pytest.approx(run.t[-1] + 3 * DT) and np.all(np.isfinite(on.dense.q(on.t)))


BALL = carom.System(lambda q, v: 0.5 * v @ v - GRAVITY * q[0], [FLOOR])


def ball(y, t):
    """Height of a ball that falls from y, before its second bounce."""
    first = np.sqrt(2 * y / GRAVITY)
    after = RESTITUTION * GRAVITY * first * (t - first) - GRAVITY * (t - first) ** 2 / 2
    return np.where(t < first, y - GRAVITY * t**2 / 2, after)


@pytest.mark.stress
def test_many_starts_at_once():
    """Under vmap each lane chooses its own steps; an ensemble has one lane after the other."""
    method, heights = carom.Adaptive(METHODS["TimeDG"], TOLERANCE), np.array([0.5, 0.8, 1.0])
    lanes = jax.jit(
        jax.vmap(lambda y: carom.rollout(BALL, method, y[None], jnp.zeros(1), dt=0.1, num_steps=6, max_impacts=8).q[:, 0])
    )(jnp.asarray(heights))
    t = 0.1 * np.arange(7)
    np.testing.assert_allclose(lanes, [ball(y, t) for y in heights], atol=3 * TOLERANCE)
    many = carom.ensemble(BALL, method, heights[:, None], [0.0], dt=0.1, num_steps=6, progress=False)
    np.testing.assert_allclose(many.q_end[:, 0], lanes[:, -1], atol=3 * TOLERANCE)
    assert np.all(many.num_impacts == 1)


@pytest.mark.stress
def test_on_rotations_with_a_contact():
    """A top whose head meets a wall: smaller steps in charts of their own; poses are poses in between."""
    axis = lambda q: jnp.stack([2 * (q[1] * q[3] + q[0] * q[2]), 1 - 2 * (q[1] ** 2 + q[2] ** 2)])  # noqa: E731  # x and z of e₃
    inertia = jnp.asarray([1.0, 1.2, 0.5])
    wall = carom.Contact(lambda q: 0.4 - axis(q)[0], restitution=0.5)
    top = carom.System(lambda q, v: 0.5 * v @ (inertia * v) - 2 * axis(q)[1], [wall], space=carom.SO3())
    start = dict(q0=[1.0, 0.0, 0.0, 0.0], v0=[0.2, 1.25, 0.8])
    run = carom.solve(top, carom.Adaptive(METHODS["TimeDG"], 1e-5), **start, dt=0.25, num_steps=4)
    reference = carom.solve(top, carom.EventDriven(), **start, dt=0.01, num_steps=100)
    assert len(reference.impacts) == len(run.impacts) == 1
    t = reference.t[1:-1]
    found = run.dense.q(t)
    np.testing.assert_allclose(np.sum(found**2, axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(found, reference.q[1:-1], atol=2e-4)
    away = np.abs(t - reference.impacts.t[0]) > 0.02
    np.testing.assert_allclose(run.dense.v(t)[away], reference.v[1:-1][away], atol=5e-4)


@pytest.mark.parametrize("method", [carom.MoreauJean(), carom.TimeDG(1), carom.Hybrid(contact=carom.MoreauJean())], ids=str)
def test_a_block_at_rest_is_held_by_its_weight(method):
    """With MoreauJean by impulses at the ends of steps alone, of which the mean is shown; to rounding, since each is h m g."""
    floor = carom.Contact(lambda q: q[0], restitution=0.0)
    run = carom.solve(carom.System(lambda q, v: 1.5 * v @ v - 30.0 * q[0], [floor]), method, [0.2], [0.0], dt=0.01, num_steps=40)
    assert np.allclose(run.dense.force([0.3, 0.333, 0.39])[:, 0], 30.0, atol=1e-9)
    assert np.allclose(run.dense.force([0.05, 0.1])[:, 0], 0.0, atol=1e-9)  # control: in flight there is none
    np.testing.assert_allclose(run.contact_forces[32, 0], 30.0, atol=1e-9)
