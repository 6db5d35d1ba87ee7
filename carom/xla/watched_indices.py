"""Indices that are computed from the motion: a computation, evaluated once more with its indices beside its results.

Bodies of loops and branches are computed again, too: a loop carries its worst index along, and a branch that is not taken has none.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

from carom.xla.indices import Place, inner_call, labels_inside, places_of
from carom.xla.scan_parts import scan_counts


def watched(closed: Any, labels: Sequence[str]) -> tuple[Callable[..., list[Any]] | None, list[Place]]:
    """A computation that returns, of each index that is computed along the way, the one farthest outside of its array or inside of
    it; and where they are used, with the names of the arrays. None where there are no such indices."""
    places: list[Place] = []

    def compute(*args: Any) -> list[Any]:
        places.clear()
        found: list[Any] = []
        _evaluate(closed, args, dict(zip(closed.jaxpr.invars, labels, strict=True)), found, places)
        return found

    jax.eval_shape(compute, *(jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in closed.jaxpr.invars))
    return (compute if places else None), places


def _evaluate(closed: Any, args: Any, names: dict[Any, str], found: list[Any], places: list[Place]) -> list[Any]:
    jaxpr = closed.jaxpr
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *args), strict=True))
    value = lambda v: v.val if isinstance(v, core.Literal) else values[v]  # noqa: E731
    for eqn in jaxpr.eqns:
        given, inner = [value(v) for v in eqn.invars], inner_call(eqn)
        for argument, column, place in places_of(eqn):
            index = given[argument]
            if isinstance(index, jax.core.Tracer):  # all others are known
                found.append(_worst(index if column is None else index[..., column], place))
                label = "" if isinstance(place.array, core.Literal) else names.get(place.array, "")
                places.append(place._replace(array=label))
        if inner is not None:
            results = _evaluate(inner, given, labels_inside(inner.jaxpr.invars, eqn.invars, names), found, places)
        elif eqn.primitive.name in _INSIDE:
            results = _INSIDE[eqn.primitive.name](eqn, given, names, found, places)
        else:
            bound = eqn.primitive.get_bind_params(eqn.params)  # before jax 0.10.1 a pair
            functions, options = bound if isinstance(bound, tuple) else ((), bound)
            results = eqn.primitive.bind(*functions, *given, **options)
            results = results if eqn.primitive.multiple_results else [results]
        values.update(zip(eqn.outvars, results, strict=True))
    return [value(v) for v in jaxpr.outvars]


def _worst(index: Any, place: Place) -> Any:
    """Of several, the one farthest outside."""
    index = jnp.ravel(index).astype(int)
    return index[jnp.argmax(jnp.maximum(-index, index - place.last))]


def _arrays(given: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """Numbers that were written down, too."""
    return [jnp.asarray(x, v.aval.dtype) for x, v in zip(given, variables, strict=True)]


def _within(closed: Any, args: Any, labels: dict[Any, str]) -> list[Place]:
    """Where a body reads with computed indices; nothing is computed."""
    places: list[Place] = []
    jax.eval_shape(lambda *again: _evaluate(closed, again, labels, [], places), *args)
    return places


def _scan(eqn: Any, given: list[Any], names: dict[Any, str], found: list[Any], places: list[Place]) -> list[Any]:
    p, given = eqn.params, _arrays(given, eqn.invars)
    body, (consts, carried) = p["jaxpr"], scan_counts(eqn)
    first = consts + carried
    labels, here = labels_inside(body.jaxpr.invars[:consts], eqn.invars[:consts], names), []

    def one_round(carry: Any, entries: Any) -> tuple[Any, Any]:
        here.clear()
        inside: list[Any] = []
        results = _evaluate(body, (*given[:consts], *carry, *entries), labels, inside, here)
        return results[:carried], (results[carried:], inside)

    rounds = {"length": p["length"], "reverse": p["reverse"]}
    carry, (ys, inside) = jax.lax.scan(one_round, given[consts:first], given[first:], **rounds)
    if p["length"]:
        found += [_worst(all_rounds, place) for all_rounds, place in zip(inside, here, strict=True)]
        places += here
    return [*carry, *ys]


def _while(eqn: Any, given: list[Any], names: dict[Any, str], found: list[Any], places: list[Place]) -> list[Any]:
    p, given = eqn.params, _arrays(given, eqn.invars)
    asked, body, first = p["cond_nconsts"], p["body_jaxpr"], p["cond_nconsts"] + p["body_nconsts"]
    labels = labels_inside(body.jaxpr.invars[: p["body_nconsts"]], eqn.invars[asked:first], names)
    test = core.jaxpr_as_fun(p["cond_jaxpr"])
    here = _within(body, given[asked:], labels)

    def one_round(state: Any) -> Any:
        carry, worst = state
        inside: list[Any] = []
        results = _evaluate(body, (*given[asked:first], *carry), labels, inside, [])
        return results, [_worst(jnp.stack(pair), place) for *pair, place in zip(worst, inside, here, strict=True)]

    start = (given[first:], [jnp.zeros((), int) for _ in here])  # entry 0 is inside, if anything is
    carry, worst = jax.lax.while_loop(lambda state: test(*given[:asked], *state[0])[0], one_round, start)
    found += worst
    places += here
    return list(carry)


def _cond(eqn: Any, given: list[Any], names: dict[Any, str], found: list[Any], places: list[Place]) -> list[Any]:
    given, branches = _arrays(given, eqn.invars), eqn.params["branches"]
    labels = [labels_inside(branch.jaxpr.invars, eqn.invars[1:], names) for branch in branches]
    here = [_within(branch, given[1:], known) for branch, known in zip(branches, labels, strict=True)]

    def taken(number: int) -> Callable[..., Any]:
        def run(*operands: Any) -> Any:
            inside: list[Any] = []
            results = _evaluate(branches[number], operands, labels[number], inside, [])
            return results, [inside if i == number else [jnp.zeros((), int) for _ in part] for i, part in enumerate(here)]

        return run

    results, inside = jax.lax.switch(given[0].astype(int), [taken(i) for i in range(len(branches))], *given[1:])
    for values, part in zip(inside, here, strict=True):
        found += values
        places += part
    return list(results)


_INSIDE: dict[str, Callable[..., list[Any]]] = {"scan": _scan, "while": _while, "cond": _cond}
