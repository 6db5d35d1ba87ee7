"""One step of an adaptive solver, and the first contact in it."""

from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from carom.numerics.linalg import matvec, solve
from carom.system.mechanics import Mechanics
from carom.xla.kernel import for_this_kernel
from carom.xla.trees import choose

LOOKS = 8  #        points at which a step is searched for contacts
HALVINGS = 50  #    of an eighth of a step: down to its rounding
EPS = float(np.finfo(float).eps)


# -- one step of the solver ----------------------------------------------------------------------------------------------


class End(NamedTuple):
    length: Float[Array, ""]  #    of the flight to here
    q: Float[Array, " n"]
    p: Float[Array, " n"]


class Flight(NamedTuple):
    """A step of the solver."""

    end: End
    size: Float[Array, ""]  #      estimated error, in units of the tolerance
    finite: Bool[Array, ""]
    dense: Any  #                  what the solver's interpolation wants to know


def fly(method: Any, mechanics: Mechanics, now: Any, length) -> Flight:
    """(1) and (2) over one step. The solver's clock starts at 0, so that a short step late in a run keeps its digits."""
    n, solver = mechanics.dim, method.solver

    def field(s, y, t):
        q, t = y[:n], t + s
        v, push = mechanics.motion(q, y[n : 2 * n], t)  # (1)
        if mechanics.contacts.num_contacts == 0:
            return jnp.concatenate([v, push])
        _, rates = jax.jvp(mechanics.contacts.faces, (q, t), (v, jnp.ones_like(t)))  # (2)
        return jnp.concatenate([v, push, rates])

    terms, zero = diffrax.ODETerm(field), jnp.zeros_like(now.t)
    y0 = jnp.concatenate([now.q, now.p, mechanics.contacts.faces(now.q, now.t)])
    memory = solver.init(terms, zero, length, y0, now.t)
    y1, error, dense, _, result = solver.step(terms, zero, length, y0, now.t, memory, False)
    size = jnp.max(jnp.abs(jnp.asarray(error)) / (method.atol + method.rtol * jnp.maximum(jnp.abs(y0), jnp.abs(y1))))
    finite = jnp.all(jnp.isfinite(y1))
    solved = finite & jnp.isfinite(size) & (result == diffrax.RESULTS.successful)  # an implicit solver may fail
    size = jnp.where(solved, size, jnp.inf)
    q1 = on_joints(mechanics, y1[:n], now.t + length)
    p1 = mechanics.remove_reaction(q1, y1[n : 2 * n], now.t + length)
    return Flight(End(length, q1, p1), size, finite, dense)


def on_joints(mechanics: Mechanics, q, t):
    """q moved back onto the joints, by the little that a step of the solver has left them."""
    if not mechanics.system.joints:
        return q
    joints = lambda q: mechanics.functions.joints(q, t)  # noqa: E731
    for _ in range(2):
        slopes = jax.jacfwd(joints)(q)
        inverse = solve(mechanics.mass(q, jnp.zeros_like(q), t), slopes.T)
        q = q - matvec(inverse, solve(slopes @ inverse, joints(q)))
    return q


# -- contacts ------------------------------------------------------------------------------------------------------------


class Landing(NamedTuple):
    end: End  #                   at the contact, if there is one
    hit: Bool[Array, ""]
    doubtful: Bool[Array, ""]  #   the dense output sees a contact that the solver does not: try a shorter step


def first_contact(method: Any, mechanics: Mechanics, now: Any, flight: Flight) -> Landing:
    """(3): the first contact within a step.

    The dense output is looked at in a few places. Between two of them a gap closes if it is negative at the second; it may dip
    below zero if it falls at the first and rises at the second. Whether and when it does is then asked of the solver itself.
    """
    h, k = flight.end.length, mechanics.contacts.num_contacts
    gaps, rates = mechanics.approach(now.q, now.p, now.t)
    width = mechanics.gap_rounding(now.q, mechanics.velocity(now.q, now.p, now.t), now.t, h)
    touching = gaps <= width
    # A contact that is being left may start a rounding inside: rising it is open from there, falling from about zero again.
    limits = jnp.where(touching, jnp.minimum(gaps, 0.0) - width, 0.0), jnp.where(touching, -0.25 * width, 0.0)
    times, seen_gaps, seen_rates = _look_around(method, mechanics, now, flight)
    above = jnp.concatenate([jnp.ones((1, k), bool), seen_gaps >= jnp.where(seen_rates < 0, limits[1], limits[0])])
    signs = jnp.concatenate([jnp.where(touching, 0.0, rates)[None], seen_rates])
    closes = above[:-1] & ~above[1:]
    dips = above[:-1] & above[1:] & (signs[:-1] < 0) & (signs[1:] > 0)
    # Moves in, or rests and is pressed on: the contact is here and now.
    at_once = touching & ((rates * h < -16 * width) | (closes[0] & (rates * h <= 16 * width)))

    def promising(carry):
        suspects, landing = carry
        return jnp.any(suspects & (times[:-1, None] < landing.end.length)) & ~landing.doubtful

    def examine(carry):
        suspects, landing = carry
        j, i = jnp.divmod(jnp.argmax(suspects.reshape(-1)), k)  # the earliest
        end, hit = _land(method, mechanics, now, times[j], times[j + 1], i, (limits[0][i], limits[1][i]), dips[j, i])
        earlier = hit & (end.length <= landing.end.length)
        doubtful = landing.doubtful | ~(hit | dips[j, i])
        return suspects.at[j, i].set(False), Landing(choose(earlier, end, landing.end), landing.hit | earlier, doubtful)

    no = jnp.asarray(False)
    suspects = (closes | dips) & ~jnp.any(at_once)
    _, landing = jax.lax.while_loop(promising, examine, (suspects, Landing(flight.end, no, no)))
    here = End(jnp.zeros_like(h), now.q, now.p)
    return choose(jnp.any(at_once), Landing(here, ~no, no), landing)


def _look_around(method: Any, mechanics: Mechanics, now: Any, flight: Flight):
    """The contacts as the dense output sees them; at the end of the step, as the solver does."""
    n, h = mechanics.dim, flight.end.length
    path = method.solver.interpolation_cls(t0=jnp.zeros_like(h), t1=h, **flight.dense)
    times = h * jnp.arange(LOOKS + 1) / LOOKS
    # One by one in a kernel, which cannot hold the product of two matrices that all of them together are.
    states = jax.lax.map(path.evaluate, times[1:-1]) if for_this_kernel() else jax.vmap(path.evaluate)(times[1:-1])
    states = jnp.concatenate([states[:, : 2 * n], jnp.concatenate([flight.end.q, flight.end.p])[None]])
    gaps, rates = jax.vmap(lambda y, s: mechanics.approach(y[:n], y[n:], now.t + s))(states, times[1:])
    return times, gaps, rates


def _land(method: Any, mechanics: Mechanics, now: Any, low, high, i, limits, dip) -> tuple[End, Bool[Array, ""]]:
    """Where gap i closes in (low, high], if it does.

    Newton's method, or a bisection where that would leave the stretch between the last time seen open and the first seen closed.
    In a dip only the falling side counts as open; what is found is then the contact or the minimum.
    """

    def narrow(search: _Search):
        s = search.next
        end = fly(method, mechanics, now, s).end
        v, t = mechanics.velocity(end.q, end.p, now.t + s), now.t + s
        gaps, rates = mechanics.contacts.approach(end.q, v, t)
        gap, rate, width = gaps[i], rates[i], mechanics.gap_rounding(end.q, v, t, s)[i]
        above = gap >= jnp.where(rate < 0, limits[1], limits[0])
        is_open = above & ((rate < 0) | ~dip)
        low, high = jnp.where(is_open, s, search.low), jnp.where(is_open, search.high, s)
        newton = s - gap / rate
        there = (rate < 0) & ((jnp.abs(gap) <= 0.25 * width) | (jnp.abs(newton - s) <= 2 * EPS * s))
        inside = (newton > low) & (newton < high) & (rate < 0) & (search.tries % 3 < 2)
        return _Search(
            low=low,
            high=high,
            next=jnp.where(inside, newton, 0.5 * (low + high)),
            end=choose(there | ~above, end, search.end),
            hit=search.hit | there | ~above,
            done=there | (high - low <= 2 * EPS * high) | (is_open & (s >= high)),
            tries=search.tries + 1,
        )

    no, zero = jnp.asarray(False), jnp.zeros((), jnp.int32)
    search = _Search(low, high, high, End(high, now.q, now.p), no, no, zero)
    search = jax.lax.while_loop(lambda search: ~search.done & (search.tries < 3 * HALVINGS), narrow, search)
    return search.end, search.hit


class _Search(NamedTuple):
    low: Float[Array, ""]  #       open here
    high: Float[Array, ""]  #      no longer open here
    next: Float[Array, ""]
    end: End  #                   the last place where it was closed
    hit: Bool[Array, ""]  #        there is such a place
    done: Bool[Array, ""]
    tries: Int[Array, ""]
