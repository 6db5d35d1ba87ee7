"""Curves on viser's panel: what is written above a chart, and what is drawn in it."""

from typing import Any

import numpy as np

from carom.live.footage import CURVE_POINTS, Curves
from carom.report.plots import envelope

STROKES = ("#3b82c4", "#d9603b", "#5a9e4a", "#9a6fc0", "#b8860b", "#3a9a9a", "#a8705f", "#858585")  # on white and on dark, 3 to 1
NOW = "#d9480f"
STEADY = 1e-3  # of its value: what changes by less is drawn by its change, or every number at the axis would be the same
SMALL, LARGE = 0.1, 1e4  # numbers that fit beside an axis, with their sign
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Chart:
    """Some curves, as they grow. While they fit, only numbers are sent: viser makes a chart anew for whatever else changes, is
    empty for a moment, and then takes other times for those at the ends of its axis. What must look otherwise is another chart."""

    def __init__(self, gui: Any, folder: Any, curves: Curves, order: int, marked: bool = False, aspect: float = 1.9):
        self.gui, self.folder, self.order, self.marked, self.aspect = gui, folder, order, marked, aspect
        self._looks: tuple[Any, ...] = ()
        self.range: tuple[float, float] | None = None  # of what is drawn; wide enough for a while
        self.show(curves, float(curves.t[0]))

    def show(self, curves: Curves, now: float) -> None:
        """The curves as far as there are any, with a mark at the present moment."""
        title, t, lines = readable(curves)
        data = (t, *lines.values(), *((_mark(t, lines, now),) if self.marked else ()))
        self.range = _range(lines, self.range)
        looks = (title, tuple(lines), self.range)
        if looks == self._looks:
            self.handle.data = data
            return
        if self._looks:
            self.handle.remove()
        self._looks = looks
        with self.folder:
            self.handle = self._made(title, lines, data)

    def _made(self, title: str, lines: dict[str, np.ndarray], data: tuple[np.ndarray, ...]) -> Any:
        series: list[dict[str, Any]] = [{"label": "t"}]
        for k, name in enumerate(lines):
            series.append({"label": name, "stroke": STROKES[k % len(STROKES)], "width": 1.5})
        if self.marked:
            series.append({"label": "now", "stroke": NOW, "width": 2, "points": {"show": True, "size": 9, "fill": NOW}})
        scales = {"x": {"time": False}, "y": {"range": self.range}}
        legend = {"show": len(lines) > 1}
        return self.gui.add_uplot(
            data, tuple(series), title=title, scales=scales, legend=legend, aspect=self.aspect, order=self.order
        )


def thinned(curves: Curves) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """At most so many points, the same times for all lines; the extremes of the first stay."""
    t = curves.t
    if len(t) > CURVE_POINTS:
        first = next(iter(curves.lines.values()))
        kept = np.unique(np.searchsorted(t, envelope(t, first, CURVE_POINTS // 2)[0]).clip(0, len(t) - 1))
        return t[kept], {name: y[kept] for name, y in curves.lines.items()}
    return (t, dict(curves.lines)) if len(t) > 1 else (np.repeat(t, 2), {n: np.repeat(y, 2) for n, y in curves.lines.items()})


def readable(curves: Curves) -> tuple[str, np.ndarray, dict[str, np.ndarray]]:
    """What is written above a chart, and what is drawn: lines that hardly leave the value at which all of them start (an energy
    that is conserved) by how far they do, in powers of ten. And so what is so small or so large that its numbers at the axis, where
    there is room for five characters, would be cut off or all be zero."""
    t, lines = thinned(curves)
    first = float(next(iter(lines.values()))[0])
    away = max(float(np.max(np.abs(y - first))) for y in lines.values())
    if away == 0:
        return f"{curves.title}: no change from {first:.6g}", t, {name: y - first for name, y in lines.items()}
    if away < STEADY * abs(first):
        title, zero, size = f"{curves.title}: change from {first:.4g}", first, away
    else:
        title, zero, size = curves.title, 0.0, max(float(np.max(np.abs(y[np.isfinite(y)]), initial=0.0)) for y in lines.values())
        if SMALL <= size < LARGE or not size:
            return title, t, lines
    power = int(np.floor(np.log10(size)))
    return f"{title}, in 10{str(power).translate(RAISED)}", t, {name: (y - zero) / 10.0**power for name, y in lines.items()}


def _range(lines: dict[str, np.ndarray], kept: tuple[float, float] | None) -> tuple[float, float]:
    """All that the lines reach, and a little more, in round numbers; the range that there was, if they fit in and fill it well."""
    every = np.concatenate(list(lines.values()))
    every = every[np.isfinite(every)] if np.any(np.isfinite(every)) else np.zeros(1)
    low, high = float(every.min()), float(every.max())
    span = max(high - low, 1e-6 * max(abs(low), abs(high))) or 1.0
    if kept is not None and kept[0] <= low and high <= kept[1] and span > 0.4 * (kept[1] - kept[0]):
        return kept
    step = 10.0 ** np.floor(np.log10(span / 4))
    step *= next(k for k in (1, 2, 5, 10) if k * step >= span / 4)
    ends = (
        np.floor((low - 0.08 * span) / step) + 0.1,
        np.ceil((high + 0.08 * span) / step) - 0.1,
    )  # a number at the very end is cut off
    return float(ends[0] * step), float(ends[1] * step)


def _mark(t: np.ndarray, lines: dict[str, np.ndarray], now: float) -> np.ndarray:
    """A dot on the first line at the present moment."""
    mark = np.full(len(t), np.nan)
    i = int(np.clip(np.searchsorted(t, now), 0, len(t) - 1))
    mark[i] = next(iter(lines.values()))[i]
    return mark
