"""What the timestepping methods share: accelerations, joints, and the loop over the steps."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from carom.methods.method import NOT_FINITE, OK, Chunk, ImpactTable, State, StepRecord
from carom.numerics.kernel import single_kernel
from carom.numerics.linalg import matmul, matvec, solve
from carom.numerics.structure import depends_on
from carom.numerics.trees import choose, write_row
from carom.system import Mechanics, System


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


def advance(method: Any, system: System, params, start: State, dt, first, limit, length: int, rows: int, most, kernel: bool):
    """Many steps of a method that has `stages` and `step_function(motion)`; the body of its `advance`."""
    n = start.q.shape[0]
    arrays, functions = eqx.partition((method, system), eqx.is_array)

    def run(witness, arrays, params, start, dt, first, limit, most):
        method, system = eqx.combine(arrays, functions)
        good = jnp.isfinite(witness)
        return _advance(method, system, params, start, dt, first, limit, length, rows, most, good)

    args = (arrays, params, start, dt, first, limit, most)
    out = single_kernel(run, *args) if kernel else run(jnp.zeros(()), *args)
    final = jnp.where(out["steps"] > 0, out["history"][out["steps"] - 1], jnp.concatenate([start.q, start.p]))
    state = State(start.t + (first + out["steps"]) * dt, final[:n], final[n:])
    return Chunk(state, out["steps"], out["status"], out["history"], out["table"], out["num_impacts"], out["record"])


def _advance(method, system, params, start: State, dt, first, limit, length, rows, most, good) -> dict[str, Any]:
    n = start.q.shape[0]
    mechanics = system.bind(params, n)
    motion = Motion(mechanics)
    step = method.step_function(motion)
    stages, faces = method.stages, mechanics.num_faces

    def time(index):
        return start.t + (first + index) * dt

    def unfinished(run: _Run):
        return (run.steps < limit) & (run.status == OK) & (run.num_impacts < jnp.minimum(most, rows))

    def again(run: _Run):
        t, t_end = time(run.steps), time(run.steps + 1)
        done: Step = step(run.q, run.v, t, dt)
        p = mechanics.momentum(done.q, done.v, t_end)
        finite = jnp.all(jnp.isfinite(done.q)) & jnp.all(jnp.isfinite(p))
        status = jnp.where(finite, done.status, NOT_FINITE).astype(jnp.int32)
        kept = status == OK
        table, num_impacts = run.table, run.num_impacts
        if faces:
            table, hit = impact_row(table, num_impacts, mechanics, done, p, first + run.steps, t_end, kept)
            num_impacts = num_impacts + hit
        history = write_row(run.history, run.steps, jnp.concatenate([done.q, p]))
        record = write_row(run.record, run.steps, done.record)
        q, v = choose(kept, (done.q, done.v), (run.q, run.v))
        return _Run(run.steps + kept, q, v, history, record, table, num_impacts, status)

    zeros = lambda *shape: jnp.zeros((length + 1, *shape))  # noqa: E731
    run = _Run(
        steps=jnp.where(good, 0, limit).astype(jnp.int32),
        q=start.q,
        v=mechanics.velocity(start.q, start.p, time(0)),
        history=zeros(2 * n),
        record=StepRecord(zeros(stages, n), zeros(stages, motion.rows), zeros(motion.rows)),
        table=ImpactTable.empty(rows, n, faces),
        num_impacts=jnp.zeros((), jnp.int32),
        status=jnp.where(good, OK, NOT_FINITE).astype(jnp.int32),
    )
    run = jax.lax.while_loop(unfinished, again, run)
    out = {name: getattr(run, name) for name in ("steps", "status", "history", "record")}
    if faces == 0:
        return out | {"table": ImpactTable.empty(rows, n, 0), "num_impacts": jnp.zeros((), jnp.int32)}
    return out | {"table": run.table, "num_impacts": run.num_impacts}


def impact_row(table: ImpactTable, num_impacts, mechanics: Mechanics, done: Step, p, index, t_end, kept):
    """The table with the impact at the end of a step, if there was one; whether there was."""
    hit, one = jnp.any(done.hits) & kept, jnp.ones(())
    impulses = done.record.impulses[: mechanics.num_faces]
    closing = jnp.asarray(mechanics.owner)[jnp.argmax(jnp.where(done.hits, impulses, -1.0))]
    row = ImpactTable(index, t_end, done.q, p - done.jump, p, impulses, closing, one, one < 0, one < 0)
    return write_row(table, jnp.where(hit, num_impacts, table.t.shape[0] - 1), row), hit
