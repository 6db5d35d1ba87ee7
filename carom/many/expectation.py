"""Averages over many trajectories that can be differentiated."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from carom.calls import public
from carom.errors import InputError
from carom.running.rollout import rollout
from carom.running.tracing import explained
from carom.system.one_state import pure_number
from carom.system.system import System
from carom.wanted import Function


@public
def expectation(
    loss: Function,
    system: System,
    method: Any,
    q0s: Any,
    v0s: Any,
    *,
    dt: Any,
    num_steps: int,
    params: Any = None,
    each: dict[str, Any] | None = None,
    t0: Any = 0.0,
    max_impacts: int = 64,
) -> Float[Array, ""]:
    """The mean over lanes of loss(run), where run is the `rollout` of a lane: for optimisation under uncertainty.

    Arguments are as in `carom.ensemble`. Pure: jit it, and differentiate it once, forwards or backwards, with respect to starts,
    parameters, dt and whatever `loss` closes over, through all impacts. Lanes are taken one after the other and run again on the
    way back, so the memory is that of one lane. A lane that fails makes the mean NaN.
    """
    each = {} if each is None else each
    if not isinstance(each, dict) or (each and not isinstance({} if params is None else params, dict)):
        raise InputError("each gives parameters by name, as a dict of arrays; params must then be a dict, too")
    own = {key: jnp.atleast_1d(pure_number(value, f"each[{key!r}]")) for key, value in each.items()}
    q, v = (jnp.atleast_2d(pure_number(x, name)) for x, name in ((q0s, "q0s"), (v0s, "v0s")))
    steps = jnp.atleast_1d(pure_number(dt, "dt"))
    if q.ndim != 2 or v.ndim != 2 or steps.ndim != 1:
        raise InputError(
            f"q0s and v0s are one row per lane, and dt is a number, or one per lane; got shapes {q.shape}, {v.shape}, {steps.shape}"
        )
    rows = {"q0s": len(q), "v0s": len(v), "dt": len(steps), **{f"each[{key!r}]": len(x) for key, x in own.items()}}
    lanes = max(rows.values())
    for name, count in rows.items():
        if count != lanes and (count != 1 or name.startswith("each")):
            raise InputError(f"{name} has {count} rows; there are {lanes} lanes")
    q, v = jnp.broadcast_to(q, (lanes, q.shape[1])), jnp.broadcast_to(v, (lanes, v.shape[1]))
    steps = jnp.broadcast_to(steps, (lanes,))

    @jax.checkpoint
    def one(lane):
        q, v, step, own = lane
        everything = {**({} if params is None else params), **own} if own else params
        run = rollout(system, method, q, v, dt=step, num_steps=num_steps, params=everything, t0=t0, max_impacts=max_impacts)
        with explained("the loss"):
            value = jnp.asarray(loss(run), float)
        if value.shape:
            raise InputError(f"the loss must be one number for each run; it has the shape {value.shape}")
        return value

    with explained("the mean over lanes"):
        return jnp.mean(jax.lax.map(one, (q, v, steps, own)))
