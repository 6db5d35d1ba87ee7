"""A finished program is found again in another process, and only where tracing would make the same one.

In most tests another process is another `keep` of the same function: it has nothing but the folder. Two tests start processes.
"""

import functools
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.closures import freeze
from carom.kept import finished as storing
from carom.kept import keep as keeping
from carom.kept import remember, surroundings
from carom.kept.keep import keep
from carom.models import planar
from carom.numerics import linalg, newton
from carom.xla import kernel, programs

Q = np.array([1.0, 2.0])
gravity = 9.81


class Thing(eqx.Module):
    """A tree with a function, an array or none, and a number that is not traced."""

    function: object = eqx.field(static=True)
    array: object = None
    other: object = None
    count: int = eqx.field(static=True, default=1)


@pytest.fixture
def folder(kept_folder):
    return kept_folder


def compute(thing, q):
    x = thing.function(q) * thing.count
    return {"value": x if thing.array is None else x + thing.array}


def value(thing, q=Q):
    """In a process that has nothing but the folder: what is computed, and whether it was traced."""
    traces = []

    def counted(*args):
        traces.append("once")
        return compute(*args)

    return np.asarray(keep(counted, compute)(thing, q)["value"]), bool(traces)


def files(folder):
    return sorted(folder.folder.glob("*.program"))


def test_it_is_found_again_and_nothing_is_traced(folder):
    thing = Thing(freeze(lambda q: jnp.sin(q)), jnp.ones(2))
    first, second = value(thing), value(thing)
    assert first[1] and not second[1] and np.array_equal(first[0], second[0]) and len(files(folder)) == 1
    assert np.allclose(first[0], np.sin(Q) + 1, rtol=1e-15)
    again = value(thing, np.array([3.0, 4.0]))
    assert not again[1] and np.allclose(again[0], np.sin([3.0, 4.0]) + 1)  # other numbers, the same program


def test_arrays_that_share_their_shape_are_arrays_like_others(folder):
    """JAX gives arrays one tuple for their shapes, or each its own, by the way they came about; no program depends on it."""
    thing, one = Thing(freeze(lambda q: jnp.tan(q)), jnp.ones(2)), jnp.ones(2)
    assert value(thing, one)[1] and not value(thing, Q)[1] and not value(Thing(thing.function, one), one)[1]
    assert value(thing, jnp.ones((1, 2)))[1]  # the control: another shape


def test_a_process_asks_the_folder_once(folder):
    program, thing = keep(compute), Thing(freeze(lambda q: jnp.cos(q)))
    for _ in range(3):
        program(thing, Q)
    assert (program.loads, len(program.ready)) == (0, 1)
    other = keep(compute)
    for _ in range(3):
        other(thing, Q)
    assert (other.loads, len(other.ready)) == (1, 1)


def test_numbers_of_numpy_and_of_jax_are_one_program(folder):
    """What numpy holds at the start of a run, JAX holds after its first part: a second program doubled every first start."""
    traces = []

    @keep
    def double(q):
        traces.append(1)
        return 2 * q

    first = double(Q)
    np.testing.assert_array_equal(double(double(first)), 8 * Q)
    assert len(traces) == 1
    double(Q.astype(np.float32))
    assert len(traces) == 2  # the control: another type is another program


def system():
    return carom.System(lambda q, v: 0.5 * v @ v - gravity * q[0])


class TestWhatTracingSeesIsPartOfTheKey:
    def test_captured_numbers(self, folder):
        """Through the whole of `solve`: a body falls by ½ g t², exactly with this rule."""
        global gravity
        program = sys.modules["carom.running.chunked_run"]._chunk
        depths = []
        try:
            for number in (9.81, 1.62, 9.81):
                gravity = number
                program._kept.ready = {}  # another process
                run = carom.solve(system(), carom.Variational(carom.Trapezoidal()), [0.0], [0.0], dt=0.01, num_steps=20)
                depths.append(-run.q[-1, 0])
        finally:
            gravity = 9.81
        assert np.allclose(depths, 0.02 * np.array([9.81, 1.62, 9.81]), rtol=1e-12)
        assert program._kept.loads > 0

    def test_control_without_them_the_old_number_is_found(self, folder, monkeypatch):
        global gravity
        monkeypatch.setattr(keeping, "lasting", lambda *_, **__: b"whatever")
        try:
            gravity = 9.81
            value(Thing(freeze(lambda q: gravity * q)))
            gravity = 1.62
            stale, was_traced = value(Thing(freeze(lambda q: gravity * q)))
        finally:
            gravity = 9.81
        assert np.allclose(stale, 9.81 * Q) and not was_traced

    @pytest.mark.parametrize("change", [
        {"q": Q.astype(np.float32)}, {"q": np.ones(3)}, {"q": np.ones((2, 1))}, {"q": np.array([1, 2])}, {"q": jnp.asarray(2.0)},
        {"count": 2}, {"array": jnp.ones(2)}, {"other": jnp.ones(2)}, {"array": 2.0}, {"function": freeze(lambda q: q + 2)},
    ], ids=str)  # fmt: skip
    def test_arguments(self, folder, change):
        """Types, shapes, weak types, what is static, and which of two is an array."""
        change = dict(change)
        thing = {"function": freeze(lambda q: q + 1)}
        value(Thing(**thing))
        value(Thing(**thing), jnp.asarray(2.0, float))
        q = change.pop("q", Q)
        assert value(Thing(**thing, **change) if "function" not in change else Thing(**change), q)[1]
        assert not value(Thing(**thing, **change) if "function" not in change else Thing(**change), q)[1]

    def test_which_of_two_is_an_array(self, folder):
        f, one = freeze(lambda q: q + 1), jnp.ones(2)
        assert np.allclose(value(Thing(f, array=one))[0], Q + 2)
        assert np.allclose(value(Thing(f, other=one))[0], Q + 1)

    def test_options_of_jax(self, folder):
        thing = Thing(freeze(lambda q: q + 1))
        value(thing)
        for option in (jax.default_matmul_precision("float32"), jax.enable_x64(False), jax.numpy_dtype_promotion("strict")):
            with option:
                assert value(thing)[1] and not value(thing)[1]
        assert not value(thing)[1]

    @pytest.mark.parametrize("change", ["sources", "versions", "kernel", "flags", "sealing"])
    def test_surroundings(self, folder, monkeypatch, change):
        thing = Thing(freeze(lambda q: q + 1))
        value(thing)
        if change == "sources":
            monkeypatch.setattr(surroundings, "_hashed", lambda: (surroundings._stats(), "other"))
        elif change == "versions":
            monkeypatch.setattr(surroundings, "versions", lambda *names: {"equinox": "0"})
        elif change == "kernel":
            monkeypatch.setenv("CAROM_SINGLE_KERNEL", str(int(not kernel.kernel_state().on)))
        elif change == "flags":
            monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
            other = storing.Store(folder.folder)
            monkeypatch.setattr(keeping, "store", lambda: other)
        with kernel.unsealed() if change == "sealing" else nullcontext():
            assert value(thing)[1]

    def test_a_number_that_somebody_assigns_to_carom(self, folder, monkeypatch):
        """Both ways: what was kept with it is not found without it, and what was kept without it not with it."""
        thing = Thing(freeze(lambda q: q + 1))
        value(thing)
        monkeypatch.setattr(linalg, "SMALL", 2 * linalg.SMALL)
        assert value(thing)[1] and not value(thing)[1]
        monkeypatch.undo()
        monkeypatch.setattr(keeping, "store", lambda: folder)
        monkeypatch.setattr(surroundings, "LOADED", float("inf"))
        assert value(thing)[1]

    def test_a_number_that_somebody_assigns_to_a_model(self, folder, monkeypatch):
        """The functions of models stand in the key by their names: so do the numbers that they read."""
        corners = {"corners": np.ones((4, 2))}
        through = freeze(lambda q: planar._vertices(jnp.append(q, 0.0), corners)[:2])
        for thing in (Thing(through), Thing(functools.partial(planar._vertices, params=corners), None, planar._falling_body)):
            q = np.ones(3 if thing.other else 2)
            monkeypatch.setattr(planar, "NUMBER", 1.0, raising=False)
            assert value(thing, q)[1] and not value(thing, q)[1]
            monkeypatch.setattr(planar, "NUMBER", 2.0)
            assert value(thing, q)[1]

    def test_a_function_that_somebody_puts_into_carom(self, folder, monkeypatch):
        thing = Thing(freeze(lambda q: q + 1))
        value(thing)
        name = next(n for n, x in vars(newton).items() if callable(x) and getattr(x, "__module__", "") == newton.__name__)
        monkeypatch.setattr(newton, name, lambda *args: None)
        assert value(thing)[1] and value(thing)[1]  # neither found nor kept

    def test_sources_that_are_edited_while_the_process_runs(self, folder, monkeypatch):
        thing = Thing(freeze(lambda q: q + 1))
        monkeypatch.setattr(surroundings, "LOADED", 0.0)  # all of them are younger
        monkeypatch.setattr(surroundings, "_looked", -1e9)
        value(thing)
        assert not files(folder)


class TestWhatIsNotKept:
    def test_programs_that_call_python(self, folder):
        seen = []

        def told(q):
            jax.debug.callback(lambda x: seen.append(float(x[0])), q)
            return q + jax.pure_callback(lambda x: np.asarray(x) + 1, jax.ShapeDtypeStruct(q.shape, q.dtype), q)

        for i in range(2):
            found, was_traced = value(Thing(told))
            jax.effects_barrier()
            assert np.allclose(found, 2 * Q + 1) and was_traced and len(seen) == i + 1
        assert not files(folder)

    def test_functions_that_nobody_can_be_sure_of(self, folder):
        f = freeze(lambda q: q + np.random.default_rng(0).integers(1, 2))
        assert value(Thing(f))[1] and value(Thing(f))[1] and not files(folder)

    def test_inside_other_transformations(self, folder):
        thing = Thing(freeze(lambda q: jnp.sum(q**3)))
        slope = jax.grad(lambda q: keep(compute)(thing, q)["value"])(jnp.asarray(Q))
        assert np.allclose(slope, 3 * Q**2) and not files(folder)

    def test_while_jax_is_asked_to_look_closely(self, folder):
        with jax.debug_nans(True), pytest.raises(FloatingPointError):
            value(Thing(freeze(lambda q: jnp.log(-q))))
        assert not files(folder)

    def test_where_jax_was_given_a_folder_or_none_is_wanted(self):
        assert not programs.program_cache().own and storing.store() is None  # so it is in these tests


class TestFiles:
    @pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "another key", "another machine", "not a program"])
    def test_a_damaged_file_is_written_anew(self, folder, damage):
        thing = Thing(freeze(lambda q: q + 3))
        value(thing)
        (file,) = files(folder)
        content = file.read_bytes()
        name, key, told, program, trees = storing.pickle.loads(storing.zlib.decompress(content[len(storing.MAGIC) + 32 :]))
        repack = lambda *parts: storing.packed(*parts)  # noqa: E731
        flipped = bytearray(content)
        flipped[len(flipped) // 2] ^= 1
        file.write_bytes(
            {
                "cut": content[:-100],
                "flipped": bytes(flipped),
                "empty": b"",
                "text": b"hello",
                "another key": repack(name, "other", told, program, trees),
                "another machine": repack("other", key, told, program, trees),
                "not a program": repack(name, key, told, b"nothing", trees),
            }[damage]
        )
        found, was_traced = value(thing)
        assert was_traced and np.array_equal(found, Q + 3)
        assert not value(thing)[1]

    def test_the_folder_is_bounded(self, folder, monkeypatch):
        things = [Thing(freeze(eval(f"lambda q: q + {i}"))) for i in range(4)]
        for i, thing in enumerate(things[:3]):
            value(thing)
            for file in files(folder):
                os.utime(file, (i, i)) if file.stat().st_mtime > 1e6 else None
        value(things[0])  # used: now the second is the oldest
        monkeypatch.setattr(storing, "LARGEST", int(3.5 * max(f.stat().st_size for f in files(folder))))
        monkeypatch.setattr(storing, "SHARE", 1)
        value(things[3])
        assert len(files(folder)) == 3
        assert [value(thing)[1] for thing in (things[0], things[2], things[3], things[1])] == [False, False, False, True]

    def test_a_folder_that_cannot_be_written_breaks_nothing(self, folder, tmp_path):
        (tmp_path / "file").write_text("")
        folder.folder = tmp_path / "file" / "finished"
        assert np.array_equal(value(Thing(freeze(lambda q: q + 4)))[0], Q + 4)

    def test_a_version_that_does_not_load_what_it_writes(self, folder, monkeypatch):
        """The first program is loaded and run at once; where that fails nothing is kept, now or later."""
        real = storing._loaded
        monkeypatch.setattr(storing, "_loaded", lambda *_: 1 / 0)
        thing = Thing(freeze(lambda q: q + 5))
        assert np.array_equal(value(thing)[0], Q + 5) and folder.works() is False
        monkeypatch.setattr(storing, "_loaded", real)
        assert value(thing)[1] and not files(folder)

    def test_a_version_that_loads_something_else(self, folder, monkeypatch):
        wrong = lambda *_: storing.Finished(lambda q: [q], None)  # noqa: E731
        monkeypatch.setattr(storing, "_loaded", wrong)
        value(Thing(freeze(lambda q: q + 6)))
        assert folder.works() is False

    def test_a_process_that_did_not_survive_the_trial(self, folder, monkeypatch):
        """The next one does not try at once: it would not survive it either."""
        folder.folder.mkdir(parents=True)
        (folder.folder / "works").write_text("trying")
        assert folder.works() is False and value(Thing(freeze(lambda q: q + 7)))[1] and not files(folder)
        monkeypatch.setattr(storing, "PATIENCE", -1.0)  # a day later
        assert folder.works() is None and value(Thing(freeze(lambda q: q + 7)))[1]
        assert folder.works() is True and len(files(folder)) == 1


def test_what_is_relied_upon():
    """Private parts of JAX: what jax.jit distinguishes programs by, and that options are read as they hold here."""
    assert surroundings.trace_context is not None and hash(surroundings.trace_context()) is not None
    told = dict(surroundings.options())
    assert told["jax_enable_x64"] == "True" and len(told) > 50
    before = surroundings.trace_context()
    with jax.enable_x64(False):
        assert dict(surroundings.options())["jax_enable_x64"] == "False" and surroundings.trace_context() != before


def test_a_part_of_jax_that_is_imported_later_brings_options_of_its_own(monkeypatch):
    """Pallas does with jax 0.11: every run after that ended in a ValueError of zip."""
    before, known = surroundings.contexts(), surroundings.trace_context
    monkeypatch.setattr(surroundings, "trace_context", lambda: (*known(), True))
    assert surroundings.contexts() == [*before, "True"]  # another program, then
    monkeypatch.setattr(surroundings, "trace_context", lambda: (*known(), object()))
    with pytest.raises(surroundings.Unsure):  # control: what nobody can compare
        surroundings.contexts()


def test_with_a_mesh_around_it_nothing_is_sure():
    mesh = jax.make_mesh((1,), ("x",))
    with jax.set_mesh(mesh), pytest.raises(surroundings.Unsure):
        surroundings.contexts()


class TestAnswers:
    """Plain data that tracing has found out: found again like a program."""

    def test_they_are_found_where_a_program_would_be(self, folder):
        thing, asked = Thing(freeze(lambda q: q + 8)), []

        def ask(thing, q):
            asked.append(1)
            return [list(q.shape), "name"]

        def pure(thing, q): ...

        find = lambda thing, q: remember.remembered_as(pure, ask, thing, q)  # noqa: E731
        assert find(thing, Q) == find(thing, Q + 1) == [[2], "name"] and len(asked) == 1  # other numbers: the same answer
        assert find(thing, np.ones(3))[0] == [3] and len(asked) == 2
        find(Thing(freeze(lambda q: q + 9)), Q)
        assert len(asked) == 3
        for file in folder.folder.glob("*.json"):
            file.write_text("{")
        assert find(thing, Q) == [[2], "name"] and len(asked) == 4

    def test_a_refusal_is_made_again(self, folder):
        """Nothing is remembered of an input that was refused: the second process says why, too."""
        wrong = carom.System(lambda q, v: 0.5 * v @ v - q, [carom.Contact(lambda q: q[0] > 0)])
        for _ in range(2):
            with pytest.raises(carom.InputError, match="must return one number"):
                carom.solve(wrong, carom.VariationalCollision(), [1.0, 2.0], [0.0, 0.0], dt=0.1, num_steps=1)


SOLVE = """
import sys, carom, hashlib
def lagrangian(q, v, params): return 0.5 * v @ v - params["g"] * q[0]
method = carom.Variational(carom.Trapezoidal())
start = {"dt": 0.01, "num_steps": 20, "params": {"g": 2.0}}
run = carom.solve(carom.System(lagrangian), method, [0.0], [0.0], **start)
program = sys.modules["carom.running.chunked_run"]._chunk
many = carom.ensemble(carom.System(lagrangian), method, [[0.0], [1.0]], [0.0], **start, progress=False)
from carom.many import ensemble
loads = [keep.loads for keep in (program._kept, sys.modules["carom.many.ensemble"]._together)]
print(program._traces, *loads, hashlib.md5(run.q.tobytes() + many.q.tobytes()).hexdigest(), run.q[-1, 0], run.compile_seconds > 0)
"""


def test_two_processes(tmp_path):
    """The second traces nothing and computes the same bits; a third, without a cache, too."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "CAROM_"))}
    given = {"CAROM_CACHE_DIR": str(tmp_path), "JAX_PLATFORMS": "cpu", "CAROM_SINGLE_KERNEL": "1"}

    def run(**more):
        command = [sys.executable, "-c", SOLVE]
        ran = subprocess.run(command, env={**inherited, **given, **more}, capture_output=True, text=True)
        assert ran.returncode == 0 and ran.stderr == "", ran.stderr
        return ran.stdout.split()

    first, second, third = run(), run(), run(CAROM_CACHE="0")
    assert first[:3] == ["1", "0", "0"] and second[:3] == ["0", "1", "1"] and third[:3] == ["1", "0", "0"]
    assert first[3:] == second[3:] == third[3:] and float(first[4]) == pytest.approx(-0.04) and first[5] == "True"
    assert list(Path(tmp_path).glob("programs/*/finished/*.program"))


LAPACK = """
import sys
import numpy as np
import carom  # with its cache
import jax.numpy as jnp
from carom.kept.keep import keep

def solved(matrix, right):
    return jnp.linalg.solve(matrix, right)

kept = keep(solved, solved)
print(float(kept(np.diag(np.arange(1.0, 41.0)), np.ones(40))[-1]), kept.loads)
"""


def test_a_finished_program_that_calls_lapack(tmp_path):
    """Its functions are looked for when a program is lowered, which the second process does not do: it ended by signal 11."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "CAROM_"))}
    given = {"CAROM_CACHE_DIR": str(tmp_path), "JAX_PLATFORMS": "cpu", "CAROM_SINGLE_KERNEL": "1"}
    runs = [
        subprocess.run([sys.executable, "-c", LAPACK], env={**inherited, **given}, capture_output=True, text=True) for _ in "ab"
    ]
    assert [(ran.returncode, ran.stdout.split()) for ran in runs] == [(0, ["0.025", "0"]), (0, ["0.025", "1"])], runs
