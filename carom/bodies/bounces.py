"""Impacts: what would close before the next force acts meets now, and bounces by Newton's law u_N⁺ ≥ −e u_N⁻.

Contacts that close at the same time meet together, then those that close after that, and so on. In each round impulses do the work

    r · (u⁻ + u⁺)/2 = −(1 − e) r_N |u_N⁻|/2 ≤ 0          without friction                                                 (1)

which is zero for e = 1, whatever the order, the number of contacts, or how many of them turn out to press: r_N > 0 only where
u_N⁺ = −e u_N⁻. So nothing has to be measured, and no threshold may stand between an elastic contact and (1): one that meets slowly
bounces slowly. Others do not bounce where they meet no faster than so many times what the forces change in a step (CALM): they
would come to rest in ever smaller steps. Friction may ask for energy; Newton's law is then followed as far as there is.

Each contact follows its own e. One with e = 0 that is closed, or about to be, *supports*: it takes part in the round, u_N⁺ ≥ 0, so
that a ball with e = 1 which falls on a block that rests comes back as fast as it came, and does (1) no harm, since it does not open
before. One with e > 0 has its own turn, after the others: so an impact runs through a row of balls. What does not bounce is solved
without the elastic contacts, which bounce afterwards if they close by that (`carom.bodies.stepping`).
"""

from dataclasses import dataclass

import numpy as np

from carom.bodies.materials import ELASTIC
from carom.bodies.posed import Posed
from carom.bodies.quaternions import lengths
from carom.bodies.rolling import solve_rolling
from carom.bodies.velocity import Answer, kicked

CALM = 2.0  #      a contact that meets no faster than so many times what the forces change in a step does not bounce
ROUNDS = 30  #     impacts one after the other; what then still closes does not bounce, or the step is repeated in halves
AGAIN = 3  #       times that an elastic contact may meet in one step before it is repeated in halves
ROUNDING = 1e-12  # of the energy


@dataclass(frozen=True)
class Ahead:
    """What comes before the next impacts are looked for: a motion over `time`, and what the forces change until then."""

    time: float
    kick: float  #          along that motion the rate of a contact is u + kick · pull
    pull: np.ndarray  #     [m]  the acceleration of each gap by the forces
    change: np.ndarray  #   [m]  what the forces change in a whole step, in the fastest point of the two bodies

    @classmethod
    def of(cls, posed: Posed, force: np.ndarray, torque: np.ndarray, h: float, time: float, kick: float) -> "Ahead":
        scene = posed.scene
        push, twist = scene.inverse_mass[:, None] * force, np.where(scene.free[:, None], torque, 0.0)
        pull = posed.rows.by_contact(posed.rates(push, twist))[:, 0]
        each = h * (lengths(push) + scene.reach * lengths(posed.spin(twist)))
        return cls(time, kick, pull, np.maximum(each[posed.contacts.a], each[posed.contacts.b]))

    def noise(self, rates: np.ndarray) -> np.ndarray:
        """Rates that are rounding."""
        return 1e-9 * self.change + 1e-12 * np.max(np.abs(rates), initial=0.0)

    def closing(self, posed: Posed, rates: np.ndarray) -> np.ndarray:
        """Contacts that approach, faster than rounding, and arrive."""
        return (rates < -self.noise(rates)) & (
            posed.contacts.gap + self.time * (rates + self.kick * np.minimum(self.pull, 0.0)) < 0
        )

    def bouncing(self, posed: Posed, rates: np.ndarray) -> np.ndarray:
        """Those of them that bounce."""
        e = posed.restitution
        return self.closing(posed, rates) & (e > 0) & ((e == ELASTIC) | (rates < -CALM * self.change))


def normal_rates(posed: Posed, v: np.ndarray, L: np.ndarray) -> np.ndarray:
    return posed.rows.by_contact(posed.rates(v, L))[:, 0]


def linked(posed: Posed, seeds: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Which contacts of `among` touch a free body of a contact of `seeds`, directly or through others of them."""
    a, b, free = posed.contacts.a, posed.contacts.b, posed.scene.free
    reached, found = np.zeros(len(free), bool), seeds
    while True:
        reached[a[found]] = reached[b[found]] = True
        more = among & ((reached & free)[a] | (reached & free)[b])
        if not np.any(more & ~found):
            return more
        found = found | more


def supports(posed: Posed, ahead: Ahead, meets: np.ndarray, rates: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Contacts with e = 0 under the bodies that meet, which have no more room than they use."""
    standing = (posed.restitution == 0) & ~meets & (rates <= ahead.noise(rates) - room)
    return linked(posed, meets, standing) if np.any(standing) else standing


def bounce(
    posed: Posed, meets: np.ndarray, held: np.ndarray, room: np.ndarray, v: np.ndarray, L: np.ndarray, tolerance: float
) -> tuple[Answer, Posed]:
    """Newton's law for the contacts that meet; those that are held close no faster than they have `room` for."""
    rows = np.flatnonzero(meets | held)
    part = posed.only(rows)
    wanted, least = part.restitution * normal_rates(part, v, L), np.where(held[rows], room[rows], 0.0)
    if _apart(part) and not np.any(held):
        return _alone(part, wanted, v, L), part

    def follow(share: float) -> tuple[Answer, bool]:
        answer = solve_rolling(part, v, L, offsets(part, share * wanted + least, motors(part)), None, tolerance, 1.0)
        if not np.any(part.friction > 0) and not len(part.joints):  # (1)
            return answer, True
        had, has = (float(np.sum(posed.state.moved(*pair).kinetic(posed.scene))) for pair in ((v, L), (answer.v, answer.L)))
        return answer, has <= had * (1 + ROUNDING + 10 * answer.residual)

    answer, good = follow(1.0)
    if good:
        return answer, part
    low, high, answer = 0.0, 1.0, follow(0.0)[0]
    for _ in range(11):
        share = 0.5 * (low + high)
        other, good = follow(share)
        low, high, answer = (share, high, other) if good else (low, share, answer)
    return answer, part


def _apart(part: Posed) -> bool:
    """No body meets two others, or one of them twice, and nothing rubs: each impact is one equation."""
    if len(part.joints) or np.any(part.friction > 0):
        return False
    bodies = np.concatenate([part.contacts.a, part.contacts.b])
    bodies = bodies[part.scene.free[bodies]]
    return len(np.unique(bodies)) == len(bodies)


def _alone(part: Posed, wanted: np.ndarray, v: np.ndarray, L: np.ndarray) -> Answer:
    """r = −(u⁻ + e u⁻) / W, to rounding."""
    scene, rows, normal = part.scene, part.rows, slice(0, None, 1 + part.rows.tangents)
    q = normal_rates(part, v, L) + wanted
    weight = scene.inverse_mass[part.contacts.a] + scene.inverse_mass[part.contacts.b]
    for body, turn in ((part.contacts.a, rows.turn_a[normal]), (part.contacts.b, rows.turn_b[normal])):
        weight = weight + np.einsum("mi,mij,mj->m", turn, part.inverse[body], turn)
    impulses = np.zeros(len(rows.a))
    impulses[normal] = np.maximum(-q, 0.0) / weight
    return kicked(part, v, L, impulses, np.abs(q), 0.0, True, "open", 0)


def motors(posed: Posed) -> np.ndarray:
    """What is added to the rates of joints: they stay at zero, or at the speed of a motor."""
    return np.array([0.0 if speed is None else -speed for speed in posed.joints.speed])


def offsets(posed: Posed, normal: np.ndarray, joints: np.ndarray | float) -> np.ndarray:
    """What is added to the rates of the normals, and to those of the joints."""
    offset = np.zeros(len(posed.rows.a))
    width = 1 + posed.rows.tangents
    offset[: width * posed.rows.contacts : width] = normal
    offset[width * posed.rows.contacts :] = joints
    return offset
