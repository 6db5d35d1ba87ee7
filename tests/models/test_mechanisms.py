"""Joints, mechanisms with several contacts, and the command that measures orders."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import carom
from carom import models
from carom.cli.commands import app
from carom.models.pendulums import time_between_impacts
from carom.results.solution import gaps_along

ROPE = carom.Joint(lambda q: 0.5 * (q @ q - 1.0))
WALL = carom.Contact(lambda q: -q[0], 1.0, name="wall")
PENDULUM = carom.System(lambda q, v: 0.5 * v @ v - 9.81 * q[1], [WALL], joints=[ROPE])


def test_a_joint_makes_a_particle_a_pendulum():
    """In Cartesian coordinates, with a wall at its lowest point: half a period, by the arithmetic–geometric mean, between hits."""
    start = [np.sin(-1.0), -np.cos(1.0)]
    half = time_between_impacts(-1.0)
    for method, skew in (
        (carom.MoreauJean(), 0.005 * 10.0 / 2),
        (carom.TimeDG(2), 1e-13),
    ):  # h v²/2: held at mid-step, or at the end
        run = carom.solve(PENDULUM, method, start, [0.0, 0.0], dt=0.005, num_steps=500)
        assert np.max(np.abs(np.hypot(*run.q.T) - 1)) < 1e-14  # the joint holds
        assert np.max(np.abs(np.sum(run.q * run.v, axis=1))) < skew
        assert run.impacts.t[0] == pytest.approx(half / 2, abs=0.006)  # an impact is met up to a step late
    tension = run.record.forces[: int(half / 2 / 0.005) - 1, -1, -1]
    angle = np.arctan2(run.q[1 : len(tension) + 1, 0], -run.q[1 : len(tension) + 1, 1])
    exact = 9.81 * (3 * np.cos(angle) - 2 * np.cos(1.0))  # of a pendulum released at rest
    np.testing.assert_allclose(-tension, exact, atol=1e-4)  # forces at the nodes are of order 3
    free = carom.System(lambda q, v: 0.5 * v @ v - 9.81 * q[1])
    fall = carom.solve(free, carom.MoreauJean(), start, [0.0, 0.0], dt=0.005, num_steps=100)
    assert abs(np.hypot(*fall.q[-1]) - 1) > 0.1  # control: without the joint


@pytest.mark.stress
def test_the_woodpecker_pecks_its_way_down_in_a_limit_cycle():
    run = models.woodpecker().solve()
    pecks = run.impacts.t[run.impacts.contact == 0]
    periods = np.diff(pecks)
    assert len(pecks) == 7 and np.ptp(periods) < 20 * run.dt  # impacts are met up to a step late, and everything after them
    assert np.all(np.diff(run.q[::1461, 0]) < 0)  # it goes down in every period
    loose = models.woodpecker().solve(params={"friction": 0.0})
    assert loose.q[-1, 0] < 5 * run.q[-1, 0]  # control: without friction it falls


@pytest.mark.stress
def test_a_slider_with_clearance_stays_in_its_guide():
    run = models.slider_crank().solve(num_steps=4000)
    # At t = 0.002, before the first impact, the reference file of Siconos' example SliderCrank has these velocities; its step of
    # 1e-4, with the mass of the start of the step, is of first order.
    np.testing.assert_allclose(run.v[200, :2], [120.8242, -56.6803], rtol=5e-3)
    assert len(run.impacts) > 5
    assert carom.diagnostics.penetration(run) < 1e-2 * 0.001  # of the clearance: a step at the speed of approach
    assert np.all(np.diff(run.energy[run.impacts.step + 1]) < 1e-3 * run.energy[0])
    tight = models.slider_crank(clearance=0.0005).solve(num_steps=4000)
    assert tight.impacts.t[0] < run.impacts.t[0] and tight.impacts.impulse[0] < run.impacts.impulse[0]  # less room to gather speed
    model = models.slider_crank()
    params = {name: model.params[name] for name in ("crank", "gravity", "inertias", "masses", "rod")}
    system = carom.System(model.system.lagrangian.function, joints=model.system.joints, space=model.system.space)
    free = carom.solve(system, carom.MoreauJean(), model.q0, model.v0, dt=model.dt, num_steps=4000, params=params)
    gaps = gaps_along(model.system, model.params, free.t, free.q)
    assert gaps.min() < -0.001  # control: without its guide it leaves it


def test_the_command_measures_orders(tmp_path, monkeypatch):
    from carom.papers import studies

    few = [problem for problem in studies.problems() if problem.key in ("4.3", "press")]
    monkeypatch.setattr(studies, "problems", lambda: few)
    monkeypatch.setattr("carom.papers.convergence.problems", lambda: few)
    result = CliRunner().invoke(app, ["study", "convergence", "--degrees", "1", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "Moreau–Jean" in result.output and "2.0" in result.output
    numbers = json.loads((tmp_path / "convergence.json").read_text())
    assert len(numbers) == 3 * len(few) and (tmp_path / "convergence.png").stat().st_size > 10_000
    orders = {(row["method"], row["problem"]): row["orders"]["i"] for row in numbers}
    assert orders["D− M=1", "4.3"] == pytest.approx(2.0, abs=0.02)
    bad = CliRunner().invoke(app, ["run", "zeno_ball", "--rule", "time_dg:x"])
    assert bad.exit_code == 2 and "time_dg:2:+" in bad.output
