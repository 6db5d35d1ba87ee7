"""The command line, as a person and as a script meet it."""

import json
import os
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import carom
from carom.cli import commands as cli
from carom.cli import reproducing
from carom.cli.parsing import build_rule
from carom.running import progress

RUN = ["run", "corner", "--rule", "trapezoidal", "--steps", "200"]  # compiles once for this file
REST = [*RUN[:-1], "250", "--set", "restitution=0.2"]  # comes to rest within these steps


def call(*arguments):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments])


def test_list_shows_every_model_with_its_source():
    result = call("list")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in (*carom.models.ALL, *carom.models.SCENES))
    assert "fetecau2003" in result.stdout
    told = json.loads(call("list", "--json").stdout)
    assert (
        list(told) == [*carom.models.ALL, *carom.models.SCENES]
        and told["dice"]["parameters"]["count"] == 3
        and told["cradle"]["parameters"]["n"] == 3
    )
    portrait = call("list", "cradle").stdout
    assert "spacing" in portrait and "(−1/3, 2/3, 2/3)" in portrait


def test_run_shows_a_summary():
    result = call(*RUN)
    assert result.exit_code == 0, result.stderr
    for word in ("corner", "trapezoidal (order 2)", "impacts", "energy", "fallbacks", "compiling", "ok"):
        assert word in result.stdout


def test_json_is_one_object_and_nothing_else(tmp_path):
    result = call(*RUN, "--json", "--out", tmp_path)
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert result.stdout.count("\n") == 1
    wanted = {"impacts", "steps", "energy_error_max", "energy_drift", "fallbacks", "seconds", "compile_seconds", "status", "params"}
    assert wanted <= set(told)
    assert told["status"] == "ok" and told["steps"] == 200 and told["impacts"] == 2 and told["params"]["gravity"] == 9.81


def test_out_holds_the_run_its_report_and_pictures(tmp_path):
    out = tmp_path / "deep" / "out"
    result = call(*RUN, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert all(name in result.stdout for name in ("run.zarr", "run.html", "run.png"))
    run = carom.load(out / "run.zarr")
    assert run.t.shape == (201,) and run.q.shape == run.p.shape == run.v.shape == (201, 2) and len(run.impacts) == 2
    assert run.impacts.names == ("wall[0]", "wall[1]")
    assert json.loads((out / "summary.json").read_text())["impacts"] == 2
    for picture in ("run.png", "motion.png"):
        assert (out / picture).read_bytes().startswith(b"\x89PNG")
    assert (out / "run.html").read_text().startswith("<!doctype html>")
    again = call("report", out / "run.zarr", "--out", tmp_path / "again.html", "--title", "again & again")
    assert again.exit_code == 0 and again.stdout.strip() == str(tmp_path / "again.html")
    assert '<h1 id="title">again &amp; again</h1>' in (tmp_path / "again.html").read_text()


def test_out_can_be_one_file(tmp_path):
    result = call(*RUN, "--out", tmp_path / "corner.nc", "--json")
    assert result.exit_code == 0, result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["corner.nc"] and carom.load(tmp_path / "corner.nc").num_steps == 200


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    for _ in range(2):
        told = json.loads(call(*RUN, "--json", "--checkpoint", tmp_path / "run.zarr").stdout)
        assert told["steps"] == 200 and carom.load(tmp_path / "run.zarr").num_steps == 200
    foreign = call(*RUN, "--checkpoint", tmp_path / "run.zarr", "--dt", "0.02")
    assert foreign.exit_code == 2 and "dt differs" in foreign.stderr


def test_ctrl_c_shows_and_writes_what_there_is(tmp_path, monkeypatch, ctrl_c):
    solver = sys.modules["carom.running.chunked_run"]
    real = solver._chunk._kept.call
    press = lambda *arguments: (os.kill(os.getpid(), signal.SIGINT), real(*arguments))[1]  # noqa: E731
    monkeypatch.setattr(solver.March, "compile", lambda march: None)
    monkeypatch.setattr(solver._chunk._kept, "call", press)
    monkeypatch.setattr(solver, "_chunk_length", lambda total, n: 256)
    result = call(*RUN[:-1], "600", "--out", tmp_path / "run.zarr")
    assert result.exit_code == 130 and "interrupted at step 256" in result.stderr
    assert carom.load(tmp_path / "run.zarr").num_steps == 256


def test_ctrl_c_while_the_results_are_written_is_told(tmp_path, monkeypatch):
    """It ended in silence."""

    def press(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(carom.Solution, "report", press)
    result = call(*RUN, "--out", tmp_path / "all")
    assert result.exit_code == 130 and f"what was ready is in {tmp_path / 'all'}" in result.stderr.replace("\n", "")
    assert carom.load(tmp_path / "all" / "run.zarr").num_steps == 200
    alone = call(*RUN, "--out", tmp_path / "run.html")
    assert alone.exit_code == 130 and "nothing is written" in alone.stderr


def test_a_run_that_fails_midway_says_so_and_keeps_what_it_has(tmp_path):
    result = call(*REST, "--json", "--out", tmp_path)
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert told["status"] == "too_many_impacts" and 0 < told["steps"] < 250
    assert "coming to rest" in result.stderr
    assert len(carom.load(tmp_path / "run.zarr").t) == told["steps"] + 1
    assert (tmp_path / "run.png").exists()


def test_settings_reach_the_physics():
    """Arguments of the factory (height) and parameters (gravity); a fall from four times the height takes twice as long."""
    low, high = (json.loads(call(*RUN, "--json", "--set", f"height={h}").stdout) for h in (0.5, 2))
    assert low["impacts"] > high["impacts"]
    weak = json.loads(call(*RUN, "--json", "--set", "gravity=1.62").stdout)
    assert weak["params"]["gravity"] == 1.62 and weak["impacts"] < low["impacts"]


def test_impacts_end_a_run_and_too_few_are_noted():
    told = json.loads(call("run", "corner", "--rule", "trapezoidal", "--impacts", "1", "--steps", "250", "--json").stdout)
    assert told["impacts"] == 1 and told["status"] == "impacts_reached" and told["steps"] < 100
    result = call(*RUN, "--impacts", "50")
    assert result.exit_code == 0 and "only 2 of 50 impacts" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "sta"], "did you mean 'star'"),
        (["list", "conrer"], "did you mean 'corner'"),
        ([*RUN, "--set", "gravty=1"], "did you mean 'gravity'"),
        ([*RUN, "--set", "gravity=heavy"], "is not a number"),
        ([*RUN, "--set", "gravity=[1, 2]"], "is not a number"),
        ([*RUN, "--set", "gravity"], "name=value"),
        (["run", "cradle", "--set", "n=1"], "a whole number of at least 2"),
        (["run", "star", "--rule", "trapezoid"], "did you mean 'trapezoidal'"),
        (["run", "star", "--method", "moreaux"], "did you mean 'moreau'"),
        (["sweep", "star", "--vary", "mass=1,2", "--out", "x.zarr", "--method", "moreaux"], "did you mean 'moreau'"),
        (["run", "star", "--rule", "gamma"], "gamma:0.3"),
        (["run", "star", "--rule", "gamma:2"], "a number between 0 and 1"),
        (["run", "star", "--rule", "galerkin:x"], "galerkin:x: 'x' is not a whole number"),
        (["run", "star", "--rule", "composition:5"], "4, 6, 8"),
        (["run", "star", "--rule", "composition:4:left"], "symmetric"),
        (["run", "star", "--rule", "midpoint:2"], "nothing after the colon"),
        ([*RUN, "--simultaneous", "both"], "reflections, impulse"),
        ([*RUN, "--dt", "-1"], "dt must be a positive number"),
        ([*RUN[:-1], "0"], "positive whole number"),
        ([*RUN, "--set", "height=-1"], "inside an obstacle"),
        ([*RUN, "--out", __file__], "there is no format .py"),
        (["report", "nowhere.zarr"], "there is no nowhere.zarr"),
        (["report", __file__], "is not a carom run"),
    ],
)
def test_bad_input_is_told_what_to_try(arguments, message):
    result = call(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr.replace("\n", " ")
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("text", "order", "name"),
    [
        ("trapezoidal", 2, "Trapezoidal"),
        ("Midpoint", 2, "Midpoint"),
        ("left", 1, "Left"),
        ("right", 1, "Right"),
        ("gamma:0.3", 1, "Gamma"),
        ("galerkin:3", 6, "Galerkin"),
        ("composition:6", 6, "Composition"),
        ("composition:4:midpoint", 4, "Composition"),
    ],
)
def test_rules_by_name(text, order, name):
    rule = build_rule(text)
    assert rule.order == order and type(rule).__name__ == name
    if name == "Composition":
        assert type(rule.base).__name__ == ("Midpoint" if "midpoint" in text else "Trapezoidal")


def test_demo_tells_the_rules_apart(tmp_path):
    result = call("demo", "--out", tmp_path, "--impacts", "20")
    assert result.exit_code == 0, result.stderr
    assert "trapezoidal (order 2)" in result.stdout and "composition (order 4)" in result.stdout
    for picture in ("star-energy.png", "star.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    page = tmp_path / "star.html"
    assert page.as_uri() in result.stdout.replace("\n", "") and "20 impacts" in page.read_text()


def test_completion_knows_the_models_and_pipes_may_close():
    assert "star" in cli._complete_model("st") and cli._complete_model("zzz") == []
    assert "--show-completion" in call("--help").stdout
    shell = f"{sys.executable} -m carom.cli list --json | head -c 5; exit ${{PIPESTATUS[0]}}"
    own = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }  # XLA complains of the tests' own cache on some processors
    process = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, env=own)
    assert process.stderr == "" and len(process.stdout) == 5


def test_version_and_help_from_a_shell():
    version = subprocess.run([sys.executable, "-m", "carom.cli", "--version"], capture_output=True, text=True, check=True)
    assert version.stdout == f"carom {carom.__version__}\n"
    assert "carom run star" in call("run", "--help").stdout


def test_the_module_is_the_command():
    """For those whose scripts folder is not on the path."""
    told = subprocess.run([sys.executable, "-m", "carom", "--version"], capture_output=True, text=True, timeout=120)
    assert told.returncode == 0 and told.stdout.strip().endswith(carom.__version__), told.stderr


def test_what_is_reproduced_says_how_long_it_will_take(monkeypatch):
    monkeypatch.setattr(reproducing.time, "perf_counter", lambda: 130.0)
    assert reproducing._ahead(4, 12, 10.0) == "  (2/min, about 4 min left)"  # four in two minutes, eight to go
    assert reproducing._ahead(10, 12, 10.0) == "  (5/min, about 24 s left)"
    assert reproducing._ahead(0, 12, 10.0) == reproducing._ahead(12, 12, 10.0) == ""


def test_a_bar_says_how_many_a_second_or_a_minute(monkeypatch):
    clock = iter([0.0, 0.0, 10.0, 20.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    bar = progress.Bar(False)
    assert [bar._rate(count) for count in (0, 50, 5)] == ["", "5/s", "15.0/min"]
