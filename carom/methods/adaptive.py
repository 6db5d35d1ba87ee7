"""Step-size control: any collision integrator or timestepping method with steps as long as a tolerance allows."""

import copy
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from carom.calls import public, real
from carom.errors import InputError
from carom.methods.loop import step_in_chart
from carom.methods.method import ImpactTable, Method, Parts, State, StepEnd, StepRecord, StepStart
from carom.methods.status import CONTACTS_FULL, NOT_CONVERGED, OK, RESTING, TABLE_FULL, TOO_MANY_IMPACTS
from carom.methods.variational.flow import Flow, FlowMap
from carom.numerics.quadrature import integrals
from carom.system.mechanics import Mechanics
from carom.system.system import System
from carom.xla.trees import choose, write_row

EPS = float(np.finfo(float).eps)
FULL, FIRST, SECOND = 0, 1, 2  # what is tried: the whole step, its first half, its second half
SAFETY, SLOWEST, FASTEST = 0.9, 0.2, 5.0  # of a change of pace
MOST_TRIALS = 1_000_000  # in one step of the grid


class _Place(NamedTuple):
    """A state between two steps."""

    t: Float[Array, ""]
    q: Float[Array, " size"]
    p: Float[Array, " n"]
    memory: Any
    num_impacts: Int[Array, ""]
    met: Int[Array, ""]  #             impacts, and contacts that were met without a rebound
    total: Any  #                      what the record of the step of the grid has summed up to


class _Pace(NamedTuple):
    """What a step of the grid hands on to the next."""

    h: Float[Array, ""]  #             how long the next step may be, as far as smooth motion is concerned
    late: Float[Array, ""]  #          the end of a step that was refused for its impact; infinite where there is none
    within: Float[Array, ""]  #        how long a step with that impact may be
    trials: Int[Array, ""]  #          steps of the method so far, halves and refused ones included
    inner: Any
    parts: Parts | None  #             the steps that were kept, where they are noted


class _Trial(NamedTuple):
    """One step that is being tried, twice."""

    here: _Place  #                    up to where all is settled
    full: _Place  #                    after the whole step
    half: _Place  #                    after the first half
    phase: Int[Array, ""]
    h: Float[Array, ""]
    pace: Float[Array, ""]
    late: Float[Array, ""]
    within: Float[Array, ""]
    jump: Float[Array, " n"]  #        the changes of velocity by impacts at ends of steps, in both halves
    table: ImpactTable
    trials: Int[Array, ""]
    status: Int[Array, ""]
    parts: Parts | None


@public
class Adaptive(Method):
    """A method with steps as long as the tolerances allow, impacts included.

    dt and num_steps say where the result is wanted. Each step of that grid is made of smaller ones of length h. A step is taken
    whole, (q₁, v₁), and in two halves, (q₂, v₂), by a method of order r; the halves are kept where

        |q₁ − q₂| / (2ʳ − 1) ≤ c (atol + rtol |q₂|),     and so for v,     c = h / dt, or 1 with an impact             (1)
        |q₁ − q₂|, (h / 2) |Δv| ≤ atol + rtol |q₂|,      |v₁ − v₂| in the same way,      and −φ(q₂) + φ(q₀) ≤ atol        (2)

    in every component, and the next h follows from how far below they are. By (1) the errors of smooth motion over one step of the
    grid add up to the tolerance, and each impact adds as much; v is left out where the whole and the halves met different
    numbers of impacts: one is at the very end of the step, and q says by how far.

    (2) is for methods whose impacts act at the ends of steps, in steps with an impact: it is late by up to h/2 in a half, which is
    a distance (h/2)|Δv|, or a penetration −φ that waits for the next step. The halves alone do not see it whenever the impact
    falls into the second one: the whole step then makes the same mistake. Where (2) fails, the impact is closed in on by bisection,
    and h goes on as it was before.

    The error at the end is proportional to the tolerance, with a factor that the motion decides: what it does to small differences,
    how many steps of the grid and how many impacts there are.

    *Preserves*: what the method keeps of every system; not the symplectic form, whatever the method: h depends on where
    the motion is. *Order*: that of the method; the error is set by the tolerances. *Choose it for* motion with fast and slow
    phases and a given accuracy. Not for energies over long times: fixed steps of a symplectic method are better there.

    *Derivatives* are those of the method on the grid that this run took, whose lengths are fixed fractions of dt: they do not vary
    with what is differentiated by. So they are exact for that grid, and off from those of the motion as its solution is.

    (1) is the doubling of steps with error per unit step [hairer1993, §II.4].

    - `method`: a `VariationalCollision`, `TimeDG`, `MoreauJean`, or a method of one's own.
    - `rtol`, `atol`: relative and absolute tolerance.
    - `max_parts`: the most steps, halves of kept ones, in a `carom.rollout`, whose arrays have a fixed size.
    """

    method: Method
    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    rate: int = eqx.field(static=True)  # the order of the method
    max_parts: int = eqx.field(static=True)
    notes: bool = eqx.field(static=True)  # whether steps are noted, for a replay

    keeps_nodes: ClassVar[bool] = True
    divides_steps: ClassVar[bool] = True
    own_lengths: ClassVar = "it has chosen them already"

    def __init__(self, method: Method, rtol: float = 1e-6, atol: float | None = None, *, max_parts: int = 4096):
        if method.own_lengths is not None:
            raise InputError(f"Adaptive does not choose the steps of {type(method).__name__}: {method.own_lengths}")
        for name, value in {"rtol": rtol, "atol": rtol if atol is None else atol}.items():
            try:
                good = np.ndim(value) == 0 and 0 <= real(value) < 1
            except (TypeError, ValueError):
                good = False
            if not good:
                raise InputError(f"{name} must be a small positive number; got {value!r}")
        if atol is None and float(rtol) == 0:
            raise InputError("rtol = 0 needs an atol of its own, such as Adaptive(method, rtol=0, atol=1e-8)")
        atol = rtol if atol is None else atol
        if float(atol) <= 0:
            raise InputError(f"atol must be positive: a coordinate that passes zero has no relative error; got {atol!r}")
        if not isinstance(max_parts, int | np.integer) or max_parts < 2:
            raise InputError(f"max_parts must be an integer of at least 2, the halves of one step; got {max_parts!r}")
        self.method, self.rtol, self.atol = method, jnp.asarray(rtol, float), jnp.asarray(atol, float)
        self.rate, self.max_parts, self.notes = method.order, int(max_parts), False

    # -- declarations --------------------------------------------------------------------------------------------------------

    @property
    def takes(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.method.takes - {"interfaces", "massless", "contacts along massless directions"}  # no velocity to compare

    @property
    def offers(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return Method.offers | (self.method.offers & {"gradients", "dense output"})

    @property
    def _late(self) -> bool:
        """Do impacts act at the ends of steps?"""
        return self.method.impacts_at_ends

    @property
    def order(self) -> int:
        return self.rate

    @property
    def preserves(self) -> tuple[str, ...]:
        return self.method.preserves

    @property
    def nodes(self) -> np.ndarray:
        return np.zeros(1) if self._late else np.zeros(0)

    @property
    def pushes_at_ends(self) -> bool:
        return self.method.pushes_at_ends

    @property
    def impacts_reserved(self) -> int:
        return max(64, 2 * self.method.impacts_reserved)

    def refuses(self, needs: frozenset[str]) -> str | None:
        return self.method.refuses(needs)

    def check(self, system: System, params: Any, state: State, dt: float) -> None:
        self.method.check(system, params, state, dt)

    def bind(self, system: System, params: Any, n: int) -> Mechanics:
        return self.method.bind(system, params, n)

    def needs_chart(self, mechanics: Mechanics) -> bool:
        return False  # each of the smaller steps has its own

    def prepare(self, mechanics: Mechanics) -> None:
        if not self.method.needs_chart(mechanics):
            self.method.prepare(mechanics)

    def replayed_by(self) -> tuple[Any, Any]:
        return self.method.replayed_by()

    def replayed_in_chart(self, mechanics: Mechanics) -> bool:
        return self.method.replayed_in_chart(mechanics)

    def noting(self, room: int | None = None) -> "Adaptive":
        noting = copy.copy(self)
        for name, value in {"notes": True, "max_parts": self.max_parts if room is None else room}.items():
            object.__setattr__(noting, name, value)  # modules are frozen; this one is not shared yet
        return noting

    def parts(self, memory: _Pace) -> Parts | None:
        return memory.parts

    def memory(self, mechanics: Mechanics, q, p, t, dt) -> _Pace:
        zero, rows = jnp.zeros((), jnp.int32), self.max_parts + 1
        parts = Parts(jnp.zeros(rows, jnp.int32), jnp.zeros(rows), zero) if self.notes else None
        return _Pace(dt, jnp.full_like(dt, jnp.inf), jnp.zeros_like(dt), zero, self.method.memory(mechanics, q, p, t, dt), parts)

    def record(self, mechanics: Mechanics, rows: int) -> StepRecord | None:
        """Means over the steps of the grid, and the sums of impulses."""
        inner = self.method.record(mechanics, rows)
        return None if inner is None else inner._replace(velocities=inner.velocities[:, :1], forces=inner.forces[:, :1])

    def scale(self, q) -> Array:
        return self.atol + self.rtol * jnp.abs(q)

    # -- one step of the grid ------------------------------------------------------------------------------------------------

    def one_step(self, mechanics: Mechanics, start: StepStart) -> StepEnd:
        pace: _Pace = start.memory
        nothing = None if self.record(mechanics, 1) is None else jax.tree.map(lambda x: 0 * x[0], self.record(mechanics, 1))
        here = _Place(start.t, start.q, start.p, pace.inner, start.num_impacts, jnp.zeros((), jnp.int32), nothing)
        zero, ok = jnp.zeros((), jnp.int32), jnp.asarray(OK, jnp.int32)
        h, still = _next_length(here.t, start.t_end, pace), jnp.zeros_like(start.p)
        begin = _Trial(here, here, here, zero, h, pace.h, pace.late, pace.within, still, start.table, zero, ok, pace.parts)

        def unfinished(now: _Trial):
            return start.asked & (now.here.t < start.t_end) & (now.status == OK)

        def go_on(now: _Trial):
            after = self._go_on(mechanics, start, now._replace(parts=None))
            return after if now.parts is None else _noted(after, now, start)

        done = jax.lax.while_loop(unfinished, go_on, begin)
        end, record = done.here, None
        if end.total is not None:
            record = StepRecord(end.total.velocities / start.dt, end.total.forces / start.dt, end.total.impulses)
        memory = _Pace(done.pace, done.late, done.within, pace.trials + done.trials, end.memory, done.parts)
        return start.end(
            end.q, end.p, done.status, table=done.table, num_impacts=end.num_impacts, memory=memory, record=record
        )  # fmt: skip

    def _go_on(self, mechanics: Mechanics, start: StepStart, now: _Trial) -> _Trial:
        """One step of the method: whole, first half or second half; after the latter, the two are compared."""
        second, half = now.phase == SECOND, 0.5 * now.h
        origin = choose(second, now.half, now.here)
        t_end = jnp.where(now.phase == FIRST, now.here.t + half, self._end(now, start))
        asked = StepStart(
            origin.q, origin.p, origin.t, t_end, t_end - origin.t, start.step, now.table, origin.num_impacts, origin.memory,
            jnp.asarray(True),
        )  # fmt: skip
        end = step_in_chart(self.method, mechanics, asked)
        jump, met = self._met(mechanics, asked, end)
        total = _summed(self.method, origin.total, end, t_end - origin.t)
        there = _Place(t_end, end.q, end.p, end.memory, end.num_impacts, origin.met + met, total)
        jump = jnp.where(now.phase == FULL, 0.0, now.jump + jump)
        crowded = jnp.asarray(end.num_impacts + self.method.impacts_reserved > now.table.room) & (end.num_impacts > 0)
        status = jnp.where((end.status == OK) & crowded & (mechanics.contacts.num_faces > 0), TABLE_FULL, end.status)
        now = now._replace(table=end.table, jump=jump, trials=now.trials + 1)
        tried = now._replace(
            full=choose(now.phase == FULL, there, now.full),
            half=choose(now.phase == FIRST, there, now.half),
            phase=jnp.where(status == OK, (now.phase + 1) % 3, FULL).astype(jnp.int32),
        )
        judged = self._judged(mechanics, start, tried, there)
        return choose(status != OK, self._failed(start, tried, status), choose(second, judged, tried))

    def _end(self, now: _Trial, start: StepStart) -> Float[Array, ""]:
        """Where the step ends: at the end of the step of the grid, where it goes so far."""
        return jnp.where(now.h >= (start.t_end - now.here.t) * (1 - 1e-9), start.t_end, now.here.t + now.h)

    def _met(self, mechanics: Mechanics, asked: StepStart, end: StepEnd) -> tuple[Float[Array, " n"], Int[Array, ""]]:
        """By how much impulses at the end of the step change the velocity; and how many contacts were met in it: impacts, and what
        counts as one although nothing rebounds."""
        hits = (end.num_impacts - asked.num_impacts).astype(jnp.int32)
        if end.jump is None:
            return jnp.zeros_like(asked.p), hits
        size = self.scale(jnp.abs(mechanics.velocity(end.q, end.p, asked.t_end)))
        return jnp.abs(end.jump), jnp.maximum(hits, jnp.any(jnp.abs(end.jump) > size))

    def _failed(self, start: StepStart, now: _Trial, status) -> _Trial:
        """A step that was not found is tried again, shorter; unless it is no longer a matter of length."""
        final = jnp.any(status == jnp.asarray([TOO_MANY_IMPACTS, RESTING, TABLE_FULL, CONTACTS_FULL]))
        h = SLOWEST * now.h
        short = h <= 16 * EPS * jnp.maximum(jnp.abs(start.t_end), start.dt)
        return now._replace(h=h, pace=h, status=jnp.where(final | short, status, OK).astype(jnp.int32))

    def _judged(self, mechanics: Mechanics, start: StepStart, now: _Trial, end: _Place) -> _Trial:
        """(1), (2), and how long the next step is."""
        differs = self._difference(mechanics, now.full, end)
        hit = jnp.maximum(now.full.met, end.met) > now.here.met
        smooth = differs / (2**self.rate - 1) * jnp.where(hit, 1.0, start.dt / now.h)  # (1)
        struck = jnp.zeros_like(smooth)
        if self._late:
            moved = 0.5 * now.h * now.jump
            sizes = self.scale(end.q) if end.q.shape == moved.shape else self.atol
            deeper = self._depth(mechanics, end) - self._depth(mechanics, now.here)
            hit = hit | (deeper > self.atol)
            struck = jnp.maximum(jnp.maximum(differs, deeper / self.atol), jnp.max(moved / sizes, initial=0.0))  # (2)
            smooth, struck = jnp.where(hit, 0.0, smooth), jnp.where(hit, struck, 0.0)
        factor = jnp.clip(SAFETY * jnp.maximum(smooth, 1e-30) ** (-1 / self.rate), SLOWEST, FASTEST)
        good = (smooth <= 1) & (struck <= 1)
        tiny = 16 * EPS * jnp.maximum(jnp.abs(start.t_end), start.dt)

        # The pace of smooth motion; a step that was cut short for another reason says nothing against a longer one.
        fits = smooth <= 1
        pace = jnp.where(fits, jnp.maximum(factor * now.h, jnp.where(now.h < now.pace, now.pace, 0.0)), factor * now.h)
        if self._late:
            longer = jnp.clip(SAFETY / jnp.maximum(struck, 1e-30), 1.0, FASTEST) * now.h
            pace = jnp.where(hit, jnp.maximum(now.pace, jnp.where(struck <= 1, longer, 0.0)), pace)
        # Refused for its impact: the impact is before the end of the step, and is closed in on.
        late = jnp.where(fits & (struck > 1), now.here.t + now.h, now.late)
        here = choose(good, end, now.here)
        late = jnp.where(here.t >= late - tiny, jnp.inf, late)
        within = jnp.where(struck > 1, SAFETY * now.h / struck, now.within)
        h = _next_length(here.t, start.t_end, _Pace(pace, late, within, now.trials, (), None))
        lost = ~good & (h <= tiny) | (now.trials > MOST_TRIALS)
        status = jnp.where(lost, NOT_CONVERGED, OK).astype(jnp.int32)
        return now._replace(here=here, h=h, pace=pace, late=late, within=within, status=status, phase=jnp.zeros_like(now.phase))

    def _depth(self, mechanics: Mechanics, at: _Place) -> Float[Array, ""]:
        """Of the deepest penetration."""
        return jnp.maximum(-jnp.min(mechanics.contacts.gaps(at.q, at.t), initial=0.0), 0.0)

    def _difference(self, mechanics: Mechanics, full: _Place, end: _Place) -> Float[Array, ""]:
        """Of the whole step and its halves, beyond rounding, over the tolerance."""
        v = [mechanics.velocity(at.q, at.p, at.t) for at in (full, end)]
        same = full.met == end.met

        def over(a, b):
            beyond = jnp.maximum(jnp.abs(a - b) - 16 * EPS * jnp.max(jnp.abs(b), initial=0.0), 0.0)
            return jnp.max(beyond / self.scale(b), initial=0.0)

        worst = jnp.maximum(over(full.q, end.q), jnp.where(same, over(*v), 0.0))
        return jnp.where(jnp.isfinite(worst), worst, jnp.inf)

    # -- between the points of the grid ----------------------------------------------------------------------------------------

    def flow(self, mechanics: Mechanics, without_energy: bool = False) -> FlowMap:
        """Smooth motion over any time, to the tolerance; it has no discrete energy."""
        inner = self.method.flow(mechanics, True)

        def flown(q, p, t, s):
            far, nothing = jnp.abs(s), jnp.zeros_like(s)

            def go_on(carry):
                q, p, gone, h, fine = carry
                h = jnp.minimum(h, far - gone)
                whole, half = inner(q, p, t + gone, h), inner(q, p, t + gone, 0.5 * h)
                end = inner(half.q, half.p, t + gone + 0.5 * h, 0.5 * h)
                places = (_Place(t + gone + h, x.q, x.p, (), nothing, nothing, None) for x in (whole, end))
                error = self._difference(mechanics, *places) / (2**self.rate - 1) * far / jnp.maximum(h, 1e-300)
                good = error <= 1
                q, p, gone = choose(good, (end.q, end.p, gone + h), (q, p, gone))
                factor = jnp.clip(SAFETY * jnp.maximum(error, 1e-30) ** (-1 / self.rate), SLOWEST, FASTEST)
                return q, p, gone, factor * h, fine & (good | (h > 16 * EPS * far))

            unfinished = lambda carry: (carry[2] < far * (1 - EPS)) & carry[4]  # noqa: E731
            q, p, _, _, fine = jax.lax.while_loop(unfinished, go_on, (q, p, nothing, far, jnp.asarray(True)))
            return Flow(q, p, nothing, nothing, fine)

        return FlowMap(flown, True)


def _noted(now: _Trial, before: _Trial, start: StepStart) -> _Trial:
    """With the two halves of a step noted, if it was kept; without room for them, the step of the grid is not taken."""
    parts: Parts = before.parts  # pyright: ignore[reportAssignmentType]
    most, kept = parts.end.shape[0] - 1, now.here.t > before.here.t
    for t in (before.half.t, now.here.t):
        end = jnp.where(t >= start.t_end, 1.0, 1 - (start.t_end - t) / start.dt)
        row = jnp.where(kept, jnp.minimum(parts.count, most), most)
        parts = Parts(*write_row((parts.step, parts.end), row, (start.step, end)), parts.count + kept)
    status = jnp.where((now.status == OK) & (parts.count > most), TABLE_FULL, now.status).astype(jnp.int32)
    return now._replace(parts=parts, status=status)


def _next_length(t, t_end, pace: _Pace) -> Float[Array, ""]:
    """As long as smooth motion allows; up to the half of where an impact is known to be, or all of it if that is short enough; and
    so that no sliver is left before the end of the step of the grid."""
    ahead = pace.late - t
    h = jnp.where(ahead <= pace.within, ahead, jnp.minimum(pace.h, 0.5 * ahead))
    left = t_end - t
    return jnp.where(h >= left * (1 - 1e-9), left, jnp.where(2 * h > left, 0.5 * left, h))


def _summed(method: Method, total: Any, end: StepEnd, h) -> Any:
    """The record of a step of the grid, as a sum over its smaller steps: ∫v, ∫r and the impulses."""
    if total is None:
        return None
    assert end.record is not None
    weights = jnp.asarray(integrals(np.asarray(method.nodes), np.ones(1))[0])[:, None]
    mean = lambda rows: h * jnp.sum(weights * rows, axis=0, keepdims=True)  # noqa: E731
    record = end.record
    return StepRecord(
        total.velocities + mean(record.velocities), total.forces + mean(record.forces), total.impulses + record.impulses
    )
