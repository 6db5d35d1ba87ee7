"""Paths through the inside of the cones in rows: what their places solve, which way they go, and what folds are for."""

from dataclasses import replace

import numpy as np
import pytest

import carom  # noqa: F401  (double precision)
from benchmarks import friction_scenes as scenes
from carom.numerics.friction import curve, stages
from carom.numerics.friction.interior import centre, interior_point
from carom.numerics.friction.row_path import row_path
from carom.numerics.friction.scaled import scale_problem
from carom.numerics.friction.stages import solve_friction

TOLERANCE = 1e-10  # of E: what the driver promises


def largest_island(scene, in_bodies: bool):
    problem = scene.problem(in_bodies)
    return problem.part(max(problem.islands(), key=len))


PROBLEMS = {
    "pile": lambda: scenes.pile(np.random.default_rng(3), 20, 1.0),
    "pile in the plane": lambda: scenes.pile(np.random.default_rng(4), 20, 1.5, dimension=2),
    "chain with joints": lambda: scenes.chain(np.random.default_rng(1), 6),
    "rocks": lambda: scenes.rocks(np.random.default_rng(2), 12),
}


@pytest.mark.parametrize("in_bodies", [False, True])
@pytest.mark.parametrize("name", PROBLEMS)
def test_places_solve_the_problem_of_the_path(name, in_bodies):
    """(19), written again contact by contact."""
    scaled = scale_problem(largest_island(PROBLEMS[name](), in_bodies))
    shares = []
    for place in row_path(scaled, 1.0, 3.0, 60):
        path, share = place.curve, place.share
        shares.append(share)
        z = scaled.rate(place.x)
        rest = z - place.y
        for i, (across, impulse) in enumerate(zip(scaled.split(place.y)[0], scaled.split(place.x)[0], strict=True)):
            rest[i * scaled.columns] += np.sqrt(np.sum(across[1:] ** 2) + (3.0 * share) ** 2)  # τ₀ = 1 here
            assert abs(across @ impulse - share) <= curve.CENTRED * share * 1.001
        slack = curve.NEAR * share * np.linalg.norm(path.defect)
        assert np.linalg.norm(rest - share * path.defect) <= slack * 1.001
        if share < 0.5:  # control: that of another θ is something else
            assert np.linalg.norm(rest - 2 * share * path.defect) > slack
    assert min(shares) < 1e-2


@pytest.mark.parametrize("rows", ["few", "many", "bodies"])
def test_the_sign_of_the_factors_is_that_of_the_matrix(rows):
    """Dense, sparse and in the coordinates of bodies."""
    scaled = scale_problem(largest_island(scenes.rocks(np.random.default_rng(2), 6 if rows == "few" else 25), rows == "bodies"))
    assert isinstance(scaled.matrix, np.ndarray) == (rows == "few")
    rng, signs = np.random.default_rng(0), set()
    if rows == "bodies":
        scaled = replace(scaled, matrix=None)
    inside = np.eye(scaled.columns)
    product = np.stack([scaled.apply(e) for e in np.eye(len(scaled.q))], axis=1)
    for _ in range(12):
        blocks = np.zeros((scaled.counts[0], 3, 3))
        for block in blocks:
            shear = inside.copy()
            shear[0, 1:] -= 3 * rng.normal(size=2)
            block[:] = shear * 10 ** rng.uniform(-3, 1)  # positive determinants, and far from symmetric
        C = [blocks, np.zeros((0, 1, 1)), np.zeros((0, 1, 1))]
        matrix = product.copy()
        for i, block in enumerate(blocks):
            matrix[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] += block
        signs.add(scaled.factorise(C, None).sign())
        assert scaled.factorise(C, None).sign() == np.linalg.slogdet(matrix)[0]
    assert signs == {-1.0, 1.0}  # control: there are both


def test_a_path_goes_through_its_folds_where_one_that_may_not_turn_back_ends():
    scaled = scale_problem(largest_island(scenes.rocks(np.random.default_rng(6), 25), False))
    places = list(row_path(scaled, 1.0, 3.0, 600))
    shares = np.array([place.share for place in places])
    assert np.any(np.diff(shares) > 0)  # there is a fold, beyond which θ grows
    assert scaled.residual(places[-1].x) < 1e-6
    with np.errstate(all="ignore"):
        stalled = [scaled.residual(x) for x, _ in interior_point(scaled, *centre(scaled, 1.0))]
    assert min(stalled) > 1e-4  # control


def test_rocks_are_solved():
    """Piles of which the stages without these paths miss some after ten seconds."""
    problem = scenes.rocks(np.random.default_rng(2), 60).problem(in_bodies=False)
    found = solve_friction(problem)
    assert found.converged and problem.residual(found.impulses) <= TOLERANCE


def test_control_without_paths_the_same_rounds_miss_them(monkeypatch):
    monkeypatch.setattr(stages, "SCHEDULE", tuple(((), *turn[1:]) for turn in stages.SCHEDULE))
    problem = scenes.rocks(np.random.default_rng(2), 60).problem(in_bodies=False)
    assert not solve_friction(problem, rounds=2).converged
