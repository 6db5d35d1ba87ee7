"""Finished programs without the computation that they were compiled from: loaded, they are what they were, bit by bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.serialize_executable import deserialize_and_load, serialize

from carom.kept import finished
from carom.kept.keep import keep
from carom.xla import bare as bare_file
from carom.xla import probe, trial
from carom.xla.bare import Unknown, bare

TABLE = np.linspace(0.0, 1.0, 40)


def looped(body, *, steps=7):
    """A program that is long enough to be written without its computation: a loop, and some hundred operations."""

    def long(x, *more):
        for i in range(60):
            x = jnp.sin(x + i) + jnp.roll(x, i % 3)
        return body(jax.lax.fori_loop(0, steps, lambda i, x: jnp.cos(x) * (1 + i), x), *more)

    return long


def in_pieces(x, y, flag):
    """Constants, several results of different types, one of them straight from a loop, one twice, and a branch."""
    last = jax.lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 1.5 + TABLE), (jnp.zeros((), jnp.int32), x))
    chosen = jax.lax.cond(flag, lambda: y + 1.0, lambda: jnp.flip(y))
    return last, chosen, chosen, x > 0.5, jnp.arange(3), TABLE * 2


def solved(x, y, flag):
    return jnp.linalg.solve(jnp.diag(x) + 0.1 * jnp.outer(y, y), y), jnp.linalg.eigvalsh(jnp.outer(x, x) + jnp.diag(y))


def one_result(x, y, flag):
    return x @ y


def arguments(seed):
    rng = np.random.default_rng(seed)
    return rng.uniform(1.0, 2.0, 40), rng.uniform(1.0, 2.0, 40), np.asarray(bool(seed % 2))


def as_bytes(results):
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(results)]


def written(function, *args):
    """Compiled; as it is written; and how that is loaded."""
    compiled = jax.jit(function).lower(*args).compile(compiler_options={"xla_embed_ir_in_executable": False})
    whole, *trees = serialize(compiled)

    def load(program):
        if b"lapack_" in program:
            finished._prepare_lapack()
        return deserialize_and_load(program, *trees, jax.devices()[0].client, [jax.devices()[0]])

    return compiled, whole, load


@pytest.fixture
def compiled_here():
    """Not looked up: what XLA has loaded from a cache cannot be written again."""
    from carom.xla.programs import compiled_anew

    with compiled_anew():
        yield


class TestTheSameProgram:
    @pytest.mark.parametrize("body", [in_pieces, solved, one_result])
    def test_bit_by_bit_and_much_smaller(self, compiled_here, body):
        compiled, whole, load = written(looped(body), *arguments(0))
        small = bare(whole)
        again = load(small)
        for seed in range(3):
            assert as_bytes(again(*arguments(seed))) == as_bytes(compiled(*arguments(seed)))
        assert len(small) < 0.75 * len(whole)  # the computation is more than half of most; machine code of LAPACK's callers stays

    @pytest.mark.parametrize("hints", [True, False], ids=["kernel", "pieces"])
    def test_the_program_of_the_trial(self, compiled_here, monkeypatch, hints):
        monkeypatch.setenv("CAROM_SINGLE_KERNEL", "0")  # put back afterwards
        assert trial.loads_bare(hints)

    def test_control_results_in_another_order_are_seen(self, compiled_here, monkeypatch):
        """What could go wrong silently is where the results lie: the comparison above finds it."""
        compiled, whole, load = written(looped(in_pieces), *arguments(0))
        places = bare_file._Computation.source
        swap = {(0,): (1,), (1,): (0,)}

        def swapped(self, values, computation, number, index):
            return places(self, values, computation, number, swap.get(index, index) if number == self.last else index)

        monkeypatch.setattr(bare_file._Computation, "source", swapped)
        assert as_bytes(load(bare(whole))(*arguments(1))) != as_bytes(compiled(*arguments(1)))


class TestAnotherLayout:
    def test_is_said_to_be_unknown(self, compiled_here):
        _, whole, _ = written(looped(one_result), *arguments(0))
        begin, end = bare_file._long_bytes(whole)
        for spoilt in (b"", b"B" * 99, whole[:begin] + bytes(end - begin) + whole[end:], whole[: len(whole) // 2], whole[:begin]):
            with pytest.raises(Unknown):
                bare(spoilt)

    @pytest.mark.parametrize("field", [3, 6])
    def test_without_a_field_that_is_needed(self, compiled_here, monkeypatch, field):
        """Of a module: its computations, and which is the first."""
        _, whole, _ = written(looped(one_result), *arguments(0))
        init = bare_file._Computation.__init__
        without = lambda self, module, some: init(self, bare_file._replaced(module, {field: None}), some)  # noqa: E731
        monkeypatch.setattr(bare_file._Computation, "__init__", without)
        with pytest.raises(Unknown):
            bare(whole)

    def test_short_programs_stay_whole(self, compiled_here):
        _, whole, _ = written(lambda x: x + 1.0, np.ones(2))
        with pytest.raises(Unknown, match="short"):
            bare(whole)


class TestKept:
    def test_this_version_is_known(self):
        """What is relied upon; if this fails, programs are kept whole, and load ten times slower."""
        assert probe.verdict().bare

    @pytest.mark.parametrize("allowed", [True, False])
    def test_programs_are_kept_without_it_where_that_was_tried(self, kept_folder, monkeypatch, allowed):
        monkeypatch.setattr(finished, "verdict", lambda: probe.Verdict(True, "", allowed))
        loads = []
        real = finished._loaded
        monkeypatch.setattr(finished, "_loaded", lambda program, trees: loads.append(len(program)) or real(program, trees))
        function = looped(in_pieces, steps=9)
        first, second = (keep(function) for _ in range(2))
        assert as_bytes(first(*arguments(1))) == as_bytes(second(*arguments(1))) and second.loads == 1
        whole = len(written(function, *arguments(1))[1])
        assert (loads[-1] < 0.75 * whole) is allowed

    def test_what_cannot_be_written_so_is_kept_whole(self, kept_folder, monkeypatch):
        def refuse(_):
            raise Unknown("another layout")

        monkeypatch.setattr(finished, "bare", refuse)
        function = looped(one_result, steps=11)
        first, second = (keep(function) for _ in range(2))
        assert as_bytes(first(*arguments(1))) == as_bytes(second(*arguments(1))) and second.loads == 1
