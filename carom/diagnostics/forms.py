"""The symplectic form in the extended sense: with the time, and the length of the step, free.

A step with its impacts takes (t, q, p) to (t + h, q₁, p₁). Its action G, over all its legs, is critical over what lies between:

    dG = p₁ dq₁ − E₁ d(t + h) − p dq + E₀ dt                                                                             (1)

with E₀ the discrete energy of the first leg at its start and E₁ that of the last leg at its end. Differentiated once more, on
the space of all (t, q, p, h),

    dq₁ ∧ dp₁ + dE₁ ∧ d(t + h) = dq ∧ dp + dE₀ ∧ dt                                                                       (2)

which is (25) with (26), Ω = ω + dE ∧ dt, of [fetecau2003], for the discrete flow. At a fixed h and t the terms with the energy
drop out, and (64) remains.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom.calls import public
from carom.diagnostics.begin import one_step
from carom.diagnostics.measures import taken_step
from carom.errors import InputError
from carom.methods import replay
from carom.methods.loop import Chunk
from carom.methods.method import State
from carom.methods.status import OK
from carom.methods.variational.collision import VariationalCollision
from carom.running.options import check_method
from carom.system.system import System

MOST_IMPACTS = 16  # in the step


@public
def extended_symplectic_defect(
    system: System, method: VariationalCollision, q: Any, p: Any, dt: float, t: float = 0.0, params: Any = None
) -> float:
    """By how much one step misses (2), through any impacts in it: the largest entry of the difference of the two sides, relative to
    the largest of their terms. Zero to rounding where all impacts balance the discrete energy."""
    check_method(method)
    if "discrete action" not in method.offers:
        raise InputError("the discrete energy belongs to VariationalCollision; other methods have symplectic_defect")
    if "rotations" in system.needs and not method.rule.moves_on_groups:
        raise InputError(f"{method.rule.name} steps rotations in charts whose centres move along: no symplectic form is kept")
    system, q, p, dt, t = one_step(system, q, p, dt, t, params)
    J, _, good = _jacobian(method, system, params, q, p, t, dt)
    if not good:
        raise InputError(f"the step fails, or has more than {MOST_IMPACTS} impacts: take a shorter one")
    n = (J.shape[0] - 4) // 2
    ends, starts = J[: 2 * n + 2], np.zeros((2 * n + 2, 2 * n + 2))
    starts[: 2 * n, : 2 * n], starts[2 * n], starts[2 * n + 1, 2 * n] = np.eye(2 * n), J[2 * n + 2], 1.0  # (q, p), E₀, t
    after, before = _form(ends, n), _form(starts, n)
    size = np.max(np.abs(ends[:n])) * np.max(np.abs(ends[n : 2 * n])) + np.max(np.abs(ends[2 * n]))
    return float(np.max(np.abs(after - before)) / size)


def _form(rows: np.ndarray, n: int) -> np.ndarray:
    """dq ∧ dp + dE ∧ dt, for the differentials in the rows: q, p, E, t."""
    wedge = lambda a, b: np.outer(a, b) - np.outer(b, a)  # noqa: E731
    return sum(wedge(rows[i], rows[n + i]) for i in range(n)) + wedge(rows[2 * n], rows[2 * n + 1])


def _jacobian(method, system, params, q, p, t, dt) -> tuple[np.ndarray, int, bool]:
    """The derivatives of q₁, p₁, E₁, t + h, E₀ (and h once more) by (q, p, t, h), in canonical coordinates around both ends; how
    many impacts there were, and whether the step was taken with all of them.

    The step is taken once, by a program of its own, and one more has its derivative along one direction: to differentiate along
    all of them at once, the step inside, takes five times as long to compile for a body that turns.
    """
    taken = taken_step(method, system, params, q, p, t, dt, MOST_IMPACTS)
    directions = jnp.eye(2 * p.shape[0] + 2)
    columns = [np.asarray(_column(method, system, params, taken, q, p, t, dt, direction)) for direction in directions]
    good = taken.status == OK and taken.steps == 1 and taken.num_impacts <= MOST_IMPACTS
    return np.stack(columns, axis=1), int(taken.num_impacts), bool(good)


@eqx.filter_jit
def _column(method, system, params, taken: Chunk, q, p, t, dt, direction):
    space = system.space if "rotations" in system.needs else None
    n = p.shape[0]
    start = lambda y: (q + y[:n], p + y[n : 2 * n]) if space is None else (  # noqa: E731
        space.retract(q, y[:n]), space.chart_momentum(y[:n], p + y[n : 2 * n]))  # fmt: skip

    def end(y):
        run, first, last = _step(method, system, params, taken, *start(y), t + y[2 * n], dt + y[2 * n + 1])
        q1, p1 = run.q[-1], run.p[-1]
        if space is not None:
            around = space.inverse_retract(taken.states[0, : q.shape[0]], q1)
            q1, p1 = around, jax.vjp(lambda rates: space.chart_velocity(around, rates), jnp.zeros(n))[1](p1)[0]
        rest = jnp.stack([last, t + y[2 * n] + dt + y[2 * n + 1], first, dt + y[2 * n + 1]])
        return jnp.concatenate([q1, p1, rest])

    return jax.jvp(end, (jnp.zeros(2 * n + 2),), (direction,))[1]


def _step(method, system, params, taken: Chunk, q, p, t, dt):
    """The step with its impacts; the discrete energies at the start of its first leg and at the end of its last."""
    run = replay.run(method, system, params, State(t, q, p), dt, 1, MOST_IMPACTS, chunk=taken)
    flow, table, count = method.flow(method.bind(system, params, q.shape[0])), run.impacts, run.num_impacts
    hit, last = count > 0, jnp.maximum(count - 1, 0)
    pick = lambda impact, free: jnp.where(hit, impact, free)  # noqa: E731
    begin = pick(table.t[last], t)
    both = lambda first, second: jnp.stack([first, second])  # noqa: E731
    starts = both(q, pick(table.q[last], q)), both(p, pick(table.p_after[last], p)), both(t, begin)
    legs = jax.vmap(flow)(*starts, both(pick(table.t[0], t + dt) - t, t + dt - begin))
    return run, legs.energy_start[0], legs.energy_end[1]
