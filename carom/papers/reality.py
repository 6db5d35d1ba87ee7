"""Measured tosses and impacts as tables and pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from carom.papers.measured_impacts import LawResult
from carom.papers.tosses import RATE, TossErrors
from carom.report.plots import COLOURS, STYLE

OVER = 45.0  # degrees: a cube that is farther off lies on another face, or soon will


def law_table(results: Sequence[LawResult]) -> Table:
    """One row per law: its coefficients, and its errors on the impacts it was not fitted to."""
    table = Table(title="velocity after an impact: |v⁺ − v| / |v⁻| in the metric of the mass", title_justify="left")
    for name in ("law", "restitution", "friction", "mean", "median", "90 %"):
        table.add_column(name, justify="left" if name == "law" else "right")
    for r in results:
        given = [f"{r.coefficients[key]:.3f}" if key in r.coefficients else "–" for key in ("restitution", "friction")]
        told = (np.mean(r.errors), np.median(r.errors), np.quantile(r.errors, 0.9))
        table.add_row(r.law, *given, *(f"{100 * value:.1f} %" for value in told))
    return table


def plot_laws(results: Sequence[LawResult], path: str | Path | None = None) -> Figure:
    """Which share of the impacts a law predicts within an error."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.6, 3.6), layout="constrained")
        axis = figure.subplots()
        for i, r in enumerate(results):
            line = "--" if r.law == "any impulse" else "-"
            share = np.arange(1, len(r.errors) + 1) / len(r.errors)
            axis.plot(np.sort(r.errors), share, line, color=COLOURS[i % len(COLOURS)], label=r.law, lw=1.4)
        axis.set_xlim(0, 0.8)
        axis.set_xlabel("error of the velocity after the impact, relative to the one before")
        axis.set_ylabel("share of the impacts")
        axis.legend(frameon=False, fontsize=8)
    return _saved(figure, path)


def toss_summary(errors: Sequence[TossErrors]) -> dict[str, float]:
    """Means over the tosses of the mean and of the last errors, and the share of tosses that end on the measured face."""
    ends = np.array([e.angle[-1] for e in errors])
    return {
        "tosses": len(errors),
        "position_mean_widths": float(np.mean([np.mean(e.position) for e in errors])),
        "position_end_widths": float(np.mean([e.position[-1] for e in errors])),
        "angle_mean_degrees": float(np.mean([np.mean(e.angle) for e in errors])),
        "angle_median_degrees": float(np.median([np.mean(e.angle) for e in errors])),
        "right_face": float(np.mean(ends < OVER)),
    }


def toss_table(summary: dict[str, float], friction: float, restitution: float) -> Table:
    table = Table(
        title=f"tosses with friction {friction:g} and restitution {restitution:g}", title_justify="left", show_header=False
    )
    table.add_row("tosses measured", f"{summary['tosses']:.0f}")
    table.add_row("position, mean over the toss", f"{100 * summary['position_mean_widths']:.1f} % of the width of the cube")
    table.add_row("position, at the end", f"{100 * summary['position_end_widths']:.1f} % of the width")
    table.add_row(
        "angle, mean over the toss", f"{summary['angle_mean_degrees']:.1f}° (median {summary['angle_median_degrees']:.1f}°)"
    )
    table.add_row("ends on the measured face", f"{100 * summary['right_face']:.0f} % of the tosses")
    return table


def plot_tosses(errors: Sequence[TossErrors], path: str | Path | None = None) -> Figure:
    """The errors against time: every toss, the quartiles and the median."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.4, 3.4), layout="constrained")
        for axis, name, label in zip(
            figure.subplots(1, 2), ("position", "angle"), ("position, widths of the cube", "angle, degrees"), strict=True
        ):
            tracks: list[np.ndarray] = [getattr(e, name) for e in errors]
            length = max(len(track) for track in tracks)
            padded = np.array([np.concatenate([t, np.full(length - len(t), np.nan)]) for t in tracks])
            t = np.arange(length) / RATE
            axis.plot(t, padded.T, color=COLOURS[1], alpha=0.15, lw=0.6)
            enough = np.sum(np.isfinite(padded), axis=0) >= 0.5 * len(padded)
            low, middle, high = np.nanquantile(padded[:, enough], (0.25, 0.5, 0.75), axis=0)
            axis.fill_between(t[enough], low, high, color=COLOURS[1], alpha=0.25, lw=0)
            axis.plot(t[enough], middle, color=COLOURS[0], lw=1.6)
            axis.set_xlabel("t, seconds")
            axis.set_title(label, loc="left", fontsize=9)
            axis.set_ylim(0, None)
    return _saved(figure, path)


def _saved(figure: Any, path: str | Path | None) -> Figure:
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)
    return figure
