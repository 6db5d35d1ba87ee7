"""Contacts that last, on curved ways: what is asked of them may not make energy.

Impulses r take the rates u₀ of contacts and joints to u₁ and do the work r · (u₀ + u₁)/2. The law is asked about w = u₁ + Du₀, with
a κ of its own on the diagonal of D for each row (`carom.bodies.stepping`), and says r · w ≤ 0. Let the forces of the step change
the rates by ha: u₁ = u₀ + ha + Wr. With one κ for all, 0 ≤ κ ≤ 1, the work is

    r · (u₀ + u₁)/2 = (1 − κ)/(1 + κ) · (−r · ha − rᵀWr)/2 + r · w/(1 + κ)                                                    (1)

so that without forces it is never positive, and with them at most their h²f²/8m, largest for a contact that was just opening and
is pressed shut. With several κ on rows that share a body it is not so. Where all of them hold, w = 0 and a = 0, the work is

    −½ u₀ᵀ(1 − D) W⁻¹ (1 + D) u₀ = −½ u₀ᵀ(W⁻¹ − D W⁻¹ D) u₀                                                                  (2)

and W⁻¹ − D W⁻¹ D is indefinite for κ = 1 in one row, κ = 0 in another, and W⁻¹ not diagonal: discs that roll on one another and
part, or slide. So an island (bodies that impulses connect) is asked again, with κ = 0, if it gains beyond rounding:

    r · (u₀ + u₁)/2 > Σ h²f²/8m      over its rows, and over its bodies, with torques f as well                              (3)

Not where it gains at all: in gravity a disk that whirls on its rim gains and loses by turns, less than that, and keeps its energy
because it may. u₀ is of order h in a contact that lasts, so what κ = 0 takes is small, in the few steps where it is needed. What
moves as prescribed, and motors, do work of their own: their islands are left alone.

Elastic contacts and joints keep κ = 1: they do no work, whatever others do. But beside them κ = 0 is not safe either, again by (2):
where a linkage turns its foot into the floor, it presses a contact that was opening, u₀ > 0, and that is work,

    r · (u₀ + u₁)/2 = r · u₀/2 + r · w/2 ≤ r · u₀/2      with w = u₁                                                          (4)

So if an island gains though nothing is asked of what lasts, those of its contacts that do are asked about the mean instead, κ = 1:
along the normal where u₀ > 0, across it where friction does work. They take r · w/2 ≤ 0 then, and end where they began; a contact
that is closing keeps κ = 0, and does no work by (4). So this has an end, and no island gains in it.
"""

from dataclasses import dataclass

import numpy as np

from carom.bodies.bounces import normal_rates, offsets
from carom.bodies.islands import islands
from carom.bodies.materials import ELASTIC
from carom.bodies.posed import Posed
from carom.bodies.quaternions import cross, lengths
from carom.bodies.rolling import solve_rolling
from carom.bodies.scene import PRESCRIBED, State
from carom.bodies.velocity import Answer

ALIKE = 1e-6  #   relative: two spins that differ by less are one
UNTURNED = 1e-9  # relative to how fast a body falls over: a prescribed body that turns slower does not turn
ROUNDING = 1e-12  # relative to the impulses times the velocities that the problem is about


@dataclass(frozen=True)
class Carried:
    """How the rates of contacts with prescribed bodies change from the middle of a step to its ends, since those move."""

    later: np.ndarray  #    [contacts, 1 + tangents]
    earlier: np.ndarray  #  [contacts, 1 + tangents]  of those that one turns over
    ridden: np.ndarray  #   [contacts]                with a prescribed body, and both turn alike
    rolled: np.ndarray  #   [contacts]                with one, and one turns over the other


def carried(posed: Posed, earlier: State, middle: State, later: State) -> Carried:
    """What turns as the prescribed body under it rides on it, and shall move at the end of the step as the point under its centre
    moves then, not in the middle: so a turntable carries what stands on it round, not outwards. Where one turns over the other (a
    ball on the table, a plank on rollers) the point of contact goes its own way and lasts as one of two free bodies does: all that
    is known is how the prescribed motion changes at one place."""
    scene, contacts, frames = posed.scene, posed.contacts, posed.rows.frames
    ends, kinds = np.zeros((2, *frames.shape[:2])), np.zeros((2, len(contacts)), bool)
    spin = posed.spin(middle.L)
    for body in scene.motions:
        field = lambda state, at, body=body: state.v[body] + cross(state.L[body], at - state.x[body])  # noqa: E731
        for mine, other, sign in ((contacts.a, contacts.b, -1.0), (contacts.b, contacts.a, 1.0)):
            at = np.flatnonzero(mine == body)
            if len(at) == 0:
                continue
            them, point, turn = other[at], contacts.point[at], np.linalg.norm(earlier.L[body])
            apart = lengths(spin[them] - earlier.L[body])
            rolls = (turn > UNTURNED * np.sqrt(scene.pull / scene.reach[them])) & (apart > ALIKE * (lengths(spin[them]) + turn))
            turned = (middle.x[them] - middle.x[body]) @ middle.R[body] @ later.R[body].T
            there = later.x[body] + turned + point - middle.x[them]
            change = np.where(rolls[:, None], field(later, point), field(later, there)) - field(middle, point)
            before = np.where(rolls[:, None], field(earlier, point) - field(middle, point), 0.0)
            ends[0, at], ends[1, at] = (sign * np.vecdot(frames[at], part[:, None]) for part in (change, before))
            kinds[0, at], kinds[1, at] = ~rolls, rolls
    return Carried(*ends, *kinds)


def solve_lasting(
    posed: Posed, middle: State, v, L, given: np.ndarray, lasting: np.ndarray, start, tolerance: float, h: float
) -> tuple[np.ndarray, Answer]:
    """The law for (u₁ + given + lasting + 2φ⁺/h, r): `lasting` is what contacts that last are asked for beyond what is `given`; of
    one that was opening, a corner on its circle, the larger of it and 2φ⁺/h, since it is by that that the gap has opened. Elastic
    contacts may press only where u₁ = −u₀: those that press otherwise are asked again for that, and islands that gain are asked
    without `lasting`, and then for what (4) says, until there are none. What was asked in the end, and the answer."""
    room = 2 * np.maximum(posed.contacts.gap, 0.0) / h
    width, count = 1 + posed.rows.tangents, posed.rows.contacts
    normal = slice(0, width * count, width)
    elastic = posed.restitution == ELASTIC
    bounces = bool(elastic.any())
    mixed = len(posed.joints) > 0 or bounces  # κ = 1 beside others
    if not (mixed or np.count_nonzero(lasting)):  # nothing can gain
        shift = given + lasting
        return shift, solve_rolling(posed, v, L, shift + offsets(posed, room, 0.0), start, tolerance, h)
    rates = normal_rates(posed, middle.v, middle.L)
    given, lasting, nothing = given.copy(), lasting.copy(), np.zeros(len(given), bool)
    while True:
        shift, left = given + lasting, np.maximum(room - np.maximum(lasting[normal], 0.0), 0.0)
        answer = solve_rolling(posed, v, L, shift + offsets(posed, left, 0.0), start, tolerance, h)
        if not answer.converged:
            return shift, answer
        gaining = nothing
        if mixed or np.count_nonzero(lasting):
            gaining = _gaining(posed, middle, v, L, answer)
        wrong = elastic & (answer.impulses[normal] > 0) & (shift[normal] + room != rates)
        again = gaining & (lasting != 0)
        if np.count_nonzero(gaining) and not np.count_nonzero(again):
            before = posed.rates(middle.v, middle.L)
            again = gaining & _working(posed, before, answer) & (given != before)
            given[again] = before[again]
        if not (np.any(wrong) or np.any(again)):
            return shift, answer
        lasting[again] = 0.0
        given[normal][wrong], lasting[normal][wrong], room[wrong] = rates[wrong], 0.0, 0.0
        start = answer.impulses


def _working(posed: Posed, before: np.ndarray, answer: Answer) -> np.ndarray:
    """(4): the rows of contacts that open and press all the same, and of those whose friction does work."""
    rows = posed.rows
    now, r, mean = (rows.by_contact(part) for part in (before, answer.impulses, 0.5 * (before + answer.u)))
    work, found = r * mean, np.zeros(len(before), bool)
    asked = rows.by_contact(found)
    asked[:, 0] = (work[:, 0] > 0) & (now[:, 0] > 0)
    asked[:, 1:] = (np.sum(work[:, 1:], axis=1) > 0)[:, None]
    return found


def _gaining(posed: Posed, middle: State, v: np.ndarray, L: np.ndarray, answer: Answer) -> np.ndarray:
    """(3): the rows of islands that gain."""
    r, rows, scene = answer.impulses, posed.rows, posed.scene
    work = 0.5 * r * (posed.rates(middle.v, middle.L) + answer.u)
    if not np.count_nonzero(work > 0):
        return np.zeros(len(r), bool)
    edge = (1 + rows.tangents) * rows.contacts
    size = np.zeros(len(r))
    size[:edge] = np.abs(r[:edge]) * np.maximum(answer.scale[rows.a[:edge]], answer.scale[rows.b[:edge]])
    label = islands(scene, rows, r != 0)
    island = label[rows.owner(scene.free)]
    forces = middle.moved(v - middle.v, L - middle.L).kinetic(scene)  # [n]  h²f²/2m
    most = 0.25 * np.bincount(label, forces, len(label)) + (ROUNDING + answer.residual) * np.bincount(island, size, len(label))
    gains = np.bincount(island, work, len(label)) > most
    driven = (scene.kind[rows.a] == PRESCRIBED) | (scene.kind[rows.b] == PRESCRIBED)
    if len(posed.joints):
        driven[edge:] |= np.array([bool(speed) for speed in posed.joints.speed], bool)
    gains[island[driven & (r != 0)]] = False
    return gains[island]
