"""`carom run --live`: a run that is watched while it is computed, stretch after stretch, up to its end."""

import threading
import time
from dataclasses import replace
from typing import Any, Protocol

from carom.bodies.march import last_state, march
from carom.bodies.run import WorldRun, joined
from carom.live.footage import Footage
from carom.live.live_page import LivePage
from carom.live.player import Player
from carom.live.take import footage_of, since
from carom.live.world_footage import of_world
from carom.models.model import Model
from carom.models.world_model import WorldModel
from carom.results.solution import Solution

PARTS = 40  # stretches of a run


class Work(Protocol):
    """What is computed: `run` is all of it so far, `more` computes so many steps and returns what is seen of them."""

    run: Any

    def more(self, steps: int, seen: Footage | None) -> Footage: ...


class ModelWork:
    """A model, by `solve` and then `extend`."""

    run: Solution

    def __init__(self, model: Model, method: Any, options: dict[str, Any]):
        self.model, self.method, self.options = model, method, options

    def more(self, steps: int, seen: Footage | None) -> Footage:
        if seen is None:
            self.run = self.model.solve(self.method, num_steps=steps, throw=False, progress=False, **self.options)
            return footage_of(self.run, None)
        before = self.run
        self.run = before.extend(steps, throw=False, progress=False)
        return footage_of(since(self.run, before), seen)


class WorldWork:
    """A world, from the memory of its last step."""

    run: WorldRun

    def __init__(self, scene: WorldModel, dt: float):
        self.scene, self.dt = scene, dt

    def more(self, steps: int, seen: Footage | None) -> Footage:
        if seen is None:
            self.run = self.scene.solve(dt=self.dt, num_steps=steps, progress=False)
            return of_world(self.run)
        before = self.run
        assert before.scene is not None
        done = before.num_steps
        rest = march(before.scene, last_state(before), self.dt, done + steps, before.settings, False, done, before.memory)
        self.run = joined(before, rest)
        return of_world(rest, seen, before.contacts)


class WatchedRun:
    """Computes in a thread of its own; `page` shows what there is, and `run` is it in the end."""

    def __init__(self, name: str, work: Work, num_steps: int, host: str = "127.0.0.1", port: int = 0):
        self.name, self.work, self.num_steps = name, work, num_steps
        self.stop = threading.Event()
        self.trouble: Exception | None = None
        self.seconds = time.perf_counter()
        footage = work.more(max(1, num_steps // PARTS), None)
        player, films = Player(footage, growing=self._more()), lambda path, **more: self.run.animate(path, **more)
        player.follow = 0 if len(footage.bodies) == 1 else None  # a body alone may go far
        self.page = LivePage(player, title=f"{name}, running", host=host, port=port, films=films)
        self.page.panel.news = lambda: self.words() if self._more() else ""
        self.worker = threading.Thread(target=self._compute, name="carom run", daemon=True)
        self.worker.start()

    @property
    def run(self) -> Any:
        return self.work.run

    def _compute(self) -> None:
        try:
            footage = self.page.player.footage
            while self._more():
                left = self.num_steps - self.run.num_steps
                footage = footage.followed_by(self.work.more(min(left, max(1, self.num_steps // PARTS)), footage))
                self.page.player.take(footage, growing=self._more())
                self.page.server.gui.set_panel_label(f"{self.name}: {self.words()}")
        except Exception as error:  # whatever a person's functions raise: said by `finish`, and shown
            self.trouble = error
            told = replace(self.page.player.footage, ok=False, message=f"{type(error).__name__}: {error}")
            self.page.player.take(told, growing=False)

    def _more(self) -> bool:
        return not self.stop.is_set() and self.run.status.ok and self.run.num_steps < self.num_steps

    def words(self) -> str:
        """How far it is, how fast, and how long it will take."""
        done, seconds = self.run.num_steps, time.perf_counter() - self.seconds
        rate = done / max(seconds, 1e-9)
        if done >= self.num_steps or not self.run.status.ok:
            return self.run.status.name.replace("_", " ")
        return f"{100 * done / self.num_steps:.0f} %, {rate:,.0f} steps/s, {(self.num_steps - done) / rate:,.0f} s left"

    def finish(self) -> Any:
        """Wait for its end."""
        self.worker.join()
        if self.trouble is not None:
            raise self.trouble
        return self.run

    def __enter__(self) -> "WatchedRun":
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop.set()
        self.page.close()
