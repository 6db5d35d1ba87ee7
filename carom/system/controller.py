"""Controllers that are sampled: a rule that is asked at fixed instants, and a command that is held until the next one."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from carom.calls import public
from carom.errors import InputError
from carom.named import Named
from carom.wanted import Count, Positive, Steps

KNOWN = ("q", "v", "t", "memory", "params")


@public
class Controller(eqx.Module):
    """A discrete-time controller with memory, as it runs on a computer beside the machine.

        (u_k, z_{k+1}) = rule(q(t_k), v(t_k), t_k, z_k)        at t_k = t0 + k · every · dt                              (1)
        u(t) = u_k                                             for t_k ≤ t < t_{k+1}: a zero-order hold                  (2)

    Between two samples the motion is that of a constant command, with every method. The system's `force` asks for `u` by name:

        System(lagrangian, force=lambda u: u, controller=Controller(rule, memory={"integral": 0.0}, period=0.02))

    - `rule(q, v, t, memory, params)`: any of these, by name; it returns the command and the new memory, `return u, memory`. It is
      compiled into the loop, so it is written with jax.numpy.
    - `memory`: what it keeps from one sample to the next: a number, an array, or a dict or list of them (z_0). Whole numbers are
      kept as floating ones. Without memory, the rule still returns a pair: `return u, memory`, or `return u, ()`.
    - `every`: steps of dt between two samples; or `period`: the time between them, a whole multiple of dt.
    - `commands`: how many numbers u has; a single one is handed on as a vector of length 1.

    The first sample is taken at t0. A computer that needs one period to answer keeps its last answer in the memory, and returns it.
    """

    rule: Named
    memory: Any
    every: Int[Array, ""] | None
    period: Float[Array, ""] | None
    commands: int = eqx.field(static=True)

    def __init__(
        self,
        rule: Callable[..., Any],
        memory: Any = (),
        *,
        every: Steps | None = None,
        period: Positive | None = None,
        commands: Count = 1,
    ):
        self.rule = Named(rule, KNOWN, "controller")
        self.memory = jax.tree_util.tree_map_with_path(_number, memory)
        if (every is None) == (period is None):
            raise InputError("a controller is sampled every so many steps, or with a period: pass every= or period=")
        self.every = None if every is None else jnp.asarray(every, jnp.int32)
        self.period = None if period is None else jnp.asarray(period, float)
        self.commands = commands

    def on_grid(self, dt: Any) -> "Controller":
        """The same, with `every` counted in steps of dt."""
        if self.every is not None:
            return self
        assert self.period is not None
        if isinstance(dt, jax.core.Tracer):
            raise InputError("dt is being traced, and the controller has a period: give it every=, a number of steps, instead")
        steps = float(self.period) / np.asarray(dt, float)
        count = np.round(steps).astype(int)
        if np.any(count < 1) or np.any(np.abs(steps - count) > 1e-6):
            worst = np.atleast_1d(np.asarray(dt, float))[np.argmax(np.atleast_1d(np.abs(steps - count)))]
            better = float(self.period) / max(1, np.ceil(float(self.period) / worst))
            raise InputError(
                f"the controller's period {float(self.period):g} is no whole multiple of dt = {worst:g}: "
                f"take dt = {better:.9g}, or every= so many steps"
            )
        if np.size(count) > 1 and np.any(count != count.flat[0]):
            raise InputError(
                "a controller with a period needs the same dt in all steps and lanes: give it every=, a number of steps, instead"
            )
        return eqx.tree_at(lambda c: c.every, self, jnp.asarray(count.flat[0], jnp.int32), is_leaf=lambda x: x is None)

    # -- what the loop carries: u and z in one row ------------------------------------------------------------------------------

    @property
    def start(self) -> Float[Array, " m+z"]:
        """No command yet, and the memory at the start."""
        return jnp.concatenate([jnp.zeros(self.commands), ravel_pytree(self.memory)[0].astype(float)])

    def command(self, row: Float[Array, " m+z"]) -> Float[Array, " m"]:
        return row[: self.commands]

    def sample(self, row: Float[Array, " m+z"], q, v, t, params: Any) -> Float[Array, " m+z"]:
        """(1)"""
        memory = ravel_pytree(self.memory)[1](row[self.commands :].astype(self.start.dtype))
        u, after = self.rule(q=q, v=v, t=t, memory=memory, params=params)
        u = jnp.asarray(u, row.dtype).reshape(self.commands)
        return jnp.concatenate([u, ravel_pytree(after)[0].astype(row.dtype)])

    def check(self, found: Any) -> None:
        """Does the rule return what it should? `found` are the shapes of what it returns."""
        if not (isinstance(found, tuple) and len(found) == 2):
            raise InputError("the controller must return the command and its memory: return u, memory")
        u, after = found
        if len(jax.tree.leaves(u)) != 1 or jax.tree.leaves(u)[0].size != self.commands:
            shape = [leaf.shape for leaf in jax.tree.leaves(u)]
            raise InputError(
                f"the controller returns a command of shape {shape[0] if len(shape) == 1 else shape}; it was announced with "
                f"commands={self.commands}"
            )
        before, after_shapes = (jax.tree.map(jnp.shape, tree) for tree in (self.memory, after))
        if jax.tree.structure(self.memory) != jax.tree.structure(after) or before != after_shapes:
            raise InputError(f"the controller's memory was {before} and becomes {after_shapes}: it must keep its names and shapes")


def _number(path: Any, leaf: Any) -> Array:
    try:
        array = jnp.asarray(leaf, float)
    except (TypeError, ValueError, OverflowError) as error:
        where = f"memory{jax.tree_util.keystr(path)}"
        raise InputError(f"{where} of the controller must be a number or an array; got {leaf!r}") from error
    return array


def sampler(system: Any, params: Any, n: int) -> Callable[..., Array] | None:
    """(row, q, p, t) → the row after a sample; None where there is no controller."""
    if system.controller is None:
        return None
    mechanics = system.bind(params, n)
    return lambda row, q, p, t: system.controller.sample(row, q, mechanics.velocity(q, p, t), t, params)
