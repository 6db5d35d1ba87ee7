"""What a run kept, and what it did not: energies, momentum maps, the symplectic form, penetration, order."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom.calls import public
from carom.diagnostics.begin import one_step
from carom.errors import InputError
from carom.methods import replay
from carom.methods.loop import Chunk
from carom.methods.method import Method, State
from carom.named import Named
from carom.results.solution import Solution, gaps_along
from carom.running.solve import solve
from carom.running.tracing import check_function, explained, numbers_along
from carom.system.one_state import check_leaves, one_state
from carom.system.system import System
from carom.wanted import Whole

MOST_IMPACTS = 64  # in one step


@public
def energy(system: System, q: Any, v: Any, t: float = 0.0, params: Any = None) -> float:
    """E = ∂L/∂v · v − L at one state."""
    check_leaves(params)
    q, v, t = one_state(system, q, v, t, ("q", "v", "t"))
    with explained("the energy of this state"):
        return float(system.bind(params, q.shape[0]).energy(q, v, t))


@public
def discrete_energy(solution: Solution) -> np.ndarray:
    """E_d of each step without an impact, −D₃L_d of (55) [fetecau2003]; NaN for steps with impacts, which have several."""
    starts, lengths = _starts(solution), np.diff(solution.t)
    values = np.array(_discrete_energies(solution.method, solution.system, solution.params, lengths, *starts))
    values[np.unique(solution.impacts.step)] = np.nan
    return values


def _starts(solution: Solution) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if len(solution.t) != solution.num_steps + 1:
        raise InputError("this needs every state of the grid; run again with stride=1")
    return solution.t[:-1], solution.q[:-1], solution.p[:-1]


@eqx.filter_jit
def _discrete_energies(method, system, params, dt, t, q, p):
    flow = method.flow(method.bind(system, params, q.shape[1]))
    return jax.vmap(lambda dt, t, q, p: flow(q, p, t, dt).energy_end)(jnp.asarray(dt), t, q, p)


@public
def momentum_map(solution: Solution, generator: Callable[..., Any]) -> np.ndarray:
    """J_ξ = p · ξ_Q(q) along the run, §2.4 and §3.4 of [fetecau2003].

    `generator(q, t, params)` is the infinitesimal generator ξ_Q of a symmetry: (1, 0) for translations along x, (−y, x) for
    rotations. J is conserved where the Lagrangian and every contact are invariant under it. On rotations ξ_Q is a velocity in the
    body, Λᵀe for turning about the axis e of space.
    """
    xi = Named(generator, ("q", "t", "params"), "generator")
    points = ({"q": q, "t": t, "params": solution.params} for q, t in zip(solution.q, solution.t, strict=True))
    return np.einsum("ij,ij->i", solution.p, numbers_along(xi, solution.p.shape[1], points))


@public
def momentum_in_space(solution: Solution) -> np.ndarray:
    """Linear and angular momentum in space, (p_x, p_y, p_z, J_x, J_y, J_z) on the grid: the momentum maps of SE(3), which carries
    all bodies along alike. For spaces made of `SE3`, `SO3` and points in space (`Euclidean(3)`, `Euclidean(6)`, …).

    Both are kept where Lagrangian and contacts know of no place and no direction in space: bodies that attract one another and
    collide, §2.4 of [fetecau2003]."""
    space = solution.system.space
    if space is None:
        raise InputError("the system does not say where it lives: System(space=carom.Euclidean(3)), or a product with SE3()")
    return np.asarray(_momenta_in_space(space, jnp.asarray(solution.q), jnp.asarray(solution.p)))


@eqx.filter_jit
def _momenta_in_space(space, q, p):
    axes, zero = jnp.eye(3), jnp.zeros(3)

    def at(q, p):
        linear = [p @ space.carried(q, zero, axis) for axis in axes]
        return jnp.stack([*linear, *(p @ space.carried(q, axis, zero) for axis in axes)])

    return jax.vmap(at)(q, p)


@public
def penetration(solution: Solution, samples: Whole = 0) -> float:
    """The deepest violation of any gap, at the nodes, at the impacts and at `samples` points inside each impact-free step."""
    depth = max(
        _depth(solution.system, solution.params, solution.t, solution.q),
        _depth(solution.system, solution.params, solution.impacts.t, solution.impacts.q) if len(solution.impacts) else 0.0,
    )
    if samples:
        free = np.setdiff1d(np.arange(solution.num_steps), solution.impacts.step)
        t, q, p = (array[free] for array in _starts(solution))
        for i in range(1, samples + 1):
            part = np.diff(solution.t)[free] * i / (samples + 1)
            depth = max(depth, float(_inner_depth(solution.method, solution.system, solution.params, part, t, q, p)))
    return depth


def _depth(system: System, params: Any, t: np.ndarray, q: np.ndarray) -> float:
    return float(jnp.maximum(0.0, -jnp.min(gaps_along(system, params, t, q))))


@eqx.filter_jit
def _inner_depth(method, system, params, part, t, q, p):
    mechanics = method.bind(system, params, q.shape[1])
    flow = method.flow(mechanics)
    inner = jax.vmap(lambda part, t, q, p: mechanics.contacts.gaps(flow(q, p, t, part).q, t + part))
    return jnp.maximum(0.0, -jnp.min(inner(jnp.asarray(part), t, q, p), initial=0.0))


@public
def gaps(solution: Solution) -> np.ndarray:
    """All gaps along the grid, one column per contact."""
    return solution.gaps


@public
def step_jacobian(system: System, method: Method, q: Any, p: Any, dt: float, t: float = 0.0, params: Any = None) -> np.ndarray:
    """∂(q₁, p₁)/∂(q, p) of one step, through any impacts in it. On rotations both ends are seen in canonical coordinates
    (x, Dᵀp) of charts around them, see `carom.system.charts`."""
    system, q, p, dt, t = one_step(system, q, p, dt, t, params)
    if "rotations" not in system.needs:
        return np.asarray(_step_jacobian(method, system, params, jnp.concatenate([q, p]), q.shape[0], dt, t))
    # The step once, by a program of its own, and one more for its derivative along one direction: all directions at once, with the
    # step inside, take many times as long to compile for bodies that turn.
    taken = taken_step(method, system, params, q, p, t, dt, MOST_IMPACTS)
    directions = jnp.eye(2 * p.shape[0])
    return np.stack([np.asarray(_canonical(method, system, params, taken, q, p, t, dt, x)) for x in directions], axis=1)


@eqx.filter_jit
def _step_jacobian(method, system, params, x, size: int, dt, t):
    def step(x):
        state = replay.one_step(method, system, State(t, x[:size], x[size:]), dt, params)
        return jnp.concatenate([state.q, state.p])

    return jax.jacfwd(step)(x)


@eqx.filter_jit
def taken_step(method, system, params, q, p, t, dt, most: int) -> Chunk:
    """What happens in one step, with room for so many impacts."""
    return replay.advanced(method, system, params, State(t, q, p), dt, 1, most, None)


@eqx.filter_jit
def _canonical(method, system, params, taken: Chunk, q, p, t, dt, direction):
    """How the end of the step moves, in canonical coordinates around both ends."""
    space, n = system.space, p.shape[0]

    def step(y):
        start = State(t, space.retract(q, y[:n]), space.chart_momentum(y[:n], p + y[n:]))
        run = replay.run(method, system, params, start, dt, 1, MOST_IMPACTS, chunk=taken)
        around = space.inverse_retract(taken.states[0, : q.shape[0]], run.q[-1])
        _, back = jax.vjp(lambda rates: space.chart_velocity(around, rates), jnp.zeros(n))
        return jnp.concatenate([around, back(run.p[-1])[0]])

    return jax.jvp(step, (jnp.zeros(2 * n),), (direction,))[1]


@public
def symplectic_defect(system: System, method: Method, q: Any, p: Any, dt: float, t: float = 0.0, params: Any = None) -> float:
    """|JᵀΩJ − Ω| / |J|² of one step, largest entries: zero to rounding where the step is symplectic (§3.3)."""
    jacobian = step_jacobian(system, method, q, p, dt, t, params)
    n = jacobian.shape[0] // 2
    omega = np.block([[np.zeros((n, n)), np.eye(n)], [-np.eye(n), np.zeros((n, n))]])
    defect = np.max(np.abs(jacobian.T @ omega @ jacobian - omega))
    return float(defect / np.max(np.abs(jacobian)) ** 2)


@public
def constraint_residual(solution: Solution) -> float:
    """The largest |A(q) v| on the grid and after every impact, relative to the largest |A| |v|: rounding, if they hold."""
    hits = solution.impacts
    t, q, p = (np.concatenate(pair) for pair in ((solution.t, hits.t), (solution.q, hits.q), (solution.p, hits.p_after)))
    if solution.system.constraints is None:
        raise InputError("this system has no velocity constraints")
    return float(_slips(solution.system, solution.params, t, q, p))


@eqx.filter_jit
def _slips(system, params, t, q, p):
    mechanics = system.bind(params, q.shape[1])

    def slip(q, p, t):
        # The velocity of the momentum as it stands, without the help of the constraints: p may hold a part in Δ°.
        v = jnp.linalg.lstsq(mechanics.mass(q, p, t), p - mechanics.momentum(q, jnp.zeros_like(p), t))[0]
        A = mechanics.functions.constraints(q, t)
        return jnp.max(jnp.abs(A @ v)), jnp.max(jnp.abs(A) @ jnp.abs(v))

    slips, sizes = jax.vmap(slip)(q, p, t)
    return jnp.max(slips) / (jnp.max(sizes) + 1e-300)


@public
def nonholonomic_momentum(solution: Solution, field: Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
    """J = p · X(q) along the run, and what the momentum equation makes of it.

    `field(q, t, params)` is a vector field X with values in Δ, usually a symmetry whose generator is taken from place to place so
    that it stays admissible. The reaction of the constraints does no work on it, so

        dJ/dt = (∂L/∂q + f) · X + p · dX/dt,        and ΔJ = (p⁺ − p⁻) · X at an impact.

    Returned are J and J(0) plus the integral of the right-hand side by the trapezoidal rule: they agree to O(dt²), and J itself is
    constant where the right-hand side vanishes.
    """
    _starts(solution)
    X = Named(field, ("q", "t", "params"), "field").frozen()
    check_function(X, solution.q[0], solution.params, solution.p.shape[1])
    args = solution.t, solution.q, solution.p
    if solution.system.constraints is not None and _leaves_distribution(X, solution.system, solution.params, *args[:2]) > 1e-9:
        raise InputError("the field does not stay in Δ: A(q) X(q) is not zero along the run")
    J, rate = _momentum_equation(X, solution.system, solution.params, *args)
    J, rate = np.asarray(J), np.asarray(rate)
    steps = 0.5 * np.diff(solution.t) * (rate[1:] + rate[:-1])
    hits = solution.impacts
    if len(hits):  # both sides of an impact: the kick, and the rate before and after it
        before, rate_before = map(
            np.asarray, _momentum_equation(X, solution.system, solution.params, hits.t, hits.q, hits.p_before)
        )
        after, rate_after = map(np.asarray, _momentum_equation(X, solution.system, solution.params, hits.t, hits.q, hits.p_after))
        for k in np.unique(hits.step):
            rows = np.flatnonzero(hits.step == k)
            times = np.concatenate([[solution.t[k]], hits.t[rows], [solution.t[k + 1]]])
            left, right = np.concatenate([[rate[k]], rate_after[rows]]), np.concatenate([rate_before[rows], [rate[k + 1]]])
            steps[k] = np.sum(0.5 * np.diff(times) * (left + right)) + np.sum(after[rows] - before[rows])
    return J, J[0] + np.concatenate([[0.0], np.cumsum(steps)])


@eqx.filter_jit
def _leaves_distribution(X, system, params, t, q):
    A = system.bind(params, q.shape[1]).constraints
    return jnp.max(jax.vmap(lambda q, t: jnp.max(jnp.abs(A(q, t) @ jnp.asarray(X(q=q, t=t, params=params)))))(q, t))


@eqx.filter_jit
def _momentum_equation(X, system, params, t, q, p):
    mechanics = system.bind(params, q.shape[1])

    def at(q, p, t):
        v, push = mechanics.motion(q, p, t)
        x, turning = jax.jvp(lambda q, t: jnp.asarray(X(q=q, t=t, params=params), q.dtype), (q, t), (v, jnp.ones_like(t)))
        return p @ x, push @ x + p @ turning

    return jax.vmap(at)(q, p, t)


@public
def reversibility_error(
    system: System,
    method: Any,
    q0: Any,
    v0: Any,
    *,
    dt: float,
    num_steps: int,
    params: Any = None,
    back: Any = None,
) -> float:
    """Run forwards, turn the velocity around, run as long again (with the method `back`, if it is another): the distance to q0.

    Rounding, times what the motion makes of it, for methods that are their own inverse and systems that do not depend on time.
    """
    there = solve(system, method, q0, v0, dt=dt, num_steps=num_steps, params=params)
    again = solve(system, method if back is None else back, there.q[-1], -there.v[-1], dt=dt, num_steps=num_steps, params=params)
    return float(np.max(np.abs(again.q[-1] - there.q[0])))


@public
def measured_order(steps: Sequence[float], errors: Sequence[float]) -> float:
    """The slope of log(error) against log(dt), by least squares."""
    try:
        x, y = np.asarray(steps, float), np.asarray(errors, float)
    except (TypeError, ValueError):
        x = y = np.zeros(1)
    if x.ndim != 1 or x.shape != y.shape or x.size < 2 or not (np.all(x > 0) and np.all(y > 0)):
        raise InputError("an order is measured from at least two steps and as many errors as steps, all of them positive numbers")
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
