"""Random short scenes: convex polygons in a box, any speed, step and gravity, corners included. Nothing may penetrate, hang or be
NaN; what has no exact answer (grazing) is counted, and runs that come to rest say so."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ORDER_4, TRAPEZOIDAL

import carom

STEPS, MOST = 40, 200


def lagrangian(v, q, params):
    return 0.5 * (v[0] ** 2 + v[1] ** 2 + params["inertia"] * v[2] ** 2) + params["pull"] @ q[:2]


def clearances(q, params):
    """Every corner of the polygon against every wall of the box."""
    c, s = jnp.cos(q[2]), jnp.sin(q[2])
    corners = params["corners"]
    x = q[0] + c * corners[:, 0] - s * corners[:, 1]
    y = q[1] + s * corners[:, 0] + c * corners[:, 1]
    walls = params["walls"]
    return (walls[:, 2:3] - walls[:, 0:1] * x - walls[:, 1:2] * y).reshape(-1)


SYSTEM = carom.System(lagrangian, [carom.Contact(clearances, name="wall")])


def scenes(rng, number, corners):
    """Random polygons with corners on a circle, at the middle of a turned box that may be tight."""
    angles = np.sort(rng.uniform(0, 2 * np.pi, (number, corners)), axis=1)
    radius = rng.uniform(0.3, 1.0, (number, 1))
    points = np.stack([radius * np.cos(angles), radius * np.sin(angles)], axis=2)
    turn = rng.uniform(0, 2 * np.pi, (number, 1)) * (rng.uniform(size=(number, 1)) < 0.7)  # some boxes are not turned
    normals = turn + np.arange(4) * np.pi / 2
    walls = np.stack([np.cos(normals), np.sin(normals), rng.uniform(1.05, 3.0, (number, 4))], axis=2)
    pull = rng.normal(size=(number, 2)) * rng.choice([0.0, 1.0, 10.0], (number, 1))
    return {
        "params": {"corners": points, "walls": walls, "pull": pull, "inertia": 10 ** rng.uniform(-2, 0, number)},
        "q0": np.concatenate([np.zeros((number, 2)), rng.uniform(0, 6, (number, 1))], axis=1),
        "v0": rng.normal(size=(number, 3)) * 10 ** rng.uniform(-1, 0.7, (number, 1)),
        "dt": 10 ** rng.uniform(-3, -1, number),
    }


@functools.partial(jax.jit, static_argnums=0)
def play(method, scene):
    """All scenes, one after the other, with the deepest penetration at the nodes, at impacts and inside impact-free steps."""

    def one(scene):
        params = scene["params"]
        run = carom.rollout(
            SYSTEM, method, scene["q0"], scene["v0"], dt=scene["dt"], num_steps=STEPS, params=params, max_impacts=MOST
        )
        mechanics = SYSTEM.bind(params, 3)
        flow = method.rule.flow(mechanics)
        depth = lambda q: jnp.max(-clearances(q, params))  # noqa: E731
        real = jnp.arange(MOST) < run.num_impacts
        at_nodes = jnp.nanmax(jax.vmap(depth)(run.q))
        at_impacts = jnp.max(jnp.where(real, jax.vmap(depth)(run.impacts.q), -1.0))
        hit = jnp.any((run.impacts.step[None, :] == jnp.arange(STEPS)[:, None]) & real, axis=1)

        def inside(q, p, hit):
            fractions = jnp.array([0.15, 0.3, 0.5, 0.7, 0.85])
            deepest = jnp.max(jax.vmap(lambda f: depth(flow(q, p, 0.0, f * scene["dt"]).q))(fractions))
            return jnp.where(hit | ~jnp.isfinite(deepest), -1.0, deepest)

        within = jnp.max(jax.vmap(inside)(run.q[:-1], run.p[:-1], hit))
        fallbacks = jnp.sum(run.impacts.fallback & real)
        energy = jax.vmap(lambda q, p: mechanics.energy(q, mechanics.velocity(q, p, 0.0), 0.0))(run.q, run.p)
        return at_nodes, at_impacts, within, run.status, run.num_impacts, fallbacks, energy[-1] - energy[0], run.q[-1]

    return jax.lax.map(one, scene)


def check(method, number, seed, corners=(3, 4, 6)):
    totals = {"scenes": 0, "impacts": 0, "fallbacks": 0, "stopped": 0}
    for k in corners:
        rng = np.random.default_rng([seed, k])
        share = number // len(corners)
        scene = scenes(rng, share, k)
        nodes, impacts, within, status, counts, fallbacks, _, end = map(np.asarray, play(method, scene))
        rounding = 1e-13 * (4 + np.linalg.norm(scene["v0"], axis=1))  # coordinates of a few units, a few hundred roundings
        good = status == 0
        assert np.all(nodes[good] < rounding[good]), worst(nodes, rounding, good)
        assert np.all(impacts[good] < rounding[good]), worst(impacts, rounding, good)
        assert np.all(within[good] < rounding[good]), worst(within, rounding, good)
        assert np.all(np.isfinite(end[good])) and np.all(np.isnan(end[~good]).any(axis=1))
        totals["scenes"] += share
        totals["impacts"] += int(counts.sum())
        totals["fallbacks"] += int(fallbacks.sum())
        totals["stopped"] += int((~good).sum())
    return totals


def worst(depth, rounding, good):
    i = int(np.argmax(np.where(good, depth / rounding, -1)))
    return f"scene {i} penetrates by {depth[i]:.3g}"


def test_a_sample_of_random_scenes():
    totals = check(ORDER_4, 1200, seed=0)
    assert totals["impacts"] > 1000
    assert totals["stopped"] < 0.02 * totals["scenes"], totals
    assert totals["fallbacks"] < 0.02 * totals["impacts"], totals


def test_the_scenes_notice_a_method_that_forgets_a_wall():
    """Control: with contacts that close too late the same check fails."""
    global SYSTEM
    keep = SYSTEM
    SYSTEM = carom.System(lagrangian, [carom.Contact(lambda q, params: clearances(q, params) + 1e-6, name="wall")])
    try:
        with pytest.raises(AssertionError, match="penetrates"):
            check(carom.VariationalCollision(carom.Trapezoidal(), max_impacts_per_step=65), 60, seed=1, corners=(4,))
    finally:
        SYSTEM = keep


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(5))
def test_100_000_random_scenes(seed):
    for method in (ORDER_4, TRAPEZOIDAL):
        totals = check(method, 10_000, seed=100 + seed, corners=(3, 4, 5, 7))
        print(totals)
        assert totals["stopped"] < 0.02 * totals["scenes"]
        assert totals["fallbacks"] < 0.02 * totals["impacts"]
