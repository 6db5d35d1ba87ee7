"""A linear map with a transpose of its own, and a fast form that `vmap` does not see, under all of JAX's transformations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from carom.xla.linear_pair import linear_pair, stacked, unless_batched

MATRIX = jnp.asarray([[2.0, 1.0, 0.0], [0.0, -1.0, 3.0]])


def _sine(forward=lambda known, changes: [known * (MATRIX @ changes[0])], backward=None):
    """x ↦ sin(scale) M x with derivatives by a linear pair: known is sin(scale)."""
    if backward is None:
        backward = lambda known, changes: [known * (MATRIX.T @ changes[0])]  # noqa: E731

    @jax.custom_jvp
    def function(scale, x):
        return jnp.sin(scale) * (MATRIX @ x)

    @function.defjvp
    def _(primals, tangents):
        out = function(*primals)
        return out, linear_pair(forward, backward, jnp.sin(primals[0]), [tangents[1]], [out])[0]

    return function


X = jnp.asarray([0.3, -0.2, 0.7])


@pytest.mark.parametrize("jit", [lambda f: f, jax.jit])
def test_forward_backward_and_mapped(jit):
    function = _sine()
    exact = np.sin(0.4) * np.asarray(MATRIX)
    end = jit(lambda x: function(0.4, x))
    assert np.allclose(jax.jacfwd(end)(X), exact, rtol=1e-15)
    assert np.allclose(jax.jacrev(end)(X), exact, rtol=1e-15)
    many = jnp.stack([X, 2 * X])
    loss = jit(lambda x: jnp.sum(function(0.4, x) ** 2))
    alone = np.stack([jax.grad(loss)(x) for x in many])
    assert np.allclose(jax.vmap(jax.grad(loss))(many), alone, rtol=1e-15)
    assert np.allclose(jax.grad(lambda xs: jnp.sum(jax.vmap(loss)(xs)))(many), alone, rtol=1e-15)
    # What is known may differ from lane to lane, too, or be all that does.
    scales = jnp.asarray([0.1, 0.9])
    found = jax.vmap(jax.grad(lambda x, s: jnp.sum(function(s, x))), in_axes=(None, 0))(X, scales)
    assert np.allclose(found, np.sin(scales)[:, None] * np.asarray(MATRIX).sum(0), rtol=1e-15)


def test_the_transpose_is_the_one_that_was_given():
    wrong = _sine(backward=lambda known, changes: [jnp.zeros(3)])
    assert np.all(jax.grad(lambda x: jnp.sum(wrong(0.4, x)))(X) == 0)
    assert np.any(jax.jvp(lambda x: wrong(0.4, x), (X,), (X,))[1] != 0)


def test_what_is_not_needed_is_not_traced():
    def never(known, changes):
        raise AssertionError

    assert np.all(np.isfinite(jax.grad(lambda x: jnp.sum(_sine(forward=never)(0.4, x)))(X)))
    assert np.all(np.isfinite(jax.jvp(lambda x: _sine(backward=never)(0.4, x), (X,), (X,))[1]))


def test_under_vmap_the_plain_form_runs():
    called = []

    def form(name):
        def double(x):
            called.append(name)
            return 2 * x

        return double

    function = unless_batched(form("fast"), form("plain"))
    assert function(jnp.asarray(1.5)) == 3.0 and called == ["fast"]
    assert np.array_equal(jax.vmap(function)(jnp.arange(3.0)), [0.0, 2.0, 4.0]) and "plain" in called
    nested = jax.vmap(jax.vmap(function))(jnp.ones((2, 3)))
    assert nested.shape == (2, 3) and np.all(nested == 2)


def test_a_cotangent_that_is_zero_is_none():
    """Of two results one is read: the transpose is not handed a zero for the other, and need not compute with it."""
    handed = []

    def forward(known, changes):
        return [2 * changes[0], 3 * changes[0]]

    def backward(known, cotangents):
        handed.append([c is None for c in cotangents])
        return [sum(factor * c for factor, c in zip((2, 3), cotangents, strict=True) if c is not None)]

    @jax.custom_jvp
    def both(x):
        return [2 * x, 3 * x]

    @both.defjvp
    def _(primals, tangents):
        out = both(*primals)
        return out, linear_pair(forward, backward, [], [tangents[0]], out)

    assert jax.grad(lambda x: jnp.sum(both(x)[1]))(jnp.asarray(1.5)) == 3 and handed == [[True, False]]
    assert jax.grad(lambda x: jnp.sum(both(x)[0] + both(x)[1]))(jnp.asarray(1.5)) == 5
    mapped = jax.vmap(jax.grad(lambda x: both(x)[0]))(jnp.arange(3.0))
    assert np.array_equal(mapped, [2.0, 2.0, 2.0])
    assert jax.jvp(lambda x: both(x)[1], (jnp.asarray(1.5),), (jnp.asarray(1.0),))[1] == 3


class TestNumbersAsAVector:
    """`stacked` is what it is under every transformation, and under `jax.grad` alone nothing is compiled for it."""

    @staticmethod
    def _of(x, y):
        return stacked(x, 2.0, y, x)

    def test_values_and_slopes(self):
        exact = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
        for transform in (jax.jacfwd, jax.jacrev):
            for jit in (lambda f: f, jax.jit):
                found = np.stack(jit(transform(self._of, argnums=(0, 1)))(0.3, -0.7), axis=1)
                assert np.array_equal(found, exact)
        assert np.array_equal(jax.jit(self._of)(0.3, -0.7), [0.3, 2.0, -0.7, 0.3])

    def test_mapped(self):
        x, y = np.array([0.3, 0.4]), np.array([-0.7, 0.1])
        assert np.array_equal(jax.vmap(self._of)(x, y), np.stack([x, 2 + 0 * x, y, x], axis=1))
        weights = jnp.asarray([1.0, 10.0, 100.0, 1000.0])
        slope = jax.vmap(jax.grad(lambda x, y: self._of(x, y) @ weights, argnums=(0, 1)))(x, y)
        assert np.array_equal(slope, [[1001.0, 1001.0], [100.0, 100.0]])  # whole numbers: exact

    def test_second_derivatives(self):
        curved = lambda x: jnp.sum(self._of(x, 1.0) ** 3)  # noqa: E731
        assert float(jax.grad(jax.grad(curved))(0.5)) == pytest.approx(2 * 6 * 0.5, rel=1e-15)  # 2 x³ + const

    def test_whole_numbers_and_short_ones(self):
        found = jax.jit(stacked)(jnp.asarray(3), jnp.asarray(0.5, jnp.float32))
        assert found.dtype == float and np.array_equal(found, [3.0, 0.5])

    @pytest.mark.parametrize("make, programs", [(stacked, False), (lambda *x: jnp.stack([*map(jnp.asarray, x)]), True)])
    def test_nothing_is_compiled_for_a_gradient(self, make, programs, caplog):
        jax.clear_caches()
        with jax.log_compiles():
            _, pull = jax.vjp(lambda x, y: make(x, 2.0, y), 0.25, 0.5)
            pull(np.array([1.0, 10.0, 100.0]))
        assert bool([line for line in caplog.messages if line.startswith("Compiling")]) == programs
