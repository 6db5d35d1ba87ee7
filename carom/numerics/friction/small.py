"""Coulomb's law for a few contacts, dense, inside compiled programs: the stages of this package in one loop.

Numbers in brackets are those of the package. The normal law asks for a rate b: u_N = s⁺_N − b. Contacts that are not closed keep
their place in the arrays, with a row of zeros in Γ, and so do the tangents of contacts without friction. The search is always in
one of two states:

    Newton   (11) from a guess; it ends at rounding. Begun with all contacts sticking, and from interior points.
    inside   (9); whenever the certificate has become a hundredth, Newton gets a turn, and if it fails the path goes on from where
             it was. A path that stalls begins again from another height.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from carom.numerics.complementarity.solvers import Multipliers, normal_impulses
from carom.numerics.linalg import matvec, solve

TOLERANCE = 1e-10  #            of E: what counts as solved. The iteration goes on to rounding while it gets there.
FIRST, SMALLEST = 1e-8, 1e-13  # λ of (11)
NEWTON_STEPS = 8  #             in one turn
FAILURES = 3  #                 of Newton steps, in a row
NEAR = 1e-3  #                  the certificate from which Newton is tried on the path
HEIGHTS = (1.0, 0.1, 10.0, 0.01, 100.0, 3.0)  # where paths begin
WEIGHTS = (1.0, 1.0, 1e2, 1e4)  #               ρ of (10), in turn
PATH_STEPS = 40  #              on one path


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
    x: Float[Array, "k d"]  #        Newton's iterate
    inside: Float[Array, "k d"]  #   x and y of the path
    rate: Float[Array, "k d"]
    best: Float[Array, "k d"]
    least: Float[Array, ""]  #       violation of the best
    newton: Bool[Array, ""]  #       the state
    damping: Float[Array, ""]
    goal: Float[Array, ""]  #        violation at which Newton gets its next turn
    taken: Array  #                  steps of this turn of Newton
    failed: Array  #                 Newton steps in a row that did not help
    turns: Array  #                  of Newton, so far
    path: Array  #                   steps on this path
    paths: Array  #                  begun so far


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
    good = found.least <= TOLERANCE * _norm(data.rates) + 4 * _rounding(data, found.best)
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
    away = _raised(jnp.zeros((k, d)), jnp.where(closed, 0.0, 1.0))  # an open contact moves away, whatever the others do
    flat = factor.reshape(-1)
    rates = jnp.where(closed[:, None], q, 0.0)
    return _Data(flat[:, None] * W * flat, scaled / size + away, factor, size, W, rates, friction, closed)


def _begin(data: _Data) -> _Search:
    """All contacts stick: Âx = −Γq, as far as Â allows."""
    zero, none = jnp.zeros_like(data.q), jnp.zeros((), jnp.int32)
    x = jnp.where(data.closed[:, None], -solve(data.A + FIRST * jnp.eye(data.A.shape[0]), data.q.reshape(-1)).reshape(zero.shape), 0.0)
    start = _project(x)
    first = _violation(data, zero)
    inside = _raised(zero, HEIGHTS[0])
    near = jnp.asarray(NEAR * _norm(data.rates))
    return _Search(
        start, inside, inside, zero, first, jnp.asarray(True), jnp.asarray(FIRST), near, none, none, none, none, none
    )


def _unfinished(data: _Data, s: _Search):
    # After Newton's first turn, what is nearly rounding is all that badly conditioned contacts allow.
    enough = jnp.where(s.turns > 0, 64.0, 1.0) * _rounding(data, s.best)
    return (s.least > enough) & (s.paths < len(HEIGHTS))


def _go_on(data: _Data, s: _Search) -> _Search:
    s = jax.lax.cond(s.newton, lambda s: _newton(data, s), lambda s: _inside(data, s), s)
    x = jnp.where(s.newton | (s.taken == 0), s.x, s.inside)
    size = _violation(data, x)
    better = size < s.least
    return s._replace(best=jnp.where(better, x, s.best), least=jnp.where(better, size, s.least))


# -- Newton -----------------------------------------------------------------------------------------------------------------


def _newton(data: _Data, s: _Search) -> _Search:
    """One step (11), and whether it is the last of this turn."""
    rho = jnp.asarray(WEIGHTS)[s.turns % len(WEIGHTS)]
    F, p, z = _natural_map(data, s.x, rho)
    k, d = p.shape
    slope = _projection_slope(p)
    lift = _top_row(_unit(z[:, 1:]))
    E = rho * _times(slope, lift)
    matrix = _block_diagonal((1 + s.damping) * jnp.eye(d) - slope) + _times(E, data.A.reshape(k, d, -1)).reshape(k * d, -1)
    trial = s.x - solve(matrix, F.reshape(-1)).reshape(k, d)
    before, after = _norm(F), _norm(_natural_map(data, trial, rho)[0])
    good = (after < before) | ((s.turns == 0) & jnp.isfinite(after))  # the first turn leaps
    failed = jnp.where(good, 0, s.failed + 1)
    over = (s.taken + 1 >= NEWTON_STEPS) | (failed >= FAILURES)
    return s._replace(
        x=jnp.where(good, trial, s.x),
        newton=~over,
        damping=jnp.where(over, FIRST, jnp.where(good, jnp.maximum(0.3 * s.damping, SMALLEST), 100 * s.damping)),
        taken=jnp.where(over, 0, s.taken + 1),
        failed=jnp.where(over, 0, failed),
        turns=s.turns + over,
    )


def _natural_map(data: _Data, x, rho):
    """F of (10), p = x − ρy and z."""
    z = matvec(data.A, x.reshape(-1)).reshape(x.shape) + data.q
    p = x - rho * _raised(z, _lengths(z[:, 1:]))
    return x - _project(p), p, z


# -- the path through the inside ------------------------------------------------------------------------------------------------


def _inside(data: _Data, s: _Search) -> _Search:
    """One step (9), and whether Newton gets a turn, or the next path begins."""
    x, y, alpha = _path_step(data, s.inside, s.rate)
    fine = jnp.isfinite(alpha) & jnp.all(jnp.isfinite(x)) & jnp.all(jnp.isfinite(y))
    stalled = ~(fine & (alpha > 1e-4)) | (s.path >= PATH_STEPS)
    size = _violation(data, jnp.where(fine, x, s.inside))
    turn = (size <= s.goal) | stalled
    paths = s.paths + stalled
    height = jnp.asarray(HEIGHTS)[jnp.minimum(paths, len(HEIGHTS) - 1)]
    again = _raised(jnp.zeros_like(x), height)
    # A path that stalled leaves its best point to Newton: it may be near enough.
    point = jnp.where(stalled, s.best, x)
    return s._replace(
        x=jnp.where(turn, point, s.x),
        inside=jnp.where(stalled, again, x),
        rate=jnp.where(stalled, again, y),
        newton=turn,
        goal=jnp.where(stalled, NEAR * _norm(data.rates), jnp.where(turn, 1e-2 * size, s.goal)),
        path=jnp.where(stalled, 0, s.path + 1),
        paths=paths,
    )


def _path_step(data: _Data, x, y):
    """(9): predictor, corrector, and how far along it."""
    k, d = x.shape
    tau = jnp.sum(x * y) / k
    z = matvec(data.A, x.reshape(-1)).reshape(k, d) + data.q
    R = _raised(z - y, _lengths(y[:, 1:]))
    theta, inverse, squared = _scaling(x, y)
    point = _times(theta, x[:, :, None])[:, :, 0]
    shear = _top_row(-_unit(y[:, 1:]))
    matrix = data.A + _block_diagonal(_times(shear, squared))

    def direction(c):
        pushed = _apply(theta, c)
        dx = solve(matrix, (_apply(shear, pushed) - R).reshape(-1)).reshape(k, d)
        return dx, pushed - _apply(squared, dx)

    def reach(dx, dy):
        return jnp.minimum(_longest_step(x, dx), _longest_step(y, dy))

    dx, dy = direction(-point)
    alpha = jnp.minimum(1.0, reach(dx, dy))
    ahead = jnp.maximum(jnp.sum((x + alpha * dx) * (y + alpha * dy)) / k, 0.0)
    sigma = jnp.maximum(jnp.maximum((ahead / tau) ** 3, (1 - alpha) ** 3), 1e-6)
    aim = -_product(point, point) - _product(_apply(theta, dx), _apply(inverse, dy))
    dx, dy = direction(_divide(point, _raised(aim, sigma * tau)))
    alpha = jnp.minimum(1.0, jnp.clip(1 - tau, 0.99, 1 - 1e-6) * reach(dx, dy))
    return x + alpha * dx, y + alpha * dy, alpha


# -- the certificate --------------------------------------------------------------------------------------------------------------


def _violation(data: _Data, x):
    """E(r)‖q‖ of (3), over the closed contacts, from the matrix as it was given."""
    r = data.factor * data.size * x
    k, d = r.shape
    u = matvec(data.given, r.reshape(-1)).reshape(k, d) + data.rates
    weight = jnp.where(data.closed[:, None], jnp.diagonal(data.given).reshape(k, d), 0.0)
    total = jnp.sum(weight)
    rho = jnp.sum(data.closed) * d / jnp.where(total > 0, total, 1.0)
    p = r - rho * _raised(u, data.friction * _lengths(u[:, 1:]))
    mu, height, length = data.friction, p[:, 0], _lengths(p[:, 1:])
    normal = (height + mu * length) / (1 + mu**2)
    edge = jnp.concatenate([normal[:, None], (mu * normal)[:, None] * _unit(p[:, 1:])], axis=1)
    nearest = jnp.where((length <= mu * height)[:, None], p, jnp.where((mu * length <= -height)[:, None], 0.0, edge))
    size = _norm(jnp.where(data.closed[:, None], r - nearest, 0.0)) / jnp.where(rho > 0, rho, 1.0)
    return jnp.where(jnp.isfinite(size), size, jnp.inf)


def _rounding(data: _Data, x):
    r = jnp.abs(data.factor * data.size * x).reshape(-1)
    return 16 * jnp.finfo(x.dtype).eps * (_norm(data.rates) + _norm(matvec(jnp.abs(data.given), r)))  # 16: a few roundings per row


# -- the Lorentz cone, one row per contact ----------------------------------------------------------------------------------------


def _norm(x):
    return jnp.sqrt(jnp.sum(x * x))


def _lengths(x):
    square = jnp.sum(x * x, axis=1)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def _unit(x):
    length = _lengths(x)
    return x / jnp.where(length > 0, length, 1.0)[:, None]


def _raised(x, amount):
    """x with so much more in its first column."""
    return x + amount * jnp.eye(x.shape[1])[0] if jnp.ndim(amount) == 0 else x + amount[:, None] * jnp.eye(x.shape[1])[0]


def _top_row(t):
    """I + e₀tᵀ, in blocks."""
    k, m = t.shape
    row = jnp.concatenate([jnp.zeros((k, 1)), t], axis=1)
    return jnp.eye(1 + m) + jnp.eye(1 + m)[0][:, None] * row[:, None, :]


def _times(a, b):
    """Products of blocks, written out."""
    return sum(a[:, :, j, None] * b[:, j, None, :] for j in range(a.shape[2]))


def _apply(a, x):
    return sum(a[:, :, j] * x[:, j, None] for j in range(a.shape[2]))


def _block_diagonal(blocks):
    k, d, _ = blocks.shape
    return (jnp.eye(k)[:, None, :, None] * blocks[:, :, None, :]).reshape(k * d, k * d)


def _project(p):
    height, length = p[:, 0], _lengths(p[:, 1:])
    edge = 0.5 * (height + length)[:, None] * jnp.concatenate([jnp.ones((p.shape[0], 1)), _unit(p[:, 1:])], axis=1)
    return jnp.where((length <= height)[:, None], p, jnp.where((length <= -height)[:, None], 0.0, edge))


def _projection_slope(p):
    k, d = p.shape
    height, length = p[:, 0], _lengths(p[:, 1:])
    n = _unit(p[:, 1:])
    ratio = (height / jnp.where(length > 0, length, 1.0))[:, None, None]
    tail = (1 + ratio) * jnp.eye(d - 1) - ratio * n[:, :, None] * n[:, None, :]
    top = jnp.concatenate([jnp.ones((k, 1)), n], axis=1)[:, None, :]
    edge = 0.5 * jnp.concatenate([top, jnp.concatenate([n[:, :, None], tail], axis=2)], axis=1)
    inside, polar = (length <= height)[:, None, None], (length <= -height)[:, None, None]
    return jnp.where(inside, jnp.eye(d), jnp.where(polar, 0.0, edge))


def _determinant(x):
    length = _lengths(x[:, 1:])
    return jnp.maximum(x[:, 0] - length, 1e-16 * x[:, 0]) * (x[:, 0] + length)


def _scaling(x, y):
    """Θ, Θ⁻¹ and Θ² of (1)."""
    d = x.shape[1]
    mirror = jnp.asarray(np.r_[1.0, -np.ones(d - 1)])
    det_x, det_y = _determinant(x), _determinant(y)
    x_bar, y_bar = x / jnp.sqrt(det_x)[:, None], y / jnp.sqrt(det_y)[:, None]
    gamma = jnp.sqrt(0.5 * (1 + jnp.sum(x_bar * y_bar, axis=1)))
    w = (x_bar + y_bar * mirror) / (2 * gamma)[:, None]
    beta = jnp.sqrt(jnp.sqrt(det_x / det_y))[:, None, None]
    v = _raised(w, 1.0) / jnp.sqrt(2 * (w[:, :1] + 1))
    outer = lambda a: 2 * a[:, :, None] * a[:, None, :] - jnp.diag(mirror)  # noqa: E731
    return outer(v * mirror) / beta, outer(v) * beta, outer(w * mirror) / beta**2


def _product(a, b):
    return jnp.concatenate([jnp.sum(a * b, axis=1, keepdims=True), a[:, :1] * b[:, 1:] + b[:, :1] * a[:, 1:]], axis=1)


def _divide(a, b):
    head = ((a[:, 0] * b[:, 0] - jnp.sum(a[:, 1:] * b[:, 1:], axis=1)) / _determinant(a))[:, None]
    return jnp.concatenate([head, (b[:, 1:] - head * a[:, 1:]) / a[:, :1]], axis=1)


def _longest_step(x, dx):
    root = jnp.sqrt(_determinant(x))
    bar = x / root[:, None]
    inner = bar[:, 0] * dx[:, 0] - jnp.sum(bar[:, 1:] * dx[:, 1:], axis=1)
    tail = dx[:, 1:] - ((inner + dx[:, 0]) / (bar[:, 0] + 1))[:, None] * bar[:, 1:]
    shrink = jnp.max((_lengths(tail) - inner) / root)
    return jnp.where(shrink > 0, 1 / jnp.where(shrink > 0, shrink, 1.0), jnp.inf)
