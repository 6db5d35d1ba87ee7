"""What the timestepping methods share: accelerations, joints, and the loop over the steps."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from carom.methods.method import NOT_FINITE, OK, Advanced, Chunk, Grid, ImpactTable, Method, State, StepRecord, as_kernel
from carom.numerics.linalg import matmul, matvec, solve
from carom.system.system import Mechanics, System
from carom.xla.structure import depends_on
from carom.xla.trees import choose, write_row


class Motion:
    """The equations of motion in velocities, M v̇ = f + Zᵀλ, of one system with its parameters."""

    def __init__(self, mechanics: Mechanics):
        self.mechanics = mechanics
        q, t = jnp.zeros(mechanics.dim), jnp.zeros(())
        self.params = mechanics.params
        self._steady = not any(depends_on(mechanics.momentum, q, q, t)[i] for i in (0, 2))  # ∂L/∂v depends on v alone
        used = depends_on(self.acceleration, q, q, t)
        self.explicit = not (used[0] or used[1])
        self.num_joints = self.joints(q, t).shape[0]
        self.rows = mechanics.num_faces * (1 + mechanics.slip_dim) + self.num_joints

    def acceleration(self, q, v, t) -> Float[Array, " n"]:
        """M⁻¹f: without contacts and joints."""
        mechanics = self.mechanics
        push = mechanics.node(q, v, t).push
        if not self._steady:
            push = push - jax.jvp(lambda q, t: mechanics.momentum(q, v, t), (q, t), (v, jnp.ones_like(t)))[1]
        return mechanics.inverse_mass_times(q, v, t, push)

    def joints(self, q, t) -> Float[Array, " j"]:
        values = [jnp.atleast_1d(jnp.asarray(joint.g(q=q, t=t, params=self.params))) for joint in self.mechanics.system.joints]
        return jnp.concatenate(values).astype(float) if values else jnp.zeros(0)

    def contact_rows(self, q, t) -> Float[Array, " c"]:
        """Gaps, then slips: the coordinates that the contacts act on."""
        return jnp.concatenate([self.mechanics.faces(q, t), self.mechanics.slips(q, t).reshape(-1)])

    def joint_rates(self, q, v, t) -> Float[Array, " j"]:
        return jax.jvp(self.joints, (q, t), (v, jnp.ones_like(t)))[1]

    def held(self, q, v, t, soften: Callable[[Array], Array] = lambda x: x) -> "Held":
        """The joints at one configuration. `soften` is what an implicit step makes of a sudden change of the velocity."""
        normals = jax.jacfwd(self.joints)(q, t)
        response = soften(self.mechanics.inverse_mass_times(q, v, t, normals.T))
        return Held(normals, response, matmul(normals, response))

    def closer(self, q, v, t, rows: Callable[[Array], Array], wanted: Bool[Array, " c"], iterations: int = 3):
        """The nearest configuration, in the kinetic metric, with zero joints and zero `rows` where these are wanted."""
        live = jnp.concatenate([wanted, jnp.ones(self.num_joints, bool)])
        if live.shape[0] == 0:
            return q
        function = lambda q: jnp.concatenate([rows(q), self.joints(q, t)])  # noqa: E731

        def improve(_, q):
            normals = jax.jacfwd(function)(q)
            response = self.mechanics.inverse_mass_times(q, v, t, normals.T)
            matrix = jnp.where(live[:, None] & live[None, :], matmul(normals, response), 0.0)
            ridge = jnp.where(live, 1e-13 * jnp.max(jnp.diagonal(matrix)), 1.0)  # for contacts that depend on one another
            return q - matvec(response, solve(matrix + jnp.diag(ridge), jnp.where(live, function(q), 0.0)))

        return jax.lax.fori_loop(0, iterations, improve, q)


class Held(NamedTuple):
    """The joints, ready to be kept: they are eliminated before the contacts are solved."""

    normals: Float[Array, "j n"]
    response: Float[Array, "n j"]
    delassus: Float[Array, "j j"]

    def reaction(self, rates: Float[Array, "j *c"]) -> Float[Array, "j *c"]:
        """The impulses that bring these rates of the joints to zero."""
        return -solve(self.delassus, rates) if self.normals.shape[0] else rates

    def through(self, columns: Float[Array, "n c"]) -> Float[Array, "n c"]:
        """What is left of changes of the velocity when the joints hold against them."""
        if self.normals.shape[0] == 0:
            return columns
        return columns + matmul(self.response, self.reaction(matmul(self.normals, columns)))


class Step(NamedTuple):
    """One step of a timestepping method."""

    q: Float[Array, " n"]
    v: Float[Array, " n"]
    record: StepRecord
    jump: Float[Array, " n"]  #       Zᵀλ of the impulses at the end
    hits: Bool[Array, " k"]  #        the contact faces of an impact, not only of a contact that presses
    status: Int[Array, ""]


class _Run(NamedTuple):
    steps: Int[Array, ""]
    q: Float[Array, " n"]
    v: Float[Array, " n"]
    history: Float[Array, "length 2n"]
    record: StepRecord
    table: ImpactTable
    num_impacts: Int[Array, ""]
    status: Int[Array, ""]


class Timestepping(Method):
    """Methods with a `step_function(motion)`, a function of (q, v, t, dt) that gives a `Step`, and without events."""

    max_impacts_per_step = 1
    takes_joints = True
    takes_constraints = False
    kernels = True

    nodes: eqx.AbstractVar[np.ndarray]  # where in a step, from 0 to 1, the record holds velocities and forces

    @property
    def stages(self) -> int:
        return len(self.nodes)

    @abc.abstractmethod
    def step_function(self, motion: Motion) -> Callable[..., Step]:
        """A function of (q, v, t, dt)."""

    def advance(self, system: System, params: Any, start: State, grid: Grid, *, kernel: bool = False) -> Chunk:
        """The steps of `grid` from `start`, until they are done or the table is full or a step fails."""
        return as_kernel(_advance, self, system, params, start, grid, kernel)


def _advance(method: Timestepping, system: System, params: Any, start: State, grid: Grid, good) -> Advanced:
    n, dt = start.q.shape[0], grid.dt
    mechanics = system.bind(params, n)
    motion = Motion(mechanics)
    step = method.step_function(motion)
    stages, faces = method.stages, mechanics.num_faces

    def unfinished(run: _Run):
        return (run.steps < grid.limit) & (run.status == OK) & (run.num_impacts < jnp.minimum(grid.most, grid.rows))

    def again(run: _Run):
        t, t_end = grid.time(start, run.steps), grid.time(start, run.steps + 1)
        done: Step = step(run.q, run.v, t, dt)
        p = mechanics.momentum(done.q, done.v, t_end)
        finite = jnp.all(jnp.isfinite(done.q)) & jnp.all(jnp.isfinite(p))
        status = jnp.where(finite, done.status, NOT_FINITE).astype(jnp.int32)
        kept = status == OK
        table, num_impacts = run.table, run.num_impacts
        if faces:
            table, hit = impact_row(table, num_impacts, mechanics, done, p, grid.first + run.steps, t_end, kept)
            num_impacts = num_impacts + hit
        history = write_row(run.history, run.steps, jnp.concatenate([done.q, p]))
        record = write_row(run.record, run.steps, done.record)
        q, v = choose(kept, (done.q, done.v), (run.q, run.v))
        return _Run(run.steps + kept, q, v, history, record, table, num_impacts, status)

    zeros = lambda *shape: jnp.zeros((grid.length + 1, *shape))  # noqa: E731
    run = _Run(
        steps=jnp.where(good, 0, grid.limit).astype(jnp.int32),
        q=start.q,
        v=mechanics.velocity(start.q, start.p, grid.time(start, 0)),
        history=zeros(2 * n),
        record=StepRecord(zeros(stages, n), zeros(stages, motion.rows), zeros(motion.rows)),
        table=ImpactTable.empty(grid.rows, n, faces),
        num_impacts=jnp.zeros((), jnp.int32),
        status=jnp.where(good, OK, NOT_FINITE).astype(jnp.int32),
    )
    run = jax.lax.while_loop(unfinished, again, run)
    table, num_impacts = run.table, run.num_impacts
    if faces == 0:  # the loop hands them through, see `Advanced`
        table, num_impacts = ImpactTable.empty(grid.rows, n, 0), jnp.zeros((), jnp.int32)
    return Advanced(run.steps, run.status, run.history, table, num_impacts, run.record)


def impact_row(table: ImpactTable, num_impacts, mechanics: Mechanics, done: Step, p, index, t_end, kept):
    """The table with the impact at the end of a step, if there was one; whether there was."""
    hit, one = jnp.any(done.hits) & kept, jnp.ones(())
    impulses = done.record.impulses[: mechanics.num_faces]
    closing = jnp.asarray(mechanics.owner)[jnp.argmax(jnp.where(done.hits, impulses, -1.0))]
    row = ImpactTable(index, t_end, done.q, p - done.jump, p, impulses, closing, one, one < 0, one < 0)
    return write_row(table, jnp.where(hit, num_impacts, table.t.shape[0] - 1), row), hit
