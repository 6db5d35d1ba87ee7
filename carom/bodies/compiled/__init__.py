"""What a step of a small scene spends its time on, as loops that numba compiles: arrays of a dozen numbers cost by the call.

- `pair_loops`: the points in which pairs of polytopes meet.
- `motion_loops`: free motion, and corners over half-spaces.
- `rows_loops`: rows of contacts and joints, W, what impulses make of velocities, and islands.
- `newton_loops`: Newton's method for contact problems in dense matrices.
- `step_end_loops`: what a step leaves to the next.

Each of their functions has one of the same name that does the same by arrays, is the reference, and bears `by_loops`: where numba
is installed (`pip install 'carom[fast]'`) the compiled one answers in its place. Both agree but for rounding.

Loops are there from the first step on or not at all, so that a run is the same whenever it is repeated: the first world on a
machine waits up to sixteen seconds of one core; from disk they take a third of a second. Each file compiles for itself, since
what numba keeps there does not notice that a function or a constant in another file has changed: constants are arguments.
Signatures are given, so that each is compiled once; arrays have to be as they say (`plain`).
"""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

import numpy as np

from carom.numerics.friction import compiled
from carom.running.progress import said_when_long

P = ParamSpec("P")
T = TypeVar("T")
ONCE = "carom: loops are being compiled for this machine, once; that takes some seconds"
said: list[str] = []  # by this process
OPTIONS = {"fastmath": False, "error_model": "numpy", "nogil": True}


def by_loops(file: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Where numba is there, the function of the same name in this file of `carom.bodies.compiled` answers. By arrays it is
    `function.__wrapped__`."""

    def chosen(by_arrays: Callable[P, T]) -> Callable[P, T]:
        found: list[Callable[P, T]] = []

        @wraps(by_arrays)
        def answer(*args: P.args, **kwargs: P.kwargs) -> T:
            if not compiled.available():
                return by_arrays(*args, **kwargs)
            if not found:  # numba takes its time to be imported, and what it compiles is kept on disk
                with said_when_long(ONCE, False if said else None) as late:
                    found.append(getattr(import_module(f"{__name__}.{file}"), by_arrays.__name__))
                said.extend(late)
            return found[0](*args, **kwargs)

        return answer

    return chosen


def outer(*signatures: str) -> Callable[[Callable[..., Any]], Any]:
    """numba's compiler for what is called from Python: at once, and kept on disk; where there is no place for that, it is compiled
    each time."""
    import numba

    def compile_it(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(list(signatures), cache=True, **OPTIONS)(function)
        except RuntimeError:
            return numba.njit(list(signatures), **OPTIONS)(function)

    return compile_it


def inner(function: Callable[..., Any]) -> Any:
    """The same for what is called from there: a part of it, on disk too."""
    import numba

    compiler: Any = numba.njit
    return compiler(no_cpython_wrapper=True, no_cfunc_wrapper=True, **OPTIONS)(function)


def plain(array: np.ndarray) -> np.ndarray:
    """The array as signatures expect it: in one piece, and one that may be written into."""
    flags = array.flags
    return array if flags.c_contiguous and flags.writeable else array.copy()
