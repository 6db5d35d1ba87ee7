"""Laws of speed and static friction where impacts are events of their own, against exact answers; Poisson's law in space."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.contact.laws import Closed, impact_impulse

G = 9.81
METHODS = {"EventDriven": carom.EventDriven(), "Hybrid": carom.Hybrid()}
every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


def _e(speed):
    return 1.0 / (1.0 + 0.1 * speed)


def _mu(speed):
    return 0.02 + 0.1 / (1.0 + speed)


COUPLED = 0.4  # two directions of the mass, as in the impact of a body that is hit beside its centre
ROUGH = carom.System(
    lambda q, v: 0.5 * v @ v - G * q[1], [carom.Contact(lambda q: q[1], _e, friction=_mu, slip=lambda v: v[0], name="floor")]
)


def _struck(**law):
    wall = carom.Contact(lambda q: q[0], 0.5, friction=0.3, slip=lambda v: v[1], name="wall", **law)
    return carom.System(lambda v: 0.5 * v @ v + COUPLED * v[0] * v[1], [wall])


def _bounces(height, speed, count):
    """(approach, departure, slip after) of each impact: e at the speed of approach, μ at the sliding speed before."""
    rows, down = [], np.sqrt(2 * G * height)
    for _ in range(count):
        e, mu = _e(down), _mu(abs(speed))
        speed = np.sign(speed) * max(abs(speed) - mu * (1 + e) * down, 0.0)
        rows.append((-down, e * down, speed))
        down = e * down
    return np.array(rows)


@every_method
def test_a_ball_that_slows_down_as_it_bounces(method):
    run = carom.solve(ROUGH, method, [0.0, 1.0], [2.0, 0.0], dt=0.02, num_steps=120)
    exact = _bounces(1.0, 2.0, len(run.impacts))
    found = np.stack([run.impacts.p_before[:, 1], run.impacts.p_after[:, 1], run.impacts.p_after[:, 0]], axis=1)
    assert len(exact) >= 3 and np.count_nonzero(exact[:, 2]) >= 2
    np.testing.assert_allclose(found, exact, atol=1e-8)  # events are met to rounding, flights to the solver's tolerance
    assert abs(_mu(2.0) - _mu(exact[0, 2])) > 0.005  # the control: a constant μ would be found wrong in the second row


@every_method
def test_static_friction_holds_in_an_impact(method):
    """It strikes the wall at right angles, at speed 1, and its point of contact does not slide. To stay so takes a friction of
    COUPLED = 0.4 times the normal impulse: more than the kinetic 0.3, less than the static 0.5."""
    struck = lambda system: carom.solve(system, method, [0.1, 0.0], [-1.0, 0.0], dt=0.05, num_steps=4)  # noqa: E731
    held, slid = struck(_struck(static_friction=0.5)), struck(_struck())
    np.testing.assert_allclose(held.v[-1], [0.5, 0.0], atol=1e-10)
    kinetic = 1.5 * (0.3 - COUPLED) / (1 - 0.3 * COUPLED)  # the other root: it slides, with the law of the kinetic coefficient
    np.testing.assert_allclose(slid.v[-1], [0.5, kinetic], atol=1e-10)


# -- lasting contact, which Hybrid hands over ------------------------------------------------------------------------------


def _incline(**law):
    def lagrangian(q, v, params):
        return 0.5 * v @ v + G / jnp.sqrt(1 + params["tan"] ** 2) * (params["tan"] * q[0] - q[1])

    return carom.System(lagrangian, [carom.Contact(lambda q: q[1], 0.0, slip=lambda q: q[0], name="slope", **law)])


def test_hybrid_holds_a_block_up_to_the_static_threshold():
    static = _incline(friction=0.3, static_friction=0.5)
    slide = lambda tan, v=0.0: carom.solve(  # noqa: E731
        static, METHODS["Hybrid"], [0.0, 0.0], [v, 0.0], dt=0.01, num_steps=50, params={"tan": tan}
    )
    assert np.max(np.abs(slide(0.499).v)) <= 1e-14
    pull = G / np.sqrt(1 + 0.501**2) * (0.501 - 0.3)
    assert slide(0.501).v[-1, 0] == pytest.approx(pull * 0.49, rel=0.03)  # one step with the static one, then the kinetic one
    assert slide(0.4, 0.5).v[-1, 0] == pytest.approx(0.5 + G / np.sqrt(1.16) * 0.1 * 0.5, rel=1e-10)


def test_hybrid_stops_a_block_whose_friction_falls_with_speed():
    """The distance is ∫ v dv / μ(v) g, by Gauss's rule."""
    stribeck = lambda speed: 0.2 + 0.2 * jnp.exp(-speed / 0.5)  # noqa: E731
    x, w = np.polynomial.legendre.leggauss(60)
    v = x + 1.0
    exact = float(np.sum(w * v / (np.asarray(stribeck(v)) * G)))
    run = carom.solve(
        _incline(friction=stribeck), METHODS["Hybrid"], [0.0, 0.0], [2.0, 0.0], dt=0.01, num_steps=120, params={"tan": 0.0}
    )
    assert abs(run.v[-1, 0]) <= 1e-14
    assert abs(run.q[-1, 0] - exact) < 2.0 * 0.01  # first order: the way of one step
    assert abs(2.0**2 / (2 * 0.2 * G) - exact) > 4 * 2.0 * 0.01  # the control: the kinetic value alone


# -- Poisson's law in space ------------------------------------------------------------------------------------------------


def _slide(G, u, mu, normal=None):
    """Coulomb's law of one contact in space: u⁺ = u + Gλ, with u⁺_N = 0 (or the normal impulse given), and u⁺_T = −κ λ_T. The one
    number κ ≥ 0 is found by halves from |λ_T| = μ λ_N; it is 0 where the contact sticks."""

    def impulse(kappa):
        matrix, known = G + np.diag([0.0, kappa, kappa]), -u
        if normal is None:
            return np.linalg.solve(matrix, known)
        tangential = np.linalg.solve(matrix[1:, 1:], known[1:] - matrix[1:, 0] * normal)
        return np.concatenate([[normal], tangential])

    excess = lambda kappa: np.linalg.norm(impulse(kappa)[1:]) - mu * impulse(kappa)[0]  # noqa: E731
    if excess(0.0) <= 0 and impulse(0.0)[0] >= 0:
        return impulse(0.0)
    near, far = 0.0, 1.0
    while excess(far) > 0 or impulse(far)[0] < 0:
        near, far = far, 2 * far
    for _ in range(100):
        middle = 0.5 * (near + far)
        near, far = (near, middle) if excess(middle) <= 0 and impulse(middle)[0] >= 0 else (middle, far)
    return impulse(far)


def test_poissons_law_in_space():
    """Compression, then e times its normal impulse, both with Coulomb's law in the tangential plane, in which the slip may turn."""
    rng, e, mu = np.random.default_rng(7), 0.8, 0.5
    roots = rng.normal(size=(120, 3, 3))
    matrices = np.einsum("cij,ckj->cik", roots, roots) + 0.3 * np.eye(3)
    rates = np.concatenate([-rng.uniform(0.5, 2.0, (120, 1)), rng.normal(size=(120, 2))], axis=1)

    def law(G, u):
        one = jnp.ones(1)
        shape = (jnp.zeros((1, 3)), jnp.zeros((1, 2, 3)), u[:1], u[None, 1:], G)
        closed = Closed(*shape, jnp.ones(1, bool), e * one, mu * one, 1e-13 * one[0])
        found = impact_impulse(closed, "reflections", poisson=True)
        return jnp.concatenate([found.normal, found.tangential[0]]), found.settled

    found, settled = jax.jit(jax.vmap(law))(matrices, rates)
    assert np.all(settled)
    hands, turned = [], []
    for G_, u in zip(matrices, rates, strict=True):
        compression = _slide(G_, u, mu)
        between = u + G_ @ compression
        hands.append(compression + _slide(G_, between, mu, e * compression[0]))
        after = u + G_ @ hands[-1]
        turned.append(abs(after[1] * u[2] - after[2] * u[1]) > 1e-3)
    hands = np.array(hands)
    leaves = np.einsum("ci,ci->c", matrices[:, 0], hands) + rates[:, 0] >= 0  # the others need another round
    assert np.count_nonzero(leaves) > 80 and np.count_nonzero(np.array(turned) & leaves) > 20
    np.testing.assert_allclose(np.asarray(found)[leaves], hands[leaves], atol=1e-8)  # the cone is solved to 1e-10 or so
    work = np.einsum("ci,ci->c", hands, rates) + 0.5 * np.einsum("ci,cij,cj->c", hands, matrices, hands)
    assert np.all(work <= 1e-12)
    newton = (1 + e) * np.array([_slide(G_, u, mu) for G_, u in zip(matrices, rates, strict=True)])
    assert np.max(np.abs(newton - hands)[leaves]) > 0.1  # the control: not the same as (1 + e) times the compression
