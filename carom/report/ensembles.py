"""Pictures of many: ensembles, gases of bodies."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from carom.report.plots import COLOURS, STYLE, Drawing, _finished

MOST_LANES = 200  # drawn one by one


def plot_ensemble(ensemble: Any, path: str | Path | None = None) -> Figure:
    """A panel for each of the first coordinates: some lanes against time (where only their ends were kept: these, lane by lane),
    and how all of them are distributed at the end; below, the largest energy error of each lane."""
    count = min(3, ensemble.q.shape[2])
    space = ensemble.system.space
    given = zip(space.names, space.units, strict=True) if space is not None else ((f"q{i}", "") for i in range(count))
    names = [f"{name} [{unit}]" if unit else name for name, unit in given]
    lanes = np.unique(np.linspace(0, len(ensemble) - 1, MOST_LANES).astype(int))
    with matplotlib.rc_context(STYLE):
        figure = Drawing(figsize=(8.5, 1.2 + 1.7 * (count + 1)), layout="constrained")
        grid = figure.subplots(count + 1, 2, width_ratios=[3, 1], squeeze=False)
        for i in range(count):
            left, right = grid[i]
            if ensemble.q.shape[1] == 1:
                left.plot(lanes, ensemble.q[lanes, 0, i], ".", color=COLOURS[1], markersize=3)
            for lane in lanes if ensemble.q.shape[1] > 1 else ():
                left.plot(ensemble.t[lane], ensemble.q[lane, :, i], ".-", color=COLOURS[1], alpha=0.3, linewidth=0.6, markersize=2)
            ends = ensemble.q_end[np.isfinite(ensemble.q_end[:, i]), i]
            bins = min(60, max(5, int(np.sqrt(len(ends) + 1))))
            right.hist(ends, bins, range=_range(ends), orientation="horizontal", color=COLOURS[1])
            left.set_ylabel(names[i])
            left.set_xlabel("" if i < count - 1 else "time" if ensemble.q.shape[1] > 1 else f"lane, at t = {ensemble.t[0, -1]:g}")
            right.set_xlabel("lanes, at the end" if i == count - 1 else "")
        errors, hits = grid[count]
        worst = np.nanmax(np.abs(ensemble.energy_error), axis=1, initial=0.0)
        errors.semilogy(np.maximum(worst, 1e-17), ".", color=COLOURS[0], markersize=2)
        errors.set_ylabel("|E − E₀| / |E₀|")
        errors.set_xlabel("lane")
        hits.hist(ensemble.num_impacts, bins=min(40, int(np.ptp(ensemble.num_impacts)) + 1), color=COLOURS[2])
        hits.set_xlabel("impacts")
        figure.suptitle(repr(ensemble), x=0.01, ha="left", fontsize=11)
        return _finished(figure, path)


def _range(values: np.ndarray) -> tuple[float, float] | None:
    """Where to count; lanes that end in the same place are told apart by rounding only, and belong together."""
    if not len(values):
        return None
    low, high = float(np.min(values)), float(np.max(values))
    return (low, high) if high - low > 1e-9 * max(1.0, abs(low)) else (low - 0.5, high + 0.5)


def plot_billiard(run: Any, path: str | Path | None = None) -> Figure:
    """The bodies at the end; their speeds beside the Maxwell distribution of the same energy; what was kept."""
    billiard, dim = run.billiard, run.q.shape[2]
    with matplotlib.rc_context(STYLE):
        figure = Drawing(figsize=(8.5, 6.4), layout="constrained")
        grid = figure.subplots(2, 2, width_ratios=[1.2, 1])
        room, speeds, kept, counts = grid[0, 0], grid[0, 1], grid[1, 0], grid[1, 1]
        q = run.q[-1]
        circles = [Circle((x, y), r) for (x, y), r in zip(q[:, :2], billiard.radius, strict=True)]
        room.add_collection(PatchCollection(circles, facecolor=COLOURS[1], alpha=0.5 if dim == 2 else 0.15, linewidth=0))
        room.set(xlim=(0, billiard.box[0]), ylim=(0, billiard.box[1]), aspect="equal", xlabel="x", ylabel="y")
        room.set_title(f"t = {run.t[-1]:g}" + ("" if dim == 2 else ", seen along z"), loc="left", fontsize=10)
        energies = 0.5 * billiard.mass * np.sum(run.v[-1] ** 2, axis=1)
        mean = float(np.mean(energies))
        edges = np.linspace(0, max(float(energies.max()), 1e-300), 30)
        speeds.hist(energies, edges, density=True, color=COLOURS[2])
        x = np.linspace(edges[1] / 20, edges[-1], 200)
        temperature = 2 * mean / dim  # Maxwell: ∝ x^{d/2 − 1} e^{−x/T}
        weight = np.exp(-x / temperature) * (1.0 if dim == 2 else 2 * np.sqrt(x / (np.pi * temperature))) / temperature
        speeds.plot(x, weight, color=COLOURS[0])
        speeds.set(xlabel="kinetic energy of a body", ylabel="density")
        speeds.set_title("at the end, and Maxwell's", loc="left", fontsize=10)
        kept.plot(run.t, run.energy_error, ".-", color=COLOURS[0], label="energy")
        kept.plot(run.t, run.momentum_error, ".-", color=COLOURS[1], label="momentum")
        kept.set(xlabel="time", ylabel="relative error")
        kept.legend(fontsize=8)
        counts.plot(run.t, run.pairs, ".-", color=COLOURS[1], label="of two bodies")
        counts.plot(run.t, run.walls, ".-", color=COLOURS[3], label="with walls")
        counts.set(xlabel="time", ylabel="collisions so far")
        counts.legend(fontsize=8)
        figure.suptitle(repr(run), x=0.01, ha="left", fontsize=11)
        return _finished(figure, path)
