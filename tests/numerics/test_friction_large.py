"""Large contact problems: all islands at once, hard ones along paths, and first order in one compiled program."""

import os
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy import sparse

import carom  # noqa: F401  (double precision)
from benchmarks import friction_scenes as scenes
from carom.errors import InputError
from carom.numerics.friction import device_arrays, on_device, scaled, together
from carom.numerics.friction.gradient import projected_gradient
from carom.numerics.friction.in_bodies import bodies_of
from carom.numerics.friction.polish import leap
from carom.numerics.friction.problem import FrictionProblem
from carom.numerics.friction.scaled import scale_problem
from carom.numerics.friction.stages import solve_friction

TOLERANCE = 1e-8  # of E: what steps of many bodies are asked for
FOLDER = os.environ.get("CAROM_FRICTION_DATA")


def _small_problems() -> dict[str, FrictionProblem]:
    rng = np.random.default_rng
    return {
        "packing": scenes.packing(rng(0), 3, 3, 0.1),
        "stack": scenes.stack(rng(1), 5, 1.5).problem(),
        "pile with contacts without friction": scenes.pile(rng(2), 12).problem(),
        "chain with joints": scenes.chain(rng(3), 5).problem(),
        "pile in the plane": scenes.pile(rng(4), 12, dimension=2).problem(),
        "given by W": scenes.stack(rng(5), 4).problem(in_bodies=False),
    }


def test_all_islands_at_once_meet_the_certificate():
    problem = scenes.packing(np.random.default_rng(0), 5, 6, 0.1)
    found = together.solve_together(problem, None, TOLERANCE)
    assert problem.residual(found.x) <= TOLERANCE < problem.residual(np.zeros_like(found.x))  # control: they carry a weight
    again = together.solve_together(problem, found.x, TOLERANCE)
    assert again.iterations == 0 and np.array_equal(again.x, found.x)  # a solution stays what it is


def test_each_ball_of_a_packing_is_carried():
    """At rest the impulses of a step take up what gravity gives: exact, whatever the (not unique) impulses are."""
    problem = scenes.packing(np.random.default_rng(0), 4, 4)
    r = together.solve_together(problem, None, TOLERANCE).x
    kick = (problem.jacobian @ r).reshape(-1, 6)
    weight = scenes.GRAVITY * scenes.DT  # of a ball of mass 1, in a step
    assert np.allclose(kick[:, 2], weight, rtol=1e-5)  # E bounds the velocities, 1e-8 of ‖q‖, over the flattest mode of 4 layers
    assert np.allclose(kick[:, [0, 1, 3, 4, 5]], 0, atol=1e-5 * weight)


def test_a_hard_island_is_solved_along_a_path():
    problem = scenes.pile(np.random.default_rng(0), 60).problem()
    found = together.solve_hard(problem, np.zeros_like(problem.q), TOLERANCE)
    assert problem.residual(found.x) <= TOLERANCE
    exact = solve_friction(problem, None, 1e-10)
    size = np.linalg.norm(problem.q)
    assert np.linalg.norm(problem.velocities(found.x) - exact.velocities) < 1e-4 * size  # E over the flattest mode


@pytest.mark.parametrize("form", ["in blocks", "in bodies", "in rows"])
def test_newtons_system_of_the_contacts_that_act(monkeypatch, form):
    """(6) with some E = 0 against the dense matrix."""
    monkeypatch.setattr(scaled, "ROWS", np.inf if form == "in rows" else 0.0)
    monkeypatch.setattr(scaled, "DENSE", 0)
    problem = scenes.pile(np.random.default_rng(0), 12).problem()
    what = scale_problem(problem, in_blocks=form == "in blocks")
    rng = np.random.default_rng(1)
    C = [np.eye(block.shape[1]) + 0.1 * rng.normal(size=(*block.shape, block.shape[1])) for block in what.split(what.q)]
    E = [rng.normal(size=part.shape) * (rng.uniform(size=len(part)) < 0.5)[:, None, None] for part in C]
    b = rng.normal(size=len(what.q))
    A = what.matrix.toarray()
    dense = scaled.diagonal(C).toarray() + scaled.diagonal(E).toarray() @ A
    assert sum(np.sum(~np.any(part, axis=(1, 2))) for part in E) > 3  # control: some contacts open
    condition = np.linalg.cond(dense)
    assert np.allclose(what.factorise(C, E).solve(b), np.linalg.solve(dense, b), rtol=1e-12 * condition, atol=1e-14 * condition)


@pytest.mark.parametrize(
    "name", ["packing", "stack", "pile with contacts without friction", "chain with joints", "pile in the plane"]
)
def test_the_blocks_of_bodies_are_the_matrix_of_newtons_system(name):
    """M + HΓ D ΓHᵀ of (7) against dense matrices, with some D = 0."""
    what = scale_problem(_small_problems()[name], in_blocks=True)
    rng = np.random.default_rng(0)
    D = [
        rng.normal(size=(*part.shape, part.shape[1])) * (rng.uniform(size=len(part)) < 0.7)[:, None, None]
        for part in what.split(what.q)
    ]
    H, M = what.H.toarray(), what.problem.mass.toarray()
    dense = M + H @ scaled.diagonal(D).toarray() @ H.T
    order = what.bodies.coordinates
    made = what.bodies.matrix(D).toarray()
    assert sorted(order) == list(range(len(M)))  # each coordinate once
    assert np.allclose(made, dense[order][:, order], rtol=0, atol=1e-13 * np.abs(dense).max())  # a dozen sums, rounded
    assert np.abs(dense - dense.T).max() > 1e-3 * np.abs(dense).max()  # control: a transpose would be seen


def test_bodies_that_are_not_alike_have_no_blocks():
    mass = [sparse.diags([1.0, 2.0, 3.0]), sparse.block_diag([np.ones((2, 2)) + np.eye(2), [[1.0]]])]
    H = sparse.csr_matrix(np.ones((3, 1)))  # a row of three bodies; bodies of two sizes
    assert all(bodies_of(H, M.tocsr(), (0, 1, 0), 1) is None for M in mass)
    assert bodies_of(sparse.csr_matrix([[1.0], [1.0], [0.0]]), mass[0].tocsr(), (0, 1, 0), 1).width == 1  # control


def test_steps_that_are_held_end_where_others_go_astray():
    """Impulses are not unique in a pile. With a small λ Newton's steps are so long along those that move nothing that contacts
    leave their cones: of five piles it solves one or none, and with λ in proportion to ‖F‖ four."""
    solved = {0.0: 0, together.SLOPE: 0}
    for seed in range(5):
        what = scale_problem(scenes.pile(np.random.default_rng(seed), 60).problem(), in_blocks=True)
        with np.errstate(all="ignore"):
            near, _ = projected_gradient(what, np.zeros_like(what.q), 1e-7, 100)
            for slope in solved:
                x = leap(what, near, TOLERANCE, in_vain=together.IN_VAIN, slope=slope).x
                solved[slope] += what.residual(x) <= TOLERANCE
    assert solved[together.SLOPE] >= solved[0.0] + 2, solved  # 4 and 1: that of one may turn with rounding


def test_the_same_problem_has_the_same_answer():
    problem = scenes.packing(np.random.default_rng(0), 4, 4, 0.1, speed=0.01)
    first, second = (together.solve_together(problem, None, TOLERANCE) for _ in range(2))
    assert np.array_equal(first.x, second.x) and first.iterations == second.iterations > 0  # to the last bit
    assert problem.residual(first.x) <= TOLERANCE


# -- in one compiled program ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", _small_problems())
def test_the_compiled_stage_meets_the_certificate(name):
    problem = _small_problems()[name]
    found = on_device.solve_on_device(problem, tolerance=TOLERANCE, max_iterations=20_000)
    assert found.converged and found.residual == problem.residual(found.impulses) <= TOLERANCE
    assert problem.residual(np.zeros_like(problem.q)) > TOLERANCE  # control: there was something to do
    again = on_device.solve_on_device(problem, tolerance=TOLERANCE, max_iterations=20_000)
    assert np.array_equal(found.impulses, again.impulses)  # nothing depends on the order in which threads end


def test_the_compiled_certificate_is_that_of_the_problem():
    problem = _small_problems()["pile with contacts without friction"]
    what = scale_problem(problem, form=False)
    placed, counts, where = on_device.place(what)
    x = np.abs(np.random.default_rng(0).normal(size=len(what.q)))
    wide = np.zeros(len(placed.q))
    wide[where] = x
    told = on_device.certificate(placed, wide, placed.apply(wide), counts)
    assert float(told) == pytest.approx(what.residual(x), rel=1e-12)  # the same sums, rounded otherwise
    assert told > 1e-3  # control: x is no solution


def test_rows_of_any_length_are_summed():
    rng = np.random.default_rng(0)
    lengths = [0, 1, 8, 11, 12, 13, 1000, 3000]  # more than 12 · 8² entries: three levels of sums
    rows = np.repeat(np.arange(len(lengths)), lengths)
    columns = np.concatenate([rng.choice(4000, n, replace=False) for n in lengths])
    matrix = sparse.csr_matrix((rng.normal(size=len(rows)), (rows, columns)), (len(lengths), 4000))
    made, x = device_arrays.ragged(matrix), rng.normal(size=4000)
    assert len(made.sums) == 3 and np.allclose(made @ x, matrix @ x, rtol=0, atol=1e-12)  # 3000 terms of size 1, rounded
    assert made.values.size < 3 * matrix.nnz  # memory follows the entries, not the longest row


def test_memory_is_proportional_to_the_contacts():
    each = []
    for across in (3, 6):
        problem = scenes.packing(np.random.default_rng(0), across, across)
        placed, *_ = on_device.place(scale_problem(problem, form=False))
        each.append(sum(leaf.nbytes for leaf in jax.tree.leaves(placed)) / len(problem.friction))
    assert each[1] < 1.7 * each[0], each  # 8 times the bodies, sizes rounded up by half; W would grow 8 times


def test_what_cannot_be_run_is_refused():
    problem = _small_problems()["stack"]
    with pytest.raises(InputError, match="choose 'gpu' or 'cpu'"):
        on_device.solve_on_device(problem, device="tpu")
    if not any(device.platform == "gpu" for device in jax.devices()):
        with pytest.raises(InputError, match="there is no gpu that JAX can use here"):
            on_device.solve_on_device(problem, device="gpu")


def test_a_tolerance_that_is_missed_is_told():
    problem = _small_problems()["packing"]
    found = on_device.solve_on_device(problem, tolerance=1e-8, max_iterations=50)
    assert not found.converged and found.residual > 1e-8 and found.iterations == 50
    assert replace(problem, q=0 * problem.q).residual(np.zeros_like(problem.q)) == 0  # control: nothing to do is no miss


@pytest.mark.skipif(FOLDER is None, reason="CAROM_FRICTION_DATA names a folder of contact problems (*.npz)")
@pytest.mark.parametrize("file", sorted(Path(FOLDER or "/nowhere").glob("*.npz")), ids=lambda file: file.stem)
def test_problems_of_real_scenes_by_the_compiled_stage(file):
    data = np.load(file)
    W = sparse.csr_matrix((data["W_data"], data["W_indices"], data["W_indptr"]), data["W_shape"])
    problem = FrictionProblem.from_delassus(W, data["q"], data["mu"])
    assert on_device.solve_on_device(problem, tolerance=TOLERANCE, max_iterations=20_000).converged
