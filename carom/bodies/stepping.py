"""How time advances: a step of the Moreau–Jean scheme on positions and rotations.

With contact rates u = Hᵀv, gaps φ, forces f, and the free motion Φ_τ (straight, momentum kept), a step from (q₀, v₀) over h is

    impacts     where φ(q₀) + h u_N(v₀) < 0:   v₀ ← v₀ + M⁻¹H r,   u_N ≥ −e u_N⁻, or u_N ≥ −φ/h where nothing bounces          (1)
    drift       q½ = Φ_{h/2}(q₀, v₀)                                                                                          (2)
    velocities  M(v₁ − v₀) = h f(q½) + H r,   Coulomb's law for (u + 2φ⁺/h, r),   J(v₀ + v₁) = 0                               (3)
    drift       q₁ = Φ_{h/2}(q½, v₁)                                                                                          (4)

H, φ and the rows J of joints in (3) belong to q½; φ⁺ is the open part of a gap: a contact that is still open may close in the rest
of the step, not more. So nothing passes through anything, whatever its speed, and nothing that rests is pushed.

*Preserves*: momentum and angular momentum to rounding (both bodies feel an impulse at one point, and (2), (4) keep them); the
energy of free flight to rounding; rest, exactly: a velocity below what the certificate can tell from zero is zero, and then q₁ is
q₀. No impact and no friction adds energy. *Order*: 2 while contacts keep their state and faces stay flat; 1 through impacts.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from carom.bodies.detection.detect import Contacts, detect
from carom.bodies.quaternions import apply, cross
from carom.bodies.scene import Scene, State, accelerations, drift, prescribed
from carom.bodies.velocity import Answer, Posed, pose, solve_velocities

HORIZON = 1.5  #   steps: contacts are looked for as far as bodies may come in this time
SLACK = 1e-4  #    relative to the reach of a body: contacts this far apart are told even at rest
CALM = 2.0  #      a contact that meets no faster than so many times what the forces change in a step does not bounce
ROUNDS = 30  #     impacts one after the other in one step; what then still approaches does not bounce
REST = 100.0  #    velocities below so many times the tolerance are zero
HALVINGS = 4  #    a step whose contact problem is not solved is repeated in halves, so often


@dataclass
class StepRecord:
    """What happened in a step."""

    residual: float = 0.0
    stage: str = "open"
    iterations: int = 0
    converged: bool = True
    deepest: float = 0.0  #                     the largest depth that was found
    halvings: int = 0
    tables: list["ContactTable"] = field(default_factory=list)

    def include(self, answer: Answer) -> None:
        self.converged &= answer.converged
        self.iterations += answer.iterations
        if answer.residual >= self.residual:
            self.residual, self.stage = answer.residual, answer.stage


@dataclass(frozen=True)
class ContactTable:
    """Contacts that carried an impulse, or were closed, in one problem."""

    contacts: Contacts
    impulse: np.ndarray  #  [m, 3]  on body b, in space
    state: np.ndarray  #    [m]     0 open, 1 stick, 2 slide
    impact: bool


@dataclass
class Stepper:
    """Carries what one step leaves to the next: the impulses to start from, and whether anything may be about to collide."""

    scene: Scene
    tolerance: float = 1e-10
    keys: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    impulses: np.ndarray = field(default_factory=lambda: np.zeros((0, 4)))
    joint_impulses: np.ndarray = field(default_factory=lambda: np.zeros(0))
    watchful: bool = True

    def step(self, state: State, t: float, h: float, depth: int = 0) -> tuple[State, StepRecord]:
        """One step; in halves if its contact problem cannot be solved as a whole."""
        memory = (self.keys, self.impulses, self.joint_impulses, self.watchful)
        new, record = self._try(state, t, h)
        if record.converged or depth == HALVINGS:
            return new, record
        self.keys, self.impulses, self.joint_impulses, self.watchful = memory
        self.watchful = True
        middle, first = self.step(state, t, 0.5 * h, depth + 1)
        if not first.converged:
            return middle, first
        self.watchful = True
        new, second = self.step(middle, t + 0.5 * h, 0.5 * h, depth + 1)
        worse = max(first, second, key=lambda r: r.residual)
        joined = StepRecord(worse.residual, worse.stage, first.iterations + second.iterations, second.converged)
        joined.deepest = min(first.deepest, second.deepest)
        joined.halvings = 1 + max(first.halvings, second.halvings)
        joined.tables = first.tables + second.tables
        return new, joined

    def _try(self, state: State, t: float, h: float) -> tuple[State, StepRecord]:
        record = StepRecord()
        if self.watchful:
            state = self._impacts(state, t, h, record)  # (1)
        middle = drift(self.scene, state, t, 0.5 * h)  # (2)
        posed, answer = self._velocities(middle, t, h, record)  # (3)
        v, L = _rest(posed, answer, self.tolerance)
        self._remember(posed, answer, h)
        new = drift(self.scene, replace(middle, v=v, L=L), t + 0.5 * h, 0.5 * h)  # (4)
        return prescribed(self.scene, new, t + h), record

    # -- (1) ---------------------------------------------------------------------------------------------------------

    def _impacts(self, state: State, t: float, h: float, record: StepRecord) -> State:
        """The velocities after the impacts that would fall into this step, one after the other where they bounce."""
        scene = self.scene
        posed = self._look(state, state.v, state.L, h, horizon=1.0)
        if len(posed.contacts) == 0:
            return state
        force, torque = accelerations(scene, state, t)
        pull = posed.rows.by_contact(posed.rates(scene.inverse_mass[:, None] * force, np.where(scene.free[:, None], torque, 0.0)))[
            :, 0
        ]
        change = h * np.max(np.abs(pull))
        pressed = np.isin(posed.contacts.key, self.keys[self.impulses[:, 0] > 0])
        gap, e = posed.contacts.gap, np.where(pressed, 0.0, posed.restitution)
        v, L = state.v, state.L
        for round_ in range(ROUNDS + 1):
            rates = posed.rows.by_contact(posed.rates(v, L))[:, 0]
            noise = 1e-9 * change + 1e-12 * np.max(np.abs(rates))
            closing = (rates < -noise) & (gap + h * rates < 0)
            if not np.any(closing):
                break
            bounce = closing & (e > 0) & (rates < -CALM * change) & (round_ < ROUNDS)
            if np.any(bounce):
                answer, part = self._bounce(posed, np.flatnonzero(bounce), rates, e, v, L)
            else:
                part = posed
                offset = _offsets(posed, np.maximum(gap, 0.0) / h, 0.0)
                answer = solve_velocities(posed, v, L, offset, None, self.tolerance)
            record.include(answer)
            record.tables.append(_table(part, answer, True, self.tolerance))
            v, L = answer.v, answer.L
            if not np.any(bounce):
                break
        return replace(state, v=v, L=L)

    def _bounce(self, posed: Posed, rows: np.ndarray, rates: np.ndarray, e: np.ndarray, v, L) -> tuple[Answer, Posed]:
        """Newton's law for the contacts that meet; with friction it may ask for energy, and is then followed as far as there is."""
        part = posed.only(rows)
        had = float(np.sum(replace(posed.state, v=v, L=L).kinetic(self.scene)))
        low, high, share = 0.0, 1.0, 1.0
        for _ in range(12):
            offset = _offsets(part, share * e[rows] * rates[rows], 0.0)
            answer = solve_velocities(part, v, L, offset, None, self.tolerance)
            has = float(np.sum(replace(posed.state, v=answer.v, L=answer.L).kinetic(self.scene)))
            good = has <= had * (1 + 1e-12) or share == 0.0
            if good and share == 1.0:
                break
            low, high = (share, high) if good else (low, share)
            best = answer if good else None
            share = 0.5 * (low + high)
        if share < 1.0 and best is None:
            answer = solve_velocities(part, v, L, _offsets(part, low * e[rows] * rates[rows], 0.0), None, self.tolerance)
        return answer, part

    # -- (3) ---------------------------------------------------------------------------------------------------------

    def _velocities(self, middle: State, t: float, h: float, record: StepRecord) -> tuple[Posed, Answer]:
        """Forces, contacts and joints in one problem. Looked for again, farther, if bodies come out faster than was foreseen."""
        scene = self.scene
        force, torque = accelerations(scene, middle, t + 0.5 * h)
        v = middle.v + h * scene.inverse_mass[:, None] * force
        L = middle.L + h * np.where(scene.free[:, None], torque, 0.0)
        later = prescribed(scene, middle, t + h)
        carried = lambda posed: _carried(posed, middle, later)  # noqa: E731
        fastest = np.maximum(_speed(scene, middle, middle.v, middle.L), _speed(scene, middle, v, L))
        for _ in range(8):
            posed = self._look(middle, v, L, h, HORIZON, fastest)
            offset = _offsets(posed, 2 * np.maximum(posed.contacts.gap, 0.0) / h, _joint_offset(posed, middle)) + carried(posed)
            answer = solve_velocities(posed, v, L, offset, self._start(posed), self.tolerance)
            came = _speed(scene, middle, answer.v, answer.L)
            if not answer.converged or np.all(came <= fastest * (1 + 1e-9) + 1e-12 * np.max(came)):
                break
            fastest = np.maximum(fastest, 1.1 * came)
        answer = replace(answer, u=answer.u + carried(posed))
        record.include(answer)
        record.deepest = min(record.deepest, float(np.min(posed.contacts.gap, initial=0.0)))
        record.tables.append(_table(posed, answer, False, self.tolerance))
        return posed, answer

    def _look(self, state: State, v, L, h: float, horizon: float, fastest: np.ndarray | None = None) -> Posed:
        """Contacts within reach of the motion."""
        scene = self.scene
        speed = _speed(scene, state, v, L) if fastest is None else fastest
        margin = horizon * h * speed + 2 * h * h * np.linalg.norm(scene.gravity) + SLACK * scene.reach
        movable = scene.kind == 0
        return pose(scene, state, detect(state.placement(scene), movable, margin, scene.ignored))

    def _start(self, posed: Posed) -> np.ndarray | None:
        """The impulses of the step before, contact by contact."""
        if len(self.keys) == 0 and len(self.joint_impulses) == 0:
            return None
        known, rows = posed.rows, posed.contacts.key
        where = np.searchsorted(self.keys, rows)
        where = np.minimum(where, max(len(self.keys) - 1, 0))
        same = (self.keys[where] == rows) if len(self.keys) else np.zeros(len(rows), bool)
        found = np.zeros((len(rows), 1 + known.tangents))
        if len(self.keys):
            across = self.impulses[where][same]
            frame = known.linear[: known.contacts * (1 + known.tangents)].reshape(known.contacts, 1 + known.tangents, 3)
            found[same] = np.einsum("mki,mi->mk", frame[same], across[:, 1:])
        joints = self.joint_impulses if len(self.joint_impulses) == len(posed.joints) else np.zeros(len(posed.joints))
        return np.concatenate([found.ravel(), joints])

    def _remember(self, posed: Posed, answer: Answer, h: float) -> None:
        known = posed.rows
        r = known.by_contact(answer.impulses)
        frame = known.linear[: known.contacts * (1 + known.tangents)].reshape(known.contacts, 1 + known.tangents, 3)
        order = np.argsort(posed.contacts.key, kind="stable")
        self.keys = posed.contacts.key[order]
        self.impulses = np.concatenate([r[:, :1], np.einsum("mk,mki->mi", r, frame)], axis=1)[order]
        self.joint_impulses = answer.impulses[known.contacts * (1 + known.tangents) :]
        rates = known.by_contact(answer.u)[:, 0]
        self.watchful = bool(
            np.any((posed.contacts.gap + HORIZON * h * rates < 0) & (rates < -1e-9 * np.max(answer.scale, initial=0.0)))
        )


def _speed(scene: Scene, state: State, v: np.ndarray, L: np.ndarray) -> np.ndarray:
    """The largest speed of any point of each body."""
    turning = apply(state.R, apply(scene.inverse_inertia, apply(np.swapaxes(state.R, -1, -2), L)))
    spin = np.where(scene.free[:, None], turning, L)
    return np.sqrt(np.sum(v**2, axis=1)) + scene.reach * np.sqrt(np.sum(spin**2, axis=1))


def _offsets(posed: Posed, normal: np.ndarray, joints: np.ndarray | float) -> np.ndarray:
    """What is added to the rates of the normals, and to those of the joints."""
    offset = np.zeros(len(posed.rows.a))
    width = 1 + posed.rows.tangents
    offset[: width * posed.rows.contacts : width] = normal
    offset[width * posed.rows.contacts :] = joints
    return offset


def _joint_offset(posed: Posed, middle: State) -> np.ndarray:
    """J v₁ = −J v₀, so that the mean velocity keeps a joint together; a motor asks for its speed."""
    first = posed.rows.contacts * (1 + posed.rows.tangents)
    before = posed.rates(middle.v, middle.L)[first:]
    return np.array([u if s is None else -s for u, s in zip(before, posed.joints.speed, strict=True)])


def _carried(posed: Posed, middle: State, later: State) -> np.ndarray:
    """What rests on a prescribed body shall move at the end of the step as the point under its centre moves then, not in the
    middle: so a turntable carries what stands on it round, not outwards. The change of all rates by that."""
    scene, rows = posed.scene, posed.rows
    change = np.zeros(len(rows.a))
    for body in scene.motions:
        for mine, other, sign in ((rows.a, rows.b, -1.0), (rows.b, rows.a, 1.0)):
            at = np.flatnonzero(mine == body)
            arm = middle.x[other[at]] - middle.x[body]
            turned = arm @ middle.R[body] @ later.R[body].T
            now = middle.v[body] + cross(middle.L[body], arm)
            then = later.v[body] + cross(later.L[body], turned)
            change[at] += sign * np.sum(rows.linear[at] * (then - now), axis=1)
    return change


def _rest(posed: Posed, answer: Answer, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """Velocities of bodies in contact that are smaller than the certificate can tell from zero, set to zero."""
    scene = posed.scene
    speed = _speed(scene, posed.state, answer.v, answer.L)
    still = scene.free & (speed <= REST * tolerance * answer.scale)
    return np.where(still[:, None], 0.0, answer.v), np.where(still[:, None], 0.0, answer.L)


def _table(posed: Posed, answer: Answer, impact: bool, tolerance: float) -> ContactTable:
    """The contacts that carried an impulse, or were closed and did not."""
    known = posed.rows
    r, u = known.by_contact(answer.impulses), known.by_contact(answer.u)
    frame = known.linear[: known.contacts * (1 + known.tangents)].reshape(known.contacts, 1 + known.tangents, 3)
    largest = np.max(r[:, 0], initial=0.0)
    presses = r[:, 0] > 1e-12 * largest
    kept = np.flatnonzero(presses | ((posed.contacts.gap <= 0) & (not impact)))
    slip = np.sqrt(np.sum(u[:, 1:] ** 2, axis=1))
    slides = slip > REST * tolerance * np.minimum(answer.scale[posed.contacts.a], answer.scale[posed.contacts.b])
    state = np.where(~presses, 0, np.where(slides, 2, 1))
    impulse = np.einsum("mk,mki->mi", r, frame)
    return ContactTable(posed.contacts.take(kept), impulse[kept], state[kept], impact)
