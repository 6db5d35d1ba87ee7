"""Small contact problems in which one of many points must give way: Newton's method with the state of each contact held.

A box on its face touches at four corners and needs three. Where the four say slightly different things (gaps of the order of the
method, rates that turned with the body), one of them has to open or to slip, and which one is a question that (1) of
`dense_newton` answers by chance: impulses z that cancel, Wz = 0, are free for it, and its step along them is as long as its
proximal term allows. Here states change one at a time, as in a simplex method:

    open   x = 0                                   until u_N < 0, the worst first                                           (1)
    stick  u = 0                                   until the step leads out of the cone: it then slides from there
    slide  u_N = 0, x_T = −x_N u_T / |u_T|         until x_N = 0, then open; or until x_T · u_T > 0, then stick

so a step along z ends where the first contact has nothing left to give.
"""

import numpy as np

from carom.bodies.dense_newton import GOAL, Dense, Stretched, best_of
from carom.numerics.friction import cones

OPEN, STICK, SLIDE = 0, 1, 2
STEPS = 100
PROXIMAL = (1e-7, 1e-10)  # λ: a step along impulses that cancel shall be long
PATIENCE = 25  #   steps without progress
NOISE = 1e-14  #    relative to q: what is wrong by less than this is rounding


def pivot(problem: Dense, start: np.ndarray, goal: float = GOAL, most: int | None = None) -> tuple[np.ndarray, float, int]:
    """(1) from `start`: the best impulses met, their certificate, and the number of steps. Which λ does not lead into a circle
    cannot be known before: both are tried, until the certificate is below the goal; one of them where only so many steps are
    worth it, `most`."""
    if most is not None:
        return _search(problem, start, PROXIMAL[0], most)
    tries = (_search(problem, start, proximal) for proximal in PROXIMAL)
    return best_of(tries, (start, problem.residual(start)), goal)


def _search(problem: Dense, start: np.ndarray, proximal: float, most: int = STEPS) -> tuple[np.ndarray, float, int]:
    scaled = problem.stretched
    k, width = len(scaled.rough), scaled.width
    edge = k * width
    best, least = start, problem.residual(start)
    x, size, state, step = start * scaled.factor, float(np.linalg.norm(scaled.q)), None, 0
    since = 0
    for step in range(1, most + 1):
        z = scaled.W @ x + scaled.q
        impulses, rates = x[:edge].reshape(k, width), z[:edge].reshape(k, width)
        state = _states(scaled, impulses, rates) if state is None else state
        F, slope = _held(scaled, impulses, rates, state)
        wrong = np.concatenate([F.ravel(), scaled.rho * z[edge:]])
        try:
            dx = -np.linalg.solve(scaled.matrix(slope, rates, proximal), wrong)
        except np.linalg.LinAlgError:
            break
        who, becomes, share = _first(scaled, impulses, dx[:edge].reshape(k, width), state)
        x = x + share * dx
        if share < 1.0:
            state = np.where(np.arange(k) == who, becomes, state)
            x[:edge].reshape(k, width)[who] *= becomes != OPEN
            continue
        residual = problem.residual(x / scaled.factor)
        if residual < least:
            best, least, since = x / scaled.factor, residual, step
        if least <= GOAL or not np.isfinite(residual) or step > since + PATIENCE:
            break
        changed = _changed(scaled, x, state, size, float(np.linalg.norm(wrong)))
        if changed is state and np.linalg.norm(wrong) <= NOISE * scaled.rho * size:
            break
        state = changed
    return best, least, step


def _states(scaled: Stretched, impulses: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """What the natural map takes each contact for."""
    p = impulses - scaled.rho * scaled.shifted(rates)
    length = cones.norm(p[:, 1:])
    with_friction = np.where(length <= p[:, 0], STICK, np.where(length <= -p[:, 0], OPEN, SLIDE))
    return np.where(scaled.rough, with_friction, np.where(p[:, 0] > 0, STICK, OPEN))


def _held(scaled: Stretched, impulses: np.ndarray, rates: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x − P(x − ρy) and the derivative of P, with the branch of P that belongs to the state."""
    k, width = impulses.shape
    p = impulses - scaled.rho * scaled.shifted(rates)
    n, length = cones.unit(p[:, 1:]), cones.norm(p[:, 1:])
    stick, slide = (state == STICK)[:, None], (state == SLIDE)[:, None]
    alone = np.eye(width)[0]  # without friction the normal row is all there is
    inside = np.where(scaled.rough[:, None], p, p * alone)
    edge = 0.5 * (p[:, 0] + length)[:, None] * np.concatenate([np.ones((k, 1)), n], axis=1)
    ratio = np.clip(p[:, 0] / np.where(length > 0, length, 1.0), -1.0, 1.0)[:, None, None]
    block = np.empty((k, width, width))
    block[:, 0, 0] = 1.0
    block[:, 0, 1:] = block[:, 1:, 0] = n
    block[:, 1:, 1:] = (1 + ratio) * np.eye(width - 1) - ratio * n[:, :, None] * n[:, None, :]
    whole = np.where(scaled.rough[:, None, None], np.eye(width), np.diag(alone))
    slope = np.where(stick[:, :, None], whole, np.where(slide[:, :, None], 0.5 * block, 0.0))
    return impulses - np.where(stick, inside, np.where(slide, edge, 0.0)), slope


def _first(scaled: Stretched, x: np.ndarray, dx: np.ndarray, state: np.ndarray) -> tuple[int, int, float]:
    """Which contact leaves its state first on the way from x to x + dx, what it becomes, and after which share of the way."""
    if len(state) == 0:
        return 0, OPEN, 1.0
    falls = (state != OPEN) & (x[:, 0] + dx[:, 0] < 0)
    empty = np.where(falls, np.maximum(x[:, 0], 0.0) / np.where(falls, -dx[:, 0], 1.0), np.inf)
    # |x_T + s dx_T|² = (x_N + s dx_N)²: the smallest root, written so that nothing cancels
    mirror = np.r_[-1.0, np.ones(x.shape[1] - 1)]
    a, b, c = (np.sum(mirror * left * right, axis=1) for left, right in ((dx, dx), (x, dx), (x, x)))
    root = b + np.sqrt(np.maximum(b * b - a * c, 0.0))
    with np.errstate(over="ignore"):  # a cone that is left farther away than numbers reach is not left
        share = np.where(c >= 0, 0.0, -c / np.where(root > 0, root, 1.0))
    leaves = (state == STICK) & scaled.rough & (cones.norm(x[:, 1:] + dx[:, 1:]) > x[:, 0] + dx[:, 0]) & ((c >= 0) | (root > 0))
    slips = np.where(leaves, np.minimum(share, 1.0), np.inf)
    who = int(np.argmin(np.minimum(empty, slips)))
    return who, SLIDE if slips[who] < empty[who] else OPEN, min(1.0, float(empty[who]), float(slips[who]))


def _changed(scaled: Stretched, x: np.ndarray, state: np.ndarray, size: float, wrong: float) -> np.ndarray:
    """The states, with the one changed that breaks its law most, if that is not due to the equations being unsolved still."""
    k, width = len(state), scaled.width
    rates = (scaled.W @ x + scaled.q)[: k * width].reshape(k, width)
    pulls = np.sum(cones.unit(x[: k * width].reshape(k, width)[:, 1:]) * rates[:, 1:], axis=1)
    breach = np.maximum(np.where(state == OPEN, -rates[:, 0], np.where(state == SLIDE, pulls, 0.0)), 0.0)
    who = int(np.argmax(breach)) if k else 0
    if k == 0 or breach[who] <= NOISE * size or wrong > 1e-2 * scaled.rho * breach[who]:
        return state
    slips = state[who] == OPEN and scaled.rough[who] and cones.norm(rates[who : who + 1, 1:])[0] > 100 * NOISE * size
    return np.where(np.arange(k) == who, SLIDE if slips else STICK, state)
