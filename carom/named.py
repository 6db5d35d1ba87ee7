"""Plain functions of any of q, v, t, params, taken by parameter name."""

import inspect
import types
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from carom.calls import nearest
from carom.closures import Frozen, freeze
from carom.closures.per_object import per_object
from carom.closures.settled import settle, written_down
from carom.errors import InputError


class Named(eqx.Module):
    """A user's function, callable with all the names it might want; it receives those it asks for.

    Two of them are equal when they wrap the same function. Frozen ones (`frozen`, below) wrap the same function whenever the code
    and all that it captures are the same, so a System built twice compiles once, and a captured number that was changed counts.
    """

    function: Callable[..., Any] = eqx.field(static=True)
    wanted: tuple[str, ...] = eqx.field(static=True)
    role: str = eqx.field(static=True)

    def __init__(self, function: Callable[..., Any], known: tuple[str, ...], role: str):
        if not callable(function):
            raise InputError(f"{role} must be a function of {', '.join(known)}; got {function!r}")
        try:
            parameters = inspect.signature(function).parameters.values()
        except ValueError as error:
            raise InputError(f"{role}: the signature of {function!r} cannot be read; wrap it in a def") from error
        parameters = list(parameters)
        loose = [p for p in parameters if p.kind in (p.VAR_POSITIONAL, p.POSITIONAL_ONLY) and p.default is p.empty]
        if loose:
            raise InputError(f"{role} takes {loose[0]} by position; it is called by name: ask for {', '.join(known)}")
        open_ended = [p for p in parameters if p.kind is p.VAR_KEYWORD]
        if open_ended and len(parameters) == 1:
            raise InputError(
                f"{role} takes {open_ended[0]}: it is called with what it asks for by name: ask for {', '.join(known)}"
            )
        wanted = tuple(p.name for p in parameters if p.default is inspect.Parameter.empty and p.kind is not p.VAR_KEYWORD)
        for name in wanted:
            if name not in known:
                raise InputError(f"{role} asks for {name!r}; it can ask for {', '.join(known)} (by name){nearest(name, known)}")
        self.function, self.wanted, self.role = function, wanted, role

    def __call__(self, **values: Any) -> Any:
        return self.function(**{name: values[name] for name in self.wanted})

    def asks_for(self, name: str) -> bool:
        return name in self.wanted

    def frozen(self) -> "Named":
        """The same, with private copies of everything that its function captures at this moment."""
        return _with(self, freeze(self.function))


def _with(named: Named, function: Frozen) -> Named:
    if function is named.function:
        return named
    copied = object.__new__(Named)
    for name, value in (("function", function), ("wanted", named.wanted), ("role", named.role)):
        object.__setattr__(copied, name, value)
    return copied


class _Functions:
    """The functions in a tree that does not change, and the tree as it was when they were frozen last."""

    def __init__(self, tree: Any):
        self.named = [x for x in jax.tree.leaves(tree, is_leaf=_is_named) if _is_named(x)]
        inside = vars(tree).items() if isinstance(tree, eqx.Module) else ()
        self.plain = {name: f for name, f in inside if isinstance(f, (types.FunctionType, Frozen))}
        self.functions = [*(x.function for x in self.named), *self.plain.values()]
        self.last: tuple[list[Frozen], Any] | None = None
        self.sure: bool | None = None  # of a frozen tree: nothing that its functions capture hides

    def frozen(self, tree: Any) -> Any:
        return self._holding(tree, [freeze(f) for f in self.functions])

    def renewed(self, tree: Any) -> Any:
        now = [freeze(x.function.origin if isinstance(x.function, Frozen) else x.function) for x in self.named]
        return self._holding(tree, [*now, *self.plain.values()])

    def settled(self, tree: Any, given: dict[str, Any]) -> Any:
        known = [x.wanted if all(name in given for name in x.wanted) else None for x in self.named]
        now = [x.function if names is None else settle(x.function, {name: given[name] for name in names})
               for x, names in zip(self.named, known, strict=True)]  # fmt: skip
        return self._holding(tree, [*now, *self.plain.values()])

    def _holding(self, tree: Any, now: list[Frozen]) -> Any:
        if all(a is b for a, b in zip(now, self.functions, strict=True)):
            return tree
        last = self.last
        if last is not None and all(a is b for a, b in zip(now, last[0], strict=True)):
            return last[1]
        given = iter(now)
        made = jax.tree.map(lambda x: _with(x, next(given)) if _is_named(x) else x, tree, is_leaf=_is_named)
        for name in self.plain:
            object.__setattr__(made, name, next(given))
        self.last = now, made
        return made


_functions_of = per_object(_Functions)


def frozen(tree: Any) -> Any:
    """A system (or any tree) whose functions are frozen: at the door of everything that compiles. All that they capture is read
    again; where nothing has changed since the last time, the same tree is returned, and what was found out of it still holds."""
    return (_functions_of if isinstance(tree, eqx.Module) else _Functions)(tree).frozen(tree)


def frozen_once(tree: Any) -> Any:
    """The same, where functions that are frozen already stay what they are, whatever has been changed since."""
    functions = (_functions_of if isinstance(tree, eqx.Module) else _Functions)(tree)
    return tree if all(isinstance(f, Frozen) for f in functions.functions) else functions.frozen(tree)


def renewed(tree: Any) -> Any:
    """A method that was given functions of its own when it was made (a discrete Lagrangian), with what they capture now."""
    functions = (_functions_of if isinstance(tree, eqx.Module) else _Functions)(tree)
    return functions.renewed(tree) if functions.named else tree


def settled(tree: Any, **given: Any) -> Any:
    """A frozen tree in which functions whose captures cannot all be read are told apart by what they compute at this moment.
    `given`: arrays, numbers or placeholders for the arguments, by name; `p`, `speed` and `mass` follow from the others."""
    functions = (_functions_of if isinstance(tree, eqx.Module) else _Functions)(tree)
    if functions.sure is None:
        functions.sure = all(written_down(x.function) for x in functions.named)
    if functions.sure:
        return tree
    place = lambda x: jax.ShapeDtypeStruct(np.shape(x), getattr(x, "dtype", None) or np.result_type(x))  # noqa: E731
    return functions.settled(tree, jax.tree.map(place, {"p": given["v"], "speed": 0.0, "mass": 0.0, **given}))


def _is_named(x: Any) -> bool:
    return isinstance(x, Named)


def changed_since(tree: Any) -> Named | None:
    """A function in a frozen tree that refers to something uncopied which has been changed since."""
    for leaf in jax.tree.leaves(tree, is_leaf=lambda x: isinstance(x, Named)):
        if isinstance(leaf, Named) and isinstance(leaf.function, Frozen) and not leaf.function.unchanged():
            return leaf
    return None


def traced_in(tree: Any) -> Named | None:
    """A function in a frozen tree that captures a value which JAX is tracing."""
    for leaf in jax.tree.leaves(tree, is_leaf=lambda x: isinstance(x, Named)):
        kept = leaf.function.kept if isinstance(leaf, Named) and isinstance(leaf.function, Frozen) else ()
        if any(isinstance(x, jax.core.Tracer) for x in kept):
            return leaf
    return None


def unseen_in(tree: Any) -> Named | None:
    """A function in a frozen tree that reaches for values which cannot be seen."""
    for leaf in jax.tree.leaves(tree, is_leaf=lambda x: isinstance(x, Named)):
        if isinstance(leaf, Named) and isinstance(leaf.function, Frozen) and leaf.function.unseen:
            return leaf
    return None
