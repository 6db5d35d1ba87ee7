"""What moves: a Lagrangian or a Hamiltonian, contacts, velocity constraints and forces; mass, momentum, energy and normals
come from automatic differentiation.

Velocity constraints A(q) v = 0 leave a distribution Δ of admissible velocities. What they change is the inverse of the mass,

    B = the block ∂v/∂p of the inverse of  ( M  Aᵀ ; A  0 ),      B Aᵀ = 0,  A B = 0,                         (1)

so v = B p is always admissible, momenta matter only up to Δ° = {Aᵀλ}, and every law of impact that is written with M⁻¹ holds
with B in its place: p⁺ − p⁻ ∈ (T∂Q)° + Δ° with v⁺ ∈ Δ, (10)–(11) of [rodriguez2024].
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from carom.contact.contact import Contact, contacts_of
from carom.contact.joint import Joint, joints_of
from carom.contact.laws import Closed, Impulse, impact_impulse
from carom.errors import InputError
from carom.named import Named
from carom.numerics.linalg import dot, matmul, matvec, solve
from carom.numerics.newton import newton
from carom.spaces.space import Space
from carom.system.massless import massless_velocity
from carom.xla.structure import depends_on


class System(eqx.Module):
    """The physics, and nothing of the numerics.

    - `lagrangian(q, v, t, params)`: any subset of these, by name. Mass may depend on the configuration, terms linear in v
      and an explicit time are fine.
    - `contacts`: a list of `Contact`.
    - `force(q, v, t, params)`: a covector added by the Lagrange–d'Alembert principle (drag, drive, control, dampers).
    - `joints`: a list of `Joint`, for the timestepping methods.
    - `space`: a `Euclidean(n, names)`, to name the coordinates; otherwise the length of q0 decides.
    - `constraints(q, t, params)`: the matrix A of velocity constraints A v = 0, one row each (rolling, blades, skates).
    - `hamiltonian(q, p, t, params)`: instead of a Lagrangian; for `EventDriven`.
    - `massless`: directions in which the Lagrangian has no kinetic energy, one per row. `solve` finds them by itself; a pure
      `rollout` has to be told.
    """

    transmits = False  # carom/system/lumped.py: contacts that the motion goes through

    lagrangian: Named | None
    contacts: tuple[Contact, ...]
    force: Named | None
    space: Space | None
    joints: tuple[Joint, ...]
    constraints: Named | None
    hamiltonian: Named | None
    massless: Float[Array, "r n"] | None

    def __init__(
        self,
        lagrangian: Callable[..., Any] | None = None,
        contacts: Sequence[Contact] = (),
        force: Callable[..., Any] | None = None,
        space: Space | None = None,
        joints: Sequence[Joint] = (),
        *,
        constraints: Callable[..., Any] | None = None,
        hamiltonian: Callable[..., Any] | None = None,
        massless: Any = None,
    ):
        known = ("q", "v", "t", "params")
        if (lagrangian is None) == (hamiltonian is None):
            raise InputError("a System is given by a lagrangian or by a hamiltonian=: pass one of the two")
        self.lagrangian = None if lagrangian is None else Named(lagrangian, known, "lagrangian")
        self.hamiltonian = None if hamiltonian is None else Named(hamiltonian, ("q", "p", "t", "params"), "hamiltonian")
        self.constraints = None if constraints is None else Named(constraints, ("q", "t", "params"), "constraints")
        self.massless = None if massless is None else jnp.atleast_2d(jnp.asarray(massless, float))
        self.contacts = contacts_of(contacts)
        self.force = None if force is None else Named(force, known, "force")
        if space is not None and not isinstance(space, Space):
            raise InputError(f"space must be a carom.Euclidean, SO3, SE3 or a product of them; got {space!r}")
        self.space = space
        self.joints = joints_of(joints)

    def bind(self, params: Any, dim: int) -> "Mechanics":
        """The system with its parameters filled in: what the methods compute with."""
        if self.hamiltonian is not None:
            from carom.system.hamiltonian import HamiltonianMechanics

            return HamiltonianMechanics(self, params, dim)
        return Mechanics(self, params, dim)


class Node(NamedTuple):
    """The Lagrangian and its derivatives at one (q, v, t)."""

    lagrangian: Float[Array, ""]
    momentum: Float[Array, " n"]  #  ∂L/∂v
    push: Float[Array, " n"]  #      ∂L/∂q + force: what changes the momentum
    power: Float[Array, ""]  #       dE/dt = force·v − ∂L/∂t


class Mechanics:
    """A System with parameters: functions of arrays. Built inside a traced computation, once per compilation.

    What is constant (the inverse mass matrix of most systems) is computed here, outside every loop.
    """

    lumped = False  # carom/system/lumped.py: masses at nodes

    def __init__(self, system: System, params: Any, dim: int):
        self.system, self.params, self.dim = system, params, dim
        self._shapes = (jnp.zeros(dim), jnp.zeros(dim), jnp.zeros(()), params)
        self._read_structure()
        self._read_contacts()
        self.flows: dict[Any, Any] = {}  # discrete flows already built for this system, by rule
        # Traced once each, however often they are used; XLA sees through these calls.
        for name in ("lagrangian", "momentum", "energy", "mass", "velocity", "node", "faces", "approach", "rounding", "gap_drift"):
            setattr(self, name, jax.jit(getattr(self, name)))

    def _read_structure(self) -> None:
        """What the Lagrangian and the constraints depend on, and the inverse mass where it is constant."""
        system, (q, _, t, _) = self.system, self._shapes
        assert system.lagrangian is not None
        q_free, v_free, t_free, _ = (not used for used in depends_on(_mass, system.lagrangian, *self._shapes)[1:])
        self.quadratic = v_free  #                          ∂L/∂v is affine in v
        self.autonomous = not depends_on(_lagrangian, system.lagrangian, *self._shapes)[3]
        self.num_constraints = 0 if system.constraints is None else jax.eval_shape(self.constraints, q, t).shape[0]
        fixed = self.num_constraints == 0 or not any(depends_on(self.constraints, q, t))
        self.constant_mass = q_free and v_free and t_free and fixed
        self._inverse_mass = None
        if self.constant_mass:
            self._inverse_mass = self.inverse_mass_times(q, q, t, jnp.eye(self.dim))

    # -- the Lagrangian ------------------------------------------------------------------------------------------------

    def lagrangian(self, q, v, t) -> Float[Array, ""]:
        assert self.system.lagrangian is not None
        return _lagrangian(self.system.lagrangian, q, v, t, self.params)

    def momentum(self, q, v, t) -> Float[Array, " n"]:
        return jax.grad(self.lagrangian, argnums=1)(q, v, t)

    def energy(self, q, v, t) -> Float[Array, ""]:
        return dot(self.momentum(q, v, t), v) - self.lagrangian(q, v, t)

    def energy_of(self, q, p, t) -> Float[Array, ""]:
        """The energy as a function of the momentum."""
        return self.energy(q, self.velocity(q, p, t), t)

    def mass(self, q, v, t) -> Float[Array, "n n"]:
        assert self.system.lagrangian is not None
        return _mass(self.system.lagrangian, q, v, t, self.params)

    def velocity(self, q, p, t) -> Float[Array, " n"]:
        """The Legendre transform backwards: the admissible v with ∂L/∂v(q, v, t) = p, up to Δ°."""
        v = self._legendre(q, p, t)[0]
        if self.system.massless is None:
            return v
        return v + massless_velocity(self, self.system.massless, q, p, v, t)

    def settle(self, q, p, t) -> Float[Array, " n"]:
        """p less its part in Δ°: the momentum ∂L/∂v of an admissible velocity."""
        if self.num_constraints == 0:
            return p
        return p - matvec(self.constraints(q, t).T, self._legendre(q, p, t)[1])

    def _legendre(self, q, p, t) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        """v and λ with ∂L/∂v(q, v, t) + Aᵀλ = p and A v = 0."""
        zero, n = jnp.zeros_like(p), self.dim
        rest = p - self.momentum(q, zero, t)
        if self._inverse_mass is not None and self.num_constraints == 0:
            return self.inverse_mass_times(q, zero, t, rest), jnp.zeros(0)
        guess = self._response(q, zero, t, rest)
        if self.quadratic:
            return guess
        A = self.constraints(q, t)
        residual = lambda x: jnp.concatenate([self.momentum(q, x[:n], t) + matvec(A.T, x[n:]) - p, matvec(A, x[:n])])  # noqa: E731
        x = newton(residual, jnp.concatenate(guess)).x
        return x[:n], x[n:]

    def inverse_mass_times(self, q, v, t, covectors: Float[Array, "n *k"]) -> Float[Array, "n *k"]:
        """B x of (1): M⁻¹ x without constraints. Massless directions answer with 0."""
        if self._inverse_mass is not None:
            return (matvec if covectors.ndim == 1 else matmul)(self._inverse_mass, covectors)
        return self._response(q, v, t, covectors)[0]

    def project(self, q, v, t, covector: Float[Array, " n"]) -> Float[Array, " n"]:
        """A covector less its part in Δ°, so that it is M v for the admissible v that it causes."""
        if self.num_constraints == 0:
            return covector
        return covector - matvec(self.constraints(q, t).T, self._response(q, v, t, covector)[1])

    def _response(self, q, v, t, covectors) -> tuple[Float[Array, "n *k"], Float[Array, "m *k"]]:
        """Solve (1): velocities and constraint impulses. Massless directions get a mass of 1 first, and are taken out again."""
        n, m, mass, free = self.dim, self.num_constraints, self.mass(q, v, t), self.system.massless
        if free is not None:
            mass = mass + free.T @ free
        if m == 0:
            out, reaction = solve(mass, covectors), jnp.zeros((0, *covectors.shape[1:]))
        else:
            A = self.constraints(q, t)
            block = jnp.concatenate(
                [jnp.concatenate([mass, A.T], axis=1), jnp.concatenate([A, jnp.zeros((m, m))], axis=1)],
            )
            both = solve(block, jnp.concatenate([covectors, jnp.zeros((m, *covectors.shape[1:]))]))
            out, reaction = both[:n], both[n:]
        return (out, reaction) if free is None else (out - free.T @ (free @ covectors), reaction)

    def constraints(self, q, t) -> Float[Array, "m n"]:
        """The matrix A of the velocity constraints A v = 0."""
        if self.system.constraints is None:
            return jnp.zeros((0, self.dim))
        value = jnp.asarray(self.system.constraints(q=q, t=t, params=self.params), q.dtype)
        return value.reshape(-1, self.dim)

    def force(self, q, v, t) -> Float[Array, " n"]:
        if self.system.force is None:
            return jnp.zeros(self.dim)
        value = self.system.force(q=q, v=v, t=t, params=self.params)
        return jnp.asarray(value, q.dtype).reshape(self.dim)

    def node(self, q, v, t) -> Node:
        value, (push, momentum) = jax.value_and_grad(self.lagrangian, argnums=(0, 1))(q, v, t)
        power = jnp.zeros_like(value)
        if self.system.force is not None:
            force = self.force(q, v, t)
            push, power = push + force, power + dot(force, v)
        if not self.autonomous:
            power = power - jax.grad(self.lagrangian, argnums=2)(q, v, t)
        return Node(value, momentum, push, power)

    def motion(self, q, p, t) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """The equations of motion, (q̇, ṗ)."""
        v = self.velocity(q, p, t)
        push = self.node(q, v, t).push
        return v, push + self._reaction(q, p, t, v, push)

    def _reaction(self, q, p, t, v, push) -> Float[Array, " n"]:
        """Aᵀμ, which keeps p free of a part Aᵀλ in Δ°. λ(q, p + Aᵀμ, t) = λ(q, p, t) + μ, so μ is what λ̇ would be without it."""
        if self.num_constraints == 0:
            return jnp.zeros_like(p)
        _, drift = jax.jvp(lambda q, p, t: self._legendre(q, p, t)[1], (q, p, t), (v, push, jnp.ones_like(t)))
        return -matvec(self.constraints(q, t).T, drift)

    # -- the contacts --------------------------------------------------------------------------------------------------

    def _read_contacts(self) -> None:
        """Lay the gaps of all contacts in one row of `faces`; `owner[i]` is the contact number of face i."""
        owner, names, sizes = [], [], []
        for contact in self.system.contacts:
            gap = lambda q, t, c=contact: jnp.asarray(c.gap(q=q, t=t, params=self.params))  # noqa: E731
            shape = jax.eval_shape(gap, self._shapes[0], 0.0).shape
            if len(shape) > 1:
                raise InputError(f"gap of contact {contact.name!r} has shape {shape}; it must be a number or a vector")
            size = shape[0] if shape else 1
            label = contact.name or f"contact {len(sizes)}"
            several = shape and not contact.obstacle
            names += [f"{label}[{i}]" for i in range(size)] if several else [label]
            owner += range(len(names) - size, len(names)) if several else [len(names) - 1] * size
            sizes.append(size)
        self.owner, self.contact_names, self._sizes = np.array(owner, int), tuple(names), sizes
        self.num_faces, self.num_contacts = len(owner), len(names)
        self.plain = self.num_faces == self.num_contacts  # no obstacles with several faces
        self.moving = any(c.gap.asks_for("t") for c in self.system.contacts)
        self.slip_dim = self._slip_dim()

    def faces(self, q, t) -> Float[Array, " faces"]:
        values = [jnp.atleast_1d(jnp.asarray(c.gap(q=q, t=t, params=self.params))) for c in self.system.contacts]
        return jnp.concatenate(values).astype(q.dtype) if values else jnp.zeros(0, q.dtype)

    def gaps(self, q, t) -> Float[Array, " contacts"]:
        return self.gather(self.faces(q, t))[0]

    def gather(self, faces, rates=None):
        """From faces to contacts: an obstacle is as far away as its farthest face."""
        if self.plain:
            return faces, rates
        groups = [jnp.asarray(np.flatnonzero(self.owner == i)) for i in range(self.num_contacts)]
        far = jnp.stack([group[jnp.argmax(faces[group])] for group in groups])
        return faces[far], None if rates is None else rates[far]

    def approach(self, q, v, t) -> tuple[Float[Array, " contacts"], Float[Array, " contacts"]]:
        """Gaps and their rates, ∇φ·v + ∂φ/∂t."""
        if self.moving:
            faces, rates = jax.jvp(self.faces, (q, t), (v, jnp.ones_like(t)))
        else:
            faces, rates = jax.jvp(lambda x: self.faces(x, t), (q,), (v,))
        gaps, rates = self.gather(faces, rates)
        assert rates is not None
        return gaps, rates

    def gap_drift(self, q, t) -> Float[Array, " faces"]:
        """∂φ/∂t: how fast the walls move."""
        if not self.moving:
            return jnp.zeros(self.num_faces)
        return jax.jvp(lambda s: self.faces(q, s), (t,), (jnp.ones_like(t),))[1]

    def rounding(self, q, v, t, dt) -> Float[Array, " contacts"]:
        """How far a gap may be from zero by rounding alone: of the coordinates it reads, and of the time dt."""
        eps = float(jnp.finfo(q.dtype).eps)
        normals = jax.jacfwd(self.faces)(q, t)
        size = jnp.sum(jnp.abs(normals) * (jnp.abs(q) + jnp.abs(v) * dt), axis=1)
        size = size + jnp.abs(self.gap_drift(q, t)) * (jnp.abs(t) + dt)
        size = 64 * eps * size  # 64: a few operations per coordinate, and a root found to one rounding
        return size if self.plain else jnp.stack([jnp.max(size[self.owner == i]) for i in range(self.num_contacts)])

    def closed(self, q, v, t, gaps_are_zero, width) -> Closed:
        """Everything the laws of impact need to know about the contacts at one instant."""
        normals = jax.jacfwd(self.faces)(q, t)
        drift = self.gap_drift(q, t)
        tangents, slides = self._slips(q, v, t)
        rows = jnp.concatenate([normals, tangents.reshape(-1, self.dim)])
        response = self.inverse_mass_times(q, v, t, rows.T)
        touching = jnp.asarray(gaps_are_zero)[self.owner]
        if not self.plain:  # at a corner only the faces that meet there count
            faces = self.faces(q, t)
            touching = touching & (faces >= self.gather(faces)[0][self.owner] - width[self.owner])
        speed = jnp.sqrt(jnp.abs(dot(v, self.momentum(q, v, t) - self.momentum(q, jnp.zeros_like(v), t))))
        delassus = matmul(rows, response)
        scale = jnp.sqrt(jnp.max(jnp.where(touching, jnp.diagonal(delassus)[: self.num_faces], 0.0)))
        small = 256 * float(jnp.finfo(q.dtype).eps) * (speed * scale + jnp.max(jnp.abs(drift), initial=0.0))
        return Closed(
            normals=normals,
            tangents=tangents,
            rates=matvec(normals, v) + drift,
            slides=slides,
            delassus=delassus,
            touching=touching,
            restitution=self._coefficients("restitution"),
            friction=self._coefficients("friction"),
            small=jax.lax.stop_gradient(small),
        )

    def impulse(self, q, v, t, touching, width, simultaneous: str, differentiable: bool) -> tuple[Impulse, Float[Array, " n"]]:
        """The law of impact for the contacts that touch: their impulses, and the sum of these as a covector."""
        closed = self.closed(q, v, t, touching, width)
        impulse = impact_impulse(closed, simultaneous, differentiable=differentiable)
        total = matvec(closed.normals.T, impulse.normal)
        if self.slip_dim:
            total = total + impulse.tangential.reshape(-1) @ closed.tangents.reshape(-1, self.dim)
        return impulse, self.project(q, v, t, total)

    def _coefficients(self, name: str) -> Float[Array, " faces"]:
        values = []
        for contact, size in zip(self.system.contacts, self._sizes, strict=True):
            value = getattr(contact, name)
            value = value(params=self.params) if isinstance(value, Named) else value
            values.append(jnp.broadcast_to(jnp.asarray(value, float), (size,)))
        return jnp.concatenate(values)

    def _slip(self, contact: Contact, size: int, q, t) -> Float[Array, "size m"]:
        assert contact.slip is not None
        return jnp.asarray(contact.slip(q=q, t=t, params=self.params)).reshape(size, -1)

    def _slip_dim(self) -> int:
        dims = [
            jax.eval_shape(lambda q, t, c=c, s=s: self._slip(c, s, q, t), jnp.zeros(self.dim), 0.0).shape[1]
            for c, s in zip(self.system.contacts, self._sizes, strict=True)
            if c.rough
        ]
        return max(dims, default=0)

    def _slips(self, q, v, t):
        """∂slip/∂q and the sliding velocities; contacts without friction get zero rows."""
        k, m = self.num_faces, self.slip_dim
        if m == 0:
            return jnp.zeros((k, 0, self.dim)), jnp.zeros((k, 0))
        _, slides = jax.jvp(self.slips, (q, t), (v, jnp.ones_like(t)))
        return jax.jacfwd(self.slips)(q, t), slides

    def slips(self, q, t) -> Float[Array, "faces m"]:
        """The tangential coordinates of all contact points; zero for contacts without friction."""
        rows = []
        for c, s in zip(self.system.contacts, self._sizes, strict=True):
            row = self._slip(c, s, q, t) if c.rough else jnp.zeros((s, 0))
            rows.append(jnp.pad(row, ((0, 0), (0, self.slip_dim - row.shape[1]))))
        return jnp.concatenate(rows) if rows else jnp.zeros((0, 0))


def _lagrangian(function: Named, q, v, t, params) -> Float[Array, ""]:
    value = function(q=q, v=v, t=t, params=params)
    return jnp.asarray(value, q.dtype).reshape(())


def _mass(function: Named, q, v, t, params) -> Float[Array, "n n"]:
    """∂²L/∂v²."""
    return jax.jacfwd(jax.grad(_lagrangian, argnums=2), argnums=2)(function, q, v, t, params)
