"""A law of impact of the user's own: from the speed of approach to that of departure."""

import jax.numpy as jnp
import numpy as np
import pytest

import carom

GRAVITY = 10.0
METHODS = {"VariationalCollision": carom.VariationalCollision(carom.Trapezoidal()), "TimeDG": carom.TimeDG(2)}


def sticky(speed, params):
    """A surface that holds on to what comes slower than loss / kept."""
    return jnp.maximum(params["kept"] * speed - params["loss"], 0.0)


def ball(departure, **more):
    contact = carom.Contact(lambda q: q[0], departure=departure, name="floor", **more)
    return carom.System(lambda q, v: 0.5 * v @ v - GRAVITY * q[0], [contact])


@pytest.mark.parametrize("name", METHODS)
def test_a_ball_on_a_sticky_floor(name):
    """s ← 0.9 s − 0.5 from √20 on: 3.52, 2.67, 1.90, 1.21, 0.59, 0.03, and then it stays: a finite number of impacts, no Zeno."""
    params = {"kept": 0.9, "loss": 0.5}
    run = carom.solve(ball(sticky), METHODS[name], [1.0], [0.0], dt=0.001, num_steps=2600, params=params, throw=False)
    speeds = [np.sqrt(2 * GRAVITY)]
    while (after := 0.9 * speeds[-1] - 0.5) > 0.1:
        speeds.append(after)
    count = len(speeds) - 1
    # TimeDG meets the floor up to a step late, and as much faster: g dt per impact.
    close = 1e-10 if name == "VariationalCollision" else 2 * count * GRAVITY * 0.001
    np.testing.assert_allclose(run.impacts.p_after[:count, 0], speeds[1:], atol=close)
    if name == "TimeDG":  # the last one does not come back
        assert np.max(np.abs(run.q[-50:])) < 1e-13 and len(run.impacts) <= count + 2
    constant = np.sqrt(2 * GRAVITY) * (speeds[1] / speeds[0]) ** np.arange(1, count + 1)
    assert np.max(np.abs(run.impacts.p_after[:count, 0] - constant)) > 0.2  # a control: one restitution for all speeds


@pytest.mark.parametrize(
    ("law", "words"),
    [
        (lambda speed: speed + 0.01, "would add energy"),
        (lambda speed: jnp.where(speed > 50.0, 1.1, 0.9) * speed, "would add energy"),
        (lambda speed: -0.5 * speed, r"must lie in \[0, 1\]"),
        (lambda speed: jnp.sqrt(speed), "would add energy"),  # below 1
    ],
)
def test_laws_that_create_energy_are_refused(law, words):
    with pytest.raises(carom.InputError, match=words):
        carom.solve(ball(law), METHODS["VariationalCollision"], [1.0], [0.0], dt=0.01, num_steps=2)


def test_one_of_the_two():
    with pytest.raises(carom.InputError, match="pass one of the two"):
        carom.Contact(lambda q: q[0], 0.5, departure=lambda speed: speed)
    with pytest.raises(carom.InputError, match="departure asks for 'v'"):
        carom.Contact(lambda q: q[0], departure=lambda v: v)
