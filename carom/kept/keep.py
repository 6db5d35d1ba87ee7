"""`keep`: a function that is jitted, and whose finished programs are found again in another process.

    @keep
    def probe(system, params, q, v, t): …

Called with another kind of arguments (functions and numbers that are static, shapes, types) it looks for a finished program under
a key of everything that tracing could see: the arguments (`carom.closures.lasting`), carom itself and what it stands on
(`carom.kept.surroundings`). A program that is found is loaded, in some hundredths of a second, and nothing is traced. Otherwise
the function is traced and compiled as `equinox.filter_jit` does, and the program is kept. Where the key cannot be sure, or nothing
may be kept, it is `equinox.filter_jit`.

Where nothing is found, what is compiled is written by another thread, for which nobody waits. And while XLA compiles one program,
another may be traced that will be wanted soon (`meanwhile`, `ahead`): XLA needs no Python, and tracing nothing else.

Some versions of XLA say only when they compile that something cannot be part of a kernel. Such a kind of call is compiled again
with plain loops, and a warning says so.
"""

import contextlib
import hashlib
import threading
import warnings
from collections.abc import Callable
from functools import cached_property, partial, update_wrapper
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from carom.closures.lasting import Unsure, lasting
from carom.closures.per_object import per_object
from carom.kept.beside import at_once, beside
from carom.kept.finished import Finished, Store, store
from carom.kept.surroundings import constants, constants_of, surroundings, trace_context
from carom.xla.kernel import how_traced, without_kernels
from carom.xla.programs import (
    ONE_KERNEL,
    RUN_ONCE,
    SMALL_LOOPS,
    asked_for,
    compiled,
    compiled_anew,
    uncollected,
    without_names,
    without_places,
)
from carom.xla.structure import primitives_of

REMEMBERED = 256  # kinds of calls, each with its program
UNCALLED = 8  # programs that were compiled ahead and that nobody has called


class keep:  # a decorator
    """See above. Arguments are given by position; what is not an array is static, and has to be hashable. `options` are those of
    XLA, on a CPU."""

    def __init__(
        self, function: Callable[..., Any], origin: Callable[..., Any] | None = None, options: dict[str, Any] | None = None
    ):
        self.function, self.options = function, options or {}
        self.origin = function if origin is None else origin  # that decides what is computed, where `function` is a cover of it
        self.ready: dict[Any, Finished | None] = {}  # None: a kind that is left to filter_jit
        self.refused: set[Any] = set()  # kinds that cannot be a kernel
        self.coming: dict[str, tuple[_Lowered, Any]] = {}  # by their keys: programs that another thread is compiling
        self.loads = 0  # how many programs were found
        self.lock = threading.RLock()
        update_wrapper(self, function)

    @cached_property
    def plain(self) -> Callable[..., Any]:
        """Made where it is needed: thirty of them at the import would take as long as loading a program."""
        return eqx.filter_jit(self.function)

    @cached_property
    def plain_loops(self) -> Callable[..., Any]:
        def plain_loops(*args: Any) -> Any:
            with without_kernels():
                return self.function(*args)

        return eqx.filter_jit(plain_loops)

    def __call__(self, *args: Any, meanwhile: Callable[[Any], None] | None = None) -> Any:
        """`meanwhile` is called while XLA compiles, if it does, with what will be returned, arrays without values."""
        if self.refused and hashable_kind(args) in self.refused:
            return self.plain_loops(*args)
        try:
            return self.call(*args, **({} if meanwhile is None else {"meanwhile": meanwhile}))
        except jax.errors.JaxRuntimeError as error:
            if not str(error).startswith("UNIMPLEMENTED"):
                raise
        warnings.warn(
            f"this run cannot be one kernel with JAX {jax.__version__}, which makes it slower than with other versions of it",
            stacklevel=2,
        )
        self.refused.add(hashable_kind(args))
        return self.plain_loops(*args)

    def call(self, *args: Any, meanwhile: Callable[[Any], None] | None = None) -> Any:
        if store() is None and not (self.options and jax.default_backend() == "cpu"):
            return self.plain(*args)
        kind, arrays = kind_of(args)
        if kind is None:
            return self.plain(*args)
        try:
            found = self.ready[kind]
        except KeyError:
            with self.lock, uncollected():
                found = self.prepare(kind, args, arrays, meanwhile)
        except TypeError:  # something cannot be hashed
            return self.plain(*args)
        return self.plain(*args) if found is None else jax.tree.unflatten(found.results, found.call(*arrays))

    def prepare(self, kind: Any, args: Any, arrays: list[Any], meanwhile: Any = None) -> Finished | None:
        """The program for a kind of call: loaded, or traced and kept; None where filter_jit is to do it."""
        if kind in self.ready:  # another thread was faster
            return self.ready[kind]
        folder, found = store(), None
        key = None if (folder is None and not self.coming) or not _at_home(arrays) else key_of(self.origin, args)
        if key is not None and key in self.coming:
            found = self.finish(folder, key, *self.coming.pop(key), arrays)
        elif folder is not None and key is not None:
            found = folder.load(key, arrays)
            self.loads += found is not None
            found = found or self.make(folder, key, args, arrays, meanwhile)
        elif self.options and _at_home(arrays):  # the same numbers, whether programs are kept or not
            found = self.make(None, "", args, arrays, meanwhile)
        if len(self.ready) >= REMEMBERED:
            self.ready = {}
        self.ready[kind] = found
        return found

    def ahead(self, *args: Any) -> None:
        """Trace here, and let another thread compile, what a call with such arguments will want; their values do not matter.
        Whatever goes wrong is left to that call, which may never come."""
        with self.lock, uncollected(), contextlib.suppress(Exception):
            folder, (kind, arrays) = store(), kind_of(args)
            key = None if kind is None or kind in self.ready or not _at_home(arrays) else key_of(self.origin, args)
            if key is None or key in self.coming or (folder is not None and folder.file(key).exists()):
                return
            lowered = self.lower(args, arrays)
            if lowered is not None:
                self.coming = {} if len(self.coming) >= UNCALLED else self.coming
                self.coming[key] = lowered, beside(partial(lowered.compile, folder is not None))

    def make(self, folder: Store | None, key: str, args: Any, arrays: list[Any], meanwhile: Any = None) -> Finished | None:
        """Trace, compile, keep where there is a folder."""
        lowered = self.lower(args, arrays)
        if lowered is None:
            return None
        compile = partial(lowered.compile, folder is not None)
        if meanwhile is None:
            coming = at_once(compile)
        else:
            coming = beside(compile)
            with contextlib.suppress(Exception):
                meanwhile(jax.tree.unflatten(lowered.results, lowered.shapes))
        return self.finish(folder, key, lowered, coming, arrays)

    def finish(self, folder: Store | None, key: str, lowered: "_Lowered", coming: Any, arrays: list[Any]) -> Finished:
        """Wait for it, and let the other thread write it down."""
        program = coming.result()
        if folder is not None:
            beside(partial(folder.save, key, program, lowered.results, arrays, lowered.told))
        return Finished(program, lowered.results)

    def lower(self, args: Any, arrays: list[Any]) -> "_Lowered | None":
        """Traced. What calls Python while it runs belongs to this process: None, and it is left to filter_jit."""
        leaves, tree = jax.tree.flatten(args)
        fixed = [None if eqx.is_array(leaf) else leaf for leaf in leaves]
        holes = [eqx.is_array(leaf) for leaf in leaves]
        results: Any = None

        def flat(*arrays: Any) -> list[Any]:
            nonlocal results
            given = iter(arrays)
            whole = [next(given) if hole else leaf for hole, leaf in zip(holes, fixed, strict=True)]
            returned, results = jax.tree.flatten(self.function(*jax.tree.unflatten(tree, whole)))
            return returned

        with without_places(), asked_for() as more:
            traced = jax.jit(flat).trace(*arrays)
            if traced.jaxpr.effects or any("callback" in name or name in FOREIGN for name in primitives_of(traced.jaxpr.jaxpr)):
                return None
            lowered = traced.lower()  # which traces the way back of a gradient
        without_names(lowered)
        return _Lowered(lowered, {**self.options, **more}, results, traced.jaxpr.out_avals, _constants())


class _Lowered(NamedTuple):
    """What is left to XLA."""

    lowered: Any
    options: dict[str, Any]
    results: Any  # how they are put together
    shapes: list[Any]
    told: Any  # `constants`, None where nobody can be sure

    def compile(self, keep: bool) -> Any:
        with compiled_anew() if keep else contextlib.nullcontext():
            return compiled(self.lowered, self.options)


def _constants() -> Any:
    with contextlib.suppress(Unsure):
        return constants()
    return None


keep_small = partial(keep, options=SMALL_LOOPS)  # for loops over small systems
keep_kernel = partial(keep, options=ONE_KERNEL)  # for kernels over many lanes
keep_quick = partial(keep, options=RUN_ONCE)  # for what runs once: compiled in a third of the time, without optimisation


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


def kind_of(args: Any) -> tuple[Any, list[Any]]:
    """What a program is compiled for, and the arrays it is called with. None where it is not to be kept: inside other
    transformations, while JAX is asked to look more closely or not to compile, on other devices than the first."""
    config = jax.config
    if trace_context is None or config.jax_disable_jit or config.jax_debug_nans or config.jax_debug_infs:
        return None, []
    kind: list[Any] = [trace_context(), how_traced()]
    arrays: list[Any] = []
    for arg in args:
        inside, values = (_of_module if isinstance(arg, eqx.Module) else _parts)(arg)
        if inside is None:
            return None, []
        kind.append(inside)
        arrays += values
    return tuple(kind), arrays


def hashable_kind(args: Any) -> Any:
    """What a compilation depends on, or None where something cannot be hashed or nothing is kept."""
    kind, _ = kind_of(args)
    try:
        hash(kind)
    except TypeError:
        return None
    return kind


def _parts(arg: Any) -> tuple[Any, list[Any]]:
    """The same of one argument; None where JAX is tracing something in it."""
    leaves, tree = jax.tree.flatten(arg)
    kind, arrays, home = [tree], [], None
    for leaf in leaves:
        if isinstance(leaf, (np.ndarray, np.generic)):
            kind += leaf.shape, leaf.dtype, False, None
            arrays.append(leaf)
        elif isinstance(leaf, jax.core.Tracer):
            return None, []
        elif isinstance(leaf, jax.Array):
            # What numpy holds at the start of a run, JAX holds after its first part: one program for both.
            home = home or {jax.devices()[0]}
            here = leaf.devices() == home
            kind += leaf.shape, leaf.dtype, leaf.weak_type, None if here else leaf.sharding
            arrays.append(leaf)
        else:
            kind += type(leaf), leaf
    return tuple(kind), arrays


class _Same:
    """Stands for a kind that many arguments share, and is compared by identity, in no time."""


_KINDS: dict[Any, _Same] = {}


@per_object
def _of_module(arg: Any) -> tuple[Any, list[Any]]:
    """Of a system or a method, which do not change."""
    kind, arrays = _parts(arg)
    try:
        if kind is None or kind in _KINDS:
            return kind and _KINDS[kind], arrays
    except TypeError:  # something cannot be hashed: told where the program is looked up
        return kind, arrays
    if len(_KINDS) >= REMEMBERED:
        _KINDS.clear()
    _KINDS[kind] = _Same()
    return _KINDS[kind], arrays


def _at_home(arrays: list[Any]) -> bool:
    """On the first device, where programs are loaded."""
    here = {jax.devices()[0]}
    return jax.config.jax_default_device is None and all(x.devices() == here for x in arrays if isinstance(x, jax.Array))


def _aval(x: Any) -> str:
    """What is known of an array while a function is traced. As a text: whether two arrays share one tuple for their shapes, as they
    do in some versions of JAX and after some ways of loading a program, is no part of it."""
    return f"array {x.dtype} {tuple(x.shape)} {bool(getattr(x, 'weak_type', False))}"
