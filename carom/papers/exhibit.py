"""What a reproduction consists of: exhibits, each with a picture and a table claim – measured – verdict."""

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from carom.errors import InputError
from carom.papers.fingerprint import fingerprint

REPRODUCED, DIFFERS, ANSWERED, UNCLEAR = "reproduced", "differs", "answered", "not reproducible from the text"
HOLDS, FAILS = "holds", "does not hold"  # of statements that are ours, not a paper's

PAPERS = {
    "fetecau2003": "Nonsmooth Lagrangian mechanics and variational collision integrators",
    "demoures2017": "A multisymplectic integrator for elastodynamic frictionless impact problems",
    "schindler2014": "Timestepping schemes for nonsmooth dynamics based on discontinuous Galerkin methods",
    "rodriguez2025": "Variational collision integrators for nonholonomic Lagrangian systems",
    "rodriguez2024": "Implicit nonholonomic mechanics with collisions",
}


@dataclass(frozen=True)
class Band:
    """What a measured number may be for a claim to hold: from `low` to `high`, both for the reason `why`."""

    low: float
    high: float
    why: str

    def holds(self, *values: float) -> bool:
        """Whether all lie within; a NaN does not."""
        return bool(values) and all(self.low <= value <= self.high for value in values)

    def __str__(self) -> str:
        return f"{self.low:.3g} to {self.high:.3g}: {self.why}"


@dataclass(frozen=True)
class Row:
    """One claim of a paper."""

    claim: str
    measured: str
    verdict: str  # REPRODUCED, DIFFERS, ANSWERED (an open question of the paper) or UNCLEAR
    why: str = ""
    accepts: str = ""  # the band of the criterion, in words


@dataclass(frozen=True)
class Exhibit:
    """A figure, a table or a statement. `make(full, draw)` measures; `draw` is None or the file for its picture."""

    paper: str
    name: str  #       as in the paper, e.g. "fig-4.2"
    title: str
    make: Callable[[bool, Path | None], Sequence[Row]]
    family: str = ""  # of exhibits that share runs or programs: one process makes them all

    @property
    def key(self) -> str:
        return f"{self.paper}/{self.name}"

    @cached_property
    def code(self) -> str:
        """The fingerprint of what measures it, as it was when it was first asked for."""
        return fingerprint(self.make)


def verdict(holds: bool) -> str:
    return REPRODUCED if holds else DIFFERS


def judge(claim: str, measured: str, band: Band, *values: float, why: str = "", note: str = "") -> Row:
    """A row whose verdict is whether the values lie in the band; `why` is said where they do not, `note` where they do."""
    holds = band.holds(*values)
    return Row(claim, measured, verdict(holds), note if holds else why, str(band))


def state(claim: str, measured: str, band: Band, *values: float, why: str = "", note: str = "") -> Row:
    """As `judge`, for a statement of our own."""
    row = judge(claim, measured, band, *values, why=why, note=note)
    return Row(row.claim, row.measured, HOLDS if row.verdict == REPRODUCED else FAILS, row.why, row.accepts)


def chosen(exhibits: Sequence[Exhibit], what: str) -> list[Exhibit]:
    """Those of a paper, or one, or all."""
    if what == "all":
        return list(exhibits)
    found = [e for e in exhibits if what in (e.paper, e.key, e.name)]
    if not found:
        known = ["all", *PAPERS, *(e.key for e in exhibits)]
        close = difflib.get_close_matches(what, known, 1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise InputError(f"there is nothing called {what!r} here{hint}. `--list` shows what there is")
    return found


HEAD = (
    "Written by `carom reproduce`; not by hand. The page of the documentation is that of `carom reproduce all --full`; without "
    "`--full` some runs are shorter, and the verdicts the same."
)


def table(results: Sequence[tuple[Exhibit, Sequence[Row], str | None]], page: str = "") -> str:
    """The verdicts as a Markdown page. Each result has the address of its picture, if it has one. What an earlier page says of
    other exhibits stays."""
    parts = _parts(page)
    for exhibit, rows, picture in results:
        parts.setdefault(exhibit.paper, {})[exhibit.name] = _section(exhibit, rows, picture)
    lines = ["# The papers, reproduced", "", HEAD, ""]
    counts = _counts([line for sections in parts.values() for part in sections.values() for line in part])
    lines += [f"{sum(counts.values())} claims: {', '.join(f'{n} {v}' for v, n in counts.items())}.", ""]
    for paper, title in PAPERS.items():
        if parts.get(paper):
            lines += [f"## {title} [{paper}]", ""]
            lines += [line for name in sorted(parts[paper], key=_in_order) for line in parts[paper][name]]
    return "\n".join(lines)


def _in_order(name: str) -> list[Any]:
    """Figures before problems and sections, each by their numbers: fig-9 before fig-10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _section(exhibit: Exhibit, rows: Sequence[Row], picture: str | None) -> list[str]:
    lines = [f"### {exhibit.name}: {exhibit.title}", "", f"<!-- code {exhibit.code} -->", ""]
    if picture:
        lines += [f"![{exhibit.title}]({picture})", ""]
    return [*lines, *_table(rows), ""]


def _table(rows: Sequence[Row]) -> list[str]:
    lines = ["| claim | measured | accepted | verdict |", "|---|---|---|---|"]
    for row in rows:
        cells = (row.claim, row.measured, row.accepts, row.verdict + (": " + row.why if row.why else ""))
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return lines


def _parts(page: str) -> dict[str, dict[str, list[str]]]:
    """The sections of a page as lines, by paper and by exhibit."""
    parts: dict[str, dict[str, list[str]]] = {}
    mine: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in page.splitlines():
        if line.startswith("## "):
            mine, lines = parts.setdefault(line.rpartition("[")[2].rstrip("]"), {}), []
        elif line.startswith("### "):
            lines = mine.setdefault(line[4:].partition(":")[0], [])
        lines.append(line)
    return {paper: {name: [*_stripped(part), ""] for name, part in found.items()} for paper, found in parts.items()}


def rows_of(page: str) -> dict[str, tuple[str, list[Row]]]:
    """What a page says, read back: by exhibit, the fingerprint of the code that wrote it and its rows."""
    found = {}
    for paper, sections in _parts(page).items():
        for name, lines in sections.items():
            found[f"{paper}/{name}"] = read_table(lines)
    return found


def read_table(lines: Sequence[str]) -> tuple[str, list[Row]]:
    """The fingerprint and the rows that some lines of a page hold."""
    code, rows = "", []
    for line in lines:
        if line.startswith("<!-- code "):
            code = line.split()[2]
        elif line.startswith("| ") and not line.startswith("| claim |"):
            cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            verdict, _, why = cells[-1].partition(": ")
            rows.append(Row(cells[0], cells[1], verdict, why, cells[2] if len(cells) > 3 else ""))
    return code, rows


def _stripped(lines: list[str]) -> list[str]:
    return "\n".join(lines).rstrip("\n").split("\n")


def _counts(lines: Sequence[str]) -> dict[str, int]:
    """How often each verdict stands in the last column of the tables."""
    last = [re.split(r"(?<!\\)\|", line)[-2].strip() for line in lines if line.startswith("| ")]
    return {v: sum(cell == v or cell.startswith(v + ":") for cell in last) for v in (REPRODUCED, DIFFERS, ANSWERED, UNCLEAR)}


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def write(path: Path, results: Sequence[Any]) -> None:
    """The page at `path`, with these exhibits anew and the others as they are there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    page = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(table(results, page), encoding="utf-8")


START, END = "<!-- measured -->", "<!-- end of what was measured -->"


def insert(path: Path, exhibit: Exhibit, rows: Sequence[Row]) -> None:
    """The table of an exhibit between the two marks of a chapter that is written by hand; a page without one is begun."""
    text = path.read_text(encoding="utf-8") if path.exists() else f"# {exhibit.title}\n\n{START}\n{END}\n"
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    lines = [START, f"<!-- code {exhibit.code} -->", "", *_table(rows), "", END]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(before + "\n".join(lines) + after, encoding="utf-8")


def axes(rows: int = 1, columns: int = 1, size: tuple[float, float] = (5.0, 3.2), **options: Any) -> tuple[Any, Any]:
    """A figure of its own, outside of pyplot: nothing is left open."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def legend_below(ax: Any, columns: int = 2) -> None:
    """Below the axes, where no curve can be hidden."""
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.19), ncols=columns, fontsize=8, frameon=False)
