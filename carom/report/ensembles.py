"""Pictures of ensembles."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from carom.report.plots import COLOURS, STYLE, _finished

MOST_LANES = 200  # drawn one by one


def plot_ensemble(ensemble: Any, path: str | Path | None = None) -> Figure:
    """A panel for each of the first coordinates: some lanes against time, and how all of them are distributed at the end; below,
    the largest energy error of each lane."""
    count = min(3, ensemble.q.shape[2])
    space = ensemble.system.space
    names = space.names if space is not None else [f"q{i}" for i in range(count)]
    lanes = np.unique(np.linspace(0, len(ensemble) - 1, MOST_LANES).astype(int))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.5, 1.2 + 1.7 * (count + 1)), layout="constrained")
        grid = figure.subplots(count + 1, 2, width_ratios=[3, 1], squeeze=False)
        for i in range(count):
            left, right = grid[i]
            for lane in lanes:
                left.plot(ensemble.t[lane], ensemble.q[lane, :, i], ".-", color=COLOURS[1], alpha=0.3, linewidth=0.6, markersize=2)
            ends = ensemble.q_end[np.isfinite(ensemble.q_end[:, i]), i]
            right.hist(ends, min(60, max(5, int(np.sqrt(len(ends) + 1)))), _range(ends), orientation="horizontal", color=COLOURS[1])
            left.set_ylabel(names[i])
            left.set_xlabel("time" if i == count - 1 else "")
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
