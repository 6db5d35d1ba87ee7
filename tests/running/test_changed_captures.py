"""Functions that change what they capture while they are traced: a run would see the changes of that moment alone."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TRAPEZOIDAL

import carom

BEGIN = {"q0": [0.0, 1.0], "v0": [1.0, 0.0], "dt": 0.1, "num_steps": 10}
CALLS = 0


def _fall(v, q, gravity=9.81):
    return 0.5 * v @ v - gravity * q[1]


def _by_list():
    count = [0]

    def lagrangian(q, v):
        count[0] += 1
        return _fall(v, q)

    return lagrangian


def _by_dict():
    count = {"n": 0}

    def lagrangian(q, v):
        count["n"] += 1
        return _fall(v, q, 9.81 + count["n"])  # 15 calls gave 15 more, silently

    return lagrangian


class _Counter:
    n = 0

    def lagrangian(self, q, v):
        self.n += 1
        return _fall(v, q, 9.81 + self.n)


def _by_cell():
    n = 0

    def lagrangian(q, v):
        nonlocal n
        n += 1
        return _fall(v, q)

    return lagrangian


def _by_global(q, v):
    global CALLS
    CALLS += 1
    return _fall(v, q)


class _Keeper:
    last = None

    def lagrangian(self, q, v):
        self.last = q
        return _fall(v, q)


CHANGING = {
    "list": _by_list(), "dict": _by_dict(), "attribute": _Counter().lagrangian, "cell": _by_cell(), "global": _by_global,
    "the last q": _Keeper().lagrangian,
}  # fmt: skip


@pytest.mark.parametrize("lagrangian", CHANGING.values(), ids=CHANGING)
def test_a_function_that_changes_what_it_captures_is_refused(lagrangian):
    with pytest.raises(carom.InputError, match="the lagrangian changes a value that it captures, each time it is asked"):
        carom.solve(carom.System(lagrangian), TRAPEZOIDAL, **BEGIN)


def test_gaps_too():
    count = [0]

    def gap(q):
        count[0] += 1
        return q[1]

    with pytest.raises(carom.InputError, match="the gap changes a value"):
        carom.solve(carom.System(lambda v: 0.5 * v @ v, [carom.Contact(gap)]), TRAPEZOIDAL, **BEGIN)


def test_a_placeholder_that_is_kept_for_the_next_call_is_told_as_that():
    kept = {}

    def lagrangian(q, v):
        if "weights" not in kept:
            kept["weights"] = jnp.ones(2)
        return _fall(v, q) + kept["weights"] @ q

    with pytest.raises(carom.InputError, match="keeps a value of one call for the next one"):
        carom.solve(carom.System(lagrangian), TRAPEZOIDAL, **BEGIN)


class _Heavy:
    """Its masses are computed once, when they are asked for."""

    mass = 2.0

    @functools.cached_property
    def masses(self):
        return np.full(2, self.mass)

    def lagrangian(self, q, v):
        return 0.5 * self.masses @ v**2 - 9.81 * q[1]


def test_control_a_value_that_is_computed_once_and_kept_is_taken():
    run = carom.solve(carom.System(_Heavy().lagrangian), TRAPEZOIDAL, **BEGIN)
    assert run.q[-1, 1] == pytest.approx(1 - 0.25 * 9.81)  # a fall of one second with half the acceleration
