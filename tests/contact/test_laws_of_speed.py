"""Laws of contact beyond constant coefficients: of speed, static friction, rolling resistance, Poisson's law; what slip means."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.contact.laws import Closed, friction_impulses, impact_impulse
from carom.numerics.complementarity.enumeration import solve_friction

G = 9.81


# -- restitution that depends on the speed of approach -------------------------------------------------------------------


def _e(speed):
    return 1.0 / (1.0 + 0.2 * speed)


def _dropped(restitution):
    return carom.System(lambda q, v: 0.5 * v @ v - G * q[0], [carom.Contact(lambda q: q[0], restitution, name="floor")])


def test_heights_of_a_ball_whose_restitution_falls_with_speed():
    """After each impact h ← (e(v) v)²/2g with v² = 2gh; a constant restitution with the first value does not do it."""
    system, height = _dropped(_e), 1.5
    run = carom.solve(system, carom.VariationalCollision(carom.Trapezoidal()), [height], [0.0], dt=0.01, num_steps=250)
    assert len(run.impacts) >= 3
    speeds, heights = [], [height]
    for _ in range(len(run.impacts)):
        speeds.append(np.sqrt(2 * G * heights[-1]))
        heights.append((_e(speeds[-1]) * speeds[-1]) ** 2 / (2 * G))
    # In a uniform field the rule is exact: only rounding, over some hundred steps, is left.
    assert np.allclose(-run.impacts.p_before[:, 0], speeds, rtol=1e-10)
    assert np.allclose(run.impacts.p_after[:, 0], [_e(v) * v for v in speeds], rtol=1e-10)
    assert not np.allclose(run.impacts.p_after[1:, 0], [_e(speeds[0]) * v for v in speeds[1:]], rtol=1e-2)


def test_the_derivative_of_such_an_impact():
    """p⁺ = e(|p|)|p|, so dp⁺/d|p| = e + e'|p|."""
    after = lambda p: carom.impact_map(_dropped(_e), 0, [0.0], p[None])[0]  # noqa: E731
    slope = float(jax.grad(after)(jnp.asarray(-3.0)))
    exact = -(_e(3.0) + 3.0 * float(jax.grad(_e)(3.0)))
    assert slope == pytest.approx(exact, rel=1e-13)
    assert abs(slope + _e(3.0)) > 0.1  # what forgetting e' would give


# -- friction that depends on the sliding speed ---------------------------------------------------------------------------


def _stribeck(speed):
    return 0.2 + 0.2 * jnp.exp(-speed / 0.5)


def _block(**law):
    """On an incline with the slope params["tan"], q along it and q[1] away from it."""

    def lagrangian(q, v, params):
        cos = 1 / jnp.sqrt(1 + params["tan"] ** 2)
        return 0.5 * v @ v + G * cos * (params["tan"] * q[0] - q[1])

    return carom.System(lagrangian, [carom.Contact(lambda q: q[1], 0.0, slip=lambda q: q[0], name="slope", **law)])


STRIBECK = _block(friction=_stribeck)
STATIC = _block(friction=0.3, static_friction=0.5)


def _stopping_distance(v0):
    """∫ v dv / μ(v) g, by Gauss's rule: an answer that knows nothing of steps."""
    x, w = np.polynomial.legendre.leggauss(60)
    v = 0.5 * v0 * (x + 1)
    return float(0.5 * v0 * np.sum(w * v / (np.asarray(_stribeck(v)) * G)))


@pytest.mark.parametrize(
    ("method", "order"),
    [(carom.MoreauJean(), 1), pytest.param(carom.TimeDG(1), 2, marks=pytest.mark.stress)],
    ids=["MoreauJean", "TimeDG"],
)
def test_stopping_distance_with_a_stribeck_law(method, order):
    exact = _stopping_distance(2.0)
    errors = []
    for dt in (0.02, 0.01):
        run = carom.solve(STRIBECK, method, [0.0, 0.0], [2.0, 0.0], dt=dt, num_steps=int(1.2 / dt), params={"tan": 0.0})
        assert abs(run.v[-1, 0]) <= 1e-14  # it has stopped, and stays
        errors.append(abs(run.q[-1, 0] - exact))
    # One bound from the order, dt² or dt times the acceleration (4 m/s²), one from below: halving the step must show.
    assert errors[1] <= 4.0 * 0.01**order and errors[1] < 0.75 * errors[0]
    constant = 2.0**2 / (2 * 0.2 * G)
    assert abs(constant - exact) > 20 * errors[1]  # the kinetic value alone is another distance


@pytest.mark.parametrize(
    "method", [carom.MoreauJean(), pytest.param(carom.TimeDG(1), marks=pytest.mark.stress)], ids=lambda m: type(m).__name__
)
def test_static_friction_holds_up_to_its_own_threshold(method):
    """At rest a block holds up to tan = μ_s; in motion it speeds up beyond tan = μ_k, by g cos (tan − μ_k)."""
    rest = lambda tan, v=0.0: carom.solve(STATIC, method, [0.0, 0.0], [v, 0.0], dt=0.01, num_steps=50, params={"tan": tan})  # noqa: E731
    assert np.max(np.abs(rest(0.499).v)) <= 1e-14
    slid = rest(0.501)
    pull = G / np.sqrt(1 + 0.501**2) * (0.501 - 0.3)
    # One step with the static coefficient, in which it hardly moves, then the kinetic one.
    assert slid.v[-1, 0] == pytest.approx(pull * 0.49, rel=0.03)
    moving = rest(0.4, 0.5)
    assert moving.v[-1, 0] == pytest.approx(0.5 + G / np.sqrt(1.16) * 0.1 * 0.5, rel=1e-10)
    stopping = rest(0.29, 0.02)  # below the kinetic threshold it stops, and is then held by the static one
    assert abs(stopping.v[-1, 0]) <= 1e-14


# -- rolling resistance ---------------------------------------------------------------------------------------------------

RADIUS, MU, ARM, SHARE = 0.5, 0.6, 0.05, 0.5  # a disc: I = SHARE m R²


def _disc(**more):
    lagrangian = lambda q, v, params: (  # noqa: E731
        0.5 * (v[0] ** 2 + v[1] ** 2 + SHARE * RADIUS**2 * v[2] ** 2)
        + G / jnp.sqrt(1 + params["tan"] ** 2) * (params["tan"] * q[0] - q[1])
    )
    floor = carom.Contact(
        lambda q: q[1] - RADIUS, 0.0, friction=MU, slip=lambda v: v[0] - RADIUS * v[2], rolling=ARM, roll=lambda v: v[2], **more
    )
    return carom.System(lagrangian, [floor])


DISC = _disc()


def _creep_and_deceleration():
    """F = m d and τ of a disc that rolls out, from the balances, the ellipse and the direction of greatest dissipation."""
    ratio = RADIUS * (1 + SHARE)  # τ/F, to begin with
    for _ in range(50):
        creep = (ARM / MU) ** 2 / ratio  # u = creep · ω
        ratio = RADIUS + SHARE * RADIUS**2 / (RADIUS + creep)
    return creep, MU * G / np.sqrt(1 + (MU / ARM * ratio) ** 2)


def test_a_disc_rolls_out_over_the_distance_that_its_moment_allows():
    creep, deceleration = _creep_and_deceleration()
    omega = 3.0
    v0 = (RADIUS + creep) * omega
    steps = 600
    run = carom.solve(
        DISC, carom.MoreauJean(), [0.0, RADIUS, 0.0], [v0, 0.0, omega], dt=0.005, num_steps=steps, params={"tan": 0.0}
    )
    assert np.max(np.abs(run.v[-1])) <= 1e-13
    exact = v0**2 / (2 * deceleration)
    # The velocity falls linearly, which the trapezoidal rule follows exactly; the last step ends with it: dt² of the deceleration.
    assert run.q[-1, 0] == pytest.approx(exact, abs=deceleration * 0.005**2)
    assert deceleration == pytest.approx(ARM * G / (RADIUS * (1 + SHARE)), rel=2 * (ARM / (MU * RADIUS)) ** 2)  # without coupling


def test_a_disc_stays_on_a_slope_up_to_the_ellipse():
    """At rest F = m g sin and τ = F R: (tan/μ)² + (R tan/arm)² ≤ 1."""
    limit = 1 / np.hypot(1 / MU, RADIUS / ARM)
    for tan, stays in ((0.999 * limit, True), (1.01 * limit, False)):
        run = carom.solve(DISC, carom.MoreauJean(), [0.0, RADIUS, 0.0], np.zeros(3), dt=0.005, num_steps=200, params={"tan": tan})
        assert bool(np.max(np.abs(run.v)) <= 1e-13) == stays


@pytest.mark.stress
def test_drilling_friction_stops_a_spinning_body():
    """In space: I ω̇ = −arm · m g about the vertical, while the point of contact rests."""
    inertia, arm = 0.1, 0.02
    lagrangian = lambda q, v: 0.5 * (v[:3] @ v[:3] + inertia * v[3] ** 2) - G * q[2]  # noqa: E731
    floor = carom.Contact(lambda q: q[2], 0.0, friction=0.5, slip=lambda v: v[:2], roll=lambda v: v[3], rolling=arm)
    run = carom.solve(
        carom.System(lagrangian, [floor]), carom.MoreauJean(), np.zeros(4), [0.0, 0.0, 0.0, 2.0], dt=0.01, num_steps=120
    )
    slowing = arm * G / inertia
    expected = np.maximum(2.0 - slowing * run.t, 0.0)
    assert np.allclose(run.v[:, 3], expected, atol=1e-10) and np.max(np.abs(run.q[:, :3])) <= 1e-12
    assert expected[-1] == 0.0  # it stopped within the run


# -- Poisson's law --------------------------------------------------------------------------------------------------------


def _random_contact(rng):
    """One rough contact of a random body in the plane: strongly coupled, as in eccentric impacts."""
    root = rng.normal(size=(2, 2))
    return root @ root.T + 0.02 * np.eye(2), np.array([-rng.uniform(0.5, 2.0), rng.normal()])


def _closed(delassus, rates, e, mu):
    one = jnp.ones(1)
    return Closed(
        jnp.zeros((1, 2)),
        jnp.zeros((1, 1, 2)),
        rates[:1],
        rates[1:, None],
        delassus,
        jnp.ones(1, bool),
        e * one,
        mu * one,
        1e-13 * one[0],
    )


def _poisson_by_hand(delassus, rates, e, mu):
    """Compression by trying every state, restitution in closed form: what would stop the slip, as far as the cone allows."""
    compression = solve_friction(delassus, rates, np.zeros(1), np.array([mu]))[0]
    normal = e * compression[0]
    slide = (rates + delassus @ compression)[1] + delassus[1, 0] * normal
    tangential = np.clip(-slide / delassus[1, 1], -mu * normal, mu * normal)
    return compression + np.array([normal, tangential])


def test_poissons_law_against_every_state_and_its_energy():
    rng = np.random.default_rng(3)
    cases = [_random_contact(rng) for _ in range(300)]
    matrices, rates = (jnp.asarray(np.array(x)) for x in zip(*cases, strict=True))
    e, mu = 0.9, 0.8
    poisson = jax.jit(jax.vmap(lambda G, s: impact_impulse(_closed(G, s, e, mu), "reflections", poisson=True)))(matrices, rates)
    target = jax.vmap(lambda G, s: friction_impulses(G, s, -e * s[:1], mu * jnp.ones(1), jnp.ones(1, bool)).value)
    newton = np.asarray(jax.jit(target)(matrices, rates))
    impulses = np.concatenate([poisson.normal, poisson.tangential[:, :, 0]], axis=1)
    gain = lambda lam: np.einsum("ci,ci->c", lam, rates) + 0.5 * np.einsum("ci,cij,cj->c", lam, matrices, lam)  # noqa: E731
    assert np.all(poisson.settled)
    one_round = np.array([_poisson_by_hand(np.asarray(G), np.asarray(s), e, mu) for G, s in cases])
    leaves = np.einsum("ci,ci->c", np.asarray(matrices)[:, 0], one_round) + np.asarray(rates)[:, 0] >= 0
    assert np.count_nonzero(leaves) > 250  # the others need another round
    assert np.allclose(impulses[leaves], one_round[leaves], atol=1e-9)
    assert np.all(gain(impulses) <= 1e-12)
    assert np.max(gain(newton)) > 0.01  # Newton's law as it stands: Kane's paradox


def test_without_friction_poissons_law_is_newtons():
    for law in ("newton", "poisson"):
        contact = carom.Contact(lambda q: q[0], 0.7, law=law)
        after = carom.impact_map(carom.System(lambda q, v: 0.5 * v @ v, [contact]), 0, [0.0, 0.0], [-2.0, 1.0])
        assert np.allclose(after, [1.4, 1.0], atol=1e-14)


# -- slip is the velocity of a material point -----------------------------------------------------------------------------


def _ball(slip):
    """A solid ball in space on a floor."""
    inertia = 0.4 * 0.25

    def lagrangian(q, v):
        return 0.5 * inertia * v[:3] @ v[:3] + 0.5 * v[3:] @ v[3:] - G * q[6]

    return carom.System(
        lagrangian, [carom.Contact(lambda q: q[6] - 0.5, 0.0, friction=0.4, slip=slip, name="floor")], space=carom.SE3()
    )


def _at_the_floor(q, v):
    return carom.sliding_velocity(*carom.rigid_velocity(q, v), jnp.asarray([0.0, 0.0, -0.5]), jnp.asarray([0.0, 0.0, 1.0]))


def test_slip_vanishes_along_rolling():
    """A rolling ball has no slip, turned in any way; the velocity of its centre, or ω with the wrong sign, is not zero."""
    rng = np.random.default_rng(1)
    for _ in range(5):
        quaternion = rng.normal(size=4)
        quaternion /= np.linalg.norm(quaternion)
        velocity = np.array([*rng.normal(size=2), 0.0])
        omega = np.array([-velocity[1], velocity[0], rng.normal()]) / 0.5
        w, x, y, z = quaternion
        turn = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )
        q = np.array([*quaternion, 0.3, -0.2, 0.5])
        rolling = np.concatenate([turn.T @ omega, turn.T @ velocity])
        assert np.max(np.abs(_at_the_floor(q, rolling))) <= 1e-14
        wrong = np.concatenate([-turn.T @ omega, turn.T @ velocity])
        assert np.linalg.norm(_at_the_floor(q, wrong)) == pytest.approx(2 * np.linalg.norm(velocity), rel=1e-12)


def test_sliding_velocity_in_the_plane_is_that_in_space():
    flat = carom.sliding_velocity([1.0, 0.5], 2.0, [0.1, -0.4], [0.0, 1.0])
    full = carom.sliding_velocity([1.0, 0.5, 0.0], [0.0, 0.0, 2.0], [0.1, -0.4, 0.0], [0.0, 1.0, 0.0])
    assert float(flat[0]) == pytest.approx(1.0 + 0.4 * 2.0)
    assert np.linalg.norm(full) == pytest.approx(abs(float(flat[0])))


def test_the_literal_reading_of_slip_is_refused():
    """The coordinates, or the velocity, of the centre stop a rolling ball dead; they are found out before anything runs."""
    start = dict(q0=[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5], v0=[0.0, 2.0, 0.0, 1.0, 0.0, 0.0], dt=0.01, num_steps=20)
    for wrong in (lambda q: q[4:6], lambda q, v: carom.rigid_velocity(q, v)[0][:2]):
        with pytest.raises(carom.InputError, match="slip of contact 'floor' moves with a body but not with its turning"):
            carom.solve(_ball(wrong), carom.MoreauJean(), **start)


@pytest.mark.stress
def test_a_ball_in_space_rolls_on():
    """At 1 m/s, to the order of the method in a chart; with the velocity of its centre as slip it would stop after 0.13 m."""
    start = dict(q0=[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5], v0=[0.0, 2.0, 0.0, 1.0, 0.0, 0.0], dt=0.01, num_steps=20)
    run = carom.solve(_ball(_at_the_floor), carom.MoreauJean(), **start)
    assert run.q[-1, 4] == pytest.approx(0.2, abs=0.01**2)
