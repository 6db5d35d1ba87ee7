"""The contacts of a system as rows: gaps, their rates, normals and tangents, and everything the laws of impact ask for."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from carom.errors import InputError
from carom.named import Named
from carom.numerics.slopes import slopes
from carom.system.contacts_as_rows import ContactRows
from carom.system.functions import Functions


class Contacts(ContactRows):
    """The contacts of one system with its parameters.

    A contact whose gap is a vector is as many contacts; an *obstacle* is one contact with as many faces. Rows are laid out by face;
    `owner[i]` is the contact of face i.
    """

    def __init__(self, functions: Functions):
        self.functions, self.system, self.params = functions, functions.system, functions.params
        q, t = jnp.zeros(functions.size), jnp.zeros(())
        owner, names, sizes = [], [], []
        base = functions.base if functions.is_chart else functions  # pyright: ignore[reportAttributeAccessIssue]
        for contact in self.system.contacts:
            at = jax.ShapeDtypeStruct((base.size,), q.dtype)
            shape = jax.eval_shape(lambda q, t, c=contact: jnp.asarray(c.gap(q=q, t=t, params=self.params)), at, t).shape
            if len(shape) > 1:
                raise InputError(f"gap of contact {contact.name!r} has shape {shape}; it must be a number or a vector")
            size = shape[0] if shape else 1
            label = contact.name or f"contact {len(sizes)}"
            several = shape and not contact.obstacle
            names += [f"{label}[{i}]" for i in range(size)] if several else [label]
            owner += range(len(names) - size, len(names)) if several else [len(names) - 1] * size
            sizes.append(size)
        self.owner, self.names, self.sizes = np.array(owner, int), tuple(names), sizes
        self.num_faces, self.num_contacts = len(owner), len(names)
        self.plain = self.num_faces == self.num_contacts  # no obstacles with several faces
        self.moving = any(c.gap.asks_for("t") for c in self.system.contacts)
        self.contact_of = np.repeat(np.arange(len(sizes)), sizes)
        self.slip_dim = max((self._slide_dim(c, s) for c, s in zip(self.system.contacts, sizes, strict=True) if c.rough), default=0)

    def _slide_dim(self, contact, size: int) -> int:
        functions = self.functions
        x, v, t = jnp.zeros(functions.size), jnp.zeros(functions.dim), jnp.zeros(())
        return jax.eval_shape(lambda q, v, t: functions.slide(contact, size, q, v, t), x, v, t).shape[1]

    # -- gaps ------------------------------------------------------------------------------------------------------------

    def faces(self, q, t) -> Float[Array, " faces"]:
        return self._faces(q, t)

    @functools.cached_property
    def _faces(self):
        return jax.jit(self.functions.faces)

    def approach(self, q, v, t) -> tuple[Float[Array, " contacts"], Float[Array, " contacts"]]:
        """Gaps and their rates, ∇φ·v + ∂φ/∂t."""
        return self._approach(q, v, t)

    @functools.cached_property
    def _approach(self):
        return jax.jit(self._approach_once)

    def _approach_once(self, q, v, t):
        if self.moving:
            along = (self.functions.rates(q, v), jnp.ones_like(t))
            faces, rates = jax.jvp(self.faces, (q, t), along)
        else:
            faces, rates = self.functions.along(lambda x: self.faces(x, t), q, v)
        gaps, rates = self.gather(faces, rates)
        assert rates is not None
        return gaps, rates

    def wall_speed(self, q, t) -> Float[Array, " faces"]:
        """∂φ/∂t: how fast the walls move."""
        if not self.moving:
            return jnp.zeros(self.num_faces, q.dtype)
        return jax.jvp(lambda s: self.faces(q, s), (t,), (jnp.ones_like(t),))[1]

    def gap_rounding(self, q, v, t, dt) -> Float[Array, " contacts"]:
        """How far a gap may be from zero by rounding alone."""
        size = self._gap_rounding(q, v, t, jnp.asarray(dt, q.dtype))
        return size if self.plain else jnp.stack([jnp.max(size[self.owner == i]) for i in range(self.num_contacts)])

    @functools.cached_property
    def _gap_rounding(self):
        return jax.jit(self.functions.gap_rounding)

    # -- rows ------------------------------------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """How many contacts may take part in a step or an impact: see `carom.system.contacts_in_step`."""
        return max(1, self.functions.contact_rows // (1 + self.slip_dim))

    @property
    def has_room(self) -> bool:
        """For all contacts. The faces of an obstacle stay together."""
        return self.num_faces <= self.room or not self.plain

    def normals(self, q, t) -> Float[Array, "faces dim"]:
        return self.functions.normals(q, t)

    def slides(self, q, v, t) -> Float[Array, "faces m"]:
        """The sliding velocities of all contact points; zero for contacts without friction."""
        rows = []
        for contact, size in zip(self.system.contacts, self.sizes, strict=True):
            row = self.functions.slide(contact, size, q, v, t) if contact.rough else jnp.zeros((size, 0), q.dtype)
            rows.append(jnp.pad(row, ((0, 0), (0, self.slip_dim - row.shape[1]))))
        return jnp.concatenate(rows) if rows else jnp.zeros((0, 0), q.dtype)

    def tangents(self, q, v, t) -> tuple[Float[Array, "faces m dim"], Float[Array, "faces m"]]:
        """The rows of sliding velocities, which are linear in v, and these velocities."""
        if self.slip_dim == 0:
            return jnp.zeros((self.num_faces, 0, self.functions.dim), q.dtype), jnp.zeros((self.num_faces, 0), q.dtype)
        return slopes(lambda v: self.slides(q, v, t), v), self.slides(q, v, t)

    def coefficients(self, name: str) -> Float[Array, " faces"]:
        """The restitution or the friction of every face, of bodies that do not move where it depends on that."""
        values = []
        for contact, size in zip(self.system.contacts, self.sizes, strict=True):
            value: Any = {"restitution": contact.restitution, "friction": contact.friction}[name]
            value = value(params=self.params, speed=jnp.zeros(())) if isinstance(value, Named) else value
            values.append(jnp.broadcast_to(jnp.asarray(value, float), (size,)))
        return jnp.concatenate(values) if values else jnp.zeros(0)
