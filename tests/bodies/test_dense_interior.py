"""Small contact problems by a path through the inside of the cones."""

import numpy as np
import pytest

from carom.bodies import dense_interior
from carom.bodies.dense_interior import HEIGHTS, solve_inside
from carom.bodies.dense_newton import PATIENCE, Dense, newton

GOAL = 1e-11  # what small problems are asked for: a tenth of the tolerance of a step


def _pile(rng, bodies: int = 6, contacts: int = 24, friction: float = 0.5) -> Dense:
    """Bodies with more contacts than they need (72 rows for 36 velocities), each between two of them or with what is fixed, in
    random frames, and velocities as random bodies have them: so a solution exists, and W has a null space of dimension 36."""
    H = np.zeros((6 * bodies, 3 * contacts))
    for k in range(contacts):
        frame = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        a, b = rng.choice(bodies + 1, 2, replace=False)  # the last one does not move
        for body, sign in ((a, -1.0), (b, 1.0)):
            if body < bodies:
                arm = rng.normal(size=3)
                H[6 * body : 6 * body + 3, 3 * k : 3 * k + 3] = sign * frame
                H[6 * body + 3 : 6 * body + 6, 3 * k : 3 * k + 3] = sign * np.cross(arm, frame, axis=0)
    return Dense(H.T @ H, H.T @ rng.normal(size=6 * bodies), np.full(contacts, friction), 2, 0.0)


def _breach(problem: Dense, r: np.ndarray, friction: float) -> float:
    """How far Coulomb's law is from being met, relative to q: the cone, nothing closes, and work r · (u + μ|u_T|n) = 0."""
    u, r = (problem.W @ r + problem.q).reshape(-1, 3), r.reshape(-1, 3)
    outside = np.linalg.norm(r[:, 1:], axis=1) - friction * r[:, 0]
    work = np.sum(r * u, axis=1) + friction * r[:, 0] * np.linalg.norm(u[:, 1:], axis=1)
    weight = np.trace(problem.W) / len(problem.q)  # of an impulse, as a velocity
    size = np.linalg.norm(problem.q)
    return max(weight * np.max(outside), np.max(-u[:, 0]), weight * np.max(np.abs(work)) / size) / size


def test_what_newtons_method_circles_around_is_solved_from_inside():
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(12):
        problem = _pile(rng)
        r, residual, _ = min((solve_inside(problem, height, GOAL) for height in HEIGHTS), key=lambda found: found[1])
        assert abs(residual - problem.residual(r)) <= 1e-15 and residual <= GOAL  # sums in another order: a few ε of E's terms, ≤ 1
        assert _breach(problem, r, 0.5) <= 10 * GOAL  # the certificate is a norm of the same things, up to factors like 1/μ
        assert _breach(problem, r, 0.4) > 1e-6  # control: with another friction it is not the law
        missed += newton(problem, np.zeros(len(problem.q)), patience=PATIENCE)[1] > 1e-6
    assert missed > 0  # control: these are the problems the stage is for


def test_a_path_comes_near_and_does_not_end(monkeypatch):
    """Control: without the finish the certificate stays above what is asked for, so the finish is not for show."""
    monkeypatch.setattr(dense_interior, "NEAR", 0.0)
    problem = _pile(np.random.default_rng(3))
    _, residual, _ = solve_inside(problem, 1.0, 1e-15)
    assert 1e-15 < residual <= 1e-4


def test_contacts_with_friction_without_and_bilateral_rows():
    """Three unit masses, each with an exact answer: one slides, one slides without friction, and a bilateral row stops a third."""
    q = np.array([-1.0, 0.9, 0.0, -2.0, 3.0, 4.0, 5.0])
    problem = Dense(np.eye(7), q, np.array([0.5, 0.0]), 2, 0.0)
    for height in HEIGHTS:
        r, residual, _ = solve_inside(problem, height, 1e-14)
        assert residual <= 1e-14
        np.testing.assert_allclose(r, [1.0, -0.5, 0.0, 2.0, 0.0, 0.0, -5.0], atol=1e-13)  # |r_T| = μ r_N against u_T = 0.4


@pytest.mark.parametrize("tangents", [0, 1])
def test_in_the_plane_and_on_a_line(tangents):
    """A block that sticks: μ = 0.5 holds 0.4 of a normal impulse of one. On a line there is nothing to hold."""
    q = np.array([-1.0, 0.4])[: 1 + tangents]
    r, residual, _ = solve_inside(Dense(np.eye(1 + tangents), q, np.array([0.5]), tangents, 0.0), 1.0, 1e-14)
    assert residual <= 1e-14
    np.testing.assert_allclose(r, -q, atol=1e-13)
