"""One function, many lanes: `over_lanes` computes what `vmap` computes, and leaves out what constants decide."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters.partial_eval import dce_jaxpr

import carom
from carom.xla.kernel import once, sealed
from carom.xla.over_lanes import over_lanes
from carom.xla.trees import choose

LANES = 37


def linear_algebra(x, y):
    matrix = jnp.diag(x) + jnp.outer(y, y)
    return jnp.linalg.norm(matrix @ x), jnp.einsum("ij,j->i", matrix, y), jnp.sum(matrix, axis=0), x[::-1], jnp.max(y)


def counted(x, y):
    """A loop with a counter that all lanes share, one that they do not, and something that is only stacked."""

    def step(carry, row):
        i, own, total = carry
        return (i + 1, jnp.where(row > 0, own + i, own), total * 0.5 + row * i), total + own

    return jax.lax.scan(step, (jnp.zeros((), jnp.int32), jnp.zeros(()), x[0]), y)


def as_long_as_needed(x, y):
    """Each lane has its own number of rounds."""
    return jax.lax.while_loop(lambda c: (c[0] < 10) & (c[1] > 0.05), lambda c: (c[0] + 1, c[1] * jnp.abs(x[1]) / 4), (0, y[0] ** 2))


def branches(x, y):
    by_sign = jax.lax.cond(x[0] > 0, lambda: x + y, lambda: x * y)
    by_index = jax.lax.switch(jnp.argmin(y), [lambda: x[0], lambda: y[1], lambda: jnp.sin(x[2])])
    fixed = jax.lax.cond(jnp.asarray(True), lambda: x, lambda: y)
    return by_sign, by_index, fixed


def picking(x, y):
    at = jnp.argmax(jnp.abs(x))
    return x[at], y.at[at].set(7.0), jax.lax.dynamic_slice(x, (at,), (2,)), jnp.take(y, jnp.array([2, 0])), jnp.sort(x)


def calls(x, y):
    """Sealed calls: arguments that do not matter, results that are arguments, results that are constants."""
    call = sealed(lambda a, b, c: (a * 0.0 + 2.0, b, jnp.sin(c) * a, jnp.zeros(3)))
    first = call(x, y, 1.0)
    second = call(y, x, 1.0)
    return first, second, once(x + y)


def constants(x, y):
    zero, one = jnp.zeros(3), jnp.ones(3)
    return (
        x * zero + y,
        (x + zero) * one,
        zero / (1 + x**2),
        x - zero,
        zero - y,
        choose(one > zero, x, y),
        jnp.maximum(zero, one) * x,
    )


FUNCTIONS = [linear_algebra, counted, as_long_as_needed, branches, picking, calls, constants]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_lanes_are_vmap(function):
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 3, LANES))
    found = jax.jit(over_lanes(function))(x, y)
    wanted = jax.jit(jax.vmap(function, in_axes=-1, out_axes=-1))(x, y)
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)  # sums in another order


def test_arguments_that_all_lanes_share():
    x, y = np.random.default_rng(3).normal(size=(2, 3, LANES))
    found = over_lanes(lambda x, shared: x * shared + shared[0], [True, False])(x, y[:, 0])
    np.testing.assert_allclose(found, x * y[:, :1] + y[0, 0], rtol=1e-15)


def test_large_arrays_are_left_to_vmap():
    x = np.random.default_rng(4).normal(size=(200, 5))
    found = over_lanes(lambda x: jnp.cumsum(x) @ x)(x)
    np.testing.assert_allclose(found, [np.cumsum(lane) @ lane for lane in x.T], rtol=1e-12)


def _operations(jaxpr, shape) -> int:
    """Arithmetic on rows of lanes, in loops and calls too."""
    count = 0
    for eqn in jaxpr.eqns:
        count += eqn.primitive.name in ("mul", "add", "sub", "div") and eqn.outvars[0].aval.shape == shape
        for value in eqn.params.values():
            inner = getattr(value, "jaxpr", value)
            count += _operations(inner, shape) if hasattr(inner, "eqns") else 0
    return count


def _cost_of_a_rate(lagrangian) -> int:
    """The arithmetic from momenta to the rate of a gap, for a mass that differs from lane to lane."""
    system = carom.System(lagrangian, [carom.Contact(lambda q: q[1])])

    def rate(p, mass):
        mechanics = system.bind({"mass": mass}, 2)
        return mechanics.contacts.approach(jnp.zeros(2), mechanics.velocity(jnp.zeros(2), p, 0.0), 0.0)[1]

    jaxpr = jax.make_jaxpr(over_lanes(rate))(jnp.ones((2, LANES)), jnp.ones(LANES)).jaxpr
    return _operations(dce_jaxpr(jaxpr, [True])[0], (LANES,))


def test_zeros_of_masses_and_normals_cost_nothing():
    """Of the diagonal of a 2 × 2 matrix and its inverse a few products are left; control: masses that are coupled."""
    plain = _cost_of_a_rate(lambda q, v, params: 0.5 * params["mass"] * (v[0] ** 2 + v[1] ** 2))
    coupled = _cost_of_a_rate(lambda q, v, params: 0.5 * params["mass"] * (v[0] ** 2 + v[1] ** 2 + v[0] * v[1]))
    assert plain <= 6 and coupled >= 2 * plain


def test_a_reduction_of_nothing():
    """Contacts without tangents have sums over no entries."""

    def function(x):
        none = jnp.zeros((2, 0)) * x
        return jnp.sum(none, axis=1) + x, jnp.all(none > 0), jnp.prod(none)

    found = over_lanes(function, [True])(jnp.arange(5.0))
    wanted = jax.vmap(function, out_axes=-1)(jnp.arange(5.0))
    for a, b in zip(found, wanted, strict=True):
        assert np.array_equal(np.broadcast_to(a, b.shape), b)
