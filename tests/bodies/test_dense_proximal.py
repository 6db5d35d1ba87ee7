"""Small contact problems by proximal points: rows of boxes that touch at many more points than they need."""

import numpy as np
import pytest

from carom.bodies import dense_proximal, shapes
from carom.bodies.dense_interior import solve_inside
from carom.bodies.dense_newton import PATIENCE, Dense, newton
from carom.bodies.dense_proximal import NEAR, solve_proximal
from carom.bodies.stepping import Stepper
from carom.bodies.world import World
from carom.numerics.blas_threads import one_thread

GOAL = 1e-11  # what small problems are asked for: a tenth of the tolerance of a step
FRICTION = 0.25


def _rows():
    """Five boxes face to face on a floor, 36 contacts and 30 velocities; half of the points say slightly different things."""
    rng = np.random.default_rng(0)
    world = World()
    world.fix(shapes.HalfSpace())
    for i in range(5):
        world.add(shapes.Box(0.1, 0.2, 0.1), density=400, position=(0.1 * i, 0, 0.05))
    world.material(friction=FRICTION)
    scene, state = world.scene()
    posed = Stepper(scene)._look(state, state.v, state.L, 1e-3, 1.0)
    free = scene.free[:, None]
    for _ in range(6):
        v, L = free * 3e-3 * rng.normal(size=state.v.shape), free * 3e-5 * rng.normal(size=state.L.shape)
        v[:, 2] -= scene.free * 9.81e-3
        q = posed.rates(v, L)
        q[::3] += 10.0 ** rng.uniform(-9, -5, 36) * (rng.random(36) < 0.5)
        yield Dense(posed.delassus, q, posed.friction, 2, 0.0)


def _breach(problem: Dense, r: np.ndarray) -> float:
    """How far Coulomb's law itself is from being met, relative to q: the cone, nothing closes, and work r · (u + μ|u_T|n) = 0."""
    u, r = (problem.W @ r + problem.q).reshape(-1, 3), r.reshape(-1, 3)
    outside = np.linalg.norm(r[:, 1:], axis=1) - FRICTION * r[:, 0]
    work = np.sum(r * u, axis=1) + FRICTION * r[:, 0] * np.linalg.norm(u[:, 1:], axis=1)
    weight, size = np.trace(problem.W) / len(problem.q), np.linalg.norm(problem.q)
    return max(weight * np.max(outside), np.max(-u[:, 0]), weight * np.max(np.abs(work)) / size) / size


@pytest.fixture(autouse=True)
def _one_thread():
    with one_thread():
        yield


def test_rows_of_boxes_that_newtons_method_circles_around(monkeypatch):
    """From inside the cones or from zero, as a step tries them."""
    missed, problems = [], list(_rows())
    for problem in problems:
        assert np.linalg.matrix_rank(problem.W) == 30 < len(problem.q) == 108
        nothing = np.zeros(len(problem.q))
        begin, _, _ = solve_inside(problem, 1.0, 1e-3)
        r, reached, _ = solve_proximal(problem, begin, GOAL, NEAR)
        if reached > GOAL:
            r, reached, _ = solve_proximal(problem, nothing, GOAL)
        assert reached == problem.residual(r) <= GOAL and _breach(problem, r) <= 10 * GOAL
        missed.append(newton(problem, nothing, patience=PATIENCE)[1])
    assert max(missed) > 1e-4  # control: these are the problems the stage is for,
    monkeypatch.setattr(dense_proximal, "BOLDER", 1.0)
    hardest = problems[int(np.argmax(missed))]
    monkeypatch.setattr(dense_proximal, "TURNS", 50)
    assert solve_proximal(hardest, np.zeros(108), GOAL)[1] > 100 * GOAL  # and with one price for ever it would not end


def test_what_is_solved_stays_as_it_is():
    problem = Dense(np.eye(3), np.array([-1.0, 0.9, 0.0]), np.array([0.5]), 2, 0.0)
    r, residual, _ = solve_proximal(problem, np.zeros(3), 1e-14)
    np.testing.assert_allclose(r, [1.0, -0.5, 0.0], atol=1e-13)  # it slides: |r_T| = μ r_N against u_T = 0.4
    again, _, taken = solve_proximal(problem, r, 2 * residual)
    assert taken == 0 and again is r
