"""What contacts have in common as rows: gaps, normals, sliding velocities, and what the laws of impact make of them."""

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from carom.contact.laws import Closed
from carom.named import Named
from carom.numerics.held_fixed import held_fixed
from carom.numerics.linalg import matmul, matvec
from carom.system.functions import Functions

RATE_ROUNDINGS = 256  # in a rate: products with a mass matrix and its inverse
STICKING = 1e-13  #      of the speeds in a contact problem: what its solution leaves of one that is to be zero
LAW_ROUNDING = 1e-9  # of a restitution that a law of one's own comes to


class ContactRows(abc.ABC):
    """Contacts as rows, laid out by face: all contacts of a system (`carom.system.contacts`), or those that take part in a step
    (`carom.system.contacts_in_step`)."""

    functions: Functions
    owner: np.ndarray  #       the contact of each face
    num_faces: int
    num_contacts: int
    slip_dim: int
    contact_of: Any  #         the place of each face's Contact in the list of the system
    plain: bool  #             no obstacles with several faces

    @abc.abstractmethod
    def faces(self, q, t) -> Float[Array, " faces"]:
        """The gaps of all faces."""

    @abc.abstractmethod
    def normals(self, q, t) -> Float[Array, "faces dim"]:
        """∇φ."""

    @abc.abstractmethod
    def wall_speed(self, q, t) -> Float[Array, " faces"]:
        """∂φ/∂t: how fast the walls move."""

    @abc.abstractmethod
    def gap_rounding(self, q, v, t, dt) -> Float[Array, " contacts"]:
        """How far a gap may be from zero by rounding alone."""

    @abc.abstractmethod
    def slides(self, q, v, t) -> Float[Array, "faces m"]:
        """The sliding velocities of all contact points; zero for contacts without friction."""

    @abc.abstractmethod
    def tangents(self, q, v, t) -> tuple[Float[Array, "faces m dim"], Float[Array, "faces m"]]:
        """The rows of sliding velocities, which are linear in v, and these velocities."""

    @abc.abstractmethod
    def coefficients(self, name: str) -> Float[Array, " faces"]:
        """The restitution or the friction of every face."""

    # -- what follows ------------------------------------------------------------------------------------------------------

    def gaps(self, q, t) -> Float[Array, " contacts"]:
        return self.gather(self.faces(q, t))[0]

    def gather(self, faces, rates=None):
        """From faces to contacts: an obstacle is as far away as its farthest face."""
        if self.plain:
            return faces, rates
        groups = [jnp.asarray(np.flatnonzero(self.owner == i)) for i in range(self.num_contacts)]
        far = jnp.stack([group[jnp.argmax(faces[group])] for group in groups])
        return faces[far], None if rates is None else rates[far]

    def rates(self, q, v, t) -> Float[Array, " rows"]:
        """The rates of all faces, then all sliding velocities: what contact forces act on."""
        faces = jax.jvp(self.faces, (q, t), (self.functions.rates(q, v), jnp.ones_like(t)))[1]
        return jnp.concatenate([faces, self.slides(q, v, t).reshape(-1)]) if self.slip_dim else faces

    def rows(self, q, v, t) -> Float[Array, "rows dim"]:
        """How `rates` change with v."""
        tangents, _ = self.tangents(q, v, t)
        return jnp.concatenate([self.normals(q, t), tangents.reshape(-1, self.functions.dim)])

    def restitution(
        self, rates: Float[Array, " faces"], delassus: Float[Array, " faces"], touching: Bool[Array, " faces"], q, v, t
    ) -> Float[Array, " faces"]:
        """Of each face, with the rate of its gap before an impact and how its impulse changes that."""
        values = self.coefficients("restitution")
        for i, contact in enumerate(self.functions.system.contacts):
            law = contact.restitution
            if isinstance(law, Named) and law.asks_for("speed"):
                values = jnp.where(self.contact_of == i, self._of_speed(law, jnp.maximum(-rates, 0.0)), values)
            if contact.impulse is not None:
                ours = self._of_impulse(contact.impulse, -rates, delassus, touching & (self.contact_of == i), q, v, t)
                values = jnp.where(self.contact_of == i, ours, values)
        return values

    def _of_impulse(self, law: Named, speeds, delassus, touching, q, v, t) -> Float[Array, " faces"]:
        """The e of P = (1 + e) s / G. With e < 0 what approaches would go on, with e > 1 energy would be added: neither is a law,
        and no number stands for it."""
        place, velocity = self.functions.place(q), self.functions.body_velocity(q, v)

        def one(speed, g, meets):
            mass = 1 / jnp.where(g > 0, g, 1.0)
            value = law(q=place, v=velocity, t=t, params=self.functions.params, speed=speed, mass=mass)
            e = jnp.asarray(value, float).reshape(()) / jnp.where(speed > 0, mass * speed, 1.0) - 1
            kept = jnp.where(e > 1, 1.0, jnp.where(e < 0, 0.0, e))
            allowed = (e >= -LAW_ROUNDING) & (e <= 1 + LAW_ROUNDING)
            return jnp.where(meets & (speed > 0) & (g > 0), jnp.where(allowed, kept, jnp.nan), 0.0)

        return jax.vmap(one)(speeds, delassus, touching)

    def friction(self, slides: Float[Array, "faces m"], resting: Bool[Array, " faces"]) -> Float[Array, " faces"]:
        """Of each face, with its sliding velocity; `resting` are those that do not slide."""
        values = self.coefficients("friction")
        square = jnp.sum(slides**2, axis=1)
        speed = jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)
        for i, contact in enumerate(self.functions.system.contacts):
            law, static = contact.friction, contact.static_friction
            if isinstance(law, Named) and law.asks_for("speed"):
                values = jnp.where(self.contact_of == i, self._of_speed(law, jnp.where(resting, 0.0, speed)), values)
            if static is not None:
                static = static(params=self.functions.params) if isinstance(static, Named) else static
                values = jnp.where((self.contact_of == i) & resting, static, values)
        return values

    def _of_speed(self, law: Named, speeds: Float[Array, " faces"]) -> Float[Array, " faces"]:
        return jax.vmap(lambda speed: jnp.asarray(law(speed=speed, params=self.functions.params), float).reshape(()))(speeds)

    def closed(self, mechanics: Any, q, v, t, gaps_are_zero: Bool[Array, " contacts"], gap_rounding, pace: Any = 0.0) -> Closed:
        """Everything the laws of impact need to know about the contacts at one instant. `pace` is a speed that forces cause in a
        step: what sticks against them is at rest to its rounding."""
        normals, drift = self.normals(q, t), self.wall_speed(q, t)
        tangents, slides = self.tangents(q, v, t)
        rows = jnp.concatenate([normals, tangents.reshape(-1, self.functions.dim)])
        response = mechanics.inverse_mass_times(q, v, t, rows.T)
        touching = jnp.asarray(gaps_are_zero)[self.owner]
        if not self.plain:  # at a corner only the faces that meet there count
            faces = self.faces(q, t)
            touching = touching & (faces >= self.gather(faces)[0][self.owner] - gap_rounding[self.owner])
        delassus = matmul(rows, response)
        scale = jnp.sqrt(jnp.max(jnp.where(touching, jax.lax.stop_gradient(jnp.diagonal(delassus)[: self.num_faces]), 0.0)))
        speed = held_fixed(mechanics.speed)(q, v, t)
        eps = float(jnp.finfo(q.dtype).eps)
        rounding = RATE_ROUNDINGS * eps * (speed * scale + jax.lax.stop_gradient(jnp.max(jnp.abs(drift), initial=0.0)))
        rates, square = matvec(normals, v) + drift, jnp.sum(slides**2, axis=1)
        resting = square <= (rounding + STICKING * jax.lax.stop_gradient(pace)) ** 2
        return Closed(
            normals=normals,
            tangents=tangents,
            rates=rates,
            slides=slides,
            delassus=delassus,
            touching=touching,
            restitution=self.restitution(rates, jnp.diagonal(delassus)[: self.num_faces], touching, q, v, t),
            friction=self.friction(slides, resting),
            rate_rounding=rounding,
        )
