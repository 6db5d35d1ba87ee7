"""The pure inside of `solve`: one function of arrays, to be jitted, vmapped and differentiated."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom.calls import public
from carom.errors import InputError
from carom.kept.remember import remembered
from carom.methods.capabilities import require
from carom.methods.method import State
from carom.methods.replay import Run
from carom.methods.stopped import stopped_run
from carom.methods.stops import Stop, stops_of
from carom.named import frozen, renewed, settled, traced_in
from carom.running.checks import check_start, needs_of
from carom.running.options import check_clock, check_grid, check_pure
from carom.running.pure_run import pure_run
from carom.running.structures import structure
from carom.running.tracing import checked_stops, controlled, explained
from carom.system.one_state import check_leaves, one_state, pure_number
from carom.system.system import System


@public
def rollout(
    system: System,
    method: Any,
    q0: Any,
    v0: Any,
    *,
    dt: Any,
    num_steps: int,
    params: Any = None,
    t0: Any = 0.0,
    max_impacts: int = 64,
    stop: Any = None,
) -> Run:
    """Simulate inside a traced computation: no host loop, a fixed number of rows for impacts. `dt` is one number, or the length of
    each step. Functions are checked as `solve` checks them, and so are numbers outside of jit, grad and vmap; inside nobody knows
    them, and a start that `solve` would refuse (in an obstacle, against a joint) is taken as it is.

    `stop`: as for `carom.solve`. The run ends at the first zero: `run.end` holds that instant and state (`t, q, p, v, steps`, and
    which `stop` it was, −1 for none), and later rows of the grid are NaN. Its derivatives are exact, too; where the function
    jumps through zero, as one of v does at an impact, they are NaN.

    First derivatives with respect to q0, v0, dt, t0, `params` and the numbers in the system are exact through any number of
    impacts, in forward and reverse mode, where the motion depends smoothly on them: not across a grazing contact, nor from one
    order of impacts to another. `MoreauJean` and `TimeDG` meet impacts at instants of their grid, which do not vary: their
    derivatives through impacts are those of that grid, not of the motion (`Adaptive` around them has these). Second derivatives are
    refused. `run.status` is 0 for a good run; after a failure, or with more than `max_impacts`, the rest of the grid is NaN, so
    it cannot be mistaken for a trajectory.
    """
    check_pure(system, method, num_steps, max_impacts)
    step, (q, v, t) = pure_number(dt, "dt"), one_state(system, q0, v0, t0, ("q0", "v0", "t0"))
    needs = needs_of(system)
    require(needs, method, "gradients")
    if jnp.ndim(dt) and jnp.shape(dt) != (int(num_steps),):
        raise InputError(f"dt must be a number, or have one entry for each of the {num_steps} steps; its shape is {jnp.shape(dt)}")
    system, method = frozen(system.on_grid(dt)), renewed(method)
    _refuse_traced(system)
    params = jax.tree.map(lambda x: np.asarray(x) if isinstance(x, float) else x, params)  # other numbers are no other program
    _check(system, q, v, t, params, stop)
    _check_steps(step, t, int(num_steps))
    system = settled(system, q=q, v=v, t=t, params=params, **controlled(system))
    with explained("the system"):
        quadratic = remembered(_is_quadratic, system, params, q.shape[0])
    require(needs if quadratic else needs | {"energy not quadratic"}, method, "gradients")
    stops = _stops(stop, q, v, params)
    dt = step
    if stops:
        return _stopped(method, system, params, q, v, t, dt, int(num_steps), int(max_impacts), stops)
    return pure_run((method, system, params, q, v, t, dt), int(num_steps), int(max_impacts))


def _check(system: System, q: Any, v: Any, t: Any, params: Any, stop: Any) -> None:
    """Numbers that are known are checked as those of `solve`. Where they are traced, the functions are looked at, once."""
    params = {} if params is None else params
    check_leaves(params)
    if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((system, params, q, v, t))):
        structure(system, q, params, t, v.size, stop, values=False)
        return
    q, v, t = np.asarray(q), np.asarray(v), float(t)
    for name, values in (("q0", q), ("v0", v), ("t0", np.asarray(t))):
        if not np.isfinite(values).all():
            raise InputError(f"{name} is {values}; all entries must be finite numbers")
    check_start(system, q, v, jax.tree.map(np.asarray, params), t, False, stop)


def _check_steps(dt: Any, t: Any, num_steps: int) -> None:
    """Lengths of steps that are known are checked as those of `solve`; backwards in time impacts have no law."""
    if isinstance(dt, jax.core.Tracer):
        return
    lengths = np.atleast_1d(np.asarray(dt))
    for step in (np.min(lengths), np.max(lengths)):  # what is not a number is both
        check_grid(float(step), num_steps)
    if not isinstance(t, jax.core.Tracer):
        check_clock(float(np.min(lengths)), num_steps, float(t))


def _stops(stop: Any, q: Any, v: Any, params: Any) -> tuple[Stop, ...]:
    _refuse_traced(frozen(stops_of(stop)))
    return checked_stops(stop, q, params, v.size)


def _refuse_traced(tree: Any) -> None:
    blind = traced_in(tree)
    if blind is not None:
        raise InputError(
            f"the {blind.role} captures a value that JAX is tracing, and a derivative with respect to it would be lost: "
            "hand it over through params, as in rollout(system, …, params={'g': g})"
        )


def _is_quadratic(system: System, params: Any, n: int) -> bool:
    """Is the energy quadratic in the velocities? The structure shows it: nothing is computed."""
    found: list[bool] = []
    arrays, rest = eqx.partition((system, params), eqx.is_array_like)
    jax.eval_shape(
        lambda arrays: found.append(eqx.combine(arrays, rest)[0].bind(eqx.combine(arrays, rest)[1], n).quadratic), arrays
    )
    return found[0]


@eqx.filter_jit  # outside of any other computation, too, it is compiled once
def _stopped(method, system, params, q, v, t, dt, num_steps: int, max_impacts: int, stops: tuple[Stop, ...]) -> Run:
    start = State(t, q, system.bind(params, q.shape[0]).momentum(q, v, t))
    return stopped_run(method, system, params, start, dt, num_steps, max_impacts, stops)
