"""A process that was forked after JAX had run has no threads of JAX: it waited for ever, and is told so instead."""

import subprocess
import sys

import pytest

PROGRAM = """
import os, sys, warnings
warnings.simplefilter("ignore")
import carom

METHOD = carom.VariationalCollision(carom.Trapezoidal())
SYSTEM = carom.System(lambda q, v: 0.5 * v @ v - 9.81 * q[1])
solve = lambda: carom.solve(SYSTEM, METHOD, [0.0, 1.0], [0.0, 0.0], dt=0.01, num_steps=5)
world = lambda: carom.World(gravity=(0, -9.81))

def told(call):
    try:
        out = call()
        return str(getattr(out, 'status', out))
    except carom.InputError as error:
        return str(error)

def drop(world):
    world.add(carom.shapes.Disc(0.1), mass=1.0, position=(0, 1))
    return world.solve(0.01, 3).status

run = solve() if sys.argv[1] == "after" else None
child = os.fork()
if child == 0:
    print(told(solve))
    if run is not None:
        print(told(lambda: run.energy))
    print(told(lambda: drop(world())), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def said(when: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, when], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork here")
def test_what_would_wait_for_ever_is_refused_and_worlds_go_on():
    solved, energy, world = said("after")
    assert "forked after JAX had run" in solved and "get_context('spawn')" in solved and "forked after JAX" in energy
    assert world == "all 3 steps were taken"  # a world needs no JAX


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork here")
def test_control_a_fork_before_anything_was_run_is_none_of_these():
    assert said("before") == ["5 steps taken to t = 0.05", "all 3 steps were taken"]
