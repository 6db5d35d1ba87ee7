"""The event-driven method: the motion in continuous time, impact by impact."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
from jaxtyping import Array, Float, Int

from carom.calls import public
from carom.contact.laws import SIMULTANEOUS
from carom.errors import InputError
from carom.methods.event_search import EPS, Flight, Landing, first_contact, fly, on_joints
from carom.methods.method import LAW_OF_IMPACT, ImpactTable, Method, StepEnd, StepStart
from carom.methods.status import (
    CONTACTS_FULL,
    NOT_CONVERGED,
    NOT_FINITE,
    OK,
    RESTING,
    TABLE_FULL,
    TOO_MANY_IMPACTS,
    UNSETTLED,
)
from carom.methods.variational.flow import Flow
from carom.system.mechanics import Mechanics
from carom.wanted import Count, Positive, PositiveOrInfinite, one_of
from carom.xla.trees import choose, write_row

IDLES = 16  #       impacts in a row without a true flight between them
REPLAY_STEPS = 4  # of the solver on each leg of a replay
MOST_LOSSES = 256  # impacts with loss in one step of the output grid: the motion comes to rest
MOST_ELASTIC = 100_000  # elastic ones end by themselves; a guard for memory and patience


@public
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

    - `solver`: a diffrax solver for ordinary differential equations with an error estimate, by default `diffrax.Dopri8()`; an
      implicit one, such as `diffrax.Kvaerno5()`, for stiff systems.
    - `rtol`, `atol`: of each step, in every component of (q, p, φ).
    - `simultaneous`: how contacts that close at the same instant are resolved, see `carom.contact.laws`.
    - `max_step`: the longest step of the solver; needed only where a gap changes so briefly that eight looks at a step miss it.
    - `max_impacts_per_step`: so many in one step of the output grid are taken as coming to rest; by default 256 with loss.
    - `max_solver_steps`: more than these, tried in one step of the output grid, are taken as a failure.
    """

    takes: ClassVar = frozenset(
        {
            "contacts", "restitution", "friction", "laws of speed", "rolling", "poisson", "moving walls",
            "obstacles", "forces", "constraints", "joints", "hamiltonian",
            "degenerate hamiltonian", "rotations", "nodes", "energy not quadratic", "massless", "controller",
        }
    )  # fmt: skip
    offers: ClassVar = Method.offers | {"gradients", "one kernel"}
    own_lengths: ClassVar = "its solver chooses them, to its own rtol and atol"
    not_together: ClassVar = LAW_OF_IMPACT

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
        rtol: Positive = 1e-10,
        atol: Positive = 1e-12,
        simultaneous: str = "reflections",
        *,
        max_step: PositiveOrInfinite = float("inf"),
        max_impacts_per_step: Count | None = None,
        max_solver_steps: Count = 100_000,
    ):
        solver = diffrax.Dopri8(scan_kind="lax") if solver is None else solver
        if not isinstance(solver, diffrax.AbstractAdaptiveSolver) or not isinstance(solver.term_structure, type):
            raise InputError(f"solver must be a diffrax solver of one term with an error estimate, such as Tsit5(); got {solver!r}")
        one_of(simultaneous, SIMULTANEOUS, "simultaneous")
        self.solver, self.simultaneous = _with_tolerances(solver, rtol, atol), simultaneous
        self.rtol, self.atol, self.max_step = (jnp.asarray(x, float) for x in (rtol, atol, max_step))
        self.max_impacts_per_step, self.max_solver_steps = max_impacts_per_step, max_solver_steps

    @property
    def order(self) -> int:
        return int(self.solver.order(diffrax.ODETerm(lambda t, y, args: y)) or 0)

    @property
    def preserves(self) -> tuple[str, ...]:
        return ("non-penetration",)

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
        n, advance = mechanics.dim, _solver_step(self.solver)

        def flow(q, p, t, s):
            def step(carry, _):
                q, p, t = carry
                h = s / REPLAY_STEPS
                y = advance(lambda y, t: jnp.concatenate(mechanics.motion(y[:n], y[n:], t)), jnp.concatenate([q, p]), t, h)
                q = on_joints(mechanics, y[:n], t + h)
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


def _with_tolerances(solver: diffrax.AbstractAdaptiveSolver, rtol: float, atol: float) -> diffrax.AbstractAdaptiveSolver:
    """An implicit solver solves its stages to the tolerances of the steps, unless it was given others, as in `diffeqsolve`."""
    if not isinstance(solver, diffrax.AbstractImplicitSolver):
        return solver
    known = {"rtol": jnp.asarray(rtol, float), "atol": jnp.asarray(atol, float), "norm": optimistix.max_norm}
    given = lambda value: callable(value) or eqx.is_array_like(value)  # noqa: E731  diffrax's word for "of the steps" is neither
    missing = [name for name in known if not given(getattr(solver.root_finder, name, 0.0))]
    places = lambda solver: [getattr(solver.root_finder, name) for name in missing]  # noqa: E731
    return eqx.tree_at(places, solver, [known[name] for name in missing]) if missing else solver


def _solver_step(solver: diffrax.AbstractAdaptiveSolver) -> Any:
    """(field, y, t, h) → y after one step of the solver, with a reverse mode.

    Explicit Runge–Kutta methods are one loop over their stages here, with a single copy of the field in it: the solver's own loop
    that has a reverse mode takes several times as long to compile.
    """
    if not isinstance(solver, diffrax.AbstractERK):
        return _by_diffrax(solver)
    tableau = solver.tableau
    stages = len(tableau.b_sol)
    a, c = np.zeros((stages, stages)), np.concatenate([[float(tableau.c1)], tableau.c])
    for i, row in enumerate(tableau.a_lower):
        a[i + 1, : i + 1] = row
    a, b, c = jnp.asarray(a), jnp.asarray(tableau.b_sol), jnp.asarray(c)

    def step(field, y, t, h):
        def stage(slopes, i):
            slope = field(y + h * (a[i] @ slopes), t + c[i] * h)
            return write_row(slopes, i, slope), None

        slopes, _ = jax.lax.scan(stage, jnp.zeros((stages, *y.shape)), jnp.arange(stages))
        return y + h * (b @ slopes)

    return step


def _by_diffrax(solver: diffrax.AbstractAdaptiveSolver) -> Any:
    """The same by the solver itself, with loops over its stages that have a reverse mode."""
    loops = {field.name for field in dataclasses.fields(solver)} & {"scan_kind"}  # pyright: ignore[reportArgumentType]
    if loops:
        solver = dataclasses.replace(solver, scan_kind="bounded")  # pyright: ignore[reportArgumentType, reportCallIssue]

    def step(field, y, t, h):
        terms, zero = diffrax.ODETerm(lambda s, y, t: field(y, t + s)), jnp.zeros_like(t)
        return solver.step(terms, zero, h, y, t, solver.init(terms, zero, h, y, t), False)[0]

    return step


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
        flight = fly(method, mechanics, now, length)
        accurate = flight.size <= 1.0
        landing = Landing(flight.end, jnp.asarray(False), jnp.asarray(False))
        if mechanics.contacts.num_contacts:
            search = lambda: first_contact(method, mechanics, now, flight)  # noqa: E731
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


def _next_pace(method: EventDriven, pace, flight: Flight, doubtful):
    """As long as the error estimate allows; a step that was cut short by the grid says little about longer ones."""
    factor = jnp.clip(0.9 * flight.size ** (-1 / method.order), 0.2, 10.0)
    wanted = flight.end.length * factor
    pace = jnp.where(factor < 1, wanted, jnp.maximum(pace, wanted))
    pace = jnp.where(flight.size <= 1.0, pace, jnp.minimum(wanted, 0.9 * flight.end.length))
    return jnp.where(doubtful, 0.5 * flight.end.length, pace)


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
    room = now.num_impacts >= now.table.room
    failures = [jnp.asarray(impulse.full), ~jnp.all(jnp.isfinite(p_after)), ~impulse.settled, rests, crowded, room]
    status = jnp.select(failures, [CONTACTS_FULL, NOT_FINITE, UNSETTLED, RESTING, TOO_MANY_IMPACTS, TABLE_FULL], OK)
    no, one = jnp.asarray(False), jnp.ones(())
    place, before = mechanics.place(q, p)
    _, after = mechanics.place(q, p_after)
    row = ImpactTable(step, t, place, before, after, impulse.normal, jnp.argmin(gaps), one, no, no)
    table = write_row(now.table, now.num_impacts, row)
    num_impacts = now.num_impacts + (impulse.any | rests)  # the contact that the system rests on has a row of its own
    now = now._replace(p=p_after, met=met, losses=losses, idle=idle, flown=jnp.zeros_like(flown), status=status.astype(jnp.int32))
    return now._replace(table=table, num_impacts=num_impacts)
