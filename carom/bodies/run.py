"""What came out of a world: poses, velocities, contacts, energy, momenta, and how well each step was solved."""

import html
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from carom.bodies import quaternions
from carom.bodies.contact_table import COLUMNS, ContactLog, WorldContacts
from carom.bodies.memory import Memory
from carom.bodies.pictures import Outline, String, film, from_text, outlines, strings
from carom.bodies.scene import FREE, Scene, State, kinetic_energy, potential
from carom.bodies.stepping import StepRecord
from carom.calls import nearest, public_methods
from carom.drawing import Film
from carom.errors import NotThere
from carom.results.impacts import counted
from carom.results.solution import Status
from carom.results.views import view
from carom.wanted import Flag

if TYPE_CHECKING:
    import xarray as xr

    from carom.bodies.world import World


CHUNK = 1000  # states whose rotations are made at once


@dataclass
class Recorder:
    """Keeps states and certificates while a run goes on."""

    scene: Scene
    steps: list[int] = field(default_factory=list)
    t: list[float] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    residual: list[float] = field(default_factory=list)
    deepest: list[float] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)

    def keep(self, step: int, t: float, state: State) -> None:
        self.steps.append(step)
        self.t.append(t)
        self.states.append(state)

    def note(self, record: StepRecord) -> None:
        self.residual.append(record.residual)
        self.deepest.append(record.deepest)
        self.stages.append(record.stage)


@dataclass(frozen=True)
class BodyTrack:
    """One body through a run, at the origin of its frame: in space vectors and quaternions, in the plane pairs and angles."""

    name: str
    position: np.ndarray  #         [k, dim]
    orientation: np.ndarray  #      [k, 4], or angles [k]
    velocity: np.ndarray  #         [k, dim]
    spin: np.ndarray  #             [k, 3], or [k]
    center: np.ndarray  #           [k, dim]  the centre of mass
    center_velocity: np.ndarray  #  [k, dim]


@dataclass(frozen=True)
class Settings:
    """How a run was asked for: what it takes to go on with it."""

    tolerance: float = 1e-10
    save_every: int = 1
    device: str | None = None


@public_methods
@dataclass(frozen=True)
class WorldRun:
    """A run of a world. `t` are the kept times; `residual`, `deepest` and `stages` have one entry per step."""

    names: tuple[str, ...]
    dim: int
    dt: float
    t: np.ndarray  #          [k]
    steps: np.ndarray  #      [k]
    x: np.ndarray  #          [k, n, 3]  centres of mass
    q: np.ndarray  #          [k, n, 4]
    v: np.ndarray  #          [k, n, 3]
    L: np.ndarray  #          [k, n, 3]  angular momenta about the own centres (spins of prescribed bodies)
    spins: np.ndarray  #      [k, n, 3]
    kinetic: np.ndarray  #    [k]
    potential: np.ndarray  #  [k]
    residual: np.ndarray  #   [N]  the certificate E of the step's contact problems, the largest
    deepest: np.ndarray  #    [N]  the largest depth found, negative, in the middle of the step
    stages: np.ndarray  #     [N]  of the solver
    mass: np.ndarray  #       [n]
    center: np.ndarray  #     [n, 3]
    free: np.ndarray  #       [n]
    contacts: WorldContacts
    status: Status
    seconds: float
    scene: Scene | None = field(default=None, repr=False)  #   None where the run was read from a file
    settings: Settings = Settings()
    memory: Memory | None = field(default=None, repr=False)  # of the last step: what the next one starts from
    picture: str | None = field(default=None, repr=False)  #   the outlines, where there is no scene to make them from
    name: str = "world"
    turns: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # [k, j]  of hinges with springs: how often they went round

    @classmethod
    def from_parts(
        cls,
        scene: Scene,
        dt: float,
        recorder: Recorder,
        log: ContactLog,
        status: Status,
        seconds: float,
        settings: Settings,
        memory: Memory,
    ) -> "WorldRun":
        stack = lambda name: np.array([getattr(state, name) for state in recorder.states])  # noqa: E731
        x, q, v, L = (stack(name) for name in "xqvL")
        spins = np.concatenate([scene.spins_at(q[k : k + CHUNK], L[k : k + CHUNK]) for k in range(0, len(q), CHUNK)])
        kinetic = np.sum(kinetic_energy(scene, v, L, spins), axis=1)
        turns = np.array([state.turns if len(state.turns) else np.zeros(len(scene.joints.wound)) for state in recorder.states])
        height = potential(scene, x, q, turns)
        quality = (np.array(recorder.residual), np.array(recorder.deepest), np.array(recorder.stages, "U8"))
        data = (np.array(recorder.t), np.array(recorder.steps), x, q, v, L, spins, kinetic, height, *quality)
        bodies = (scene.mass, scene.center, scene.kind == FREE)
        rest = (log.table(scene.names), status, seconds, scene, settings, memory)
        return cls(scene.names, scene.dim, dt, *data, *bodies, *rest, turns=turns)

    # -- what it tells ---------------------------------------------------------------------------------------------------

    @property
    def energy(self) -> np.ndarray:
        """Kinetic and potential energy (of gravity and springs)."""
        return self.kinetic + self.potential

    @property
    def momentum(self) -> np.ndarray:
        """The momentum of all free bodies [k, dim]."""
        return np.einsum("n,kni->ki", np.where(self.free, self.mass, 0.0), np.where(self.free[:, None], self.v, 0.0))[:, : self.dim]

    @property
    def angular_momentum(self) -> np.ndarray:
        """The angular momentum of all free bodies about the origin [k, 3], or [k] in the plane."""
        weight = np.where(self.free, self.mass, 0.0)
        orbital = np.einsum("n,kni->ki", weight, quaternions.cross(self.x, np.where(self.free[:, None], self.v, 0.0)))
        total = orbital + np.sum(np.where(self.free[:, None], self.L, 0.0), axis=1)
        return total if self.dim == 3 else total[:, 2]

    @property
    def num_steps(self) -> int:
        return len(self.residual)

    def summary(self) -> dict[str, Any]:
        """The numbers of the run by name, as plain data."""
        return {
            "name": self.name,
            "bodies": int(np.sum(self.free)),
            "steps": self.num_steps,
            "dt": float(self.dt),
            "t_end": float(self.t[-1]),
            "contacts": len(self.contacts),
            "impacts": len(self.impacts),
            "energy_start": float(self.energy[0]),
            "energy_end": float(self.energy[-1]),
            "certificate_max": float(np.max(self.residual, initial=0.0)),
            "depth_max": float(np.max(-self.deepest, initial=0.0)),
            "seconds": float(self.seconds),
            "status": self.status.name,
            "message": self.status.message,
        }

    @property
    def impacts(self) -> WorldContacts:
        """The contacts that met: the rows of `contacts` that belong to impacts."""
        return self.contacts.take(np.flatnonzero(self.contacts.impact))

    def body(self, body: Any) -> BodyTrack:
        """The track of a body, by its handle or its name."""
        i = self.index(body)
        d, R = self.dim, quaternions.matrix(self.q[:, i])
        arm = -quaternions.apply(R, np.broadcast_to(self.center[i], self.x[:, i].shape))
        velocity = self.v[:, i] + quaternions.cross(self.spins[:, i], arm)
        turn = self.q[:, i] if d == 3 else np.unwrap(2 * np.arctan2(self.q[:, i, 3], self.q[:, i, 0]))
        spin = self.spins[:, i] if d == 3 else self.spins[:, i, 2]
        place = (self.x[:, i] + arm)[:, :d]
        return BodyTrack(self.names[i], place, turn, velocity[:, :d], spin, self.x[:, i, :d], self.v[:, i, :d])

    def index(self, body: Any) -> int:
        """The number of a body, by its handle or its name."""
        name = body if isinstance(body, str) else getattr(body, "name", body)
        if not isinstance(name, str) or name not in self.names:
            known = ", ".join(map(repr, self.names))
            raise NotThere(f"there is no body {name!r} in this run; there are {known}{nearest(name, self.names)}")
        return self.names.index(name)

    @cached_property
    def outlines(self) -> tuple[Outline, ...]:
        """How the bodies look."""
        if self.scene is not None:
            return outlines(list(self.scene.shapes), self.dim)
        return () if self.picture is None else from_text(self.picture)[0]

    @cached_property
    def strings(self) -> tuple[String, ...]:
        """Its distances and ropes, which are seen as lines."""
        if self.scene is not None:
            return strings(self.scene.joints.all)
        return () if self.picture is None else from_text(self.picture)[1]

    @cached_property
    def film(self) -> Film | None:
        """The bodies along the run, with the forces of their contacts; None where nothing has a shape."""
        return film(self) if self.outlines else None

    def to_xarray(self) -> "xr.Dataset":
        """A labelled dataset: poses along `time` and `body`, certificates along `step`, contacts along `contact`."""
        import xarray as xr

        letters, names = np.array(list("xyz"), dtype=object), np.array(self.names, dtype=object)
        tracks = [self.body(name) for name in self.names]
        stack = lambda what: np.stack([getattr(track, what) for track in tracks], axis=1)  # noqa: E731
        along = ("time", "body", "axis")
        turn = ("time", "body", "quaternion") if self.dim == 3 else ("time", "body")
        spin = along if self.dim == 3 else ("time", "body")
        data: dict[str, Any] = {"position": (along, stack("position")), "orientation": (turn, stack("orientation"))}
        data |= {"velocity": (along, stack("velocity")), "spin": (spin, stack("spin"))}
        data |= {name: ("time", getattr(self, name)) for name in ("energy", "kinetic", "potential")}
        data |= {name: ("step", getattr(self, name)) for name in ("residual", "deepest")}
        data["stages"] = ("step", np.asarray(self.stages, dtype=object))
        table = self.contacts.to_xarray().rename({"axis": "space"})
        data |= {f"contact_{name}": (array.dims, array.values) for name, array in table.data_vars.items()}
        coords = {"time": self.t, "body": names, "axis": letters[: self.dim], "space": letters}
        coords |= {"contact_t": ("contact", self.contacts.t)}
        attrs = {"name": self.name, "dt": self.dt, "status": self.status.name, "message": self.status.message}
        return xr.Dataset(data, coords=coords, attrs=attrs)

    def __str__(self) -> str:
        deepest = abs(np.min(self.deepest, initial=0.0))
        worst = f"largest certificate {np.max(self.residual, initial=0.0):.2g}, largest depth {deepest:.2g}"
        bodies = int(np.sum(self.free))
        sizes = f"{bodies} {'body' if bodies == 1 else 'bodies'}, {counted(self.num_steps, 'step')}"
        return f"{sizes}, {counted(len(self.contacts), 'contact')}: {self.status}; {worst}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """What a notebook shows: how it ended, how well it was solved, and the first contacts."""
        head = f"<b>{html.escape(self.name)}</b> · {self.status._repr_html_()}"
        return "".join(f"<div>{part}</div>" for part in (head, html.escape(str(self)), self.contacts._repr_html_()))

    # -- what one does with it -------------------------------------------------------------------------------------------

    def extend(self, num_steps: int, *, world: "World | None" = None, progress: Flag | None = None) -> "WorldRun":
        """The same run, so many steps longer. A run from a file needs its `world`: a file holds no functions and no joints."""
        return view("extend_world")(self, num_steps, world, progress)

    def save(self, path: str | Path) -> Path:
        """Write the run to *.zarr, *.nc (which xarray opens too) or *.npz; `carom.load` and `WorldRun.load` read it."""
        return view("save_world")(self, path)

    @staticmethod
    def load(path: str | Path) -> "WorldRun":
        """Read a run that `save` wrote."""
        return view("load_world")(path)

    def report(self, path: str | Path, title: str | None = None) -> Path:
        """Write one HTML file: the motion to play, with forces and shadows, energy, certificates, impacts. It needs no network."""
        return view("report_world")(self, path, title)

    def animate(self, path: str | Path | None = None, **options: Any) -> Any:
        """The motion as a film, saved to *.gif or *.mp4 if a path is given; `follow=` a body. See `carom.report.movie`."""
        return view("animate")(self, path, **options)

    def view(self, **options: Any) -> Any:
        """Watch it in the browser, or in the cell of a notebook (extra `live`). See `carom.live.viewing.view_run`."""
        return view("view_run")(self, **options)


def joined(first: WorldRun, rest: WorldRun) -> WorldRun:
    """Two parts of one run; the second begins where the first ends."""
    along = ("t", "steps", "x", "q", "v", "L", "spins", "kinetic", "potential", "turns")
    arrays = {name: np.concatenate([getattr(first, name), getattr(rest, name)[1:]]) for name in along}
    arrays |= {name: np.concatenate([getattr(first, name), getattr(rest, name)]) for name in ("residual", "deepest", "stages")}
    columns = {name: np.concatenate([getattr(first.contacts, name), getattr(rest.contacts, name)]) for name in COLUMNS}
    return replace(
        rest, **arrays, contacts=WorldContacts(**columns, names=first.names), seconds=first.seconds + rest.seconds, name=first.name
    )
