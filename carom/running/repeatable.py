"""Functions that return something else each time: noise from numpy, a clock, a counter.

A function is traced once, and the numbers that it found at that moment stay for the whole run: noise that is drawn inside a force
is one constant. Whatever is written down in full (`closures.lasting`) cannot do this; all others are traced a second time and
compared.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jax.extend import core

from carom.closures.lasting import Unsure, lasting
from carom.errors import InputError
from carom.named import Named


def check_repeatable(function: Named, closed: Any, trace_again: Callable[[], Any]) -> None:
    try:
        lasting(function.function)
    except Unsure:
        if list(_content(closed)) != list(_content(trace_again())):
            raise InputError(
                f"the {function.role} is another one each time it is asked (chance, a clock, a counter?): it is compiled once, and "
                "the numbers of that moment would stay for the whole run. Draw them before, and hand them over through params, "
                "as a table over t for example"
            ) from None


def _content(closed: Any) -> Iterator[tuple[str, bytes]]:
    """The operations and the numbers of a traced computation, in their order."""
    for const in closed.consts:
        yield "const", np.asarray(const).tobytes()
    for eqn in closed.jaxpr.eqns:
        yield eqn.primitive.name, b""
        for given in eqn.invars:
            if isinstance(given, core.Literal):
                yield "literal", np.asarray(given.val).tobytes()
        for value in eqn.params.values():
            for part in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(part, core.ClosedJaxpr):
                    yield from _content(part)
    for out in closed.jaxpr.outvars:
        if isinstance(out, core.Literal):
            yield "result", np.asarray(out.val).tobytes()
