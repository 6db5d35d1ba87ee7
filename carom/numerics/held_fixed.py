"""Parts of a computation that nobody differentiates, kept away from autodiff altogether.

A root is found by a loop, and its derivative by the theorem on implicit functions, from one more evaluation at the root. The loop
itself needs no derivative. `stop_gradient` behind it says so too late: by then JAX has differentiated the loop with all that it
closes over, and what nobody uses has been traced, lowered and handed to the compiler, which throws it away. A step of a rigid body
with friction grew fourfold by that.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax.extend.core import jaxpr_as_fun

_F = TypeVar("_F", bound=Callable[..., Any])


def held_fixed(function: _F) -> _F:
    """The same function with derivatives of zero, with respect to its arguments and to everything that it closes over.

    It is traced by itself first: what it closes over shows up as constants, and these are stopped before anything is computed.
    """

    def fixed(*args):
        # A function of its own each time: JAX remembers traces by the function, and in a kernel another one is made.
        closed, shape = jax.make_jaxpr(lambda *args: function(*args), return_shape=True)(*args)
        stopped = closed.replace(consts=jax.lax.stop_gradient(closed.consts))
        out = jaxpr_as_fun(stopped)(*jax.lax.stop_gradient(jax.tree.leaves(args)))
        return jax.tree.unflatten(jax.tree.structure(shape), out)

    return fixed  # pyright: ignore[reportReturnType]
