"""Some lanes out of many, and back."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from carom.xla.kernel import inside_kernel


def take_lanes(tree: Any, members: jax.Array) -> Any:
    """Some lanes of all arrays. In a kernel a loop of single moves is three times faster than the compiler's gather."""
    if not inside_kernel():
        return jax.tree.map(lambda x: jnp.take(x, members, axis=-1, mode="clip"), tree)

    def move(i, out):
        one = lambda x, o: _place(o, lax.dynamic_index_in_dim(x, members[i], x.ndim - 1), i)  # noqa: E731
        return jax.tree.map(one, tree, out)

    return lax.fori_loop(0, len(members), move, jax.tree.map(lambda x: jnp.zeros((*x.shape[:-1], len(members)), x.dtype), tree))


def put_lanes(tree: Any, new: Any, members: jax.Array, count: jax.Array) -> Any:
    """The first `count` of the `members` of all arrays replaced; the others stay."""
    if not inside_kernel():
        beyond = jax.tree.leaves(tree)[0].shape[-1]
        places = jnp.where(jnp.arange(len(members)) < count, members, beyond)
        return jax.tree.map(lambda x, y: x.at[..., places].set(y, mode="drop", unique_indices=False), tree, new)

    def move(i, out):
        return jax.tree.map(lambda y, o: _place(o, lax.dynamic_index_in_dim(y, i, y.ndim - 1), members[i]), new, out)

    return lax.fori_loop(0, count, move, tree)


def _place(array: jax.Array, piece: jax.Array, where: Any) -> jax.Array:
    return lax.dynamic_update_slice_in_dim(array, piece, where, array.ndim - 1)
