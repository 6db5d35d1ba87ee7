"""What the commands share: exit codes, messages on the terminal, folders, and plain data."""

import math
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import typer

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def console(stderr: bool = False) -> Any:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, emoji=False)


def speak_plainly() -> None:
    """A terminal that knows only ASCII gets question marks for what it cannot show, and no traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def fail(message: str, code: int) -> NoReturn:
    console(stderr=True).print(f"[bold red]error:[/bold red] {escape_markup(message)}", soft_wrap=True)
    raise typer.Exit(code)


def end_of_run(status: Any) -> None:
    """The exit code says how a run ended; a good end says nothing."""
    if not status.ok:
        fail(status.message, FAILED)
    if status.name == "interrupted":
        fail(status.message, INTERRUPTED)


def note(message: str) -> None:
    console(stderr=True).print(f"[yellow]note:[/yellow] {escape_markup(message)}", soft_wrap=True)


def escape_markup(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--out {path}: the folder cannot be made ({error.strerror})") from error
    if not os.access(path, os.W_OK):
        raise ValueError(f"--out {path}: the folder cannot be written to")


def plain(value: Any) -> Any:
    """What JSON can hold: numbers that are not finite become null."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def lists(params: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    return {key: np.asarray(value).tolist() for key, value in params.items()}
