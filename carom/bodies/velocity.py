"""One velocity problem: impulses of contacts and joints, and the velocities after them."""

from dataclasses import dataclass

import numpy as np

from carom.bodies.contact_rows import Rows, build_rows, delassus, problem
from carom.bodies.dense_newton import MOST_ROWS, Dense, newton, solve_small
from carom.bodies.detection.detect import Contacts
from carom.bodies.joints import JointRows, joint_rows
from carom.bodies.quaternions import apply
from carom.bodies.scene import Scene, State
from carom.numerics.friction import solve_friction

FINISHED = 1e-13  # a certificate that Newton's method reaches unless it is far from the solution


@dataclass(frozen=True)
class Posed:
    """Contacts and joints at one moment, with all that the problem needs of it."""

    scene: Scene
    state: State
    contacts: Contacts
    joints: JointRows
    rows: Rows
    inverse: np.ndarray  #      [n, 3, 3]  I⁻¹ in space
    inertia: np.ndarray  #      [n, 3, 3]
    friction: np.ndarray  #     [m]
    restitution: np.ndarray  #  [m]

    def spin(self, L: np.ndarray) -> np.ndarray:
        return np.where(self.scene.free[:, None], apply(self.inverse, L), L)

    def rates(self, v: np.ndarray, L: np.ndarray) -> np.ndarray:
        return self.rows.rates(v, self.spin(L))

    def only(self, rows: np.ndarray) -> "Posed":
        """Some of the contacts, and all joints."""
        contacts = self.contacts.take(rows)
        built = build_rows(self.scene, self.state, contacts, self.joints)
        kept = (self.friction[rows], self.restitution[rows])
        return Posed(self.scene, self.state, contacts, self.joints, built, self.inverse, self.inertia, *kept)


@dataclass(frozen=True)
class Answer:
    """Velocities and momenta after the impulses, and how well they solve the problem."""

    v: np.ndarray  #         [n, 3]
    L: np.ndarray  #         [n, 3]
    impulses: np.ndarray  #  [rows]
    u: np.ndarray  #         [rows]  velocities after
    scale: np.ndarray  #     [n]     the largest velocity that the problem of each body was about
    residual: float
    converged: bool
    stage: str
    iterations: int


def pose(scene: Scene, state: State, contacts: Contacts) -> Posed:
    """The contacts, with the ropes beside them, and the joints of a state."""
    R = state.R
    contacts, ropes = with_ropes(scene, state, contacts, R)
    joints = joint_rows(scene.joints.bilateral, state.x, R, scene.dim)
    friction, restitution = scene.materials.of(contacts.a, contacts.b)
    friction, restitution = np.where(ropes, 0.0, friction), np.where(ropes, 0.0, restitution)
    turn = np.swapaxes(R, -1, -2)
    inverse, inertia = R @ scene.inverse_inertia @ turn, R @ scene.inertia @ turn
    rows = build_rows(scene, state, contacts, joints)
    return Posed(scene, state, contacts, joints, rows, inverse, inertia, friction, restitution)


def with_ropes(scene: Scene, state: State, contacts: Contacts, R: np.ndarray) -> tuple[Contacts, np.ndarray]:
    """A rope is a contact along its line, from inside: its gap is the length that is left."""
    ropes = scene.joints.ropes
    if not ropes:
        return contacts, np.zeros(len(contacts), bool)
    anchors = [(state.x[j.a] + R[j.a] @ j.at_a, state.x[j.b] + R[j.b] @ j.at_b) for j in ropes]
    along = np.array([q - p for p, q in anchors])
    length = np.linalg.norm(along, axis=1)
    normal = -along / np.where(length > 0, length, 1.0)[:, None]
    normal[length == 0] = [1.0, 0.0, 0.0]
    gap = np.array([j.length for j in ropes]) - length
    extra = (np.array([j.a for j in ropes]), np.array([j.b for j in ropes]), np.array([p for p, _ in anchors]), normal, gap)
    key = -1 - np.arange(len(ropes))
    names = ("a", "b", "point", "normal", "gap", "key")
    joined = [np.concatenate([getattr(contacts, name), value]) for name, value in zip(names, (*extra, key), strict=True)]
    return Contacts(*joined), np.arange(len(contacts) + len(ropes)) >= len(contacts)


def solve_velocities(
    posed: Posed, v: np.ndarray, L: np.ndarray, offset: np.ndarray, start: np.ndarray | None, tolerance: float
) -> Answer:
    """Impulses r with u + offset complementary to r in Coulomb's cone, for contacts; u + offset = 0 for joints."""
    scene, rows = posed.scene, posed.rows
    spin = posed.spin(L)
    scale = np.sqrt(np.sum(v**2, axis=1)) + scene.reach * np.sqrt(np.sum(spin**2, axis=1))
    if len(rows.a) == 0:
        return Answer(v, L, np.zeros(0), np.zeros(0), scale, 0.0, True, "open", 0)
    q = rows.rates(v, spin) + offset
    impulses, residual, stage, iterations = _impulses(posed, q, start, tolerance)
    for body in (rows.a, rows.b):
        np.maximum.at(scale, body, np.abs(q))
    p, dL = rows.kick(impulses, len(scene.mass))
    free = scene.free[:, None]
    v = np.where(free, v + scene.inverse_mass[:, None] * p, v)
    L = np.where(free, L + dL, L)
    return Answer(v, L, impulses, posed.rates(v, L), scale, float(residual), bool(residual <= tolerance), stage, iterations)


def _impulses(posed: Posed, q: np.ndarray, start: np.ndarray | None, tolerance: float) -> tuple[np.ndarray, float, str, int]:
    """Impulses, certificate, stage and iterations. Small problems are tried, and finished, by Newton's method in dense matrices."""
    if not np.any(q):
        return np.zeros(len(q)), 0.0, "open", 0
    little = None
    if len(q) <= MOST_ROWS:
        little = Dense(delassus(posed.scene, posed.rows, posed.inverse), q, posed.friction, posed.rows.tangents, 0.0)
        r, residual, steps = solve_small(little, start)
        if residual <= FINISHED:
            return r, residual, "small", steps
    asked = problem(posed.scene, posed.rows, posed.inverse, posed.inertia, q, posed.friction)
    found = solve_friction(asked, start, tolerance)
    if not found.converged and start is not None:
        again = solve_friction(asked, None, tolerance)
        found = again if again.residual < found.residual else found
    if little is None:
        return found.impulses, found.residual, found.stage, found.iterations
    better, least, more = newton(little, found.impulses)
    if least < residual:
        return better, least, found.stage, found.iterations + more
    return r, residual, "small", steps
