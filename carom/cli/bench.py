"""`carom bench`: the benchmarks of the repository, which are not part of the installed package."""

import importlib
from pathlib import Path
from typing import Annotated

import typer

from carom.cli.terminal import BAD_INPUT, fail

PARTS = ("tools", "timestepping", "continua", "many", "scaling")
ONLY_HELP = (
    "Some of the parts, with commas: `tools` (one trajectory beside other tools), `timestepping` (contacts that last), "
    "`continua` (bars and a beam), `many` (ensembles and gases), `scaling` (time against size)."
)


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Short runs, for a first look, into out/benchmarks/.")] = False,
    only: Annotated[str, typer.Option(help=ONLY_HELP, show_default=False)] = "",
    repeats: Annotated[int | None, typer.Option(min=1, help="Rounds: 7, with --quick 3.", show_default=False)] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for tables, plots and JSON.", show_default=False)] = None,
    full: Annotated[bool, typer.Option("--full", help="Ten million lanes too, which need much memory.")] = False,
) -> None:
    """Measure carom beside other tools, as `python -m benchmarks` does. Run it in a clone of the repository."""
    unknown = [part for part in only.split(",") if only and part not in PARTS]
    if unknown:
        fail(f"--only takes {', '.join(PARTS)}; got {', '.join(map(repr, unknown))}", BAD_INPUT)
    try:
        benchmarks = importlib.import_module("benchmarks.__main__")
    except ModuleNotFoundError as error:
        fail(f"the benchmarks are not here ({error.name} is missing): run this in a clone of the repository", BAD_INPUT)
    given = {"--only": only, "--repeats": repeats, "--out": out}
    flags = {"--quick": quick, "--full": full}
    benchmarks.main([*(k for k, v in flags.items() if v), *(str(x) for pair in given.items() if pair[1] for x in pair)])
