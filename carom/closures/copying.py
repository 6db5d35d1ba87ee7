"""A function, with everything that it captures and that somebody could change, copied."""

import array
import collections
import functools
import types
from typing import Any

import jax
import numpy as np

from carom.closures.code_reads import what_is_read
from carom.closures.insides import (
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
    state_of,
)
from carom.closures.reading import PLAIN, Reader, pairs_of


class Copier:
    """Copies a function with everything that it captures and that somebody could change, as far as a Reader has read it."""

    def __init__(self, reader: Reader) -> None:
        self.left, self.lists_names = reader.left, reader.lists_names
        self.copies: dict[int, Any] = {}
        self.alive: list[Any] = []
        self.attributes: frozenset[str] = frozenset()
        self.uncopied: list[tuple[Any, frozenset[str]]] = []  # what stays the same object, and which attributes of it are read
        self.told: dict[int, set[str]] = {}  # the names of each module that were copied

    def copy(self, x: Any) -> Any:
        if type(x) is np.void:
            return x.copy()
        if type(x) in PLAIN or id(x) in self.left or isinstance(x, (np.generic, jax.core.Tracer, jax.Array)):
            return x
        if isinstance(x, types.ModuleType) and not installed(x.__name__):
            return self.module(x)  # whenever it is met: every function reads other names of it
        if id(x) in self.copies:
            return self.copies[id(x)]
        self.alive.append(x)
        self.copies[id(x)] = x  # for those that refer to themselves, unless a better one is known soon
        self.copies[id(x)] = copied = self.compound(x)
        return copied

    def compound(self, x: Any) -> Any:
        jitted = inside_jit(x)
        if isinstance(x, np.ndarray):
            return self.array(x) if x.dtype != object else self.objects(x)
        if isinstance(x, types.FunctionType):
            return x if is_library(x) else self.function(x)
        if jitted is not None:
            return x if is_library(jitted) else self.copy(jitted)
        if isinstance(x, types.ModuleType):
            return x
        if isinstance(x, type):
            if not is_library(x):  # what it holds may be changed, and what its methods read, and its bases
                self.uncopied.append((x, self.attributes))
            return x
        if type(x) in (list, tuple, set, frozenset):
            return type(x)(self.copy(y) for y in x)
        if isinstance(x, tuple) and hasattr(type(x), "_make"):
            return x._make(self.copy(y) for y in x)  # pyright: ignore[reportAttributeAccessIssue]
        if isinstance(x, (dict, list, collections.deque, array.array, types.MappingProxyType)):
            return self.container(x)
        if isinstance(x, functools.partial) and is_library(type(x)):  # JAX has one of its own
            copied = type(x)(self.copy(x.func), *self.copy(x.args), **self.copy(x.keywords))
            vars(copied).update({name: self.copy(value) for name, value in vars(x).items()})
            return copied
        if isinstance(x, types.MethodType):
            return types.MethodType(self.copy(x.__func__), self.copy(x.__self__))
        return self.object(x)

    def array(self, x: np.ndarray) -> np.ndarray:
        """What an array of one's own class holds besides does not always go along; packages see to that for theirs."""
        copied, own = x.copy(), dict_of(x)
        if own and not from_package(x):
            self.copy(type(x))
            vars(copied).update({name: self.copy(value) for name, value in own.items()})
        return copied

    def objects(self, x: np.ndarray) -> np.ndarray:
        copied = np.empty_like(x)
        copied.ravel()[:] = [self.copy(y) for y in x.ravel()]
        return copied

    def container(self, x: Any) -> Any:
        """Dicts and lists, and what is made of them: through the functions of Python's own, since theirs may do anything."""
        if isinstance(x, dict):
            self.uncopied += [(key, self.attributes) for key in dict.keys(x) if type(key) not in PLAIN]
        if type(x) is dict:
            return {key: self.copy(value) for key, value in x.items()}
        if isinstance(x, types.MappingProxyType):
            return types.MappingProxyType({key: self.copy(value) for key, value in x.items()})
        if isinstance(x, array.array):
            return x[:]
        self.copy(type(x))
        if isinstance(x, collections.deque):
            copied: Any = collections.deque.__new__(type(x))
            collections.deque.__init__(copied, [self.copy(y) for y in x], x.maxlen)
        elif isinstance(x, list):
            copied = list.__new__(type(x))
            list.extend(copied, [self.copy(y) for y in x])
        else:
            kind = collections.OrderedDict if isinstance(x, collections.OrderedDict) else dict
            copied = kind.__new__(type(x))
            for key, value in pairs_of(x):
                kind.__setitem__(copied, key, self.copy(value))
        if isinstance(x, collections.defaultdict):
            copied.default_factory = self.copy(x.default_factory)
        if own := dict_of(x):
            vars(copied).update({name: self.copy(value) for name, value in own.items()})
        return copied

    def function(self, f: types.FunctionType) -> types.FunctionType:
        reads = what_is_read(f.__code__)
        if reads.writes or {"globals", "eval", "exec"} & set(reads.names):
            return f  # it means the variables themselves
        outer, self.attributes = self.attributes, self.attributes | reads.attributes
        cells = tuple(types.CellType() for _ in f.__closure__ or ())
        known = f.__globals__ if installed(home(f)) else {}
        scope: dict[str, Any] = known or {n: f.__globals__[n] for n in f.__globals__ if n.startswith("__")}
        copied = types.FunctionType(f.__code__, scope, f.__name__, None, cells or None)
        self.copies[id(f)] = copied
        for name, cell, old in zip(f.__code__.co_freevars, cells, f.__closure__ or (), strict=True):
            try:
                value = old.cell_contents
            except ValueError:
                continue
            cell.cell_contents = value if name in reads.grown else self.copy(value)
        for name in reads.names if not known else ():
            if name in f.__globals__:
                scope[name] = f.__globals__[name] if name in reads.grown else self.copy(f.__globals__[name])
            else:
                scope.update((name, self.copy(x)) for x in in_builtins(name))
        self.uncopied += [(module, self.attributes) for module in imported(f)]  # the copy will import them as they are
        copied.__defaults__, copied.__kwdefaults__ = self.copy(f.__defaults__), self.copy(f.__kwdefaults__)
        copied.__dict__.update(self.copy(f.__dict__))
        copied.__module__, copied.__qualname__, copied.__doc__ = f.__module__, f.__qualname__, f.__doc__
        self.attributes = outer
        return copied

    def module(self, x: types.ModuleType) -> types.ModuleType:
        copied = self.copies.get(id(x))
        if copied is None:
            if self.lists_names:
                return x
            copied = self.copies[id(x)] = types.ModuleType(x.__name__)
            self.alive.append(x)
            copied.__dict__.update({name: value for name, value in vars(x).items() if name.startswith("__")})
            copied.__dict__["__getattr__"] = functools.partial(getattr, x)  # names that no text shows are what they are now
            self.uncopied += [(vars(x)["__getattr__"], self.attributes)] if "__getattr__" in vars(x) else []
        told = self.told.setdefault(id(x), set())
        new = self.attributes & vars(x).keys() - told
        told.update(new)
        copied.__dict__.update({name: self.copy(vars(x)[name]) for name in new})
        return copied

    def object(self, x: Any) -> Any:
        state = None if keeps_to_itself(x) else state_of(x)
        if state is None or (str(type(x).__module__).startswith("jax.") and not callable(x)):
            return x  # JAX knows its shapes and trees by identity, and nobody changes them
        self.copy(type(x))
        try:
            copied = bare(type(x))
        except TypeError:  # part of it is written in C
            if not from_package(x):
                self.uncopied.append((x, self.attributes))
            return x
        self.copies[id(x)] = copied
        own = dict_of(x) or {}
        for name, value in state.items():
            if name in own:  # not as an attribute: a class may have a property of that name
                vars(copied)[name] = self.copy(value)
            else:
                object.__setattr__(copied, name, self.copy(value))
        return copied
