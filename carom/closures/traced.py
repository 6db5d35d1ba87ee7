"""What a function computes, seen by tracing it: its operations, how they are joined, and the numbers in them.

What a function captures is read by value wherever that is possible (`reading`). Files, clocks, other people's objects and names
that no text shows hide from that; but whatever they answer stands in the traced computation.
"""

import enum
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.extend import core

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.dtype, enum.Enum)


def seen(function: Callable[..., Any], given: dict[str, Any]) -> bytes | None:
    """A digest of what the function computes of placeholders; None where it cannot be traced, which is told elsewhere."""
    try:
        closed = jax.make_jaxpr(lambda given: function(**given))(given)
        return hashlib.blake2b(repr(list(content(closed))).encode(), digest_size=32).digest()
    except Exception:
        return None


def content(closed: Any) -> Iterator[tuple[Any, ...]]:
    """The operations and the numbers of a traced computation, in their order, and which of the values before each is given."""
    for const in closed.consts:
        yield "const", _bytes(const)
    places: dict[Any, int] = {x: i for i, x in enumerate([*closed.jaxpr.constvars, *closed.jaxpr.invars])}
    for eqn in closed.jaxpr.eqns:
        yield eqn.primitive.name, tuple(_given(x, places) for x in eqn.invars)
        for name, value in sorted(eqn.params.items()):
            yield from _parameter(name, value)
        for out in eqn.outvars:
            places[out] = len(places)
    yield "result", tuple(_given(x, places) for x in closed.jaxpr.outvars)


def _given(x: Any, places: dict[Any, int]) -> Any:
    return ("literal", _bytes(x.val)) if isinstance(x, core.Literal) else places.get(x, -1)


def _parameter(name: str, value: Any) -> Iterator[tuple[Any, ...]]:
    """Of an operation: a number, a text, or a computation inside; whatever else there is says where it lies in memory."""
    if isinstance(value, core.ClosedJaxpr):
        yield from content(value)
    elif isinstance(value, core.Jaxpr):
        yield from content(core.ClosedJaxpr(value, ()))
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _parameter(name, part)
    elif isinstance(value, (np.ndarray, jax.Array)) and not isinstance(value, jax.core.Tracer):
        yield name, _bytes(value)
    elif isinstance(value, _PLAIN):
        yield name, repr(value)


def _bytes(x: Any) -> Any:
    if isinstance(x, jax.core.Tracer):
        return "a value that is being traced", id(x)
    return np.asarray(
        jax.random.key_data(x) if jax.dtypes.issubdtype(getattr(x, "dtype", None), jax.dtypes.prng_key) else x
    ).tobytes()
