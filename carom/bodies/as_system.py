"""A world as a `System`: every method, verb and diagnostic of the library for bodies whose gaps are functions of the configuration.

In space q = (centres of mass [N, 3], unit quaternions [N, 4]) and v = (velocities in space, angular velocities in the body), in the
principal axes of each body; in the plane q = (x, y, angle) body after body. So the kinetic energy is a sum over directions.

What has no such gap (meshes, cylinders, rounded things against polytopes, prescribed motions) is refused with what would do.
Joints, ropes, springs and forces are those of `carom.bodies.system_parts`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from carom.bodies import quaternions
from carom.bodies.gap_families import Piece, families, pieces_of
from carom.bodies.scene import Scene, State
from carom.bodies.smooth_gaps import Pose, across
from carom.bodies.system_parts import forces_in, joints_in, refuse_drives, ropes_in, stored_in
from carom.contact.contact import Contact
from carom.errors import InputError
from carom.spaces.groups import SO3
from carom.spaces.rotations import matrix
from carom.spaces.space import Euclidean, Power, Product
from carom.system.lumped import LumpedSystem
from carom.system.system import System

if TYPE_CHECKING:
    from carom.bodies.world import World


@dataclass(frozen=True)
class Frame:
    """The free bodies of a scene in their principal axes, and the others as they stand."""

    dim: int
    free: np.ndarray  #     [N]        their numbers in the scene
    axes: np.ndarray  #     [N, 3, 3]  principal axes in the frame of the scene
    moments: np.ndarray  #  [N, 3]
    mass: np.ndarray  #     [N]
    still: Pose  #          of all others, in the order of `others`
    others: np.ndarray
    start: np.ndarray  #    [N, 3]     where the free bodies are at the start: on which side of a plate

    @property
    def count(self) -> int:
        return len(self.free)

    def place(self, body: int) -> tuple[int, np.ndarray]:
        """The number of a body of the scene in a pose, and its axes there."""
        found = np.flatnonzero(self.free == body)
        if len(found):
            return int(found[0]), self.axes[found[0]]
        return self.count + int(np.flatnonzero(self.others == body)[0]), np.eye(3)

    def pose(self, q: Any) -> Pose:
        """Where everything is, the free bodies first."""
        n = self.count
        if self.dim == 3:
            x, R = q[: 3 * n].reshape(n, 3), matrix(q[3 * n :].reshape(n, 4))
        else:
            place = q.reshape(n, 3)
            x = jnp.concatenate([place[:, :2], jnp.zeros((n, 1))], axis=1)
            c, s, zero = jnp.cos(place[:, 2]), jnp.sin(place[:, 2]), jnp.zeros(n)
            R = jnp.stack([jnp.stack([c, -s, zero], 1), jnp.stack([s, c, zero], 1), jnp.tile(jnp.array([0.0, 0, 1]), (n, 1))], 1)
        return Pose(jnp.concatenate([x, self.still.x]), jnp.concatenate([R, self.still.R]))

    def motion(self, pose: Pose, v: Any) -> tuple[Any, Any]:
        """Velocities and spins in space [N + others, 3]; what is not free has none."""
        n = self.count
        none = jnp.zeros((len(self.others), 3))
        if self.dim == 3:
            velocity, spin = v[: 3 * n].reshape(n, 3), jnp.einsum("nij,nj->ni", pose.R[:n], v[3 * n :].reshape(n, 3))
        else:
            rates = v.reshape(n, 3)
            zero = jnp.zeros((n, 1))
            velocity, spin = jnp.concatenate([rates[:, :2], zero], 1), jnp.concatenate([zero, zero, rates[:, 2:]], 1)
        return jnp.concatenate([velocity, none]), jnp.concatenate([spin, none])


def frame_of(scene: Scene, state: State) -> Frame:
    free, others = np.flatnonzero(scene.free), np.flatnonzero(~scene.free)
    moments, axes = np.empty((len(free), 3)), np.empty((len(free), 3, 3))
    for k, i in enumerate(free):
        tensor = scene.inertia[i]
        if np.array_equal(tensor, np.diag(np.diagonal(tensor))):
            moments[k], axes[k] = np.diagonal(tensor), np.eye(3)
        else:
            moments[k], axes[k] = np.linalg.eigh(tensor)
            axes[k] *= np.sign(np.linalg.det(axes[k]))
    still = Pose(jnp.asarray(state.x[others]), jnp.asarray(state.R[others]))
    return Frame(scene.dim, free, axes, moments, scene.mass[free], still, others, state.x[free])


def system_of(world: "World") -> System:
    """The system; refused with a reason where there is none."""
    scene, state = world.scene()
    _refuse(scene)
    frame = frame_of(scene, state)
    contacts = [_contact(frame, family, names, laws) for family, names, laws in families(scene, frame, _pieces(scene, frame))]
    contacts += ropes_in(scene, frame)
    n = frame.count
    names = [scene.names[i].replace(" ", "_") for i in frame.free]
    if scene.dim == 3:
        places = Euclidean(3 * n, tuple(f"{name}.{axis}" for name in names for axis in "xyz"))
        space, masses, weight = Product(places, Power(SO3(), n)), _masses_in_space, _weight_in_space(n)
    else:
        space = Euclidean(3 * n, tuple(f"{name}.{axis}" for name in names for axis in ("x", "y", "angle")))
        masses, weight = _masses_in_plane, _weight_in_plane(n)
    stored, forces = stored_in(scene, frame), forces_in(scene, frame)
    potential = weight if stored is None else lambda q, params: weight(q, params) + stored(q)
    if not scene.joints.bilateral:
        return LumpedSystem(masses, potential, space, contacts, external=forces)

    def lagrangian(q, v, params):
        return 0.5 * jnp.sum(masses(params) * v**2) - potential(q, params)

    return System(lagrangian, contacts, forces, space, joints_in(scene, frame))


def start_of(world: "World") -> dict[str, Any]:
    """q0, v0, params and shape of the world as it stands: what `carom.solve` takes beside the system."""
    scene, state = world.scene()
    frame = frame_of(scene, state)
    free, spin = frame.free, state.spin(scene)
    params: dict[str, Any] = {"mass": frame.mass, "gravity": scene.gravity[: scene.dim]}
    if scene.dim == 3:
        turn = np.array([quaternions.of_matrix(state.R[i] @ frame.axes[k]) for k, i in enumerate(free)])
        body_spin = np.array([frame.axes[k].T @ state.R[i].T @ spin[i] for k, i in enumerate(free)])
        q0 = np.concatenate([state.x[free].ravel(), turn.ravel()])
        v0 = np.concatenate([state.v[free].ravel(), body_spin.ravel()])
        params["inertia"] = frame.moments
    else:
        angle = 2 * np.arctan2(state.q[free, 3], state.q[free, 0])
        q0 = np.column_stack([state.x[free, :2], angle]).ravel()
        v0 = np.column_stack([state.v[free, :2], spin[free, 2]]).ravel()
        params["inertia"] = frame.moments[:, 2]
    return {"q0": q0, "v0": v0, "params": params, "shape": _shape(world, scene, state, frame)}


def _refuse(scene: Scene) -> None:
    if scene.motions:
        raise InputError("a world with bodies that move as prescribed has no System yet: run it with world.solve")
    refuse_drives(scene)


def _pieces(scene: Scene, frame: Frame) -> list[Piece]:
    """All pieces in the frames of the system; what is free comes first."""
    found = []
    for k, i in enumerate([*frame.free, *frame.others]):
        shapes, center = scene.shapes[i]
        axes = frame.axes[k] if k < frame.count else np.eye(3)
        for part, placed in enumerate(shapes):
            number = int(np.flatnonzero((scene.geometry.owner == i) & (scene.geometry.part == part))[0])
            found += pieces_of(k, int(i), placed, center, axes, number)
    return found


def _contact(frame: Frame, family: Any, name: str, laws: tuple[float, float]) -> Contact:
    friction, restitution = laws

    def gap(q):
        return family.gap(frame.pose(q))

    if friction == 0:
        return Contact(gap, restitution, name=name)

    def slip(q, v):
        pose = frame.pose(q)
        point, normal, a, b = family.touch(pose)
        velocity, spin = frame.motion(pose, v)
        moving = lambda i: jnp.where((i >= 0)[:, None], velocity[i] + jnp.cross(spin[i], point - pose.x[i]), 0.0)  # noqa: E731
        return jnp.einsum("mki,mi->mk", across(normal, frame.dim), moving(b) - moving(a))

    return Contact(gap, restitution, friction=friction, slip=slip, name=name)


def _masses_in_space(params):
    return jnp.concatenate([jnp.repeat(params["mass"], 3), jnp.ravel(params["inertia"])])


def _masses_in_plane(params):
    return jnp.ravel(jnp.stack([params["mass"], params["mass"], params["inertia"]], axis=1))


def _weight_in_space(n: int):
    def potential(q, params):
        return -jnp.sum(params["mass"] * (q[: 3 * n].reshape(n, 3) @ params["gravity"]))

    return potential


def _weight_in_plane(n: int):
    def potential(q, params):
        return -jnp.sum(params["mass"] * (q.reshape(n, 3)[:, :2] @ params["gravity"]))

    return potential


def _shape(world: "World", scene: Scene, state: State, frame: Frame):
    """The picture of the system: the outlines of all bodies, where they are."""
    from carom.bodies.pictures import outlines
    from carom.drawing import Part

    parts, place = outlines(list(scene.shapes), scene.dim), {int(i): k for k, i in enumerate([*frame.free, *frame.others])}

    def shape(q):
        pose = frame.pose(jnp.asarray(q))
        x, R = np.asarray(pose.x), np.asarray(pose.R)
        drawn = []
        for part in parts:
            k = place[part.body]
            turn = R[k] @ frame.axes[k].T if k < frame.count else R[k]
            points = (part.points @ turn.T + x[k])[:, : scene.dim]
            endless = part.endless and part.kind == "mesh"
            drawn.append(Part(points, part.kind, k >= frame.count, part.triangles, endless, scene.names[part.body]))
        return drawn

    return shape
