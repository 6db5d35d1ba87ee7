"""What a run kept, and what it did not: energies, momentum maps, the symplectic form, penetration, order."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom.errors import InputError
from carom.methods.method import State
from carom.named import Named
from carom.solution import Solution, gaps_along
from carom.system import System


def energy(system: System, q: Any, v: Any, t: float = 0.0, params: Any = None) -> float:
    """E = ∂L/∂v · v − L at one state."""
    q, v = jnp.asarray(q, float), jnp.asarray(v, float)
    return float(system.bind(params, q.shape[0]).energy(q, v, jnp.asarray(t, float)))


def discrete_energy(solution: Solution) -> np.ndarray:
    """E_d of each step without an impact, −D₃L_d of (55) [fetecau2003]; NaN for steps with impacts, which have several."""
    values = np.array(_discrete_energies(solution.method.rule, solution.system, solution.params, solution.dt, *_starts(solution)))
    values[np.unique(solution.impacts.step)] = np.nan
    return values


def _starts(solution: Solution) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if len(solution.t) != solution.num_steps + 1:
        raise InputError("this needs every state of the grid; run again with stride=1")
    return solution.t[:-1], solution.q[:-1], solution.p[:-1]


@eqx.filter_jit
def _discrete_energies(rule, system, params, dt, t, q, p):
    flow = rule.flow(system.bind(params, q.shape[1]))
    return jax.vmap(lambda t, q, p: flow(q, p, t, jnp.asarray(dt)).energy_end)(t, q, p)


def momentum_map(solution: Solution, generator: Callable[..., Any]) -> np.ndarray:
    """J_ξ = p · ξ_Q(q) along the run, §2.4 and §3.4 of [fetecau2003].

    `generator(q, t, params)` is the infinitesimal generator ξ_Q of a symmetry: (1, 0) for translations along x, (−y, x) for
    rotations. J is conserved where the Lagrangian and every contact are invariant under it.
    """
    xi = Named(generator, ("q", "t", "params"), "generator")
    rows = [np.asarray(xi(q=q, t=t, params=solution.params), float) for q, t in zip(solution.q, solution.t, strict=True)]
    return np.einsum("ij,ij->i", solution.p, np.stack(rows))


def penetration(solution: Solution, samples: int = 0) -> float:
    """The deepest violation of any gap, at the nodes, at the impacts and at `samples` points inside each impact-free step."""
    depth = max(
        _depth(solution.system, solution.params, solution.t, solution.q),
        _depth(solution.system, solution.params, solution.impacts.t, solution.impacts.q) if len(solution.impacts) else 0.0,
    )
    if samples:
        free = np.setdiff1d(np.arange(solution.num_steps), solution.impacts.step)
        t, q, p = (array[free] for array in _starts(solution))
        for i in range(1, samples + 1):
            part = solution.dt * i / (samples + 1)
            depth = max(depth, float(_inner_depth(solution.method.rule, solution.system, solution.params, part, t, q, p)))
    return depth


def _depth(system: System, params: Any, t: np.ndarray, q: np.ndarray) -> float:
    return float(jnp.maximum(0.0, -jnp.min(gaps_along(system, params, t, q))))


@eqx.filter_jit
def _inner_depth(rule, system, params, part, t, q, p):
    mechanics = system.bind(params, q.shape[1])
    flow = rule.flow(mechanics)
    inner = jax.vmap(lambda t, q, p: mechanics.gaps(flow(q, p, t, part).q, t + part))
    return jnp.maximum(0.0, -jnp.min(inner(t, q, p), initial=0.0))


def gaps(solution: Solution) -> np.ndarray:
    """All gaps along the grid, one column per contact."""
    return solution.gaps


def step_jacobian(system: System, method: Any, q: Any, p: Any, dt: float, t: float = 0.0, params: Any = None) -> np.ndarray:
    """∂(q₁, p₁)/∂(q, p) of one step, through any impacts in it."""
    x = jnp.concatenate([jnp.asarray(q, float), jnp.asarray(p, float)])
    return np.asarray(_step_jacobian(method, system, params, x, jnp.asarray(dt, float), jnp.asarray(t, float)))


@eqx.filter_jit
def _step_jacobian(method, system, params, x, dt, t):
    n = x.shape[0] // 2

    def step(x):
        state = method.step(system, State(t, x[:n], x[n:]), dt, params)
        return jnp.concatenate([state.q, state.p])

    return jax.jacfwd(step)(x)


def symplectic_defect(system: System, method: Any, q: Any, p: Any, dt: float, t: float = 0.0, params: Any = None) -> float:
    """|JᵀΩJ − Ω| / |J|² of one step, largest entries: zero to rounding where the step is symplectic (§3.3)."""
    jacobian = step_jacobian(system, method, q, p, dt, t, params)
    n = jacobian.shape[0] // 2
    omega = np.block([[np.zeros((n, n)), np.eye(n)], [-np.eye(n), np.zeros((n, n))]])
    defect = np.max(np.abs(jacobian.T @ omega @ jacobian - omega))
    return float(defect / np.max(np.abs(jacobian)) ** 2)


def measured_order(steps: Sequence[float], errors: Sequence[float]) -> float:
    """The slope of log(error) against log(dt), by least squares."""
    return float(np.polyfit(np.log(steps), np.log(errors), 1)[0])
