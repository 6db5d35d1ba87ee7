"""Contacts that resist rolling and spinning: torques m beside the impulses r, with ω the spin of body b against body a.

    |m| ≤ ρ r_N and ω = 0,    or    m = −ρ r_N ω/|ω|            ω across the normal, or along it with σ for ρ             (1)

The law is Coulomb's, with a lever for μ. A contact holds its spin, or pushes as hard as it can: those that hold are solved for with
everything else, those that push are torques, which follow r_N and the direction of ω until neither changes. What is then left of
(1) belongs to the certificate.
"""

from dataclasses import replace

import numpy as np

from carom.bodies.bounded import solve_bounded, with_given
from carom.bodies.quaternions import lengths
from carom.bodies.velocity import Answer, Posed

ROUNDS = 60
NOISE = 1e-2  # of the tolerance: a spin this slow, relative to the fastest, is none, and any torque that the contact has holds it
SLACK = 1e-13  # relative to the largest torque: a change this small is rounding


def solve_rolling(
    posed: Posed, v: np.ndarray, L: np.ndarray, offset: np.ndarray, start: np.ndarray | None, tolerance: float, h: float
) -> Answer:
    """`solve_bounded` with (1)."""
    contact = np.array(posed.joints.contact, int)
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
    for _ in range(ROUNDS):
        answer = with_given(posed, v, L, offset, start, tolerance, torque, holds, h)
        limit = lever * np.maximum(answer.impulses[width * contact], 0.0)
        found, spin = answer.impulses[edge:], answer.u[edge:]
        new, stay = torque.copy(), holds.copy()
        for rows in groups:
            bound, size, rate = limit[rows[0]], float(np.linalg.norm(found[rows])), float(np.linalg.norm(spin[rows]))
            if size > bound * (1 + SLACK):  # it holds by more than it has, or pushes harder than it is pressed
                new[rows], stay[rows] = bound * found[rows] / size, False
            if not holds[rows[0]] and rate > noise[rows[0]]:
                backwards = float(spin[rows] @ torque[rows]) > 0
                new[rows] = 0.0 if backwards else -bound * spin[rows] / rate
                stay[rows] = backwards
        change = np.abs(new - torque)[mine][~stay[mine]]
        if np.array_equal(stay, holds) and np.max(change, initial=0.0) <= SLACK * np.max(limit):
            break
        torque, holds = np.where(stay, 0.0, new), stay
    assert answer is not None
    residual = max(answer.residual, _breach(posed, answer, groups, limit, found, spin))
    return replace(answer, residual=residual, converged=bool(answer.converged and residual <= tolerance))


def _groups(contact: np.ndarray, lever: list[float]) -> list[np.ndarray]:
    """The rows that share one cone: two of rolling (one in the plane), one of spinning."""
    groups: dict[tuple[int, float, int], list[int]] = {}
    seen: dict[int, int] = {}
    for row in np.flatnonzero(contact >= 0):
        seen[contact[row]] = seen.get(contact[row], 0) + 1
        groups.setdefault((int(contact[row]), lever[row], (seen[contact[row]] - 1) // 2), []).append(int(row))
    return [np.array(rows) for rows in groups.values()]


def _breach(
    posed: Posed, answer: Answer, groups: list[np.ndarray], limit: np.ndarray, torque: np.ndarray, spin: np.ndarray
) -> float:
    """How far (1) is from being met: m − P(m − cω) with P onto |m| ≤ ρ r_N, as a spin, relative to the fastest one."""
    rows = posed.rows
    edge = len(rows.a) - len(spin)
    light = [
        np.einsum("ri,rij,rj->r", t[edge:], posed.inverse[b[edge:]], t[edge:])
        for t, b in ((rows.turn_a, rows.a), (rows.turn_b, rows.b))
    ]
    weight = 1 / np.maximum(light[0] + light[1], 1e-300)
    fastest = _spins(posed, answer.scale, len(spin))
    worst = 0.0
    for g in groups:
        m, c = torque[g], weight[g[0]]
        p = m - c * spin[g]
        size = float(np.linalg.norm(p))
        p = p if size <= limit[g[0]] else limit[g[0]] * p / size
        worst = max(worst, float(np.linalg.norm(m - p)) / (c * fastest[g[0]]) if fastest[g[0]] > 0 else 0.0)
    return worst


def _speeds(posed: Posed, v: np.ndarray, L: np.ndarray) -> np.ndarray:
    return lengths(v) + posed.scene.reach * lengths(posed.spin(L))


def _spins(posed: Posed, speed: np.ndarray, count: int) -> np.ndarray:
    """The spin that the speeds of bodies are, for the last rows."""
    a, b = posed.rows.a[-count:], posed.rows.b[-count:]
    reach = np.maximum(posed.scene.reach[a], posed.scene.reach[b])
    return np.maximum(speed[a], speed[b]) / np.where(reach > 0, reach, 1.0)
