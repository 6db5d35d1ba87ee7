"""The comparison of scenes of bodies measures what it says, and tells of tools that are not there."""

import numpy as np

from benchmarks import bodies_tools
from benchmarks.bodies_side import BALL, scene


def test_depth_and_drift_are_those_of_the_positions():
    start = np.array(scene("stack")["places"])
    sunk = start.copy()
    sunk[4:, 2] -= 1e-3  # the upper six have sunk into the fourth
    frames = np.stack([start, sunk])
    assert bodies_tools.penetration("stack", start[None]) < 1e-15  # control
    assert abs(bodies_tools.penetration("stack", frames) - 1e-3) < 1e-15
    assert abs(bodies_tools.drift("stack", frames) - 1e-3) < 1e-15
    balls = np.array([[(0, 0, BALL), (0, 2 * BALL - 0.01, BALL)], [(0, 0, BALL), (0.2, 0, 1.0)]], float)
    assert abs(bodies_tools.penetration("balls", balls[:1]) - 0.01) < 1e-15
    assert abs(bodies_tools.penetration("balls", balls[1:]) - BALL) < 1e-15  # in the wall
    assert abs(bodies_tools.drift("slide", np.array([[(0, 0, 0.05)], [(3.0, 0, 0.05)]])) - 0.6697247706422017) < 1e-12


def test_carom_stands_still_and_a_missing_tool_is_a_row(monkeypatch):
    found = bodies_tools.carom_side("stack", 2, 20)
    assert bodies_tools.drift("stack", np.asarray(found["frames"])) == 0.0 and found["own_residual"] < 1e-12
    monkeypatch.setenv("PEERS_PYTHON", "/nowhere/python")
    told = bodies_tools.row("MuJoCo", "stack", bodies_tools.peer("MuJoCo", "stack", 20), 20)
    assert told.startswith("| MuJoCo |") and "/nowhere/python" in told
