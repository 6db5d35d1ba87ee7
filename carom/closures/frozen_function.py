"""A function with private copies of what it captures: one object for each set of values."""

import weakref
from collections.abc import Callable
from typing import Any

from carom.closures.copying import Copier
from carom.closures.reading import Reader
from carom.closures.traced import seen
from carom.errors import InputError


class Frozen:
    """A function with private copies of what it captures. Two of them are equal if they are the same object.

    What could not be copied is compared whenever the function is called, which is while a program is made of it: none is made
    of other values than those it was frozen with.
    """

    __slots__ = ("__weakref__", "function", "kept", "key", "names", "origin", "shared", "sight", "sure", "uncopied", "unseen")

    def __init__(self, copied: tuple[Callable[..., Any], Copier], origin: Callable[..., Any], key: tuple, reader: Reader):
        self.function, self.origin, self.key = copied[0], origin, key
        self.kept = reader.kept  # what the key knows by identity must stay alive as long as the key
        self.unseen = reader.unseen  # "calls eval": then nobody can say what it captures
        self.uncopied, self.names = copied[1].uncopied, frozenset(reader.names)
        self.shared = self._uncopied_now()
        self.sight: tuple[dict[str, Any], bytes] | None = None  # placeholders, and what it computed of them (`settled`)
        self.sure: bool | None = False if reader.left else None  # all that it captures is read by value; None: nobody has asked

    def __call__(self, *args: Any, **named: Any) -> Any:
        if not self.unchanged():
            raise InputError(
                f"{getattr(self.origin, '__qualname__', 'a function')} refers to something that has been changed since (a class, "
                "a file, an object that cannot be copied): what it was at the time of this run can no longer be computed. Hand "
                "such numbers over as params, or ask for .v, .energy and .gaps before changing them"
            )
        return self.function(*args, **named)

    def __repr__(self) -> str:
        return f"<frozen {getattr(self.origin, '__qualname__', type(self.origin).__name__)}>"

    def __reduce__(self):
        return freeze, (self.origin,)

    def unchanged(self) -> bool:
        """Does it still compute what it did when it was frozen?"""
        if self.sight is not None and seen(self.function, self.sight[0]) != self.sight[1]:
            return False
        return not self.uncopied or self._uncopied_now() == self.shared

    def _uncopied_now(self) -> list[tuple]:
        found = []
        for thing, attributes in self.uncopied:
            reader = Reader(self.names)
            reader.attributes = attributes
            found.append(reader.read(thing))
        return found


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
        copier = Copier(reader)
        found = Frozen((copier.copy(function), copier), function, key, reader)
        _FROZEN[key] = found
    return found


def again(function: Frozen, given: dict[str, Any]) -> Frozen:
    """The same function, told apart by what it computes of these placeholders at this moment."""
    sight = seen(function.function, given)
    if sight is None or (function.sight is not None and function.sight[1] == sight):
        return function
    key = (*(function.key if function.sight is None else function.key[:-1]), sight)
    found = _FROZEN.get(key)
    if found is None and seen(function.function, given) != sight:
        return function  # chance, a clock: another one each time, which is refused elsewhere
    if found is None:
        found = object.__new__(Frozen)
        for name in ("function", "kept", "names", "origin", "shared", "sure", "uncopied", "unseen"):
            setattr(found, name, getattr(function, name))
        found.key, found.sight = key, (given, sight)
        _FROZEN[key] = found
    return found
