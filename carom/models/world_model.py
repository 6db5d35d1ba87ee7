"""A ready-made world: bodies as they stand at the start, with a step and a length that suit them."""

from dataclasses import dataclass, field, replace
from typing import Any

from carom.bodies.run import WorldRun
from carom.bodies.world import World
from carom.calls import public_methods
from carom.drawing import Film
from carom.results.views import view


@public_methods
@dataclass(frozen=True, eq=False)
class WorldModel:
    """`model.solve()` runs it. `model.world` is an ordinary `World`: add to it, change its material, then solve."""

    name: str
    about: str  #                     one sentence
    world: World
    dt: float
    num_steps: int
    source: str = ""  #               citation key and section
    view: tuple[float, float] = (-60.0, 20.0)  #  from where a film shows it: azimuth and elevation in degrees
    numbers: dict[str, Any] = field(default_factory=dict)  # lengths, angles and bodies that its exact answers need

    def solve(self, **changes: Any) -> WorldRun:
        """Run it; `dt`, `num_steps` and everything else that `World.solve` takes can be replaced by name."""
        return replace(self.world.solve(**({"dt": self.dt, "num_steps": self.num_steps} | changes)), name=self.name)

    def play(self, **options: Any) -> Any:
        """Play with a copy of it in the browser (extra `live`), computed as you watch, or in the cell of a notebook (extra
        `notebook`). See `carom.play`."""
        return view("play_model")(self, **options)

    def film(self, run: WorldRun) -> Film:
        """All shapes through a run, and a line for each string: a distance or a rope."""
        return self.world.film(run)
