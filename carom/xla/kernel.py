"""A loop as one kernel.

On a CPU, XLA runs a compiled loop by interpreting its kernels one by one: every fused operation costs about 50 ns, far more than
the arithmetic of a small mechanical system. It can instead compile a whole call, loops included, into a single function; it
does so by itself for the smallest loops and otherwise on request, by two attributes of the call. Measured on the bouncing
particle (order 4, history stored): 2.0 µs per step without them, 0.10 µs with them, and a third of the time to compile.

The attributes are hints: a version of XLA that does not know them ignores them, and the numbers stay the same. Some operations
(LAPACK, sorting, large matrix products) cannot live inside such a function, and are looked for first. An argument that nothing
in the function needs makes XLA's compiler abort; since an abort cannot be caught, the function is handed a `witness` of all its
arguments to depend on, and the hints are given only where a trial in another process has gone well (probe.py, once per machine and
version). CAROM_SINGLE_KERNEL=0 in the environment turns them off, CAROM_SINGLE_KERNEL=1 on, without a trial. README.md in
this folder says what all this relies on.
"""

import math
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import xla_metadata
from jax.extend.core import jaxpr_as_fun

from carom.xla.probe import known_verdict, verdict
from carom.xla.programs import ONE_KERNEL, ask_for
from carom.xla.structure import count, without_unused

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


class _Trace:
    """Of a kernel, and whether it holds something that is slow anywhere else."""

    only_for_kernels = False


_inside: ContextVar[_Trace | None] = ContextVar("inside a kernel", default=None)
_sealing: ContextVar[bool] = ContextVar("calls are sealed", default=True)
_allowed: ContextVar[bool] = ContextVar("kernels are made", default=True)


def single_kernel(function: Callable[..., Any], *args: Any, most: int | None = None) -> Any:
    """function(witness, *args), compiled as one kernel where that is possible, and where it has `most` operations at most. For
    computations that are not transformed any further: under `vmap` or inside another loop XLA may refuse it, or abort.

    The witness is one number computed from all arguments. The number of iterations of the function's loop has to depend on it
    (a witness that is not finite, say, ends the loop before it starts), and the function must not close over traced values.
    """
    everything, tree = jax.tree.flatten(args)
    leaves = [leaf for leaf in everything if jnp.size(leaf)]  # nothing can depend on an empty array

    def on_leaves(*leaves):
        some = iter(leaves)
        whole = [next(some) if jnp.size(leaf) else jnp.zeros(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in everything]
        return function(_witness(leaves), *jax.tree.unflatten(tree, whole))

    def traced(*leaves):
        # A function of its own each time: JAX remembers what it has traced by the function, not by what it was told around it.
        closed, shape = jax.make_jaxpr(lambda *leaves: on_leaves(*leaves), return_shape=True)(*leaves)
        return closed.replace(jaxpr=without_unused(closed.jaxpr)), shape

    enabled = _enabled()
    with _tracing(enabled) as trace:
        closed, shape = traced(*leaves)
    fits = enabled and not _is_foreign(closed.jaxpr) and (most is None or count(closed.jaxpr) <= most)
    if trace.only_for_kernels and not fits:
        closed, shape = traced(*leaves)
    inner = jax.jit(lambda leaves: jaxpr_as_fun(closed)(*leaves))
    if fits:
        ask_for(ONE_KERNEL)
        kernel = tagged(inner, xla_cpu_small_call="true", inlineable="false")
        inner = jax.jit(lambda leaves: kernel(_computed(leaves)))
    return jax.tree.unflatten(jax.tree.structure(shape), inner(leaves))


def sealed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a call of its own: inside a kernel it is then computed once, and not again for each of its uses."""

    def sealed_call(*args):
        return function(*args)

    call = tagged(jax.jit(sealed_call), inlineable="false")
    return lambda *args: call(*args) if inside_kernel() and _sealing.get() else function(*args)


@contextmanager
def _tracing(kernel: bool) -> Iterator[_Trace]:
    trace = _Trace()
    token = _inside.set(trace if kernel else None)
    try:
        yield trace
    finally:
        _inside.reset(token)


@contextmanager
def without_kernels() -> Iterator[None]:
    """Plain loops in what is traced here."""
    token = _allowed.set(False)
    try:
        yield
    finally:
        _allowed.reset(token)


@contextmanager
def unsealed() -> Iterator[None]:
    """Functions stay open while something is traced here: JAX 0.11 cannot linearize a sealed call with a loop inside, even where
    nothing of the loop is differentiated."""
    token = _sealing.set(False)
    try:
        yield
    finally:
        _sealing.reset(token)


class KernelState(NamedTuple):
    """Do programs run as one kernel, and why? `on` is None where nobody has asked yet."""

    on: bool | None
    why: str
    surprising: bool = False  # slower than it should be, and nobody asked for that


def kernel_state(ask: bool = True) -> KernelState:
    """Whether programs run as one kernel in this process. `ask`: try it out, in another process, if that was never done here."""
    if jax.default_backend() != "cpu":
        return KernelState(False, f"programs run on {jax.default_backend()}, which has no use for it")
    wish = os.environ.get("CAROM_SINGLE_KERNEL")
    if wish is not None:
        return KernelState(wish != "0", f"CAROM_SINGLE_KERNEL={wish}")
    found = verdict() if ask else known_verdict()
    if found is None:
        return KernelState(None, "not tried yet")
    return KernelState(found.works, found.why, surprising=not found.works)


@cache
def _warn_once(why: str) -> None:
    warnings.warn(
        f"programs do not run as one kernel and are some twenty times slower than they could be: {why}. "
        "`carom info` says more; CAROM_SINGLE_KERNEL=0 silences this",
        stacklevel=2,
    )


def how_traced() -> tuple[bool, bool, bool]:
    """What a trace that begins here will be told: part of the identity of its program."""
    return inside_kernel(), _sealing.get(), _allowed.get()


def inside_kernel() -> bool:
    """Is a kernel being traced?"""
    return _inside.get() is not None


def for_this_kernel() -> bool:
    """Is a kernel being traced, in which a loop costs nothing but its arithmetic? What is chosen by this answer is traced again
    if there is no kernel after all."""
    trace = _inside.get()
    if trace is not None:
        trace.only_for_kernels = True
    return trace is not None


def once(values: Any) -> Any:
    """The values themselves, computed once for all of their uses. XLA fuses an operation into each of its users, which repeats it;
    it does not look into a call."""
    return sealed(lambda values: values)(values)


def tagged(jitted: Callable[..., Any], **attributes: str) -> Callable[..., Any]:
    """A jitted function whose calls carry attributes for XLA."""
    with_attributes = getattr(xla_metadata, "xla_metadata_call2", None)
    if with_attributes is not None:  # jax 0.11: a call with attributes of its own; its derivatives have none
        return with_attributes(jitted, attributes, ad_metadata="drop")

    def call(*args):
        leaves, tree = jax.tree.flatten(jitted(*args))
        # An attribute given to a result goes to the call that it comes from. All of them: one that is not used later is dropped.
        return jax.tree.unflatten(tree, [xla_metadata.set_xla_metadata(leaf, **attributes) for leaf in leaves])

    return call


def _computed(args: Any) -> Any:
    """The arguments as results of a computation: a constant would be moved into the kernel, and its argument be needed no more."""
    zero = jax.lax.optimization_barrier(jnp.zeros((), jnp.int32))

    def compute(leaf):
        leaf = jnp.asarray(leaf)
        return leaf ^ (zero != 0) if leaf.dtype == bool else leaf + zero.astype(leaf.dtype)

    return jax.tree.map(compute, args)


def _witness(args: Any) -> jax.Array:
    """Not a number where an argument begins with none; an infinity is a value like others (a longest step, say)."""
    firsts = [jnp.asarray(leaf).reshape(-1)[0].astype(float) for leaf in jax.tree.leaves(args) if jnp.size(leaf)]
    firsts = jnp.stack(firsts)
    return jnp.sum(jnp.where(jnp.isinf(firsts), 0.0, firsts))


def _enabled() -> bool:
    if not _allowed.get():
        return False
    state = kernel_state()
    if not state.on and state.surprising:
        _warn_once(state.why)
    return bool(state.on)


def _is_foreign(jaxpr: Any) -> bool:
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in _FOREIGN or "callback" in eqn.primitive.name:
            return True
        if eqn.primitive.name == "dot_general" and min(v.aval.ndim for v in eqn.invars) > 1:
            return True
        if eqn.primitive.name == "scatter" and math.prod(eqn.invars[1].aval.shape[:-1]) != 1:  # more than one place
            return True
        for value in eqn.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns") and _is_foreign(inner):
                    return True
    return False
