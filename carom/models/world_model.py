"""A ready-made world: bodies as they stand at the start, with a step and a length that suit them."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from carom.bodies import quaternions
from carom.bodies.run import WorldRun
from carom.bodies.world import World
from carom.calls import public_methods
from carom.drawing import Film, Part


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

    def film(self, run: WorldRun) -> Film:
        """All shapes through a run, and a line for each string: a distance or a rope."""
        reel = self.world.film(run)
        strings = [joint for joint in self.world.joints if joint.kind in ("distance", "rope")]
        if not strings:
            return reel
        frames = np.searchsorted(run.t, reel.t)
        R, x = quaternions.matrix(run.q[frames]), run.x[frames]
        tracks = [
            np.stack([x[:, i] + R[:, i] @ (R[0, i].T @ (at - x[0, i])) for i, at in zip((j.a, j.b), j.at, strict=True)], axis=1)
            for j in strings
        ]
        parts = [Part(track[0, :, : reel.dim], "line") for track in tracks]
        points = np.concatenate([reel.points, *(track[:, :, : reel.dim] for track in tracks)], axis=1)
        starts = (*reel.starts, *(reel.starts[-1] + 2 * (k + 1) for k in range(len(strings))))
        return Film(reel.t, points, (*reel.parts, *parts), starts)
