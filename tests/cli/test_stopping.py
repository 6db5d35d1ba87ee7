"""Ctrl-C ends every command with a line, wherever it falls."""

import sys
import time

import pytest
from typer.testing import CliRunner

import carom
from carom.cli import commands as cli
from carom.cli.terminal import hear_every_interrupt


class Dropped:
    """What Python does with an exception in a callback of its garbage collector, it does here, too: it goes on."""

    def __del__(self):
        raise KeyboardInterrupt


def press(*_, **__):
    raise KeyboardInterrupt


def stopped(*arguments):
    result = CliRunner().invoke(cli.app, list(arguments))
    assert result.exit_code == 130 and not result.stdout
    return result.stderr


def test_an_interrupt_that_python_drops_is_sent_again(monkeypatch, ctrl_c):
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # put back at the end
    hear_every_interrupt()
    with pytest.raises(KeyboardInterrupt):
        Dropped()
        time.sleep(20)  # far longer than it takes


def test_control_without_that_it_is_lost(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    Dropped()
    time.sleep(0.05)  # five times as long as it takes to be sent
    assert len(told) == 1


def test_other_errors_that_python_drops_are_told_as_before(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: told.append(dropped.exc_type))
    hear_every_interrupt()

    class Broken:
        def __del__(self):
            raise ZeroDivisionError

    Broken()
    assert told == [ZeroDivisionError]


def test_while_a_model_is_made(monkeypatch):
    monkeypatch.setattr(cli, "build_model", press)
    assert "stopped before it was done" in stopped("run", "star")
    assert "stopped before it was done" in stopped("demo", "--impacts", "6")


def test_while_a_run_is_compiled(monkeypatch, tmp_path):
    monkeypatch.setattr(carom.models.Model, "solve", press)
    assert "stopped; nothing is written" in stopped("run", "star", "--out", str(tmp_path / "run.zarr"))
    assert not list(tmp_path.iterdir())
