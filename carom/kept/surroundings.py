"""What tracing depends on beside its arguments: carom itself, the packages under it, the options of JAX, the device, the kernel.

Two kinds of changes need care. Sources that are edited while a process runs: the process still has the old functions, so it must
not keep a program under the name of the new ones; `sources` is unsure as soon as a file is younger than the process. And numbers
that somebody assigns to a module of carom (a tolerance, a limit, in an experiment): the files say nothing of it. So a kept program
lists the plain values of all modules that were loaded when it was traced (`constants`), and is not taken where one of them is
another now; those of models whose functions it is made of are part of its key (`constants_of`).
"""

import enum
import functools
import hashlib
import importlib
import itertools
import os
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from carom.closures.insides import installed
from carom.closures.lasting import Unsure
from carom.xla.kernel import how_traced, kernel_state
from carom.xla.machine import versions
from carom.xla.programs import LOADED

try:  # what jax.jit itself distinguishes programs by
    from jax._src.config import trace_context
except ImportError:
    trace_context = None

HOME = Path(__file__).parents[1]
PACKAGES = ("numpy", "equinox", "jaxtyping", "diffrax", "optimistix", "lineax")
WITHOUT_EFFECT = ("cache", "log", "traceback", "pprint", "dump_ir", "timeout", "source_url")  # in the names of options of JAX
TRACED = frozenset(["numerics", "xla", "spaces", "contact", "system", "methods", "running", "many", "named"])  # parts of carom
MADE_OF = (["models"], ["bodies"], ["drawing"])  # parts of carom whose functions systems are made of
STATE = frozenset(["_STRUCTURES", "LOADED"])  # what modules remember
_PRISTINE = trace_context() if trace_context is not None else ()
_looked = -1e9  # when the files were compared last


def surroundings() -> tuple[Any, ...]:
    """As plain values that can be compared in another process."""
    kernel = kernel_state()
    devices = [(device.platform, device.device_kind, device.id) for device in jax.devices()]
    return sources(), sorted(versions(*PACKAGES).items()), options(), contexts(), devices, kernel.on, how_traced()


def sources(fresh: bool = False) -> str:
    """A digest of all files of carom, as they were when this process loaded them."""
    global _looked
    if fresh or time.monotonic() - _looked > 1.0:
        files = _stats()
        if not files or any(stat[2] > LOADED for stat in files) or files != _hashed()[0]:
            raise Unsure("the sources of carom were changed while this process ran")
        _looked = time.monotonic()
    return _hashed()[1]


def _stats() -> tuple[tuple[str, int, float], ...]:
    """Of all modules: path, size, and when they were written."""
    found, folders = [], [str(HOME)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    stat = entry.stat()
                    found.append((entry.path, stat.st_size, stat.st_mtime))
                elif entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
    return tuple(sorted(found))


@functools.cache
def _hashed() -> tuple[Any, str]:
    files = _stats()
    digest = hashlib.blake2b(digest_size=16)
    for path, _, _ in files:
        with open(path, "rb") as file:
            digest.update(os.path.relpath(path, HOME).encode() + b"\0" + file.read() + b"\0")
    return files, digest.hexdigest()


def options() -> list[tuple[str, str]]:
    """Of JAX, as they hold here: `with jax.enable_x64(False)` counts."""
    values = jax.config.values  # a dict that is made anew each time
    names = [name for name in values if not any(part in name for part in WITHOUT_EFFECT)]
    return [(name, repr(getattr(jax.config, name, values[name]))) for name in sorted(names)]


def contexts() -> list[str]:
    """What jax.jit looks at beside the options; a mesh, say, or an axis of a map around this is not a thing to keep."""
    if trace_context is None:
        raise Unsure("this version of JAX does not say what tracing depends on")
    told = []
    for here in trace_context():  # longer than at the start once a part of JAX is imported that has options of its own
        if getattr(here, "empty", False):  # a mesh without devices, which JAX puts around the way back of a gradient, is none
            here = None
        if isinstance(here, (bool, int, float, str, enum.Enum, type(None))) or here == ():
            told.append(repr(here))
        elif here not in _PRISTINE:
            raise Unsure(f"a context of JAX: {type(here).__name__}")
    return told


def constants() -> dict[str, str]:
    """The plain values of the modules of carom that are loaded and can take part in tracing, module by module."""
    return {name: told for name in sorted(sys.modules) if _takes_part(name) and (told := _constants(name))}


def constants_of(homes: set[str]) -> list[tuple[str, str]]:
    """The same of those of these modules that hold models, and of the others of their kind that they import."""
    found: dict[str, str] = {}
    waiting = sorted(homes)
    while waiting:
        name = waiting.pop()
        kind = name.split(".")[1:2]
        if name in found or name not in sys.modules or kind not in MADE_OF or hasattr(sys.modules[name], "__path__"):
            continue  # a package only gathers
        found[name] = _constants(name)
        values = vars(sys.modules[name]).values()
        others = {x.__name__ if isinstance(x, types.ModuleType) else getattr(x, "__module__", None) for x in values}
        waiting += [x for x in others if isinstance(x, str) and x.startswith("carom.")]
    return sorted(found.items())


def unchanged(told: dict[str, str]) -> bool:
    """Are they what they were?"""
    for name, digest in told.items():
        if not _takes_part(name):
            return False
        if name not in sys.modules:
            importlib.import_module(name)
        try:
            if _constants(name) != digest:
                return False
        except Unsure:  # something was put into carom since: by a test, by somebody who looks inside
            return False
    return True


def _takes_part(module: str) -> bool:
    parts = module.split(".")
    return parts[0] == "carom" and len(parts) > 1 and parts[1] in TRACED


class _Told(NamedTuple):
    """The values of a module and of its classes: the places where they are, and the values themselves, kept alive so that no other
    can have their identity."""

    places: list[Any]
    values: list[Any]
    identities: list[int]
    digest: str


_CONSTANTS: dict[str, _Told] = {}


def _constants(module: str) -> str:
    """Numbers and texts by value; functions by where they were written, unsure where that is not in an installed package. What a
    module remembers while it works is in lower case, after an underscore."""
    known = _CONSTANTS.get(module)
    if known is None or [*map(id, _values(known.places))] != known.identities:
        home = vars(sys.modules[module])
        classes = {name: x for name, x in home.items() if isinstance(x, type) and x.__module__ == module and name[:2] != "__"}
        places = [home, *(vars(cls) for cls in classes.values())]
        values = [(name, x) for name, x in home.items() if not name.startswith("__")]
        for name, cls in classes.items():
            values += [(f"{name}.{key}", part) for key, part in vars(cls).items() if not key.startswith(("__", "_abc"))]
        told = sorted((name, str(_place(x))) for name, x in values if not _is_state(name, x))
        digest = hashlib.blake2b(repr(told).encode(), digest_size=8).hexdigest()
        alive = [*_values(places)]
        known = _CONSTANTS[module] = _Told(places, alive, [*map(id, alive)], digest)
    return known.digest


def _values(places: list[Any]) -> Iterator[Any]:
    return itertools.chain.from_iterable(place.values() for place in places)


def _is_state(name: str, x: Any) -> bool:
    remembered = name[0] == "_" and name[1:2].islower() and not callable(x)
    return name in STATE or remembered or isinstance(x, types.ModuleType)


def _place(x: Any) -> Any:
    if isinstance(x, (bool, int, float, complex, str, bytes, type(None), np.generic)):
        return repr(x)
    if isinstance(x, np.ndarray):
        return str(x.dtype), x.shape, x.tobytes() if x.size < 4096 else ""
    if isinstance(x, (tuple, list, dict)) and len(x) < 256:
        return type(x).__name__, [_place(part) for part in (x.items() if isinstance(x, dict) else x)]
    if isinstance(x, (frozenset, set)):
        return sorted(str(_place(part)) for part in x)
    if isinstance(x, (types.FunctionType, staticmethod, classmethod)):
        code = getattr(x, "__func__", x).__code__
        if not installed(x.__module__ or ""):
            raise Unsure(f"{code.co_name} was put into carom from outside")
        return x.__module__, code.co_firstlineno, code.co_name
    return type(x).__name__
