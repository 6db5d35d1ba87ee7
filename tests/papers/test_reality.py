"""The studies of measured data, on data that are made up: what was put in must come out."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import carom
from carom.bodies import quaternions
from carom.papers import measured_impacts as mi
from carom.papers import tosses as study

EPS = float(np.finfo(float).eps)


def _impacts(count: int = 60, law: str = "newton", restitution: float = 0.55, friction: float = 0.17) -> mi.Impacts:
    """Impacts of an ellipse in all positions, that follow a law exactly."""
    rng = np.random.default_rng(3)
    angle = rng.uniform(0, np.pi, count)
    a, b = mi.AXES
    height = np.hypot(a * np.sin(angle), b * np.cos(angle))
    beside = -(a * a - b * b) * np.sin(angle) * np.cos(angle) / height
    one, zero = np.ones(count), np.zeros(count)
    before = np.stack([rng.uniform(-1, 1, count), rng.uniform(-3, -2, count), rng.uniform(-10, 10, count)], axis=1)
    masses = np.array([1.0, 1.0, (a * a + b * b) / 4])
    start = mi.Impacts(before, before, np.stack([zero, one, beside], axis=1), np.stack([one, zero, height], axis=1), masses)
    start = start.take(np.sum(start.normal * before, axis=1) < 0)
    return replace(start, after=mi.predict(law, start, restitution, friction))


@pytest.mark.parametrize("law", ["newton", "poisson"])
def test_the_fit_finds_the_coefficients_that_were_put_in(law):
    found = mi.fit(law, _impacts(law=law))
    width = 2 * (1.5 * 2 / (mi.COARSE - 1)) ** (mi.ROUNDS - 1) / (mi.COARSE - 1)  # of the last grid
    assert found == pytest.approx({"restitution": 0.55, "friction": 0.17}, abs=width)


def test_the_law_that_made_the_impacts_wins_and_nothing_beats_any_impulse():
    results = {r.law: float(np.mean(r.errors)) for r in mi.compare(_impacts())}
    assert results["newton"] < 0.3 * results["frictionless"] < results["elastic"]
    assert results["any impulse"] < 100 * EPS <= results["newton"]


def test_laws_push_add_no_energy_and_stay_in_the_cone():
    made = _impacts(400, friction=0.4)
    for law in ("newton", "poisson"):
        change = (mi.predict(law, made, 0.9, 0.4) - made.before) * made.masses
        push, hold = change[:, 1], change[:, 0]  # the rows of normal and tangent are (0, 1, ·) and (1, 0, ·)
        assert np.all(push > 0) and np.all(np.abs(hold) <= 0.4 * push * (1 + 1e-9))
    energy = lambda v: np.sum(made.masses * v**2, axis=1)  # noqa: E731
    assert np.all(energy(mi.predict("newton", made, 1.0, 0.4)) <= energy(made.before) * (1 + 1e-12))


@pytest.mark.stress
def test_the_closed_form_is_the_law_of_the_library():
    """`carom.impact_map`, impact by impact: sticking, sliding both ways, and one that would gain energy."""
    import jax.numpy as jnp

    made = _impacts(6, friction=0.2)
    expected = mi.predict("newton", made, 0.6, 0.2)
    kinds = set()
    for i in range(len(made)):
        normal, tangent, masses = (jnp.asarray(a) for a in (made.normal[i], made.tangent[i], made.masses))
        contact = carom.Contact(lambda q, n=normal: n @ q, 0.6, friction=0.2, slip=lambda v, t=tangent: t @ v)
        system = carom.System(lambda v, m=masses: 0.5 * jnp.sum(m * v**2), [contact])
        after = carom.impact_map(system, 0, np.zeros(3), made.masses * made.before[i]) / made.masses
        np.testing.assert_allclose(after, expected[i], rtol=1e-9, atol=1e-9)
        kinds.add(int(np.sign(np.round(made.tangent[i] @ expected[i], 9))))
    assert len(kinds) >= 2


def test_a_file_with_the_wrong_sign_of_the_levers_is_read_right(tmp_path):
    made = _impacts()
    states = np.concatenate([0 * made.before, made.before, 0 * made.before, made.after], axis=1)
    flags = np.zeros((len(made), 6), np.uint8)
    flags[0, 2] = 1
    for sign in (1.0, -1.0):
        path = tmp_path / f"impacts{sign}.npz"
        np.savez(path, states=states, normal=made.normal, tangent=made.tangent * (1, 1, sign), flags=flags)
        read = mi.load_impacts(path)
        assert len(read) == len(made) - 1 and read.reversed == (sign < 0)
        np.testing.assert_array_equal(read.tangent, made.tangent[1:])
    with pytest.raises(carom.InputError, match="no file of impacts"):
        mi.load_impacts(tmp_path / "nothing.npz")


def _toss(number: int = 0, frames: int = 30, friction: float = 0.2, restitution: float = 0.3) -> study.Toss:
    """A toss that a rigid cube made: simulated, then given out as measured."""
    rng = np.random.default_rng(number)
    t = np.arange(frames) / study.RATE
    velocity, spin = np.array([1.0, 0.3, 0.2]), 4 * rng.normal(size=3)
    turn = quaternions.normalise(rng.normal(size=4))
    flight = study.Toss(
        number,
        np.array([quaternions.multiply(quaternions.exponential(spin * s), turn) for s in t]),
        np.array([(0, 0, 0.13) + velocity * s - 0.5 * study.GRAVITY * s**2 * np.array([0, 0, 1]) for s in t]),
    )
    return study.Toss(number, *study.simulate(flight, friction, restitution))


def test_a_flight_tells_its_velocity_and_spin():
    toss = _toss()
    velocity, spin = study.flight(toss)
    np.testing.assert_allclose(velocity, [1.0, 0.3, 0.2], atol=1e-9)
    np.testing.assert_allclose(spin, 4 * np.random.default_rng(0).normal(size=3), atol=1e-9)


def test_the_right_coefficients_leave_no_error_and_others_do():
    toss = _toss()
    right, wrong = (study.errors(toss, *study.simulate(toss, *pair)) for pair in ((0.2, 0.3), (0.5, 0.0)))
    assert np.max(right.position) < 1e-7 and np.max(right.angle) < 1e-4  # the rounding of one bounce; arccos near 1
    assert wrong.score > 1e-3


def test_errors_are_distances():
    toss = study.Toss(0, np.tile([1.0, 0, 0, 0], (4, 1)), np.zeros((4, 3)))
    turned = np.tile(quaternions.exponential(np.array([0, 0, 0.5])), (2, 1))
    found = study.errors(toss, turned, np.full((2, 3), study.WIDTH / np.sqrt(3)))
    np.testing.assert_allclose(found.position, 1.0)  # a run that ended early counts with its last pose
    np.testing.assert_allclose(found.angle, np.degrees(0.5))


def test_the_commands_write_tables_and_pictures(tmp_path, monkeypatch):
    from carom.cli.commands import app

    made = _impacts()
    states = np.concatenate([0 * made.before, made.before, 0 * made.before, made.after], axis=1)
    np.savez(tmp_path / "impacts.npz", states=states, normal=made.normal, tangent=made.tangent, flags=np.zeros((len(made), 6)))
    told = CliRunner().invoke(app, ["study", "impacts", str(tmp_path / "impacts.npz"), "--out", str(tmp_path), "--json"])
    assert told.exit_code == 0 and json.loads(told.stdout)["laws"]["newton"]["friction"] == pytest.approx(0.17, abs=0.01)
    assert (tmp_path / "impacts.png").stat().st_size > 10_000
    toss = _toss(frames=20)
    rows = np.concatenate([toss.turn, toss.position, np.zeros((20, 6))], axis=1)
    np.savez(tmp_path / "tosses.npz", rows=np.concatenate([rows, rows]), start=[0, 20, 40])
    command = ["study", "tosses", str(tmp_path / "tosses.npz"), "--friction", "0.2", "--restitution", "0.3", "--out", str(tmp_path)]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0 and "ends on the measured face" in told.stdout
    assert json.loads((tmp_path / "tosses.json").read_text())["right_face"] == 1.0
    assert (tmp_path / "tosses.png").stat().st_size > 10_000
    refused = CliRunner().invoke(app, ["study", "tosses", str(tmp_path / "impacts.npz"), "--out", str(tmp_path)])
    assert refused.exit_code == 2 and "no file of tosses" in refused.output
