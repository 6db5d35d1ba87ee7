"""Many elastic discs or spheres in a box: exact collisions, from an event queue with cell lists (numerics/event_queue.py)."""

import html
import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from carom.calls import public, public_methods
from carom.errors import InputError
from carom.results.views import view
from carom.wanted import Count, Number, Positive, Whole

if TYPE_CHECKING:
    from pathlib import Path

    import xarray as xr
    from matplotlib.figure import Figure


@public_methods
@dataclass(frozen=True, eq=False)
class BilliardRun:
    """The states at the frames asked for, and what happened up to each of them."""

    t: np.ndarray  #             [frames]
    q: np.ndarray  #             [frames, n, d]
    v: np.ndarray  #             [frames, n, d]
    pairs: np.ndarray  #         [frames]     collisions of two bodies so far
    walls: np.ndarray  #         [frames]     collisions with a wall so far
    wall_impulse: np.ndarray  #  [frames, d]  momentum given by the walls so far
    billiard: "Billiard"
    seconds: float
    compile_seconds: float

    @property
    def energy(self) -> np.ndarray:
        return 0.5 * np.einsum("i,fik,fik->f", self.billiard.mass, self.v, self.v)

    @property
    def energy_error(self) -> np.ndarray:
        return self.energy / self.energy[0] - 1

    @property
    def momentum_error(self) -> np.ndarray:
        """Momentum less its start and what the walls gave, relative to the sum of all |m v|; [frames]"""
        momentum = np.einsum("i,fik->fk", self.billiard.mass, self.v)
        change = momentum - momentum[0] - self.wall_impulse
        return np.max(np.abs(change), axis=1) / np.sum(np.abs(self.billiard.mass[:, None] * self.v[0]))

    @cached_property
    def smallest_gap(self) -> np.ndarray:
        """Between any two bodies, or a body and a wall, at each frame; negative would be an overlap."""
        return np.array([self.billiard.smallest_gap(q) for q in self.q])

    def __repr__(self) -> str:
        many = f"{len(self.billiard.q0)} {self.billiard.name} to t = {self.t[-1]:g}"
        return f"{many}: {self.pairs[-1]} collisions, {self.walls[-1]} with walls"

    def summary(self) -> dict[str, Any]:
        """The numbers of the run, as plain Python."""
        return {
            "name": self.billiard.name,
            "bodies": len(self.billiard.q0),
            "t_end": float(self.t[-1]),
            "collisions": int(self.pairs[-1]),
            "collisions_with_walls": int(self.walls[-1]),
            "energy_error_max": float(np.max(np.abs(self.energy_error))),
            "momentum_error_max": float(np.max(self.momentum_error)),
            "smallest_gap": float(np.min(self.smallest_gap)),
            "seconds": self.seconds,
            "compile_seconds": self.compile_seconds,
        }

    def plot(self, path: "str | Path | None" = None) -> "Figure":
        """Where the bodies are at the end, how their speeds are distributed, what was kept; saved if a path is given."""
        return view("plot_billiard")(self, path)

    def report(self, path: "str | Path", title: str | None = None) -> "Path":
        """Write one HTML file with the picture and the numbers. It needs no network."""
        return view("report_billiard")(self, path, title)

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th style='text-align: left'>{key.replace('_', ' ')}</th><td>{value}</td></tr>"
                       for key, value in self.summary().items() if key != "name")  # fmt: skip
        return f"<b>{html.escape(self.billiard.name)}</b><table>{rows}</table>"

    def to_xarray(self) -> "xr.Dataset":
        """A labelled dataset with the dimensions `time`, `body` and `axis`."""
        import xarray as xr

        values = {
            "q": (("time", "body", "axis"), self.q),
            "v": (("time", "body", "axis"), self.v),
            "pairs": ("time", self.pairs),
            "walls": ("time", self.walls),
            "energy": ("time", self.energy),
        }
        return xr.Dataset(
            values, coords={"time": self.t, "axis": list("xyz"[: self.q.shape[2]])}, attrs={"name": self.billiard.name}
        )


@public
@public_methods
@dataclass(frozen=True, eq=False)
class Billiard:
    """Elastic bodies of any radii and masses in a box [0, box₁] × … with elastic walls, in two or three dimensions."""

    name: str
    q0: np.ndarray  #      [n, d]
    v0: np.ndarray  #      [n, d]
    radius: np.ndarray  #  [n]
    mass: np.ndarray  #    [n]
    box: np.ndarray  #     [d]

    def solve(self, *, dt: Positive, num_steps: Count = 1) -> BilliardRun:
        """All collisions up to num_steps·dt; the grid only says when the states are kept, collisions are exact."""
        self._check()
        queue = _queue()
        clock = time.perf_counter()
        lone = Billiard(self.name, self.q0[:1], self.v0[:1], self.radius[:1], self.mass[:1], self.box)
        lone._fly(queue, np.zeros(1))  # nothing is done here but compiling
        compiled = time.perf_counter()
        t = dt * np.arange(num_steps + 1)
        q, v, pairs, walls, impulse = self._fly(queue, t)
        return BilliardRun(t, q, v, pairs, walls, impulse, self, time.perf_counter() - compiled, compiled - clock)

    def _fly(self, queue: Any, t: np.ndarray) -> tuple[np.ndarray, ...]:
        frames, (n, dim) = len(t), self.q0.shape
        cells = self._cells()
        # Neighbours in space become neighbours in memory: with many bodies that is most of the time.
        place = np.minimum((self.q0 / (self.box / cells)).astype(int), cells - 1)
        order = np.lexsort(place.T[::-1])
        q, v = np.empty((frames, n, dim)), np.empty((frames, n, dim))
        pairs, walls, impulse = np.empty(frames, int), np.empty(frames, int), np.empty((frames, dim))
        sorted_ = (x[order].copy() for x in (self.q0, self.v0, self.mass, self.radius))
        queue.fly(*sorted_, self.box, cells, t, q, v, pairs, walls, impulse)
        back = np.argsort(order)
        return q[:, back], v[:, back], pairs, walls, impulse

    def _cells(self) -> np.ndarray:
        """Cells at least as wide as the largest body, and about as many as there are bodies."""
        n, dim = self.q0.shape
        wide = max(2 * float(self.radius.max()), float(np.prod(self.box) / n) ** (1 / dim))
        return np.maximum(1, np.floor(self.box / wide * (1 - 1e-12)).astype(int))

    def smallest_gap(self, q: np.ndarray) -> float:
        return float(_queue().smallest_gap(np.ascontiguousarray(q), self.radius, self.box, self._cells()))

    def _check(self) -> None:
        n, dim = np.shape(self.q0)
        for name, shape in (("v0", (n, dim)), ("radius", (n,)), ("mass", (n,)), ("box", (dim,))):
            value = getattr(self, name)
            if np.shape(value) != shape or not np.all(np.isfinite(value)):
                raise InputError(f"{name} must be finite and have the shape {shape}; it has {np.shape(value)}")
        if not (np.all(self.radius > 0) and np.all(self.mass > 0)):
            raise InputError("every radius and every mass must be positive")
        gap = self.smallest_gap(self.q0)
        if not gap >= -1e-12 * float(self.radius.max()):
            raise InputError(f"bodies overlap, or reach out of the box, by {-gap:.6g} at the start")


def _queue() -> Any:
    try:
        from carom.numerics import event_queue
    except ImportError as error:
        raise ImportError("discs and spheres are computed with numba: pip install 'carom[billiards]'") from error
    return event_queue


@public
def discs(n: Count = 100, radius: Positive = 0.5, filling: Positive = 0.3, speed: Number = 1.0, seed: Whole = 0) -> Billiard:
    """n equal discs in a square box of which they fill the share `filling`; Gaussian velocities with standard deviation `speed`."""
    return _gas("discs", n, 2, np.pi * radius**2, radius, filling, speed, seed)


@public
def spheres(n: Count = 100, radius: Positive = 0.5, filling: Positive = 0.2, speed: Number = 1.0, seed: Whole = 0) -> Billiard:
    """n equal spheres in a cube of which they fill the share `filling`; Gaussian velocities with standard deviation `speed`."""
    return _gas("spheres", n, 3, 4 / 3 * np.pi * radius**3, radius, filling, speed, seed)


def _gas(name: str, n: int, dim: int, volume: float, radius: float, filling: float, speed: float, seed: int) -> Billiard:
    rng = np.random.default_rng(seed)
    side = (n * volume / filling) ** (1 / dim)
    rows = math.ceil(round(n ** (1 / dim), 9))
    if side < 2 * radius * rows:
        densest = n * volume / (2 * radius * rows) ** dim
        raise InputError(f"{name}: they start on a lattice, which is full at filling = {densest:.3g} for n = {n}; got {filling:g}")
    lattice = np.stack(np.meshgrid(*[(np.arange(rows) + 0.5) * side / rows] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    v0 = speed * rng.normal(size=(n, dim))
    q0 = lattice[rng.permutation(len(lattice))[:n]]
    return Billiard(name, q0, v0 - v0.mean(axis=0), np.full(n, float(radius)), np.ones(n), np.full(dim, side))
