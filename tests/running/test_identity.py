"""By what a checkpoint knows its run again: every function that a system or a method holds, whatever names it asks for."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.models import ALL
from carom.running.checkpoint import digest_of

START = ([0.0, 0.5], [1.0, 0.0])


def _ball(**of_the_contact) -> carom.System:
    floor = carom.Contact(lambda q: q[1], **of_the_contact)
    return carom.System(lambda q, v: 0.5 * v @ v - 9.81 * q[1], contacts=[floor])


def _by_speed(x):
    return _ball(restitution=lambda speed: 0.5 + x * jnp.exp(-speed))


def _rubbed(x):
    return _ball(restitution=0.5, friction=lambda speed: x / (1 + speed), slip=lambda q, v: v[:1])


def _pushed_off(x):
    return _ball(impulse=lambda speed, mass: (1 + x) * speed * mass)


def _chained(x, load=0.0):
    element = lambda left, right, index: 0.5 * (1 + x * index) * jnp.sum((right - left - 1) ** 2)  # noqa: E731
    chain = carom.Chain(carom.Euclidean(1), 3, element, None if load == 0 else lambda q, index: load * index * q[0])
    return carom.LumpedSystem(
        lambda: jnp.ones(3), lambda q, params: chain.potential(q, params), space=carom.Euclidean(3), chain=chain
    )


def _digest(system, q0, v0, method=None) -> str:
    problem = _problem(system, q0, v0)
    return digest_of(system if method is None else method, problem)


def _problem(system, q0, v0, params=None):
    """What is asked of a problem here; the checks of a true one compile for long."""
    return SimpleNamespace(system=system, q0=jnp.asarray(q0, float), v0=jnp.asarray(v0, float), t0=0.0, params=params)


@pytest.mark.parametrize("system", [_by_speed, _rubbed, _pushed_off])
def test_laws_of_contact_are_known_by_what_they_compute(system):
    assert _digest(system(0.25), *START) == _digest(system(0.25), *START)
    assert _digest(system(0.25), *START) != _digest(system(0.26), *START)


def test_a_chain_is_known_by_its_elements_and_loads():
    start = (np.arange(3.0), np.zeros(3))
    assert _digest(_chained(0.25, 1.0), *start) == _digest(_chained(0.25, 1.0), *start)
    assert len({_digest(s, *start) for s in (_chained(0.25), _chained(0.26), _chained(0.25, 1.0), _chained(0.25, 2.0))}) == 4


def _own_rule(g):
    def action(q0, q1, h):
        return h * (0.5 * jnp.sum(((q1 - q0) / h) ** 2) - g * 0.5 * (q0[1] + q1[1]))

    return carom.VariationalCollision(carom.Rule.from_discrete_lagrangian(action))


def test_a_rule_of_ones_own_is_known_with_a_problem_and_without():
    """A sweep names its method before it has a point."""
    for told in (lambda rule: _digest(_ball(), *START, rule), digest_of):
        assert told(_own_rule(9.81)) == told(_own_rule(9.81)) != told(_own_rule(1.62))


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_model_has_a_digest(name):
    model = ALL[name]()
    problem = _problem(model.system, model.q0, model.v0, model.params)
    assert digest_of(model.system, problem) == digest_of(model.system, problem)


def test_bars_are_stopped_and_go_on(tmp_path):
    """Once through it all: interfaces, elements and forces in one file."""
    bars = carom.models.bars(elements=(4, 4))
    options = {"num_steps": 12, "checkpoint": tmp_path / "bars.zarr", "every": 4, "progress": False}
    first = bars.solve(**options)
    np.testing.assert_array_equal(bars.solve(**options).q, first.q)
    np.testing.assert_array_equal(bars.solve(num_steps=12, progress=False).q, first.q)
