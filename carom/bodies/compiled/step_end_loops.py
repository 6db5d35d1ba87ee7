"""What a step leaves to the next, compiled: the functions of `carom.bodies.step_ends`, contact by contact."""

import math
from typing import TYPE_CHECKING

import numpy as np

from carom.bodies.compiled import inner, outer, plain

if TYPE_CHECKING:
    from carom.bodies.posed import Posed

LINE, TABLE, NUMBERS, FLAGS = "float64[::1]", "float64[:, ::1]", "int64[::1]", "boolean[::1]"


def speeds(v: np.ndarray, spin: np.ndarray, reach: np.ndarray) -> np.ndarray:
    return speeds_of(plain(v), plain(spin), reach)


def rates_across(posed: "Posed", closing: np.ndarray, sliding: np.ndarray, where: np.ndarray, known: np.ndarray) -> np.ndarray:
    rows = posed.rows
    return rates_in_frames(plain(rows.linear), 1 + rows.tangents, plain(closing), plain(sliding), where, known)


def asked_of_lasting(now: np.ndarray, last: np.ndarray, pressed: np.ndarray, stuck: np.ndarray, asked: np.ndarray) -> None:
    asked_into(plain(now), last, plain(pressed), plain(stuck), asked)


def states_of(
    posed: "Posed", impulses: np.ndarray, u: np.ndarray, slow: np.ndarray, impact: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    contacts, rows = posed.contacts, posed.rows
    given = plain(rows.linear), 1 + rows.tangents, plain(impulses), plain(u)
    return contact_states(*given, plain(contacts.a), plain(contacts.b), plain(contacts.gap), plain(slow), impact)


def lasting_of(
    posed: "Posed", state: np.ndarray, came: np.ndarray, shifted: np.ndarray, rates: np.ndarray, noise: float, ahead: float
) -> tuple[np.ndarray, np.ndarray, bool, np.ndarray, np.ndarray]:
    contacts, rows = posed.contacts, posed.rows
    given = plain(rows.linear), 1 + rows.tangents, plain(contacts.a), plain(contacts.b), plain(contacts.gap), plain(state)
    return contacts_that_last(*given, plain(came), plain(shifted), plain(rates), posed.scene.reach, noise, ahead)


@outer(f"{LINE}({TABLE}, {TABLE}, {LINE})")
def speeds_of(v, spin, reach):
    found = np.empty(len(reach))
    for body in range(len(reach)):
        fast = turning = 0.0
        for d in range(3):
            fast += v[body, d] * v[body, d]
            turning += spin[body, d] * spin[body, d]
        found[body] = math.sqrt(fast) + reach[body] * math.sqrt(turning)
    return found


@outer(f"{TABLE}({TABLE}, int64, {LINE}, {TABLE}, {NUMBERS}, {FLAGS})")
def rates_in_frames(linear, width, closing, sliding, where, known):
    """The rates that contacts had, along their normals and across them; nan where that is not known."""
    found = np.empty((len(known), width))
    for c in range(len(known)):
        for i in range(width):
            if not known[c]:
                found[c, i] = math.nan
            elif i == 0:
                found[c, 0] = closing[where[c]]
            else:
                value = 0.0
                for d in range(3):
                    value += linear[c * width + i, d] * sliding[where[c], d]
                found[c, i] = value
    return found


@inner
def _towards(now, last, c, begin, end, asked):
    """The point of the segment from 0 to `now` that is nearest to half of its change."""
    square = along = 0.0
    for i in range(begin, end):
        half = now[c, i] if math.isnan(last[c, i]) else 0.5 * (now[c, i] - last[c, i])
        square += now[c, i] * now[c, i]
        along += half * now[c, i]
    share = min(max(along / square if square > 0.0 else along, 0.0), 1.0)
    for i in range(begin, end):
        asked[c, i] = share * now[c, i]


@outer(f"void({TABLE}, {TABLE}, {FLAGS}, {FLAGS}, {TABLE})")
def asked_into(now, last, pressed, stuck, asked):
    for c in range(len(pressed)):
        if pressed[c]:
            _towards(now, last, c, 0, 1, asked)
        if stuck[c]:
            _towards(now, last, c, 1, now.shape[1], asked)


@outer(f"Tuple(({NUMBERS}, {TABLE}, {FLAGS}))({TABLE}, int64, {LINE}, {LINE}, {NUMBERS}, {NUMBERS}, {LINE}, {LINE}, boolean)")
def contact_states(linear, width, r, u, a, b, gap, slow, impact):
    """0 open, 1 stick, 2 slide; impulses in space; and which belong into a table."""
    count, largest = len(a), 0.0
    state, push, kept = np.zeros(count, np.int64), np.zeros((count, 3)), np.zeros(count, np.bool_)
    for c in range(count):
        largest = max(largest, r[c * width])
    for c in range(count):
        at, sliding = c * width, 0.0
        for i in range(width):
            for d in range(3):
                push[c, d] += r[at + i] * linear[at + i, d]
            if i > 0:
                sliding += u[at + i] * u[at + i]
        if r[at] > 1e-12 * largest:
            state[c], kept[c] = 2 if math.sqrt(sliding) > min(slow[a[c]], slow[b[c]]) else 1, True
        elif not impact and gap[c] <= 0.0:
            kept[c] = True
    return state, push, kept


@inner
def _sliding_partner(c, a, b, first, after):
    """Whether another point of the same two bodies slides."""
    low, high = min(a[c], b[c]), max(a[c], b[c])
    other = first[high]
    while other >= 0:
        if min(a[other], b[other]) == low:
            return True
        other = after[other]
    return False


@outer(
    f"Tuple(({FLAGS}, {FLAGS}, boolean, {LINE}, {TABLE}))({TABLE}, int64, {NUMBERS}, {NUMBERS}, {LINE}, {NUMBERS}, {LINE}, {LINE}, "
    f"{LINE}, {LINE}, float64, float64)"
)
def contacts_that_last(linear, width, a, b, gap, state, came, shifted, rates, reach, noise, ahead):
    """Which contacts pressed, which stuck, whether something may be about to collide; rates along normals, and across in space."""
    count = len(a)
    pressed, stuck, watchful = np.zeros(count, np.bool_), np.zeros(count, np.bool_), False
    closing, sliding = np.empty(count), np.zeros((count, 3))
    first, after = np.full(len(reach), -1), np.empty(count, np.int64)
    for c in range(count):
        if state[c] == 2:
            high = max(a[c], b[c])
            after[c], first[high] = first[high], c
    for c in range(count):
        at = c * width
        if gap[c] + ahead * rates[c] < 0.0 and rates[c] < -noise:
            watchful = True
        near = gap[c] <= 1e-9 * max(reach[a[c]], reach[b[c]])
        pressed[c] = state[c] > 0 or (near and abs(shifted[at]) <= noise)
        stuck[c] = pressed[c] and not _sliding_partner(c, a, b, first, after)
        closing[c] = came[at]
        for i in range(1, width):
            for d in range(3):
                sliding[c, d] += came[at + i] * linear[at + i, d]
    return pressed, stuck, watchful, closing, sliding
