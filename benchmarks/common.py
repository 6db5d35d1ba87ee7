"""What the parts share: options, turns and their statistics, the machine, tables, and the files that are written.

A part is a module with `measure(chosen)`, which returns records, and `sections(records, chosen)`, which makes tables of them.
"""

import argparse
import gc
import importlib.util
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
SIZES = ("whole", "quick", "tiny")
REPEATS = {"whole": 7, "quick": 3, "tiny": 1}
PACKAGES = ("jax", "jaxlib", "numpy", "diffrax", "optimistix", "scipy", "numba", "mujoco")


@dataclass
class Case:
    """One row: what is known of it, and `prepare`, which returns a function that runs once.

    The function returns what it found, with its time as "seconds"; what was prepared and found first goes into the record.
    """

    record: dict[str, Any]
    prepare: Callable[[], Callable[[], dict[str, Any]]]
    needs: tuple[str, ...] = ()  # modules

    @property
    def name(self) -> str:
        return f"{self.record['problem']}, {self.record['label']}"


@dataclass
class Section:
    """A table with a title, and lines below it."""

    title: str
    header: Sequence[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        lines = [f"## {self.title}", ""]
        if self.rows:
            lines += ["| " + " | ".join(self.header) + " |", "|" + "---|" * len(self.header)]
            lines += ["| " + " | ".join(row) + " |" for row in self.rows] + [""]
        return "\n".join([*lines, *(f"- {line}" for line in self.notes)]).rstrip() + "\n"


def parser(part: str, about: str) -> argparse.ArgumentParser:
    """The options that all parts have."""
    options = argparse.ArgumentParser(prog=f"python -m benchmarks{part and '.'}{part}", description=about)
    size = options.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="size", action="store_const", const="quick", help="short runs, for a first look")
    size.add_argument(
        "--tiny", dest="size", action="store_const", const="tiny", help="the shortest runs: only to see that all works"
    )
    options.add_argument("--repeats", type=int, help="rounds (7, quick 3, tiny 1)")
    options.add_argument(
        "--out", type=Path, help="folder for tables, plots and JSON (benchmarks/; quick and tiny: out/benchmarks/)"
    )
    return options


def settle(chosen: argparse.Namespace) -> argparse.Namespace:
    """Fill in what follows from the size."""
    chosen.size = chosen.size or "whole"
    chosen.repeats = chosen.repeats or REPEATS[chosen.size]
    chosen.out = (chosen.out or (HERE if chosen.size == "whole" else HERE.parent / "out" / "benchmarks")).resolve()
    return chosen


def pin() -> None:
    """Stay on one core, so that every tool has the same; before JAX starts its threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load() -> float:
    """The load average of the last minute: how many processes wanted a core."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def missing(needs: Sequence[str]) -> str:
    """Why a tool cannot run: "" if all modules are there."""
    absent = [name for name in needs if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    clock = time.perf_counter()
    out = run()
    return time.perf_counter() - clock, out


def statistics(values: Sequence[float]) -> dict[str, float]:
    middle = median(values)
    return {"median": middle, "min": min(values), "max": max(values), "spread": (max(values) - min(values)) / middle}


def take_turns(cases: list[Case], repeats: int) -> list[dict]:
    """The records. All cases run once, then once in every round, so that what else the machine does hits all alike.

    A case that fails is a record with its reason, and the others go on.
    """
    runners: dict[int, Callable[[], dict]] = {}
    for i, case in enumerate(cases):
        case.record["seconds"] = []
        reason = missing(case.needs)
        if not reason:
            say(f"{case.name}: first run")
            reason = _attempt(lambda case=case, i=i: _start(case, runners, i))
        if reason:
            case.record["skipped"] = reason
            say(f"{case.name}: {reason}")
    for k in range(repeats):
        for i, case in enumerate(cases):
            if "skipped" in case.record:
                continue
            gc.collect()
            reason = _attempt(lambda case=case, i=i: case.record["seconds"].append(runners[i]()["seconds"]))
            if reason:
                case.record["skipped"] = reason
            say(f"{case.name}: round {k + 1} of {repeats}: {reason or '{:.4g} s'.format(case.record['seconds'][-1])}")
    for case in cases:
        if case.record["seconds"] and "skipped" not in case.record:
            case.record |= statistics(case.record["seconds"])
    return [case.record for case in cases]


def _start(case: Case, runners: dict, i: int) -> None:
    run = case.prepare()
    case.record |= {key: value for key, value in run().items() if key != "seconds"}
    runners[i] = run


def _attempt(action: Callable[[], None]) -> str:
    try:
        action()
    except Exception as error:
        return "failed: " + (str(error).strip() or type(error).__name__).splitlines()[0][:200].replace("|", "/")
    return ""


def machine() -> dict:
    """The machine and the versions, without loading any of them."""
    names, info = [], Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    versions = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return {"cpu": names[0] if names else platform.processor() or "unknown", "cores": os.cpu_count(), "versions": versions}


def describe(info: dict) -> str:
    return f"{info['cpu']}, {info['cores']} cores. " + ", ".join(f"{name} {v}" for name, v in info["versions"].items()) + "."


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def short(x: float) -> str:
    return f"{x:,.0f}" if x >= 100 else f"{x:.2g}"


def row(record: dict, label: str, cells: Callable[[dict], list[str]], width: int) -> list[str]:
    """A row of a table: the cells, or why there are none."""
    return [label, *(cells(record) if "median" in record else [record["skipped"], *[""] * (width - 2)])]


def write(part: str, records: list[dict], sections: list[Section], chosen: argparse.Namespace, before: float) -> None:
    """<part>.json and <part>.md in the folder, and the tables on the terminal."""
    noise = {"cores": cores(), "repeats": chosen.repeats, "size": chosen.size, "load_before": before, "load_after": load()}
    spreads = [r["spread"] for r in records if "spread" in r]
    widest = f"; the largest spread is {percent(max(spreads))}" if spreads else ""
    where = "one core" if noise["cores"] == 1 else f"{noise['cores']} cores"
    rounds = f"{chosen.repeats} round{'s' * (chosen.repeats > 1)}"
    loads = f"load average {before:.1f} before and {noise['load_after']:.1f} after"
    line = f"Part *{part}*: {where}, {rounds}, {loads}{widest}."
    if chosen.size != "whole":
        line += f" A short run (--{chosen.size}): it says little about speed."
    chosen.out.mkdir(parents=True, exist_ok=True)
    data = {"machine": machine(), "noise": noise, "records": records}
    (chosen.out / f"{part}.json").write_text(json.dumps(data, indent=1) + "\n")
    first, *rest = [section.markdown() for section in sections]
    title, body = first.split("\n", 1)
    (chosen.out / f"{part}.md").write_text("\n".join([f"{title}\n\n{line}\n{body}", *rest]))
    show(sections, line)


def show(sections: list[Section], line: str) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=150, highlight=False)
    for section in sections:
        table = Table(title=section.title, title_justify="left")
        for i, name in enumerate(section.header):
            table.add_column(name, justify="right" if i else "left")
        for cells in section.rows:
            table.add_row(*cells)
        console.print(table if section.rows else section.title, *section.notes, "", sep="\n")
    console.print(line)


def run_part(part: str, module: Any, chosen: argparse.Namespace, one_core: bool) -> None:
    """What `main` of every part does."""
    settle(chosen)
    before = load()
    if one_core:
        pin()
    records = module.measure(chosen)
    write(part, records, module.sections(records, chosen), chosen, before)
