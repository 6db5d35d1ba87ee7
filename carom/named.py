"""Plain functions of any of q, v, t, params, taken by parameter name."""

import difflib
import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx


class Named(eqx.Module):
    """A user's function, callable with all the names it might want; it receives those it asks for.

    Two of them are equal when they wrap the same function, so a System built twice compiles once.
    """

    function: Callable[..., Any] = eqx.field(static=True)
    wanted: tuple[str, ...] = eqx.field(static=True)
    role: str = eqx.field(static=True)

    def __init__(self, function: Callable[..., Any], known: tuple[str, ...], role: str):
        if not callable(function):
            raise TypeError(f"{role} must be a function of {', '.join(known)}; got {function!r}")
        try:
            parameters = inspect.signature(function).parameters.values()
        except ValueError as error:
            raise TypeError(f"{role}: the signature of {function!r} cannot be read; wrap it in a def") from error
        wanted = tuple(p.name for p in parameters if p.default is inspect.Parameter.empty and p.kind is not p.VAR_KEYWORD)
        for name in wanted:
            if name not in known:
                close = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise TypeError(f"{role} asks for {name!r}; it can ask for {', '.join(known)} (by name){hint}")
        self.function, self.wanted, self.role = function, wanted, role

    def __call__(self, **values: Any) -> Any:
        return self.function(**{name: values[name] for name in self.wanted})

    def asks_for(self, name: str) -> bool:
        return name in self.wanted
