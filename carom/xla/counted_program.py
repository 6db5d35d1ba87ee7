"""A compiled program that knows whether a call has compiled it."""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax


class Program:
    """A function, jitted; equal static arguments and shapes share a compilation."""

    def __init__(self, function: Callable[..., Any]):
        self._traces = 0

        def traced(*args: Any) -> Any:
            self._traces += 1
            return function(*args)

        self._jitted = eqx.filter_jit(traced)

    def __call__(self, *args: Any) -> Any:
        return self._jitted(*args)

    def compile(self, *args: Any) -> float:
        """Call it once, and say how many seconds compiling took: none where it was compiled before."""
        before, clock = self._traces, time.perf_counter()
        jax.block_until_ready(self._jitted(*args))
        return time.perf_counter() - clock if self._traces > before else 0.0
