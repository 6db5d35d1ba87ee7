"""Many trajectories of a variational collision integrator at once, by compaction.

Most lanes of an ensemble fly freely most of the time, and an impact costs a hundred times a free step. So all lanes *cruise*,
`STRIDE` steps without a branch, and wait where one of these steps was not clear of contacts. Once enough of them wait, they are
gathered into a pool, taken through that step, and scattered back:

    cruise    (q, p) ← Φ_h^STRIDE(q, p), where no gap closed, turned or blurred on the way                    (1)
    bounce    steps up to the one that is not clear; there, one impact after a free flight                     (2)
    careful   whatever is more than that: several impacts in a step, dips, contact at its start                (3)

(3) is the step of `solve` itself; (2) is that step where it is simple, with less to carry along. Lanes that (2) finds not to be
simple wait for (3). The lanes of a pool are taken through a stage side by side, or one after the other, which compiles sooner and
is quicker where impacts are much code: a star's takes 3.4 µs like that and 26 side by side, a particle's 4.6 times as long. All
stages use the functions of `step.py`, so a lane computes what `solve` computes, up to rounding: the compiler may fuse a product
and a sum in one of them and not in the other. Lanes are never mixed; one that fails stays where it is.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from carom.methods.status import NOT_CONVERGED, NOT_FINITE, OK
from carom.methods.variational.collision import VariationalCollision
from carom.methods.variational.impulse import launch, resolve
from carom.methods.variational.locate import clearance, slope_of_closest, turns, unresolved
from carom.methods.variational.step import Moment, collision_step, glide_step, look_ahead, origin_of
from carom.numerics.bracketing import Bracket, is_narrow, open_bracket, propose, update
from carom.xla.kernel import once, sealed, single_kernel
from carom.xla.lane_moves import put_lanes, take_lanes
from carom.xla.over_lanes import over_lanes
from carom.xla.trees import choose

TOGETHER, HARD_SINGLY, SINGLY = "side by side", "hard cases one by one", "one by one"
STRIDE = 8  # steps between two looks at who has to wait


class LaneStates(NamedTuple):
    """The states of all lanes; lanes lie along the last axis."""

    q: Float[Array, "n lanes"]
    p: Float[Array, "n lanes"]
    step: Int[Array, " lanes"]  #     steps taken
    impacts: Int[Array, " lanes"]
    status: Int[Array, " lanes"]
    control: Any = ()  #              command and memory of controllers, [m + z, lanes]; nothing without one


class LaneInputs(NamedTuple):
    """What the lanes are given. `shared` and `each` are flat lists of parameters, together the leaves of `params`."""

    shared: list[Array]
    each: list[Float[Array, "... lanes"]]
    t0: Float[Array, ""]
    dt: Float[Array, "*lanes"]  # one for all, or one each

    @property
    def varies(self) -> Any:
        """For `over_lanes`: what differs from lane to lane."""
        return LaneInputs(False, True, False, jnp.ndim(self.dt) > 0)  # pyright: ignore[reportArgumentType]


def advance_lanes(
    method: VariationalCollision,
    system: Any,
    params_of: Any,
    inputs: LaneInputs,
    states: LaneStates,
    until: Array,
    block: int,
    pool: int,
    impacts: str,
    kernel: bool,
) -> LaneStates:
    """Every lane up to step `until`, or to where it fails, `block` lanes after the other. `params_of(shared, each)` puts the
    parameters of a lane together. `impacts` are taken TOGETHER, HARD_SINGLY or SINGLY."""
    arrays, functions = eqx.partition((method, system), eqx.is_array)
    blocks = states.step.shape[0] // block

    def run(witness, arrays, inputs, states, until):
        method, system = eqx.combine(arrays, functions)
        states = states._replace(step=jnp.where(jnp.isfinite(witness), states.step, until))

        def one(i, states: LaneStates) -> LaneStates:
            part = lambda tree: jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, i * block, block, -1), tree)  # noqa: E731
            put = lambda x, new: jax.lax.dynamic_update_slice_in_dim(x, new, i * block, -1)  # noqa: E731
            ours = inputs._replace(each=part(inputs.each), dt=part(inputs.dt) if inputs.varies.dt else inputs.dt)
            return jax.tree.map(put, states, _compaction(method, system, params_of, ours, part(states), until, pool, impacts))

        return one(0, states) if blocks == 1 else jax.lax.fori_loop(0, blocks, one, states)

    args = (arrays, inputs, states, until)
    return single_kernel(run, *args) if kernel else run(jnp.zeros(()), *args)


class _Queue(NamedTuple):
    members: Bool[Array, " lanes"]
    cursor: Int[Array, ""]  #       the lane that was served last


class _Schedule(NamedTuple):
    states: LaneStates
    waiting: _Queue
    hard: _Queue


def _compaction(method, system, params_of, inputs: LaneInputs, states: LaneStates, until, pool: int, impacts: str) -> LaneStates:
    varies = inputs.varies
    bind = lambda inputs, n: bound(method, system, params_of, inputs, n)  # noqa: E731
    stride = over_lanes(lambda c, one: cruise(bind(c, one.q.shape[0]), one), [varies, True])
    simple, hard_step = _impact_stages(impacts, bind, varies)
    lanes = states.step.shape[0]
    few = max(pool // 4, 1)
    nobody = _Queue(jnp.zeros(lanes, bool), jnp.zeros((), jnp.int32))

    def active(states: LaneStates):
        return (states.status == OK) & (states.step < until)

    def ready(now: _Schedule):
        return active(now.states) & ~now.waiting.members & ~now.hard.members

    def cruising(now: _Schedule):
        return (jnp.sum(now.waiting.members) < pool) & jnp.any(ready(now))

    def fly(now: _Schedule):
        states, going = now.states, ready(now)
        q, p, clear = stride(inputs, states)
        done = once(going & clear & (states.step + STRIDE <= until))
        waiting = now.waiting._replace(members=now.waiting.members | (going & ~done))
        states = states._replace(q=jnp.where(done, q, states.q), p=jnp.where(done, p, states.p), step=states.step + STRIDE * done)
        return now._replace(states=states, waiting=waiting)

    def some(function, size: int, queue: _Queue, states: LaneStates):
        """The next `size` lanes of a queue through `function`: the states, the queue after them, and who is a hard case."""
        rank = _running_count(queue.members)
        total, base = rank[-1], rank[queue.cursor]  # those after the cursor come first, so that nobody waits for ever
        place = (jnp.arange(size) + base) % jnp.maximum(total, 1) + 1
        members = jnp.minimum(jnp.searchsorted(rank, place), lanes - 1).astype(jnp.int32)
        count = jnp.minimum(total, size)
        each, steps, pooled = take_lanes((inputs.each, inputs.dt if varies.dt else (), states), members)
        ours = inputs._replace(each=each, dt=steps if varies.dt else inputs.dt)
        idle = jnp.arange(size) >= count
        out, hard = function(ours, pooled._replace(step=jnp.where(idle, until, pooled.step)), until)
        served = jnp.zeros(size, bool)
        states, waiting, found = put_lanes((states, queue.members, nobody.members), (out, served, hard), members, count)
        return states, _Queue(waiting, members[jnp.maximum(count, 1) - 1]), found

    def ordinary(now: _Schedule):
        now = jax.lax.while_loop(cruising, fly, now)
        states, waiting, hard = some(simple, pool, now.waiting, now.states)
        return _Schedule(states, waiting, now.hard._replace(members=now.hard.members | hard))

    def moving(now: _Schedule):
        return (jnp.sum(now.hard.members) < few) & jnp.any(active(now.states) & ~now.hard.members)

    def _round(now: _Schedule):
        now = jax.lax.while_loop(moving, ordinary, now)
        states, hard, _ = some(hard_step, few, now.hard, now.states)
        return _Schedule(states, now.waiting, hard)

    start, go_on = _Schedule(states, nobody, nobody), ordinary if hard_step is None else _round
    return jax.lax.while_loop(lambda now: jnp.any(active(now.states)), go_on, start).states


def _impact_stages(impacts: str, bind, varies) -> list[Any]:
    """(2) and (3) on the lanes of a pool; no (3) where (2) leaves nothing to it."""
    stages = {  # how the lanes are taken through it, and what it does with one of them
        TOGETHER: ((over_lanes, bounce), (over_lanes, careful)),
        HARD_SINGLY: ((over_lanes, bounce), (_one_by_one, careful)),
        SINGLY: ((_one_by_one, _careful_after_approach), None),
    }

    def stage(mapped, function):
        return mapped(lambda c, one, until: function(bind(c, one.q.shape[0]), one, until), [varies, True, False])

    return [None if s is None else stage(*s) for s in stages[impacts]]


def _running_count(flags: Bool[Array, " lanes"]) -> Int[Array, " lanes"]:
    """How many flags are set up to each lane, by doubling: XLA has no cumulative sum that is fast on a CPU and a GPU."""
    count, shift = flags.astype(jnp.int32), 1
    while shift < flags.shape[0]:
        count = once(count + jnp.pad(count[:-shift], (shift, 0)))
        shift *= 2
    return count


def _one_by_one(function, in_axes):
    """What `over_lanes` promises, by a loop over the lanes: an impact on single numbers, as `solve` computes it."""

    def mapped(*args):
        varies = jax.tree.leaves(jax.tree.broadcast(tuple(in_axes), args))
        leaves, structure = jax.tree.flatten(args)

        def one(i):
            ours = [x[..., i] if v else x for x, v in zip(leaves, varies, strict=True)]
            return function(*jax.tree.unflatten(structure, ours))

        lanes = next(x.shape[-1] for x, v in zip(leaves, varies, strict=True) if v)
        return jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), jax.lax.map(one, jnp.arange(lanes)))

    return mapped


# -- one lane ------------------------------------------------------------------------------------------------------------


class _Bound:
    """A method and a system with the parameters of one lane."""

    def __init__(self, method, mechanics, inputs: LaneInputs):
        self.method, self.mechanics, self.t0, self.dt = method, mechanics, inputs.t0, inputs.dt
        self.fast_flow, self.flow = method.flow(mechanics, without_energy=True), method.flow(mechanics)
        self.approach = sealed(mechanics.approach)

    def time(self, step):
        return self.t0 + step * self.dt


def bound(method, system, params_of, inputs: LaneInputs, n: int) -> _Bound:
    return _Bound(method, method.bind(system, params_of(inputs.shared, inputs.each), n), inputs)


def cruise(lane: _Bound, one: LaneStates) -> tuple[Array, Array, Bool[Array, ""]]:
    """(1): the state STRIDE steps later, and whether they were clear. What is not finite stays so, and is looked for at the end."""

    def go_on(i, carry):
        margin, fine, q, p, gaps, rates = carry
        t = lane.time(one.step + i)
        out = lane.fast_flow(q, p, t, lane.dt)
        seen = lane.approach(out.q, out.p, t + lane.dt)
        for here in clearance(gaps, rates, *seen, lane.dt):
            margin = jnp.where(here < margin, here, margin)
        return margin, fine & out.converged, out.q, out.p, *seen

    far = jnp.full((), jnp.inf, one.q.dtype)
    start = (far, jnp.asarray(True), one.q, one.p, *lane.approach(one.q, one.p, lane.time(one.step)))
    margin, fine, q, p, _, _ = _repeat(go_on, start)
    return q, p, (margin >= 0) & fine & jnp.all(jnp.isfinite(p))


def _approach(lane: _Bound, one: LaneStates, until) -> LaneStates:
    """The steps of (1) up to the one that is not clear: what a lane keeps of a stride that was not clear throughout."""

    def go_on(_, carry):
        clear, step, q, p, gaps, rates = carry
        end = glide_step(lane.fast_flow, lane.approach, q, p, lane.time(step), lane.dt, (gaps, rates))
        clear = once(clear & end.clear & (step < until))
        return clear, step + clear, *choose(clear, (end.q, end.p), (q, p)), *end.sight

    start = (jnp.asarray(True), one.step, one.q, one.p, *lane.approach(one.q, one.p, lane.time(one.step)))
    _, step, q, p, _, _ = _repeat(go_on, start)
    return one._replace(step=step, q=q, p=p)


def _repeat(go_on, start):
    """STRIDE times: on a GPU one launch for all of them, on a CPU two by two, which saves copies of what the loop carries."""
    return jax.lax.fori_loop(0, STRIDE, go_on, start, unroll=2 if jax.default_backend() == "cpu" else STRIDE)


def bounce(lane: _Bound, one: LaneStates, until) -> tuple[LaneStates, Bool[Array, ""]]:
    """(2): what most steps with an impact are. The second value tells that this one was another kind, and is still to be done."""
    one = _approach(lane, one, until)
    asked = one.step < until
    if lane.mechanics.contacts.num_contacts == 0:
        return one, asked
    t, t_end = lane.time(one.step), lane.time(one.step + 1)
    begin = Moment.begin(one.q, one.p, t, lane.mechanics.contacts.num_faces)
    length, simple = _first_contact(lane, begin, t_end - t)
    leg, t_hit = launch(lane.flow, one.q, one.p, t, begin.pending, begin.pending.balance, length), t + length
    gaps, _ = lane.approach(leg.q, leg.p, t_hit)
    pending, settled = resolve(lane.method, lane.mechanics, leg, t_hit, lane.dt, jnp.argmin(gaps))
    after = begin._replace(q=leg.q, p=leg.p, t=t_hit, pending=pending)
    start, _, allowance, _ = origin_of(lane.mechanics, after, lane.dt)
    rest = jnp.maximum(t_end - t_hit, 0.0)
    end = look_ahead(lane.approach, lane.flow, after, allowance, rest, pending.balance)
    ends = (start.gaps, start.rates, end.gaps, end.rates, rest)
    free = jnp.all((end.gaps >= 0) & ~unresolved(*ends) & ~turns(*ends)) & jnp.all(jnp.isfinite(end.leg.p))
    good = asked & simple & settled & leg.converged & free & end.leg.converged
    moved = one._replace(q=end.leg.q, p=end.leg.p, step=one.step + 1, impacts=one.impacts + 1)
    return choose(good, moved, one), asked & ~good


def _first_contact(lane: _Bound, begin: Moment, s) -> tuple[Float[Array, ""], Bool[Array, ""]]:
    """`locate` for a free flight over s whose gaps are resolved by its ends, at one of which one is negative: when it closes.

    The bracket is that of `locate`, point by point; it carries no states.
    """
    start, touching, _, tolerance = origin_of(lane.mechanics, begin, s)

    def look(x):
        out = lane.fast_flow(begin.q, begin.p, begin.t, x)
        return lane.approach(out.q, out.p, begin.t + x)

    gaps, rates = look(s)
    ends = (start.gaps, start.rates, gaps, rates, s)
    simple = jnp.any(gaps < 0) & ~jnp.any(touching | unresolved(*ends) | turns(*ends))

    def closer(bracket: Bracket):
        x = once(propose(bracket))
        gaps, rates = look(x)
        return once(update(bracket, x, jnp.min(gaps), (), slope_of_closest(gaps, rates, touching)))

    slopes = [slope_of_closest(*seen, touching) for seen in ((start.gaps, start.rates), (gaps, rates))]
    closest = jnp.where(simple, jnp.min(gaps), -1.0)
    bracket = open_bracket(jnp.zeros_like(s), jnp.min(start.gaps), (), s, closest, slopes, tolerance)
    bracket = bracket._replace(low=jnp.where(simple, bracket.low, bracket.high))
    length = jax.lax.while_loop(lambda b: ~is_narrow(b), closer, bracket).low
    gaps, rates = look(length)
    return length, simple & ~jnp.any(turns(start.gaps, start.rates, gaps, rates, length))


def _careful_after_approach(lane: _Bound, one: LaneStates, until) -> tuple[LaneStates, Bool[Array, ""]]:
    return careful(lane, _approach(lane, one, until), until)


def careful(lane: _Bound, one: LaneStates, until) -> tuple[LaneStates, Bool[Array, ""]]:
    """(3): the step as `solve` takes it."""
    asked, no = one.step < until, jnp.asarray(False)
    t, t_end = lane.time(one.step), lane.time(one.step + 1)
    if lane.mechanics.contacts.num_contacts == 0:
        out = lane.fast_flow(one.q, one.p, t, lane.dt)
        finite = jnp.all(jnp.isfinite(out.q)) & jnp.all(jnp.isfinite(out.p))
        return one._replace(status=jnp.where(asked, jnp.where(finite, NOT_CONVERGED, NOT_FINITE), OK).astype(jnp.int32)), no
    none = jnp.zeros((), jnp.int32)
    begin = Moment.begin(one.q, one.p, t, lane.mechanics.contacts.num_faces, None, none, ~asked)
    done = collision_step(lane.method, lane.mechanics, lane.flow, begin, t_end, one.step)
    fine = done.status == OK
    q, p = choose(fine, (done.q, done.p), (one.q, one.p))
    return LaneStates(q, p, one.step + (asked & fine), one.impacts + done.num_impacts, done.status), no
