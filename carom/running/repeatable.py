"""Functions that return something else each time, or change what they capture: noise from numpy, a clock, a counter.

A function is traced once, and the numbers that it found at that moment stay for the whole run: noise that is drawn inside a force
is one constant, and a counter counts how often the function is traced. Whatever is written down in full (`closures.lasting`) and
leaves what it captures as it was cannot do this; all others are traced a second time and compared. What has changed after the
first time only (a value that is computed once and kept) is let pass.
"""

from collections.abc import Callable
from typing import Any

import jax

from carom.closures.reading import Reader
from carom.closures.settled import written_down
from carom.closures.traced import content
from carom.errors import InputError
from carom.named import Named


def captured(function: Named) -> tuple:
    """What a function captures, at this moment."""
    return Reader().read(getattr(function.function, "function", function.function))


def check_repeatable(function: Named, before: tuple, closed: Any, trace_again: Callable[[], Any]) -> None:
    """`before` is what it captured before it was traced, `closed` what was traced."""
    after = captured(function)
    if after == before and written_down(function.function):
        return
    again = trace_again()
    if after != before and captured(function) != after:
        raise InputError(
            f"the {function.role} changes a value that it captures, each time it is asked (a counter, a list that it fills?): it "
            "is traced a few times and compiled, so a run would see the changes of that moment alone. Hand what changes with the "
            "motion over as a coordinate, a controller's memory or params, and look at the motion with callback="
        )
    if any(isinstance(const, jax.core.Tracer) for const in again.consts):
        raise InputError(
            f"the {function.role} keeps a value of one call for the next one: while it is traced, what jax.numpy computes is a "
            "placeholder of that call. Compute such values before, outside of it"
        )
    if list(content(closed)) != list(content(again)):
        raise InputError(
            f"the {function.role} is another one each time it is asked (chance, a clock, a counter?): it is compiled once, and "
            "the numbers of that moment would stay for the whole run. Draw them before, and hand them over through params, "
            "as a table over t for example"
        )
