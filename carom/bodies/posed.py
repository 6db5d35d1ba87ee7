"""Contacts and joints at one moment, as the rows of a velocity problem."""

from dataclasses import dataclass, replace

import numpy as np

from carom.bodies.contact_rows import Rows, build_rows, delassus, with_rolling
from carom.bodies.dampers import with_dampers
from carom.bodies.detection.detect import Contacts
from carom.bodies.joints import JointRows, joint_rows, stops
from carom.bodies.once import once
from carom.bodies.scene import Scene, State

NO_JOINTS = JointRows()


@dataclass(frozen=True)
class Posed:
    """Contacts and joints at one moment, with all that the problem needs of it."""

    scene: Scene
    state: State
    contacts: Contacts
    joints: JointRows
    rows: Rows
    inverse: np.ndarray  #      [n, 3, 3]  I⁻¹ in space
    materials: np.ndarray  #    [4, m]     in the order of `carom.bodies.materials.NAMES`

    @property
    def friction(self) -> np.ndarray:
        return self.materials[0]

    @property
    def restitution(self) -> np.ndarray:
        return self.materials[1]

    @once
    def inertia(self) -> np.ndarray:
        """[n, 3, 3] in space."""
        return self.state.R @ self.scene.inertia @ np.swapaxes(self.state.R, -1, -2)

    def spin(self, L: np.ndarray) -> np.ndarray:
        return self.state.spin_of(self.scene, L)

    def rates(self, v: np.ndarray, L: np.ndarray) -> np.ndarray:
        """u of all rows; computed once for each v and L, and not to be written into."""
        known = self.__dict__.setdefault("_rates", {})
        found = known.get((id(v), id(L)))
        if found is None or found[0] is not v or found[1] is not L:
            found = known[id(v), id(L)] = (v, L, self.rows.rates(v, self.spin(L)))
        return found[2]

    def knows(self, v: np.ndarray, L: np.ndarray, spin: np.ndarray, u: np.ndarray) -> None:
        """The spins of these momenta, and the rates of all rows, are known."""
        self.state.__dict__.setdefault("_spins", {})[id(L)] = (L, self.scene, spin)
        self.__dict__.setdefault("_rates", {})[id(v), id(L)] = (v, L, u)

    def only(self, rows: np.ndarray) -> "Posed":
        """Some of the contacts, and all joints."""
        contacts = self.contacts.take(rows)
        joints = self.joints.of_contacts(rows)
        built = build_rows(self.scene, self.state, contacts, joints)
        return Posed(self.scene, self.state, contacts, joints, built, self.inverse, self.materials[:, rows])

    @once
    def delassus(self) -> np.ndarray:
        """W of all rows, dense."""
        return delassus(self.scene, self.rows, self.inverse)

    def joined_by(self, kept: np.ndarray) -> "Posed":
        """All contacts, and some of the rows of joints."""
        if len(kept) == len(self.joints):
            return self
        joints = self.joints.take(kept)
        return replace(self, joints=joints, rows=build_rows(self.scene, self.state, self.contacts, joints))


def pose(scene: Scene, state: State, contacts: Contacts, h: float | None = None) -> Posed:
    """The contacts, with the ropes beside them, and the joints of a state; in a step over h its dampers too."""
    R, joints = state.R, NO_JOINTS
    if scene.joints.all:
        contacts = with_ropes(scene, state, with_stops(scene, state, contacts, R), R)
        joints = joint_rows(scene.joints, state.x, R, scene.dim)
    if scene.damped and h is not None:
        joints = with_dampers(joints, scene, state, h)
    materials = scene.materials.of(contacts)
    if scene.materials.rolls:
        joints = with_rolling(joints, contacts, materials[2:], scene.dim)
    rows = build_rows(scene, state, contacts, joints)
    return Posed(scene, state, contacts, joints, rows, state.inverse(scene), materials)


def with_stops(scene: Scene, state: State, contacts: Contacts, R: np.ndarray) -> Contacts:
    """The stops of joints beside the contacts."""
    stopped = scene.joints.stopped
    if not stopped:
        return contacts
    rows = []
    for number, joint in enumerate(stopped):
        finger = max(scene.reach[joint.a], scene.reach[joint.b], 1e-300)
        for side, (at, n, gap) in enumerate(stops(joint, state.x, R, scene.dim, finger)):
            rows.append((joint.a, joint.b, at, n, gap, -1 - len(scene.joints.ropes) - 2 * number - side))
    extra = (np.array([row[k] for row in rows]) for k in range(6))
    names = ("a", "b", "point", "normal", "gap", "key")
    return Contacts(*(np.concatenate([getattr(contacts, name), value]) for name, value in zip(names, extra, strict=True)))


def with_ropes(scene: Scene, state: State, contacts: Contacts, R: np.ndarray) -> Contacts:
    """A rope is a contact along its line, from inside: its gap is the length that is left."""
    ropes = scene.joints.ropes
    if not ropes:
        return contacts
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
    return Contacts(*joined)
