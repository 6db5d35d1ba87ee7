"""What came out of an ensemble: arrays with one row per lane."""

import html
import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from carom.calls import public_methods
from carom.errors import InputError
from carom.methods.status import OK
from carom.results.caveats import GROWTH
from carom.results.places import file_path
from carom.results.solution import Impacts, Solution, Status, counted, describe
from carom.results.store import FORMAT, versions
from carom.results.views import view
from carom.running.solve import solve
from carom.system.system import System

if TYPE_CHECKING:
    from pathlib import Path

    import xarray as xr
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class LaneImpacts(Impacts):
    """The impacts of several lanes in one table, lane by lane: a ragged array with `lane` as the first of its columns."""

    lane: np.ndarray  #      [m]


@public_methods
@dataclass(frozen=True, eq=False)
class Ensemble:
    """The saved states of all lanes, and per lane: energy, number of impacts, how it ended.

    A lane that failed is NaN at every saved step after its last good one.
    """

    t: np.ndarray  #             [lanes, saved]
    q: np.ndarray  #             [lanes, saved, n]
    p: np.ndarray  #             [lanes, saved, n]
    saved: np.ndarray  #         [saved]         the steps of the grid that were kept; the last step is the last of them
    impacts_so_far: np.ndarray  #  [lanes, saved]  how many
    steps: np.ndarray  #         [lanes]         steps taken
    codes: np.ndarray  #         [lanes]         0 is good, see `status`
    energy: np.ndarray  #        [lanes, saved]
    energy_start: np.ndarray  #  [lanes]
    dt: np.ndarray  #            [lanes]
    q0: np.ndarray  #            [lanes, n]
    v0: np.ndarray  #            [lanes, n]
    t0: float
    system: System
    method: Any
    params: Any
    each: dict[str, np.ndarray]
    contact_names: tuple[str, ...]
    seconds: float  #            spent stepping
    compile_seconds: float
    name: str = "ensemble"
    single: bool = False  #      in single precision

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def num_impacts(self) -> np.ndarray:
        """[lanes]"""
        return self.impacts_so_far[:, -1]

    @property
    def q_end(self) -> np.ndarray:
        """[lanes, n]"""
        return self.q[:, -1]

    @property
    def p_end(self) -> np.ndarray:
        """[lanes, n]"""
        return self.p[:, -1]

    @property
    def ok(self) -> np.ndarray:
        """[lanes]: which lanes took every step asked for."""
        return self.codes == OK

    @property
    def energy_error(self) -> np.ndarray:
        """(E − E₀) / |E₀| at the saved steps, [lanes, saved]; relative to 1 where E₀ is zero."""
        scale = np.where(self.energy_start == 0, 1.0, np.abs(self.energy_start))
        return (self.energy - self.energy_start[:, None]) / scale[:, None]

    def _lane(self, lane: Any) -> int:
        """The number of a lane; counted from the end where it is negative, as rows are."""
        if np.ndim(lane) or not np.issubdtype(np.asarray(lane).dtype, np.integer) or not -len(self) <= lane < len(self):
            raise InputError(f"lane must be a whole number from 0 to {len(self) - 1}; got {lane!r}")
        return int(lane) % len(self)

    def lane_params(self, lane: int) -> Any:
        """The parameters of one lane, as `solve` takes them."""
        lane = self._lane(lane)
        return (
            {**(self.params or {}), **{key: np.asarray(value)[lane] for key, value in self.each.items()}}
            if self.each
            else self.params
        )

    def status(self, lane: int) -> Status:
        """How a lane ended, in words."""
        lane = self._lane(lane)
        code, step = int(self.codes[lane]), int(self.steps[lane])
        t = self.t0 + step * float(self.dt[lane])
        if code == OK:
            return Status("ok", f"{counted(step, 'step')} taken to t = {t:.9g}", True, step, t)
        # A lane in single precision is another motion than the one in double precision that could be run again.
        impacts = Impacts.from_tables([], self.q.shape[2], np.zeros(len(self.contact_names), int), self.contact_names)
        impacts = impacts if self.single else self.solve(lane).impacts
        return describe(code, step, t, impacts, self.method, f" in lane {lane}")

    def solve(self, lane: int) -> Solution:
        """The whole trajectory of one lane: all states of its grid, and its impacts."""
        lane = self._lane(lane)
        options = {"dt": float(self.dt[lane]), "t0": self.t0, "num_steps": int(self.saved[-1]), "params": self.lane_params(lane)}
        return solve(self.system, self.method, self.q0[lane], self.v0[lane], **options, throw=False, progress=False)

    def impacts(self, lanes: Iterable[int] | None = None) -> LaneImpacts:
        """The impacts of these lanes (of all, by default) in one table. An ensemble counts impacts and does not keep them: the
        lanes are run again, one by one."""
        chosen = range(len(self)) if lanes is None else [self._lane(n) for n in (lanes if np.iterable(lanes) else [lanes])]
        if not len(chosen):
            raise InputError("impacts of which lanes? the list is empty")
        tables = [self.solve(lane).impacts for lane in chosen]
        columns = {f.name: np.concatenate([getattr(t, f.name) for t in tables]) for f in fields(Impacts) if f.name != "names"}
        return LaneImpacts(**columns, names=self.contact_names, lane=np.repeat(chosen, [len(t) for t in tables]))

    def summary(self) -> dict[str, Any]:
        """The numbers of the run, as plain Python."""
        error = np.abs(self.energy_error[self.ok])
        work = float(np.sum(self.steps))
        return {
            "name": self.name,
            "lanes": len(self),
            "failed": int(np.sum(~self.ok)),
            "steps": int(self.saved[-1]),
            "impacts": int(np.sum(self.num_impacts)),
            "energy_error_max": float(np.max(error, initial=0.0)),
            "energy_error_median": float(np.median(error)) if error.size else 0.0,
            "caveats": list(self.caveats),
            "seconds": self.seconds,
            "compile_seconds": self.compile_seconds,
            "trajectory_steps_per_second": work / self.seconds if self.seconds > 0 else 0.0,
        }

    def _grown(self) -> np.ndarray:
        """[lanes]: whether the energy at the saved steps is larger than any method makes it, with nothing to feed it."""
        if self.system.needs & {"forces", "moving walls"}:
            return np.zeros(len(self), bool)
        with np.errstate(over="ignore", invalid="ignore"):
            most = np.max(np.nan_to_num(self.energy_error, nan=np.inf, posinf=np.inf), axis=1)
        return self.ok & (most > GROWTH)

    @cached_property
    def caveats(self) -> tuple[str, ...]:
        """What lanes that ended well still have to say: of those whose energy grew, the one where it grew most is run again."""
        grown = self._grown()
        if not grown.any() or self.single:
            return ()
        with np.errstate(over="ignore", invalid="ignore"):
            most = np.max(np.nan_to_num(self.energy_error, nan=np.inf, posinf=np.inf), axis=1)
        lane = int(np.argmax(np.where(grown, most, -np.inf)))
        others = f" ({int(grown.sum())} lanes gained more than {GROWTH:.0%} of their energy)"
        return tuple(f"lane {lane}: {sentence}{others}" for sentence in self.solve(lane).caveats)

    def __repr__(self) -> str:
        failed = int(np.sum(~self.ok))
        ending = f"{failed} failed" if failed else "all ok"
        grown = int(np.sum(self._grown()))
        ending += f", but the energy of {counted(grown, 'lane')} grew: see .caveats" if grown else ""
        steps, hits = counted(int(self.saved[-1]), "step"), counted(int(np.sum(self.num_impacts)), "impact")
        return f"Ensemble {self.name!r}: {len(self)} lanes of {steps}, {hits}, {ending}"

    def save(self, path: "str | Path") -> "Path":
        """Write the ensemble as a labelled dataset, *.zarr or *.nc; xarray opens it."""
        path = file_path(path, "ensemble.zarr")
        if path.suffix.lower() not in (".zarr", ".nc"):
            raise InputError(f"an ensemble is saved as *.zarr or *.nc; got {str(path)!r}")
        path.parent.mkdir(parents=True, exist_ok=True)
        data = self.to_xarray().assign_attrs(carom=json.dumps({"kind": "ensemble", "format": FORMAT, "versions": versions()}))
        if path.suffix.lower() == ".zarr":
            data.to_zarr(path, mode="w", zarr_format=3, consolidated=False)
        else:
            data.to_netcdf(path, engine="h5netcdf")
        return path

    def plot(self, path: "str | Path | None" = None) -> "Figure":
        """The coordinates of some lanes, where all of them ended, and their energy errors; saved if a path is given."""
        return view("plot_ensemble")(self, path)

    def report(self, path: "str | Path", title: str | None = None) -> "Path":
        """Write one HTML file: how many lanes, how they ended, what was kept, with the picture. It needs no network."""
        return view("report_ensemble")(self, path, title)

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th style='text-align: left'>{key.replace('_', ' ')}</th><td>{value}</td></tr>"
                       for key, value in self.summary().items() if key != "name")  # fmt: skip
        return f"<b>{html.escape(self.name)}</b><table>{rows}</table>"

    def to_xarray(self) -> "xr.Dataset":
        """A labelled dataset with the dimensions `lane`, `step` (those saved) and `coordinate`."""
        import xarray as xr

        names = self.system.space.names if self.system.space else [f"q{i}" for i in range(self.q.shape[2])]
        values = {
            "q": (("lane", "step", "coordinate"), self.q, {"long_name": "configuration"}),
            "p": (("lane", "step", "direction"), self.p, {"long_name": "momentum"}),
            "time": (("lane", "step"), self.t),
            "energy": (("lane", "step"), self.energy),
            "energy_error": (("lane", "step"), self.energy_error),
            "impacts_so_far": (("lane", "step"), self.impacts_so_far),
            "steps_taken": ("lane", self.steps),
            "status": ("lane", self.codes),
            "dt": ("lane", self.dt),
        }
        values |= {
            f"param_{key}": (("lane", *(f"{key}_{i}" for i in range(np.ndim(x) - 1))), np.asarray(x))
            for key, x in self.each.items()
        }
        coordinates = {"lane": np.arange(len(self)), "step": self.saved, "coordinate": np.array(names, dtype=object)}
        return xr.Dataset(values, coords=coordinates, attrs={"name": self.name})
