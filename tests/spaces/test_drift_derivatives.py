"""Drifts on groups solve equations node by node: their derivatives, forwards and backwards, are those of the solution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom


@pytest.mark.parametrize("space", [carom.SO3(), carom.SO3("exponential"), carom.SE3(), carom.SE3("exponential")], ids=str)
def test_forwards_backwards_and_differences_agree(space):
    rng = np.random.default_rng(0)
    q = rng.normal(size=(2, space.size))
    q[:, :4] /= np.linalg.norm(q[:, :4], axis=1)[:, None]
    q, mass = jnp.asarray(q), jnp.asarray(1 + rng.random((2, space.dim)))
    p, h, weights = jnp.asarray(rng.normal(size=(2, space.dim))), 0.3, jnp.asarray(rng.normal(size=q.shape))
    along = jnp.asarray(rng.normal(size=p.shape))

    @jax.jit
    def end(x):
        return jnp.sum(weights * space.drift(q, p + x * along, mass, h + x)[0])

    forwards, backwards, eps = jax.jacfwd(end)(0.0), jax.grad(end)(0.0), 1e-5
    assert float(backwards) == pytest.approx(float(forwards), rel=1e-12)
    assert float((end(eps) - end(-eps)) / (2 * eps)) == pytest.approx(float(forwards), rel=1e-8)  # eps², rounding / eps
    assert abs(float(forwards)) > 1e-2  # the control: there is something to be found
