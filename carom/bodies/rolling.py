"""Contacts that resist rolling and spinning: torques m beside the impulses r, with ω the spin of body b against body a.

    |m| ≤ ρ r_N and ω = 0,    or    m = −ρ r_N ω/|ω|            ω across the normal, or along it with σ for ρ             (1)

The law is Coulomb's, with a lever for μ. A contact holds its spin, or pushes as hard as it can: those that hold are solved for with
everything else, those that push are torques, which follow r_N and the direction of ω until neither changes. What is then left of
(1) belongs to the certificate.
"""

from dataclasses import replace

import numpy as np

from carom.bodies.bounded import solve_bounded, with_given
from carom.bodies.posed import Posed
from carom.bodies.quaternions import lengths
from carom.bodies.velocity import Answer, solve_velocities

ROUNDS = 300
QUICK = 12  # rounds in which whole states change; then torques follow their spins step by step, as a projected gradient
# Rounds in which torques leap to their bounds: against a slow spin that stays they creep.
LEAPS = (20, 30, 40, 60, 80, 120, 160, 240)
NOISE = 1e-2  # of the tolerance: a spin this slow, relative to the fastest, is none, and any torque that the contact has holds it
SLACK = 1e-13  # relative to the largest torque: a change this small is rounding


def solve_rolling(
    posed: Posed, v: np.ndarray, L: np.ndarray, offset: np.ndarray, start: np.ndarray | None, tolerance: float, h: float
) -> Answer:
    """`solve_bounded` with (1)."""
    if not len(posed.joints):
        return solve_velocities(posed, v, L, offset, start, tolerance)
    contact = np.asarray(posed.joints.contact, int)
    if not np.any(contact >= 0):
        return solve_bounded(posed, v, L, offset, start, tolerance, h)
    groups = _groups(contact, posed.joints.lever)
    edge, width = len(posed.rows.a) - len(contact), 1 + posed.rows.tangents
    lever = np.array(posed.joints.lever)
    mine = np.flatnonzero(contact >= 0)
    began = np.zeros(len(contact)) if start is None else start[width * contact] * (contact >= 0)
    holds = (contact < 0) | (began > 0)
    torque, answer = np.zeros(len(contact)), None
    noise = NOISE * tolerance * _spins(posed, _speeds(posed, v, L), len(contact))
    weight = _weights(posed, len(contact))
    for turn in range(ROUNDS):
        answer = with_given(posed, v, L, offset, start, tolerance, torque, holds, h)
        limit = lever * np.maximum(answer.impulses[width * contact], 0.0)
        found, spin = answer.impulses[edge:], answer.u[edge:]
        new, stay = torque.copy(), holds.copy()
        for rows in groups:
            first, bound, rate = rows[0], limit[rows[0]], float(np.linalg.norm(spin[rows]))
            if not holds[first] and turn >= QUICK:  # a step that cannot go in circles
                ahead = bound / rate if turn in LEAPS and rate > noise[first] else 1 / np.sum(1 / weight[rows])
                new[rows] = _within(bound, torque[rows] - ahead * spin[rows])
                continue
            if np.linalg.norm(found[rows]) > bound * (1 + SLACK):  # it holds by more than it has, or is pressed less than before
                new[rows], stay[rows] = _within(bound, found[rows]), False
            if not holds[first] and rate > noise[first]:
                stay[rows] = float(spin[rows] @ torque[rows]) > 0  # backwards: it has stopped on the way
                new[rows] = -bound * spin[rows] / rate
        change = np.abs(new - torque)[mine][~stay[mine]]
        if np.array_equal(stay, holds) and np.max(change, initial=0.0) <= SLACK * np.max(limit):
            break
        torque, holds = np.where(stay, 0.0, new), stay
    assert answer is not None
    breach = _breach(posed, answer, groups, limit, weight)
    converged = bool(answer.converged and breach <= max(tolerance, answer.residual))
    return replace(answer, residual=max(answer.residual, breach), converged=converged)


def _groups(contact: np.ndarray, lever: list[float]) -> list[np.ndarray]:
    """The rows that share one cone: two of rolling (one in the plane), one of spinning."""
    groups: dict[tuple[int, float, int], list[int]] = {}
    seen: dict[int, int] = {}
    for row in np.flatnonzero(contact >= 0):
        seen[contact[row]] = seen.get(contact[row], 0) + 1
        groups.setdefault((int(contact[row]), lever[row], (seen[contact[row]] - 1) // 2), []).append(int(row))
    return [np.array(rows) for rows in groups.values()]


def _within(bound: float, m: np.ndarray) -> np.ndarray:
    """The nearest torque that is not larger than the bound."""
    size = float(np.linalg.norm(m))
    return m if size <= bound else m * (bound / size)


def _weights(posed: Posed, count: int) -> np.ndarray:
    """The torque that makes a unit of spin, for the last rows."""
    rows = posed.rows
    sides = ((rows.turn_a[-count:], rows.a[-count:]), (rows.turn_b[-count:], rows.b[-count:]))
    return 1 / np.maximum(sum(np.einsum("ri,rij,rj->r", turn, posed.inverse[body], turn) for turn, body in sides), 1e-300)


def _breach(posed: Posed, answer: Answer, groups: list[np.ndarray], limit: np.ndarray, weight: np.ndarray) -> float:
    """How far (1) is from being met: m − P(m − cω) with P onto |m| ≤ ρ r_N, as a spin, relative to the fastest one."""
    count, worst = len(limit), 0.0
    torque, spin, fastest = answer.impulses[-count:], answer.u[-count:], _spins(posed, answer.scale, count)
    for g in groups:
        m, c = torque[g], weight[g[0]]
        wrong = float(np.linalg.norm(m - _within(limit[g[0]], m - c * spin[g])))
        worst = max(worst, wrong / (c * fastest[g[0]]) if fastest[g[0]] > 0 else 0.0)
    return worst


def _speeds(posed: Posed, v: np.ndarray, L: np.ndarray) -> np.ndarray:
    return lengths(v) + posed.scene.reach * lengths(posed.spin(L))


def _spins(posed: Posed, speed: np.ndarray, count: int) -> np.ndarray:
    """The spin that the speeds of bodies are, for the last rows."""
    a, b = posed.rows.a[-count:], posed.rows.b[-count:]
    reach = np.maximum(posed.scene.reach[a], posed.scene.reach[b])
    return np.maximum(speed[a], speed[b]) / np.where(reach > 0, reach, 1.0)
