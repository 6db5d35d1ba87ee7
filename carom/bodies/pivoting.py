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

from functools import cache

import numpy as np

from carom.bodies.dense_newton import GOAL, Dense, Stretched, best_of, solved
from carom.bodies.quaternions import lengths
from carom.numerics.friction import cones

OPEN, STICK, SLIDE = 0, 1, 2
STEPS = 100
PROXIMAL = (1e-7, 1e-10)  # λ: a step along impulses that cancel shall be long
PATIENCE = 25  #   steps without progress
NOISE = 1e-14  #    relative to q: what is wrong by less than this is rounding


def pivot(problem: Dense, start: np.ndarray, goal: float = GOAL, most: int | None = None) -> tuple[np.ndarray, float, int]:
    """(1) from `start`: the best impulses met, their certificate, and the number of steps. Which λ does not lead into a circle
    cannot be known before: both are tried, until the certificate is below the goal (and a step does not halve it any more); one of
    them where only so many steps are worth it, `most`."""
    if most is not None:
        return _search(problem, start, PROXIMAL[0], goal, most)
    tries = (_search(problem, start, proximal, goal) for proximal in PROXIMAL)
    return best_of(tries, (start, problem.residual(start)), goal)


def _search(problem: Dense, start: np.ndarray, proximal: float, goal: float, most: int = STEPS) -> tuple[np.ndarray, float, int]:
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
            dx = -solved(scaled.matrix(slope, rates, proximal), wrong)
        except np.linalg.LinAlgError:
            break
        who, becomes, share = _first(scaled, impulses, dx[:edge].reshape(k, width), state)
        x = x + share * dx
        if share < 1.0:
            state = np.where(np.arange(k) == who, becomes, state)
            x[:edge].reshape(k, width)[who] *= becomes != OPEN
            continue
        residual = problem.residual(x / scaled.factor)
        last = least <= goal and not residual < 0.5 * least
        if residual < least:
            best, least, since = x / scaled.factor, residual, step
        if last or least <= GOAL or not np.isfinite(residual) or step > since + PATIENCE:
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
    F, slope = impulses.copy(), np.zeros((k, width, width))  # open: P = 0
    stick = (state == STICK).nonzero()[0]
    if scaled.all_rough:
        F[stick], slope[stick] = impulses[stick] - p[stick], _identity(width)
    else:  # without friction the normal row is all there is
        rough = scaled.rough[stick][:, None]
        alone = _identity(width)[0]
        F[stick] = impulses[stick] - np.where(rough, p[stick], p[stick] * alone)
        slope[stick] = np.where(rough[:, :, None], _identity(width), np.diag(alone))
    slide = (state == SLIDE).nonzero()[0]
    if len(slide):
        height, across = p[slide, 0], p[slide, 1:]
        length = lengths(across)
        safe = np.where(length > 0, length, 1.0)
        n, ratio = across / safe[:, None], np.minimum(np.maximum(height / safe, -1.0), 1.0)[:, None, None]
        middle = 0.5 * (height + length)
        F[slide, 0] -= middle
        F[slide, 1:] -= middle[:, None] * n
        block = np.empty((len(slide), width, width))
        block[:, 0, 0] = 0.5
        block[:, 0, 1:] = block[:, 1:, 0] = 0.5 * n
        block[:, 1:, 1:] = (0.5 + 0.5 * ratio) * _identity(width - 1) - (0.5 * ratio) * (n[:, :, None] * n[:, None, :])
        slope[slide] = block
    return F, slope


@cache
def _identity(size: int) -> np.ndarray:
    return np.eye(size)


def _first(scaled: Stretched, x: np.ndarray, dx: np.ndarray, state: np.ndarray) -> tuple[int, int, float]:
    """Which contact leaves its state first on the way from x to x + dx, what it becomes, and after which share of the way."""
    if len(state) == 0:
        return 0, OPEN, 1.0
    who, becomes, least = 0, OPEN, 1.0
    falls = ((state != OPEN) & (x[:, 0] + dx[:, 0] < 0)).nonzero()[0]
    if len(falls):
        empty = np.maximum(x[falls, 0], 0.0) / -dx[falls, 0]
        first = int(empty.argmin())
        who, least = int(falls[first]), min(1.0, float(empty[first]))
    holds = ((state == STICK) & scaled.rough).nonzero()[0]
    end = x[holds] + dx[holds]
    holds = holds[lengths(end[:, 1:]) > end[:, 0]]
    if len(holds):
        # |x_T + s dx_T|² = (x_N + s dx_N)²: the smallest root, written so that nothing cancels
        here, step = x[holds], dx[holds]
        a, b, c = (_form(left, right) for left, right in ((step, step), (here, step), (here, here)))
        root = b + np.sqrt(np.maximum(b * b - a * c, 0.0))
        with np.errstate(over="ignore"):  # a cone that is left farther away than numbers reach is not left
            share = np.where(c >= 0, 0.0, -c / np.where(root > 0, root, 1.0))
        slips = np.where((c >= 0) | (root > 0), np.minimum(share, 1.0), np.inf)
        first = int(slips.argmin())
        if slips[first] < least:
            who, becomes, least = int(holds[first]), SLIDE, float(slips[first])
    return who, becomes, least


def _form(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a_T · b_T − a_N b_N, row by row."""
    return np.vecdot(a[:, 1:], b[:, 1:]) - a[:, 0] * b[:, 0]


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
