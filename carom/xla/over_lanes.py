"""One function, many lanes: a computation on small arrays, turned into the same computation on long rows.

`jax.vmap` puts the lanes beside the coordinates: a vector with three entries becomes an array [lanes, 3], every sum and every index
works across its short axis, and the compiled code neither vectorises nor fuses well. Here each single number of the computation
becomes a row of its own, [lanes]. Vectors and matrices exist only while the computation is traced, as tables of rows: to
reshape, slice or join them costs nothing, and what is left is arithmetic from row to row.

Loops run until the last lane is done, and lanes that are done keep their values; a branch is computed where some lane takes it.
Both are as under `vmap`. Operations without a rule here go through `vmap`, so every function can be used; tables with more than
`LARGEST` entries are better left to `vmap` altogether, and `over_lanes` does that.
"""

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jax.extend import core
from jax.extend.core import jaxpr_as_fun
from jax.interpreters.partial_eval import dce_jaxpr

from carom.xla.kernel import tagged
from carom.xla.lane_sines import for_rows
from carom.xla.lane_tables import (
    CALLS,
    ELEMENTWISE,
    MOVES,
    NOTHING,
    REDUCTIONS,
    SEVERAL,
    Table,
    cut,
    flat,
    groups,
    is_known,
    simplified,
    split,
    table_of,
    unflat,
)
from carom.xla.scan_parts import scan_counts
from carom.xla.structure import largest

LARGEST = 128


def over_lanes(function: Callable[..., Any], in_axes: Sequence[Any] | None = None) -> Callable[..., Any]:
    """`function` for many lanes at once, which lie along the last axis of every array that goes in and comes out.

    `in_axes`: for each argument, a tree of booleans (or one for all of it): does it have lanes? All have, by default.
    """

    def mapped(*args):
        flags = [True] * len(args) if in_axes is None else in_axes
        leaves, structure = jax.tree.flatten(args)
        varies = jax.tree.leaves(jax.tree.broadcast(tuple(flags), args))
        leaves = [jnp.asarray(leaf) for leaf in leaves]
        lanes = next(leaf.shape[-1] for leaf, v in zip(leaves, varies, strict=True) if v)
        shapes = [jax.ShapeDtypeStruct(x.shape[:-1] if v else x.shape, x.dtype) for x, v in zip(leaves, varies, strict=True)]
        closed, out = jax.make_jaxpr(function, return_shape=True)(*jax.tree.unflatten(structure, shapes))
        if largest(closed.jaxpr) > LARGEST:
            axes = jax.tree.unflatten(structure, [-1 if v else None for v in varies])
            return jax.vmap(function, in_axes=axes, out_axes=-1)(*args)
        tables = [split(x, v) for x, v in zip(leaves, varies, strict=True)]
        constants = consts_of(closed)
        results = Lanes(lanes).run(closed.jaxpr, constants, tables)
        return jax.tree.unflatten(jax.tree.structure(out), [_join(table, lanes) for table in results])

    return mapped


def _join(table: Table, lanes: int) -> jax.Array:
    rows = [jnp.broadcast_to(row, (lanes,)) for row in table.reshape(-1)]
    if not rows:
        return jnp.zeros((*table.shape, lanes))
    return jnp.stack(rows).reshape(*table.shape, lanes) if table.ndim else rows[0]


class Lanes:
    """Goes through a traced computation, equation by equation, with tables for values."""

    def __init__(self, lanes: int):
        self.lanes = lanes
        self.calls: dict[Any, Callable[..., Any]] = {}  # sealed functions, so that each is compiled once

    def run(self, jaxpr: Any, constants: Sequence[Table], args: Sequence[Table]) -> list[Table]:
        values: dict[Any, Table] = {}

        def read(v):
            return split(np.asarray(v.val, getattr(v.aval, "dtype", None)), False) if isinstance(v, core.Literal) else values[v]

        values.update(zip(jaxpr.constvars, constants, strict=True))
        values.update(zip(jaxpr.invars, args, strict=True))
        for eqn in jaxpr.eqns:
            outs = self.apply(eqn, [read(v) for v in eqn.invars])
            values.update(zip(eqn.outvars, outs, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def apply(self, eqn: Any, args: list[Table]) -> list[Table]:
        name = eqn.primitive.name
        if name in MOVES and (moved := MOVES[name](args, eqn.params, eqn.outvars[0].aval)) is not None:
            return [moved]
        if name in SEVERAL:
            return SEVERAL[name](args, eqn.params)
        if name in REDUCTIONS:
            return [self.reduce(*REDUCTIONS[name], args[0], eqn.params["axes"], eqn.outvars[0].aval.dtype)]
        if name in ("jit", "pjit") and eqn.params["name"] == "sealed_call":
            return self.sealed(eqn, args)
        if name in CALLS:
            inner = eqn.params[CALLS[name]]
            closed = inner if hasattr(inner, "consts") else core.ClosedJaxpr(inner, [])
            return self.run(closed.jaxpr, consts_of(closed), args)
        special = getattr(self, f"_{name}", None)
        if special is not None:
            outs = special(eqn, args)
            if outs is not None:
                return outs
        if name in ELEMENTWISE:
            return self.elementwise(eqn, args)
        return self.general(eqn, args)

    def elementwise(self, eqn: Any, args: list[Table]) -> list[Table]:
        bind, aval = for_rows(eqn), eqn.outvars[0].aval
        columns = [np.broadcast_to(a, aval.shape).reshape(-1) for a in args]
        rows = [self.entry(eqn.primitive.name, bind, entries, aval.dtype) for entries in zip(*columns, strict=True)]
        return [table_of(rows, aval.shape)]

    def entry(self, name: str, bind: Callable[..., Any], entries: Sequence[Any], dtype: Any) -> Any:
        """One operation on rows; what constants decide is done at once, and may then choose a branch or an index."""
        known = simplified(name, entries, dtype)
        return bind(*self.level(*entries)) if known is None else known

    def sealed(self, eqn: Any, args: list[Table]) -> list[Table]:
        """A call of its own. Only rows that it needs go in, and only rows that it computes come out."""
        closed, shapes = eqn.params["jaxpr"], [a.shape for a in args]
        entries = flat(args)
        known = {i: entry for i, entry in enumerate(entries) if is_known(entry)}
        rows = [entry for i, entry in enumerate(entries) if i not in known]
        key = id(closed), *((i, str(value)) for i, value in known.items()), *(np.ndim(row) for row in rows)
        if key not in self.calls:

            def inside(rows):
                rest = iter(rows)
                every = [known[i] if i in known else next(rest) for i in range(len(entries))]
                return flat(self.run(closed.jaxpr, consts_of(closed), unflat(every, shapes)))

            self.calls[key] = _Call(inside, rows)
        return unflat(self.calls[key](rows), [v.aval.shape for v in eqn.outvars])

    def level(self, *rows: Any) -> list[Any]:
        """Rows of the same length: values that all lanes share are repeated where others are not shared."""
        if all(np.ndim(row) == 0 for row in rows):
            return list(rows)
        return [self.full(row) for row in rows]

    def full(self, row: Any) -> jax.Array:
        return lax.broadcast(row, (self.lanes,)) if np.ndim(row) == 0 else row

    def general(self, eqn: Any, args: list[Table]) -> list[Table]:
        """Whatever has no rule: by vmap."""
        bind = functools.partial(eqn.primitive.bind, **eqn.params)
        arrays = [_join(a, self.lanes) for a in args]
        outs = jax.vmap(bind, in_axes=-1, out_axes=-1)(*arrays) if args else bind()
        return [split(out, bool(args)) for out in (outs if eqn.primitive.multiple_results else [outs])]

    def reduce(self, name: str, combine: Callable[..., Any], table: Table, axes: Sequence[int], dtype: Any) -> Table:
        kept = [i for i in range(table.ndim) if i not in axes]
        flat = table.transpose(*kept, *axes).reshape(*(table.shape[i] for i in kept), -1)
        out = np.empty(flat.shape[:-1], object)
        nothing = [] if flat.shape[-1] else [np.asarray(NOTHING[name], dtype)[()]]
        for index in np.ndindex(out.shape):
            out[index] = functools.reduce(lambda a, b: self.entry(name, combine, (a, b), dtype), flat[index], *nothing)
        return out

    # -- operations of their own ---------------------------------------------------------------------------------------

    def _select_n(self, eqn: Any, args: list[Table]) -> list[Table]:
        which, *cases = args
        which = np.broadcast_to(which, cases[0].shape)

        def choose(index, *options):
            if is_known(index):
                return options[int(index)]
            return lax.select_n(*self.level(index, *(jnp.asarray(o, eqn.outvars[0].aval.dtype) for o in options)))

        rows = [choose(*e) for e in zip(which.reshape(-1), *(c.reshape(-1) for c in cases), strict=True)]
        return [table_of(rows, cases[0].shape)]

    def _dot_general(self, eqn: Any, args: list[Table]) -> list[Table] | None:
        (contract, batch), (left, right) = eqn.params["dimension_numbers"], args
        if batch[0] or eqn.outvars[0].aval.size * math.prod(left.shape[i] for i in contract[0]) > 8 * LARGEST:
            return None
        left = np.moveaxis(left, contract[0], range(-len(contract[0]), 0)) if contract[0] else left
        right = np.moveaxis(right, contract[1], range(-len(contract[1]), 0)) if contract[1] else right
        free = left.shape[: left.ndim - len(contract[0])], right.shape[: right.ndim - len(contract[1])]
        left, right = left.reshape(math.prod(free[0]), -1), right.reshape(math.prod(free[1]), -1)
        dtype = eqn.outvars[0].aval.dtype
        rows = [self.inner_product(a, b, dtype) for a in left for b in right]
        return [table_of(rows, free[0] + free[1])]

    def inner_product(self, a: Table, b: Table, dtype: Any) -> Any:
        mul = lambda *rows: operator.mul(*(jnp.asarray(row, dtype) for row in rows))  # noqa: E731
        products = [self.entry("mul", mul, pair, dtype) for pair in zip(a, b, strict=True)]
        return functools.reduce(lambda x, y: self.entry("add", operator.add, (x, y), dtype), products, np.zeros((), dtype)[()])

    def _arg(self, eqn: Any, args: list[Table], better: Callable[..., Any]) -> list[Table]:
        """argmin and argmax: the first of the best; one that is not a number counts as best."""
        (axis,), (table,), dtype = eqn.params["axes"], args, eqn.params["index_dtype"]
        moved = np.moveaxis(table, axis, -1)
        out = np.empty(moved.shape[:-1], object)
        for index in np.ndindex(out.shape):
            best, where = moved[index][0], jnp.zeros((), dtype)
            for i, row in enumerate(moved[index][1:], 1):
                a, b, w, j = self.level(row, best, where, jnp.asarray(i, dtype))
                wins = better(a, b) | ((a != a) & (b == b))
                best, where = lax.select(wins, a, b), lax.select(wins, j, w)
            out[index] = where
        return [out]

    def _argmin(self, eqn: Any, args: list[Table]) -> list[Table]:
        return self._arg(eqn, args, operator.lt)

    def _argmax(self, eqn: Any, args: list[Table]) -> list[Table]:
        return self._arg(eqn, args, operator.gt)

    def _gather(self, eqn: Any, args: list[Table]) -> list[Table] | None:
        """With constant indices, entries are only moved: their positions are gathered in their stead."""
        table, indices = args
        if not all(is_known(entry) for entry in indices.reshape(-1)):
            return None
        positions = np.arange(table.size).reshape(table.shape)
        with jax.ensure_compile_time_eval():
            places = eqn.primitive.bind(jnp.asarray(positions), jnp.asarray(indices.astype(eqn.invars[1].aval.dtype)), **eqn.params)
        return [table.reshape(-1)[np.asarray(places)]]

    def _platform_index(self, eqn: Any, args: list[Table]) -> list[Table]:
        backend = jax.default_backend()
        names = ("cuda", "rocm", "gpu") if backend == "gpu" else (backend,)
        fits = [p is None or any(name in p for name in names) for p in eqn.params["platforms"]]
        return [split(np.asarray(fits.index(True), np.int32), False)]

    def _dynamic_slice(self, eqn: Any, args: list[Table]) -> list[Table]:
        table, *starts = args
        sizes = eqn.params["slice_sizes"]
        for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            table = self.pick(table, axis, start[()], size)
        return [table]

    def pick(self, table: Table, axis: int, start: Any, size: int) -> Table:
        """`size` entries along an axis from `start` on, which may differ from lane to lane."""
        last = table.shape[axis] - size
        options = [np.take(table, range(first, first + size), axis) for first in range(last + 1)]
        if is_known(start):
            return options[int(np.clip(start, 0, last))]
        chosen = options[0]
        for first, option in enumerate(options[1:], 1):
            there = start >= first
            rows = [
                lax.select(*self.level(there, new, old)) for new, old in zip(option.reshape(-1), chosen.reshape(-1), strict=True)
            ]
            chosen = table_of(rows, chosen.shape)
        return chosen

    def _dynamic_update_slice(self, eqn: Any, args: list[Table]) -> list[Table]:
        table, update, *starts = args
        places = [range(n - m + 1) for n, m in zip(table.shape, update.shape, strict=True)]
        out = table.copy()
        clipped = [jnp.clip(start[()], 0, place[-1]) for start, place in zip(starts, places, strict=True)]
        for first in itertools.product(*places):
            here = functools.reduce(
                lambda a, b: operator.and_(*self.level(a, b)), [s == f for s, f in zip(clipped, first, strict=True)]
            )
            for index in np.ndindex(update.shape):
                at = tuple(f + i for f, i in zip(first, index, strict=True))
                out[at] = lax.select(*self.level(here, update[index], out[at]))
        return [out]

    # -- control flow --------------------------------------------------------------------------------------------------

    def _while(self, eqn: Any, args: list[Table]) -> list[Table]:
        p = eqn.params
        cond_consts, body_consts, start = cut(args, p["cond_nconsts"], p["body_nconsts"])
        shapes = [table.shape for table in start]

        def go_on(rows):
            return self.full(
                self.run(p["cond_jaxpr"].jaxpr, consts_of(p["cond_jaxpr"]), [*cond_consts, *unflat(rows, shapes)])[0][()]
            )

        def body(carry):
            going, rows = carry
            outs = self.run(p["body_jaxpr"].jaxpr, consts_of(p["body_jaxpr"]), [*body_consts, *unflat(rows, shapes)])
            rows = [lax.select(going, self.full(new), old) for new, old in zip(flat(outs), rows, strict=True)]
            return going & go_on(rows), rows

        rows = [self.full(row) for row in flat(start)]
        _, rows = lax.while_loop(lambda carry: jnp.any(carry[0]), body, (go_on(rows), rows))
        return unflat(rows, shapes)

    def _scan(self, eqn: Any, args: list[Table]) -> list[Table]:
        p, inner = eqn.params, eqn.params["jaxpr"].jaxpr
        num_consts, num_carry = scan_counts(eqn)
        constants, carry, xs = cut(args, num_consts, num_carry)
        carry_shapes, x_shapes = [c.shape for c in carry], [x.shape[1:] for x in xs]
        y_shapes = [v.aval.shape[1:] for v in eqn.outvars[num_carry:]]

        def step(rows, entries):
            tables = [*constants, *unflat(rows, carry_shapes), *unflat(entries, x_shapes)]
            outs = self.run(inner, consts_of(p["jaxpr"]), tables)
            new, ys = flat(outs[:num_carry]), flat(outs[num_carry:])
            new = [self.full(row) if np.ndim(old) else jnp.asarray(row, old.dtype) for row, old in zip(new, rows, strict=True)]
            return new, [self.full(row) for row in ys]

        columns = [
            jnp.stack(self.level(*x.reshape(p["length"], -1)[:, i]))
            for x, s in zip(xs, x_shapes, strict=True)
            for i in range(math.prod(s))
        ]
        dtypes = [v.aval.dtype for v in inner.invars[len(constants) : len(constants) + num_carry]]
        start = [np.asarray(row, d) if is_known(row) else row for table, d in zip(carry, dtypes, strict=True) for row in table.flat]
        rows = self.widened(lambda rows: step(rows, [column[0] for column in columns])[0], start)
        rows, ys = lax.scan(step, rows, columns, length=p["length"], reverse=p["reverse"], unroll=p["unroll"])
        stacked = [
            table_of([y[i] for i in range(p["length"]) for y in group], (p["length"], *shape))
            for group, shape in zip(groups(ys, y_shapes), y_shapes, strict=True)
        ]
        return [*unflat(rows, carry_shapes), *stacked]

    def widened(self, step: Callable[..., list[Any]], rows: list[Any]) -> list[Any]:
        """The rows that a loop carries, as wide as it makes them: what all lanes share, such as a counter, stays one number."""
        rows = [jnp.asarray(row) for row in rows]
        while True:
            widths = [out.ndim for out in jax.eval_shape(step, rows)]
            if all(width <= row.ndim for width, row in zip(widths, rows, strict=True)):
                return rows
            rows = [self.full(row) if width else row for width, row in zip(widths, rows, strict=True)]

    def _cond(self, eqn: Any, args: list[Table]) -> list[Table]:
        which, *operands = args
        branches, shapes = eqn.params["branches"], [v.aval.shape for v in eqn.outvars]
        if is_known(which[()]):
            branch = branches[int(np.clip(which[()], 0, len(branches) - 1))]
            return self.run(branch.jaxpr, consts_of(branch), operands)
        dtypes = [v.aval.dtype for v in eqn.outvars for _ in range(math.prod(v.aval.shape))]
        index = self.full(which[()])
        index = index.astype(jnp.int32) if index.dtype == bool else jnp.clip(index, 0, len(branches) - 1)
        rows = [jnp.zeros(self.lanes, dtype) for dtype in dtypes]
        for i, branch in enumerate(branches):

            def taken(branch=branch):
                return [self.full(row) for row in flat(self.run(branch.jaxpr, consts_of(branch), operands))]

            here = index == i
            outs = lax.cond(jnp.any(here), taken, lambda: [jnp.zeros(self.lanes, dtype) for dtype in dtypes])
            rows = [lax.select(here, new, old) for new, old in zip(outs, rows, strict=True)]
        return unflat(rows, shapes)


class _Call:
    """A function from rows to rows as a call of its own, without arguments that do not matter and results that are no news."""

    def __init__(self, function: Callable[..., list[Any]], rows: list[Any]):
        self.known: dict[int, Any] = {}  #   results that are constants
        self.given: dict[int, int] = {}  #   results that are arguments, by their places

        def inside(rows):
            outs = function(rows)
            self.known = {i: out for i, out in enumerate(outs) if is_known(out)}
            return [out for i, out in enumerate(outs) if i not in self.known]

        closed = jax.make_jaxpr(inside)(rows)
        jaxpr, self.size = closed.jaxpr, len(self.known) + len(closed.jaxpr.outvars)
        places = [i for i in range(self.size) if i not in self.known]
        invars = list(jaxpr.invars)
        for place, var in zip(places, jaxpr.outvars, strict=True):
            if not isinstance(var, core.Literal) and var in invars:
                self.given[place] = invars.index(var)
        self.computed = [place for place in places if place not in self.given]
        live, self.used = dce_jaxpr(jaxpr, [place in self.computed for place in places])
        inner = jaxpr_as_fun(core.ClosedJaxpr(live, closed.consts))
        self.call = tagged(jax.jit(lambda rows: inner(*rows)), inlineable="false") if self.computed else lambda rows: []

    def __call__(self, rows: list[Any]) -> list[Any]:
        found = iter(self.call([row for row, used in zip(rows, self.used, strict=True) if used]))
        others = {place: rows[i] for place, i in self.given.items()} | self.known
        return [others[place] if place in others else next(found) for place in range(self.size)]


def consts_of(closed: Any) -> list[Table]:
    return [split(c if isinstance(c, Tracer) else np.asarray(c), False) for c in closed.consts]
