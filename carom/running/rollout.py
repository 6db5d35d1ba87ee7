"""The pure inside of `solve`: one function of arrays, to be jitted, vmapped and differentiated."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from carom.errors import InputError
from carom.methods.method import State
from carom.methods.variational.replay import Run, run
from carom.named import frozen, traced_in
from carom.running.options import check_pure
from carom.system.system import System


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
) -> Run:
    """Simulate inside a traced computation: no checks of the input, no host loop, a fixed number of rows for impacts.

    First derivatives with respect to q0, v0, dt, t0, `params` and the numbers in the system are exact through any number of
    impacts, in forward and reverse mode, where the motion depends smoothly on them: not across a grazing contact, nor from one
    order of impacts to another. Second derivatives are not supported. `run.status` is 0 for a good run; after a failure, or with
    more than `max_impacts`, the rest of the grid is NaN, so it cannot be mistaken for a trajectory.
    """
    check_pure(system, method, num_steps, max_impacts, q0=q0, v0=v0, dt=dt, t0=t0)
    q = jnp.asarray(q0, float)
    v = jnp.asarray(v0, float)
    if system.space is not None and system.space.size != system.space.dim:
        raise InputError("rollout differentiates runs on vector spaces; on rotations use carom.solve")
    if q.ndim != 1 or q.shape != v.shape:
        raise InputError(
            f"q0 and v0 must be vectors of the same length; got shapes {q.shape} and {v.shape} (use jax.vmap for many)"
        )
    system = frozen(system)
    blind = traced_in(system)
    if blind is not None:
        raise InputError(
            f"the {blind.role} captures a value that JAX is tracing, and a derivative with respect to it would be lost: "
            "hand it over through params, as in rollout(system, …, params={'g': g})"
        )
    t = jnp.asarray(t0, float)
    p = system.bind(params, q.shape[0]).momentum(q, v, t)
    return _run(method, system, params, State(t, q, p), jnp.asarray(dt, float), int(num_steps), int(max_impacts))


_run = eqx.filter_jit(run)  # outside of any other computation, too, it is compiled once
