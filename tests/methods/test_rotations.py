"""Any Lagrangian on rotations and rigid motions, with every method: exact answers, conservation, friction, rolling, rest."""

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ORDER_4, TRAPEZOIDAL
from kinds import KINDS, turned
from scipy.special import ellipj

import carom

INERTIA = np.array([1.0, 2.0, 3.0])
FREE = carom.System(lambda v: 0.5 * v @ (jnp.asarray(INERTIA) * v), space=carom.SO3())
SPIN = np.array([0.3, 0.2, 1.0])  # about the axis of the largest moment: the polhode closes around it


def euler_poinsot(t):
    """The angular velocity in the body, by Jacobi's functions: ω₁ = a cn, ω₂ = −b sn, ω₃ = c dn, up to phase [landau1976, §37]."""
    j1, j2, j3 = INERTIA
    energy, square = np.sum(INERTIA * SPIN**2), np.sum((INERTIA * SPIN) ** 2)
    a, b, c = (
        np.sqrt((energy * j3 - square) / (j1 * (j3 - j1))),
        np.sqrt((energy * j3 - square) / (j2 * (j3 - j2))),
        np.sqrt((square - energy * j1) / (j3 * (j3 - j1))),
    )
    rate = np.sqrt((j3 - j2) * (square - energy * j1) / (j1 * j2 * j3))
    m = (j2 - j1) * (energy * j3 - square) / ((j3 - j2) * (square - energy * j1))
    # The phase at which the motion starts, by Newton's method on sn(u) = ω₂(0)/b with cn of the sign of ω₁(0).
    grid = np.linspace(0, 20, 400_001)
    sn, cn, _, _ = ellipj(grid, m)
    u = grid[np.argmin((sn - SPIN[1] / b) ** 2 + (cn - SPIN[0] / a) ** 2)]
    for _ in range(20):
        sn, cn, dn, _ = ellipj(u, m)
        u -= (sn - SPIN[1] / b) / (cn * dn)
    sn, cn, dn, _ = ellipj(u + rate * t, m)
    return np.stack([a * cn, b * sn, c * dn], axis=1)


@pytest.mark.parametrize(
    "method",
    [
        carom.VariationalCollision(carom.Composition(carom.Trapezoidal(), 8)),
        pytest.param(carom.EventDriven(rtol=1e-13, atol=1e-14), marks=pytest.mark.stress),
        pytest.param(carom.TimeDG(6), marks=pytest.mark.stress),
    ],
)
def test_a_free_body_against_euler_and_poinsot(method):
    run = carom.solve(FREE, method, [1.0, 0, 0, 0], SPIN, dt=0.02, num_steps=500)
    exact = euler_poinsot(run.t)
    np.testing.assert_allclose(exact[0], SPIN, atol=1e-12)  # the phase is right
    np.testing.assert_allclose(run.v, exact, atol=1e-10)
    momentum = np.array([np.asarray(turned(jnp.asarray(q), jnp.asarray(p))) for q, p in zip(run.q, run.p, strict=True)])
    np.testing.assert_allclose(momentum, momentum[:1] + 0 * momentum, atol=1e-10)  # the attitude, by the momentum in space


def test_control_moments_of_another_body_move_otherwise():
    other = carom.System(lambda v: 0.5 * v @ (jnp.array([1.0, 2.0, 3.01]) * v), space=carom.SO3())
    run = carom.solve(other, TRAPEZOIDAL, [1.0, 0, 0, 0], SPIN, dt=0.02, num_steps=500)
    assert np.abs(run.v - euler_poinsot(run.t)).max() > 1e-3


@pytest.mark.parametrize("theta", [0.0, 0.5, 1.0])
def test_an_even_spin_stays_even(theta):
    """About a principal axis nothing changes, however long the steps: 0.3 rad here. In a chart, where the rates of such a spin are
    not even, the implicit rule made it faster by ¼·0.3² in each step, and found no next state after fifteen."""
    steps, spin = 200, np.array([0.0, 0.0, 30.0])
    run = carom.solve(FREE, carom.MoreauJean(theta), [1.0, 0, 0, 0], spin, dt=0.01, num_steps=steps)
    np.testing.assert_allclose(run.v, 0 * run.v + spin, atol=8 * steps * np.finfo(float).eps * 30)  # a few roundings in each step


def test_theta_on_rotations_keeps_its_order_and_its_sign():
    """The implicit rule takes energy from a tumbling body, step by step, and the explicit one adds some; ½ is of second order."""

    def run(theta, halvings):
        method = carom.MoreauJean(theta)
        return carom.solve(FREE, method, [1.0, 0, 0, 0], SPIN, dt=0.02 / 2**halvings, num_steps=250 * 2**halvings)

    def order(theta):
        errors = [np.abs(r.v - euler_poinsot(r.t)).max() for r in (run(theta, 0), run(theta, 1))]
        return np.log2(errors[0] / errors[1])

    assert order(0.5) == pytest.approx(2.0, abs=0.05) and order(1.0) == pytest.approx(1.0, abs=0.05)
    assert np.all(np.diff(run(1.0, 0).energy) < 0) and np.all(np.diff(run(0.0, 0).energy) > 0)


def _top(q, v, params):
    """A heavy symmetric top: the centre of mass on its axis."""
    return 0.5 * v @ (jnp.array([1.0, 1.0, 0.5]) * v) - params["weight"] * turned(q, jnp.array([0.0, 0.0, 1.0]))[2]


def test_momentum_maps_on_a_group():
    top = carom.System(_top, space=carom.SO3())
    q0 = np.array([np.cos(0.4), np.sin(0.4), 0, 0])
    run = carom.solve(top, ORDER_4, q0, [0.2, 0.1, 3.0], dt=0.02, num_steps=400, params={"weight": 1.0})
    vertical = carom.diagnostics.momentum_map(run, lambda q: turned(q * jnp.array([1.0, -1, -1, -1]), jnp.array([0.0, 0, 1.0])))
    sideways = carom.diagnostics.momentum_map(run, lambda q: turned(q * jnp.array([1.0, -1, -1, -1]), jnp.array([1.0, 0, 0.0])))
    assert np.ptp(vertical) < 1e-12 and np.ptp(run.p[:, 2]) < 1e-12  # gravity turns about neither; rounding of 400 steps
    assert np.ptp(sideways) > 0.1  # control


@pytest.mark.stress
def test_the_symplectic_form_on_a_group():
    top = carom.System(_top, space=carom.SO3())
    q0, p0 = np.array([np.cos(0.4), np.sin(0.4), 0, 0]), np.array([0.2, 0.1, 1.5])
    of = lambda method: carom.diagnostics.symplectic_defect(top, method, q0, p0, 0.1, params={"weight": 1.0})  # noqa: E731
    assert of(TRAPEZOIDAL) < 1e-13
    assert of(carom.MoreauJean(1.0)) > 1e-4  # control: an implicit Euler step


@pytest.mark.stress
def test_the_symplectic_form_through_an_impact_on_a_group():
    kind = KINDS["rotations"]()
    run = carom.solve(kind.system, TRAPEZOIDAL, kind.q0, kind.v0, dt=kind.dt, num_steps=kind.num_steps, params=kind.params)
    step = int(run.impacts.step[0])
    of = lambda method: carom.diagnostics.symplectic_defect(  # noqa: E731
        kind.system, method, run.q[step], run.p[step], kind.dt, t=run.t[step], params=kind.params
    )
    assert of(TRAPEZOIDAL) < 1e-12
    assert of(carom.VariationalCollision(carom.Trapezoidal(), elastic="reflection")) > 1e-9  # control: κ = 1


@pytest.mark.stress
def test_a_ball_that_rolls_between_walls():
    kind = KINDS["rolling rotations"]()
    contacts = [carom.Contact(lambda q: 0.4 - q[4], name="right"), carom.Contact(lambda q: q[4] + 0.4, name="left")]
    system = carom.System(
        kind.system.lagrangian.function, contacts, constraints=kind.system.constraints.function, space=kind.system.space
    )
    args = (kind.q0, kind.v0)
    options = {"dt": 0.01, "num_steps": 250, "params": kind.params}
    run, exact = carom.solve(system, ORDER_4, *args, **options), carom.solve(system, carom.EventDriven(), *args, **options)
    assert len(run.impacts) == len(exact.impacts) >= 2
    np.testing.assert_allclose(run.impacts.t, exact.impacts.t, atol=1e-6)
    np.testing.assert_allclose(run.q[-1], exact.q[-1], atol=1e-5)
    assert np.abs(run.energy_error).max() < 1e-7 and carom.diagnostics.constraint_residual(run) < 1e-12


RADIUS, GRAVITY = 0.1, 9.81


def _rim(q):
    """The lowest point of a coin's rim, in the body; its axis is the body's third."""
    up = turned(q * jnp.array([1.0, -1, -1, -1, 0, 0, 0]), jnp.array([0.0, 0, 1.0]))
    flat = up * jnp.array([1.0, 1.0, 0.0])
    return -RADIUS * flat / jnp.sqrt(flat @ flat)


def _coin() -> carom.System:
    def lagrangian(q, v):
        spin, speed = v[:3], v[3:]
        return 0.5 * speed @ speed + 0.5 * RADIUS**2 * spin @ (jnp.array([0.25, 0.25, 0.5]) * spin) - GRAVITY * q[6]

    def gap(q):
        return q[6] + turned(q, _rim(q))[2]

    def slip(q, v):
        """The velocity of the material point that touches: v + ω × r, along the floor."""
        return turned(q, v[3:] + jnp.cross(v[:3], _rim(q)))[:2]

    floor = carom.Contact(gap, 0.0, friction=0.5, slip=slip, name="floor")
    return carom.System(lagrangian, [floor], space=carom.SE3())


def _one_turn_of_a_coin(method, dt: float) -> tuple[carom.Solution, float, float]:
    """The run, how far its tilt strays, and the angle by which it misses one turn."""
    tilt = 0.5
    rate = np.sqrt(4 * GRAVITY / (RADIUS * np.sin(tilt)))
    q0 = np.array(
        [np.cos(tilt / 2), np.sin(tilt / 2), 0, 0, 0, 0, RADIUS * np.sin(tilt)]
    )  # turned about x: the lowest point is on y
    v0 = np.array([0, -rate * np.sin(tilt), 0, 0, 0, 0])  # about the diameter to the point of contact
    run = carom.solve(_coin(), method, q0, v0, dt=dt, num_steps=round(2 * np.pi / rate / dt))
    axis = np.array([np.asarray(turned(jnp.asarray(q), jnp.array([0.0, 0, 1.0]))) for q in run.q])
    return run, np.abs(np.arccos(axis[:, 2]) - tilt).max(), abs(np.arctan2(axis[-1, 0], -axis[-1, 1]))


@pytest.mark.parametrize(("method", "order"), [(carom.TimeDG(1), 3), (carom.MoreauJean(), 1)])
@pytest.mark.stress
def test_a_coin_that_rolls_in_a_circle_about_its_centre(method, order):
    """Euler's disk without loss: its centre stays, and the point of contact goes round with Ω² = 4 g / (a sin α) [moffatt2000].

    The energy of a step is lost at the order of the method: 1 for MoreauJean, which holds the floor in velocity and sinks with it;
    2 M + 1 for TimeDG while nothing opens or closes.
    """
    coarse, tilted, missed = _one_turn_of_a_coin(method, 4e-4)
    fine, tilted_fine, _ = _one_turn_of_a_coin(method, 2e-4)
    assert tilted < 1e-2 and tilted_fine < 5e-3 and missed < 0.1  # h Ω = 0.012 and 0.006
    assert np.abs(fine.q[:, 4:6]).max() < 5e-3 * RADIUS
    lost = [np.abs(run.energy_error).max() for run in (coarse, fine)]
    assert np.log2(lost[0] / lost[1]) == pytest.approx(order, abs=0.1)
    sunk = [-min(run.smallest_gap.min(), 0.0) / RADIUS for run in (coarse, fine)]
    if order == 1:
        assert np.log2(sunk[0] / sunk[1]) == pytest.approx(1, abs=0.1)
    else:
        assert max(sunk) < 1e-14  # rounding


SIDE = 0.1
CORNERS = 0.5 * SIDE * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])


def _cube(restitution: float, friction: float) -> carom.System:
    def lagrangian(q, v):
        return 0.5 * v[3:] @ v[3:] + 0.5 * SIDE**2 / 6 * v[:3] @ v[:3] - GRAVITY * q[6]

    heights = lambda q: jnp.stack([q[6] + turned(q, c)[2] for c in jnp.asarray(CORNERS)])  # noqa: E731
    places = lambda q: jnp.stack([(q[4:] + turned(q, c))[:2] for c in jnp.asarray(CORNERS)])  # noqa: E731
    floor = carom.Contact(heights, restitution, friction=friction, slip=places, name="corner")
    return carom.System(lagrangian, [floor], space=carom.SE3())


@pytest.mark.stress
@pytest.mark.parametrize("method", [carom.MoreauJean(), carom.TimeDG(1)])
def test_a_cube_thrown_on_a_rough_floor_comes_to_rest_exactly(method):
    q0 = np.array([0.8, 0.4, -0.3, 0.33, 0, 0, 0.2])
    q0[:4] /= np.linalg.norm(q0[:4])
    run = carom.solve(_cube(0.3, 0.5), method, q0, [5.0, -8.0, 3.0, 0.5, 0.2, -0.3], dt=1e-3, num_steps=2000)
    last = run.t > 1.8
    assert np.abs(run.v[last]).max() < 1e-12 and np.ptp(run.q[last], axis=0).max() < 1e-13  # it rests, and stays
    assert np.all(np.diff(run.energy) < 1e-3 * run.energy[0])  # no impact adds energy: O(h) of what falls in a step
    assert run.q[-1, 6] == pytest.approx(SIDE / 2, abs=1e-2 * SIDE)  # on a face
