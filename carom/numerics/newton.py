"""Newton's method for the implicit rules, finished by one differentiable step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from carom.numerics.held_fixed import held_fixed
from carom.numerics.linalg import inverse, matvec, solve


class Root(NamedTuple):
    x: Float[Array, " n"]
    converged: Bool[Array, ""]


def newton(residual: Callable[[Array], Array], guess: Float[Array, " n"], max_iterations: int = 30) -> Root:
    """Solve residual(x) = 0 from a good guess, to rounding.

    The iteration itself is not differentiated. The last step, x − J⁻¹ r(x), is: at the root it carries the exact
    first derivative of x with respect to everything the residual closes over, in forward and in reverse mode.
    """
    eps = float(jnp.finfo(guess.dtype).eps)

    def slope_and_value(x):
        value = residual(x)
        return value, value

    differentiate = jax.jacfwd(slope_and_value, has_aux=True)

    def unfinished(carry):
        _, size, last, count, _ = carry
        # Quadratic convergence ends at rounding: stop when the update is there, or no longer shrinks near it.
        return (count < max_iterations) & (size > 4 * eps) & ~((size < 1e3 * eps) & (size >= last))

    def improve(carry):
        x, size, _, count, _ = carry
        jacobian, value = differentiate(x)
        update = solve(jacobian, value)
        x = x - update
        return x, jnp.max(jnp.abs(update)) / (jnp.max(jnp.abs(x)) + 1e-300), size, count + 1, jacobian

    @held_fixed
    def solved(guess):
        large, n = jnp.asarray(jnp.inf, guess.dtype), guess.shape[0]
        start = (guess, large, large, 0, jnp.zeros((n, n), guess.dtype))
        # The Jacobian of the last iteration is that of the root, up to the last update, which is at rounding.
        x, size, _, _, jacobian = jax.lax.while_loop(unfinished, improve, start)
        return x, size, jacobian

    x, size, jacobian = solved(guess)
    x = x - solve(jacobian, residual(x))
    return Root(x, (size <= eps**0.5) & jnp.all(jnp.isfinite(x)))  # the last step is quadratic: it squares √eps


def implicit_root(residual: Callable[[Array], Array], guess: Float[Array, " n"]) -> Float[Array, " n"]:
    """`newton` with derivatives of every order, for functions that are themselves differentiated."""
    along = lambda linear, y: jnp.linalg.solve(jax.jacobian(linear)(y), y)  # noqa: E731
    return jax.lax.custom_root(residual, guess, lambda f, x: newton(f, x).x, along)


def damped_newton(residual: Callable[[Array], Array], guess: Float[Array, " n"], max_iterations: int = 100) -> Root:
    """`newton` from a poor guess: a step that leaves the domain of the residual or makes it larger is halved."""
    size_of = lambda value: jnp.max(jnp.abs(value))  # noqa: E731

    def improve(carry):
        x, value, _, count = carry
        update = solve(jax.jacfwd(residual)(x), value)

        worse = lambda share: ~(size_of(residual(x - share * update)) < size_of(value))  # noqa: E731
        share = _repeated(worse, lambda share: 0.5 * share, jnp.ones_like(value[0]), 40)
        x = x - share * update
        return x, residual(x), size_of(share * update) / (size_of(x) + 1e-300), count + 1

    large, eps = jnp.asarray(jnp.inf, guess.dtype), float(jnp.finfo(guess.dtype).eps)
    going = lambda carry: (carry[2] > eps**0.5) & (carry[3] < max_iterations)  # noqa: E731
    near = held_fixed(lambda x: jax.lax.while_loop(going, improve, (x, residual(x), large, 0))[0])
    return newton(residual, near(guess))


def polish(residual: Callable[[Array], tuple[Array, Any]], x: Float[Array, " n"]) -> tuple[Float[Array, " n"], Any]:
    """A known root x of `residual`, which returns (value, extra): the same numbers, now with their exact first derivatives.

    One Newton step for x, and the extra moved along with it; both corrections are zero, their derivatives are not.
    """
    x = jax.lax.stop_gradient(x)
    value, extra = residual(x)  # first: what the residual builds and keeps must not belong to the trace of the line below
    jacobian, slopes = held_fixed(jax.jacfwd(residual))(x)
    step = -matvec(inverse(jacobian), value)
    return x + step, jax.tree.map(lambda base, slope: base + slope @ step, extra, slopes)


def polish_root(residual: Callable[[Array], Array], x: Float[Array, " n"]) -> Float[Array, " n"]:
    """A known root x of `residual`: the same numbers, now with their exact first derivatives, by one step of Newton's method."""
    x = jax.lax.stop_gradient(x)
    return x - solve(held_fixed(jax.jacfwd(residual))(x), residual(x))


def scalar_root(function: Callable[[Array], Array], guess: Float[Array, ""]) -> Float[Array, ""]:
    """The positive root of a function that is negative for small arguments and positive for large ones.

    Doubled until the sign changes, halved down to rounding, and finished by one differentiable step of Newton's method.
    """

    def halve(_, ends):
        low, high = ends
        middle = 0.5 * (low + high)
        inside = function(middle) < 0
        return jnp.where(inside, middle, low), jnp.where(inside, high, middle)

    @held_fixed
    def solved(guess):
        high = _repeated(lambda high: function(high) < 0, lambda high: 2 * high, guess, 60)
        low, high = jax.lax.fori_loop(0, 60, halve, (jnp.zeros_like(high), high))
        x = 0.5 * (low + high)
        return x, jax.jvp(function, (x,), (jnp.ones_like(x),))[1]

    x, slope = solved(guess)
    return x - function(x) / jnp.where(slope != 0, slope, 1.0)


def _repeated(wanted: Callable[[Array], Array], change: Callable[[Array], Array], x: Array, most: int) -> Array:
    """x, changed as long as that is wanted. The verdict is part of the loop's state: under `vmap` JAX computes a condition twice,
    once to go on and once to choose the lanes that do, and where a value is rounding the two can differ: a lane that is asked to go
    on and is never chosen goes on for ever."""

    def again(carry):
        x, _, count = carry
        x = change(x)
        return x, wanted(x), count + 1

    x, _, _ = jax.lax.while_loop(lambda carry: carry[1] & (carry[2] < most), again, (x, wanted(x), 0))
    return x
