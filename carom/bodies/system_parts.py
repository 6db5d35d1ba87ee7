"""Joints, ropes, springs and forces of a world as functions of the configuration, for programs that JAX compiles.

Joints are those of `carom.bodies.joints` as g(q) = 0, of frames A, B on both bodies and the way d from anchor to anchor:

    ball       d = 0                                  hinge      d = 0, A₁·B₀ = A₂·B₀ = 0
    universal  d = 0, A₀·B₁ = 0                       fixed      d = 0, A₁·B₀ = A₂·B₀ = A₂·B₁ = 0
    distance   |d| − length = 0                       slider     A₁·d = A₂·d = 0, and the turns of fixed                   (1)

A rope is a contact, length − |d| ≥ 0. What a spring stores is a part of the potential. Forces f and torques m in space, dampers
among them, act along the directions of v by their power, f·v + m·ω.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from carom.bodies import quaternions
from carom.bodies.joints import Joint as Described
from carom.bodies.scene import Scene, Spring
from carom.bodies.smooth_gaps import Pose
from carom.contact.contact import Contact
from carom.contact.joint import Joint
from carom.errors import InputError
from carom.running.tracing import explained
from carom.spaces import rotations

if TYPE_CHECKING:
    from carom.bodies.as_system import Frame

TURNS = {"hinge": ((1, 0), (2, 0)), "universal": ((0, 1),), "fixed": ((1, 0), (2, 0), (2, 1)), "slider": ((1, 0), (2, 0), (2, 1))}


class Mounted:
    """Two points on two bodies, with the frames of a joint, in the frames of the system."""

    def __init__(self, frame: "Frame", one: Described | Spring):
        self.dim = frame.dim
        (self.a, axes_a), (self.b, axes_b) = frame.place(one.a), frame.place(one.b)
        self.at_a, self.at_b = axes_a.T @ one.at_a, axes_b.T @ one.at_b
        self.frames = (np.eye(3), np.eye(3)) if isinstance(one, Spring) else (axes_a.T @ one.frame_a, axes_b.T @ one.frame_b)

    def arms(self, pose: Pose) -> tuple[Any, Any, Any]:
        """From the centres to the points, and from point to point."""
        arm_a, arm_b = pose.R[self.a] @ self.at_a, pose.R[self.b] @ self.at_b
        return arm_a, arm_b, pose.x[self.b] + arm_b - pose.x[self.a] - arm_a

    def axes(self, pose: Pose) -> tuple[Any, Any]:
        """The frames in space; columns are axes."""
        return pose.R[self.a] @ self.frames[0], pose.R[self.b] @ self.frames[1]


def _length(d: Any) -> Any:
    square = jnp.sum(d * d)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


# -- joints and ropes ------------------------------------------------------------------------------------------------------


def joints_in(scene: Scene, frame: "Frame") -> list[Joint]:
    return [_joint(frame, joint) for joint in scene.joints.bilateral]


def _joint(frame: "Frame", joint: Described) -> Joint:
    mounted, kind, dim = Mounted(frame, joint), joint.kind, frame.dim

    def g(q):
        pose = frame.pose(q)
        apart = mounted.arms(pose)[2]
        if kind == "distance":
            return _length(apart)[None] - joint.length
        A, B = mounted.axes(pose)
        rows = [A[:, 1:dim].T @ apart if kind == "slider" else apart[:dim]]
        if dim == 3:
            rows.append(jnp.array([A[:, i] @ B[:, j] for i, j in TURNS.get(kind, ())]))
        elif kind in ("fixed", "slider"):
            rows.append((A[:, 1] @ B[:, 0])[None])
        return jnp.concatenate(rows)

    return Joint(g, name=joint.name)


def ropes_in(scene: Scene, frame: "Frame") -> list[Contact]:
    return [_rope(frame, joint) for joint in scene.joints.ropes]


def _rope(frame: "Frame", joint: Described) -> Contact:
    mounted = Mounted(frame, joint)
    return Contact(lambda q: joint.length - _length(mounted.arms(frame.pose(q))[2]), 0.0, name=joint.name)


def refuse_drives(scene: Scene) -> None:
    """Joints in which something works that is no function of the configuration."""
    for joint in scene.joints.all:
        reasons = {
            "a motor": joint.speed is not None,
            "stops": joint.drive.limits is not None,
            "friction": joint.drive.friction > 0,
        }
        for what, there in reasons.items():
            if there:
                raise InputError(f"joint {joint.name!r} has {what}, for which a System has no place yet: run it with world.solve")


# -- springs and dampers -----------------------------------------------------------------------------------------------------


def _coordinate(mounted: Mounted, kind: str, pose: Pose) -> tuple[Any, Any, Any, Any]:
    """The angle of a hinge, the shift of a slider or the length of a spring, and its row: linear, turn_a, turn_b."""
    arm_a, arm_b, apart = mounted.arms(pose)
    if kind == "spring":
        length = _length(apart)
        n = apart / jnp.where(length > 0, length, 1.0)
        return length, n, jnp.cross(arm_a, n), jnp.cross(arm_b, n)
    A, B = mounted.axes(pose)
    if kind == "slider":
        n = A[:, 0]
        return n @ apart, n, jnp.cross(arm_a + apart, n), jnp.cross(arm_b, n)
    axis, k = (jnp.array([0.0, 0.0, 1.0]), 0) if mounted.dim == 2 else (A[:, 0], 1)
    return jnp.arctan2(axis @ jnp.cross(A[:, k], B[:, k]), A[:, k] @ B[:, k]), jnp.zeros(3), axis, axis


def _springs(scene: Scene, frame: "Frame") -> list[tuple[Mounted, str, float, float, float]]:
    """Where, what kind of coordinate, stiffness, the rest and damping."""
    found = [(Mounted(frame, s), "spring", s.stiffness, s.length, s.damping) for s in scene.springs]
    elastic = ((joint, joint.drive) for joint in scene.joints.elastic)
    return found + [(Mounted(frame, j), j.kind, d.stiffness, d.rest, d.damping) for j, d in elastic]


def stored_in(scene: Scene, frame: "Frame") -> Callable[[Any], Any] | None:
    """The energy of all springs as a function of q; None where there are none."""
    springs = _springs(scene, frame)
    if not springs:
        return None

    def stored(q):
        pose = frame.pose(q)
        return sum(0.5 * k * (_coordinate(mounted, kind, pose)[0] - rest) ** 2 for mounted, kind, k, rest, _ in springs)

    return stored


# -- forces ------------------------------------------------------------------------------------------------------------------


def forces_in(scene: Scene, frame: "Frame") -> Callable[..., Any] | None:
    """Forces by functions, and dampers, along the directions of v; None where there are none."""
    dampers = [(mounted, kind, c) for mounted, kind, _, _, c in _springs(scene, frame) if c > 0]
    if not dampers and not scene.forces:
        return None

    def force(q, v, t):
        pose = frame.pose(q)
        (velocity, spin), back = jax.vjp(lambda v: frame.motion(pose, v), v)
        push, twist = jnp.zeros_like(velocity), jnp.zeros_like(spin)
        for mounted, kind, c in dampers:
            a, b = mounted.a, mounted.b
            _, n, turn_a, turn_b = _coordinate(mounted, kind, pose)
            f = -c * (n @ (velocity[b] - velocity[a]) + turn_b @ spin[b] - turn_a @ spin[a])
            push, twist = push.at[b].add(f * n).at[a].add(-f * n), twist.at[b].add(f * turn_b).at[a].add(-f * turn_a)
        for one in scene.forces:
            k = frame.place(one.body)[0]
            f, m = _asked(scene, frame, one, q, pose, velocity[k], spin[k], t)
            push, twist = push.at[k].add(f), twist.at[k].add(m)
        return back((push, twist))[0]

    return force


def _asked(scene: Scene, frame: "Frame", one: Any, q: Any, pose: Pose, velocity: Any, spin: Any, t: Any) -> tuple[Any, Any]:
    """What a person's function says, as a force and a torque in space: `carom.bodies.scene` says the same in numbers."""
    (k, axes), n, d, name = frame.place(one.body), frame.count, scene.dim, scene.names[one.body]
    arm = -pose.R[k] @ (axes.T @ scene.center[one.body])
    if d == 3:
        back = rotations.split(jnp.asarray(quaternions.of_matrix(axes.T)))
        turn = rotations.join(rotations.multiply(rotations.split(q[3 * n + 4 * k : 3 * n + 4 * k + 4]), back))
    else:
        turn = q[3 * k + 2]
    known = {"position": (pose.x[k] + arm)[:d], "orientation": turn, "velocity": (velocity + jnp.cross(spin, arm))[:d], "t": t}
    known["spin"] = spin if d == 3 else spin[2]
    with explained(f"the force on {name!r}"):
        found = one.function(**known)
        both = isinstance(found, tuple) and len(found) == 2 and jnp.ndim(found[0]) == 1
        push, twist = (jnp.asarray(part, float) for part in (found if both else (found, np.zeros(3) if d == 3 else 0.0)))
    return jnp.zeros(3).at[:d].set(push), twist if d == 3 else jnp.array([0.0, 0.0, 1.0]) * twist
