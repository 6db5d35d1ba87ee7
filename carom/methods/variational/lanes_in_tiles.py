"""The lanes of an ensemble on a GPU: cruise and bounce of `lanes.py` inside one kernel, tile by tile.

In a tile every lane has its own step. Lanes cruise until one of their steps is not clear, and wait there; once most of the tile
waits, all that wait bounce together:

    tile:   while a lane is on its way:   cruise while more than a quarter of these lanes fly;   bounce those that wait     (1), (2)
    all:    while a lane is on its way:   tiles;   the hard cases that they have left, a pool at a time, in tiles too        (3)

(1), (2) and (3) are the stages of `lanes.py`, so a lane computes what it computes there. (3) is much code and rarely run, so it is
a kernel of its own: inside of (1) and (2) it would take their registers, and operation by operation, as XLA runs it, a few hard
cases in a million lanes took longer than everything else (`benchmarks/README.md`).
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool

from carom.methods.status import OK
from carom.methods.variational.lanes import STRIDE, LaneInputs, LaneStates, bounce, bound, careful, cruise
from carom.xla.lane_moves import put_lanes, take_lanes
from carom.xla.lane_tables import table_of
from carom.xla.tiles import TILE, TileLanes, in_tiles

FLYING = 4  # of the lanes that are on their way, one in so many may still fly when the others bounce


def advance_in_tiles(
    method: Any, system: Any, params_of: Any, inputs: LaneInputs, states: LaneStates, until: Array, pool: int, **how: Any
) -> LaneStates:
    """What `advance_lanes` promises. `how`: the size of a tile, and whether it is interpreted."""
    arrays, functions = eqx.partition((method, system), eqx.is_array)

    def bind(arrays, inputs: LaneInputs, n: int):
        method, system = eqx.combine(arrays, functions)  # numbers of a method go into a kernel as all others do
        return bound(method, system, params_of, inputs, n)

    lanes, pool = states.step.shape[0], min(pool, states.step.shape[0])
    hard_step = careful_in_tiles(bind, {"tile": min(TILE, pool)} | how)

    def active(states: LaneStates) -> Array:
        return (states.status == OK) & (states.step < until)

    def tiles(states: LaneStates) -> tuple[LaneStates, Bool[Array, " lanes"]]:
        n, m = states.q.shape[0], states.p.shape[0]
        types = [states.q.dtype] * (n + m) + [jnp.int32] * 4
        rows = in_tiles(
            lambda lanes, *args: _tile(lanes, bind, *args),
            (arrays, inputs, states, until),
            (False, inputs.varies, True, False),
            types,
            **{"tile": min(TILE, lanes)} | how,
        )
        step, impacts, status, hard = rows[n + m :]
        return LaneStates(jnp.stack(rows[:n]), jnp.stack(rows[n : n + m]), step, impacts, status, states.control), hard > 0

    def serve(carry):
        states, hard = carry
        members = jnp.nonzero(hard, size=pool, fill_value=lanes - 1)[0]
        count = jnp.minimum(jnp.sum(hard), pool)
        each, steps, some = take_lanes((inputs.each, inputs.dt if inputs.varies.dt else (), states), members)
        ours = inputs._replace(each=each, dt=steps if inputs.varies.dt else inputs.dt)
        idle = jnp.arange(pool) >= count
        out = hard_step(arrays, ours, some._replace(step=jnp.where(idle, until, some.step)), until)
        return put_lanes((states, hard), (out, jnp.zeros(pool, bool)), members, count)

    def around(states: LaneStates) -> LaneStates:
        return lax.while_loop(lambda carry: jnp.any(carry[1]), serve, tiles(states))[0]

    return lax.while_loop(lambda states: jnp.any(active(states)), around, states)


def careful_in_tiles(bind: Any, how: dict[str, Any]) -> Any:
    """(3) of a pool of lanes, tile by tile: each takes as long as it needs, and no kernel is started for every operation."""

    def step(arrays: Any, inputs: LaneInputs, states: LaneStates, until: Array) -> LaneStates:
        n, m = states.q.shape[0], states.p.shape[0]

        def hard(lanes: TileLanes, arrays: Any, inputs: LaneInputs, states: LaneStates, until: Any) -> list[Any]:
            take = lambda a, c, one, until: careful(bind(a, c, n), one, until)[0]  # noqa: E731
            out = lanes.call(take, arrays, inputs, states, until)
            return [lanes.full(x) for x in [*out.q, *out.p, out.step[()], out.impacts[()], out.status[()]]]

        types = [states.q.dtype] * (n + m) + [jnp.int32] * 3
        rows = in_tiles(hard, (arrays, inputs, states, until), (False, inputs.varies, True, False), types, **how)
        return LaneStates(jnp.stack(rows[:n]), jnp.stack(rows[n : n + m]), *rows[n + m :], states.control)

    return step


def _tile(lanes: TileLanes, bind: Any, arrays: Any, inputs: LaneInputs, states: LaneStates, until: Any) -> list[Any]:
    """The rows of the states when every lane of the tile is done, has failed or is a hard case; and which are."""
    n, m, end = states.q.shape[0], states.p.shape[0], until[()]
    step, status = n + m, n + m + 2

    def unpack(rows: list[Any]) -> LaneStates:
        one = lambda i: table_of([rows[i]], ())  # noqa: E731
        return LaneStates(
            table_of(rows[:n], (n,)), table_of(rows[n:step], (m,)), one(step), one(step + 1), one(status), states.control
        )

    def count(flags: Any) -> Any:
        return jnp.sum(flags.astype(jnp.int32))

    def active(rows: list[Any], hard: Any) -> Any:
        return (rows[status] == OK) & (rows[step] < end) & ~hard

    def flying(now: Any) -> Any:
        rows, waiting, hard = now
        on_the_way = active(rows, hard)
        free = count(on_the_way & ~waiting)
        return (free > 0) & (FLYING * free > count(on_the_way))

    def fly(now: Any) -> Any:
        rows, waiting, hard = now
        going = active(rows, hard) & ~waiting
        q, p, clear = lanes.call(lambda a, c, one: cruise(bind(a, c, n), one), arrays, inputs, unpack(rows))
        done = going & lanes.full(clear[()]) & (rows[step] + STRIDE <= end)
        moved = [jnp.where(done, lanes.full(new), old) for new, old in zip([*q, *p], rows[:step], strict=True)]
        taken = rows[step] + jnp.where(done, jnp.int32(STRIDE), jnp.int32(0))
        return [*moved, taken, *rows[step + 1 :]], waiting | (going & ~done), hard

    def around(now: Any) -> Any:
        rows, waiting, hard = lax.while_loop(flying, fly, now)
        idle = ~waiting
        asked = [*rows[:step], jnp.where(idle, end, rows[step]), *rows[step + 1 :]]
        out, left = lanes.call(lambda a, c, one, until: bounce(bind(a, c, n), one, until), arrays, inputs, unpack(asked), until)
        new = [*out.q, *out.p, out.step[()], out.impacts[()], out.status[()]]
        rows = [jnp.where(idle, old, lanes.full(x).astype(old.dtype)) for x, old in zip(new, rows, strict=True)]
        return rows, jnp.zeros_like(waiting), hard | (lanes.full(left[()]) & ~idle)

    start = [lanes.full(x) for x in [*states.q, *states.p, states.step[()], states.impacts[()], states.status[()]]]
    nobody = start[step] < 0
    go_on = lambda now: count(active(now[0], now[2])) > 0  # noqa: E731
    rows, _, hard = lax.while_loop(go_on, around, (start, nobody, nobody))
    return [*rows, hard.astype(jnp.int32)]
