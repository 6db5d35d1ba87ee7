"""Runs on disk: one zarr store or netCDF file per run, which xarray opens too.

The arrays are those of `Solution.to_xarray()`, the parameters beside them as `params.<name>`. The attribute `carom` is a header in
JSON: the version of the format, how the run ended, the method, the versions of what computed it, and a checksum of each array
(a chunk that is missing from a zarr store reads as zeros, silently). A file holds data, not functions: a loaded run knows its
energy and its gaps, but to evaluate something new `carom.load` must be given the system.

Format 2 is what this file writes; format 1 had no picture. To change it: raise FORMAT, add the step from the last one to UPGRADES,
and keep a file of the old format under tests/data.
"""

import hashlib
import importlib.util
import json
import os
import platform
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import numpy as np

from carom.calls import public
from carom.contact.contact import Contact
from carom.drawing import Film, Part
from carom.errors import InputError
from carom.methods.method import StepRecord
from carom.results.places import file_path
from carom.results.same_system import check_same_system
from carom.results.solution import Impacts, Solution, Status
from carom.results.views import view
from carom.spaces.space import Euclidean
from carom.system.system import System
from carom.xla import machine

FORMAT = 2
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: lambda told: {**told, "format": 2, "film": None}}
SUFFIXES = (".zarr", ".nc")
GRID = ("q", "p", "v", "energy", "gaps", "smallest_gap")
TABLE = ("step", "q", "p_before", "p_after", "contact", "impulse", "impulses", "scale", "fallback")


@dataclass(frozen=True)
class MethodRecord:
    """What a file knows about the method of its run."""

    name: str
    order: int | None
    preserves: tuple[str, ...]
    settings: dict[str, str]
    offers = frozenset()  # a record takes no steps: `carom.load(path, method=…)` tells a run its method

    def keeps(self, system: Any) -> tuple[str, ...]:
        return self.preserves  # what the method kept of this system was written down with the run

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v}' for k, v in self.settings.items())})"


# -- saving --------------------------------------------------------------------------------------------------------------


def save(solution: Solution, path: str | Path, identity: dict[str, str] | None = None) -> Path:
    """Write a run to `path` (.zarr or .nc), replacing a run that is there; either all of it is written, or nothing changes.

    `identity` is what a checkpointed run is recognised by."""
    path = file_path(path, "run.zarr")
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"a run is saved as {' or '.join('*' + s for s in SUFFIXES)}; got {str(path)!r}")
    if path.exists() and (any(path.iterdir()) if path.is_dir() else path.stat().st_size):
        header(path)  # refuses to replace what is not a run
    dataset = solution.to_xarray().assign(_leaves(solution.params)[1])
    if solution.film is not None:
        points = (("frame", "film_point", "film_axis"), solution.film.points.astype(np.float32))
        dataset = dataset.assign(film_points=points, film_time=("frame", solution.film.t))
    if solution.record is not None:
        columns = {f"record_{name}": np.asarray(array) for name, array in solution.record._asdict().items()}
        dataset = dataset.assign({n: (("step", *(f"{n}_{i}" for i in range(1, a.ndim))), a) for n, a in columns.items()})
    dataset.attrs["carom"] = json.dumps({**_header(solution, dataset), "identity": identity})
    return write_dataset(dataset, path)


def write_dataset(dataset: Any, path: Path) -> Path:
    """All of a dataset at its place, or what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        _write(dataset, part)
        replace(part, path)
    finally:
        _remove(part)
    return path


def _write(dataset: Any, path: Path) -> None:
    if path.suffix.lower() == ".zarr":
        dataset.to_zarr(path, mode="w", zarr_format=3, consolidated=False)
        return
    _need_h5netcdf(path)
    dataset.to_netcdf(path, engine="h5netcdf")


def replace(new: Path, path: Path) -> None:
    """Put `new` where `path` is. A folder that is there steps aside first: at no moment is a half-written run under that name."""
    if not path.is_dir():
        os.replace(new, path)
        return
    aside = path.with_name(f".{path.stem}.{os.getpid()}.old")
    os.rename(path, aside)
    os.rename(new, path)
    _remove(aside)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _header(solution: Solution, dataset: Any) -> dict[str, Any]:
    return {
        "kind": "run",
        "format": FORMAT,
        "versions": versions(),
        "name": solution.name,
        "dt": solution.dt,
        "time_label": solution.time_label,
        "steps": solution.num_steps,
        "since": solution.since,
        "uneven": solution.uneven,
        "seconds": solution.seconds,
        "compile_seconds": solution.compile_seconds,
        "status": {name: getattr(solution.status, name) for name in ("name", "message", "ok", "step", "t")},
        "method": {**asdict(method_record(solution.method)), "preserves": solution.preserved},
        "params": _leaves(solution.params)[0],
        "film": None if solution.film is None else [_part(part) for part in solution.film.parts],
        "sums": {name: checksum(array.values) for name, array in dataset.variables.items() if array.dtype.kind in "fib"},
    }


def _part(part: Part) -> dict[str, Any]:
    triangles = None if part.triangles is None else part.triangles.tolist()
    return {"kind": part.kind, "fixed": part.fixed, "points": len(part.points), "triangles": triangles, "endless": part.endless}


def versions() -> dict[str, str]:
    """What the numbers of a run depend on."""
    packages = machine.versions("carom", "jax", "jaxlib", "numpy", "equinox")
    return {**packages, "python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}


def checksum(array: np.ndarray) -> str:
    array = np.ascontiguousarray(array)
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return hashlib.blake2b(array.tobytes(), digest_size=16).hexdigest()


def method_record(method: Any) -> MethodRecord:
    """Name, declared properties and settings of a method, as text."""
    if isinstance(method, MethodRecord):
        return method
    settings = {f.name: brief(getattr(method, f.name)) for f in fields(method)} if is_dataclass(method) else {}
    return MethodRecord(type(method).__name__, method.order, tuple(method.preserves), settings)


def brief(value: Any) -> str:
    """A setting in a few characters: Composition(base=Trapezoidal(), order=4) without the tables behind it."""
    if hasattr(value, "shape"):
        return f"{float(value):g}" if np.size(value) == 1 else f"{np.size(value)} numbers"
    if is_dataclass(value) and not isinstance(value, type):
        inner = [(f.name, getattr(value, f.name)) for f in fields(value)]
        plain = [(name, item) for name, item in inner if not (np.ndim(item) if hasattr(item, "shape") else callable(item))]
        return f"{type(value).__name__}({', '.join(f'{name}={brief(item)}' for name, item in plain)})"
    return str(value)


def _leaves(params: Any) -> tuple[Any, dict[str, Any]]:
    """The structure of the parameters with names in place of numbers, and the numbers by name as variables for xarray."""
    import xarray as xr

    variables: dict[str, Any] = {}

    def store(path: str, tree: Any) -> Any:
        if isinstance(tree, dict):
            return {"dict": {str(key): store(f"{path}.{key}", value) for key, value in tree.items()}}
        if isinstance(tree, (list, tuple)):
            return {type(tree).__name__ if type(tree) is list else "tuple": [store(f"{path}.{i}", x) for i, x in enumerate(tree)]}
        if not hasattr(tree, "shape") and not isinstance(tree, (bool, int, float)):  # some other tree: its leaves by path
            leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
            return {"dict": {jax.tree_util.keystr(p): store(path + jax.tree_util.keystr(p), x) for p, x in leaves}}
        array = np.asarray(tree, float)
        variables[path.replace("/", "_")] = xr.Variable([f"{path.replace('/', '_')}_{i}" for i in range(array.ndim)], array)
        return {"leaf": path.replace("/", "_")}

    return store("params", {} if params is None else params), variables


# -- loading -------------------------------------------------------------------------------------------------------------


@public
def load(
    path: str | Path, *, system: System | None = None, method: Any = None, shape: Callable[..., Any] | None = None
) -> Solution:
    """A run from disk. With `system`, `method` and `shape` (functions are not in the file) it can do what it could before.

    The run of a `World` is read too; it needs nothing beside it. So is one that a live page has saved, *.zarr.zip."""
    path = file_path(path, "run.zarr", there=True)
    if path.suffix.lower() == ".zip":
        with tempfile.TemporaryDirectory() as folder:
            return load(_unpacked(path, Path(folder)), system=system, method=method, shape=shape)
    if path.suffix.lower() == ".npz" or (path.exists() and path.suffix.lower() in SUFFIXES and kind_of(path) == "world"):
        return view("load_world")(path)
    told = header(path)
    data = read_dataset(path)
    _check(path, told, data)
    names = tuple(str(name) for name in data["coordinate"])
    contacts = tuple(str(name) for name in data["contact"])
    table = {name: data[f"impact_{name}"] for name in TABLE}
    solution = Solution(
        t=data["time"],
        q=data["q"],
        p=data["p"],
        dt=told["dt"],
        impacts=Impacts(t=data["impact_time"], **table, names=contacts),
        status=Status(**told["status"]),
        system=_lost_system(names, contacts) if system is None else system,
        method=MethodRecord(**{**told["method"], "preserves": tuple(told["method"]["preserves"])}) if method is None else method,
        params=_restore(told["params"], data),
        seconds=told["seconds"],
        compile_seconds=told["compile_seconds"],
        steps=told["steps"],
        name=told["name"],
        shape=shape,
        record=_record(data),
        commands=data["command"][1:] if "command" in data else None,
        controller_memory=data.get("controller_memory"),
        since=tuple(told["since"]) if told.get("since") else None,  # pyright: ignore[reportArgumentType]
        uneven=bool(told.get("uneven")),
    )
    if system is not None:
        check_same_system(solution, data, path)
    for name in ("v", "energy", "gaps", "smallest_gap"):  # what the solution would compute when asked
        if name in data:
            solution.__dict__[name] = data[name]
    if told["film"] is not None and shape is None:
        solution.__dict__["film"] = _film(told["film"], data)
    if "unit" in data:
        solution.__dict__["units"] = tuple(str(unit) for unit in data["unit"])
    if told.get("time_label"):
        solution.__dict__["time_label"] = told["time_label"]
    if "direction" in data:
        solution.__dict__["directions"] = tuple(str(name) for name in data["direction"])
    if not contacts:
        solution.__dict__.update(gaps=np.zeros((len(solution.t), 0)), smallest_gap=None)
    return solution


def _unpacked(path: Path, folder: Path) -> Path:
    """The run in an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
        return next(folder.glob("*.zarr"))
    except (OSError, zipfile.BadZipFile, StopIteration) as error:
        raise InputError(f"{path} is no archive with a run (*.zarr) in it: {error or 'there is none'}") from error


def read_dataset(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a file."""
    dataset = open_dataset(path)
    try:
        return {str(name): np.asarray(array.values) for name, array in dataset.variables.items()}
    except Exception as error:  # whatever the storage layer says about bytes it cannot decode
        raise InputError(f"{path} is damaged: {error}") from error
    finally:
        dataset.close()


def kind_of(path: Path) -> str:
    """What a file holds, if it says so."""
    try:
        dataset = open_dataset(path)
    except Exception:  # not a dataset: `header` says so in words
        return ""
    try:
        return str(json.loads(dataset.attrs["carom"])["kind"])
    except (KeyError, TypeError, ValueError):
        return ""
    finally:
        dataset.close()


def header(path: str | Path) -> dict[str, Any]:
    """The header of a run, brought to the present format; a clear error for anything else."""
    path = Path(path)
    if not path.exists():
        started = path.with_name(path.name + ".parts").exists()
        hint = ", but a run that was started there: call solve(checkpoint=…) again and it goes on" if started else ""
        raise InputError(f"there is no {path}{hint}")
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path} is not a carom run: those are called {' or '.join('*' + s for s in SUFFIXES)}")
    try:
        dataset = open_dataset(path)
    except InputError:
        raise
    except Exception as error:  # xarray, zarr and h5py each have their own ways to say that a file is not theirs
        raise InputError(f"{path} is not a carom run: it cannot be opened as {path.suffix[1:]} ({error})") from error
    try:
        told = json.loads(dataset.attrs["carom"])
        kind, version = told["kind"], told["format"]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not a carom run: it opens, but it has no carom header") from error
    finally:
        dataset.close()
    if kind != "run":
        article, opens = "an" if kind[0] in "aeiou" else "a", "open_zarr" if path.suffix.lower() == ".zarr" else "open_dataset"
        raise InputError(f"{path} holds {article} {kind}, not a run: xarray.{opens}({str(path)!r}) opens it")
    if version > FORMAT:
        made = told.get("versions", {}).get("carom", "a later one")
        raise InputError(
            f"{path} was written in format {version} by carom {made}; this carom reads up to {FORMAT}: install a newer one"
        )
    while told["format"] < FORMAT:
        told = UPGRADES[told["format"]](told)
    return told


def open_dataset(path: Path) -> Any:
    import xarray as xr

    if path.suffix.lower() == ".zarr":
        return xr.open_zarr(path, consolidated=False, chunks=None)
    _need_h5netcdf(path)
    return xr.open_dataset(path, engine="h5netcdf")


def _need_h5netcdf(path: Path) -> None:
    if any(importlib.util.find_spec(name) is None for name in ("h5netcdf", "h5py")):
        raise InputError(f"{path}: netCDF needs h5netcdf and h5py: pip install 'carom[netcdf]', or use .zarr")


def _check(path: Path, told: dict[str, Any], data: dict[str, np.ndarray]) -> None:
    needed = {"time", "coordinate", "contact", "impact_time", "q", "p", "v", "energy", *(f"impact_{name}" for name in TABLE)}
    missing = sorted((needed | set(told["sums"])) - set(data))
    if missing:
        raise InputError(f"{path} is damaged: {', '.join(missing)} missing")
    wrong = [name for name, sum_ in told["sums"].items() if checksum(data[name]) != sum_]
    if wrong:
        raise InputError(f"{path} is damaged: {', '.join(wrong)} {'do' if len(wrong) > 1 else 'does'} not match the checksum")


def _restore(structure: dict[str, Any], data: dict[str, np.ndarray]) -> Any:
    ((kind, inner),) = structure.items()
    if kind == "leaf":
        return data[inner]
    if kind == "dict":
        return {key: _restore(value, data) for key, value in inner.items()}
    return {"list": list, "tuple": tuple}[kind](_restore(value, data) for value in inner)


def _record(data: dict[str, np.ndarray]) -> StepRecord | None:
    names = [f"record_{name}" for name in StepRecord._fields]
    return StepRecord(*(data[name] for name in names)) if set(names) <= set(data) else None  # pyright: ignore[reportArgumentType]


def _film(told: list[dict[str, Any]], data: dict[str, np.ndarray]) -> Film:
    starts = np.cumsum([0, *(part["points"] for part in told)]).tolist()
    points = np.asarray(data["film_points"], float)
    parts = [
        Part(
            points[0, a:b],
            part["kind"],
            part["fixed"],
            None if part["triangles"] is None else np.asarray(part["triangles"]),
            part.get("endless", False),
        )
        for part, (a, b) in zip(told, pairwise(starts), strict=True)
    ]
    return Film(data["film_time"], points, tuple(parts), tuple(starts))


def _lost(q: Any) -> Any:
    raise InputError("this run was loaded from a file, which holds no functions: pass system= to carom.load")


def _lost_system(coordinates: tuple[str, ...], contacts: tuple[str, ...]) -> System:
    """Stands where the system was: it knows the names, and says what is missing when it is asked for more."""
    return System(_lost, [Contact(_lost, name=name) for name in contacts], space=Euclidean(len(coordinates), coordinates))
