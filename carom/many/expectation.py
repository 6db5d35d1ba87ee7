"""Averages over many trajectories that can be differentiated."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from carom.calls import public
from carom.methods.replay import Run
from carom.running.rollout import rollout
from carom.system.system import System


@public
def expectation(
    loss: Callable[[Run], Any],
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
    q, v = jnp.atleast_2d(jnp.asarray(q0s, float)), jnp.atleast_2d(jnp.asarray(v0s, float))
    lanes = max(len(q), len(v), *(len(jnp.atleast_1d(x)) for x in (dt, *(each or {}).values())))
    q, v = jnp.broadcast_to(q, (lanes, q.shape[1])), jnp.broadcast_to(v, (lanes, v.shape[1]))
    steps = jnp.broadcast_to(jnp.asarray(dt, float), (lanes,))

    @jax.checkpoint
    def one(lane):
        q, v, step, own = lane
        everything = {**(params or {}), **own} if own else params
        run = rollout(system, method, q, v, dt=step, num_steps=num_steps, params=everything, t0=t0, max_impacts=max_impacts)
        return jnp.asarray(loss(run), float)

    own = {key: jnp.asarray(value, float) for key, value in (each or {}).items()}
    return jnp.mean(jax.lax.map(one, (q, v, steps, own)))
