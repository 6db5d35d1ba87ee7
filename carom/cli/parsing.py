"""From text to objects: what people write on the command line as models, methods, rules and values."""

import difflib
import inspect
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RULE_HELP = (
    "trapezoidal, midpoint, left, right, gamma:0.3, galerkin:2, composition:4, composition:6:midpoint, moreau:0.5, time_dg:2:+"
)


def build_model(name: str, settings: Iterable[str]) -> tuple[Any, dict[str, Any]]:
    """The model or scene with its settings: arguments of its factory, and for what is left changes of single parameters."""
    arguments, changes = split_settings(name, settings)
    return factory_of(name)(**arguments), changes


def split_settings(name: str, settings: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """All of --set: arguments of the factory, and parameters."""
    factory, known = factory_of(name), settable(name)
    arguments, changes = {}, {}
    for text in settings:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not value:
            raise ValueError(f"--set takes name=value; got {text!r}")
        if key in arguments or key in changes:
            raise ValueError(f"--set {key} is given twice: leave one out")
        if key not in known:
            raise ValueError(f"{name} has no parameter {key!r}{hint(key, known)}. It has: {', '.join(known)}")
        (arguments if key in inspect.signature(factory).parameters else changes)[key] = _value(key, value, known[key])
    return arguments, changes


def factory_of(name: str) -> Any:
    """What makes a model or a scene."""
    from carom.models import ALL, SCENES

    known = {**ALL, **SCENES}
    if name not in known:
        raise ValueError(f"there is no model {name!r}{hint(name, known)}. There are: {', '.join(known)}")
    return known[name]


def known_model(name: str) -> str:
    """The name of a model that is a system; scenes are not."""
    from carom.models import ALL, SCENES

    if name in SCENES:
        raise ValueError(f"{name} is a world of bodies, and this takes systems: {', '.join(ALL)}")
    factory_of(name)
    return name


def settable(name: str) -> dict[str, Any]:
    """What --set can change, with the defaults: the arguments of the factory, then the parameters that are not among them."""
    from carom.models import SCENES

    factory = factory_of(name)
    arguments = {key: p.default for key, p in inspect.signature(factory).parameters.items()}
    if name in SCENES:
        return arguments
    params = factory().params
    arguments = {key: params.get(key) if value is None else value for key, value in arguments.items()}
    return arguments | {key: value for key, value in params.items() if key not in arguments}


def _value(key: str, text: str, default: Any) -> Any:
    """A number, or a list of numbers where the default is one."""
    import numpy as np

    for convert in (int, float, json.loads):
        try:
            value = convert(text)
            found = np.asarray(value, dtype=float)
        except (ValueError, TypeError):
            continue
        if found.ndim == np.ndim(default):
            return value
        break
    wanted = {0: "a number", 1: "a list of numbers, as [1, 2]"}.get(
        np.ndim(default), "a list of points, as [[0, 0], [1, 0], [0, 1]]"
    )
    raise ValueError(f"--set {key}: {text!r} is not {wanted}")


def build_method(rule: str, simultaneous: str) -> Any:
    """From the text of --rule to a method: a collision integrator with that rule, `moreau:0.5` or `time_dg:2:+`."""
    from carom.methods.timestepping.moreau import MoreauJean
    from carom.methods.timestepping.time_dg import TimeDG
    from carom.methods.variational.collision import VariationalCollision

    kind, *rest = (part.strip().lower() for part in rule.split(":"))
    try:
        if kind == "moreau" and len(rest) < 2:
            return MoreauJean(*map(float, rest), simultaneous=simultaneous)
        if kind == "time_dg" and len(rest) < 3:
            degree, side = (rest + ["1", "-"][len(rest) :])[:2]
            return TimeDG(int(degree), side, simultaneous=simultaneous)
    except ValueError as error:
        raise ValueError(f"--rule {rule}: {error}; write it as moreau:0.5 or time_dg:2:+") from error
    return VariationalCollision(build_rule(rule), simultaneous=simultaneous)


def build_rule(text: str) -> Any:
    """From `composition:4:midpoint` to Composition(Midpoint(), 4)."""
    from carom.methods.variational.rules import Composition, Galerkin, Gamma, Left, Midpoint, Right, Trapezoidal

    simple: dict[str, Any] = {"trapezoidal": Trapezoidal, "midpoint": Midpoint, "left": Left, "right": Right}
    names = [*simple, "gamma", "galerkin", "composition", "moreau", "time_dg"]
    kind, *rest = (part.strip().lower() for part in text.split(":"))
    if kind not in names:
        raise ValueError(f"there is no rule {kind!r}{hint(kind, names)}. Write one of: {RULE_HELP}")
    if kind in simple:
        if rest:
            raise ValueError(f"--rule {text}: {kind} takes nothing after the colon")
        return simple[kind]()
    most = 2 if kind == "composition" else 1
    if not rest or not rest[0] or len(rest) > most:
        example = {"gamma": "gamma:0.3", "galerkin": "galerkin:2", "composition": "composition:4 or composition:4:midpoint"}[kind]
        raise ValueError(f"--rule {text}: {kind} is written as {example}")
    try:
        number = float(rest[0]) if kind == "gamma" else int(rest[0])
    except ValueError as error:
        raise ValueError(f"--rule {text}: {rest[0]!r} is not a {'number' if kind == 'gamma' else 'whole number'}") from error
    if kind == "gamma":
        return Gamma(number)
    if kind == "galerkin":
        return Galerkin(int(number))
    return Composition(build_rule(rest[1] if len(rest) > 1 else "trapezoidal"), int(number))


def hint(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def parse_grid(texts: Iterable[str]) -> dict[str, list[float]]:
    """All of --vary, each name once."""
    grid: dict[str, list[float]] = {}
    for text in texts:
        name, values = parse_values(text)
        if name in grid:
            raise ValueError(f"--vary {name} is given twice: write all its values in one, as {name}=a,b,c")
        grid[name] = values
    return grid


def asked_for(out: Path | None, example: str) -> Path:
    """--out, last of all that is asked for: what is wrong elsewhere is said first."""
    if out is None:
        raise ValueError(f"say where the results go: --out {example}")
    return out


def parse_values(text: str) -> tuple[str, list[float]]:
    """From `gravity=1:10:4` or `gravity=1,4,7,10` to the name and its values; whole numbers stay whole."""
    name, equals, values = (part.strip() for part in text.partition("="))
    form = f"--vary {text}: write NAME=a,b,c or NAME=first:last:count"
    if not equals or not values:
        raise ValueError(form)
    try:
        if ":" in values:
            first, last, count = values.split(":")
            number = int(count)
            if number < 2:
                raise ValueError
            step = (float(last) - float(first)) / (number - 1)
            return name, [float(first) + step * i for i in range(number - 1)] + [float(last)]
        return name, [float(v) if "." in v or "e" in v.lower() else int(v) for v in values.split(",")]
    except ValueError as error:
        raise ValueError(form) from error
