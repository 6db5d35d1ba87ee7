"""The compiled loops of small scenes answer as the arrays do that they stand for: on random shapes and problems, and along runs."""

import sys
from functools import partial

import numpy as np
import pytest

from carom import models
from carom.bodies import contact_rows, dense_newton, islands, scene, shapes, step_ends, velocity
from carom.bodies.dense_newton import BLURRED, GOOD, HALF_BIT, PATIENCE, PROXIMAL, STEPS, Dense
from carom.bodies.detection import detect, walls
from carom.bodies.detection.geometry import build, place
from carom.bodies.quaternions import matrix, normalise
from carom.bodies.world import World
from carom.numerics.friction import compiled

pytest.importorskip("numba", reason="there are no loops without numba")

EPS = np.finfo(float).eps
ALONG_RUNS = (
    contact_rows.contact_columns,
    contact_rows.rates_of,
    contact_rows.kick_of,
    islands.parts_of,
    contact_rows.delassus,
    velocity.velocities_after,
    scene.drifted,
    walls.over_half_space,
    step_ends.speeds,
    step_ends.rates_across,
    step_ends.states_of,
    step_ends.lasting_of,
)


def _problem(rng):
    """Random bodies, contacts with and without friction, and bilateral rows, in as many dimensions as comes."""
    bodies, contacts, joints, tangents = rng.integers(1, 6), rng.integers(1, 9), rng.integers(0, 4), rng.integers(0, 3)
    H = rng.normal(size=(6 * bodies, contacts * (1 + tangents) + joints))
    friction = rng.uniform(0, 1, contacts) * (rng.random(contacts) > 0.2) * (tangents > 0)
    return Dense(H.T @ H, H.T @ rng.normal(size=6 * bodies), friction, int(tangents), 0.0)


def _both_ways(problem):
    """The answer of loops, and that of arrays."""
    given = problem, np.zeros(len(problem.q)), PROXIMAL[0], PATIENCE, 1e-11, STEPS, (GOOD, 2 * HALF_BIT, BLURRED)
    return dense_newton.newton_from(*given), dense_newton.newton_from.__wrapped__(*given)


def test_newtons_method_ends_in_the_same_velocities():
    rng, solved = np.random.default_rng(0), 0
    for _ in range(120):
        problem = _problem(rng)
        (r, residual, _), (other, theirs, _) = _both_ways(problem)
        assert abs(residual - problem.residual(r)) <= 10 * EPS * max(1, residual)  # sums in another order
        assert (residual <= 1e-10) == (theirs <= 1e-10)
        if residual <= 1e-10:  # impulses need not be one, velocities are: W has rows of length √(6 · bodies), E times that
            solved += 1
            assert np.max(np.abs(problem.rates(r) - problem.rates(other))) <= 1e3 * 1e-11 * np.linalg.norm(problem.q)
    assert solved > 60
    slipperier = Dense(problem.W, problem.q, 0.9 * problem.friction, problem.tangents, 0.0)
    assert slipperier.residual(r) > 1e-6 or not np.any(problem.friction)  # control: E sees another friction


def test_what_is_open_and_what_is_apart_changes_nothing():
    """Three problems as one, with contacts between them that stay open: the answers are those of each by itself."""
    rng = np.random.default_rng(2)
    H = rng.normal(size=(6, 12))
    parts = [Dense(H.T @ H, H.T @ rng.normal(size=6), np.full(4, 0.5), 2, 0.0) for _ in range(3)]
    W, q = np.zeros((39, 39)), np.concatenate([*(part.q for part in parts), [50.0, 0.0, 0.0]])
    for k, part in enumerate(parts):
        W[12 * k : 12 * k + 12, 12 * k : 12 * k + 12] = part.W
    W[36:, :36] = 0.01 * rng.normal(size=(3, 36))
    W[:36, 36:], W[36:, 36:] = W[36:, :36].T, np.eye(3)
    whole = Dense(W, q, np.full(13, 0.5), 2, 0.0)
    (r, residual, _), _ = _both_ways(whole)
    assert residual <= 1e-11 and not np.any(r[36:])
    for k, part in enumerate(parts):
        (alone, _, _), _ = _both_ways(part)
        mine = slice(12 * k, 12 * k + 12)
        assert np.max(np.abs(part.rates(r[mine]) - part.rates(alone))) <= 1e-8 * np.linalg.norm(q)  # 1e3 E ‖q‖, as above
    touching = Dense(W, np.concatenate([q[:36], [-50.0, 0.0, 0.0]]), np.full(13, 0.5), 2, 0.0)
    (r, _, _), _ = _both_ways(touching)
    assert r[36] > 1.0  # control: it need not stay open


def _shape(rng, dim):
    if dim == 2:
        kinds = (
            lambda: shapes.Disc(rng.uniform(0.3, 0.8)),
            lambda: shapes.Segment((-0.5, 0), (0.6, 0.1), 0.2),
            lambda: shapes.Polygon([(0, 0), (1, 0), (0.3, 1)]),
            lambda: shapes.Polygon([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)]),
        )
    else:
        kinds = (
            lambda: shapes.Box(*rng.uniform(0.5, 1.5, 3)),
            lambda: shapes.Box(1, 1, 1),
            lambda: shapes.Sphere(rng.uniform(0.3, 0.8)),
            lambda: shapes.Capsule(rng.uniform(0.1, 0.4), rng.uniform(0.3, 1.5)),
            lambda: shapes.ConvexPolyhedron(0.6 * rng.normal(size=(12, 3))),
        )
    return kinds[rng.integers(len(kinds))]()


def _placement(rng, dim, count=6):
    """Shapes anywhere, and on a grid with their axes along it, or nearly: there faces and edges are as good as each other."""
    things = [([shapes.Placed(_shape(rng, dim))], np.zeros(3)) for _ in range(count)]
    x, q = rng.uniform(-1.2, 1.2, (count, 3)), rng.normal(size=(count, 4))
    grid, straight, leaning = rng.random(count) < 0.3, rng.random(count) < 0.4, rng.random(count) < 0.2
    x[grid] = np.round(x[grid])
    q[straight] = [1, 0, 0, 0]
    q[leaning] = np.stack([np.ones(count), *np.zeros((2, count)), 1e-3 * rng.normal(size=count)], axis=1)[leaning]
    if dim == 2:
        x[:, 2], q[:, 1:3] = 0.0, 0.0
    return place(build(dim, things), x, matrix(normalise(q)))


@pytest.mark.parametrize("dim", [2, 3])
def test_pairs_of_polytopes_meet_in_the_same_points(dim):
    rng, seen, moved = np.random.default_rng(dim), 0, 0
    for _ in range(40):
        placement, margin = _placement(rng, dim), np.full(6, 0.3)
        geometry = placement.geometry
        for i, j in zip(*detect._near(placement, np.ones(6, bool), margin, frozenset()), strict=True):
            a, b = (placement.groups[geometry.group_of[piece]] for piece in (i, j))
            rows = geometry.row_of[[i]], geometry.row_of[[j]]
            found, by_arrays = (
                detect.Contacts(*ask(a, rows[0], b, rows[1], margin, 6, detect.polytope_limits()))
                for ask in (detect.polytope_points, detect.polytope_points.__wrapped__)
            )
            found, by_arrays = (some.take(np.argsort(some.key, kind="stable")) for some in (found, by_arrays))
            assert np.array_equal(found.key, by_arrays.key)
            for name in ("point", "normal", "gap"):
                apart = np.abs(getattr(found, name) - getattr(by_arrays, name))
                assert np.max(apart, initial=0.0) <= 1e-9  # rounding, over the sines of nearly parallel edges, ≥ 1e-6
            seen, moved = seen + len(found), moved + np.count_nonzero(np.abs(found.gap) > 1e-6)
    assert seen > 200 and moved > 60  # control: there is something to agree about


def _watched(monkeypatch, function, seen):
    """Both ways wherever the function is asked, and the largest difference relative to the largest number."""
    name = function.__name__

    def both(*args):
        found, by_arrays = function(*args), function.__wrapped__(*args)
        whole = isinstance(found, tuple)
        for one, other in zip(found if whole else (found,), by_arrays if whole else (by_arrays,), strict=name != "drifted"):
            one, other = np.asarray(one), np.asarray(other)
            assert one.shape == other.shape and one.dtype == other.dtype
            assert np.array_equal(np.isnan(one.astype(float)), np.isnan(other.astype(float)))
            apart = np.nanmax(np.abs(one.astype(float) - other.astype(float)), initial=0.0)
            size = np.nanmax(np.abs(other.astype(float)), initial=1.0)
            seen[name] = max(seen.get(name, 0.0), float(apart / size))
        return found

    for module in [module for key, module in sys.modules.items() if key.startswith("carom.bodies")]:
        if getattr(module, name, None) is function:
            monkeypatch.setattr(module, name, both)


def _sliding():
    world = World()
    world.fix(shapes.HalfSpace())
    world.add(shapes.Box(0.1, 0.1, 0.1), density=1000, position=(0, 0, 0.05), velocity=(2, 0, 0))
    world.material(friction=0.5)
    return world, 1e-3


def _model(name):
    model = getattr(models, name)()
    return model.world, model.dt


SCENES = {name: partial(_model, name) for name in ("dominoes", "dice", "chain_over_peg", "tippe_top", "grain_column")}
SCENES["slide"] = _sliding


@pytest.mark.parametrize("name", SCENES)
def test_along_a_run_loops_and_arrays_say_the_same(name, monkeypatch):
    seen = {}
    for function in ALONG_RUNS:
        _watched(monkeypatch, function, seen)
    world, dt = SCENES[name]()
    assert world.solve(dt, 40, progress=False).status.ok
    assert len(seen) >= 6 and max(seen.values()) <= 100 * EPS  # sums of up to a hundred terms, in another order
    assert max(seen.values()) > 0 or name == "slide"  # control: two programs, that round differently


def test_a_world_moves_alike_with_and_without_them(monkeypatch):
    """A cube that slides to a stop, by both; and the same run again, bit for bit."""
    world, dt = _sliding()
    ask = lambda: world.solve(dt, 450, progress=False)  # noqa: E731
    first, again = ask(), ask()
    assert all(np.array_equal(getattr(first, name), getattr(again, name)) for name in ("x", "q", "v", "L", "residual"))
    monkeypatch.setattr(compiled, "available", lambda: False)
    by_arrays = ask()
    assert np.max(np.abs(first.x - by_arrays.x)) <= 1e-10 * 2 * 0.45  # certificates of velocities, 1e-10 of 2 m/s, for 0.45 s
    assert not np.array_equal(first.v, by_arrays.v)  # control: two programs
    assert np.array_equal(first.x[-1], first.x[-10])  # at rest, exactly


def test_where_nothing_can_be_kept_loops_are_compiled_each_time(monkeypatch):
    import numba

    from carom.bodies.compiled import outer

    real = numba.njit

    def full(*args, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(*args, **options)

    monkeypatch.setattr(numba, "njit", full)
    assert outer("float64(float64)")(lambda x: 2 * x)(1.5) == 3.0
