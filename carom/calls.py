"""Calls that do not fit: an option that is not there, one that is missing, something that is no run. Each is answered in one way.

`@public` stands at what a person calls, a function or a class, and `@public_methods` at a class whose methods are verbs.
"""

import difflib
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from carom.errors import InputError
from carom.wanted import is_masked, wanted

Anything = TypeVar("Anything", bound=Callable[..., Any])
Owner = TypeVar("Owner", bound=type)

# The nouns that functions ask for by the annotation of an argument, and what a person is told to pass.
WANTED = {
    "System": "must be a carom.System",
    "Solution": "must be a run, as carom.solve and carom.load return it",
    "Method": "must be one of carom's, such as carom.VariationalCollision()",
    "Rule": "must be a carom rule such as carom.Trapezoidal()",
    "Space": "must be a carom.Euclidean, SO3, SE3 or a product of them",
    "Controller": "must be a carom.Controller(rule, every=…)",
    "Chain": "must be a carom.Chain(space, nodes, element)",
    "Supports": "must be carom.Supports(held, …)",
}
# What is given instead, often enough: (wanted, given).
INSTEAD = {
    ("System", "Model"): "a model is run by model.solve(), and model.system is its system",
    ("System", "World"): "a world is run by world.solve(), and world.system is its system",
    ("System", "Solution"): "solution.system is its system",
    ("Solution", "System"): "run it first: carom.solve(system, method, q0, v0, dt=…, num_steps=…)",
    ("Solution", "Model"): "run it first: model.solve()",
    ("Solution", "World"): "this is for systems: carom.solve(world.system, method, **world.start, dt=…, num_steps=…)",
    ("Solution", "WorldRun"): "this is for systems: carom.solve(world.system, method, **world.start, dt=…, num_steps=…)",
    ("Solution", "Ensemble"): "ensemble.solve(lane) is the run of one lane",
    ("Solution", "list"): "hand over one run at a time",
    ("Solution", "tuple"): "hand over one run at a time",
}


def nearest(name: Any, known: Iterable[Any]) -> str:
    """ "; did you mean …?", where something known looks like it."""
    close = difflib.get_close_matches(str(name), [str(each) for each in known], 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def must_be(kind: type, value: Any, name: str) -> None:
    """Is this a `kind`, one of `WANTED`?"""
    if isinstance(value, kind):
        return
    if inspect.isclass(value) and issubclass(value, kind):
        raise InputError(f"{name} is the class {value.__name__}; make one of it: carom.{value.__name__}()")
    told = [INSTEAD[kind.__name__, each.__name__] for each in type(value).__mro__ if (kind.__name__, each.__name__) in INSTEAD]
    got = repr(value) if isinstance(value, (str, int, float)) else type(value).__name__
    if kind.__name__ == "Method" and isinstance(value, str):
        told = [f"did you mean carom.{found}()?" for found in _named_like(value, kind)]
    raise InputError("; ".join([f"{name} {WANTED[kind.__name__]}; got {got}", *told[:1]]))


def _named_like(text: str, kind: type) -> list[str]:
    """The class of carom that is meant by a text: `moreau_jean`, `moreau`, `timedg`; none if nobody could say."""
    classes = [kind]
    for each in classes:  # it grows
        classes += each.__subclasses__()
    carom = sys.modules[__name__.partition(".")[0]]
    names = {each.__name__.lower(): each.__name__ for each in classes if getattr(carom, each.__name__, None) is each}
    word = text.lower().replace("_", "").replace("-", "").replace(" ", "")
    begun = [name for name in names if word and name.startswith(word)]
    return [names[name] for name in (begun or difflib.get_close_matches(word, names, 1))[:1]]


def public(called: Anything) -> Anything:
    """A function that answers a call which does not fit with what it takes; of a class, its construction."""
    if not isinstance(called, type):
        return answering(called, called.__name__, 0)  # type: ignore[return-value]
    called.__init__ = answering(called.__init__, called.__name__, 1)
    return called


def public_methods(owner: Owner) -> Owner:
    """A class whose methods answer so, all those that a person calls. Not for methods that are called in every step."""
    for name, method in list(vars(owner).items()):
        if isinstance(method, types.FunctionType) and not name.startswith("_"):
            setattr(owner, name, answering(method, name, 1))
    return owner


def answering(function: Callable[..., Any], name: str, hidden: int) -> Callable[..., Any]:
    """`hidden`: how many of the first parameters nobody writes: self."""
    signature = inspect.signature(function)
    written = [e for e in list(signature.parameters.values())[hidden:] if e.kind not in (e.VAR_POSITIONAL, e.VAR_KEYWORD)]
    kinds = {entry.name: found for entry in written if (found := _noun(entry.annotation))}
    told = {entry.name: found for entry in written if (found := wanted(entry.annotation))}
    fits = _quickly(signature)

    @functools.wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        given, bound = fits(args, options), None
        if given is None:
            try:
                bound = signature.bind(*args, **options)
            except TypeError:
                raise InputError(_misfit(signature, name, hidden, args, options)) from None
            given = bound.arguments
        for key, (kind, none_too) in kinds.items():
            if key in given and not (none_too and given[key] is None):
                must_be(kind, given[key], key)
        if not told:
            return function(*args, **options)
        for key, (what, none_too) in told.items():
            if key in given and not (none_too and given[key] is None):
                given[key] = what.read(given[key], f"{name}: {key}")
        return function(*bound.args, **bound.kwargs) if bound else function(**given)

    return called


def _quickly(signature: inspect.Signature) -> Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any] | None]:
    """What `signature.bind` finds, in a tenth of its time; None where only that can tell."""
    entries = list(signature.parameters.values())
    plain = all(e.kind in (e.POSITIONAL_OR_KEYWORD, e.KEYWORD_ONLY) for e in entries)
    order = [e.name for e in entries if e.kind is e.POSITIONAL_OR_KEYWORD]
    known, needed = {e.name for e in entries}, {e.name for e in entries if e.default is e.empty}

    def fits(args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any] | None:
        if not plain or len(args) > len(order):
            return None
        given = dict(zip(order, args, strict=False))
        if not (options.keys() <= known and options.keys().isdisjoint(given)):
            return None
        given |= options
        return given if needed <= given.keys() else None

    return fits


def check_options_of(name: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Are these options among those that are known?"""
    known = list(known)
    for key in options:
        if key not in known:
            listed = ", ".join(known) or "nothing"
            raise InputError(f"{name} has no option {key!r}: it takes {listed}{nearest(key, known)}")


def _noun(annotation: Any) -> tuple[type, bool] | None:
    """One of `WANTED` that an annotation asks for, and whether None will do too."""
    options = [option for option in typing.get_args(annotation) or (annotation,) if option is not type(None)]
    kind = options[0] if len(options) == 1 else None
    if inspect.isclass(kind) and kind.__name__ in WANTED and kind.__module__.startswith("carom."):
        return kind, type(None) in typing.get_args(annotation)
    return None


def _misfit(signature: inspect.Signature, name: str, hidden: int, args: tuple[Any, ...], options: dict[str, Any]) -> str:
    """What is wrong with a call that cannot be bound: the first reason of three."""
    entries = list(signature.parameters.values())[hidden:]
    known = [entry.name for entry in entries if entry.kind not in (entry.VAR_KEYWORD, entry.VAR_POSITIONAL)]
    if not any(entry.kind is entry.VAR_KEYWORD for entry in entries):
        check_options_of(name, options, known)
    by_position = [entry.name for entry in entries if entry.kind in (entry.POSITIONAL_ONLY, entry.POSITIONAL_OR_KEYWORD)]
    given = len(args) - hidden
    if given > len(by_position) and not any(entry.kind is entry.VAR_POSITIONAL for entry in entries):
        rest = [key for key in known if key not in by_position]
        named = f"; write the others by name: {', '.join(rest)}" if rest else ""
        return f"{name} takes {len(by_position)} by position ({', '.join(by_position) or 'none'}); got {given}{named}"
    twice = [key for key in by_position[:given] if key in options]
    if twice:
        return f"{name} is given {twice[0]} twice, by position and by name"
    missing = [
        e.name for e in entries if e.default is e.empty and e.name in known and e.name not in {*by_position[:given], *options}
    ]
    return f"{name} needs {' and '.join(missing)}: it takes {', '.join(known)}"


def real(value: Any) -> float:
    """One number, and no text that Python would read as one."""
    if isinstance(value, (str, bytes)) or is_masked(value):
        raise TypeError(f"{value!r} is no number")
    try:
        return float(value)
    except OverflowError as error:  # a whole number of Python's, beyond 1.8e308
        raise ValueError("larger than any number of 64 bits") from error


def floats(value: Any) -> Any:
    """An array of what a person handed over as numbers, a copy in float64. TypeError where it is none: numpy would read texts and
    spans of time as numbers, None as one that is not, and take the real part of complex ones."""
    import numpy as np

    if isinstance(hidden := getattr(value, "mask", None), (np.ndarray, np.bool_)) and hidden.any():
        raise TypeError("some numbers are masked")
    given = np.asarray(value)
    texts = given.dtype.kind == "O" and any(entry is None or isinstance(entry, (str, bytes)) for entry in given.flat)
    if given.dtype.kind in "USMmc" or texts:
        raise TypeError(f"{given.dtype} is not a number")
    try:
        return np.array(given, dtype=float)
    except OverflowError as error:  # whole numbers of Python's, beyond 1.8e308
        raise ValueError("larger than any number of 64 bits") from error
