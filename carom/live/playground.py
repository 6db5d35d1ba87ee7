"""`carom play` without a page: models that go on for as long as one watches, with knobs, methods, hands, and a script of it all."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from carom.live.ground import Ground
from carom.live.knobs import called, methods_for, written
from carom.live.player import natural_speed
from carom.live.take import Take
from carom.live.turned import ModelKnobs
from carom.models.model import Model
from carom.running.solve import solve


class Playground(ModelKnobs, Ground):
    """A model that plays. `known`: `factory` is the function of `carom.models` with this name, so that a script can call it."""

    def __init__(self, name: str, factory: Callable[..., Model], known: bool = True):
        self.known = known
        self.story: list[dict[str, Any]] = []  # the stretches of the first take, as they were asked for
        model = self._find_knobs(name, factory)
        duration = model.dt * model.num_steps  # what is over in a moment is played slowly, and nothing faster than it is
        super().__init__(name, self.knobs, methods_for(model), min(natural_speed(duration), 1.0))

    @property
    def choices(self) -> tuple[str, ...]:
        return tuple(self.methods)

    def _called(self, method: str, take: Take) -> str:
        return called(self.methods, method)

    def turn(self, knob: str, value: float) -> None:
        with self.lock:
            before = set(self.by_hand)
            self.by_hand.add(knob)
            super().turn(knob, value)
            self.by_hand = before if self.message else self.by_hand
            self._follow(self.takes[0].model.params)

    def _take(self, method: str) -> Take:
        model = self.model()
        return Take(model, self.methods[method], self.pace * model.dt)

    def _same_start(self, old: Model, new: Model) -> bool:
        return len(new.q0) == len(old.q0) and list(new.q0) == list(old.q0) and list(new.v0) == list(old.v0)

    # -- what was played ---------------------------------------------------------------------------------------------

    def _tell(self, fresh: bool = False) -> None:
        take = self.takes[0]
        if fresh:
            self.story = []
        start = take.runs[-1]
        entry = {
            "t": float(start.t[0]),
            "q": start.q[0].tolist(),
            "p": start.p[0].tolist(),
            "steps": _cut(take.parts, int(start.num_steps)),
        }
        entry |= {"told": self._told(), "method": self.method, "dt": take.dt}
        self.story = [_until(old, entry["t"]) for old in self.story if old["t"] < entry["t"] - 1e-12] + [entry]

    def last_stretch(self) -> Any:
        """All that was computed since something was changed by hand, as one run."""
        with self.lock:
            take = self.takes[0]
            entries = [self.story[-1]]
            for entry in reversed(self.story[:-1]):
                same = all(entry[key] == entries[0][key] for key in ("told", "method", "dt"))
                after = entry["t"] + sum(entry["steps"]) * entry["dt"]
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
                num_steps=sum(sum(entry["steps"]) for entry in entries),
                params=model.params,
                throw=False,
                progress=False,
                name=model.name,
                shape=model.shape,
            )

    def save(self, path: str | Path) -> Path:
        return self.last_stretch().save(path)

    def film(self, path: str | Path, progress: Any = None) -> Any:
        return self.last_stretch().animate(path, progress=progress)

    def script(self) -> str | None:
        if not self.known:
            return None  # how the model was made is not known here
        told = [(*entry["told"], entry["dt"], entry["steps"], entry["t"], entry["q"], entry["p"]) for entry in self.story]
        rows = ",\n    ".join(json.dumps(row) for row in told)
        return SCRIPT.format(name=self.name, rows=rows, method=written(self.method))


def _until(entry: dict[str, Any], t: float) -> dict[str, Any]:
    """A stretch as far as it was watched: what was computed ahead of a change has not happened."""
    return entry | {"steps": _cut(entry["steps"], round((t - entry["t"]) / entry["dt"]))}


def _cut(parts: list[int], steps: int) -> list[int]:
    """The first so many steps of a stretch that was computed in parts."""
    ends = np.minimum(np.cumsum([0, *parts]), steps)
    return [int(part) for part in np.diff(ends) if part] or [0]


SCRIPT = '''"""What was played with {name}: stretch after stretch, each from where the hand left it."""

import numpy as np

import carom

# arguments of the model, parameters, dt, steps (of each part, where bodies were a little inside each other: such a run is not begun
# there, it goes on), and where the stretch starts: t, q, p
STRETCHES = [
    {rows},
]

runs = []
for arguments, params, dt, (steps, *more), t, q, p in STRETCHES:
    model = carom.models.{name}(**arguments)
    options = {{"dt": dt, "num_steps": steps, "t0": t, "params": {{**model.params, **params}}, "shape": model.shape}}
    method = {method}
    run = carom.solve(model.system, method, np.array(q), p0=np.array(p), throw=False, **options)
    for steps in more:
        run = run.extend(steps, throw=False)
    runs.append(run)
t = np.concatenate([run.t for run in runs])
q = np.concatenate([run.q for run in runs])
print(f"{{len(runs)}} stretches to t = {{t[-1]:.6g}}, {{sum(len(run.impacts) for run in runs)}} impacts, q = {{q[-1]}}")
'''
