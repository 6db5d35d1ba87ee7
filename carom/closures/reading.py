"""What a function computes, as one tuple: its code, and the values that the code reads."""

import array
import builtins
import collections
import dis
import enum
import functools
import hashlib
import importlib
import os
import sys
import types
import weakref
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), range, slice, np.dtype)
_USUAL = frozenset([types.FunctionType, tuple, list, dict])  # neither arrays nor modules
_GROWERS = frozenset(["append", "extend", "insert", "setdefault", "update", "pop", "add", "clear", "remove"])
_LARGEST = 50_000  # parts of one function; what lies beyond is compared by identity
_BLIND = frozenset(["globals", "eval", "exec", "open"])  # ways to values that the text of a function does not show
_OPEN = frozenset(["types.SimpleNamespace", "argparse.Namespace"])  # of Python's own classes: they are what their attributes are
_OPEN |= {"collections.UserDict", "collections.UserList", "collections.ChainMap"}
_OUTSIDE = frozenset(["environ", "getenv", "load", "loadtxt", "genfromtxt", "fromfile", "memmap"])  # of os and numpy


class _Reads(NamedTuple):
    """What a code object refers to."""

    key: tuple  #                   the code itself, wherever it was written
    names: tuple[str, ...]  #       globals
    attributes: frozenset[str]  #   of anything
    grown: frozenset[str]  #        captured containers that the code changes
    writes: bool  #                 it assigns to globals or to captured variables
    imports: frozenset[str]  #      modules that the code imports when it runs


@functools.lru_cache(4096)
def what_is_read(code: types.CodeType) -> _Reads:
    names: dict[str, None] = {}
    attributes: set[str] = set()
    grown: set[str] = set()
    imports: set[str] = set()
    writes, last = False, ""
    constants: list[Any] = []
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names[step.argval] = None
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.add(step.argval)
            if step.argval in _GROWERS and last:
                grown.add(last)
        elif step.opname == "IMPORT_NAME":
            imports.add(step.argval)
        elif step.opname == "IMPORT_FROM":
            attributes.add(step.argval)
        elif step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            writes = True
        elif step.opname in ("STORE_DEREF", "DELETE_DEREF"):
            writes |= step.argval in code.co_freevars
        last = step.argval if step.opname in ("LOAD_GLOBAL", "LOAD_DEREF") else ""
    for constant in code.co_consts:
        attributes |= {word for word in _texts(constant) if word.isidentifier()}  # getattr(module, "gravity")
        if isinstance(constant, types.CodeType):
            inner = what_is_read(constant)
            names |= dict.fromkeys(inner.names)
            attributes |= inner.attributes
            grown |= inner.grown
            writes |= inner.writes
            imports |= inner.imports
            constants.append(inner.key)
        else:  # a set is written in the order of its hashes, which is another one in every process
            written = sorted(map(repr, constant)) if isinstance(constant, frozenset) else repr(constant)
            constants.append((type(constant).__name__, str(written)))
    shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_exceptiontable)
    key = (code.co_code, tuple(constants), code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, *shape)
    return _Reads(key, tuple(names), frozenset(attributes), frozenset(grown), writes, frozenset(imports))


def _texts(constant: Any) -> tuple[str, ...]:
    several = constant if isinstance(constant, (tuple, frozenset)) else (constant,)
    return tuple(x for x in several if isinstance(x, str))


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


@functools.lru_cache(1024)
def _is_module(kind: type) -> bool:
    return issubclass(kind, eqx.Module)


@functools.lru_cache(1024)
def installed(module: str) -> bool:
    """Does a module belong to Python or to an installed package? Those are taken to be constant."""
    root = module.partition(".")[0]
    if root in sys.stdlib_module_names or root == __name__.partition(".")[0]:
        return True
    file = getattr(sys.modules.get(root), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file


def attribute(x: Any, name: str) -> Any:
    """An attribute, or None: objects with a `__getattr__` of their own may answer with any exception."""
    try:
        return getattr(x, name, None)
    except Exception:
        return None


def home(f: types.FunctionType) -> str:
    """The module whose globals a function reads. What it says of itself may be another one's, by functools.wraps; what `exec` makes
    has none."""
    return f.__globals__.get("__name__") or ""


def is_library(x: Any) -> bool:
    """A function or class on the top level of an installed package."""
    inner = "<locals>" in (attribute(x, "__qualname__") or "") or attribute(x, "__closure__") is not None
    where = home(x) if isinstance(x, types.FunctionType) else attribute(x, "__module__") or "builtins"
    return not inner and isinstance(where, str) and installed(where)


def in_builtins(name: str) -> list[Any]:
    """What a name means that no module has: something that was put among Python's own names, in a list; or nothing."""
    found = [vars(builtins)[name]] if name in vars(builtins) and name != "NotImplemented" else []
    return [x for x in found if not (isinstance(x, (type, types.BuiltinFunctionType, types.FunctionType)) and is_library(x))]


def inside_jit(x: Any) -> Any:
    """The function inside `jax.jit(function)`, or None."""
    inner = attribute(x, "__wrapped__")
    return inner if inner is not None and attribute(x, "lower") is not None and not isinstance(x, types.FunctionType) else None


def state_of(x: Any) -> dict[str, Any] | None:
    """The attributes of an object; None if it hides them."""
    slots = [s for c in type(x).__mro__ for s in _slots(c)]
    if not hasattr(x, "__dict__") and not slots:
        return None
    return {**getattr(x, "__dict__", {}), **{s: getattr(x, s) for s in slots if hasattr(x, s)}}


def _slots(cls: type) -> tuple[str, ...]:
    slots = vars(cls).get("__slots__", ())
    slots = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(s for s in slots if s not in ("__dict__", "__weakref__"))


def keeps_to_itself(x: Any) -> bool:
    """Members of enumerations, and what Python's own library is made of (loggers, locks, files): one does not look into these."""
    python = type(x).__module__.partition(".")[0] in sys.stdlib_module_names
    return isinstance(x, enum.Enum) or (python and f"{type(x).__module__}.{type(x).__qualname__}" not in _OPEN)


class Reader:
    """Walks through what a function captures and writes it down."""

    def __init__(self, names: frozenset[str] = frozenset()) -> None:
        self.tokens: list[Any] = []
        self.kept: list[Any] = []
        self.methods: list[tuple[str, Any, frozenset[str]]] = []  # of classes, that nobody has called so far
        self.seen: dict[int, int] = {}
        self.alive: list[Any] = []
        self.attributes: frozenset[str] = frozenset()
        self.told: dict[int, set[str]] = {}  # the names of each module that were read
        self.names: set[str] = {"__call__", *names}  # all attributes that any of the functions reads
        self.member = ""  # of a class: which one is being read
        self.blind: list[tuple[str, str]] = []  # members that reach for values which cannot be seen, and how

    def read(self, function: Any) -> tuple:
        self.value(function)
        self.called()
        return tuple(self.tokens)

    def called(self) -> None:
        """The methods that some function which was read calls; those may call others."""
        while due := [method for method in self.methods if method[0] in self.names]:
            self.methods = [method for method in self.methods if method[0] not in self.names]
            for name, value, self.attributes in due:
                self.tokens.append(name)
                self.member = name
                self.value(value)
        self.member = ""

    @property
    def unseen(self) -> str:
        """How the function reaches for values that cannot be seen; methods that nobody calls may do so."""
        return next((how for member, how in self.blind if not member or member in self.names), "")

    def same(self, x: Any) -> None:
        self.tokens += ("is", id(x))
        self.kept.append(x)

    def value(self, x: Any) -> None:
        kind = type(x)
        if kind in PLAIN or issubclass(kind, np.generic):
            self.tokens += (kind.__name__, repr(x))
        elif kind in _USUAL or _is_module(kind):
            self.part(x)
        elif isinstance(x, jax.core.Tracer):
            self.same(x)
        elif isinstance(x, jax.Array):
            self.tokens += ("array", str(x.dtype), x.shape, x.weak_type, _bytes_of(x))
        elif isinstance(x, np.ndarray) and x.dtype != object:
            self.tokens += ("array", str(x.dtype), x.shape, _digest(x))
        elif isinstance(x, types.ModuleType):
            self.module(x)  # whenever it is met: every function reads other names of it
        else:
            self.part(x)

    def part(self, x: Any) -> None:
        """What may have parts, and is written down once."""
        if id(x) in self.seen:
            self.tokens += ("seen", self.seen[id(x)])
        elif len(self.tokens) > _LARGEST:
            self.same(x)
        else:
            self.seen[id(x)] = len(self.seen)
            self.alive.append(x)
            self.compound(x)

    def compound(self, x: Any) -> None:
        kind = type(x)
        if kind is tuple or kind is list:
            return self.all(x, x)
        jitted = inside_jit(x)
        if jitted is None and _is_module(kind):  # whose class cannot be asked for in no time
            return self.object(x)
        if isinstance(x, (types.FunctionType, type, types.BuiltinFunctionType)) and is_library(x):
            self.same(x)
        elif isinstance(x, types.FunctionType):
            self.function(x)
        elif jitted is not None:
            self.same(x) if is_library(jitted) else self.value(jitted)
        elif isinstance(x, type):
            self.own_class(x)
        elif isinstance(x, dict):
            self.all(x, (y for pair in dict.items(x) for y in pair))
        elif isinstance(x, types.MappingProxyType):
            self.all("proxy", (y for pair in x.items() for y in pair))
        elif isinstance(x, np.ndarray):  # of objects
            self.all("objects", (x.shape, *x.ravel()))
        elif isinstance(x, (list, tuple, collections.deque, array.array)):
            self.all(x, x)
        elif isinstance(x, (set, frozenset)):
            self.all(x, sorted(x, key=repr))
        elif isinstance(x, functools.partial):
            self.all("partial", (x.func, x.args, x.keywords))
        elif isinstance(x, types.MethodType):
            self.all("method", (x.__func__, x.__self__))
        elif isinstance(x, (staticmethod, classmethod)):
            self.value(x.__func__)
        elif isinstance(x, functools.cached_property):
            self.value(x.func)
        elif isinstance(x, property):
            self.all("property", (x.fget,))
        else:
            self.object(x)

    def all(self, kind: Any, values: Any) -> None:
        """The values, and what they are held in: a name, or the object itself, whose class may have functions of its own."""
        if not isinstance(kind, str):
            if type(kind) not in (dict, list, tuple, set, frozenset):
                self.value(type(kind))
                self.value(getattr(kind, "__dict__", None))
            kind = type(kind).__qualname__
        self.tokens += (kind, "(")
        for value in values:
            self.value(value)
        self.tokens.append(")")

    def function(self, f: types.FunctionType) -> None:
        reads = what_is_read(f.__code__)
        outer, self.attributes = self.attributes, self.attributes | reads.attributes
        self.names |= reads.attributes
        self.tokens += ("function", reads.key)
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            value = _content(cell)
            self.same(value) if name in reads.grown else self.value(value)
        self.all("defaults", (f.__defaults__, f.__kwdefaults__))
        if f.__dict__:
            self.value(f.__dict__)
        for name in reads.names if not installed(home(f)) else ():
            if name in f.__globals__:
                self.tokens.append(name)
                self.same(f.__globals__[name]) if name in reads.grown else self.value(f.__globals__[name])
                self.blind += _outside(self.member, name, f.__globals__[name], reads.attributes)
            elif name in _BLIND:
                self.blind.append((self.member, f"calls {name}"))
            else:
                self.all("builtin", in_builtins(name))
        for module in imported(f):
            self.module(module)
        self.attributes = outer

    def module(self, x: types.ModuleType) -> None:
        self.tokens += ("module", x.__name__)
        if not installed(x.__name__):
            known, told = vars(x), self.told.setdefault(id(x), set())
            new = sorted(self.attributes & known.keys() - told)
            told.update(new)
            for name in new:
                self.tokens.append(name)
                self.value(known[name])

    def own_class(self, x: type) -> None:
        self.tokens += ("class", x.__qualname__)
        if not is_library(type(x)):
            self.value(type(x))
        outer = self.member
        for name, value in members(x):
            if isinstance(value, _METHODS) and not name.startswith("__"):
                self.methods.append((name, value, self.attributes))
                continue
            self.tokens.append(name)
            self.member = name
            self.value(value)
        self.member = outer
        self.all("bases", x.__bases__)

    def object(self, x: Any) -> None:
        state = None if keeps_to_itself(x) else state_of(x)
        if state is None:
            self.same(x)
            return
        try:
            bare(type(x))
        except TypeError:  # part of it is written in C, and may hide something: np.sin and np.cos have the same attributes, none
            self.same(x)
        self.value(type(x))
        for name, value in state.items():
            self.tokens.append(name)
            self.value(value)


def bare(kind: type) -> Any:
    """An empty object of this class; a TypeError for classes that are written in C, in which something may hide."""
    makes = types.SimpleNamespace if issubclass(kind, types.SimpleNamespace) else object  # in C, too, but all in the open
    return makes.__new__(kind)


_METHODS = (types.FunctionType, staticmethod, classmethod, property, functools.cached_property)


def members(cls: type) -> list[tuple[str, Any]]:
    """What a class adds: its functions, and its data."""
    return [(n, x) for n, x in vars(cls).items() if isinstance(x, _METHODS) or not (n.startswith("__") or n == "_abc_impl")]


def _outside(member: str, name: str, value: Any, attributes: frozenset[str]) -> list[tuple[str, str]]:
    """Does a function that reads this look at files or at the environment?"""
    if value is os.environ or value is os.getenv:
        return [(member, f"reads {name}")]
    here = {x for x in _OUTSIDE & attributes if hasattr(value, x)} if value is os or value is np else ()
    return [(member, f"reads {name}.{min(here)}")] if here else []


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet filled
        return "an empty cell"


def _digest(x: np.ndarray) -> bytes:
    data = np.ascontiguousarray(x).tobytes()
    return data if len(data) <= 64 else hashlib.blake2b(data, digest_size=32).digest()


_DIGESTS: dict[int, tuple[Any, bytes]] = {}  # of arrays that cannot change


def _bytes_of(x: jax.Array) -> bytes:
    found = _DIGESTS.get(id(x))
    if found is not None and found[0]() is x:
        return found[1]
    digest = _digest(np.asarray(jax.random.key_data(x) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x))
    key = id(x)
    _DIGESTS[key] = weakref.ref(x, lambda _: _DIGESTS.pop(key, None)), digest
    return digest
