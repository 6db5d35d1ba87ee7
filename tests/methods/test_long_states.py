"""Of a long state no copy is carried along, and no energy that nobody wants is computed: the same run, to rounding."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.kept import keep
from carom.kept.counted_program import Program
from carom.methods import loop
from carom.methods.variational import kicks
from carom.running import chunked_run

RULES = {"trapezoidal": carom.Trapezoidal(), "order 4": carom.Composition(carom.Trapezoidal(), 4)}


def run(monkeypatch, model, method, many, steps, **options):
    """With programs of its own, which are kept nowhere: how many are many, and what is patched, does not tell them apart."""
    monkeypatch.setattr(keep, "store", lambda: None)
    for module in (loop, chunked_run):
        monkeypatch.setattr(module, "LONG_STATE", many)
    monkeypatch.setattr(kicks, "MANY", many)
    monkeypatch.setattr(chunked_run, "_chunk", Program(chunked_run._advance))
    options = {"dt": model.dt / 2} | options
    return carom.solve(model.system, method, model.q0, model.v0, num_steps=steps, params=model.params, **options)


def apart(one, other):
    """The largest distance of the two runs, states and impacts; infinite where one has more of them."""
    if len(one.q) != len(other.q) or len(one.impacts) != len(other.impacts):
        return np.inf
    pairs = (one.q, other.q), (one.p, other.p), (one.impacts.t, other.impacts.t), (one.impacts.p_after, other.impacts.p_after)
    return max(float(np.max(np.abs(a - b), initial=0.0)) for a, b in pairs)


@pytest.mark.parametrize("rule", RULES)
def test_bars_that_collide(monkeypatch, rule):
    model = carom.models.bars(elements=(6, 5), integrator=1, gaps=(0.1,), speeds=(0.5, -0.5))
    method = carom.VariationalCollision(RULES[rule])
    short, long = (run(monkeypatch, model, method, many, 300) for many in (10**6, 1))
    assert len(short.impacts) > 3 and len(short.impacts) == len(long.impacts)
    scale = np.max(np.abs(short.q))
    # A handful of nodes is one kernel, and what it holds decides how it is rounded: 300 steps, which is before chaos.
    assert np.max(np.abs(short.q - long.q)) < 300 * 100 * np.finfo(float).eps * scale


# A ball that bounces on 2 cm: 400 steps and 16 impacts, over which a rounding of 1e-16 grows in proportion to time.
LOW, ROUNDING = [0.0, 0.02], 1e-9


def low_ball():
    return replace(carom.models.particle(), q0=LOW), carom.VariationalCollision(carom.Trapezoidal())


def test_a_ball_that_bounces_in_neighbouring_steps(monkeypatch):
    """In the first step, in neighbouring ones, and up to a stop: the state before is that of the step before, or of the start."""
    for options in ({}, {"stop": lambda q: q[1] - 0.015}):
        short, long = (run(monkeypatch, *low_ball(), many, 400, **options) for many in (10**6, 1))
        assert apart(short, long) < ROUNDING and (options or len(short.impacts) > 10)


class TestOfALongRunOnlyWhatIsAskedForIsKept:
    """The rows of a chunk hold every stride-th state; the others go to the two behind them, in turns. Chunks of 8 states end amid
    a stride. With every state kept it is another program: the same numbers to rounding."""

    @pytest.fixture(autouse=True)
    def small_chunks(self, monkeypatch):
        monkeypatch.setattr(chunked_run, "_chunk_length", lambda total, n: 8)
        monkeypatch.setattr(chunked_run, "LONGEST_WAIT", 2 * 50)  # of a ball with two coordinates: 50 steps

    @pytest.fixture
    def whole(self, monkeypatch):
        return run(monkeypatch, *low_ball(), 1, 400)

    @pytest.mark.parametrize("stride", [2, 5, 7, 64, 399])
    def test_every_so_many_th(self, monkeypatch, whole, stride):
        thin = run(monkeypatch, *low_ball(), 1, 400, stride=stride)
        assert len(thin.q) == 1 + 400 // stride and len(thin.impacts) == len(whole.impacts) > 10
        for name in ("t", "q", "p"):
            assert same(getattr(thin, name), getattr(whole, name)[::stride])
        assert same(thin.impacts.p_after, whole.impacts.p_after)

    def test_up_to_a_stop_and_on(self, monkeypatch, whole):
        stop = {"stop": lambda q: q[1] - 0.015}
        thin, all_ = (run(monkeypatch, *low_ball(), 1, 400, stride=stride, **stop) for stride in (3, 1))
        assert thin.status.name == all_.status.name == "stopped"
        assert same(thin.t[-1:], all_.t[-1:]) and same(thin.q[-1], all_.q[-1])
        assert same(thin.q[:-1], all_.q[:-1][::3])

    def test_at_instants_of_ones_own(self, monkeypatch):
        lengths = np.linspace(0.004, 0.006, 121)
        thin, all_ = (run(monkeypatch, *low_ball(), 1, 121, stride=stride, dt=lengths) for stride in (4, 1))
        assert same(thin.t, all_.t[::4]) and same(thin.q, all_.q[::4])

    def test_control_rows_that_are_counted_from_another_step(self, monkeypatch, whole):
        monkeypatch.setattr(loop.Grid, "row_of", lambda self, step: shifted(self, step))
        wrong = run(monkeypatch, *low_ball(), 1, 400, stride=7, throw=False)  # 50 is no multiple
        assert not same(wrong.q, whole.q[::7], 1e3 * ROUNDING)


def same(one, other, bound=ROUNDING):
    return one.shape == other.shape and np.max(np.abs(one - other)) < bound


def shifted(grid, step):
    after = step + 1
    return jnp.where(after % grid.every == 0, after // grid.every - 1, grid.length + 1 + step % 2)


def test_control_the_step_after_is_another(monkeypatch):
    right = run(monkeypatch, *low_ball(), 1, 400)
    take = jax.lax.dynamic_index_in_dim
    with monkeypatch.context() as patch:
        patch.setattr(jax.lax, "dynamic_index_in_dim", lambda x, i, **more: take(x, i + 1, **more))
        wrong = run(patch, *low_ball(), 1, 400, throw=False)
    assert apart(right, wrong) > 1e3 * ROUNDING
