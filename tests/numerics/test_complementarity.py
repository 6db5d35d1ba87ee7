"""The solvers of contact problems against enumeration of all states, and against the laws themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from carom.numerics.complementarity import friction_impulses, normal_impulses
from carom.numerics.complementarity.enumeration import solve_friction, solve_normal

MANY = 5000  # of each kind: 10 000 in all


def random_problems(rng, count, k, m, n):
    """Delassus matrices of k contacts of a system with n coordinates, rates, and restitution times the rates of approach."""
    rows = rng.normal(size=(count, k * (1 + m), n))
    factor = rng.normal(size=(count, n, n))
    inverse_mass = factor @ factor.transpose(0, 2, 1) + 0.1 * np.eye(n)
    G = rows @ inverse_mass @ rows.transpose(0, 2, 1)
    rates = np.einsum("aij,aj->ai", rows, rng.normal(size=(count, n)))  # of a velocity: a singular G has a solution, too
    target = rng.uniform(0, 1, (count, 1)) * np.maximum(-rates[:, :k], 0.0)
    return G, rates, target, rng.uniform(0, 0.6, (count, k))


@jax.jit
def all_normal(G, s):
    return jax.lax.map(lambda x: normal_impulses(*x, jnp.ones(s.shape[1], bool)), (G, s))


@jax.jit
def all_friction(G, rates, target, friction):
    return jax.lax.map(lambda x: friction_impulses(*x, jnp.ones(target.shape[1], bool)), (G, rates, target, friction))


def test_normal_impulses_agree_with_enumeration():
    G, s, _, _ = random_problems(np.random.default_rng(1), MANY, 3, 0, 4)
    answer = jax.device_get(all_normal(G, s))
    assert answer.converged.all()
    for i in range(MANY):
        exact = solve_normal(G[i], s[i])[0]
        assert np.max(np.abs(answer.value[i] - exact)) < 1e-7 * np.max(1 + np.abs(exact))  # conditions up to 1e8
    wrong = jax.device_get(all_normal(G, s + 0.01)).value  # control: other rates, other answers
    assert max(np.max(np.abs(wrong[i] - solve_normal(G[i], s[i])[0])) for i in range(20)) > 1e-3


def test_friction_impulses_agree_with_enumeration():
    G, rates, target, friction = random_problems(np.random.default_rng(2), MANY, 2, 1, 5)
    answer = jax.device_get(all_friction(G, rates, target, friction))
    assert answer.converged.all()
    several = 0
    for i in range(MANY):
        exact = solve_friction(G[i], rates[i], target[i], friction[i])
        errors = [np.max(np.abs(G[i] @ (answer.value[i] - lam))) for lam in exact]
        assert min(errors) < 1e-7 * (1 + np.max(np.abs(rates[i])))  # conditions up to 1e8
        several += max(errors) > 1e-3  # Coulomb's law with restitution has more than one answer now and then
    assert several < MANY // 100
    smooth = jax.device_get(all_friction(G, rates, target, 0 * friction)).value  # control: friction matters
    assert np.mean(np.abs(smooth - answer.value) > 1e-6) > 0.3


def test_friction_in_space_obeys_the_law():
    """No enumeration here: the law itself, contact by contact. More rows than coordinates: G is singular in a third of these."""
    k, m = 2, 2
    for n in (4, 6, 8):
        G, rates, target, friction = random_problems(np.random.default_rng(n), 300, k, m, n)
        answer = jax.device_get(all_friction(G, rates, 0 * target, friction))
        assert answer.converged.all()  # plastic: a solution exists always
        lam, after = answer.value, rates + np.einsum("aij,aj->ai", G, answer.value)
        normal, pull = lam[:, :k], lam[:, k:].reshape(-1, k, m)
        rate, slide = after[:, :k], after[:, k:].reshape(-1, k, m)
        small = 1e-8 * (1 + np.max(np.abs(G), axis=(1, 2)))[:, None]  # the solver stops at 1e-10 of the rates
        assert np.all(normal >= 0) and np.all(rate > -small) and np.all(np.abs(normal * rate) < small * (1 + normal))
        size, speed = np.linalg.norm(pull, axis=2), np.linalg.norm(slide, axis=2)
        assert np.all(size <= friction * normal + small)
        slides = speed > 1e3 * small
        assert slides.any() and (~slides & (normal > 0)).any()
        against = np.sum(pull * slide, axis=2) + friction * normal * speed  # zero where the pull opposes the slide, in full
        assert np.all(np.abs(against[slides]) < (small * (1 + normal) * (1 + speed))[slides])


def test_redundant_contacts_share_a_load_and_a_contradiction_is_reported():
    J = np.array([[1.0, -1.0], [1.0, -0.5], [1.0, 0.5], [1.0, 1.0]])  # four feet of a rigid table in the plane
    G, s = J @ J.T, J @ np.array([-1.0, 0.2])
    answer = normal_impulses(jnp.asarray(G), jnp.asarray(s), jnp.ones(4, bool))
    assert bool(answer.converged)
    assert np.max(np.abs(G @ answer.value + s)) < 1e-12 and np.all(answer.value >= 0)
    squeeze = np.array([[1.0, -1.0], [-1.0, 1.0]])  # two walls that close in on one particle
    answer = normal_impulses(jnp.asarray(squeeze), jnp.asarray([-1.0, -1.0]), jnp.ones(2, bool))
    assert not bool(answer.converged) and float(answer.violation) > 0.5


@pytest.mark.parametrize("closed", [[False, False, False], [True, False, True]])
def test_open_rows_carry_nothing(closed):
    G, s, _, _ = random_problems(np.random.default_rng(3), 50, 3, 0, 5)
    mask = jnp.asarray(closed)
    answer = jax.device_get(jax.jit(jax.vmap(lambda G, s: normal_impulses(G, s, mask)))(G, s))
    assert answer.converged.all() and np.all(answer.value[:, ~np.asarray(mask)] == 0)
