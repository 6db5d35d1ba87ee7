"""From contacts and joints to the contact problem of a step: u = Hᵀv in the frames of the contacts.

    u = (v_b + ω_b × r_b) − (v_a + ω_a × r_a),   r from the centre of mass to the point of contact                          (1)

Both bodies feel an impulse at the same point of space, so that no impulse changes the angular momentum of the whole.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy import sparse

from carom.bodies.compiled import by_loops
from carom.bodies.detection.detect import Contacts
from carom.bodies.joints import JointRows
from carom.bodies.once import once
from carom.bodies.quaternions import crossing, lengths
from carom.bodies.scene import Scene, State
from carom.numerics.friction.compiled.block_problem import BlockProblem, in_blocks
from carom.numerics.friction.problem import FrictionProblem

ROUNDING = 4 * np.finfo(float).eps  # of a sum of a dozen products
SMALL = 4000  # rows times bodies, up to which H is one dense matrix: a product is one call then, and not ten
FEW = 400  #    the same, up to which all of its columns make W, and not only those of bodies that the rows touch


@dataclass(frozen=True)
class Rows:
    """Rows (N, T…) contact by contact, then those of joints: who they belong to, and their directions."""

    a: np.ndarray  #        [r]
    b: np.ndarray  #        [r]
    linear: np.ndarray  #   [r, 3]
    turn_a: np.ndarray  #   [r, 3]
    turn_b: np.ndarray  #   [r, 3]
    tangents: int
    contacts: int
    bodies: int
    compliance: np.ndarray | None = None  # [r]  what is added to the diagonal of W, where something gives way

    def take(self, index: np.ndarray, contacts: int) -> "Rows":
        """Some of the rows, those of so many contacts first."""
        columns = (column.take(index, 0) for column in (self.a, self.b, self.linear, self.turn_a, self.turn_b))
        give = None if self.compliance is None else self.compliance[index]
        return Rows(*columns, self.tangents, contacts, self.bodies, give)

    @once
    def dense(self) -> np.ndarray | None:
        """Hᵀ as [r, 6 n] (velocity and spin of each body), where that is small."""
        r = len(self.a)
        if r * self.bodies > SMALL:
            return None
        H, every = np.zeros((r, self.bodies, 6)), np.arange(r)
        H[every, self.b, :3], H[every, self.b, 3:] = self.linear, self.turn_b
        H[every, self.a, :3], H[every, self.a, 3:] = -self.linear, -self.turn_a
        return H.reshape(r, 6 * self.bodies)

    def rates(self, v: np.ndarray, spin: np.ndarray) -> np.ndarray:
        """u of (1) for all rows."""
        return rates_of(self, v, spin)

    def rounding(self, v: np.ndarray, spin: np.ndarray) -> float:
        """The last bits of all rates: where the terms of (1) cancel, as they do in joints, no rates are known better."""
        v, spin = np.abs(v), np.abs(spin)
        size = np.vecdot(np.abs(self.linear), v[self.a] + v[self.b])
        size += np.vecdot(np.abs(self.turn_a), spin[self.a]) + np.vecdot(np.abs(self.turn_b), spin[self.b])
        return ROUNDING * float(np.linalg.norm(size))

    def kick(self, impulses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The change of linear and angular momentum of all bodies."""
        return kick_of(self, impulses)

    def owner(self, free: np.ndarray) -> np.ndarray:
        """A free body of each row."""
        return np.where(free[self.b], self.b, self.a)

    @property
    def frames(self) -> np.ndarray:
        """The directions of the contact rows as [contacts, 1 + tangents, 3]."""
        return self.linear[: self.contacts * (1 + self.tangents)].reshape(self.contacts, 1 + self.tangents, 3)

    def by_contact(self, values: np.ndarray) -> np.ndarray:
        """The contact rows as [contacts, 1 + tangents]."""
        return values[: self.contacts * (1 + self.tangents)].reshape(self.contacts, 1 + self.tangents)


@by_loops("rows_loops")
def rates_of(rows: Rows, v: np.ndarray, spin: np.ndarray) -> np.ndarray:
    if rows.dense is not None:
        both = np.empty((rows.bodies, 6))
        both[:, :3], both[:, 3:] = v, spin
        return rows.dense.dot(both.reshape(-1))
    relative = np.vecdot(rows.linear, v[rows.b] - v[rows.a])
    return relative + np.vecdot(rows.turn_b, spin[rows.b]) - np.vecdot(rows.turn_a, spin[rows.a])


@by_loops("rows_loops")
def kick_of(rows: Rows, impulses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if rows.dense is not None:
        both = impulses.dot(rows.dense).reshape(rows.bodies, 6)
        return both[:, :3], both[:, 3:]
    p, L = np.zeros((rows.bodies, 3)), np.zeros((rows.bodies, 3))
    push = impulses[:, None] * rows.linear
    np.add.at(p, rows.b, push)
    np.subtract.at(p, rows.a, push)
    np.add.at(L, rows.b, impulses[:, None] * rows.turn_b)
    np.subtract.at(L, rows.a, impulses[:, None] * rows.turn_a)
    return p, L


def frames(normal: np.ndarray, dim: int) -> np.ndarray:
    """[m, 1 + tangents, 3]: the normal and directions across it."""
    if dim == 2:
        across = np.stack([-normal[:, 1], normal[:, 0], np.zeros(len(normal))], axis=1)
        return np.stack([normal, across], axis=1)
    product = crossing(normal)  # [m, 3, 3]: its row k is normal × e_k
    first = product[np.arange(len(normal)), np.argmin(np.abs(normal), axis=1)]
    first = first / lengths(first)[:, None]
    return np.stack([normal, first, np.matmul(first[:, None], product)[:, 0]], axis=1)


@lru_cache(maxsize=16)
def _frames_of(normal: bytes, dim: int) -> np.ndarray:
    """`frames`, kept for the next step: on a floor the normals stay what they are. Nobody may write into them."""
    found = frames(np.frombuffer(normal).reshape(-1, 3), dim)
    found.flags.writeable = False
    return found


@by_loops("rows_loops")
def contact_columns(
    normal: np.ndarray, point: np.ndarray, a: np.ndarray, b: np.ndarray, x: np.ndarray, moves: np.ndarray, dim: int
) -> tuple[np.ndarray, ...]:
    """The bodies of the rows of contacts, their directions [r, 3], and the levers r × direction on both."""
    frame, nothing = _frames_of(normal.tobytes(), dim), np.zeros((dim * len(a), 3))
    turns = []
    for body in (a, b):
        free = moves.take(body)  # what never moves has no rates and no momentum
        lever = point - x.take(body, 0) if (some := np.count_nonzero(free)) else None
        if lever is not None and some < len(free):
            lever[~free] = 0.0
        turns.append(nothing if lever is None else (frame @ crossing(lever)).reshape(-1, 3))
    return a.repeat(dim), b.repeat(dim), frame.reshape(-1, 3), *turns


def build_rows(scene: Scene, state: State, contacts: Contacts, joints: JointRows) -> Rows:
    tangents = scene.dim - 1
    given = contacts.normal, contacts.point, contacts.a, contacts.b
    a, b, linear, *turns = contact_columns(*given, state.x, scene.moves, scene.dim)
    if not len(joints):
        return Rows(a, b, linear, *turns, tangents, len(contacts), len(scene.mass))
    both = lambda mine, theirs: np.concatenate([mine, theirs])  # noqa: E731
    columns = (both(a, joints.a), both(b, joints.b), both(linear, joints.linear))
    turns = both(turns[0], joints.turn_a), both(turns[1], joints.turn_b)
    give = both(np.zeros(len(a)), joints.compliance) if np.any(joints.compliance) else None
    return Rows(*columns, *turns, tangents, len(contacts), len(scene.mass), give)


def with_rolling(joints: JointRows, contacts: Contacts, levers: np.ndarray, dim: int) -> JointRows:
    """Beside the rows of joints those of the relative spin across and along the normal, of contacts that have friction against it.
    `levers` [2, contacts] are ρ and σ of `carom.bodies.materials`; rows of one contact with one lever stand together."""
    rows = joints.take(np.arange(len(joints)))
    frame, zero = frames(contacts.normal, 3), np.zeros(3)
    for i in np.flatnonzero(np.any(levers > 0, axis=0)):
        about = [(levers[0, i], t) for t in (frame[i, 1:] if dim == 3 else np.eye(3)[2:])] + [(levers[1, i], contacts.normal[i])]
        for lever, axis in about:
            if lever > 0:
                rows.append(contacts.a[i], contacts.b[i], zero, axis, axis, 0.0, 0.0, np.inf, int(i), float(lever), 0.0, 1.0)
    return rows


def problem(
    scene: Scene, rows: Rows, inverse: np.ndarray, inertia: np.ndarray, q: np.ndarray, friction: np.ndarray
) -> FrictionProblem:
    """The problem of the bodies that the rows touch; `inverse` and `inertia` [n, 3, 3] are in space. In the plane a body has
    three coordinates, in space six."""
    bodies, number = _touched(scene, rows)
    d = 3 if scene.dim == 2 else 6
    index, column, value = [], [], []
    for owner, turn, sign in ((rows.b, rows.turn_b, 1.0), (rows.a, rows.turn_a, -1.0)):
        mine = np.flatnonzero(number[owner] >= 0)
        index.append((d * number[owner[mine]][:, None] + np.arange(d)).ravel())
        column.append(np.repeat(mine, d))
        value.append(sign * _coordinates(rows.linear[mine], turn[mine], d).ravel())
    gives = np.flatnonzero(rows.compliance) if rows.compliance is not None else np.zeros(0, int)
    index.append(d * len(bodies) + np.arange(len(gives)))  # what gives way has a mass of its own there: 1/γ
    column.append(gives)
    value.append(np.ones(len(gives)))
    shape = (d * len(bodies) + len(gives), len(rows.a))
    H = sparse.csc_matrix((np.concatenate(value), (np.concatenate(index), np.concatenate(column))), shape)
    M, W = (_blocks(bodies, d, *pair) for pair in ((scene.mass, inertia), (scene.inverse_mass, inverse)))
    if len(gives):
        give = rows.compliance[gives]
        M, W = (sparse.block_diag([known, sparse.diags(more)], "csr") for known, more in ((M, 1 / give), (W, give)))
    return FrictionProblem(q, friction, rows.tangents, jacobian=H, mass=M, inverse_mass=W)


def block_problem(
    scene: Scene, rows: Rows, inverse: np.ndarray, q: np.ndarray, friction: np.ndarray, least: float = 0.0
) -> BlockProblem:
    """The same in blocks, for the compiled solver."""
    bodies, number = _touched(scene, rows)
    d = 3 if scene.dim == 2 else 6
    light = np.zeros((len(bodies), d, d))
    if d == 3:
        light[:, [0, 1], [0, 1]], light[:, 2, 2] = scene.inverse_mass[bodies][:, None], inverse[bodies, 2, 2]
    else:
        light[:, [0, 1, 2], [0, 1, 2]], light[:, 3:, 3:] = scene.inverse_mass[bodies][:, None], inverse[bodies]
    pair = np.stack([number[rows.a], number[rows.b]], axis=1)
    pair[pair < 0] = len(bodies)
    parts = -_coordinates(rows.linear, rows.turn_a, d), _coordinates(rows.linear, rows.turn_b, d)
    return in_blocks(parts, pair, light, q, friction, 1 + rows.tangents, rows.compliance, least)


@by_loops("rows_loops")
def delassus(scene: Scene, rows: Rows, inverse: np.ndarray) -> np.ndarray:
    """W = HᵀM⁻¹H + γ as a dense matrix."""
    if rows.compliance is not None:
        return delassus(scene, replace(rows, compliance=None), inverse) + np.diag(rows.compliance)
    if len(rows.a) * rows.bodies <= FEW and rows.dense is not None:
        if scene.round is not None:
            return rows.dense.dot((rows.dense * scene.light).T)
        return _product(rows.dense.reshape(-1, rows.bodies, 6), scene.lightness, inverse)
    bodies, number = _touched(scene, rows)
    m, k, d = len(rows.a), len(bodies), 3 if scene.dim == 2 else 6
    H, every = np.zeros((m, k + 1, d)), np.arange(m)  # what does not move goes to the last place
    H[every, number[rows.b]] = _coordinates(rows.linear, rows.turn_b, d)
    H[every, number[rows.a]] -= _coordinates(rows.linear, rows.turn_a, d)
    H = H[:, :k]
    if scene.round is not None:
        light = scene.light.reshape(-1, 6)[bodies][:, :: 2 if d == 3 else 1]  # in the plane 1/m, 1/m, 1/I of the six
        H = H.reshape(m, k * d)
        return H.dot((H * light.ravel()).T)
    return _product(H, scene.inverse_mass[bodies][:, None], inverse[bodies])


def _product(H: np.ndarray, lightness: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """H M⁻¹ Hᵀ of H [m, n, 6], with 1/m [n, 1] and I⁻¹ [n, 3, 3]."""
    light = np.empty_like(H)
    light[:, :, :3] = H[:, :, :3] * lightness
    np.matmul(H[:, :, 3:].swapaxes(0, 1), inverse, out=light[:, :, 3:].swapaxes(0, 1))  # one product a body
    return H.reshape(len(H), -1).dot(light.reshape(len(H), -1).T) if len(H) else np.zeros((0, 0))


def _touched(scene: Scene, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """The free bodies that have rows, and the number of each body among them (−1: none)."""
    touched = np.zeros(len(scene.mass), bool)
    touched[rows.a] = touched[rows.b] = True
    bodies = np.flatnonzero(touched & scene.free)
    number = np.full(len(scene.mass), -1)
    number[bodies] = np.arange(len(bodies))
    return bodies, number


def _coordinates(linear: np.ndarray, turn: np.ndarray, d: int) -> np.ndarray:
    if d == 3:
        return np.stack([linear[:, 0], linear[:, 1], turn[:, 2]], axis=1)
    return np.concatenate([linear, turn], axis=1)


def _blocks(bodies: np.ndarray, d: int, mass: np.ndarray, inertia: np.ndarray) -> sparse.csr_matrix:
    k = len(bodies)
    blocks = np.zeros((k, d, d))
    if d == 3:
        blocks[:, 0, 0] = blocks[:, 1, 1] = mass[bodies]
        blocks[:, 2, 2] = inertia[bodies, 2, 2]
    else:
        blocks[:, [0, 1, 2], [0, 1, 2]] = mass[bodies][:, None]
        blocks[:, 3:, 3:] = inertia[bodies]
    return sparse.bsr_matrix((blocks, np.arange(k), np.arange(k + 1)), (k * d, k * d)).tocsr()
