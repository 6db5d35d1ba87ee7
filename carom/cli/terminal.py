"""What the commands share: exit codes, messages on the terminal, folders, and plain data."""

import _thread
import codecs
import errno
import math
import os
import signal
import sys
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
AGAIN = 0.01  # seconds


def console(stderr: bool = False) -> Any:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, emoji=False)


def speak_plainly() -> None:
    """A terminal that knows only ASCII gets the nearest it can show (us for µs, theta for θ), and no traceback."""
    codecs.register_error("carom.nearest", lambda error: ("".join(map(_nearest, error.object[error.start : error.end])), error.end))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="carom.nearest")


_SIGNS = {
    "·": ".",
    "×": "x",
    "–": "-",
    "—": "-",
    "−": "-",
    "…": "...",
    "≤": "<=",
    "≥": ">=",
    "±": "+-",
    "→": "->",
    "√": "sqrt ",
    "∂": "d",
}
_SIGNS |= {"§": "sec. ", "µ": "u", "‘": "'", "’": "'", "“": '"', "”": '"'}


def _nearest(sign: str) -> str:
    """In ASCII: θ is theta, ² is ^2, é is e; a question mark for what has no such thing."""
    if sign in _SIGNS:
        return _SIGNS[sign]
    name = unicodedata.name(sign, "")
    if name.startswith("GREEK SMALL LETTER "):
        return name.split()[3].lower()
    found = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode()
    return ("^" if "SUPERSCRIPT" in name else "") + found if found else "?"


class Stoppable(TyperGroup):
    """All commands. Ctrl-C that none of them has taken, as while something is loaded or compiled, ends in a line."""

    def invoke(self, ctx: Any) -> Any:
        import carom

        try:
            if signal.getsignal(signal.SIGINT) is carom._leave:  # taken while everything was being loaded
                signal.signal(signal.SIGINT, signal.default_int_handler)
            return super().invoke(ctx)
        except KeyboardInterrupt:
            fail("stopped before it was done", INTERRUPTED)


def hear_every_interrupt() -> None:
    """Python drops what is raised in a callback of its garbage collector (JAX has one): a Ctrl-C that falls there is sent again."""
    before = sys.unraisablehook

    def hook(dropped: Any) -> None:
        if dropped.exc_type is not None and issubclass(dropped.exc_type, KeyboardInterrupt):
            again = threading.Timer(AGAIN, _press)  # not here: it would be dropped with this call
            again.daemon = True
            again.start()
        else:
            before(dropped)

    sys.unraisablehook = hook


def _press() -> None:
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # it wakes one that sleeps, too
    else:
        _thread.interrupt_main()


def fail(message: str, code: int) -> NoReturn:
    console(stderr=True).print(f"[bold red]error:[/bold red] {escape_markup(message)}", soft_wrap=True)
    raise typer.Exit(code)


def end_of_run(status: Any) -> None:
    """The exit code says how a run ended; a good end says nothing."""
    if not status.ok:
        fail(status.message, FAILED)
    if status.name == "interrupted":
        fail(status.message, INTERRUPTED)


@contextmanager
def to_the_end() -> Iterator[None]:
    """All that a command says, up to the last line. A reader that goes away before is no error; a full disk is one."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        _say_no_more()
        sys.exit(OK)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        _say_no_more()
        print(f"error: the output cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(FAILED)


def _say_no_more() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # when Python flushes at its end


@contextmanager
def after_the_run(out: Path | None, page: Any = None) -> Iterator[None]:
    """Ctrl-C once the steps are done, while the results are summed up and written.

    Who watches (on a `page`) sees that the run is over before that, and presses to end it: the results are finished first."""
    try:
        with _finished_first(page) if page is not None else nullcontext():
            yield
    except KeyboardInterrupt:
        if page is not None:
            page.close()
        there = out is not None and (out.is_file() or (out.is_dir() and any(out.iterdir())))
        told = f"what was ready is in {out}" if there else "nothing is written"
        fail(f"stopped after the last step, before the results were ready; {told}", INTERRUPTED)


@contextmanager
def _finished_first(page: Any) -> Iterator[None]:
    """The first Ctrl-C ends the page after all that is done meanwhile, the second one at once."""
    before, pressed = signal.getsignal(signal.SIGINT), []

    def once(*_: Any) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(True)
        note("the run is over: its results are finished, and then the page ends (Ctrl-C again drops them)")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        page.close()


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
