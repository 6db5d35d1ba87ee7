"""Compiled programs, kept between processes: JAX's persistent compilation cache, on by default, in a folder of carom's own.

The folder is bounded (`LARGEST` bytes, the least used programs go first), one per processor and version, and locked while it is
read or written, so that processes do not see each other's halves. A folder that the user gave to JAX is left as it is, and
CAROM_CACHE=0 turns this one off.

On processors with AVX-512 XLA compiles with two preferences (no gather, no scatter) which its loader then does not find among the
features of the same processor: it says so on stderr, in 3.5 kB for every program it loads, and loads it (openxla/xla issue 44565).
There XLA's messages below fatal are turned off, unless the user has chosen a level.
"""

import gc
import importlib.util
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from carom.xla.machine import cache_root, environment, processor

LOADED = time.time()  # when this process began to load carom
LARGEST = 512 * 2**20  # bytes
WORTH_KEEPING = 0.004  # seconds of compilation: less than that is not much more than reading a file
LOOK = 2.5e-5  # seconds for each program that lies there already, when one is written: JAX looks at all of them for the least used
# XLA writes a fused loop as code in two ways. The newer one takes twice as long to compile, and what the loops of small systems
# become runs no faster (measured: Hybrid, slider-crank, woodpecker).
SMALL_LOOPS = {"xla_cpu_use_fusion_emitters": False}
# Six passes over loops find nothing to do in a kernel whose flow is written out number by number, and take their time.
WRITTEN_OUT = {
    "xla_disable_hlo_passes": "simplify-while-loops,while-loop-invariant-code-motion,while-loop-constant-sinking,"
    "while-loop-trip-count-annotator,reshape-mover,simplify-conditional"
}
# Newer versions of XLA hand sums of many numbers to a library, which cannot be called from within a kernel (jax 0.11: "Fusion kind
# not implemented on CPU", for stacks of ten boxes, say). Without it they are loops like others.
ONE_KERNEL = {"xla_cpu_experimental_ynn_fusion_type": ""}
RUN_ONCE = {**SMALL_LOOPS, "xla_backend_optimization_level": 0}  # for what is done in a millisecond anyhow


class ProgramCache(NamedTuple):
    """Where compiled programs are kept, or None, and why."""

    folder: Path | None
    why: str
    own: bool = False  # a folder of carom's


_chosen: ProgramCache | None = None


def keep_programs() -> ProgramCache:
    """Tell JAX where to keep compiled programs. Without a folder to write to, everything works, only slower to start."""
    global _chosen
    if os.environ.get("CAROM_CACHE", "1") == "0":
        _chosen = ProgramCache(None, "CAROM_CACHE=0")
    elif jax.config.jax_compilation_cache_dir:
        _chosen = ProgramCache(Path(jax.config.jax_compilation_cache_dir), "the folder that JAX was given")
    elif importlib.util.find_spec("filelock") is None:
        _chosen = ProgramCache(None, "filelock is not installed, without which two processes could spoil one another's programs")
    else:
        _chosen = _own_folder()
    return _chosen


def program_cache() -> ProgramCache:
    """What was decided when carom was imported, unless the user has told JAX otherwise since then."""
    found = jax.config.jax_compilation_cache_dir
    if _chosen is None or (_chosen.folder is None and found) or (_chosen.folder is not None and str(_chosen.folder) != found):
        return ProgramCache(Path(found) if found else None, "as JAX was told")
    return _chosen


def size(folder: Path) -> tuple[int, int]:
    """The number of kept programs, and their bytes."""
    sizes = []
    for file in folder.glob("*-cache"):
        try:
            sizes.append(file.stat().st_size)
        except OSError:  # another process made room
            continue
    return len(sizes), sum(sizes)


@contextmanager
def without_places() -> Iterator[None]:
    """Operations are traced without the lines that they come from, which is a quarter of tracing; errors still name them."""
    option = "jax_traceback_in_locations_limit"
    before = jax.config.values.get(option)
    if before is None:
        yield
        return
    jax.config.update(option, 0)
    try:
        yield
    finally:
        jax.config.update(option, before)


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage is collected: tracing and loading leave little of it, and going through all objects of JAX takes as long as
    loading a small program."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def without_names(lowered: Any) -> None:
    """Take the names of functions off the operations of a lowered program: a fifth of what is written, and a tenth of compiling.
    Where this version of JAX has no way to do so, they stay."""
    try:
        from jaxlib.mlir.passmanager import PassManager

        module = lowered.compiler_ir()
        with module.context:
            PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)
    except Exception:  # another interface, another name of the pass
        return


@contextmanager
def compiled_anew() -> Iterator[None]:
    """Programs are compiled here, and not looked up: what XLA for CPUs has loaded from JAX's cache cannot be written again (the
    copy lacks functions, jax 0.10.1). Several threads may do so at a time: the last puts it back."""
    _switch_cache(+1)
    try:
        yield
    finally:
        _switch_cache(-1)


def _switch_cache(step: int) -> None:
    global _anew, _before
    with _ANEW:
        if _anew == 0:
            _before = jax.config.jax_enable_compilation_cache
        _anew += step
        jax.config.update("jax_enable_compilation_cache", False if _anew else _before)
        reset_cache()  # JAX remembers whether it uses one


_ANEW = threading.Lock()
_anew, _before = 0, True  # how many are compiling so, and what was chosen before


@contextmanager
def asked_for() -> Iterator[dict[str, Any]]:
    """Options of XLA that what is traced here asks for, by `ask_for`."""
    options: dict[str, Any] = {}
    token = _asked.set(options)
    try:
        yield options
    finally:
        _asked.reset(token)


def ask_for(options: dict[str, Any]) -> None:
    """From within a function that is being traced: compile its program with these, where it is one of carom's own."""
    listening = _asked.get()
    if listening is not None:
        listening.update(options)


_asked: ContextVar[dict[str, Any] | None] = ContextVar("options asked for", default=None)


def compiled(lowered: Any, options: dict[str, Any]) -> Any:
    """A lowered program, compiled with those of these options that this version of XLA knows."""
    while known := {name: value for name, value in options.items() if name not in _unknown}:
        try:
            return lowered.compile(compiler_options=known)
        except jax.errors.JaxRuntimeError as error:
            if "No such compile option" not in str(error):
                raise
            named = [name for name in known if f"'{name}'" in str(error)]
        _unknown.update(named or known)
    return lowered.compile()


_unknown: set[str] = set()  # options of XLA


def _own_folder() -> ProgramCache:
    try:
        folder = cache_root() / "programs" / environment()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        return ProgramCache(None, f"the folder cannot be made ({error})")
    if not os.access(folder, os.W_OK):
        return ProgramCache(None, f"{folder} cannot be written to")
    jax.config.update("jax_compilation_cache_dir", str(folder))
    _unless_set("jax_compilation_cache_max_size", LARGEST)
    _unless_set("jax_persistent_cache_min_compile_time_secs", worth_keeping(folder))
    if any(feature.startswith("avx512") for feature in processor().features):
        quiet_loader()
    return ProgramCache(folder, "carom's own", own=True)


def worth_keeping(folder: Path) -> float:
    """Seconds of compilation from which on a program is written: not where writing it would take longer."""
    return max(WORTH_KEEPING, LOOK * sum(name.endswith("-cache") for name in os.listdir(folder)))


def _unless_set(option: str, value: float) -> None:
    if option.upper() not in os.environ:
        jax.config.update(option, value)


def quiet_loader() -> None:
    """No messages of XLA below fatal. JAX has one option for its own messages and XLA's; set back, it leaves XLA's as they are."""
    level = jax.config.jax_logging_level
    if level == "NOTSET" and os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1":  # 1 is what JAX sets when it is loaded
        jax.config.update("jax_logging_level", "CRITICAL")
        jax.config.update("jax_logging_level", level)
