"""Cases that broke something once, and cases that could make the compiler give up: they run in a process of their own."""

import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TRAPEZOIDAL

import carom


def free(v):
    return 0.5 * (v @ v)


WALL = carom.System(free, [carom.Contact(lambda q: q[0], name="wall")])


@pytest.mark.sensitive
@pytest.mark.parametrize(("q", "dt"), [(1.5, 0.1), (3.0, 0.2), (0.9, 0.3), (5.6, 0.7), (1.0, 1.0)])
def test_an_impact_exactly_at_a_grid_node(q, dt):
    run = carom.solve(WALL, TRAPEZOIDAL, [q], [-1.0], dt=dt, num_steps=40)
    assert len(run.impacts) == 1
    assert run.q[-1, 0] == pytest.approx(40 * dt - q, abs=1e-12)


@pytest.mark.parametrize("speed", [-1.0, 0.0, 1.0])
def test_a_start_on_the_contact(speed):
    run = carom.solve(WALL, TRAPEZOIDAL, [0.0], [speed], dt=0.1, num_steps=10)
    assert run.q[-1, 0] == pytest.approx(abs(speed), abs=1e-14)
    assert len(run.impacts) == (speed < 0)


ROW = carom.System(free, [carom.Contact(lambda q: q[1] - q[0] - 1), carom.Contact(lambda q: q[2] - q[1] - 1)])
TOGETHER = carom.VariationalCollision(carom.Trapezoidal(), simultaneous="impulse")


@pytest.mark.parametrize("origin", [0.0, -7.3, 100.0, 1e4])
def test_the_law_does_not_depend_on_the_frame(origin):
    for wind in (-1.0, 0.0, 3.0):
        q0 = np.array([-0.53, 1.0, 2.0]) + origin
        run = carom.solve(ROW, TOGETHER, q0, [1.0 + wind, wind, wind], dt=0.1, num_steps=10)
        assert run.v[-1] - wind == pytest.approx([-1 / 3, 2 / 3, 2 / 3], abs=1e-10)


@pytest.mark.stress
def test_derivative_through_a_touching_row():
    def end(x):
        q0, v0 = jnp.stack([x, 1.0, 2.0]), jnp.array([1.0, 0.0, 0.0])
        return carom.rollout(ROW, TRAPEZOIDAL, q0, v0, dt=0.1, num_steps=10, max_impacts=4).q[-1]

    assert jax.jacfwd(end)(-0.53) == pytest.approx([0.0, 0.0, 1.0], abs=1e-12)


@pytest.mark.stress
def test_gradient_of_a_scan_over_steps():
    system = carom.System(lambda q, v: 0.5 * (v @ v) - 9.81 * q[0], [carom.Contact(lambda q: q[0])])

    def end(y):
        start = TRAPEZOIDAL.init(system, jnp.stack([y]), jnp.zeros(1))
        step = lambda state, _: (TRAPEZOIDAL.step(system, state, 0.01), None)  # noqa: E731
        return jax.lax.scan(step, start, None, length=60)[0].q[0]

    def whole(y):
        return carom.rollout(system, TRAPEZOIDAL, jnp.stack([y]), jnp.zeros(1), dt=0.01, num_steps=60, max_impacts=4).q[-1, 0]

    assert float(jax.jit(jax.grad(end))(1.0)) == pytest.approx(float(jax.jit(jax.grad(whole))(1.0)), rel=1e-10)


def test_a_light_ball_between_a_wall_and_a_heavy_one():
    """Mass ratio 100^2: the collisions count the digits of π (Galperin). 314 of them, exactly."""
    system = carom.System(
        lambda v: 0.5 * (v[0] ** 2 + 1e4 * v[1] ** 2), [carom.Contact(lambda q: q[0]), carom.Contact(lambda q: q[1] - q[0])]
    )
    method = carom.VariationalCollision(carom.Trapezoidal())  # most of them fall into one step, and elastic ones need no limit
    run = carom.solve(system, method, [1.0, 2.0], [0.0, -1.0], dt=0.01, num_steps=1000)
    assert len(run.impacts) == 314
    assert np.max(np.abs(run.energy_error)) < 1e-12


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scales(scale):
    system = carom.System(lambda q, v: 0.5 * (v @ v) - 9.81 * q[0], [carom.Contact(lambda q: q[0])])
    dt = 0.01 * np.sqrt(scale)
    run = carom.solve(system, carom.VariationalCollision(), [scale], [0.0], dt=dt, num_steps=1000)
    assert np.max(np.abs(run.energy_error)) < 1e-12
    assert len(run.impacts) == 11
    assert run.impacts.t[0] == pytest.approx(np.sqrt(2 * scale / 9.81), rel=1e-12)


DEGENERATE = """
    import jax, jax.numpy as jnp, numpy as np, carom
    V = carom.VariationalCollision(carom.Trapezoidal())
    def go(name, lagrangian, contacts=(), n=2, params=None, **more):
        system = carom.System(lagrangian, [carom.Contact(c) for c in contacts], **more)
        run = carom.solve(system, V, [1.0] * n, [-1.0] + [0.0] * (n - 1), dt=0.1, num_steps=30, params=params)
        assert np.isfinite(run.q).all(), name
        print(name, len(run.impacts))
    free = lambda v: 0.5 * (v @ v)
    floor = lambda q: q[0]
    go("free", free)
    go("out of reach", free, [lambda q: q[0] + 1e9])
    go("one dimension", free, [floor], n=1)
    go("vector parameter", lambda v, params: 0.5 * (params["m"] * v @ v), [floor], params={"m": jnp.array([1.0, 2.0])})
    go("nine coordinates", free, [floor], n=9)
    go("LAPACK in the potential", lambda q, v: 0.5 * (v @ v) - jnp.linalg.solve(jnp.eye(2) + 0.1, q)[0], [floor])
    go("branches", lambda q, v: 0.5 * (v @ v) - jax.lax.cond(q[1] > 0, lambda: q[1], lambda: 2 * q[1]), [floor])
    go("a list of gaps", free, [lambda q: [q[0], q[1] + 2]])
    go("printing", lambda q, v: (jax.debug.print(""), 0.5 * (v @ v))[1], [floor])
"""


def test_no_system_makes_the_compiler_abort():
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(DEGENERATE)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "nine coordinates 1" in done.stdout and "out of reach 0" in done.stdout
