"""What an object is: one's own or a package's, and what can be seen of its insides."""

import builtins
import enum
import functools
import importlib
import inspect
import os
import sys
import types
from typing import Any

from carom.closures.code_reads import what_is_read

_OPEN = frozenset(["types.SimpleNamespace", "argparse.Namespace"])  # of Python's own classes: they are what their attributes are
_OPEN |= {"collections.UserDict", "collections.UserList", "collections.ChainMap"}
_PYTHON = os.path.dirname(os.__file__) + os.sep


@functools.lru_cache(1024)
def installed(module: str) -> bool:
    """Does a module belong to Python or to an installed package? Those are taken to be constant."""
    root = module.partition(".")[0]
    file = _text(attribute(sys.modules.get(root), "__file__"))
    if root in sys.stdlib_module_names:
        return not file or file.startswith(_PYTHON)  # one's own module may be called `test`, or `queue`
    if root == __name__.partition(".")[0]:
        return True
    return "site-packages" in file or "dist-packages" in file


def attribute(x: Any, name: str) -> Any:
    """An attribute, or None: objects with a `__getattr__` of their own may answer with any exception."""
    try:
        return getattr(x, name, None)
    except Exception:
        return None


def _text(x: Any) -> str:
    """Objects with a `__getattr__` of their own may answer with anything."""
    return x if isinstance(x, str) else ""


def from_package(x: Any) -> bool:
    return installed(_text(type(x).__module__))


def home(f: types.FunctionType) -> str:
    """The module whose globals a function reads. What it says of itself may be another one's, by functools.wraps; what `exec` makes
    has none."""
    return f.__globals__.get("__name__") or ""


def is_library(x: Any) -> bool:
    """A function or class on the top level of an installed package."""
    inner = "<locals>" in _text(attribute(x, "__qualname__")) or attribute(x, "__closure__") is not None
    where = home(x) if isinstance(x, types.FunctionType) else attribute(x, "__module__") or "builtins"
    return not inner and isinstance(where, str) and installed(where)


def in_builtins(name: str) -> list[Any]:
    """What a name means that no module has: something that was put among Python's own names, in a list; or nothing."""
    found = [vars(builtins)[name]] if name in vars(builtins) and name != "NotImplemented" else []
    return [x for x in found if not (isinstance(x, (type, types.BuiltinFunctionType, types.FunctionType)) and is_library(x))]


def inside_jit(x: Any) -> Any:
    """The function inside `jax.jit(function)`, or None."""
    if isinstance(x, types.FunctionType) or not from_package(x):
        return None
    inner = attribute(x, "__wrapped__")
    return inner if inner is not None and attribute(x, "lower") is not None else None


def state_of(x: Any) -> dict[str, Any] | None:
    """The attributes of an object; None if it hides them."""
    own, slots = dict_of(x), [s for c in type(x).__mro__ for s in _slots(c)]
    if own is None and not slots:
        return None
    filled = {}
    for name in slots:
        try:
            filled[name] = object.__getattribute__(x, name)
        except AttributeError:
            continue
    return {**(own or {}), **filled}


def dict_of(x: Any) -> dict[str, Any] | None:
    """The attributes that an object holds in a dict, past whatever its class answers when it is asked for them."""
    try:
        found = object.__getattribute__(x, "__dict__")
    except (AttributeError, TypeError):
        return None
    return found if isinstance(found, dict) else None


def _slots(cls: type) -> tuple[str, ...]:
    slots = vars(cls).get("__slots__", ())
    slots = (slots,) if isinstance(slots, str) else tuple(slots)
    hidden = f"_{cls.__name__.lstrip('_')}"  # `__g` of a class C is its attribute `_C__g`
    return tuple(
        f"{hidden}{s}" if s.startswith("__") and not s.endswith("__") else s for s in slots if s not in ("__dict__", "__weakref__")
    )


def keeps_to_itself(x: Any) -> bool:
    """Members of enumerations, and what Python's own library is made of (loggers, locks, files): one does not look into these."""
    python = _text(type(x).__module__).partition(".")[0] in sys.stdlib_module_names
    return isinstance(x, enum.Enum) or (python and f"{type(x).__module__}.{type(x).__qualname__}" not in _OPEN)


def imported(f: types.FunctionType) -> list[types.ModuleType]:
    """Modules of one's own that a function imports when it runs; it would load them in a moment anyway."""
    found = []
    for name in what_is_read(f.__code__).imports:
        package = f.__globals__.get("__package__") or ""
        for full in (name, f"{package}.{name}".rstrip(".")):  # what a relative import means is not written at its name
            if full and not installed(full):
                try:
                    found.append(importlib.import_module(full))
                except Exception:  # it will fail once more, where the function is called, and be told there
                    continue
    return found


def bare(kind: type) -> Any:
    """An empty object of this class; a TypeError for classes that are written in C, in which something may hide, and for those that
    clear up when they go (a copy would close what the original holds)."""
    if inspect.getattr_static(kind, "__del__", None) is not None:
        raise TypeError(f"{kind.__name__} has a __del__")
    makes = types.SimpleNamespace if issubclass(kind, types.SimpleNamespace) else object  # in C, too, but all in the open
    return makes.__new__(kind)


METHODS = (types.FunctionType, staticmethod, classmethod, property, functools.cached_property)


_OF_PYTHON = frozenset(
    ["__module__", "__dict__", "__weakref__", "__slots__", "__qualname__", "__doc__", "__annotations__", "__hash__"]
)
_OF_PYTHON |= {"__firstlineno__", "__static_attributes__", "__orig_bases__", "__parameters__", "__annotate_func__", "__annotate__"}
_OF_PYTHON |= {"__abstractmethods__", "_abc_impl", "__dataclass_fields__", "__dataclass_params__", "__annotations_cache__"}


def members(cls: type) -> list[tuple[str, Any]]:
    """What a class adds: its functions, and its data."""
    return [(n, x) for n, x in vars(cls).items() if isinstance(x, METHODS) or n not in _OF_PYTHON]
