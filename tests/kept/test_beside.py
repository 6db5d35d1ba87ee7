"""What is done beside the main thread: programs that are compiled ahead, and what is written to disk. The numbers stay the same."""

import os
import subprocess
import sys
import threading
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.kept import beside as beside_file
from carom.kept import keep as keeping
from carom.kept.beside import at_once, beside
from carom.kept.counted_program import Program
from carom.kept.keep import keep, keep_small
from carom.running import chunked_run, pure_run, structures
from carom.running import solve as solving
from carom.xla import programs

METHOD = carom.VariationalCollision(carom.Trapezoidal())


def last(model, which, column):
    def function(x):
        run = carom.rollout(model.system, METHOD, [0.0, x], [0.0, 0.0], dt=0.01, num_steps=60, params=model.params)
        return getattr(run, which)[-1][column]

    return function


@pytest.fixture
def fresh(kept_folder, monkeypatch):
    """As in a new process: nothing is compiled, nothing is kept. What was traced, and what was compiled by the other thread."""
    monkeypatch.setattr(keeping, "beside", beside)
    traced, ahead = [], []
    lower, begin = keep.lower, keep.ahead

    def counted(self, *args):
        traced.append(self.origin.__name__)
        return lower(self, *args)

    def noted(self, *args):
        ahead.append(self.origin.__name__)
        begin(self, *args)

    monkeypatch.setattr(keep, "lower", counted)
    monkeypatch.setattr(keep, "ahead", noted)
    for name in ("_forwards", "_pull", "_push"):
        monkeypatch.setattr(pure_run, name, keep_small(getattr(pure_run, name).function))
    return traced, ahead


class TestTheWayBack:
    def test_is_traced_while_the_way_there_is_compiled(self, fresh, monkeypatch):
        traced, ahead = fresh
        model = carom.models.particle()
        slope = float(jax.grad(last(model, "q", 1))(1.0))
        assert ahead == ["_pull"] and traced == ["_forwards", "_pull"] and not pure_run._pull.coming  # used, and traced once
        monkeypatch.setattr(pure_run, "_forwards", keep_small(pure_run._forwards.function))
        monkeypatch.setattr(pure_run, "_pull", keep_small(pure_run._pull.function))
        monkeypatch.setattr(keeping, "store", lambda: None)
        monkeypatch.setattr(pure_run, "REVERSED", "nothing is ahead")
        assert float(jax.grad(last(model, "q", 1))(1.0)) == slope and ahead == ["_pull"]  # the control: the same bits without

    def test_from_something_else_it_is_another_program(self, fresh):
        """It was guessed that q is wanted; of p the derivative is that of differences all the same."""
        traced, ahead = fresh
        function = last(carom.models.particle(), "p", 1)
        slope = float(jax.grad(function)(1.0))
        assert ahead == ["_pull"] and traced == ["_forwards", "_pull", "_pull"] and len(pure_run._pull.coming) == 1
        differences = (float(function(1.0 + 1e-5)) - float(function(1.0 - 1e-5))) / 2e-5
        assert abs(slope - differences) < 1e-8 * (1 + abs(slope))  # of order 1e-10, and rounding 1e-16 / 1e-5 of sums of 60 steps

    def test_forwards_nothing_is_ahead(self, fresh):
        function = last(carom.models.particle(), "q", 1)
        jax.jvp(function, (1.0,), (1.0,))
        float(function(1.1))
        assert fresh[1] == []

    def test_what_goes_wrong_ahead_is_left_to_the_call(self, fresh, monkeypatch):
        monkeypatch.setattr(keep, "ahead", lambda *_: 1 / 0)
        assert np.isfinite(float(jax.grad(last(carom.models.particle(), "q", 1))(1.0)))

    def test_programs_that_nobody_calls_are_given_up(self, fresh):
        program = keep_small(lambda x, n: x * n)
        for n in range(20):
            program.ahead(np.ones(3), n)
        assert 0 < len(program.coming) <= keeping.UNCALLED
        assert np.array_equal(program(np.ones(3), 19), 19 * np.ones(3)) and program.loads == 0


class TestTheRun:
    """Of a small system it is compiled while the start is checked."""

    @pytest.fixture
    def solve(self, fresh, monkeypatch):
        def solve(model, **changed):
            """As if nobody had solved it before."""
            monkeypatch.setattr(structures, "_STRUCTURES", {})
            monkeypatch.setattr(chunked_run, "_chunk", Program(chunked_run._advance))
            return replace(model, **changed).solve(METHOD, num_steps=150)

        return solve

    def test_is_compiled_while_the_start_is_checked(self, fresh, solve, monkeypatch):
        traced, ahead = fresh
        run = solve(carom.models.particle())
        assert ahead == ["_advance"] and traced[0] == "_advance" and traced.count("_advance") == 1
        assert not chunked_run._chunk._kept.coming and run.compile_seconds > 0
        monkeypatch.setattr(keeping, "store", lambda: None)
        monkeypatch.setattr(solving, "expected", lambda *_: None)
        again = solve(carom.models.particle())  # the control: the same bits without
        assert ahead == ["_advance"] and np.array_equal(run.q, again.q) and len(run.impacts) == len(again.impacts) > 0

    def test_a_start_that_is_none_is_refused_all_the_same(self, fresh, solve):
        with pytest.raises(carom.InputError, match=r"inside an obstacle: contact 0 \('floor'\) is 1 deep"):
            solve(carom.models.particle(), q0=[0.0, -1.0])
        assert fresh[1] == ["_advance"]

    def test_a_large_one_is_not(self, fresh, solve):
        assert solve(carom.models.bars(elements=(49, 49), integrator=1)).status.ok and fresh[1] == []


class TestWhatIsWritten:
    def test_nobody_waits_for_it(self, fresh, kept_folder):
        gate, program = threading.Event(), keep(lambda x: jnp.sin(x) + 1)
        beside(gate.wait)  # the other thread is busy
        try:
            assert np.allclose(program(np.ones(3)), np.sin(1) + 1)
            assert not list(kept_folder.folder.glob("*.program"))
        finally:
            gate.set()
        beside(lambda: None).result()  # jobs are done in their order
        assert len(list(kept_folder.folder.glob("*.program"))) == 1

    def test_constants_are_those_of_the_moment_of_tracing(self, fresh, kept_folder, monkeypatch):
        """Somebody changes a number of carom before it is written: the program is not found under the new one."""
        gate, function = threading.Event(), lambda x: jnp.cos(x) + 1
        beside(gate.wait)
        keep(function)(np.ones(3))
        monkeypatch.setattr(carom.numerics.newton, "A_NUMBER_OF_THIS_TEST", 3.0, raising=False)
        gate.set()
        beside(lambda: None).result()
        after = keep(function)
        after(np.ones(3))
        assert after.loads == 0

    @pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="one process more than needed elsewhere")
    def test_a_process_that_ends_writes_first(self, tmp_path):
        code = "from carom.kept.beside import beside; import time, pathlib; "
        code += f"beside(lambda: (time.sleep(0.3), pathlib.Path({str(tmp_path / 'done')!r}).write_text('yes')))"
        subprocess.run([sys.executable, "-c", code], check=True)
        assert (tmp_path / "done").read_text() == "yes"


class TestTheThread:
    def test_errors_come_with_the_result(self):
        for do in (beside, at_once):
            with pytest.raises(ZeroDivisionError):
                do(lambda: 1 / 0).result()

    def test_where_there_is_none_it_is_done_here(self, monkeypatch):
        class Ended:
            def submit(self, job):
                raise RuntimeError("cannot schedule new futures after interpreter shutdown")

        monkeypatch.setattr(beside_file, "_worker", Ended)
        assert beside(threading.get_ident).result() == threading.get_ident()

    def test_the_cache_is_on_again_when_the_last_is_done(self):
        """Two threads compile anew, and neither ends before the other has begun: the control is the option between."""
        before, seen = jax.config.jax_enable_compilation_cache, []
        begun = threading.Barrier(2)

        def compile_one():
            with programs.compiled_anew():
                begun.wait(10)
                seen.append(jax.config.jax_enable_compilation_cache)

        threads = [threading.Thread(target=compile_one) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [False, False] and jax.config.jax_enable_compilation_cache == before
