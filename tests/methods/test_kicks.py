"""Kicks and drifts: the flow of the trapezoidal rule where L(q, v) = K(v) − V(q), to rounding, and only there."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.methods.variational.lumped_flow import composed_limit

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


@pytest.mark.parametrize("order", [4, 6, 8])
def test_the_limit_of_a_composition_is_where_its_matrix_stops_being_bounded(order):
    """|tr A| of the product of all stages reaches 2 there; and it is computed once, since each call of `solve` asks for it."""
    rule = carom.Composition(carom.Trapezoidal(), order)

    def trace(x):
        product = np.eye(2)
        for y in rule.coefficients * x:
            kick = np.array([[1.0, 0.0], [-0.5 * y, 1.0]])
            product = kick @ np.array([[1.0, y], [0.0, 1.0]]) @ kick @ product
        return abs(np.trace(product))

    limit = rule.stability_limit
    assert trace(0.999 * limit) < 2 < trace(1.001 * limit)
    known = composed_limit.cache_info().hits
    assert rule.stability_limit == limit and composed_limit.cache_info().hits == known + 1
