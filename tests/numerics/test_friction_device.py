"""The polish in a compiled program: what it solves that first order does not, its matrices, and programs that serve many sizes."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom  # noqa: F401  (double precision)
from benchmarks import friction_scenes as scenes
from carom.numerics.friction import cones, device_arrays, device_proximal, on_device, polish
from carom.numerics.friction.scaled import diagonal, scale_problem

TOLERANCE = 1e-8  # of E: what steps of many bodies are asked for


def _pile(seed: int = 2, bodies: int = 30):
    return scenes.pile(np.random.default_rng(seed), bodies).problem()


def test_the_polish_ends_where_first_order_crawls():
    problem = _pile()
    found = on_device.solve_on_device(problem, tolerance=TOLERANCE, max_iterations=3000)
    assert found.converged and found.stage == "proximal" and found.residual == problem.residual(found.impulses)
    alone = on_device.solve_on_device(problem, tolerance=TOLERANCE, max_iterations=3000, polish=False)
    assert not alone.converged and alone.stage == "gradient" and alone.iterations == 3000  # control: 1e-6, also after 6000


def test_a_solution_stays_what_it_is():
    problem = _pile()
    found = on_device.solve_on_device(problem, tolerance=TOLERANCE, max_iterations=3000)
    again = on_device.solve_on_device(problem, found.impulses, 2.1 * found.residual)  # the device stops at half a tolerance
    assert again.stage == "start" and again.iterations == 0
    assert np.allclose(again.impulses, found.impulses, rtol=1e-14)  # scaled and back
    assert (
        on_device.solve_on_device(problem, tolerance=TOLERANCE, max_iterations=3000).iterations > 0
    )  # control: there was something to do


@pytest.mark.parametrize("dimension", [2, 3])
def test_newtons_matrix_is_that_of_the_polish_on_the_host(dimension):
    """(16) with λ = 0.3 against (10) and (11) on the host, contacts in all states, with and without friction."""
    what = scale_problem(scenes.pile(np.random.default_rng(0), 25, dimension=dimension).problem(), form=True)
    placed, counts, where = device_arrays.place(scale_problem(what.problem, form=False))
    x, weight = np.random.default_rng(1).normal(size=len(what.q)), 0.3
    wide = np.zeros(len(placed.q))
    wide[where] = x
    mapped = jax.jit(device_proximal._mapped, static_argnames="counts")
    rate = jax.jit(placed.apply)(wide)
    inner = mapped(placed, wide, rate, jnp.zeros_like(wide), weight, counts, 0, 0)
    F, points, rates = polish.natural_map(what, x)  # at λ = 0
    z = np.concatenate([part.ravel() for part in rates]) + weight * x
    plain = mapped(placed, wide, rate, wide, weight, counts, 0, 0)
    assert np.allclose(np.asarray(plain.F)[where], F, rtol=0, atol=1e-12)  # x̄ = x: the same map; sums of a dozen, rounded
    assert np.allclose(np.asarray(inner.z)[where], z, rtol=0, atol=1e-12)
    newton = jax.jit(device_proximal.blocks, static_argnames="counts")(placed, plain.p, plain.z, weight, counts)
    P = cones.project_derivative(points[0])
    lift = np.eye(what.columns) + np.zeros_like(P)
    lift[:, 0, 1:] += cones.unit(rates[0][:, 1:])
    rough = len(P)
    E = P @ lift
    assert np.allclose(newton.E[0][:rough], E, atol=1e-12)
    assert np.allclose(newton.C[0][:rough], (1 + device_proximal.EPSILON) * np.eye(what.columns) - P + weight * E, atol=1e-12)
    A = np.asarray(what.matrix) if isinstance(what.matrix, np.ndarray) else what.matrix.toarray()
    own = np.stack([A[k * what.columns :, k * what.columns :][: what.columns, : what.columns] for k in range(rough)])
    assert np.allclose(placed.own[:rough], own, atol=1e-12)
    assert np.allclose(diagonal([own, own[:0, :1, :1], own[:0, :1, :1]]).diagonal(), np.diag(A)[: rough * what.columns])
    full = np.asarray(newton.inverse[0][:rough]) @ (np.asarray(newton.C[0][:rough]) + E @ own)
    assert np.allclose(full, np.eye(what.columns), atol=1e-9)  # conditions of some thousand
    states = [np.mean([np.allclose(block, kind) for block in P]) for kind in (np.eye(what.columns), 0 * np.eye(what.columns))]
    assert all(0 < share < 1 for share in states) and sum(states) < 1  # control: sticking, open and sliding ones are among them


def test_one_program_serves_many_numbers_of_contacts():
    """Contacts that a packing loses one after the other, and all of a smaller one."""
    whole, programs = scenes.packing(np.random.default_rng(0), 4, 5, 0.1), []
    for lost in (0, 1, 2, 5):
        rows = slice(0, 3 * (len(whole.friction) - lost))
        part = replace(whole, q=whole.q[rows], friction=whole.friction[: rows.stop // 3], jacobian=whole.jacobian[:, rows])
        on_device.solve_on_device(part, max_iterations=50)
        programs.append(on_device._advance._cache_size())
    assert len(set(programs)) == 1, programs
    on_device.solve_on_device(scenes.packing(np.random.default_rng(0), 3, 2), max_iterations=50)
    assert on_device._advance._cache_size() == programs[0] + 1  # control: it is counted


def test_sizes_are_rounded_up_by_half_at_most():
    sizes = np.arange(1, 5000)
    up = np.array([device_arrays.rounded(int(size)) for size in sizes])
    assert np.all(up >= sizes) and np.all(up[16:] < 1.5 * sizes[16:]) and len(set(up)) < 20
    assert device_arrays.rounded(0) == 0


def test_what_is_added_carries_nothing():
    problem = scenes.packing(np.random.default_rng(0), 3, 3, 0.1)
    placed, counts, where = device_arrays.place(scale_problem(problem, form=False))
    at = on_device._advance(placed, on_device._begin(placed, jnp.zeros_like(placed.q), counts), 0.0, 200, counts)
    at = device_proximal.advance(placed, device_proximal.begin(placed, at.x, counts), 0.0, 100, counts)
    others = np.setdiff1d(np.arange(len(placed.q)), where)
    assert len(others) > 0 and not np.any(np.asarray(at.x)[others])  # exactly
    assert np.any(np.asarray(at.x)[where])  # control
