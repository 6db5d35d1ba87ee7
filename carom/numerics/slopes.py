"""The matrix of derivatives of a vector of functions, forwards, where it is wide."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun
from jaxtyping import Array, Float

from carom.numerics.linalg import UNROLLED
from carom.xla.kernel import inside_kernel, once


def slopes(function: Callable[[Array], Float[Array, "*rows"]], q: Float[Array, " n"]) -> Float[Array, "*rows n"]:
    """∂function/∂q, direction by direction.

    What does not depend on the direction, sines above all, is computed once: inside a kernel XLA would otherwise compute it again
    for each entry. Of ten boxes in the plane these were 800 sines in a step, where twenty differ.
    """
    if q.shape[0] <= UNROLLED or not inside_kernel():
        return jax.jacfwd(function)(q)
    along = jax.linearize(function, q)[1]
    linear = jax.make_jaxpr(along)(q)
    linear = linear.replace(consts=[once(x) if isinstance(x, jax.core.Tracer) else x for x in linear.consts])
    return once(jax.vmap(lambda direction: jaxpr_as_fun(linear)(direction)[0], out_axes=-1)(jnp.eye(q.shape[0], dtype=q.dtype)))
