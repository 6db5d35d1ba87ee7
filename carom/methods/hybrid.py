"""Two methods in one run: a collision integrator for isolated impacts, a timestepping method where contacts rest."""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from carom.calls import public
from carom.errors import InputError
from carom.methods.method import Method, State, StepEnd, StepRecord, StepStart
from carom.methods.status import OK, RESTING, TOO_MANY_IMPACTS
from carom.methods.timestepping.motion import Timestepping
from carom.methods.timestepping.time_dg import TimeDG
from carom.methods.variational.collision import VariationalCollision
from carom.methods.variational.flow import FlowMap
from carom.system.mechanics import Mechanics
from carom.system.system import System

FREE_STEPS = 8  # in a row without any contact, after which the collision integrator takes over again


class _Mode(NamedTuple):
    """What a step hands on to the next."""

    presses: Bool[Array, ""]  #       the contact method is at work
    free: Int[Array, ""]  #           steps without contact, in a row
    velocity: Float[Array, " n"]  #   after a step of the contact method


@public
class Hybrid(Method):
    """A collision integrator as long as impacts are isolated, a timestepping method while contacts rest or impacts accumulate.

        hand over   at the start of the step in which the collision integrator meets more impacts than it takes     (1)
        hand back   after 8 steps of the other method without a contact force, an impulse or a closed gap           (2)

    Both hand-overs pass q and p on as they are, so that neither changes the energy.

    *Preserves*: non-penetration, if both methods do. *Order*: that of the collision integrator while impacts are isolated.
    *Choose it for* motion that bounces long and rests at last, or lifts off again.

    The methods are (1)–(4) of `VariationalCollision` [fetecau2003] and of `TimeDG` or `MoreauJean` [schindler2014].

    - `collision`: a `VariationalCollision`; its `max_impacts_per_step` says what accumulates.
    - `contact`: a `TimeDG` or `MoreauJean`.
    """

    takes: ClassVar = VariationalCollision.takes & Timestepping.takes
    offers: ClassVar = Timestepping.offers
    own_lengths: ClassVar = (
        "it hands over where one step holds more impacts than it takes, and goes back after a number of steps: lengths that follow "
        "the impacts would decide that. Adaptive(TimeDG()) comes to rest by itself"
    )

    collision: VariationalCollision
    contact: Timestepping

    preserves = ("non-penetration",)

    def __init__(self, collision: VariationalCollision | None = None, contact: Timestepping | None = None):
        self.collision = VariationalCollision(max_impacts_per_step=8) if collision is None else collision
        self.contact = TimeDG(2) if contact is None else contact
        if not isinstance(self.collision, VariationalCollision):
            raise InputError(f"collision must be a VariationalCollision; got {collision!r}")
        if not isinstance(self.contact, Timestepping):
            raise InputError(f"contact must be a TimeDG or MoreauJean; got {contact!r}")

    @property
    def order(self) -> int:
        return self.collision.order

    @property
    def impacts_reserved(self) -> int:
        return self.collision.impacts_reserved

    @property
    def nodes(self) -> np.ndarray:
        return self.contact.nodes

    @property
    def pushes_at_ends(self) -> bool:
        return self.contact.pushes_at_ends

    def refuses(self, needs: frozenset[str]) -> str | None:
        return self.collision.refuses(needs) or self.contact.refuses(needs)

    def check(self, system: System, params: Any, state: State, dt: float) -> None:
        self.collision.check(system, params, state, dt)
        self.contact.check(system, params, state, dt)

    def stability_limit(self, frequency: float) -> float:
        return self.collision.stability_limit(frequency)

    def flow(self, mechanics: Mechanics, without_energy: bool = False) -> FlowMap:
        """Of the collision integrator."""
        return self.collision.flow(mechanics, without_energy)

    def bind(self, system: System, params: Any, n: int) -> Mechanics:
        return self.contact.bind(system, params, n)

    def replayed_by(self) -> tuple[Any, Any]:
        return self.collision, self.contact

    def prepare(self, mechanics: Mechanics) -> None:
        self.collision.prepare(mechanics)

    def record(self, mechanics: Mechanics, rows: int) -> StepRecord | None:
        """Velocities are not a number in steps that are flown."""
        record = self.contact.record(mechanics, rows)
        assert record is not None
        return record._replace(velocities=record.velocities + jnp.nan)

    def memory(self, mechanics: Mechanics, q, p, t, dt) -> _Mode:
        return _Mode(jnp.asarray(False), jnp.zeros((), jnp.int32), jnp.zeros_like(p))

    def recentre(self, mechanics: Mechanics, q, memory: _Mode) -> _Mode:
        return memory._replace(velocity=self.contact.recentre(mechanics, q, memory.velocity))

    def glide(self, mechanics: Mechanics):
        sight, glide = self.collision.glide_of(mechanics)

        def while_flying(q, p, t, dt, seen, memory: _Mode):
            end = glide(q, p, t, dt, seen, ())
            return end._replace(clear=end.clear & ~memory.presses)

        return sight, while_flying

    def one_step(self, mechanics: Mechanics, start: StepStart) -> StepEnd:
        """Fly, unless contacts press; and if that meets too many impacts, press from the same start."""
        mode: _Mode = start.memory
        ok = jnp.asarray(OK, jnp.int32)

        def fly() -> tuple[StepEnd, Any]:
            end = self.collision.one_step(mechanics, start._replace(memory=()))
            return self._flown(mechanics, start, end), end.status

        def stay() -> tuple[StepEnd, Any]:
            return StepEnd(start.q, start.p, ok, start.table, start.num_impacts, mode, self._no_record(mechanics)), ok

        flown, status = jax.lax.cond(mode.presses, stay, fly)
        settles = (status == TOO_MANY_IMPACTS) | (status == RESTING)
        return jax.lax.cond(mode.presses | settles, lambda: self._press(mechanics, start, flown.table), lambda: flown)

    def _no_record(self, mechanics: Mechanics) -> StepRecord:
        record = self.record(mechanics, 1)
        assert record is not None
        return jax.tree.map(lambda rows: rows[0], record)

    def _flown(self, mechanics: Mechanics, start: StepStart, end: StepEnd) -> StepEnd:
        return end._replace(memory=start.memory._replace(free=jnp.zeros((), jnp.int32)), record=self._no_record(mechanics))

    def _press(self, mechanics: Mechanics, start: StepStart, table) -> StepEnd:
        """One step of the contact method; (2) counts the steps without contact. Rows that a flight wrote are free again."""
        mode, contacts = start.memory, mechanics.contacts
        velocity = jnp.where(mode.presses, mode.velocity, mechanics.loose().velocity(start.q, start.p, start.t))
        end = self.contact.one_step(mechanics, start._replace(memory=velocity, table=table))
        assert end.record is not None
        k = contacts.num_faces
        touched = jnp.any(end.record.forces[:, :k] > 0) | jnp.any(end.record.impulses[:k] > 0)
        touched = touched | jnp.any(contacts.gaps(end.q, start.t_end) <= 0)
        free = jnp.where(touched, 0, mode.free + 1).astype(jnp.int32)
        return end._replace(memory=_Mode(free < FREE_STEPS, free, end.memory), jump=None)
