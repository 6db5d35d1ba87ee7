"""What a reproduction consists of: exhibits, each with a picture and a table claim – measured – verdict."""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carom.errors import InputError

REPRODUCED, DIFFERS, UNCLEAR = "reproduced", "differs", "not reproducible from the text"

PAPERS = {
    "fetecau2003": "Nonsmooth Lagrangian mechanics and variational collision integrators",
    "demoures2017": "A multisymplectic integrator for elastodynamic frictionless impact problems",
    "schindler2014": "Timestepping schemes for nonsmooth dynamics based on discontinuous Galerkin methods",
    "rodriguez2025": "Variational collision integrators for nonholonomic Lagrangian systems",
    "rodriguez2024": "Implicit nonholonomic mechanics with collisions",
}


@dataclass(frozen=True)
class Row:
    """One claim of a paper."""

    claim: str
    measured: str
    verdict: str  # REPRODUCED, DIFFERS or UNCLEAR
    why: str = ""


@dataclass(frozen=True)
class Exhibit:
    """A figure, a table or a statement. `make(full, draw)` measures; `draw` is None or the file for its picture."""

    paper: str
    name: str  #       as in the paper, e.g. "fig-4.2"
    title: str
    make: Callable[[bool, Path | None], Sequence[Row]]

    @property
    def key(self) -> str:
        return f"{self.paper}/{self.name}"


def verdict(holds: bool) -> str:
    return REPRODUCED if holds else DIFFERS


def chosen(exhibits: Sequence[Exhibit], what: str) -> list[Exhibit]:
    """Those of a paper, or one, or all."""
    if what == "all":
        return list(exhibits)
    found = [e for e in exhibits if what in (e.paper, e.key, e.name)]
    if not found:
        known = ["all", *PAPERS, *(e.key for e in exhibits)]
        close = difflib.get_close_matches(what, known, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise InputError(f"there is nothing called {what!r} to reproduce{hint}. `carom reproduce --list` shows what there is")
    return found


def table(results: Sequence[tuple[Exhibit, Sequence[Row], str | None]]) -> str:
    """The verdicts as a Markdown page. Each result has the address of its picture, if it has one."""
    lines = ["# The papers, reproduced", "", "Written by `carom reproduce`; not by hand.", ""]
    rows = [row for _, found, _ in results for row in found]
    counts = [f"{sum(row.verdict == v for row in rows)} {v}" for v in (REPRODUCED, DIFFERS, UNCLEAR)]
    lines += [f"{len(rows)} claims: {', '.join(counts)}.", ""]
    for paper, title in PAPERS.items():
        mine = [(e, found, picture) for e, found, picture in results if e.paper == paper]
        if not mine:
            continue
        lines += [f"## {title} [{paper}]", ""]
        for exhibit, found, picture in mine:
            lines += [f"### {exhibit.name}: {exhibit.title}", ""]
            if picture:
                lines += [f"![{exhibit.title}]({picture})", ""]
            lines += ["| claim | measured | verdict |", "|---|---|---|"]
            lines += [
                f"| {_cell(r.claim)} | {_cell(r.measured)} | {_cell(r.verdict + (': ' + r.why if r.why else ''))} |" for r in found
            ]
            lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def write(path: Path, results: Sequence[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(table(results), encoding="utf-8")


def axes(rows: int = 1, columns: int = 1, size: tuple[float, float] = (5.0, 3.2), **options: Any) -> tuple[Any, Any]:
    """A figure of its own, outside of pyplot: nothing is left open."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)
