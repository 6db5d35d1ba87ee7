"""Ctrl-C ends a sweep at once, and what was half done is not recorded as done."""

import os
import signal
import subprocess
import sys

import pytest

import carom
from carom.running import interrupts

pytestmark = [pytest.mark.skipif(os.name != "posix", reason="signals"), pytest.mark.usefixtures("ctrl_c")]

WAITING = """
import os, signal, sys, time
from carom.many.processes import Processes
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    with Processes(1) as pool:
        work = pool.submit(time.sleep, 600)
        time.sleep(float(sys.argv[1]))
        os.killpg(0, signal.SIGINT)  # as a terminal does: to all of them
        work.result()
except KeyboardInterrupt:
    print("told")
"""


def press_once():
    pressed = []

    def callback(_):
        if not pressed:
            pressed.append(True)
            os.kill(os.getpid(), signal.SIGINT)

    return callback


def test_a_point_that_was_interrupted_is_no_point():
    with pytest.raises(KeyboardInterrupt):
        carom.sweep("particle", {"gravity": [1.0, 2.0]}, workers=0, num_steps=200, callback=press_once(), callback_every=10)
    again = carom.sweep("particle", {"gravity": [1.0, 2.0]}, workers=0, num_steps=200)
    assert again["status"].values.tolist() == ["ok", "ok"]


def test_a_run_that_ends_before_it_looks_still_stops_the_sweep():
    with pytest.raises(KeyboardInterrupt):
        carom.sweep("particle", {"gravity": [1.0, 2.0]}, workers=0, num_steps=200, callback=press_once())


def test_a_loop_of_runs_ends(monkeypatch):
    """Each of them would be finished, or returned as interrupted, and the next one would begin."""
    particle, runs = carom.models.particle(), []
    with pytest.raises(KeyboardInterrupt, match="in the run before this one"):
        for _ in range(3):
            runs.append(particle.solve(num_steps=200, callback=press_once()))
    assert len(runs) == 1 and runs[0].status.name == "ok"
    particle.solve(num_steps=200, callback=press_once())
    monkeypatch.setattr(interrupts, "SOON", 0.0)  # as if time had passed
    assert particle.solve(num_steps=200).status.name == "ok"


def test_a_loop_of_worlds_ends():
    world, runs = carom.World(gravity=(0, -9.81)), []
    world.add(carom.shapes.Disc(0.1), density=1, position=(0, 0))
    with pytest.raises(KeyboardInterrupt, match="in the run before this one"):
        for _ in range(3):
            runs.append(world.solve(0.01, 100, callback=press_once(), callback_every=10))
    assert len(runs) == 1 and runs[0].status.name == "interrupted" and runs[0].t[-1] == 10 * 0.01


def test_control_a_run_that_was_interrupted_says_so():
    run = carom.models.particle().solve(num_steps=400, callback=press_once(), callback_every=10)
    assert run.status.name == "interrupted" and len(run.t) < 401


@pytest.mark.parametrize("wait", [0.05, 3.0])  # while the process is being loaded, and while it works
def test_processes_end_without_a_word(wait):
    done = subprocess.run([sys.executable, "-c", WAITING, str(wait)], capture_output=True, timeout=120, start_new_session=True)
    assert done.stdout == b"told\n" and done.stderr == b"" and done.returncode == 0
