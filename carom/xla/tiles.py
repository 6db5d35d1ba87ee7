"""Many lanes on a GPU as one kernel: a tile of lanes goes through a whole computation, loops included, and stays on its processor.

XLA starts a kernel for every fused piece of a loop and keeps the state of all lanes in memory between two of them: a step of a
particle is thirty operations and a hundred bytes to read and write. Here the loops are inside the kernel, one lane to a thread, and
what they carry stays in registers. `over_lanes` has left nothing but arithmetic from row to row, and that is what Triton takes, by
way of Pallas: `in_tiles` says it once more in the words that Pallas has for Triton, with all that is constant computed beforehand.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jax.extend import core

from carom.xla.lane_tables import CALLS, Table, cut, own_table, table_of
from carom.xla.over_lanes import Lanes, consts_of

TILE = 32  # lanes: as many as a GPU runs in step; more would wait for one another


class TileLanes(Lanes):
    """`over_lanes` for what goes into a kernel, which has no arrays of several rows: what a loop goes through is unrolled."""

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """A function of one lane, on trees of tables."""
        leaves, structure = jax.tree.flatten(args, is_leaf=_is_table)
        shapes = [jax.ShapeDtypeStruct(table.shape, _dtype(table)) for table in leaves]
        closed, out = jax.make_jaxpr(function, return_shape=True)(*jax.tree.unflatten(structure, shapes))
        return jax.tree.unflatten(jax.tree.structure(out), self.run(closed.jaxpr, consts_of(closed), leaves))

    def _scan(self, eqn: Any, args: list[Table]) -> list[Table]:
        p, inner = eqn.params, eqn.params["jaxpr"].jaxpr
        through = sum(o.aval.shape != i.aval.shape for o, i in zip(eqn.invars, inner.invars, strict=True))
        carried = sum(o.aval.shape == i.aval.shape for o, i in zip(eqn.outvars, inner.outvars, strict=True))
        if through == 0 and carried == len(eqn.outvars):
            return super()._scan(eqn, args)
        constants, carry, xs = cut(args, len(args) - through - carried, carried)
        rows: list[list[Table]] = []
        for i in reversed(range(p["length"])) if p["reverse"] else range(p["length"]):
            outs = self.run(inner, consts_of(p["jaxpr"]), [*constants, *carry, *(own_table(x[i]) for x in xs)])
            carry, ys = outs[:carried], outs[carried:]
            rows.append(ys)
        rows = rows[::-1] if p["reverse"] else rows
        return [*carry, *(np.stack([ys[k] for ys in rows]) for k in range(len(eqn.outvars) - carried))]


def _is_table(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype == object


def _dtype(table: Table) -> Any:
    return jnp.result_type(table.reshape(-1)[0]) if table.size else jnp.result_type(float)


def in_tiles(
    function: Callable[..., list[Any]],
    args: tuple[Any, ...],
    varies: tuple[Any, ...],
    types: Sequence[Any],
    *,
    tile: int = TILE,
    interpret: bool = False,
) -> list[jax.Array]:
    """`function(lanes, *args)` for tile after tile of lanes. Its arguments are trees of tables, made of arrays whose last axis has
    the lanes where `varies` says so; its results are rows of the `types`. `interpret` is for tests: no GPU, and slow."""
    from jax.experimental import pallas  # takes a third of a second to import, which those without a GPU need not wait for

    leaves, structure = jax.tree.flatten(args)
    flags = jax.tree.leaves(jax.tree.broadcast(varies, args))
    total = next(x.shape[-1] for x, v in zip(leaves, flags, strict=True) if v)
    assert total % tile == 0, f"{total} lanes are no whole number of tiles of {tile}: the last of them would not be computed"
    shapes = [jnp.shape(x)[:-1] if v else jnp.shape(x) for x, v in zip(leaves, flags, strict=True)]
    flats = [jnp.reshape(x, (-1, total) if v else -1) for x, v in zip(leaves, flags, strict=True)]
    flats = [x if x.size else jnp.zeros((1, total) if v else 1, x.dtype) for x, v in zip(flats, flags, strict=True)]

    def kernel(*refs: Any) -> None:
        values = []
        for ref, v, shape in zip(refs, flags, shapes, strict=False):
            values += [ref[i, :] if v else ref[i] for i in range(math.prod(shape))]

        def whole(*values: Any) -> list[Any]:
            rest = iter(values)
            tables = [table_of([next(rest) for _ in range(math.prod(shape))], shape) for shape in shapes]
            return function(TileLanes(tile), *jax.tree.unflatten(structure, tables))

        closed = jax.make_jaxpr(whole)(*values)
        rows = _again(closed, values)
        for ref, row, var in zip(refs[len(flats) :], rows, closed.jaxpr.outvars, strict=True):
            ref[...] = _full(row, var.aval).astype(ref.dtype)

    whole_of = [pallas.BlockSpec(x.shape, lambda i: (0,)) if not v else None for x, v in zip(flats, flags, strict=True)]
    parts = [w or pallas.BlockSpec((x.shape[0], tile), lambda i: (0, i)) for x, w in zip(flats, whole_of, strict=True)]
    out = [jax.ShapeDtypeStruct((total,), t) for t in types]
    rows = [pallas.BlockSpec((tile,), lambda i: (i,)) for _ in types]
    how: dict[str, Any] = {"interpret": True} if interpret else _triton(tile)
    return pallas.pallas_call(kernel, grid=(total // tile,), in_specs=parts, out_specs=rows, out_shape=out, **how)(*flats)


def _triton(tile: int) -> dict[str, Any]:
    from jax.experimental.pallas import triton

    return {"compiler_params": triton.CompilerParams(num_warps=max(1, tile // 32), num_stages=1)}


# -- in the words of Triton ----------------------------------------------------------------------------------------------


def _again(closed: Any, args: Sequence[Any]) -> list[Any]:
    """A traced computation once more. What is known is computed here and now: a kernel takes no constants but numbers."""
    jaxpr, consts = (closed.jaxpr, closed.consts) if hasattr(closed, "consts") else (closed, [])
    known = [c if isinstance(c, Tracer) else np.asarray(c) for c in consts]
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, known, strict=True)) | dict(zip(jaxpr.invars, args, strict=True))

    def read(v: Any) -> Any:
        return np.asarray(v.val, v.aval.dtype) if isinstance(v, core.Literal) else values[v]

    for eqn in jaxpr.eqns:
        values.update(zip(eqn.outvars, _said(eqn, [read(v) for v in eqn.invars]), strict=True))
    return [read(v) for v in jaxpr.outvars]


def _said(eqn: Any, args: list[Any]) -> list[Any]:
    name, p = eqn.primitive.name, eqn.params
    if name in CALLS:
        return _again(p[CALLS[name]], args)
    if name in _LOOPS:
        return _LOOPS[name](p, args, [v.aval for v in eqn.outvars])
    if all(isinstance(x, np.ndarray) for x in args):
        with jax.ensure_compile_time_eval():
            outs = eqn.primitive.bind(*(jnp.asarray(x) for x in args), **p)
            return [np.asarray(x) for x in (outs if eqn.primitive.multiple_results else [outs])]
    args = [_number(x) for x in args]
    if name in _OTHERWISE:
        return [_OTHERWISE[name](p, eqn.outvars[0].aval, *args)]
    outs = eqn.primitive.bind(*args, **p)
    return outs if eqn.primitive.multiple_results else [outs]


def _number(x: Any) -> Any:
    """What is known as one number, or as a row of that number."""
    if not isinstance(x, np.ndarray):
        return x
    first = x.reshape(-1)[0]
    assert np.all((x == first) | (x != x)), "a row of different constants cannot go into a kernel"
    return lax.full(x.shape, first, x.dtype) if x.shape else first


def _full(x: Any, aval: Any) -> Any:
    x = _number(x)
    if np.ndim(x) == len(aval.shape) and not isinstance(x, np.generic):
        return x
    return lax.full(aval.shape, x, aval.dtype) if isinstance(x, np.generic) else jnp.broadcast_to(x, aval.shape)


def _while(p: Any, args: list[Any], avals: list[Any]) -> list[Any]:
    ours, theirs, start = cut(args, p["cond_nconsts"], p["body_nconsts"])
    level = lambda rows: [_full(x, aval) for x, aval in zip(rows, avals, strict=True)]  # noqa: E731
    return lax.while_loop(
        lambda rows: _again(p["cond_jaxpr"], [*ours, *rows])[0],
        lambda rows: level(_again(p["body_jaxpr"], [*theirs, *rows])),
        level(start),
    )


def _scan(p: Any, args: list[Any], avals: list[Any]) -> list[Any]:
    """Only a carry: the rest `TileLanes` has unrolled."""
    constants, start = cut(args, len(args) - len(avals))
    level = lambda rows: tuple(_full(x, aval) for x, aval in zip(rows, avals, strict=True))  # noqa: E731
    return list(lax.fori_loop(0, p["length"], lambda _, rows: level(_again(p["jaxpr"], [*constants, *rows])), level(start)))


def _cond(p: Any, args: list[Any], avals: list[Any]) -> list[Any]:
    which, *rest = args
    if isinstance(which, np.ndarray):
        return _again(p["branches"][int(which)], rest)
    level = lambda rows: tuple(_full(x, aval) for x, aval in zip(rows, avals, strict=True))  # noqa: E731
    ways = [lambda branch=branch: level(_again(branch, rest)) for branch in p["branches"]]
    return list(lax.cond(which != 0, ways[1], ways[0]) if len(ways) == 2 else lax.switch(which, ways))


def _power(p: Any, aval: Any, x: Any) -> Any:
    digits, square, factors = abs(p["y"]), x, []
    while digits:
        factors += [square] if digits & 1 else []
        digits >>= 1
        square = square * square if digits else square
    whole = reduce(lambda a, b: a * b, factors)
    return whole if p["y"] > 0 else 1 / whole


def _chosen(p: Any, aval: Any, which: Any, *cases: Any) -> Any:
    rows = [_full(case, aval) for case in cases]
    if len(rows) == 1:
        return rows[0]
    which = jnp.broadcast_to(which, aval.shape)
    if len(rows) == 2:
        return jnp.where(which if which.dtype == bool else which != 0, rows[1], rows[0])
    return reduce(lambda out, i: jnp.where(which == i, rows[i], out), range(1, len(rows)), rows[0])


_LOOPS: dict[str, Callable[..., list[Any]]] = {"while": _while, "scan": _scan, "cond": _cond}
_OTHERWISE: dict[str, Callable[..., Any]] = {  # what Triton has no word for
    "reduce_or": lambda p, aval, x: jnp.max(x.astype(jnp.int32), axis=p["axes"]) > 0,
    "reduce_and": lambda p, aval, x: jnp.min(x.astype(jnp.int32), axis=p["axes"]) > 0,
    "add_any": lambda p, aval, x, y: x + y,
    "square": lambda p, aval, x: x * x,
    "integer_pow": _power,
    "select_n": _chosen,
    "optimization_barrier": lambda p, aval, x: x,
    "xla_metadata_value": lambda p, aval, x: x,
}
