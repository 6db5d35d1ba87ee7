"""Trees of arrays inside compiled loops."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def fetched(tree: Any) -> Any:
    """Arrays of numpy. From another device all copies are begun before the first is waited for; on the CPU nothing is copied, and
    asking for it would take longer than a small program."""
    return jax.tree.map(np.asarray, tree) if jax.default_backend() == "cpu" else jax.device_get(tree)


def choose(condition: Any, new: Any, old: Any) -> Any:
    """`new` where the condition holds, otherwise `old`, leaf by leaf."""
    return jax.tree.map(lambda a, b: _chosen(condition, a, b), new, old)


def _chosen(condition: Any, new: Any, old: Any) -> Any:
    """One operation where there is nothing to spread or to convert: `jnp.where` is a call of four, and a step has a hundred."""
    arrays = all(isinstance(x, jax.Array) for x in (condition, new, old))
    if arrays and condition.ndim == 0 and condition.dtype == bool and (new.shape, new.dtype) == (old.shape, old.dtype):
        return jax.lax.select(condition, new, old)
    return jnp.where(condition, new, old)


def write_row(rows: Any, index: Any, row: Any) -> Any:
    """Each array of `rows` with its row number `index` replaced."""
    return jax.tree.map(lambda r, x: jax.lax.dynamic_update_index_in_dim(r, jnp.asarray(x).astype(r.dtype), index, 0), rows, row)
