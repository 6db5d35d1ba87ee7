"""Runs of worlds that survive: part by part to disk, and on from the last whole part when they are asked for again.

Beside `run.zarr`, which appears when the run is finished, `run.zarr.parts` holds what was computed so far, a .npz after so many
steps, each written under another name and then renamed. A run is cut by its numbers alone, never by the clock, and each part begins
with the memory of the one before: a run that was killed ends bit for bit like one that was not.
"""

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from carom.bodies.ending import Ending
from carom.bodies.march import last_state, march
from carom.bodies.run import Settings, WorldRun, joined
from carom.bodies.scene import Scene, State
from carom.bodies.world_store import load, save, told_by
from carom.errors import InputError
from carom.named import Named
from carom.results.store import versions

PARTS = 20  # where `every` is not given


def surviving(
    scene: Scene,
    state: State,
    dt: float,
    num_steps: int,
    settings: Settings,
    progress: bool | None,
    path: str | Path,
    every: int | None,
    ending: Ending,
) -> WorldRun:
    """The run, from wherever an earlier call left it."""
    target = Path(path)
    if target.suffix != ".zarr":
        raise InputError(f"checkpoint must be a name that ends in .zarr; got {str(path)!r}")
    length = max(1, num_steps // PARTS) if every is None else every
    who = identity(scene, state, dt=dt, num_steps=num_steps, every=length, settings=settings)
    who["stop"] = digest(ending.stops)
    if target.exists():
        _compare(told_by(target)[0].get("identity"), who, target)
        return load(target)
    parts = target.with_name(target.name + ".parts")
    run: WorldRun | None = None
    for file in sorted(parts.glob("part-*.npz")):
        _compare(told_by(file)[0].get("identity"), who, parts)
        piece = load(file)
        run = piece if run is None else joined(run, piece)
    done, memory = (0, None) if run is None else (run.num_steps, run.memory)
    while done < num_steps and (run is None or run.status.name == "done"):
        end = min(num_steps, done + length)
        start = state if run is None else last_state(run)
        ending.total, ending.impacts = num_steps, 0 if run is None else len(run.impacts)
        piece = march(scene, start, dt, end, settings, progress, done, memory, ending)
        run = piece if run is None else joined(run, piece)
        if piece.status.name in ("stopped", "ended"):
            break
        if piece.status.name != "done":  # interrupted, or in trouble: the parts so far stay
            return run
        save(piece, parts / f"part-{done:012d}.npz", who)
        done, memory = end, piece.memory
    assert run is not None
    save(run, target, who)
    shutil.rmtree(parts, ignore_errors=True)
    return run


def _compare(found: Any, mine: dict[str, str], where: Path) -> None:
    if not isinstance(found, dict):
        raise InputError(f"{where} was not written as a checkpoint: choose another name, or delete it")
    different = [key for key in {**mine, **found} if mine.get(key) != found.get(key)]
    if different:
        raise InputError(
            f"{where} belongs to another run: {', '.join(different)} {'differ' if len(different) > 1 else 'differs'}. "
            "Choose another name, or delete it to start anew"
        )


def identity(scene: Scene, state: State, **numbers: Any) -> dict[str, str]:
    """What decides every bit of a run, as short texts that can be compared one by one."""
    known = versions()
    return {
        "world": digest(scene),
        "state": digest(state),
        **{key: repr(value) for key, value in numbers.items()},
        **{key: known[key] for key in ("carom", "numpy", "machine")},
    }


def digest(thing: Any) -> str:
    state = hashlib.blake2b(digest_size=16)
    _feed(state.update, thing)
    return state.hexdigest()


def _feed(update: Callable[[bytes], Any], thing: Any) -> None:
    """Names, numbers and functions (by their code and what they have captured), one after the other."""
    update(type(thing).__name__.encode())
    if isinstance(thing, np.ndarray):
        update(f"{thing.dtype}{thing.shape}".encode() + np.ascontiguousarray(thing).tobytes())
    elif isinstance(thing, Named):
        _feed(update, thing.function)
    elif is_dataclass(thing) and not isinstance(thing, type):
        for one in fields(thing):
            _feed(update, getattr(thing, one.name))
    elif isinstance(thing, (set, frozenset)):
        _feed(update, sorted(thing))
    elif isinstance(thing, (list, tuple)):
        for one in thing:
            _feed(update, one)
    elif isinstance(thing, dict):
        for key, value in thing.items():
            _feed(update, (key, value))
    elif callable(thing) and getattr(thing, "__code__", None) is not None:
        code = thing.__code__
        update(code.co_code + repr(code.co_names).encode())
        _feed(update, [one for one in code.co_consts if isinstance(one, (int, float, str, tuple))])
        _feed(update, [cell.cell_contents for cell in thing.__closure__ or ()])
        _feed(update, list(thing.__defaults__ or ()))
    else:
        update(repr(thing).encode())
