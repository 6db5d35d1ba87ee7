"""The programs of a run and of its derivatives: kept between processes, and no larger than what is asked for.

A body that falls is exact with the trapezoidal rule, q = q₀ + v₀t − ½gt², so every derivative is known to rounding. Impacts are the
matter of tests/methods/test_gradients.py.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom.running import pure_run

STEPS, DT, T = 20, 0.01, 0.2
METHOD = carom.VariationalCollision(carom.Trapezoidal())
SYSTEM = carom.System(lambda q, v, params: 0.5 * params["mass"] * v @ v - params["mass"] * params["gravity"] * q[0])


def run(height=1.0, speed=0.0, gravity=9.81, mass=2.0):
    given = {"dt": DT, "num_steps": STEPS, "params": {"mass": mass, "gravity": gravity}}
    return carom.rollout(SYSTEM, METHOD, jnp.stack([jnp.asarray(height)]), jnp.stack([jnp.asarray(speed)]), **given)


def height(*given):
    return run(*given).q[-1, 0]


@pytest.fixture
def folder(kept_folder):
    """Programs that nobody has made yet: another process."""
    forget()
    yield kept_folder
    forget()


def forget():
    for program in (pure_run._forwards, pure_run._push, pure_run._pull):
        program.ready, program.loads = {}, 0


def test_another_process_finds_the_gradient(folder):
    slope = jax.grad(height, argnums=(0, 1, 2))
    first = slope(1.0, 0.5, 9.81)
    assert np.allclose(first, [1.0, T, -0.5 * T**2], rtol=1e-13)
    assert (pure_run._forwards.loads, pure_run._pull.loads) == (0, 0)
    again = slope(2.0, 0.1, 1.62)  # other numbers: the same programs
    assert len(pure_run._pull.ready) == 1
    forget()
    assert np.array_equal(slope(2.0, 0.1, 1.62), again)
    assert (pure_run._forwards.loads, pure_run._pull.loads) == (1, 1)
    # The control: what moves is part of a program, and one for the height alone is another.
    assert np.allclose(jax.grad(height)(1.0), 1.0, rtol=1e-13) and pure_run._pull.loads == 1


def test_forwards_backwards_and_inside_other_computations_agree(folder):
    _, push = jax.jvp(lambda v: height(1.0, v), (0.5,), (1.0,))
    assert np.isclose(push, T, rtol=1e-13) and len(pure_run._push.ready) == 1
    assert np.isclose(jax.jit(jax.grad(height, argnums=1))(1.0, 0.5), T, rtol=1e-13)


@pytest.mark.parametrize(
    "slope",
    [
        lambda f, x: jax.jvp(f, (x,), (1.0,))[1],
        lambda f, x: jax.linearize(f, x)[1](1.0),
        lambda f, x: jax.vjp(f, x)[1](1.0)[0],
        lambda f, x: jax.grad(jax.checkpoint(f))(x),
        lambda f, x: jax.jit(jax.grad(jax.checkpoint(f)))(x),
        lambda f, x: jax.jacfwd(jax.checkpoint(f))(x),
        lambda f, x: jax.vmap(jax.grad(f))(jnp.array([x, 2 * x]))[0],
    ],
    ids=["jvp", "linearize", "vjp", "checkpoint", "checkpoint in jit", "forwards through a checkpoint", "vmap"],
)
def test_numbers_that_are_plain_or_written_into_a_program(slope):
    """With respect to a parameter that is a plain number, beside others that JAX may hand over as literals: which of the leaves
    move must not depend on that (through a checkpoint the slope was once that of another leaf)."""
    gravity = lambda g: height(1.0, 0.0, g)  # noqa: E731
    assert np.isclose(slope(gravity, 9.81), -0.5 * T**2, rtol=1e-13)


def test_only_what_was_asked_for_goes_back(folder):
    """Of the columns of a run the way back is handed those that a loss has read."""
    handed = []
    keep = pure_run._pull.function

    def spy(given, chunk, cotangents, *rest):
        handed.append([c is not None for c in cotangents])
        return keep(given, chunk, cotangents, *rest)

    pure_run._pull.function = spy
    try:
        jax.grad(height)(1.0)
        jax.grad(lambda x: (lambda both: jnp.sum(both.q) + jnp.sum(both.p))(run(x)))(1.0)
    finally:
        pure_run._pull.function = keep
    assert [sum(columns) for columns in handed] == [1, 2]


@pytest.mark.parametrize("second", [0, 3])
def test_second_derivatives_are_refused_with_respect_to_anything(second):
    """Also one with respect to what the first one held fixed."""
    slope = jax.grad(lambda *given: jnp.sum(run(*given).p), argnums=1)
    with pytest.raises(carom.InputError, match="second derivatives"):
        jax.grad(slope, argnums=second)(1.0, 0.5, 9.81, 2.0)
