"""A world in arrays: what stays the same through a run (`Scene`) and what changes (`State`)."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from carom.bodies import quaternions
from carom.bodies.compiled import by_loops
from carom.bodies.detection.geometry import Geometry, Placement, place
from carom.bodies.drives import Drive
from carom.bodies.joints import Joint, Joints, coordinate
from carom.bodies.materials import Materials
from carom.bodies.once import once
from carom.bodies.quaternions import apply
from carom.bodies.shapes.shape import Placed
from carom.errors import InputError
from carom.running.tracing import explained

FREE, FIXED, PRESCRIBED = 0, 1, 2


@dataclass(frozen=True)
class Force:
    """A force on a body by a function of state and time; it returns a force, or a force and a torque."""

    body: int
    function: Callable[..., Any]


@dataclass(frozen=True)
class Spring:
    """A spring between two points, with a damper along it."""

    a: int
    b: int
    at_a: np.ndarray  #  [3] in the frame of the centre of mass of a
    at_b: np.ndarray
    stiffness: float
    length: float
    damping: float

    def line(self, x: np.ndarray, R: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """How far apart its ends are, and the row of that: linear, turn_a, turn_b. Zeros where they are in one point, which has no
        direction."""
        ra, rb = R[self.a] @ self.at_a, R[self.b] @ self.at_b
        apart = x[self.b] + rb - x[self.a] - ra
        length = float(np.linalg.norm(apart))
        n = apart / length if length > 0 else np.zeros(3)
        return length, n, quaternions.cross(ra, n), quaternions.cross(rb, n)


@dataclass(frozen=True)
class Scene:
    """All that a step needs to know and does not change."""

    dim: int
    names: tuple[str, ...]
    kind: np.ndarray  #             [n]        FREE, FIXED or PRESCRIBED
    mass: np.ndarray  #             [n]        infinite where a body is not free
    inertia: np.ndarray  #          [n, 3, 3]  about the centre of mass, in the body; the identity where it is not free
    inverse_mass: np.ndarray  #     [n]        zero where a body is not free
    inverse_inertia: np.ndarray  #  [n, 3, 3]
    center: np.ndarray  #           [n, 3]     the centre of mass in the frame that a person gave
    reach: np.ndarray  #            [n]        from the centre of mass to the farthest point of the body
    gravity: np.ndarray  #          [3]
    geometry: Geometry
    materials: Materials
    joints: Joints
    ignored: frozenset[tuple[int, int]] = frozenset()
    forces: tuple[Force, ...] = ()
    springs: tuple[Spring, ...] = ()
    motions: dict[int, Callable[[float], tuple]] = field(default_factory=dict)  # of prescribed bodies: x, q, v, ω at a time
    shapes: tuple[tuple[list[Placed], np.ndarray], ...] = ()  # of each body, and its centre of mass in their frame: for pictures
    device: str | None = None  #    where large contact problems are solved: see `carom.bodies.large_on_device`

    @once
    def free(self) -> np.ndarray:
        return self.kind == FREE

    @once
    def still(self) -> np.ndarray:
        return self.kind == FIXED

    @once
    def free_column(self) -> np.ndarray:
        """[n, 1]"""
        return self.free[:, None]

    @once
    def lightness(self) -> np.ndarray:
        """[n, 1]: 1/m."""
        return self.inverse_mass[:, None]

    @once
    def round(self) -> np.ndarray | None:
        """[n, 1]: one over the moment of inertia where it is the same about all axes, of every body: balls, cubes, all that is in
        the plane. Then I⁻¹ does not turn with the body. None where there are others."""
        first = self.inverse_inertia[:, 0, 0]
        return first[:, None] if np.array_equal(self.inverse_inertia, first[:, None, None] * np.eye(3)) else None

    @once
    def moves(self) -> np.ndarray:
        """[n] which bodies ever move."""
        return ~self.still

    @once
    def light(self) -> np.ndarray:
        """[6 n]: the diagonal of M⁻¹ by velocity and spin, where all bodies are round."""
        assert self.round is not None
        return np.concatenate([self.lightness, self.lightness, self.lightness, self.round, self.round, self.round], axis=1).ravel()

    @once
    def weight(self) -> np.ndarray:
        """[n, 3]"""
        return np.where(self.free, self.mass, 0.0)[:, None] * self.gravity

    @once
    def no_torque(self) -> np.ndarray:
        """[n, 3] of zeros."""
        return np.zeros_like(self.weight)

    @once
    def pull(self) -> float:
        """The length of gravity."""
        return float(np.linalg.norm(self.gravity))

    @once
    def driven(self) -> bool:
        """Something else than gravity acts."""
        return bool(self.forces or self.springs or self.joints.elastic)

    @once
    def resisted(self) -> bool:
        """A force by a function depends on velocities."""
        return any({"velocity", "spin"} & set(getattr(one.function, "wanted", ("velocity",))) for one in self.forces)

    @once
    def damped(self) -> bool:
        """There are dampers, in joints or along springs."""
        return any(j.drive.damping > 0 for j in self.joints.elastic) or any(s.damping > 0 for s in self.springs)

    @once
    def moments(self) -> quaternions.Parts:
        """`quaternions.principal` of all bodies."""
        return quaternions.principal(self.inverse_inertia)

    @property
    def autonomous(self) -> bool:
        """Nothing depends on time: the same state has the same future."""
        return not self.motions and not self.forces

    def world_inverse(self, R: np.ndarray) -> np.ndarray:
        """I⁻¹ in space [n, 3, 3]."""
        return R @ self.inverse_inertia @ np.swapaxes(R, -1, -2)

    def spins(self, inverse: np.ndarray, L: np.ndarray) -> np.ndarray:
        """ω in space of momenta L; what is prescribed tells its spin in their place. `inverse` is that of `world_inverse`."""
        turning = apply(inverse, L) if self.round is None else self.round * L
        return np.where(self.free_column, turning, L) if self.motions else turning

    def spins_at(self, q: np.ndarray, L: np.ndarray) -> np.ndarray:
        """The same for orientations q [..., n, 4]."""
        return self.spins(self.inverse_inertia if self.round is not None else self.world_inverse(quaternions.matrix(q)), L)


NO_TURNS = np.zeros(0)


@dataclass(frozen=True)
class State:
    """Where bodies are and how they move. Angular momentum is kept, not spin: it is what a free body does not change."""

    x: np.ndarray  #  [n, 3]  centres of mass
    q: np.ndarray  #  [n, 4]  orientations
    v: np.ndarray  #  [n, 3]
    L: np.ndarray  #  [n, 3]  angular momentum about the own centre, in space; the spin itself where a body is prescribed
    turns: np.ndarray = field(default_factory=lambda: NO_TURNS)  # [j] how often `Joints.wound` have gone round; empty: never

    def same(self, other: "State") -> bool:
        if self.x.size and self.x.flat[-1] != other.x.flat[-1]:  # of almost all that move
            return False
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in ("x", "q", "v", "L", "turns"))

    @once
    def R(self) -> np.ndarray:
        return quaternions.matrix(self.q)

    def spin(self, scene: Scene) -> np.ndarray:
        """ω in space."""
        return self.spin_of(scene, self.L)

    def spin_of(self, scene: Scene, L: np.ndarray) -> np.ndarray:
        """ω in space, of other momenta in these places; computed once for each, which nobody may write into."""
        known = self.__dict__.setdefault("_spins", {})
        found = known.get(id(L))
        if found is None or found[0] is not L or found[1] is not scene:
            found = known[id(L)] = (L, scene, scene.spins(self.inverse(scene), L))
        return found[2]

    def inverse(self, scene: Scene) -> np.ndarray:
        """I⁻¹ in space [n, 3, 3]; computed once."""
        known = self.__dict__.get("_inverse")
        if known is None or known[0] is not scene:
            known = (scene, scene.inverse_inertia if scene.round is not None else scene.world_inverse(self.R))
            self.__dict__["_inverse"] = known
        return known[1]

    def moved(self, v: np.ndarray, L: np.ndarray) -> "State":
        """The same places with other velocities; what is known of the places stays known."""
        new = State(self.x, self.q, v, L, self.turns)
        new.__dict__.update({name: self.__dict__[name] for name in ("R", "_inverse", "_spins") if name in self.__dict__})
        return new

    def kinetic(self, scene: Scene) -> np.ndarray:
        """The kinetic energy of each free body."""
        return kinetic_energy(scene, self.v, self.L, self.spin(scene))

    def placement(self, scene: Scene) -> Placement:
        return place(scene.geometry, self.x, self.R, scene.still)


def drift(scene: Scene, state: State, t: float, tau: float) -> State:
    """Free motion: straight and with the momentum kept. Prescribed bodies are where they have to be at t + tau."""
    limits = quaternions.TURN, quaternions.UNTURNED, float(quaternions.SWEEPS), float(quaternions.LONG), quaternions.ALIKE
    x, q, *R = drifted(scene, state, tau, limits) or drifted.__wrapped__(scene, state, tau, limits)
    new = prescribed(scene, after := State(x, q, state.v, state.L, state.turns), t + tau)
    if R and new is after:
        new.__dict__["R"] = R[0]
    return _wound(scene, state, new, tau) if scene.joints.wound else new


@by_loops("motion_loops")
def drifted(scene: Scene, state: State, tau: float, limits: tuple[float, ...]) -> tuple[np.ndarray, ...]:
    """Places and orientations after a free motion; loops, which have them at hand, return rotation matrices too, and nothing where
    something turns too far for them. The limits are those of `quaternions.rotate_freely`."""
    x, q = state.x + tau * state.v, state.q  # what is fixed has no velocity
    square = np.vecdot(state.L, state.L)
    turning = square.nonzero()[0] if not scene.motions else (square * scene.free).nonzero()[0]
    if len(turning):
        turning = slice(turning[0], turning[0] + 1) if len(turning) == 1 else turning  # a part is cheaper than a choice
        q, L = q.copy(), state.L[turning]
        if scene.round is not None:
            q[turning] = quaternions.turned(q[turning], tau * scene.round[turning] * L)
        else:
            parts = tuple(part[turning] for part in scene.moments)
            q[turning] = quaternions.rotate_freely(q[turning], L, scene.inverse_inertia[turning], tau, parts)
    return x, q


def _wound(scene: Scene, before: State, after: State, tau: float) -> State:
    """The state after a drift, with the turns of hinges that have a spring: their angle is known up to a whole turn, and which one
    it is, the rate says."""
    spin, turns = before.spin(scene), []
    for joint, had in zip(scene.joints.wound, _turns(scene, before.turns), strict=True):
        angle, _, _, axis = coordinate(joint, before.x, before.R, scene.dim)
        foreseen = angle + 2 * np.pi * had + tau * (axis @ (spin[joint.b] - spin[joint.a]))
        turns.append(np.round((foreseen - coordinate(joint, after.x, after.R, scene.dim)[0]) / (2 * np.pi)))
    return replace(after, turns=np.array(turns))


def _turns(scene: Scene, turns: np.ndarray) -> np.ndarray:
    return turns if len(turns) else np.zeros(len(scene.joints.wound))


def _stretch(joint: Joint, value: float, scene: Scene, turns: np.ndarray) -> float:
    """How far the spring of a joint is from its rest."""
    if len(turns) and joint.kind == "hinge":
        value += 2 * np.pi * next(had for mine, had in zip(scene.joints.wound, turns, strict=True) if mine is joint)
    return value - joint.drive.rest


def prescribed(scene: Scene, state: State, t: float) -> State:
    """The state with the prescribed bodies as they are at time t."""
    if not scene.motions:
        return state
    x, q, v, L = state.x.copy(), state.q.copy(), state.v.copy(), state.L.copy()
    for body, motion in scene.motions.items():
        x[body], q[body], v[body], L[body] = motion(t)
    return State(x, q, v, L, state.turns)


def accelerations(scene: Scene, state: State, t: float, dampers: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """The forces [n, 3] and torques [n, 3] on free bodies: of gravity, of springs, by functions, and of dampers, which a step has
    as rows of `carom.bodies.dampers` instead. Not to be written into."""
    if not scene.driven:
        return scene.weight, scene.no_torque
    force, torque = scene.weight.copy(), np.zeros_like(scene.weight)
    R, spin = state.R, state.spin(scene)
    for joint in scene.joints.elastic:
        value, *line = coordinate(joint, state.x, R, scene.dim)
        stretch = _stretch(joint, value, scene, state.turns) if joint.drive.stiffness > 0 else 0.0
        _push(joint, line, stretch, joint.drive, state, spin, force, torque, dampers)
    for one in scene.forces:
        pushed = _asked(scene, one, state, spin, R, t)
        force[one.body] += pushed[0]
        torque[one.body] += pushed[1]
    for spring in scene.springs:
        length, *line = spring.line(state.x, R)
        _push(spring, line, length - spring.length, spring, state, spin, force, torque, dampers)
    return force, torque


def _asked(scene: Scene, one: Force, state: State, spin: np.ndarray, R: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray]:
    i, d = one.body, scene.dim
    turn = state.q[i] if d == 3 else 2 * np.arctan2(state.q[i, 3], state.q[i, 0])
    arm = -R[i] @ scene.center[i]
    velocity = state.v[i] + np.cross(spin[i], arm)
    known = {"position": (state.x[i] + arm)[:d], "orientation": turn, "velocity": velocity[:d], "t": t}
    known["spin"] = spin[i] if d == 3 else spin[i, 2]
    with explained(f"the force on {scene.names[i]!r}"):
        found = one.function(**known)
    both = isinstance(found, tuple) and len(found) == 2 and np.ndim(found[0]) == 1
    with explained(f"the force on {scene.names[i]!r}"):
        force, torque = (np.asarray(part, float) for part in (found if both else (found, np.zeros(3) if d == 3 else 0.0)))
    if force.shape != (d,) or torque.shape != ((3,) if d == 3 else ()):
        kind = "three numbers, or a pair of three numbers each" if d == 3 else "two numbers, or a pair of two numbers and one"
        raise InputError(f"the force on {scene.names[i]!r} must return {kind} (force, torque); got {found!r}")
    push, twist = np.zeros(3), np.zeros(3)
    push[:d] = force
    twist[3 - torque.size :] = torque
    return push, twist


def _push(
    pair: Spring | Joint,
    line: list[np.ndarray],
    stretch: float,
    law: Spring | Drive,
    state: State,
    spin,
    force,
    torque,
    damper: bool,
) -> None:
    """The force of a spring and its damper between two bodies, along the row `line` (linear, turn_a, turn_b)."""
    a, b, (n, turn_a, turn_b) = pair.a, pair.b, line
    rate = n @ (state.v[b] - state.v[a]) + turn_b @ spin[b] - turn_a @ spin[a]
    f = -law.stiffness * stretch - damper * law.damping * rate
    force[b] += f * n
    torque[b] += f * turn_b
    force[a] -= f * n
    torque[a] -= f * turn_a


def kinetic_energy(scene: Scene, v: np.ndarray, L: np.ndarray, spin: np.ndarray) -> np.ndarray:
    """Of each free body; at many instants at once, too."""
    moving = np.where(scene.free_column, v, 0.0)
    return 0.5 * np.where(scene.free, np.where(scene.free, scene.mass, 0.0) * np.vecdot(moving, moving) + np.vecdot(L, spin), 0.0)


def potential(scene: Scene, x: np.ndarray, q: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """The potential energy of gravity and springs at places x [..., n, 3], orientations q [..., n, 4], turns [..., j]."""
    energy = np.asarray(-np.sum(np.where(scene.free, scene.mass, 0.0) * (x @ scene.gravity), axis=-1))
    if scene.springs or scene.joints.elastic:
        for where in np.ndindex(energy.shape):
            energy[where] += _stored(scene, x[where], quaternions.matrix(q[where]), turns[where])
    return energy


def _stored(scene: Scene, x: np.ndarray, R: np.ndarray, turns: np.ndarray) -> float:
    """The energy of springs."""
    energy = 0.0
    for joint in scene.joints.elastic:
        if joint.drive.stiffness > 0:
            energy += 0.5 * joint.drive.stiffness * _stretch(joint, coordinate(joint, x, R, scene.dim)[0], scene, turns) ** 2
    for spring in scene.springs:
        energy += 0.5 * spring.stiffness * (spring.line(x, R)[0] - spring.length) ** 2
    return energy
