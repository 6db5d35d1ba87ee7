"""`keep`: a function that is jitted, and whose finished programs are found again in another process.

    @keep
    def probe(system, params, q, v, t): …

Called with another kind of arguments (functions and numbers that are static, shapes, types) it looks for a finished program under
a key of everything that tracing could see: the arguments (`carom.closures.lasting`), carom itself and what it stands on
(`carom.kept.surroundings`). A program that is found is loaded, in some hundredths of a second, and nothing is traced. Otherwise
the function is traced and compiled as `equinox.filter_jit` does, and the program is kept. Where the key cannot be sure, or nothing
may be kept, it is `equinox.filter_jit`.
"""

import hashlib
import threading
from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import Any

import equinox as eqx
import jax
import numpy as np

from carom.closures.lasting import Unsure, lasting
from carom.kept.finished import Finished, Store, store
from carom.kept.surroundings import constants_of, surroundings, trace_context
from carom.xla.kernel import how_traced
from carom.xla.programs import compiled_anew, without_places
from carom.xla.structure import primitives_of

REMEMBERED = 256  # kinds of calls, each with its program


class keep:  # a decorator
    """See above. Arguments are given by position; what is not an array is static, and has to be hashable."""

    def __init__(self, function: Callable[..., Any], origin: Callable[..., Any] | None = None):
        self.function = function
        self.origin = function if origin is None else origin  # that decides what is computed, where `function` is a cover of it
        self.ready: dict[Any, Finished | None] = {}  # None: a kind that is left to filter_jit
        self.loads = 0  # how many programs were found
        self.lock = threading.RLock()
        update_wrapper(self, function)

    @cached_property
    def plain(self) -> Callable[..., Any]:
        """Made where it is needed: thirty of them at the import would take as long as loading a program."""
        return eqx.filter_jit(self.function)

    def __call__(self, *args: Any) -> Any:
        if store() is None:
            return self.plain(*args)
        leaves, tree = jax.tree.flatten(args)
        arrays = [leaf for leaf in leaves if eqx.is_array(leaf)]
        kind = _kind(leaves, tree)
        if kind is None:
            return self.plain(*args)
        try:
            found = self.ready[kind]
        except KeyError:
            with self.lock:
                found = self.prepare(kind, args, leaves, arrays, tree)
        except TypeError:  # something cannot be hashed
            return self.plain(*args)
        return self.plain(*args) if found is None else jax.tree.unflatten(found.results, found.call(*arrays))

    def prepare(self, kind: Any, args: Any, leaves: list[Any], arrays: list[Any], tree: Any) -> Finished | None:
        """The program for a kind of call: loaded, or traced and kept; None where filter_jit is to do it."""
        if kind in self.ready:  # another thread was faster
            return self.ready[kind]
        folder, found = store(), None
        key = None if folder is None or not _at_home(arrays) else key_of(self.origin, args)
        if folder is not None and key is not None:
            found = folder.load(key, arrays)
            self.loads += found is not None
            found = found or self.make(folder, key, leaves, arrays, tree)
        if len(self.ready) >= REMEMBERED:
            self.ready = {}
        self.ready[kind] = found
        return found

    def make(self, folder: Store, key: str, leaves: list[Any], arrays: list[Any], tree: Any) -> Finished | None:
        """Trace, compile, keep. What calls Python while it runs belongs to this process, and is left to filter_jit."""
        fixed = [None if eqx.is_array(leaf) else leaf for leaf in leaves]
        holes = [eqx.is_array(leaf) for leaf in leaves]
        results: Any = None

        def flat(*arrays: Any) -> list[Any]:
            nonlocal results
            given = iter(arrays)
            whole = [next(given) if hole else leaf for hole, leaf in zip(holes, fixed, strict=True)]
            returned, results = jax.tree.flatten(self.function(*jax.tree.unflatten(tree, whole)))
            return returned

        with without_places():
            traced = jax.jit(flat).trace(*arrays)
            if traced.jaxpr.effects or any("callback" in name or name in FOREIGN for name in primitives_of(traced.jaxpr.jaxpr)):
                return None
            lowered = traced.lower()  # which traces the way back of a gradient
        with compiled_anew():
            compiled = lowered.compile()
        folder.save(key, compiled, results, arrays)
        return Finished(compiled, results)


def key_of(function: Callable[..., Any], args: Any) -> str | None:
    """Everything that tracing can see, or None where that cannot be told."""
    seen = jax.tree.map(lambda leaf: _aval(leaf) if eqx.is_array(leaf) else leaf, args)
    homes: set[str] = set()
    try:
        parts = surroundings(), lasting(function, seen, homes=homes), constants_of(homes)
    except Unsure:
        return None
    return hashlib.blake2b(repr(parts).encode(), digest_size=20).hexdigest()


FOREIGN = frozenset(["ffi_call", "custom_call", "debug_print", "infeed", "outfeed"])


def _kind(leaves: list[Any], tree: Any) -> Any:
    """What a program is compiled for; None where it is not to be kept: inside other transformations, while JAX is asked to look
    more closely or not to compile, on other devices than the first."""
    config = jax.config
    if trace_context is None or config.jax_disable_jit or config.jax_debug_nans or config.jax_debug_infs:
        return None
    kind: list[Any] = [trace_context(), how_traced(), tree]
    home = {jax.devices()[0]}
    for leaf in leaves:
        if isinstance(leaf, jax.core.Tracer):
            return None
        if isinstance(leaf, jax.Array):
            # What numpy holds at the start of a run, JAX holds after its first part: one program for both.
            here = leaf.devices() == home
            kind += leaf.shape, leaf.dtype, leaf.weak_type, None if here else leaf.sharding
        elif isinstance(leaf, (np.ndarray, np.generic)):
            kind += leaf.shape, leaf.dtype, False, None
        else:
            kind += type(leaf), leaf
    return tuple(kind)


def _at_home(arrays: list[Any]) -> bool:
    """On the first device, where programs are loaded."""
    here = {jax.devices()[0]}
    return jax.config.jax_default_device is None and all(x.devices() == here for x in arrays if isinstance(x, jax.Array))


def _aval(x: Any) -> tuple[str, str, tuple[int, ...], bool]:
    """What is known of an array while a function is traced."""
    return "array", str(x.dtype), tuple(x.shape), bool(getattr(x, "weak_type", False))
