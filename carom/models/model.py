"""A ready-made problem: the system with its initial state, its parameters and a step that suits it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from carom.calls import nearest, public_methods
from carom.errors import InputError
from carom.methods.variational.collision import VariationalCollision
from carom.results.solution import Solution
from carom.results.views import view
from carom.running.solve import solve
from carom.system.system import System


@public_methods
@dataclass(frozen=True, eq=False)
class Model:
    """`model.solve()` runs it; every number in it can be replaced by name."""

    name: str
    about: str  #                     one sentence for `carom list`
    system: System
    q0: list[float]
    v0: list[float]
    params: dict[str, Any]
    dt: float
    num_steps: int = 10_000
    source: str = ""  #               citation key and section
    shape: Callable[..., Any] | None = None  #  (q, t, params) ↦ the parts of its picture, see carom/drawing.py
    exact: dict[str, Callable[..., Any]] = field(default_factory=dict)  # known answers, by name
    method: Any = None  #             what suits it, where that is not the order-4 collision integrator

    def solve(self, method: Any = None, **changes: Any) -> Solution:
        """Run it, by default with the method that suits it, mostly the order-4 collision integrator.

        `params` replaces single parameters by name."""
        params = changes.pop("params", None) or {}
        for key in params:
            if key not in self.params:
                known = ", ".join(self.params)
                raise InputError(f"{self.name} has no parameter {key!r}; it has {known}{nearest(key, self.params)}")
        arguments: dict[str, Any] = {"q0": self.q0, "v0": self.v0, "dt": self.dt, "num_steps": self.num_steps}
        arguments |= {"name": self.name, "shape": self.shape}
        if np.ndim(changes.get("dt", 0.0)) and "num_steps" not in changes:  # a length for each step says how many
            arguments["num_steps"] = None
        arguments |= changes
        method = (self.method or _usual_method()) if method is None else method
        return solve(self.system, method, params={**self.params, **params}, **arguments)

    def play(self, **options: Any) -> Any:
        """Play with it: in the browser (extra `live`), computed as you watch, or in the cell of a notebook (extra `notebook`), with
        a knob for each of its parameters. See `carom.play`."""
        return view("play_model")(self, **options)


@cache
def _usual_method() -> VariationalCollision:
    """One for all runs: to make a method takes as long as a short run."""
    return VariationalCollision()


def made(factory: Callable[..., Model], arguments: dict[str, Any]) -> Model:
    """What a function of one's own returns, if it is a model."""
    model = factory(**arguments)
    if not isinstance(model, Model):
        raise InputError(f"model must be a function that returns a carom Model; {factory!r} returned {model!r}")
    return model
