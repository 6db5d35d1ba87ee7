"""The commands `carom reproduce` and `carom discover`."""

import concurrent.futures
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from carom.cli.terminal import BAD_INPUT, INTERRUPTED, console, fail, folder, note

EPILOG = "`carom reproduce rodriguez2025` · one paper   `carom reproduce fetecau2003/fig-4` · one figure   `--list` · all of them"
WORKERS = "So many exhibits at a time, each in a process of its own; by default as many as there are cores."
DISCOVER_EPILOG = "`carom discover energy-walk` · one question   `--list` · all of them"


def reproduce(
    what: Annotated[str, typer.Argument(help="`all`, a paper, or one figure or table of it.")] = "all",
    full: Annotated[
        bool, typer.Option("--full", help="The long runs, too: some ten minutes of two cores instead of three or four.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the pictures and the table.")] = Path("out/reproduction"),
    table: Annotated[Path | None, typer.Option(help="Write the table here instead.", show_default=False)] = None,
    workers: Annotated[int | None, typer.Option(min=1, help=WORKERS, show_default=False)] = None,
    listing: Annotated[bool, typer.Option("--list", help="Say what there is, and do nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Regenerate the figures, tables and claims of the papers behind this library: claim, measured, verdict."""
    from carom.papers import EXHIBITS, write

    exhibits = _chosen(EXHIBITS, what, out, listing)
    results: list[Any] = []
    target = table or out / "reproduction.md"
    for exhibit, rows, picture in _made(exhibits, full, lambda e: out / f"{e.paper}-{e.name}.png", as_json, workers):
        results.append((exhibit, rows, os.path.relpath(picture, target.parent)))
        write(target, results)  # after each: nothing is lost
    _tell([(e, rows) for e, rows, _ in results], as_json, f"written: {target}, and the pictures in {out}")
    if len(results) < len(exhibits):
        raise typer.Exit(INTERRUPTED)


def discover(
    what: Annotated[str, typer.Argument(help="`all`, or one question.")] = "all",
    full: Annotated[bool, typer.Option("--full", help="As in the documentation; without it, fewer and shorter runs.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the pictures and tables.")] = Path("out/discoveries"),
    workers: Annotated[int | None, typer.Option(min=1, help=WORKERS, show_default=False)] = None,
    listing: Annotated[bool, typer.Option("--list", help="Say what there is, and do nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Answer the questions that the papers leave open, by measuring: statement, measured, whether it holds.

    Each has a chapter in the documentation. Its table goes into the chapter of that name in the folder, if there is one.
    """
    from carom.papers import DISCOVERIES, insert

    exhibits = _chosen(DISCOVERIES, what, out, listing)
    results = []
    for exhibit, rows, _ in _made(exhibits, full, lambda e: out / f"{e.name}.png", as_json, workers):
        results.append((exhibit, rows))
        insert(out / f"{exhibit.name}.md", exhibit, rows)
    _tell(results, as_json, f"written to {out}: pictures and tables")
    if len(results) < len(exhibits):
        raise typer.Exit(INTERRUPTED)


def _chosen(known: Sequence[Any], what: str, out: Path, listing: bool) -> list[Any]:
    """What to do; says what there is instead, if that was asked."""
    from carom.errors import CaromError
    from carom.papers import chosen

    if listing:
        for exhibit in known:
            typer.echo(f"{exhibit.key:28} {exhibit.title}")
        raise typer.Exit()
    try:
        exhibits = chosen(known, what)
        folder(out)
    except (ValueError, CaromError) as error:
        fail(str(error), BAD_INPUT)
    return exhibits


def _made(
    exhibits: Sequence[Any], full: bool, picture: Callable[[Any], Path], quiet: bool, workers: int | None
) -> Iterator[tuple[Any, Any, Path]]:
    """Exhibits as they are done, with their rows and their pictures; an interruption ends it early."""
    from carom.report.tables import verdicts
    from carom.xla.machine import cores

    tasks = [(exhibit, full, picture(exhibit), exhibit.code) for exhibit in exhibits]  # the code before: files may be edited
    workers = min(workers or cores(), len(tasks))
    try:
        for exhibit, rows, drawn in (_one_by_one if workers == 1 else _side_by_side)(tasks, workers):
            if not quiet:
                console().print(verdicts(exhibit.key, rows))
            yield exhibit, rows, drawn
    except KeyboardInterrupt:
        note("interrupted: what was done so far is kept")


def _one_by_one(tasks: Sequence[Any], _: int) -> Iterator[tuple[Any, Any, Path]]:
    clock = time.perf_counter()
    for number, (exhibit, full, drawn, _) in enumerate(tasks, 1):
        note(f"{number}/{len(tasks)}  {exhibit.key}: {exhibit.title}{_ahead(number - 1, len(tasks), clock)}")
        yield exhibit, exhibit.make(full, drawn), drawn


def _ahead(done: int, count: int, clock: float) -> str:
    """How fast it goes, and how long it will take; exhibits differ, so in round numbers."""
    seconds = time.perf_counter() - clock
    if not 0 < done < count:
        return ""
    left = seconds / done * (count - done)
    return f"  ({60 * done / seconds:.2g}/min, about {f'{left:.0f} s' if left < 90 else f'{left / 60:.0f} min'} left)"


def _side_by_side(tasks: Sequence[Any], workers: int) -> Iterator[tuple[Any, Any, Path]]:
    """In several processes, each family of exhibits in one of them. Families begin: the last to end should be short."""
    families: dict[str, list[Any]] = {}
    for task in tasks:
        families.setdefault(task[0].family or task[0].key, []).append(task)
    from carom.many.processes import Processes

    done, clock = 0, time.perf_counter()
    with Processes(workers) as pool:
        waiting = {}
        for several in sorted(families.values(), key=len, reverse=True):
            waiting[pool.submit(_make, [(exhibit.key, full, drawn) for exhibit, full, drawn, _ in several])] = several
        for future in concurrent.futures.as_completed(waiting):
            for (exhibit, _, drawn, _), rows in zip(waiting[future], future.result(), strict=True):
                done += 1
                note(f"{done}/{len(tasks)}  {exhibit.key}: {exhibit.title}{_ahead(done, len(tasks), clock)}")
                yield exhibit, rows, drawn


def _make(several: Sequence[tuple[str, bool, Path]]) -> list[Any]:
    """In a process of its own: exhibits are found there by their names."""
    from carom.papers import DISCOVERIES, EXHIBITS

    known = {exhibit.key: exhibit for exhibit in (*EXHIBITS, *DISCOVERIES)}
    return [known[key].make(full, drawn) for key, full, drawn in several]


def _tell(results: Sequence[tuple[Any, Any]], as_json: bool, written: str) -> None:
    if not as_json:
        typer.echo(written)
        return
    found = {
        e.key: [{"claim": r.claim, "measured": r.measured, "verdict": r.verdict, "why": r.why} for r in rows] for e, rows in results
    }
    typer.echo(json.dumps(found, ensure_ascii=False, indent=1))
