"""Contact problems in the space of the contacts: find impulses λ that the unilateral law and Coulomb's cone allow.

    frictionless:   0 ≤ λ ⊥ Gλ + s ≥ 0                                                                     (1)
    with friction:  0 ≤ λ_N ⊥ s⁺ − b ≥ 0,   λ_T = argmin over |λ_T| ≤ μλ_N of the sliding work u⁺·λ_T        (2)

s are the gap rates before, s⁺ = s + Gλ the ones after, G = N M⁻¹ Nᵀ (Delassus). (1) projects the velocity onto the cone of
admissible velocities in the kinetic metric; that projection is unique even where G is singular and λ is not.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from carom.numerics.linalg import UNROLLED, inverse, matvec

MAX_SWEEPS = 10_000
TOLERANCE = 1e-10  # of the rates: what counts as solved. Sweeps go on to rounding while they get there.


class Multipliers(NamedTuple):
    value: Float[Array, " rows"]
    converged: Bool[Array, ""]


def normal_impulses(G: Float[Array, "k k"], s: Float[Array, " k"], closed: Bool[Array, " k"]) -> Multipliers:
    """Solve (1) on the rows that are closed, by projected Gauss–Seidel; λ = 0 on the others.

    One closed row is solved by the first sweep. Where sweeps converge slowly (nearly dependent contacts), they still find which
    rows carry an impulse; for few rows, one direct solve on these finishes. Rows visited in another order give the same
    velocities, to rounding.
    """
    k = s.shape[0]
    weight = jnp.where(closed, 1.0 / jnp.where(closed, jnp.diagonal(G), 1.0), 0.0)
    if k == 1:
        return Multipliers(jnp.maximum(-s * weight, 0.0), jnp.all(jnp.isfinite(s)))

    def update(i, carry):
        lam, rate = carry
        new = jnp.maximum(lam[i] - rate[i] * weight[i], 0.0)
        rate = rate + G[:, i] * (new - lam[i])
        return lam.at[i].set(new), rate

    few = k <= UNROLLED
    swept = _sweeps(lambda carry: _for_each(k, update, carry), jnp.zeros_like(s), s, G, 1000 if few else MAX_SWEEPS)
    if not few:
        return swept
    direct = normal_derivative(swept.value, G, s, closed)
    better = jnp.all(direct >= 0) & (_violation(direct, G, s, closed) < _violation(swept.value, G, s, closed))
    lam = jnp.where(better, direct, swept.value)
    return Multipliers(lam, swept.converged | (_violation(lam, G, s, closed) <= TOLERANCE * jnp.max(jnp.abs(s))))


def _violation(lam, G, s, closed) -> Float[Array, ""]:
    """How far (1) is from being solved: rates that are negative, or not zero where there is an impulse."""
    after = matvec(G, lam) + s
    return jnp.max(jnp.where(closed, jnp.where(lam > 0, jnp.abs(after), -jnp.minimum(after, 0.0)), 0.0))


def friction_impulses(
    G: Float[Array, "r r"],
    rates: Float[Array, " r"],
    target: Float[Array, " k"],
    friction: Float[Array, " k"],
    closed: Bool[Array, " k"],
) -> Multipliers:
    """Solve (2). Rows: k normals first, then k blocks of tangential rows; `target` is b, the normal rate asked for."""
    k = closed.shape[0]
    m = rates.shape[0] // k - 1
    diagonal = jnp.diagonal(G)
    live = jnp.concatenate([closed, jnp.repeat(closed, m)])
    # A tangential block is scaled by its trace, a bound on its largest eigenvalue: the projected step stays a contraction.
    scale = jnp.concatenate([diagonal[:k], jnp.repeat(jnp.sum(diagonal[k:].reshape(k, m), axis=1), m)])
    weight = jnp.where(live, 1.0 / jnp.where(live & (scale > 0), scale, 1.0), 0.0)

    def update(i, carry):
        lam, rate = carry
        new = jnp.maximum(lam[i] - (rate[i] - target[i]) * weight[i], 0.0)
        rate = rate + G[:, i] * (new - lam[i])
        lam = lam.at[i].set(new)
        first = k + i * m
        old = jax.lax.dynamic_slice(lam, (first,), (m,))
        slide = jax.lax.dynamic_slice(rate, (first,), (m,))
        w = jax.lax.dynamic_slice(weight, (first,), (m,))
        trial = old - slide * w
        size = jnp.sqrt(jnp.sum(trial**2))
        trial = trial * jnp.minimum(1.0, friction[i] * new / jnp.where(size > 0, size, 1.0))
        rate = rate + jax.lax.dynamic_slice(G, (0, first), (G.shape[0], m)) @ (trial - old)
        return jax.lax.dynamic_update_slice(lam, trial, (first,)), rate

    def sweep(carry):
        return _for_each(k, update, carry)

    swept = _sweeps(sweep, jnp.zeros_like(rates), rates, G, MAX_SWEEPS)
    # Rows whose state (open, sticking, sliding) is found converge at once by Newton; sweeps alone may take thousands.
    direct = friction_derivative(swept.value, G, rates, target, friction, closed)

    def violation(lam):
        return jnp.max(jnp.abs(sweep((lam, rates + matvec(G, lam)))[0] - lam) * diagonal)

    lam = jnp.where(violation(direct) < violation(swept.value), direct, swept.value)
    return Multipliers(lam, swept.converged | (violation(lam) <= TOLERANCE * jnp.max(jnp.abs(rates))))


def _for_each(k, update, carry):
    if k <= 8:
        for i in range(k):
            carry = update(i, carry)
        return carry
    return jax.lax.fori_loop(0, k, update, carry)


def _sweeps(sweep, lam, rate, G, limit: int) -> Multipliers:
    """Repeat sweeps until one changes no rate beyond rounding.

    Friction that couples strongly to the normal direction can make the sweeps alternate between two states; after a while they
    are therefore damped, which leaves the solutions where they are.
    """
    eps = float(jnp.finfo(rate.dtype).eps)
    size = jnp.max(jnp.abs(rate))
    diagonal = jnp.diagonal(G)

    def unfinished(carry):
        _, change, count = carry
        return (change > 2 * eps * size) & (count < limit)

    def again(carry):
        (old, before), _, count = carry
        new, _ = sweep((old, before))
        damping = jnp.where(count < 200, 1.0, jnp.where(count < 4000, 0.5, 0.1))
        step = damping * (new - old)
        return (old + step, before + matvec(G, step)), jnp.max(jnp.abs(new - old) * diagonal), count + 1

    start = ((lam, rate), jnp.asarray(jnp.inf, rate.dtype), 0)
    (lam, _), change, _ = jax.lax.while_loop(unfinished, again, start)
    return Multipliers(lam, (change <= TOLERANCE * size) & jnp.all(jnp.isfinite(lam)))


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
