"""The contract of a method, and the records it fills.

A method is frozen numerics. It derives from `Method`, declares its `order` and what it `preserves`, and can

1. `init(system, q0, v0, t0, params)`: a `State`;
2. `advance(system, params, start, grid)`: many steps inside one compiled computation, until a limit, a failure or a full impact
   table. `kernel=True` allows it to be compiled as one kernel (xla/kernel.py); a method that cannot may ignore it;
3. `check(system, params, state, dt)`: raise an `InputError` for problems that it cannot run.

To add a method: write the scheme with numbered equations in the class docstring, return a `Chunk`, declare what it preserves,
and add it to `tests/test_order.py` and `tests/test_conservation.py`, which measure the declarations.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from carom.errors import InputError
from carom.system.system import System
from carom.xla.kernel import single_kernel

# What ended a computation; `solution.Status` turns the codes into sentences.
OK, TOO_MANY_IMPACTS, UNSETTLED, NOT_CONVERGED, NOT_FINITE, TABLE_FULL, RESTING, CONTACT_UNSOLVED = range(8)


class State(NamedTuple):
    t: Float[Array, ""]
    q: Float[Array, " n"]
    p: Float[Array, " n"]


class Grid(NamedTuple):
    """The steps that `advance` is asked for, and the room it has. The state at step 0 is at the time t of its `start`."""

    dt: Float[Array, ""]
    first: Int[Array, ""]  #  the number of the first step
    limit: Int[Array, ""]  #  how many steps
    most: Int[Array, ""]  #   how many impacts: the step that reaches them is the last
    length: int  #            room for so many steps
    rows: int  #              room for so many impacts

    def time(self, start: State, step) -> Float[Array, ""]:
        """When the step with this number, counted from `first`, begins."""
        return start.t + (self.first + step) * self.dt


class ImpactTable(NamedTuple):
    """One row per impact. The last row is a scratch row."""

    step: Int[Array, " rows"]
    t: Float[Array, " rows"]
    q: Float[Array, "rows n"]
    p_before: Float[Array, "rows n"]
    p_after: Float[Array, "rows n"]
    impulse: Float[Array, "rows k"]  #   normal impulse of each contact face
    closing: Int[Array, " rows"]  #      the contact whose gap closed; others may have been closed before
    scale: Float[Array, " rows"]  #      size relative to the law: 1 + O(dt²)
    balanced: Bool[Array, " rows"]  #    size from the balance of the discrete energy
    fallback: Bool[Array, " rows"]  #    elastic, but reflected exactly for want of a root

    @staticmethod
    def empty(rows: int, n: int, k: int, dim: int | None = None) -> "ImpactTable":
        """Room for `rows` impacts; `dim` is the length of p where it is not that of q."""
        dim = n if dim is None else dim
        z = lambda *shape: jnp.zeros((rows + 1, *shape))  # noqa: E731
        whole, no = jnp.zeros(rows + 1, jnp.int32), jnp.zeros(rows + 1, bool)
        return ImpactTable(whole, z(), z(n), z(dim), z(dim), z(k), whole, z(), no, no)


class StepRecord(NamedTuple):
    """What a timestepping method knows of one step, or of each step where arrays have a leading axis of rows.

    The r rows of forces and impulses are the normal ones of the k contact faces, then the tangential ones of each face, then the
    joints. Between the ends of a step velocities and forces are the polynomials through their values at the s nodes.
    """

    velocities: Float[Array, "s n"]
    forces: Float[Array, "s r"]
    impulses: Float[Array, " r"]  #  at the end of the step


class Chunk(NamedTuple):
    """What `advance` returns."""

    state: State
    steps: Int[Array, ""]  #          how many were taken
    status: Int[Array, ""]
    states: Float[Array, "rows 2n"]  #  q and p after each step; rows beyond `steps` are scratch
    impacts: ImpactTable
    num_impacts: Int[Array, ""]
    record: StepRecord | None = None  #  of timestepping methods: contact forces, and what dense output needs


class Method(eqx.Module):
    """What all methods have in common."""

    stages = 0  #                 nodes per step in the `StepRecord`; 0 without one
    takes_joints = False
    takes_constraints = True  #   velocity constraints, and spaces with rotations
    kernels = False  #            `advance` may be part of a kernel

    order: eqx.AbstractVar[int]
    preserves: eqx.AbstractVar[tuple[str, ...]]
    max_impacts_per_step: eqx.AbstractVar[int]

    def init(self, system: System, q0: Array, v0: Array, t0: Any = 0.0, params: Any = None) -> State:
        """The state with velocity v0."""
        t = jnp.asarray(t0, q0.dtype)
        return State(t, q0, system.bind(params, q0.shape[0]).momentum(q0, v0, t))

    def check(self, system: System, params: Any, state: State, dt: float) -> None:
        """Refuse what this method cannot run. Methods that refuse more say so before or after this."""
        name = type(self).__name__
        if system.joints and not self.takes_joints:
            raise InputError(f"{name} does not take systems with joints; choose MoreauJean or TimeDG")
        if self.takes_constraints:
            return
        if system.constraints is not None:
            raise InputError(f"{name} does not take velocity constraints; choose VariationalCollision or EventDriven")
        if state.q.shape != state.p.shape:
            raise InputError(f"{name} takes Euclidean spaces only; choose VariationalCollision")
        if system.hamiltonian is not None:
            raise InputError(f"{name} needs a lagrangian, and this system is given by a hamiltonian: choose EventDriven()")

    @abc.abstractmethod
    def advance(self, system: System, params: Any, start: State, grid: Grid, *, kernel: bool = False) -> Chunk:
        """The steps of `grid` from `start`, until they are done or a step could overflow the table or fails."""


class Advanced(NamedTuple):
    """What leaves a kernel. The final state is the last row of the history: a state that the loop does not change would be an
    argument handed through, and that is what a kernel must not do."""

    steps: Int[Array, ""]
    status: Int[Array, ""]
    history: Float[Array, "length 2n"]
    table: ImpactTable
    num_impacts: Int[Array, ""]
    record: StepRecord | None = None


def as_kernel(
    go: Callable[..., Advanced], method: Method, system: System, params: Any, start: State, grid: Grid, kernel: bool
) -> Chunk:
    """`go(method, system, params, start, grid, good)` as one kernel, or as it is; `good` is false where an input is not finite."""
    # Everything that may be traced goes in as an argument: a kernel closes over nothing.
    arrays, functions = eqx.partition((method, system, params, start, grid), eqx.is_array)

    def run(witness, arrays):
        return go(*eqx.combine(arrays, functions), jnp.isfinite(witness))

    out = single_kernel(run, arrays) if kernel else run(jnp.zeros(()), arrays)
    n = start.q.shape[0]
    final = jnp.where(out.steps > 0, out.history[out.steps - 1], jnp.concatenate([start.q, start.p]))
    state = State(grid.time(start, out.steps), final[:n], final[n:])
    return Chunk(state, out.steps, out.status, out.history, out.table, out.num_impacts, out.record)
