"""The contact solver against Coulomb's law contact by contact, enumeration, exact answers, and problems of real scenes."""

import os
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import carom  # noqa: F401  (double precision)
from benchmarks import friction_scenes as scenes
from carom.numerics.complementarity.enumeration import solve_friction as enumerate_states
from carom.numerics.friction import cones, gradient, interior, polish, scaled, stages
from carom.numerics.friction import problem as problem_module
from carom.numerics.friction.problem import FrictionProblem
from carom.numerics.friction.small import friction_impulses
from carom.numerics.friction.stages import solve_friction

TOLERANCE = 1e-10  # of E: what the driver promises


def breach(problem: FrictionProblem, r: np.ndarray) -> float:
    """How far r is from Coulomb's law, told by the states open, sticking, sliding of each contact, relative to the largest rate and
    impulse. Written without cones, projections or De Saxcé's term."""
    d = 1 + problem.tangents
    u = problem.velocities(r)
    impulses, rates = r[: problem.contact_rows].reshape(-1, d), u[: problem.contact_rows].reshape(-1, d)
    speed, push = np.max(np.abs(problem.q)), np.max(np.abs(r)) or 1.0
    worst = np.max(np.abs(u[problem.contact_rows :]), initial=0.0) / speed
    for (n, *t), (rate, *slip), mu in zip(impulses, rates, problem.friction, strict=True):
        pull, slide = np.linalg.norm(t), np.linalg.norm(slip)
        allowed = max(-n, pull - mu * n) / push
        opened = max(n / push, -rate / speed)
        sticks = max(abs(rate), slide) / speed
        against = np.linalg.norm(np.array(t) * slide + mu * n * np.array(slip)) / (push * speed)  # r_T = −μ r_N u_T/|u_T|
        slides = max(abs(rate) / speed, against)
        worst = max(worst, allowed, min(opened, sticks, slides))
    return worst


SCENES = {
    "stack": lambda rng: scenes.stack(rng, 5, 1.5),
    "stack in the plane": lambda rng: scenes.stack(rng, 8, 1.5, dimension=2),
    "stack, masses 1e6 : 1": lambda rng: scenes.stack(rng, 4, 1.0, spread=6),
    "pile": lambda rng: scenes.pile(rng, 12, 1.0),
    "fast pile": lambda rng: scenes.pile(rng, 12, 1.5, speed=5.0),
    "pile in the plane": lambda rng: scenes.pile(rng, 20, 1.5, dimension=2),
    "wedge": lambda rng: scenes.wedge(rng, 12),
    "wedge in the plane": lambda rng: scenes.wedge(rng, 8, dimension=2),
    "box with four corners": scenes.box_on_floor,
    "box with eight contacts": lambda rng: scenes.box_on_floor(rng, patches=2),
    "chain": lambda rng: scenes.chain(rng, 6),
    "chain in the plane": lambda rng: scenes.chain(rng, 6, dimension=2),
}


@pytest.mark.parametrize("name", SCENES)
def test_scenes_are_solved_to_the_certificate_and_obey_coulomb(name):
    for seed in range(3):
        problem = SCENES[name](np.random.default_rng(seed)).problem()
        solution = solve_friction(problem)
        assert solution.converged and solution.residual == problem.residual(solution.impulses) <= TOLERANCE
        assert np.array_equal(solution.velocities, problem.velocities(solution.impulses))
        assert breach(problem, solution.impulses) < 1e-6  # √E: near the edge between two states both are met to the root of E
        again = solve_friction(problem)
        assert np.array_equal(again.impulses, solution.impulses)  # deterministic, in one process


def test_control_impulses_beside_the_solution_are_found():
    problem = scenes.box_on_floor(np.random.default_rng(1)).problem()
    right = solve_friction(problem).impulses
    for wrong in (0 * right, 1.001 * right, right + 1e-3 * np.max(right) * np.tile([0, 1, 0], 4)):
        assert problem.residual(wrong) > 1e-6 and breach(problem, wrong) > 1e-5


def test_a_solution_that_misses_says_so():
    """A wall that pushes a body into another wall: no impulse keeps both apart, and the answer admits it."""
    H = np.array([[1.0, -1.0]])
    problem = FrictionProblem.from_bodies([1.0], H, [0.0], [0.0, 0.0], offset=[-1.0, -1.0], tangents=0)
    solution = solve_friction(problem)
    assert not solution.converged and solution.residual > TOLERANCE
    assert solution.residual == problem.residual(solution.impulses)


@pytest.mark.parametrize("contacts", [2, 3])
def test_planar_solutions_are_among_those_of_enumeration(contacts):
    rng = np.random.default_rng(contacts)
    for _ in range(25):
        problem = scenes.wedge(rng, contacts, dimension=2).problem(in_bodies=False)
        order = np.r_[0 : 2 * contacts : 2, 1 : 2 * contacts : 2]
        W = problem.delassus.toarray()[np.ix_(order, order)]
        exact = enumerate_states(W, problem.q[order], np.zeros(contacts), problem.friction)
        solution = solve_friction(problem)
        errors = [np.max(np.abs(W @ (solution.impulses[order] - r))) for r in exact]
        assert solution.converged and min(errors) < 1e-7 * (1 + np.max(np.abs(problem.q)))  # conditions up to 1e3, E ≤ 1e-10


def test_exact_answers_of_one_block():
    """A point of mass 2 that slides with speed v and is pushed down by p: it stops if μp ≥ 2v, and otherwise keeps v − μp/2."""
    for mu, speed, left in ((0.3, 1.0, 0.4), (0.3, 0.5, 0.0), (0.0, 1.0, 1.0)):
        problem = FrictionProblem.from_bodies(2 * np.eye(3)[None], np.eye(3), [-2.0, speed, 0.0], [mu])
        solution = solve_friction(problem)
        assert solution.velocities == pytest.approx([0, left, 0], abs=1e-12)  # (N, T1, T2); rounding
        assert solution.impulses == pytest.approx([4, 2 * (left - speed), 0], abs=1e-11)


def test_bodies_and_delassus_agree_and_large_islands_never_form_it(monkeypatch):
    """The velocities are unique here, the impulses of a hyperstatic stack are not."""
    scene = scenes.stack(np.random.default_rng(3), 6, 0.8)
    solutions = [solve_friction(scene.problem(in_bodies=way)) for way in (True, False)]
    monkeypatch.setattr(scaled, "FORMED", 0)
    monkeypatch.setattr(scaled, "FILLED", 0)
    solutions.append(solve_friction(scene.problem()))
    assert scaled.scale_problem(scene.problem()).matrix is None  # control: it was not formed
    for solution in solutions:
        assert solution.converged and np.max(np.abs(solution.velocities - solutions[0].velocities)) < 1e-8  # E, times the condition


def test_islands_are_those_of_the_bodies():
    rng = np.random.default_rng(0)
    one = scenes.box_on_floor(rng)
    two = scenes.Scene(3)
    for shift in range(3):
        two.body(1.0, 0.5, rng.normal(size=6))
        two.contact(shift, [0, 0, -0.5], None, None, [0, 0, 1], 0.5)
    assert len(one.problem().islands()) == 1 and len(two.problem().islands()) == 3
    two.contact(0, [0.5, 0, 0], 2, [-0.5, 0, 0], [1, 0, 0], 0.5)
    problem = two.problem()
    assert sorted(map(len, problem.islands())) == [3, 9]
    assert solve_friction(problem).converged


def test_warm_start_ends_at_once():
    problem = scenes.pile(np.random.default_rng(5), 15).problem()
    cold = solve_friction(problem)
    warm = solve_friction(problem, start=cold.impulses * (1 + 1e-7))
    assert warm.converged and warm.stage in ("open", "start") and warm.iterations < cold.iterations
    with pytest.raises(ValueError, match="finite impulses"):
        solve_friction(problem, start=np.zeros(2))


def test_each_stage_alone_reaches_the_certificate():
    """Interior point and gradient come near by different ways; from both the polish ends at rounding."""
    part = scaled.scale_problem(scenes.stack(np.random.default_rng(2), 4).problem())
    near = [x for x, _ in interior.interior_point(part, *interior.centre(part, 1.0)) if part.residual(x) < 1e-5][:1]
    near.append(gradient.projected_gradient(part, np.zeros_like(part.q), 1e-5, 20000).x)
    for x in near:
        assert TOLERANCE < part.residual(x) < 1e-4  # control: the stage alone did not end there
        assert min(part.residual(polish.polish(part, x, TOLERANCE, weight).x) for weight in (1.0, 1e2, 1e4)) <= TOLERANCE


def test_bold_steps_end_where_careful_ones_stall(monkeypatch):
    """Stacks with much friction have contacts that neither carry nor open: there F grows before it vanishes."""
    problems = [scenes.stack(np.random.default_rng(seed), 12, 1.5).problem() for seed in range(2, 5)]
    problems = [replace(problem, friction=3 * problem.friction) for problem in problems]
    monkeypatch.setattr(stages, "SCHEDULE", tuple(((), *turn[1:]) for turn in stages.SCHEDULE))  # paths end with bold steps, too
    bold = [solve_friction(problem) for problem in problems]
    assert all(solution.converged for solution in bold)
    monkeypatch.setattr(stages, "LEAP_WEIGHTS", ())  # control: without them a large part of the schedule is gone through
    careful = [solve_friction(problem) for problem in problems]
    assert 3 * sum(solution.iterations for solution in bold) < sum(solution.iterations for solution in careful)


def test_projection_and_its_slope():
    """Of the Lorentz cone: the nearest of many points, and differences; K_μ is the same cone for μ = 1."""
    rng = np.random.default_rng(0)
    p = rng.normal(size=(50, 3))
    nearest = cones.project(p)
    sample = rng.normal(size=(20000, 3))
    sample = sample[sample[:, 0] >= np.linalg.norm(sample[:, 1:], axis=1)]
    for point, found in zip(p, nearest, strict=True):
        assert np.linalg.norm(point - found) <= np.min(np.linalg.norm(sample - point, axis=1)) + 1e-12  # rounding
    assert np.allclose(problem_module.project_coulomb(p, np.ones(50)), nearest, atol=1e-14)
    h, direction = 1e-6, rng.normal(size=p.shape)
    slope = (cones.project(p + h * direction) - cones.project(p - h * direction)) / (2 * h)
    assert np.allclose(cones.apply(cones.project_derivative(p), direction), slope, atol=1e-8)  # h², curvature about 1e3


def test_scaling_makes_one_point_of_two():
    rng = np.random.default_rng(1)
    x, y = (np.concatenate([2 + rng.uniform(size=(20, 1)), rng.uniform(-1, 1, (20, 2))], axis=1) for _ in range(2))
    s = cones.scale(x, y)
    assert np.allclose(s.point, cones.apply(s.inverse, y)) and np.allclose(s.theta @ s.theta, s.theta_squared)
    assert np.allclose(s.inverse @ s.theta, np.eye(3)) and np.allclose(s.inverse @ s.inverse, s.inverse_squared)
    assert np.allclose(cones.product(x, cones.divide(x, y)), y)
    alpha = cones.longest_step(x, -y)
    edge = x - alpha * y
    assert abs(np.min(edge[:, 0] - cones.norm(edge[:, 1:]))) < 1e-12  # rounding


def test_bad_input_is_explained():
    with pytest.raises(ValueError, match="need 3 rows, not 2"):
        FrictionProblem.from_delassus(np.eye(2), np.ones(2), [0.5])
    with pytest.raises(ValueError, match="friction of contact 1 is negative"):
        FrictionProblem.from_delassus(np.eye(6), np.ones(6), [0.5, -0.1])
    with pytest.raises(ValueError, match="not finite"):
        FrictionProblem.from_delassus(np.eye(3), [np.nan, 0, 0], [0.5])
    with pytest.raises(ValueError, match="singular mass"):
        FrictionProblem.from_bodies(np.zeros((1, 3, 3)) + np.ones((3, 3)), np.eye(3), np.zeros(3), [0.5])


# -- small problems inside compiled programs --------------------------------------------------------------------------------


def small(scene, closed=None):
    """The arguments of `friction_impulses`, and the order that brings the rows of the problem into its order."""
    problem = scene.problem(in_bodies=False)
    k, d = len(problem.friction), 1 + problem.tangents
    order = np.arange(k * d).reshape(k, d)
    order = np.concatenate([order[:, 0], order[:, 1:].ravel()])
    W = problem.delassus.toarray()[np.ix_(order, order)]
    mask = np.ones(k, bool) if closed is None else closed
    return problem, order, (W, problem.q[order], np.zeros(k), problem.friction, mask)


def solve_all(arguments):
    stacked = [jnp.asarray(np.stack(a)) for a in zip(*arguments, strict=True)]
    return jax.device_get(jax.jit(lambda *a: jax.lax.map(lambda x: friction_impulses(*x), a))(*stacked))


@pytest.mark.parametrize("name", ["box with four corners", "wedge of 8", "wedge of 4 in the plane"])
def test_small_problems_meet_the_same_certificate(name):
    make = {
        "box with four corners": scenes.box_on_floor,
        "wedge of 8": lambda rng: scenes.wedge(rng, 8),
        "wedge of 4 in the plane": lambda rng: scenes.wedge(rng, 4, dimension=2),
    }[name]
    cases = [small(make(np.random.default_rng(seed))) for seed in range(60)]
    found = solve_all([arguments for _, _, arguments in cases])
    assert found.converged.all()
    for (problem, order, _), value, violation in zip(cases, found.value, found.violation, strict=True):
        r = np.empty_like(value)
        r[order] = value
        residual = problem.residual(r)
        assert residual <= 2 * TOLERANCE  # the rounding that the compiled one allows itself on top
        assert abs(violation - residual * np.linalg.norm(problem.q)) < 1e-12 * (1 + np.max(np.abs(r)))  # the same number
        assert breach(problem, r) < 1e-6  # as above
    pushed = [(W, q - 0.1, b, mu, closed) for _, _, (W, q, b, mu, closed) in cases[:3]]  # control: another problem, another answer
    assert np.max(np.abs(solve_all(pushed).value - found.value[:3])) > 1e-4


def test_small_problems_target_masks_and_lanes():
    """Restitution as target, contacts that are open, and the same numbers side by side as one by one."""
    rng = np.random.default_rng(4)
    arguments = []
    for _ in range(8):
        _, _, (W, q, _, mu, _) = small(scenes.wedge(rng, 3))
        arguments.append((W, q, np.array([0.0, 0.2, 0.0]), mu, np.array([True, True, False])))
    found = solve_all(arguments)
    stacked = [jnp.asarray(np.stack(a)) for a in zip(*arguments, strict=True)]
    lanes = jax.device_get(jax.jit(jax.vmap(friction_impulses))(*stacked))
    for i, (W, q, target, mu, _) in enumerate(arguments):
        r = found.value[i]
        rows = np.array([0, 1, 3, 4, 5, 6])  # of the closed ones
        assert np.all(r[[2, 7, 8]] == 0) and found.converged[i] and lanes.converged[i]
        shifted = q - np.r_[target, np.zeros(6)]
        alone = rows[np.array([0, 2, 3, 1, 4, 5])]
        problem = FrictionProblem.from_delassus(W[np.ix_(alone, alone)], shifted[alone], mu[:2])
        assert problem.residual(r[alone]) <= 2 * TOLERANCE
        assert problem.residual(lanes.value[i][alone]) <= 2 * TOLERANCE


def test_small_problems_without_solution_say_so():
    """Two walls that close on a point, as above."""
    G = np.kron(np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]]))
    found = solve_all([(G, np.array([-1.0, -1.0, 0.1, -0.1]), np.zeros(2), np.full(2, 0.3), np.ones(2, bool))])
    assert not found.converged[0] and found.violation[0] > 1e-3


# -- problems of real scenes ------------------------------------------------------------------------------------------------

FOLDER = os.environ.get("CAROM_FRICTION_DATA")


@pytest.mark.skipif(FOLDER is None, reason="CAROM_FRICTION_DATA names a folder of contact problems (*.npz)")
def test_problems_of_real_scenes():
    files = sorted(Path(FOLDER or "").glob("*.npz"))
    assert files
    for file in files:
        data = np.load(file)
        W = sparse.csr_matrix((data["W_data"], data["W_indices"], data["W_indptr"]), data["W_shape"])
        solution = solve_friction(FrictionProblem.from_delassus(W, data["q"], data["mu"]))
        assert solution.converged, f"{file.stem}: E = {solution.residual}"
