"""Rows of joints whose force has a bound: motors with a strength, and dry friction.

    |f| ≤ bound and ċ = speed;   or f = bound and ċ ≤ speed;   or f = −bound and ċ ≥ speed                                      (1)

Each such row holds its speed, or pushes as hard as it can. Those that hold are solved for with everything else, those that push are
forces; whoever breaks (1) changes sides, until nobody does.
"""

from dataclasses import replace

import numpy as np

from carom.bodies.posed import Posed
from carom.bodies.velocity import Answer, solve_velocities

ROUNDS = 40
SLACK = 1e-12  # relative: a row this near to its bound is there


def solve_bounded(
    posed: Posed, v: np.ndarray, L: np.ndarray, offset: np.ndarray, start: np.ndarray | None, tolerance: float, h: float
) -> Answer:
    """`solve_velocities` with (1) for the rows of joints that have a bound."""
    bound = h * np.array(posed.joints.bound)
    if not np.any(np.isfinite(bound)):
        return solve_velocities(posed, v, L, offset, start, tolerance)
    edge = len(posed.rows.a) - len(posed.joints)
    pushing = _guess(posed, v, L, offset, start, bound, edge)  # −1, 0 (holds) or 1
    answer = None
    for _ in range(ROUNDS):
        push = pushing * np.where(np.isfinite(bound), bound, 0.0)
        answer = with_given(posed, v, L, offset, start, tolerance, push, pushing == 0)
        f, wrong = answer.impulses[edge:], (answer.u + offset)[edge:]
        too_hard = (pushing == 0) & (np.abs(f) > bound * (1 + SLACK))
        too_far = (pushing != 0) & (pushing * wrong > SLACK * np.max(np.abs(offset), initial=1e-300))
        if not np.any(too_hard | too_far):
            return answer
        pushing = np.where(too_hard, np.sign(f), np.where(too_far, 0.0, pushing))
    assert answer is not None
    return replace(answer, converged=False)


def _guess(posed: Posed, v, L, offset, start: np.ndarray | None, bound: np.ndarray, edge: int) -> np.ndarray:
    """Who pushes, to begin with: those that did, and all where something has just closed.

    A motor that meets its stop, or a wall, cannot hold its speed. Asked to, it makes a problem without a solution, and one
    that takes seconds to be given up; asked to push as hard as it can, which is always possible, it is right at once.
    """
    wrong, width = posed.rates(v, L) + offset, 1 + posed.rows.tangents
    before = np.zeros(len(wrong)) if start is None else start
    closes = (wrong[:edge:width] < 0) & (before[:edge:width] == 0)
    if start is None or np.any(closes):
        return np.where(np.isfinite(bound), -np.sign(wrong[edge:]), 0.0)
    return np.where(np.abs(before[edge:]) >= bound * (1 - SLACK), np.sign(before[edge:]), 0.0)


def with_given(
    posed: Posed, v, L, offset, start, tolerance: float, push: np.ndarray, holds: np.ndarray, h: float | None = None
) -> Answer:
    """The answer where some rows of joints push with given impulses and the others hold; with h, these within their bounds."""
    edge = len(posed.rows.a) - len(posed.joints)
    given = np.concatenate([np.zeros(edge), push])
    p, dL = posed.rows.kick(given)
    free = posed.scene.free[:, None]
    v, L = np.where(free, v + posed.scene.inverse_mass[:, None] * p, v), np.where(free, L + dL, L)
    kept = np.flatnonzero(holds)
    rows = np.concatenate([np.arange(edge), edge + kept])
    part = posed if len(kept) == len(holds) else posed.joined_by(kept)
    begin = None if start is None else start[rows]
    if h is None:
        answer = solve_velocities(part, v, L, offset[rows], begin, tolerance)
    else:
        answer = solve_bounded(part, v, L, offset[rows], begin, tolerance, h)
    impulses = given.copy()
    impulses[rows] = answer.impulses
    return replace(answer, impulses=impulses, u=posed.rates(answer.v, answer.L))
