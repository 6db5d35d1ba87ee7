"""Masses at nodes: systems whose kinetic energy is a sum over coordinates, so that a step costs what its nodes cost.

    L(q, v) = ½ Σᵢ mᵢ vᵢ² − V(q)                                                                               (1)

A bar cut into elements, a beam, a rigid body in its principal axes. On a group (`carom.SO3`, `carom.SE3`) v is the body velocity
and p = m v the body momentum, one number per direction, beside the coordinates in q, of which there are more. Nothing here forms a
matrix whose size grows with the square of the number of nodes: forces, gaps and their rates are derivatives along vectors.

Where no two contacts share a node (*separate* contacts), G = N M⁻¹ Nᵀ is diagonal. With d = Nᵀ1, the sum of all normals, its
diagonal is the rate of the gaps along M⁻¹d, and the law of impact is a division:

    Gᵢᵢ = ∇φᵢ · M⁻¹ d,       λᵢ = (1 + eᵢ) max(−sᵢ, 0) / Gᵢᵢ     for each contact that touches                      (2)
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from carom.calls import public
from carom.closures.per_object import per_object
from carom.contact.contact import Contact
from carom.contact.laws import Impulse
from carom.errors import InputError
from carom.named import Named
from carom.spaces.space import Space
from carom.system.chain import Chain
from carom.system.contacts import Contacts
from carom.system.controller import Controller
from carom.system.functions import EPS_PER_GAP, Functions
from carom.system.mechanics import LagrangianMechanics, Mechanics, Node
from carom.system.splitting import Splitting
from carom.system.supports import Supports
from carom.system.system import System


@public
class LumpedSystem(System):
    """A system with masses at nodes (1), on a vector space or on a group.

    - `mass(params)`: one positive number per direction of the space: masses, and on rotations the principal moments of inertia.
    - `potential(q, params)`: V.
    - `contacts`: as in `System`. `separate=True` promises that no two of them move the same node and that they have no friction; a
      test of the start checks the first.
    - `transmits=True`: the contacts are *interfaces*. The potential changes where their gap changes sign, and the motion goes
      through instead of being reflected: a gap may be negative, and its zeros are located in both directions.
    - `highest_frequency(params)`: the largest angular frequency of small vibrations; with it a step beyond the stability limit of
      an explicit rule is refused.
    - `admissible(q, params)`: false where the potential has lost its meaning; a run that comes there ends.
    - `force(q, params)`: −∂V along each direction, by hand, where that is quicker than differentiating V. A test of the start
      compares the two.
    - `external(q, v, t, u, params)`: forces that no potential has: dampers, drives, controls.
    - `controller`: as in `System`; its command `u` goes to `external`.
    - `chain`: the potential as a sum over elements and nodes, a `Chain`; balances over parts of the body ask for it.
    - `supports`: `Supports`, directions that are held or moved from outside.
    - `dry_friction(q, t, params)`: on a vector space, how large the friction of a table on each coordinate may be, a force: that
      much against the motion, and at rest whatever keeps it there. Part of every kick, (5) of lumped_flow.py.
    """

    masses: Named
    potential: Named
    separate: bool = eqx.field(static=True)
    transmits: bool = eqx.field(static=True)
    highest_frequency: Callable[[Any], float] | None = eqx.field(static=True)
    admissible: Named | None
    slope: Named | None
    chain: Chain | None
    supports: Supports | None
    dry_friction: Named | None

    def __init__(
        self,
        mass: Callable[..., Any],
        potential: Callable[..., Any],
        space: Space,
        contacts: Sequence[Contact] = (),
        *,
        separate: bool = False,
        transmits: bool = False,
        highest_frequency: Callable[[Any], float] | None = None,
        admissible: Callable[..., Any] | None = None,
        force: Callable[..., Any] | None = None,
        external: Callable[..., Any] | None = None,
        controller: Controller | None = None,
        chain: Chain | None = None,
        supports: Supports | None = None,
        dry_friction: Callable[..., Any] | None = None,
    ):
        masses = Named(mass, ("params",), "mass")
        height = Named(potential, ("q", "params"), "potential")

        def lagrangian(q, v, params):  # (1)
            return 0.5 * jnp.sum(masses(params=params) * v**2) - height(q=q, params=params)

        super().__init__(lagrangian, contacts, external, space, controller=controller)
        for contact in self.contacts:
            if separate and (contact.rough or contact.obstacle):
                raise InputError(f"contact {contact.name!r}: separate contacts have neither friction nor several faces")
        self.masses, self.potential = masses, height
        self.separate, self.transmits, self.highest_frequency = separate, transmits, highest_frequency
        self.admissible = None if admissible is None else Named(admissible, ("q", "params"), "admissible")
        self.chain = chain
        self.slope = None if force is None else Named(force, ("q", "params"), "force")
        self.supports = supports
        self.dry_friction = None if dry_friction is None else Named(dry_friction, ("q", "t", "params"), "dry_friction")
        if supports is not None:
            supports.check(space)
        if dry_friction is not None and space.size != space.dim:
            raise InputError("dry_friction acts along coordinates: on a space with rotations write a Contact with friction")

    @property
    def other_functions(self) -> tuple[Named, ...]:
        motion = None if self.supports is None else self.supports.motion
        return tuple(f for f in (motion, self.dry_friction) if f is not None)

    @property
    @per_object
    def needs(self) -> frozenset[str]:
        more = {"supports": self.supports, "dry friction": self.dry_friction}
        return super().needs | {"nodes"} | {need for need, part in more.items() if part is not None}

    def bind(self, params: Any, dim: int, *, general: bool = False) -> Mechanics:
        functions = Functions(self, params, self.space.dim)  # pyright: ignore[reportOptionalMemberAccess]
        return LagrangianMechanics(functions) if general else LumpedMechanics(functions)


class LumpedMechanics(Mechanics):
    """A LumpedSystem with parameters. v, p and covectors have one entry per direction of the space, q one per coordinate."""

    lumped = quadratic = constant_mass = True
    num_constraints = 0

    def __init__(self, functions: Functions):
        super().__init__(functions, Contacts(functions))
        system: LumpedSystem = functions.system
        assert system.space is not None
        self.space, self.separate = system.space, system.separate
        self.masses = jnp.asarray(system.masses(params=self.params), jnp.float64).reshape(self.space.dim)
        self.lighter = 1.0 / self.masses  # once and not in every step
        self.supports, self.dry = system.supports, system.dry_friction is not None
        self.free = 1.0 if self.supports is None else jnp.asarray(self.supports.free(self.space))  # P of supports.py
        self.autonomous = self.supports is None or self.supports.motion is None

    def chart(self, q) -> "LumpedMechanics":
        return self  # its flow moves on the group itself

    def splitting(self) -> Splitting | None:
        if self.functions.forced or self.supports is not None or self.dry:
            return None
        drift = lambda q, p, h: self.space.drift(q, p, self.masses, h)  # noqa: E731
        return Splitting(self.force, drift, self.potential, self.admissible)

    def potential(self, q) -> Float[Array, ""]:
        return jnp.asarray(self.system.potential(q=q, params=self.params)).reshape(())

    def admissible(self, q) -> Bool[Array, ""]:
        check = self.system.admissible
        return jnp.asarray(True) if check is None else jnp.all(check(q=q, params=self.params))

    def force(self, q) -> Float[Array, " dim"]:
        """−∂V along each direction of the space."""
        return self.pull_back(q) if self.system.slope is None else self.system.slope(q=q, params=self.params)

    def pull_back(self, q) -> Float[Array, " dim"]:
        """−∂V by differentiating V."""
        return -self.space.pull(q, jax.grad(self.potential)(q))

    def external(self, q, p, t) -> Float[Array, " dim"]:
        """Dampers, drives and controls."""
        return self.functions.force(q, p / self.masses, t)

    def most_friction(self, q, t) -> Float[Array, " dim"]:
        """How large dry friction may be along each coordinate."""
        return jnp.broadcast_to(jnp.asarray(self.system.dry_friction(q=q, t=t, params=self.params), q.dtype), (self.dim,))

    def placed(self, q, t) -> Float[Array, " size"]:
        """q with what supports move at its place."""
        return q if self.supports is None else self.supports.placed(q, t, self.params)

    def moved(self, q, t) -> Float[Array, " dim"]:
        """The velocities that supports prescribe."""
        assert self.supports is not None
        return self.supports.velocity(self.space, q, t, self.params)

    def lagrangian(self, q, v, t):
        return 0.5 * jnp.sum(self.free * self.masses * v**2) - self.potential(q)

    def momentum(self, q, v, t):
        return self.masses * v

    def velocity(self, q, p, t):
        return p / self.masses

    def approach(self, q, p, t):
        return self.contacts.approach(q, p * self.lighter, t)  # XLA would divide at every node, of which a gap looks at two

    def energy(self, q, v, t):
        return 0.5 * jnp.sum(self.free * self.masses * v**2) + self.potential(q)

    def energy_of(self, q, p, t):
        return self.energy(q, p / self.masses, t)

    def mass(self, q, v, t):
        return jnp.diag(self.masses)

    def inverse_mass_times(self, q, v, t, covectors):
        rows = (-1, *[1] * (covectors.ndim - 1))
        answer = covectors / self.masses.reshape(rows)
        return answer if self.supports is None else jnp.asarray(self.free).reshape(rows) * answer

    def remove_reaction(self, q, p, t):
        return p if self.supports is None else self.free * p + self.masses * self.moved(q, t)

    def admissible_part(self, q, v, t, covector):
        return self.free * covector

    def node(self, q, v, t):
        force = self.functions.force(q, v, t)
        return Node(self.lagrangian(q, v, t), self.masses * v, self.force(q) + force, jnp.sum(force * v))

    def motion(self, q, p, t):
        raise TypeError("masses at nodes move by kicks and drifts; bind the system with general=True for equations of motion")

    def gap_rounding(self, q, v, t, dt) -> Float[Array, " contacts"]:
        """`Functions.gap_rounding` without the matrix of normals, where no two contacts share a node."""
        if not self.separate:
            return self.contacts.gap_rounding(q, v, t, dt)
        eps = float(jnp.finfo(q.dtype).eps)
        faces = lambda x: self.contacts.faces(x, t)  # noqa: E731
        reach = jnp.abs(q) + jnp.abs(self.space.push(q, v)) * dt
        gaps, back = jax.vjp(faces, q)
        total = back(jnp.ones_like(gaps))[0]
        size = jnp.abs(jax.jvp(faces, (q,), (jnp.sign(total) * reach,))[1])
        if self.contacts.moving:
            size = size + jnp.abs(self.contacts.wall_speed(q, t)) * (jnp.abs(t) + dt)
        return EPS_PER_GAP * eps * size

    def diagonal(self, q, t, weights=None) -> Float[Array, " contacts"]:
        """Gᵢᵢ of (2), or the rates of all gaps by impulses of these weights. A contact of what supports hold has none."""
        gaps, back = jax.vjp(lambda x: self.contacts.faces(x, t), q)
        normal = self.space.pull(q, back(jnp.ones_like(gaps) if weights is None else weights)[0])
        along = self.inverse_mass_times(q, None, t, normal)
        return self.functions.along(lambda x: self.contacts.faces(x, t), q, along)[1]

    def impulse(self, q, v, t, touching, gap_rounding, simultaneous, differentiable) -> tuple[Impulse, Float[Array, " dim"]]:
        """(2), where no two contacts share a node."""
        if not self.separate:
            return super().impulse(q, v, t, touching, gap_rounding, simultaneous, differentiable)
        _, back = jax.vjp(lambda x: self.contacts.faces(x, t), q)
        _, rates = self.contacts.approach(q, v, t)
        delassus = self.diagonal(q, t)
        restitution = self.contacts.restitution(rates, delassus, jnp.asarray(touching), q, v, t)
        hit = jnp.asarray(touching) & (rates < 0) & (delassus > 0)
        impulse = jnp.where(hit, -(1 + restitution) * rates / jnp.where(delassus > 0, delassus, 1.0), 0.0)
        elastic = jnp.all(~hit | (restitution == 1.0))
        direction = self.free * self.space.pull(q, back(impulse)[0])
        nothing = jnp.zeros((self.contacts.num_faces, 0))
        return Impulse(impulse, nothing, elastic, jnp.all(jnp.isfinite(impulse)), jnp.any(hit)), direction
