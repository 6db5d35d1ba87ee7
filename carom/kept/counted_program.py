"""A compiled program that knows whether a call has compiled it, and does without a kernel where the compiler cannot make one."""

import time
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any

import equinox as eqx
import jax

from carom.kept.keep import keep_small, kind_of
from carom.xla.kernel import without_kernels

REMEMBERED = 256  # kinds of calls


class Program:
    """A function, jitted; equal static arguments and shapes share a compilation.

    Some versions of XLA say only when they compile that something cannot be part of a kernel (0.11: arrays of 100 000 numbers).
    Such a kind of call is compiled again with plain loops.
    """

    def __init__(self, function: Callable[..., Any]):
        self._traces = 0

        def traced(*args: Any) -> Any:
            self._traces += 1
            return function(*args)

        self._traced = traced
        self._jitted = self._kept = keep_small(traced, function)
        self._known: set[Any] = set()
        self._refused: set[Any] = set()  # kinds of calls that cannot be a kernel

    @cached_property
    def _plain(self) -> Callable[..., Any]:
        def plain(*args: Any) -> Any:
            with without_kernels():
                return self._traced(*args)

        return eqx.filter_jit(plain)

    def __call__(self, *args: Any) -> Any:
        if self._refused and _kind(args) in self._refused:
            return self._plain(*args)
        try:
            return self._jitted(*args)
        except jax.errors.JaxRuntimeError as error:
            if not str(error).startswith("UNIMPLEMENTED"):
                raise
        warnings.warn(
            f"this run cannot be one kernel with JAX {jax.__version__}, which makes it slower than with other versions of it",
            stacklevel=2,
        )
        self._refused.add(_kind(args))
        return self._plain(*args)

    def compile(self, *args: Any) -> float:
        """Call it once, and say how many seconds compiling (or loading) took; where that was done before, none, without a call."""
        kind = _kind(args)
        if kind is not None and kind in self._known:
            return 0.0
        before, clock = self._traces + self._kept.loads, time.perf_counter()
        jax.block_until_ready(self(*args))
        if kind is not None:
            self._known = {*(self._known if len(self._known) < REMEMBERED else ()), kind}
        return time.perf_counter() - clock if self._traces + self._kept.loads > before else 0.0


def _kind(args: Any) -> Any:
    """What a compilation depends on, or None where something cannot be hashed or nothing is kept."""
    kind, _ = kind_of(args)
    try:
        hash(kind)
    except TypeError:
        return None
    return kind
