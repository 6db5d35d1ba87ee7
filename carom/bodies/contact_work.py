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
moves as prescribed, and motors, do work of their own: their islands are left alone. Elastic contacts and joints keep κ = 1: they do
no work, whatever others do.
"""

import numpy as np

from carom.bodies.bounces import normal_rates, offsets
from carom.bodies.materials import ELASTIC
from carom.bodies.rolling import solve_rolling
from carom.bodies.scene import PRESCRIBED, State
from carom.bodies.velocity import Answer, Posed, islands

ROUNDING = 1e-12  # relative to the impulses times the velocities that the problem is about


def solve_lasting(
    posed: Posed, middle: State, v, L, given: np.ndarray, lasting: np.ndarray, start, tolerance: float, h: float
) -> tuple[np.ndarray, Answer]:
    """The law for (u₁ + given + lasting + 2φ⁺/h, r): `lasting` is what contacts that last are asked for beyond what is `given`. An
    elastic contact may press only where u₁ = −u₀: those that press otherwise are asked again for that, and islands that gain are
    asked without `lasting`, until there are none. What was asked in the end, and the answer."""
    room = 2 * np.maximum(posed.contacts.gap, 0.0) / h
    width, count = 1 + posed.rows.tangents, posed.rows.contacts
    normal = slice(0, width * count, width)
    rates, elastic = normal_rates(posed, middle.v, middle.L), posed.restitution == ELASTIC
    given, lasting = given.copy(), lasting.copy()
    while True:
        shift = given + lasting
        answer = solve_rolling(posed, v, L, shift + offsets(posed, room, 0.0), start, tolerance, h)
        if not answer.converged:
            return shift, answer
        gaining = (
            _gaining(posed, middle, v, L, answer) & (lasting != 0) if np.count_nonzero(lasting) else np.zeros(len(shift), bool)
        )
        wrong = elastic & (answer.impulses[normal] > 0) & (shift[normal] + room != rates)
        if not (np.any(wrong) or np.any(gaining)):
            return shift, answer
        lasting[gaining] = 0.0
        given[normal][wrong], lasting[normal][wrong], room[wrong] = rates[wrong], 0.0, 0.0
        start = answer.impulses


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
    driven[edge:] |= np.array([bool(speed) for speed in posed.joints.speed], bool)
    gains[island[driven & (r != 0)]] = False
    return gains[island]
