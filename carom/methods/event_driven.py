"""The event-driven method: the motion in continuous time, impact by impact."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from carom.contact.laws import SIMULTANEOUS
from carom.methods.method import ImpactTable, Method, StepEnd, StepStart
from carom.methods.status import NOT_CONVERGED, NOT_FINITE, OK, RESTING, TABLE_FULL, TOO_MANY_IMPACTS, UNSETTLED
from carom.methods.variational.flow import Flow
from carom.numerics.linalg import matvec, solve
from carom.system.mechanics import Mechanics
from carom.xla.trees import choose, write_row

LOOKS = 8  #        points at which a step is searched for contacts
HALVINGS = 50  #    of an eighth of a step: down to its rounding
IDLES = 16  #       impacts in a row without a true flight between them
REPLAY_STEPS = 4  # of the solver on each leg of a replay
MOST_LOSSES = 256  # impacts with loss in one step of the output grid: the motion comes to rest
MOST_ELASTIC = 100_000  # elastic ones end by themselves; a guard for memory and patience
EPS = float(np.finfo(float).eps)


class EventDriven(Method):
    """The equations of motion, integrated to a tolerance, with the law of impact applied where and when a gap closes.

    With the force f and the contacts φᵢ ≥ 0,

        between impacts   q̇ = v(q, p, t),  ṗ = ∂L/∂q(q, v, t) + f(q, v, t),  p = ∂L/∂v                        (1)
                          φ̇ᵢ = ∇φᵢ·v + ∂φᵢ/∂t, carried along so that the step control resolves the gaps too   (2)
        at an impact      φᵢ(q(τ), τ) = 0 for some i, at the first such τ                                      (3)
                          p⁺ = p⁻ + Σ λᵢ∇φᵢ(q), λ from the law of impact; q and t are continuous               (4)

    An elastic impact reverses the normal velocity relative to the wall: E⁺ = E⁻ where the wall is at rest.

    A step of the solver is tried and its dense output searched for gaps that close, or that may dip below zero and open again.
    Where there is one, the step is repeated, shorter, until it ends at the contact. Dense output only brackets: it is less accurate
    than the solver, by a factor of 3600 for Dopri8 on the harmonic oscillator with a step of 0.4.

    *Preserves*: non-penetration. *Order*: that of the solver, but the error is set by `rtol` and `atol`, not by dt, which is only
    the grid of the output. Energy and momentum drift slowly, by about the tolerance per step.
    *Choose it for* a reference that shares nothing with the variational methods but the law of impact, for high accuracy over
    short times, and for forces and walls that depend on time. Not for resting or accumulating contact: it stops there and says so.

    (1) is (10) of [fetecau2003], (4) for elastic impacts its (14)–(15); simultaneous contacts as in `carom.contact.laws`.

    - `solver`: a diffrax solver for ordinary differential equations with an error estimate, by default `diffrax.Dopri8()`.
    - `rtol`, `atol`: of each step, in every component of (q, p, φ).
    - `simultaneous`: how contacts that close at the same instant are resolved, see `carom.contact.laws`.
    - `max_step`: the longest step of the solver; needed only where a gap changes so briefly that eight looks at a step miss it.
    - `max_impacts_per_step`: so many in one step of the output grid are taken as coming to rest; by default 256 with loss.
    - `max_solver_steps`: more than these, tried in one step of the output grid, are taken as a failure.
    """

    takes: ClassVar = frozenset(
        {
            "contacts", "restitution", "friction", "moving walls", "obstacles", "forces", "constraints", "joints", "hamiltonian",
            "degenerate hamiltonian", "rotations", "nodes", "energy not quadratic", "massless",
        }
    )  # fmt: skip
    offers: ClassVar = Method.offers | {"gradients"}

    solver: diffrax.AbstractAdaptiveSolver
    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    max_step: Float[Array, ""]
    simultaneous: str = eqx.field(static=True)
    max_impacts_per_step: int | None = eqx.field(static=True)
    max_solver_steps: int = eqx.field(static=True)

    def __init__(
        self,
        solver: diffrax.AbstractAdaptiveSolver | None = None,
        rtol: float = 1e-10,
        atol: float = 1e-12,
        simultaneous: str = "reflections",
        *,
        max_step: float = float("inf"),
        max_impacts_per_step: int | None = None,
        max_solver_steps: int = 100_000,
    ):
        solver = diffrax.Dopri8(scan_kind="lax") if solver is None else solver
        if not isinstance(solver, diffrax.AbstractAdaptiveSolver) or not isinstance(solver.term_structure, type):
            raise TypeError(f"solver must be a diffrax solver with one term and an error estimate, such as Tsit5(); got {solver!r}")
        if not (rtol > 0 and atol > 0 and max_step > 0):
            raise ValueError(f"rtol, atol and max_step must be positive; got {rtol}, {atol}, {max_step}")
        if simultaneous not in SIMULTANEOUS:
            raise ValueError(f"simultaneous must be one of {', '.join(SIMULTANEOUS)}; got {simultaneous!r}")
        if (max_impacts_per_step is not None and max_impacts_per_step < 1) or max_solver_steps < 1:
            raise ValueError("max_impacts_per_step and max_solver_steps must be at least 1")
        self.solver, self.simultaneous = solver, simultaneous
        self.rtol, self.atol, self.max_step = (jnp.asarray(x, float) for x in (rtol, atol, max_step))
        self.max_impacts_per_step, self.max_solver_steps = max_impacts_per_step, max_solver_steps

    @property
    def order(self) -> int:
        return int(self.solver.order(diffrax.ODETerm(lambda t, y, args: y)) or 0)

    @property
    def preserves(self) -> tuple[str, ...]:
        return ("non-penetration",)

    def refuses(self, needs: frozenset[str]) -> str | None:
        if "massless" in needs and "contacts along massless directions" in needs:
            return "a gap that changes along a direction without mass has no law of impact"
        if "massless" in needs and "rotations" in needs:
            return "directions without mass are found on vector spaces only"
        if "friction" in needs and "energy not quadratic" in needs:
            return "friction at impacts is written for energies that are quadratic in the velocities"
        return None

    @property
    def impacts_reserved(self) -> int:
        return 64 if self.max_impacts_per_step is None else self.max_impacts_per_step

    balances: ClassVar = False  # impulses are those of the law
    replay_tolerance: ClassVar = 1e-7

    def replayed_by(self) -> tuple[Any, Any]:
        return self, None

    def replayed_flow(self, mechanics: Mechanics):
        """The motion of a leg in a fixed number of steps of the solver, whose derivatives are those of the motion, to the accuracy
        of these steps. Where they end elsewhere than the run did, there is no derivative."""
        n, solver = mechanics.dim, _differentiable(self.solver)

        def flow(q, p, t, s):
            def step(carry, _):
                q, p, t = carry
                field = lambda s, y, t: jnp.concatenate(mechanics.motion(y[:n], y[n:], t + s))  # noqa: E731
                terms, zero, h = diffrax.ODETerm(field), jnp.zeros_like(t), s / REPLAY_STEPS
                y = jnp.concatenate([q, p])
                y, *_ = solver.step(terms, zero, h, y, t, solver.init(terms, zero, h, y, t), False)
                q = _on_joints(mechanics, y[:n], t + h)
                return (q, mechanics.remove_reaction(q, y[n:], t + h), t + h), None

            (q, p, _), _ = jax.lax.scan(step, (q, p, t), None, length=REPLAY_STEPS)
            nothing = jnp.zeros_like(s)
            return Flow(q, p, nothing, nothing, jnp.asarray(True))

        return flow

    def memory(self, mechanics: Mechanics, q, p, t, dt) -> Any:
        return _Memory(dt, jnp.zeros_like(dt), jnp.zeros((), jnp.int32))

    def one_step(self, mechanics: Mechanics, start: StepStart) -> StepEnd:
        zero = jnp.zeros((), jnp.int32)
        memory: _Memory = start.memory
        now = _Now(
            start.t, start.q, start.p, memory.pace, memory.flown, zero, zero, zero, memory.idle, start.table, start.num_impacts,
            jnp.asarray(OK, jnp.int32),
        )  # fmt: skip
        now = _output_step(self, mechanics, now, start.t_end, start.dt, start.step)
        return StepEnd(now.q, now.p, now.status, now.table, now.num_impacts, _Memory(now.pace, now.flown, now.idle))


def _differentiable(solver: diffrax.AbstractAdaptiveSolver) -> diffrax.AbstractAdaptiveSolver:
    """The same solver with loops over its stages that have a reverse mode."""
    loops = {field.name for field in dataclasses.fields(solver)} & {"scan_kind"}  # pyright: ignore[reportArgumentType]
    return dataclasses.replace(solver, scan_kind="bounded") if loops else solver  # pyright: ignore[reportArgumentType, reportCallIssue]


# -- one step of the output grid -----------------------------------------------------------------------------------------


class _Memory(NamedTuple):
    """What one step of the output grid hands on to the next."""

    pace: Float[Array, ""]  #      the next step of the solver, unless a contact or the grid ends it
    flown: Float[Array, ""]  #     since the last contact was met
    idle: Int[Array, ""]  #        contacts met since the last true flight


class _Now(NamedTuple):
    """The motion at the end of the last step that was kept."""

    t: Float[Array, ""]
    q: Float[Array, " n"]
    p: Float[Array, " n"]
    pace: Float[Array, ""]  #      the next step, unless a contact or the grid ends it
    flown: Float[Array, ""]  #     since the last contact was met
    tried: Int[Array, ""]  #       steps tried since the last grid point
    met: Int[Array, ""]  #         contacts met since the last grid point
    losses: Int[Array, ""]  #      of these, with loss
    idle: Int[Array, ""]  #        contacts met since the last true flight
    table: ImpactTable
    num_impacts: Int[Array, ""]
    status: Int[Array, ""]


def _output_step(method: EventDriven, mechanics: Mechanics, now: _Now, t_end, dt, step) -> _Now:
    """From one grid point to the next: try a step of the solver, shorten it to the first contact in it, resolve that, go on."""
    tiny = 8 * EPS * jnp.maximum(jnp.abs(t_end), dt)  # over which no time passes, as far as the clock can tell

    def unfinished(now: _Now):
        return (now.t < t_end) & (now.status == OK)

    def attempt(now: _Now):
        length = jnp.minimum(jnp.minimum(now.pace, method.max_step), t_end - now.t)
        flight = _fly(method, mechanics, now, length)
        accurate = flight.size <= 1.0
        landing = _Landing(flight.end, jnp.asarray(False), jnp.asarray(False))
        if mechanics.contacts.num_contacts:
            search = lambda: _first_contact(method, mechanics, now, flight)  # noqa: E731
            landing = jax.lax.cond(accurate, search, lambda: landing)
        end = landing.end
        t = jnp.where(end.length >= t_end - now.t, t_end, now.t + end.length)
        pace = _next_pace(method, now.pace, flight, landing.doubtful)
        stuck = (pace < tiny) | (now.tried >= method.max_solver_steps)
        failure = jnp.where(flight.finite, NOT_CONVERGED, NOT_FINITE)
        status = jnp.where(stuck, failure, OK).astype(jnp.int32)
        keep = accurate & ~landing.doubtful & ~stuck
        moved = choose(keep, now._replace(t=t, q=end.q, p=end.p, flown=now.flown + end.length), now)
        moved = moved._replace(pace=pace, tried=now.tried + 1, status=status)
        if mechanics.contacts.num_contacts == 0:
            return moved
        meet = lambda: _meet(method, mechanics, moved, tiny, step)  # noqa: E731
        return jax.lax.cond(landing.hit & keep, meet, lambda: moved)

    return jax.lax.while_loop(unfinished, attempt, now)


def _next_pace(method: EventDriven, pace, flight: "_Flight", doubtful):
    """As long as the error estimate allows; a step that was cut short by the grid says little about longer ones."""
    factor = jnp.clip(0.9 * flight.size ** (-1 / method.order), 0.2, 10.0)
    wanted = flight.end.length * factor
    pace = jnp.where(factor < 1, wanted, jnp.maximum(pace, wanted))
    pace = jnp.where(flight.size <= 1.0, pace, jnp.minimum(wanted, 0.9 * flight.end.length))
    return jnp.where(doubtful, 0.5 * flight.end.length, pace)


# -- one step of the solver ----------------------------------------------------------------------------------------------


class _End(NamedTuple):
    length: Float[Array, ""]  #    of the flight to here
    q: Float[Array, " n"]
    p: Float[Array, " n"]


class _Flight(NamedTuple):
    """A step of the solver."""

    end: _End
    size: Float[Array, ""]  #      estimated error, in units of the tolerance
    finite: Bool[Array, ""]
    dense: Any  #                  what the solver's interpolation wants to know


def _fly(method: EventDriven, mechanics: Mechanics, now: _Now, length) -> _Flight:
    """(1) and (2) over one step. The solver's clock starts at 0, so that a short step late in a run keeps its digits."""
    n, solver = mechanics.dim, method.solver

    def field(s, y, t):
        q, t = y[:n], t + s
        v, push = mechanics.motion(q, y[n : 2 * n], t)  # (1)
        if mechanics.contacts.num_contacts == 0:
            return jnp.concatenate([v, push])
        _, rates = jax.jvp(mechanics.contacts.faces, (q, t), (v, jnp.ones_like(t)))  # (2)
        return jnp.concatenate([v, push, rates])

    terms, zero = diffrax.ODETerm(field), jnp.zeros_like(now.t)
    y0 = jnp.concatenate([now.q, now.p, mechanics.contacts.faces(now.q, now.t)])
    memory = solver.init(terms, zero, length, y0, now.t)
    y1, error, dense, _, _ = solver.step(terms, zero, length, y0, now.t, memory, False)
    size = jnp.max(jnp.abs(jnp.asarray(error)) / (method.atol + method.rtol * jnp.maximum(jnp.abs(y0), jnp.abs(y1))))
    finite = jnp.all(jnp.isfinite(y1))
    size = jnp.where(finite & jnp.isfinite(size), size, jnp.inf)  # an implicit solver that fails says so by an infinite error
    q1 = _on_joints(mechanics, y1[:n], now.t + length)
    p1 = mechanics.remove_reaction(q1, y1[n : 2 * n], now.t + length)
    return _Flight(_End(length, q1, p1), size, finite, dense)


def _on_joints(mechanics: Mechanics, q, t):
    """q moved back onto the joints, by the little that a step of the solver has left them."""
    if not mechanics.system.joints:
        return q
    joints = lambda q: mechanics.functions.joints(q, t)  # noqa: E731
    for _ in range(2):
        slopes = jax.jacfwd(joints)(q)
        inverse = solve(mechanics.mass(q, jnp.zeros_like(q), t), slopes.T)
        q = q - matvec(inverse, solve(slopes @ inverse, joints(q)))
    return q


# -- contacts ------------------------------------------------------------------------------------------------------------


class _Landing(NamedTuple):
    end: _End  #                   at the contact, if there is one
    hit: Bool[Array, ""]
    doubtful: Bool[Array, ""]  #   the dense output sees a contact that the solver does not: try a shorter step


def _first_contact(method: EventDriven, mechanics: Mechanics, now: _Now, flight: _Flight) -> _Landing:
    """(3): the first contact within a step.

    The dense output is looked at in a few places. Between two of them a gap closes if it is negative at the second; it may dip
    below zero if it falls at the first and rises at the second. Whether and when it does is then asked of the solver itself.
    """
    h, k = flight.end.length, mechanics.contacts.num_contacts
    gaps, rates = _approach(mechanics, now.q, now.p, now.t)
    width = mechanics.gap_rounding(now.q, mechanics.velocity(now.q, now.p, now.t), now.t, h)
    touching = gaps <= width
    # A contact that is being left may start a rounding inside: rising it is open from there, falling from about zero again.
    limits = jnp.where(touching, jnp.minimum(gaps, 0.0) - width, 0.0), jnp.where(touching, -0.25 * width, 0.0)
    times, seen_gaps, seen_rates = _look_around(method, mechanics, now, flight)
    above = jnp.concatenate([jnp.ones((1, k), bool), seen_gaps >= jnp.where(seen_rates < 0, limits[1], limits[0])])
    signs = jnp.concatenate([jnp.where(touching, 0.0, rates)[None], seen_rates])
    closes = above[:-1] & ~above[1:]
    dips = above[:-1] & above[1:] & (signs[:-1] < 0) & (signs[1:] > 0)
    # Moves in, or rests and is pressed on: the contact is here and now.
    at_once = touching & ((rates * h < -16 * width) | (closes[0] & (rates * h <= 16 * width)))

    def promising(carry):
        suspects, landing = carry
        return jnp.any(suspects & (times[:-1, None] < landing.end.length)) & ~landing.doubtful

    def examine(carry):
        suspects, landing = carry
        j, i = jnp.divmod(jnp.argmax(suspects.reshape(-1)), k)  # the earliest
        end, hit = _land(method, mechanics, now, times[j], times[j + 1], i, (limits[0][i], limits[1][i]), dips[j, i])
        earlier = hit & (end.length <= landing.end.length)
        doubtful = landing.doubtful | ~(hit | dips[j, i])
        return suspects.at[j, i].set(False), _Landing(choose(earlier, end, landing.end), landing.hit | earlier, doubtful)

    no = jnp.asarray(False)
    suspects = (closes | dips) & ~jnp.any(at_once)
    _, landing = jax.lax.while_loop(promising, examine, (suspects, _Landing(flight.end, no, no)))
    here = _End(jnp.zeros_like(h), now.q, now.p)
    return choose(jnp.any(at_once), _Landing(here, ~no, no), landing)


def _look_around(method: EventDriven, mechanics: Mechanics, now: _Now, flight: _Flight):
    """The contacts as the dense output sees them; at the end of the step, as the solver does."""
    n, h = mechanics.dim, flight.end.length
    path = method.solver.interpolation_cls(t0=jnp.zeros_like(h), t1=h, **flight.dense)
    times = h * jnp.arange(LOOKS + 1) / LOOKS
    states = jax.vmap(path.evaluate)(times[1:-1])
    states = jnp.concatenate([states[:, : 2 * n], jnp.concatenate([flight.end.q, flight.end.p])[None]])
    gaps, rates = jax.vmap(lambda y, s: _approach(mechanics, y[:n], y[n:], now.t + s))(states, times[1:])
    return times, gaps, rates


def _land(method: EventDriven, mechanics: Mechanics, now: _Now, low, high, i, limits, dip) -> tuple[_End, Bool[Array, ""]]:
    """Where gap i closes in (low, high], if it does.

    Newton's method, or a bisection where that would leave the stretch between the last time seen open and the first seen closed.
    In a dip only the falling side counts as open; what is found is then the contact or the minimum.
    """

    def narrow(search: _Search):
        s = search.next
        end = _fly(method, mechanics, now, s).end
        v, t = mechanics.velocity(end.q, end.p, now.t + s), now.t + s
        gaps, rates = mechanics.contacts.approach(end.q, v, t)
        gap, rate, width = gaps[i], rates[i], mechanics.gap_rounding(end.q, v, t, s)[i]
        above = gap >= jnp.where(rate < 0, limits[1], limits[0])
        is_open = above & ((rate < 0) | ~dip)
        low, high = jnp.where(is_open, s, search.low), jnp.where(is_open, search.high, s)
        newton = s - gap / rate
        there = (rate < 0) & ((jnp.abs(gap) <= 0.25 * width) | (jnp.abs(newton - s) <= 2 * EPS * s))
        inside = (newton > low) & (newton < high) & (rate < 0) & (search.tries % 3 < 2)
        return _Search(
            low=low,
            high=high,
            next=jnp.where(inside, newton, 0.5 * (low + high)),
            end=choose(there | ~above, end, search.end),
            hit=search.hit | there | ~above,
            done=there | (high - low <= 2 * EPS * high) | (is_open & (s >= high)),
            tries=search.tries + 1,
        )

    no, zero = jnp.asarray(False), jnp.zeros((), jnp.int32)
    search = _Search(low, high, high, _End(high, now.q, now.p), no, no, zero)
    search = jax.lax.while_loop(lambda search: ~search.done & (search.tries < 3 * HALVINGS), narrow, search)
    return search.end, search.hit


class _Search(NamedTuple):
    low: Float[Array, ""]  #       open here
    high: Float[Array, ""]  #      no longer open here
    next: Float[Array, ""]
    end: _End  #                   the last place where it was closed
    hit: Bool[Array, ""]  #        there is such a place
    done: Bool[Array, ""]
    tries: Int[Array, ""]


def _meet(method: EventDriven, mechanics: Mechanics, now: _Now, tiny, step) -> _Now:
    """(4): the law of impact, and a row of the table if a contact did approach. Without time and impulse, the system rests."""
    q, p, t, flown = now.q, now.p, now.t, now.flown
    v = mechanics.velocity(q, p, t)
    gaps = mechanics.contacts.gaps(q, t)
    width = mechanics.gap_rounding(q, v, t, flown)
    touching = (gaps <= width) | (jnp.arange(gaps.shape[0]) == jnp.argmin(gaps))
    impulse, change = mechanics.impulse(q, v, t, touching, width, method.simultaneous, False)
    p_after = p + change

    # A flight that is over at once, or not higher than the rounding of the gap, is no flight.
    _, rates = mechanics.contacts.approach(q, v, t)
    height = -jnp.min(jnp.where(touching, rates, 0.0)) * flown / 4
    idle = jnp.where((flown <= tiny) | (height <= jnp.min(width)), now.idle + 1, 0)
    met, losses = now.met + 1, now.losses + ~impulse.elastic
    rests = ((flown <= tiny) & ~impulse.any & (idle > 1)) | (idle > IDLES)
    if method.max_impacts_per_step is None:
        crowded = (losses >= MOST_LOSSES) | (met >= MOST_ELASTIC)
    else:
        crowded = met >= method.max_impacts_per_step
    failures = [~jnp.all(jnp.isfinite(p_after)), ~impulse.settled, rests, crowded, now.num_impacts >= now.table.room]
    status = jnp.select(failures, [NOT_FINITE, UNSETTLED, RESTING, TOO_MANY_IMPACTS, TABLE_FULL], OK)
    no, one = jnp.asarray(False), jnp.ones(())
    place, before = mechanics.place(q, p)
    _, after = mechanics.place(q, p_after)
    row = ImpactTable(step, t, place, before, after, impulse.normal, jnp.argmin(gaps), one, no, no)
    table = write_row(now.table, now.num_impacts, row)
    num_impacts = now.num_impacts + (impulse.any | rests)  # the contact that the system rests on has a row of its own
    now = now._replace(p=p_after, met=met, losses=losses, idle=idle, flown=jnp.zeros_like(flown), status=status.astype(jnp.int32))
    return now._replace(table=table, num_impacts=num_impacts)


def _approach(mechanics: Mechanics, q, p, t):
    return mechanics.contacts.approach(q, mechanics.velocity(q, p, t), t)
