"""What a command is asked to write, and where: found out before the run, and never answered with a traceback."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import carom
from carom.cli import commands as cli
from carom.cli import writing
from carom.report import movie

RUN = ["run", "corner", "--rule", "trapezoidal", "--steps", "200"]  # as in test_cli.py: compiled once for both


@pytest.fixture
def no_run(monkeypatch):
    def solve(*_, **__):
        raise AssertionError("the run was started")

    monkeypatch.setattr(carom.models.Model, "solve", solve)


def call(*arguments):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments])


def refused(*arguments):
    result = call(*arguments)
    assert result.exit_code == 2 and "Traceback" not in result.stderr, result.stderr
    return result.stderr


def test_a_film_without_its_program_is_refused_before_the_run(tmp_path, no_run, monkeypatch):
    monkeypatch.setattr(movie.shutil, "which", lambda _: None)
    assert "needs the program ffmpeg" in refused(*RUN, "--out", tmp_path / "x.mp4")


def test_control_with_its_program_the_run_is_started(tmp_path, no_run, monkeypatch):
    monkeypatch.setattr(movie.shutil, "which", lambda _: "/usr/bin/ffmpeg")
    assert isinstance(call(*RUN, "--out", tmp_path / "x.mp4").exception, AssertionError)


def test_a_foreign_store_is_refused_before_the_run(tmp_path, no_run):
    (tmp_path / "run.zarr").mkdir()
    (tmp_path / "run.zarr" / "note.txt").write_text("mine")
    assert "is not a carom run" in refused(*RUN, "--out", tmp_path)
    assert "is not a carom run" in refused(*RUN, "--out", tmp_path / "run.zarr")
    assert (tmp_path / "run.zarr" / "note.txt").exists()


@pytest.mark.parametrize("name", ["x.xyz", "x.pdf", "deep/x.csv"])
def test_an_unknown_format_is_no_folder(tmp_path, no_run, name):
    assert f"there is no format {os.path.splitext(name)[1]}; write .zarr" in refused(*RUN, "--out", tmp_path / name)
    assert not (tmp_path / name).exists()


def test_folders_may_have_numbers_and_capitals_are_letters(tmp_path):
    for name in ("v1.2", "plain"):
        writing.check_out(tmp_path / name, True)
        assert (tmp_path / name).is_dir()
    for name in ("x.HTML", "x.Zarr", "x.PNG"):
        writing.check_out(tmp_path / name, True)
        assert writing.is_file(tmp_path / name) and not (tmp_path / name).exists()


def test_html_in_capitals_is_a_file(tmp_path):
    result = call(*RUN, "--out", tmp_path / "x.HTML")
    assert result.exit_code == 0 and (tmp_path / "x.HTML").read_text().startswith("<!doctype html>")


def test_a_file_where_a_folder_is(tmp_path, no_run):
    (tmp_path / "x.html").mkdir()
    assert "is a folder, and a file goes there" in refused(*RUN, "--out", tmp_path / "x.html")


def test_a_sweep_that_cannot_be_written_is_refused():
    assert "folder cannot be made" in refused("sweep", "star", "--vary", "dt=0.01", "--out", "/proc/none/x.zarr")


def test_a_name_that_is_varied_twice_is_refused(tmp_path):
    told = refused("sweep", "star", "--vary", "dt=0.01", "--vary", "dt=0.02", "--out", tmp_path / "x.zarr")
    assert "--vary dt is given twice" in told and not (tmp_path / "x.zarr").exists()


def test_a_sweep_takes_the_method_of_its_model(monkeypatch):
    taken = []
    monkeypatch.setattr(carom.models.Model, "solve", lambda self, method=None, **_: taken.append(method) or 1 / 0)
    for model in ("block", "star"):
        with pytest.raises(carom.SweepError):
            carom.sweep(model, {"dt": [0.01]}, workers=0, retries=0)
    assert isinstance(taken[0], carom.MoreauJean | carom.TimeDG) and isinstance(taken[-1], carom.VariationalCollision)


def test_a_sweep_in_which_nothing_was_run_fails(tmp_path):
    result = call("sweep", "star", "--vary", "dt=-1,-2", "--workers", "0", "--out", tmp_path / "x.zarr")
    assert result.exit_code == 1 and "2 refused" in result.stdout
    assert "no point was run to its end; the first says: dt must be a positive number" in result.stderr


def test_a_terminal_that_knows_only_ascii():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = subprocess.run([sys.executable, "-m", "carom.cli", "list", "cradle"], env=environment, capture_output=True, timeout=120)
    assert done.returncode == 0 and b"Traceback" not in done.stderr and b"spacing" in done.stdout
    assert done.stdout.isascii()


def test_what_ascii_cannot_show_becomes_the_nearest_it_can():
    """A microsecond is "us", not "?s"; signs that have no such thing stay question marks."""
    code = "from carom.cli.terminal import speak_plainly; speak_plainly(); print('§4, 3 µs, θ ≤ π/2, 10², é, – 日')"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, timeout=120
    )
    assert done.stdout.decode("ascii").strip() == "sec. 4, 3 us, theta <= pi/2, 10^2, e, - ?"


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_while_loading_leaves_quietly():
    def loading(process) -> bool:
        return "numpy" in Path(f"/proc/{process.pid}/maps").read_text() if Path("/proc/self/maps").exists() else False

    as_from_a_terminal = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
        "os.execv(sys.executable, [sys.executable, '-m', 'carom.cli', 'list', '--json'])"
    )
    for more in (0.0, 0.2):
        process = subprocess.Popen([sys.executable, "-c", as_from_a_terminal], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 20
        while not loading(process) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(more)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
        assert b"Traceback" not in said and process.returncode in (0, 1, 130), said.decode()


def test_nothing_is_loaded_before_ctrl_c_is_taken():
    """What is not there as soon as Python is takes time, in which Ctrl-C would come out of the middle of an import."""
    before, taken, _ = (Path(carom.__file__).read_text()).partition("_signal.signal(_signal.SIGINT")
    loaded = re.findall(r"^(?:import|from) (\w+)", before, re.MULTILINE)
    assert taken and sorted(loaded) == ["contextlib", "os", "signal", "sys"]
