"""Every declared preservation, measured through impacts: symplectic form, momentum maps, energy with time and forces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ORDER_4, TRAPEZOIDAL

import carom
from carom.diagnostics import discrete_energy, measured_order, momentum_map, symplectic_defect
from carom.methods.method import State

EPS = np.finfo(float).eps


# -- the symplectic form -------------------------------------------------------------------------------------------------


def quartic(q, v):
    return 0.5 * (v[0] ** 2 + 2 * v[1] ** 2) - 0.5 * q[0] ** 2 * q[1] - 0.3 * q[1] ** 4 - q[1]


def slanted_floor(q):
    return q[1] + 0.2 * q[0] ** 2 - 0.1 * q[0]


def ceiling(q):
    return 0.8 - q[1] + 0.1 * q[0]


CHANNEL = carom.System(quartic, [carom.Contact(slanted_floor), carom.Contact(ceiling)])
START = np.array([0.1, 0.4]), np.array([0.6, -6.0])


def impacts_in_a_step(method, dt):
    p = START[1]
    run = carom.solve(CHANNEL, method, START[0], p / [1, 2], dt=dt, num_steps=1)
    return len(run.impacts)


@pytest.mark.parametrize(("dt", "impacts"), [(0.05, 0), (0.2, 1), (0.45, 2), (0.7, 3)])
@pytest.mark.parametrize(
    "rule",
    [pytest.param(carom.Trapezoidal(), marks=pytest.mark.stress), carom.Composition(carom.Trapezoidal(), 4)],
    ids=["order-2", "order-4"],
)
def test_steps_are_symplectic_through_impacts(rule, dt, impacts):
    method = carom.VariationalCollision(rule)
    assert impacts_in_a_step(method, dt) == impacts
    assert symplectic_defect(CHANNEL, method, *START, dt) < 1e-13


@pytest.mark.parametrize(
    "rule",
    [carom.Midpoint(), *(pytest.param(r, marks=pytest.mark.stress) for r in (carom.Left(), carom.Right(), carom.Galerkin(2)))],
    ids=lambda r: type(r).__name__,
)
def test_every_rule_is_symplectic_through_an_impact(rule):
    assert symplectic_defect(CHANNEL, carom.VariationalCollision(rule), *START, 0.2) < 1e-13


def test_a_naive_reflection_is_not_symplectic():
    """Control: the same rule with the impact of the continuous law, κ = 1. The potential must be nonlinear to tell."""
    mechanics = CHANNEL.bind({}, 2)
    flow = carom.Trapezoidal().flow(mechanics)
    dt, zero = 0.2, jnp.zeros(())

    def naive(x):
        q, p = x[:2], x[2:]
        gap = lambda s: slanted_floor(flow(q, p, zero, s).q)  # noqa: E731
        tau = jax.lax.fori_loop(0, 60, lambda _, tau: tau - gap(tau) / jax.grad(gap)(tau), 0.1)
        hit = flow(q, p, zero, tau)
        n = jax.grad(slanted_floor)(hit.q)
        v = hit.p / jnp.array([1.0, 2.0])
        size = -2 * (n @ v) / (n @ (n / jnp.array([1.0, 2.0])))
        end = flow(hit.q, hit.p + size * n, zero, dt - tau)
        return jnp.concatenate([end.q, end.p])

    jacobian = np.asarray(jax.jit(jax.jacfwd(naive))(jnp.concatenate([jnp.asarray(START[0]), jnp.asarray(START[1])])))
    omega = np.kron([[0, 1], [-1, 0]], np.eye(2))
    defect = np.max(np.abs(jacobian.T @ omega @ jacobian - omega)) / np.max(np.abs(jacobian)) ** 2
    assert defect > 1e-5


# -- momentum maps -------------------------------------------------------------------------------------------------------


def two_discs(q, v):
    """Two discs in the plane that attract each other: invariant under translations and rotations of both."""
    gap = q[:2] - q[2:]
    return 0.5 * (v[:2] @ v[:2]) + 0.5 * 2.0 * (v[2:] @ v[2:]) - 1.5 * (gap @ gap) ** 2


def apart(q):
    gap = q[:2] - q[2:]
    return jnp.sqrt(gap @ gap) - 0.5


def test_momentum_maps_survive_impacts_of_a_symmetric_boundary():
    system = carom.System(two_discs, [carom.Contact(apart)])
    q0, v0 = [0.0, 0.0, 1.0, 0.3], [0.2, 0.1, -0.6, 0.4]
    run = carom.solve(system, ORDER_4, q0, v0, dt=0.01, num_steps=5000)
    assert len(run.impacts) > 20
    walk = 20 * EPS * np.sqrt(run.num_steps)  # a few roundings per step, walking
    for generator in (lambda: (1.0, 0.0, 1.0, 0.0), lambda: (0.0, 1.0, 0.0, 1.0)):
        assert np.max(np.abs(np.diff(momentum_map(run, generator)))) < 100 * EPS
        assert np.ptp(momentum_map(run, generator)) < walk
    spin = momentum_map(run, lambda q: (-q[1], q[0], -q[3], q[2]))
    assert np.ptp(spin) < 20 * walk  # about an origin the discs move away from: larger terms
    relative = momentum_map(run, lambda: (1.0, 0.0, 0.0, 0.0))
    assert np.ptp(relative) > 0.1  # control: moving one disc alone is no symmetry


def test_momentum_is_lost_at_a_wall_that_breaks_the_symmetry(particle_run):
    assert np.ptp(momentum_map(particle_run, lambda: (1.0, 0.0))) == 0.0
    assert np.ptp(momentum_map(particle_run, lambda: (0.0, 1.0))) > 1.0


# -- energy --------------------------------------------------------------------------------------------------------------


def test_discrete_energy_is_kept_at_every_impact():
    """(56): E_d of the leg before equals E_d of the leg after, found again from the recorded impacts alone."""
    model = carom.models.particle(cubic=0.1)
    run = model.solve(TRAPEZOIDAL, dt=0.05, num_steps=400)
    flow = carom.Trapezoidal().flow(model.system.bind(run.params, 2))
    zero = jnp.zeros(())
    for i in range(5):
        k, t = run.impacts.step[i], run.impacts.t[i]
        before = flow(run.q[k], run.p[k], zero, t - run.t[k])
        after = flow(run.impacts.q[i], run.impacts.p_after[i], zero, run.t[k + 1] - t)
        assert np.max(np.abs(before.q - run.impacts.q[i])) < 1e-14
        assert float(after.energy_start - before.energy_end) == pytest.approx(0.0, abs=100 * EPS * 10)
        law = flow(run.impacts.q[i], run.impacts.p_before[i] * jnp.array([1, -1]), zero, run.t[k + 1] - t)
        assert abs(float(law.energy_start - before.energy_end)) > 1e-7  # control: the plain reflection does not keep it
    values = discrete_energy(run)
    assert np.isnan(values[run.impacts.step]).all() and np.isfinite(np.delete(values, run.impacts.step)).all()


def wall_at(t):
    return 0.1 * jnp.sin(3.0 * t)


def test_moving_wall_gives_the_exact_elastic_map():
    """Free motion between a fixed wall and a moving one: v⁺ = 2u − v⁻ at each impact on the moving wall."""

    def moving(q, t):
        return q[0] - wall_at(t)

    def fixed(q):
        return 1.0 - q[0]

    system = carom.System(lambda v: 0.5 * (v @ v), [carom.Contact(moving), carom.Contact(fixed)])
    run = carom.solve(system, TRAPEZOIDAL, [0.5], [-0.7], dt=0.05, num_steps=2000)
    hits = run.impacts.contact == 0
    assert hits.sum() > 10
    u = 0.3 * np.cos(3.0 * run.impacts.t)
    expected = np.where(hits, 2 * u, 0.0) - run.impacts.p_before[:, 0]
    assert np.max(np.abs(run.impacts.p_after[:, 0] - expected)) < 1e-12
    assert np.ptp(run.energy) > 0.1  # the wall does work


def test_time_dependent_lagrangian_has_order_4_through_impacts():
    def swinging(q, v, t):
        return 0.5 * (v @ v) - 9.81 * (1 + 0.5 * jnp.sin(2 * t)) * q[0]

    system = carom.System(swinging, [carom.Contact(lambda q: q[0], name="floor")])
    counts = (10, 14, 20, 28, 40, 56, 80)  # many: the error depends on where in its step the impact falls
    exact = carom.solve(system, ORDER_4, [1.0], [0.0], dt=1 / 640, num_steps=640).q[-1, 0]
    errors = [abs(carom.solve(system, ORDER_4, [1.0], [0.0], dt=1 / n, num_steps=n).q[-1, 0] - exact) for n in counts]
    assert 3.5 < measured_order([1 / n for n in counts], errors) < 5.0


def test_forces_by_lagrange_dalembert_have_order_2_through_impacts():
    """Linear drag: closed form between impacts, composed by hand."""
    c, g = 0.4, 9.81

    def drag(v):
        return -c * v

    system = carom.System(lambda q, v: 0.5 * (v @ v) - g * q[0], [carom.Contact(lambda q: q[0])], force=drag)

    def height(y, v, t):
        decay = np.exp(-c * t)
        return y + (v + g / c) * (1 - decay) / c - g * t / c, (v + g / c) * decay - g / c

    from scipy.optimize import brentq

    t1 = brentq(lambda t: height(1.0, 0.0, t)[0], 0.3, 0.7, xtol=1e-15)
    _, v1 = height(1.0, 0.0, t1)
    exact = height(0.0, -v1, 0.8 - t1)
    errors = []
    for n in (40, 80, 160, 320):
        run = carom.solve(system, TRAPEZOIDAL, [1.0], [0.0], dt=0.8 / n, num_steps=n)
        errors.append(abs(run.q[-1, 0] - exact[0]) + abs(run.v[-1, 0] - exact[1]))
    assert errors[-1] < 1e-4
    assert 1.6 < np.log2(errors[0] / errors[-1]) / 3 < 2.4
    free = carom.solve(
        carom.System(lambda q, v: 0.5 * (v @ v) - g * q[0], system.contacts), TRAPEZOIDAL, [1.0], [0.0], dt=0.01, num_steps=80
    )
    assert abs(free.q[-1, 0] - exact[0]) > 0.05  # control: without the drag


def test_reversibility_of_a_symmetric_rule():
    model = carom.models.star(cubic=0.1)
    params = {k: jnp.asarray(v) for k, v in model.params.items()}
    state = State(jnp.zeros(()), jnp.asarray([0.0, 0.9, 0.3]), jnp.asarray([0.1, -4.0, 0.5]))
    step = jax.jit(lambda s: ORDER_4.step(model.system, s, 0.1, params))
    there = step(state)
    assert float(there.p[1]) > 0  # it has bounced
    back = step(State(jnp.zeros(()), there.q, -there.p))
    assert np.max(np.abs(back.q - state.q)) < 1e-13 and np.max(np.abs(back.p + state.p)) < 1e-12
