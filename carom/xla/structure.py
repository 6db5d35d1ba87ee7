"""Which arguments a function really depends on, read from its computation.

A mechanical system with constant mass needs no Newton iteration in an explicit rule, and its mass matrix is inverted once
per run. Nobody should have to declare this: the traced computation shows it. The answer is conservative: `False` may mean
"could not see it" (the general, slower path is then taken, with the same result), never the other way round.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend import core
from jax.interpreters.partial_eval import dce_jaxpr


def depends_on(function: Callable[..., Any], *args: Any) -> list[bool]:
    """For each argument (a pytree of arrays or shapes): can the value of `function` change with it?"""
    shapes = [jax.tree.map(_abstract, arg) for arg in args]
    closed = jax.make_jaxpr(function)(*shapes)
    reached = _reached(closed.jaxpr)
    flags, start = [], 0
    for arg in shapes:
        stop = start + len(jax.tree.leaves(arg))
        flags.append(any(var in reached for var in closed.jaxpr.invars[start:stop]))
        start = stop
    return flags


def _abstract(leaf: Any) -> Any:
    return jax.ShapeDtypeStruct(jax.numpy.shape(leaf), jax.dtypes.result_type(leaf))


def _reached(jaxpr: Any, wanted: Sequence[bool] | None = None) -> set[Any]:
    """The variables from which the wanted outputs are reached, walking backwards through the equations."""
    outvars = jaxpr.outvars if wanted is None else [v for v, w in zip(jaxpr.outvars, wanted, strict=True) if w]
    live = {v for v in outvars if not isinstance(v, core.Literal)}
    for eqn in reversed(jaxpr.eqns):
        used = [var in live for var in eqn.outvars]
        if not any(used) or _is_constant(eqn):
            continue
        inner = eqn.params.get("jaxpr") if eqn.primitive.name in ("jit", "pjit", "xla_metadata_call") else None
        if inner is not None:
            reached = _reached(inner.jaxpr, used)
            live |= {v for v, i in zip(eqn.invars, inner.jaxpr.invars, strict=True) if i in reached and _is_var(v)}
        else:
            live |= {v for v in eqn.invars if _is_var(v)}
    return live


def _is_constant(eqn: Any) -> bool:
    """x⁰: what JAX before 0.10.1 makes of the second derivative of x²."""
    return eqn.primitive.name == "integer_pow" and eqn.params["y"] == 0


def _is_var(v: Any) -> bool:
    return not isinstance(v, core.Literal)


def primitives(function: Callable[..., Any], *args: Any) -> set[str]:
    """The names of all operations in a computation."""
    return primitives_of(jax.make_jaxpr(function)(*args).jaxpr)


def primitives_of(jaxpr: Any) -> set[str]:
    """The same, of one that was traced."""
    found: set[str] = set()
    for eqn in jaxpr.eqns:
        found.add(eqn.primitive.name)
        for value in eqn.params.values():
            for each in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(each, "jaxpr", each)
                found |= primitives_of(inner) if hasattr(inner, "eqns") else set()
    return found


def operations(function: Callable[..., Any], *args: Any) -> int:
    """How many operations the results of a computation need; those in a loop count once."""
    jaxpr = jax.make_jaxpr(function)(*args).jaxpr
    return count(dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[0])


def count(jaxpr: Any) -> int:
    """The operations of a program that was traced; those in a loop count once."""
    inner = [list(inner_programs(eqn)) for eqn in jaxpr.eqns]
    return sum(sum(map(count, programs)) if programs else 1 for programs in inner)


def lean(function: Callable[..., Any], *args: Any) -> Callable[..., Any]:
    """The same function of such arguments, traced once, without what its results do not need: of a derivative mostly the value."""
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    needed = core.ClosedJaxpr(without_unused(closed.jaxpr), closed.consts)
    call = jax.jit(core.jaxpr_as_fun(needed))
    return lambda *args: jax.tree.unflatten(jax.tree.structure(shape), call(*jax.tree.leaves(args)))


def without_unused(jaxpr: Any) -> Any:
    """What its results need; its arguments stay."""
    return dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)[0]


def largest(jaxpr: Any) -> int:
    """The size of the largest array in a computation."""
    sizes = [math.prod(v.aval.shape) for eqn in jaxpr.eqns for v in eqn.outvars if hasattr(v.aval, "shape")]
    inner = [largest(j) for eqn in jaxpr.eqns for j in inner_programs(eqn)]
    return max([0, *sizes, *inner])


def inner_programs(eqn: Any):
    for value in eqn.params.values():
        for each in value if isinstance(value, (tuple, list)) else (value,):
            each = getattr(each, "jaxpr", each)
            if hasattr(each, "eqns"):
                yield each
