"""Functions whose captures cannot all be read are told apart by what they compute.

    freeze(function)             one object for each set of values that can be read
    settle(frozen, arguments)    one of these for each computation that it is, where some values cannot be

A function that is written down in full (`lasting`) is settled as it is. Any other is traced whenever it is used, a millisecond or
so: what a file, a setting, an object of another package answers at that moment is part of the function, and another answer is
another function, for which another program is compiled.
"""

from typing import Any

from carom.closures.frozen_function import Frozen, again
from carom.closures.lasting import Unsure, lasting


def written_down(function: Any) -> bool:
    """Is all that the function captures read by value, beyond doubt? Asked once for a frozen one."""
    if isinstance(function, Frozen) and function.sure is not None:
        return function.sure
    try:
        lasting(function)
        sure = True
    except Unsure:
        sure = False
    if isinstance(function, Frozen):
        function.sure = sure
    return sure


def settle(function: Frozen, given: dict[str, Any]) -> Frozen:
    """`given` are placeholders for its arguments, by name."""
    return function if written_down(function) else again(function, given)
