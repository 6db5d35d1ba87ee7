"""Tiles of lanes as one kernel: the same lanes as by compaction, and programs that Triton takes (tried without a GPU)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.many import ensemble as many
from carom.methods.variational.lanes_in_tiles import advance_in_tiles
from carom.xla import tiles
from carom.xla.tiles import in_tiles

METHOD = carom.VariationalCollision()


def _handed_over(monkeypatch, **options):
    """An ensemble, and what it hands over for a block of lanes."""
    seen = []
    monkeypatch.setattr(many, "_together", lambda *args, old=many._together: seen.append(args) or old(*args))
    out = carom.ensemble(method=METHOD, progress=False, **options)
    method, system, assembly, inputs, states, _, _ = seen[0]
    inputs, states = jax.tree.map(jnp.asarray, (inputs, states))
    return out, (method, system, assembly), (inputs, states, jnp.asarray(options["num_steps"], jnp.int32))


def _in_tiles(what, args, **how):
    return jax.jit(lambda inputs, states, until: advance_in_tiles(*what, inputs, states, until, 8, **how))(*args)


def test_a_tile_computes_what_compaction_computes(monkeypatch):
    """Other speeds, gravity and steps in each lane, so that lanes wait for one another; no stride fits into their last steps."""
    rng, count, steps = np.random.default_rng(1), 24, 109
    model = carom.models.particle(cubic=0.3)
    q0s = np.stack([rng.normal(size=count), rng.uniform(0.2, 1.5, count)], axis=1)
    v0s = rng.normal(size=(count, 2))
    params, each = {"mass": 1.0, "cubic": 0.3}, {"gravity": rng.uniform(5.0, 15.0, count)}
    options = {"system": model.system, "q0s": q0s, "v0s": v0s, "dt": rng.uniform(0.008, 0.012, count), "num_steps": steps}
    out, what, args = _handed_over(monkeypatch, params=params, each=each, **options)
    got = _in_tiles(what, args, tile=8, interpret=True)
    assert np.array_equal(got.step[:count], out.steps) and np.array_equal(got.impacts[:count], out.num_impacts)
    assert len(set(out.num_impacts.tolist())) > 1 and np.all(out.ok)  # otherwise nothing was tried
    assert np.max(np.abs(got.q.T[:count] - out.q[:, -1])) < 1e-12 and np.max(np.abs(got.p.T[:count] - out.p[:, -1])) < 1e-12


def _falling(q, v):
    return 0.5 * v @ v - 9.81 * q[1]


def _valley(q):
    return jnp.stack([q[1] - q[0], q[1] + q[0]])


@pytest.mark.stress
def test_hard_cases_are_left_to_the_step_of_solve(monkeypatch):
    """In the corner of a valley both walls are met within a step, which no bounce takes."""
    system = carom.System(_falling, [carom.Contact(_valley)], space=carom.Euclidean(2))
    x = np.array([0.0, 1e-4, -2e-4, 3e-3, -1e-3, 0.05, 0.1, -0.08])
    options = {
        "system": system,
        "q0s": np.stack([x, np.full(8, 0.3)], axis=1),
        "v0s": np.zeros((8, 2)),
        "dt": 0.02,
        "num_steps": 20,
    }
    out, what, args = _handed_over(monkeypatch, **options)
    got = _in_tiles(what, args, tile=8, interpret=True)
    assert np.array_equal(got.impacts[:8], out.num_impacts) and np.array_equal(got.step[:8], out.steps)
    assert np.all(out.ok) and out.num_impacts.max() > out.num_impacts.min()
    assert np.max(np.abs(got.q.T[:8] - out.q[:, -1])) < 1e-9
    done = []
    monkeypatch.setattr(
        "carom.methods.variational.lanes_in_tiles.careful", lambda lane, one, until: done.append(1) or (one, one.step < 0)
    )
    jax.eval_shape(lambda *args: advance_in_tiles(*what, *args, 8, tile=8, interpret=True), *args)
    assert done  # control: they go through that function


@pytest.mark.parametrize("rule", [carom.Trapezoidal(), carom.Composition(carom.Trapezoidal(), 4)], ids=["order 2", "order 4"])
@pytest.mark.parametrize("name", ["pendulum", "star"])
def test_every_word_of_the_program_is_one_of_tritons(name, rule, monkeypatch):
    """What a kernel may consist of, looked at without a GPU: rows and numbers, and operations that Triton has."""
    model = getattr(carom.models, name)()
    starts = np.tile(np.asarray(model.q0, float), (32, 1)), np.tile(np.asarray(model.v0, float), (32, 1))
    options = {"system": model.system, "q0s": starts[0], "v0s": starts[1], "dt": model.dt, "num_steps": 2, "params": model.params}
    seen = []
    monkeypatch.setattr(many, "_together", lambda *args: seen.append(args) or (_ for _ in ()).throw(StopIteration))
    with pytest.raises((StopIteration, RuntimeError)):
        carom.ensemble(method=carom.VariationalCollision(rule), progress=False, **options)
    method, system, assembly, inputs, states, _, _ = seen[0]
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")  # sines are the GPU's own there
    monkeypatch.setattr(tiles, "_triton", lambda tile: {})
    run = lambda *args: advance_in_tiles(method, system, assembly, *args, 32)  # noqa: E731
    args = (*jax.tree.map(jnp.asarray, (inputs, states)), jnp.asarray(2, jnp.int32))
    words = _words(jax.make_jaxpr(run)(*args), inside=False)
    assert words and words <= TRITON, words - TRITON


TRITON = {"get", "swap", "while", "scan", "cond", "jit", "broadcast_in_dim", "convert_element_type", "select_n"}
TRITON |= {"add", "sub", "mul", "div", "neg", "abs", "sqrt", "sin", "cos", "max", "min", "sign", "is_finite", "shift_left"}
TRITON |= {"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "reduce_max", "reduce_min", "reduce_sum"}


def _words(closed, inside):
    """The operations of the kernels of a program."""
    found = set()
    for eqn in closed.jaxpr.eqns if hasattr(closed, "jaxpr") else closed.eqns:
        kernel = inside or eqn.primitive.name == "pallas_call"
        found |= {eqn.primitive.name} if inside else set()
        for value in eqn.params.values():
            for part in value if isinstance(value, (tuple, list)) else (value,):
                if hasattr(part, "eqns") or hasattr(part, "jaxpr"):
                    found |= _words(part, kernel)
    return found


def test_control_a_row_of_different_constants_is_not_put_into_a_kernel():
    def sum_of_places(lanes, q):
        return [q[0] + jnp.arange(8.0)]

    with pytest.raises(AssertionError, match="different constants"):
        in_tiles(sum_of_places, (jnp.zeros((1, 16)),), (True,), [float], tile=8, interpret=True)


def test_lanes_beyond_the_last_whole_tile_are_refused():
    """They came back with whatever lay in the memory of the GPU."""
    twice = lambda lanes, q: [q[0] + q[0]]  # noqa: E731
    with pytest.raises(AssertionError, match="no whole number of tiles"):
        in_tiles(twice, (jnp.ones((1, 20)),), (True,), [float], tile=8, interpret=True)
    assert np.array_equal(in_tiles(twice, (jnp.ones((1, 24)),), (True,), [float], tile=8, interpret=True)[0], np.full(24, 2.0))


def test_an_ensemble_whose_kernel_fails_goes_the_longer_way_and_says_so(monkeypatch):
    model = carom.models.particle()
    q0s, v0s = np.tile(np.asarray(model.q0, float), (4, 1)), np.tile(np.asarray(model.v0, float), (4, 1))
    options = {"system": model.system, "method": METHOD, "q0s": q0s, "v0s": v0s, "dt": model.dt, "num_steps": 20, "progress": False}
    plain = carom.ensemble(**options, params=model.params)
    init = many._Plan.__init__

    def on_a_gpu(self, *args):
        init(self, *args)
        self.tiled = True

    monkeypatch.setattr(many._Plan, "__init__", on_a_gpu)
    with pytest.warns(UserWarning, match="not one kernel on the GPU"):  # there is none, and Triton says so
        out = carom.ensemble(**options, params=model.params)
    assert np.array_equal(out.q, plain.q)
