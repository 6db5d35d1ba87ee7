"""Poincaré sections: where a run crosses a surface."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from carom.calls import public, public_methods
from carom.errors import InputError
from carom.named import Named
from carom.results.impacts import counted
from carom.results.solution import Solution
from carom.results.views import view
from carom.running.tracing import numbers_along

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure


@public_methods
@dataclass(frozen=True)
class Section:
    """The crossings, one row each."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    coordinates: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.t)

    def __repr__(self) -> str:
        return f"Poincaré section: {counted(len(self), 'crossing')}"

    def plot(self, path: "str | Path | None" = None, coordinate: int = 0) -> "Figure":
        """A dot for each crossing: position and velocity of one coordinate; saved if a path is given."""
        return view("plot_section")(self, path, coordinate)


@public
def poincare(solution: Solution, section: Callable[..., Any], direction: int = 1) -> Section:
    """The states at which `section(q, v, t, params)` goes through zero: upwards (1), downwards (−1) or both ways (0).

    Crossings are looked for from grid point to grid point and located in the dense output of the run, impacts included. The natural
    section of a system with impacts is its table of impacts: `solution.impacts.q` and `.p_after`.
    """
    if direction not in (-1, 0, 1):
        raise InputError(f"direction must be 1, -1 or 0; got {direction!r}")
    surface, dense = Named(section, ("q", "v", "t", "params"), "section"), solution.dense
    names = solution.labels

    def height(t: np.ndarray) -> np.ndarray:
        q, v = dense.q(t), dense.v(t)
        return along(jnp.asarray(q), jnp.asarray(v), t)

    def along(*states: Any) -> np.ndarray:
        points = ({"q": a, "v": b, "t": c, "params": solution.params} for a, b, c in zip(*states, strict=True))
        return numbers_along(surface, 1, points)[:, 0]

    values = along(solution.q, solution.v, solution.t)
    up, down = (values[:-1] < 0) & (values[1:] >= 0), (values[:-1] > 0) & (values[1:] <= 0)
    steps = np.flatnonzero({1: up, -1: down, 0: up | down}[direction])
    if not len(steps):
        return Section(np.zeros(0), np.zeros((0, solution.q.shape[1])), np.zeros((0, solution.p.shape[1])), names)
    low, high, sign = solution.t[steps].copy(), solution.t[steps + 1].copy(), np.where(up[steps], 1.0, -1.0)
    for _ in range(52):  # bisection to the last bit of the step
        middle = 0.5 * (low + high)
        before = sign * height(middle) < 0
        low, high = np.where(before, middle, low), np.where(before, high, middle)
    return Section(high, dense.q(high), dense.v(high), names)
