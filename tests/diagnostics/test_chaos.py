"""Lyapunov exponents and multipliers through impacts, against what is known exactly."""

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TRAPEZOIDAL
from scipy.optimize import brentq

import carom
from carom.diagnostics import bifurcation, lyapunov, periodic_orbit, poincare

RADIUS, DISTANCE = 1.0, 3.0
DISCS = carom.System(
    lambda q, v: 0.5 * v @ v,
    [
        carom.Contact(lambda q: jnp.sqrt(q @ q) - RADIUS, name="left"),
        carom.Contact(lambda q: jnp.sqrt((q[0] - DISTANCE) ** 2 + q[1] ** 2) - RADIUS, name="right"),
    ],
)


def test_a_particle_between_two_discs(tmp_path):
    """It goes to and fro on the line of the centres, unstably: a wavefront with curvature 0 is mapped in one flight L and one
    reflection by (1, L; 2/R, 1 + 2L/R), whose eigenvalues μ, 1/μ satisfy μ + 1/μ = 2 + 2L/R. By symmetry it stays on that line."""
    flight = DISTANCE - 2 * RADIUS
    trace = 2 + 2 * flight / RADIUS
    exact = np.log(trace / 2 + np.sqrt(trace**2 / 4 - 1)) / flight
    found = lyapunov(DISCS, TRAPEZOIDAL, [1.5, 0.0], [1.0, 0.0], dt=0.1, num_steps=2000, every=10)
    assert found.values[0] == pytest.approx(exact, rel=3e-3)  # the frame turns into place once, which costs log(…)/T = 0.4/200
    assert found.values == pytest.approx([exact, 0, 0, -exact], abs=0.05)  # pairs, and two directions that do not part: log T / T
    assert abs(found.values.sum()) < 1e-9  # volume is kept
    late = (found.so_far[-1] * 200 - found.so_far[99] * 100)[0] / 100
    assert late == pytest.approx(exact, rel=1e-9)  # once in place, to rounding
    figure = found.plot(tmp_path / "settled.png")
    assert (tmp_path / "settled.png").read_bytes().startswith(b"\x89PNG")
    assert np.array_equal(figure.axes[0].lines[0].get_ydata(), found.so_far[:, 0])
    assert repr(found).startswith("Lyapunov exponents 1.3") and repr(found).endswith("at t = 200, after 200 impacts")


# -- a ball on a vibrating table -----------------------------------------------------------------------------------------

E = 0.5
TABLE = carom.System(
    lambda q, v: 0.5 * v @ v - q[0],  # gravity 1, the table swings with frequency 1: Γ is its amplitude
    [carom.Contact(lambda q, t, params: q[0] - params["gamma"] * jnp.sin(t), E, name="table")],
)
PERIOD = 2 * np.pi


def bouncing(gamma, guess=None):
    """One impact in each period, at the phase with Γ cos φ = π (1 − e)/(1 + e); it leaves with speed π."""
    phase = np.arccos(np.pi * (1 - E) / (1 + E) / gamma)
    speed = np.pi
    start = [gamma * np.sin(phase) + speed * 0.5 - 0.125], [speed - 0.5]
    q0, v0 = start if guess is None else guess
    return periodic_orbit(
        TABLE, TRAPEZOIDAL, q0, v0, dt=PERIOD / 64, num_steps=64, params={"gamma": gamma}, t0=float(phase) + 0.5, max_impacts=4
    )


def test_the_period_doubles_where_it_must():
    """Γ₂ = √((π(1 − e)/(1 + e))² + (2(1 + e²)/(1 + e)²)²) = 1.5268237 at e = 0.5, where a multiplier is −1; det Φ' = e² always."""
    first, second = np.pi * (1 - E) / (1 + E), 2 * (1 + E**2) / (1 + E) ** 2
    exact = np.hypot(first, second)
    assert exact == pytest.approx(1.5268237, abs=5e-8)

    def beyond(gamma):
        return float(np.min(bouncing(gamma).multipliers.real)) + 1

    below, above = bouncing(1.45), bouncing(1.6)
    assert below.stable and not above.stable and below.impacts == above.impacts == 1
    assert np.linalg.det(below.jacobian) == pytest.approx(E**2, rel=1e-9)
    assert brentq(beyond, 1.45, 1.6, xtol=1e-10) == pytest.approx(exact, abs=1e-6)


def test_the_section_of_an_oscillator_is_a_point(tmp_path):
    oscillator = carom.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q)
    method = carom.VariationalCollision(carom.Composition(carom.Trapezoidal(), 4))
    run = carom.solve(oscillator, method, [1.0], [0.0], dt=0.05, num_steps=400)
    up = poincare(run, lambda q: q[0])
    assert len(up.t) == 3 and np.max(np.abs(up.q)) < 1e-12 and np.all(up.v > 0)
    assert np.diff(up.t) == pytest.approx(2 * np.pi, abs=1e-5)  # order 4 at dt = 0.05
    assert len(poincare(run, lambda q: q[0], direction=0).t) == 6 and len(poincare(run, lambda q: q[0] - 5)) == 0
    figure = up.plot(tmp_path / "section.png")
    assert (tmp_path / "section.png").read_bytes().startswith(b"\x89PNG") and repr(up) == "Poincaré section: 3 crossings"
    assert figure.axes[0].get_xlabel() == "q0" and np.array_equal(figure.axes[0].lines[0].get_ydata(), up.v[:, 0])
    with pytest.raises(carom.InputError, match="coordinate must be a number from 0 to 0; got 1"):
        up.plot(coordinate=1)


def test_a_bifurcation_diagram_shows_where_the_period_doubles(tmp_path):
    """Γ = 1.45, 1.5 | 1.56, 1.6 around 1.5268: one state per period, then two; and the one state is where it must be."""
    gammas = [1.45, 1.5, 1.56, 1.6]
    phase = np.arccos(np.pi * (1 - E) / (1 + E) / gammas[0])
    start = [gammas[0] * np.sin(phase) + np.pi * 0.5 - 0.125], [np.pi - 0.5]
    arguments = {"dt": PERIOD / 64, "num_steps": 64, "t0": float(phase) + 0.5, "settle": 300, "keep": 8}
    found = bifurcation(TABLE, TRAPEZOIDAL, *start, vary="gamma", values=gammas, **arguments)
    assert found.ok.all() and found.branches(1e-5).tolist() == [1, 1, 2, 2]
    for i, gamma in enumerate(gammas[:2]):
        at = np.arccos(np.pi * (1 - E) / (1 + E) / gamma)
        since = phase + 0.5 - at
        exact = gamma * np.sin(at) + np.pi * since - since**2 / 2, np.pi - since
        np.testing.assert_allclose([found.q[i, -1, 0], found.v[i, -1, 0]], exact, atol=1e-6)  # multipliers to the 300th power
    assert np.ptp(found.q[3, :, 0]) > 0.05  # the control: two states are far apart
    figure = found.plot(tmp_path / "diagram.png")
    assert "gamma" in figure.axes[1].get_xlabel() and (tmp_path / "diagram.png").stat().st_size > 1000
    for words, changes in {"by its name": {"params": [1.0]}, "finite numbers": {"values": []}, "settle": {"settle": 0}}.items():
        with pytest.raises(carom.InputError, match=words):
            bifurcation(TABLE, TRAPEZOIDAL, *start, **{"vary": "gamma", "values": gammas, **arguments, **changes})


def test_what_maps_of_states_cannot_be_made_of_is_refused():
    spin = carom.System(lambda v: 0.5 * v @ v, space=carom.SO3())
    driven = carom.System(
        lambda v: 0.5 * v @ v, force=lambda u: u, controller=carom.Controller(lambda q, memory: (-q[0], memory), every=1)
    )
    rows = [(spin, [1.0, 0, 0, 0], [0.0, 0, 1.0], "vector spaces"), (driven, [0.0], [1.0], "memory is a state")]
    for system, q0, v0, words in rows:
        for call in (lyapunov, periodic_orbit):
            with pytest.raises(carom.InputError, match=words):
                call(system, TRAPEZOIDAL, q0, v0, dt=0.1, num_steps=10)
