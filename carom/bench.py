"""`carom bench`: the benchmarks of the repository, which are not part of the installed package."""

import importlib
from typing import Annotated

import typer

from carom.terminal import BAD_INPUT, fail


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Short runs, for a first look.")] = False,
    only: Annotated[str, typer.Option(help="`tools`: P1 and P2 beside other tools; `many`: P3 and P5.", show_default=False)] = "",
) -> None:
    """Measure carom beside other tools (P1, P2), ensembles (P3) and gases of discs (P5). Run it in a clone of the repository."""
    parts = {"tools": "benchmarks.__main__", "many": "benchmarks.many"}
    if only and only not in parts:
        fail(f"--only takes one of {', '.join(parts)}; got {only!r}", BAD_INPUT)
    try:
        # P3 uses all cores, P1 and P2 stay on one: in this order.
        modules = [importlib.import_module(parts[key]) for key in ([only] if only else ["many", "tools"])]
    except ModuleNotFoundError as error:
        fail(f"the benchmarks are not here ({error.name} is missing): run this in a clone of the repository", BAD_INPUT)
    for module in modules:
        module.main(["--quick"] if quick else [])
