"""A system with its parameters: mass, momentum, energy and impulses, by automatic differentiation.

Velocity constraints A(q) v = 0 and joints g(q, t) = 0, whose rates are A v + ∂g/∂t with A = ∂g/∂q, leave a set Δ of admissible
velocities. What they change is the inverse of the mass,

    B = the block ∂v/∂p of the inverse of  ( M  Aᵀ ; A  0 ),      B Aᵀ = 0,  A B = 0,                         (1)

so v = B p is always admissible, momenta matter only up to Δ° = {Aᵀλ}, and every law of impact that is written with M⁻¹ holds
with B in its place: p⁺ − p⁻ ∈ (T∂Q)° + Δ° with v⁺ ∈ Δ, (10)–(11) of [rodriguez2024].

`Mechanics` is the interface that methods compute with, and what follows from it; its kinds are final: from a Lagrangian (here),
from a Hamiltonian, and with masses at nodes.
"""

import abc
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from carom.contact.laws import Impulse, impact_impulse
from carom.numerics.linalg import dot, matmul, matvec, solve
from carom.numerics.newton import damped_newton, scalar_root
from carom.system.charts import chart_around
from carom.system.contacts import Contacts
from carom.system.contacts_in_step import NearContacts, pick
from carom.system.functions import Functions
from carom.system.massless import massless_velocity
from carom.system.splitting import Splitting, is_split, split
from carom.xla.structure import depends_on


class Node(NamedTuple):
    """The Lagrangian and its derivatives at one (q, v, t)."""

    lagrangian: Float[Array, ""]
    momentum: Float[Array, " n"]  #  ∂L/∂v
    push: Float[Array, " n"]  #      ∂L/∂q + force: what changes the momentum
    power: Float[Array, ""]  #       dE/dt = force·v − ∂L/∂t


def traced_once(method: Callable[..., Any]) -> Any:
    """A method that is traced once per object, however often it is called; XLA sees through these calls."""
    return functools.cached_property(lambda self: jax.jit(functools.partial(method, self)))


class Mechanics(abc.ABC):
    """A system with its parameters: functions of arrays. Built inside a traced computation, once per compilation."""

    quadratic: bool  #        ∂L/∂v is affine in v
    autonomous: bool  #       no explicit time
    constant_mass: bool
    num_constraints: int  #   rows of A
    lumped: bool  #           masses at nodes: `carom.system.lumped`
    around: Any = None  #     in a chart: the same system on its own space, whose mass is often simpler
    brief: bool = False  #    for a run of few steps

    def __init__(self, functions: Functions, contacts: Contacts):
        self.functions, self.contacts = functions, contacts
        self.system, self.params, self.dim, self.size = functions.system, functions.params, functions.dim, functions.size
        self.flows: dict[Any, Any] = {}  # discrete flows already built for this system, by rule

    # -- what a kind provides ----------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def lagrangian(self, q, v, t) -> Float[Array, ""]: ...

    @abc.abstractmethod
    def momentum(self, q, v, t) -> Float[Array, " n"]:
        """∂L/∂v."""

    @abc.abstractmethod
    def velocity(self, q, p, t) -> Float[Array, " n"]:
        """The Legendre transform backwards: the admissible v with ∂L/∂v(q, v, t) = p, up to Δ°."""

    @abc.abstractmethod
    def energy(self, q, v, t) -> Float[Array, ""]: ...

    @abc.abstractmethod
    def energy_of(self, q, p, t) -> Float[Array, ""]:
        """The energy as a function of the momentum."""

    @abc.abstractmethod
    def mass(self, q, v, t) -> Float[Array, "n n"]:
        """∂²L/∂v²."""

    @abc.abstractmethod
    def inverse_mass_times(self, q, v, t, covectors: Float[Array, "n *k"]) -> Float[Array, "n *k"]:
        """B x of (1): M⁻¹ x without constraints. Massless directions answer with 0."""

    @abc.abstractmethod
    def remove_reaction(self, q, p, t) -> Float[Array, " n"]:
        """p less its part in Δ°: the momentum ∂L/∂v of an admissible velocity."""

    @abc.abstractmethod
    def admissible_part(self, q, v, t, covector: Float[Array, " n"]) -> Float[Array, " n"]:
        """A covector less its part in Δ°, so that it is M v for the admissible v that it causes."""

    @abc.abstractmethod
    def node(self, q, v, t) -> Node: ...

    @abc.abstractmethod
    def motion(self, q, p, t) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """The equations of motion on a vector space, (q̇, ṗ)."""

    @abc.abstractmethod
    def chart(self, q) -> "Mechanics":
        """The mechanics around a configuration, in coordinates of a vector space; itself where these are so already."""

    def splitting(self) -> Splitting | None:
        """Kicks and drifts, where nothing else is needed."""
        return None

    def loose(self) -> "Mechanics":
        """Without joints and velocity constraints, for methods that treat them as forces."""
        return self

    def with_lagrangian(self) -> "Mechanics":
        """For methods that step a Lagrangian: a Hamiltonian is then taken to be regular."""
        return self

    # -- what follows --------------------------------------------------------------------------------------------------------

    def approach(self, q, p, t) -> tuple[Float[Array, " contacts"], Float[Array, " contacts"]]:
        """Gaps and their rates."""
        return self.contacts.approach(q, self.velocity(q, p, t), t)

    def speed(self, q, v, t) -> Float[Array, ""]:
        """The length of a velocity in the kinetic metric."""
        return jnp.sqrt(jnp.abs(dot(v, self.momentum(q, v, t) - self.momentum(q, jnp.zeros_like(v), t))))

    def gap_rounding(self, q, v, t, dt) -> Float[Array, " contacts"]:
        """How far a gap may be from zero by rounding alone."""
        return self.contacts.gap_rounding(q, v, t, dt)

    def make_room(self, contact_rows: int) -> None:
        """For contacts that take part in a step or an impact (`carom.system.contacts_in_step`); otherwise there is room for all."""
        self.functions.contact_rows = contact_rows

    def place(self, q, p) -> tuple[Float[Array, " size"], Float[Array, " dim"]]:
        """From the coordinates of a chart back to the space of the system."""
        return self.functions.place(q), self.functions.body_momentum(q, p)

    def impulse(self, q, v, t, touching, gap_rounding, simultaneous: str, differentiable: bool) -> tuple[Impulse, Array]:
        """The law of impact for the contacts that touch: their impulses, and the sum of these as a covector."""
        contacts, near = self.contacts, None
        if not self.contacts.has_room:
            near = pick(touching, self.contacts.room)
            contacts, touching, gap_rounding = NearContacts(self.contacts, near), near.live, gap_rounding[near.index]
        closed = contacts.closed(self, q, v, t, touching, gap_rounding)
        poisson = any(contact.law == "poisson" for contact in self.system.contacts)
        impulse = impact_impulse(closed, simultaneous, differentiable=differentiable, poisson=poisson)
        total = self.admissible_part(q, v, t, closed.covector(impulse))
        if not self.quadratic:
            scale = self._size_of_impulse(q, v, t, closed, impulse, total)
            impulse, total = impulse._replace(normal=scale * impulse.normal, tangential=scale * impulse.tangential), scale * total
        if near is not None:
            sizes = [near.spread(part, self.contacts.num_faces) for part in (impulse.normal, impulse.tangential)]
            impulse = impulse._replace(normal=sizes[0], tangential=sizes[1], full=near.full)
        return impulse, total

    def _size_of_impulse(self, q, v, t, closed, impulse: Impulse, direction) -> Float[Array, ""]:
        """Where the energy is not quadratic in the momentum, the law gives the direction d, and the size κ keeps the energy,
        E(p + κ d) = E(p), or leaves the contacts with −e times the rates they came with."""
        p = self.momentum(q, v, t)
        before = self.energy_of(q, p, t)

        def gain(kappa):
            after = p + kappa * direction
            loss = jnp.sum(impulse.normal * (matvec(closed.normals, self.velocity(q, after, t) - v)
                                             + (1 + closed.restitution) * closed.rates))  # fmt: skip
            return jnp.where(impulse.elastic, self.energy_of(q, after, t) - before, loss)

        return jnp.where(impulse.any, scalar_root(gain, jnp.ones_like(before)), 1.0)


class LagrangianMechanics(Mechanics):
    """From a Lagrangian, on a vector space, in a chart, or (but for the equations of motion) on a group.

    What is constant (the inverse mass matrix of most systems) is computed here, outside every loop. `bilateral=False` leaves
    joints and velocity constraints out, for methods that treat them as forces.
    """

    lumped = False

    def __init__(self, functions: Functions, *, bilateral: bool = True, around: "LagrangianMechanics | None" = None):
        super().__init__(functions, Contacts(functions))
        self.around = around
        self.bilateral = bilateral and bool(self.system.joints or self.system.constraints is not None)
        q, v, t = jnp.zeros(self.size), jnp.zeros(self.dim), jnp.zeros(())
        q_free, v_free, t_free = (not used for used in functions.asked_once("mass", lambda: depends_on(self._mass, q, v, t)))
        self.quadratic = v_free
        self.autonomous = functions.asked_once("time", lambda: not depends_on(functions.lagrangian, q, v, t)[2])
        self.num_constraints = jax.eval_shape(self.constraints, q, t).shape[0] if self.bilateral else 0
        fixed = not self.bilateral or not any(depends_on(self.constraints, q, t))
        # A mass that nothing changes is computed once, and not again wherever a program needs it.
        self._lasting_mass = self._mass(q, v, t) if q_free and v_free and t_free else None
        self.constant_mass = self._lasting_mass is not None and fixed
        self._inverse_mass = self._response(q, v, t, jnp.eye(self.dim))[0] if self.constant_mass else None

    def chart(self, q) -> "LagrangianMechanics":
        if self.functions.space is None:
            return self
        return LagrangianMechanics(chart_around(self.functions, q), bilateral=self.bilateral, around=self.loose())

    def splitting(self) -> Splitting | None:
        plain = self.num_constraints == 0 and self.system.massless is None and self.functions.space is None
        if self._inverse_mass is None or not plain or not self.autonomous or self.functions.forced:
            return None
        lagrangian = self.functions.lagrangian
        splits = self.functions.asked_once("splits", lambda: is_split(lagrangian, self.dim))
        return split(lagrangian, self._inverse_mass) if splits else None

    def loose(self) -> "LagrangianMechanics":
        return LagrangianMechanics(self.functions, bilateral=False, around=self.around) if self.bilateral else self

    # -- the Lagrangian ------------------------------------------------------------------------------------------------

    @traced_once
    def lagrangian(self, q, v, t):
        return self.functions.lagrangian(q, v, t)

    @traced_once
    def momentum(self, q, v, t):
        return jax.grad(self.lagrangian, argnums=1)(q, v, t)

    @traced_once
    def energy(self, q, v, t):
        return dot(self.momentum(q, v, t), v) - self.lagrangian(q, v, t)

    def energy_of(self, q, p, t):
        return self.energy(q, self.velocity(q, p, t), t)

    def speed(self, q, v, t):
        if self.around is None:
            return super().speed(q, v, t)
        return self.around.speed(self.functions.place(q), self.functions.body_velocity(q, v), t)  # a length is one in any chart

    def _mass(self, q, v, t):
        return jax.jacfwd(jax.grad(self.functions.lagrangian, argnums=1), argnums=1)(q, v, t)

    def mass(self, q, v, t):
        return self._changing_mass(q, v, t) if self._lasting_mass is None else self._lasting_mass

    @traced_once
    def _changing_mass(self, q, v, t):
        return self._mass(q, v, t)

    @traced_once
    def velocity(self, q, p, t):
        if self.around is not None and self.num_constraints == 0:  # no need of the mass in the chart
            functions = self.functions
            return functions.chart_rates(q, self.around.velocity(functions.place(q), functions.body_momentum(q, p), t))
        v = self.legendre(q, p, t)[0]
        if self.system.massless is None:
            return v
        return v + massless_velocity(self, self.system.massless, q, p, v, t)

    def remove_reaction(self, q, p, t):
        if self.num_constraints == 0:
            return p
        return p - matvec(self.constraints(q, t).T, self.legendre(q, p, t)[1])

    def legendre(self, q, p, t) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        """v and λ with ∂L/∂v(q, v, t) + Aᵀλ = p and A v + ∂g/∂t = 0."""
        zero, n = jnp.zeros_like(p), self.dim
        rest = p - self.momentum(q, zero, t)
        if self._inverse_mass is not None and self.num_constraints == 0:
            return self.inverse_mass_times(q, zero, t, rest), jnp.zeros(0, p.dtype)
        guess = self._response(q, zero, t, rest, self.joint_speed(q, t))
        if self.quadratic:
            return guess
        A, drift = self.constraints(q, t), self.joint_speed(q, t)

        def residual(x):
            return jnp.concatenate([self.momentum(q, x[:n], t) + matvec(A.T, x[n:]) - p, matvec(A, x[:n]) + drift])

        x = damped_newton(residual, jnp.zeros(n + self.num_constraints, p.dtype)).x  # from rest: the guess may be out of reach
        return x[:n], x[n:]

    def inverse_mass_times(self, q, v, t, covectors):
        if self._inverse_mass is not None:
            return _product(self._inverse_mass, covectors)
        return self._response(q, v, t, covectors)[0]

    def admissible_part(self, q, v, t, covector):
        if self.num_constraints == 0:
            return covector
        return covector - matvec(self.constraints(q, t).T, self._response(q, v, t, covector)[1])

    def _response(self, q, v, t, covectors, drift=None) -> tuple[Float[Array, "n *k"], Float[Array, "m *k"]]:
        """Solve (1): velocities and constraint impulses. Massless directions get a mass of 1 first, and are taken out again."""
        n, m, free = self.dim, self.num_constraints, self.system.massless
        mass = self.mass(q, v, t) if self.around is None or m else None
        if mass is not None and free is not None:
            mass = mass + free.T @ free
        if m == 0:
            out, reaction = self._loose_response(q, v, t, mass, covectors), jnp.zeros((0, *covectors.shape[1:]), q.dtype)
        else:
            assert mass is not None
            A = self.constraints(q, t)
            block = jnp.concatenate(
                [jnp.concatenate([mass, A.T], axis=1), jnp.concatenate([A, jnp.zeros((m, m), A.dtype)], axis=1)],
            )
            rest = jnp.zeros((m, *covectors.shape[1:]), A.dtype) if drift is None else -drift
            both = solve(block, jnp.concatenate([covectors, rest]))
            out, reaction = both[:n], both[n:]
        return (out, reaction) if free is None else (out - free.T @ (free @ covectors), reaction)

    def _loose_response(self, q, v, t, mass, covectors) -> Float[Array, "n *k"]:
        """M⁻¹ x; in a chart by D⁻¹ M⁻¹ D⁻ᵀ, with the M of the space."""
        if self.around is None:
            return solve(mass, covectors)
        functions, around = self.functions, self.around
        there, speed = functions.place(q), functions.body_velocity(q, v)

        def one(covector):
            return functions.chart_rates(q, around.inverse_mass_times(there, speed, t, functions.body_momentum(q, covector)))

        return one(covectors) if covectors.ndim == 1 else jax.vmap(one, in_axes=1, out_axes=1)(covectors)

    # -- constraints -----------------------------------------------------------------------------------------------------

    def constraints(self, q, t) -> Float[Array, "m n"]:
        """A of (1): the slopes of the joints, then the velocity constraints."""
        rows = [self.functions.constraints(q, t)]
        if self.system.joints:
            rows.insert(0, self.functions.slopes(lambda x: self.functions.joints(x, t), q))
        return jnp.concatenate(rows)

    def joint_speed(self, q, t) -> Float[Array, " m"]:
        """∂g/∂t of joints that move; zero for velocity constraints."""
        if not self.bilateral:
            return jnp.zeros(0, q.dtype)
        drift = jnp.zeros(self.num_constraints, q.dtype)
        if any(joint.g.asks_for("t") for joint in self.system.joints):
            moves = jax.jvp(lambda s: self.functions.joints(q, s), (t,), (jnp.ones_like(t),))[1]
            drift = drift.at[: moves.shape[0]].set(moves)
        return drift

    # -- motion ------------------------------------------------------------------------------------------------------------

    @traced_once
    def node(self, q, v, t):
        value, (push, momentum) = jax.value_and_grad(self.lagrangian, argnums=(0, 1))(q, v, t)
        power = jnp.zeros_like(value)
        if self.functions.forced:
            force = self.functions.force(q, v, t)
            push, power = push + force, power + dot(force, v)
        if not self.autonomous:
            power = power - jax.grad(self.lagrangian, argnums=2)(q, v, t)
        return Node(value, momentum, push, power)

    def power(self, q, v, t) -> Float[Array, ""]:
        """dE/dt = force·v − ∂L/∂t."""
        power = dot(self.functions.force(q, v, t), v) if self.functions.forced else jnp.zeros((), q.dtype)
        return power if self.autonomous else power - jax.grad(self.lagrangian, argnums=2)(q, v, t)

    def motion(self, q, p, t):
        v = self.velocity(q, p, t)
        push = self.node(q, v, t).push
        return v, push + reaction_of(self, q, p, t, v, push)


def reaction_of(mechanics: Any, q, p, t, v, push) -> Float[Array, " n"]:
    """Aᵀμ, which keeps p free of a part Aᵀλ in Δ°. λ(q, p + Aᵀμ, t) = λ(q, p, t) + μ, so μ is what λ̇ would be without it."""
    if mechanics.num_constraints == 0:
        return jnp.zeros_like(p)
    _, change = jax.jvp(lambda q, p, t: mechanics.legendre(q, p, t)[1], (q, p, t), (v, push, jnp.ones_like(t)))
    return -matvec(mechanics.constraints(q, t).T, change)


def _product(matrix, columns):
    return (matvec if columns.ndim == 1 else matmul)(matrix, columns)
