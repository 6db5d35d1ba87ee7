"""Indices that are known before a run, inside loops and branches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from carom.xla.indices import out_of_range

AT = np.array([0, 5])  # of three
ONE = np.array(1)


def _while(body, rounds=3, start=0):
    return jax.lax.while_loop(lambda c: c[0] < rounds, body, (start, 0.0))[1]


def _until(x, body):
    """How many rounds depends on x."""
    return jax.lax.while_loop(lambda c: c[1] < x[0], body, (0, 0.0))[1]


OUTSIDE = {
    "a number in while_loop": lambda x: _while(lambda c: (c[0] + 1, c[1] + x[3])),
    "a counter of while_loop": lambda x: _while(lambda c: (c[0] + 1, c[1] + x[c[0] + 1])),
    "a counter that jumps": lambda x: _while(lambda c: (c[0] + 2, c[1] + x[c[0]]), rounds=5),
    "a counter that goes round": lambda x: _while(lambda c: (c[0] + 1, c[1] + x[c[0] % 4]), rounds=9),
    "a captured list in while_loop": lambda x: _while(lambda c: (c[0] + 1, c[1] + x[jnp.asarray(AT)].sum())),
    "a number in a loop of unknown length": lambda x: _until(x, lambda c: (c[0] + 1, c[1] + 1 + x[3])),
    "a captured list in a loop of unknown length": lambda x: _until(x, lambda c: (c[0], c[1] + 1 + x[jnp.asarray(AT)].sum())),
    "fori_loop": lambda x: jax.lax.fori_loop(0, 4, lambda i, s: s + x[i], 0.0),
    "scan": lambda x: jax.lax.scan(lambda s, i: (s + x[i], None), 0.0, jnp.arange(4))[0],
    "scan, carried": lambda x: jax.lax.scan(lambda c, _: ((c[0] + 1, c[1] + x[c[0]]), None), (0, 0.0), None, length=4)[0][1],
    "cond": lambda x: jax.lax.cond(x[0] > 0, lambda y: y[3], lambda y: y[0], x),
    "switch": lambda x: jax.lax.switch(jnp.int32(x[0]), [lambda y: y[0], lambda y: y[1], lambda y: y[jnp.asarray(AT)].sum()], x),
    "cond in fori_loop": lambda x: jax.lax.fori_loop(0, 4, lambda i, s: s + jax.lax.cond(x[0] > 0, lambda: x[i], lambda: 0.0), 0.0),
}
INSIDE = {
    "a counter of while_loop": lambda x: _while(lambda c: (c[0] + 1, c[1] + x[c[0]])),
    "a loop of no rounds": lambda x: _while(lambda c: (c[0] + 1, c[1] + x[c[0] + 9]), start=4),
    "a counter of unknown end": lambda x: _until(x, lambda c: (c[0] + 1, c[1] + 1 + x[c[0]])),
    "a counter that goes round": lambda x: _while(lambda c: (c[0] + 1, c[1] + x[c[0] % 3]), rounds=9),
    "fori_loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, s: s + x[i], 0.0),
    "a branch that is not taken": lambda x: jax.lax.cond(jnp.asarray(ONE) == 2, lambda y: y[3], lambda y: y[0], x),
    "cond": lambda x: jax.lax.cond(x[0] > 0, lambda y: y[2], lambda y: y[0], x),
}


def _found(function):
    return out_of_range(jax.make_jaxpr(function)(jax.ShapeDtypeStruct((3,), float)), ["x"])


@pytest.mark.parametrize("function", OUTSIDE.values(), ids=OUTSIDE)
def test_an_index_beyond_its_array_is_found_in_loops_and_branches(function):
    found = _found(function)
    assert found is not None and found.array == "x" and found.size == 3 and found.index >= 3


@pytest.mark.parametrize("function", INSIDE.values(), ids=INSIDE)
def test_control_what_stays_inside_is_not(function):
    assert _found(function) is None
