"""The commands `carom reproduce` and `carom discover`."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from carom.cli.terminal import BAD_INPUT, INTERRUPTED, console, fail, folder, note

EPILOG = "`carom reproduce rodriguez2025` · one paper   `carom reproduce fetecau2003/fig-4` · one figure   `--list` · all of them"
DISCOVER_EPILOG = "`carom discover energy-walk` · one question   `--list` · all of them"


def reproduce(
    what: Annotated[str, typer.Argument(help="`all`, a paper, or one figure or table of it.")] = "all",
    full: Annotated[bool, typer.Option("--full", help="The long runs, too: about ten minutes instead of three.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the pictures and the table.")] = Path("out/reproduction"),
    table: Annotated[Path | None, typer.Option(help="Write the table here instead.", show_default=False)] = None,
    listing: Annotated[bool, typer.Option("--list", help="Say what there is, and do nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Regenerate the figures, tables and claims of the papers behind this library: claim, measured, verdict."""
    from carom.papers import EXHIBITS, write

    exhibits = _chosen(EXHIBITS, what, out, listing)
    results: list[Any] = []
    target = table or out / "reproduction.md"
    for exhibit, rows, picture in _made(exhibits, full, lambda e: out / f"{e.paper}-{e.name}.png", as_json):
        results.append((exhibit, rows, os.path.relpath(picture, target.parent)))
        write(target, results)  # after each: nothing is lost
    _tell([(e, rows) for e, rows, _ in results], as_json, f"written: {target}, and the pictures in {out}")
    if len(results) < len(exhibits):
        raise typer.Exit(INTERRUPTED)


def discover(
    what: Annotated[str, typer.Argument(help="`all`, or one question.")] = "all",
    full: Annotated[bool, typer.Option("--full", help="As in the documentation; without it, fewer and shorter runs.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the pictures and tables.")] = Path("out/discoveries"),
    listing: Annotated[bool, typer.Option("--list", help="Say what there is, and do nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Answer the questions that the papers leave open, by measuring: statement, measured, whether it holds.

    Each has a chapter in the documentation. Its table goes into the chapter of that name in the folder, if there is one.
    """
    from carom.papers import DISCOVERIES, insert

    exhibits = _chosen(DISCOVERIES, what, out, listing)
    results = []
    for exhibit, rows, _ in _made(exhibits, full, lambda e: out / f"{e.name}.png", as_json):
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


def _made(exhibits: Sequence[Any], full: bool, picture: Callable[[Any], Path], quiet: bool) -> Iterator[tuple[Any, Any, Path]]:
    """One exhibit after the other, with its rows and its picture; an interruption ends it early."""
    from carom.report.tables import verdicts

    for number, exhibit in enumerate(exhibits, 1):
        note(f"{number}/{len(exhibits)}  {exhibit.key}: {exhibit.title}")
        drawn, _ = picture(exhibit), exhibit.code  # before the run: files may be edited while it takes its time
        try:
            rows = exhibit.make(full, drawn)
        except KeyboardInterrupt:
            note("interrupted: what was done so far is kept")
            return
        if not quiet:
            console().print(verdicts(exhibit.key, rows))
        yield exhibit, rows, drawn


def _tell(results: Sequence[tuple[Any, Any]], as_json: bool, written: str) -> None:
    if not as_json:
        typer.echo(written)
        return
    found = {
        e.key: [{"claim": r.claim, "measured": r.measured, "verdict": r.verdict, "why": r.why} for r in rows] for e, rows in results
    }
    typer.echo(json.dumps(found, ensure_ascii=False, indent=1))
