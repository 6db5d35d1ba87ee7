"""The discrete action: L_d against exact ones, a discrete Lagrangian of one's own, and runs as critical points."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TRAPEZOIDAL

import carom
from carom.diagnostics import action_gradient, measured_order

EPS = np.finfo(float).eps
ROUNDINGS = 50  # the estimate is of one way to round, and some formulas round more than once
OMEGA = 2.0


def oscillator(q, v):
    return 0.5 * v @ v - 0.5 * OMEGA**2 * q @ q


def exact_action(q0, q1, h):
    """Of the oscillator: the action of the true motion between two points."""
    return 0.5 * OMEGA * ((q0 @ q0 + q1 @ q1) / jnp.tan(OMEGA * h) - 2 * (q0 @ q1) / jnp.sin(OMEGA * h))


# -- L_d as a function -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "order"),
    [
        (carom.Left(), 1),
        (carom.Trapezoidal(), 2),
        (carom.Galerkin(2), 4),
        pytest.param(carom.Composition(carom.Trapezoidal(), 4), 4, marks=pytest.mark.stress),
    ],
    ids=["left", "trapezoidal", "galerkin", "composition"],
)
def test_discrete_lagrangians_approach_the_action_with_their_order(rule, order):
    """L_d − ∫L dt = O(h^{p+1}) on a given motion, (1) of docs/theory/action.md: the order of the rule, and one more."""
    L_d = jax.jit(carom.discrete_lagrangian(carom.System(oscillator), rule).__call__)
    steps = [0.1, 0.05, 0.025]
    at = lambda t: jnp.array([0.7 * jnp.cos(OMEGA * t) + 0.2 * jnp.sin(OMEGA * t)])  # noqa: E731
    errors = [abs(float(L_d(at(0.0), at(h), h) - exact_action(at(0.0), at(h), h))) for h in steps]
    assert measured_order(steps, errors) == pytest.approx(order + 1, abs=0.35)


def test_discrete_legendre_transforms_are_the_flow():
    """(50), (55): the momenta and the energy of L_d at the two ends of a step are those that the step itself goes with."""
    rule, h = carom.Galerkin(2), jnp.asarray(0.1)
    system = carom.System(lambda q, v, t: 0.5 * (1 + q[0] ** 2) * v @ v - jnp.cos(q[0] + 0.3 * t))
    q, p, t = jnp.array([0.4]), jnp.array([0.7]), jnp.asarray(0.2)
    out = rule.flow(system.bind(None, 1))(q, p, t, h)
    L_d = carom.discrete_lagrangian(system, rule)
    found = jax.tree.map(np.asarray, jax.jit(L_d.legendre)(q, out.q, h, t))
    assert found.p0 == pytest.approx(np.asarray(p), abs=1e-13) and found.p1 == pytest.approx(np.asarray(out.p), abs=1e-13)
    assert found.energy_start == pytest.approx(float(out.energy_start), abs=1e-12)  # 1/h times the rounding of points
    assert found.energy_end == pytest.approx(float(out.energy_end), abs=1e-12)
    assert abs(float(found.energy_end - found.energy_start)) > 1e-3  # explicit time: they differ
    twice = jax.jit(jax.hessian(L_d))(q, out.q, h)
    d = 1e-5
    difference = (jax.grad(L_d)(q + d, out.q, h) - jax.grad(L_d)(q - d, out.q, h)) / (2 * d)
    assert float(twice[0, 0]) == pytest.approx(float(difference[0]), rel=1e-8)  # inner controls follow, also to second order


# -- a discrete Lagrangian of one's own ------------------------------------------------------------------------------------

WALL = carom.System(oscillator, [carom.Contact(lambda q: q[0] + 0.3)])


def test_the_exact_discrete_lagrangian_gives_the_exact_motion_with_impacts():
    """With the exact action as L_d the discrete energy is the energy and impacts are exact: no error but rounding."""
    method = carom.VariationalCollision(carom.Rule.from_discrete_lagrangian(exact_action, order=2, symmetric=True))
    run = carom.solve(WALL, method, [0.5], [0.0], dt=0.1, num_steps=200)
    first = np.arccos(-0.3 / 0.5) / OMEGA
    times = first * (2 * np.arange(len(run.impacts)) + 1)  # from the turning point to the wall and back, again and again
    assert len(run.impacts) == int((20.0 / first - 1) // 2) + 1
    assert np.abs(run.impacts.t - times).max() < 1e-11  # points are rounded to 1e-16, and divided by short legs
    assert np.ptp(run.energy) < 1e-12
    assert action_gradient(run).in_roundings < ROUNDINGS
    rough = carom.solve(WALL, TRAPEZOIDAL, [0.5], [0.0], dt=0.1, num_steps=200)
    assert np.abs(rough.impacts.t - times).max() > 1e-3 and np.ptp(rough.energy) > 1e-3  # control: order 2


def test_a_rule_of_ones_own_is_the_rule():
    own = carom.Rule.from_discrete_lagrangian(
        lambda q0, q1, h, params: 0.5 * h * sum(particle_lagrangian(q, (q1 - q0) / h, params) for q in (q0, q1)), order=2
    )
    system = carom.System(particle_lagrangian, [carom.Contact(lambda q: q[1])])
    options = {"dt": 0.05, "num_steps": 60, "params": {"gravity": 9.81}}
    runs = [
        carom.solve(system, carom.VariationalCollision(r), [0.0, 1.0], [1.0, 0.0], **options) for r in (own, carom.Trapezoidal())
    ]
    assert len(runs[0].impacts) == len(runs[1].impacts) >= 3
    np.testing.assert_allclose(runs[0].q, runs[1].q, atol=1e-11)
    with pytest.raises(carom.InputError, match="how forces enter"):
        carom.solve(
            carom.System(particle_lagrangian, force=lambda v: -v),
            carom.VariationalCollision(own),
            [0.0, 1.0],
            [0.0, 0.0],
            **options,
        )
    with pytest.raises(carom.InputError, match="discrete Lagrangian asks for 'dt'"):
        carom.Rule.from_discrete_lagrangian(lambda q0, q1, dt: 0.0)


def particle_lagrangian(q, v, params):
    return 0.5 * v @ v - params["gravity"] * (q[1] + 0.1 * q[1] ** 3)


def _matrix(q):
    w, x, y, z = q
    return jnp.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def test_moser_and_veselovs_rigid_body():
    """A discrete Lagrangian on SO(3) of one's own, tr((I − Λ₀ᵀΛ₁) J_d)/h: angular momentum in space to rounding, and energy."""
    inertia = jnp.array([1.0, 2.0, 2.5])
    parts = jnp.sum(inertia) / 2 - inertia  # of J_d, with J = tr(J_d) I − J_d
    moser = carom.Rule.from_discrete_lagrangian(
        lambda q0, q1, h: jnp.trace((jnp.eye(3) - _matrix(q0).T @ _matrix(q1)) @ jnp.diag(parts)) / h, order=2, symmetric=True
    )
    free = carom.System(lambda v: 0.5 * v @ (inertia * v), space=carom.SO3())
    run = carom.solve(free, carom.VariationalCollision(moser), [1.0, 0, 0, 0], [0.3, 1.0, 0.2], dt=0.05, num_steps=200)
    spin = np.stack([np.asarray(_matrix(q) @ p) for q, p in zip(run.q, run.p, strict=True)])
    assert np.ptp(spin, axis=0).max() < 1e-12
    assert np.ptp(run.energy) < 1e-11  # and so is the energy: this one is integrable
    assert np.ptp(run.p, axis=0).max() > 0.3  # control: in the body it turns
    assert action_gradient(run).in_roundings < ROUNDINGS


# -- runs as critical points -----------------------------------------------------------------------------------------------


def quartic(q, v):
    return 0.5 * (v[0] ** 2 + 2 * v[1] ** 2) - 0.5 * q[0] ** 2 * q[1] - 0.3 * q[1] ** 4 - q[1]


CHANNEL = carom.System(
    quartic, [carom.Contact(lambda q: q[1] + 0.2 * q[0] ** 2 - 0.1 * q[0]), carom.Contact(lambda q: 0.8 - q[1] + 0.1 * q[0])]
)


def channel(method):
    return carom.solve(CHANNEL, method, [0.1, 0.4], [0.6, -3.0], dt=0.05, num_steps=60)


@pytest.fixture(scope="module")
def in_channel():
    return channel(TRAPEZOIDAL)


def test_a_run_is_a_critical_point_of_the_discrete_action(in_channel):
    """Theorem 3.1 of [fetecau2003]: over all points, impact points along the boundary, and impact times."""
    gradient = action_gradient(in_channel)
    hits = gradient.impact >= 0
    assert hits.sum() == len(in_channel.impacts) >= 4 and gradient.unjudged == 0
    assert gradient.largest < 1e-12 and gradient.in_roundings < ROUNDINGS
    # The impulses come out again, from the points alone.
    np.testing.assert_allclose(gradient.impulses[hits], in_channel.impacts.impulses[gradient.impact[hits]], rtol=1e-11, atol=1e-11)


def test_control_other_runs_are_not_critical(in_channel):
    reflected = action_gradient(channel(carom.VariationalCollision(carom.Trapezoidal(), elastic="reflection")))
    hits = reflected.impact >= 0
    assert np.abs(reflected.time[hits]).max() > 1e-3  # (48a) does not hold
    assert np.abs(reflected.q).max() < 1e-11  # and all else does
    q = in_channel.q.copy()
    q[20, 0] += 1e-7
    moved = action_gradient(dataclasses.replace(in_channel, q=q))
    wrong = np.flatnonzero(np.abs(moved.q).max(axis=1) > 1e-9)
    assert len(wrong) == 3 and moved.t[wrong[1]] == in_channel.t[20]  # the point and its neighbours
    assert np.abs(moved.q[wrong[1], 0]) == pytest.approx(2 * 1e-7 / 0.05, rel=0.01)  # 2m/h


@pytest.mark.stress
@pytest.mark.parametrize("rule", [carom.Left(), carom.Galerkin(2), carom.Composition(carom.Trapezoidal(), 4)])
def test_every_rule_has_critical_runs(rule):
    gradient = action_gradient(channel(carom.VariationalCollision(rule)))
    assert gradient.largest < 1e-12 and gradient.in_roundings < ROUNDINGS


def test_moving_walls_and_loss():
    """The time of an impact and its point vary together along a wall that moves; where energy is lost, nothing is critical."""
    contacts = lambda e: [carom.Contact(lambda q, t: q[0] - 0.1 * jnp.sin(3 * t), e), carom.Contact(lambda q: 1 - q[0], e)]  # noqa: E731

    def run(e):
        system = carom.System(lambda v: 0.5 * v @ v, contacts(e))
        return carom.solve(system, TRAPEZOIDAL, [0.5], [-0.7], dt=0.05, num_steps=200)

    gradient = action_gradient(run(1.0))
    assert (gradient.impact >= 0).sum() >= 6 and gradient.in_roundings < ROUNDINGS
    assert np.abs(action_gradient(run(0.9)).time).max() > 0.01  # control


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_nonholonomic_runs_are_critical(direction):
    """Theorem 3.1 of [rodriguez2025], its (+) and its (−) scheme: variations along Δ, reactions in Δ°."""
    model = carom.models.nonholonomic_pendulum()
    run = model.solve(carom.VariationalCollision(carom.Left(), direction=direction), dt=0.01, num_steps=500)
    gradient = action_gradient(run)
    assert len(run.impacts) >= 3 and gradient.in_roundings < ROUNDINGS
    assert np.abs(gradient.reactions).max() > 1e-3 * gradient.momentum  # control: without Δ° it would not vanish


def test_elastic_bodies_are_critical():
    """(3.11)–(3.13) of [demoures2017] for bars, all nodes at once; with interfaces all but the balance (4.15)."""
    bars = carom.models.bars(elements=(5, 5), integrator=1).solve(TRAPEZOIDAL, num_steps=300)
    gradient = action_gradient(bars)
    assert len(bars.impacts) >= 4 and gradient.in_roundings < ROUNDINGS
    tips = carom.models.bars(elements=(5, 5), integrator=2).solve(TRAPEZOIDAL, num_steps=300)
    through = action_gradient(tips)
    assert len(tips.impacts) >= 2
    assert np.nanmax(np.abs(through.q).max(axis=1) / through.rounding) < ROUNDINGS
    assert np.nanmax(np.abs(through.time)) > 1e3 * np.nanmax(through.time_rounding)  # one equation more than unknowns


@pytest.mark.stress
def test_a_beam_on_the_group_is_critical():
    beam = carom.models.beam(elements=4).solve(TRAPEZOIDAL, num_steps=200)
    gradient = action_gradient(beam)
    assert len(beam.impacts) >= 1 and gradient.in_roundings < ROUNDINGS
    reflected = carom.models.beam(elements=4).solve(
        carom.VariationalCollision(carom.Trapezoidal(), elastic="reflection"), num_steps=200
    )
    assert action_gradient(reflected).in_roundings > 1e3  # control


def test_what_has_no_action_is_refused(in_channel):
    drag = carom.solve(carom.System(oscillator, force=lambda v: -v), TRAPEZOIDAL, [1.0], [0.0], dt=0.1, num_steps=2)
    with pytest.raises(carom.InputError, match="forces have no action"):
        action_gradient(drag)
    jumps = carom.solve(carom.System(oscillator), carom.MoreauJean(), [1.0], [0.0], dt=0.1, num_steps=2)
    with pytest.raises(carom.InputError, match="another method"):
        action_gradient(jumps)
    with pytest.raises(carom.InputError, match="rule must be"):
        carom.discrete_lagrangian(carom.System(oscillator), "trapezoidal")
