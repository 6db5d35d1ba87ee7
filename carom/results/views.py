"""What folders above this one make of a solution: they say so here when they are asked for, and are loaded no earlier.

`carom/__init__.py`, which knows every folder, fills the list; nothing below imports what stands above.
"""

import difflib
import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

from carom.errors import InputError

_HOMES: dict[str, str] = {}


def register(**homes: str) -> None:
    """Names of views, and where each is found: "module:function"."""
    _HOMES.update(homes)


def view(name: str) -> Callable[..., Any]:
    """A function of a solution. It answers an option that it does not have with those it has."""
    module, function = _HOMES[name].split(":")
    made = getattr(import_module(module), function)

    @functools.wraps(made)
    def with_known_options(solution: Any, *args: Any, **options: Any) -> Any:
        known = [key for key, entry in inspect.signature(made).parameters.items() if entry.kind is not entry.VAR_KEYWORD][1:]
        for key in options:
            if key not in known:
                close = difflib.get_close_matches(key, known, 1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise InputError(f"{name.partition('_')[0]} has no option {key!r}: it takes {', '.join(known)}{hint}")
        return made(solution, *args, **options)

    return with_known_options
