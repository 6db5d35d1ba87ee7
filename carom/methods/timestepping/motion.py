"""What the timestepping methods share: accelerations, joints and velocity constraints, and what a step leaves."""

import abc
import copy
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from carom.methods.method import ImpactTable, Method, StepEnd, StepRecord, StepStart
from carom.methods.status import CONTACTS_FULL, NOT_FINITE, OK
from carom.numerics.linalg import matmul, matvec, solve
from carom.system.contacts_as_rows import ContactRows
from carom.system.contacts_in_step import Near, NearContacts
from carom.system.euler_poincare import body_acceleration, chart_acceleration
from carom.system.mechanics import Mechanics
from carom.xla.structure import depends_on
from carom.xla.trees import write_row


class Motion:
    """The equations of motion in velocities, M v̇ = f + Zᵀλ, of one system on a vector space with its parameters.

    Joints and velocity constraints are forces here: `mechanics` is the system without them.
    """

    def __init__(self, mechanics: Mechanics):
        self.functions, self.mechanics = mechanics.functions, mechanics.loose()
        self.contacts: ContactRows = self.mechanics.contacts
        q, t = jnp.zeros(mechanics.dim), jnp.zeros(())
        self._steady = not any(depends_on(self.mechanics.momentum, q, q, t)[i] for i in (0, 2))  # ∂L/∂v depends on v alone
        used = depends_on(self.acceleration, q, q, t)
        self.massless = mechanics.system.massless is not None
        self.explicit = not (used[0] or used[1] or self.massless)
        self.num_joints = jax.eval_shape(self.functions.joints, q, t).shape[0]
        self.num_held = self.num_joints + jax.eval_shape(self.functions.constraints, q, t).shape[0]
        contacts = mechanics.system.contacts
        self.poisson = any(contact.law == "poisson" for contact in contacts)
        self.remembers_rest = any(contact.rough and contact.depends_on_speed for contact in contacts)
        self.any_near: Bool[Array, ""] | None = None  # whether some contact may take part, where these were gathered

    @property
    def rows(self) -> int:
        """Of forces and impulses."""
        return self.contacts.num_faces * (1 + self.contacts.slip_dim) + self.num_held

    def only(self, near: Near) -> "Motion":
        """The same with the contacts of a table alone."""
        motion = copy.copy(self)
        motion.contacts, motion.any_near = NearContacts(self.mechanics.contacts, near), jnp.any(near.live)
        return motion

    def force(self, q, v, t) -> Float[Array, " n"]:
        """f: what changes M v, without contacts and joints."""
        push = self.mechanics.node(q, v, t).push
        if self._steady:
            return push
        return push - jax.jvp(lambda q, t: self.mechanics.momentum(q, v, t), (q, t), (v, jnp.ones_like(t)))[1]

    def acceleration(self, q, v, t) -> Float[Array, " n"]:
        """M⁻¹f; in a chart from the equations on the space itself."""
        if self.mechanics.around is not None:
            return chart_acceleration(self.mechanics, q, v, t)
        return self.mechanics.inverse_mass_times(q, v, t, self.force(q, v, t))

    # In a chart x of a group, ẋ of a body that turns evenly is not even: an implicit Euler step of ẋ would turn it ever faster, by
    # ¼(h|ω|)² of ω in each step. The velocity of the body, v = D(x) ẋ, is.

    def body_velocity(self, q, rates) -> Float[Array, " n"]:
        """D(x) ẋ in a chart; on a vector space the same."""
        return rates if self.massless else self.functions.body_velocity(q, rates)

    def chart_rates(self, q, v) -> Float[Array, " n"]:
        """D(x)⁻¹ v."""
        return v if self.massless else self.functions.chart_rates(q, v)

    def body_acceleration(self, q, v, t) -> Float[Array, " n"]:
        """How the velocity of the body changes; on a vector space M⁻¹f."""
        if self.mechanics.around is None or self.massless:
            return self.acceleration(q, v, t)
        chart = self.functions
        return body_acceleration(self.mechanics.around, chart.base.space, chart.place(q), v, t)  # pyright: ignore[reportAttributeAccessIssue]

    def handed_on(self, v) -> Float[Array, " n"]:
        """What the next step starts from: all that the momentum determines. A run may be stopped and gone on with between any two
        steps, and it is differentiated step by step; both know q and p alone. What has no mass starts from rest."""
        return _without(self.mechanics.system.massless, v)

    def held_rates(self, q, v, t) -> Float[Array, " j"]:
        """The rates of joints, then those of velocity constraints: all of them are to be zero."""
        if self.num_held == 0:
            return jnp.zeros(0, q.dtype)
        joints = jax.jvp(self.functions.joints, (q, t), (v, jnp.ones_like(t)))[1]
        return jnp.concatenate([joints, matvec(self.functions.constraints(q, t), v)])

    def held(self, q, v, t, response: Callable[[Array], Array] | None = None) -> "JointReaction":
        """Joints and velocity constraints at one configuration. `response` is what a step makes of an impulse: M⁻¹ of it, or
        what an implicit step leaves of that."""
        normals = jax.jacfwd(lambda v: self.held_rates(q, v, t))(v)
        back = response or (lambda columns: self.mechanics.inverse_mass_times(q, v, t, columns))
        columns = back(normals.T) if self.num_held else jnp.zeros((v.shape[0], 0))
        return JointReaction(normals, columns, matmul(normals, columns))

    def project(self, q, v, t, rows: Callable[[Array], Array], wanted: Bool[Array, " c"], iterations: int = 3):
        """The nearest configuration, in the kinetic metric, with zero joints and zero `rows` where these are wanted."""
        live = jnp.concatenate([wanted, jnp.ones(self.num_joints, bool)])
        if live.shape[0] == 0:
            return q
        function = lambda q: jnp.concatenate([rows(q), self.functions.joints(q, t)])  # noqa: E731

        def improve(_, q):
            normals = jax.jacfwd(function)(q)
            response = self.mechanics.inverse_mass_times(q, v, t, normals.T)
            matrix = jnp.where(live[:, None] & live[None, :], matmul(normals, response), 0.0)
            ridge = jnp.where(live, 1e-13 * jnp.max(jnp.diagonal(matrix)), 1.0)  # for contacts that depend on one another
            return q - matvec(response, solve(matrix + jnp.diag(ridge), jnp.where(live, function(q), 0.0)))

        return jax.lax.fori_loop(0, iterations, improve, q)


class JointReaction(NamedTuple):
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

    def spread(self, near: Near, motion: Motion, missed: Bool[Array, ""]) -> "Step":
        """From the contacts of a table to all contacts. A table that was full, or missed one, makes no step."""
        faces, m, slots = motion.contacts.num_faces, motion.contacts.slip_dim, self.hits.shape[0]

        def rows(values):
            normal, tangential = values[:slots], values[slots : slots * (1 + m)].reshape(slots, m)
            every = near.spread(normal, faces), near.spread(tangential, faces).reshape(-1), values[slots * (1 + m) :]
            return jnp.concatenate(every)

        record = self.record._replace(forces=jax.vmap(rows)(self.record.forces), impulses=rows(self.record.impulses))
        hits = near.spread(self.hits.astype(jnp.int32), faces) > 0
        status = jnp.where(near.full | missed, CONTACTS_FULL, self.status)
        return self._replace(record=record, hits=hits, status=status)


class Timestepping(Method):
    """Methods without events, that give a `Step`. They hand the velocity on from step to step."""

    takes: ClassVar = frozenset(
        {
            "contacts",
            "restitution",
            "friction",
            "laws of speed",
            "rolling",
            "poisson",
            "moving walls",
            "forces",
            "controller",
            "constraints",
            "joints",
            "hamiltonian",
            "rotations",
            "nodes",
            "energy not quadratic",
        }
    )
    offers: ClassVar = Method.offers | {"gradients", "dense output", "one kernel"}
    impacts_at_ends: ClassVar = True

    @abc.abstractmethod
    def timestep(self, motion: Motion, q, v, t, dt, number, *, differentiable: bool = False) -> Step:
        """The step from (q, v), with its number in the run. `differentiable`: in a form whose derivatives are exact, forwards and
        backwards."""

    not_together: ClassVar = {
        frozenset({"contacts", "energy not quadratic"}): (
            "the contact problem of a step is written for energies that are quadratic in the velocities"
        )
    }

    @abc.abstractmethod
    def near(self, motion: Motion, q, v, t, dt) -> Near | None:
        """The contacts that may take part in the step from (q, v), where there is no room for all."""

    def missed(self, motion: Motion, near: Near, done: Step, t_end) -> Bool[Array, ""]:
        """Whether a contact took part that was not foreseen."""
        return jnp.asarray(False)

    def bind(self, system, params: Any, n: int) -> Mechanics:
        return system.bind(params, n, general=True).with_lagrangian()

    def memory(self, mechanics: Mechanics, q, p, t, dt) -> Any:
        v = mechanics.loose().velocity(q, p, t)  # of the momentum as it stands: joints hold to the order of the method
        return _without(mechanics.system.massless, v)

    def recentre(self, mechanics: Mechanics, q, memory: Any) -> Any:
        return mechanics.functions.body_velocity(q, memory)

    def record(self, mechanics: Mechanics, rows: int) -> StepRecord:
        stages, width = len(self.nodes), _record_width(mechanics)
        zeros = lambda *shape: jnp.zeros((rows, *shape))  # noqa: E731
        return StepRecord(zeros(stages, mechanics.dim), zeros(stages, width), zeros(width))

    def one_step(self, mechanics: Mechanics, start: StepStart) -> StepEnd:
        motion = Motion(mechanics)
        state = start.q, start.memory, start.t, start.dt
        near = self.near(motion, *state)
        some = motion if near is None else motion.only(near)
        done = self.timestep(some, *state, start.step, differentiable=start.differentiable)
        if near is not None:
            done = done.spread(near, motion, self.missed(motion, near, done, start.t_end))
        p = motion.mechanics.momentum(done.q, done.v, start.t_end)
        finite = jnp.all(jnp.isfinite(done.q)) & jnp.all(jnp.isfinite(p))
        status = jnp.where(finite, done.status, NOT_FINITE).astype(jnp.int32)
        table, num_impacts = start.table, start.num_impacts
        if motion.contacts.num_faces:
            table, hit = impact_row(mechanics, start, done, p, status == OK)
            num_impacts = num_impacts + hit
        jump = motion.mechanics.inverse_mass_times(done.q, done.v, start.t_end, done.jump)
        return StepEnd(done.q, p, status, table, num_impacts, motion.handed_on(done.v), done.record, jump)


def _without(directions: Float[Array, "r n"] | None, v: Float[Array, " n"]) -> Float[Array, " n"]:
    """v without its part along these."""
    if directions is None:
        return v
    return v - matvec(directions.T, solve(matmul(directions, directions.T), matvec(directions, v)))


def _record_width(mechanics: Mechanics) -> int:
    """Rows of forces and impulses in a record, on any space."""
    functions, contacts = mechanics.functions, mechanics.contacts
    q, t = jnp.zeros(functions.size), jnp.zeros(())
    joints, constraints = jax.eval_shape(functions.joints, q, t), jax.eval_shape(functions.constraints, q, t)
    return contacts.num_faces * (1 + contacts.slip_dim) + joints.shape[0] + constraints.shape[0]


def impact_row(mechanics: Mechanics, start: StepStart, done: Step, p, kept) -> tuple[ImpactTable, Bool[Array, ""]]:
    """The table with the impact at the end of a step, if there was one; whether there was."""
    hit, one, contacts = jnp.any(done.hits) & kept, jnp.ones(()), mechanics.contacts
    impulses = done.record.impulses[: contacts.num_faces]
    closing = jnp.asarray(contacts.owner)[jnp.argmax(jnp.where(done.hits, impulses, -1.0))]
    q, after = mechanics.place(done.q, p)
    _, before = mechanics.place(done.q, p - done.jump)
    row = ImpactTable(start.step, start.t_end, q, before, after, impulses, closing, one, one < 0, one < 0)
    return write_row(start.table, jnp.where(hit, start.num_impacts, start.table.room), row), hit
