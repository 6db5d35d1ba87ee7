"""The command `carom reproduce`."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from carom.cli.terminal import BAD_INPUT, INTERRUPTED, console, fail, folder, note

EPILOG = "`carom reproduce rodriguez2025` · one paper   `carom reproduce fetecau2003/fig-4` · one figure   `--list` · all of them"


def reproduce(
    what: Annotated[str, typer.Argument(help="`all`, a paper, or one figure or table of it.")] = "all",
    full: Annotated[bool, typer.Option("--full", help="The long runs, too: about ten minutes instead of three.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the pictures and the table.")] = Path("out/reproduction"),
    table: Annotated[Path | None, typer.Option(help="Write the table here instead.", show_default=False)] = None,
    listing: Annotated[bool, typer.Option("--list", help="Say what there is, and do nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Regenerate the figures, tables and claims of the papers behind this library: claim, measured, verdict."""
    from carom.errors import CaromError
    from carom.papers import EXHIBITS, chosen, write
    from carom.report.tables import verdicts

    if listing:
        for exhibit in EXHIBITS:
            typer.echo(f"{exhibit.key:28} {exhibit.title}")
        raise typer.Exit()
    try:
        exhibits = chosen(EXHIBITS, what)
        folder(out)
    except (ValueError, CaromError) as error:
        fail(str(error), BAD_INPUT)
    results: list[Any] = []
    target = table or out / "reproduction.md"
    for number, exhibit in enumerate(exhibits, 1):
        note(f"{number}/{len(exhibits)}  {exhibit.key}: {exhibit.title}")
        picture = out / f"{exhibit.paper}-{exhibit.name}.png"
        try:
            rows = exhibit.make(full, picture)
        except KeyboardInterrupt:
            note("interrupted: what was reproduced so far is kept")
            break
        results.append((exhibit, rows, os.path.relpath(picture, target.parent)))
        write(target, results)  # after each: nothing is lost
        if not as_json:
            console().print(verdicts(exhibit.key, rows))
    if as_json:
        found = {
            e.key: [{"claim": r.claim, "measured": r.measured, "verdict": r.verdict, "why": r.why} for r in rows]
            for e, rows, _ in results
        }
        typer.echo(json.dumps(found, ensure_ascii=False, indent=1))
    else:
        typer.echo(f"written: {target}, and the pictures in {out}")
    if len(results) < len(exhibits):
        raise typer.Exit(INTERRUPTED)
