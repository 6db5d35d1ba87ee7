"""The balance of discrete energy at impacts with loss, (39) of [fetecau2003]."""

import numpy as np
import pytest

import carom
from carom.diagnostics import impact_energies, measured_order

GRAVITY = 9.81
TRAPEZOIDAL = carom.VariationalCollision(carom.Trapezoidal())


def run_of(method=TRAPEZOIDAL, restitution=0.7, cubic=0.0, dt=0.01, time=1.0, friction=0.0):
    def lagrangian(q, v):
        return 0.5 * v @ v - GRAVITY * q[1] - cubic * q[1] ** 3

    rough = {"friction": friction, "slip": lambda q: q[0]} if friction else {}
    system = carom.System(lagrangian, [carom.Contact(lambda q: q[1], restitution, **rough)])
    return carom.solve(system, method, [0.0, 1.0], [0.7, 0.0], dt=dt, num_steps=round(time / dt))


def test_the_law_takes_what_it_says_and_the_rule_adds_what_is_known():
    """Without friction W = −(1 − e²) s²/2. In a uniform field E_d = H − (g τ)²/8 over a leg of length τ, so R is known exactly."""
    run = run_of(time=1.3)
    found = impact_energies(run)
    assert len(run.impacts) == 2
    np.testing.assert_allclose(found.normal, -0.5 * (1 - 0.7**2) * run.impacts.p_before[:, 1] ** 2, rtol=1e-13)
    np.testing.assert_allclose(found.friction, 0.0, atol=1e-13)
    step = run.impacts.step
    before, after = run.impacts.t - run.t[step], run.t[step + 1] - run.impacts.t
    np.testing.assert_allclose(found.residual, GRAVITY**2 / 8 * (before**2 - after**2), atol=1e-13)
    assert np.max(np.abs(found.residual)) > 1e-5  # a control: it is not zero


def test_friction_takes_its_part():
    """At impacts that slide through, |Δp_x| = μ λ, and friction takes μ λ (u⁺ + u⁻)/2."""
    run = run_of(friction=0.05)
    found, hits = impact_energies(run), run.impacts
    assert np.all(hits.p_after[:, 0] > 0)
    np.testing.assert_allclose(found.friction, -0.05 * hits.impulse * 0.5 * (hits.p_before + hits.p_after)[:, 0], rtol=1e-12)
    assert np.all(found.work < found.normal)


@pytest.mark.parametrize(("method", "order"), [(TRAPEZOIDAL, 2), (carom.VariationalCollision(), 4)], ids=["2", "4"])
def test_what_the_rule_adds_is_of_its_order(method, order):
    """In a potential that is not linear, with the first impact at the same fraction of its step."""
    hit = run_of(carom.VariationalCollision(carom.Galerkin(4)), cubic=2.0, dt=0.01).impacts.t[0]
    sizes = [hit / (n + 0.3) for n in (8, 16, 32)]
    errors = [abs(impact_energies(run_of(method, cubic=2.0, dt=dt, time=1.2 * hit)).residual[0]) for dt in sizes]
    assert measured_order(sizes, errors) == pytest.approx(order, abs=0.35)


def test_elastic_impacts_keep_the_discrete_energy():
    run = run_of(restitution=1.0, cubic=2.0)
    found = impact_energies(run)
    assert np.max(np.abs(found.after - found.before)) < 1e-12 * found.before[0]  # by the choice of the impulse
    reflected = impact_energies(run_of(carom.VariationalCollision(carom.Trapezoidal(), elastic="reflection"), 1.0, cubic=2.0))
    assert np.max(np.abs(reflected.after - reflected.before)) > 1e-5  # a control
    np.testing.assert_allclose(reflected.work, 0.0, atol=1e-12)  # it keeps the kinetic energy instead


def test_refusals():
    with pytest.raises(carom.InputError, match="VariationalCollision"):
        impact_energies(run_of(carom.TimeDG(1), time=0.1))
