"""Algorithm 3.4 of [schindler2014] alone, beside what `TimeDG` makes of it."""

import numpy as np
import pytest

import carom

GRAVITY, RESTITUTION = 2.0, 0.5  # as in Problem 4.4
PRINTED, OURS = carom.TimeDG(1, printed=True), carom.TimeDG(1)


def ball(restitution=RESTITUTION, force=None):
    push = (
        (lambda q, v, t: 0.5 * v @ v - GRAVITY * q[0] - 10 * t**2 * q[0]) if force else (lambda q, v: 0.5 * v @ v - GRAVITY * q[0])
    )
    return carom.System(push, [carom.Contact(lambda q: q[0], restitution=restitution)])


def by_hand(q, v, dt, steps, restitution=RESTITUTION):
    """The algorithm in plain numbers: one ball of mass 1 over a floor."""

    def force(q, v):  # of the floor, at acceleration level
        return GRAVITY if q <= 1e-15 and v <= 1e-15 else 0.0

    out = [(q, v)]
    for _ in range(steps):
        first = -GRAVITY + force(q, v)
        forecast = v + dt * first
        q = q + dt / 2 * (v + forecast)
        v = v + dt / 2 * (first - GRAVITY + force(q, forecast))
        v = -restitution * v if q <= 0 and v < 0 else v
        out.append((q, v))
    return np.array(out)


def test_it_is_the_algorithm():
    """Through impacts, their accumulation and what follows."""
    run = carom.solve(ball(), PRINTED, [1.0], [0.0], dt=0.01, num_steps=600)
    exact = by_hand(1.0, 0.0, 0.01, 600)
    np.testing.assert_allclose(run.q[:, 0], exact[:, 0], atol=1e-12)  # rounding over 600 steps
    np.testing.assert_allclose(run.v[:, 0], exact[:, 1], atol=1e-12)


def test_what_differs_rest_and_penetration():
    """A ball that should rest from t = 3 on: ours rests to rounding. To the letter, each step starts with u = e g h / (2(1 + e)),
    is forecast to fall, u − g h, stopped by half of its weight, u − g h/2, and struck, −e (u − g h/2) = u. So it sinks."""
    for dt in (0.01, 0.005):
        runs = [carom.solve(ball(), m, [1.0], [0.0], dt=dt, num_steps=round(9 / dt)) for m in (PRINTED, OURS)]
        printed, ours = (run.q[[round(5 / dt), -1], 0] for run in runs)
        assert np.all(np.abs(ours) < 1e-14) and abs(runs[1].v[-1, 0]) < 1e-14
        kept = 2 * (1 + RESTITUTION)
        assert -np.diff(printed)[0] / 4.0 == pytest.approx(GRAVITY * dt / kept, rel=1e-9)
        assert runs[0].v[-1, 0] == pytest.approx(RESTITUTION * GRAVITY * dt / kept, rel=1e-9)


def test_what_does_not_differ():
    """Free flight and a contact that presses from the start: the same numbers, so the orders of the paper are those of both."""
    flight = [carom.solve(ball(force=True), m, [9.0], [1.0], dt=0.02, num_steps=40) for m in (PRINTED, OURS)]
    np.testing.assert_allclose(flight[0].q, flight[1].q, atol=1e-13)
    pressed = [carom.solve(ball(force=True), m, [0.0], [0.0], dt=0.02, num_steps=40) for m in (PRINTED, OURS)]
    t = np.linspace(0.1, 0.7, 5)
    np.testing.assert_allclose(pressed[0].dense.interaction(t), pressed[1].dense.interaction(t), atol=1e-13)
    assert np.max(np.abs(pressed[0].dense.interaction(t)[:, 0] - (GRAVITY * t + 10 * t**3 / 3))) < 1e-3


def test_declared_and_refused():
    assert PRINTED.preserves == () and OURS.preserves == ("rest", "non-penetration") and PRINTED.order == 2
    for wrong in ({"degree": 2}, {"side": "+"}, {"simultaneous": "reflections"}, {"degree": [1, 1]}):
        with pytest.raises(carom.InputError, match=r"Algorithm 3\.4"):
            carom.TimeDG(**wrong, printed=True)
    rough = carom.System(
        lambda q, v: 0.5 * v @ v, [carom.Contact(lambda q: q[0], restitution=0.0, friction=0.1, slip=lambda q: q[1])]
    )
    with pytest.raises(carom.InputError, match=r"leave printed=True out"):
        carom.solve(rough, PRINTED, [1.0, 0.0], [0.0, 0.0], dt=0.1, num_steps=2)
