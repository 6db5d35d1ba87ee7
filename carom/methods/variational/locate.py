"""One leg of a step with impacts: resolve the impact it starts from, flow, and locate the next contact.

A leg starts at (q, p) at time t, possibly in contact: then an impulse κ d is still *pending*. Its direction d comes from the
law of impact, its size κ (1 for the law itself) from the balance of the discrete energy over the leg's length s,

    F(κ) = E_start(Φ_s(q, p + κ d)) + κ ρ − E⁻ = 0,        ρ = Σ λᵢ ∂φᵢ/∂t,                                   (1)

which is (48a), (56) of [fetecau2003] with moving walls. E⁻ is E_end of the leg before. Up to O(s), F is the parabola

    F(κ) ≈ ½ D (κ² − κ) + H⁻ − E⁻,                         D = dᵀM⁻¹d:                                        (2)

the smaller root passes through the obstacle, the larger one, κ ≈ 1, reflects. Since κ depends on s, the next contact is
located on

    σ ↦ φ(Φ_σ(q, p + κ(σ) d)),                                                                               (3)

which is (78)–(79) of [fetecau2003], nested instead of simultaneous: two scalar problems, whatever the dimension.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from carom.numerics.bracketing import Bracket, is_narrow, open_bracket, propose, update
from carom.xla.kernel import once
from carom.xla.trees import choose

SCALE_ITERATIONS = 40


class Pending(NamedTuple):
    """An impulse that waits for its size. `active` is false for a leg that starts in free flight."""

    direction: Float[Array, " n"]  #    d = Nᵀλ (+ friction)
    multipliers: Float[Array, " k"]  #  λ
    closing: Int[Array, ""]  #          the contact that ended the leg before
    curvature: Float[Array, ""]  #      D of (2)
    drift: Float[Array, ""]  #          ρ
    energy: Float[Array, ""]  #         E⁻
    balance: Bool[Array, ""]  #         size from (1); otherwise 1
    active: Bool[Array, ""]
    fallback: Bool[Array, ""]  #        (1) had no root for an elastic impact, or the contact was grazed without approach

    @staticmethod
    def none(q: Array, num_faces: int) -> "Pending":
        zero, no = jnp.zeros((), q.dtype), jnp.asarray(False)
        return Pending(jnp.zeros_like(q), jnp.zeros(num_faces, q.dtype), jnp.zeros((), jnp.int32), zero, zero, zero, no, no, no)


class Leg(NamedTuple):
    """Where a leg of some length ends."""

    q: Float[Array, " n"]
    p: Float[Array, " n"]
    energy_end: Float[Array, ""]
    scale: Float[Array, ""]  #          κ, 0 without a pending impulse
    balanced: Bool[Array, ""]  #        (1) was solved, if it had to be
    converged: Bool[Array, ""]


# -- resolve: the size of the impulse ------------------------------------------------------------------------------------


def launch(flow: Callable[..., Any], q, p, t, pending: Pending, balance, s) -> Leg:
    """Start a leg of length s: find the size of the pending impulse, apply it, flow.

    The larger root of (1) by the secant method, with the slope of (2) to begin with; it descends monotonically once it is right
    of the root. Where F does not come down to zero it runs past the minimum at κ ≈ ½: there is no root, and κ = 1 is taken.
    """
    eps = float(jnp.finfo(q.dtype).eps)

    class Search(NamedTuple):
        scale: Array
        leg: Leg
        value: Array  #   F at the scale before, and that scale
        before: Array
        update: Array  #  the last change of κ
        wanted: Array
        tries: Array

    def unfinished(now: Search):
        return (now.tries == 0) | now.wanted

    def improve(now: Search):
        out = flow(q, p + now.scale * pending.direction, t, s)
        value = out.energy_start + now.scale * pending.drift - pending.energy
        secant = (value - now.value) / (now.scale - now.before)
        parabola = pending.curvature * (now.scale - 0.5)
        slope = jnp.where((now.tries > 0) & (secant > 0), secant, parabola)
        step = value / slope
        # At the noise of the energy the updates stop shrinking; at a double root (grazing) they shrink slowly.
        small = (jnp.abs(step) <= 4 * eps) | ((jnp.abs(step) <= 1e-6) & (jnp.abs(step) >= 0.5 * jnp.abs(now.update)))
        lost = ~(now.scale - step > 0.5) | (now.tries >= SCALE_ITERATIONS)
        step, small, lost = once((step, small, lost))
        balanced = ~now.wanted & now.leg.balanced | small
        leg = Leg(out.q, out.p, out.energy_end, now.scale, balanced, out.converged)
        scale = jnp.where(lost, 1.0, now.scale - step)
        again = Search(scale, leg, value, now.scale, step, now.wanted & ~small & ~lost, now.tries + 1)
        # Lost: once more, at κ = 1, and 0 tries make it the last time.
        lost = now.wanted & ~small & lost
        return again._replace(tries=jnp.where(lost, 0, again.tries), leg=leg._replace(balanced=leg.balanced & ~lost))

    one, no = jnp.ones((), q.dtype), jnp.asarray(False)
    leg = Leg(q, p, one, one, ~balance, no)
    start = Search(jnp.where(pending.active, one, 0.0), leg, one, one, jnp.asarray(jnp.inf), balance, jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(unfinished, improve, start).leg


# -- locate: the next contact --------------------------------------------------------------------------------------------


class End(NamedTuple):
    """The end of a leg, seen from the contacts."""

    length: Float[Array, ""]
    leg: Leg
    gaps: Float[Array, " k"]  #         less what rounding allows to contacts that touch at the start
    rates: Float[Array, " k"]


def _distances(end: End, touching) -> Float[Array, " k"]:
    """The gaps; dividing by the length keeps the contact of departure from being found again at σ = 0."""
    return end.gaps / jnp.where(touching & (end.length > 0), end.length, 1.0)


def closest_contact(end: End, touching) -> Int[Array, ""]:
    """The contact that ended a leg."""
    return jnp.argmin(_distances(end, touching))


FINEST = 1 / 256  # of a leg: parts shorter than this are taken as resolved
TURNING = 1 / 4  # of a leg: a gap with a turning point within reach is looked at in parts of this length at most


def unresolved(gaps, rates, new_gaps, new_rates, dt) -> Bool[Array, " k"]:
    """Does a gap turn so much within dt that its values and rates at the two ends do not tell what happens in between?

    They agree, by the trapezoidal rule, as long as a body turns by less than about a radian. Contacts out of reach do not matter.
    """
    speed = jnp.abs(rates) + jnp.abs(new_rates)
    mismatch = jnp.abs(new_gaps - gaps - 0.5 * dt * (rates + new_rates))
    return (mismatch > 0.05 * dt * speed) & (jnp.minimum(gaps, new_gaps) < 4 * dt * speed)


def turns(gaps, rates, new_gaps, new_rates, dt) -> Bool[Array, " k"]:
    """Is there a turning point within dt, near enough to zero to matter? Between slopes −r and +r a parabola falls by r dt/4;
    near enough is 2 r dt. A body that turns by a half or one and a half rounds shows the same at both ends."""
    near = jnp.minimum(gaps, new_gaps) < dt * (jnp.abs(rates) + jnp.abs(new_rates))
    return ((rates < 0) != (new_rates < 0)) & near


class _Search(NamedTuple):
    origin: End  #                      nothing closes before it
    end: End  #                         nothing closes before it either, apart from what is still to be examined
    target: Float[Array, ""]  #         where to look next, while `looking` for an end that is resolved
    looking: Bool[Array, ""]
    bracket: Bracket
    dipping: Bool[Array, ""]  #         the bracket is on the rate of contact `which`, not on the closest gap
    which: Int[Array, ""]
    cleared: Bool[Array, " k"]  #       contacts whose dip stays above zero
    balance: Bool[Array, ""]
    found: Bool[Array, ""]
    finished: Bool[Array, ""]
    looks: Int[Array, ""]


def locate(look: Callable[[Array, Array], End], start: End, touching, balance, s) -> tuple[End, Array, Array]:
    """Fly over s; if a contact closes on the way, find the first: the end of the leg, whether there is one, and `balance`.

    `look(σ, balance)` flows to σ. The whole leg is looked at first; where that does not resolve the motion of every gap, it is
    gone through in shorter parts. In each part a contact closes if its gap is negative at the end, or if it dips below zero
    in between: its rate changes from negative to positive, and the minimum is negative. Either way a bracketed root remains; it
    becomes the new end, and the search repeats on the shorter part until nothing closes within it any more.

    Whether the impact at the start balances the energy or takes the law is decided once, over the whole length s.
    """
    k = start.gaps.shape[0]

    def closest(end: End):
        return jnp.min(_distances(end, touching))

    def value_at(end: End):
        begin = jnp.min(jnp.where(touching, jnp.maximum(start.rates, 0.0), start.gaps))
        return jnp.where(end.length > 0, closest(end), begin)

    def dips(origin: End, end: End, cleared):
        leaving = touching & (origin.length == 0)
        near = turns(origin.gaps, origin.rates, end.gaps, end.rates, end.length - origin.length)
        return near & (origin.rates < 0) & (end.gaps >= 0) & ~leaving & ~cleared

    def search(now: _Search) -> _Search:
        x = once(jnp.where(now.looking, now.target, propose(now.bracket)))
        there = once(look(x, now.balance))
        part = x - now.origin.length
        ends = (now.origin.gaps, now.origin.rates, there.gaps, there.rates, part)
        blurred = unresolved(*ends) | (turns(*ends) & (part > TURNING * s))
        clear = once(now.looking & (~jnp.any(blurred) | ~(part > FINEST * s)))

        # A minimum is a zero of the rate; a negative gap on the way to it ends the search for it at once.
        i = now.which
        fall = jnp.where(there.gaps[i] < 0, 0.0, -there.rates[i])
        value = once(jnp.where(now.dipping, fall, closest(there)))
        bracket = once(update(now.bracket, x, value, there))
        narrow = is_narrow(bracket) & ~now.looking
        harmless = now.dipping & (bracket.at_low.gaps[i] >= 0)
        narrow, harmless = once((narrow, harmless))
        end = once(choose(clear, there, choose(narrow & ~harmless, bracket.at_low, now.end)))
        cleared = now.cleared | (narrow & harmless & (jnp.arange(k) == i))
        found = now.found | (narrow & ~now.dipping)

        # The next thing to examine on the way to `end`; or, if there is none, the next part.
        ready = clear | narrow
        candidates = dips(now.origin, end, cleared)
        dipping, which = jnp.any(candidates), jnp.argmax(candidates)
        passed = ready & ~dipping & (closest(end) >= 0.0)
        ready, dipping, which, passed = once((ready, dipping, which, passed))
        fresh = open_bracket(
            now.origin.length,
            jnp.where(dipping, -now.origin.rates[which], value_at(now.origin)),
            now.origin,
            end.length,
            jnp.where(dipping, -end.rates[which], closest(end)),
        )
        onwards = jnp.minimum(s, end.length + 2 * (end.length - now.origin.length))
        halfway = now.origin.length + 0.5 * part
        return _Search(
            origin=choose(passed, end, now.origin),
            end=end,
            target=jnp.where(passed, onwards, jnp.where(now.looking & ~clear, halfway, now.target)),
            looking=passed | (now.looking & ~clear),
            bracket=choose(ready, fresh, bracket),
            dipping=jnp.where(ready, dipping, now.dipping),
            which=jnp.where(ready, which, i),
            cleared=cleared & ~passed,
            balance=now.balance & (there.leg.balanced | (now.looks > 0)),
            found=found,
            finished=(passed & (found | (end.length >= s))) | (now.looks > 2000 + 100 * k),
            looks=now.looks + 1,
        )

    no, yes, zero = jnp.asarray(False), jnp.asarray(True), jnp.zeros((), jnp.int32)
    nowhere = open_bracket(start.length, value_at(start), start, start.length, value_at(start))
    begin = _Search(start, start, s, yes, nowhere, no, jnp.zeros((), int), jnp.zeros(k, bool), balance, no, no, zero)
    final = jax.lax.while_loop(lambda now: ~now.finished, search, begin)
    return final.end, final.found, final.balance
