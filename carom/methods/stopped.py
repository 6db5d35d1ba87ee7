"""Runs that end where a function of the motion is zero, with their derivatives.

A run that is stopped is a run whose last step has another length. First the step in which a stop f changes its sign is found, and
the length h of that step by halves, to rounding: nothing of this is differentiated. Then the run is taken with that length, as one
with steps of different length (`carom.methods.replay`). With x for all that the run depends on, and s(x, h) for its last state,

    f(s(x, h), x) = 0,    so    dh = − (∂f/∂x + ∂f/∂s ∂s/∂x) dx / (df/dh),                                              (1)
                                ds = ∂s/∂x dx + ∂s/∂h dh                                                                 (2)

(the implicit function theorem): exact derivatives of the discrete motion. Where f jumps through zero, as a function of v does at an
impact, (1) does not hold: the derivatives of such an end are not numbers, rather than wrong.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from carom.methods.loop import Grid, advance
from carom.methods.method import State
from carom.methods.replay import Run, run
from carom.methods.status import STOPPED
from carom.methods.stops import Stop, Watch

HALVES = 64  # of a step: more than there are bits
JUMP = 1e-6  # of what a step changes f by: located to rounding, a zero of a smooth function is far smaller


class End(NamedTuple):
    """Where a run with stops ended: at the zero of one of them, or, where none was met, after its last step."""

    t: Float[Array, ""]
    q: Float[Array, " n"]
    p: Float[Array, " n"]
    v: Float[Array, " n"]
    steps: Int[Array, ""]  #  how many were taken, with the short one
    stop: Int[Array, ""]  #   which of the stops it was; −1 where none was met


class _Located(NamedTuple):
    """What is not differentiated."""

    met: Bool[Array, ""]  #      was there a zero?
    step: Int[Array, ""]  #      the last one, then
    length: Float[Array, ""]  #  of it
    before: Float[Array, " stops"]  # the values of the stops at its start


def stopped_run(
    method: Any, system: Any, params: Any, start: State, dt: Array, num_steps: int, max_impacts: int, stops: tuple[Stop, ...]
) -> Run:
    """Like `carom.methods.replay.run`, up to the first zero. Rows after it are not a number."""
    everything = (method, system, params, start, jnp.broadcast_to(dt, (num_steps,)), stops)
    arrays, functions = eqx.partition(everything, eqx.is_array)
    found = _locate(*eqx.combine(jax.lax.stop_gradient(arrays), functions), num_steps, max_impacts)

    def until(arrays: Any, found: _Located) -> tuple[Run, Array]:
        """The run with a last step of that length, and the value of the stop at its end."""
        return _until(*eqx.combine(arrays, functions), found, num_steps, max_impacts)

    @jax.custom_jvp
    def out(arrays, found):
        return until(arrays, found)

    @out.defjvp
    def derivative(primals, tangents):
        arrays, found = primals
        (run, value), (changes, rise) = jax.jvp(lambda x: until(x, found), (arrays,), tangents[:1])
        still, one = jax.lax.stop_gradient(arrays), (jnp.ones_like(found.length),)
        _, (along, slope) = jax.jvp(lambda h: until(still, found._replace(length=h)), (found.length,), one)
        sharp = jnp.abs(value) <= JUMP * jnp.abs(slope * found.length)
        weight = jnp.where(found.met, -1 / jnp.where(sharp | ~found.met, slope, jnp.nan), 0.0)
        late = weight * rise  # (1)
        moved = lambda x, change, along: change + along * late if eqx.is_inexact_array(x) else change  # noqa: E731
        return (run, value), (jax.tree.map(moved, run, changes, along), rise)  # (2)

    return out(arrays, found)[0]


def _until(
    method: Any, system: Any, params: Any, start: State, dt: Array, stops: Any, found: _Located, num_steps: int, max_impacts: int
) -> tuple[Run, Array]:
    last = jnp.where(found.met, found.step, num_steps)
    taken = jnp.minimum(last + 1, num_steps)
    lengths = jnp.where(jnp.arange(num_steps) == last, found.length, dt)
    done = run(method, system, params, start, lengths, num_steps, max_impacts, taken)
    t, q, p = done.t[taken], done.q[taken], done.p[taken]
    watch = Watch(stops, system, params, start.q.shape[0])
    after = watch.values(q, p, t)
    which = _first(watch, found.before, jax.lax.stop_gradient(after))
    end = End(t, q, p, system.bind(params, start.q.shape[0]).velocity(q, p, t), taken, jnp.where(found.met, which, -1))
    times = jnp.where(jnp.arange(num_steps + 1) > taken, jnp.nan, done.t)
    return done._replace(t=times, end=end), after[which]


def _first(watch: Watch, before: Array, after: Array) -> Int[Array, ""]:
    """The stop that was met: the one that changed its sign, or, where rounding hides that, came nearest to zero."""
    hit = watch.crossed(jnp.sign(before), jnp.sign(after))
    nearest = jnp.abs(after) / jnp.maximum(jnp.abs(before), 1e-300)
    return jnp.argmin(jnp.where(hit, 0.0, nearest)).astype(jnp.int32)


def _locate(
    method: Any, system: Any, params: Any, start: State, dt: Array, stops: tuple[Stop, ...], num_steps: int, max_impacts: int
) -> _Located:
    """The step in which a stop is met, and how long it has to be: on the far side of the zero, by less than a rounding of t."""
    count, most = jnp.asarray(num_steps, jnp.int32), jnp.asarray(max_impacts + 1, jnp.int32)
    rows, zero = max_impacts + method.impacts_reserved, jnp.zeros((), jnp.int32)
    times = start.t + jnp.concatenate([jnp.zeros(1), jnp.cumsum(dt), jnp.sum(dt)[None]])
    grid = Grid(jnp.mean(dt), zero, count, most, num_steps, rows, times=times)
    chunk = advance(method, system, params, start, grid, stops=stops)
    met, last = chunk.status == STOPPED, chunk.steps
    here = chunk.state._replace(t=times[last])

    def halve(bracket):
        near, far, count = bracket
        middle = 0.5 * (near + far)
        short = Grid(middle, zero, zero + 1, most, 1, rows, number=last, times=here.t + middle * jnp.arange(3.0))
        past = advance(method, system, params, here, short, stops=stops).status == STOPPED
        return jnp.where(past, near, middle), jnp.where(past, middle, far), count + 1

    def coarse(bracket):
        near, far, count = bracket
        return met & (count < HALVES) & (far - near > 4 * jnp.finfo(far.dtype).eps * jnp.maximum(jnp.abs(here.t), far))

    whole = times[last + 1] - times[last]
    _, length, _ = jax.lax.while_loop(coarse, halve, (jnp.zeros_like(whole), whole, zero))
    before = Watch(stops, system, params, start.q.shape[0]).values(here.q, here.p, here.t)
    return _Located(met, last, length, before)
