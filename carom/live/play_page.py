"""The page of `carom play`: the player, and beside it knobs, methods, hands, bodies to add, and what was played to take home."""

import contextlib
import shutil
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from carom.live.chart import Chart
from carom.live.footage import Curves
from carom.live.ground import Ground
from carom.live.knobs import STEPS, SUITS, Knob
from carom.live.live_page import LivePage
from carom.live.panel import by_hand
from carom.live.player import Player

NONE = "none"


class PlayPage:
    """A playground in the browser. One thread computes; the page's clock draws; hands arrive on viser's threads."""

    def __init__(self, ground: Ground, *, host: str = "127.0.0.1", port: int = 0, plain: bool | None = None):
        self.ground = ground
        title = f"carom play {ground.name}"
        self.page = LivePage(ground.player, title=title, host=host, port=port, films=ground.film, plain=plain)
        self.page.cast = lambda: ground.players
        self.page.names = lambda: names_of(ground.players)
        self.page.panel.busy = lambda: ground.busy
        self.page.drag = ground.pull
        self.page.held = lambda: ground.hand is not None
        for stage in self.page.stages:
            stage.on_drag(ground.pull)
        self.sliders: dict[str, Any] = {}
        self._hands = ThreadPoolExecutor(1, thread_name_prefix="carom knobs")  # one: what comes last is done last
        self._wishes: dict[str, Any] = {}
        self._chart: Chart | None = None  # of both energies
        self._drawn: tuple[Any, ...] = ()
        gui = self.page.server.gui
        with gui.add_folder("play", order=2):
            self._controls(gui)
        self.both = gui.add_folder("side by side", order=2.5, visible=False)
        self.page.work.append(self._tell)
        self._stop = threading.Event()
        self._worker = threading.Thread(target=self._compute, name="carom playground", daemon=True)
        self._worker.start()

    @property
    def address(self) -> str:
        return self.page.address

    def _controls(self, gui: Any) -> None:
        ground = self.ground
        self.refused = gui.add_text("refused", "", disabled=True, multiline=True, visible=False)
        for knob in ground.knobs.values():
            self.sliders[knob.name] = self._slider(gui, knob)
        if ground.shapes:
            self._adding(gui)
        if ground.choices:
            method = gui.add_dropdown("method", ground.choices, initial_value=SUITS)
            method.on_update(lambda event: ground.choose(method=event.target.value))
        paces = {f"{s:g} × {ground.takes[0].model.dt:g}": s for s in STEPS}
        pace = gui.add_dropdown("dt", tuple(paces), initial_value=f"1 × {ground.takes[0].model.dt:g}")
        pace.on_update(lambda event: ground.choose(pace=paces[event.target.value]))
        self.beside = gui.add_dropdown(
            "beside it", (NONE, *ground.methods), initial_value=NONE, hint="the same start, done in another way"
        )
        self.beside.on_update(lambda event: ground.choose(other=None if event.target.value == NONE else event.target.value))
        gui.add_button("Restart").on_click(lambda _: ground.restart())
        gui.add_button("Save as a run").on_click(self._save)
        if ground.script() is not None:
            script = lambda: (ground.script() or "").encode()  # noqa: E731
            gui.add_button("Save as a script").on_click(lambda event: _send(event, f"{ground.name}.py", script()))

    def _adding(self, gui: Any) -> None:
        """A body that is let fall into the world."""
        ground = self.ground
        shape = gui.add_dropdown("shape to add", ground.shapes, initial_value=ground.shapes[0])
        size = gui.add_slider("size to add", 0.25 * ground.size, 4 * ground.size, 0.05 * ground.size, ground.size)
        gui.add_button("Add a body").on_click(lambda _: ground.add_body(shape.value, size.value))

    def _slider(self, gui: Any, knob: Knob) -> Any:
        kind: Any = int if knob.whole else float
        step = 1 if knob.whole else (knob.high - knob.low) / 200
        slider = gui.add_slider(knob.name, kind(knob.low), kind(knob.high), kind(step), kind(knob.value))

        by_hand(slider, lambda value: self._wish(knob.name, value))
        return slider

    def _wish(self, name: str, value: Any) -> None:
        """Of what a hand asks of a knob while another value is computed, only the last is done."""
        self._wishes[name] = value
        self._hands.submit(self._turn, name).add_done_callback(lambda done: done.cancelled() or done.result())  # a failure is told

    def _turn(self, name: str) -> None:
        if (value := self._wishes.pop(name, None)) is None:
            return
        self.ground.turn(name, value)
        slider = self.sliders[name]
        if self.ground.values[name] != value and name not in self._wishes:
            slider.value = type(slider.value)(self.ground.values[name])  # refused: the slider says what is so

    def _tell(self, _: float) -> None:
        """What was refused, numbers that follow from others, and the energies of two methods."""
        for name in self.ground.derived - self.ground.by_hand:
            slider = self.sliders[name]
            value = float(np.clip(self.ground.values[name], slider.min, slider.max))
            if slider.value != value:
                slider.value = value
        if self.refused.value != self.ground.message:
            self.refused.value = self.ground.message
            self.refused.visible = bool(self.ground.message)
        players = self.ground.players
        if len(players) < 2:
            if self.both.visible:
                self.both.visible = False
            return
        both = energies(players)
        if not self.both.visible:
            self.both.visible = True
        if self._chart is None:
            self._chart = Chart(self.page.server.gui, self.both, both, 0, aspect=1.7)
        elif self._drawn != (len(both.t), *both.lines):
            self._chart.show(both, 0.0)
        self._drawn = (len(both.t), *both.lines)

    def _save(self, event: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = self.ground.save(Path(folder) / f"{self.ground.name}.zarr")
            packed = shutil.make_archive(str(path), "zip", path.parent, path.name)
            _send(event, f"{path.name}.zip", Path(packed).read_bytes())

    def _compute(self) -> None:
        while not self._stop.is_set():
            if not self.ground.work():
                self._stop.wait(0.01)

    # -- for those who opened it -------------------------------------------------------------------------------------

    def show(self) -> "PlayPage":
        self.page.show()
        return self

    def wait(self) -> None:
        try:
            self.page.wait()
        finally:
            self.close()

    def close(self) -> None:
        self._stop.set()
        self._worker.join(5.0)
        self._hands.shutdown(wait=False, cancel_futures=True)
        self.page.close()

    def __enter__(self) -> "PlayPage":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def names_of(players: list[Player]) -> tuple[str, ...]:
    """What those that are side by side are called."""
    return tuple(player.name for player in players) if len(players) > 1 else ()


def energies(players: list[Player]) -> Curves:
    """The energies of two at the times of the first."""
    one, two = (player.footage.curves[0] for player in players[:2])
    both = slice(*np.searchsorted(one.t, [two.t[0] - 1e-12, two.t[-1] + 1e-12]))  # what there is of both
    both = both if both.stop > both.start else slice(0, 1)
    y = np.interp(one.t[both], two.t, two.lines["energy"])
    return Curves("energy of both", one.t[both], dict(zip(names_of(players), (one.lines["energy"][both], y), strict=True)))


def _send(event: Any, name: str, content: bytes) -> None:
    with contextlib.suppress(KeyError):  # the client has gone
        event.client.send_file_download(name, content, save_immediately=True)
