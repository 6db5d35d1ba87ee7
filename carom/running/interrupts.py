"""Ctrl-C while a run is computed: the run ends where it is, and so does the loop it stands in.

A run that is stopped is returned with what there is. But a loop of runs would go on with the next one, and short runs, which are
over before they look, would never be stopped at all. So the request is handed on: a run that starts within a second of one that was
stopped raises KeyboardInterrupt instead. What people do by hand takes longer.
"""

import signal
import threading
import time
from typing import Any, Self

SOON = 1.0  # seconds
_pressed: list[float] = []  # when the last run was left that had been asked to stop; empty where nobody waits for an answer


class Interrupt:
    """Ctrl-C asks once and insists the second time; only where nobody else has taken the signal."""

    def __init__(self) -> None:
        self.asked = self.taken = False
        self.here = threading.current_thread() is threading.main_thread()
        if self.here and heard() is not None:
            raise KeyboardInterrupt("Ctrl-C was pressed in the run before this one")

    def __enter__(self) -> Self:
        if self.here and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self.taken = True
            signal.signal(signal.SIGINT, self._handle)
        return self

    def _handle(self, *_: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *_: Any) -> None:
        if self.taken:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.asked and self.here:
            _pressed[:] = [time.monotonic()]


def heard() -> float | None:
    """How long ago a run was stopped, if that is not for the next run to forget; asked once."""
    ago = [time.monotonic() - when for when in _pressed]
    _pressed.clear()
    return ago[0] if ago and ago[0] < SOON else None
