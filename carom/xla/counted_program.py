"""A compiled program that knows whether a call has compiled it."""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

REMEMBERED = 256  # kinds of calls


class Program:
    """A function, jitted; equal static arguments and shapes share a compilation."""

    def __init__(self, function: Callable[..., Any]):
        self._traces = 0

        def traced(*args: Any) -> Any:
            self._traces += 1
            return function(*args)

        self._jitted = eqx.filter_jit(traced)
        self._known: set[Any] = set()

    def __call__(self, *args: Any) -> Any:
        return self._jitted(*args)

    def compile(self, *args: Any) -> float:
        """Call it once, and say how many seconds compiling took; where it was compiled before, none, and it is not called."""
        kind = _kind(args)
        if kind is not None and kind in self._known:
            return 0.0
        before, clock = self._traces, time.perf_counter()
        jax.block_until_ready(self._jitted(*args))
        if kind is not None:
            self._known = {*(self._known if len(self._known) < REMEMBERED else ()), kind}
        return time.perf_counter() - clock if self._traces > before else 0.0


def _kind(args: Any) -> Any:
    """What a compilation depends on, or None where something cannot be hashed."""
    arrays, rest = eqx.partition(args, eqx.is_array)
    leaves, structure = jax.tree.flatten(rest)
    shapes = tuple((x.shape, x.dtype) for x in jax.tree.leaves(arrays))
    kind = structure, tuple(leaves), jax.tree.structure(arrays), shapes
    try:
        hash(kind)
    except TypeError:
        return None
    return kind
