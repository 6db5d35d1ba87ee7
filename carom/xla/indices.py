"""Indices that are out of range, found in a traced computation.

JAX cannot raise an error from a compiled program: it reads the last entry instead, so `q[2]` of two coordinates runs, and means
`q[1]`. But an index that is written down as a number is known when the function is traced. This walks through them,
computes the whole numbers in them that depend on nothing, and compares those that are used as indices with the shape they index.
An index that is computed from the motion is known along a motion only: `watched_indices` returns all of those.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend import core

from carom.xla.scan_parts import scan_counts

_SMALL = 1 << 16  # entries of an index array that is looked at


class Wrong(NamedTuple):
    """An entry that does not exist."""

    array: str  #       which one, as far as it is known
    index: int
    size: int

    def __str__(self) -> str:
        entry = f"{self.array}[{self.index}]" if self.array else f"entry {self.index} of an array"
        return f"{entry}, of {self.size}"


def out_of_range(closed: Any, labels: Sequence[str]) -> Wrong | None:
    """The first constant index in a computation that lies outside of its array; `labels` name the arguments."""
    names = dict(zip(closed.jaxpr.invars, labels, strict=True))
    return _walk(closed.jaxpr, _known(closed), names)


def _known(closed: Any) -> dict[Any, np.ndarray]:
    consts = {var: np.asarray(value) for var, value in zip(closed.jaxpr.constvars, closed.consts, strict=True) if _whole(value)}
    return {var: value for var, value in consts.items() if value.size <= _SMALL}


def _whole(value: Any) -> bool:
    return getattr(value, "dtype", None) is not None and np.dtype(value.dtype).kind in "iub"


def _walk(jaxpr: Any, known: dict[Any, np.ndarray], names: dict[Any, str]) -> Wrong | None:
    def value(v: Any) -> np.ndarray | None:
        return np.asarray(v.val) if isinstance(v, core.Literal) else known.get(v)

    for eqn in jaxpr.eqns:
        values = [value(v) for v in eqn.invars]
        inner = inner_call(eqn)
        found = _check(eqn, values, names) if inner is None else _walk_inner(inner, eqn, values, known, names)
        if found is not None:
            return found
        if inner is None:
            found = _INSIDE.get(eqn.primitive.name, _walk_others)(eqn, values, names)
            if found is not None:
                return found
        if inner is None and all(v is not None for v in values) and eqn.primitive.name in _FOLD:
            known[eqn.outvars[0]] = np.asarray(_FOLD[eqn.primitive.name](eqn, *values))
    return None


def _walk_inner(inner: Any, eqn: Any, values: list, known: dict[Any, np.ndarray], names: dict[Any, str]) -> Wrong | None:
    """A call: what is known of its arguments is known inside, and what it computes from them is known outside."""
    inside = _given(inner, values)
    found = _walk(inner.jaxpr, inside, labels_inside(inner.jaxpr.invars, eqn.invars, names))
    for var, out in zip(inner.jaxpr.outvars, eqn.outvars, strict=True):
        if isinstance(var, core.Literal):
            known[out] = np.asarray(var.val)
        elif var in inside:
            known[out] = inside[var]
    return found


def _walk_scan(eqn: Any, values: list, names: dict[Any, str]) -> Wrong | None:
    """Round by round: counters are known in each of them, and so are the entries of a list of whole numbers."""
    body, (consts, carried) = eqn.params["jaxpr"], scan_counts(eqn)
    if eqn.params["length"] * len(body.jaxpr.eqns) > _SMALL:
        return _walk_others(eqn, values, names)
    labels = labels_inside(body.jaxpr.invars[:consts], eqn.invars[:consts], names)
    now, rounds = values[consts : consts + carried], range(eqn.params["length"])
    for i in reversed(rounds) if eqn.params["reverse"] else rounds:
        entries = [None if xs is None else xs[i] for xs in values[consts + carried :]]
        inside = _given(body, [*values[:consts], *now, *entries])
        found = _walk(body.jaxpr, inside, labels)
        if found is not None:
            return found
        before, now = now, _results(body, inside)[:carried]
        if all(x is None for x in entries) and all(_same(old, new) for old, new in zip(before, now, strict=True)):
            break  # every round is like this one
    return None


def _same(old: np.ndarray | None, new: np.ndarray | None) -> bool:
    return new is None or (old is not None and np.array_equal(old, new))


def _walk_while(eqn: Any, values: list, names: dict[Any, str]) -> Wrong | None:
    """Round by round for as long as it is known that it goes on. Where that depends on the motion, a counter may stop anywhere:
    then only what is the same in all rounds is known."""
    p = eqn.params
    test, body, first = p["cond_jaxpr"], p["body_jaxpr"], p["cond_nconsts"] + p["body_nconsts"]
    asked, consts, now = values[: p["cond_nconsts"]], values[p["cond_nconsts"] : first], values[first:]
    labels = labels_inside(body.jaxpr.invars[: p["body_nconsts"]], eqn.invars[p["cond_nconsts"] : first], names)
    for _ in range(max(1, _SMALL // (1 + len(body.jaxpr.eqns)))):
        (goes_on,) = _outcome(test, [*asked, *now])
        if goes_on is not None and not goes_on:
            return None
        given = now if goes_on is not None else [None] * len(now)
        inside = _given(body, [*consts, *given])
        found = _walk(body.jaxpr, inside, labels)
        after = _results(body, inside)
        if found is not None or goes_on is None or all(_same(old, new) for old, new in zip(now, after, strict=True)):
            return found
        now = after
    return None


def _walk_cond(eqn: Any, values: list, names: dict[Any, str]) -> Wrong | None:
    """Every branch that may be taken."""
    for number, branch in enumerate(eqn.params["branches"]):
        if values[0] is None or int(values[0]) == number:
            found = _walk(branch.jaxpr, _given(branch, values[1:]), labels_inside(branch.jaxpr.invars, eqn.invars[1:], names))
            if found is not None:
                return found
    return None


def _outcome(closed: Any, values: list) -> list:
    """What is known of the results of a computation."""
    inside = _given(closed, values)
    _walk(closed.jaxpr, inside, {})
    return _results(closed, inside)


def _given(closed: Any, values: list) -> dict[Any, np.ndarray]:
    return {**_known(closed), **{var: x for var, x in zip(closed.jaxpr.invars, values, strict=True) if x is not None}}


def _results(closed: Any, inside: dict[Any, np.ndarray]) -> list:
    return [np.asarray(var.val) if isinstance(var, core.Literal) else inside.get(var) for var in closed.jaxpr.outvars]


def labels_inside(inner: Sequence[Any], outer: Sequence[Any], names: dict[Any, str]) -> dict[Any, str]:
    """What the arguments of an inner computation are called outside."""
    pairs = zip(inner, outer, strict=True)
    return {var: names[given] for var, given in pairs if not isinstance(given, core.Literal) and given in names}


def _walk_others(eqn: Any, *_: Any) -> Wrong | None:
    found = (_walk(sub.jaxpr, _known(sub), {}) for sub in _others(eqn))
    return next((wrong for wrong in found if wrong is not None), None)


_INSIDE: dict[str, Callable[..., Wrong | None]] = {"scan": _walk_scan, "while": _walk_while, "cond": _walk_cond}


def inner_call(eqn: Any) -> Any:
    """The computation of a plain call, whose arguments are those of the call."""
    inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
    same = hasattr(inner, "consts") and len(inner.jaxpr.invars) == len(eqn.invars)
    return inner if same and eqn.primitive.name not in ("scan", "while", "cond") else None


def loops(jaxpr: Any) -> bool:
    """Whether there is a loop in it whose number of rounds is not known before."""
    return any(eqn.primitive.name == "while" or any(loops(inner.jaxpr) for inner in _others(eqn)) for eqn in jaxpr.eqns)


def calls_python(jaxpr: Any) -> bool:
    """Whether something in it is computed by Python while it runs: that has no derivative."""
    names = ("pure_callback", "io_callback")
    return any(eqn.primitive.name in names or any(calls_python(inner.jaxpr) for inner in _others(eqn)) for eqn in jaxpr.eqns)


def _others(eqn: Any) -> list[Any]:
    """Computations inside an operation: bodies of loops, branches."""
    values = [x for value in eqn.params.values() for x in (value if isinstance(value, (tuple, list)) else (value,))]
    return [x for x in values if hasattr(x, "consts") and hasattr(x, "jaxpr")]


class Place(NamedTuple):
    """Where a computation reads an array with an index: the largest index that exists, and what is read."""

    last: int
    size: int
    array: Any  # the variable


def places_of(eqn: Any) -> list[tuple[int, int | None, Place]]:
    """By which of its arguments an operation chooses, in which column of it, and where; none for most operations."""
    kind, array = eqn.primitive.name, eqn.invars[0] if eqn.invars else None
    if kind in ("dynamic_slice", "dynamic_update_slice"):
        first = 1 if kind == "dynamic_slice" else 2
        sizes = eqn.params["slice_sizes"] if kind == "dynamic_slice" else eqn.invars[1].aval.shape
        pairs = zip(array.aval.shape, sizes, strict=True)
        return [(first + axis, None, Place(n - k, n, array)) for axis, (n, k) in enumerate(pairs)]
    if kind == "gather" or kind.startswith("scatter"):
        numbers, shape = eqn.params["dimension_numbers"], array.aval.shape
        axes, gone, sizes = _windows(eqn, numbers, kind == "gather")
        if gone and "CLIP" in str(eqn.params["mode"]):  # mode="clip", as it is written; under vmap a slice keeps all its axes
            return []
        return [(1, i, Place(shape[axis] - sizes[axis], shape[axis], array)) for i, axis in enumerate(axes)]
    return []


def _windows(eqn: Any, numbers: Any, reads: bool) -> tuple[tuple[int, ...], tuple[int, ...], list[int]]:
    """The axes that an index chooses along, those that a single entry is taken of, and how much is taken along each."""
    if reads:
        return numbers.start_index_map, numbers.collapsed_slice_dims, list(eqn.params["slice_sizes"])
    batched = tuple(getattr(numbers, "operand_batching_dims", ()))
    sizes, window = [1] * len(eqn.invars[0].aval.shape), iter(numbers.update_window_dims)
    for axis in range(len(sizes)):
        if axis not in numbers.inserted_window_dims and axis not in batched:
            sizes[axis] = eqn.invars[2].aval.shape[next(window)]
    return numbers.scatter_dims_to_operand_dims, numbers.inserted_window_dims, sizes


def _check(eqn: Any, values: list[np.ndarray | None], names: dict[Any, str]) -> Wrong | None:
    for argument, column, place in places_of(eqn):
        index = values[argument]
        if index is not None:
            index = np.atleast_1d(index if column is None else index[..., column])
            bad = index[(index < 0) | (index > place.last)]
            if bad.size:
                return _wrong(place.array, int(bad.flat[0]), place.size, names)
    return None


def _wrong(array: Any, index: int, size: int, names: dict[Any, str]) -> Wrong:
    label = "" if isinstance(array, core.Literal) else names.get(array, "")
    return wrong(label, index, size)


def wrong(label: str, index: int, size: int) -> Wrong:
    """JAX adds the size to an index below zero before it uses it."""
    return Wrong(label, index if index >= 0 else index - size, size)


def _broadcast(eqn: Any, x: np.ndarray, *_: Any) -> np.ndarray:
    shape = [1] * len(eqn.params["shape"])
    for axis, size in zip(eqn.params["broadcast_dimensions"], np.shape(x), strict=True):
        shape[axis] = size
    return np.broadcast_to(np.reshape(x, shape), eqn.params["shape"])


def _iota(eqn: Any, *_: Any) -> np.ndarray:
    shape, axis = eqn.params["shape"], eqn.params["dimension"]
    along = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return np.broadcast_to(along, shape)


def _slice(eqn: Any, x: np.ndarray) -> np.ndarray:
    p = eqn.params
    strides = p["strides"] or (1,) * x.ndim
    return x[tuple(slice(a, b, s) for a, b, s in zip(p["start_indices"], p["limit_indices"], strides, strict=True))]


_FOLD: dict[str, Callable[..., Any]] = {
    "lt": lambda _, a, b: a < b,
    "le": lambda _, a, b: a <= b,
    "gt": lambda _, a, b: a > b,
    "ge": lambda _, a, b: a >= b,
    "eq": lambda _, a, b: a == b,
    "ne": lambda _, a, b: a != b,
    "add": lambda _, a, b: a + b,
    "sub": lambda _, a, b: a - b,
    "mul": lambda _, a, b: a * b,
    "neg": lambda _, a: -a,
    "rem": lambda _, a, b: np.fmod(a, np.where(b == 0, 1, b)),
    "and": lambda _, a, b: a & b,
    "or": lambda _, a, b: a | b,
    "not": lambda _, a: ~a,
    "max": lambda _, a, b: np.maximum(a, b),
    "min": lambda _, a, b: np.minimum(a, b),
    "select_n": lambda _, which, *cases: np.choose(np.asarray(which, int), cases),
    "convert_element_type": lambda eqn, a: a.astype(eqn.params["new_dtype"]),
    "squeeze": lambda eqn, a: np.squeeze(a, tuple(eqn.params["dimensions"])),
    "reshape": lambda eqn, a: np.reshape(a, eqn.params["new_sizes"]),
    "concatenate": lambda eqn, *xs: np.concatenate(xs, axis=eqn.params["dimension"]),
    "broadcast_in_dim": _broadcast,
    "iota": _iota,
    "slice": _slice,
}
