"""Where a run of a world is to end: stops, whose zeros are located within a step, and callbacks that look on."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from carom.bodies.scene import Scene, State, potential
from carom.bodies.stepping import Stepper, StepRecord
from carom.errors import InputError
from carom.methods.stops import Stop, crossed, stops_of
from carom.results.solution import Status
from carom.running.options import check_callback
from carom.running.tracing import explained

EARLY = "the run of this world ended early"


@dataclass(frozen=True)
class BodyNow:
    """One body at an instant, at the origin of its frame: in space vectors and a quaternion, in the plane pairs and an angle."""

    position: np.ndarray
    orientation: Any
    velocity: np.ndarray
    spin: Any
    center: np.ndarray  #           the centre of mass
    center_velocity: np.ndarray


@dataclass(frozen=True)
class WorldNow:
    """A world at an instant: what stops and callbacks are shown."""

    step: int
    t: float
    num_impacts: int
    scene: Scene = field(repr=False)
    state: State = field(repr=False)

    def body(self, body: Any) -> BodyNow:
        """A body, by its handle or its name."""
        name, names, dim = body if isinstance(body, str) else getattr(body, "name", body), self.scene.names, self.scene.dim
        if name not in names:
            raise InputError(f"there is no body {name!r} in this world; there are {', '.join(map(repr, names))}")
        i, state = names.index(name), self.state
        spin, arm = state.spin(self.scene)[i], -state.R[i] @ self.scene.center[i]
        velocity = state.v[i] + np.cross(spin, arm)
        turn = state.q[i] if dim == 3 else float(2 * np.arctan2(state.q[i, 3], state.q[i, 0]))
        center = (state.x[i, :dim], state.v[i, :dim])
        return BodyNow((state.x[i] + arm)[:dim], turn, velocity[:dim], spin if dim == 3 else float(spin[2]), *center)

    @property
    def energy(self) -> float:
        return float(np.sum(self.state.kinetic(self.scene)) + potential(self.scene, self.state.x, self.state.q, self.state.turns))


@dataclass
class Ending:
    """The stops and the callback of a run; by default none."""

    stops: tuple[Stop, ...] = ()
    callback: Callable[[WorldNow], Any] | None = None
    every: int = 1
    scene: Scene | None = field(default=None, repr=False)
    impacts: int = 0
    total: int | None = None  # steps of the whole run, where it is computed in parts
    signs: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, stop: Any, callback: Any, every: Any) -> "Ending":
        check_callback(callback, every, "step, t, num_impacts, body(…)")
        return cls(stops_of(stop, ("now", "t")), callback, 1 if every is None else int(every))

    def begin(self, scene: Scene, state: State, t: float, step: int) -> None:
        self.scene = scene
        self.signs = np.sign(self._values(state, t, step))

    def count(self, record: StepRecord) -> None:
        self.impacts += sum(len(table.contacts) for table in record.tables if table.impact)

    def _now(self, state: State, t: float, step: int) -> WorldNow:
        assert self.scene is not None
        return WorldNow(step, t, self.impacts, self.scene, state)

    def _values(self, state: State, t: float, step: int) -> np.ndarray:
        now = self._now(state, t, step) if self.stops else None
        rows = []
        for stop in self.stops:
            with explained(f"the stop {stop.name!r}"):
                rows.append(_number(stop.function(now=now, t=t), stop.name))
        return np.array(rows)

    def met(self, state: State, t: float, step: int) -> bool:
        """Has a stop been met in the step that ends here? If not, its sign is that of the next step's start."""
        if not self.stops:
            return False
        after = self._values(state, t, step)
        if np.any(crossed(self.stops, self.signs, after)):
            return True
        self.signs = np.where(after == 0, self.signs, np.sign(after))
        return False

    def locate(self, stepper: Stepper, start: State, t: float, dt: float, step: int) -> tuple[State, StepRecord, float, Status]:
        """The step that ends at the zero: its length by halves, to rounding, on the far side of the zero."""
        memory, near, far = stepper.memory, 0.0, dt

        def short(length: float) -> tuple[State, StepRecord, np.ndarray]:
            stepper.memory = memory
            state, record = stepper.step(start, t, length)
            return state, record, self._values(state, t + length, step)

        while far - near > 4 * np.finfo(float).eps * max(abs(t), far):
            middle = 0.5 * (near + far)
            near, far = (near, middle) if np.any(crossed(self.stops, self.signs, short(middle)[2])) else (middle, far)
        state, record, after = short(far)
        which = self.stops[int(np.argmax(crossed(self.stops, self.signs, after)))].name
        text = f"stopped by {which!r} at step {step} (t = {t + far:.9g})"
        return state, record, t + far, Status("stopped", text, True, step, t + far)

    def look(self, state: State, t: float, step: int, num_steps: int) -> Status | None:
        """Show it to the callback, which may end the run."""
        last = num_steps if self.total is None else self.total
        if self.callback is None or (step % self.every and step != last):
            return None
        if self.callback(self._now(state, t, step)) is not True:
            return None
        return Status("ended", f"stopped by the callback at step {step} (t = {t:.9g})", True, step, t)


def _number(value: Any, name: str) -> float:
    if np.asarray(value).dtype == bool:
        raise InputError(
            f"the stop {name!r} returns true or false; it must be a number that passes through zero where the run ends: "
            "height - 0.5, and not height < 0.5"
        )
    try:
        found = np.asarray(value, float)
    except (TypeError, ValueError):
        found = np.full((), np.nan)
    if np.any(np.isnan(found)):
        raise InputError(f"the stop {name!r} must return one number; it returns {value!r}")
    if found.size != 1:
        raise InputError(f"the stop {name!r} must return one number; it returns shape {found.shape}")
    return float(found.reshape(()))


def told(run: Any) -> Any:
    """The same run; one that failed on its way is not returned in silence."""
    if not run.status.ok:
        warnings.warn(f"{EARLY}: {run.status.message}", stacklevel=4)
    return run
