"""How time advances: a step of the Moreau–Jean scheme on positions and rotations.

With contact rates u = Hᵀv, gaps φ, forces f, and the free motion Φ_τ (straight, momentum kept), a step from (q₀, v₀) over h is

    impacts     where φ(q₀) + h u_N(v₀) < 0:   v₀ ← v₀ + M⁻¹H r,   u_N ≥ −e u_N⁻, or u_N ≥ −φ/h where nothing bounces          (1)
    drift       q½ = Φ_{h/2}(q₀, v₀)                                                                                          (2)
    velocities  M(v₁ − v₀) = h f(q½) + H r,   Coulomb's law for (u₁ + κu₀ + 2φ⁺/h, r),   J(v₁ + v₀) = 0                        (3)
    drift       q₁ = Φ_{h/2}(q½, v₁)                                                                                          (4)

H, φ and the rows J of joints in (3) belong to q½; φ⁺ is the open part of a gap: a contact that is still open may close in the rest
of the step, not more. 0 ≤ κ ≤ 1 is not zero for contacts that last (`Stepper._shift`): they do no work, whatever way they go. So
nothing passes through anything, whatever its speed, and nothing that rests is pushed.

*Preserves*: momentum and angular momentum to rounding (both bodies feel an impulse at one point, and (2), (4) keep them); the
energy of free flight to rounding; rest, exactly: a velocity below what the certificate can tell from zero is zero, and then q₁ is
q₀. No impact and no friction adds energy. *Order*: 2 while contacts keep their state and faces stay flat; 1 through impacts.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from carom.bodies.detection.detect import Contacts, detect
from carom.bodies.memory import Memory
from carom.bodies.quaternions import cross, lengths
from carom.bodies.rolling import solve_rolling
from carom.bodies.scene import PRESCRIBED, Scene, State, accelerations, drift, prescribed
from carom.bodies.velocity import Answer, Posed, pose

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
    """Steps, one after the other."""

    scene: Scene
    tolerance: float = 1e-10
    memory: Memory = field(default_factory=Memory)

    def begin(self, state: State, h: float) -> None:
        """Contacts that touch at the start and do not approach are as if they had pressed in a step before."""
        posed = self._look(state, state.v, state.L, h, HORIZON)
        u = posed.rows.by_contact(posed.rates(state.v, state.L))
        scale = _speed(self.scene, state, state.v, state.L)
        noise = REST * self.tolerance * np.maximum(scale[posed.contacts.a], scale[posed.contacts.b])
        pressed = (np.abs(posed.contacts.gap) <= 1e-9 * _reach(self.scene, posed)) & (np.abs(u[:, 0]) <= noise)
        stuck = pressed & (np.sqrt(np.sum(u[:, 1:] ** 2, axis=1)) <= noise)
        nothing = np.zeros(len(posed.rows.a))
        self.memory = Memory.of(posed, nothing, np.nan * nothing, pressed, stuck, True)

    def step(self, state: State, t: float, h: float, depth: int = 0) -> tuple[State, StepRecord]:
        """One step; in halves if its contact problem cannot be solved as a whole."""
        memory = self.memory
        new, record = self._try(state, t, h)
        if record.converged or depth == HALVINGS:
            return new, record
        self.memory = replace(memory, watchful=True)
        middle, first = self.step(state, t, 0.5 * h, depth + 1)
        if not first.converged:
            return middle, first
        self.memory = replace(self.memory, watchful=True)
        new, second = self.step(middle, t + 0.5 * h, 0.5 * h, depth + 1)
        self.memory = replace(self.memory, watchful=True)
        worse = max(first, second, key=lambda r: r.residual)
        joined = StepRecord(worse.residual, worse.stage, first.iterations + second.iterations, second.converged)
        joined.deepest = min(first.deepest, second.deepest)
        joined.halvings = 1 + max(first.halvings, second.halvings)
        joined.tables = first.tables + second.tables
        return new, joined

    def _try(self, state: State, t: float, h: float) -> tuple[State, StepRecord]:
        record = StepRecord()
        struck = self._impacts(state, t, h, record) if self.memory.watchful else state  # (1)
        hit = np.zeros(len(state.v), bool)
        if struck is not state:
            hit = np.any(struck.v != state.v, axis=1) | np.any(struck.L != state.L, axis=1)
        middle = drift(self.scene, struck, t, 0.5 * h)  # (2)
        posed, answer = self._velocities(middle, t, h, hit, record)  # (3)
        v, L = _rest(posed, answer, self.tolerance)
        new = drift(self.scene, middle.moved(v, L), t + 0.5 * h, 0.5 * h)  # (4)
        return prescribed(self.scene, new, t + h), record

    # -- (1) ---------------------------------------------------------------------------------------------------------

    def _impacts(self, state: State, t: float, h: float, record: StepRecord) -> State:
        """The velocities after the impacts that would fall into this step, one after the other where they bounce."""
        scene = self.scene
        posed = self._look(state, state.v, state.L, h, horizon=1.0)
        if len(posed.contacts) == 0:
            return state
        if len(posed.joints):  # what has a bound has no impulse
            posed = posed.joined_by(np.flatnonzero(np.isinf(posed.joints.bound)))
        force, torque = accelerations(scene, state, t)
        pull = posed.rows.by_contact(posed.rates(scene.inverse_mass[:, None] * force, np.where(scene.free[:, None], torque, 0.0)))[
            :, 0
        ]
        change = h * np.max(np.abs(pull))
        gap, e = posed.contacts.gap, posed.restitution
        v, L = state.v, state.L
        for round_ in range(ROUNDS + 1):
            rates = posed.rows.by_contact(posed.rates(v, L))[:, 0]
            noise = 1e-9 * change + 1e-12 * np.max(np.abs(rates))
            closing = (rates < -noise) & (gap + h * (rates + 0.5 * h * np.minimum(pull, 0.0)) < 0)
            if not np.any(closing):
                break
            bounce = closing & (e > 0) & (rates < -CALM * change) & (round_ < ROUNDS)
            if np.any(bounce):
                answer, part = self._bounce(posed, np.flatnonzero(bounce), rates, e, v, L)
            else:
                part = posed
                offset = _offsets(posed, np.maximum(gap, 0.0) / h, _motors(posed))
                answer = solve_rolling(posed, v, L, offset, None, self.tolerance, h)
            record.include(answer)
            record.tables.append(_table(part, answer, True, self.tolerance)[0])
            v, L = answer.v, answer.L
            if not np.any(bounce):
                break
        return state.moved(v, L)

    def _bounce(self, posed: Posed, rows: np.ndarray, rates: np.ndarray, e: np.ndarray, v, L) -> tuple[Answer, Posed]:
        """Newton's law for the contacts that meet; with friction it may ask for energy, and is then followed as far as there is."""
        part = posed.only(rows)
        had = float(np.sum(posed.state.moved(v, L).kinetic(self.scene)))
        low, high, share = 0.0, 1.0, 1.0
        for _ in range(12):
            offset = _offsets(part, share * e[rows] * rates[rows], _motors(part))
            answer = solve_rolling(part, v, L, offset, None, self.tolerance, 1.0)
            has = float(np.sum(posed.state.moved(answer.v, answer.L).kinetic(self.scene)))
            good = has <= had * (1 + 1e-12) or share == 0.0
            if good and share == 1.0:
                break
            low, high = (share, high) if good else (low, share)
            best = answer if good else None
            share = 0.5 * (low + high)
        if share < 1.0 and best is None:
            offset = _offsets(part, low * e[rows] * rates[rows], _motors(part))
            answer = solve_rolling(part, v, L, offset, None, self.tolerance, 1.0)
        return answer, part

    # -- (3) ---------------------------------------------------------------------------------------------------------

    def _velocities(self, middle: State, t: float, h: float, hit: np.ndarray, record: StepRecord) -> tuple[Posed, Answer]:
        """Forces, contacts and joints in one problem. Looked for again, farther, if bodies come out faster than was foreseen."""
        scene = self.scene
        force, torque = accelerations(scene, middle, t + 0.5 * h)
        v = middle.v + h * scene.inverse_mass[:, None] * force
        L = middle.L + h * np.where(scene.free[:, None], torque, 0.0)
        later = prescribed(scene, middle, t + h)
        fastest = np.maximum(_speed(scene, middle, middle.v, middle.L), _speed(scene, middle, v, L))
        known, memory = None, self.memory
        for _ in range(8):
            posed = self._look(middle, v, L, h, HORIZON, fastest)
            if known == (known := posed.contacts.key.tobytes()):  # nothing more is found farther away
                break
            shift = self._shift(posed, middle, later, hit)
            shift, answer, bounced = self._solve(posed, middle, v, L, shift, memory.start(posed), h)
            came = _speed(scene, middle, answer.v, answer.L)
            if not answer.converged or np.all(came <= fastest * (1 + 1e-9) + 1e-12 * np.max(came)):
                break
            fastest = np.maximum(fastest, 1.1 * came)
            none = np.zeros(len(posed.contacts), bool)
            memory = Memory.of(posed, answer.impulses, answer.u, none, none, True)  # the next begins with this answer
        came_out, answer = answer.u, replace(answer, u=answer.u + shift)
        record.include(answer)
        record.deepest = min(record.deepest, float(np.min(posed.contacts.gap, initial=0.0)))
        table, state = _table(posed, answer, False, self.tolerance)
        record.tables.append(table)
        self._remember(posed, answer, came_out, np.where(bounced, 0, state), h)
        return posed, answer

    def _solve(
        self, posed: Posed, middle: State, v, L, shift: np.ndarray, start, h: float
    ) -> tuple[np.ndarray, Answer, np.ndarray]:
        """The law for (u₁ + shift + 2φ⁺/h, r). An impact that (1) did not foresee, since a body turned into it, bounces here: its
        shift is eu₀, which does the work −(1 − e²) of an impact; where friction would make energy of that, it does not bounce.
        The shift as it was used, the answer, and which contacts bounced."""
        gap, width = posed.contacts.gap, 1 + posed.rows.tangents
        late = self._late(posed, middle, v, L, h)
        for bounces in (late, np.zeros_like(late)) if np.any(late) else (late,):
            rates = posed.rows.by_contact(posed.rates(middle.v, middle.L))[:, 0]
            bounced = shift.copy()
            bounced[: len(gap) * width : width][bounces] = (posed.restitution * rates)[bounces]
            offset = bounced + _offsets(posed, np.where(bounces, 0.0, 2 * np.maximum(gap, 0.0) / h), 0.0)
            answer = solve_rolling(posed, v, L, offset, start, self.tolerance, h)
            had, has = (float(np.sum(posed.state.moved(*pair).kinetic(self.scene))) for pair in ((v, L), (answer.v, answer.L)))
            if not np.any(bounces) or has <= had * (1 + 1e-12):
                break
        return bounced, answer, bounces

    def _late(self, posed: Posed, middle: State, v, L, h: float) -> np.ndarray:
        """Contacts that meet in the second half of the step, did not press before, and bounce."""
        if not np.any(posed.restitution > 0):
            return np.zeros(len(posed.contacts), bool)
        rates, then = (posed.rows.by_contact(posed.rates(*pair))[:, 0] for pair in ((middle.v, middle.L), (v, L)))
        change = np.max(np.abs(then - rates), initial=0.0)
        fast = rates < -CALM * change - 1e-9 * np.max(np.abs(rates), initial=0.0)
        pressed, _ = self.memory.states(posed.contacts.key)
        return (posed.restitution > 0) & fast & ~pressed & (posed.contacts.gap + 0.5 * h * rates < 0)

    def _shift(self, posed: Posed, middle: State, later: State, hit: np.ndarray) -> np.ndarray:
        """What the law is asked about is u₁ + shift. On a curved way the rates of a contact that lasts change by δ = u₁⁻ − u₀ from
        one middle to the next, without any force, and the impulses r do the work r · (u₀ + u₁)/2. u₁ = −κu₀ with κ = 1 is no work
        but may sway from step to step; κ is chosen so that u₁ comes nearest to δ/2, which is the same where the way is a circle
        and does not sway, but at most 1, which would add energy, and at least 0. This for contacts that pressed in the step before
        (in the normal) and that stuck (across it); joints take κ = 1, and a motor asks for its speed."""
        width, count = 1 + posed.rows.tangents, posed.rows.contacts
        before = posed.rates(middle.v, middle.L)
        shift = _carried(posed, middle, later)
        pressed, stuck = self.memory.states(posed.contacts.key)
        told = hit | (self.scene.kind == PRESCRIBED)  # how those move is known better
        calm = ~(told[posed.contacts.a] | told[posed.contacts.b])
        now, last = posed.rows.by_contact(before), self.memory.rates_before(posed)
        half = np.where(np.isnan(last), now, 0.5 * (now - last))  # −δ/2
        turn = np.concatenate([_towards(half[:, :1], now[:, :1]), _towards(half[:, 1:], now[:, 1:])], axis=1)
        lasts = np.zeros((count, width), bool)
        lasts[:, 0] = pressed & calm & (now[:, 0] < 0)
        lasts[:, 1:] = (stuck & calm)[:, None]
        shift[: count * width] = np.where(lasts.ravel(), turn.ravel(), shift[: count * width])
        shift[count * width :] = [u if s is None else -s for u, s in zip(before[count * width :], posed.joints.speed, strict=True)]
        return shift

    def _look(self, state: State, v, L, h: float, horizon: float, fastest: np.ndarray | None = None) -> Posed:
        """Contacts within reach of the motion."""
        scene = self.scene
        speed = _speed(scene, state, v, L) if fastest is None else fastest
        margin = horizon * h * speed + 2 * h * h * scene.pull + SLACK * scene.reach
        movable = scene.kind == 0
        return pose(scene, state, detect(state.placement(scene), movable, margin, scene.ignored))

    def _remember(self, posed: Posed, answer: Answer, u: np.ndarray, state: np.ndarray, h: float) -> None:
        rates = posed.rows.by_contact(answer.u)[:, 0]
        noise = 1e-9 * np.max(answer.scale, initial=0.0)
        watchful = bool(np.any((posed.contacts.gap + HORIZON * h * rates < 0) & (rates < -noise)))
        # Of four corners that rest three suffice, and the solver may leave one out: it counts as pressed all the same.
        touches = (np.abs(rates) <= noise) & (posed.contacts.gap <= 1e-9 * _reach(self.scene, posed))
        pressed = (state > 0) | touches
        pair = np.minimum(posed.contacts.a, posed.contacts.b) * len(self.scene.mass) + np.maximum(
            posed.contacts.a, posed.contacts.b
        )
        stuck = pressed & ~np.isin(pair, pair[state == 2])
        self.memory = Memory.of(posed, answer.impulses, u, pressed, stuck, watchful)


def _reach(scene: Scene, posed: Posed) -> np.ndarray:
    """The larger reach of the two bodies of each contact."""
    return np.maximum(scene.reach[posed.contacts.a], scene.reach[posed.contacts.b])


def _speed(scene: Scene, state: State, v: np.ndarray, L: np.ndarray) -> np.ndarray:
    """The largest speed of any point of each body."""
    return lengths(v) + scene.reach * lengths(state.spin_of(scene, L))


def _towards(wanted: np.ndarray, full: np.ndarray) -> np.ndarray:
    """The point of the segment from 0 to `full` that is nearest to `wanted`, row by row."""
    square = np.einsum("mi,mi->m", full, full)
    share = np.einsum("mi,mi->m", wanted, full) / np.where(square > 0, square, 1.0)
    return np.minimum(np.maximum(share, 0.0), 1.0)[:, None] * full


def _motors(posed: Posed) -> np.ndarray:
    """What is added to the rates of joints: they stay at zero, or at the speed of a motor."""
    return np.array([0.0 if speed is None else -speed for speed in posed.joints.speed])


def _offsets(posed: Posed, normal: np.ndarray, joints: np.ndarray | float) -> np.ndarray:
    """What is added to the rates of the normals, and to those of the joints."""
    offset = np.zeros(len(posed.rows.a))
    width = 1 + posed.rows.tangents
    offset[: width * posed.rows.contacts : width] = normal
    offset[width * posed.rows.contacts :] = joints
    return offset


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


def _table(posed: Posed, answer: Answer, impact: bool, tolerance: float) -> tuple[ContactTable, np.ndarray]:
    """The contacts that carried an impulse, or were closed and did not; and the state of all."""
    known = posed.rows
    r, u = known.by_contact(answer.impulses), known.by_contact(answer.u)
    presses = r[:, 0] > 1e-12 * np.max(r[:, 0], initial=0.0)
    slip = lengths(u[:, 1:])
    slides = slip > REST * tolerance * np.minimum(answer.scale[posed.contacts.a], answer.scale[posed.contacts.b])
    state = np.where(~presses, 0, np.where(slides, 2, 1))
    kept = np.flatnonzero(presses | ((posed.contacts.gap <= 0) & (not impact)))
    impulse = np.einsum("mk,mki->mi", r, known.frames)
    return ContactTable(posed.contacts.take(kept), impulse[kept], state[kept], impact), state
