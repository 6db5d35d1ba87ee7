"""The contract of a method, and the records it fills.

A method is frozen numerics: how one step of the motion is taken. It derives from `Method` and has

1. `order`, and `preserves`, what it keeps of every system it takes; `also_preserves(system)`, what it keeps of this one;
2. `takes`: what a system may need of it (`carom.methods.capabilities` names the needs), and `offers`: what can be done with it;
3. `one_step(mechanics, start)`: from a `StepStart` to a `StepEnd`. The loop over the steps, the history, the impact table, charts
   on rotations, chunks, status and derivatives are written once, in `carom.methods.loop` and `carom.methods.replay`.

It may have more: `glide`, a step that is cheap as long as nothing happens; `memory`, what one step hands on to the next; `check`,
for problems that it cannot run although it takes their kind.

To add a method: write the scheme with numbered equations in the class docstring, declare, and add it to the tests of orders and of
conservation, which measure the declarations.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from carom.methods.status import NOT_FINITE, OK
from carom.system.mechanics import Mechanics
from carom.system.system import System

# What the law of impact cannot do, for methods that locate impacts and apply it.
LAW_OF_IMPACT = {
    frozenset({"friction", "energy not quadratic"}): (
        "friction at impacts is written for energies that are quadratic in the velocities"
    ),
    frozenset({"massless", "contacts along massless directions"}): (
        "a gap that changes along a direction without mass has no law of impact"
    ),
    frozenset({"massless", "rotations"}): "directions without mass are found on vector spaces only",
}


class State(NamedTuple):
    t: Float[Array, ""]
    q: Float[Array, " n"]
    p: Float[Array, " n"]
    control: Float[Array, " m+z"] | None = None  # command and memory of a controller; None without one, or before its first sample


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

    @property
    def room(self) -> int:
        return self.t.shape[0] - 1


class StepRecord(NamedTuple):
    """What a timestepping method knows of one step, or of each step where arrays have a leading axis of rows.

    The r rows of forces and impulses are the normal ones of the k contact faces, then the tangential ones of each face, then the
    joints. Between the ends of a step velocities and forces are the polynomials through their values at the s nodes.
    """

    velocities: Float[Array, "s n"]
    forces: Float[Array, "s r"]
    impulses: Float[Array, " r"]  #  at the end of the step


class StepStart(NamedTuple):
    """A step that is to be taken, in coordinates of a vector space (or of masses at nodes)."""

    q: Float[Array, " n"]
    p: Float[Array, " n"]
    t: Float[Array, ""]
    t_end: Float[Array, ""]
    dt: Float[Array, ""]
    step: Int[Array, ""]  #           its number
    table: ImpactTable
    num_impacts: Int[Array, ""]  #    rows in use
    memory: Any  #                    what the step before has handed on
    asked: Bool[Array, ""]  #         false: nothing is to be done, and nothing should move
    differentiable: bool = False  #   take the step in a form whose derivatives are exact

    def end(self, q, p, status: Any = OK, **more: Any) -> "StepEnd":
        """A step that ends in (q, p); what is not finite has failed."""
        finite = jnp.all(jnp.isfinite(q)) & jnp.all(jnp.isfinite(p))
        status = jnp.where(finite, status, NOT_FINITE).astype(jnp.int32)
        return StepEnd(q, p, status, **{"table": self.table, "num_impacts": self.num_impacts, "memory": self.memory, **more})


class StepEnd(NamedTuple):
    q: Float[Array, " n"]
    p: Float[Array, " n"]
    status: Int[Array, ""]  #         OK, or why the step is not taken
    table: ImpactTable
    num_impacts: Int[Array, ""]
    memory: Any
    record: StepRecord | None = None
    jump: Float[Array, " n"] | None = None  # by how much impulses at its end change the velocity, where impacts act there


class Parts(NamedTuple):
    """The smaller steps that steps of the grid were made of, for a replay. The last row is a scratch row."""

    step: Int[Array, " rows"]  #    which step of the grid, counted from 0
    end: Float[Array, " rows"]  #   where in it the part ends; the last one at 1
    count: Int[Array, ""]  #        rows in use


class Glide(NamedTuple):
    """A step that was taken without looking for impacts, and whether nothing happened in it."""

    q: Float[Array, " n"]
    p: Float[Array, " n"]
    sight: Any  #                     what the next one needs to know of the contacts
    clear: Bool[Array, ""]


class Method(eqx.Module):
    """What all methods have in common."""

    takes: ClassVar[frozenset[str]] = frozenset()
    offers: ClassVar[frozenset[str]] = frozenset({"solve", "ensemble", "sweep", "checkpoint"})
    not_together: ClassVar[dict[frozenset[str], str]] = {}  # needs that are taken one by one, and why they are not together
    keeps_nodes: ClassVar[bool] = False  #     masses at nodes are stepped as such
    impacts_at_ends: ClassVar[bool] = False  # an impact acts at the end of the step that it falls into
    own_lengths: ClassVar[str | None] = None  # why `Adaptive` is not to choose the lengths of its steps; None where it may
    divides_steps: ClassVar[bool] = False  #   a step of the grid is made of smaller ones, which `noting` keeps

    order: eqx.AbstractVar[int]
    preserves: eqx.AbstractVar[tuple[str, ...]]

    # -- declarations --------------------------------------------------------------------------------------------------------

    def also_preserves(self, system: System) -> tuple[str, ...]:
        """What is kept of this system beyond `preserves`."""
        return ()

    def keeps(self, system: System) -> tuple[str, ...]:
        """All that is kept of this system. Interfaces are gone through: there a negative gap is the motion itself."""
        declared = (*self.preserves, *self.also_preserves(system))
        return tuple(name for name in declared if name != "non-penetration" or "interfaces" not in system.needs)

    def refuses(self, needs: frozenset[str]) -> str | None:
        """Why a combination of needs that are taken one by one is not taken together."""
        return next((why for together, why in self.not_together.items() if together <= needs), None)

    @property
    def nodes(self) -> np.ndarray:
        """Where in a step, from 0 to 1, the record holds velocities and forces; none without a record."""
        return np.zeros(0)

    @property
    def pushes_at_ends(self) -> bool:
        """What presses is an impulse at the end of each step, even at rest: there is no force within."""
        return False

    @property
    def impacts_reserved(self) -> int:
        """Rows of the impact table that a step usually needs at most; one that needs more is taken again with a longer table."""
        return 1

    def stability_limit(self, frequency: float) -> float:
        """The longest step that keeps small vibrations of this angular frequency bounded."""
        return float("inf")

    # -- one step ------------------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def one_step(self, mechanics: Mechanics, start: StepStart) -> StepEnd:
        """The step, with everything that happens in it."""

    def glide(self, mechanics: Mechanics) -> tuple[Callable[..., Any], Callable[..., Glide]] | None:
        """(sight(q, p, t), glide(q, p, t, dt, sight, memory)): steps that are cheap while nothing happens, or None."""
        return None

    def memory(self, mechanics: Mechanics, q, p, t, dt) -> Any:
        """What the first step is handed."""
        return ()

    def recentre(self, mechanics: Mechanics, q, memory: Any) -> Any:
        """The memory of a step that ended at q in a chart, as the next chart sees it."""
        return memory

    def needs_chart(self, mechanics: Mechanics) -> bool:
        """Is a step taken in a chart around its start? On a vector space there is no need."""
        return mechanics.functions.space is not None and not mechanics.lumped

    def prepare(self, mechanics: Mechanics) -> None:
        """Build what is constant over all steps, outside the loop."""

    def bind(self, system: System, params: Any, n: int) -> Mechanics:
        """The system as this method computes with it."""
        return system.bind(params, n, general=not self.keeps_nodes)

    def record(self, mechanics: Mechanics, rows: int) -> StepRecord | None:
        """Room for the records of so many steps."""
        return None

    def check(self, system: System, params: Any, state: State, dt: float) -> None:
        """Raise an `InputError` for a problem that cannot be run although its kind is taken."""

    # -- derivatives ---------------------------------------------------------------------------------------------------------

    def replayed_by(self) -> tuple[Any, Any]:
        """The method whose legs, and the method whose steps, a replay goes through (`carom.methods.replay`); None for none."""
        return None, self

    def noting(self, room: int | None = None) -> "Method":
        """The same method, leaving what its replay needs to know beyond states and impacts: where its steps are smaller than those
        of the grid, the ends of at most `room` of them."""
        return self

    def parts(self, memory: Any) -> Parts | None:
        """From the memory of the last step: what `noting` has kept; None where steps of the grid are steps of the method."""
        return None

    def replayed_in_chart(self, mechanics: Mechanics) -> bool:
        """Does a leg or a step of the replay have a chart of its own?"""
        return self.needs_chart(mechanics)

    replay_tolerance: ClassVar[float | None] = None  # how far a replayed leg may end from that of the run, over 1 + |q|

    def replayed_flow(self, mechanics: Mechanics) -> Callable[..., Any]:
        """The flow of a leg."""
        raise TypeError(f"{type(self).__name__} is replayed step by step")

    def init(self, system: System, q0: Array, v0: Array, t0: Any = 0.0, params: Any = None) -> State:
        """The state with velocity v0."""
        t = jnp.asarray(t0, q0.dtype)
        return State(t, q0, system.bind(params, q0.shape[0]).momentum(q0, v0, t))
