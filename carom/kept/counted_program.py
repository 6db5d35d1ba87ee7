"""A compiled program that knows whether a call has compiled it."""

import time
from collections.abc import Callable
from typing import Any

import jax

from carom.kept.keep import hashable_kind, keep_small

REMEMBERED = 256  # kinds of calls


class Program:
    """A function, jitted; equal static arguments and shapes share a compilation."""

    def __init__(self, function: Callable[..., Any]):
        self._traces = 0

        def traced(*args: Any) -> Any:
            self._traces += 1
            return function(*args)

        self._kept = keep_small(traced, function)
        self._known: set[Any] = set()
        self._begun = 0.0  # seconds that tracing ahead took, of a program that nobody has called yet

    def __call__(self, *args: Any) -> Any:
        return self._kept(*args)

    def ahead(self, *args: Any) -> None:
        """Let another thread compile what a call with such arguments will want."""
        before, clock = self._traces, time.perf_counter()
        self._kept.ahead(*args)
        self._begun = time.perf_counter() - clock if self._traces > before else 0.0

    def compile(self, *args: Any) -> float:
        """Call it once, and say how many seconds compiling (or loading) took; where that was done before, none, without a call."""
        kind = hashable_kind(args)
        if kind is not None and kind in self._known:
            return 0.0
        before, clock = self._traces + self._kept.loads - (self._begun > 0), time.perf_counter() - self._begun
        self._begun = 0.0
        jax.block_until_ready(self(*args))
        if kind is not None:
            self._known = {*(self._known if len(self._known) < REMEMBERED else ()), kind}
        return time.perf_counter() - clock if self._traces + self._kept.loads > before else 0.0
