"""Indices that are computed from the motion: where they leave their arrays JAX reads another entry, and the run says so."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TRAPEZOIDAL

import carom

FIVE = {"table": np.arange(5.0)}


def _told(force, params=None):
    """The caveats of a point that moves along x at speed 1 from 0 to 3, pushed along y."""
    system = carom.System(lambda v: 0.5 * v @ v, force=force)
    return carom.solve(system, TRAPEZOIDAL, [0.0, 1.0], [1.0, 0.0], dt=0.01, num_steps=300, params=params).caveats


def _along_y(value):
    return jnp.array([0.0, 1.0]) * value


OUTSIDE = {
    "one": lambda q, params: _along_y(params["table"][jnp.int32(2 * q[0])]),
    "several": lambda q, params: _along_y(params["table"][(q[:1] * 2).astype(int)].sum()),
    "inside of a function": lambda q, params: _along_y(jax.jit(lambda x, i: x[i])(params["table"], jnp.int32(2 * q[0]))),
    "in fori_loop": lambda q, params: _along_y(
        jax.lax.fori_loop(0, 2, lambda i, s: s + params["table"][jnp.int32(2 * q[0]) + i - 1], 0.0)
    ),
    "in scan": lambda q, params: _along_y(
        jax.lax.scan(lambda s, x: (s + params["table"][jnp.int32(2 * q[0] * x)], x), 0.0, jnp.array([0.5, 1.0, 0.0]))[0]
    ),
    "in while_loop": lambda q, params: _along_y(
        jax.lax.while_loop(lambda c: c[0] < 2 * q[0], lambda c: (c[0] + 1, c[1] + params["table"][jnp.int32(c[0])]), (0.0, 0.0))[1]
    ),
    "in a branch": lambda q, params: _along_y(
        jax.lax.cond(q[0] > 1, lambda x: params["table"][jnp.int32(2 * x)], lambda x: 0.0, q[0])
    ),
    "in a branch in a loop": lambda q, params: _along_y(
        jax.lax.fori_loop(
            0, 3, lambda i, s: s + jax.lax.cond(i > 1, lambda: params["table"][jnp.int32(2 * q[0])], lambda: 0.0), 0.0
        )
    ),
    "of time": lambda t, params: _along_y(params["table"][jnp.int32(2 * t)]),
}


@pytest.mark.parametrize("force", OUTSIDE.values(), ids=OUTSIDE)
def test_an_index_that_leaves_its_array_on_the_way_is_told(force):
    (told,) = _told(force, FIVE)
    # 2x passes 5 at t = 2.5, the next point of the grid being 2.51 at the latest
    assert "the force read params['table'][5], of 5, at t = 2.5" in told and "nearest one" in told and "jnp.clip" in told


def test_below_zero_it_is_counted_from_the_end_as_python_does():
    table = jnp.arange(5.0)
    (told,) = _told(lambda q: _along_y(table[jnp.int32(-2 * q[0] - 0.5)]))
    assert "the force read entry -6 of an array, of 5, at t = 2.76" in told  # -1 to -5 are the entries from the last to the first


INSIDE = {
    "it stays inside": lambda q, params: _along_y(params["table"][jnp.int32(q[0])]),
    "clipped": lambda q, params: _along_y(params["table"][jnp.clip(jnp.int32(2 * q[0]), 0, 4)]),
    "clipped by the function that reads": lambda q, params: _along_y(jnp.take(params["table"], jnp.int32(2 * q[0]), mode="clip")),
    "interpolated": lambda q, params: _along_y(jnp.interp(5 * q[0], jnp.arange(5.0), params["table"])),
    "the smallest of some": lambda q, params: _along_y(params["table"][jnp.argmin(jnp.abs(params["table"] - 9 * q[0]))]),
    "known": lambda params: _along_y(params["table"][4]),
    "in a branch that keeps it inside": lambda q, params: _along_y(
        jax.lax.cond(2 * q[0] < 5, lambda x: params["table"][jnp.int32(2 * x)], lambda x: 0.0, q[0])
    ),
    "in a loop that ends before": lambda q, params: _along_y(
        jax.lax.while_loop(
            lambda c: (c[0] < 2 * q[0]) & (c[0] < 5), lambda c: (c[0] + 1, c[1] + params["table"][jnp.int32(c[0])]), (0.0, 0.0)
        )[1]
    ),
    "in a loop without rounds": lambda q, params: _along_y(
        jax.lax.fori_loop(0, 0, lambda i, s: s + params["table"][jnp.int32(9 * q[0])], 0.0)
    ),
}


@pytest.mark.parametrize("force", INSIDE.values(), ids=INSIDE)
def test_control_what_stays_inside_or_is_clipped_is_not_told(force):
    assert _told(force, FIVE) == ()


def test_gaps_are_looked_at_too():
    heights = jnp.array([0.0, 0.1, 0.2])
    stairs = carom.Contact(lambda q: q[1] - heights[jnp.int32(q[0])], name="stairs")
    run = carom.solve(carom.System(lambda v: 0.5 * v @ v, [stairs]), TRAPEZOIDAL, [0.5, 1.0], [1.0, 0.0], dt=0.1, num_steps=30)
    assert any("the gap read entry 3 of an array, of 3" in told for told in run.caveats)
    short = carom.solve(run.system, TRAPEZOIDAL, [0.5, 1.0], [1.0, 0.0], dt=0.1, num_steps=10)
    assert short.caveats == ()
