"""Parameter studies: a model at every point of a grid, or at given samples, written block by block into one zarr store.

The store opens with xarray as a labelled dataset: the dimensions are the names of what is varied, the variables what was measured.
A block is one chunk of every array. It is computed by any worker and written by one process, the data first and `done` last; so
whoever dies, whenever, a block is either done or computed again, and nothing is lost or counted twice; the same call goes on.
"""

import hashlib
import inspect
import itertools
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from carom.calls import check_options_of, nearest, public
from carom.closures.lasting import digest_of_own
from carom.errors import CaromError, InputError, SweepError
from carom.many.sweep_workers import run_blocks
from carom.methods.variational.collision import VariationalCollision
from carom.models import ALL, Model
from carom.models.model import made
from carom.results.places import file_path
from carom.results.solution import Solution
from carom.results.store import versions
from carom.running.checkpoint import digest_of
from carom.running.interrupts import heard
from carom.running.options import check_method
from carom.running.solve import solve
from carom.wanted import Count, Flag, Function, Text, Whole

FORMAT = 1
OWN = ("system", "throw", "checkpoint", "every", "options")  # of solve, and not to be said: a sweep says them itself
GRIDDED = ("dt", "num_steps", "max_impacts")  # of the run, not of the model


@public
def sweep(
    model: str | Callable[..., Model],
    grid: Mapping[str, Sequence[Any]] | None = None,
    samples: Mapping[str, Sequence[Any]] | None = None,
    *,
    out: str | Path | None = None,
    method: Any = None,
    measure: Function | None = None,
    workers: Whole | None = None,
    scheduler: Text | None = None,
    block: Count | None = None,
    retries: Whole = 2,
    progress: Flag | None = None,
    watch: Function | None = None,
    **options: Any,
) -> Any:
    """Run a model at many points; returns the results as an xarray dataset.

    - `model`: the name of a ready-made model, or a function of a module that returns a `Model`.
    - `grid`: values by name, every combination is run; `samples`: lists of equal length, run side by side. A name is an argument of
      the model, one of its parameters, `dt`, `num_steps`, or a coordinate of the initial state, as `q0.x` and `v0.theta`.
    - `out`: a *.zarr store; without it, the results are only returned.
    - `measure(solution)`: numbers and arrays by name (or `(dims, array)`); by default the end of the run and its energy error.
    - `workers`: processes, by default one per core; 0 runs here. `scheduler`: the address of a dask scheduler instead.
    - `watch(store)` is called at the start and after every block: `store.read()` is the dataset so far, its `done` says how far.
    - `block`: points per block; `retries`: how often a block that fails is tried again.
    - `method`, by default what suits the model, and what else `solve` takes (`dt`, `num_steps`, `max_impacts`, `params`): the same
      at all points.

    A run that fails is recorded with its status and message; a point that cannot be run, too (`refused`).
    """
    axes, flat = _axes(grid, samples)
    out = None if out is None else file_path(out, "study.zarr")
    if method is not None:
        check_method(method)
    taken = [*inspect.signature(sweep).parameters, *inspect.signature(solve).parameters]
    check_options_of("sweep", options, [name for name in taken if name not in OWN])
    job = Job(_checked_model(model), method, measure or measure_end, options)
    own = _check_names(job, axes)
    job = job if method is not None else replace(job, method=own or VariationalCollision())
    folder = Path(tempfile.mkdtemp(prefix="carom-sweep-")) if out is None else None
    try:
        store = Store(Path(out) if folder is None else folder / "sweep.zarr", job, axes, flat, block)  # pyright: ignore[reportArgumentType]
        tasks = [(number, [store.point(i) for i in indices]) for number, indices in store.unfinished()]
        failures = {}
        if watch is not None:
            watch(store)
        for number, result in run_blocks(partial(run_block, job), tasks, workers, scheduler, retries, store.size, progress):
            if isinstance(result, BaseException):
                failures[number] = result
            else:
                store.write(number, result)
            if watch is not None:
                watch(store)
        dataset = store.read()
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    if failures:
        raise SweepError.of_blocks(failures, len(store.blocks), retries + 1, dataset)
    return dataset


# -- one point -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """What is done at every point: everything a worker must know."""

    model: str | Callable[..., Model]
    method: Any
    measure: Callable[[Solution], Mapping[str, Any]]
    options: dict[str, Any]

    def factory(self) -> Callable[..., Model]:
        return ALL[self.model] if isinstance(self.model, str) else self.model

    def identity(self) -> dict[str, str]:
        name = self.model if isinstance(self.model, str) else _name(self.model)
        code = self.measure.__code__ if hasattr(self.measure, "__code__") else None
        text = f"{code.co_code!r} {code.co_names} {[c for c in code.co_consts if not hasattr(c, 'co_code')]}" if code else ""
        measured = getattr(self.measure, "__qualname__", repr(self.measure))
        own = "" if isinstance(self.model, str) else digest_of_own(self.model)  # the same name with another captured number
        return {
            "model": f"{name} {own}".strip(),
            "method": f"{type(self.method).__name__} {digest_of(self.method)}",
            "measure": f"{measured} {digest_of_own(self.measure) or hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}",
            "options": repr(sorted(self.options.items())),
        }


def _name(function: Callable[..., Any]) -> str:
    """By which a store knows a model again: where the function is, and what was filled in by `partial`."""
    if isinstance(function, partial):
        given = [*map(repr, function.args), *(f"{name}={value!r}" for name, value in sorted(function.keywords.items()))]
        return f"{_name(function.func)}({', '.join(given)})"
    place = function if inspect.isroutine(function) or inspect.isclass(function) else type(function)
    return f"{place.__module__}.{place.__qualname__}"


def measure_end(solution: Solution) -> dict[str, Any]:
    """Where a run ended, how many impacts it took, and what became of the energy."""
    summary = solution.summary()
    return {
        "q_end": ("coordinate", solution.q[-1]),
        "v_end": ("coordinate" if solution.v.shape == solution.q.shape else "direction", solution.v[-1]),
        "t_end": summary["t_end"],
        "impacts": summary["impacts"],
        "energy_error_max": summary["energy_error_max"],
        "energy_drift": summary["energy_drift"],
    }


@dataclass(frozen=True)
class Outcome:
    status: str
    message: str
    values: dict[str, tuple[tuple[str, ...], np.ndarray]]  # empty where the point could not be run
    coordinates: tuple[str, ...]


def run_block(job: Job, points: list[dict[str, Any]]) -> list[Outcome]:
    """What a worker does."""
    return [_run_point(job, point) for point in points]


def _run_point(job: Job, point: dict[str, Any]) -> Outcome:
    try:
        solution = _solve(job, point)
    except (ValueError, TypeError) as error:
        return Outcome("refused", str(error), {}, ())
    if heard() is not None or solution.status.name == "interrupted":  # a part of a run is no point; Ctrl-C meant the sweep
        raise KeyboardInterrupt
    values = {}
    for name, value in job.measure(solution).items():
        dims, array = value if isinstance(value, tuple) else (None, value)
        array = np.asarray(array, float)
        own = tuple(f"{name}_{i}" for i in range(array.ndim))
        dims = (dims,) if isinstance(dims, str) else own if dims is None else tuple(dims)
        values[name] = (dims, array)
    return Outcome(solution.status.name, solution.status.message, values, solution.coordinates)


def _solve(job: Job, point: dict[str, Any]) -> Solution:
    factory = job.factory()
    known = inspect.signature(factory).parameters
    arguments, options = {}, {"progress": False, **job.options}
    params, entries = dict(options.pop("params", {})), []
    for name, value in point.items():
        if name in known:
            arguments[name] = value
        elif name in GRIDDED:
            options[name] = value
        elif name.startswith(("q0.", "v0.")):
            entries.append((name, value))
        else:
            params[name] = value
    model = made(factory, arguments)
    states = {"q0": list(options.pop("q0", model.q0)), "v0": list(options.pop("v0", model.v0))}
    for name, value in entries:
        states[name[:2]][_entries(model, name[:2]).index(name[3:])] = value
    return model.solve(job.method, **states, params=params, throw=False, **options)


def _entries(model: Model, state: str) -> list[str]:
    """What the numbers of q0 and of v0 are called: on rotations a velocity has other and fewer entries than a configuration."""
    if model.system.space is None:
        return [f"q{i}" for i in range(len(model.q0))]
    return list(model.system.space.names if state == "q0" else model.system.space.directions)


# -- the points ----------------------------------------------------------------------------------------------------------


def _axes(grid: Any, samples: Any) -> tuple[dict[str, np.ndarray], bool]:
    """The values by name, and whether they go side by side."""
    if (grid is None) == (samples is None):
        raise InputError("a sweep needs a grid or samples, one of the two: grid={'gravity': [1.6, 9.81]}")
    given = grid if grid is not None else samples
    if not isinstance(given, Mapping):
        raise InputError(f"{'samples' if grid is None else 'grid'} must be a dict of values by name; got {given!r}")
    axes = {}
    for name, values in given.items():
        axes[name] = np.atleast_1d(np.asarray(values))
        if axes[name].ndim != 1 or axes[name].size == 0 or axes[name].dtype.kind not in "fiub":
            raise InputError(f"the values of {name!r} must be a list of numbers; got {values!r}")
        if axes[name].dtype.kind == "f" and not np.all(np.isfinite(axes[name])):
            raise InputError(f"the values of {name!r} must be finite numbers")
    if not axes:
        raise InputError("there is nothing to vary: the grid is empty")
    if samples is not None and len({len(values) for values in axes.values()}) > 1:
        raise InputError(f"samples must have equal lengths; got { {name: len(values) for name, values in axes.items()} }")
    return axes, samples is not None


def _checked_model(model: Any) -> str | Callable[..., Model]:
    if isinstance(model, str):
        if model not in ALL:
            raise InputError(f"there is no model {model!r}; there are {', '.join(ALL)}{nearest(model, ALL)}")
        return model
    if isinstance(model, Model) or not callable(model):
        raise InputError("model must be the name of a model or a function that makes one, as carom.models.star (not called)")
    return model  # pyright: ignore[reportReturnType]


def check_grid(model: Any, grid: Any) -> None:
    """Can this be varied?"""
    _check_names(Job(_checked_model(model), None, measure_end, {}), _axes(grid, None)[0])


def _check_names(job: Job, axes: Mapping[str, Any]) -> Any:
    """Every name is one that can be varied. Returned is the method that suits the model, if it has one."""
    try:
        model = made(job.factory(), {})
    except CaromError:
        raise
    except TypeError as error:
        raise InputError(f"the model must be a function that can be called without arguments ({error})") from error
    entries = [f"{state}.{name}" for state in ("q0", "v0") for name in _entries(model, state)]
    known = dict.fromkeys([*inspect.signature(job.factory()).parameters, *model.params, *GRIDDED, *entries])
    for name in axes:
        if name not in known:
            raise InputError(f"{model.name} has no {name!r} to vary; it has {', '.join(known)}{nearest(name, known)}")
    return model.method


# -- the store -----------------------------------------------------------------------------------------------------------


class Store:
    """The zarr store of a sweep: which points there are, which of them are done."""

    def __init__(self, path: Path, job: Job, axes: dict[str, np.ndarray], flat: bool, block: int | None):
        if path.suffix != ".zarr":
            raise InputError(f"out must be a name that ends in .zarr; got {str(path)!r}")
        self.path, self.axes, self.flat, self.job = path, axes, flat, job
        self.dims = ("sample",) if flat else tuple(axes)
        self.shape = (len(next(iter(axes.values()))),) if flat else tuple(len(values) for values in axes.values())
        self.size = int(np.prod(self.shape))
        values = {name: values.tolist() for name, values in axes.items()}
        self.identity = {**job.identity(), "values": hashlib.blake2b(json.dumps([flat, values]).encode()).hexdigest()[:32]}
        self.chunks = self._open(_chunk_shape(self.shape, block or max(1, min(256, self.size // 16))))
        starts = [range(0, n, c) for n, c in zip(self.shape, self.chunks, strict=True)]
        self.blocks = [
            tuple(slice(a, min(a + c, n)) for a, c, n in zip(corner, self.chunks, self.shape, strict=True))
            for corner in itertools.product(*starts)
        ]

    def _open(self, chunks: tuple[int, ...]) -> tuple[int, ...]:
        """A store that is there must be of this sweep; its blocks are kept."""
        import zarr

        self.group: Any = None
        self.known: set[str] = set()  # the arrays that are there
        if not self.path.exists():
            return chunks
        try:
            group = zarr.open_group(self.path, mode="r+")
            told = json.loads(str(group.attrs["carom"]))
            kind, version, found = told["kind"], told["format"], told["identity"]
        except Exception as error:  # zarr has many ways to say that this is not a store
            raise InputError(f"{self.path} is not a sweep of carom: choose another name, or delete it") from error
        if kind != "sweep" or version > FORMAT:
            raise InputError(f"{self.path} holds a {kind} of format {version}; this carom reads sweeps up to format {FORMAT}")
        different = [key for key in self.identity if self.identity[key] != found.get(key)]
        if different:
            raise InputError(
                f"{self.path} belongs to another sweep: {', '.join(different)} {'differ' if len(different) > 1 else 'differs'}. "
                "Choose another name, or delete it to start anew"
            )
        self.group, self.known = group, set(group.array_keys())
        return tuple(told["chunks"])

    def point(self, index: tuple[int, ...]) -> dict[str, Any]:
        """What is varied, at one point."""
        where = index * len(self.axes) if self.flat else index
        return {name: values[i].item() for (name, values), i in zip(self.axes.items(), where, strict=True)}

    def unfinished(self) -> Iterator[tuple[int, list[tuple[int, ...]]]]:
        done = np.zeros(self.shape, bool) if self.group is None else np.asarray(self.group["done"][...])
        for number, box in enumerate(self.blocks):
            if not np.all(done[box]):
                yield number, list(itertools.product(*(range(s.start, s.stop) for s in box)))

    def write(self, number: int, outcomes: list[Outcome]) -> None:
        """The data first, then that they are there."""
        if self.group is None or not {name for o in outcomes for name in o.values} <= self.known:
            self._create(outcomes)
        box, group = self.blocks[number], self.group
        assert group is not None
        inner = tuple(s.stop - s.start for s in box)
        for name in {name for outcome in outcomes for name in outcome.values}:
            sizes = group[name].shape[len(self.shape) :]
            empty = np.full(sizes, np.nan)
            rows = [outcome.values[name][1] if name in outcome.values else empty for outcome in outcomes]
            if any(row.shape != sizes for row in rows):
                raise InputError(f"measure returned {name!r} with another shape than before: all points must agree")
            group[name][box] = np.stack(rows).reshape(*inner, *sizes)
        for name in ("status", "message"):
            group[name][box] = np.array([getattr(o, name) for o in outcomes], dtype=object).reshape(inner)
        group["done"][box] = np.ones(inner, bool)

    def _create(self, outcomes: list[Outcome]) -> None:
        """The arrays, as the first outcomes that have them say what they look like."""
        import xarray as xr
        import zarr

        fresh = {}
        if self.group is None:
            text = np.full(self.shape, "", dtype=object)
            fresh = {"status": (self.dims, text), "message": (self.dims, text), "done": (self.dims, np.zeros(self.shape, bool))}
        coords: dict[str, Any] = {} if self.group is not None else self._coords()
        for outcome in outcomes:
            for name, (dims, array) in outcome.values.items():
                if name in fresh or name in self.known:
                    continue
                if name in self.axes or name in ("status", "message", "done"):
                    raise InputError(f"measure returns {name!r}, which is taken; call it something else")
                fresh[name] = ((*self.dims, *dims), np.full((*self.shape, *array.shape), np.nan))
                if "coordinate" in dims and len(outcome.coordinates) == array.shape[dims.index("coordinate")]:
                    coords["coordinate"] = np.array(outcome.coordinates, dtype=object)
        dataset = xr.Dataset(fresh, coords=coords)
        header = {"kind": "sweep", "format": FORMAT, "identity": self.identity, "chunks": self.chunks, "versions": versions()}
        dataset.attrs["carom"] = json.dumps(header)
        encoding = {name: {"chunks": (*self.chunks, *np.shape(array)[len(self.shape) :])} for name, (_, array) in fresh.items()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.group is None:  # all of it or nothing
            part = self.path.with_name(f".{self.path.name}.new")
            shutil.rmtree(part, ignore_errors=True)
            dataset.to_zarr(part, zarr_format=3, consolidated=False, encoding=encoding)
            part.rename(self.path)
        else:
            dataset.to_zarr(self.path, mode="a", zarr_format=3, consolidated=False, encoding=encoding)
        self.group = zarr.open_group(self.path, mode="r+")
        self.known = set(self.group.array_keys())

    def _coords(self) -> dict[str, Any]:
        return {name: ("sample", values) for name, values in self.axes.items()} if self.flat else dict(self.axes)

    def read(self) -> Any:
        """All of it, in memory."""
        import xarray as xr

        if self.group is None:
            return xr.Dataset(coords=self._coords())
        with xr.open_zarr(self.path, consolidated=False, chunks=None) as dataset:
            return dataset.load()


def _chunk_shape(shape: tuple[int, ...], points: int) -> tuple[int, ...]:
    """A box of at most so many points: whole rows first."""
    chunks = []
    for n in reversed(shape):
        chunks.append(max(1, min(n, points)))
        points //= chunks[-1]
    return tuple(reversed(chunks))
