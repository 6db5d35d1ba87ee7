"""Processes that work side by side, and end at once when whoever waits for them is stopped.

A terminal sends Ctrl-C to all of them. The one that waits says what became of the work; those that work have nothing to say, least
of all a traceback from the middle of an import. So they start deaf to it, and hear it as soon as it just ends them.
"""

import concurrent.futures
import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Processes(concurrent.futures.ProcessPoolExecutor):
    """A pool that is left at once by an exception: what its processes are doing is given up, not waited for."""

    def __init__(self, count: int):
        super().__init__(count, mp_context=multiprocessing.get_context("spawn"), initializer=_end_without_a_word)

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        with _deaf():  # processes are started here, and inherit it
            return super().submit(*args, **kwargs)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        if kind is not None:
            working = list((self._processes or {}).values())  # `terminate_workers` from Python 3.14 on
            self.shutdown(wait=False, cancel_futures=True)
            for process in working:
                process.terminate()
        return super().__exit__(kind, error, trace)


@contextmanager
def _deaf() -> Iterator[None]:
    if os.name != "posix":
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # it would open the ears again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_without_a_word() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if os.name == "posix":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # one that came before ends it now
