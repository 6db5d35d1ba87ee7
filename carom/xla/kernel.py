"""A loop as one kernel.

On a CPU, XLA runs a compiled loop by interpreting its kernels one by one: every fused operation costs about 50 ns, far more than
the arithmetic of a small mechanical system. It can instead compile a whole call, loops included, into a single function; it
does so by itself for the smallest loops and otherwise on request, by two attributes of the call. Measured on the bouncing
particle (order 4, history stored): 2.0 µs per step without them, 0.10 µs with them, and a third of the time to compile.

The attributes are hints: a version of XLA that does not know them ignores them, and the numbers stay the same. Some operations
(LAPACK, sorting, large matrix products) cannot live inside such a function, and are looked for first. An argument that nothing
in the function needs makes XLA's compiler abort; since an abort cannot be caught, the function is handed a `witness` of all its
arguments to depend on, and the hints are given only to versions of JAX that the tests have run with. CAROM_SINGLE_KERNEL=0 in the
environment turns them off, CAROM_SINGLE_KERNEL=1 on for any version.
"""

import os
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import jaxpr_as_fun

_TESTED_VERSIONS = ("0.10.1",)

# Primitives that XLA's CPU backend does not turn into plain code in place.
_FOREIGN = frozenset(
    [
        "lu",
        "cholesky",
        "eigh",
        "eig",
        "qr",
        "geqrf",
        "householder_product",
        "svd",
        "triangular_solve",
        "schur",
        "hessenberg",
        "tridiagonal",
        "tridiagonal_solve",
        "lu_pivots_to_permutation",
        "fft",
        "sort",
        "top_k",
        "conv_general_dilated",
        "ffi_call",
        "custom_call",
        "debug_print",
        "scatter-add",
        "scatter_mul",
        "scatter_min",
        "scatter_max",
    ]
)


_inside: ContextVar[bool] = ContextVar("inside a kernel", default=False)


def single_kernel(function: Callable[..., Any], *args: Any) -> Any:
    """function(witness, *args), compiled as one kernel where that is possible. For computations that are not transformed any
    further: under `vmap` or inside another loop XLA may refuse it, or abort.

    The witness is one number computed from all arguments. The number of iterations of the function's loop has to depend on it
    (a witness that is not finite, say, ends the loop before it starts), and the function must not close over traced values.
    """
    token = _inside.set(_enabled())
    try:
        closed, shape = jax.make_jaxpr(lambda *args: function(_witness(args), *args), return_shape=True)(*args)
    finally:
        _inside.reset(token)
    inner = jax.jit(lambda leaves: jaxpr_as_fun(closed)(*leaves))
    leaves = jax.tree.leaves(args)
    if _enabled() and not _is_foreign(closed.jaxpr):
        kernel = tagged(inner, xla_cpu_small_call="true", inlineable="false")
        inner = jax.jit(lambda leaves: kernel(_computed(leaves)))
    return jax.tree.unflatten(jax.tree.structure(shape), inner(leaves))


def sealed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a call of its own: inside a kernel it is then computed once, and not again for each of its uses."""

    def sealed_call(*args):
        return function(*args)

    call = tagged(jax.jit(sealed_call), inlineable="false")
    return lambda *args: call(*args) if _inside.get() else function(*args)


def inside_kernel() -> bool:
    """Is a kernel being traced?"""
    return _inside.get()


def once(values: Any) -> Any:
    """The values themselves, computed once for all of their uses. XLA fuses an operation into each of its users, which repeats it;
    it does not look into a call."""
    return sealed(lambda values: values)(values)


def tagged(jitted: Callable[..., Any], **attributes: str) -> Callable[..., Any]:
    """A jitted function whose calls carry attributes for XLA."""

    def call(*args):
        leaves, tree = jax.tree.flatten(jitted(*args))
        leaves[0] = set_xla_metadata(leaves[0], **attributes)  # goes to the call that it comes from
        return jax.tree.unflatten(tree, leaves)

    return call


def _computed(args: Any) -> Any:
    """The arguments as results of a computation: a constant would be moved into the kernel, and its argument be needed no more."""
    zero = jax.lax.optimization_barrier(jnp.zeros((), jnp.int32))

    def compute(leaf):
        leaf = jnp.asarray(leaf)
        return leaf ^ (zero != 0) if leaf.dtype == bool else leaf + zero.astype(leaf.dtype)

    return jax.tree.map(compute, args)


def _witness(args: Any) -> jax.Array:
    firsts = [jnp.asarray(leaf).reshape(-1)[0].astype(float) for leaf in jax.tree.leaves(args) if jnp.size(leaf)]
    return jnp.sum(jnp.stack(firsts))


def _enabled() -> bool:
    wish = os.environ.get("CAROM_SINGLE_KERNEL")
    return jax.default_backend() == "cpu" and (jax.__version__ in _TESTED_VERSIONS if wish is None else wish != "0")


def _is_foreign(jaxpr: Any) -> bool:
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in _FOREIGN or "callback" in eqn.primitive.name:
            return True
        if eqn.primitive.name == "dot_general" and min(v.aval.ndim for v in eqn.invars) > 1:
            return True
        if eqn.primitive.name == "scatter" and eqn.invars[1].aval.size != 1:
            return True
        for value in eqn.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns") and _is_foreign(inner):
                    return True
    return False
