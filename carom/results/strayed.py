"""Indices that are computed from the motion, and left their arrays on the way: `params["table"][jnp.int32(q[0])]`.

JAX reads the nearest entry instead. That may be meant, and nobody can tell before the run; afterwards the states are there, and the
indices of each function are computed along them once more.
"""

from functools import lru_cache
from typing import Any

import jax
import numpy as np

from carom.named import Named
from carom.xla.indices import wrong
from carom.xla.watched_indices import watched

KNOWN = ("q", "v", "p", "t", "params")
MOST_STATES = 4096  # of a run; one number, so that there is one compilation


def strayed(solution: Any) -> list[str]:
    """A sentence for each function that read an entry which is not there."""
    leaves, tree = jax.tree.flatten_with_path(solution.params)
    labels = ("q", "v", "p", "t", *(f"params{jax.tree_util.keystr(path)}" for path, _ in leaves))
    shapes = (*(x.shape[1:] for x in (solution.q, solution.v, solution.p, solution.t)), *(np.shape(leaf) for _, leaf in leaves))
    sentences = []
    for function in _functions(solution.system):
        compute, places = _indices(function.function, function.wanted, labels, shapes, tree)
        if compute is None:
            continue
        rows = np.linspace(0, len(solution.t) - 1, MOST_STATES).astype(int)
        states = [x[rows] for x in (solution.q, solution.v, solution.p, solution.t)]
        for indices, place in zip(compute(*states, *(leaf for _, leaf in leaves)), places, strict=True):
            index = np.asarray(indices)
            outside = (index < 0) | (index > place.last)
            if outside.any():
                row = int(np.argmax(outside))
                entry = wrong(place.array, int(index[row]), place.size)
                sentences.append(
                    f"the {function.role} read {entry}, at t = {solution.t[rows[row]]:.6g}: it is not there, and JAX took the "
                    "nearest one. Make the array longer; or clip the index (jnp.clip), if that was meant"
                )
                break
    return sentences


def _functions(system: Any) -> list[Named]:
    """Those that depend on the state alone."""
    found = [system.lagrangian, system.hamiltonian, system.force, system.constraints, *(joint.g for joint in system.joints)]
    for contact in system.contacts:
        found += [contact.gap, contact.slip, contact.roll, contact.restitution, contact.friction]
    return [f for f in found if isinstance(f, Named) and set(f.wanted) <= set(KNOWN)]


@lru_cache(64)
def _indices(function: Any, wanted: tuple[str, ...], labels: tuple[str, ...], shapes: tuple, tree: Any) -> tuple[Any, list[Any]]:
    """Its indices at many states, compiled, and where they are used; the same for all values of the parameters."""

    def call(q, v, p, t, *leaves):
        values = {"q": q, "v": v, "p": p, "t": t, "params": jax.tree.unflatten(tree, leaves)}
        return function(**{name: values[name] for name in wanted})

    closed = jax.make_jaxpr(call)(*(jax.ShapeDtypeStruct(shape, float) for shape in shapes))
    compute, places = watched(closed, labels)
    if compute is None:
        return None, places
    along = (0,) * 4 + (None,) * (len(shapes) - 4)
    return jax.jit(jax.vmap(compute, along)), list(places)
