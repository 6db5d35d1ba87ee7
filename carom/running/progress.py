"""A progress bar that appears only when a person is watching work that takes longer than a second."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LOOK_BACK = 600.0  # seconds from which the time left is told: a page of a gallery takes longer than rich's thirty


class Bar:
    """On stderr; `wanted` forces it on or off. Use it in a `with`, and tell it how much is done."""

    def __init__(self, wanted: bool | None = None):
        self.wanted = sys.stderr.isatty() if wanted is None else wanted
        self.patience = 1.0 if wanted is None else 0.0
        self.clock = time.perf_counter()
        self.bar: Any = None
        self.first: tuple[float, int] | None = None

    def __enter__(self) -> "Bar":
        return self

    def update(self, share: float, text: str, count: int | None = None) -> None:
        """`share` of the work is done, from 0 to 1; where things are counted, the bar says how many a second."""
        if count is not None:
            text = f"{text}  {self._rate(count)}"
        if not self.wanted or (self.bar is None and time.perf_counter() - self.clock < self.patience):
            return
        if self.bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeRemainingColumn())
            self.bar = Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=LOOK_BACK)
            self.bar.start()
            self.task = self.bar.add_task(text, total=1.0)
        self.bar.update(self.task, completed=share, description=text)

    def _rate(self, count: int) -> str:
        """From the first time that something was counted: compiling is not slowness."""
        now = time.perf_counter()
        if self.first is None:
            self.first = (now, count)
        seconds, done = now - self.first[0], count - self.first[1]
        if seconds <= 0.2:
            return ""
        return f"{done / seconds:,.0f}/s" if done > seconds else f"{60 * done / seconds:.1f}/min"

    def __exit__(self, *_: Any) -> None:
        if self.bar is not None:
            self.bar.stop()


@contextmanager
def said_when_long(text: str, wanted: bool | None = None, patience: float = 1.0) -> Iterator[list[str]]:
    """A line on stderr if what goes on takes longer than a second, and a person is watching. Gives the list of what was said."""
    said: list[str] = []
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield said
        return

    def say() -> None:
        said.append(text)
        print(text, file=sys.stderr, flush=True)

    timer = threading.Timer(patience, say)
    timer.daemon = True
    timer.start()
    try:
        yield said
    finally:
        timer.cancel()
