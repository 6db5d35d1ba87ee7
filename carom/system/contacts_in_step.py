"""The few contacts that take part in a step or an impact, gathered from the many that are open.

Rows of normals and tangents, the Delassus matrix and the laws of contact cost for every contact they hold, closed or open: with
fifty discs in the plane there are 1375 gaps, 2750 rows, and perhaps twenty contacts. So where there are more contacts than *room*,
those that may be closed are picked first, and only these have rows,

    index[c], live[c]      the contact in slot c of the table, and whether the slot is in use                             (1)

An open contact then costs its gap; and its slopes in steps where another is closed, since derivatives are taken forwards,
coordinate by coordinate: a pass over all gaps, but cheap beside one backwards, where reading q[i] becomes adding to it, one by one.
A slot that is not in use shows a contact that is open. If more are picked than there is room for, the table is `full`: the step is
not taken, and the caller tries again with more room.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from carom.numerics.slopes import slopes
from carom.system.contacts import Contacts
from carom.system.contacts_as_rows import ContactRows
from carom.xla.trees import write_row

GENEROUS = 1000.0  # times the estimated rounding of a gap: of two equal slopes, four pairs in a million cancel further than this
FUSED = 4096  #      entries up to which a table is spread by comparing all pairs: plain code, which a kernel can hold


class Near(NamedTuple):
    """(1)"""

    index: Int[Array, " c"]
    live: Bool[Array, " c"]
    full: Bool[Array, ""]

    def spread(self, values: Float[Array, "c *m"], size: int) -> Float[Array, "size *m"]:
        """From the slots back to all contacts; what has no slot is zero."""
        slots = self.index.shape[0]
        if slots * size <= FUSED:
            here = (self.index[:, None] == jnp.arange(size)) & self.live[:, None]
            here = here.reshape(here.shape + (1,) * (values.ndim - 1))
            return jnp.sum(jnp.where(here, values[:, None], 0), axis=0).astype(values.dtype)
        place = jnp.where(self.live, self.index, size)
        return jnp.zeros((size + 1, *values.shape[1:]), values.dtype).at[place].set(values)[:size]


def pick(wanted: Bool[Array, " k"], room: int) -> Near:
    """The contacts that are wanted, in the order of the list. Each costs a look at all of them."""
    everyone = jnp.arange(wanted.shape[0], dtype=jnp.int32)

    def more(carry):
        count, left, _ = carry
        return (count < room) & jnp.any(left)

    def take(carry):
        count, left, index = carry
        first = jnp.argmax(left).astype(jnp.int32)
        return count + 1, left & (everyone != first), write_row(index, count, first)

    start = (jnp.zeros((), jnp.int32), jax.lax.stop_gradient(wanted), jnp.zeros(room, jnp.int32))
    count, left, index = jax.lax.while_loop(more, take, start)
    return Near(index, jnp.arange(room) < count, jnp.any(left))


def near_contacts(contacts: Contacts, q, v, t, dt, reach: Float[Array, " k"] | float = 0.0) -> Near | None:
    """The contacts whose gap is at most `reach`, or rounding; None where there is room for all."""
    if contacts.has_room:
        return None
    if contacts.functions.dim <= contacts.room:  # the matrix of normals is small
        width = contacts.gap_rounding(q, v, t, dt)
    else:
        width = GENEROUS * contacts.functions.gap_rounding_estimate(q, v, t, dt)
    return pick(contacts.gaps(q, t) <= width + reach, contacts.room)


class NearContacts(ContactRows):
    """The contacts in the slots of a table, as rows."""

    plain = True

    def __init__(self, everyone: Contacts, near: Near):
        self.everyone, self.near, self.functions = everyone, near, everyone.functions
        self.num_faces = self.num_contacts = near.index.shape[0]
        self.contact_of = jnp.asarray(everyone.contact_of)[near.index]
        self.owner, self.slip_dim = np.arange(self.num_faces), everyone.slip_dim

    def faces(self, q, t) -> Float[Array, " c"]:
        return jnp.where(self.near.live, self.everyone.faces(q, t)[self.near.index], 1.0)

    def normals(self, q, t) -> Float[Array, "c dim"]:
        rows = slopes(lambda x: self.everyone.faces(x, t)[self.near.index], q)
        space = self.functions.space
        return rows if space is None else jax.vmap(lambda row: space.pull(q, row))(rows)

    def wall_speed(self, q, t) -> Float[Array, " c"]:
        return self.everyone.wall_speed(q, t)[self.near.index]

    def gap_rounding(self, q, v, t, dt) -> Float[Array, " c"]:
        return self.functions.gap_rounding(q, v, t, jnp.asarray(dt, q.dtype), self.near.index)

    def slides(self, q, v, t) -> Float[Array, "c m"]:
        return self.everyone.slides(q, v, t)[self.near.index]

    def tangents(self, q, v, t) -> tuple[Float[Array, "c m dim"], Float[Array, "c m"]]:
        if self.slip_dim == 0:
            return jnp.zeros((self.num_faces, 0, self.functions.dim), q.dtype), jnp.zeros((self.num_faces, 0), q.dtype)
        return slopes(lambda v: self.slides(q, v, t), v), self.slides(q, v, t)

    def coefficients(self, name: str) -> Float[Array, " c"]:
        return self.everyone.coefficients(name)[self.near.index]
