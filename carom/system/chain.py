"""A body as a chain of elements: what its potential is made of, so that balances can be drawn up for any part of it.

V(q) = Σ Vₐ(qₐ, qₐ₊₁) + Σ Uₐ(qₐ)          elements between neighbouring nodes, and loads on nodes                          (1)
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from carom.calls import public
from carom.named import Named
from carom.spaces.space import Space
from carom.wanted import AtLeastTwo


@public
class Chain(eqx.Module):
    """(1) for a `LumpedSystem` of `nodes` nodes, each of them in `space`.

    - `element(left, right, index, params)`: the energy of element a, between nodes a and a + 1.
    - `load(q, index, params)`: the energy of node a in an outer potential, its weight for instance.
    """

    space: Space
    nodes: int = eqx.field(static=True)
    element: Named
    load: Named | None

    def __init__(self, space: Space, nodes: AtLeastTwo, element: Callable[..., Any], load: Callable[..., Any] | None = None):
        self.space, self.nodes = space, nodes
        self.element = Named(element, ("left", "right", "index", "params"), "element")
        self.load = None if load is None else Named(load, ("q", "index", "params"), "load")

    def energy(self, left, right, index, params) -> Float[Array, ""]:
        return jnp.asarray(self.element(left=left, right=right, index=index, params=params)).reshape(())

    def load_at(self, q, index, params) -> Float[Array, ""]:
        return jnp.zeros(()) if self.load is None else jnp.asarray(self.load(q=q, index=index, params=params)).reshape(())

    def potential(self, q, params) -> Float[Array, ""]:
        """(1)."""
        x, index = q.reshape(self.nodes, -1), jnp.arange(self.nodes)
        inner = jax.vmap(lambda a, b, i: self.energy(a, b, i, params))(x[:-1], x[1:], index[:-1])
        return jnp.sum(inner) + jnp.sum(jax.vmap(lambda a, i: self.load_at(a, i, params))(x, index))
