"""Which code made a section of the page: a short number that changes with it.

A page of measurements that take minutes can be older than the code that measures. Each section therefore carries the fingerprint of
the functions that wrote it, everything in `carom.papers` that its `make` can reach, and a test compares. Spaces, line breaks and
lines of comment do not count, so that formatting needs no new run.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

HOME, MECHANISM = "carom.papers", "carom.papers.exhibit"
PLAIN = (bool, int, float, str, tuple, list, dict)


def fingerprint(make: Callable[..., Any]) -> str:
    """Of a function and of the functions and plain constants of `carom.papers` that it uses, however indirectly."""
    found: dict[str, str] = {}
    _collect(make, found)
    text = "\n".join(f"{name}={found[name]}" for name in sorted(found))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _collect(function: Any, found: dict[str, str]) -> None:
    name = f"{function.__module__}.{function.__qualname__}"
    if name in found:
        return
    found[name] = _bare(inspect.getsource(function))
    for label, value in _used(function):
        value = inspect.unwrap(value) if callable(value) else value
        if isinstance(value, FunctionType):
            if value.__module__.startswith(HOME) and value.__module__ != MECHANISM:
                _collect(value, found)
        elif isinstance(value, type):
            if value.__module__.startswith(HOME) and value.__module__ != MECHANISM:
                found[f"{value.__module__}.{value.__qualname__}"] = _bare(inspect.getsource(value))
        elif isinstance(value, PLAIN) and not label.startswith("__"):
            found[f"{name}:{label}"] = _plain(value)


def _plain(value: Any) -> str:
    """As text; functions within it by their names, since their addresses differ from run to run."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_plain(k)}:{_plain(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple | list):
        return "(" + ",".join(map(_plain, value)) + ")"
    return repr(value) if isinstance(value, bool | int | float | str) else type(value).__qualname__


def _used(function: Any) -> Iterator[tuple[str, Any]]:
    """Globals and closed-over variables that a function names, also in the functions inside it."""
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents


def _names(code: CodeType) -> set[str]:
    inner = [_names(const) for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*inner)


def _bare(source: str) -> str:
    lines = [line for line in source.splitlines() if not line.lstrip().startswith("#")]
    return "".join("".join(line.split()) for line in lines)
