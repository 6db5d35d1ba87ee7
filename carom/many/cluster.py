"""An ensemble over a dask cluster: blocks of lanes, computed by any worker, streamed into one zarr store.

Each block is an ensemble of its own, with the same program and so with the numbers of one machine. Only a few blocks are on their
way at a time, and each is written as it comes: the memory needed here is that of these blocks, however many lanes there are, if
the lanes are given as something that is read in slices (a numpy.memmap, a zarr array). The data of a block are written first and
`done` last. Whoever dies, whenever, a block is either done or computed again; the same call goes on with what was stopped.
"""

import hashlib
import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from carom.errors import InputError, SweepError
from carom.results.store import versions

FORMAT = 1
BLOCK = 1 << 16  # lanes
AHEAD = 2  # blocks on their way, for each thread of the cluster

Run = Callable[..., Any]  # of (q0s, v0s, dt, each): an Ensemble


class Lanes:
    """What differs from lane to lane, in slices. A single row serves all lanes."""

    def __init__(self, q0s: Any, v0s: Any, dt: Any, each: Mapping[str, Any] | None):
        self.parts = {"q0s": _rows(q0s), "v0s": _rows(v0s), "dt": np.asarray(dt, float) if np.ndim(dt) == 0 else dt}
        self.parts |= {f"each[{key!r}]": value for key, value in (each or {}).items()}
        self.names = list(each or {})
        sizes = {key: 1 if np.ndim(part) == 0 else len(part) for key, part in self.parts.items()}
        self.count = max(sizes.values())
        for key, size in sizes.items():
            if size not in (1, self.count):
                raise InputError(f"{key} has {size} rows; there are {self.count} lanes")

    def __getitem__(self, lanes: slice) -> tuple[Any, Any, Any, dict[str, Any]]:
        """The rows of some lanes, as arrays; beyond the last lane it is repeated, so that all blocks are one program."""
        size = lanes.stop - lanes.start

        def cut(part: Any) -> Any:
            if np.ndim(part) == 0 or len(part) == 1 < self.count:
                return np.asarray(part, float)
            rows = np.asarray(part[lanes.start : min(lanes.stop, self.count)], float)
            return np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)])

        cuts = {key: cut(part) for key, part in self.parts.items()}
        each = {key: cuts[f"each[{key!r}]"] for key in self.names}
        return cuts["q0s"], cuts["v0s"], cuts["dt"], each


def _rows(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        value = np.asarray(value, float)
    if np.ndim(value) not in (1, 2):
        raise InputError(f"lanes are given as rows, [lanes, coordinates]; got shape {np.shape(value)}")
    return value if np.ndim(value) == 2 else np.asarray(value, float)[None]


def spread(run: Run, lanes: Lanes, told: dict[str, str], cluster: str, out: Any, block: int | None, retries: int = 2) -> Any:
    """`run` on every block of lanes, on the workers of a dask scheduler. `told`: what the run is, so that no other goes on with its
    store. Returned is the store as an xarray dataset that reads what it is asked for."""
    import xarray as xr

    store = LaneStore(out, lanes.count, block or min(BLOCK, lanes.count), told)
    todo = store.unfinished()
    failures = {}
    for number, result in _on_workers(run, lanes, store.slices, todo, cluster, retries) if len(todo) else ():
        if isinstance(result, BaseException):
            failures[number] = result
        else:
            store.write(number, result)
    dataset = xr.open_zarr(store.path, consolidated=False, chunks=None) if store.path.exists() else xr.Dataset()
    if failures:
        raise SweepError.of_blocks(failures, len(store.slices), retries + 1, dataset)
    return dataset


def compute_block(pickled: bytes, rows: tuple[Any, ...]) -> dict[str, Any]:
    """In a worker: name → (dimensions, array), and the coordinates under "coords"."""
    data = pickle.loads(pickled)(*rows).to_xarray()
    coords = {name: data.coords[name].values for name in data.coords if name != "lane"}
    return {"coords": coords, **{str(name): (array.dims, array.values) for name, array in data.data_vars.items()}}


def _on_workers(
    run: Run, lanes: Lanes, slices: list[slice], todo: list[int], cluster: str, retries: int
) -> Iterator[tuple[int, Any]]:
    """(number, result or what went wrong), in the order in which blocks finish; only a few are on their way."""
    try:
        from distributed import Client, as_completed
    except ImportError as error:
        raise InputError("cluster= needs dask: pip install 'carom[cluster]'") from error
    try:
        pickled = pickle.dumps(run)
    except Exception as error:  # pickle raises what it likes
        raise InputError(
            f"the system and the method go to other processes and must be importable there ({error}): define their functions at "
            "the top of a module"
        ) from error
    try:
        client = Client(cluster, timeout="20s")
    except (OSError, ValueError) as error:
        raise InputError(f"no dask scheduler answers at {cluster}: {error}") from error
    with client:
        waiting = iter(todo)
        numbers: dict[Any, int] = {}

        def submit() -> Any:
            number = next(waiting, None)
            if number is None:
                return None
            future = client.submit(compute_block, pickled, lanes[slices[number]], pure=False, retries=retries)
            numbers[future] = number
            return future

        room = max(1, AHEAD * sum(client.nthreads().values()))
        finished = as_completed([future for _ in range(room) if (future := submit()) is not None])
        for future in finished:
            number = numbers.pop(future)
            try:
                result = future.result()
            except Exception as error:  # of the block, or that its workers died again and again
                result = error
            future.release()
            following = submit()
            if following is not None:
                finished.add(following)
            yield number, result


def check_store(out: Any, block: Any) -> None:
    if out is None or Path(out).suffix != ".zarr":
        raise InputError(f"out must be a name that ends in .zarr, for the lanes to be written to; got {out!r}")
    if block is not None and (int(block) != block or block < 1):
        raise InputError(f"block must be a positive whole number of lanes; got {block!r}")


class LaneStore:
    """The zarr store of an ensemble: one chunk per block along `lane`."""

    def __init__(self, path: Any, count: int, block: int, told: dict[str, str]):
        self.path, self.count, self.told = Path(path), count, {**told, "lanes": str(count)}
        self.group: Any = None
        self.block = int(block) if not self.path.exists() else self._open()
        self.slices = [slice(a, a + self.block) for a in range(0, count, self.block)]

    def _open(self) -> int:
        """A store that is there must be of this ensemble; its blocks are kept."""
        import zarr

        try:
            group = zarr.open_group(self.path, mode="r+")
            header = json.loads(str(group.attrs["carom"]))
            kind, version, found = header["kind"], header["format"], header["identity"]
        except Exception as error:  # zarr has many ways to say that this is not a store
            raise InputError(f"{self.path} is not an ensemble of carom: choose another name, or delete it") from error
        different = [key for key in self.told if self.told[key] != found.get(key)]
        if kind != "lanes" or version > FORMAT or different:
            raise InputError(
                f"{self.path} belongs to something else ({', '.join(different) or kind} differs). Choose another name, or delete "
                "it to start anew"
            )
        self.group = group
        return int(header["block"])

    def unfinished(self) -> list[int]:
        done = np.zeros(len(self.slices), bool) if self.group is None else np.asarray(self.group["done"][...])
        return np.flatnonzero(~done).tolist()

    def write(self, number: int, block: dict[str, Any]) -> None:
        """The data first, then that they are there."""
        if self.group is None:
            self._create(block)
        here = self.slices[number]
        stop = min(here.stop, self.count)
        for name, value in block.items():
            if name != "coords":
                self.group[name][here.start : stop] = value[1][: stop - here.start]
        self.group["done"][number] = True

    def _create(self, block: dict[str, Any]) -> None:
        """Room for all lanes, of which nothing is written yet."""
        import zarr

        part = self.path.with_name(f".{self.path.name}.new")
        part.parent.mkdir(parents=True, exist_ok=True)
        group = zarr.open_group(part, mode="w", zarr_format=3)
        header = {"kind": "lanes", "format": FORMAT, "identity": self.told, "block": self.block, "versions": versions()}
        group.attrs["carom"] = json.dumps(header)
        for name, (dims, array) in {key: value for key, value in block.items() if key != "coords"}.items():
            shape, chunks = (self.count, *array.shape[1:]), (self.block, *array.shape[1:])
            group.create_array(name, shape=shape, chunks=chunks, dtype=array.dtype, dimension_names=dims)
        for name, values in block["coords"].items():
            if values.dtype.kind in "iuf":  # names of coordinates are an attribute: zarr has no text of fixed length yet
                group.create_array(name, data=values, dimension_names=(name,))
            else:
                group.attrs[name] = [str(value) for value in values]
        group.create_array("done", data=np.zeros(len(self.slices), bool), chunks=(1,), dimension_names=("block",))
        part.rename(self.path)
        self.group = zarr.open_group(self.path, mode="r+")


def fingerprint(*arrays: Any) -> str:
    """Of small arrays all, of large ones some rows: enough to notice that others were given."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        shape = np.shape(array)
        some = np.asarray(array if not shape or shape[0] <= 4096 else array[: shape[0] : max(1, shape[0] // 1024)])
        digest.update(repr(shape).encode() + np.ascontiguousarray(some, float).tobytes())
    return digest.hexdigest()
