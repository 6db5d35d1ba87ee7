"""Runs that survive: what was computed goes to disk part by part, and a run that was killed goes on where its last part ends.

Beside `run.zarr`, which appears when the run is finished, `run.zarr.parts` holds the parts so far: numbered files, each written
under another name, flushed and then renamed, and a manifest that lists them with checksums, replaced in the same way. So whenever
the process dies, the manifest is either the old or the new one, and every part that it lists is whole.

A run resumes only from its own parts. Its identity is made of the traced system, the method, the numbers and the versions: a run is
cut into chunks by its identity alone, never by the clock, so the run that was killed ends bit for bit like one that was not.
"""

import hashlib
import json
import os
import re
import shutil
import time
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from carom.closures.lasting import Unsure, lasting
from carom.errors import InputError
from carom.methods.method import ImpactTable, StepRecord
from carom.named import Named
from carom.results.solution import Solution
from carom.results.store import checksum, header, load, save, versions
from carom.system.chain import Chain
from carom.system.system import System

FORMAT = 1
SECONDS = 60.0  # between two parts, where `every` is not given


class Checkpoint:
    """The disk side of one run."""

    def __init__(self, path: str | Path, every: int | None, identity: dict[str, str]):
        self.path, self.every, self.identity = Path(path), every, identity
        self.parts = self.path.with_name(self.path.name + ".parts")
        if self.path.suffix != ".zarr":
            raise InputError(f"checkpoint must be a name that ends in .zarr; got {str(path)!r}")
        if every is not None and (int(every) != every or every < 1):
            raise InputError(f"every must be a positive whole number of steps; got {every!r}")
        self.manifest: dict[str, Any] = {"kind": "checkpoint", "format": FORMAT, "identity": identity, "parts": []}
        self.states: list[np.ndarray] = []  # not yet on disk
        self.tables: list[Any] = []
        self.records: list[Any] = []
        self.clock = time.monotonic()
        self.lock: Any = None
        try:
            self.parts.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"checkpoint {self.path}: its folder cannot be made ({error.strerror})") from error
        if not os.access(self.parts.parent, os.W_OK):
            raise InputError(f"checkpoint {self.path}: its folder cannot be written to")

    # -- reading ---------------------------------------------------------------------------------------------------------

    def finished(self, **functions: Any) -> tuple[Solution | None, bool]:
        """The run itself, if it was finished before, and whether it is all that is asked for: one of fewer steps goes on."""
        if not self.path.exists():
            return None, False
        found = header(self.path).get("identity")
        shorter = isinstance(found, dict) and int(found.get("num_steps", 0)) < int(self.identity["num_steps"])
        self._compare({**found, "num_steps": self.identity["num_steps"]} if shorter else found, self.path)
        run = load(self.path, **functions)
        whole = not shorter or run.status.name != "ok"
        if whole:
            shutil.rmtree(self.parts, ignore_errors=True)
        return run, whole

    def resume(self) -> tuple[list[np.ndarray], list[Any], list[Any], dict[str, Any]] | None:
        """States, impacts, records of steps and the last entry of the manifest; None where there is nothing to resume."""
        self._acquire()
        file = self.parts / "manifest.json"
        if not file.exists():
            return None
        try:
            manifest = json.loads(file.read_text("utf-8"))
            kind, version, parts = manifest["kind"], manifest["format"], manifest["parts"]
            identity = manifest["identity"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{file} is damaged ({error}): delete {self.parts} to start anew") from error
        if kind != "checkpoint" or version > FORMAT:
            raise InputError(f"{file} is a {kind} of format {version}; this carom resumes checkpoints up to format {FORMAT}")
        self._compare(identity, self.parts)
        loaded = [self._read(part) for part in parts]
        self.manifest = manifest
        if not parts:
            return None
        tables = [ImpactTable(*(jnp.asarray(data[f"impact_{name}"]) for name in ImpactTable._fields)) for data in loaded]
        last = {**parts[-1], **{name: loaded[-1].get(name, np.zeros(0)) for name in ("q", "p", "control")}}
        names = [f"record_{name}" for name in StepRecord._fields]
        records = [StepRecord(*(data[name] for name in names)) for data in loaded if names[0] in data]  # pyright: ignore[reportArgumentType]
        return [data["states"] for data in loaded], tables, records, last

    def _read(self, part: dict[str, Any]) -> dict[str, np.ndarray]:
        file = self.parts / part["file"]
        try:
            content = file.read_bytes()
        except OSError as error:
            raise InputError(f"checkpoint {file} cannot be read ({error.strerror}): delete {self.parts} to start anew") from error
        if _digest(content) != part["sum"]:
            raise InputError(f"checkpoint {file} is damaged: its checksum differs. Delete {self.parts} to start anew")
        with np.load(file, allow_pickle=False) as data:
            return dict(data)

    def _compare(self, found: Any, where: Path) -> None:
        if not isinstance(found, dict):
            raise InputError(f"{where} was not written as a checkpoint: choose another name, or delete it")
        different = [key for key in {**self.identity, **found} if self.identity.get(key) != found.get(key)]
        if different:
            raise InputError(
                f"{where} belongs to another run: {', '.join(different)} {'differ' if len(different) > 1 else 'differs'}. "
                "Choose another name, or delete it to start anew"
            )

    def _acquire(self) -> None:
        """One process at a time; the lock goes with the process, however it ends."""
        self.parts.mkdir(exist_ok=True)
        try:
            import fcntl
        except ImportError:  # no such locks on this platform
            return
        self.lock = open(self.parts / "lock", "w")  # noqa: SIM115  # held while the run lasts
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(f"checkpoint {self.path} is in use by another process") from error

    # -- writing ---------------------------------------------------------------------------------------------------------

    def add(self, states: np.ndarray, table: Any, record: Any, done: int, state: Any, seconds: float, contact_rows: int) -> None:
        """Another chunk; it is written when it is time to."""
        self.states.append(states)
        self.records += [] if record is None else [record]
        self.tables.append(table)
        if done % self.every == 0 if self.every else time.monotonic() - self.clock > SECONDS:
            self.commit(done, state, seconds, contact_rows)

    def commit(self, done: int, state: Any, seconds: float, contact_rows: int) -> None:
        """Write what is not yet on disk. A disk that is full costs the newest part, not the run."""
        if not self.states:
            return
        try:
            self._write(done, state, seconds, contact_rows)
        except OSError as error:
            written = self.manifest["parts"]
            kept = f"the one of step {written[-1]['done']} is kept" if written else "there is none yet"
            warnings.warn(f"checkpoint {self.path} was not written at step {done} ({error}); {kept}, the run goes on", stacklevel=3)

    def _write(self, done: int, state: Any, seconds: float, contact_rows: int) -> None:
        self.clock = time.monotonic()
        joined = {f"impact_{name}": np.concatenate([getattr(t, name) for t in self.tables]) for name in ImpactTable._fields}
        if self.records:
            joined |= {f"record_{n}": np.concatenate([getattr(r, n) for r in self.records]) for n in StepRecord._fields}
        file = self.parts / f"part-{len(self.manifest['parts']):06d}.npz"
        data: dict[str, Any] = {"states": np.concatenate(self.states), **state, **joined}
        digest = _flush(file, lambda stream: np.savez(stream, **data))
        entry = {"file": file.name, "sum": digest, "done": done, "seconds": seconds, "contact_rows": contact_rows}
        manifest = {**self.manifest, "parts": [*self.manifest["parts"], entry]}
        text = json.dumps(manifest).encode()
        _flush(self.parts / "manifest.json", lambda stream: stream.write(text))
        self.manifest = manifest
        self.states, self.tables, self.records = [], [], []

    def finish(self, solution: Solution) -> None:
        """The whole run in place of its parts."""
        try:
            save(solution, self.path, identity=self.identity)
        except OSError as error:
            warnings.warn(f"{self.path} was not written ({error}); the parts so far are in {self.parts}", stacklevel=3)
            return
        finally:
            self.release()
        shutil.rmtree(self.parts, ignore_errors=True)

    def release(self) -> None:
        if self.lock is not None:
            self.lock.close()


def _flush(file: Path, write: Any) -> str:
    """Write a file so that under its name there is all of it or what was there before; returns its digest."""
    part = file.with_name("." + file.name)
    try:
        with open(part, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        digest = _digest(part.read_bytes())
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)
    if os.name == "posix":  # the rename itself
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return digest


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


# -- who a run is --------------------------------------------------------------------------------------------------------


def identity(system: System, method: Any, problem: Any, stops: Any = (), **numbers: Any) -> dict[str, str]:
    """What decides every bit of a run, as short texts that can be compared one by one."""
    known = versions()
    return {
        "system": digest_of(system, problem),
        "method": f"{type(method).__name__} {digest_of(method, problem)}",
        "params": digest_of(problem.params, problem),
        "stop": digest_of(stops, problem) if stops else "",
        "q0": checksum(np.asarray(problem.q0)),
        "v0": checksum(np.asarray(problem.v0)),
        "t0": repr(float(problem.t0)),
        **{key: repr(value) for key, value in numbers.items()},
        **{key: known[key] for key in ("carom", "jax", "jaxlib", "machine")},
    }


def digest_of(tree: Any, problem: Any = None) -> str:
    """Structure, numbers and traced functions, in one digest."""
    leaves, structure = jax.tree.flatten(tree, is_leaf=lambda x: isinstance(x, Named | Chain))
    texts = [_without_addresses(str(structure))]
    for leaf in leaves:
        if isinstance(leaf, Named):
            texts.append(_of_function(leaf, problem))
        elif isinstance(leaf, Chain):  # its functions are of one node: together they are a function of all
            texts.append(_of_program(leaf.potential, problem.q0, problem.params))
        elif hasattr(leaf, "shape"):
            texts.append(f"{leaf.dtype}{leaf.shape}{checksum(np.asarray(leaf))}")
        else:
            texts.append(_without_addresses(repr(leaf)))
    return _digest("\n".join(texts).encode())


def _of_function(function: Named, problem: Any) -> str:
    if problem is None:  # a sweep's method, before there is a point: by its text and what it captures
        return f"{function.role} {function.wanted} {_of_text(function.function)}"
    known = _known(problem)
    program = _of_program(lambda asked: function(**asked), {name: known[name] for name in function.wanted})
    return f"{function.role} {function.wanted} {program}"


def _known(problem: Any) -> dict[str, Any]:
    """A value for every name that a function in a system, in a method or in a stop may ask for."""
    q, v, t, one = problem.q0, problem.v0, problem.t0, jnp.ones(())
    controller = problem.system.controller
    held = {} if controller is None else {"u": jnp.zeros(controller.commands), "memory": controller.memory}
    at_contact = {"speed": one, "mass": one}
    of_a_step = {"q0": q, "q1": q, "h": one, "step": 0}
    return {"q": q, "v": v, "p": v, "t": t, "params": problem.params, **held, **at_contact, **of_a_step}


def _of_program(function: Any, *values: Any) -> str:
    """What a function computes, whatever its text: the operations that JAX traces, and the constants in them."""
    traced = jax.make_jaxpr(function)(*values)
    constants = [checksum(np.asarray(constant)) for constant in traced.consts]
    return f"{_without_addresses(str(traced))} {constants}"


def _of_text(function: Any) -> str:
    try:
        return lasting(function).hex()
    except Unsure as unsure:
        why = f"{function!r} cannot be told from others in another process ({unsure}), so what uses it cannot be resumed"
        raise InputError(f"{why}; write it as a plain function of its arguments and of captured numbers") from unsure


def _without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", text)
