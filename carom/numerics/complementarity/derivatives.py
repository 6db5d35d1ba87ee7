"""The solutions of the contact problems (1) and (2) of this package as differentiable functions of their data."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from carom.numerics.linalg import inverse, matvec


def normal_derivative(
    lam: Float[Array, " k"], G: Float[Array, "k k"], s: Float[Array, " k"], closed: Bool[Array, " k"]
) -> Float[Array, " k"]:
    """The solution of (1) again, differentiable: on the rows that carry an impulse, Gλ + s = 0."""
    lam = jax.lax.stop_gradient(lam)
    carrying = closed & (lam > 0)
    both = carrying[:, None] & carrying[None, :]
    frozen = jax.lax.stop_gradient(G)
    matrix = jnp.where(both, frozen, 0.0) + jnp.diag(jnp.where(carrying, 1e-14 * jnp.diagonal(frozen), 1.0))
    # The ridge of 1e-14 only matters where G is singular (more contacts than coordinates); it picks one of the solutions.
    defect = jnp.where(carrying, matvec(jnp.where(both, G, 0.0), lam) + s, 0.0)
    return lam - matvec(inverse(matrix), defect)


def friction_derivative(
    lam: Float[Array, " r"],
    G: Float[Array, "r r"],
    rates: Float[Array, " r"],
    target: Float[Array, " k"],
    friction: Float[Array, " k"],
    closed: Bool[Array, " k"],
) -> Float[Array, " r"]:
    """The solution of (2) again, differentiable: each row keeps its state (open, sticking, sliding)."""
    k = closed.shape[0]
    m = rates.shape[0] // k - 1
    lam = jax.lax.stop_gradient(lam)
    carrying = closed & (lam[:k] > 0)
    pull = lam[k:].reshape(k, m)
    strength = jnp.sqrt(jnp.sum(pull**2, axis=1))
    sticking = carrying & (strength < friction * lam[:k] * (1 - 1e-12))

    def residual(x, G, rates, target, friction):
        after = rates + matvec(G, x)
        normal = jnp.where(carrying, after[:k] - target, x[:k])
        slide, tangential = after[k:].reshape(k, m), x[k:].reshape(k, m)
        square = jnp.sum(slide**2, axis=1)
        direction = slide / jnp.sqrt(jnp.where(square > 0, square, 1.0))[:, None]
        sliding = tangential + (friction * x[:k])[:, None] * direction
        row = jnp.where(sticking[:, None], slide, sliding)
        return jnp.concatenate([normal, jnp.where(carrying[:, None], row, tangential).reshape(-1)])

    data = (G, rates, target, friction)
    jacobian = jax.jacfwd(residual)(lam, *jax.lax.stop_gradient(data))
    return lam - matvec(inverse(jacobian), residual(lam, *data))
