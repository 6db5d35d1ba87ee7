"""What the commands share: exit codes, messages on the terminal, folders, plain data, and the cache of compiled programs."""

import math
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import typer

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
CACHE_FROM = 0.2  # seconds: what compiles faster is not worth a file


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


def use_cache() -> None:
    """Keep compiled programs between runs. Without a folder to write to, everything works as before, only slower to start."""
    import jax

    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    place = _cache_folder()
    try:
        place.mkdir(parents=True, exist_ok=True)
        if not os.access(place, os.W_OK):
            return
    except (OSError, RuntimeError):
        return
    jax.config.update("jax_compilation_cache_dir", str(place))
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(place)  # for processes started from here
    jax.config.update("jax_persistent_cache_min_compile_time_secs", CACHE_FROM)


def _cache_folder() -> Path:
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "carom"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "carom"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "carom"
    return Path.home() / ".cache" / "carom"
