"""Large contact problems in compiled blocks: factors, products and steps against dense matrices, solutions by the certificate."""

from dataclasses import replace

import numpy as np
import pytest

import carom
from benchmarks import friction_scenes as scenes
from carom.numerics.friction import compiled
from carom.numerics.friction.problem import FrictionProblem
from carom.numerics.friction.scaled import scale_problem
from carom.numerics.friction.stages import solve_friction

numba = pytest.importorskip("numba", reason="compiled blocks need numba")

from carom.numerics.friction import curve  # noqa: E402
from carom.numerics.friction.compiled import block_factors as factors  # noqa: E402
from carom.numerics.friction.compiled import block_folds, block_gradient, block_newton, block_path, block_solver  # noqa: E402
from carom.numerics.friction.compiled.block_problem import BILATERAL, blocks_of, in_blocks  # noqa: E402

TOLERANCE = 1e-8  # of E: what steps of many bodies are asked for


def _problems() -> dict[str, FrictionProblem]:
    rng = np.random.default_rng
    return {
        "packing": scenes.packing(rng(0), 3, 3, 0.1),
        "stack": scenes.stack(rng(1), 5, 1.5).problem(),
        "pile, some contacts without friction": scenes.pile(rng(2), 12).problem(),
        "chain with joints": scenes.chain(rng(3), 5).problem(),
        "pile in the plane": scenes.pile(rng(4), 12, dimension=2).problem(),
    }


PROBLEMS = _problems()
each_problem = pytest.mark.parametrize("name", PROBLEMS)


def _random_graph(rng, n: int, d: int):
    """Blocks of a matrix on a random graph, near enough to the identity to be regular, and the matrix."""
    pair = np.array([(i, j) for i in range(n) for j in range(i) if rng.random() < 0.15])
    start, rows = factors.structure(n, pair)
    A = np.zeros((n, n, d, d))
    A[np.arange(n), np.arange(n)] = 6 * np.eye(d) + rng.normal(size=(n, d, d))
    for i, j in pair:
        A[i, j], A[j, i] = rng.normal(size=(2, d, d))
    column = np.repeat(np.arange(n), np.diff(start))
    return start, rows, A[np.arange(n), np.arange(n)].copy(), A[rows, column].copy(), A[column, rows].copy(), A


@pytest.mark.parametrize("d", [3, 6])
def test_factors_solve_what_a_dense_matrix_says(d):
    rng, n = np.random.default_rng(d), 30
    start, rows, D, L, U, A = _random_graph(rng, n, d)
    matrix = A.transpose(0, 2, 1, 3).reshape(n * d, n * d)
    b = rng.normal(size=(n, d))
    expected = np.linalg.solve(matrix, b.ravel()).reshape(n, d)
    wrong = D.copy()  # control: a factor whose fill was forgotten solves another system
    assert factors.factorise(start, rows, D, L, U, (0,) * d, len(D))
    x = b.copy()
    factors.solve(start, rows, D, L, U, x, (0,) * d)
    slack = 1e3 * np.finfo(float).eps * np.linalg.cond(matrix)  # of an elimination with pivots inside of blocks alone
    assert np.abs(x - expected).max() <= slack * np.abs(expected).max()
    assert np.abs(np.linalg.solve(wrong, b[:, :, None])[:, :, 0] - expected).max() > 1e-2 * np.abs(expected).max()


@pytest.mark.parametrize("tail", [0, 1, 11, 30])
def test_the_last_bodies_may_be_one_dense_matrix(tail):
    rng, n, d = np.random.default_rng(5), 30, 6
    start, rows, D, L, U, A = _random_graph(rng, n, d)
    matrix = A.transpose(0, 2, 1, 3).reshape(n * d, n * d)
    b = rng.normal(size=(n, d))
    expected = np.linalg.solve(matrix, b.ravel()).reshape(n, d)
    found = factors.Factors.of(start, rows, D, L, U, tail)
    assert found is not None
    x = b.copy()
    found.solve(x)
    slack = 1e3 * np.finfo(float).eps * np.linalg.cond(matrix)  # as above
    assert np.abs(x - expected).max() <= slack * np.abs(expected).max()
    if found.dense is not None:  # control: a matrix of its own for the last bodies, and not its transpose
        turned = factors.Factors(found.blocks, (np.asfortranarray(found.dense[0].T), found.dense[1]))
        y = b.copy()
        turned.solve(y)
        assert np.abs(y - expected).max() > 1e-2 * np.abs(expected).max()


def test_a_dense_tail_is_as_long_as_it_pays():
    full = np.arange(80)
    pair = np.array([(i, j) for i in full for j in full[:i]])
    start, _ = factors.structure(80, pair)
    tail, left = factors.dense_tail(start, 6)
    length = np.diff(start).astype(float)
    work = np.sum(length * (length + 2)) * 2 * 6**3
    assert tail > 70 and left < 0.5 * work
    chain, _ = factors.structure(80, np.stack([full[:-1], full[1:]], axis=1))  # control: nothing to gain
    assert factors.dense_tail(chain, 6)[0] == 0


def test_a_matrix_without_a_pivot_is_refused():
    start, rows, D, L, U, _ = _random_graph(np.random.default_rng(0), 5, 3)
    D[2] = L[:] = U[:] = 0.0
    assert not factors.factorise(start, rows, D.copy(), L, U, (0,) * 3, len(D))
    assert factors.Factors.of(start, rows, D, L, U, len(D)) is None


@each_problem
def test_products_and_certificate_are_those_of_the_problem(name):
    problem = PROBLEMS[name]
    blocks, rng = blocks_of(problem), np.random.default_rng(1)
    r = rng.normal(size=len(problem.q))
    if np.any(problem.friction == 0):  # its tangential rows do not exist in blocks
        r[: problem.contact_rows].reshape(-1, 1 + problem.tangents)[problem.friction == 0, 1:] = 0.0
    x = blocks.unknowns(r)
    assert np.allclose(blocks.impulses(x), r, rtol=1e-14, atol=0)
    z = block_gradient.rate(blocks, x)
    u = np.where(blocks.G.any(axis=2), z / blocks.factor * blocks.size, 0.0)
    known = problem.velocities(r)
    rows = np.concatenate([u[: blocks.contacts].ravel(), u[blocks.contacts :, 0]])
    seen = rows != 0
    assert np.allclose(rows[seen], known[seen], rtol=0, atol=1e-12 * np.abs(known).max())  # a hundred products a row
    E = block_gradient.residual(blocks, x, z)
    assert pytest.approx(problem.residual(r), rel=1e-10) == E
    assert pytest.approx(problem.residual(1.01 * r), rel=1e-10) != E  # control


@each_problem
def test_a_newton_step_solves_its_equations(name):
    blocks, rng = blocks_of(PROBLEMS[name]), np.random.default_rng(2)
    x = np.where(blocks.G.any(axis=2), rng.normal(size=blocks.q.shape), 0.0)
    z = block_gradient.rate(blocks, x)
    strength, small = 0.1, 1e-7
    F, points, _ = block_newton.natural_map(blocks, x, z, 1.0)
    dx = block_newton.newton_step(blocks, F, points, z, 1.0, strength)
    moved = x + small * dx  # about x: the shift is λ times the move
    shifted = block_gradient.rate(blocks, moved) + strength * (moved - x)
    change = (block_newton.natural_map(blocks, moved, shifted, 1.0)[0] - F) / small
    # F' dx = −F, but for ε of (17) and the second order of the difference
    slack = 1e-4 * max(np.linalg.norm(F), np.linalg.norm(dx))
    assert np.linalg.norm(change + F) <= slack
    unshifted = block_newton.natural_map(blocks, moved, block_gradient.rate(blocks, moved), 1.0)[0]
    assert np.linalg.norm((unshifted - F) / small + F) > slack  # control: another λ


@each_problem
def test_solutions_meet_the_certificate_and_move_as_the_stages_say(name):
    problem = PROBLEMS[name]
    found = block_solver.solve_in_blocks(blocks_of(problem), None, TOLERANCE)
    assert problem.residual(found.impulses) <= TOLERANCE < problem.residual(np.zeros_like(problem.q))  # control: something presses
    again = block_solver.solve_in_blocks(blocks_of(problem), found.impulses, TOLERANCE)
    assert again.iterations == 0 and np.allclose(again.impulses, found.impulses, rtol=1e-14, atol=0)
    if name == "packing":  # sticks all over, so that velocities are unique
        other = solve_friction(problem, tolerance=1e-10)
        size = np.abs(problem.q).max()
        assert np.allclose(
            problem.velocities(found.impulses), other.velocities, rtol=0, atol=1e-5 * size
        )  # E over the flattest mode


def test_what_gives_way_gives_way():
    """A mass on a row that gives way by γ: (1/m + γ) r + q = 0."""
    row = np.array([[0.0, 0, 1, 0, 0, 0]])
    mass, q, gamma = 2.0, np.array([-3.0]), np.array([0.25])
    light = np.diag([1 / mass] * 6)[None]
    ask = lambda soft: in_blocks((row, 0 * row), np.array([[0, 1]]), light, q, np.zeros(0), 3, soft)  # noqa: E731
    found = block_solver.solve_in_blocks(ask(gamma), None, 1e-12)
    assert found.impulses[0] == pytest.approx(3.0 / (1 / mass + 0.25), rel=1e-10)
    rigid = block_solver.solve_in_blocks(ask(None), None, 1e-12)
    assert rigid.impulses[0] == pytest.approx(3.0 * mass, rel=1e-10)  # control


def test_many_contacts_cost_iterations_and_not_factorisations():
    """A packing whose factorisation is long is left to first order; a small one is solved by Newton's method."""
    problem = scenes.packing(np.random.default_rng(0), 6, 6, 0.1)
    blocks = blocks_of(problem)
    first = block_gradient.projected_gradient(blocks, np.zeros_like(blocks.q), TOLERANCE, 50)
    assert first[1] > TOLERANCE and first[2] == 50  # control: fifty iterations do not do
    found = block_solver.solve_in_blocks(blocks, None, TOLERANCE)
    assert problem.residual(found.impulses) <= TOLERANCE
    heavy = replace(blocks, pair=blocks.pair)
    assert block_solver._work(heavy, np.ones_like(blocks.q)) > 20 * block_solver._work(
        blocks_of(PROBLEMS["packing"]), np.ones_like(blocks_of(PROBLEMS["packing"]).q)
    )


def test_the_same_problem_has_the_same_answer():
    problem = PROBLEMS["pile, some contacts without friction"]
    first, second = (block_solver.solve_in_blocks(blocks_of(problem), None, TOLERANCE) for _ in range(2))
    assert np.array_equal(first.impulses, second.impulses)


def test_problems_without_bodies_are_refused():
    with pytest.raises(ValueError, match="W alone was given"):
        blocks_of(scenes.stack(np.random.default_rng(5), 4).problem(in_bodies=False))


def test_worlds_move_alike_with_and_without_numba(monkeypatch):
    """256 balls that come to lie on each other: by arrays and by compiled loops, before the motion is chaotic."""
    world = carom.World(gravity=(0, 0, -9.81))
    world.fix(carom.shapes.HalfSpace())
    rng = np.random.default_rng(0)
    for k in range(256):
        at = np.array([k % 8, k // 8 % 8, k // 64]) * 0.1001 + (0, 0, 0.05) + 1e-5 * rng.random(3)
        world.add(carom.shapes.Sphere(0.05), density=1000, position=at)
    world.material(friction=0.5)
    ask = lambda: world.solve(dt=1e-3, num_steps=3, tolerance=1e-10, progress=False)  # noqa: E731
    with_it = ask()
    assert "together" in with_it.stages  # what is compared
    monkeypatch.setattr(compiled, "available", lambda: False)
    without = ask()
    assert np.allclose(with_it.x[-1], without.x[-1], rtol=0, atol=1e-9)  # three steps of 1e-3 s at 1e-10 of 1 m/s
    assert with_it.residual.max() <= 1e-10 and without.residual.max() <= 1e-10


def test_scaling_is_that_of_the_stages_in_arrays():
    problem = PROBLEMS["stack"]
    blocks, scaled = blocks_of(problem), scale_problem(problem, form=False)
    assert np.allclose(blocks.factor[: blocks.contacts].ravel(), scaled.factor, rtol=1e-13)
    assert blocks.size == pytest.approx(scaled.size, rel=1e-13)


def _wedged(seed: int, friction: float, bodies: int = 3, contacts: int = 6):
    """Contacts that wedge bodies in: what turns them presses them too, and paths have folds."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, bodies, contacts)
    b = (a + 1 + rng.integers(0, bodies, contacts)) % (bodies + 1)
    pair = np.repeat(np.stack([a, b], axis=1), 3, axis=0)
    rows = rng.normal(size=(2, 3 * contacts, 6))
    rows[1][pair[:, 1] == bodies] = 0.0
    masses = np.tile(np.eye(6), (bodies, 1, 1))
    return in_blocks((rows[0], rows[1]), pair, masses, rng.normal(size=3 * contacts), np.full(contacts, friction), 3)


def _dense(blocks, C, E):
    """C + EÂ of (17), of problems in which all units are rough."""
    units, w = blocks.q.shape
    unit = np.eye(units * w).reshape(-1, units, w)
    columns = [np.einsum("uij,uj->ui", C, x) + np.einsum("uij,uj->ui", E, block_gradient.product(blocks, x)) for x in unit]
    return np.array([column.ravel() for column in columns]).T


def test_the_sign_of_a_determinant_is_that_of_the_dense_matrix():
    rng, signs = np.random.default_rng(0), []
    for seed in range(40):
        blocks = _wedged(seed, 3.0)
        z = rng.normal(size=blocks.q.shape)
        there = block_newton.Linearised.at(blocks, rng.normal(size=z.shape), z, 1.0, 1e-3)
        signs.append(there.sign())
        assert np.linalg.slogdet(_dense(blocks, there.C, there.E))[0] == signs[-1]
    assert {-1.0, 1.0} == set(signs)  # control: there are both


@pytest.mark.parametrize("tail", [0, 1, 11, 30])
def test_the_sign_of_factors_counts_exchanges(tail):
    start, rows, D, L, U, A = _random_graph(np.random.default_rng(6), 30, 3)
    matrix = A.transpose(0, 2, 1, 3).reshape(90, 90)
    other = tuple(a.copy() for a in (D, L, U))
    assert factors.Factors.of(start, rows, D, L, U, tail).sign() == np.linalg.slogdet(matrix)[0]
    other[0][-1] *= -1.0  # control: three rows of the last body change their sign, and the others of them do not
    expected = matrix.copy()
    expected[-3:, -3:] *= -1.0
    assert factors.Factors.of(start, rows, *other, tail).sign() == np.linalg.slogdet(expected)[0] == -np.linalg.slogdet(matrix)[0]


@each_problem
def test_the_path_through_the_inside_begins_as_that_of_the_matrices_ends(name):
    """Its places solve (19): the same problem, with a gap and a defect that are θ of the first."""
    blocks = blocks_of(PROBLEMS[name])
    for place in block_path.interior_path(blocks, 0.1, 40):
        cones = blocks.kind != BILATERAL
        gap = np.sum(place.x * place.y, axis=1)[cones]
        assert np.all(np.abs(gap - place.share * place.curve.gap) <= curve.CENTRED * place.share * place.curve.gap * 1.001)
        slack = curve.NEAR * place.share * np.linalg.norm(place.curve.defect)
        now = block_path.defect(place.curve.problem, place.x, place.y, place.blur)
        assert np.linalg.norm(now - place.share * place.curve.defect) <= slack * 1.001
        if place.share < 0.5:  # control: that of another θ is something else
            assert np.linalg.norm(now - 2 * place.share * place.curve.defect) > slack
    assert place.share < 1e-3


@pytest.mark.parametrize(("seed", "friction"), [(23, 3.0), (23, 0.8), (20, 0.8), (2, 0.8)])
def test_a_path_goes_through_its_folds(seed, friction):
    blocks = _wedged(seed, friction)
    places = list(block_path.interior_path(blocks, 0.1, 300))
    shares = np.array([place.share for place in places])
    assert np.any(np.diff(shares) > 0)  # control: there is a fold, beyond which θ grows
    worst = [block_gradient.residual(blocks, place.x, block_gradient.rate(blocks, place.x)) for place in (places[0], places[-1])]
    assert shares.min() < 1e-5 and worst[1] < 1e-4 < 1e-2 < worst[0]


@each_problem
def test_the_curve_of_solutions_about_a_point_ends_in_one_of_the_problem(name):
    blocks = blocks_of(PROBLEMS[name])
    near = block_gradient.projected_gradient(blocks, np.zeros_like(blocks.q), TOLERANCE, 25)[0]  # not far from a solution
    x, found, _ = block_folds.follow(blocks, near, TOLERANCE, block_solver.STRONG, 500)
    assert found <= TOLERANCE
    assert block_gradient.residual(blocks, x, block_gradient.rate(blocks, x)) == found
    assert block_gradient.residual(blocks, near, block_gradient.rate(blocks, near)) > 1e2 * TOLERANCE  # control


@each_problem
def test_proximal_points_from_the_inside_solve(name):
    blocks = blocks_of(PROBLEMS[name])
    turn = next(turn for turn in block_solver.TURNS if isinstance(turn, block_solver.Inside))
    x, found, _ = block_solver._from_inside(blocks, turn, TOLERANCE)
    assert found <= max(TOLERANCE, block_solver.FINISH)
    assert block_gradient.residual(blocks, x, block_gradient.rate(blocks, x)) == found
    first = next(iter(block_path.interior_path(blocks, 0.1, 2))).x  # control: the beginning of the path is no solution
    assert block_gradient.residual(blocks, first, block_gradient.rate(blocks, first)) > 1e3 * TOLERANCE
