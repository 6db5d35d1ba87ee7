"""What a person reads on the terminal: tables of models and of runs, for `rich` to print."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from carom.bodies.run import WorldRun
from carom.results.solution import Solution


def outcome(solution: Solution, rule: str) -> Table:
    """The numbers of one run."""
    s = solution.summary()
    rows = {
        "rule": f"{rule} (order {solution.method.order})",
        "steps": f"{s['steps']:,} of {s['dt']:g}, to t = {s['t_end']:g}",
        "impacts": f"{s['impacts']:,}{_by_contact(solution)}",
        "energy, largest change": f"{s['energy_error_max']:.2e} relative",
        "energy, drift": f"{s['energy_drift']:+.2e} over the run",
        "fallbacks": f"{s['fallbacks']}" + (" (near grazing: reflected without the energy balance)" if s["fallbacks"] else ""),
        "stepping": f"{s['seconds']:.2g} s, {s['microseconds_per_step']:.2f} µs per step",
        "compiling": f"{s['compile_seconds']:.1f} s",
        "status": s["status"].replace("_", " "),
    }
    return _named(s["name"], rows)


def world_outcome(run: WorldRun) -> Table:
    """The numbers of one run of a world."""
    s = run.summary()
    rows = {
        "bodies": f"{s['bodies']:,}",
        "steps": f"{s['steps']:,} of {s['dt']:g}, to t = {s['t_end']:g}",
        "contacts": f"{s['contacts']:,}, {s['impacts']:,} in impacts",
        "energy": f"{s['energy_start']:.6g} at the start, {s['energy_end']:.6g} at the end",
        "largest certificate": f"{s['certificate_max']:.1e}",
        "largest depth": f"{s['depth_max']:.1e}",
        "stepping": f"{s['seconds']:.2g} s, {1e3 * s['seconds'] / max(s['steps'], 1):.2f} ms per step",
        "status": s["status"].replace("_", " "),
    }
    return _named(s["name"], rows)


def _named(title: str, rows: dict[str, str]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False)
    for name, value in rows.items():
        table.add_row(name, escape(value))
    return table


def _by_contact(solution: Solution) -> str:
    hits = solution.impacts
    counts = {name: int(np.sum(hits.contact == i)) for i, name in enumerate(hits.names)}
    if len(hits) == 0 or len(counts) < 2:
        return ""
    return " (" + ", ".join(f"{name} {count:,}" for name, count in counts.items() if count) + ")"


def comparison(runs: Mapping[str, Solution], title: str = "") -> Table:
    """Several runs beside each other, a column for each."""
    table = Table(title=title, title_justify="left")
    table.add_column("rule")
    for label in runs:
        table.add_column(label, justify="right")
    all_numbers = [run.summary() for run in runs.values()]
    rows = {
        "impacts": ("impacts", "{:,}"),
        "steps": ("steps", "{:,}"),
        "largest relative energy error": ("energy_error_max", "{:.1e}"),
        "energy drift over the run": ("energy_drift", "{:+.1e}"),
        "fallbacks": ("fallbacks", "{}"),
        "µs per step": ("microseconds_per_step", "{:.2f}"),
        "seconds to compile": ("compile_seconds", "{:.1f}"),
    }
    for name, (key, form) in rows.items():
        table.add_row(name, *(form.format(numbers[key]) for numbers in all_numbers))
    return table


def catalogue(models: Mapping[str, Any]) -> Table:
    """All models, a line each."""
    table = Table("name", "about", "source", title="models (`carom list NAME` tells more)", title_justify="left")
    for name, model in models.items():
        table.add_row(f"[bold]{name}[/bold]", model.about, model.source)
    return table


def portrait(model: Any, story: str, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
    """One model: its story, then its parameters with their defaults."""
    source = f" ({model.source})" if model.source else ""
    table = Table("parameter (--set)", "default")
    for name, value in parameters.items():
        table.add_row(name, f"{value:.6g}" if np.ndim(value) == 0 else escape(str(np.asarray(value).tolist())))
    grid = f"{model.num_steps:,} steps of {model.dt:g}, unless told otherwise"
    return f"[bold]{model.name}[/bold]{source}", "", escape(story), "", grid, table


def verdicts(title: str, rows: Sequence[Any]) -> Table:
    """Claims of a paper: what it prints, what comes out."""
    table = Table("claim", "measured", "accepted", "verdict", title=title, title_justify="left")
    colours = {"reproduced": "green", "answered": "green", "differs": "yellow"}
    for row in rows:
        text = f"[{colours.get(row.verdict, 'red')}]{row.verdict}[/]" + (f": {escape(row.why)}" if row.why else "")
        table.add_row(escape(row.claim), escape(row.measured), escape(row.accepts), text)
    return table
