"""Motions that repeat: periodic orbits of driven systems, and their multipliers.

The map x ↦ Φ(x) over one period, with all its impacts, is differentiable where no impact grazes. A periodic orbit is its fixed
point, found by Newton's method; the eigenvalues of Φ' are its multipliers. It is stable while all of them lie inside the unit
circle: a multiplier that leaves at −1 doubles the period, one at +1 makes the orbit vanish.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom.calls import public
from carom.diagnostics.begin import begin
from carom.errors import InputError
from carom.methods.method import State
from carom.methods.replay import run
from carom.system.system import System

STEPS = 50  # of Newton's method


@dataclass(frozen=True)
class Orbit:
    """A periodic orbit: the state at which it starts, and what becomes of small perturbations in one period."""

    q: np.ndarray
    p: np.ndarray
    multipliers: np.ndarray  #  eigenvalues of the derivative, largest first
    jacobian: np.ndarray
    impacts: int  #             in one period

    @property
    def stable(self) -> bool:
        return bool(np.all(np.abs(self.multipliers) < 1))


@public
def periodic_orbit(
    system: System,
    method: Any,
    q0: Any,
    v0: Any,
    *,
    dt: float,
    num_steps: int,
    params: Any = None,
    t0: float = 0.0,
    max_impacts: int = 16,
) -> Orbit:
    """The orbit of period num_steps·dt near (q0, v0). The drive has to have that period, or a fraction of it."""
    at = begin("periodic orbits", system, method, q0, v0, dt, num_steps, params, t0, max_impacts)
    n, x = at.problem.q0.size, np.asarray(at.x)
    for _ in range(STEPS):
        end, jacobian, hits, status = map(
            np.asarray, _map(method, *at.fixed, jnp.asarray(x), at.problem.t0, at.dt, at.num_steps, at.rows)
        )
        if status != 0 or not np.all(np.isfinite(jacobian)):
            break
        change = np.linalg.lstsq(np.eye(2 * n) - jacobian, end - x, rcond=None)[0]
        x = x + change
        size = max(1.0, float(np.max(np.abs(x))))
        if np.max(np.abs(change)) <= 1e-13 * size:
            _check_closed(end - x, 1e-10 * size * (1 + float(np.max(np.abs(jacobian)))))  # |I − Φ'| times that change, and rounding
            values = np.linalg.eigvals(jacobian)
            return Orbit(x[:n], x[n:], values[np.argsort(-np.abs(values))], jacobian, int(hits))
    raise InputError("no periodic orbit was found from there: start nearer to one, for instance where a long run has settled")


def _check_closed(miss: np.ndarray, rounding: float) -> None:
    """Where 1 is a multiplier, I − Φ' has no inverse, and least squares end at the start that misses itself by least."""
    if not np.max(np.abs(miss)) <= rounding:
        raise InputError(
            f"there is no periodic orbit near: the nearest that a motion comes to closing misses its start by "
            f"{float(np.max(np.abs(miss))):.3g}. Is the period right? num_steps · dt is one period, or several"
        )


@eqx.filter_jit
def _map(method, system, params, x, t0, dt, num_steps: int, rows: int):
    n = x.shape[0] // 2

    def end(x):
        out = run(method, system, params, State(t0, x[:n], x[n:]), dt, num_steps, rows)
        final = jnp.concatenate([out.q[-1], out.p[-1]])
        return final, (final, out.num_impacts, out.status)

    jacobian, (final, hits, status) = jax.jacfwd(end, has_aux=True)(x)
    return final, jacobian, hits, status
