"""How time advances: a step of the Moreau–Jean scheme on positions and rotations.

With contact rates u = Hᵀv, gaps φ, forces f, and the free motion Φ_τ (straight, momentum kept), a step from (q₀, v₀) over h is

    impacts     where φ(q₀) + h u_N(v₀) < 0:   v₀ ← v₀ + M⁻¹H r,   u_N ≥ −e u_N⁻, or u_N ≥ −φ/h where nothing bounces          (1)
    drift       q½ = Φ_{h/2}(q₀, v₀)                                                                                          (2)
    impacts     where φ(q½) + h/2 u_N(v½) < 0, and nothing pressed before:   v₀ ← v₀ + M⁻¹H r,   u_N ≥ −e u_N⁻                 (3)
    velocities  M(v₁ − v₀) = h f(q½) + H r,   Coulomb's law for (u₁ + κu₀ + 2φ⁺/h, r),   J(v₁ + v₀) = 0                        (4)
    drift       q₁ = Φ_{h/2}(q½, v₁)                                                                                          (5)

H, φ and the rows J of joints in (3) and (4) belong to q½, and v½ = v₀ + h/2 M⁻¹f(q½); φ⁺ is the open part of a gap: a contact
that is still open may close in the rest of the step, not more. 0 ≤ κ ≤ 1 is not zero for contacts that last (`Stepper._shift`):
they do no work, whatever way they go. So nothing passes through anything, whatever its speed, and nothing that rests is pushed.

*Preserves*: momentum and angular momentum to rounding (both bodies feel an impulse at one point, and (2), (5) keep them); the
energy of free flight to rounding; the energy of elastic bodies without friction, through any impact and any pressing (in (1) and
(3) by `carom.bodies.bounces`, in (4) since u₁ = −u₀ wherever such a contact presses); rest, exactly: a velocity below what the
certificate can tell from zero is zero, and then q₁ is q₀. No impact and no friction adds energy. *Order*: 4 in free flight
(positions are exact in gravity, orientations of order 4); 2 while contacts keep their state and faces stay flat; 1 through impacts.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from carom.bodies.bounces import AGAIN, ROUNDS, Ahead, bounce, linked, motors, normal_rates, offsets, supports
from carom.bodies.contact_work import carried, solve_lasting
from carom.bodies.detection.detect import Contacts, detect, guards
from carom.bodies.materials import ELASTIC
from carom.bodies.mean_forces import Outcome, Pair, under_forces
from carom.bodies.memory import Memory
from carom.bodies.posed import Posed, pose
from carom.bodies.rolling import solve_rolling
from carom.bodies.scene import Scene, State, accelerations, drift, prescribed
from carom.bodies.step_ends import asked_of_lasting, lasting_of, speeds, states_of
from carom.bodies.velocity import Answer

Ends = tuple[State, State]  # with what is prescribed as it is at the start and at the end of a step

HORIZON = 1.5  #   steps: contacts are looked for as far as bodies may come in this time
SLACK = 1e-4  #    relative to the reach of a body: contacts this far apart are told even at rest
REST = 100.0  #    velocities below so many times the tolerance are zero
ROUNDING = 1e-15  # relative to the fastest body: a contact that closes slower than this does not
HALVINGS = 4  #    a step whose contact problem is not solved is repeated in halves, so often
FAST = 12  #       the same where elastic impacts do not come to an end: a ball in a slit meets its walls often in one step


@dataclass
class StepRecord:
    """What happened in a step."""

    residual: float = 0.0
    stage: str = "open"
    iterations: int = 0
    converged: bool = True
    deepest: float = 0.0  #                     the largest depth that was found
    halvings: int = 0
    endless: bool = False  #                    elastic impacts went on and on
    hurried: bool = False  #                    the step is as short as it may be
    resisted: bool = False  #                   forces change too fast with velocity for such a step
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

    def take(self, rows: np.ndarray, impact: bool) -> "ContactTable":
        return ContactTable(self.contacts.take(rows), self.impulse[rows], self.state[rows], impact)


@dataclass
class Stepper:
    """Steps, one after the other."""

    scene: Scene
    tolerance: float = 1e-10
    memory: Memory = field(default_factory=Memory)
    _in_vain: bool = field(default=False, repr=False)  # halving has not ended the impacts
    _seen: tuple[State, np.ndarray, Posed, float] | None = field(default=None, repr=False)  # found last: where, how far, what, h

    def begin(self, state: State, h: float) -> None:
        """Contacts that touch at the start and do not approach are as if they had pressed in a step before."""
        posed = self._look(state, state.v, state.L, h, HORIZON)
        u = posed.rows.by_contact(posed.rates(state.v, state.L))
        scale = _speed(self.scene, state, state.v, state.L)
        noise = REST * self.tolerance * np.maximum(scale[posed.contacts.a], scale[posed.contacts.b])
        pressed = (np.abs(posed.contacts.gap) <= 1e-9 * _reach(self.scene, posed)) & (np.abs(u[:, 0]) <= noise)
        stuck = pressed & (np.sqrt(np.sum(u[:, 1:] ** 2, axis=1)) <= noise)
        nothing = np.zeros(len(posed.rows.a))
        self.memory = Memory.of(posed, nothing, pressed, stuck, True, *Memory.in_space(posed, nothing, np.nan * nothing))

    def step(self, state: State, t: float, h: float, depth: int = 0) -> tuple[State, StepRecord]:
        """One step; in halves if its contact problem cannot be solved as a whole.

        Impacts that come to no end in the shortest of halves either (bodies pressed together between elastic and plastic ones) are
        no matter of time: until a step has an end again they are taken as they are, or each would take 2¹² short ones.
        """
        memory = self.memory
        new, record = self._try(state, t, h, StepRecord(hurried=depth == FAST))
        self._in_vain = record.endless and (self._in_vain or depth == FAST)
        if depth == FAST or (not record.endless and (record.converged or depth >= HALVINGS)):
            return new, record
        if self._in_vain and record.converged:
            self.memory = memory
            return self._try(state, t, h, StepRecord(hurried=True))
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
        joined.resisted = first.resisted or second.resisted
        joined.halvings = 1 + max(first.halvings, second.halvings)
        joined.tables = first.tables + second.tables
        return new, joined

    def _try(self, state: State, t: float, h: float, record: StepRecord) -> tuple[State, StepRecord]:
        struck = self._impacts(state, t, h, record) if self.memory.watchful else state  # (1)
        hit = None if struck is state else _changed(state, struck)
        middle = drift(self.scene, struck, t, 0.5 * h)  # (2)
        late = self._late(middle, t, h, record)  # (3)
        if late is not middle:
            hit = _changed(middle, late) if hit is None else hit | _changed(middle, late)
        posed, answer, came = self._velocities(late, t, h, hit, record)  # (4)
        v, L = _rest(posed, answer, came, self.tolerance)
        new = drift(self.scene, middle.moved(v, L), t + 0.5 * h, 0.5 * h)  # (5)
        return prescribed(self.scene, new, t + h), record

    # -- (1) and (3) -------------------------------------------------------------------------------------------------

    def _impacts(self, state: State, t: float, h: float, record: StepRecord) -> State:
        """The velocities after the impacts that would fall into this step, one after the other where they bounce."""
        posed = self._look(state, state.v, state.L, h, horizon=1.0)
        if len(posed.contacts) == 0:
            return state
        if len(posed.joints):  # what has a bound has no impulse
            posed = posed.joined_by(posed.joints.rigid)
        ahead = Ahead.of(posed, *accelerations(self.scene, state, t, dampers=False), h, h, 0.5 * h)
        room, lasts = np.maximum(posed.contacts.gap, 0.0) / h, np.zeros(len(posed.contacts), bool)
        v, L = self._bounces(posed, ahead, state.v, state.L, lasts, room, record)
        plastic, mixed = posed.restitution < ELASTIC, self.scene.materials.elastic
        rates = normal_rates(posed, v, L)
        closing = plastic & ahead.closing(posed, rates)
        for _ in range(ROUNDS):
            if not np.any(closing):
                break
            if mixed:  # what carries something elastic stops at once, and not in this step and the next: it is hit as it is then
                room[closing & linked(posed, self._touching(posed) & ~plastic, plastic)] = 0.0
            part = posed.only(np.flatnonzero(plastic)) if mixed else posed
            answer = solve_rolling(part, v, L, offsets(part, room[plastic], motors(part)), None, self.tolerance, h)
            record.include(answer)
            record.tables.append(_table(part, answer, True, self.tolerance)[0])
            if not (mixed or np.any(answer.impulses)):  # what still closes does so by less than the tolerance
                closing[:] = False
                break
            v, L = self._bounces(posed, ahead, answer.v, answer.L, lasts, room, record) if mixed else (answer.v, answer.L)
            rates = normal_rates(posed, v, L)
            closing = plastic & (rates < -room - ahead.noise(rates)) & ahead.closing(posed, rates)
        record.endless |= mixed and bool(np.any(closing))
        return state.moved(v, L)

    def _touching(self, posed: Posed) -> np.ndarray:
        return posed.contacts.gap <= 1e-9 * _reach(self.scene, posed)

    def _late(self, middle: State, t: float, h: float, record: StepRecord) -> State:
        """The same in the middle, for the second half: impacts that (1) did not foresee, since a body turned into them, or was
        thrown there by another impact. A contact that pressed in the step before does not meet: it lasts."""
        if not self.scene.materials.bounces:
            return middle
        scene = self.scene
        force, torque = accelerations(scene, middle, t + 0.5 * h, dampers=False)
        fastest = _pushed(scene, middle, force, torque, h)[2]
        dv, dL = 0.5 * h * scene.lightness * force, 0.5 * h * np.where(scene.free_column, torque, 0.0)
        v, L = middle.v + dv, middle.L + dL  # half of what the forces do has been done: so energy is what it is at other times
        posed = self._look(middle, v, L, h, HORIZON, fastest)  # (4) asks for the same
        if len(posed.contacts) == 0:
            return middle
        if len(posed.joints):
            posed = posed.joined_by(posed.joints.rigid)
        ahead = Ahead.of(posed, force, torque, h, 0.5 * h, 0.5 * h)
        pressed, _ = self.memory.states(posed.contacts.key)
        room = np.maximum(posed.contacts.gap, 0.0) / (0.5 * h)
        after = self._bounces(posed, ahead, v, L, pressed, room, record)
        return middle if after[0] is v else middle.moved(after[0] - dv, after[1] - dL)

    def _bounces(
        self, posed: Posed, ahead: Ahead, v, L, lasts: np.ndarray, room: np.ndarray, record: StepRecord
    ) -> tuple[np.ndarray, np.ndarray]:
        """Impact after impact, until nothing closes that bounces."""
        often, inside = np.zeros(len(posed.contacts), int), guards(posed.contacts.key)
        for _ in range(ROUNDS):
            rates = normal_rates(posed, v, L)
            meets = ahead.bouncing(posed, rates) & ~lasts
            if np.any(meets & ~inside):  # the surface first, and what is inside if that was not enough
                meets &= ~inside
            if not np.any(meets):
                return v, L
            often += meets
            if np.any(often[posed.restitution == ELASTIC] > AGAIN) and not record.hurried:
                break
            held = supports(posed, ahead, meets, rates, room)
            answer, part = bounce(posed, meets, held, room, v, L, self.tolerance)
            record.include(answer)
            record.tables.append(_table(part, answer, True, self.tolerance)[0])
            v, L = answer.v, answer.L
        record.endless |= bool(np.any(posed.restitution[meets] == ELASTIC))
        return v, L

    # -- (4) ---------------------------------------------------------------------------------------------------------

    def _velocities(
        self, middle: State, t: float, h: float, hit: np.ndarray | None, record: StepRecord
    ) -> tuple[Posed, Answer, np.ndarray]:
        """Forces, contacts and joints in one problem. Looked for again, farther, if bodies come out faster than was foreseen. Also
        the speeds with which they do."""
        scene, ends = self.scene, (prescribed(self.scene, middle, t), prescribed(self.scene, middle, t + h))
        push = lambda force: self._under(force, middle, ends, h, hit)  # noqa: E731
        (posed, answer, came, shift), record.resisted = under_forces(scene, middle, t + 0.5 * h, h, push)
        came_out, answer = answer.u, answer.asked_about(shift)
        if scene.motions:  # what is rolled over lasts as it is at the end of the step
            moved = carried(posed, ends[0], middle, ends[1])
            came_out = came_out.copy()
            posed.rows.by_contact(came_out)[moved.rolled] += moved.later[moved.rolled]
        record.include(answer)
        record.converged &= not record.resisted
        record.deepest = min(record.deepest, float(posed.contacts.gap.min(initial=0.0)))
        table, state, push = _table(posed, answer, False, self.tolerance)
        if scene.materials.elastic:
            met = self._met(posed, middle)[np.isin(posed.contacts.key, table.contacts.key)]
            record.tables.append(table.take(met, True))
            table = table.take(~met, False)
        record.tables.append(table)
        self._remember(posed, answer, came_out, state, push, h)
        return posed, answer, came

    def _under(self, force: Pair, middle: State, ends: Ends, h: float, hit: np.ndarray | None) -> Outcome:
        """(4) with given forces and torques; also what was added to the rates that the law is asked about."""
        scene, known, memory = self.scene, None, self.memory
        v, L, fastest = _pushed(scene, middle, *force, h)
        for _ in range(8):
            posed = self._look(middle, v, L, h, HORIZON, fastest)
            if known == (known := posed.contacts.key.tobytes()):  # nothing more is found farther away
                break
            asked = self._shift(posed, middle, ends, h, hit)
            shift, answer = solve_lasting(posed, middle, v, L, *asked, memory.start(posed), self.tolerance, h)
            came = _speed(scene, middle, answer.v, answer.L)
            if not answer.converged or (came <= fastest * (1 + 1e-9) + 1e-12 * came.max()).all():
                break
            fastest = np.maximum(fastest, 1.1 * came)
            none = np.zeros(len(posed.contacts), bool)
            memory = Memory.of(
                posed, answer.impulses, none, none, True, *Memory.in_space(posed, answer.impulses, answer.u)
            )  # the next begins with this answer
        return posed, answer, came, shift

    def _met(self, posed: Posed, middle: State) -> np.ndarray:
        """Which contacts, if they press, do so since they meet, and bounce: an impact that neither (1) nor (3) saw coming."""
        pressed, _ = self.memory.states(posed.contacts.key)
        return (posed.restitution == ELASTIC) & ~pressed & (normal_rates(posed, middle.v, middle.L) < 0)

    def _shift(self, posed: Posed, middle: State, ends: Ends, h: float, hit: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """What the law is asked about is u₁ + shift. On a curved way the rates of a contact that lasts change by δ = u₁⁻ − u₀ from
        one middle to the next, without any force, and the impulses r do the work r · (u₀ + u₁)/2. u₁ = −κu₀ with κ = 1 is no work
        but may sway from step to step; κ is chosen so that u₁ comes nearest to δ/2, which is the same where the way is a circle
        and does not sway, but at most 1, which would add energy, and at least 0. This for contacts that pressed in the step before
        (in the normal, where one that was opening closes by κu₀ or by 2φ⁺/h, not by both) and that stuck (across it). Joints and
        elastic contacts take κ = 1, a motor asks for its speed: the first part. The second is that of all other κ, which
        `carom.bodies.contact_work` leaves out where they make energy."""
        count = (1 + posed.rows.tangents) * posed.rows.contacts
        before = posed.rates(middle.v, middle.L)
        shift, lasting = np.zeros((2, len(before)))
        moved = carried(posed, ends[0], middle, ends[1]) if self.scene.motions else None
        if moved is not None:
            posed.rows.by_contact(shift)[:] = moved.later
        if len(posed.joints):
            speeds = zip(before[count:], posed.joints.speed, posed.joints.kappa, strict=True)
            shift[count:] = [kappa * u if s is None else -s for u, s, kappa in speeds]
        pressed, stuck = self.memory.states(posed.contacts.key)
        now = posed.rows.by_contact(before)
        if hit is not None:
            calm = ~(hit[posed.contacts.a] | hit[posed.contacts.b])
            pressed, stuck = pressed & calm, stuck & calm
        if moved is not None:  # how what rides goes on is known better
            pressed, stuck, now = pressed & ~moved.ridden, stuck & ~moved.ridden, now + moved.earlier
        pressed = pressed & (np.abs(now[:, 0]) > ROUNDING * max(np.abs(middle.v).max(), self.scene.pull * h))
        if not (np.count_nonzero(pressed) or np.count_nonzero(stuck)):
            return shift, lasting
        given, asked = posed.rows.by_contact(shift), posed.rows.by_contact(lasting)
        if self.scene.materials.elastic:
            elastic = pressed & (posed.restitution == ELASTIC)
            given[elastic, 0], pressed = np.minimum(now[elastic, 0], 0.0), pressed & ~elastic
        asked_of_lasting(now, self.memory.rates_before(posed), pressed, stuck, asked)
        return shift, lasting

    def _look(self, state: State, v, L, h: float, horizon: float, fastest: np.ndarray | None = None) -> Posed:
        """Contacts within reach of the motion."""
        scene = self.scene
        speed = _speed(scene, state, v, L) if fastest is None else fastest
        margin = horizon * h * speed + (2 * h * h * scene.pull + SLACK * scene.reach)
        seen = self._seen
        if (
            seen is None
            or seen[0].x is not state.x
            or seen[0].q is not state.q
            or seen[3] != h
            or np.count_nonzero(margin > seen[1])
        ):
            posed = pose(scene, state, detect(state.placement(scene), scene.free, margin, scene.ignored), h)
            self._seen = (state, margin, posed, h)
        return self._seen[2]

    def _remember(self, posed: Posed, answer: Answer, u: np.ndarray, state: np.ndarray, push: np.ndarray, h: float) -> None:
        rates = posed.rows.by_contact(answer.u)[:, 0]
        if self.scene.materials.elastic:  # a contact that lasts sways, an elastic one may meet again
            rates = np.where(posed.restitution == ELASTIC, posed.rows.by_contact(u)[:, 0], rates)
        noise = 1e-9 * float(answer.scale.max(initial=0.0))
        pressed, stuck, watchful, *out = lasting_of(posed, state, u, answer.u, rates, noise, HORIZON * h)
        self.memory = Memory.of(posed, answer.impulses, pressed, stuck, watchful, push, *out)


def _reach(scene: Scene, posed: Posed) -> np.ndarray:
    """The larger reach of the two bodies of each contact."""
    return np.maximum(scene.reach[posed.contacts.a], scene.reach[posed.contacts.b])


def _speed(scene: Scene, state: State, v: np.ndarray, L: np.ndarray) -> np.ndarray:
    """The largest speed of any point of each body."""
    return speeds(v, state.spin_of(scene, L), scene.reach)


def _pushed(
    scene: Scene, state: State, force: np.ndarray, torque: np.ndarray, h: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Velocities and momenta after forces have acted for h, and the largest speeds until then."""
    v, L, fastest = state.v + h * scene.lightness * force, state.L, _speed(scene, state, state.v, state.L)
    if not scene.driven:
        return v, L, fastest + h * scene.pull  # gravity turns nothing
    L = L + h * np.where(scene.free_column, torque, 0.0)
    return v, L, np.maximum(fastest, _speed(scene, state, v, L))


def _rest(posed: Posed, answer: Answer, came: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """Velocities of bodies in contact that are smaller than the certificate can tell from zero, set to zero."""
    still = posed.scene.free & (came <= REST * max(tolerance, answer.residual) * answer.scale)
    if not np.count_nonzero(still):
        return answer.v, answer.L
    return np.where(still[:, None], 0.0, answer.v), np.where(still[:, None], 0.0, answer.L)


def _changed(before: State, after: State) -> np.ndarray:
    """Which bodies were hit."""
    return (after.v != before.v).any(axis=1) | (after.L != before.L).any(axis=1)


def _table(posed: Posed, answer: Answer, impact: bool, tolerance: float) -> tuple[ContactTable, np.ndarray, np.ndarray]:
    """The contacts that carried an impulse, or were closed and did not; and the state and the impulse of all."""
    contacts, slow = posed.contacts, REST * max(tolerance, answer.residual) * answer.scale
    state, impulse, kept = states_of(posed, answer.impulses, answer.u, slow, impact)
    if kept.all():
        return ContactTable(contacts, impulse, state, impact), state, impulse
    return ContactTable(contacts.take(kept), impulse[kept], state[kept], impact), state, impulse
