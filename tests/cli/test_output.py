"""A full disk under the output, and settings that are given twice."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from carom.cli import commands as cli

QUIET = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}  # XLA's own lines about programs in a cache that JAX was given


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_is_told_in_a_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "carom.cli", "list"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, env=QUIET
        )
    assert done.returncode == 1 and done.stderr == "error: the output cannot be written: No space left on device\n"


def test_control_a_reader_that_has_seen_enough_is_no_error():
    command = f"{sys.executable} -m carom.cli list | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, env=QUIET)
    assert done.returncode == 0 and done.stderr == ""


def test_a_setting_that_is_given_twice_is_refused():
    """The first was dropped without a word."""
    for twice in (["gravity=1", "gravity=2"], ["restitution=1", "gravity=1", "restitution=1"]):
        result = CliRunner().invoke(cli.app, ["run", "particle", *(x for text in twice for x in ("--set", text))])
        assert result.exit_code == 2 and f"--set {twice[-1].split('=')[0]} is given twice" in result.stderr
