"""What a notebook plays with: a model whose whole run is computed anew at every change. No page, no server, no thread."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from carom.bodies.run import WorldRun
from carom.calls import nearest
from carom.drawing import film_of_run
from carom.errors import CaromError, InputError
from carom.live.gesture import Gesture, pulled_model, pulled_world
from carom.live.knobs import STEPS, SUITS, Knob, called, distinct, methods_for
from carom.live.turned import ModelKnobs, WorldKnobs
from carom.live.world_ground import BESIDE
from carom.live.world_parts import SHAPES, Addition, above, place, usual
from carom.models.model import Model
from carom.models.world_model import WorldModel
from carom.report.html import Contents, contents, curve
from carom.report.worlds import contents as world_contents
from carom.results.solution import Solution
from carom.running.options import number, whole

LENGTH, FRAMES = 1000, 600  #  steps of a model at first, and the frames of its film, as many as one sees
STATES = 300  #                of a world that are kept
PATIENCE = 20.0  #             seconds after which a world is shown as far as it has come
LIVE = (
    0.7  #                  seconds of computing: what takes longer is not computed while a hand still holds on, but when it lets go
)
ONWARD = 15  #                 places that a hand which holds on is thought to stay where it is


class Rerun(ABC):
    """Knobs, methods and a step, and `run`: all of it from the start with what is chosen. What cannot be is undone, and `message`
    says why; the run then stays what it was."""

    run: Any
    shapes: tuple[str, ...] = ()  # of bodies that can be added, by name
    size: float = 1.0  #            half of theirs, by default

    def __init__(self, name: str, knobs: dict[str, Knob], methods: Mapping[str, Any], num_steps: int):
        self.name, self.knobs, self.methods, self.num_steps = name, knobs, methods, num_steps
        self.values = {key: knob.value for key, knob in knobs.items()}
        self.by_hand: set[str] = set()
        self.method, self.other, self.pace = SUITS, None, 1.0
        self.message = ""
        self.beside: Any = None  # the run of the other method
        self.gestures: tuple[Gesture, ...] = ()
        self.added: tuple[Addition, ...] = ()
        self.seconds = 0.0  #      that the run took
        self._compute()

    # -- what each kind says -----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def choices(self) -> tuple[str, ...]:
        """The methods that one may choose from; none where there is but one."""

    @property
    @abstractmethod
    def dt(self) -> float:
        """The step that suits the model as it is."""

    @abstractmethod
    def solve(self, method: str) -> Any:
        """A run with what is chosen, by a method of `methods`."""

    @abstractmethod
    def contents(self) -> Contents:
        """What the player shows of the run."""

    # -- what a person does ------------------------------------------------------------------------------------------

    def turn(self, knob: str, value: float) -> bool:
        """Another value of a number; whether it could be done."""
        return self._change(lambda: self._set(knob, value))

    def choose(self, method: str | None = None, pace: float | None = None, other: str | None = "same") -> bool:
        """Another method, another step (times that of the model), or a second method to compare energies with (None for none)."""

        def change() -> None:
            for name in (method, other):
                if name not in (None, "same", *self.methods):
                    raise InputError(f"there is no method {name!r} for {self.name}; there are {', '.join(self.methods)}")
            if pace is not None and not number(pace, "pace") > 0:
                raise InputError(f"pace must be positive; got {pace:g}")
            self.method = self.method if method is None else method
            self.other = self.other if other == "same" else other
            if pace is not None:  # as long as before, in other steps
                self.num_steps = max(1, round(self.num_steps * self.pace / pace))
                self.pace = float(pace)

        return self._change(change)

    def last(self, num_steps: int) -> bool:
        """So many steps."""

        def change() -> None:
            self.num_steps = whole(num_steps, "num_steps")

        return self._change(change)

    def reset(self) -> bool:
        """Every knob as it was at first, no body more, and nothing that a hand did."""

        def change() -> None:
            self.values, self.by_hand = {key: knob.value for key, knob in self.knobs.items()}, set()
            self.gestures, self.added = (), ()

        return self._change(change)

    def pull(self, t: float, body: str, at: Any, track: Any, speed: float = 1.0, held: bool = False) -> bool:
        """A hand took hold of a body at the time `t`, at the point `at`, and was at the points of `track`, thirty a second of
        watching; what a hand did later is forgotten. `held`: it has not let go yet."""
        if held and self.seconds > LIVE:
            return True

        def change() -> None:
            new = Gesture.of(t, body, at, track, speed)
            first, last = self.run.t[[0, -1]]
            if not first <= new.t <= last:
                raise InputError(f"there is nothing to pull at t = {new.t:g}: the run goes from {first:g} to {last:g}")
            if held:
                new = replace(new, track=(*new.track, *ONWARD * new.track[-1:]))
            self.gestures = (*(old for old in self.gestures if old.t < new.t), new)

        return self._change(change)

    def add(self, shape: str, size: float | None = None) -> bool:
        """One more body, of a shape of `shapes` and that half size: it falls from above what is there, from the start on."""

        def change() -> None:
            if shape not in self.shapes:
                known = f"there are {', '.join(self.shapes)}" if self.shapes else "a World can be added to"
                raise InputError(f"{self.name} takes no {shape!r}; {known}")
            self._add(shape, self.size if size is None else number(size, "size"))

        return self._change(change)

    def _add(self, shape: str, size: float) -> None:
        raise NotImplementedError  # a kind without shapes takes none

    def _set(self, knob: str, value: float) -> None:
        if knob not in self.knobs:
            raise InputError(f"{self.name} has no knob {knob!r}; it has {', '.join(self.knobs)}{nearest(str(knob), self.knobs)}")
        value = number(value, knob)
        self.values[knob] = float(round(value)) if self.knobs[knob].whole else value
        self.by_hand.add(knob)

    def _change(self, change: Callable[[], None]) -> bool:
        """Change something and compute; or say why not, and have it as it was."""
        kept = {**vars(self), "values": dict(self.values), "by_hand": set(self.by_hand)}
        try:
            change()
            self._compute()
        except BaseException as error:
            vars(self).update(kept)
            if not isinstance(error, CaromError):
                raise
            self.message = str(error)
            return False
        self.message = ""
        return True

    def _compute(self) -> None:
        clock = time.monotonic()
        self.run, self.beside = self.solve(self.method), None if self.other is None else self.solve(self.other)
        self.seconds = time.monotonic() - clock

    @abstractmethod
    def _called(self, method: str, run: Any) -> str:
        """What a run is called beside another one."""

    def _with_the_other(self, found: Contents, energy: Callable[[Any], np.ndarray]) -> Contents:
        """The energy of the second method beside that of the first."""
        if self.beside is not None:
            series = found.data["panels"][0]["series"]
            series[0]["name"], name = distinct((self._called(self.method, self.run), self._called(str(self.other), self.beside)))
            series.insert(1, curve(self.beside.t, energy(self.beside), name))
        return found


class ModelRerun(ModelKnobs, Rerun):
    """Of a model, which `factory` makes."""

    run: Solution

    def __init__(self, name: str, factory: Callable[..., Model], num_steps: int | None = None):
        model = self._find_knobs(name, factory)
        steps = min(LENGTH, model.num_steps) if num_steps is None else whole(num_steps, "num_steps")
        super().__init__(name, self.knobs, methods_for(model), steps)

    @property
    def choices(self) -> tuple[str, ...]:
        return tuple(self.methods)

    @property
    def dt(self) -> float:
        return self.run.dt / self.pace

    def _called(self, method: str, run: Solution) -> str:
        return called(self.methods, method)

    def solve(self, method: str) -> Solution:
        model = self.model()
        options: dict[str, Any] = {"dt": self.pace * model.dt, "num_steps": self.num_steps}
        if self.gestures:
            return pulled_model(model, self.methods[method], **options, gestures=self.gestures)
        return model.solve(self.methods[method], throw=False, progress=False, **options)

    def _compute(self) -> None:
        super()._compute()
        self._follow(self.run.params)

    def contents(self) -> Contents:
        run, hits = self.run, self.run.impacts
        assert run.shape is not None
        reel = film_of_run(run.shape, run.t, run.q, run.params, hits.t, hits.q, FRAMES)
        return self._with_the_other(contents(run, reel=reel, coarse=True), lambda other: other.energy_error)


class WorldRerun(WorldKnobs, Rerun):
    """Of a world, which `factory` makes. What takes longer than `PATIENCE` is shown as far as it has come."""

    run: WorldRun

    def __init__(self, name: str, factory: Callable[..., WorldModel], num_steps: int | None = None):
        model = self._find_knobs(factory)
        self.shapes = tuple(SHAPES[model.world.dim])
        self.size, self.density = usual(model.world)
        super().__init__(name, self.knobs, BESIDE, model.num_steps if num_steps is None else whole(num_steps, "num_steps"))

    @property
    def choices(self) -> tuple[str, ...]:
        return ()

    @property
    def dt(self) -> float:
        return self.run.dt / self.pace

    def model(self, values: dict[str, float] | None = None) -> WorldModel:
        model = super().model(values)
        for addition in self.added:
            place(model.world, addition)
        return model

    def _add(self, shape: str, size: float) -> None:
        scene, state = self.model().world.scene()
        addition = Addition(f"added {len(self.added) + 1}", shape, size, self.density, above(scene, state, size))
        self.added = (*self.added, addition)

    def _called(self, method: str, run: WorldRun) -> str:
        return f"dt = {run.dt:g}"

    def solve(self, method: str) -> WorldRun:
        model, share, clock = self.model(), self.pace * BESIDE[method], time.monotonic()
        steps = max(1, round(self.num_steps * self.pace / share))
        options: dict[str, Any] = {"dt": share * model.dt, "num_steps": steps, "save_every": max(1, steps // STATES)}
        if self.gestures:
            return replace(pulled_world(model, **options, gestures=self.gestures, patience=PATIENCE), name=self.name)
        return model.solve(progress=False, callback=lambda now: time.monotonic() - clock > PATIENCE, callback_every=1, **options)

    def contents(self) -> Contents:
        found = self._with_the_other(world_contents(self.run, coarse=True), lambda other: other.energy)
        whole = self.run.num_steps >= self.num_steps or not self.run.status.ok
        if self.run.status.name != "ended" and whole:
            return found
        words = f"shown as far as it came in {PATIENCE:g} s: to t = {self.run.t[-1]:.4g}, {self.run.num_steps:,} steps"
        return replace(found, words={**found.words, "message": words})


def paces(dt: float) -> dict[str, float]:
    """Steps to choose from, by the words for them."""
    return {f"{share:g} × {dt:g}": share for share in STEPS}
