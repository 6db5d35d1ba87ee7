"""Interfaces: contacts that the motion goes through. Flow, locate, go on.

A spring that pushes but does not pull changes the potential where its gap φ changes sign. The force is continuous there and the
impulse is zero, λ = 0 of (4.14) in [demoures2017]. What is left of its contact time integrator 2 is to end a leg where φ = 0:

    flow      (q₁, p₁) = Φ_h(q, p); if no φᵢ changed its sign, this is the step                                  (1)
    locate    the first τ with φᵢ(Φ_τ(q, p)) = 0, in either direction                                          (2)
    go on     from there with the rest of the step                                                             (3)

The balances of energy (4.15), (4.17) are one equation more than there are unknowns; they hold to the order of the rule. Every
crossing is a row of the impact table with impulse 0: into contact where the rate of the gap is negative, out of it otherwise. A
gap that goes in and out again within one step is not split there; the flow itself is the same on both sides, and does not mind.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from carom.methods.method import NOT_CONVERGED, NOT_FINITE, OK, TOO_MANY_IMPACTS, Advanced, Grid, ImpactTable, State
from carom.numerics.bracketing import is_narrow, open_bracket, propose, update
from carom.system.lumped import LumpedMechanics
from carom.xla.kernel import once, sealed
from carom.xla.trees import choose, write_row


class _Run(NamedTuple):
    steps: Int[Array, ""]
    status: Int[Array, ""]
    history: Float[Array, "length 2n"]
    table: ImpactTable
    num_impacts: Int[Array, ""]
    q: Float[Array, " n"]
    p: Float[Array, " n"]
    inside: Bool[Array, " k"]  #  on which side of each interface


def pass_through(method: Any, system: Any, params: Any, start: State, grid: Grid, good) -> Advanced:
    """Smooth steps in a tight loop that ends where a gap changes sign; that one step with care; and again."""
    n, dim, dt, limit = start.q.shape[0], start.p.shape[0], grid.dt, grid.limit
    mechanics: LumpedMechanics = system.bind(params, n)
    quick = method.flow(mechanics, quick=True)
    speed = mechanics.velocity(start.q, start.p, start.t)
    gaps, rates = mechanics.approach(start.q, speed, start.t)
    noise = mechanics.rounding(start.q, speed, start.t, dt)  # a gap that is zero for long changes its sign by rounding

    def time(step):
        return grid.time(start, step)

    def unfinished(run: _Run):
        room = run.num_impacts + method.max_impacts_per_step <= grid.rows
        return (run.steps < limit) & (run.status == OK) & room & (run.num_impacts < grid.most)

    def smooth(run: _Run):
        def proceed(carry):
            return carry[0] & (carry[1] < limit)

        def step(carry):
            _, steps, q, p, history = carry
            out = quick(q, p, time(steps), dt)
            gaps = mechanics.faces(out.q, time(steps + 1))
            crossed = jnp.any(jnp.where(run.inside, gaps, -gaps) > noise)
            clear = once(~crossed & out.converged & jnp.all(jnp.isfinite(out.p)))
            history = write_row(history, steps, jnp.concatenate([out.q, out.p]))
            return clear, steps + clear, jnp.where(clear, out.q, q), jnp.where(clear, out.p, p), history

        _, steps, q, p, history = jax.lax.while_loop(proceed, step, (jnp.asarray(True), run.steps, run.q, run.p, run.history))
        return run._replace(steps=steps, q=q, p=p, history=history)

    def more(run: _Run):
        run = smooth(run)
        asked = run.steps < limit
        step = _Step(run.q, run.p, time(run.steps), run.inside, jnp.asarray(-1), run.table, run.num_impacts, ~asked, run.status)
        step = _legs(method, mechanics, step, time(run.steps + 1), grid.first + run.steps, noise)
        history = write_row(run.history, run.steps, jnp.concatenate([step.q, step.p]))
        steps = run.steps + (asked & (step.status == OK))
        return _Run(steps, step.status, history, step.table, step.num_impacts, step.q, step.p, step.inside)

    run = _Run(
        steps=jnp.where(good, 0, limit).astype(jnp.int32),
        status=jnp.where(good, OK, NOT_FINITE).astype(jnp.int32),
        history=jnp.zeros((grid.length + 1, n + dim), start.q.dtype),
        table=ImpactTable.empty(grid.rows, n, mechanics.num_faces, dim),
        num_impacts=jnp.zeros((), jnp.int32),
        q=start.q,
        p=start.p,
        inside=(gaps < 0) | ((gaps == 0) & (rates < 0)),
    )
    run = jax.lax.while_loop(unfinished, more, run)
    return Advanced(run.steps, run.status, run.history, run.table, run.num_impacts)


class _Step(NamedTuple):
    q: Float[Array, " n"]
    p: Float[Array, " n"]
    t: Float[Array, ""]
    inside: Bool[Array, " k"]
    crossed: Int[Array, ""]  #  the interface on which the leg starts, −1 for none
    table: ImpactTable
    num_impacts: Int[Array, ""]
    finished: Bool[Array, ""]
    status: Int[Array, ""]


def _legs(method, mechanics: LumpedMechanics, start: _Step, t_end, step, noise) -> _Step:
    """(1)–(3): leg after leg until the end of the step."""
    first, k = start.num_impacts, mechanics.num_faces
    flow = sealed(method.flow(mechanics, quick=True))

    def go_on(now: _Step) -> _Step:
        s = jnp.maximum(t_end - now.t, 0.0)
        here = jnp.arange(k) == now.crossed

        def distances(gaps, length):
            """Positive on the side where each gap is; that of departure per unit of time, so that it is not found again at once."""
            return jnp.where(now.inside, -gaps, gaps) / jnp.where(here & (length > 0), length, 1.0)

        def look(sigma):
            out = flow(now.q, now.p, now.t, sigma)
            return out, mechanics.faces(out.q, now.t + sigma)

        _, gaps = look(s)
        gaps0, rates0 = mechanics.approach(now.q, mechanics.velocity(now.q, now.p, now.t), now.t)
        begin = jnp.min(jnp.where(here, jnp.where(now.inside, -rates0, rates0), jnp.maximum(distances(gaps0, 0.0), 0.0)))
        ahead = jnp.min(distances(gaps, s))
        found = once((begin >= 0) & jnp.any(jnp.where(now.inside, gaps, -gaps) > noise) & (ahead < 0))
        bracket = open_bracket(jnp.zeros_like(s), begin, None, s, ahead)

        def narrower(bracket):
            x = propose(bracket)
            return update(bracket, x, jnp.min(distances(look(x)[1], x)), None)

        bracket = jax.lax.while_loop(lambda b: found & ~is_narrow(b) & (b.high > 0), narrower, bracket)
        length = jnp.where(found, bracket.low, s)
        end, gaps = look(length)
        closing = jnp.argmin(distances(gaps, length))
        t = jnp.where(found, now.t + length, t_end)
        row = ImpactTable(
            step, t, end.q, end.p, end.p, jnp.zeros(k), closing, jnp.zeros(()), jnp.asarray(False), jnp.asarray(False)
        )  # fmt: skip
        num_impacts = now.num_impacts + found
        finite = jnp.all(jnp.isfinite(end.q)) & jnp.all(jnp.isfinite(end.p))
        status = jnp.select(
            [~finite, ~end.converged, num_impacts - first >= method.max_impacts_per_step],
            [NOT_FINITE, NOT_CONVERGED, TOO_MANY_IMPACTS],
            OK,
        ).astype(jnp.int32)
        flipped = now.inside ^ (jnp.arange(k) == closing)
        inside = jnp.where(found, flipped, jnp.where(jnp.abs(gaps) > noise, gaps < 0, now.inside))
        return _Step(
            end.q, end.p, t, inside, jnp.where(found, closing, -1), write_row(now.table, now.num_impacts, row), num_impacts,
            ~found, status
        )  # fmt: skip

    final = jax.lax.while_loop(lambda now: ~now.finished & (now.status == OK), go_on, start)
    return choose(start.finished, start._replace(table=final.table), final)
