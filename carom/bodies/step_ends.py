"""What a step leaves to the next of each contact: whether it pressed, stuck or slid, and how fast; and what is asked of it then."""

import numpy as np

from carom.bodies.compiled import by_loops
from carom.bodies.posed import Posed
from carom.bodies.quaternions import lengths


def towards(wanted: np.ndarray, full: np.ndarray) -> np.ndarray:
    """The point of the segment from 0 to `full` that is nearest to `wanted`, row by row."""
    square = np.vecdot(full, full)
    share = np.vecdot(wanted, full) / np.where(square > 0, square, 1.0)
    return np.minimum(np.maximum(share, 0.0), 1.0)[:, None] * full


@by_loops("step_end_loops")
def speeds(v: np.ndarray, spin: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """The largest speed of any point of each body."""
    return lengths(v) + reach * lengths(spin)


@by_loops("step_end_loops")
def rates_across(posed: Posed, closing: np.ndarray, sliding: np.ndarray, where: np.ndarray, known: np.ndarray) -> np.ndarray:
    """[contacts, 1 + tangents] what is known of the rates of contacts, in their frames as they are now; nan where nothing is."""
    found, frames = np.full((len(known), 1 + posed.rows.tangents), np.nan), posed.rows.frames
    if np.count_nonzero(known) < len(known):
        where, frames = where[known], frames[known]
    else:
        known = slice(None)
    found[known, 0] = closing[where]
    found[known, 1:] = np.vecdot(frames[:, 1:], sliding[where][:, None])
    return found


@by_loops("step_end_loops")
def asked_of_lasting(now: np.ndarray, last: np.ndarray, pressed: np.ndarray, stuck: np.ndarray, asked: np.ndarray) -> None:
    """−κu₀ of `Stepper._shift`, written into `asked`: of rates as they are `now` and were at `last`."""
    half = np.where(np.isnan(last), now, 0.5 * (now - last))  # −δ/2
    asked[:, 0] = np.where(pressed, towards(half[:, :1], now[:, :1])[:, 0], asked[:, 0])
    if np.count_nonzero(stuck):
        asked[:, 1:] = np.where(stuck[:, None], towards(half[:, 1:], now[:, 1:]), asked[:, 1:])


@by_loops("step_end_loops")
def states_of(
    posed: Posed, impulses: np.ndarray, u: np.ndarray, slow: np.ndarray, impact: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The state of all contacts (0 open, 1 stick, 2 slide: faster than is `slow` for both bodies), their impulses in space, and
    which belong into a table: those that carried an impulse, or were closed and did not."""
    rows, contacts = posed.rows, posed.contacts
    r, u = rows.by_contact(impulses), rows.by_contact(u)
    presses = r[:, 0] > 1e-12 * r[:, 0].max(initial=0.0)
    slides = lengths(u[:, 1:]) > np.minimum(slow[contacts.a], slow[contacts.b])
    kept = presses if impact else presses | (contacts.gap <= 0)
    return np.where(presses, 1 + slides, 0), np.matmul(r[:, None], rows.frames)[:, 0], kept


@by_loops("step_end_loops")
def lasting_of(
    posed: Posed, state: np.ndarray, came: np.ndarray, shifted: np.ndarray, rates: np.ndarray, noise: float, ahead: float
) -> tuple[np.ndarray, np.ndarray, bool, np.ndarray, np.ndarray]:
    """Which contacts pressed and which stuck; whether any closes at its rate in the time ahead; and how they `came` out, along
    their normals and across them in space."""
    rows, contacts, reach = posed.rows, posed.contacts, posed.scene.reach
    watchful = bool(((contacts.gap + ahead * rates < 0) & (rates < -noise)).any())
    # Of four corners that rest three suffice, and the solver may leave one out: it counts as pressed all the same.
    pressed = state > 0
    if not pressed.all():
        near = contacts.gap <= 1e-9 * np.maximum(reach[contacts.a], reach[contacts.b])
        pressed = pressed | ((np.abs(rows.by_contact(shifted)[:, 0]) <= noise) & near)
    stuck = pressed
    if (slides := state == 2).all():
        stuck = np.zeros_like(pressed)
    elif slides.any():  # where one point of two bodies slides, none of them holds
        a, b = contacts.a, contacts.b
        pair = np.minimum(a, b) * len(reach) + np.maximum(a, b)
        stuck = pressed & ~np.isin(pair, pair[slides]) if (pair != pair[0]).any() else np.zeros_like(pressed)
    out = rows.by_contact(came)
    return pressed, stuck, watchful, out[:, 0], np.matmul(out[:, None, 1:], rows.frames[:, 1:])[:, 0]
