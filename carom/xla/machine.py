"""This machine: its processor, its cores, and the user's folder for what can be computed again.

A compiled program, and the answer to whether XLA makes one kernel of it, belong to a processor and to versions: `environment` names
both, so that a home folder that several machines share holds one answer for each.
"""

import hashlib
import os
import platform
import re
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import NamedTuple


class Processor(NamedTuple):
    model: str
    features: tuple[str, ...]  # of its instruction set, sorted; empty where the platform does not list them


def cores() -> int:
    """The cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


@cache
def processor() -> Processor:
    """From /proc/cpuinfo where there is one; elsewhere as much as the platform says."""
    fields = {}
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if not line.strip():  # the others are alike
                    break
                name, _, value = line.partition(":")
                fields[name.strip()] = value.strip()
    except OSError:
        pass
    model = fields.get("model name") or platform.processor() or platform.machine() or "unknown"
    return Processor(model, tuple(sorted(fields.get("flags", fields.get("Features", "")).split())))


def cache_root() -> Path:
    """CAROM_CACHE_DIR, or `carom` in the folder that the platform has for such things."""
    if os.environ.get("CAROM_CACHE_DIR"):
        return Path(os.environ["CAROM_CACHE_DIR"]).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "carom" / "cache"
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "carom"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "carom"
    return Path.home() / ".cache" / "carom"


def _version(name: str) -> str:
    """As importlib.metadata.version finds it, without reading the rest of what a package says of itself, which takes 4 ms each."""
    told = re.search(r"^Version: *(\S+) *$", distribution(name).read_text("METADATA") or "", re.MULTILINE)
    return version(name) if told is None else told.group(1)


@cache
def versions(*names: str) -> dict[str, str]:
    """Of installed packages, without loading them."""
    found = {}
    for name in names:
        try:
            found[name] = _version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def environment(*more: str) -> str:
    """A short name for processor, Python, jax and jaxlib, the flags that XLA was given, and whatever else is said."""
    facts = [*processor(), platform.machine(), platform.system(), platform.python_version(), sys.implementation.name]
    facts += [*versions("jax", "jaxlib").items(), os.environ.get("XLA_FLAGS", ""), *more]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
