"""Velocity constraints: the schemes, the law of impact, the models of the papers, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom import diagnostics
from carom.models.nonholonomic import disk_impact, disk_rolling

V = carom.VariationalCollision
EVENTS = carom.EventDriven()
MODELS = {
    "nonholonomic_pendulum": (0.02, 4.0),  #  the first dt, and a time with impacts, before chaos
    "rolling_disk": (0.1, 5.0),
    "chaplygin_sleigh": (0.05, 2.5),
    "nonholonomic_particle": (0.1, 3.0),
}


def _run(name, method, dt, time, **changes):
    return getattr(carom.models, name)().solve(method, dt=dt, num_steps=round(time / dt), **changes)


# -- schemes -------------------------------------------------------------------------------------------------------------


LONG = ("nonholonomic_pendulum", "nonholonomic_particle", "chaplygin_sleigh")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.stress] if n in LONG else []) for n in MODELS])
def test_order_through_impacts(name):
    """Composition of order 4 against continuous time: order 4 with the symmetric constraint, order 1 with the forward one."""
    dt, time = MODELS[name]
    exact = _run(name, EVENTS, 0.5, time)  # in continuous time
    assert len(exact.impacts) >= 2

    def error(method, dt):
        run = _run(name, method, dt, time)
        assert list(run.impacts.contact) == list(exact.impacts.contact)
        assert diagnostics.constraint_residual(run) < 1e-12  # rounding, times the condition of the mass on Δ
        return np.max(np.abs(run.q[-1] - exact.q[-1]))

    fourth, forward = V(), V(carom.Trapezoidal(), direction="forward")
    errors = [error(fourth, dt / k) for k in (2, 4)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4, abs=0.4)  # the next term of the error
    first = [error(forward, dt / k) for k in (8, 16)]
    assert first[1] > 30 * errors[1]  # control: the scheme with the constraint at one end is of first order
    assert np.log2(first[0] / first[1]) == pytest.approx(1, abs=0.35)


@pytest.mark.sensitive
def test_pendulum_of_the_paper():
    """3 impacts in 5 s; a first-order rule lets the energy rise, a second-order one does not."""
    model = carom.models.nonholonomic_pendulum()
    paper, second = V(carom.Left(), direction="forward"), V(carom.Trapezoidal())
    runs = {h: model.solve(paper, dt=h, num_steps=round(5 / h)) for h in (1e-3, 2e-3)}
    assert [len(run.impacts) for run in runs.values()] == [3, 3]
    rise = {h: run.energy_error[-1] for h, run in runs.items()}
    assert rise[1e-3] > 1e-3 and rise[2e-3] / rise[1e-3] == pytest.approx(2, abs=0.1)  # O(h)
    better = model.solve(second, dt=1e-3, num_steps=5_000)
    assert len(better.impacts) == 3 and abs(better.energy_error[-1]) < 1e-3 * rise[1e-3]


@pytest.mark.sensitive
@pytest.mark.stress
def test_pendulum_of_the_paper_over_100_seconds():
    model = carom.models.nonholonomic_pendulum()
    run = model.solve(V(carom.Left(), direction="forward"), dt=1e-4, num_steps=10**6)
    assert len(run.impacts) == 76
    assert run.energy_error[-1] == pytest.approx(0.013, abs=0.003)  # 1.3 %
    better = model.solve(V(), dt=1e-3, num_steps=10**5)
    assert np.max(np.abs(better.energy_error)) < 1e-8


@pytest.mark.stress
def test_forward_then_backward():
    """(−) undoes (+) for a symmetric rule, constraints and impacts included; not so for the rule of the paper's pendulum."""
    model = carom.models.nonholonomic_pendulum()
    start = dict(q0=model.q0, v0=model.v0, params=model.params)

    def error(rule, dt):
        plus, minus = V(rule, direction="forward"), V(rule, direction="backward")
        return diagnostics.reversibility_error(model.system, plus, dt=dt, num_steps=round(2.5 / dt), back=minus, **start)

    assert error(carom.Midpoint(), 0.01) < 1e-11  # rounding, grown over two impacts
    errors = [error(carom.Left(), dt) for dt in (0.01, 0.005)]
    assert errors[1] > 1e-4 and errors[0] / errors[1] == pytest.approx(2, abs=0.4)  # O(h)
    symmetric = diagnostics.reversibility_error(model.system, V(), dt=0.01, num_steps=250, **start)
    forward = diagnostics.reversibility_error(
        model.system, V(carom.Midpoint(), direction="forward"), dt=0.01, num_steps=250, **start
    )
    assert symmetric < 1e-10 < 1e-4 < forward  # its own inverse; control: (+) is not its own

    ellipse = carom.models.ellipse()
    start = dict(q0=ellipse.q0, v0=ellipse.v0, params=ellipse.params)
    assert diagnostics.reversibility_error(ellipse.system, V(carom.Midpoint()), dt=0.01, num_steps=200, **start) < 1e-11


@pytest.mark.stress
def test_gradients_through_a_constrained_impact():
    model = carom.models.chaplygin_sleigh()

    def final(turn, width):
        heading = 0.4
        v0 = jnp.array([2 * jnp.cos(heading), 2 * jnp.sin(heading), turn])
        params = {**model.params, "width": width}
        run = carom.rollout(model.system, V(carom.Trapezoidal()), model.q0, v0, dt=0.02, num_steps=60, params=params, max_impacts=4)
        return run.q[-1, 1], run.num_impacts

    (slope, by_width), hits = jax.grad(final, argnums=(0, 1), has_aux=True)(1.0, 1.0)
    assert hits >= 1
    d = 1e-5
    differences = [(final(1 + d, 1.0)[0] - final(1 - d, 1.0)[0]) / (2 * d), (final(1.0, 1 + d)[0] - final(1.0, 1 - d)[0]) / (2 * d)]
    assert np.allclose([slope, by_width], differences, rtol=1e-7)  # d² and rounding/d


# -- the rolling disk ----------------------------------------------------------------------------------------------------


def _disk_state(random):
    phi, v_theta, v_phi = random.uniform(-3, 3, 3)
    m, R, inertia, turning = random.uniform(0.3, 2, 4)
    v = np.array([R * v_theta * np.cos(phi), R * v_theta * np.sin(phi), v_theta, v_phi])
    y = 10.0 - R * np.sin(phi)
    if np.cos(phi) * R * v_phi + v[1] < 0:  # so that it approaches
        v = -v
    params = dict(mass=m, radius=R, inertia=inertia, turning=turning, wall=10.0)
    return np.array([0.0, y, 0.0, phi]), v, params


def test_the_impact_map_of_the_disk_is_the_closed_form():
    random = np.random.default_rng(1)
    system = carom.models.rolling_disk(rim="printed").system
    hamiltonian = carom.models.rolling_disk(rim="printed", side="hamiltonian").system
    law = jax.jit(lambda q, p, params: carom.impact_map(system, 0, q, p, params=params))
    other = jax.jit(lambda q, p, params: carom.impact_map(hamiltonian, "wall", q, p, params=params))
    for _ in range(200):
        q, v, params = _disk_state(random)
        weight = np.array([params["mass"], params["mass"], params["inertia"], params["turning"]])
        after = law(q, weight * v, params) / weight
        numbers = {k: params[k] for k in ("mass", "radius", "inertia", "turning")}
        theta, phi = disk_impact(v[2], v[3], q[3], **numbers)
        exact = np.array([params["radius"] * theta * np.cos(q[3]), params["radius"] * theta * np.sin(q[3]), theta, phi])
        scale = np.max(np.abs(exact))
        assert np.max(np.abs(after - exact)) < 1e-12 * scale  # rounding, with masses up to 10 : 1
        assert np.max(np.abs(other(q, weight * v, params) / weight - exact)) < 1e-12 * scale
        naive = v - 2 * (v[1] + params["radius"] * np.cos(q[3]) * v[3]) * np.array([0.0, 1.0, 0.0, 0.0])
        assert np.max(np.abs(naive - exact)) > 1e-6 * scale  # control: a reflection that does not know the constraints


@pytest.mark.sensitive
def test_eight_impacts_of_the_disk_are_circles_and_the_map():
    model = carom.models.rolling_disk()
    events = carom.EventDriven(rtol=1e-12, atol=1e-13)
    runs = [carom.models.rolling_disk(side=side).solve(events, dt=1.0, num_steps=70) for side in ("lagrangian", "hamiltonian")]
    assert np.max(np.abs(runs[0].q - runs[1].q)) < 1e-9  # both sides of the theory move alike
    times, states = _exact_disk(model, 8)
    for run in runs:
        assert np.max(np.abs(run.impacts.t[:8] - times)) < 1e-9  # eight flights at a tolerance of 1e-12, θ up to 140
        assert np.max(np.abs(run.impacts.q[:8] - states)) < 1e-9
    printed = carom.models.rolling_disk(rim="printed").solve(events, dt=1.0, num_steps=70)
    reach = lambda run: np.max(run.q[:, 1] + np.abs(np.sin(run.q[:, 3])))  # noqa: E731
    assert (
        reach(printed) > 10.1 and reach(runs[0]) <= 10 + 1e-12
    )  # the printed wall lets the disk through, the physical one does not


def _exact_disk(model, count):
    """By plain bisection on circles, with the closed form at each impact."""
    p = model.params
    q, (_, _, v_theta, v_phi), t = np.array(model.q0), model.v0, 0.0
    gap = lambda q: 10.0 - q[..., 1] - p["radius"] * np.abs(np.sin(q[..., 3]))  # noqa: E731
    times, states = [], []
    for _ in range(count):
        roll = lambda s, q=q, a=v_theta, b=v_phi: disk_rolling(q, a, b, s, p["radius"])  # noqa: E731
        s = np.arange(1, 60_000) * 1e-3
        high = s[np.argmax(gap(roll(s)) < 0)]
        low = high - 1e-3
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if gap(roll(middle)) > 0 else (low, middle)
        q, t = roll(low), t + low
        heading = q[3] if np.sin(q[3]) > 0 else q[3] + np.pi  # the rim that hits is the front of the reversed heading
        a, b = disk_impact(
            v_theta if heading == q[3] else -v_theta, v_phi, heading, **{k: p[k] for k in ("mass", "radius", "inertia", "turning")}
        )
        v_theta, v_phi = (a if heading == q[3] else -a), b
        times.append(t)
        states.append(q)
    return np.array(times), np.array(states)


# -- the law of impact ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("e", [1.0, 0.6, 0.0])
def test_the_law_with_and_without_constraints(e):
    """p⁺ − p⁻ ∈ (T∂Q)° + Δ°, v⁺ ∈ Δ, the gap rate is reversed by e, and e = 1 keeps the energy."""
    random = np.random.default_rng(2)
    root = random.normal(size=(4, 4))
    M, n, A = root @ root.T + np.eye(4), random.normal(size=4), random.normal(size=(2, 4))
    lagrangian = lambda v: 0.5 * v @ jnp.asarray(M) @ v  # noqa: E731
    contact = carom.Contact(lambda q: jnp.asarray(n) @ q, restitution=e)
    for rows in (np.zeros((0, 4)), A[:1], A):
        system = carom.System(lagrangian, [contact], constraints=(lambda q, rows=rows: jnp.asarray(rows)) if len(rows) else None)
        v = random.normal(size=4)
        v = v - np.linalg.pinv(rows) @ (rows @ v) if len(rows) else v
        v = -v if n @ v > 0 else v
        p = M @ v
        after = np.asarray(carom.impact_map(system, 0, np.zeros(4), p))
        v_after = np.linalg.solve(M, after)
        span = np.concatenate([n[None], rows])
        rest = (after - p) - np.linalg.lstsq(span.T, after - p, rcond=None)[0] @ span
        assert np.max(np.abs(rest)) < 1e-13 * np.max(np.abs(p)) * np.linalg.cond(M)  # in the span
        assert np.max(np.abs(rows @ v_after), initial=0.0) < 1e-12  # admissible
        assert n @ v_after == pytest.approx(-e * (n @ v), rel=1e-11, abs=1e-12)
        free = np.linalg.svd(rows)[2][len(rows) :].T if len(rows) else np.eye(4)  # a basis of Δ
        response = n @ free @ np.linalg.solve(free.T @ M @ free, free.T @ n)
        loss = 0.5 * v @ M @ v - 0.5 * v_after @ M @ v_after
        assert loss == pytest.approx(0.5 * (1 - e**2) * (n @ v) ** 2 / response, rel=1e-10, abs=1e-12)
        leaving = np.asarray(carom.impact_map(system, 0, np.zeros(4), -p))
        assert np.max(np.abs(leaving + p)) < 1e-12  # a contact that is being left changes nothing


def test_asking_for_a_contact_that_is_not_there():
    model = carom.models.rolling_disk()
    with pytest.raises(carom.InputError, match="there is no contact 'floor'; there are: wall"):
        carom.impact_map(model.system, "floor", model.q0, model.v0, params=model.params)


# -- what is conserved ---------------------------------------------------------------------------------------------------


def test_the_nonholonomic_momentum_equation():
    """The rolling disk keeps p·X for X = ∂θ + R cos φ ∂x + R sin φ ∂y between impacts; the sleigh's momentum changes as it must."""
    model = carom.models.rolling_disk()
    roll = lambda q, params: jnp.stack([params["radius"] * jnp.cos(q[3]), params["radius"] * jnp.sin(q[3]), 1.0, 0.0])  # noqa: E731
    run = model.solve(V(), dt=0.02, num_steps=100)
    assert len(run.impacts) == 0
    J, expected = diagnostics.nonholonomic_momentum(run, roll)
    assert np.ptp(J) < 1e-10 and np.max(np.abs(J - expected)) < 1e-10  # order 4 at dt = 0.02
    sleigh = carom.models.chaplygin_sleigh()
    along = lambda q: jnp.stack([jnp.cos(q[2]), jnp.sin(q[2]), 0.0])  # noqa: E731
    defects = []
    for dt in (0.02, 0.01):
        run = sleigh.solve(V(), dt=dt, num_steps=round(4 / dt))
        J, expected = diagnostics.nonholonomic_momentum(run, along)
        assert len(run.impacts) > 0 and np.ptp(J) > 0.5  # control: it is not conserved
        defects.append(np.max(np.abs(J - expected)))
    assert defects[1] < 1e-3 and defects[0] / defects[1] > 3  # the quadrature: O(dt²)
    with pytest.raises(carom.InputError, match="does not stay in Δ"):
        diagnostics.nonholonomic_momentum(run, lambda q: jnp.stack([-jnp.sin(q[2]), jnp.cos(q[2]), 0.0]))


# -- the ellipse ---------------------------------------------------------------------------------------------------------


@pytest.mark.sensitive
def test_ellipse_with_the_law_and_without_torque():
    """The printed counts (1 impact in 2 s, 17 in 25 s) belong to an impulse without torque, not to the law."""
    torque_free = carom.models.ellipse(torque_free=True).solve(V(carom.Midpoint()), dt=0.01, num_steps=2500)
    assert len(torque_free.impacts) == 17 and np.sum(torque_free.impacts.t < 2) == 1
    law = carom.models.ellipse().solve(V(), dt=0.01, num_steps=2500)
    assert np.sum(law.impacts.t < 2) == 2 and len(law.impacts) > 20
    # In 400-bit arithmetic, by bisection on parabolas and exact reflections.
    exact = [0.750550251917, 1.152508123, 2.32442331696, 3.7511789299, 4.83475279854, 5.94289512034, 7.35443096872]
    assert np.max(np.abs(law.impacts.t[:7] - exact)) < 1e-9  # twelve digits, and order 4 on parabolas is exact
    rates = lambda run: run.impacts.p_after[:, 2] - run.impacts.p_before[:, 2]  # noqa: E731
    assert np.all(rates(torque_free) == 0) and np.max(np.abs(rates(law))) > 0.1


# -- degenerate Lagrangians ----------------------------------------------------------------------------------------------


def _spring(q, v):
    """A mass on a spring, and a massless point on a second spring between the mass and its mirror image."""
    return 0.5 * v[0] ** 2 - 0.5 * q[0] ** 2 - 0.5 * (q[1] - q[0]) ** 2


def _vortices(q, v):
    """Two point vortices of strengths 1 and 2: L is linear in v."""
    x, u, strength = q.reshape(2, 2), v.reshape(2, 2), jnp.array([1.0, 2.0])
    area = 0.5 * jnp.sum(strength * (x[:, 0] * u[:, 1] - x[:, 1] * u[:, 0]))
    return area + jnp.log(jnp.sum((x[0] - x[1]) ** 2)) / (2 * jnp.pi)


def test_a_massless_coordinate():
    contact = carom.Contact(lambda q: q[0] + 0.5)
    for method, allowed in ((EVENTS, 1e-9), (V(carom.Midpoint()), 3e-5)):  # tolerance; dt²/12 · time
        run = carom.solve(carom.System(_spring, [contact]), method, [1.0, 1.0], [0.0, 0.0], dt=0.01, num_steps=300)
        hit = 2 * np.pi / 3  # cos t = −½
        assert run.impacts.t[0] == pytest.approx(hit, abs=allowed)
        exact = np.where(run.t < hit, np.cos(run.t), np.cos(2 * hit - run.t))
        assert np.max(np.abs(run.q - exact[:, None])) < allowed and np.max(np.abs(run.energy_error)) < allowed
    with pytest.raises(carom.InputError, match=r"along v = \[0. 1.\]\) and Trapezoidal cannot step it: D₁D₂L_d is singular"):
        carom.solve(carom.System(_spring), V(), [1.0, 1.0], [0.0, 0.0], dt=0.01, num_steps=3)
    with pytest.raises(carom.InputError, match="Start at an equilibrium of that coordinate"):
        carom.solve(carom.System(_spring), EVENTS, [1.0, 0.7], [0.0, 0.0], dt=0.01, num_steps=3)
    with pytest.raises(carom.InputError, match=r"along directions without kinetic energy; choose MoreauJean\(theta=1\)"):
        carom.solve(
            carom.System(_spring, [carom.Contact(lambda q: q[1] + 2)]), EVENTS, [1.0, 1.0], [0.0, 0.0], dt=0.01, num_steps=3
        )


def test_a_lagrangian_linear_in_the_velocities():
    """Two vortices circle about their centre with angular speed (Γ₁ + Γ₂)/(2π d²)."""
    start, time = [1.0, 0.0, -0.5, 0.0], 10.0
    angle = -3 / (2 * np.pi * 1.5**2) * time  # clockwise, with this sign of the area
    exact = np.array([np.cos(angle), np.sin(angle), -0.5 * np.cos(angle), -0.5 * np.sin(angle)])
    for method, allowed in ((EVENTS, 1e-8), (V(carom.Composition(carom.Midpoint(), 4)), 1e-7)):
        run = carom.solve(carom.System(_vortices), method, start, np.zeros(4), dt=0.05, num_steps=200)
        assert np.max(np.abs(run.q[-1] - exact)) < allowed


def test_a_degenerate_hamiltonian():
    """H = p·f(q) drives q by f alone: no mass anywhere."""
    system = carom.System(hamiltonian=lambda q, p: p[0] * jnp.cos(q[0]))
    run = carom.solve(system, EVENTS, [0.0], p0=[1.0], dt=0.1, num_steps=10)
    assert run.q[-1, 0] == pytest.approx(2 * np.arctan(np.tanh(0.5)), abs=1e-9)  # the Gudermannian of 1
    assert np.max(np.abs(run.energy_error)) < 1e-9


# -- bad input -----------------------------------------------------------------------------------------------------------


def _free(v):
    return 0.5 * jnp.sum(v**2)


@pytest.mark.parametrize(
    "rows, v0, contact, message",
    [
        ([[1.0, 0, 0], [2.0, 0, 0]], [0.0, 1, 0], None, "rank 1 .* Row 1 follows from the rows before it"),
        ([[0.0, 0, 0]], [0.0, 1, 0], None, "rank 0 .* Row 0 is zero"),
        ([[1.0, -1, 0]], [2.0, 0, 1], None, r"row 0 of A v0 is 2, .* v0 = \[1\., 1\., 1\.\]"),
        ([[0.0, 0, 1]], [0.0, 1, 0], carom.Contact(lambda q: q[2] + 1, name="floor"), "'floor' is tangent to every velocity"),
        (np.eye(3), [0.0, 0, 0], None, "3 constraints on 3 velocities"),
        ([[1.0, 0]], [0.0, 1, 0], None, "a matrix with 3 columns"),
    ],
)
def test_constraints_that_make_no_sense(rows, v0, contact, message):
    system = carom.System(_free, [contact] if contact else [], constraints=lambda: jnp.asarray(rows, float))
    with pytest.raises(carom.InputError, match=message):
        carom.solve(system, V(), [0.0, 0, 0], v0, dt=0.1, num_steps=3)


def test_hamiltonians_and_lagrangians():
    with pytest.raises(TypeError, match="pass one of the two"):
        carom.System()
    flat = carom.System(hamiltonian=lambda q, p: 0.5 * p[0] ** 2 + q @ q)
    with pytest.raises(carom.InputError, match=r"∂²H/∂p² has no inverse\); choose EventDriven"):
        carom.solve(flat, V(), [0.0, 0.0], p0=[1.0, 0.0], dt=0.1, num_steps=1)
    with pytest.raises(carom.InputError, match="either v0 or p0"):
        carom.solve(carom.System(_free), V(), [0.0], dt=0.1, num_steps=1)
    with pytest.raises(ValueError, match="direction must be one of forward, symmetric, backward"):
        V(direction="sideways")
