"""One kernel or many: what is told to XLA, how it is tried out, and what is relied upon."""

import json
import os
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.kept.counted_program import Program
from carom.xla import kernel, probe, trial
from carom.xla.kernel import inside_kernel, kernel_state, sealed, single_kernel, tagged
from carom.xla.structure import depends_on


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """Nobody has asked yet."""
    monkeypatch.setenv("CAROM_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CAROM_SINGLE_KERNEL", raising=False)
    monkeypatch.setattr(probe, "_asked", {})
    kernel._warn_once.cache_clear()
    return tmp_path / "kernel"


def lower(function, *args):
    return jax.jit(function).lower(*args).as_text()


class TestWhatIsReliedUpon:
    """README.md of carom/xla lists these; a version of JAX that breaks one of them fails here."""

    def test_a_call_carries_its_attributes(self):
        text = lower(tagged(jax.jit(lambda x: (x + 1, x * 2)), inlineable="false"), 1.0)
        assert text.count('inlineable = "false"') == 1
        assert "inlineable" not in lower(jax.jit(lambda x: (x + 1, x * 2)), 1.0)  # control: without, there are none

    def test_whichever_of_its_results_is_used(self):
        call = tagged(jax.jit(lambda x: (x + 1, x * 2, x - 3)), inlineable="false")
        for i in range(3):
            assert 'inlineable = "false"' in lower(lambda x, i=i: call(x)[i], 1.0)

    def test_vmap_and_derivatives_go_through_it(self):
        call = tagged(jax.jit(lambda x: jnp.sin(x) * x), inlineable="false")
        slope = np.cos(0.3) * 0.3 + np.sin(0.3)
        assert float(jax.grad(call)(0.3)) == pytest.approx(slope, rel=1e-14)  # rounding
        assert float(jax.jvp(call, (0.3,), (1.0,))[1]) == pytest.approx(slope, rel=1e-14)
        assert np.asarray(jax.vmap(call)(jnp.arange(3.0))) == pytest.approx(np.sin(np.arange(3)) * np.arange(3), rel=1e-14)

    def test_the_structure_of_a_function_shows_through_it(self, monkeypatch):
        monkeypatch.setenv("CAROM_SINGLE_KERNEL", "1")
        call = tagged(jax.jit(lambda x, y: (x * 2, y * 3)), inlineable="false")
        assert depends_on(lambda x, y: call(x, y)[1], 1.0, 1.0) == [False, True]

    def test_a_square_has_a_constant_second_derivative(self):
        """Old versions of JAX write it as 2·x⁰; a mass matrix that seems to depend on the velocity costs a Newton iteration."""
        second = lambda x: jax.jacfwd(jax.grad(lambda x: jnp.sum(x**2)))(x)  # noqa: E731
        assert depends_on(second, jnp.ones(2)) == [False]
        assert depends_on(lambda x: jax.lax.integer_pow(x, 0), 1.0) == [False]
        assert depends_on(lambda x: jax.lax.integer_pow(x, 1), 1.0) == [True]  # control

    def test_a_kernel_is_one_call_with_both_hints(self, monkeypatch):
        def count(witness, x):
            return jax.lax.while_loop(lambda c: (c[0] < 5) & jnp.isfinite(witness), lambda c: (c[0] + 1, c[1] * x), (0, x))

        for wish, expected in (("1", 1), ("0", 0)):
            monkeypatch.setenv("CAROM_SINGLE_KERNEL", wish)
            assert lower(lambda x: single_kernel(count, x), 2.0).count("xla_cpu_small_call") == expected
        assert float(single_kernel(count, 2.0)[1]) == 64.0

    def test_an_infinite_argument_is_a_value_and_one_that_is_not_a_number_is_none(self):
        def count(witness, x, longest):
            go_on = lambda c: (c < 5) & (c < longest[0]) & (c < longest[1] + jnp.inf) & jnp.isfinite(witness)  # noqa: E731
            return jax.lax.while_loop(go_on, lambda c: c + x, 0.0)

        inf, nan = jnp.asarray(jnp.inf), jnp.asarray(jnp.nan)
        assert float(single_kernel(count, 1.0, (inf, jnp.asarray(0.0)))) == 5.0
        assert float(single_kernel(count, 1.0, (inf, nan))) == 0.0  # control

    def test_what_is_sealed_is_a_call_inside_kernels_only(self, monkeypatch):
        function = sealed(lambda x: jnp.sin(x) + 1)
        assert "inlineable" not in lower(function, 1.0)
        monkeypatch.setenv("CAROM_SINGLE_KERNEL", "1")
        loop = lambda w, x: jax.lax.fori_loop(0, jnp.where(jnp.isfinite(w), 3, 0), lambda i, x: function(x), x)  # noqa: E731
        assert lower(lambda x: single_kernel(loop, x), 1.0).count("inlineable") == 2  # the kernel and the call in it


class TestTrial:
    def test_it_is_made_once_and_remembered(self, fresh, monkeypatch):
        assert kernel_state(ask=False).on is None
        first = kernel_state()
        assert first.on is True and "times faster" in first.why  # all versions of JAX that carom runs with
        (file,) = fresh.iterdir()
        assert json.loads(file.read_text())["works"] is True
        monkeypatch.setattr(probe, "_asked", {})  # another process: it reads the file, and starts nothing
        monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("asked again"))
        assert kernel_state() == first

    def test_other_versions_and_flags_ask_again(self, fresh, monkeypatch):
        name = probe._name()
        monkeypatch.setenv("XLA_FLAGS", f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_enable_fast_math=false".strip())
        assert probe._name() != name

    def test_a_spoilt_file_is_asked_again(self, fresh, monkeypatch):
        fresh.mkdir(parents=True)
        probe._file().write_text('{"works": tr')
        monkeypatch.setattr(probe, "_try", lambda: (probe.Verdict(True, "tried"), True))
        assert probe.verdict().why == "tried"
        assert json.loads(probe._file().read_text()) == {"works": True, "why": "tried", "bare": False}

    def test_many_processes_may_ask_at_once(self, fresh):
        answer = "probe._try = lambda: (probe.Verdict(True, 'x' * 4000), True)"
        run = [sys.executable, "-c", f"from carom.xla import probe; {answer}; print(probe.verdict().works)"]
        processes = [subprocess.Popen(run, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) for _ in range(2)]
        assert [p.communicate()[0] for p in processes] == ["True\n"] * 2
        assert [f.suffix for f in fresh.iterdir()] == [".json"]

    def test_without_a_folder_it_is_asked_and_not_remembered(self, fresh, monkeypatch):
        fresh.parent.joinpath("file").write_text("")
        monkeypatch.setenv("CAROM_CACHE_DIR", str(fresh.parent / "file"))
        monkeypatch.setattr(probe, "_try", lambda: (probe.Verdict(True, "tried"), True))
        assert probe.verdict().works and probe.known_verdict() is not None

    @pytest.mark.parametrize(
        "code, said", [("import os; os.abort()", "exit code"), ("raise SystemError('no such op')", "no such op")]
    )
    def test_a_version_that_aborts_is_not_given_the_hints(self, fresh, monkeypatch, tmp_path, code, said):
        trial_file = tmp_path / "trial.py"
        trial_file.write_text(code)
        monkeypatch.setattr(probe, "TRIAL", trial_file)
        with pytest.warns(UserWarning, match="do not run as one kernel"):
            assert not kernel._enabled()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not kernel._enabled()  # said once
        assert said in kernel_state().why and probe._file().exists()

    def test_a_version_that_aborts_only_without_the_computation_is_given_the_hints(self, fresh, monkeypatch, tmp_path):
        """The trial says what it knows before it tries that."""
        answer = json.dumps({"difference": 0.0, "gain": 20.0, "bare": False})
        (tmp_path / "trial.py").write_text(f"import os; print('{answer}', flush=True); os.abort()")
        monkeypatch.setattr(probe, "TRIAL", tmp_path / "trial.py")
        assert probe.verdict()[::2] == (True, False) and probe._file().exists()

    def test_a_bad_moment_is_not_remembered(self, fresh, monkeypatch, tmp_path):
        (tmp_path / "trial.py").write_text("import time; time.sleep(60)")
        monkeypatch.setattr(probe, "TRIAL", tmp_path / "trial.py")
        monkeypatch.setattr(probe, "PATIENCE", 0.2)
        assert not probe.verdict().works and not probe._file().exists()

    def test_verdicts(self):
        assert probe._judge({"difference": 1e-15, "gain": 20.0}).works
        assert [probe._judge({"difference": 1e-15, "gain": 20.0, "bare": bare}).bare for bare in (True, False)] == [True, False]
        assert "something else" in probe._judge({"difference": 1e-3, "gain": 20.0}).why
        assert "something else" in probe._judge({"difference": float("nan"), "gain": 20.0}).why
        assert "does not take" in probe._judge({"difference": 0.0, "gain": 1.2}).why

    def test_control_what_cannot_be_one_kernel_is_slow(self, monkeypatch):
        """The reference of the trial sorts in each step; with the hints and without, it stays many kernels."""
        text = []
        for wish in ("0", "1"):
            monkeypatch.setenv("CAROM_SINGLE_KERNEL", wish)
            q = jnp.array([0.3, 1.0])
            args = (q, q, q, jnp.zeros((), jnp.int32), jnp.asarray(True), jnp.ones(3))
            for sorts in (True, False):
                call = lambda *a, sorts=sorts: single_kernel(lambda w, *b: trial.bounce(sorts, w, *b), *a)  # noqa: E731
                text.append("xla_cpu_small_call" in lower(call, *args))
        assert text == [False, False, False, True]

    def test_the_environment_overrules_it(self, fresh, monkeypatch):
        for wish, on in (("0", False), ("1", True)):
            monkeypatch.setenv("CAROM_SINGLE_KERNEL", wish)
            assert kernel_state() == (on, f"CAROM_SINGLE_KERNEL={wish}", False)
        assert not fresh.exists()  # nothing was tried


def test_what_the_compiler_cannot_make_a_kernel_of_is_compiled_with_plain_loops(monkeypatch):
    monkeypatch.setenv("CAROM_SINGLE_KERNEL", "1")

    def loop(witness, x):
        if inside_kernel() and x.size > 3:  # as XLA of jax 0.11 says of a hundred thousand numbers
            raise jax.errors.JaxRuntimeError("UNIMPLEMENTED: Fusion kind not implemented on CPU")
        return jax.lax.fori_loop(0, jnp.where(jnp.isfinite(witness), 3, 0), lambda i, x: 2 * x, x)

    program = Program(lambda x: single_kernel(loop, x))
    with pytest.warns(UserWarning, match="cannot be one kernel"):
        assert program.compile(jnp.ones(4)) > 0
    assert program.compile(jnp.ones(4)) == 0.0 and float(program(jnp.full(4, 2.0))[0]) == 16.0
    assert float(program(jnp.ones(3))[0]) == 8.0  # control: a smaller one needs no warning

    def broken(x):
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        Program(broken)(jnp.ones(3))


def test_a_run_says_whether_it_was_one_kernel(monkeypatch):
    run = carom.models.particle().solve(carom.VariationalCollision(carom.Trapezoidal()), num_steps=20)
    assert run.summary()["one_kernel"] is True
    monkeypatch.setenv("CAROM_SINGLE_KERNEL", "0")
    assert run.summary()["one_kernel"] is False
