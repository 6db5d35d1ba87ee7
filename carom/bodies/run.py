"""What came out of a world: poses, velocities, contacts, energy, momenta, and how well each step was solved."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from carom.bodies import quaternions
from carom.bodies.scene import FREE, Scene, State, potential
from carom.bodies.stepping import ContactTable, StepRecord
from carom.errors import InputError
from carom.results.solution import Status

FORMAT = 1
CONTACT_STATES = ("open", "stick", "slide")


@dataclass(frozen=True)
class WorldContacts:
    """Contacts that pressed or were closed, one row each, in time order. `impulse` acts on body b, at `point`."""

    step: np.ndarray  #     [m]
    t: np.ndarray  #        [m]     end of the step
    a: np.ndarray  #        [m]     numbers of the bodies
    b: np.ndarray  #        [m]
    point: np.ndarray  #    [m, 3]
    normal: np.ndarray  #   [m, 3]  from a to b
    gap: np.ndarray  #      [m]
    impulse: np.ndarray  #  [m, 3]
    state: np.ndarray  #    [m]     "open", "stick" or "slide"
    impact: np.ndarray  #   [m]     in the impact at the start of the step, or in the step itself
    names: tuple[str, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.step)

    @property
    def bodies(self) -> list[tuple[str, str]]:
        """The names of both bodies."""
        return [(self.names[i], self.names[j]) for i, j in zip(self.a, self.b, strict=True)]

    def of(self, body: int | str) -> "WorldContacts":
        """The contacts of one body."""
        i = self.names.index(body) if isinstance(body, str) else int(getattr(body, "index", body))
        return self.take((self.a == i) | (self.b == i))

    def take(self, rows: np.ndarray) -> "WorldContacts":
        columns = {name: getattr(self, name)[rows] for name in COLUMNS}
        return WorldContacts(**columns, names=self.names)

    def __repr__(self) -> str:
        rows = [f"{'t':>12}  {'bodies':<32} {'state':<6} {'impulse':>12}"]
        size = np.linalg.norm(self.impulse, axis=1)
        for i in range(min(8, len(self))):
            rows.append(f"{self.t[i]:12.6f}  {' – '.join(self.bodies[i]):<32} {self.state[i]:<6} {size[i]:12.6g}")
        return f"{len(self)} contacts\n" + "\n".join(rows + ["…"] * (len(self) > 8)) if len(self) else "no contacts"


COLUMNS = ("step", "t", "a", "b", "point", "normal", "gap", "impulse", "state", "impact")


@dataclass
class ContactLog:
    """Collects the tables of all steps."""

    rows: dict[str, list[np.ndarray]] = field(default_factory=lambda: {name: [] for name in COLUMNS})

    def add(self, step: int, t: float, tables: list[ContactTable]) -> None:
        for table in tables:
            m = len(table.contacts)
            if m == 0:
                continue
            c = table.contacts
            values = (
                np.full(m, step),
                np.full(m, t),
                c.a,
                c.b,
                c.point,
                c.normal,
                c.gap,
                table.impulse,
                table.state,
                np.full(m, table.impact),
            )
            for name, value in zip(COLUMNS, values, strict=True):
                self.rows[name].append(value)

    def table(self, names: tuple[str, ...]) -> WorldContacts:
        empty = {"point": np.zeros((0, 3)), "normal": np.zeros((0, 3)), "impulse": np.zeros((0, 3))}
        columns = {name: np.concatenate(v) if v else empty.get(name, np.zeros(0, int)) for name, v in self.rows.items()}
        columns["state"] = np.array(CONTACT_STATES)[columns["state"]]
        return WorldContacts(**columns, names=names)


@dataclass
class Recorder:
    """Keeps states and certificates while a run goes on."""

    scene: Scene
    every: int
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
    scene: Scene | None = field(default=None, repr=False)

    @classmethod
    def from_parts(cls, scene: Scene, dt: float, recorder: Recorder, log: ContactLog, status: Status, seconds: float) -> "WorldRun":
        stack = lambda name: np.array([getattr(state, name) for state in recorder.states])  # noqa: E731
        x, q, v, L = (stack(name) for name in "xqvL")
        spins = np.array([state.spin(scene) for state in recorder.states])
        kinetic = np.array([np.sum(state.kinetic(scene)) for state in recorder.states])
        height = np.array([potential(scene, a, b) for a, b in zip(x, q, strict=True)])
        quality = (np.array(recorder.residual), np.array(recorder.deepest), np.array(recorder.stages, "U8"))
        free = scene.kind == FREE
        data = (np.array(recorder.t), np.array(recorder.steps), x, q, v, L, spins, kinetic, height, *quality)
        return cls(
            scene.names, scene.dim, dt, *data, scene.mass, scene.center, free, log.table(scene.names), status, seconds, scene
        )

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

    def body(self, body: Any) -> BodyTrack:
        """The track of a body, by its handle or its name."""
        i = self._index(body)
        d, R = self.dim, quaternions.matrix(self.q[:, i])
        arm = -quaternions.apply(R, np.broadcast_to(self.center[i], self.x[:, i].shape))
        velocity = self.v[:, i] + quaternions.cross(self.spins[:, i], arm)
        turn = self.q[:, i] if d == 3 else np.unwrap(2 * np.arctan2(self.q[:, i, 3], self.q[:, i, 0]))
        spin = self.spins[:, i] if d == 3 else self.spins[:, i, 2]
        place = (self.x[:, i] + arm)[:, :d]
        return BodyTrack(self.names[i], place, turn, velocity[:, :d], spin, self.x[:, i, :d], self.v[:, i, :d])

    def _index(self, body: Any) -> int:
        name = getattr(body, "name", body)
        if name not in self.names:
            raise InputError(f"there is no body {name!r} in this run; there are {', '.join(map(repr, self.names))}")
        return self.names.index(name)

    def __str__(self) -> str:
        worst = (
            f"largest certificate {np.max(self.residual, initial=0.0):.2g}, largest depth {-np.min(self.deepest, initial=0.0):.2g}"
        )
        return f"{int(np.sum(self.free))} bodies, {len(self.residual)} steps, {len(self.contacts)} contacts: {self.status}; {worst}"

    def save(self, path: str | Path) -> Path:
        """Write the run to a .npz file: all arrays, and a header in JSON. `WorldRun.load` reads it."""
        path = Path(path)
        if path.suffix != ".npz":
            raise InputError(f"a run of a world is saved as *.npz; got {str(path)!r}")
        header = {"kind": "world", "format": FORMAT, "names": self.names, "dim": self.dim, "dt": self.dt}
        header |= {"seconds": self.seconds, "status": asdict(self.status)}
        arrays = {name: getattr(self, name) for name in ARRAYS} | {f"contacts_{c}": getattr(self.contacts, c) for c in COLUMNS}
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part.npz")
        np.savez_compressed(part, header=np.array(json.dumps(header)), **arrays)
        part.replace(path)
        return path

    @classmethod
    def load(cls, path: str | Path) -> "WorldRun":
        """Read a run that `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as file:
                header = json.loads(str(file["header"]))
                if header.get("kind") != "world" or header.get("format") != FORMAT:
                    raise InputError(f"{str(path)!r} is not a run of a world in format {FORMAT}")
                arrays = {name: file[name] for name in ARRAYS}
                columns = {name: file[f"contacts_{name}"] for name in COLUMNS}
        except (OSError, KeyError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{str(path)!r} cannot be read as a run of a world: {error}") from error
        names = tuple(header["names"])
        told = {"names": names, "dim": header["dim"], "dt": header["dt"], "seconds": header["seconds"]}
        return cls(**told, **arrays, contacts=WorldContacts(**columns, names=names), status=Status(**header["status"]))


ARRAYS = (
    "t",
    "steps",
    "x",
    "q",
    "v",
    "L",
    "spins",
    "kinetic",
    "potential",
    "residual",
    "deepest",
    "stages",
    "mass",
    "center",
    "free",
)
