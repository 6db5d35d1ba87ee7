"""The first contact on a leg: a bracketed root, dips inside the leg included.

Since the size κ of a pending impulse depends on the length of the leg (`resolve`), the next contact is located on

    σ ↦ φ(Φ_σ(q, p + κ(σ) d)),                                                                               (1)

which is (78)–(79) of [fetecau2003], nested instead of simultaneous: two scalar problems, whatever the dimension.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from carom.methods.variational.impulse import Leg
from carom.numerics.bracketing import Bracket, is_narrow, open_bracket, propose, update
from carom.xla.kernel import once
from carom.xla.trees import choose


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


def clearance(gaps, rates, new_gaps, new_rates, dt) -> Float[Array, " k"]:
    """Not negative, or no number, where a gap is open at the end of dt, `turns` not and is not `unresolved`: these three as one
    number, which many lanes can carry along instead of asking in each step."""
    reach = dt * (jnp.abs(rates) + jnp.abs(new_rates))
    low = jnp.where(new_gaps < gaps, new_gaps, gaps)
    resolved = 0.05 * reach - jnp.abs(new_gaps - gaps - 0.5 * dt * (rates + new_rates))
    straight = jnp.where((rates < 0) != (new_rates < 0), low - reach, jnp.inf)
    near, far = jnp.where(straight < resolved, straight, resolved), low - 4 * reach
    return jnp.where(new_gaps > 0, jnp.where(far > near, far, near), -1.0)


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


class _Glance(NamedTuple):
    """One point of a search, seen from the contacts."""

    x: Float[Array, ""]
    there: End
    clear: Bool[Array, ""]  #           looking, and everything between origin and here is resolved


def locate(look: Callable[[Array, Array], End], start: End, touching, tolerance, balance, s) -> tuple[End, Array, Array]:
    """Fly over s; if a contact closes on the way, find the first: the end of the leg, whether there is one, and `balance`.

    `look(σ, balance)` flows to σ. The search is always in one of three states:

        looking    at `target`, for an end up to which every gap is resolved; where one is not, halfway
                     └─ clear ──┬─ a gap dips between origin and end ──→ dipping
                                ├─ a gap is negative at the end ──────→ closing
                                └─ neither: what lies before is free ─→ looking further on; at s, finished
        dipping    a bracket on the rate of that gap: where is its minimum?
                     └─ narrow ─┬─ the minimum is above zero: cleared ─→ as after `clear`
                                └─ below: it becomes the end ──────────→ as after `clear`
        closing    a bracket on the closest gap: where is it zero?
                     └─ narrow ── that is the new end, a contact ──────→ as after `clear`, until nothing closes before it

    A gap of up to `tolerance` counts as closed. Whether the impact at the start balances the energy or takes the law is decided
    once, over the whole length s.
    """
    k = start.gaps.shape[0]

    def search(now: _Search) -> _Search:
        # Look at the next point: the target, or the proposal of the bracket.
        x = once(jnp.where(now.looking, now.target, propose(now.bracket)))
        there = once(look(x, now.balance))
        glance = _Glance(x, there, once(now.looking & _is_resolved(now.origin, there, s)))
        bracket, narrow, harmless = _narrowed(now, glance, touching)

        # A new end: what is resolved, the minimum of a dip that goes below zero, or the contact.
        end = once(choose(glance.clear, there, choose(narrow & ~harmless, bracket.at_low, now.end)))
        cleared = now.cleared | (narrow & harmless & (jnp.arange(k) == now.which))
        found = now.found | (narrow & ~now.dipping)

        # The next thing to examine on the way to `end`; or, if there is none, the next part.
        ready = glance.clear | narrow
        candidates = _dips(now.origin, end, touching, cleared)
        dipping, which = jnp.any(candidates), jnp.argmax(candidates)
        passed = ready & ~dipping & (_closest(end, touching) >= 0.0)
        ready, dipping, which, passed = once((ready, dipping, which, passed))
        fresh = _fresh_bracket(start, now.origin, end, touching, tolerance, dipping, which)
        onwards = jnp.minimum(s, end.length + 2 * (end.length - now.origin.length))
        halfway = now.origin.length + 0.5 * (x - now.origin.length)
        blurred = now.looking & ~glance.clear
        return _Search(
            origin=choose(passed, end, now.origin),
            end=end,
            target=jnp.where(passed, onwards, jnp.where(blurred, halfway, now.target)),
            looking=passed | blurred,
            bracket=choose(ready, fresh, bracket),
            dipping=jnp.where(ready, dipping, now.dipping),
            which=jnp.where(ready, which, now.which),
            cleared=cleared & ~passed,
            balance=now.balance & (there.leg.balanced | (now.looks > 0)),
            found=found,
            finished=(passed & (found | (end.length >= s))) | (now.looks > 2000 + 100 * k),
            looks=now.looks + 1,
        )

    no, yes, zero = jnp.asarray(False), jnp.asarray(True), jnp.zeros((), jnp.int32)
    here = jnp.min(_distances_at(start, start, touching))
    nowhere = open_bracket(start.length, here, start, start.length, here)
    begin = _Search(start, start, s, yes, nowhere, no, jnp.zeros((), int), jnp.zeros(k, bool), balance, no, no, zero)
    final = jax.lax.while_loop(lambda now: ~now.finished, search, begin)
    return final.end, final.found, final.balance


def _closest(end: End, touching) -> Float[Array, ""]:
    return jnp.min(_distances(end, touching))


def _distances_at(start: End, end: End, touching) -> Float[Array, " k"]:
    """The gaps; at the start, where a touching gap is zero, how fast it opens."""
    begin = jnp.where(touching, jnp.maximum(start.rates, 0.0), start.gaps)
    return jnp.where(end.length > 0, _distances(end, touching), begin)


def slope_of_closest(distances, rates, touching) -> Float[Array, ""]:
    """How fast the least distance changes; inf where it is that of a contact that touched at the start."""
    return jnp.min(jnp.where((distances <= jnp.min(distances)) & ~touching, rates, jnp.inf))


def _is_resolved(origin: End, there: End, s) -> Bool[Array, ""]:
    """Do the values at both ends of a part tell what every gap does in between? The shortest parts count as resolved."""
    part = there.length - origin.length
    ends = (origin.gaps, origin.rates, there.gaps, there.rates, part)
    blurred = unresolved(*ends) | (turns(*ends) & (part > TURNING * s))
    return ~jnp.any(blurred) | ~(part > FINEST * s)


def _dips(origin: End, end: End, touching, cleared) -> Bool[Array, " k"]:
    """Gaps that fall at the origin and rise at the end, and may have been negative in between."""
    leaving = touching & (origin.length == 0)
    near = turns(origin.gaps, origin.rates, end.gaps, end.rates, end.length - origin.length)
    return near & (origin.rates < 0) & (end.gaps >= 0) & ~leaving & ~cleared


def _narrowed(now: _Search, glance: _Glance, touching) -> tuple[Bracket, Array, Array]:
    """The bracket with one more point; whether it is as narrow as rounding allows, and then whether the dip does no harm.

    A minimum is a zero of the rate; a negative gap on the way to it ends the search for it at once.
    """
    i, there = now.which, glance.there
    fall = jnp.where(there.gaps[i] < 0, 0.0, -there.rates[i])
    distances = _distances(there, touching)
    value = once(jnp.where(now.dipping, fall, jnp.min(distances)))
    slope = jnp.where(now.dipping, jnp.inf, slope_of_closest(distances, there.rates, touching))
    bracket = once(update(now.bracket, glance.x, value, there, slope))
    narrow = is_narrow(bracket) & ~now.looking
    harmless = now.dipping & (bracket.at_low.gaps[i] >= 0)
    return bracket, *once((narrow, harmless))


def _fresh_bracket(start: End, origin: End, end: End, touching, tolerance, dipping, which) -> Bracket:
    """On the rate of the gap that dips, or on the closest gap."""
    first, last = _distances_at(start, origin, touching), _distances(end, touching)
    low = jnp.where(dipping, -origin.rates[which], jnp.min(first))
    high = jnp.where(dipping, -end.rates[which], jnp.min(last))
    ends = [slope_of_closest(d, rates, touching) for d, rates in ((first, origin.rates), (last, end.rates))]
    slopes = [jnp.where(dipping, jnp.inf, slope) for slope in ends]
    return open_bracket(origin.length, low, origin, end.length, high, slopes, jnp.where(dipping, 0.0, tolerance))
