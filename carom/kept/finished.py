"""Finished programs on disk, beside the compilation cache of JAX: machine code with the trees of its arguments and results, and
without the computation that it was compiled from (`carom/xla/bare.py`), which is most of what loading takes.

One file per program, in a folder per processor and version. A file is written under another name and then renamed, so that
another process sees all of it or nothing; it begins with a digest of the rest, and what does not agree with that is deleted and
written anew. The folder is bounded: the files that were not used for longest go first.

Whether this version of JAX loads what it has written is found out with the first program that is written, by loading it and running
both: the answer is kept in a file (`Store.works`). A process that dies there leaves the question behind, and that is an answer too.
"""

import contextlib
import functools
import hashlib
import json
import os
import pickle
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from carom.closures.lasting import Unsure
from carom.kept.surroundings import constants, sources, unchanged
from carom.xla.bare import Unknown, bare
from carom.xla.machine import environment
from carom.xla.probe import verdict
from carom.xla.programs import program_cache

LARGEST = 256 * 2**20  # bytes
SHARE = 4  # of which one program may take the fourth part
MAGIC = b"carom program 1\n"
PATIENCE = 24 * 3600.0  # seconds after which a trial that has left no answer is made again


class Finished(NamedTuple):
    """A program that can be called with the arrays of its arguments, and the structure of what it returns."""

    call: Any
    results: Any


class Store:
    """A folder of finished programs."""

    def __init__(self, folder: Path):
        self.folder, self.name = folder, environment()

    def file(self, key: str) -> Path:
        return self.folder / f"{key}.program"

    def load(self, key: str, args: Any) -> Finished | None:
        """The program, after it was run once with these arguments: what does not survive that is deleted."""
        file = self.file(key)
        try:
            content = file.read_bytes()
        except OSError:
            return None
        if not self.works():
            return None
        try:
            told, program, trees = self._unpack(content, key)
            if not unchanged(told):  # somebody has assigned other numbers to modules of carom, here or there
                return None
            finished = _loaded(program, trees)
            jax.block_until_ready(finished.call(*args))
        except Exception:  # half a file, one of another version, one that the loader does not take
            with contextlib.suppress(OSError):
                file.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(file)  # used
        return finished

    def _unpack(self, content: bytes, key: str) -> tuple[Any, bytes, Any]:
        """Only what was written here, whole, for this key."""
        head, digest, rest = content[: len(MAGIC)], content[len(MAGIC) :][:32], content[len(MAGIC) + 32 :]
        if head != MAGIC or hashlib.blake2b(rest, digest_size=32).digest() != digest:
            raise ValueError("not whole")
        name, whose, told, program, trees = pickle.loads(zlib.decompress(rest))
        if (name, whose) != (self.name, key):
            raise ValueError("of another machine, or another program")
        return told, program, trees

    def save(self, key: str, compiled: Any, results: Any, args: Any, told: Any) -> None:
        """Silently nothing where it cannot be written; everything works without. `told`: `constants` at the time of tracing."""
        if told is None:
            return
        try:
            from jax.experimental.serialize_executable import serialize

            sources(fresh=True)  # or unsure
            program, inside, outside = serialize(compiled)
            program = _without_computation(program)
            content = packed(self.name, key, told, program, (inside, outside, results))
        except Exception:  # constants that are arguments, static results that cannot be written, another version of JAX
            return
        if self.works() is None:
            self._try(program, (inside, outside, results), compiled, args)
        if self.works() and len(content) <= LARGEST // SHARE:
            _write(self.file(key), content)
            self._make_room()

    def note(self, key: str, answer: Any) -> None:
        """An answer, as plain data."""
        with contextlib.suppress(Unsure):
            sources(fresh=True)
            _write(self.folder / f"{key}.json", json.dumps([self.name, key, constants(), answer]).encode())

    def recall(self, key: str) -> Any:
        """An answer that was noted before, or None."""
        try:
            name, whose, told, answer = json.loads((self.folder / f"{key}.json").read_text("utf-8"))
        except (OSError, ValueError, TypeError):
            return None
        return answer if (name, whose) == (self.name, key) and unchanged(told) else None

    # -- does it work here? --------------------------------------------------------------------------------------------------

    def works(self) -> bool | None:
        """None where nobody has tried. A trial without an answer is still being made, or its process did not survive it: that is
        no, and not asked again for a day."""
        file = self.folder / "works"
        try:
            answer = file.read_text("utf-8")
            asked = time.time() - file.stat().st_mtime
        except OSError:
            return None
        return None if answer == "trying" and asked > PATIENCE else answer == "yes"

    def _try(self, program: bytes, trees: Any, compiled: Any, args: Any) -> None:
        """Load what was written, run both, and compare bit by bit."""
        _write(self.folder / "works", b"trying")
        try:
            again = jax.device_get(_loaded(program, trees).call(*args))
            first = jax.device_get(compiled(*args))
            same = all(a.tobytes() == b.tobytes() for a, b in zip(first, again, strict=True))
        except Exception:
            same = False
        _write(self.folder / "works", b"yes" if same else b"no")

    def _make_room(self) -> None:
        files = []
        for file in (*self.folder.glob("*.program"), *self.folder.glob("*.json")):
            with contextlib.suppress(OSError):
                stat = file.stat()
                files.append((stat.st_mtime, stat.st_size, file))
        total = sum(size for _, size, _ in files)
        for _, size, file in sorted(files):
            if total <= LARGEST:
                return
            with contextlib.suppress(OSError):  # another process makes room, too
                file.unlink()
            total -= size


def packed(*parts: Any) -> bytes:
    """What a file holds."""
    rest = zlib.compress(pickle.dumps(parts), 1)
    return MAGIC + hashlib.blake2b(rest, digest_size=32).digest() + rest


def _loaded(program: bytes, trees: Any) -> Finished:
    from jax.experimental.serialize_executable import deserialize_and_load

    if b"lapack_" in program:
        _prepare_lapack()
    inside, outside, results = trees
    device = jax.devices()[0]
    return Finished(deserialize_and_load(program, inside, outside, device.client, [device]), results)


def _without_computation(program: bytes) -> bytes:
    """As little as can be loaded, where a trial in another process has gone well."""
    if not verdict().bare:
        return program
    try:
        return bare(program)
    except Unknown:
        return program


def _prepare_lapack() -> None:
    """JAX looks for LAPACK's functions when it lowers a program that calls one, which nobody does with a finished program: a call
    would go to address 0, and end the process."""
    from jaxlib import lapack

    lapack.prepare_lapack_call("getrf", np.float64)  # all of them are looked for, whichever is asked


def _write(file: Path, content: bytes) -> None:
    """Under another name first. Without room on the disk there is no file, and nothing else is lost."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=file.parent, prefix=file.stem, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(content)
            os.replace(part, file)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(part)


def store() -> Store | None:
    """Where finished programs are kept: on a CPU, where carom has a folder of its own."""
    cache = program_cache()
    return None if cache.folder is None or not cache.own or jax.default_backend() != "cpu" else _store(cache.folder)


@functools.cache
def _store(folder: Path) -> Store:
    return Store(folder / "finished")


def size(folder: Path) -> tuple[int, int]:
    """The number of finished programs, and their bytes."""
    sizes = []
    for file in (folder / "finished").glob("*.program"):
        with contextlib.suppress(OSError):
            sizes.append(file.stat().st_size)
    return len(sizes), sum(sizes)
