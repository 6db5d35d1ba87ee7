"""The benchmarks run, and what they measure is right, on runs too short to say anything about speed."""

import json
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import __main__ as every
from benchmarks import common, continua, crowds, lanes, lanes_methods, many, scaling, timestepping, tools
from benchmarks.peers import TOOLS
from benchmarks.problems import PARTICLE, STAR
from carom.cli.bench import PARTS

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a part in this process, which keeps its cores; returns its records and its tables."""
    monkeypatch.setattr(common, "pin", lambda: None)

    def run(part, *options):
        part.main(["--tiny", "--out", str(tmp_path), *options])
        name = part.__name__.split(".")[-1]
        return json.loads((tmp_path / f"{name}.json").read_text()), (tmp_path / f"{name}.md").read_text()

    return run


def test_tools(run, tmp_path):
    data, table = run(tools, "--problems", "P1", "--no-peers", "--repeats", "2")
    records = {r["tool"]: r for r in data["records"]}
    assert set(records) == {"carom-4", "carom-2"}
    for record in records.values():
        assert record["impacts"] == 6 and record["penetration"] == 0 and record["rows"] == 501 and record["us_min"] > 0
        assert len(record["seconds"]) == 2 and record["spread"] == (record["max"] - record["min"]) / record["median"]
    assert records["carom-4"]["energy_error"] < 1e-12 < 1e-6 < records["carom-2"]["energy_error"] < 1e-3
    assert data["noise"]["repeats"] == 2 and data["noise"]["load_before"] >= 0 and "2 rounds, load average" in table
    assert "A short run" in table and table.startswith("## P1")
    assert (tmp_path / "speed.png").stat().st_size > 0


def test_timestepping(run, monkeypatch):
    """carom alone: where Siconos is not found its row says so."""
    monkeypatch.setattr(timestepping, "PROBLEMS", {"ball": timestepping.PROBLEMS["ball"]})
    monkeypatch.setattr(timestepping, "siconos_python", lambda: None)
    data, table = run(timestepping)
    ours, theirs = data["records"]
    assert ours["median"] > 0 and len(ours["end"]) == 1 and "median" not in theirs
    assert theirs["skipped"].startswith("failed: Siconos was not found") and "Siconos was not found" in table


def test_ensembles_of_every_method(run, monkeypatch):
    """One row, in its own process; and one of a tool that is not there, with the reason."""
    rows = [lanes_methods.Row("particle", "MoreauJean", 200, 1000), lanes_methods.Row("particle", "MJX", 200, 1000)]
    monkeypatch.setattr(lanes_methods, "ROWS", rows)
    monkeypatch.setattr(lanes_methods, "mjx_python", lambda: sys.executable)
    data, table = run(lanes_methods)
    ours, theirs = data["records"]
    assert ours["failed"] == 0 and ours["rate"] > 0 and ours["first_processor"] > 0
    assert ours["apart"] < 1e-12 and ours["energy_error"] < 1e-13  # ten steps, before the floor: rounding
    assert "particle: MJX" in table
    assert find_spec("mujoco") or "mujoco" in theirs["skipped"]


def test_siconos_agrees_with_carom():
    """The ball of Moreau–Jean for 5 s: one scheme, two programs."""
    if timestepping.siconos_python() is None:
        pytest.skip("Siconos is not installed")
    ours, theirs = (runner("ball", 0.005, 1000)() for runner in (timestepping.carom_runner, timestepping.siconos_runner))
    assert timestepping.distance(ours["start"], theirs["start"]) == 0
    assert timestepping.distance(ours["end"], theirs["end"]) < 1e-10  # rounding, times what the impacts make of it


def test_scaling(run, monkeypatch, tmp_path):
    monkeypatch.setitem(scaling.SIZES, "tiny", {"impacts": (1, 1), "bodies": (1, 2)} if find_spec("numba") else {"impacts": (1, 1)})
    data, table = run(scaling)
    assert data["records"][0]["impacts"] == 10 and "Scaling with the number of impacts" in table
    assert all(r["median"] > 0 for r in data["records"])
    assert (tmp_path / "scaling.png").stat().st_size > 0


@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
def test_continua(run, monkeypatch):
    """With stand-ins that take no time: test_loops.py runs the true ones."""
    solution = SimpleNamespace(seconds=3.0, compile_seconds=0.5)
    monkeypatch.setattr(
        continua, "cases", lambda steps: [("bars, 102 nodes", 1_000_000, lambda: solution, lambda: time.sleep(0.01))]
    )
    data, table = run(continua)
    ours, loop = data["records"]
    assert ours["ratio"] == 3.0 / loop["median"] and loop["median"] >= 0.01
    assert "| bars, 102 nodes: carom | 3 | 3 | 0 % |" in table and "| bars, 102 nodes: numba loop |" in table


@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
def test_many(run, monkeypatch):
    """With a stand-in for the ensembles of carom and without diffrax: both take long to compile, see the stress tests."""
    facts = {"seconds": 0.5, "energy_error_median": 1e-5, "energy_error_max": 1e-4}
    monkeypatch.setattr(lanes, "runner", lambda *case: lambda: facts)
    monkeypatch.setattr(crowds, "diffrax_lanes", lambda *case: 1 / 0)
    data, table = run(many)
    records = {(r["problem"], r["key"]): r for r in data["records"]}
    assert records["P3", "diffrax"]["skipped"] == "failed: division by zero" and "| failed: division by zero |" in table
    ours, limit = records["P3", "trapezoidal"], records["P3", "numba"]
    assert ours["rate"] == 100 * 100 / 0.5 and limit["ratio"] == limit["median"] / 0.5
    assert limit["energy_error_max"] < 1e-13 and "P5: 30 discs" in table
    gas = records["P5", "carom"]
    assert gas["energy_error"] < 1e-13 and gas["smallest_gap"] > -1e-12 and gas["pairs"] > 20
    if find_spec("mujoco"):
        assert -1 < records["P5", "mujoco-0.01"]["smallest_gap"] < 0 < records["P3", "mujoco"]["energy_error_max"] < 0.2


def test_a_tool_that_fails_is_a_row(tmp_path):
    """It says why; the others go on."""

    def fails():
        raise RuntimeError("no good")

    good = common.Case({"problem": "P", "label": "good"}, lambda: lambda: {"seconds": 2.0, "found": 7})
    bad = common.Case({"problem": "P", "label": "bad"}, fails)
    absent = common.Case({"problem": "P", "label": "absent"}, fails, ("a_module_that_is_not_there",))
    calls = iter([{"seconds": 1.0}])
    late = common.Case({"problem": "P", "label": "late"}, lambda: lambda: next(calls))
    records = common.take_turns([bad, absent, late, good], 3)
    rows = [common.row(r, r["label"], lambda r: [f"{r['median']:g}", str(r["found"])], 3) for r in records]
    assert rows[0] == ["bad", "failed: no good", ""] and rows[1] == ["absent", "not installed: a_module_that_is_not_there", ""]
    assert rows[2] == ["late", "failed: StopIteration", ""] and rows[3] == ["good", "2", "7"]
    table = common.Section("Title", ["a", "b", "c"], rows, ["note"]).markdown()
    assert table.startswith("## Title\n\n| a | b | c |\n|---|---|---|\n| bad |") and table.endswith("\n\n- note\n")
    (tmp_path / "many.md").write_text(table)
    assert every.join(tmp_path).startswith("# Results\n") and table in every.join(tmp_path)


def test_a_peer_agrees_with_carom(star_run_4):
    """scipy, where it is installed, on the star before trajectories part: the same impacts and the same states."""
    (tool,) = [tool for tool in TOOLS if tool.key == "scipy"]
    if common.missing(tool.needs):
        pytest.skip("scipy is not installed")
    steps = 700
    run = tool.prepare(STAR, steps)[1]()
    assert run.impacts == np.sum(star_run_4.impacts.t <= steps * STAR.dt) >= 2
    np.testing.assert_allclose(run.q, star_run_4.q[: steps + 1], atol=1e-6)
    assert STAR.energy_error(run.q, run.v) < 1e-12 and STAR.penetration(run.q) == 0


@pytest.mark.skipif(find_spec("mujoco") is None, reason="MuJoCo is not installed")
def test_the_ball_of_mujoco_bounces():
    """It is the ball of P1: exact up to the first impact but for Euler's error g dt t/2; then soft."""
    (tool,) = [tool for tool in TOOLS if tool.key == "mujoco"]
    run = tool.prepare(PARTICLE, 500)[1]()
    t = PARTICLE.dt * np.arange(40)
    np.testing.assert_allclose(run.q[:40, 1], 1 - 9.81 * t * (t + PARTICLE.dt) / 2, atol=1e-12)
    np.testing.assert_allclose(run.q[:, 0], -2 * PARTICLE.dt * np.arange(501), atol=1e-10)
    assert 4 <= run.impacts <= 6 and 0.01 < PARTICLE.penetration(run.q) < 0.1
    assert 1e-3 < PARTICLE.energy_error(run.q, run.v) < 0.1


def test_the_parts_have_one_list():
    assert list(every.PARTS) == list(PARTS)


@pytest.mark.stress
@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
def test_two_ensembles_of_other_tools_agree():
    """The limit and diffrax: the same lanes, the same mean height at the end."""
    limit = crowds.numba_lanes(50, 300)()
    for longest in (None, PARTICLE.dt):
        other = crowds.diffrax_lanes(longest, 50, 300)()
        assert max(limit["energy_error_max"], other["energy_error_max"]) < 1e-12
        assert abs(limit["mean_height"] - other["mean_height"]) < 1e-9


@pytest.mark.stress
def test_all_parts_run(tmp_path):
    """The smallest run of everything, each part in a process of its own."""
    command = [sys.executable, "-m", "benchmarks", "--tiny", "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=600)
    text = (tmp_path / "results.md").read_text()
    data = json.loads((tmp_path / "many.json").read_text())
    (ours,) = [r for r in data["records"] if (r["problem"], r["key"]) == ("P3", "trapezoidal")]
    assert ours["failed"] == 0 and ours["rate"] > 0 and 1e-9 < ours["energy_error_max"] < 1e-2
    for part in PARTS:
        assert (tmp_path / f"{part}.json").exists() and f"Part *{part}*" in text
    assert all(f"\n## {problem}" in text for problem in ("P1", "P2", "P3", "P5"))
