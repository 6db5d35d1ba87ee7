"""How far two motions with jumps are from each other.

Where one has hit and the other has not yet, by a time δt, positions and momenta differ by the whole jump, however small δt is. The
distance that goes to zero compares events with events, and states with states only where both have had the same events:

    d = max over impacts k of |t_k − t_k*|, |q_k − q_k*|, |p_k^± − p_k^±*|, and over times t at which as many impacts
        have happened in both, of |q(t) − q*(t)|, |p(t) − p*(t)|.                                                         (1)

It is, up to a constant, the Hausdorff distance of the two graphs over time, jumps filled in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

FLIGHT_SAMPLES = 64  # at which an exact flight is looked at, between which its gap changes sign at most once


@dataclass(frozen=True)
class Hit:
    """An impact of the exact motion; momenta are velocities, masses being 1."""

    t: float
    q: np.ndarray
    before: np.ndarray
    after: np.ndarray


def bounce(
    flow: Callable[[np.ndarray, np.ndarray, Any], tuple[np.ndarray, np.ndarray]],
    gap: Callable[[np.ndarray], Any],
    normal: Callable[[np.ndarray], np.ndarray],
    q: np.ndarray,
    v: np.ndarray,
    t_end: float,
    restitution: float = 1.0,
) -> list[Hit]:
    """The exact motion, where the flow is known in closed form: hits by bracketing, reflections by hand. Independent of carom."""
    t, hits = 0.0, []
    while True:
        grid = np.linspace(0.0, t_end - t, FLIGHT_SAMPLES * max(1, round(4 * (t_end - t)))) if t < t_end else np.zeros(1)
        gaps = np.array([gap(flow(q, v, s)[0]) for s in grid])
        inside = np.flatnonzero((gaps[:-1] > 0) & (gaps[1:] <= 0))
        if len(inside) == 0:
            return hits
        i = inside[0]
        s = _root(lambda s, q=q, v=v: gap(flow(q, v, s)[0]), grid[i], grid[i + 1])
        q, before = flow(q, v, s)
        n = normal(q) / np.linalg.norm(normal(q))
        v = before - (1 + restitution) * (before @ n) * n
        t += s
        hits.append(Hit(t, q, before, v))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    return float(brentq(function, low, high, xtol=1e-15, rtol=1e-15))  # pyright: ignore[reportArgumentType]


def at(flow: Any, hits: Sequence[Hit], q0: np.ndarray, v0: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The exact motion at many times."""
    starts = [0.0, *(hit.t for hit in hits)]
    states = [(q0, v0), *((hit.q, hit.after) for hit in hits)]
    which = np.searchsorted(starts, times, side="right") - 1
    found = [flow(*states[k], t - starts[k]) for k, t in zip(which, times, strict=True)]
    return np.array([f[0] for f in found]), np.array([f[1] for f in found])


@dataclass(frozen=True)
class Distance:
    graph: float  #     d of (1)
    pointwise: float  # the same with all points of the grid, whatever happened there
    missed: int  #      points of the grid at which the two have had different numbers of impacts


def distance(run: Any, flow: Any, hits: Sequence[Hit]) -> Distance:
    """(1), over the impacts and the grid of a run of a system with unit masses."""
    mine = run.impacts
    count = min(len(mine), len(hits))
    events = [
        max(
            abs(mine.t[k] - hits[k].t),
            np.max(np.abs(mine.q[k] - hits[k].q)),
            np.max(np.abs(mine.p_before[k] - hits[k].before)),
            np.max(np.abs(mine.p_after[k] - hits[k].after)),
        )
        for k in range(count)
    ]
    q, p = at(flow, hits, run.q[0], run.p[0], run.t)
    error = np.maximum(np.max(np.abs(run.q - q), axis=1), np.max(np.abs(run.p - p), axis=1))
    so_far = np.searchsorted(mine.t, run.t, side="right")
    exact_so_far = np.searchsorted([hit.t for hit in hits], run.t, side="right")
    same = so_far == exact_so_far
    worst = float(max([*events, np.max(error[same])])) if len(mine) == len(hits) else np.inf
    return Distance(worst, float(np.max(error)), int(np.sum(~same)))
