"""The benchmarks run, and what they measure is right, on a run too short to say anything about speed."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers import TOOLS
from benchmarks.problems import STAR

ROOT = Path(__file__).resolve().parent.parent


def test_the_benchmarks_run(tmp_path):
    """In a process of its own: it stays on one core."""
    options = ["--only", "P1", "--steps", "500", "--repeats", "2", "--cold-repeats", "0", "--no-peers", "--out", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "benchmarks", *options], cwd=ROOT, check=True, capture_output=True, timeout=120)
    records = {r["tool"]: r for r in json.loads((tmp_path / "results.json").read_text())["records"]}
    assert set(records) == {"carom-4", "carom-2"}
    for record in records.values():
        assert record["impacts"] == 6 and record["penetration"] == 0 and record["rows"] == 501 and record["us_min"] > 0
    assert records["carom-4"]["energy_error"] < 1e-12 < 1e-6 < records["carom-2"]["energy_error"] < 1e-3
    assert "a short run" in (tmp_path / "results.md").read_text()
    assert (tmp_path / "speed.png").stat().st_size > 0


def test_a_peer_agrees_with_carom(star_run_4):
    """scipy, where it is installed, on the star before trajectories part: the same impacts and the same states."""
    (tool,) = [tool for tool in TOOLS if tool.key == "scipy"]
    if tool.missing():
        pytest.skip("scipy is not installed")
    steps = 700
    run = tool.prepare(STAR, steps)[1]()
    assert run.impacts == np.sum(star_run_4.impacts.t <= steps * STAR.dt) >= 2
    np.testing.assert_allclose(run.q, star_run_4.q[: steps + 1], atol=1e-6)
    assert STAR.energy_error(run.q, run.v) < 1e-12 and STAR.penetration(run.q) == 0


@pytest.mark.stress
def test_the_benchmarks_of_many_run(tmp_path):
    """P3 and P5, short; what they say beside speed is right."""
    subprocess.run(
        [sys.executable, "-m", "benchmarks.many", "--quick", "--repeats", "1", "--out", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    data = json.loads((tmp_path / "many.json").read_text())
    assert data["lanes"][0]["failed"] == 0 and data["lanes"][0]["rate"] > 0 and "P5" in (tmp_path / "many.md").read_text()
    (gas,) = data["gases"]
    assert gas["energy_error"] < 1e-13 and gas["smallest_gap"] > -1e-12 and gas["pairs"] > 50_000
