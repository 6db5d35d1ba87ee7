"""Small matrices on one thread.

OpenBLAS, which numpy brings, shares even a solve with forty unknowns among all cores, and its threads wait for one another by
spinning. On a machine that has something else to do a world then runs twenty times slower. Where problems are small, `one_thread`
turns that off for as long as it lasts; without OpenBLAS it does nothing.
"""

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

_lock = threading.Lock()
_inside = 0
_before: list[int] = []


@cache
def _libraries() -> tuple[tuple[Any, Any], ...]:
    """How to read and to set the number of threads of the OpenBLAS that came with numpy."""
    found = []
    for path in sorted((Path(np.__file__).parent.parent / "numpy.libs").glob("*openblas*")):
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(str(path))
            found.append((library.scipy_openblas_get_num_threads64_, library.scipy_openblas_set_num_threads64_))
    return tuple(found)


def threads() -> list[int]:
    """How many threads it uses now; empty where numpy has no OpenBLAS of its own."""
    return [int(get()) for get, _ in _libraries()]


@contextlib.contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Several may be inside at once, in several threads: the last that leaves puts things back."""
    global _inside, _before
    if not wanted:
        yield
        return
    with _lock:
        if _inside == 0:
            _before = threads()
            for _, put in _libraries():
                put(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                for (_, put), count in zip(_libraries(), _before, strict=True):
                    put(count)
