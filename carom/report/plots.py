"""Figures of runs, drawn without any global state: they work on a server, in threads and in notebooks alike.

Long runs are thinned to the smallest and the largest value of each of some hundred intervals, so no spike disappears.
"""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from carom.calls import public
from carom.drawing import Film, Part, film, moving
from carom.errors import InputError
from carom.report.view import view_of
from carom.results.places import file_path
from carom.results.solution import Solution

INTERVALS = 1500  # about one per pixel
COLOURS = ("#c4502d", "#1f5f8b", "#4a8f3c", "#7a4f9a", "#b8860b", "#3a9a9a", "#8c564b", "#555555")
_INK, _FAINT = "#333333", "#b9b9b9"
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.solid_joinstyle": "round",
    "xtick.color": _INK,
    "ytick.color": _INK,
    "savefig.facecolor": "white",
}


class Drawing(Figure):
    """A figure that a notebook shows where it is the result of a cell; that of matplotlib is shown if pyplot was loaded before."""

    def _repr_png_(self) -> bytes:
        page = io.BytesIO()
        self.savefig(page, format="png")
        return page.getvalue()


def envelope(t: np.ndarray, y: np.ndarray, intervals: int = INTERVALS) -> tuple[np.ndarray, np.ndarray]:
    """The points at which y is smallest and largest in each of so many intervals, in time order; short series as they are."""
    good = np.isfinite(y)
    t, y = t[good], y[good]
    if len(y) <= 2 * intervals:
        return t, y
    starts = np.linspace(0, len(y), intervals + 1).astype(int)[:-1]
    ends = np.append(starts[1:], len(y))
    keep = [i for a, b in zip(starts, ends, strict=True) for i in (a + np.argmin(y[a:b]), a + np.argmax(y[a:b]))]
    keep = np.unique([0, *keep, len(y) - 1])
    return t[keep], y[keep]


def largest(t: np.ndarray, y: np.ndarray, intervals: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """The largest value of y in each of so many intervals, at the middle of the interval."""
    good = np.isfinite(y)
    t, y = t[good], y[good]
    if len(y) <= intervals:
        return t, y
    starts = np.linspace(0, len(y), intervals + 1).astype(int)[:-1]
    ends = np.append(starts[1:], len(y)) - 1
    return (t[starts] + t[ends]) / 2, np.maximum.reduceat(y, starts)


@public
def plot_solution(solution: Solution, path: str | Path | None = None) -> Figure:
    """Coordinates, the smallest gap and the change of the energy against time, impacts marked; saved to `path` if given."""
    names = solution.labels
    apart = len(names) <= 4  # a panel for each coordinate
    gaps = solution.smallest_gap
    heights = [1.0] * (len(names) if apart else 1) + [1.0] * ((gaps is not None) + (solution.commands is not None)) + [1.4]
    with matplotlib.rc_context(STYLE):
        figure = Drawing(figsize=(8.5, 1.1 + 1.35 * sum(heights)), layout="constrained")
        axes = list(np.atleast_1d(figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)))
        panels = iter(axes)
        if apart:
            for i, name in enumerate(names):
                _series(next(panels), solution, solution.q[:, i], name, COLOURS[1])
        else:
            _many(next(panels), solution, names)
        if gaps is not None:
            axis = next(panels)
            _series(axis, solution, gaps, "smallest gap", COLOURS[2])
            axis.axhline(0, color=_INK, linewidth=0.8)
        if solution.commands is not None:
            axis = next(panels)
            for i, column in enumerate(solution.commands.T):
                axis.step(solution.t[:-1], column, where="post", color=COLOURS[(3 + i) % 8], linewidth=1.0)
            axis.set_ylabel("command u")
        _series(next(panels), solution, solution.energy_error, "(E − E₀) / |E₀|", COLOURS[0], floor=1e-15)
        _mark_impacts(axes, solution.impacts.t)
        axes[-1].set_xlabel(solution.time_label)
        axes[-1].set_xlim(*_limits(solution.t))
        axes[0].set_title(_headline(solution), loc="left", fontsize=11, color=_INK)
        figure.align_ylabels(axes)
        return _finished(figure, path)


@public
def plot_energy(solutions: Mapping[str, Solution], path: str | Path | None = None, title: str = "") -> Figure:
    """The energies of several runs: against time, and the size of their errors on a logarithmic scale below."""
    if not isinstance(solutions, Mapping) or not solutions or not all(isinstance(run, Solution) for run in solutions.values()):
        raise InputError("plot_energy needs at least one solution, as {label: solution}")
    with matplotlib.rc_context(STYLE):
        figure = Drawing(figsize=(8.5, 6.2), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1.0, 1.15])
        for i, (label, run) in enumerate(solutions.items()):
            colour = COLOURS[i % len(COLOURS)]
            above.plot(*envelope(run.t, run.energy), color=colour, linewidth=1.1, label=label, zorder=2 + i)
            t, error = largest(run.t, np.abs(run.energy_error))
            below.semilogy(t, np.maximum(error, 1e-17), color=colour, linewidth=1.2, label=label, zorder=2 + i)
        _readable(above)
        above.set_ylabel("energy E")
        below.set_ylabel("|E − E₀| / |E₀|")
        below.set_xlabel("time")
        bottom, top = below.get_ylim()
        below.set_ylim(max(bottom, 1e-17), top * 3)
        first = next(iter(solutions.values()))
        below.set_xlim(*_limits(first.t if len(solutions) == 1 else np.concatenate([s.t for s in solutions.values()])))
        handles, labels = above.get_legend_handles_labels()
        legend = figure.legend(
            handles, labels, loc="outside upper left", ncols=min(len(solutions), 3), title=title, title_fontsize=12
        )
        legend.set_alignment("left")
        figure.align_ylabels([above, below])
        return _finished(figure, path)


@public
def plot_motion(
    solution: Solution, shape: Any = None, path: str | Path | None = None, frames: int = 40, until: float | None = None
) -> Figure:
    """The body itself at equally spaced times up to `until`, later ones darker; `shape` is by default that of the run."""
    reel = _strobe(solution, shape, frames, until)
    seen = np.concatenate([reel.track(i).reshape(-1, reel.dim) for i in moving(reel.parts)])
    width, height = np.ptp(seen, axis=0)[:2]
    with matplotlib.rc_context(STYLE):
        flat = reel.dim == 2
        tall = float(np.clip(7.6 * height / max(width, 1e-300), 1.6, 7.0)) if flat else 7.0
        figure = Drawing(figsize=(8.5, tall + 0.7), layout="constrained")
        axis = figure.subplots() if flat else figure.add_subplot(projection="3d")
        _draw_motion(axis, reel)
        axis.set_title(f"{solution.name}, t = {reel.t[0]:g} … {reel.t[-1]:g}", loc="left", fontsize=11)
        return _finished(figure, path)


def plot_card(solution: Solution, path: str | Path, until: float | None = None) -> Figure:
    """The motion as a small picture: 8 by 5, without numbers, which nobody could read."""
    reel = _strobe(solution, None, 40, until)
    if any(part.kind == "mesh" and not part.fixed for part in reel.parts):
        reel = _strobe(solution, None, 12, until)  # solids hide one another
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.8, 3.0))
        axis = figure.add_axes((0, 0, 1, 1)) if reel.dim == 2 else figure.add_axes((0, 0, 1, 1), projection="3d")
        _draw_motion(axis, reel)
        axis.set_axis_off()
        if reel.dim == 3:
            _fill(figure, axis, reel)
        return _finished(figure, path)


def _fill(figure: Figure, axis: Any, reel: Film) -> None:
    """Draw what is in space as large as the picture allows: matplotlib leaves room for the numbers."""
    from mpl_toolkits.mplot3d import proj3d

    figure.draw_without_rendering()
    seen = reel.points.reshape(-1, 3)
    x, y, _ = proj3d.proj_transform(*seen.T, axis.get_proj())
    at = figure.transFigure.inverted().transform(axis.transData.transform(np.column_stack([x, y])))
    low, high = at.min(axis=0), at.max(axis=0)
    scale = 0.92 / float(np.max(high - low))  # of the picture, with a margin
    place = axis.get_position()
    corner = 0.5 + scale * (np.array([place.x0, place.y0]) - (low + high) / 2)
    axis.set_position((*corner, scale * place.width, scale * place.height))


def _strobe(solution: Solution, shape: Any, frames: int, until: float | None) -> Film:
    """The picture at equally spaced times up to `until`."""
    shape = solution.shape if shape is None else shape
    if shape is None:
        raise InputError("this run has no picture: pass shape= to solve, or here (see carom.drawing)")
    last = len(solution.t) if until is None else max(2, int(np.searchsorted(solution.t, until)))
    chosen = np.unique(np.linspace(0, last - 1, frames).astype(int))
    return film(shape, solution.t[chosen], solution.q[chosen], solution.params)


def _draw_motion(axis: Any, reel: Film) -> None:
    """All frames in one picture, later ones darker. What is seen is the motion and its walls, not the points that name a wall."""
    for frame in range(len(reel.t)):
        strength = 0.15 + 0.85 * (frame + 1) / len(reel.t)
        for i, part in enumerate(reel.parts):
            if frame == 0 or not part.fixed:
                draw_part(axis, part, reel.part(frame, i), 1.0 if part.fixed else strength)
    if reel.dim == 2:
        view = view_of(reel)
        axis.set_xlim(view.low[0], view.high[0], auto=None)  # more of one of them, where the picture is wider or higher
        axis.set_ylim(view.low[1], view.high[1], auto=None)
        axis.set_aspect("equal", adjustable="datalim")
    else:
        axis.set_aspect("equal")


def draw_part(axis: Any, part: Part, points: np.ndarray, strength: float = 1.0) -> Any:
    """One part of a picture, in the plane or in space."""
    style = {"color": _INK if part.fixed else COLOURS[1], "alpha": strength, "linewidth": 1.0}
    if part.kind == "wall":
        return axis.axline(points[0], points[1], **style, zorder=0.8)
    if part.kind == "mesh":
        style = {"color": _FAINT, "alpha": 0.3, "linewidth": 0.0} if part.fixed else {"color": COLOURS[1], "alpha": strength}
        return axis.plot_trisurf(*points.T, triangles=part.triangles, **{"linewidth": 0.2, "edgecolor": _INK, **style})
    if part.kind == "dots":
        return axis.plot(*points.T, "o", markersize=4, **style)[0]
    return axis.plot(*points.T, **style)[0]


# -- parts ---------------------------------------------------------------------------------------------------------------


def _series(axis: Axes, solution: Solution, values: np.ndarray, label: str, colour: str, floor: float = 0.0) -> None:
    """One line. `floor` is the smallest scale worth showing: without it a constant gets an axis that means nothing."""
    t, y = envelope(solution.t, values)
    axis.plot(t, y, color=colour, linewidth=1.0)
    if len(y) and np.ptp(y) < floor:
        axis.set_ylim(y.mean() - floor, y.mean() + floor)
    axis.set_ylabel(label)
    _readable(axis)


def _many(axis: Axes, solution: Solution, names: Sequence[str]) -> None:
    for i, name in enumerate(names):
        axis.plot(*envelope(solution.t, solution.q[:, i]), color=COLOURS[i % len(COLOURS)], linewidth=1.0, label=name)
    axis.set_ylabel("coordinates")
    if len(names) <= 8:  # beside the curves, never on them
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.05), fontsize=8)


def _readable(axis: Axes) -> None:
    """Whole numbers on the axis, with an offset or a power of ten beside it where the values need one."""
    axis.ticklabel_format(axis="y", style="sci", scilimits=(-3, 4), useMathText=True)


def _mark_impacts(axes: Sequence[Axes], times: np.ndarray) -> None:
    """A thin line through all panels for each impact; where there are too many for that, ticks below the last panel."""
    if len(times) <= 60:
        for axis in axes:
            for t in times:
                axis.axvline(t, color=_FAINT, linewidth=0.7, zorder=0.5)
        return
    axis = axes[-1]
    seen = times[:: max(1, len(times) // 3000)]
    axis.plot(
        seen, np.full(len(seen), 0.0), "|", color=_INK, markersize=7, alpha=0.5, transform=axis.get_xaxis_transform(), clip_on=False
    )


def _limits(t: np.ndarray) -> tuple[float, float]:
    low, high = float(np.min(t)), float(np.max(t))
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _headline(solution: Solution) -> str:
    hits = len(solution.impacts)
    text = f"{solution.name}: {hits:,} impact{'' if hits == 1 else 's'} in {solution.num_steps:,} steps of {solution.pace}"
    return text if solution.status.ok else f"{text}, ended by {solution.status.name.replace('_', ' ')}"


def _finished(figure: Figure, path: str | Path | None) -> Figure:
    if path is not None:
        path, known = file_path(path, "run.png"), figure.canvas.get_supported_filetypes()
        if path.suffix and path.suffix[1:].lower() not in known:
            raise InputError(f"a picture is saved as *.{', *.'.join(sorted(known))}; got {str(path)!r}")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
    return figure
