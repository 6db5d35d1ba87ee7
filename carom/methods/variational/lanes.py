"""Many trajectories of a variational collision integrator at once, by compaction.

Most lanes of an ensemble fly freely most of the time, and an impact costs a hundred times a free step. So all lanes *cruise*,
`STRIDE` steps without a branch, and wait where one of these steps was not clear of contacts. Once enough of them wait, they are
gathered into a pool, taken through that step, and scattered back:

    cruise    (q, p) ← Φ_h^STRIDE(q, p), where no gap closed, turned or blurred on the way                    (1)
    bounce    steps up to the one that is not clear; there, one impact after a free flight                     (2)
    careful   whatever is more than that: several impacts in a step, dips, contact at its start                (3)

(3) is the step of `solve` itself; (2) is that step where it is simple, with less to carry along. Lanes that (2) finds not to be
simple wait for (3). All stages use the functions of `variational.py`, so a lane computes what `solve` computes, up to rounding: the
compiler may fuse a product and a sum in one of them and not in the other. Lanes are never mixed; one that fails stays where it is.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from carom.methods.method import NOT_CONVERGED, NOT_FINITE, OK, ImpactTable
from carom.methods.variational.collision import (
    Moment,
    VariationalCollision,
    collision_step,
    glide,
    look_ahead,
    look_at,
    origin_of,
    resolve,
)
from carom.methods.variational.locate import launch, turns, unresolved
from carom.numerics.bracketing import Bracket, is_narrow, open_bracket, propose, update
from carom.xla.kernel import once, sealed, single_kernel
from carom.xla.over_lanes import over_lanes, put_lanes, take_lanes
from carom.xla.trees import choose

STRIDE = 8  # steps between two looks at who has to wait


class Fleet(NamedTuple):
    """The states of all lanes; lanes lie along the last axis."""

    q: Float[Array, "n lanes"]
    p: Float[Array, "n lanes"]
    step: Int[Array, " lanes"]  #     steps taken
    impacts: Int[Array, " lanes"]
    status: Int[Array, " lanes"]


class Course(NamedTuple):
    """What the lanes are given. `shared` and `each` are flat lists of parameters, together the leaves of `params`."""

    shared: list[Array]
    each: list[Float[Array, "... lanes"]]
    t0: Float[Array, ""]
    dt: Float[Array, "*lanes"]  # one for all, or one each

    @property
    def varies(self) -> Any:
        """For `over_lanes`: what differs from lane to lane."""
        return Course(False, True, False, jnp.ndim(self.dt) > 0)  # pyright: ignore[reportArgumentType]


def advance_lanes(
    method: VariationalCollision,
    system: Any,
    params_of: Any,
    course: Course,
    fleet: Fleet,
    until: Array,
    block: int,
    pool: int,
    kernel: bool,
) -> Fleet:
    """Every lane up to step `until`, or to where it fails, `block` lanes after the other. `params_of(shared, each)` puts the
    parameters of a lane together."""
    arrays, functions = eqx.partition((method, system), eqx.is_array)
    blocks = fleet.step.shape[0] // block

    def run(witness, arrays, course, fleet, until):
        method, system = eqx.combine(arrays, functions)
        fleet = fleet._replace(step=jnp.where(jnp.isfinite(witness), fleet.step, until))

        def one(i, fleet: Fleet) -> Fleet:
            part = lambda tree: jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, i * block, block, -1), tree)  # noqa: E731
            put = lambda x, new: jax.lax.dynamic_update_slice_in_dim(x, new, i * block, -1)  # noqa: E731
            ours = course._replace(each=part(course.each), dt=part(course.dt) if course.varies.dt else course.dt)
            return jax.tree.map(put, fleet, _compaction(method, system, params_of, ours, part(fleet), until, pool))

        return one(0, fleet) if blocks == 1 else jax.lax.fori_loop(0, blocks, one, fleet)

    args = (arrays, course, fleet, until)
    return single_kernel(run, *args) if kernel else run(jnp.zeros(()), *args)


class _Queue(NamedTuple):
    members: Bool[Array, " lanes"]
    cursor: Int[Array, ""]  #       the lane that was served last


class _Traffic(NamedTuple):
    fleet: Fleet
    waiting: _Queue
    hard: _Queue


def _compaction(method, system, params_of, course: Course, fleet: Fleet, until, pool: int) -> Fleet:
    varies = course.varies
    bind = lambda course, n: _Bound(method, system.bind(params_of(course.shared, course.each), n), course)  # noqa: E731
    cruise = over_lanes(lambda c, one: _cruise(bind(c, one.q.shape[0]), one), [varies, True])
    bounce = over_lanes(lambda c, one, until: _bounce(bind(c, one.q.shape[0]), one, until), [varies, True, False])
    careful = over_lanes(lambda c, one, until: _careful(bind(c, one.q.shape[0]), one, until), [varies, True, False])
    lanes = fleet.step.shape[0]
    few = max(pool // 4, 1)
    nobody = _Queue(jnp.zeros(lanes, bool), jnp.zeros((), jnp.int32))

    def active(fleet: Fleet):
        return (fleet.status == OK) & (fleet.step < until)

    def ready(now: _Traffic):
        return active(now.fleet) & ~now.waiting.members & ~now.hard.members

    def cruising(now: _Traffic):
        return (jnp.sum(now.waiting.members) < pool) & jnp.any(ready(now))

    def fly(now: _Traffic):
        fleet, going = now.fleet, ready(now)
        q, p, clear = cruise(course, fleet)
        done = once(going & clear & (fleet.step + STRIDE <= until))
        waiting = now.waiting._replace(members=now.waiting.members | (going & ~done))
        fleet = fleet._replace(q=jnp.where(done, q, fleet.q), p=jnp.where(done, p, fleet.p), step=fleet.step + STRIDE * done)
        return now._replace(fleet=fleet, waiting=waiting)

    def some(function, size: int, queue: _Queue, fleet: Fleet):
        """The next `size` lanes of a queue through `function`: the fleet, the queue after them, and who is a hard case."""
        rank = _running_count(queue.members)
        total, base = rank[-1], rank[queue.cursor]  # those after the cursor come first, so that nobody waits for ever
        place = (jnp.arange(size) + base) % jnp.maximum(total, 1) + 1
        members = jnp.minimum(jnp.searchsorted(rank, place), lanes - 1).astype(jnp.int32)
        count = jnp.minimum(total, size)
        each, steps, pooled = take_lanes((course.each, course.dt if varies.dt else (), fleet), members)
        ours = course._replace(each=each, dt=steps if varies.dt else course.dt)
        idle = jnp.arange(size) >= count
        out, hard = function(ours, pooled._replace(step=jnp.where(idle, until, pooled.step)), until)
        served = jnp.zeros(size, bool)
        fleet, waiting, found = put_lanes((fleet, queue.members, nobody.members), (out, served, hard), members, count)
        return fleet, _Queue(waiting, members[jnp.maximum(count, 1) - 1]), found

    def ordinary(now: _Traffic):
        now = jax.lax.while_loop(cruising, fly, now)
        fleet, waiting, hard = some(bounce, pool, now.waiting, now.fleet)
        return _Traffic(fleet, waiting, now.hard._replace(members=now.hard.members | hard))

    def moving(now: _Traffic):
        return (jnp.sum(now.hard.members) < few) & jnp.any(active(now.fleet) & ~now.hard.members)

    def round_(now: _Traffic):
        now = jax.lax.while_loop(moving, ordinary, now)
        fleet, hard, _ = some(careful, few, now.hard, now.fleet)
        return _Traffic(fleet, now.waiting, hard)

    start = _Traffic(fleet, nobody, nobody)
    return jax.lax.while_loop(lambda now: jnp.any(active(now.fleet)), round_, start).fleet


def _running_count(flags: Bool[Array, " lanes"]) -> Int[Array, " lanes"]:
    """How many flags are set up to each lane, by doubling: XLA has no cumulative sum that is fast on a CPU and a GPU."""
    count, shift = flags.astype(jnp.int32), 1
    while shift < flags.shape[0]:
        count = once(count + jnp.pad(count[:-shift], (shift, 0)))
        shift *= 2
    return count


# -- one lane ------------------------------------------------------------------------------------------------------------


class _Bound:
    """A method and a system with the parameters of one lane."""

    def __init__(self, method, mechanics, course: Course):
        self.method, self.mechanics, self.t0, self.dt = method, mechanics, course.t0, course.dt
        self.quick, self.flow = method.flow(mechanics, quick=True), method.flow(mechanics)
        self.look = sealed(lambda q, p, t: look_at(mechanics, q, p, t))

    def time(self, step):
        return self.t0 + step * self.dt


def _cruise(lane: _Bound, one: Fleet) -> tuple[Array, Array, Bool[Array, ""]]:
    """(1): the state STRIDE steps later, and whether they were clear."""

    def go_on(i, carry):
        clear, q, p, gaps, rates = carry
        out, gaps, rates, fine = glide(lane.quick, lane.look, q, p, lane.time(one.step + i), lane.dt, gaps, rates)
        return clear & fine, out.q, out.p, gaps, rates

    start = (jnp.asarray(True), one.q, one.p, *lane.look(one.q, one.p, lane.time(one.step)))
    clear, q, p, _, _ = _repeat(go_on, start)
    return q, p, clear


def _approach(lane: _Bound, one: Fleet, until) -> Fleet:
    """The steps of (1) up to the one that is not clear: what a lane keeps of a stride that was not clear throughout."""

    def go_on(_, carry):
        clear, step, q, p, gaps, rates = carry
        out, gaps, rates, fine = glide(lane.quick, lane.look, q, p, lane.time(step), lane.dt, gaps, rates)
        clear = once(clear & fine & (step < until))
        return clear, step + clear, *choose(clear, (out.q, out.p), (q, p)), gaps, rates

    start = (jnp.asarray(True), one.step, one.q, one.p, *lane.look(one.q, one.p, lane.time(one.step)))
    _, step, q, p, _, _ = _repeat(go_on, start)
    return one._replace(step=step, q=q, p=p)


def _repeat(go_on, start):
    """STRIDE times: on a GPU one launch for all of them, on a CPU two by two, which saves copies of what the loop carries."""
    return jax.lax.fori_loop(0, STRIDE, go_on, start, unroll=2 if jax.default_backend() == "cpu" else STRIDE)


def _bounce(lane: _Bound, one: Fleet, until) -> tuple[Fleet, Bool[Array, ""]]:
    """(2): what most steps with an impact are. The second value tells that this one was another kind, and is still to be done."""
    one = _approach(lane, one, until)
    asked = one.step < until
    if lane.mechanics.num_contacts == 0:
        return one, asked
    t, t_end = lane.time(one.step), lane.time(one.step + 1)
    begin = Moment.begin(one.q, one.p, t, lane.mechanics.num_faces)
    length, simple = _first_contact(lane, begin, t_end - t)
    leg, t_hit = launch(lane.flow, one.q, one.p, t, begin.pending, begin.pending.balance, length), t + length
    gaps, _ = lane.look(leg.q, leg.p, t_hit)
    pending, settled = resolve(lane.method, lane.mechanics, leg, t_hit, lane.dt, jnp.argmin(gaps))
    after = begin._replace(q=leg.q, p=leg.p, t=t_hit, pending=pending)
    start, _, allowance = origin_of(lane.mechanics, after, lane.dt)
    rest = jnp.maximum(t_end - t_hit, 0.0)
    end = look_ahead(lane.look, lane.flow, after, allowance, rest, pending.balance)
    ends = (start.gaps, start.rates, end.gaps, end.rates, rest)
    free = jnp.all((end.gaps >= 0) & ~unresolved(*ends) & ~turns(*ends)) & jnp.all(jnp.isfinite(end.leg.p))
    good = asked & simple & settled & leg.converged & free & end.leg.converged
    moved = one._replace(q=end.leg.q, p=end.leg.p, step=one.step + 1, impacts=one.impacts + 1)
    return choose(good, moved, one), asked & ~good


def _first_contact(lane: _Bound, begin: Moment, s) -> tuple[Float[Array, ""], Bool[Array, ""]]:
    """`locate` for a free flight over s whose gaps are resolved by its ends, at one of which one is negative: when it closes.

    The bracket is that of `locate`, point by point; it carries no states.
    """
    start, touching, _ = origin_of(lane.mechanics, begin, s)

    def look(x):
        out = lane.quick(begin.q, begin.p, begin.t, x)
        return lane.look(out.q, out.p, begin.t + x)

    gaps, rates = look(s)
    ends = (start.gaps, start.rates, gaps, rates, s)
    simple = jnp.any(gaps < 0) & ~jnp.any(touching | unresolved(*ends) | turns(*ends))

    def closer(bracket: Bracket):
        x = once(propose(bracket))
        return once(update(bracket, x, jnp.min(look(x)[0]), ()))

    bracket = open_bracket(jnp.zeros_like(s), jnp.min(start.gaps), (), s, jnp.where(simple, jnp.min(gaps), -1.0))
    bracket = bracket._replace(low=jnp.where(simple, bracket.low, bracket.high))
    length = jax.lax.while_loop(lambda b: ~is_narrow(b), closer, bracket).low
    gaps, rates = look(length)
    return length, simple & ~jnp.any(turns(start.gaps, start.rates, gaps, rates, length))


def _careful(lane: _Bound, one: Fleet, until) -> tuple[Fleet, Bool[Array, ""]]:
    """(3): the step as `solve` takes it."""
    asked, no = one.step < until, jnp.asarray(False)
    t, t_end = lane.time(one.step), lane.time(one.step + 1)
    if lane.mechanics.num_contacts == 0:
        out = lane.quick(one.q, one.p, t, lane.dt)
        finite = jnp.all(jnp.isfinite(out.q)) & jnp.all(jnp.isfinite(out.p))
        return one._replace(status=jnp.where(asked, jnp.where(finite, NOT_CONVERGED, NOT_FINITE), OK).astype(jnp.int32)), no
    table, none = ImpactTable.empty(1, one.q.shape[0], lane.mechanics.num_faces, one.p.shape[0]), jnp.zeros((), jnp.int32)
    done = collision_step(lane.method, lane.mechanics, lane.flow, one.q, one.p, t, t_end, one.step, table, none, asked)
    fine = done.status == OK
    q, p = choose(fine, (done.q, done.p), (one.q, one.p))
    return Fleet(q, p, one.step + (asked & fine), one.impacts + done.num_impacts, done.status), no
