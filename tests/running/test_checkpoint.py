"""Runs that are killed go on bit for bit; what is not theirs is refused; a full disk keeps the last good state."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import carom
from carom.results.store import TABLE
from carom.running import checkpoint as module
from carom.running import interrupts

BALL = carom.models.particle()
TRAPEZOIDAL = carom.VariationalCollision(carom.Trapezoidal())
METHODS = {"variational": TRAPEZOIDAL, "event-driven": carom.EventDriven(rtol=1e-6, atol=1e-8), "timestepping": carom.MoreauJean()}


class Killed(BaseException):
    """Nothing catches it on its way, as nothing catches a kill."""


def _same(a, b):
    for name in ("t", "q", "p", "energy"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name in ("t", *TABLE):
        np.testing.assert_array_equal(getattr(a.impacts, name), getattr(b.impacts, name))
    assert (a.record is None) == (b.record is None)
    if a.record is not None:
        for mine, yours in zip(a.record, b.record, strict=True):
            np.testing.assert_array_equal(mine, yours)
    assert a.status == b.status and a.num_steps == b.num_steps


def _solve(path, method=TRAPEZOIDAL, **changes):
    stride = 1 if isinstance(method, carom.MoreauJean) else 3  # with 1, timestepping methods record every step
    arguments = {"num_steps": 1000, "every": 100, "checkpoint": path, "stride": stride, **changes}
    return BALL.solve(method, **arguments)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return {name: _solve(tmp_path_factory.mktemp("whole") / "run.zarr", method) for name, method in METHODS.items()}


def _kill_at(monkeypatch, place: str, count: int):
    """Die at the count-th time that a part or the manifest is (or has just been) put in its place."""
    seen = [0]
    real = module._flush

    def flush(file, write):
        hit = ("manifest" in file.name) == place.startswith("manifest")
        seen[0] += hit
        if hit and seen[0] == count and place.endswith("before"):
            file.with_name("." + file.name).write_bytes(b"half a fi")
            raise Killed
        digest = real(file, write)
        if hit and seen[0] == count and place.endswith("after"):
            raise Killed
        return digest

    monkeypatch.setattr(module, "_flush", flush)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    ("place", "count"), [("part before", 1), ("part before", 4), ("part after", 5), ("manifest before", 3), ("manifest after", 9)]
)
def test_a_run_that_dies_anywhere_goes_on_bit_for_bit(whole, name, place, count, tmp_path, monkeypatch):
    path = tmp_path / "run.zarr"
    with monkeypatch.context() as patch:
        _kill_at(patch, place, count)
        with pytest.raises(Killed):
            _solve(path, METHODS[name])
    assert not path.exists()
    resumed = _solve(path, METHODS[name])
    _same(resumed, whole[name])
    _same(carom.load(path, system=BALL.system), whole[name])
    assert not (tmp_path / "run.zarr.parts").exists()


def test_it_really_resumes_and_the_checkpoints_do_not_change_the_run(whole, tmp_path, monkeypatch):
    path = tmp_path / "run.zarr"
    with monkeypatch.context() as patch:
        _kill_at(patch, "manifest after", 8)
        with pytest.raises(Killed):
            _solve(path)
    with pytest.raises(carom.InputError, match="started there"):
        carom.load(path)
    first = []
    solver = sys.modules["carom.running.chunked_run"]
    real = solver._chunk._kept.call
    monkeypatch.setattr(solver._chunk._kept, "call", lambda *a: (first.append(int(a[4].first)), real(*a))[1])
    _same(_solve(path), whole["variational"])
    assert first == [800, 900]
    _same(BALL.solve(TRAPEZOIDAL, num_steps=1000, stride=3), whole["variational"])


def test_a_finished_run_is_returned_not_repeated(whole, tmp_path, monkeypatch):
    path = tmp_path / "run.zarr"
    _solve(path)
    monkeypatch.setattr(sys.modules["carom.running.chunked_run"], "_chunk", None)
    again = _solve(path)
    _same(again, whole["variational"])
    assert carom.diagnostics.penetration(again) >= 0  # it has its functions


def test_a_run_that_fails_is_finished_too(tmp_path):
    path, drop = tmp_path / "run.zarr", carom.models.particle(restitution=0.5)
    for _ in range(2):
        with pytest.raises(carom.SolveError, match="coming to rest") as caught:
            drop.solve(TRAPEZOIDAL, num_steps=2000, checkpoint=path, every=100)
        assert 0 < caught.value.solution.num_steps < 2000


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"params": {"gravity": 1.62}}, "params differs"),
        ({"dt": 0.02}, "dt differs"),
        ({"v0": [-2.0, 0.1]}, "v0 differs"),
        ({"num_steps": 900}, "num_steps differs"),
        ({"every": 50}, "every differs"),
        ({"method": carom.VariationalCollision(carom.Midpoint())}, "method differs"),
        ({"method": carom.VariationalCollision(carom.Trapezoidal(), simultaneous="impulse")}, "method differs"),
    ],
)
def test_a_foreign_checkpoint_is_refused(change, words, tmp_path, monkeypatch):
    path = tmp_path / "run.zarr"
    with monkeypatch.context() as patch:
        _kill_at(patch, "manifest after", 2)
        with pytest.raises(Killed):
            _solve(path)
    with pytest.raises(carom.InputError, match=f"belongs to another run: {words}"):
        _solve(path, **change)
    _solve(path)
    with pytest.raises(carom.InputError, match=f"belongs to another run: {words}"):  # also when it is finished
        _solve(path, **change)


def test_another_system_is_noticed_by_what_it_computes(tmp_path):
    def system(power, factor=1.0):
        return carom.System(lambda q, v: 0.5 * v @ v - factor * q[0] ** power)

    def solve(what):
        carom.solve(what, carom.Variational(carom.Left()), [1.0], [0.0], dt=0.1, num_steps=5, checkpoint=tmp_path / "run.zarr")

    solve(system(2))
    solve(system(2))  # the same computation, written anew
    for other in (system(3), system(2, 1.5), system(2, np.float64(2.0))):
        with pytest.raises(carom.InputError, match="system differs"):
            solve(other)


def test_a_damaged_checkpoint_is_refused(tmp_path, monkeypatch):
    def damage(name, change):
        path = tmp_path / name / "run.zarr"
        with monkeypatch.context() as patch:
            _kill_at(patch, "manifest after", 3)
            with pytest.raises(Killed):
                _solve(path)
        change(path.with_name("run.zarr.parts"))
        return path

    def flip(parts: Path):
        data = bytearray((parts / "part-000001.npz").read_bytes())
        data[len(data) // 2] ^= 1
        (parts / "part-000001.npz").write_bytes(data)

    def later(parts: Path):
        manifest = json.loads((parts / "manifest.json").read_text())
        (parts / "manifest.json").write_text(json.dumps({**manifest, "format": 9}))

    cases = {
        "flip": (flip, "part-000001.npz is damaged: its checksum"),
        "lost": (lambda parts: (parts / "part-000000.npz").unlink(), "part-000000.npz cannot be read"),
        "text": (lambda parts: (parts / "manifest.json").write_text("{"), "manifest.json is damaged"),
        "list": (lambda parts: (parts / "manifest.json").write_text("[]"), "manifest.json is damaged"),
        "later": (later, "up to format 1"),
    }
    for name, (change, message) in cases.items():
        with pytest.raises(carom.InputError, match=re.escape(message)):
            _solve(damage(name, change))


def test_bad_names_and_numbers_are_refused_before_anything_runs(tmp_path):
    for arguments, message in [
        ({"path": tmp_path / "run.nc"}, "ends in .zarr"),
        ({"path": tmp_path / "run.zarr", "every": 0}, "every must be a positive whole number"),
        ({"path": None}, "pass checkpoint= too"),
        ({"path": Path(__file__) / "run.zarr"}, "cannot be made"),
    ]:
        with pytest.raises(carom.InputError, match=message):
            _solve(**arguments)
    BALL.solve(TRAPEZOIDAL, num_steps=10).save(tmp_path / "saved.zarr")
    with pytest.raises(carom.InputError, match="not written as a checkpoint"):
        _solve(tmp_path / "saved.zarr")


def test_only_one_process_at_a_time(tmp_path):
    holder = module.Checkpoint(tmp_path / "run.zarr", None, {})
    holder.resume()
    with pytest.raises(carom.InputError, match="in use by another process"):
        _solve(tmp_path / "run.zarr")
    holder.release()
    _solve(tmp_path / "run.zarr")


def test_a_full_disk_keeps_the_last_good_checkpoint_and_the_run(whole, tmp_path, monkeypatch):
    path, real = tmp_path / "run.zarr", module._flush

    def flush(file, write):
        if file.name == "part-000003.npz" or (file.name == "manifest.json" and len(list(file.parent.glob("part-*"))) == 6):
            raise OSError(28, "No space left on device")
        return real(file, write)

    with monkeypatch.context() as patch:
        patch.setattr(module, "_flush", flush)
        patch.setattr(module, "save", lambda *a, **k: flush(path.with_name("part-000003.npz"), None))
        with pytest.warns(UserWarning, match="No space left") as told:
            _same(_solve(path), whole["variational"])
    assert "the one of step 300 is kept, the run goes on" in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _same(_solve(path), whole["variational"])  # from the last good part
    assert carom.load(path).num_steps == 1000


def test_ctrl_c_keeps_what_was_computed(whole, tmp_path, monkeypatch, ctrl_c):
    solver = sys.modules["carom.running.chunked_run"]
    real, calls = solver._chunk._kept.call, []

    def press(*arguments):
        calls.append(0)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return real(*arguments)

    path = tmp_path / "run.zarr"
    with monkeypatch.context() as patch:
        patch.setattr(solver._chunk._kept, "call", press)
        part = _solve(path, stride=1)
    assert part.status.name == "interrupted" and part.status.ok and part.num_steps == 300
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert interrupts.heard() is not None  # a run right after it would not start; one by hand does
    _same(_solve(path, stride=1), BALL.solve(TRAPEZOIDAL, num_steps=1000))


# -- in earnest ----------------------------------------------------------------------------------------------------------

SCRIPT = """
import sys, carom
ball = carom.models.particle()
print("here", flush=True)
ball.solve(carom.VariationalCollision(carom.Trapezoidal()), num_steps=600_000, stride=10, checkpoint=sys.argv[1], every=1_000)
"""


def _kill_and_resume(path: Path, moments: list[float]) -> None:
    """Start the run in a process of its own, kill it after so many seconds of running, again and again, then let it end."""
    parts, killed = path.with_name(path.name + ".parts") / "manifest.json", 0
    for moment in [*moments, None]:
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline()
        if moment is None:
            assert process.wait(120) == 0 and killed > 0
            return
        before, deadline = parts.read_bytes() if parts.exists() else b"", time.monotonic() + 60
        while (not parts.exists() or parts.read_bytes() == before) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)  # it compiles; then it runs
        time.sleep(moment)
        process.kill()  # nothing, where a fast machine has come to the end
        killed += process.wait() != 0


def _check_kills(tmp_path: Path, moments: list[float]) -> None:
    _kill_and_resume(tmp_path / "killed.zarr", moments)
    reference = BALL.solve(TRAPEZOIDAL, num_steps=600_000, stride=10, checkpoint=tmp_path / "whole.zarr", every=1_000)
    _same(carom.load(tmp_path / "killed.zarr", system=BALL.system), reference)


@pytest.mark.stress
def test_killed_for_good(tmp_path):
    _check_kills(tmp_path, [0.2])


@pytest.mark.stress
def test_killed_ten_times(tmp_path):
    _check_kills(tmp_path, [random.Random(seed).uniform(0, 0.35) for seed in range(10)])
