"""`carom play SCENE` and `world.play()` without a page: a world that goes on, with knobs, hands, and bodies that are added."""

import copy
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from carom.bodies.described import check_run
from carom.bodies.world import World
from carom.live.ground import Ground
from carom.live.knobs import SUITS
from carom.live.player import ALL, natural_speed
from carom.live.turned import WorldKnobs
from carom.live.world_parts import SHAPES, Addition, above, alike, usual
from carom.live.world_take import WorldTake
from carom.models.world_model import WorldModel

BESIDE = {SUITS: 1.0, "half of dt": 0.5, "a quarter of dt": 0.25, "twice dt": 2.0}  # what can be compared, times the step


class WorldGround(WorldKnobs, Ground):
    """A world that plays. `factory` makes it, from its start, as often as it is asked for."""

    follow = ALL

    def __init__(self, name: str, factory: Callable[..., WorldModel], known: bool = True):
        self.known = known
        model = self._find_knobs(factory)
        self.size, self.density = usual(model.world)
        self.shapes = tuple(SHAPES[model.world.dim])
        self._count = len(model.world.bodies)
        super().__init__(name, self.knobs, BESIDE, natural_speed(model.dt * model.num_steps))

    @classmethod
    def of(cls, world: World, dt: float, num_steps: int = 2000) -> "WorldGround":
        """A world of one's own, which stays as it is: a copy plays."""
        return cls("world", cls.maker(world, dt, num_steps), known=False)

    @staticmethod
    def maker(world: World, dt: float, num_steps: int = 2000) -> Callable[[], WorldModel]:
        """What makes copies of a world as it is now."""
        check_run(dt, num_steps, 1, 1e-10, {"checkpoint": None}, None)
        kept = copy.deepcopy(world)
        return lambda: WorldModel("world", "", copy.deepcopy(kept), dt, num_steps)

    @property
    def choices(self) -> tuple[str, ...]:
        return ()

    def _called(self, method: str, take: WorldTake) -> str:
        return f"dt = {take.dt:g}"

    def _take(self, method: str) -> WorldTake:
        model = self.model()
        self._count = len(model.world.bodies)
        return WorldTake(model, self.pace * BESIDE[method] * model.dt, self._told())

    def _same_start(self, old: WorldModel, new: WorldModel) -> bool:
        return len(new.world.bodies) == self._count and alike(old.world, new.world, self._count) and old.dt == new.dt

    def _go_on(self, model: WorldModel) -> None:
        for take in self.takes:
            take.values = self._told()
        super()._go_on(model)

    # -- one body more -----------------------------------------------------------------------------------------------

    def add_body(self, shape: str, size: float | None = None) -> None:
        """Let a body fall from above what is there, in the middle of what moves."""
        with self._asked():
            self._guarded(lambda: self._add(shape, self.size if size is None else size))

    def _add(self, shape: str, size: float) -> None:
        for take, player in zip(self.takes, self.players, strict=True):
            take.back_to(player.now)
        where = above(self.takes[0].scene, self.takes[0].state, size)  # the same for both that are side by side
        for take, player in zip(self.takes, self.players, strict=True):
            take.add(Addition(f"added {len(take.added) + 1}", shape, size, self.density, where))
            take.grow(take.stretch(player.speed, False))
        self._show()

    # -- what was played ---------------------------------------------------------------------------------------------

    def _tell(self, fresh: bool = False) -> None:
        """Takes of worlds keep their own story."""

    def save(self, path: str | Path) -> Path:
        """What was computed since bodies were last added, as much of it as the page remembers."""
        with self.lock:
            return self.takes[0].whole().save(path)

    def film(self, path: str | Path, progress: Any = None) -> Any:
        with self.lock:
            run = self.takes[0].whole()
        return run.animate(path, progress=progress)

    def script(self) -> str | None:
        if not self.known:
            return None  # how the world was described is not known here
        with self.lock:
            take = self.takes[0]
            rows = ",\n    ".join(json.dumps(asdict(stretch)) for stretch in take.story).replace("null", "None")
            rows = rows.replace(": true", ": True").replace(": false", ": False")
            return SCRIPT.format(name=self.name, rows=rows, dt=float(take.dt))  # numbers of numpy are written otherwise


SCRIPT = '''"""What was played with {name}: stretch after stretch, bodies that were added and pulls of the hand included."""

import carom
from carom.live.turned import make
from carom.live.world_take import replay

STRETCHES = [
    {rows},
]

runs = replay(lambda values: make(carom.models.{name}, values), STRETCHES, dt={dt!r})
for run in runs:
    print(f"to t = {{run.t[-1]:.6g}}: {{run}}")
print("x =", runs[-1].x[-1, -1])
'''
