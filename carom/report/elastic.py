"""Pictures of elastic bodies: colliding bars as in the figures of [demoures2017], and the beam in space."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from carom.calls import public
from carom.diagnostics.fields import field_balance
from carom.diagnostics.horizontal import energy_balance
from carom.models.bars import end_velocities
from carom.models.beam import beam_energies, momentum_maps, sections
from carom.report.plots import COLOURS, STYLE, Drawing, _finished, envelope
from carom.results.solution import Solution

_MOST_LINES = 60


@public
def plot_bars(solution: Solution, path: str | Path | None = None, title: str = "") -> Figure:
    """Displacements of the nodes, velocities of the ends that meet, energy, and its relative error: one row of Figs 4.2 and 4.3."""
    with matplotlib.rc_context(STYLE):
        figure = Drawing(figsize=(13, 3.2), layout="constrained")
        places, ends, energy, error = figure.subplots(1, 4)
        stiffness = np.asarray(solution.params["stiffness"])
        bar = np.concatenate([[0], np.cumsum(stiffness == 0)])
        for node in range(0, solution.q.shape[1], max(1, solution.q.shape[1] // _MOST_LINES)):
            places.plot(*envelope(solution.t, solution.q[:, node]), color=COLOURS[bar[node] % len(COLOURS)], linewidth=0.5)
        places.set_ylabel("position of the nodes")
        velocities = end_velocities(solution)
        for i in range(velocities.shape[1]):
            for side in (0, 1):
                ends.plot(*envelope(solution.t, velocities[:, i, side]), color=COLOURS[side], linewidth=0.7)
        ends.set_ylabel("velocity of the ends")
        energy.plot(*envelope(solution.t, solution.energy), color=COLOURS[0], linewidth=1.0)
        energy.set_ylim(0, 1.3 * solution.energy[0])
        energy.set_ylabel("energy")
        error.plot(*envelope(solution.t, solution.energy_error), color=COLOURS[0], linewidth=0.8)
        error.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2), useMathText=True)
        error.set_ylabel("(E − E₀) / |E₀|")
        for axis in (places, ends, energy, error):
            axis.set_xlabel("time")
        figure.suptitle(
            title or f"{solution.name}, dt = {solution.dt:g}, {len(solution.impacts)} events", x=0.01, ha="left", fontsize=11
        )
        return _finished(figure, path)


@public
def plot_beam(solution: Solution, path: str | Path | None = None, times: Sequence[float] | None = None) -> Figure:
    """The beam in space at a few times, its energies by kind, and what is kept: energy, p_x, p_y and J_z."""
    chosen = np.linspace(0, solution.t[-1], 4) if times is None else np.asarray(times, float)
    rows = np.clip(np.searchsorted(solution.t, chosen), 0, len(solution.t) - 1)
    with matplotlib.rc_context(STYLE):
        figure = Drawing(figsize=(3.2 * len(rows), 6.4), layout="constrained")
        parts: Any = figure.subfigures(2, 1, height_ratios=[1.3, 1.0])
        above, below = parts
        places = solution.q[rows].reshape(len(rows), -1, 7)[:, :, 4:]
        centre, reach = places.reshape(-1, 3).mean(axis=0), np.ptp(places.reshape(-1, 3), axis=0).max() / 2 + 0.05
        for i, row in enumerate(rows):
            axis = above.add_subplot(1, len(rows), i + 1, projection="3d")
            _draw_beam(axis, solution, int(row), centre, reach)
            axis.set_title(f"t = {solution.t[row]:.4g}", fontsize=10)
        kinds, kept = below.subplots(1, 2)
        for i, (name, values) in enumerate(beam_energies(solution)._asdict().items()):
            kinds.plot(*envelope(solution.t, values), color=COLOURS[i % len(COLOURS)], linewidth=0.9, label=name)
        kinds.set_ylabel("energy by kind")
        maps = momentum_maps(solution)
        lines = {"energy": np.abs(solution.energy_error)}
        for name, column in (("p_x", 0), ("p_y", 1), ("J_z", 5)):
            size = np.abs(maps[:, column]).max() or 1.0  # a beam without this momentum: its change itself
            lines[name] = np.abs(maps[:, column] - maps[0, column]) / size
        for i, (name, values) in enumerate(lines.items()):
            kept.semilogy(
                *envelope(solution.t, np.maximum(values, 1e-17)), color=COLOURS[i % len(COLOURS)], linewidth=0.9, label=name
            )
        kept.set_ylabel("relative change")
        for axis in (kinds, kept):
            axis.set_xlabel("time")
            axis.legend(fontsize=8, ncols=4, loc="best")
        return _finished(figure, path)


@public
def plot_balance(solution: Solution, generator: Callable[..., Any], path: str | Path | None = None, title: str = "") -> Figure:
    """Where in space and time the balances of a chain are broken, and by how much: that of the momentum of `generator`, see
    `carom.diagnostics.field_balance`, and that of the energy; dots are contacts."""
    momentum, energy = field_balance(solution, generator), energy_balance(solution)
    panels = {
        "momentum balance: defect, in roundings of its terms": (momentum.t[1:-1], np.abs(momentum.defect) / momentum.rounding),
        "energy balance: defect over each leg, relative": (
            energy.t[:-1],
            np.abs(energy.defect) / np.abs(energy.density.sum(1)).max(),
        ),
    }
    with matplotlib.rc_context(STYLE):
        figure = Drawing(figsize=(11, 4.2), layout="constrained")
        for axis, (name, (t, values)) in zip(figure.subplots(1, 2), panels.items(), strict=True):
            logs = np.log10(np.maximum(np.nan_to_num(values), 1e-20))
            drawn = axis.pcolormesh(np.arange(values.shape[1]), t, logs, vmin=logs.max() - 5, shading="nearest", cmap="viridis")
            figure.colorbar(drawn, ax=axis, label="log₁₀")
            when, where = np.nonzero(momentum.at_contact)
            axis.scatter(where, momentum.t[when], s=9, color="white", edgecolor="black", linewidth=0.5)
            axis.set(xlabel="node", ylabel="time", title=name)
            axis.title.set_fontsize(10)
        figure.suptitle(title or f"{solution.name}, dt = {solution.dt:g}", x=0.01, ha="left", fontsize=11)
        return _finished(figure, path)


def _draw_beam(axis, solution: Solution, row: int, centre: np.ndarray, reach: float) -> None:
    line, *rings = sections(solution.q[row], solution.params)
    axis.plot(*np.asarray(line).T, color=COLOURS[0], linewidth=1.5)
    for ring in rings:
        axis.plot(*np.asarray(ring).T, color=COLOURS[1], linewidth=0.8)
    x, y = np.meshgrid([centre[0] - reach, centre[0] + reach], [centre[1] - reach, centre[1] + reach])
    axis.plot_surface(x, y, np.zeros_like(x), color="0.8", alpha=0.3)
    axis.set_xlim(centre[0] - reach, centre[0] + reach)
    axis.set_ylim(centre[1] - reach, centre[1] + reach)
    axis.set_zlim(0, 2 * reach)
    axis.set_box_aspect((1, 1, 1))
    axis.tick_params(labelsize=6)
