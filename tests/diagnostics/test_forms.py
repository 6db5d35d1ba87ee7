"""Conserved forms: ω + dE ∧ dt with time and step free, and the momenta of bodies that collide in space."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TRAPEZOIDAL

import carom
from carom.diagnostics import extended_symplectic_defect, forms, momentum_in_space
from carom.spaces.rotations import matrix


def swinging(q, v, t):
    return 0.5 * (v[0] ** 2 + 2 * v[1] ** 2) - 0.5 * q[0] ** 2 * q[1] - 0.3 * q[1] ** 4 - q[1] * (1 + jnp.sin(3 * t))


# A floor that moves and a ceiling; a nonlinear potential, for with a linear one a naive reflection passes too.
CHANNEL = carom.System(
    swinging,
    [
        carom.Contact(lambda q, t: q[1] + 0.2 * q[0] ** 2 - 0.1 * q[0] - 0.05 * jnp.sin(2 * t)),
        carom.Contact(lambda q: 0.8 - q[1] + 0.1 * q[0]),
    ],
)
START = np.array([0.1, 0.4]), np.array([0.6, -6.0])


@pytest.mark.parametrize(("dt", "impacts"), [(0.05, 0), (0.2, 1), (0.45, 2), (0.7, 3)])
def test_the_extended_form_is_kept_with_time_and_step_free(dt, impacts):
    """(25), (26) of [fetecau2003] for the discrete flow, through impacts; at walls that move too."""
    x = [jnp.asarray(value) for value in (*START, 0.3, dt)]
    J, hits, _ = forms._jacobian(TRAPEZOIDAL, carom.named.frozen(CHANNEL), None, *x)
    assert hits == impacts
    assert extended_symplectic_defect(CHANNEL, TRAPEZOIDAL, *START, dt, t=0.3) < 1e-13
    # Control: ω alone, without dE ∧ dt, is not kept when h is free.
    ends = np.concatenate([J[:4], np.zeros((2, 6))])
    plain = np.concatenate([np.eye(4, 6), np.zeros((2, 6))])
    assert np.abs(forms._form(ends, 2) - forms._form(plain, 2)).max() > 0.1


def test_control_an_exact_reflection_does_not_keep_it():
    naive = carom.VariationalCollision(carom.Trapezoidal(), elastic="reflection")
    assert extended_symplectic_defect(CHANNEL, naive, *START, 0.2) > 1e-3
    with pytest.raises(carom.InputError, match="belongs to VariationalCollision"):
        extended_symplectic_defect(CHANNEL, carom.MoreauJean(), *START, 0.2)


def test_the_derivative_with_respect_to_the_step_is_that_of_runs():
    """Against two runs with other steps: the whole chain of impacts moves with h."""
    ends = []
    for dt in (0.45 - 1e-6, 0.45 + 1e-6):
        run = carom.solve(CHANNEL, TRAPEZOIDAL, START[0], START[1] / [1, 2], dt=dt, num_steps=1, t0=0.3)
        ends.append(np.concatenate([run.q[-1], run.p[-1]]))
    x = [jnp.asarray(value) for value in (*START, 0.3, 0.45)]
    J, _, _ = forms._jacobian(TRAPEZOIDAL, carom.named.frozen(CHANNEL), None, *x)
    np.testing.assert_allclose((ends[1] - ends[0]) / 2e-6, J[:4, 5], rtol=1e-6, atol=1e-8)  # second differences, rounding / 1e-6


# -- two bodies in space ---------------------------------------------------------------------------------------------------

BALLS = jnp.array([[0.5, 0.0, 0.1], [-0.5, 0.0, 0.0]])  # of each body, in its axes; of radius 0.3
INERTIA = jnp.array([[0.3, 0.5, 0.4], [0.2, 0.45, 0.5]])
MASS = jnp.array([1.0, 2.0])


def _centres(q):
    return jnp.concatenate([BALLS @ matrix(body[:4]).T + body[4:] for body in q.reshape(2, 7)]).reshape(2, 2, 3)


def _distances(q):
    """Between all balls of one body and all of the other."""
    here, there = _centres(q)
    apart = here[:, None] - there[None]
    return jnp.sqrt(jnp.sum(apart**2, axis=-1)).reshape(-1)


# Two irregular bodies that attract each other, ball by ball: the binary asteroids of §2.4.
ASTEROIDS = carom.LumpedSystem(
    lambda: jnp.concatenate([INERTIA[0], jnp.full(3, MASS[0]), INERTIA[1], jnp.full(3, MASS[1])]),
    lambda q: -0.5 * jnp.sum(1.0 / _distances(q)),
    carom.Power(carom.SE3(), 2),
    [carom.Contact(lambda q: _distances(q) - 0.6)],
)


@pytest.fixture(scope="module")
def asteroids():
    q0 = [1.0, 0, 0, 0, -1.0, 0.1, 0, np.cos(0.3), 0, np.sin(0.3), 0, 1.0, 0, 0.2]
    v0 = [0.3, -0.5, 1.0, 0.6, 0, 0, -0.4, 0.2, 0.7, -0.3, 0.1, 0]
    return carom.solve(ASTEROIDS, TRAPEZOIDAL, q0, v0, dt=0.02, num_steps=150)


def test_bodies_that_collide_in_space_keep_their_momenta(asteroids):
    """Theorem 3.2 of [fetecau2003] with G = SE(3), which leaves the collision set alone: all six momenta, through impacts."""
    assert len(asteroids.impacts) >= 2
    momenta = momentum_in_space(asteroids)
    assert np.ptp(momenta, axis=0).max() < 1e-12  # rounding of 150 steps of Newton's method
    assert np.abs(momenta).max() > 0.3
    # Control: one body alone changes its momenta, in space and in its own axes.
    alone = np.stack([np.asarray(matrix(jnp.asarray(q[:4]))) @ p[3:6] for q, p in zip(asteroids.q, asteroids.p, strict=True)])
    assert np.ptp(alone, axis=0).max() > 0.1
    # Against the formula: Σ Λν and Σ (Λμ + r × Λν).
    q, p = asteroids.q[-1].reshape(2, 7), asteroids.p[-1].reshape(2, 6)
    turned = [np.asarray(matrix(jnp.asarray(body[:4]))) for body in q]
    linear = [R @ x[3:] for R, x in zip(turned, p, strict=True)]
    angular = [R @ x[:3] + np.cross(body[4:], f) for R, x, body, f in zip(turned, p, q, linear, strict=True)]
    np.testing.assert_allclose(momenta[-1], np.concatenate([sum(linear), sum(angular)]), atol=1e-14)


def test_momenta_in_space_need_a_space():
    run = carom.solve(carom.System(lambda v: 0.5 * v @ v), TRAPEZOIDAL, [0.0], [1.0], dt=0.1, num_steps=1)
    with pytest.raises(carom.InputError, match="where it lives"):
        momentum_in_space(run)
    flat = carom.System(lambda v: 0.5 * v @ v, space=carom.Euclidean(2))
    with pytest.raises(carom.InputError, match="no rigid motions of space"):
        momentum_in_space(carom.solve(flat, TRAPEZOIDAL, [0.0, 0.0], [1.0, 0.0], dt=0.1, num_steps=1))


def _axis(q):
    return matrix(q) @ jnp.array([0.3, 0.0, 1.0])


TOP = carom.LumpedSystem(
    lambda: jnp.array([1.0, 1.2, 0.5]), lambda q: 2 * _axis(q)[2], carom.SO3(), [carom.Contact(lambda q: 0.4 - _axis(q)[0])]
)
FREE_TOP = carom.System(lambda q, v: 0.5 * v @ (jnp.array([1.0, 1.2, 0.5]) * v) - 2 * _axis(q)[2], space=carom.SO3())
HELD = np.array([1.0, 0.0, 0.0, 0.0]), np.array([0.2, 1.5, 0.4])


def test_the_flow_of_the_group_keeps_the_extended_form():
    """A step of a top, in canonical coordinates around both of its ends, with q, p and h free; the potential knows no time."""
    space, (q, p), h = FREE_TOP.space, map(jnp.asarray, HELD), jnp.asarray(0.2)
    flow = TRAPEZOIDAL.flow(TRAPEZOIDAL.bind(FREE_TOP, None, 4))
    there = flow(q, p, jnp.zeros(()), h).q

    def end(y):
        out = flow(space.retract(q, y[:3]), space.chart_momentum(y[:3], p + y[3:6]), jnp.zeros(()), h + y[6])
        around = space.inverse_retract(there, out.q)
        momentum = jax.vjp(lambda rates: space.chart_velocity(around, rates), jnp.zeros(3))[1](out.p)[0]
        return jnp.concatenate([around, momentum, out.energy_end[None], (h + y[6])[None], out.energy_start[None]])

    J = np.asarray(jax.jit(jax.jacfwd(end))(jnp.zeros(7)))
    before = forms._form(np.concatenate([np.eye(6, 7), np.zeros((2, 7))]), 3)
    assert np.abs(forms._form(J[:8], 3) - before).max() < 1e-13
    # Controls: without dE ∧ dh it is not kept where h is free.
    assert np.abs(forms._form(np.concatenate([J[:6], np.zeros((2, 7))]), 3) - before).max() > 0.1
    assert np.abs(J[6] - J[8]).max() < 1e-13  # one energy for both ends, where the step is smooth


MASSES = jnp.array([1.0, 1.2, 0.5])
NEAR = jnp.array([1.0, 0.0, 0.0, 0.0])  # any centre that is not far from the end will do for canonical coordinates there


@jax.jit
def _start(y):
    q, p = map(jnp.asarray, HELD)
    return TOP.space.retract(q, y[:3]), TOP.space.chart_momentum(y[:3], p + y[3:6]) / MASSES


@jax.jit
def _seen(q0, hit, q1, p1, before, after):
    """The end in canonical coordinates; the energies of both legs, ½⟨m ξ, ξ⟩ + ½ (V(q) + V(q₁)) with q₁ = q·cay(h ξ)."""
    around = TOP.space.inverse_retract(NEAR, q1)
    momentum = jax.vjp(lambda rates: TOP.space.chart_velocity(around, rates), jnp.zeros(3))[1](p1)[0]

    def energy(start, end, length):
        xi = TOP.space.inverse_retract(start, end) / length
        return 0.5 * jnp.sum(MASSES * xi**2) + _axis(start)[2] + _axis(end)[2]

    return jnp.concatenate([around, momentum]), energy(hit, q1, after), energy(q0, hit, before)


def _ends(method, y):
    """One step of the top from y = (coordinates around HELD, momenta, t, h − 0.2): canonical coordinates of its end, E₁, t + h, E₀.
    By `solve` alone, which is asked for the impact and the end."""
    t, h = y[6], 0.2 + y[7]
    q0, v0 = _start(y)
    run = carom.solve(TOP, method, q0, v0, dt=h, num_steps=1, t0=t)
    assert len(run.impacts) == 1
    when = float(run.impacts.t[0]) - t
    end, last, first = _seen(run.q[0], run.impacts.q[0], run.q[-1], run.p[-1], when, h - when)
    return np.array([*end, last, t + h, first])


def _differences(method, step=1e-4):
    """∂(q₁, p₁, E₁, t + h, E₀) by central differences of fourth order; `step`⁴ is as small as rounding over `step` is, 1e-12."""
    columns = []
    for e in np.eye(8):
        near, far = (_ends(method, k * step * e) - _ends(method, -k * step * e) for k in (1, 2))
        columns.append((8 * near - far) / (12 * step))
    return np.stack(columns, axis=1)


def _missed(J):
    """By how much (2) of `carom.diagnostics.forms` is missed; and ω alone, without dE ∧ dt."""
    starts = np.concatenate([np.eye(6, 8), J[8:9], np.eye(8)[6:7]])
    whole = np.abs(forms._form(J[:8], 3) - forms._form(starts, 3)).max()
    J, starts = (np.concatenate([rows[:6], np.zeros((2, 8))]) for rows in (J, starts))
    return whole, np.abs(forms._form(J, 3) - forms._form(starts, 3)).max()


def test_a_body_that_hits_a_wall_keeps_the_extended_form():
    """A rigid body on SO(3), one step through one impact, by differences of runs: nothing here knows a derivative."""
    whole, alone = _missed(_differences(TRAPEZOIDAL))
    assert whole < 1e-8  # rounding over the length of a difference
    assert alone > 0.1  # controls: without dE ∧ dt; and an impulse that reflects, without the balance
    assert _missed(_differences(carom.VariationalCollision(carom.Trapezoidal(), elastic="reflection")))[0] > 1e-4


def test_the_extended_form_on_rotations():
    """The same by exact derivatives, in canonical coordinates around both ends."""
    x = [jnp.asarray(value) for value in (*HELD, 0.0, 0.2)]
    J, hits, good = forms._jacobian(TRAPEZOIDAL, carom.named.frozen(TOP), None, *x)
    assert hits == 1 and good
    assert extended_symplectic_defect(TOP, TRAPEZOIDAL, *HELD, 0.2) < 1e-13
    assert _missed(J[:9])[1] > 0.1  # control: without dE ∧ dt
