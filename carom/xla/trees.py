"""Trees of arrays inside compiled loops."""

from typing import Any

import jax
import jax.numpy as jnp


def choose(condition: Any, new: Any, old: Any) -> Any:
    """`new` where the condition holds, otherwise `old`, leaf by leaf."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def write_row(rows: Any, index: Any, row: Any) -> Any:
    """Each array of `rows` with its row number `index` replaced."""
    return jax.tree.map(lambda r, x: jax.lax.dynamic_update_index_in_dim(r, jnp.asarray(x).astype(r.dtype), index, 0), rows, row)
