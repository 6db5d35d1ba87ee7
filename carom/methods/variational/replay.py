"""Exact derivatives through impacts: run fast, then replay what happened in a form that autodiff can follow.

A loop with a data-dependent number of iterations has no reverse mode, and a derivative through the bisections of a root
finder is silently wrong. So the run itself is not differentiated. It leaves a table of its impacts: which step, when, which
contact, which size. The replay goes through the same legs with that table as its script. On each leg the length s and the
size κ are known numbers that solve two scalar equations,

    φ(Φ_s(q, p + κ d)) = 0    (or s = the rest of the step),                                                  (1)
    E_start(Φ_s(q, p + κ d)) + κ ρ − E⁻ = 0    (or κ = 1),                                                    (2)

and one Newton step on (1)–(2) at the solution attaches their exact first derivatives (the implicit function theorem; second
derivatives would need more). The replay is a scan, so forward and reverse mode, `vmap` and `jit` all work. It runs only when a
derivative is asked for.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from carom.methods.method import OK, TABLE_FULL, Grid, ImpactTable, State
from carom.methods.variational.collision import resolve
from carom.methods.variational.locate import Leg, Pending
from carom.numerics.newton import polish


class Values(NamedTuple):
    """What can be differentiated."""

    t: Float[Array, " steps"]
    q: Float[Array, "steps n"]
    p: Float[Array, "steps n"]
    impact_t: Float[Array, " rows"]
    impact_q: Float[Array, "rows n"]
    impact_p_before: Float[Array, "rows n"]
    impact_p_after: Float[Array, "rows n"]
    impact_impulse: Float[Array, "rows k"]


class Run(NamedTuple):
    """A pure run: the grid (with the initial state), the impacts padded to a fixed number of rows, and how it ended."""

    t: Float[Array, " steps+1"]
    q: Float[Array, "steps+1 n"]
    p: Float[Array, "steps+1 n"]
    impacts: ImpactTable
    num_impacts: Int[Array, ""]
    status: Int[Array, ""]  # 0 is good; after any other the rest of the grid is NaN


def run(method: Any, system: Any, params: Any, start: State, dt: Array, num_steps: int, max_impacts: int) -> Run:
    """`num_steps` steps from `start`, differentiable with respect to `start`, `dt`, `params` and all numbers in the system."""
    arrays, functions = eqx.partition((method, system), eqx.is_inexact_array)
    args = (arrays, params, start, dt)
    rows = max_impacts + method.max_impacts_per_step
    zero, most = jnp.zeros((), jnp.int32), jnp.asarray(max_impacts + 1, jnp.int32)
    frozen_arrays, frozen_params, frozen_start, frozen_dt = jax.lax.stop_gradient(args)
    fixed_method, fixed_system = eqx.combine(frozen_arrays, functions)
    limit = jnp.asarray(num_steps, jnp.int32)
    grid = Grid(frozen_dt, zero, limit, most, num_steps, rows)
    chunk = fixed_method.advance(fixed_system, frozen_params, frozen_start, grid)
    full = (chunk.steps < num_steps) | (chunk.num_impacts > max_impacts)
    status = jnp.where((chunk.status == OK) & full, TABLE_FULL, chunk.status).astype(jnp.int32)
    table = jax.tree.map(lambda column: column[:max_impacts], chunk.impacts)

    @jax.custom_jvp
    def values(args, chunk, table):
        _, _, start, dt = args
        t = start.t + jnp.arange(1, num_steps + 1) * dt
        q, p = jnp.split(chunk.states[:num_steps], 2, axis=1)
        return Values(t, q, p, table.t, table.q, table.p_before, table.p_after, table.impulse)

    @values.defjvp
    def derivative(primals, tangents):
        chunk, table = primals[1:]
        script = lambda args: _replay(functions, args, table, chunk.num_impacts, num_steps, max_impacts)  # noqa: E731
        return values(*primals), jax.jvp(script, primals[:1], tangents[:1])[1]

    out = values(args, chunk, table)
    done = jnp.arange(num_steps) < chunk.steps
    blank = lambda rows: jnp.where(done[:, None], rows, jnp.nan)  # noqa: E731
    table = table._replace(
        t=out.impact_t, q=out.impact_q, p_before=out.impact_p_before, p_after=out.impact_p_after, impulse=out.impact_impulse
    )
    return Run(
        t=jnp.concatenate([start.t[None], out.t]),
        q=jnp.concatenate([start.q[None], blank(out.q)]),
        p=jnp.concatenate([start.p[None], blank(out.p)]),
        impacts=table,
        num_impacts=jnp.minimum(chunk.num_impacts, max_impacts),
        status=status,
    )


class _Now(NamedTuple):
    q: Float[Array, " n"]
    p: Float[Array, " n"]
    t: Float[Array, ""]
    step: Int[Array, ""]
    row: Int[Array, ""]  #          the next impact of the table
    pending: Pending


class _Seen(NamedTuple):
    """One leg: where it ends, and the impact at its start."""

    t: Float[Array, ""]
    q: Float[Array, " n"]
    p: Float[Array, " n"]
    impact: tuple[Array, Array, Array, Array, Array]


def _replay(functions: Any, args: Any, table: ImpactTable, num_impacts, num_steps: int, max_impacts: int) -> Values:
    """All legs of the run, in order: one to each impact, one to the end of each step."""
    arrays, params, start, dt = args
    method, system = eqx.combine(arrays, functions)
    mechanics = system.bind(params, start.q.shape[0])
    flow = method.flow(mechanics)
    live = (mechanics, flow)
    still = system.bind(jax.lax.stop_gradient(params), start.q.shape[0])
    frozen = (still, method.flow(still))
    n, k = start.q.shape[0], mechanics.num_faces
    used = jnp.where(jnp.arange(max_impacts) < num_impacts, table.step, num_steps)

    def leg(now: _Now) -> tuple[_Now, _Seen]:
        ahead = jnp.minimum(now.row, max_impacts - 1)
        hits: Bool[Array, ""] = (now.row < max_impacts) & (used[ahead] == now.step)
        t_end = start.t + (now.step + 1) * dt
        pending = now.pending
        behind = jnp.maximum(now.row - 1, 0)
        scale = jnp.where(pending.active, table.scale[behind], 0.0)
        balance = pending.active & table.balanced[behind]

        def equations(x, bound, now, t_end):  # (1), (2)
            (mechanics, flow), pending = bound, now.pending
            out = flow(now.q, now.p + x[1] * pending.direction, now.t, x[0])
            first = jnp.where(hits, mechanics.gaps(out.q, now.t + x[0])[table.closing[ahead]], x[0] - (t_end - now.t))
            second = jnp.where(balance, out.energy_start + x[1] * pending.drift - pending.energy, x[1] - scale)
            return jnp.stack([first, second]), (out.q, out.p, out.energy_end)

        length = jnp.where(hits, table.t[ahead], t_end) - now.t
        fixed_now, fixed_end = jax.lax.stop_gradient((now, t_end))
        (s, kappa), (q, p, energy_end) = polish(
            lambda x: equations(x, live, now, t_end),
            lambda x: equations(x, frozen, fixed_now, fixed_end),
            jnp.stack([length, scale]),
        )
        t = now.t + s
        there = Leg(q, p, energy_end, kappa, hits, hits)
        impact, settled = resolve(method, mechanics, there, t, dt, table.closing[ahead], differentiable=True)
        # More rounds than are replayed: no derivative, rather than a wrong one.
        impact = impact._replace(direction=jnp.where(settled, impact.direction, jnp.nan))
        impact = jax.tree.map(lambda a, b: jnp.where(hits, a, b), impact, Pending.none(now.q, k))
        after = now.p + kappa * pending.direction
        seen = _Seen(t, q, p, (now.t, now.q, now.p, after, kappa * pending.multipliers))
        return _Now(q, p, t, now.step + ~hits, now.row + hits, impact), seen

    def nothing(now: _Now) -> tuple[_Now, _Seen]:
        zero = jnp.zeros_like
        return now, _Seen(zero(now.t), zero(now.q), zero(now.q), (zero(now.t), zero(now.q), zero(now.q), zero(now.q), jnp.zeros(k)))

    zero = jnp.zeros((), jnp.int32)
    begin = _Now(start.q, start.p, start.t, zero, zero, Pending.none(start.q, k))
    if mechanics.num_contacts == 0:

        def free(now, _):
            out = flow(now.q, now.p, now.t, dt)
            return now._replace(q=out.q, p=out.p, t=now.t + dt), (now.t + dt, out.q, out.p)

        _, (t, q, p) = jax.lax.scan(free, begin, None, length=num_steps)
        rows = jnp.zeros((max_impacts, n))
        return Values(t, q, p, jnp.zeros(max_impacts), rows, rows, rows, jnp.zeros((max_impacts, k)))

    def next_leg(now, _):
        return jax.lax.cond(now.step < num_steps, leg, nothing, now)

    _, seen = jax.lax.scan(next_leg, begin, None, length=num_steps + max_impacts)
    steps = jnp.arange(num_steps)
    ends = steps + jnp.searchsorted(used, steps, side="right")  # the leg that ends step i has i earlier ends and these impacts
    starts = jnp.minimum(used + jnp.arange(max_impacts) + 1, num_steps + max_impacts - 1)  # the leg that begins with impact j
    real = used < num_steps
    columns = [jnp.where(real.reshape(-1, *[1] * (c.ndim - 1)), c[starts], 0.0) for c in seen.impact]
    return Values(seen.t[ends], seen.q[ends], seen.p[ends], *columns)
