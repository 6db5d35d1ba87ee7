"""The study of convergence as a table of orders and as a picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter
from rich.table import Table

from carom.papers.studies import ROUNDING, Measurement, problems
from carom.report.plots import COLOURS, STYLE

_WORDS = {"q": "position", "v": "velocity", "i": "interaction"}


def order_table(measured: Sequence[Measurement]) -> Table:
    """One row per method, one column per problem and quantity; a dash where the method is exact."""
    columns = [(problem.key, what) for problem in problems() for what in problem.measured]
    table = Table(title="measured orders in L1, of position q, velocity v, interaction i", title_justify="left")
    table.add_column("method")
    for key, what in columns:
        table.add_column(f"{key}\n{what}", justify="right")
    for method in dict.fromkeys(m.method for m in measured):
        mine = {m.problem: m for m in measured if m.method == method}
        orders = [mine[key].order(what) for key, what in columns]
        table.add_row(method, *("–" if order is None else f"{order:.2f}" for order in orders))
    return table


def plot_convergence(measured: Sequence[Measurement], path: str | Path | None = None) -> Figure:
    """Errors against the step, one panel per problem and quantity; dashed where the jump precedes the step (D+)."""
    panels = [(problem.key, problem.about, what) for problem in problems() for what in problem.measured]
    methods = list(dict.fromkeys(m.method for m in measured))
    looks: dict[str, tuple[str, Any]] = {
        name: (COLOURS[_degree(name) % len(COLOURS)], "--" if "+" in name else "-") for name in methods
    }
    with matplotlib.rc_context(STYLE):
        columns = 3
        rows = -(-len(panels) // columns)
        figure = Figure(figsize=(4.2 * columns, 3.1 * rows + 0.6), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, (key, about, what) in zip(grid, panels, strict=False):
            for m in measured:
                errors = m.errors[what]
                if m.problem == key and np.any(errors > ROUNDING):
                    colour, line = looks[m.method]
                    axes.loglog(m.dt, np.maximum(errors, 1e-17), line, color=colour, marker=".", lw=1.2, ms=4)
            axes.set_title(f"{key}: {about}\n{_WORDS[what]}, L1 error", fontsize=9, loc="left")
            axes.set_xlabel("dt")
            ends = sorted({float(dt) for m in measured if m.problem == key for dt in (m.dt[0], m.dt[-1])})
            axes.set_xticks(ends, [f"{dt:.2g}" for dt in ends])
            axes.xaxis.set_minor_formatter(NullFormatter())
        for axes in grid[len(panels) :]:
            axes.remove()
        lines = [Line2D([], [], color=c, linestyle=s, label=name) for name, (c, s) in looks.items()]
        figure.legend(handles=lines, loc="outside lower center", ncols=6, fontsize=8)
    if path is not None:
        figure.savefig(path, dpi=130)
    return figure


def _degree(name: str) -> int:
    return int(name.rpartition("=")[2]) if "M=" in name else 0
