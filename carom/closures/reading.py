"""What a function computes, as one tuple: its code, and the values that the code reads."""

import array
import collections
import functools
import hashlib
import os
import types
import weakref
from collections.abc import Iterable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from carom.closures.code_reads import what_is_read
from carom.closures.insides import (
    METHODS,
    bare,
    dict_of,
    from_package,
    home,
    imported,
    in_builtins,
    inside_jit,
    installed,
    is_library,
    keeps_to_itself,
    members,
    state_of,
)

PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), range, slice, np.dtype)
_USUAL = frozenset([types.FunctionType, tuple, list, dict])  # neither arrays nor modules
_LARGEST = 50_000  # parts of one function; what lies beyond is left as it is
_DEEPEST = 100  # things that hold one another: Python calls no more than a thousand functions within one another
_BLIND = frozenset(["globals", "eval", "exec", "open"])  # ways to values that the text of a function does not show
_PRINTED = frozenset(["__doc__", "__annotations__"])  # what is said of functions and classes, and not read
_OUTSIDE = frozenset(["environ", "getenv", "load", "loadtxt", "genfromtxt", "fromfile", "memmap"])  # of os and numpy


@functools.lru_cache(1024)
def _is_module(kind: type) -> bool:
    return issubclass(kind, eqx.Module)


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
        self.left: dict[int, Any] = {}  # too many, too deep, or found by what they are: no copy can stand for these
        self.depth = 0
        self.lists_names = False  # some function asks a module for all its names

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
        if kind is np.void:
            self.tokens += ("row", str(x.dtype), x.tobytes())
        elif kind in PLAIN or issubclass(kind, np.generic):
            self.tokens += (kind.__name__, repr(x))
        elif kind in _USUAL or _is_module(kind):
            self.part(x)
        elif isinstance(x, jax.core.Tracer):
            self.same(x)
        elif isinstance(x, jax.Array):
            self.tokens += ("array", str(x.dtype), x.shape, x.weak_type, _bytes_of(x))
        elif isinstance(x, np.ndarray) and x.dtype != object:
            self.tokens += ("array", str(x.dtype), x.shape, _digest(x))
            if kind is not np.ndarray:  # masked ones, those with units
                self.value(kind)
                self.value(dict_of(x))
        elif isinstance(x, types.ModuleType):
            self.module(x)  # whenever it is met: every function reads other names of it
        else:
            self.part(x)

    def part(self, x: Any) -> None:
        """What may have parts, and is written down once."""
        if id(x) in self.seen:
            self.tokens += ("seen", self.seen[id(x)])
        elif len(self.tokens) > _LARGEST or self.depth > _DEEPEST:
            self.leave(x)
            self.same(x)
        else:
            self.seen[id(x)] = len(self.seen)
            self.alive.append(x)
            self.depth += 1
            self.compound(x)
            self.depth -= 1

    def leave(self, x: Any) -> None:
        self.left[id(x)] = x

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
            for key in dict.keys(x):
                if type(key).__hash__ is object.__hash__ and not isinstance(key, type):
                    self.leave(key)
            self.all(x, (y for pair in pairs_of(x) for y in pair))
        elif isinstance(x, types.MappingProxyType):
            self.all("proxy", (y for pair in x.items() for y in pair))
        elif isinstance(x, np.ndarray):  # of objects
            self.all("objects", (x.shape, *x.ravel()))
        elif isinstance(x, (list, tuple, collections.deque, array.array)):
            self.all(x, x)
        elif isinstance(x, (set, frozenset)):
            self.all(x, sorted(x, key=repr))
        elif isinstance(x, functools.partial):
            self.value(kind)
            self.all("partial", (x.func, x.args, x.keywords, dict_of(x)))
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
        self.lists_names |= bool({"vars", "dir"} & set(reads.names) or "__dict__" in reads.attributes)
        self.blind += [(self.member, f"reads {name}") for name in _PRINTED & reads.attributes if not installed(home(f))]
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
            new = sorted((self.attributes | {"__getattr__"}) & known.keys() - told)
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
            if name.startswith("__") != isinstance(value, METHODS) and name != "__match_args__":
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
            for key in x if isinstance(x, weakref.WeakKeyDictionary) else ():
                self.leave(key)
            self.same(x)
            return
        try:
            bare(type(x))
        except TypeError:  # part of it is written in C, and may hide something: np.sin and np.cos have the same attributes, none
            self.same(x)
            if from_package(x):
                return  # what it holds is its own affair, and may change when it is called; tracing shows what it answers
        self.value(type(x))
        for name, value in state.items():
            self.tokens.append(name)
            self.value(value)


def _outside(member: str, name: str, value: Any, attributes: frozenset[str]) -> list[tuple[str, str]]:
    """Does a function that reads this look at files or at the environment?"""
    if value is os.environ or value is os.getenv:
        return [(member, f"reads {name}")]
    here = {x for x in _OUTSIDE & attributes if hasattr(value, x)} if value is os or value is np else ()
    return [(member, f"reads {name}.{min(here)}")] if here else []


def pairs_of(x: dict) -> Iterable[tuple[Any, Any]]:
    """Past what a dict of one's own answers; an OrderedDict has an order of its own."""
    return (collections.OrderedDict if isinstance(x, collections.OrderedDict) else dict).items(x)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet filled
        return "an empty cell"


def _digest(x: np.ndarray) -> bytes:
    data = np.ascontiguousarray(x).tobytes()
    return data if len(data) <= 64 else hashlib.blake2b(data, digest_size=32).digest()


_SMALL = 2**16  # bytes
_DIGESTS: dict[int, tuple[Any, bytes]] = {}  # of arrays that cannot change


def _bytes_of(x: jax.Array) -> bytes:
    found = _DIGESTS.get(id(x))
    if found is not None and found[0]() is x:
        return found[1]
    digest = _digest(np.asarray(jax.random.key_data(x) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x))
    if x.nbytes <= _SMALL:
        return digest  # it may share its memory with an array of numpy (jax.device_put), and is read in no time
    key = id(x)
    _DIGESTS[key] = weakref.ref(x, lambda _: _DIGESTS.pop(key, None)), digest
    return digest
