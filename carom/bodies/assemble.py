"""From the world that a person described to arrays, with the checks that need all of it."""

from typing import TYPE_CHECKING

import numpy as np

from carom.bodies import quaternions
from carom.bodies.contact_rows import build_rows, problem
from carom.bodies.detection.detect import Contacts, detect
from carom.bodies.detection.geometry import build
from carom.bodies.joints import Joint, Joints, joint_rows
from carom.bodies.materials import build_materials
from carom.bodies.posed import pose
from carom.bodies.scene import FREE, Force, Scene, Spring, State, prescribed
from carom.errors import InputError
from carom.numerics.friction.stages import solve_friction

if TYPE_CHECKING:
    from carom.bodies.world import World

TOUCHING = 1e-9  # relative to the reach: overlaps up to here are rounding of the numbers a person wrote
FITTING = 1e-9  # the same for velocities that contradict a joint


def assemble(world: "World") -> Scene:
    """Bodies, materials, joints and forces as arrays."""
    specs = world.bodies
    kind = np.array([spec.kind for spec in specs])
    free = kind == FREE
    mass = np.array([spec.mass.volume if spec.mass else np.inf for spec in specs])
    inertia = np.array([spec.mass.inertia if spec.mass else np.eye(3) for spec in specs])
    if world.dim == 2:  # only turns about z happen: the same moment for all axes makes them exact
        inertia = np.where(free, inertia[:, 2, 2], 1.0)[:, None, None] * np.eye(3)
    inverse = np.where(free[:, None, None], np.linalg.inv(inertia), 0.0)
    center = np.array([spec.mass.center if spec.mass else np.zeros(3) for spec in specs])
    looks = tuple((spec.shapes, c) for spec, c in zip(specs, center, strict=True))
    geometry = build(world.dim, list(looks))
    reach = np.array(
        [
            max([np.linalg.norm(p.where - c) + p.shape.reach for p in s.shapes], default=0.0)
            for s, c in zip(specs, center, strict=True)
        ]
    )
    reach = np.where(np.isfinite(reach), reach, 0.0)  # an endless wall that turns is told by its points of contact alone
    state = _placed(world, center)
    R = quaternions.matrix(state.q)
    joints = tuple(_joint(spec, state, R) for spec in world.joints)
    springs = tuple(_spring(spec, state, R) for spec in world.springs)
    ignored = frozenset((min(s.a, s.b), max(s.a, s.b)) for s in world.joints if not s.collide)
    parts = (geometry, build_materials(world.materials, geometry), Joints(joints), ignored)
    more = (tuple(Force(i, f) for i, f in world.forces), springs, {i: s.motion for i, s in enumerate(specs) if s.motion})
    names = tuple(spec.name for spec in specs)
    return Scene(
        world.dim,
        names,
        kind,
        mass,
        inertia,
        np.where(free, 1 / mass, 0.0),
        inverse,
        center,
        reach,
        world.gravity,
        *parts,
        *more,
        looks,
    )


def _placed(world: "World", center: np.ndarray) -> State:
    """Positions of the centres of mass and orientations; velocities are those of the origins still."""
    turn = np.array([spec.turn for spec in world.bodies])
    R = quaternions.matrix(turn)
    x = np.array([spec.position for spec in world.bodies]) + quaternions.apply(R, center)
    zero = np.zeros_like(x)
    return State(x, turn, zero, zero)


def first_state(world: "World", scene: Scene) -> State:
    """The state at the start, refused where velocities contradict a joint."""
    placed = _placed(world, scene.center)
    R = quaternions.matrix(placed.q)
    spin = np.array([spec.spin for spec in world.bodies])
    arm = quaternions.apply(R, scene.center)
    v = np.array([spec.velocity for spec in world.bodies]) + quaternions.cross(spin, arm)
    L = quaternions.apply(R, quaternions.apply(scene.inertia, quaternions.apply(np.swapaxes(R, -1, -2), spin)))
    state = prescribed(scene, State(placed.x, placed.q, v, np.where(scene.free[:, None], L, 0.0)), 0.0)
    rows = joint_rows(scene.joints, state.x, R, scene.dim)
    if len(rows):
        none = np.zeros(0, int)
        built = build_rows(scene, state, Contacts(none, none, np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0), none), rows)
        rates = built.rates(state.v, state.spin(scene))
        wrong = np.array([s is None for s in rows.speed]) & (np.abs(rates) > FITTING * (1 + np.max(np.abs(rates))))
        if np.any(wrong):
            i = int(np.argmax(wrong))
            pair = f"{scene.names[rows.a[i]]!r} and {scene.names[rows.b[i]]!r}"
            raise InputError(
                f"the velocities of {pair} at the start contradict a joint between them: it would open at {abs(rates[i]):.6g}. "
                "Choose velocities and spins that the joint allows"
            )
    return state


def _joint(spec, state: State, R: np.ndarray) -> Joint:
    a, b = spec.a, spec.b
    across = spec.second - (spec.second @ spec.axis) * spec.axis
    across = across / np.linalg.norm(across)
    frame = np.stack([spec.axis, across, np.cross(spec.axis, across)], axis=1)
    at_a, at_b = R[a].T @ (spec.at[0] - state.x[a]), R[b].T @ (spec.at[1] - state.x[b])
    apart = float(np.linalg.norm(spec.at[1] - spec.at[0]))
    length = apart if spec.length is None else float(spec.length)
    if spec.kind == "distance" and abs(length - apart) > FITTING * length:
        raise InputError(f"joint {spec.name!r} keeps a distance of {length:.9g}, but its ends are {apart:.9g} apart: move a body")
    if spec.kind == "rope" and apart > length * (1 + FITTING):
        raise InputError(
            f"rope {spec.name!r} is {length:.9g} long, but its ends are {apart:.9g} apart: move a body or take more rope"
        )
    if spec.kind == "distance" and apart == 0:
        raise InputError(f"joint {spec.name!r} keeps a distance of zero, which has no direction: use a ball")
    return Joint(spec.kind, spec.name, a, b, at_a, at_b, R[a].T @ frame, R[b].T @ frame, length, spec.speed, spec.drive)


def _spring(spec, state: State, R: np.ndarray) -> Spring:
    a, b, p, q, stiffness, length, damping = spec
    natural = float(np.linalg.norm(q - p)) if length is None else float(length)
    return Spring(a, b, R[a].T @ (p - state.x[a]), R[b].T @ (q - state.x[b]), stiffness, natural, damping)


# -- overlapping at the start --------------------------------------------------------------------------------------------


def overlaps(scene: Scene, state: State) -> Contacts:
    contacts = detect(state.placement(scene), scene.free, np.zeros(len(scene.mass)), scene.ignored)
    return contacts.take(np.flatnonzero(contacts.gap < -TOUCHING * (scene.reach[contacts.a] + scene.reach[contacts.b])))


def refuse_overlaps(scene: Scene, state: State, new: int | None = None) -> None:
    """Explain which bodies overlap, and how deep; only those with a `new` body where the others move already, and may touch."""
    found = overlaps(scene, state)
    if new is not None:
        found = found.take(np.flatnonzero((found.a == new) | (found.b == new)))
    if len(found) == 0:
        return
    deepest: dict[tuple[int, int], float] = {}
    for a, b, gap in zip(found.a.tolist(), found.b.tolist(), found.gap.tolist(), strict=True):
        deepest[(a, b)] = min(gap, deepest.get((a, b), 0.0))
    worst = sorted(deepest.items(), key=lambda item: item[1])[:5]
    told = "; ".join(f"{scene.names[a]!r} and {scene.names[b]!r} by {-gap:.6g}" for (a, b), gap in worst)
    more = f" (and {len(deepest) - 5} more pairs)" if len(deepest) > 5 else ""
    raise InputError(f"bodies overlap at the start: {told}{more}. Move them apart, or call world.separate()")


def separate(world: "World", scene: Scene, state: State, rounds: int = 50) -> float:
    """Displacements d, least in the metric of mass, with φ + Hᵀd ≥ 0: again and again until nothing overlaps."""
    first = 0.0
    for _ in range(rounds):
        contacts = detect(state.placement(scene), scene.free, SEARCH * scene.reach, scene.ignored)
        depth = -float(np.min(contacts.gap, initial=0.0))
        first = max(first, depth)
        if len(overlaps(scene, state)) == 0:
            for i in np.flatnonzero(scene.free):
                world.bodies[i].turn = state.q[i]
                world.bodies[i].position = state.x[i] - quaternions.matrix(state.q[i]) @ scene.center[i]
            return first
        state = _pushed(scene, state, contacts)
    raise InputError(
        f"the bodies could not be moved apart in {rounds} rounds: there may be no room. The largest depth is {depth:.6g}"
    )


SEARCH = 0.1  # relative to the reach: how far around each body others are taken into account


def _pushed(scene: Scene, state: State, contacts: Contacts) -> State:
    posed = pose(scene, state, contacts)
    rows = posed.rows
    width = 1 + rows.tangents
    q = np.zeros(len(rows.a))
    q[: width * rows.contacts : width] = posed.contacts.gap - 0.1 * TOUCHING * (
        scene.reach[posed.contacts.a] + scene.reach[posed.contacts.b]
    )
    asked = problem(scene, rows, posed.inverse, posed.inertia, q, np.zeros(rows.contacts))
    p, L = rows.kick(solve_friction(asked).impulses)
    x = state.x + scene.inverse_mass[:, None] * p
    turn = quaternions.apply(posed.inverse, np.where(scene.free[:, None], L, 0.0))
    return State(x, quaternions.normalise(quaternions.multiply(quaternions.exponential(turn), state.q)), state.v, state.L)
