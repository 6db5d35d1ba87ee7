"""One velocity problem: impulses of contacts and joints, and the velocities after them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from carom.bodies.contact_rows import Rows, build_rows, delassus, problem, with_rolling
from carom.bodies.dense_interior import HEIGHTS, solve_inside
from carom.bodies.dense_newton import FEW_ROWS, MOST_ROWS, Dense, Found, from_gradient, newton, projected_gradient, solve_small
from carom.bodies.dense_proximal import FAR, NEAR, solve_proximal
from carom.bodies.detection.detect import Contacts
from carom.bodies.joints import JointRows, joint_rows, stops
from carom.bodies.once import once
from carom.bodies.pivoting import pivot
from carom.bodies.quaternions import apply, lengths
from carom.bodies.scene import Scene, State
from carom.numerics.friction.problem import RESTING, FrictionProblem, natural_residual
from carom.numerics.friction.stages import SCHEDULE, solve_friction

ROUNDS = 100  # in which contacts are added to those that are solved for (a stack closes from below, one in a round); then all are
BUNCH = 60  # rows: islands smaller than this are solved together
EDGES = 300  # rows between free bodies, up to which a loop finds islands sooner than a sparse matrix is built
STAGES = ("open", "small", "start", "interior", "proximal", "gradient", "long")
WEIGHTS = (1e4, 1e2, 1e-2)  # of ρ: a contact with x = 1e-7 and y = 1e-9 counts as carrying with one and as open with another
LONG = 3000  # steps of a projected gradient
NO_JOINTS = JointRows()
ENOUGH = 0.1  # of the tolerance: a certificate at which Newton's method stops where it makes no progress


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
        return self.scene.spins(self.inverse, L)

    def rates(self, v: np.ndarray, L: np.ndarray) -> np.ndarray:
        return self.rows.rates(v, self.spin(L))

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
        joints = self.joints.take(kept)
        return replace(self, joints=joints, rows=build_rows(self.scene, self.state, self.contacts, joints))


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
    R, joints = state.R, NO_JOINTS
    if scene.joints.all:
        contacts = with_ropes(scene, state, with_stops(scene, state, contacts, R), R)
        joints = joint_rows(scene.joints.bilateral, state.x, R, scene.dim)
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


def solve_velocities(
    posed: Posed, v: np.ndarray, L: np.ndarray, offset: np.ndarray, start: np.ndarray | None, tolerance: float
) -> Answer:
    """Impulses r with u + offset complementary to r in Coulomb's cone, for contacts; u + offset = 0 for joints."""
    scene, rows = posed.scene, posed.rows
    spin = posed.spin(L)
    if len(rows.a) == 0:
        scale = lengths(v) + scene.reach * lengths(spin)
        return Answer(v, L, np.zeros(0), np.zeros(0), scale, 0.0, True, "open", 0)
    q = rows.rates(v, spin) + offset
    impulses, residual, stage, iterations = _impulses(posed, q, start, tolerance)
    return kicked(posed, v, L, impulses, np.abs(q), float(residual), bool(residual <= tolerance), stage, iterations)


def kicked(
    posed: Posed,
    v: np.ndarray,
    L: np.ndarray,
    impulses: np.ndarray,
    size: np.ndarray,
    residual: float,
    converged: bool,
    stage,
    taken,
) -> Answer:
    """The answer that impulses are; `size` [rows], or one a contact, is what the problem of each was about."""
    scene, rows = posed.scene, posed.rows
    scale = lengths(v) + scene.reach * lengths(posed.spin(L))
    for body in (rows.a, rows.b) if len(size) == len(rows.a) else (posed.contacts.a, posed.contacts.b):
        np.maximum.at(scale, body, size)
    p, dL = rows.kick(impulses)
    v, L = v + scene.lightness * p, L + scene.free_column * dL  # what is not free has no lightness
    return Answer(v, L, impulses, posed.rates(v, L), scale, residual, converged, stage, taken)


def _impulses(posed: Posed, q: np.ndarray, start: np.ndarray | None, tolerance: float) -> tuple[np.ndarray, float, str, int]:
    """Impulses, certificate, stage and iterations; large problems island by island."""
    if not np.any(q):
        return np.zeros(len(q)), 0.0, "open", 0
    if len(q) <= MOST_ROWS:
        little = Dense(posed.delassus, q, posed.friction, posed.rows.tangents, 0.0)
        ask = lambda: problem(posed.scene, posed.rows, posed.inverse, posed.inertia, q, posed.friction)  # noqa: E731
        return _small(little, ask, start, tolerance)
    return _large(posed, q, start, tolerance)


def _large(posed: Posed, q: np.ndarray, start: np.ndarray | None, tolerance: float) -> tuple[np.ndarray, float, str, int]:
    """Most contacts that are near enough to be looked at stay open. Those that close without impulses, or pressed in the step
    before, are solved for first; where others then close, again with them: r = 0 and u_N ≥ 0 is the law for all others."""
    rows, width = posed.rows, 1 + posed.rows.tangents
    normal = slice(0, width * rows.contacts, width)
    active = q[normal] < 0 if start is None else (q[normal] < 0) | (start[normal] > 0)
    stage, iterations, solved = "open", 0, {}
    for turn in range(ROUNDS):
        if turn == ROUNDS - 1:
            active[:] = True
        chosen = np.concatenate([np.repeat(active, width), np.ones(len(q) - width * rows.contacts, bool)])
        r, name, taken = _some(posed, np.flatnonzero(chosen), q, start, tolerance, solved)
        start = r
        stage, iterations = max(stage, name, key=STAGES.index), iterations + taken
        opening = rates_after(posed, q, r)[normal]
        closes = ~active & (opening < 0)
        if not np.any(closes):
            break
        active |= closes
    return r, certificate(posed, q, r), stage, iterations


def _some(
    posed: Posed, index: np.ndarray, q: np.ndarray, start: np.ndarray | None, tolerance: float, solved: dict[bytes, np.ndarray]
) -> tuple[np.ndarray, str, int]:
    """Impulses of some rows, island by island; the others have none. `solved` remembers islands from round to round."""
    r, stage, iterations = np.zeros(len(q)), "open", 0
    size, width, edge = float(np.linalg.norm(q)), 1 + posed.rows.tangents, (1 + posed.rows.tangents) * posed.rows.contacts
    known = posed.rows.take(index, int(np.sum(index < edge)) // width)
    for local in bunches(posed.scene, known):
        mine = index[local]
        if (known_before := solved.get(mine.tobytes())) is not None:
            r[mine] = known_before
            continue
        contacts = mine[mine < edge][::width] // width
        least = RESTING * size * np.sqrt(len(mine) / len(q))
        begin = None if start is None else start[mine]
        part = posed.rows.take(mine, len(contacts))
        r[mine], _, name, taken = _island(posed, part, posed.friction[contacts], q[mine], begin, 0.5 * tolerance, least)
        solved[mine.tobytes()] = r[mine]
        stage, iterations = max(stage, name, key=STAGES.index), iterations + taken
    return r, stage, iterations


def _island(
    posed: Posed, rows: Rows, friction: np.ndarray, q: np.ndarray, start: np.ndarray | None, tolerance: float, least: float
) -> tuple[np.ndarray, float, str, int]:
    """The same for some islands. Small ones are tried, and finished, by Newton's method in dense matrices."""
    if not np.any(q):
        return np.zeros(len(q)), 0.0, "open", 0
    ask = lambda: replace(problem(posed.scene, rows, posed.inverse, posed.inertia, q, friction), least_size=least)  # noqa: E731
    if len(q) <= MOST_ROWS:
        return _small(Dense(delassus(posed.scene, rows, posed.inverse), q, friction, rows.tangents, least), ask, start, tolerance)
    found = solve_friction(ask(), start, tolerance)
    if not found.converged and start is not None:
        again = solve_friction(ask(), None, tolerance)
        found = again if again.residual < found.residual else found
    return found.impulses, found.residual, found.stage, found.iterations


def _small(
    little: Dense, ask: Callable[[], FrictionProblem], start: np.ndarray | None, tolerance: float
) -> tuple[np.ndarray, float, str, int]:
    """Newton's method, and where it fails one try after the other: the first answer that meets the tolerance, or the best."""
    r, residual, iterations = solve_small(little, start, ENOUGH * tolerance)
    stage = "small"
    if residual <= tolerance:
        return r, residual, stage, iterations
    for name, better, finer, taken in _tries(little, r, residual, ask, start, tolerance):
        iterations += taken
        if finer < residual:
            r, residual, stage = better, finer, name
        if residual <= tolerance:
            break
    return r, residual, stage, iterations


def _tries(little: Dense, r, residual, ask, start, tolerance: float) -> Iterator[tuple[str, np.ndarray, float, int]]:
    """Impulses with their certificate, and finished by pivots where they miss it: what Newton's method left, paths through the
    inside of the cones, proximal points from there and from zero, a projected gradient, a long one, and the stages of the full
    solver, a few and then all."""
    enough = ENOUGH * tolerance
    if len(little.q) <= FEW_ROWS:
        yield "small", *_pivoted(little, (r, residual, 0), enough)
    best = (r, residual, 0)
    for height in HEIGHTS:
        best = min(best, found := _pivoted(little, solve_inside(little, height, enough), enough), key=lambda one: one[1])
        yield "interior", *found
    for begin, price in ((best[0], NEAR), (np.zeros_like(r), FAR)):  # one of them may go round in circles
        best = min(best, found := solve_proximal(little, begin, tolerance, price), key=lambda one: one[1])
        yield "proximal", *found
    for weight in WEIGHTS:
        yield "interior", *pivot(little.weighted(weight), best[0], enough)
    better = from_gradient(little)
    yield "small", *_pivoted(little, better if better[1] < residual else (r, residual, better[2]), enough)
    better, finer, taken = newton(little, projected_gradient(little, LONG))
    yield "small", *_pivoted(little, (better, finer, LONG + taken), enough)
    for rounds in (1, len(SCHEDULE)):
        found = solve_friction(ask(), start, tolerance, rounds=rounds)
        better, finer, taken = newton(little, found.impulses)
        yield found.stage, *_pivoted(little, (better, finer, found.iterations + taken), enough)


def _pivoted(little: Dense, found: Found, enough: float) -> Found:
    """The same, and finished by contacts that give way one at a time where that is needed."""
    r, residual, taken = found
    if residual <= enough:
        return found
    r, residual, pivots = pivot(little, r, enough)
    return r, residual, taken + pivots


def bunches(scene: Scene, rows: Rows) -> Iterator[np.ndarray]:
    """The rows of islands, bodies that touch one another directly or through others: large ones alone, small ones several at a time
    up to BUNCH rows, since setting a problem up is work that they share."""
    mine = islands(scene, rows)[rows.owner(scene.free)]
    order = np.argsort(mine, kind="stable")
    ends = np.flatnonzero(np.diff(mine[order])) + 1
    waiting: list[np.ndarray] = []
    for island in np.split(order, ends):
        if waiting and len(island) + sum(map(len, waiting)) > BUNCH:
            yield np.sort(np.concatenate(waiting))
            waiting = []
        if len(island) > BUNCH:
            yield island
        else:
            waiting.append(island)
    if waiting:
        yield np.sort(np.concatenate(waiting))


def islands(scene: Scene, rows: Rows, connecting: np.ndarray | bool = True) -> np.ndarray:
    """[n] a number for each body, the same for all that the connecting rows join."""
    both = np.flatnonzero(scene.free[rows.a] & scene.free[rows.b] & connecting)
    return _parts(rows.a[both], rows.b[both], len(scene.mass))


def _parts(a: np.ndarray, b: np.ndarray, n: int) -> np.ndarray:
    """[n] a number for each body, the same for those that the pairs (a, b) connect, and in the order of the first of them."""
    if len(a) > EDGES:
        return connected_components(sparse.coo_matrix((np.ones(len(a)), (a, b)), (n, n)), directed=False)[1]
    first = list(range(n))  # of each body one that comes before it in its part, or itself
    for i, j in set(zip(a.tolist(), b.tolist(), strict=True)):
        while first[i] != i:
            i = first[i]
        while first[j] != j:
            j = first[j]
        first[max(i, j)] = min(i, j)
    for i in range(n):
        first[i] = first[first[i]]  # what comes before i has been followed to the end
    return np.array(first)


def rates_after(posed: Posed, q: np.ndarray, r: np.ndarray) -> np.ndarray:
    """u = Wr + q."""
    scene = posed.scene
    p, L = posed.rows.kick(r)
    return q + posed.rows.rates(scene.lightness * p, apply(posed.inverse, L))


def certificate(posed: Posed, q: np.ndarray, r: np.ndarray) -> float:
    """E of `carom.numerics.friction.problem` for the whole problem, from its rows: no matrix is formed."""
    scene, rows = posed.scene, posed.rows
    u = rates_after(posed, q, r)
    light = [apply(posed.inverse[body], turn) for body, turn in ((rows.a, rows.turn_a), (rows.b, rows.turn_b))]
    trace = np.sum((scene.inverse_mass[rows.a] + scene.inverse_mass[rows.b]) * np.sum(rows.linear**2, axis=1))
    trace += np.sum(rows.turn_a * light[0]) + np.sum(rows.turn_b * light[1])
    return natural_residual(u, r, q, posed.friction, rows.tangents, len(q) / trace if trace > 0 else 1.0)
