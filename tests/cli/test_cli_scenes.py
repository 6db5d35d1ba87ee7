"""Worlds of bodies on the command line: they are run, written, watched, and refuse what only systems have."""

import json

import pytest
from typer.testing import CliRunner

import carom
from carom.cli import commands as cli

DICE = ["run", "dice", "--steps", "20", "--set", "count=1"]


def call(*arguments):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments])


def test_a_scene_is_run_and_written(tmp_path):
    result = call(*DICE, "--json", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["steps"] == 20 and told["bodies"] == 1 and told["status"] == "done" and told["params"]["count"] == 1
    run = carom.load(tmp_path / "out" / "run.zarr")
    assert run.names == ("table", "die 1") and run.name == "dice" and told["energy_end"] == pytest.approx(run.energy[-1])
    assert (tmp_path / "out" / "motion.gif").read_bytes()[:4] == b"GIF8" and (tmp_path / "out" / "run.html").exists()
    again = call(*DICE, "--out", tmp_path / "out" / "run.zarr")  # a run of a world may be replaced by another
    assert again.exit_code == 0 and "largest certificate" in again.stdout, again.stderr
    assert call(*DICE, "--out", tmp_path / "die.png").exit_code == 0 and (tmp_path / "die.png").read_bytes()[1:4] == b"PNG"


def test_its_parameters_are_shown():
    told = call("list", "dice").stdout
    assert "friction" in told and "tumble" in told


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([*DICE, "--rule", "left"], "goes with models"),
        ([*DICE, "--impacts", "3"], "goes with models"),
        ([*DICE, "--set", "sides=7"], "has no parameter 'sides'"),
        ([*DICE[:-1], "count=0"], "a positive whole number"),
        ([*DICE, "--live", "--checkpoint", "x.zarr"], "not with --checkpoint"),
        (["sweep", "dice", "--vary", "count=1,2", "--out", "x.zarr"], "world of bodies"),
        (["play", "dcie"], "did you mean 'dice'"),
        (["gallery", "dcie"], "did you mean 'dice'"),
    ],
)
def test_what_cannot_be_is_refused_with_words(arguments, words):
    result = call(*arguments)
    assert result.exit_code == 2 and words in " ".join(result.stderr.split()), result.stderr
