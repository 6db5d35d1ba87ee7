"""One run of a world that is computed while it is watched: changed, added to, and pulled by a hand on its way.

The story of a take says what was done and for how many steps; `replay` does it again, bit by bit.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from carom.bodies import quaternions
from carom.bodies.assemble import first_state, refuse_overlaps
from carom.bodies.contact_table import COLUMNS, WorldContacts
from carom.bodies.march import last_state, march
from carom.bodies.run import Settings, WorldRun, joined
from carom.bodies.scene import Force, Scene, State, accelerations
from carom.live.footage import Footage
from carom.live.take import HAND, HELD
from carom.live.world_footage import of_world
from carom.live.world_parts import Addition, place
from carom.models.world_model import WorldModel

FRAMES = 600  #   of the length that suits a model: what is kept of its states
WATCHED = 0.25  # seconds of watching that are computed at once,
BUSY = 0.1  #     if that does not take longer than this
STIFF = 0.2  #    of a step: the spring in a hand has no shorter time


@dataclass(frozen=True)
class Pull:
    """A spring from a point of a body, in the frame of its centre of mass, to a point in space."""

    body: int
    at: tuple[float, ...]
    target: tuple[float, ...]
    rate: float

    def force(self, scene: Scene) -> Force:
        """Damped critically, whatever the mass: f = (J M⁻¹ Jᵀ)⁻¹ (ω² (target − point) − 2ω · its velocity)."""
        at, target = np.array(self.at), np.array(self.target)
        center, inverse = scene.center[self.body], scene.inverse_inertia[self.body]
        light = scene.inverse_mass[self.body] * np.eye(3)

        def pulling(position: Any, orientation: Any, velocity: Any, spin: Any) -> tuple[Any, Any]:
            d = len(position)
            turn = np.asarray(orientation) if d == 3 else quaternions.exponential(np.array([0.0, 0.0, float(orientation)]))
            R = quaternions.matrix(turn)
            omega = np.asarray(spin, float) if d == 3 else np.array([0.0, 0.0, spin])
            origin, moving = (np.pad(np.asarray(a, float), (0, 3 - d)) for a in (position, velocity))
            arm = R @ at  # from the centre of mass
            point = origin + R @ center + arm
            speed = moving + np.cross(omega, R @ center + arm)
            cross = np.array([[0, -arm[2], arm[1]], [arm[2], 0, -arm[0]], [-arm[1], arm[0], 0]])
            mobility = light - cross @ R @ inverse @ R.T @ cross
            f = np.linalg.solve(mobility, self.rate**2 * (target - point) - 2 * self.rate * speed)
            twist = np.cross(arm, f)
            return (f, twist) if d == 3 else (f[:2], twist[2])

        return Force(self.body, lambda position, orientation, velocity, spin, t: pulling(position, orientation, velocity, spin))


@dataclass
class Stretch:
    """What was done, for so many steps. `anew`: something had changed, so that the contacts of the step before were forgotten."""

    steps: int
    values: dict[str, float]
    added: tuple[Addition, ...]
    pull: Pull | None
    anew: bool


class WorldTake:
    """A world, computed up to some time. `added` are the bodies that came on the way."""

    def __init__(self, model: WorldModel, dt: float, values: dict[str, float] | None = None):
        self.model, self.dt, self.values = model, dt, dict(values or {})
        self.settings = Settings(save_every=max(1, round(model.dt * model.num_steps / FRAMES / dt)))
        self.added: tuple[Addition, ...] = ()
        self.scene, self.state = model.world.scene()
        refuse_overlaps(self.scene, self.state)
        accelerations(self.scene, self.state, 0.0)
        self.step = 0
        self.memory: Any = None
        self.hand: Pull | None = None
        self.runs: list[WorldRun] = []
        self.story: list[Stretch] = []
        self.footage: Footage | None = None
        self.failed = False
        self._cost = 1e-3  # seconds of a step

    @property
    def end(self) -> float:
        return self.step * self.dt

    def stretch(self, speed: float, held: bool) -> float:
        """So much that neither the person nor their hand has to wait for it."""
        return max(self.dt, min(speed * (HELD if held else WATCHED), self.dt * BUSY / self._cost))

    # -- on ----------------------------------------------------------------------------------------------------------

    def grow(self, seconds: float) -> WorldRun:
        """Compute a stretch more."""
        return self.advance(int(np.clip(round(seconds / self.dt), 1, 4000)))

    def advance(self, steps: int) -> WorldRun:
        scene, clock = self.scene, time.perf_counter()
        if self.hand is not None:
            scene = replace(scene, forces=(*scene.forces, self.hand.force(scene)))
        anew = self.memory is None
        run = march(scene, self.state, self.dt, self.step + steps, self.settings, False, self.step, self.memory)
        run = replace(run, name=self.model.name)
        self._note(Stretch(run.num_steps, dict(self.values), self.added, self.hand, anew))
        self.step, self.state, self.memory, self.hand = self.step + run.num_steps, last_state(run), run.memory, None
        self.failed = not run.status.ok
        seen = of_world(run, self.footage, self.runs[-1].contacts if self.runs else None)
        self.runs.append(run)
        self.footage = seen if self.footage is None else self.footage.recent().followed_by(seen)
        self.runs = [old for old in self.runs if old.t[-1] >= self.footage.t[0]]
        self._cost = 0.5 * self._cost + 0.5 * (time.perf_counter() - clock) / steps
        return run

    def _note(self, new: Stretch) -> None:
        last = self.story[-1] if self.story else None
        if last is not None and not new.anew and (last.values, last.added, last.pull) == (new.values, new.added, new.pull):
            last.steps += new.steps
        else:
            self.story.append(new)

    # -- back and otherwise ------------------------------------------------------------------------------------------

    def back_to(self, now: float) -> None:
        """Forget what was computed after the last kept state before `now`."""
        while len(self.runs) > 1 and self.runs[-1].t[0] > now:
            self.runs.pop()
        last = self.runs[-1]
        row = int(np.clip(np.searchsorted(last.t, now + 1e-12, side="right") - 1, 0, len(last.t) - 1))
        if row == len(last.t) - 1 and int(last.steps[row]) == self.step:
            return
        self.runs[-1] = cut(last, row)
        self.step, self.memory = int(last.steps[row]), None
        self.state = State(last.x[row], last.q[row], last.v[row], last.L[row], last.turns[row])
        self.failed = False
        left = self.step
        for i, stretch in enumerate(self.story):
            if left <= stretch.steps:
                self.story = [*self.story[:i], replace(stretch, steps=left)]
                break
            left -= stretch.steps
        self.story = [stretch for stretch in self.story if stretch.steps]
        assert self.footage is not None
        self.footage = replace(self.footage.until(self.end + 1e-12), ok=True, message="")

    def become(self, model: WorldModel, values: dict[str, float] | None = None) -> None:
        """Go on as another world of the same bodies: other gravity, other materials. The bodies that were added stay."""
        for addition in self.added:
            place(model.world, addition)
        self.model, self.memory = model, None
        self.values = self.values if values is None else dict(values)
        self.scene = model.world.scene()[0]

    def add(self, addition: Addition) -> None:
        """One more body, from now on; refused where there is one already."""
        world = self.model.world
        place(world, addition)
        try:
            scene = world.scene()[0]
            new = first_state(world, scene)
            grown = {name: np.concatenate([getattr(self.state, name), getattr(new, name)[-1:]]) for name in "xqvL"}
            state = State(**grown, turns=self.state.turns)
            refuse_overlaps(scene, state, new=len(scene.names) - 1)
        except Exception:
            world.bodies.pop()
            raise
        self.scene, self.state, self.memory = scene, state, None
        self.added = (*self.added, addition)
        self.footage = None  # other bodies, other pictures

    def pull(self, body: int, grab: np.ndarray, target: np.ndarray, speed: float = 1.0) -> None:
        """A hand's spring acts in the next stretch, on a free body by its number among those that move."""
        i = int(np.flatnonzero(self.scene.free)[body])
        flat = self.scene.dim == 2
        at, to = (np.array([p[0], p[2], 0.0]) if flat else np.asarray(p, float) for p in (grab, target))
        local = quaternions.matrix(self.state.q[i]).T @ (at - self.state.x[i])
        rate = min(HAND / speed, STIFF / self.dt)
        self.hand = Pull(i, tuple(local.tolist()), tuple(to.tolist()), float(rate))

    def whole(self) -> WorldRun:
        """All that was computed with the bodies that there are, as one run."""
        same = [run for run in self.runs if len(run.names) == len(self.scene.names)]
        run = same[0]
        for rest in same[1:]:
            run = joined(run, rest)
        return run


def cut(run: WorldRun, row: int) -> WorldRun:
    """A run up to one of its states."""
    step = int(run.steps[row])
    count = step - int(run.steps[0])
    grid = {
        name: getattr(run, name)[: row + 1] for name in ("t", "steps", "x", "q", "v", "L", "spins", "kinetic", "potential", "turns")
    }
    quality = {name: getattr(run, name)[:count] for name in ("residual", "deepest", "stages")}
    early = run.contacts.step <= step
    contacts = WorldContacts(**{name: getattr(run.contacts, name)[early] for name in COLUMNS}, names=run.names)
    return replace(run, **grid, **quality, contacts=contacts, memory=None)


def replay(make: Callable[[dict[str, float]], WorldModel], stretches: Iterable[dict[str, Any]], dt: float) -> list[WorldRun]:
    """What was played, again: `make` builds the world from the values of its knobs, each stretch says what was done with it.

    Runs come out one after the other; a new one begins where bodies were added."""
    take: WorldTake | None = None
    runs: list[WorldRun] = []
    for told in stretches:
        values = told["values"]
        if take is None:
            take = WorldTake(make(values), dt, values)
        if values != take.values:
            take.become(make(values), values)
        for row in told["added"][len(take.added) :]:
            if take.runs:
                runs.append(take.whole())
                take.runs = []
            take.add(Addition(**row))
        if told["anew"]:
            take.memory = None
        take.hand = None if told["pull"] is None else Pull(**told["pull"])
        take.advance(told["steps"])
    return [*runs, *([take.whole()] if take is not None and take.runs else [])]
