"""`carom play` without a page: models that go on for as long as one watches, with knobs, methods, hands, and a script of it all."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from carom.errors import InputError
from carom.live.ground import Ground
from carom.live.knobs import arguments_of, derived, knobs_of, methods_for, written
from carom.live.take import Take
from carom.models.model import Model
from carom.running.solve import solve


class Playground(Ground):
    """A model that plays."""

    def __init__(self, name: str, factory: Callable[..., Model]):
        self.factory = factory
        model = factory()
        if model.shape is None:
            raise InputError(f"{name} has no picture to play with")
        self.story: list[dict[str, Any]] = []  # the stretches of the first take, as they were asked for
        knobs = knobs_of(factory, model.params)
        self.derived = derived(factory, knobs)
        self.by_hand: set[str] = set()  # what a person has set: of derived numbers only those are held
        super().__init__(name, knobs, methods_for(model))

    @property
    def choices(self) -> tuple[str, ...]:
        return tuple(self.methods)

    def turn(self, knob: str, value: float) -> None:
        with self.lock:
            before = set(self.by_hand)
            self.by_hand.add(knob)
            super().turn(knob, value)
            self.by_hand = before if self.message else self.by_hand
            params = self.takes[0].model.params
            self.values |= {key: float(params[key]) for key in self.derived - self.by_hand if key in params}  # the others follow

    def _told(self, values: dict[str, float] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is not as it was: arguments of the model, and parameters."""
        values = self.values if values is None else values
        told = {k for k, v in values.items() if (k in self.by_hand if k in self.derived else v != self.knobs[k].value)}
        return arguments_of(self.factory, {k: int(values[k]) if self.knobs[k].whole else values[k] for k in values if k in told})

    def model(self, values: dict[str, float] | None = None) -> Model:
        arguments, params = self._told(values)
        model = self.factory(**arguments)
        return replace(model, params={**model.params, **params})

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
        entry = {"t": float(start.t[0]), "q": start.q[0].tolist(), "p": start.p[0].tolist(), "steps": int(start.num_steps)}
        entry |= {"told": self._told(), "method": self.method, "dt": take.dt}
        self.story = [old for old in self.story if old["t"] < entry["t"] - 1e-12] + [entry]

    def last_stretch(self) -> Any:
        """All that was computed since something was changed by hand, as one run."""
        with self.lock:
            take = self.takes[0]
            entries = [self.story[-1]]
            for entry in reversed(self.story[:-1]):
                same = all(entry[key] == entries[0][key] for key in ("told", "method", "dt"))
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
        return self.last_stretch().save(path)

    def film(self, path: str | Path) -> Any:
        return self.last_stretch().animate(path)

    def script(self) -> str:
        told = [(*entry["told"], entry["dt"], entry["steps"], entry["t"], entry["q"], entry["p"]) for entry in self.story]
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
