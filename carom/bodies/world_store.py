"""Runs of worlds on disk: a zarr store, a netCDF file (xarray opens both) or a .npz, with a header in JSON and checksums.

A file holds data and the outlines of the bodies, so a run that was read can be drawn, reported and analysed; to go on with it one
needs the world again (`run.extend(…, world=world)`). Format 1 was a .npz without outlines and is still read.
"""

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from carom.bodies.contact_table import COLUMNS, CONTACT_STATES, WorldContacts
from carom.bodies.memory import Memory
from carom.bodies.pictures import to_text
from carom.bodies.run import Settings, WorldRun
from carom.errors import InputError
from carom.results.places import file_path
from carom.results.solution import Status
from carom.results.store import checksum, header, kind_of, read_dataset, versions, write_dataset

FORMAT = 2
GRID = {  # the arrays of a run, and what they lie along
    "t": ("time",),
    "steps": ("time",),
    "x": ("time", "body", "space"),
    "q": ("time", "body", "quaternion"),
    "v": ("time", "body", "space"),
    "L": ("time", "body", "space"),
    "spins": ("time", "body", "space"),
    "kinetic": ("time",),
    "potential": ("time",),
    "residual": ("step",),
    "deepest": ("step",),
    "stages": ("step",),
    "mass": ("body",),
    "center": ("body", "space"),
    "free": ("body",),
    "turns": ("time", "wound"),
}
SUFFIXES = (".zarr", ".nc", ".npz")


def save(run: WorldRun, path: str | Path, identity: dict[str, str] | None = None) -> Path:
    """Write a run to `path`, replacing a run that is there; either all of it is written, or nothing changes."""
    path = file_path(path, "run.zarr")
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"a run of a world is saved as {' or '.join('*' + s for s in SUFFIXES)}; got {str(path)!r}")
    arrays, stages = _arrays(run)
    told = {"kind": "world", "format": FORMAT, "names": run.names, "dim": run.dim, "dt": run.dt, "seconds": run.seconds}
    told |= {"status": asdict(run.status), "settings": asdict(run.settings), "name": run.name, "stages": stages}
    told |= {"picture": to_text(run.outlines, run.strings), "versions": versions(), "identity": identity}
    told |= {"watchful": None if run.memory is None else bool(run.memory.watchful)}
    told["sums"] = {name: checksum(array) for name, array in arrays.items()}
    if path.suffix.lower() == ".npz":
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part.npz")
        np.savez_compressed(part, header=np.array(json.dumps(told)), **arrays)
        part.replace(path)
        return path
    return _save_dataset(arrays, told, run, path)


def _save_dataset(arrays: dict[str, np.ndarray], told: dict[str, Any], run: WorldRun, path: Path) -> Path:
    import xarray as xr

    if path.exists() and (any(path.iterdir()) if path.is_dir() else path.stat().st_size) and kind_of(path) != "world":
        header(path)  # refuses to replace what is not a run
    dims: dict[str, tuple[str, ...]] = dict(GRID)
    for name, array in arrays.items():
        if name.startswith("contacts_"):
            dims[name] = ("contact", "space")[: array.ndim]
        elif name.startswith("memory_"):
            dims[name] = ("joint_row",) if name == "memory_joints" else ("remembered", "space")[: array.ndim]
    labels = {"body": run.names, "space": "xyz", "quaternion": "wxyz"}
    dataset = xr.Dataset(
        {name: (dims[name], array) for name, array in arrays.items()},
        coords={name: np.array(list(values), dtype=object) for name, values in labels.items()},
        attrs={"carom": json.dumps(told), "contact_states": list(CONTACT_STATES)},
    )
    return write_dataset(dataset, path)


def _arrays(run: WorldRun) -> tuple[dict[str, np.ndarray], list[str]]:
    """All arrays, words as numbers, and the words for the stages of the solver."""
    arrays = {name: getattr(run, name) for name in GRID} | {f"contacts_{c}": getattr(run.contacts, c) for c in COLUMNS}
    stages, arrays["stages"] = np.unique(run.stages, return_inverse=True)
    known = np.array(CONTACT_STATES)
    arrays["contacts_state"] = np.argmax(arrays["contacts_state"][:, None] == known, axis=1).astype(np.int8)
    if run.memory is not None:
        arrays |= {f"memory_{f.name}": getattr(run.memory, f.name) for f in fields(Memory) if f.name != "watchful"}
    return {name: np.asarray(array) for name, array in arrays.items()}, [str(stage) for stage in stages]


def told_by(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a file."""
    if not path.exists():
        raise InputError(f"there is no {path}")
    try:
        if path.suffix.lower() == ".npz":
            with np.load(path, allow_pickle=False) as file:
                data = {name: file[name] for name in file.files}
            told = json.loads(str(data.pop("header")))
        else:
            data = read_dataset(path)
            told = _attribute(path)
    except (OSError, KeyError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{str(path)!r} cannot be read as a run of a world: {error}") from error
    if told.get("kind") != "world" or told.get("format", 99) > FORMAT:
        raise InputError(f"{str(path)!r} is not a run of a world in a format up to {FORMAT}")
    wrong = [name for name, value in told.get("sums", {}).items() if name not in data or checksum(data[name]) != value]
    if wrong:
        raise InputError(f"{path} is damaged: {', '.join(wrong)} {'do' if len(wrong) > 1 else 'does'} not match the checksum")
    return told, data


def _attribute(path: Path) -> dict[str, Any]:
    from carom.results.store import open_dataset

    dataset = open_dataset(path)
    try:
        return json.loads(dataset.attrs["carom"])
    finally:
        dataset.close()


def load(path: str | Path) -> WorldRun:
    """Read a run that `save` wrote."""
    path = file_path(path, "run.zarr", there=True)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path} is not a run of a world: those are called {' or '.join('*' + s for s in SUFFIXES)}")
    told, data = told_by(path)
    data.setdefault("turns", np.zeros((len(data["t"]), 0)))  # files of earlier versions
    arrays = {name: data[name] for name in GRID}
    columns = {name: data[f"contacts_{name}"] for name in COLUMNS}
    if told["format"] > 1:
        arrays["stages"] = np.array(told["stages"], "U8")[arrays["stages"]] if told["stages"] else np.zeros(0, "U8")
        columns["state"] = np.array(CONTACT_STATES)[columns["state"]]
    memory = None
    if told.get("watchful") is not None:
        kept = {f.name: data[f"memory_{f.name}"] for f in fields(Memory) if f.name != "watchful"}
        memory = Memory(**kept, watchful=told["watchful"])
    names = tuple(told["names"])
    return WorldRun(
        names=names,
        dim=told["dim"],
        dt=told["dt"],
        seconds=told["seconds"],
        **arrays,
        contacts=WorldContacts(**columns, names=names),
        status=Status(**told["status"]),
        settings=Settings(**told.get("settings", {})),
        memory=memory,
        picture=told.get("picture"),
        name=told.get("name", "world"),
    )
