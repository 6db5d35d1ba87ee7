"""A function with private copies of what it captures: one object for each set of values."""

import weakref
from collections.abc import Callable
from typing import Any

from carom.closures.copying import Copier
from carom.closures.reading import Reader


class Frozen:
    """A function with private copies of what it captures. Two of them are equal if they are the same object."""

    __slots__ = ("__weakref__", "function", "kept", "key", "origin", "shared", "unseen")

    def __init__(self, function: Callable[..., Any], origin: Callable[..., Any], key: tuple, reader: Reader, shared: bool):
        self.function, self.origin, self.key = function, origin, key
        self.kept = reader.kept  # what the key knows by identity must stay alive as long as the key
        self.unseen = reader.unseen  # "calls eval": then nobody can say what it captures
        self.shared = Reader().read(function) if shared else None  # where it refers to something that could not be copied

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.function(*args, **named)

    def __repr__(self) -> str:
        return f"<frozen {getattr(self.origin, '__qualname__', type(self.origin).__name__)}>"

    def __reduce__(self):
        return freeze, (self.origin,)

    def unchanged(self) -> bool:
        """Does it still compute what it did when it was frozen?"""
        return self.shared is None or Reader().read(self.function) == self.shared


_FROZEN: "weakref.WeakValueDictionary[tuple, Frozen]" = weakref.WeakValueDictionary()


def freeze(function: Callable[..., Any]) -> Frozen:
    if isinstance(function, Frozen):
        if function.unchanged():
            return function
        function = function.function
    reader = Reader()
    key = reader.read(function)
    found = _FROZEN.get(key)
    if found is None:
        copier = Copier()
        found = Frozen(copier.copy(function), function, key, reader, copier.shared)
        _FROZEN[key] = found
    return found
