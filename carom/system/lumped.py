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

from carom.contact.contact import Contact
from carom.contact.laws import Closed, Impulse
from carom.errors import InputError
from carom.named import Named
from carom.numerics.linalg import matmul
from carom.spaces.space import Space
from carom.system.system import Mechanics, System


class LumpedSystem(System):
    """A system with masses at nodes (1), on a vector space or on a group.

    - `mass(params)`: one positive number per direction of the space: masses, and on rotations the principal moments of inertia.
    - `potential(q, params)`: V.
    - `contacts`: as in `System`, without friction. `separate=True` promises that no two of them move the same node; a test of the
      start checks it.
    - `transmits=True`: the contacts are *interfaces*. The potential changes where their gap changes sign, and the motion goes
      through instead of being reflected: a gap may be negative, and its zeros are located in both directions.
    - `highest_frequency(params)`: the largest angular frequency of small vibrations; with it a step beyond the stability limit of
      an explicit rule is refused.
    - `admissible(q, params)`: false where the potential has lost its meaning; a run that comes there ends.
    - `force(q, params)`: −∂V along each direction, by hand, where that is quicker than differentiating V. A test of the start
      compares the two.
    """

    masses: Named
    potential: Named
    separate: bool = eqx.field(static=True)
    transmits: bool = eqx.field(static=True)
    highest_frequency: Callable[[Any], float] | None = eqx.field(static=True)
    admissible: Named | None
    slope: Named | None

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
    ):
        masses = Named(mass, ("params",), "mass")
        height = Named(potential, ("q", "params"), "potential")

        def lagrangian(q, v, params):  # (1)
            return 0.5 * jnp.sum(masses(params=params) * v**2) - height(q=q, params=params)

        super().__init__(lagrangian, contacts, space=space)
        for contact in self.contacts:
            if contact.rough or contact.obstacle:
                raise InputError(
                    f"contact {contact.name!r}: systems with lumped masses take contacts without friction or obstacles"
                )
        self.masses, self.potential = masses, height
        self.separate, self.transmits, self.highest_frequency = separate, transmits, highest_frequency
        self.admissible = None if admissible is None else Named(admissible, ("q", "params"), "admissible")
        self.slope = None if force is None else Named(force, ("q", "params"), "force")

    def bind(self, params: Any, dim: int) -> "LumpedMechanics":
        return LumpedMechanics(self, params)


class LumpedMechanics(Mechanics):
    """A LumpedSystem with parameters. v, p and covectors have one entry per direction of the space, q one per coordinate."""

    lumped = True
    quadratic = constant_mass = autonomous = True
    moving, slip_dim, num_constraints = False, 0, 0

    def __init__(self, system: LumpedSystem, params: Any):
        space = system.space
        assert isinstance(space, Space)
        self.system, self.params, self.space = system, params, space
        self.dim, self.separate = space.dim, system.separate
        self._shapes = (jnp.zeros(space.size), jnp.zeros(space.dim), jnp.zeros(()), params)
        self.masses = jnp.asarray(system.masses(params=params), jnp.float64).reshape(space.dim)
        self._height = system.potential
        self._read_contacts()
        self.flows = {}

    def potential(self, q) -> Float[Array, ""]:
        return jnp.asarray(self._height(q=q, params=self.params)).reshape(())

    def admissible(self, q) -> Bool[Array, ""]:
        check = self.system.admissible
        return jnp.asarray(True) if check is None else jnp.all(check(q=q, params=self.params))

    def force(self, q, v=None, t=None) -> Float[Array, " dim"]:
        """−∂V along each direction of the space."""
        if self.system.slope is not None:
            return self.system.slope(q=q, params=self.params)
        return self.pull_back(q)

    def pull_back(self, q) -> Float[Array, " dim"]:
        """−∂V by differentiating V."""
        return -self.space.pull(q, jax.grad(self.potential)(q))

    def lagrangian(self, q, v, t):
        return 0.5 * jnp.sum(self.masses * v**2) - self.potential(q)

    def momentum(self, q, v, t):
        return self.masses * v

    def velocity(self, q, p, t):
        return p / self.masses

    def energy(self, q, v, t):
        return 0.5 * jnp.sum(self.masses * v**2) + self.potential(q)

    def mass(self, q, v, t):
        return jnp.diag(self.masses)

    def inverse_mass_times(self, q, v, t, covectors):
        return covectors / self.masses.reshape(-1, *[1] * (covectors.ndim - 1))

    # -- the contacts --------------------------------------------------------------------------------------------------

    def approach(self, q, v, t):
        return jax.jvp(lambda x: self.faces(x, t), (q,), (self.space.push(q, v),))

    def gap_drift(self, q, t):
        return jnp.zeros(self.num_faces)

    def rounding(self, q, v, t, dt):
        eps = float(jnp.finfo(q.dtype).eps)
        faces = lambda x: self.faces(x, t)  # noqa: E731
        reach = jnp.abs(q) + jnp.abs(self.space.push(q, v)) * dt
        if self.separate:
            gaps, back = jax.vjp(faces, q)
            total = back(jnp.ones_like(gaps))[0]
            return 64 * eps * jnp.abs(jax.jvp(faces, (q,), (jnp.sign(total) * reach,))[1])  # 64 as in Mechanics.rounding
        return 64 * eps * jnp.sum(jnp.abs(jax.jacfwd(faces)(q)) * reach, axis=1)

    def impulse(self, q, v, t, touching, width, simultaneous, differentiable) -> tuple[Impulse, Float[Array, " dim"]]:
        """(2), where no two contacts share a node."""
        if not self.separate:
            return super().impulse(q, v, t, touching, width, simultaneous, differentiable)
        faces = lambda x: self.faces(x, t)  # noqa: E731
        gaps, back = jax.vjp(faces, q)
        normal = self.space.pull(q, back(jnp.ones_like(gaps))[0])
        _, rates = self.approach(q, v, t)
        _, delassus = self.approach(q, normal / self.masses, t)
        restitution = self._coefficients("restitution")
        hit = jnp.asarray(touching) & (rates < 0)
        impulse = jnp.where(hit, -(1 + restitution) * rates / delassus, 0.0)
        elastic = jnp.all(~hit | (restitution == 1.0))
        direction = self.space.pull(q, back(impulse)[0])
        nothing = jnp.zeros((self.num_faces, 0))
        return Impulse(impulse, nothing, elastic, jnp.all(jnp.isfinite(impulse)), jnp.any(hit)), direction

    def closed(self, q, v, t, gaps_are_zero, width) -> Closed:
        """The contacts of a few bodies, as small matrices: see `Mechanics.closed`."""
        space, k = self.space, self.num_faces
        pull = lambda row: space.pull(q, row)  # noqa: E731
        normals = jax.vmap(pull)(jax.jacfwd(lambda x: self.faces(x, t))(q))
        delassus = matmul(normals, normals.T / self.masses[:, None])
        touching = jnp.asarray(gaps_are_zero)
        speed = jnp.sqrt(jnp.sum(self.masses * v**2))
        scale = jnp.sqrt(jnp.max(jnp.where(touching, jnp.diagonal(delassus), 0.0)))
        return Closed(
            normals=normals,
            tangents=jnp.zeros((k, 0, self.dim)),
            rates=jnp.sum(normals * v, axis=1),
            slides=jnp.zeros((k, 0)),
            delassus=delassus,
            touching=touching,
            restitution=self._coefficients("restitution"),
            friction=self._coefficients("friction"),
            small=jax.lax.stop_gradient(256 * float(jnp.finfo(q.dtype).eps) * speed * scale),
        )
