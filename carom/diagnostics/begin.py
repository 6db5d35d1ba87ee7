"""What diagnostics of motions are given, checked once for all of them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from carom.errors import InputError
from carom.methods.capabilities import require
from carom.named import frozen
from carom.running.checks import Problem, check_problem, structure
from carom.running.options import check_clock, check_grid, check_method, whole
from carom.system.one_state import check_leaves, one_state
from carom.system.system import System


class Begin(NamedTuple):
    """A checked start: the problem, the grid, and room for impacts."""

    problem: Problem
    dt: jax.Array
    num_steps: int
    rows: int

    @property
    def x(self) -> jax.Array:
        """The state as one vector (q, p)."""
        return jnp.concatenate([self.problem.q0, self.problem.p0])

    @property
    def fixed(self) -> tuple[Any, Any]:
        """What is the same for all states: the system and its parameters."""
        return self.problem.system, self.problem.params


def one_step(system: System, q: Any, p: Any, dt: Any, t: Any, params: Any) -> tuple[System, Any, Any, Any, Any]:
    """What one step is taken of: the system, frozen, with functions that were looked at, and the state, its step and its time."""
    check_leaves(params)
    system, (q, p, t) = frozen(system), one_state(system, q, p, t, ("q", "p", "t"))
    step = jnp.asarray(check_grid(dt, 1)[0])
    structure(system, q, {} if params is None else params, t, p.size, None, values=False)
    return system, q, p, step, t


def begin(
    what: str, system: System, method: Any, q0: Any, v0: Any, dt: Any, num_steps: Any, params: Any, t0: Any, max_impacts: Any = 1
) -> Begin:
    """Refuse, with a sentence, what a map of states on a vector space cannot be made of."""
    step, total = check_grid(dt, num_steps)
    check_method(method)
    problem = check_problem(frozen(system), q0, v0, params, t0)
    check_clock(step, total, float(t0))
    require(problem.needs, method, "gradients")
    if problem.p0.size != problem.q0.size:
        raise InputError(f"{what} are computed on vector spaces, and this system has rotations")
    if problem.system.controller is not None:
        raise InputError(f"{what} are computed from q and p alone, and this system has a controller, whose memory is a state too")
    return Begin(problem, jnp.asarray(step), total, whole(max_impacts, "max_impacts"))
