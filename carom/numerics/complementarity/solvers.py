"""The contact problems (1) and (2) of this package, solved inside compiled computations."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from carom.numerics.linalg import UNROLLED, matvec, solve, solve_positive

TOLERANCE = 1e-10  #     of the rates: what counts as solved. The iteration goes on to rounding while it gets there.
NEWTON_STEPS = 10  #     in a row, before sweeps get a turn
FIRST_SWEEPS = 16  #     in a row; each turn takes twice as many as the one before
TURNS = 10
RIDGE = 1e-13  #         relative; matters only where G is singular, and picks one of the solutions there


class Multipliers(NamedTuple):
    value: Float[Array, " rows"]
    converged: Bool[Array, ""]
    violation: Float[Array, ""]  #  how far the law is from being met, in the units of the rates


def normal_impulses(G: Float[Array, "k k"], s: Float[Array, " k"], closed: Bool[Array, " k"]) -> Multipliers:
    """Solve (1) on the rows that are closed; λ = 0 on the others. G need not be symmetric."""
    if s.shape[0] == 1:
        lam = jnp.where(closed, jnp.maximum(-s / jnp.where(closed, jnp.diagonal(G), 1.0), 0.0), 0.0)
        return Multipliers(lam, jnp.all(jnp.isfinite(s)), jnp.zeros(()))
    weight = _weights(jnp.diagonal(G), closed)

    def update(i, carry):
        lam, rate = carry
        new = jnp.maximum(lam[i] - rate[i] * weight[i], 0.0)
        return lam.at[i].set(new), rate + G[:, i] * (new - lam[i])

    def newton(lam):
        carrying = closed & (lam > weight * (matvec(G, lam) + s))
        matrix = jnp.where(carrying[:, None] & carrying[None, :], weight[:, None] * G, 0.0)
        matrix = matrix + jnp.diag(jnp.where(carrying, RIDGE, 1.0))
        kept = jnp.where(carrying, lam, 0.0)
        return kept - solve(matrix, jnp.where(carrying, weight * (matvec(G, kept) + s), 0.0))

    guess = _all_hold(G, s, closed, weight)
    found = _alternate(guess, newton, update, lambda lam: normal_violation(lam, G, s, closed), G, s, closed.shape[0])
    return found._replace(value=jnp.maximum(found.value, 0.0))


def normal_violation(lam, G, s, closed) -> Float[Array, ""]:
    """How far (1) is from being solved: rates that are negative, or not zero where there is an impulse; and pulling impulses."""
    after = matvec(G, lam) + s
    rate = jnp.where(lam > 0, jnp.abs(after), -jnp.minimum(after, 0.0))
    pull = -jnp.minimum(lam, 0.0) * jnp.diagonal(G)
    return jnp.max(jnp.where(closed, rate + pull, 0.0), initial=0.0)


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
    if m == 0:
        return normal_impulses(G, rates - target, closed)
    weight = _friction_weights(G, closed)

    def update(i, carry):
        lam, rate = carry
        new = jnp.maximum(lam[i] - (rate[i] - target[i]) * weight[i], 0.0)
        rate = rate + G[:, i] * (new - lam[i])
        lam = lam.at[i].set(new)
        first = k + i * m
        old = jax.lax.dynamic_slice(lam, (first,), (m,))
        slide = jax.lax.dynamic_slice(rate, (first,), (m,))
        trial = _shrink((old - slide * jax.lax.dynamic_slice(weight, (first,), (m,)))[None], friction[i, None] * new)[0]
        rate = rate + jax.lax.dynamic_slice(G, (0, first), (G.shape[0], m)) @ (trial - old)
        return jax.lax.dynamic_update_slice(lam, trial, (first,)), rate

    moves = jnp.eye(rates.shape[0]) - weight[:, None] * G  # how what is projected moves with λ

    def newton(lam):
        after = rates + matvec(G, lam)
        slope = _projection_slope(lam, after, target, friction, weight, closed, moves)
        slope = (1 + RIDGE) * jnp.eye(lam.shape[0]) - slope
        return lam - solve(slope, lam - _projected(lam, after, target, friction, weight, closed))

    rough = jnp.concatenate([closed, jnp.repeat(closed & (friction > 0), m)])
    guess = _all_hold(G, jnp.concatenate([rates[:k] - target, rates[k:]]), rough, weight)
    violation = lambda lam: friction_violation(lam, G, rates, target, friction, closed)  # noqa: E731
    found = _alternate(guess, newton, update, violation, G, rates, k)
    return found._replace(value=jnp.concatenate([jnp.maximum(found.value[:k], 0.0), found.value[k:]]))


def friction_violation(lam, G, rates, target, friction, closed) -> Float[Array, ""]:
    """How far (2) is from being solved: the change of λ by one projection onto the cone along the rates, in their units."""
    weight = _friction_weights(G, closed)
    new = _projected(lam, rates + matvec(G, lam), target, friction, weight, closed)
    return jnp.max(jnp.abs(new - lam) / jnp.where(weight > 0, weight, 1.0), initial=0.0)


def _all_hold(G, rates, live, weight):
    """The λ with which every live row holds its rate at zero, whatever its sign: right for what rests and sticks, and a start for
    Newton's method otherwise. Few rows are found as fast from zero."""
    if live.shape[0] <= UNROLLED:
        return jnp.zeros_like(rates)
    rows = jnp.where(live[:, None] & live[None, :], weight[:, None] * G, 0.0)
    matrix, wanted = rows + jnp.diag(jnp.where(live, RIDGE, 1.0)), jnp.where(live, weight * rates, 0.0)
    # The first time the ridge is in the answer, the second time in what is missing from it.
    improve = lambda _, lam: lam - solve_positive(matrix, matvec(rows, lam) + wanted)  # noqa: E731
    return jax.lax.fori_loop(0, 2, improve, jnp.zeros_like(rates))


def _weights(diagonal, live):
    return jnp.where(live, 1.0 / jnp.where(live & (diagonal > 0), diagonal, 1.0), 0.0)


def _friction_weights(G, closed):
    """One step size per row. A tangential block is scaled by its trace, a bound on its largest eigenvalue: the projected step
    stays a contraction."""
    k = closed.shape[0]
    m = G.shape[0] // k - 1
    diagonal = jnp.diagonal(G)
    scale = jnp.concatenate([diagonal[:k], jnp.repeat(jnp.sum(diagonal[k:].reshape(k, m), axis=1), m)])
    return _weights(scale, jnp.concatenate([closed, jnp.repeat(closed, m)]))


def _projected(lam, after, target, friction, weight, closed):
    """λ moved against the rates and back into the cone; (2) says that this changes nothing."""
    k = closed.shape[0]
    normal = jnp.where(closed, jnp.maximum(lam[:k] - weight[:k] * (after[:k] - target), 0.0), 0.0)
    trial = (lam[k:] - weight[k:] * after[k:]).reshape(k, -1)
    return jnp.concatenate([normal, _shrink(trial, friction * normal).reshape(-1)])


def _projection_slope(lam, after, target, friction, weight, closed, moves):
    """The derivative of `_projected` by λ. A contact that carries passes on how its rows move; where it slides, its pull follows
    the normal impulse, and turns."""
    k = closed.shape[0]
    trial = lam[:k] - weight[:k] * (after[:k] - target)
    carries = (closed & (trial > 0))[:, None]
    normal = jnp.where(carries, moves[:k], 0.0)
    pull = (lam[k:] - weight[k:] * after[k:]).reshape(k, -1)
    radius = friction * jnp.where(carries[:, 0], trial, 0.0)
    square = jnp.sum(pull**2, axis=1)
    outside = square > radius**2
    length = jnp.sqrt(jnp.where(outside, square, 1.0))
    along = pull / length[:, None]
    rows = moves[k:].reshape(*pull.shape, -1)
    across = rows - along[:, :, None] * jnp.sum(along[:, :, None] * rows, axis=1)[:, None]
    turned = (radius / length)[:, None, None] * across + along[:, :, None] * (friction[:, None] * normal)[:, None]
    tangential = jnp.where(outside[:, None, None], turned, rows)
    return jnp.concatenate([normal, tangential.reshape(-1, moves.shape[1])])


def _shrink(vectors, radius):
    """Each vector, no longer than its radius."""
    square = jnp.sum(vectors**2, axis=1)
    outside = square > radius**2
    factor = jnp.where(outside, radius / jnp.sqrt(jnp.where(outside, square, 1.0)), 1.0)
    return vectors * factor[:, None]


# -- Newton steps and sweeps in turn -------------------------------------------------------------------------------------


class _Search(NamedTuple):
    trial: Float[Array, " r"]  #      to be judged next
    swept: Float[Array, " r"]  #      where the sweeps are
    best: Float[Array, " r"]
    violation: Float[Array, ""]  #    of the best
    turn: Array  #                    so many turns of sweeps have ended
    taken: Array  #                   steps and sweeps of this turn


def _alternate(guess, newton: Callable, update: Callable, violation: Callable, G, rates, k: int) -> Multipliers:
    """Newton steps find the answer at once when the states of the contacts (open, sticking, sliding) are those of the guess or
    nearly so, and are exact then; projected Gauss–Seidel sweeps always improve but may need thousands. So they take turns.

    Contacts visited in another order give the same velocities, to rounding. Friction that couples strongly to the normal
    direction can make sweeps alternate between two states; later turns are damped, which leaves the solutions where they are.
    """
    eps = float(jnp.finfo(rates.dtype).eps)

    def goal(lam):
        return 16 * eps * (jnp.max(jnp.abs(rates)) + jnp.max(matvec(jnp.abs(G), jnp.abs(lam))))  # 16: a few roundings per row

    def sweep(search: _Search):
        damping = jnp.where(search.turn < 4, 1.0, jnp.where(search.turn < 8, 0.5, 0.1))
        new, _ = _for_each(k, update, (search.swept, rates + matvec(G, search.swept)))
        return search.swept + damping * (new - search.swept)

    def unfinished(search: _Search):
        # After a turn of both, what is nearly rounding is all that badly conditioned contacts allow.
        enough = jnp.where(search.turn > 0, 300.0, 1.0) * goal(search.best)
        return (search.violation > enough) & (search.turn < TURNS)

    def go_on(search: _Search):
        steps = search.taken < NEWTON_STEPS
        new = jax.lax.cond(steps, lambda s: newton(s.trial), sweep, search)
        swept = jnp.where(steps, search.swept, new)
        size = violation(new)
        better = size < search.violation
        best, least = jnp.where(better, new, search.best), jnp.where(better, size, search.violation)
        over = search.taken + 1 >= NEWTON_STEPS + (FIRST_SWEEPS << search.turn)
        return _Search(new, swept, best, least, search.turn + over, jnp.where(over, 0, search.taken + 1))

    none = jnp.zeros((), jnp.int32)
    search = jax.lax.while_loop(unfinished, go_on, _Search(guess, jnp.zeros_like(guess), guess, violation(guess), none, none))
    good = search.violation <= TOLERANCE * jnp.max(jnp.abs(rates)) + goal(search.best)
    return Multipliers(search.best, good & jnp.all(jnp.isfinite(search.best)), search.violation)


def _for_each(k, update, carry):
    if k <= 8:
        for i in range(k):
            carry = update(i, carry)
        return carry
    return jax.lax.fori_loop(0, k, update, carry)
