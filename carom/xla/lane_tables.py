"""Tables of rows: what the vectors and matrices of a computation are while it is carried over to many lanes (lanes.py).

Operations that only move entries, and operations on constants, are done here and now; nothing of them is left to compile.
"""

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

Table = np.ndarray  # of rows: arrays [lanes], or [] where all lanes have the same value


def split(array: Any, has_lanes: bool) -> Table:
    """An array as a table of its rows."""
    shape = array.shape[:-1] if has_lanes else array.shape
    table = np.empty(shape, object)
    for index in np.ndindex(shape):
        table[index] = array[index]
    return table


def table_of(rows: list[Any], shape: tuple[int, ...]) -> Table:
    table = np.empty(len(rows), object)
    for i, row in enumerate(rows):
        table[i] = row
    return table.reshape(shape)


def own_table(entry: Any) -> Table:
    """A table, also where numpy hands out the entry of one."""
    return entry if isinstance(entry, np.ndarray) and entry.dtype == object else table_of([entry], ())


def is_known(row: Any) -> bool:
    return isinstance(row, (np.generic, np.ndarray, bool, int, float))


def cut(items: list[Any], *sizes: int) -> list[list[Any]]:
    ends = [0, *itertools.accumulate(sizes), len(items)]
    return [items[a:b] for a, b in itertools.pairwise(ends)]


def flat(tables: Sequence[Table]) -> list[Any]:
    return [row for table in tables for row in table.reshape(-1)]


def groups(rows: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    return cut(list(rows), *(math.prod(s) for s in shapes))[:-1]


def unflat(rows: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> list[Table]:
    return [table_of(list(group), shape) for group, shape in zip(groups(rows, shapes), shapes, strict=True)]


# -- operations that only move entries, on tables ------------------------------------------------------------------------


def _broadcast(args, params, aval):
    (table,) = args
    shape = [1] * len(aval.shape)
    for axis, size in zip(params["broadcast_dimensions"], table.shape, strict=True):
        shape[axis] = size
    return np.broadcast_to(table.reshape(shape), aval.shape)


def _pad(args, params, aval):
    table, filling = args
    out = np.empty(aval.shape, object)
    out.fill(filling[()])
    config = params["padding_config"]
    for index in np.ndindex(table.shape):
        at = tuple(low + i * (inner + 1) for i, (low, _, inner) in zip(index, config, strict=True))
        if all(0 <= i < n for i, n in zip(at, aval.shape, strict=True)):
            out[at] = table[index]
    return out


def _slice(args, params, aval):
    strides = params["strides"] or (1,) * args[0].ndim
    return args[0][tuple(slice(a, b, s) for a, b, s in zip(params["start_indices"], params["limit_indices"], strides, strict=True))]


def _iota(args, params, aval):
    shape = [1] * len(aval.shape)
    shape[params["dimension"]] = aval.shape[params["dimension"]]
    return np.broadcast_to(split(np.arange(shape[params["dimension"]], dtype=aval.dtype), False).reshape(shape), aval.shape)


def _scatter(args, params, aval):
    """`x.at[i].set(y)` of one entry at a place that is known; None for whatever is more than that."""
    (table, index, new), dims = args, params["dimension_numbers"]
    plain = table.ndim == 1 and index.shape == (1,) and new.ndim == 0 and tuple(dims.inserted_window_dims) == (0,)
    if not plain or not is_known(index[0]):
        return None
    out, at = table.copy(), int(index[0])
    if 0 <= at < len(out):  # as JAX does it: what lies outside is dropped
        out[at] = new[()]
    return out


MOVES: dict[str, Callable[..., Table | None]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": lambda args, params, aval: args[0].reshape(aval.shape),
    "squeeze": lambda args, params, aval: args[0].reshape(aval.shape),
    "transpose": lambda args, params, aval: args[0].transpose(params["permutation"]),
    "rev": lambda args, params, aval: np.flip(args[0], params["dimensions"]),
    "concatenate": lambda args, params, aval: np.concatenate(args, params["dimension"]),
    "stack": lambda args, params, aval: np.stack(args, params["axis"]),
    "pad": _pad,
    "slice": _slice,
    "iota": _iota,
    "scatter": _scatter,
    "xla_metadata_value": lambda args, params, aval: args[0],
    "copy": lambda args, params, aval: args[0],
    "stop_gradient": lambda args, params, aval: args[0],
}
SEVERAL: dict[str, Callable[..., list[Table]]] = {  # moves with several results
    "split": lambda args, params: np.split(args[0], np.cumsum(params["sizes"])[:-1], params["axis"]),
    "unstack": lambda args, params: [own_table(part) for part in np.moveaxis(args[0], params["axis"], 0)],
}
REDUCTIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "reduce_sum": ("add", operator.add),
    "reduce_prod": ("mul", operator.mul),
    "reduce_max": ("max", jnp.maximum),
    "reduce_min": ("min", jnp.minimum),
    "reduce_and": ("and", operator.and_),
    "reduce_or": ("or", operator.or_),
}
NOTHING = {"add": 0, "mul": 1, "max": -np.inf, "min": np.inf, "and": True, "or": False}  # what no entries reduce to
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "xla_metadata_call": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "remat": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
# Operations on constants, done at once.
KNOWABLE: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "add": np.add,
    "add_any": np.add,
    "and": np.bitwise_and,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "max": np.maximum,
    "min": np.minimum,
    "not": np.invert,
    "or": np.bitwise_or,
    "sign": np.sign,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "convert_element_type": lambda x: x,
}


def simplified(name: str, entries: Sequence[Any], dtype: Any) -> Any:
    """The result of an operation where constants among its entries say it, or None. Masses and normals are full of zeros and ones,
    and the compiler may not drop 0·x, since x might be infinite; here lanes with such an x have failed already."""
    if name in KNOWABLE and all(is_known(entry) for entry in entries):
        return np.asarray(KNOWABLE[name](*(np.asarray(entry) for entry in entries))).astype(dtype)[()]
    if not np.issubdtype(dtype, np.inexact):
        return None
    zero = [is_known(entry) and entry == 0 for entry in entries]
    one = [is_known(entry) and entry == 1 for entry in entries]
    if name == "mul":
        if any(zero):
            return np.zeros((), dtype)[()]
        return entries[1] if one[0] else entries[0] if one[1] else None
    if name in ("add", "add_any"):
        return entries[1] if zero[0] else entries[0] if zero[1] else None
    if name == "sub" and zero[1]:
        return entries[0]
    if name == "div":
        return np.zeros((), dtype)[()] if zero[0] else entries[0] if one[1] else None
    return None


ELEMENTWISE = frozenset(
    [
        "abs",
        "acos",
        "acosh",
        "add",
        "add_any",
        "and",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cbrt",
        "ceil",
        "clamp",
        "convert_element_type",
        "cos",
        "cosh",
        "div",
        "eq",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "ge",
        "gt",
        "integer_pow",
        "is_finite",
        "le",
        "log",
        "log1p",
        "logistic",
        "lt",
        "max",
        "min",
        "mul",
        "ne",
        "neg",
        "nextafter",
        "not",
        "or",
        "pow",
        "rem",
        "round",
        "rsqrt",
        "shift_left",
        "sign",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "sub",
        "tan",
        "tanh",
        "xor",
    ]
)
