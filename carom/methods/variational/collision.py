"""Variational collision integrators: flow, locate, resolve, go on."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from carom.contact.laws import SIMULTANEOUS
from carom.errors import InputError
from carom.methods.method import (
    NOT_CONVERGED,
    NOT_FINITE,
    OK,
    TOO_MANY_IMPACTS,
    UNSETTLED,
    Advanced,
    Chunk,
    Grid,
    ImpactTable,
    Method,
    State,
    as_kernel,
)
from carom.methods.variational.interfaces import pass_through
from carom.methods.variational.locate import End, Leg, Pending, closest_contact, launch, locate, turns, unresolved
from carom.methods.variational.rules import DIRECTIONS, Composition, FlowMap, Rule, Trapezoidal
from carom.numerics.linalg import dot
from carom.system.system import Mechanics, System
from carom.xla.kernel import once, sealed
from carom.xla.trees import choose, write_row


class VariationalCollision(Method):
    """Discrete Lagrangian flow between impacts, Weierstrass–Erdmann conditions at each [fetecau2003].

    With a rule Φ_s, its energies E_start, E_end and the contacts φᵢ ≥ 0, a step from (q, p) over h is

        flow      (q₁, p₁) = Φ_h(q, p); if no gap closed on the way, this is the step                         (1)
        locate    the first τ with φᵢ(Φ_τ(q, p)) = 0 for some i; there (q̃, p⁻), E⁻ = E_end                    (2)
        resolve   p⁺ = p⁻ + κ d, d in the normal cone of the closed contacts, from the law of impact;          (3)
                  elastic: κ from E_start(Φ_s(q̃, p⁺)) = E⁻ over the next leg s; otherwise κ = 1
        go on     with s = h − τ, or up to the next contact, as often as needed                               (4)

    *Preserves*: momentum maps of symmetries that leave the contacts alone, the symplectic form (elastic impacts), and
    non-penetration. *Order*: that of the rule, through impacts too.
    *Choose it for* hard, isolated impacts over long times. Not for resting or accumulating contact: it stops there and says so.

    (1)–(4) are (46)–(49) and (78)–(79) of [fetecau2003]; corners as in its §5, (86).

    - `rule`: the discrete Lagrangian, by default the composition of order 4 of the trapezoidal rule.
    - `simultaneous`: how contacts that close at the same instant are resolved, see `carom.contact.laws`.
    - `direction`: where a step looks at the velocity constraints, if there are any: "symmetric" (second order, and as high as
      a `Composition` goes), "forward" or "backward", the (+) and (−) schemes of [rodriguez2025] (first order); (6) of `rules`.
    - `max_impacts_per_step`: more than these in one step are taken as coming to rest.
    - `elastic`: the size of an elastic impulse: "balance" takes κ from (3), "reflection" κ = 1, which reflects the momenta at t̃.
    """

    kernels = True

    rule: Rule
    simultaneous: str = eqx.field(static=True)
    direction: str = eqx.field(static=True)
    max_impacts_per_step: int = eqx.field(static=True)
    elastic: str = eqx.field(static=True)

    def __init__(
        self,
        rule: Rule | None = None,
        *,
        simultaneous: str = "reflections",
        direction: str = "symmetric",
        max_impacts_per_step: int = 64,
        elastic: str = "balance",
    ):
        rule = Composition(Trapezoidal(), 4) if rule is None else rule  # pyright: ignore[reportCallIssue]
        if not isinstance(rule, Rule):
            raise TypeError(f"rule must be a carom rule such as carom.Trapezoidal(); got {rule!r}")
        if simultaneous not in SIMULTANEOUS:
            raise ValueError(f"simultaneous must be one of {', '.join(SIMULTANEOUS)}; got {simultaneous!r}")
        if direction not in DIRECTIONS:
            raise ValueError(f"direction must be one of {', '.join(DIRECTIONS)}; got {direction!r}")
        if max_impacts_per_step < 1:
            raise ValueError(f"max_impacts_per_step must be at least 1; got {max_impacts_per_step}")
        if elastic not in ("balance", "reflection"):
            raise ValueError(f"elastic must be balance or reflection; got {elastic!r}")
        self.rule, self.simultaneous, self.direction = rule, simultaneous, direction
        self.max_impacts_per_step, self.elastic = max_impacts_per_step, elastic

    @property
    def balances(self) -> bool:
        return self.elastic == "balance"

    @property
    def order(self) -> int:
        return self.rule.order

    @property
    def preserves(self) -> tuple[str, ...]:
        return (*self.rule.preserves, "non-penetration")

    def flow(self, mechanics: Mechanics, quick: bool = False) -> FlowMap:
        """(1): the discrete flow of the rule."""
        return self.rule.flow(mechanics, quick, self.direction)

    def check(self, system: System, params: Any, state: State, dt: float) -> None:
        """The discrete Lagrangian must exist, and determine the next step."""
        super().check(system, params, state, dt)
        if system.hamiltonian is not None:
            raise InputError(
                "VariationalCollision needs a lagrangian, and this system is given by a hamiltonian: choose EventDriven()"
            )
        if system.massless is None:
            return
        matrix = np.asarray(_step_matrix(self, system, params, state, jnp.asarray(dt)))
        size = np.abs(matrix).max(axis=1, keepdims=True)
        if not (np.all(size > 0) and np.linalg.cond(matrix / size) < 1e12):
            rule = type(getattr(self.rule, "base", self.rule)).__name__
            direction = np.array2string(np.abs(np.asarray(system.massless[0])), precision=3, suppress_small=True)
            raise InputError(
                f"the lagrangian is degenerate (no kinetic energy along v = {direction}) and {rule} cannot step it: "
                "D₁D₂L_d is singular at the initial state. Try Midpoint() or Galerkin(2), which see the potential at inner points, "
                "or EventDriven()"
            )

    def step(self, system: System, state: State, dt: Any, params: Any = None) -> State:
        """One step, as a pure function that can be jitted, vmapped and differentiated, through impacts too."""
        from carom.methods.variational.replay import run

        result = run(self, system, params, state, jnp.asarray(dt, state.q.dtype), 1, self.max_impacts_per_step)
        return State(result.t[-1], result.q[-1], result.p[-1])

    def advance(self, system: System, params: Any, start: State, grid: Grid, *, kernel: bool = False) -> Chunk:
        """The steps of `grid` from `start`, until they are done or a step could overflow the table or fails."""
        return as_kernel(pass_through if system.transmits else _advance, self, system, params, start, grid, kernel)


def Variational(rule: Rule | None = None) -> VariationalCollision:
    """A variational integrator for systems without contacts: the same method, the same rules."""
    return VariationalCollision(rule)


@eqx.filter_jit
def _step_matrix(method: VariationalCollision, system: System, params: Any, state: State, dt):
    return method.rule.matrix(system.bind(params, state.q.shape[0]), state, dt, method.direction)


# -- many steps ----------------------------------------------------------------------------------------------------------


class _Run(NamedTuple):
    steps: Int[Array, ""]
    q: Float[Array, " n"]
    p: Float[Array, " n"]
    history: Float[Array, "length 2n"]
    table: ImpactTable
    num_impacts: Int[Array, ""]
    status: Int[Array, ""]


def _advance(method, system, params, start: State, grid: Grid, good) -> Advanced:
    """Smooth steps in a tight loop that ends where a gap may have closed; that one step with care; and again.

    The tight loop holds no branch: what it costs is the flow itself.
    """
    n, dim, dt, limit = start.q.shape[0], start.p.shape[0], grid.dt, grid.limit
    mechanics = system.bind(params, n)
    quick, flow = method.flow(mechanics, quick=True), method.flow(mechanics)

    look = sealed(lambda q, p, t: look_at(mechanics, q, p, t))

    def time(step):
        return grid.time(start, step)

    def unfinished(run: _Run):
        room = run.num_impacts + method.max_impacts_per_step <= grid.rows
        return (run.steps < limit) & (run.status == OK) & room & (run.num_impacts < grid.most)

    def more(run: _Run):
        run = smooth(run)
        return stalled(run) if mechanics.num_contacts == 0 else careful(run)

    def stalled(run: _Run):
        """Without contacts, only a failure ends the smooth steps early."""
        out = quick(run.q, run.p, time(run.steps), dt)
        finite = jnp.all(jnp.isfinite(out.q)) & jnp.all(jnp.isfinite(out.p))
        failure = jnp.where(finite, NOT_CONVERGED, NOT_FINITE)
        return run._replace(status=jnp.where(run.steps < limit, failure, run.status).astype(jnp.int32))

    def smooth(run: _Run):
        gaps, rates = look(run.q, run.p, time(run.steps))

        def proceed(carry):
            return carry[0] & (carry[1] < limit)

        def step(carry):
            _, steps, q, p, gaps, rates, history = carry
            out, new_gaps, new_rates, clear = glide(quick, look, q, p, time(steps), dt, gaps, rates)
            keep = lambda new, old: jnp.where(clear, new, old)  # noqa: E731
            history = write_row(history, steps, jnp.concatenate([out.q, out.p]))
            return clear, steps + clear, keep(out.q, q), keep(out.p, p), keep(new_gaps, gaps), keep(new_rates, rates), history

        carry = (jnp.asarray(True), run.steps, run.q, run.p, gaps, rates, run.history)
        _, steps, q, p, _, _, history = jax.lax.while_loop(proceed, step, carry)
        return run._replace(steps=steps, q=q, p=p, history=history)

    def careful(run: _Run):
        t, t_end = time(run.steps), time(run.steps + 1)
        asked = run.steps < limit  # false: the smooth loop came to the end, and nothing below moves
        index = grid.first + run.steps
        done = collision_step(method, mechanics, flow, run.q, run.p, t, t_end, index, run.table, run.num_impacts, asked)
        history = write_row(run.history, run.steps, jnp.concatenate([done.q, done.p]))
        steps = run.steps + (asked & (done.status == OK))
        return _Run(steps, done.q, done.p, history, done.table, done.num_impacts, done.status)

    run = _Run(
        steps=jnp.where(good, 0, limit).astype(jnp.int32),
        q=start.q,
        p=start.p,
        history=jnp.zeros((grid.length + 1, n + dim), start.q.dtype),
        table=ImpactTable.empty(grid.rows, n, mechanics.num_faces, dim),
        num_impacts=jnp.zeros((), jnp.int32),
        status=jnp.where(good, OK, NOT_FINITE).astype(jnp.int32),
    )
    run = jax.lax.while_loop(unfinished, more, run)
    if mechanics.num_contacts == 0:
        return Advanced(run.steps, run.status, run.history, ImpactTable.empty(grid.rows, n, 0, dim), jnp.zeros((), jnp.int32))
    return Advanced(run.steps, run.status, run.history, run.table, run.num_impacts)


def glide(quick: FlowMap, look, q, p, t, dt, gaps, rates):
    """One step of the flow, the gaps and rates at its end, and whether it is clear: nothing closed or failed on the way."""
    out = quick(q, p, t, dt)
    new_gaps, new_rates = look(out.q, out.p, t + dt)
    ends = (gaps, rates, new_gaps, new_rates, dt)
    fine = out.converged & jnp.all(jnp.isfinite(out.p))
    return out, new_gaps, new_rates, once(jnp.all((new_gaps > 0) & ~turns(*ends) & ~unresolved(*ends)) & fine)


def look_at(mechanics: Mechanics, q, p, t):
    return mechanics.approach(q, mechanics.velocity(q, p, t), t)


# -- one step with care --------------------------------------------------------------------------------------------------


class Moment(NamedTuple):
    """Where a step with impacts has come to."""

    q: Float[Array, " n"]
    p: Float[Array, " n"]
    t: Float[Array, ""]
    pending: Pending
    table: ImpactTable
    num_impacts: Int[Array, ""]
    finished: Bool[Array, ""]
    status: Int[Array, ""]

    @staticmethod
    def begin(q, p, t, num_faces: int, table: Any = None, num_impacts: Any = 0, finished: Any = False) -> "Moment":
        return Moment(q, p, t, Pending.none(p, num_faces), table, num_impacts, finished, jnp.asarray(OK, jnp.int32))


def collision_step(method, mechanics: Mechanics, flow: FlowMap, q, p, t, t_end, step, table, num_impacts, asked) -> Moment:
    """(1)–(4): leg after leg until the end of the step."""
    first, dt = num_impacts, t_end - t
    # Calls of their own: they are compiled once and not merged with what surrounds them.
    see = sealed(lambda q, p, t: look_at(mechanics, q, p, t))
    origin = sealed(lambda now, s: origin_of(mechanics, now, s))
    law = sealed(lambda leg, t, s, closing: resolve(method, mechanics, leg, t, s, closing))

    def unfinished(now: Moment):
        return ~now.finished & (now.status == OK)

    def go_on(now: Moment):
        pending, s = now.pending, jnp.maximum(t_end - now.t, 0.0)
        start, touching, allowance = origin(now._replace(table=None), dt)
        look = lambda sigma, balance: look_ahead(see, flow, now, allowance, sigma, balance)  # noqa: E731
        end, found, balance = locate(look, start, touching, pending.balance, s)
        # A step may start in contact, moving inwards by more than rounding.
        inwards = touching & (start.gaps + start.rates * s < allowance) & ~pending.active
        strikes = jnp.any(inwards)
        closing = jnp.where(strikes, jnp.argmin(jnp.where(inwards, start.rates, 0.0)), closest_contact(end, touching))
        found, end = once((found | strikes, choose(strikes, start, end)))
        leg, t_next = end.leg, jnp.where(found, now.t + end.length, t_end)

        table = _record(now, balance, leg, step)
        num_impacts = now.num_impacts + pending.active
        impact, settled = law(leg, t_next, dt, closing)
        finite = jnp.all(jnp.isfinite(leg.q)) & jnp.all(jnp.isfinite(leg.p))
        status = jnp.select(
            [~finite, ~leg.converged, num_impacts - first >= method.max_impacts_per_step, found & ~settled],
            [NOT_FINITE, NOT_CONVERGED, TOO_MANY_IMPACTS, UNSETTLED],
            OK,
        ).astype(jnp.int32)
        impact = choose(found, impact, Pending.none(p, mechanics.num_faces))
        return Moment(leg.q, leg.p, t_next, impact, table, num_impacts, ~found, status)

    return jax.lax.while_loop(unfinished, go_on, Moment.begin(q, p, t, mechanics.num_faces, table, num_impacts, ~asked))


def origin_of(mechanics: Mechanics, now: Moment, dt) -> tuple[End, Bool[Array, " k"], Float[Array, " k"]]:
    """The start of a leg as the contacts see it, which of them touch there, and how far below zero rounding may take these."""
    scale = jnp.where(now.pending.active, 1.0, 0.0)
    p = now.p + scale * now.pending.direction
    v = mechanics.velocity(now.q, p, now.t)
    gaps, rates = mechanics.approach(now.q, v, now.t)
    width = mechanics.rounding(now.q, v, now.t, dt)
    touching = gaps <= width
    energy = jnp.where(now.pending.active, now.pending.energy, mechanics.energy(now.q, v, now.t))
    here = Leg(now.q, p, energy, scale, ~now.pending.balance, jnp.asarray(True))
    return End(jnp.zeros_like(dt), here, gaps, rates), touching, jnp.where(touching, jnp.minimum(gaps, 0.0) - width, 0.0)


def look_ahead(see, flow: FlowMap, now: Moment, allowance, s, balance) -> End:
    """(1): the leg of length s, and the contacts at its end."""
    leg = launch(flow, now.q, now.p, now.t, now.pending, balance, s)
    gaps, rates = see(leg.q, leg.p, now.t + s)
    return End(s, leg, gaps - allowance, rates)


def resolve(method, mechanics: Mechanics, leg: Leg, t, dt, closing, *, differentiable: bool = False) -> tuple[Pending, Array]:
    """(3): the impulse that the law asks for at the end of a leg, up to its size."""
    q, p = leg.q, leg.p
    v = mechanics.velocity(q, p, t)
    width = mechanics.rounding(q, v, t, dt)
    touching = (mechanics.gaps(q, t) <= width) | (jnp.arange(mechanics.num_contacts) == closing)
    impulse, direction = mechanics.impulse(q, v, t, touching, width, method.simultaneous, differentiable)
    drift = dot(impulse.normal, mechanics.gap_drift(q, t))
    # κ must exist for every length down to 0, where the balance is exactly the parabola (2) of methods/variational/locate.py.
    curvature = dot(direction, mechanics.inverse_mass_times(q, v, t, direction))
    exists = leg.energy_end - mechanics.energy(q, v, t) > -curvature / 8
    pending = Pending(
        direction=direction,
        multipliers=impulse.normal,
        closing=closing.astype(jnp.int32),
        curvature=curvature,
        drift=drift,
        energy=leg.energy_end,
        balance=impulse.elastic & impulse.any & exists & method.balances,
        active=jnp.asarray(True),
        fallback=impulse.elastic & ~(impulse.any & exists) & method.balances,
    )
    return pending, impulse.settled


def _record(now: Moment, balance, leg: Leg, step) -> ImpactTable:
    """Write the impact at the start of a leg, now that its size is known. Free legs write into a row that stays free."""
    pending = now.pending
    impulse = leg.scale * pending.multipliers
    row = ImpactTable(
        step=step,
        t=now.t,
        q=now.q,
        p_before=now.p,
        p_after=now.p + leg.scale * pending.direction,
        impulse=impulse,
        closing=pending.closing,
        scale=leg.scale,
        balanced=balance,
        fallback=pending.fallback | (pending.balance & ~balance),
    )
    return write_row(now.table, now.num_impacts, row)
