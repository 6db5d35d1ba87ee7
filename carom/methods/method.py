"""The contract of a method, and the records it fills.

A method is frozen numerics: it has a declared `order`, a tuple `preserves`, and can

1. `init(system, q0, v0, t0, params)`: a `State`;
2. `advance(...)`: many steps of length dt inside one compiled computation, until a limit, a failure or a full impact table.
   `kernel=True` allows it to be compiled as one kernel (numerics/kernel.py); a method that cannot may ignore it;
3. `check(system, params, state, dt)`, if it wants: raise an `InputError` for problems that it cannot run.

To add a method: write the scheme with numbered equations in the class docstring, return a `Chunk`, declare what it preserves,
and add it to `tests/test_order.py` and `tests/test_conservation.py`, which measure the declarations.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

# What ended a computation; `solution.Status` turns the codes into sentences.
OK, TOO_MANY_IMPACTS, UNSETTLED, NOT_CONVERGED, NOT_FINITE, TABLE_FULL, RESTING, CONTACT_UNSOLVED = range(8)


class State(NamedTuple):
    t: Float[Array, ""]
    q: Float[Array, " n"]
    p: Float[Array, " n"]


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
