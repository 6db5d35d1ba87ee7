"""An option that does not exist is answered with the command that works."""

import shlex

import pytest
from typer.testing import CliRunner

from carom.cli import commands as cli

ANSWERS = [
    ("run star --gravity 3", "carom run star --set gravity=3"),
    ("run star --gravity=3 --steps 5", "carom run star --steps 5 --set gravity=3"),
    ("run --gravity 3 star", "carom run star --set gravity=3"),
    ("run star --gravty 3", "carom run star --set gravity=3"),
    ("run star --gravity", "carom run star --set gravity=VALUE"),
    ("run star --gravity 3 --mass 2", "carom run star --set gravity=3 --set mass=2"),
    ("run star gravity=3", "carom run star --set gravity=3"),
    ("run star --set gravity=3 mass=2", "carom run star --set gravity=3 --set mass=2"),
    ("run dice --friction 0.3", "carom run dice --set friction=0.3"),
    ("run star --step 7", "carom run star --steps 7"),
    ("run star --jsn", "carom run star --json"),
    ("run star --no-progres", "carom run star --no-progress"),
    ("sweep star --gravity 1:3:3 --out x.zarr", "carom sweep star --out x.zarr --vary gravity=1:3:3"),
    ("sweep star gravity=1,2", "carom sweep star --vary gravity=1,2"),
    ("play star --gravity 3", "carom run star --set gravity=3 --live"),
    ("play star --prt 8000", "carom play star --port 8000"),
    ("demo --gravity 3", "carom run star --set gravity=3"),
    ("demo --impact 7", "carom demo --impacts 7"),
]


@pytest.mark.parametrize("written, meant", ANSWERS)
def test_the_command_that_works_is_offered(written, meant):
    result = CliRunner().invoke(cli.app, shlex.split(written))
    assert result.exit_code == 2 and "Traceback" not in result.stderr
    assert result.stderr.strip().endswith(meant) and f"{written.split()[0]} does not take" in result.stderr


@pytest.mark.parametrize("written", ["run star --xyz 3", "run star -g 3", "run star more", "run strr --gravity 3", "demo --zzz"])
def test_control_what_is_like_nothing_is_refused_as_it_is(written):
    result = CliRunner().invoke(cli.app, shlex.split(written))
    assert result.exit_code == 2 and "does not take" not in result.stderr and "Traceback" not in result.stderr


def test_what_is_offered_is_taken(monkeypatch):
    """Each answer, given as a command, reaches the run; a model of its own name is enough to see that."""
    reached = []
    monkeypatch.setattr(cli, "build_model", lambda name, settings: reached.append((name, list(settings))) or 1 / 0)
    for written, meant in ANSWERS:
        if written.startswith("run star") and "VALUE" not in meant:
            CliRunner().invoke(cli.app, shlex.split(meant)[1:])
            assert reached.pop()[0] == "star"
