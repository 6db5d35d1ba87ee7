"""What follows from an object that does not change, found once for each object and forgotten with it."""

import functools
import weakref
from collections.abc import Callable
from typing import Any

MOST = 256  # objects; a program that makes systems by the thousand keeps what it needs of the last ones


def per_object(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """function(x), asked once for each object x, by identity: modules with arrays in them have no hash, and comparing them by value
    would take longer than most of what is asked. For functions of what cannot change alone; exceptions are not remembered."""
    known: dict[int, tuple[Any, Any]] = {}

    @functools.wraps(function)
    def found(x: Any) -> Any:
        entry = known.get(id(x))
        if entry is not None and entry[0]() is x:
            return entry[1]
        value, key = function(x), id(x)
        if len(known) >= MOST:
            known.clear()
        known[key] = weakref.ref(x, lambda gone: known.pop(key, None) if known.get(key, (None,))[0] is gone else None), value
        return value

    return found
