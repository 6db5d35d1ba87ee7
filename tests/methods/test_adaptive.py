"""Step-size control: errors that follow the tolerance, through impacts."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

import carom
from carom.methods.method import ImpactTable, Method, StepStart
from carom.methods.status import TABLE_FULL

GRAVITY, RESTITUTION = 10.0, 0.5
BALL = carom.System(lambda q, v: 0.5 * v @ v - GRAVITY * q[0], [carom.Contact(lambda q: q[0], restitution=RESTITUTION)])
REST = np.sqrt(2 / GRAVITY) * (1 + RESTITUTION) / (1 - RESTITUTION)  # when the impacts have accumulated
TIMESTEPPING = {"TimeDG": carom.TimeDG(2), "MoreauJean": carom.MoreauJean()}


def ball(t):
    """Height of a ball that falls from 1."""
    first, speed = np.sqrt(2 / GRAVITY), RESTITUTION * np.sqrt(2 * GRAVITY)
    if t < first:
        return 1 - GRAVITY * t**2 / 2
    t -= first
    while t > 2 * speed / GRAVITY:
        t, speed = t - 2 * speed / GRAVITY, RESTITUTION * speed
        if speed < 1e-12:
            return 0.0
    return speed * t - GRAVITY * t**2 / 2


def ball_error(method, **options):
    run = carom.solve(BALL, method, [1.0], [0.0], dt=0.1, **{"num_steps": 12, **options})
    return np.max(np.abs(run.q[:, 0] - [ball(t) for t in run.t])), run


class Blind(carom.Adaptive):
    """A control: the doubling of steps alone, which is all there is without impacts."""

    @property
    def _late(self):
        return False


@pytest.mark.parametrize("name", ["TimeDG", pytest.param("MoreauJean", marks=pytest.mark.stress)])
def test_impacts_at_ends_of_steps_are_closed_in_on(name):
    """Each of the three impacts may be late by a distance of the tolerance, and the delays add up: below 3, and no less than a
    fiftieth of the tolerance, or it would not be the tolerance that decides."""
    for tolerance in (1e-2, 1e-4, 1e-6):
        error, run = ball_error(carom.Adaptive(TIMESTEPPING[name], tolerance))
        assert len(run.impacts) == 3
        assert 0.02 < error / tolerance < 3


def test_control_an_estimate_that_is_blind_to_impacts_fails():
    error, _ = ball_error(Blind(TIMESTEPPING["TimeDG"], 1e-6))
    assert error > 1e3 * 1e-6


def test_it_comes_to_rest_and_the_forces_are_there():
    tolerance = 1e-6
    error, run = ball_error(carom.Adaptive(TIMESTEPPING["TimeDG"], tolerance), num_steps=20)
    assert error < 3 * tolerance and run.t[-1] > REST
    # Impacts until a flight is no longer than the tolerance: heights are 1/4 of the one before.
    assert len(run.impacts) >= 9 and run.impacts.t[-1] < REST + tolerance
    np.testing.assert_allclose(run.contact_forces[-4:, 0], GRAVITY, rtol=1e-12)  # it weighs what it weighs
    # All that has happened to the momentum: gravity, and the impulses of all steps.
    assert np.sum(run.contact_forces[:, 0]) * 0.1 == pytest.approx(GRAVITY * 2.0, rel=1e-12)


# -- a comet that is reflected at perihelion ---------------------------------------------------------------------------------------

ECCENTRICITY = 0.9
COMET = carom.System(lambda q, v: 0.5 * v @ v + 1 / jnp.sqrt(q @ q), [carom.Contact(lambda q: q[1])])
START = [-1 - ECCENTRICITY, 0.0], [0.0, np.sqrt((1 - ECCENTRICITY) / (1 + ECCENTRICITY))]
INNER = carom.VariationalCollision()
TIME, STEPS = 10.0, 20  # three impacts: at both perihelia and at the aphelion between them


def comet(times):
    """A mirror through the centre: Kepler's ellipse, folded over."""
    e, out = ECCENTRICITY, []
    for t in times:
        E = brentq(lambda E: E - e * np.sin(E) - t - np.pi, t, t + 2 * np.pi, xtol=1e-15)  # noqa: B023
        out.append([np.cos(E) - e, abs(np.sqrt(1 - e**2) * np.sin(E))])
    return np.array(out)


@pytest.fixture(scope="module")
def comets():
    solve = lambda tol: carom.solve(COMET, carom.Adaptive(INNER, tol), *START, dt=TIME / STEPS, num_steps=STEPS)  # noqa: E731
    return {tolerance: solve(tolerance) for tolerance in (1e-6, 1e-8)}


def test_the_error_is_proportional_to_the_tolerance(comets):
    """Errors at perihelion become delays, which grow: the factor is that of the motion, and the same for both tolerances."""
    errors = [np.max(np.abs(run.q - comet(run.t))) for run in comets.values()]
    assert all(len(run.impacts) == 3 for run in comets.values())
    assert np.log10(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.5)  # each error has a sign of its own
    times = np.linspace(0.01, TIME - 0.01, 173)
    between = [np.max(np.abs(run.dense.q(times) - comet(times))) for run in comets.values()]
    assert np.all(np.array(between) < 5 * np.array(errors))  # dense output follows the tolerance, too


@pytest.mark.stress
def test_fixed_steps_of_the_same_number_are_worse():
    """The whole time as one step of the grid says how many steps of the method there were, halves and refused ones included."""
    method = carom.Adaptive(INNER, 1e-6)

    @jax.jit
    def whole(q, p):
        mechanics = method.bind(COMET, None, 2)
        t, end = jnp.zeros(()), jnp.asarray(TIME)
        table, zero = ImpactTable.empty(200, 2, 1), jnp.zeros((), jnp.int32)
        memory = method.memory(mechanics, q, p, t, end)
        return method.one_step(mechanics, StepStart(q, p, t, end, end, zero, table, zero, memory, jnp.asarray(True)))

    end = whole(*(jnp.asarray(x) for x in START))
    count = int(end.memory.trials)
    fixed = carom.solve(COMET, INNER, *START, dt=TIME / count, num_steps=count)
    exact = comet([TIME])[0]
    assert np.max(np.abs(fixed.q[-1] - exact)) > 20 * np.max(np.abs(end.q - exact))


def test_what_is_declared_is_kept_and_no_more(comets):
    run = comets[1e-6]
    assert "symplectic" not in run.preserved and set(run.preserved) == set(INNER.preserves)
    assert carom.diagnostics.penetration(run) < 1e-14


@pytest.mark.stress
def test_momentum_is_kept_and_the_energy_to_the_tolerance():
    free = carom.System(COMET.lagrangian.function)
    run = carom.solve(free, carom.Adaptive(INNER, 1e-6), *START, dt=TIME / STEPS, num_steps=STEPS)
    spin = carom.diagnostics.momentum_map(run, lambda q: [-q[1], q[0]])
    assert np.ptp(spin) < 1e-12  # of some thousand steps: rounding
    assert np.ptp(run.energy) > 1e-9  # a control: the energy is kept to the tolerance only


@pytest.mark.stress
def test_other_verbs():
    method = carom.Adaptive(TIMESTEPPING["TimeDG"], 1e-5)
    stop = carom.Stop(lambda q: q[0] - 0.2, "rising")
    run = carom.solve(BALL, method, [1.0], [0.0], dt=0.1, num_steps=9, stop=stop)
    back = RESTITUTION * np.sqrt(2 * GRAVITY)
    assert run.t[-1] == pytest.approx(np.sqrt(2 / GRAVITY) + (back - np.sqrt(back**2 - 4)) / GRAVITY, abs=1e-4)
    on = run.extend(5)
    np.testing.assert_allclose(on.q[:, 0], [ball(t) for t in on.t], atol=3e-5)
    uneven = carom.solve(BALL, method, [1.0], [0.0], dt=[0.3, 0.5, 0.4])
    np.testing.assert_allclose(uneven.q[:, 0], [ball(t) for t in uneven.t], atol=3e-5)


@pytest.mark.stress
def test_on_rotations():
    """A top turns several times within one step of the grid: each of the smaller steps has its own chart."""
    inertia = jnp.asarray([1.0, 2.0, 3.0])
    top = carom.System(lambda q, v: 0.5 * v @ (inertia * v), space=carom.SO3())
    start = dict(q0=[1.0, 0.0, 0.0, 0.0], v0=[0.1, 3.0, 0.2], dt=2.5, num_steps=4)
    run = carom.solve(top, carom.Adaptive(INNER, 1e-7), **start)
    reference = carom.solve(top, carom.EventDriven(), **{**start, "dt": 0.1, "num_steps": 100})
    np.testing.assert_allclose(run.q, reference.q[::25], atol=1e-4)


def test_refusals():
    for method, why in (
        (carom.Hybrid(), "hands over"),
        (carom.EventDriven(), "its solver chooses"),
        (carom.Adaptive(INNER), "already"),
    ):
        with pytest.raises(carom.InputError, match=f"does not choose the steps of {type(method).__name__}: .*{why}"):
            carom.Adaptive(method)
    with pytest.raises(carom.InputError, match="must be one of carom"):
        carom.Adaptive("TimeDG")
    for wrong in ({"rtol": -1.0}, {"rtol": 1e-3, "atol": 0.0}, {"rtol": [1e-3, 1e-4]}):
        with pytest.raises(carom.InputError, match=r"rtol|atol"):
            carom.Adaptive(INNER, **wrong)
    with pytest.raises(carom.InputError, match="max_parts"):
        carom.Adaptive(INNER, max_parts=1)
    assert "dense output" in carom.Adaptive(TIMESTEPPING["TimeDG"]).offers
    assert "gradients" in carom.Adaptive(INNER).offers and "one kernel" not in carom.Adaptive(INNER).offers


# -- derivatives -------------------------------------------------------------------------------------------------------------------

SPRING = carom.System(lambda q, v, params: 0.5 * v @ v - 0.5 * (params["omega"] * q[0]) ** 2, [carom.Contact(lambda q: q[0])])


def on_a_spring(x, method, rtol, t_end=3.0):
    """A mass on a spring that meets a wall where the spring is at rest, from x = (q, v, ω): q, p, the time of the second impact."""
    method = eqx.tree_at(lambda method: (method.rtol, method.atol), method, (rtol, rtol))
    params = {"omega": x[2]}
    run = carom.rollout(SPRING, method, x[:1], x[1:2], dt=t_end / 6, num_steps=6, params=params, max_impacts=4)
    return jnp.concatenate([run.q[-1], run.p[-1], run.impacts.t[1:2]])


def folded(x, t_end=3.0):
    """The same exactly: the vibration, folded over."""
    q, v, omega = x
    free = q * jnp.cos(omega * t_end) + v / omega * jnp.sin(omega * t_end)
    rate = -q * omega * jnp.sin(omega * t_end) + v * jnp.cos(omega * t_end)
    phase = jnp.arctan2(v / omega, q)  # q + iv/ω turns: zeros at ωt = phase + π/2 + kπ
    return jnp.stack([jnp.abs(free), jnp.sign(free) * rate, (phase + 1.5 * jnp.pi) / omega])


def test_derivatives_follow_the_tolerance_through_impacts():
    """Forward and reverse are one. The error of an impact is h² times a function of where in its step it falls, and that
    place varies with t̃/h: derivatives through impacts are of one order less, with fixed steps too. So they go with the square root
    of the tolerance, where the solution goes with the tolerance."""
    method, x = carom.Adaptive(carom.VariationalCollision(carom.Trapezoidal())), jnp.array([1.0, 0.3, 1.9])
    both = lambda x, tol: (y := on_a_spring(x, method, tol), y)  # noqa: E731
    forward = jax.jit(lambda x, tol: jax.jacfwd(both, has_aux=True)(x, tol))
    exact, found = jax.jacfwd(folded)(x), {tol: forward(x, tol) for tol in (1e-4, 1e-6)}
    off = [np.max(np.abs(slope - exact)) for slope, _ in found.values()]
    assert all(np.max(np.abs(end - folded(x))) < 10 * tol for tol, (_, end) in found.items())
    assert off[0] < 0.1 and 3 < off[0] / off[1] < 30
    weights = jnp.array([0.4, -0.7, 1.1])
    backwards = jax.jit(jax.grad(lambda x: weights @ on_a_spring(x, method, 1e-4)))(x)
    np.testing.assert_allclose(backwards, weights @ found[1e-4][0], rtol=1e-11)


def bounced(x, t_end=0.83):
    """A ball from x = (height, velocity, gravity, restitution), after one impact."""
    y, v, g, e = x
    fall = (v + jnp.sqrt(v**2 + 2 * g * y)) / g
    rest, back = t_end - fall, -e * (v - g * fall)
    return jnp.stack([back * rest - g * rest**2 / 2, back - g * rest])


@pytest.mark.stress
@pytest.mark.parametrize("name", TIMESTEPPING)
def test_late_impacts_have_the_derivative_of_their_instant(name):
    """Impacts at ends of steps come at instants that the grid fixes, and so the derivative of the method alone is another one,
    however short its steps; closed in on, the instant is that of the motion."""
    contact = carom.Contact(lambda q: q[0], restitution=lambda params: params["e"])
    ball = carom.System(lambda q, v, params: 0.5 * v @ v - params["g"] * q[0], [contact])

    def end(x, method, steps):
        params = {"g": x[2], "e": x[3]}
        run = carom.rollout(ball, method, x[:1], x[1:2], dt=0.83 / steps, num_steps=steps, params=params, max_impacts=4)
        return jnp.concatenate([run.q[-1], run.p[-1]])

    x, inner, tolerance = jnp.array([1.0, 0.1, 10.0, 0.5]), TIMESTEPPING[name], 1e-5
    exact, method = jax.jacfwd(bounced)(x), carom.Adaptive(inner, tolerance)
    forward = jax.jit(jax.jacfwd(lambda x: end(x, method, 7)))(x)
    reverse = jax.jit(jax.jacrev(lambda x: end(x, method, 7)))(x)
    np.testing.assert_allclose(forward, exact, atol=10 * tolerance)
    np.testing.assert_allclose(forward, reverse, atol=1e-12)
    alone = jax.jit(jax.jacfwd(lambda x: end(x, inner, 200)))(x)  # a control: fixed steps
    assert np.max(np.abs(alone - exact)) > 1


def test_a_rollout_without_room_for_its_steps_is_not_a_trajectory():
    run = carom.rollout(BALL, carom.Adaptive(TIMESTEPPING["TimeDG"], 1e-5, max_parts=20), [1.0], [0.0], dt=0.1, num_steps=8)
    assert int(run.status) == TABLE_FULL and np.isfinite(run.q[1, 0]) and np.isnan(run.q[-1, 0])


class Heun(Method):
    """A method of one's own."""

    order = 2
    preserves = ()

    def one_step(self, mechanics, start):
        dq, dp = mechanics.motion(start.q, start.p, start.t)
        dq2, dp2 = mechanics.motion(start.q + start.dt * dq, start.p + start.dt * dp, start.t_end)
        return start.end(start.q + start.dt / 2 * (dq + dq2), start.p + start.dt / 2 * (dp + dp2))


def test_a_method_of_ones_own():
    """Error over one step of the grid at most the tolerance, six of them; and not far below it."""
    free = carom.System(lambda q, v: 0.5 * v @ v - 2.0 * q[0] ** 2)
    run = carom.solve(free, carom.Adaptive(Heun(), 1e-5), [1.0], [0.0], dt=0.5, num_steps=6)
    error = np.max(np.abs(run.q[:, 0] - np.cos(2 * run.t)))
    assert 1e-6 < error < 6e-5
    with pytest.raises(carom.InputError, match="Adaptive does not offer"):
        carom.rollout(free, carom.Adaptive(Heun()), [1.0], [0.0], dt=0.5, num_steps=6)
    with pytest.raises(carom.InputError, match=r"dense output needs .* Adaptive around one of them"):
        run.dense  # noqa: B018
