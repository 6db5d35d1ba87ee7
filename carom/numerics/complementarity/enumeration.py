"""Contact problems by trying every combination of states: exact, exponential, and only for small problems in the plane."""

import itertools
from functools import cache

import numpy as np

TINY = 1e-9  # relative: how far a candidate may be from the law by rounding


def solve_normal(G: np.ndarray, s: np.ndarray) -> np.ndarray:
    """All solutions λ of (1) that are vertices, one per row: for each set of carrying contacts the λ with zero rates there, if
    it is allowed."""
    k = len(s)
    carries = _states(k, (0.0, 1.0))
    matrix = np.where(carries[:, :, None] > 0, G, np.eye(k))
    right = -carries * s
    lam = _solutions(matrix, right)
    small = TINY * (1 + np.max(np.abs(s)))
    allowed = _all(np.abs(np.einsum("aij,aj->ai", matrix, lam) - right) <= small)
    return lam[allowed & _all(lam >= -small) & _all(lam @ G.T + s >= -small)]


def solve_friction(G: np.ndarray, rates: np.ndarray, target: np.ndarray, friction: np.ndarray) -> np.ndarray:
    """All solutions of (2) in the plane (one tangential row per contact) that are vertices, one per row, by the states of each
    contact: open (2); sticking (0); sliding to one or to the other side (±1)."""
    k = len(target)
    states = _states(k, (2.0, 0.0, 1.0, -1.0))
    opened, sticks = states == 2, states == 0
    side = np.where(opened, 0.0, states)
    normal = np.where(opened[:, :, None], np.eye(2 * k)[:k], G[:k])
    slides = np.concatenate([-side[:, :, None] * friction[:, None] * np.eye(k), np.broadcast_to(np.eye(k), (len(states), k, k))], 2)
    tangential = np.where(sticks[:, :, None], G[k:], slides)
    matrix = np.concatenate([normal, tangential], axis=1)
    right = np.concatenate([np.where(opened, 0.0, target - rates[:k]), np.where(sticks, -rates[k:], 0.0)], axis=1)
    lam = _solutions(matrix, right)
    after = rates + lam @ G.T
    small = TINY * (1 + np.max(np.abs(rates)))
    allowed = _all(np.abs(np.einsum("aij,aj->ai", matrix, lam) - right) <= small)
    allowed &= _all(lam[:, :k] >= -small) & _all(after[:, :k] >= target - small)
    allowed &= _all(np.abs(lam[:, k:]) <= friction * lam[:, :k] + small) & _all(after[:, k:] * side <= small)
    return lam[allowed]


@cache
def _states(k: int, choices: tuple[float, ...]) -> np.ndarray:
    return np.array(list(itertools.product(choices, repeat=k)))


def _solutions(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The shortest solution of each system, also where it is singular."""
    return np.einsum("aij,aj->ai", np.linalg.pinv(matrix, rcond=1e-13), right)


def _all(conditions: np.ndarray) -> np.ndarray:
    return np.all(conditions, axis=1)
