"""Coulomb's law for a few contacts, dense, inside compiled programs: the stages of this package in one loop.

Numbers in brackets are those of the package. The normal law asks for a rate b: u_N = s⁺_N − b. Contacts that are not closed keep
their place in the arrays, with a row of zeros in Γ, and so do the tangents of contacts without friction. The search is always in
one of three states:

    NEWTON    (11) from a guess; it ends at rounding. Begun with all contacts sticking, and from what the other two find.
    INSIDE    (9); whenever the certificate has become a hundredth, Newton gets a turn, and if it fails the path goes on from where
              it was. A path that stalls is followed by
    GRADIENT  (12), for some hundred steps, then Newton, and then the next path, from another point.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from carom.numerics.complementarity.solvers import Multipliers, normal_impulses
from carom.numerics.friction import small_cones as cone
from carom.numerics.linalg import matvec, solve

TOLERANCE = 1e-10  #             of E: what counts as solved. The iteration goes on to rounding while it gets there.
FIRST, SECOND, SMALLEST = 1e-8, 1e-6, 1e-12  # λ of (11): where turns begin, one and the other, and where it ends
NEWTON_STEPS = 8  #              in one turn
FAILURES = 3  #                  of Newton steps, in a row
NEAR = 1e-3  #                   the certificate from which Newton is tried on the path
PATH_STEPS = 40  #               on one path
# Where paths begin: so high above the vertices of the cones, above the best point, or above the gradient stage.
VERTEX, BEST, AHEAD = 0, 1, 2
PATHS = ((VERTEX, 1.0), (VERTEX, 0.1), (AHEAD, 0.1), (BEST, 1.0), (VERTEX, 10.0), (AHEAD, 0.01), (BEST, 0.1), (AHEAD, 1.0))
WEIGHTS = (1.0, 1.0, 1e2, 1e4)  # ρ of (10), in turn
GRADIENT_STEPS, GRADIENT_TURN = 25, 20  #   at a time, and how many times in one turn
NEWTON, INSIDE, GRADIENT = np.int32(0), np.int32(1), np.int32(2)


class _Data(NamedTuple):
    """(5), and what the certificate needs."""

    A: Float[Array, "n n"]
    q: Float[Array, "k d"]
    factor: Float[Array, "k d"]  #   Γ: impulses are factor · size · x
    size: Float[Array, ""]
    given: Float[Array, "n n"]  #    W, rows contact by contact
    rates: Float[Array, "k d"]  #    q of (2)
    friction: Float[Array, " k"]
    closed: Bool[Array, " k"]


class _Search(NamedTuple):
    state: Array  #                  NEWTON, INSIDE or GRADIENT
    x: Float[Array, "k d"]  #        Newton's iterate
    inside: Float[Array, "k d"]  #   x and y of the path
    rate: Float[Array, "k d"]
    ahead: Float[Array, "k d"]  #    the gradient's iterate, the one before, and its momentum
    last: Float[Array, "k d"]
    momentum: Float[Array, ""]
    best: Float[Array, "k d"]
    least: Float[Array, ""]  #       violation of the best
    damping: Float[Array, ""]  #     λ of (11)
    goal: Float[Array, ""]  #        violation at which Newton gets its next turn
    taken: Array  #                  steps of this turn, of this path
    failed: Array  #                 Newton steps in a row that did not help
    turns: Array  #                  of Newton, so far
    path: Array  #                   steps on this path
    paths: Array  #                  ended so far
    after: Array  #                  the state that follows Newton


def friction_impulses(
    G: Float[Array, "r r"],
    rates: Float[Array, " r"],
    target: Float[Array, " k"],
    friction: Float[Array, " k"],
    closed: Bool[Array, " k"],
) -> Multipliers:
    """Solve (2). Rows: k normals first, then k blocks of tangential rows; `target` is b, the normal rate asked for. `violation` is
    E(r)‖q‖ of (3), in the units of the rates."""
    k = closed.shape[0]
    m = rates.shape[0] // k - 1
    if m == 0:
        return normal_impulses(G, rates - target, closed)
    order = np.concatenate([np.arange(k)[:, None], k + np.arange(k * m).reshape(k, m)], axis=1).ravel()
    back = np.argsort(order)
    q = jnp.concatenate([rates[:k] - target, rates[k:]])
    data = _prepare(G[order][:, order], q[order].reshape(k, 1 + m), friction, closed)
    found = jax.lax.while_loop(lambda s: _unfinished(data, s), lambda s: _go_on(data, s), _begin(data))
    r = data.factor * data.size * found.best
    good = found.least <= TOLERANCE * cone.norm(data.rates) + _rounding(data, found.best)
    return Multipliers(r.reshape(-1)[back], good & jnp.all(jnp.isfinite(r)), found.least)


def _prepare(W, q, friction, closed) -> _Data:
    k, d = q.shape
    rough = closed & (friction > 0)
    shape = jnp.concatenate([jnp.where(rough, 1 / jnp.where(rough, friction, 1.0), 1.0)[:, None], jnp.ones((k, d - 1))], axis=1)
    live = jnp.concatenate([closed[:, None], jnp.repeat(rough[:, None], d - 1, axis=1)], axis=1)
    diagonal = jnp.where(live, jnp.diagonal(W).reshape(k, d) * shape**2, 0.0)
    mean = jnp.sum(diagonal, axis=1) / jnp.where(rough, d, 1)
    factor = jnp.where(live, shape / jnp.sqrt(jnp.where(mean > 0, mean, 1.0))[:, None], 0.0)
    scaled = factor * q
    size = jnp.max(jnp.abs(scaled))
    size = jnp.where(size > 0, size, 1.0)
    away = cone.raised(jnp.zeros((k, d)), jnp.where(closed, 0.0, 1.0))  # an open contact moves away, whatever the others do
    flat = factor.reshape(-1)
    rates = jnp.where(closed[:, None], q, 0.0)
    return _Data(flat[:, None] * W * flat, scaled / size + away, factor, size, W, rates, friction, closed)


def _begin(data: _Data) -> _Search:
    """All contacts stick: Âx = −Γq, as far as Â allows."""
    zero, none = jnp.zeros_like(data.q), jnp.zeros((), jnp.int32)
    x = jnp.where(
        data.closed[:, None], -solve(data.A + FIRST * jnp.eye(data.A.shape[0]), data.q.reshape(-1)).reshape(zero.shape), 0.0
    )
    inside = cone.raised(zero, PATHS[0][1])
    one, near = jnp.ones(()), NEAR * cone.norm(data.rates)
    search = _Search(
        none + NEWTON,
        cone.project(x),
        inside,
        inside,
        zero,
        zero,
        one,
        zero,
        jnp.inf * one,
        FIRST * one,
        near,
        none,
        none,
        none,
        none,
        none,
        none + INSIDE,
    )
    return _judged(data, search, zero)


def _judged(data: _Data, s: _Search, x) -> _Search:
    """The search, with x as its best if it is."""
    size = _violation(data, x)
    better = size < s.least
    return s._replace(best=jnp.where(better, x, s.best), least=jnp.where(better, size, s.least))


def _unfinished(data: _Data, s: _Search):
    # After Newton's first turn, what is nearly rounding is all that badly conditioned contacts allow.
    nearly = jnp.minimum(64 * _rounding(data, s.best), TOLERANCE * cone.norm(data.rates))
    enough = jnp.where(s.turns > 0, nearly, _rounding(data, s.best))
    return (s.least > enough) & (s.paths < len(PATHS))


def _go_on(data: _Data, s: _Search) -> _Search:
    states = [_newton, _inside, _gradient]
    return jax.lax.switch(s.state, [lambda s, f=f: f(data, s) for f in states], s)


# -- Newton ---------------------------------------------------------------------------------------------------


def _newton(data: _Data, s: _Search) -> _Search:
    """One step (11), and whether it is the last of this turn."""
    rho = jnp.asarray(WEIGHTS)[s.turns % len(WEIGHTS)]
    F, p, z = _natural_map(data, s.x, rho)
    k, d = p.shape
    slope = cone.projection_slope(p)
    lift = cone.top_row(cone.unit(z[:, 1:]))
    E = rho * cone.times(slope, lift)
    matrix = cone.block_diagonal((1 + s.damping) * jnp.eye(d) - slope) + cone.times(E, data.A.reshape(k, d, -1)).reshape(k * d, -1)
    trial = s.x - solve(matrix, F.reshape(-1)).reshape(k, d)
    before, after = cone.norm(F), cone.norm(_natural_map(data, trial, rho)[0])
    good = (after < before) | ((s.turns == 0) & jnp.isfinite(after))  # the first turn leaps
    failed = jnp.where(good, 0, s.failed + 1)
    over = (s.taken + 1 >= NEWTON_STEPS) | (failed >= FAILURES)
    x = jnp.where(good, trial, s.x)
    s = _judged(data, s, x)
    return s._replace(
        state=jnp.where(over, s.after, NEWTON),
        x=x,
        damping=jnp.where(
            over,
            jnp.where(s.turns % 2 == 0, SECOND, FIRST),
            jnp.where(good, jnp.maximum(0.3 * s.damping, SMALLEST), 100 * s.damping),
        ),
        taken=jnp.where(over, 0, s.taken + 1),
        failed=jnp.where(over, 0, failed),
        turns=s.turns + over,
    )


def _natural_map(data: _Data, x, rho):
    """F of (10), p = x − ρy and z."""
    z = _rate(data, x)
    p = x - rho * _shifted(z)
    return x - cone.project(p), p, z


def _rate(data: _Data, x):
    """z of (5)."""
    return matvec(data.A, x.reshape(-1)).reshape(x.shape) + data.q


def _shifted(z):
    """y of (5)."""
    return cone.raised(z, cone.lengths(z[:, 1:]))


# -- the path through the inside, and the gradient ------------------------------------------------------------


def _inside(data: _Data, s: _Search) -> _Search:
    """One step (9), and whether Newton gets a turn, or the gradient follows."""
    x, y, alpha = _path_step(data, s.inside, s.rate)
    fine = jnp.isfinite(alpha) & jnp.all(jnp.isfinite(x)) & jnp.all(jnp.isfinite(y))
    stalled = ~(fine & (alpha > 1e-4)) | (s.path >= PATH_STEPS)
    x = jnp.where(fine, x, s.inside)
    size = _violation(data, x)
    turn = (size <= s.goal) | stalled
    s = _judged(data, s, x)
    # A path that stalled leaves its best point to Newton: it may be near enough.
    return s._replace(
        state=jnp.where(turn, NEWTON, INSIDE),
        x=jnp.where(stalled, s.best, x),
        inside=x,
        rate=jnp.where(fine, y, s.rate),
        goal=jnp.where(turn, 1e-2 * size, s.goal),
        path=s.path + 1,
        after=jnp.where(stalled, GRADIENT, INSIDE),
    )


def _gradient(data: _Data, s: _Search) -> _Search:
    """Some steps (12); after enough of them Newton gets a turn, and the next path is prepared."""
    bound = jnp.max(jnp.sum(jnp.abs(data.A), axis=1))

    def step(_, carry):
        x, last, momentum = carry
        following = 0.5 * (1 + jnp.sqrt(1 + 4 * momentum**2))
        w = x + (momentum - 1) / following * (x - last)
        new = cone.project(w - _shifted(_rate(data, w)) / bound)
        restart = jnp.sum((w - new) * (new - x)) > 0
        return new, x, jnp.where(restart, 1.0, following)

    ahead, last, momentum = jax.lax.fori_loop(0, GRADIENT_STEPS, step, (s.ahead, s.last, s.momentum))
    over = s.taken + 1 >= GRADIENT_TURN
    s = _judged(data, s, ahead)
    kinds, heights = (jnp.asarray(column) for column in zip(*PATHS, strict=True))
    paths = s.paths + over
    kind, height = (column[jnp.minimum(paths, len(PATHS) - 1)] for column in (kinds, heights))
    point = jnp.where(kind == BEST, s.best, ahead)
    x, y = (jnp.where(kind == VERTEX, 0.0, cone.project(part)) for part in (point, _shifted(_rate(data, point))))
    return s._replace(
        state=jnp.where(over, NEWTON, GRADIENT),
        x=ahead,
        inside=cone.raised(x, height),
        rate=cone.raised(y, height),
        ahead=ahead,
        last=last,
        momentum=momentum,
        goal=NEAR * cone.norm(data.rates),
        taken=jnp.where(over, 0, s.taken + 1),
        path=jnp.zeros_like(s.path),
        paths=paths,
        after=jnp.full_like(s.after, INSIDE),
    )


def _path_step(data: _Data, x, y):
    """(9): predictor, corrector, and how far along it."""
    k, d = x.shape
    tau = jnp.sum(x * y) / k
    R = cone.raised(_rate(data, x) - y, cone.lengths(y[:, 1:]))
    theta, inverse, squared = cone.scaling(x, y)
    point = cone.times(theta, x[:, :, None])[:, :, 0]
    shear = cone.top_row(-cone.unit(y[:, 1:]))
    matrix = data.A + cone.block_diagonal(cone.times(shear, squared))

    def direction(c):
        pushed = cone.apply(theta, c)
        dx = solve(matrix, (cone.apply(shear, pushed) - R).reshape(-1)).reshape(k, d)
        return dx, pushed - cone.apply(squared, dx)

    def reach(dx, dy):
        return jnp.minimum(cone.longest_step(x, dx), cone.longest_step(y, dy))

    dx, dy = direction(-point)
    alpha = jnp.minimum(1.0, reach(dx, dy))
    ahead = jnp.maximum(jnp.sum((x + alpha * dx) * (y + alpha * dy)) / k, 0.0)
    sigma = jnp.maximum(jnp.maximum((ahead / tau) ** 3, (1 - alpha) ** 3), 1e-6)
    aim = -cone.product(point, point) - cone.product(cone.apply(theta, dx), cone.apply(inverse, dy))
    dx, dy = direction(cone.divide(point, cone.raised(aim, sigma * tau)))
    alpha = jnp.minimum(1.0, jnp.clip(1 - tau, 0.99, 1 - 1e-6) * reach(dx, dy))
    return x + alpha * dx, y + alpha * dy, alpha


# -- the certificate ------------------------------------------------------------------------------------------


def _violation(data: _Data, x):
    """E(r)‖q‖ of (3), over the closed contacts, from the matrix as it was given."""
    r = data.factor * data.size * x
    k, d = r.shape
    u = matvec(data.given, r.reshape(-1)).reshape(k, d) + data.rates
    weight = jnp.where(data.closed[:, None], jnp.diagonal(data.given).reshape(k, d), 0.0)
    total = jnp.sum(weight)
    rho = jnp.sum(data.closed) * d / jnp.where(total > 0, total, 1.0)
    p = r - rho * cone.raised(u, data.friction * cone.lengths(u[:, 1:]))
    mu, height, length = data.friction, p[:, 0], cone.lengths(p[:, 1:])
    normal = (height + mu * length) / (1 + mu**2)
    edge = jnp.concatenate([normal[:, None], (mu * normal)[:, None] * cone.unit(p[:, 1:])], axis=1)
    nearest = jnp.where((length <= mu * height)[:, None], p, jnp.where((mu * length <= -height)[:, None], 0.0, edge))
    change = cone.norm(jnp.where(data.closed[:, None], r - nearest, 0.0)) + jnp.finfo(r.dtype).eps * cone.norm(r)
    size = change / jnp.where(rho > 0, rho, 1.0)
    return jnp.where(jnp.isfinite(size), size, jnp.inf)


def _rounding(data: _Data, x):
    """A violation that is rounding, but never more than the tolerance: impulses that grow without bound solve nothing."""
    r, size = jnp.abs(data.factor * data.size * x).reshape(-1), cone.norm(data.rates)
    rounding = 16 * jnp.finfo(x.dtype).eps * (size + cone.norm(matvec(jnp.abs(data.given), r)))  # 16: a few roundings per row
    return jnp.minimum(rounding, TOLERANCE * size)
