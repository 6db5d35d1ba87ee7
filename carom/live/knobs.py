"""What can be turned while a model plays: its numbers with the ranges of their sliders, the methods that take it, its steps."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

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
    """Every single number of a model: arguments of its function, and parameters that are not among them. Lists have no slider."""
    arguments = {name: p.default for name, p in inspect.signature(factory).parameters.items()}
    arguments = {name: params.get(name) if value is None else value for name, value in arguments.items()}
    found = {}
    for name, value in {**{k: v for k, v in params.items() if k not in arguments}, **arguments}.items():
        if (
            isinstance(value, (bool, str))
            or np.ndim(value)
            or not np.isfinite(np.asarray(value if value is not None else np.nan, float))
        ):
            continue
        found[name] = _knob(name, value, name in arguments)
    return found


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


def written(method: str) -> str:
    """A method of these names, as a person writes it in a script that knows the model."""
    return "model.method or carom.VariationalCollision()" if method == SUITS else KNOWN[method][1]
