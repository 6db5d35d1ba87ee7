"""Every declared order, measured: in free flight and through an impact."""

import numpy as np
import pytest

import carom
from carom.diagnostics import measured_order

RULES = [
    carom.Trapezoidal(),
    carom.Midpoint(),
    carom.Gamma(0.3),
    carom.Left(),
    carom.Right(),
    carom.Galerkin(2),
    carom.Galerkin(3),
    carom.Composition(carom.Trapezoidal(), 4),
    carom.Composition(carom.Trapezoidal(), 6),
    carom.Composition(carom.Trapezoidal(), 8),
]
LONG = ("Gamma", "Right", "Galerkin-6")  # like others that are measured every time
CASES = [
    pytest.param(rule, id=name, marks=[pytest.mark.stress] if name.startswith(LONG) else [])
    for rule, name in ((r, f"{type(r).__name__}-{r.order}") for r in RULES)
]
REFERENCE = carom.VariationalCollision(carom.Galerkin(4))


def mass_of_position(q, v):
    """A bead on a rotating, bent wire: mass depends on position, and a term linear in the velocity."""
    return 0.5 * ((1 + q[0] ** 2) * v[0] ** 2 + v[1] ** 2) + 0.3 * q[1] * v[0] - 0.5 * q[0] ** 2 - np.float64(0.25) * q[1] ** 4


def final(system, rule, q0, v0, dt, num_steps, params=None):
    run = carom.solve(system, carom.VariationalCollision(rule), q0, v0, dt=dt, num_steps=num_steps, params=params)
    return np.concatenate([run.q[-1], run.p[-1]])


@pytest.mark.parametrize("rule", CASES)
def test_order_in_free_flight(rule):
    system = carom.System(mass_of_position)
    q0, v0 = [0.5, 0.8], [0.4, -0.2]
    exact = final(system, REFERENCE.rule, q0, v0, 0.01, 100)
    steps = {1: (64, 128), 2: (32, 64), 4: (16, 32), 6: (8, 16), 8: (2, 4)}[rule.order]
    errors = [np.max(np.abs(final(system, rule, q0, v0, 1.0 / n, n) - exact)) for n in steps]
    assert errors[1] > 1e-13, "too small to measure"
    order = measured_order([1.0 / n for n in steps], errors)
    assert rule.order - 0.25 < order < rule.order + 0.9  # two sizes, before the asymptotic range


def impact_errors(rule, steps, alpha=0.3):
    """Errors after the first impact in the cubic potential, with the impact at the fraction alpha of its step each time.

    For order 2 the error of an impact is proportional to 1 − 2α, so α has to stay put for the order to show.
    """
    model = carom.models.particle(cubic=0.1)
    method = carom.VariationalCollision(rule)
    t_hit = model.solve(REFERENCE, dt=0.005, num_steps=200).impacts.t[0]
    errors, sizes = [], []
    for m in steps:
        dt = t_hit / (m + alpha)
        run = model.solve(method, dt=dt, num_steps=m + m // 2)
        exact = model.solve(REFERENCE, dt=float(run.t[-1]) / 512, num_steps=512)
        assert len(run.impacts) == len(exact.impacts) == 1
        errors.append(np.max(np.abs(np.concatenate([run.q[-1] - exact.q[-1], run.p[-1] - exact.p[-1]]))))
        sizes.append(dt)
    return sizes, errors


@pytest.mark.parametrize("rule", CASES)
def test_order_survives_the_impact(rule):
    steps = {1: (40, 80, 160), 2: (16, 32, 64), 4: (8, 16, 32), 6: (4, 8, 16), 8: (2, 4, 6)}[rule.order]
    order = measured_order(*impact_errors(rule, steps))
    assert rule.order - 0.35 < order < rule.order + 1.0  # compositions of order 8 reach rounding before the slope settles


def test_order_measurement_fails_for_a_wrong_rule():
    """Control: a quadrature that is not exact for constants has no order at all."""
    from carom.methods.variational.rules import _straight, _TableauRule

    class Wrong(_TableauRule):
        order = 2
        symmetric = True

        def tableau(self):
            return _straight((0.0, 0.5), (1.0, 0.45))

    assert measured_order(*impact_errors(Wrong(), (16, 32, 64))) < 0.5
