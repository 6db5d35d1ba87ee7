"""One thread for small matrices.

OpenBLAS, which numpy and scipy bring along, spreads even a matrix of a hundred rows over all cores, and its threads wait for each
other by spinning. Where thousands of small systems are solved in turn and other work shares the machine, that costs more than the
arithmetic, by factors of ten; and sums that are split differently round differently. There is no call in numpy for it, so the
library is asked itself. Where it is another one, or none is found, nothing happens.
"""

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import scipy

NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)


_lock = threading.Lock()
_inside = 0
_before: list[int] = []


@contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra of numpy and scipy in one thread, inside of this block. Several threads may be inside at once: the last that
    leaves puts things back."""
    global _inside, _before
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


def threads() -> list[int]:
    """How many threads each copy of OpenBLAS uses now; empty where there is none."""
    return [get() for get, _ in _libraries()]


@cache
def _libraries() -> tuple[tuple[Callable[[], int], Callable[[int], None]], ...]:
    """How many threads each copy of OpenBLAS uses, and how to say it. Copies are looked for where wheels put them."""
    found = []
    for package in (np, scipy):
        home = Path(package.__file__).parent
        for folder in (home.with_name(f"{home.name}.libs"), home / ".dylibs"):
            for path in sorted(folder.glob("*openblas*")):
                try:
                    library = ctypes.CDLL(str(path))
                    found += [_pair(library, name) for name in NAMES if hasattr(library, name.format("set"))][:1]
                except OSError:  # not a library of this machine
                    continue
    return tuple(found)


def _pair(library: ctypes.CDLL, name: str) -> tuple[Callable[[], int], Callable[[int], None]]:
    get, put = getattr(library, name.format("get")), getattr(library, name.format("set"))
    get.restype, put.argtypes, put.restype = ctypes.c_int, [ctypes.c_int], None
    return get, put
