"""What came out: the grid, the impacts, and a status that says what went wrong, where, when, and what to try."""

import html
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from carom.calls import public_methods
from carom.drawing import Film, film_of_run
from carom.errors import InputError
from carom.named import changed_since, frozen_once
from carom.numerics.quadrature import integrals
from carom.results.along import gaps_along, smallest_along
from carom.results.caveats import caveats
from carom.results.how_it_ended import Status as Status
from carom.results.how_it_ended import describe as describe
from carom.results.impacts import Impacts as Impacts
from carom.results.impacts import counted as counted
from carom.results.views import view
from carom.system.system import System
from carom.xla.forks import refuse_forked
from carom.xla.kernel import kernel_state

MANY_CONTACTS = 32  # more gaps than these are not kept one by one

if TYPE_CHECKING:
    from pathlib import Path

    import xarray as xr
    from matplotlib.figure import Figure

    from carom.results.dense import Dense
    from carom.results.reactions import Reactions


@public_methods
@dataclass(frozen=True, eq=False)
class Solution:
    """The grid t, q, p (and v, energy, computed when asked for), the impacts, and how the run ended."""

    t: np.ndarray  #  [num_steps + 1]
    q: np.ndarray  #  [num_steps + 1, n]
    p: np.ndarray  #  [num_steps + 1, n]
    dt: float
    impacts: Impacts
    status: Status
    system: System
    method: Any
    params: Any
    seconds: float  #          spent stepping
    compile_seconds: float  #  spent compiling, 0 if it was compiled before
    steps: int = -1  #         taken; the grid keeps all of them, or every stride-th
    name: str = "run"
    shape: Callable[..., Any] | None = None  #  (q, t, params) ↦ the parts of a picture, see carom/drawing.py
    record: Any = None  #      a StepRecord with a row per step, from timestepping methods and with stride 1
    commands: np.ndarray | None = None  #           [num_steps, m]      what a controller's u was in each step
    controller_memory: np.ndarray | None = None  #  [num_steps + 1, z]  and its memory, flat
    since: tuple[int, float] | None = None  #       step and time from which steps have been dt long, where a stop cut one short
    uneven: bool = False  #                         steps are of different length, np.diff(t); dt is their mean

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "system", frozen_once(self.system)
        )  # what is computed later is computed with the numbers of the run
        object.__setattr__(self, "status", replace(self.status, look=lambda: self.caveats))

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))  # a copy: what the status says is looked for while it is pickled, and remembered here

    def _physics(self) -> System:
        refuse_forked()
        changed = changed_since(self.system)
        if changed is not None:
            raise InputError(
                f"the {changed.role} of this run refers to something that has been changed since (a class, a file, an object that "
                "cannot be copied): its energy can no longer be computed. Hand such numbers over as params, or ask for .v, .energy "
                "and .gaps before changing them"
            )
        return self.system

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The names of the coordinates."""
        space = self.system.space
        return tuple(space.names) if space is not None else tuple(f"q{i}" for i in range(self.q.shape[1]))

    @property
    def labels(self) -> tuple[str, ...]:
        """The coordinates as axes name them: with their units, where the space has some."""
        return tuple(f"{name} [{unit}]" if unit else name for name, unit in zip(self.coordinates, self.units, strict=True))

    @cached_property
    def units(self) -> tuple[str, ...]:
        return self.system.space.units if self.system.space is not None else ("",) * self.q.shape[1]

    @cached_property
    def time_label(self) -> str:
        space = self.system.space
        return f"time [{space.time_unit}]" if space is not None and space.time_unit else "time"

    @cached_property
    def directions(self) -> tuple[str, ...]:
        """The names of the entries of velocities and momenta: those of the coordinates where there are as many."""
        n, space = self.p.shape[1], self.system.space
        if n == len(self.coordinates):
            return self.coordinates
        return space.directions if space is not None and space.dim == n else tuple(f"{i}" for i in range(n))

    @property
    def pace(self) -> str:
        """How long steps are, in words."""
        return f"{self.dt:g}" if not self.uneven else f"different length, {self.dt:g} in the mean"

    @property
    def num_steps(self) -> int:
        return self.steps if self.steps >= 0 else len(self.t) - 1

    @cached_property
    def v(self) -> np.ndarray:
        return np.asarray(_velocities(self._physics(), self.params, self.t, self.q, self.p))

    @cached_property
    def energy(self) -> np.ndarray:
        return np.asarray(_energies(self._physics(), self.params, self.t, self.q, self.p))

    @cached_property
    def gaps(self) -> np.ndarray:
        """All gaps along the grid, one column per contact."""
        return np.asarray(gaps_along(self._physics(), self.params, self.t, self.q))

    @cached_property
    def smallest_gap(self) -> np.ndarray | None:
        """The smallest of all gaps along the grid; None without contacts."""
        return np.asarray(smallest_along(self._physics(), self.params, self.t, self.q)) if self.system.contacts else None

    @cached_property
    def film(self) -> Film | None:
        """The picture along the run, at impacts too; None without a shape."""
        if self.shape is None:
            return None
        return film_of_run(self.shape, self.t, self.q, self.params, self.impacts.t, self.impacts.q)

    @cached_property
    def dense(self) -> "Dense":
        """Position, velocity, contact forces and accumulated interaction at any time, from timestepping methods."""
        return view("dense")(self)

    @property
    def energy_error(self) -> np.ndarray:
        """(E − E₀) / |E₀|; relative to the largest kinetic part where E₀ is zero."""
        with np.errstate(over="ignore", invalid="ignore"):  # a run beyond all numbers says so in its caveats
            kinetic = np.max(np.abs(np.sum(self.p * self.v, axis=1)))
            scale = abs(self.energy[0]) if abs(self.energy[0]) > 1e-12 * kinetic else kinetic or 1.0
            return (self.energy - self.energy[0]) / scale

    @property
    def energy_drift(self) -> float:
        """The slope of a straight line through the energy error, times the duration."""
        if len(self.t) < 3:
            return float(self.energy_error[-1])
        return float(np.polyfit(np.linspace(0, 1, len(self.t)), self.energy_error, 1)[0])

    @property
    def fallbacks(self) -> int:
        return int(self.impacts.fallback.sum())

    @property
    def preserved(self) -> tuple[str, ...]:
        """What the method declares to keep of this system."""
        return self.method.keeps(self.system)

    @cached_property
    def caveats(self) -> tuple[str, ...]:
        """What a run that ended well still has to say: contacts passed through, energy from nowhere. Empty for most."""
        return caveats(self)

    def summary(self) -> dict[str, Any]:
        """The numbers of the run, as plain Python."""
        error = self.energy_error
        return {
            "name": self.name,
            "status": self.status.name,
            "message": self.status.message,
            "caveats": list(self.caveats),
            "steps": self.num_steps,
            "dt": self.dt,
            "t_end": float(self.t[-1]),
            "impacts": len(self.impacts),
            "fallbacks": self.fallbacks,
            "energy_error_max": float(np.max(np.abs(error))),
            "energy_drift": self.energy_drift,
            "seconds": self.seconds,
            "compile_seconds": self.compile_seconds,
            "microseconds_per_step": 1e6 * self.seconds / max(self.num_steps, 1),
            "one_kernel": kernel_state(ask=False).on,  # in this process; None where nothing has run
        }

    def __repr__(self) -> str:
        steps, hits = counted(self.num_steps, "step"), counted(len(self.impacts), "impact")
        return f"Solution {self.name!r}: {steps} of {self.pace} to t = {self.t[-1]:g}, {hits}, {self.status.name}"

    def _repr_html_(self) -> str:
        """What a notebook shows: how it ended, what was kept, and the impacts."""
        numbers = self.summary()
        rows = {
            "steps": f"{self.num_steps:,} of {self.pace}, to t = {numbers['t_end']:g}",
            "method": type(self.method).__name__,
            "energy, largest change": f"{numbers['energy_error_max']:.2e} relative",
            "energy, drift": f"{numbers['energy_drift']:+.2e} over the run",
        }
        cells = "".join(f"<tr><th style='text-align: left'>{name}</th><td>{value}</td></tr>" for name, value in rows.items())
        parts = [f"<b>{html.escape(self.name)}</b> · {self.status._repr_html_()}", f"<table>{cells}</table>"]
        return "".join(f"<div>{part}</div>" for part in [*parts, *([self.impacts._repr_html_()] if len(self.impacts) else [])])

    @cached_property
    def contact_forces(self) -> np.ndarray:
        """The mean normal force of each contact over each step, [num_steps, contacts]: its impulse in the step divided by dt.

        Impacts and resting contact alike, with any method; the columns are those of `impacts.names`. Inside a step: `dense`."""
        return mean_forces(self)

    @cached_property
    def reactions(self) -> "Reactions":
        """What joints and velocity constraints do to the system: their multipliers λ on the grid and their impulses at impacts."""
        return view("reactions")(self)

    def extend(self, num_steps: int | None = None, **options: Any) -> "Solution":
        """The same run, so many steps longer: the end of this one is where the rest starts."""
        return view("extend")(self, num_steps, **options)

    def to_xarray(self) -> "xr.Dataset":
        """A labelled dataset: the grid along `time`, the impacts along `impact`; of many contacts only the smallest gap."""
        import xarray as xr

        along = "coordinate" if self.p.shape[1] == self.q.shape[1] else "direction"  # on rotations there are fewer momenta
        hits = self.impacts
        gaps: dict[str, Any] = {} if self.smallest_gap is None else {"smallest_gap": ("time", self.smallest_gap)}
        if 0 < len(hits.names) <= MANY_CONTACTS:
            gaps["gaps"] = (("time", "contact"), self.gaps)
        if self.commands is not None and self.controller_memory is not None:  # in the step that ends at a time: none at the first
            held = np.concatenate([np.full((1, self.commands.shape[1]), np.nan), self.commands])
            gaps |= {"command": (("time", "actuator"), held), "controller_memory": (("time", "entry"), self.controller_memory)}
        return xr.Dataset(
            {
                "q": (("time", "coordinate"), self.q, {"long_name": "configuration"}),
                "p": (("time", along), self.p, {"long_name": "momentum"}),
                "v": (("time", along), self.v, {"long_name": "velocity"}),
                "energy": ("time", self.energy),
                **gaps,
                "impact_step": ("impact", hits.step),
                "impact_q": (("impact", "coordinate"), hits.q),
                "impact_p_before": (("impact", along), hits.p_before),
                "impact_p_after": (("impact", along), hits.p_after),
                "impact_contact": ("impact", hits.contact),
                "impact_impulse": ("impact", hits.impulse),
                "impact_impulses": (("impact", "contact"), hits.impulses),
                "impact_scale": ("impact", hits.scale),
                "impact_fallback": ("impact", hits.fallback),
            },
            coords={
                "time": ("time", self.t, {"units": self.time_label[6:-1]} if self.time_label != "time" else {}),
                "coordinate": np.array(self.coordinates, dtype=object),
                **({"unit": ("coordinate", np.array(self.units, dtype=object))} if any(self.units) else {}),
                "contact": np.array(hits.names, dtype=object),
                "impact_time": ("impact", hits.t),
                **({"direction": np.array(self.directions, dtype=object)} if along == "direction" else {}),
            },
            attrs={"name": self.name, "dt": self.dt, "status": self.status.name, "message": self.status.message},
        )

    def save(self, path: "str | Path") -> "Path":
        """Write the run to `path`, *.zarr or *.nc; `carom.load` reads it, and xarray does."""
        return view("save")(self, path)

    def report(self, path: "str | Path", title: str | None = None) -> "Path":
        """Write one HTML file: the motion to play, what is conserved, the impacts, how it was made. It needs no network."""
        return view("report")(self, path, title)

    def view(self, **options: Any) -> "Any":
        """Watch it in the browser (extra `live`), or in the cell of a notebook. See `carom.live.viewing.view_solution`."""
        return view("view")(self, **options)

    def animate(self, path: "str | Path | None" = None, **options: Any) -> "Any":
        """The motion as a film, saved to *.gif or *.mp4 if a path is given; a notebook shows it. See `carom.report.movie`."""
        return view("animate")(self, path, **options)

    def plot(self, path: str | None = None) -> "Figure":
        """Coordinates, gaps and energy against time, impacts marked; saved to `path` if given."""
        return view("plot")(self, path)


@eqx.filter_jit
def _velocities(system: System, params: Any, t, q, p):
    return jax.vmap(system.bind(params, q.shape[1]).velocity)(q, p, t)


@eqx.filter_jit
def _energies(system: System, params: Any, t, q, p):
    return jax.vmap(system.bind(params, q.shape[1]).energy_of)(q, p, t)


def mean_forces(solution: Solution) -> np.ndarray:
    hits, names = solution.impacts, solution.impacts.names
    if len(solution.t) != solution.num_steps + 1:
        raise InputError("forces per step need every step of the grid; run again with stride=1")
    total = np.zeros((solution.num_steps, len(names)))
    if solution.record is None:
        np.add.at(total, np.minimum(hits.step, len(total) - 1), hits.impulses)
        return total / np.diff(solution.t)[:, None]
    mechanics = solution.system.bind(solution.params, solution.q.shape[1])
    record, faces = solution.record, mechanics.contacts.num_faces
    weights = integrals(np.asarray(solution.method.nodes), np.ones(1))[0]
    impulses = np.einsum("s,asr->ar", weights, np.asarray(record.forces)) * np.diff(solution.t)[:, None]
    impulses = np.asarray(record.impulses) + impulses
    for face, contact in enumerate(mechanics.contacts.owner):
        total[:, contact] += np.nan_to_num(impulses[:, :faces])[:, face]
    flown = np.isnan(np.asarray(record.velocities)).any(axis=(1, 2))[np.minimum(hits.step, len(total) - 1)] if len(hits) else []
    np.add.at(total, hits.step[flown], hits.impulses[flown]) if len(hits) else None
    return total / np.diff(solution.t)[:, None]
