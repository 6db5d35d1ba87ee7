"""Which way the lanes of an ensemble go, and that each computes what `solve` does, whichever it is."""

import sys

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.methods.loop import Grid, advance
from carom.methods.method import State
from carom.xla.kernel import kernel_state

RULE = carom.VariationalCollision(carom.Trapezoidal())


def falling(q, v, params):
    return 0.5 * v @ v - params["gravity"] * q[1]


def walls(q):
    return jnp.stack([q[0], 1 - q[0], q[1], 1 - q[1]])


def program_of(method) -> str:
    """Four steps of a particle in a box, as they are handed to XLA."""
    system = carom.System(falling, [carom.Contact(walls)])

    def run(q, p):
        whole = jnp.asarray(4, jnp.int32)
        grid = Grid(jnp.asarray(0.01), jnp.asarray(0, jnp.int32), whole, whole, 4, 80)
        return advance(method, system, {"gravity": 9.81}, State(jnp.asarray(0.0), q, p), grid, kernel=True)

    return jax.jit(run).lower(jnp.array([0.3, 0.5]), jnp.array([1.0, 0.0])).as_text()


@pytest.mark.parametrize("method", [carom.Hybrid(), carom.EventDriven(), carom.EventDriven(diffrax.Tsit5(scan_kind="lax"))])
def test_methods_that_are_one_kernel(method):
    """Two are made of others and of diffrax: nothing in them may be what a kernel cannot hold."""
    if not kernel_state().on:
        pytest.skip("programs do not run as one kernel here")
    assert program_of(method).count("xla_cpu_small_call") == 1


def test_control_a_method_that_is_none():
    assert "xla_cpu_small_call" not in program_of(carom.Adaptive(RULE))


@pytest.fixture
def plans(monkeypatch):
    """The plans of the ensembles that are run."""
    module, made = sys.modules["carom.many.ensemble"], []
    begin = module._Plan.__init__

    def init(self, *args):
        begin(self, *args)
        made.append(self)

    monkeypatch.setattr(module._Plan, "__init__", init)
    return made


def test_a_box_has_its_impacts_one_by_one(plans):
    """Four contacts; a single one is taken side by side with those of other lanes. Few impacts, each lane as `solve` has it."""
    rng = np.random.default_rng(0)
    q0s, v0s = rng.uniform(0.3, 0.7, (40, 2)), rng.normal(size=(40, 2))
    options = {"dt": 0.01, "num_steps": 150, "params": {"gravity": 1.0}, "progress": False}
    run = carom.ensemble(carom.System(falling, [carom.Contact(walls)]), RULE, q0s, v0s, **options)
    floor = carom.ensemble(carom.System(falling, [carom.Contact(lambda q: q[1])]), RULE, q0s, v0s, **options)
    module = sys.modules["carom.many.ensemble"]
    assert [plan.way for plan in plans] == [module.SINGLY, module.TOGETHER] and all(plan.compact for plan in plans)
    assert run.ok.all() and floor.ok.all() and np.sum(run.num_impacts) > 40
    for lane in range(5):
        alone = run.solve(lane)
        assert len(alone.impacts) == run.num_impacts[lane]
        # 150 steps and some five impacts of numbers of size 1, each good to 1e-15; an impact at most doubles an error
        np.testing.assert_allclose(alone.q[-1], run.q_end[lane], rtol=0, atol=1e-12)


def test_lanes_with_constraints_go_one_by_one(plans):
    """A rolling disk: Newton's method in every step. Its lanes are `solve`'s, bit for bit but for what a compiler fuses."""
    model = carom.models.rolling_disk()
    v0s = np.array(model.v0) * np.array([[1.0], [1.1], [0.9]])
    run = carom.ensemble(model.system, RULE, model.q0, v0s, dt=model.dt, num_steps=20, params=model.params, progress=False)
    assert run.ok.all() and not plans[0].compact
    for lane in range(3):
        # 20 steps without an impact; a constraint is met to 1e-12
        np.testing.assert_allclose(run.solve(lane).q[-1], run.q_end[lane], rtol=0, atol=1e-11)
    assert np.max(np.abs(run.q_end[0] - run.q_end[1])) > 1e-3  # control: the lanes differ
