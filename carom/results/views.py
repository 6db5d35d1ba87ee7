"""What folders above this one make of a solution: they say so here when they are asked for, and are loaded no earlier.

`carom/__init__.py`, which knows every folder, fills the list; nothing below imports what stands above.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from carom.calls import answering

_HOMES: dict[str, str] = {}


def register(**homes: str) -> None:
    """Names of views, and where each is found: "module:function"."""
    _HOMES.update(homes)


def view(name: str) -> Callable[..., Any]:
    """A function of a solution. It answers an option that it does not have with those it has."""
    module, function = _HOMES[name].split(":")
    return answering(getattr(import_module(module), function), name.partition("_")[0], 1)
