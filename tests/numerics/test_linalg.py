"""Matrices of a few dozen rows: loops in a program that is one kernel, LAPACK elsewhere, and the same numbers from both."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from carom.numerics.linalg import MEDIUM, matmul, solve, solve_positive
from carom.numerics.slopes import slopes
from carom.xla.kernel import single_kernel
from carom.xla.structure import primitives

EPS = np.finfo(float).eps


@pytest.fixture
def kernels(monkeypatch):
    monkeypatch.setenv("CAROM_SINGLE_KERNEL", "1")


def in_kernel(function, *args):
    """function(*args) inside a kernel whose loop runs once."""

    def run(witness, *args):
        shape = jax.eval_shape(function, *args)
        times = jnp.where(jnp.isfinite(witness), 1, 0)
        return jax.lax.fori_loop(0, times, lambda _, out: function(*args), jnp.zeros(shape.shape, shape.dtype))

    return lambda *args: single_kernel(run, *args)


def computed(function, *args):
    """What a kernel gives; skipped where this version of JAX cannot compile it as one (carom then runs in pieces, and says so)."""
    try:
        return np.asarray(jax.jit(in_kernel(function, *args))(*args))
    except jax.errors.JaxRuntimeError as error:
        if "UNIMPLEMENTED" in str(error):
            pytest.skip(f"not one kernel with JAX {jax.__version__}")
        raise


def system(rows, rank=None):
    rng = np.random.default_rng(rows)
    factor = rng.normal(size=(rows, rank or 2 * rows))
    return factor @ factor.T, rng.normal(size=rows)


@pytest.mark.parametrize("rows", [9, 40, 62, MEDIUM])  # 62: the last band is not full
@pytest.mark.parametrize("solver", [solve, solve_positive])
def test_a_solve_in_a_kernel(kernels, solver, rows):
    A, b = system(rows)
    x = computed(solver, A, b)
    # Rounding of an elimination: some eps per row, times the condition of A for the forward error that is left in the residual.
    assert np.max(np.abs(A @ x - b)) < 10 * rows * EPS * np.linalg.cond(A) * np.max(np.abs(b))
    assert "lu" not in primitives(in_kernel(solver, A, b), A, b)


def test_one_that_is_singular_but_for_a_ridge(kernels):
    """What rests has more rows than it can tell apart: 40 of rank 30, and a right hand side in their range."""
    A, _ = system(40, rank=30)
    b = A @ np.ones(40)
    ridge = 1e-13 * np.max(np.diag(A))
    x = computed(solve_positive, A + ridge * np.eye(40), b)
    assert np.max(np.abs(A @ x - b)) < 1e-10 * np.max(np.abs(b))  # ridge · ‖x‖, and what rounding leaves of A⁻¹ ~ 1e13


def test_beyond_that_and_outside_lapack_is_called(kernels):
    assert "lu" in primitives(in_kernel(solve, *system(MEDIUM + 1)), *system(MEDIUM + 1))
    assert "lu" in primitives(lambda A, b: solve_positive(A, b), *system(40))
    assert "lu" not in primitives(lambda A, b: solve(A, b), *system(20))


def test_a_program_that_turns_out_to_be_no_kernel_is_traced_again(kernels):
    """A sort cannot live in a kernel: the loops that were chosen for one would be slow outside, and LAPACK is called instead."""
    A, b = system(40)
    sorted_solve = in_kernel(lambda A, b: jnp.sort(solve(A, b)), A, b)
    assert {"sort", "lu"} <= primitives(sorted_solve, A, b)
    np.testing.assert_allclose(sorted_solve(A, b), np.sort(np.linalg.solve(A, b)), rtol=1e3 * EPS * np.linalg.cond(A))


def test_a_product_in_a_kernel(kernels):
    rng = np.random.default_rng(1)
    A, B = rng.normal(size=(40, 30)), rng.normal(size=(20, 30))
    out = computed(lambda A, B: matmul(A, B.T), A, B)
    np.testing.assert_allclose(out, A @ B.T, atol=30 * EPS * np.max(np.abs(A)) * np.max(np.abs(B)) * 30)


def bend(q):
    return jnp.sin(q[1:]) * q[:-1]


@pytest.mark.parametrize("n", [3, 12])
def test_slopes_are_those_of_jacfwd(kernels, n):
    q = np.linspace(0.1, 2.0, n)
    out = jax.jit(in_kernel(lambda q: slopes(bend, q), q))(q)
    np.testing.assert_allclose(out, jax.jacfwd(bend)(q), rtol=4 * EPS, atol=0)
    curvature = jax.jacfwd(lambda q: slopes(bend, q))(q)  # they can be differentiated again
    np.testing.assert_allclose(curvature, jax.jacfwd(jax.jacfwd(bend))(q), rtol=4 * EPS, atol=0)
