"""Charts: a system on rotations or rigid motions, as one on a vector space.

Mechanics needs a handful of functions of arrays. On a vector space they are the user's own. On rotations and rigid motions, where a
configuration q has more coordinates than a velocity has entries, a *chart* around a configuration c brings them to a vector space,

    q = retract(c, x),        v = D(x) ẋ,        D(0) = 1,                                                     (1)
    L̃(x, ẋ) = L(q, v),   f̃ = Dᵀf,   Ã = A D,   φ̃(x) = φ(q),        p̃ = Dᵀp,                                    (2)

with body velocities v and body momenta p. Whatever is written for vector spaces then runs on the group, from x = 0, where
p̃ = p; where a step ends, (1) and (2) lead back.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from carom.numerics.held_fixed import held_fixed
from carom.system.functions import Functions


def chart_around(functions: Functions, centre: Float[Array, " size"]) -> Functions:
    """(1)–(2) around a configuration; on a vector space nothing changes."""
    return functions if functions.space is None else ChartFunctions(functions, centre)


class ChartFunctions(Functions):
    """(1)–(2): the functions of a system on a group as functions on ℝⁿ."""

    is_chart = True

    def __init__(self, base: Functions, centre: Float[Array, " size"]):
        assert base.space is not None
        self.base, self.centre = base, centre
        self.system, self.params, self.contact_rows = base.system, base.params, base.contact_rows
        self.space, self.size, self.dim = None, base.dim, base.dim

    def place(self, q):
        assert self.base.space is not None
        return self.base.space.normalised(self.base.space.retract(self.centre, q))

    def _there(self, x):
        assert self.base.space is not None
        return self.base.space.retract(self.centre, x)

    def body_velocity(self, q, v):
        assert self.base.space is not None
        return self.base.space.chart_velocity(q, v)  # (1)

    def chart_rates(self, q, v):
        assert self.base.space is not None
        return self.base.space.chart_rates(q, v)

    def body_momentum(self, q, p):
        assert self.base.space is not None
        return self.base.space.chart_momentum(q, p)

    def pulled_back(self, q, covectors) -> Float[Array, "*k dim"]:
        """Dᵀ of one covector, or of each row of several."""
        _, back = jax.vjp(lambda v: self.body_velocity(q, v), jnp.zeros(self.dim, q.dtype))
        return back(covectors)[0] if covectors.ndim == 1 else jax.vmap(lambda row: back(row)[0])(covectors)

    def lagrangian(self, q, v, t):
        return self.base.lagrangian(self._there(q), self.body_velocity(q, v), t)

    def hamiltonian(self, q, p, t):
        return self.base.hamiltonian(self._there(q), self.body_momentum(q, p), t)

    def force(self, q, v, t):
        if not self.forced:
            return jnp.zeros(self.dim, q.dtype)
        return self.pulled_back(q, self.base.force(self._there(q), self.body_velocity(q, v), t))

    def constraints(self, q, t):
        if self.system.constraints is None:
            return jnp.zeros((0, self.dim), q.dtype)
        return self.pulled_back(q, self.base.constraints(self._there(q), t))

    def joints(self, q, t):
        if not self.system.joints:
            return jnp.zeros(0, q.dtype)
        return self.base.joints(self._there(q), t)

    def faces(self, q, t):
        return self.base.faces(self._there(q), t)

    def normals(self, q, t):
        return self.pulled_back(q, self.base.normals(self._there(q), t))  # (2): the gaps are differentiated without the retraction

    def slide(self, contact, size, q, v, t):
        return self.base.slide(contact, size, self._there(q), self.body_velocity(q, v), t)

    def gap_rounding(self, q, v, t, dt, index=None):
        return held_fixed(lambda q, v: self.base.gap_rounding(self._there(q), self.body_velocity(q, v), t, dt, index))(q, v)

    def gap_rounding_estimate(self, q, v, t, dt):
        return self.base.gap_rounding_estimate(self._there(q), self.body_velocity(q, v), t, dt)

    def coordinates(self, q):
        return jnp.zeros(self.dim, q.dtype)
