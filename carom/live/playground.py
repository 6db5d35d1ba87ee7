"""`carom play` without a page: models that go on for as long as one watches, with knobs, methods, hands, and a script of it all."""

import inspect
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from carom.errors import CaromError, InputError
from carom.live.footage import Footage
from carom.live.knobs import SUITS, Knob, knobs_of, methods_for, written
from carom.live.player import Player
from carom.live.take import HELD, STRETCH, State, Take, state_with, velocity_of
from carom.models.model import Model
from carom.running.solve import solve

AHEAD = 1.0  # seconds of watching that are computed in advance


class Playground:
    """A model that plays. Any thread may turn its knobs; one thread calls `work`, which computes."""

    def __init__(self, name: str, factory: Callable[..., Model]):
        self.name, self.factory = name, factory
        model = factory()
        if model.shape is None:
            raise InputError(f"{name} has no picture to play with")
        self.knobs: dict[str, Knob] = knobs_of(factory)
        self.values = {key: knob.value for key, knob in self.knobs.items()}
        self.methods = methods_for(model)
        self.method, self.other = SUITS, None  # type: str, str | None
        self.pace = 1.0
        self.message = ""  #                what could not be done, and why
        self.story: list[dict[str, Any]] = []  # the stretches of the first take, as they were asked for
        self.lock = threading.RLock()
        self.hand: tuple[int, np.ndarray, np.ndarray] | None = None
        self.takes = [self._take(self.method)]
        self.takes[0].grow()
        self.players = [Player(self._seen(0), growing=True)]
        self.player.follow = 0 if len(self.player.footage.bodies) == 1 else None  # a body alone may go far
        self._tell(fresh=True)

    @property
    def player(self) -> Player:
        return self.players[0]

    def _seen(self, i: int) -> Footage:
        footage = self.takes[i].footage
        assert footage is not None
        return footage

    # -- knobs -------------------------------------------------------------------------------------------------------

    def model(self, values: dict[str, float] | None = None) -> Model:
        """The model with the knobs as they are."""
        values = self.values if values is None else values
        own = inspect.signature(self.factory).parameters
        arguments = {k: int(v) if self.knobs[k].whole else v for k, v in values.items() if k in own and v != self.knobs[k].value}
        model = self.factory(**arguments)
        changed = {k: v for k, v in values.items() if k not in own}
        return replace(model, params={**model.params, **changed})

    def _take(self, method: str, start: State | None = None) -> Take:
        model = self.model()
        return Take(model, self.methods[method], self.pace * model.dt, start)

    def turn(self, knob: str, value: float) -> None:
        """Another value: the motion goes on with it from now, or starts anew if it says how the motion starts."""
        with self.lock:
            before = dict(self.values)
            self.values[knob] = float(value)
            try:
                old, new = self.takes[0].model, self.model()
                same_start = len(new.q0) == len(old.q0) and list(new.q0) == list(old.q0) and list(new.v0) == list(old.v0)
                if same_start:
                    self._go_on(new)
                else:
                    self._anew()
                self.message = ""
            except CaromError as error:
                self.values = before
                self.message = str(error)
                self._anew()

    def _go_on(self, model: Model | None = None) -> None:
        """From the present moment with what has been chosen."""
        for take, player in zip(self.takes, self.players, strict=True):
            take.back_to(player.now)
            if model is not None:
                take.looks_the_same(model)
                take.state = state_with(model, take.state.t, take.state.q, velocity_of(take.model, take.state))
                take.model = model
            take.dt = self.pace * take.model.dt
            take.grow()
        self._show()
        self._tell()

    def _anew(self) -> None:
        names = [self.method, *([self.other] if self.other else [])]
        self.takes = [self._take(name) for name in names]
        for take in self.takes:
            take.grow()
        playing = self.player.playing
        while len(self.players) < len(self.takes):
            self.players.append(Player(self._seen(len(self.players)), growing=True))
        self.players = self.players[: len(self.takes)]
        self._show()
        for player in self.players:
            player.scrub(player.start)
            player.play(playing)
        self._tell(fresh=True)

    def restart(self) -> None:
        """The same start again."""
        with self.lock:
            self.hand = None
            self._guarded(self._anew)

    def choose(self, method: str | None = None, pace: float | None = None, other: str | None = "same") -> None:
        """Another method, another step (times that of the model), or a second method beside it (None for none)."""
        with self.lock:
            before = (self.method, self.pace, self.other)
            self.method = self.method if method is None else method
            self.pace = self.pace if pace is None else pace
            self.other = self.other if other == "same" else other
            if not self._guarded(self._anew):
                self.method, self.pace, self.other = before
                self._guarded(self._anew, quiet=True)

    def _guarded(self, act: Callable[[], None], quiet: bool = False) -> bool:
        try:
            act()
        except CaromError as error:
            self.message = str(error)
            return False
        self.message = self.message if quiet else ""
        return True

    # -- hands -------------------------------------------------------------------------------------------------------

    def pull(self, body: int, grab: np.ndarray | None, target: np.ndarray | None) -> None:
        """A hand holds a body at `grab` and is at `target`; None when it lets go."""
        with self.lock:
            held, self.hand = self.hand, None if grab is None or target is None else (body, grab, target)
            if self.hand is not None and held is None:
                for take, player in zip(self.takes, self.players, strict=True):
                    take.back_to(player.now)
                self._show()

    # -- work --------------------------------------------------------------------------------------------------------

    def work(self) -> bool:
        """Compute a stretch more, if the person who watches is about to need it; whether anything was done."""
        with self.lock:
            done = False
            for take, player in zip(self.takes, self.players, strict=True):
                held = self.hand is not None
                ahead = 2 * HELD if held else max(AHEAD * player.speed, STRETCH)
                if take.failed or take.end > player.now + ahead or (held and not player.playing):
                    continue
                if self.hand is not None:
                    take.pull(*self.hand)
                self._guarded(lambda take=take, held=held: take.grow(HELD if held else STRETCH) and None, quiet=True)
                done = True
                if take is self.takes[0]:
                    self._tell(kicked=held)
            if done:
                self._show()
            return done

    def _show(self) -> None:
        for take, player in zip(self.takes, self.players, strict=True):
            assert take.footage is not None
            player.take(take.footage, growing=not take.failed)

    # -- what was played ---------------------------------------------------------------------------------------------

    def _tell(self, fresh: bool = False, kicked: bool = False) -> None:
        """Keep what it takes to compute all this again."""
        take = self.takes[0]
        if fresh:
            self.story = []
        start = take.runs[-1]
        entry = {"t": float(start.t[0]), "q": start.q[0].tolist(), "p": start.p[0].tolist(), "steps": int(start.num_steps)}
        entry |= {"values": dict(self.values), "method": self.method, "dt": take.dt}
        self.story = [old for old in self.story if old["t"] < entry["t"] - 1e-12] + [entry]

    def last_stretch(self) -> Any:
        """All that was computed since something was changed by hand, as one run."""
        with self.lock:
            take = self.takes[0]
            entries = [self.story[-1]]
            for entry in reversed(self.story[:-1]):
                same = all(entry[key] == entries[0][key] for key in ("values", "method", "dt"))
                after = entry["t"] + entry["steps"] * entry["dt"]
                ends = next((run for run in take.runs if abs(run.t[-1] - entries[0]["t"]) < 1e-12), None)
                smooth = ends is not None and np.array_equal(ends.p[-1], np.array(entries[0]["p"]))
                if not same or abs(after - entries[0]["t"]) > 1e-9 or not smooth:
                    break
                entries.insert(0, entry)
            first, model = entries[0], take.model
            return solve(
                model.system,
                take.method,
                np.array(first["q"]),
                p0=np.array(first["p"]),
                t0=first["t"],
                dt=take.dt,
                num_steps=sum(entry["steps"] for entry in entries),
                params=model.params,
                throw=False,
                progress=False,
                name=model.name,
                shape=model.shape,
            )

    def save(self, path: str | Path) -> Path:
        """The last stretch as a run, *.zarr or *.nc."""
        return self.last_stretch().save(path)

    def script(self) -> str:
        """The program that computes all of it again, changes and pulls of the hand included."""
        own = set(inspect.signature(self.factory).parameters)
        told = []
        for entry in self.story:
            arguments = {k: v for k, v in entry["values"].items() if k in own and v != self.knobs[k].value}
            params = {k: v for k, v in entry["values"].items() if k not in own and v != self.knobs[k].value}
            arguments = {k: int(v) if self.knobs[k].whole else v for k, v in arguments.items()}
            told.append((arguments, params, entry["dt"], entry["steps"], entry["t"], entry["q"], entry["p"]))
        rows = ",\n    ".join(json.dumps(row) for row in told)
        return SCRIPT.format(name=self.name, rows=rows, method=written(self.method))


SCRIPT = '''"""What was played with {name}: stretch after stretch, each from where the hand left it."""

import numpy as np

import carom

# arguments of the model, parameters, dt, steps, and where the stretch starts: t, q, p
STRETCHES = [
    {rows},
]

runs = []
for arguments, params, dt, steps, t, q, p in STRETCHES:
    model = carom.models.{name}(**arguments)
    options = {{"dt": dt, "num_steps": steps, "t0": t, "params": {{**model.params, **params}}, "shape": model.shape}}
    method = {method}
    runs.append(carom.solve(model.system, method, np.array(q), p0=np.array(p), throw=False, **options))
t = np.concatenate([run.t for run in runs])
q = np.concatenate([run.q for run in runs])
print(f"{{len(runs)}} stretches to t = {{t[-1]:.6g}}, {{sum(len(run.impacts) for run in runs)}} impacts, q = {{q[-1]}}")
'''
