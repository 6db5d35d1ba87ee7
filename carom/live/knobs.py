"""What can be turned while a model plays: its numbers with the ranges of their sliders, the methods that take it, its steps."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np

from carom.methods.capabilities import refusal
from carom.methods.event_driven import EventDriven
from carom.methods.timestepping.moreau import MoreauJean
from carom.methods.timestepping.time_dg import TimeDG
from carom.methods.variational.collision import VariationalCollision
from carom.methods.variational.rules import Trapezoidal
from carom.models.model import Model

UNIT = {"restitution": 1.0, "friction": 1.5}  # numbers with a range of their own, from zero
SUITS = "what suits it"
STEPS = (0.25, 0.5, 1.0, 2.0, 4.0)  # times the step that suits the model
PARTS = 3  # numbers of an argument: lengths of two bars, a spin in space; a longer list has no sliders


@dataclass(frozen=True)
class Knob:
    """A number of a model, and how far its slider goes."""

    name: str
    value: float
    low: float
    high: float
    whole: bool  #      a count
    argument: bool  #   of the function that makes the model; otherwise one of its parameters


def knobs_of(factory: Callable[..., Any], params: Mapping[str, Any]) -> dict[str, Knob]:
    """Every number of a model: arguments of its function, and parameters that are not among them. An argument of a few numbers has
    a knob for each, "lengths 1" and "lengths 2"; longer lists have none."""
    arguments = {name: p.default for name, p in inspect.signature(factory).parameters.items()}
    arguments = {name: params.get(name) if value is None else value for name, value in arguments.items()}
    found = {}
    for name, value in {**{k: v for k, v in params.items() if k not in arguments}, **arguments}.items():
        parts = value if isinstance(value, tuple) and len(value) <= PARTS and name in arguments else None
        for key, one in {name: value}.items() if parts is None else {f"{name} {i + 1}": x for i, x in enumerate(parts)}.items():
            if not isinstance(one, (bool, str)) and not np.ndim(one) and one is not None and np.isfinite(np.asarray(one, float)):
                found[key] = _knob(key, one, name in arguments)
    return found


def derived(factory: Callable[..., Any], knobs: Mapping[str, Knob]) -> set[str]:
    """Numbers that follow from others until somebody sets them: an inertia from the mass and the size."""
    own = inspect.signature(factory).parameters
    return {key for key, knob in knobs.items() if not knob.argument or (key in own and own[key].default is None)}


def arguments_of(factory: Callable[..., Any], values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values of knobs as arguments of the function that makes the model, and those that are none of its arguments."""
    own = inspect.signature(factory).parameters
    arguments: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in values.items():
        name, _, part = key.rpartition(" ")
        if key in own:
            arguments[key] = value
        elif name in own and part.isdigit():  # one of a few
            whole = list(arguments.get(name, own[name].default))
            whole[int(part) - 1] = value
            arguments[name] = tuple(whole)
        else:
            rest[key] = value
    return arguments, rest


def _knob(name: str, value: Any, argument: bool) -> Knob:
    whole, number = isinstance(value, int), float(value)
    if name in UNIT:
        low, high = 0.0, max(UNIT[name], number)
    elif number == 0:
        low, high = 0.0, 1.0
    elif number < 0:
        low, high = 3 * number, 0.0
    else:
        low, high = (0.0 if name == "gravity" else 0.1 * number), 3 * number
    if whole:
        low, high = min(number, max(1.0, np.floor(low))), max(np.ceil(high), number + 1)
    return Knob(name, number, low, high, whole, argument)


def methods_for(model: Model) -> dict[str, Any]:
    """The methods that take a model, by the names that a person chooses from; the first is the model's own."""
    known: dict[str, Callable[[], Any]] = {name: make for name, (make, _) in KNOWN.items()}
    own = model.method or VariationalCollision()
    fit = {name: make() for name, make in known.items() if refusal(model.system.needs, make(), "solve") is None}
    return {SUITS: own, **fit}


# A name to choose, how the method is made, and how a person writes it.
KNOWN: dict[str, tuple[Callable[[], Any], str]] = {
    "VariationalCollision, order 4": (VariationalCollision, "carom.VariationalCollision()"),
    "VariationalCollision, trapezoidal": (
        lambda: VariationalCollision(Trapezoidal()),  # pyright: ignore[reportCallIssue]
        "carom.VariationalCollision(carom.Trapezoidal())",
    ),
    "MoreauJean": (MoreauJean, "carom.MoreauJean()"),
    "TimeDG": (TimeDG, "carom.TimeDG()"),
    "EventDriven": (EventDriven, "carom.EventDriven()"),
}


def called(methods: Mapping[str, Any], name: str) -> str:
    """A method by its own name, also where it is the one that suits a model."""
    if name != SUITS:
        return name
    same = (other for other, method in methods.items() if other != SUITS and eqx.tree_equal(method, methods[SUITS]) is True)
    return next(same, type(methods[SUITS]).__name__)


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Names that tell apart what they name: the second of a name is another one."""
    found: list[str] = []
    for name in names:
        found.append(f"{name} (again)" if name in found else name)
    return tuple(found)


def written(method: str) -> str:
    """A method of these names, as a person writes it in a script that knows the model."""
    return "model.method or carom.VariationalCollision()" if method == SUITS else KNOWN[method][1]
