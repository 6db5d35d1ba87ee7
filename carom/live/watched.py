"""`carom run --live`: a run that is watched while it is computed, stretch after stretch by `extend`, up to its end."""

import threading
import time
from typing import Any

from carom.live.footage import of_solution
from carom.live.live_page import LivePage
from carom.live.player import Player
from carom.results.solution import Solution

PARTS = 40  #      stretches of a run
DRAWING = 0.3  #   of the time at most goes into drawing what was computed


class WatchedRun:
    """Computes in a thread of its own; `page` shows what there is, and `solution` is it in the end."""

    def __init__(self, model: Any, method: Any, num_steps: int, options: dict[str, Any], host: str = "127.0.0.1", port: int = 0):
        self.model, self.method, self.num_steps, self.options = model, method, num_steps, options
        self.stop = threading.Event()
        self.seconds = time.perf_counter()
        self.solution: Solution = model.solve(method, num_steps=max(1, num_steps // PARTS), throw=False, progress=False, **options)
        self.page = LivePage(Player(of_solution(self.solution), growing=True), title=f"{model.name}, running", host=host, port=port)
        self.worker = threading.Thread(target=self._compute, name="carom run", daemon=True)
        self.worker.start()

    def _compute(self) -> None:
        drawing, began = 0.0, time.perf_counter()
        while self._more():
            left = self.num_steps - self.solution.num_steps
            self.solution = self.solution.extend(min(left, max(1, self.num_steps // PARTS)), throw=False, progress=False)
            clock = time.perf_counter()
            if drawing <= DRAWING * (clock - began) or not self._more():
                self.page.player.take(of_solution(self.solution), growing=self._more())
                drawing += time.perf_counter() - clock
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
