"""Joints: what two bodies have in common. Each is a number of rows J with J v = 0 (or a given speed), and errors g that stay zero.

point      the anchors coincide                          3 rows (2 in the plane)      ball, hinge, universal, fixed
across     the anchors differ along one axis only        2 rows (1)                   slider
turn       no relative turn about some axes              1, 2 or 3 rows               universal, hinge, fixed, slider
distance   the anchors keep their distance               1 row
rope       the anchors keep at most their distance       a contact without friction
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from carom.bodies.drives import NOTHING, Drive
from carom.bodies.quaternions import apply, cross, crossing

AXES = np.eye(3)
Column = Any  # a list, which may grow, or an array
KINDS = ("ball", "hinge", "slider", "universal", "fixed", "distance", "rope")


@dataclass(frozen=True)
class Joint:
    """One joint between bodies a and b, in the frames of their centres of mass."""

    kind: str
    name: str
    a: int
    b: int
    at_a: np.ndarray  #             [3]
    at_b: np.ndarray  #             [3]
    frame_a: np.ndarray  #          [3, 3]  columns: the axis, and two across it
    frame_b: np.ndarray
    length: float = 0.0  #          of a distance or a rope
    speed: float | None = None  #   of a motor: about the axis of a hinge, along that of a slider
    drive: Drive = NOTHING

    @property
    def driven(self) -> tuple[float, float] | None:
        """The speed that a motor or friction asks for, and the largest force it has for it; None where nothing asks."""
        if self.speed is not None:
            return self.speed, np.inf if self.drive.strength is None else self.drive.strength
        return (0.0, self.drive.friction) if self.drive.friction > 0 else None


@dataclass(frozen=True)
class Joints:
    all: tuple[Joint, ...] = ()

    @cached_property
    def bilateral(self) -> tuple[Joint, ...]:
        return tuple(j for j in self.all if j.kind != "rope")

    @cached_property
    def columns(self) -> tuple[np.ndarray, ...]:
        """Of bilateral joints: both bodies, the anchors and the frames in them."""
        names = ("a", "b", "at_a", "at_b", "frame_a", "frame_b")
        return tuple(np.array([getattr(joint, name) for joint in self.bilateral]) for name in names)

    def plain(self, dim: int) -> bool:
        """Bilateral joints keep points together, and nothing else: balls, in the plane hinges too, without motor or friction."""
        kinds = ("ball", "hinge") if dim == 2 else ("ball",)
        return self.__dict__.setdefault("_plain", all(j.kind in kinds and j.driven is None for j in self.bilateral))

    @cached_property
    def stopped(self) -> tuple[Joint, ...]:
        return tuple(j for j in self.all if j.drive.limits is not None)

    @cached_property
    def elastic(self) -> tuple[Joint, ...]:
        return tuple(j for j in self.all if j.drive.elastic)

    @cached_property
    def wound(self) -> tuple[Joint, ...]:
        """Hinges with a spring: how often they have turned round matters."""
        return tuple(j for j in self.all if j.kind == "hinge" and j.drive.stiffness > 0)

    @cached_property
    def ropes(self) -> tuple[Joint, ...]:
        return tuple(j for j in self.all if j.kind == "rope")


@dataclass
class JointRows:
    """Rows of joints at one moment. A row takes `linear`·(v_b − v_a) and the torques about both centres."""

    a: Column = field(default_factory=list)
    b: Column = field(default_factory=list)
    linear: Column = field(default_factory=list)
    turn_a: Column = field(default_factory=list)
    turn_b: Column = field(default_factory=list)
    error: Column = field(default_factory=list)
    speed: Column = field(default_factory=list)  #  what a motor asks for
    bound: Column = field(default_factory=list)  #         the largest force of the row
    contact: Column = field(default_factory=list)  #         the contact whose rolling or spinning the row is about, or −1
    lever: Column = field(default_factory=list)  #         and the largest torque over the normal impulse of it
    compliance: Column = field(default_factory=list)  #    how fast the row gives way under a unit of impulse: of a damper
    kappa: Column = field(default_factory=list)  #         u₁ = −κu₀ is asked for (`carom.bodies.stepping`)

    def add(
        self,
        joint: Joint,
        linear: np.ndarray,
        turn_a: np.ndarray,
        turn_b: np.ndarray,
        error: float,
        driven: tuple[float | None, float] = (None, np.inf),
    ):
        self.append(joint.a, joint.b, linear, turn_a, turn_b, error, *driven, -1, 0.0, 0.0, 1.0)

    def append(self, *values: Any) -> None:
        for column, value in zip(self._columns(), values, strict=True):
            column.append(value)

    def _columns(self) -> tuple[Any, ...]:
        motion = (self.a, self.b, self.linear, self.turn_a, self.turn_b, self.error)
        return *motion, self.speed, self.bound, self.contact, self.lever, self.compliance, self.kappa

    def take(self, kept: np.ndarray) -> "JointRows":
        """Some of the rows."""
        return JointRows(*([column[i] for i in kept] for column in self._columns()))

    def of_contacts(self, kept: np.ndarray) -> "JointRows":
        """Those of joints, and those about some of the contacts, which have new numbers then."""
        place = {int(contact): k for k, contact in enumerate(kept)} | {-1: -1}
        if len(self.contact) == 0 or np.max(self.contact) < 0:
            return self
        some = self.take(np.array([i for i, c in enumerate(self.contact) if c in place], int))
        some.contact = [place[c] for c in some.contact]
        return some

    def __len__(self) -> int:
        return len(self.a)

    @property
    def rigid(self) -> np.ndarray:
        """The rows that hold without a bound, in an impact too: no motor, no friction, no damper."""
        return np.flatnonzero(np.isinf(self.bound) & (np.asarray(self.compliance) == 0))


def joint_rows(joints: Joints, x: np.ndarray, R: np.ndarray, dim: int) -> JointRows:
    """The rows of all bilateral joints where bodies are at x with rotations R; what they all need is computed for all at once."""
    rows = JointRows()
    if not joints.bilateral:
        return rows
    a, b, at_a, at_b, frame_a, frame_b = joints.columns
    ra, rb = apply(R[a], at_a), apply(R[b], at_b)
    apart = x[b] + rb - x[a] - ra
    # Both feel a point halfway between the anchors: apart by rounding or by the order of the method, they must not be twisted.
    halfway = crossing(ra + 0.5 * apart), crossing(rb - 0.5 * apart)
    if joints.plain(dim):
        return _points(a, b, apart, *halfway, dim)
    frames = R[a] @ frame_a, R[b] @ frame_b
    for joint, *place in zip(joints.bilateral, ra, rb, apart, *frames, *halfway, strict=True):
        _one(rows, joint, dim, *place)
        if joint.kind != "distance" and (driven := joint.driven) is not None:
            rows.add(joint, *coordinate(joint, x, R, dim)[1:], 0.0, driven)
    return rows


def _points(a: np.ndarray, b: np.ndarray, apart: np.ndarray, half_a: np.ndarray, half_b: np.ndarray, dim: int) -> JointRows:
    """The rows of joints that are points and nothing else, all at once."""
    m = dim * len(a)
    motion = (
        a.repeat(dim),
        b.repeat(dim),
        np.tile(AXES[:dim], (len(a), 1)),
        half_a[:, :dim].reshape(m, 3),
        half_b[:, :dim].reshape(m, 3),
    )
    rest = (np.full(m, np.inf), np.full(m, -1), np.zeros(m), np.zeros(m), np.ones(m))
    return JointRows(*motion, apart[:, :dim].ravel(), [None] * m, *rest)


def _one(rows: JointRows, joint: Joint, dim: int, ra, rb, apart, Fa, Fb, half_a: np.ndarray, half_b: np.ndarray) -> None:
    """The rows of one joint: anchors from the centres of the two, how far apart they are, and the frames."""
    if joint.kind == "distance":
        length = np.linalg.norm(apart)
        n = apart / length if length > 0 else Fa[:, 0]
        rows.add(joint, n, cross(ra, n), cross(rb, n), length - joint.length)
        return
    if joint.kind == "slider":
        for k in range(1, dim):
            # The axis turns with a: what lies across it is measured from a's centre to b's anchor.
            n = Fa[:, k]
            rows.add(joint, n, cross(ra + apart, n), cross(rb, n), float(n @ apart))
    else:
        for k in range(dim):
            rows.add(joint, AXES[k], half_a[k], half_b[k], float(apart[k]))
    _turns(rows, joint, Fa, Fb, dim)


def coordinate(joint: Joint, x: np.ndarray, R: np.ndarray, dim: int) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """The angle of a hinge or the shift of a slider, and its row: linear, turn_a, turn_b."""
    a, b = joint.a, joint.b
    Fa, Fb = R[a] @ joint.frame_a, R[b] @ joint.frame_b
    if joint.kind == "slider":
        rb = R[b] @ joint.at_b
        n, at = Fa[:, 0], x[b] + rb
        return float(n @ (at - x[a] - R[a] @ joint.at_a)), n, cross(at - x[a], n), cross(rb, n)
    axis, k = (np.array([0.0, 0.0, 1.0]), 0) if dim == 2 else (Fa[:, 0], 1)
    angle = np.arctan2(axis @ cross(Fa[:, k], Fb[:, k]), Fa[:, k] @ Fb[:, k])
    return float(angle), np.zeros(3), axis, axis


def stops(joint: Joint, x: np.ndarray, R: np.ndarray, dim: int, finger: float) -> list[tuple[np.ndarray, np.ndarray, float]]:
    """The stops of a joint as contacts: point, normal, gap. Of a hinge it is a finger of this length on b that meets a peg on a."""
    assert joint.drive.limits is not None
    low, high = joint.drive.limits
    value, n, _, _ = coordinate(joint, x, R, dim)
    at, scale = x[joint.b] + R[joint.b] @ joint.at_b, 1.0
    if joint.kind == "hinge":
        axis, k = (np.array([0.0, 0.0, 1.0]), 0) if dim == 2 else (R[joint.a] @ joint.frame_a[:, 0], 1)
        along = R[joint.b] @ joint.frame_b[:, k]
        at, n, scale = at + finger * along, cross(axis, along), finger
    return [(at, n, scale * (value - low)), (at, -n, scale * (high - value))]


def _turns(rows: JointRows, joint: Joint, Fa: np.ndarray, Fb: np.ndarray, dim: int) -> None:
    """No relative turn about some axes; the error is the sine of the turn that has happened."""
    zero = np.zeros(3)
    if dim == 2:
        z = np.array([0.0, 0.0, 1.0])
        if joint.kind in ("fixed", "slider"):
            rows.add(joint, zero, z, z, float(cross(Fa[:, 0], Fb[:, 0])[2]))
        return
    if joint.kind == "universal":  # the axis of a and the second axis of b stay at right angles
        n = cross(Fa[:, 0], Fb[:, 1])
        rows.add(joint, zero, n, n, -float(Fa[:, 0] @ Fb[:, 1]))
    if joint.kind in ("fixed", "slider", "hinge"):
        turned = 0.5 * np.sum(cross(Fa.T, Fb.T), axis=0)  # Σ aᵢ × bᵢ / 2: the axis times the sine, for small turns
        if joint.kind == "hinge":
            turned = cross(Fa[:, 0], Fb[:, 0])
        for k in range(3) if joint.kind != "hinge" else (1, 2):
            rows.add(joint, zero, Fa[:, k], Fa[:, k], float(Fa[:, k] @ turned))
