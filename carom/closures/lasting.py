"""What a computation is made of, as a digest that means the same in another process; or the admission that nobody can say.

The key of a frozen function holds in one process: it knows some things by their identity. A program that is kept for other
processes needs a key in which nothing is known by identity, and everything that tracing can see is written down. Too much in it
costs a compilation; too little gives a wrong number, silently. So there is no guessing: what is met and is not known to be settled
by what is written down raises `Unsure`, and nothing is kept.

- One's own functions, classes, modules and objects are read by value, as they are when a function is frozen.
- Functions and classes of `KNOWN` packages stand by their names; the versions of these packages have to be part of the key.
- Other installed packages, and those parts of Python and numpy that look at the world (files, clocks, chance, the environment),
  make unsure, and so does code that reaches for names which its text does not show (`getattr`, `globals`, `eval`), that assigns to
  captured variables, or that lets a container grow.
"""

import collections
import hashlib
import sys
import types
from typing import Any

import equinox as eqx
import jax
import numpy as np

from carom.closures.code_reads import what_is_read
from carom.closures.frozen_function import Frozen
from carom.closures.insides import attribute, from_package, home, inside_jit, installed, is_library, members
from carom.closures.reading import Reader

# Packages whose functions of numbers are settled by their versions ...
KNOWN = frozenset({"carom", "jax", "jaxlib", "numpy", "equinox", "jaxtyping"})
# ... and the parts of Python that compute and look at nothing else.
PURE = frozenset({"builtins", "math", "cmath", "functools", "itertools", "operator", "collections", "dataclasses", "enum"})
PURE |= {"typing", "types", "abc", "numbers", "fractions", "copy"}
# Names under which the known packages look at the world: chance, files, settings; and ways to names that no text shows.
WORLDLY = frozenset({"random", "default_rng", "RandomState", "Generator", "environ", "getenv", "modules"})
WORLDLY |= {"load", "loads", "loadtxt", "genfromtxt", "fromfile", "fromregex", "memmap", "open_memmap", "DataSource", "ctypeslib"}
WORLDLY |= {"geterr", "geterrcall", "getbufsize", "get_printoptions"}
WORLDLY |= {"__dict__", "__globals__", "__builtins__", "__code__", "__closure__", "__subclasses__", "__getattribute__"}
HIDDEN = frozenset({"getattr", "setattr", "delattr", "globals", "locals", "vars", "dir", "eval", "exec", "compile", "__import__"})
HIDDEN |= {"open", "input", "print", "breakpoint", "id", "hash"}
_FIELD = type(collections.namedtuple("_Pair", "one other").one)  # of a named tuple: a number and a text
PASSES = 8  # each finds more names that are read of modules; two are usual


class Unsure(Exception):
    """Nothing that is written down would settle what this computes."""


def lasting(*values: Any, homes: set[str] | None = None) -> bytes:
    """A digest of the values and of everything that they refer to. `homes` is given the modules of carom whose functions and
    classes stand in it by their names."""
    attributes: frozenset[str] = frozenset()
    for _ in range(PASSES):
        reader = _Lasting(attributes)
        try:
            for value in values:
                reader.value(value)
        except RecursionError as error:
            raise Unsure("too deep") from error
        if homes is not None:
            homes |= reader.homes
        if reader.every <= attributes:
            return hashlib.blake2b(repr(reader.tokens).encode(), digest_size=32).digest()
        attributes |= reader.every
    raise Unsure("too many names")


def digest_of_own(function: Any) -> str:
    """What a function of one's own computes, as a text for files; empty for those of packages, and where nobody can be sure."""
    if is_library(function):
        return ""
    try:
        return lasting(function).hex()[:16]
    except Unsure:
        return ""


class _Lasting(Reader):
    """Writes down what a Reader does, and names where that knows by identity."""

    def __init__(self, attributes: frozenset[str]) -> None:
        super().__init__()
        self.attributes = attributes  # of modules: all that any of the functions reads
        self.every: frozenset[str] = frozenset()
        self.homes: set[str] = set()

    def same(self, x: Any) -> None:
        """By its name, if that is where it is found."""
        if isinstance(x, types.ModuleType):
            return self.module(x)  # `jnp.add` lets nothing grow
        owner = attribute(x, "__self__")
        if isinstance(x, types.BuiltinFunctionType) and isinstance(owner, type) and owner.__module__ == "builtins":
            self.tokens += ("builtin", x.__qualname__)  # tuple.__new__
            return None
        inner = inside_jit(x)
        module, name = _name(x if inner is None else inner)
        inner = x if inner is None else inner
        if not module:
            raise Unsure(f"{type(x).__name__} is known by identity alone")
        _check_module(module)
        _check_names(name.split("."), module)
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not x and found is not inner and getattr(found, "__wrapped__", None) is not x:
            raise Unsure(f"{module}.{name} is another one")
        self.tokens += ("library", module, name)
        self._at(module)

    def value(self, x: Any) -> None:
        if isinstance(x, Frozen):
            return super().value(x.function)
        if isinstance(x, jax.core.Tracer) or (isinstance(x, np.ndarray) and type(x) is not np.ndarray):
            raise Unsure(type(x).__name__)
        return super().value(x)

    def leave(self, x: Any) -> None:
        raise Unsure(f"{type(x).__name__} is left as it is")

    def compound(self, x: Any) -> None:
        if isinstance(x, collections.defaultdict):
            raise Unsure("a defaultdict has a function of its own")
        own = not isinstance(x, (eqx.Module, types.FunctionType, type)) and not from_package(x)
        if own and not isinstance(x, tuple) and not jax.tree_util.all_leaves([x]):
            raise Unsure(f"how {type(x).__name__} is a tree is said elsewhere")
        if isinstance(x, types.FunctionType) and x.__module__ in (None, "builtins"):
            self.function(x)  # no function of Python's own is written in Python: dataclasses write such for their classes
        elif not isinstance(x, (types.FunctionType, type)) and _name(x)[0].partition(".")[0] in KNOWN:
            self.same(x)  # ufuncs, functions with derivatives of their own
        elif isinstance(x, types.MemberDescriptorType):
            self.tokens += ("slot", x.__name__)
        elif isinstance(x, jax.tree_util.PyTreeDef):
            self.all("tree", (jax.tree.unflatten(x, range(x.num_leaves)),))
        elif type(x) is _FIELD:
            self.tokens.append(repr(x))
        else:
            super().compound(x)

    def function(self, f: types.FunctionType) -> None:
        reads = what_is_read(f.__code__)
        self.every |= reads.attributes
        module = home(f)
        if installed(module):
            _check_module(module)
            self._at(module)
        else:
            self._check_own(reads, f)
        super().function(f)

    def _at(self, module: str) -> None:
        if module.startswith(f"{__name__.partition('.')[0]}."):
            self.homes.add(module)

    def _check_own(self, reads: Any, f: types.FunctionType) -> None:
        grown = [name for name in reads.grown if not isinstance(f.__globals__.get(name), types.ModuleType)]
        if reads.writes or grown:
            raise Unsure(f"{f.__name__} changes what it captures")
        hidden = (HIDDEN & set(reads.names)) - f.__globals__.keys()
        if hidden:
            raise Unsure(f"{f.__name__} calls {min(hidden)}")
        for module in reads.imports:
            _check_module(module)
        _check_names(reads.attributes, "")

    def own_class(self, x: type) -> None:
        """How it is printed and hashed does not matter: what dataclasses write for that would make unsure."""
        self.tokens += ("class", x.__qualname__)
        if not is_library(type(x)):
            self.value(type(x))
        for name, value in members(x):
            if name not in ("__repr__", "__hash__"):
                self.tokens.append(name)
                self.value(value)
        self.all("bases", x.__bases__)

    def module(self, x: types.ModuleType) -> None:
        if installed(x.__name__):
            _check_module(x.__name__)
            self._at(x.__name__)
        super().module(x)


def _name(x: Any) -> tuple[str, str]:
    """Module and name of a function, a class, or what else has both; otherwise nothing."""
    module, name = attribute(x, "__module__"), attribute(x, "__qualname__") or attribute(x, "__name__")
    return (module, name) if isinstance(module, str) and isinstance(name, str) else ("", "")


def _check_module(name: str) -> None:
    root, *parts = name.split(".")
    if root not in KNOWN | PURE:
        raise Unsure(f"{root} is none of the packages that are known")
    _check_names(parts, name)


def _check_names(names: Any, module: str) -> None:
    """Within JAX and carom they mean something else: `jax.random` has no state."""
    worldly = WORLDLY & set(names) if module.partition(".")[0] not in ("jax", "jaxlib", "carom") else ()
    if worldly:
        raise Unsure(f"{min(worldly)} looks at the world")
