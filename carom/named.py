"""Plain functions of any of q, v, t, params, taken by parameter name."""

import inspect
import types
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from carom.calls import nearest
from carom.closures import Frozen, freeze
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
        function = freeze(self.function)
        return self if function is self.function else _with(self, function)


def _with(named: Named, function: Frozen) -> Named:
    copied = object.__new__(Named)
    for name, value in (("function", function), ("wanted", named.wanted), ("role", named.role)):
        object.__setattr__(copied, name, value)
    return copied


def frozen(tree: Any) -> Any:
    """A system (or any tree) whose functions are frozen: at the door of everything that compiles."""
    tree = jax.tree.map(lambda x: x.frozen() if isinstance(x, Named) else x, tree, is_leaf=lambda x: isinstance(x, Named))
    plain = {name: f for name, f in vars(tree).items() if isinstance(f, types.FunctionType)} if isinstance(tree, eqx.Module) else {}
    for name, function in plain.items():
        object.__setattr__(tree, name, freeze(function))
    return tree


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
