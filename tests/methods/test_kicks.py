"""Kicks and drifts: the flow of the trapezoidal rule where L(q, v) = K(v) − V(q), to rounding, and only there."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom

Q, P, H = jnp.asarray([0.4, -0.3]), jnp.asarray([0.7, 0.2]), 0.1


def split(q, v):
    """A full mass matrix, a term that is linear in v, and a potential that couples."""
    kinetic = 0.5 * (2.0 * v[0] ** 2 + 1.2 * v[0] * v[1] + v[1] ** 2) + 0.3 * v[0]
    return kinetic - jnp.cos(q[0] - q[1]) - 0.25 * q[1] ** 4


def magnetic(q, v):
    return split(q, v) + q[0] * v[1]


def mass_that_changes(q, v):
    return split(q, v) + 0.1 * jnp.cos(q[0]) * v[1] ** 2


def driven(q, v, t):
    return split(q, v) + q[0] * jnp.sin(t)


RULES = [carom.Trapezoidal(), carom.Composition(carom.Trapezoidal(), 4), carom.Composition(carom.Trapezoidal(), 6)]


@pytest.mark.parametrize("without_energy", [False, True])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.order))
def test_the_same_flow(rule, without_energy):
    @eqx.filter_jit
    def both(system, q, p):
        fast, general = system.bind({}, 2), system.bind({}, 2)
        assert fast.splitting() is not None
        general.flows["splitting"] = None
        return [rule.flow(m, without_energy)(q, p, jnp.zeros(()), jnp.asarray(H)) for m in (fast, general)]

    a, b = both(carom.System(split), Q, P)
    for name in ("q", "p", *(() if without_energy else ("energy_start", "energy_end"))):
        assert np.allclose(getattr(a, name), getattr(b, name), rtol=0, atol=4e-15), name
    assert np.max(np.abs(a.q - Q)) > 0.01  # it has moved
    assert bool(a.converged)


@pytest.mark.parametrize("lagrangian", [magnetic, mass_that_changes, driven])
def test_nothing_else_is_split(lagrangian):
    found = []
    jax.eval_shape(lambda q: found.append(carom.System(lagrangian).bind({}, 2).splitting()), Q)
    assert found == [None]


def test_forces_are_not_left_out():
    found = []
    system = carom.System(split, force=lambda v: -0.1 * v)
    jax.eval_shape(lambda q: found.append(system.bind({}, 2).splitting()), Q)
    assert found == [None]
