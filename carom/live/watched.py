"""`carom run --live`: a run that is watched while it is computed, stretch after stretch by `extend`, up to its end."""

import threading
import time
from dataclasses import replace
from typing import Any

from carom.live.live_page import LivePage
from carom.live.player import Player
from carom.live.take import footage_of
from carom.results.solution import Solution

PARTS = 40  # stretches of a run


class WatchedRun:
    """Computes in a thread of its own; `page` shows what there is, and `solution` is it in the end."""

    def __init__(self, model: Any, method: Any, num_steps: int, options: dict[str, Any], host: str = "127.0.0.1", port: int = 0):
        self.model, self.method, self.num_steps, self.options = model, method, num_steps, options
        self.stop = threading.Event()
        self.seconds = time.perf_counter()
        self.solution: Solution = model.solve(method, num_steps=max(1, num_steps // PARTS), throw=False, progress=False, **options)
        self.page = LivePage(
            Player(footage_of(self.solution, None), growing=True), title=f"{model.name}, running", host=host, port=port
        )
        self.worker = threading.Thread(target=self._compute, name="carom run", daemon=True)
        self.worker.start()

    def _compute(self) -> None:
        footage = self.page.player.footage
        while self._more():
            before = self.solution
            left = self.num_steps - before.num_steps
            self.solution = before.extend(min(left, max(1, self.num_steps // PARTS)), throw=False, progress=False)
            footage = footage.followed_by(footage_of(_since(self.solution, before), footage))
            self.page.player.take(footage, growing=self._more())
            self.page.server.gui.set_panel_label(f"{self.model.name}: {self.words()}")

    def _more(self) -> bool:
        return not self.stop.is_set() and self.solution.status.ok and self.solution.num_steps < self.num_steps

    def words(self) -> str:
        """How far it is, how fast, and how long it will take."""
        done, seconds = self.solution.num_steps, time.perf_counter() - self.seconds
        rate = done / max(seconds, 1e-9)
        if done >= self.num_steps or not self.solution.status.ok:
            return self.solution.status.name.replace("_", " ")
        return f"{100 * done / self.num_steps:.0f} %, {rate:,.0f} steps/s, {(self.num_steps - done) / rate:,.0f} s left"

    def finish(self) -> Solution:
        """Wait for its end."""
        self.worker.join()
        return self.solution


def _since(whole: Solution, before: Solution) -> Solution:
    """The part of a run that came after another one."""
    first, hits = len(before.t) - 1, whole.impacts
    new = slice(len(before.impacts), None)
    table = {name: getattr(hits, name)[new] for name in hits.__dataclass_fields__ if name != "names"}
    grid = {name: getattr(whole, name)[first:] for name in ("t", "q", "p")}
    return replace(whole, **grid, impacts=replace(hits, **table), record=None)
