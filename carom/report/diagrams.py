"""Pictures of motions that are watched for long: exponents that settle, sections, bifurcation diagrams."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from carom.errors import InputError
from carom.report.plots import COLOURS, STYLE, Drawing, _finished


def plot_exponents(exponents: Any, path: str | Path | None = None) -> Figure:
    """The exponents as they stand after each block: what has settled is flat at the right end."""
    with matplotlib.rc_context(STYLE):
        figure = Drawing(figsize=(8.5, 4.2), layout="constrained")
        axis = figure.subplots()
        for i, value in enumerate(exponents.values):
            axis.plot(exponents.t, exponents.so_far[:, i], color=COLOURS[i % len(COLOURS)], label=f"{value:.4g}")
        late = exponents.so_far[len(exponents.t) // 10 :]  # the first of them would hide where the others settle
        low, high = float(np.min(late)), float(np.max(late))
        room = 0.1 * max(high - low, 1e-12 * max(abs(low), abs(high)), 1e-300)
        axis.set(xlabel="time", ylabel="exponents so far", ylim=(low - room, high + room))
        figure.legend(loc="outside right upper", fontsize=9)
        axis.set_title(repr(exponents), loc="left", fontsize=11)
        return _finished(figure, path)


def plot_section(section: Any, path: str | Path | None = None, coordinate: int = 0) -> Figure:
    """A dot for each crossing: velocity above position of one coordinate."""
    _one_of(coordinate, section.coordinates)
    if section.q.shape[1] != section.v.shape[1]:
        raise InputError("velocities are not those of single coordinates here (a rotation): plot section.q and section.v by hand")
    with matplotlib.rc_context(STYLE):
        figure = Drawing(figsize=(6.4, 5.2), layout="constrained")
        axis = figure.subplots()
        axis.plot(section.q[:, coordinate], section.v[:, coordinate], ".", color=COLOURS[1], markersize=3, markeredgewidth=0)
        axis.set(xlabel=section.coordinates[coordinate], ylabel=f"velocity of {section.coordinates[coordinate]}")
        axis.set_title(repr(section), loc="left", fontsize=11)
        return _finished(figure, path)


def plot_diagram(diagram: Any, path: str | Path | None = None, coordinate: int = 0) -> Figure:
    """A dot for each state that was kept, above the value of the parameter: position and velocity of one coordinate."""
    _one_of(coordinate, diagram.coordinates)
    with matplotlib.rc_context(STYLE):
        figure = Drawing(figsize=(8.5, 6.4), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True)
        for axis, states, label in ((above, diagram.q, "q"), (below, diagram.v, "v")):
            rows = states[:, :, coordinate]
            axis.plot(
                np.repeat(diagram.values, rows.shape[1]), rows.ravel(), ".", color=COLOURS[1], markersize=1.5, markeredgewidth=0
            )
            axis.set_ylabel(f"{label} of {diagram.coordinates[coordinate]}, once in each period")
        below.set_xlabel(diagram.vary)
        failed = int(np.sum(~diagram.ok))
        lost = f", {failed} of them failed" if failed else ""
        title = f"{len(diagram.values)} values of {diagram.vary}, {diagram.q.shape[1]} periods kept of each{lost}"
        above.set_title(title, loc="left", fontsize=11)
        return _finished(figure, path)


def _one_of(coordinate: Any, coordinates: tuple[str, ...]) -> None:
    if coordinate not in range(len(coordinates)):
        raise InputError(f"coordinate must be a number from 0 to {len(coordinates) - 1}; got {coordinate!r}")
