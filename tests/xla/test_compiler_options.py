"""Options that programs are compiled with: they are taken where XLA knows them, and nothing depends on it where it does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.kept import keep as keeping
from carom.kept.keep import keep, keep_kernel, keep_quick, keep_small
from carom.xla import programs
from carom.xla.kernel import inside_kernel, single_kernel
from carom.xla.programs import ONE_KERNEL, RUN_ONCE, SMALL_LOOPS, WRITTEN_OUT, ask_for, asked_for, compiled

NO_SUCH = {"xla_no_such_option_of_anybody": True}


def _lowered():
    return jax.jit(lambda x: 3.0 * x).lower(1.0)


@pytest.mark.parametrize("options", [SMALL_LOOPS, RUN_ONCE, WRITTEN_OUT, ONE_KERNEL])
def test_this_version_knows_the_options(options):
    if jax.default_backend() != "cpu":
        pytest.skip("options of XLA for CPUs")
    if tuple(map(int, jax.__version__.split(".")[:2])) >= (0, 11):  # where XLA has only the newer way to write a fused loop
        options = {name: value for name, value in options.items() if name not in SMALL_LOOPS}
    _lowered().compile(compiler_options=options)


def test_a_version_that_does_not_know_an_option_compiles_with_the_others(monkeypatch):
    monkeypatch.setattr(programs, "_unknown", set())
    given, lowered = [], _lowered()
    with pytest.raises(jax.errors.JaxRuntimeError):  # the control: JAX itself refuses it
        lowered.compile(compiler_options=NO_SUCH)

    class Lowered:
        def compile(self, **options):
            given.append(options)
            return lowered.compile(**options)

    assert float(compiled(Lowered(), {**WRITTEN_OUT, **NO_SUCH})(1.0)) == 3.0
    assert programs._unknown == set(NO_SUCH) and given[-1] == {"compiler_options": WRITTEN_OUT}
    compiled(Lowered(), {**WRITTEN_OUT, **NO_SUCH})
    assert len(given) == 3  # it is not asked for a second time
    assert float(compiled(_lowered(), NO_SUCH)(1.0)) == 3.0


def test_other_errors_are_not_swallowed(monkeypatch):
    class Refused:
        def compile(self, **_):
            raise jax.errors.JaxRuntimeError("UNIMPLEMENTED: no kernel of this")

    monkeypatch.setattr(programs, "_unknown", set())
    with pytest.raises(jax.errors.JaxRuntimeError, match="UNIMPLEMENTED"):
        compiled(Refused(), SMALL_LOOPS)


@pytest.mark.parametrize("decorator", [keep, keep_small, keep_kernel, keep_quick])
def test_numbers_do_not_depend_on_whether_programs_are_kept(decorator, monkeypatch):
    def function(x, y):
        return jnp.sin(x) @ y + jnp.sum(x * x * y) / 3.0

    x, y = np.linspace(0.1, 1.3, 7), np.linspace(-2.0, 1.0, 7)
    kept = np.asarray(decorator(function)(x, y))
    monkeypatch.setattr(keeping, "store", lambda: None)
    alone = decorator(function)
    assert np.asarray(alone(x, y)).tobytes() == kept.tobytes()
    assert bool(alone.ready) == bool(alone.options and jax.default_backend() == "cpu")  # compiled with them, not by filter_jit
    np.testing.assert_allclose(kept, function(x, y), rtol=1e-14)  # sums of 14 numbers of order one


def test_inside_of_other_transformations_it_is_a_part_of_them():
    square = keep_small(lambda x: x * x)
    assert float(jax.grad(square)(3.0)) == 6.0
    assert float(jax.jit(lambda x: square(x) + 1.0)(3.0)) == 10.0


def test_what_is_traced_asks_for_options(monkeypatch):
    given = []
    monkeypatch.setattr(keeping, "compiled", lambda lowered, options: given.append(options) or compiled(lowered, options))
    monkeypatch.setattr(keeping, "store", lambda: None)

    def loop(x):
        ask_for(WRITTEN_OUT)
        return jax.lax.fori_loop(0, 5, lambda i, x: jnp.sin(x) + 0.1 * i, x)

    if jax.default_backend() != "cpu":
        pytest.skip("options of XLA for CPUs")
    first = keep_small(loop)(np.float64(0.3))
    second = keep_small(lambda x: jax.lax.fori_loop(0, 5, lambda i, x: jnp.sin(x) + 0.1 * i, x))(np.float64(0.3))
    assert given == [{**SMALL_LOOPS, **WRITTEN_OUT}, SMALL_LOOPS]
    assert float(first) == float(second)
    ask_for(WRITTEN_OUT)  # where nobody listens, nothing happens


@pytest.mark.parametrize("name, asks", [("particle", True), ("double_pendulum", False)])
def test_kernels_without_loops_in_their_flow_do_without_passes_over_loops(name, asks):
    model, method = getattr(carom.models, name)(), carom.VariationalCollision()
    with asked_for() as options:  # steps of the double pendulum, whose mass depends on q, took half as long again without them
        method.glide(method.bind(model.system, model.params, len(model.q0)))
    assert options == (WRITTEN_OUT if asks else {})


@pytest.mark.filterwarnings("error:this run cannot be one kernel")
def test_sums_of_many_numbers_are_part_of_a_kernel(monkeypatch):
    """jax 0.11 hands such a sum to a library unless it is told not to, and has no kernel then."""
    monkeypatch.setenv("CAROM_SINGLE_KERNEL", "1")

    def loop(witness, A):
        steps = jnp.where(jnp.isfinite(witness), 3, 0)
        return jax.lax.fori_loop(0, steps, lambda _, A: A + 1e-3 * jnp.sum(A[:, :, None] * A[None, :, :], axis=1), A)

    A = np.linspace(0.0, 1.0, 900).reshape(30, 30)
    found = A
    for _ in range(3):
        found = found + 1e-3 * found @ found
    np.testing.assert_allclose(keep_kernel(lambda A: single_kernel(loop, A))(A), found, rtol=1e-13)  # sums of 30 positive numbers


def test_a_kernel_that_cannot_be_is_done_with_plain_loops_whoever_keeps_it(monkeypatch):
    """An ensemble's, too: it ended with XLA's error."""
    monkeypatch.setenv("CAROM_SINGLE_KERNEL", "1")
    tries = []

    def loop(witness, x):
        tries.append(inside_kernel())
        if inside_kernel():
            raise jax.errors.JaxRuntimeError("UNIMPLEMENTED: Fusion kind not implemented on CPU")
        return jax.lax.fori_loop(0, jnp.where(jnp.isfinite(witness), 3, 0), lambda i, x: 2 * x, x)

    program = keep_kernel(lambda x: single_kernel(loop, x))
    with pytest.warns(UserWarning, match="cannot be one kernel"):
        assert float(program(np.ones(2))[0]) == 8.0
    assert float(program(np.full(2, 2.0))[0]) == 16.0
    assert tries == [True, False]  # it is not tried a second time
