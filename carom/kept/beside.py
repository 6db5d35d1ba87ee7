"""A thread beside the main one: what XLA compiles there needs no Python, and for what is written to disk nobody waits.

Its jobs are done one after the other, in the order in which they came, and a process waits for them when it ends.
"""

import functools
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


@functools.cache
def _worker() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "carom beside")


def beside(job: Callable[[], Any]) -> Future[Any]:
    """What a job returns, once it is done; done here where there can be no other thread, as when the process is ending."""
    try:
        return _worker().submit(job)
    except RuntimeError:
        return at_once(job)


def at_once(job: Callable[[], Any]) -> Future[Any]:
    """The same, done here."""
    done: Future[Any] = Future()
    try:
        done.set_result(job())
    except Exception as error:
        done.set_exception(error)
    return done


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_worker.cache_clear)  # the thread stays behind
