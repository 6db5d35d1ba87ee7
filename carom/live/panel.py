"""The controls of a player on viser's panel: time, speed, impacts, what to follow, curves, pictures and films."""

import contextlib
import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from carom.errors import CaromError
from carom.live.chart import Chart
from carom.live.player import ALL, SPEEDS, Player

NOBODY, EVERYTHING = "nothing", "everything"
FEW = 200  # bodies to choose from


class Films(Protocol):
    """What makes a film: `animate` of a run, `film` of a playground."""

    def __call__(self, path: str, *, progress: Callable[[int, int], Any]) -> Any: ...


def by_hand(control: Any, act: Callable[[Any], object]) -> None:
    """Tell `act`, which must be quick, what value a hand, not the clock, gave to a control.

    The value is read at once, on viser's own thread. Read on another, a moment later, it may be what the clock has written into the
    control meanwhile: the slider would leap back under the hand.
    """

    async def heard(event: Any) -> None:
        if event.client is not None:
            act(event.target.value)

    control.on_update(heard)


class Panel:
    """Widgets that show the player's state and change it. Names that people typed are put into labels and fields, which viser
    shows as text; never into markdown or HTML."""

    def __init__(self, gui: Any, player: Player, films: Films | None = None):
        self.gui, self.player, self.films = gui, player, films
        self.forces = True
        self.busy: Callable[[], bool] = lambda: False  # something that was asked for is being computed
        self.news: Callable[[], str] = lambda: ""  #     how far that is
        self._shown: tuple[Any, ...] = ()
        self.status = gui.add_text("status", "", disabled=True, multiline=True, order=0)
        with gui.add_folder("time", order=1):
            self._time_controls()
        with gui.add_folder("view", order=3):
            self._view_controls()
        self.folder = gui.add_folder("curves", order=4)
        self.charts = [Chart(gui, self.folder, curves, i, marked=True) for i, curves in enumerate(player.footage.curves)]
        self._commands()

    # -- what there is -----------------------------------------------------------------------------------------------

    def _time_controls(self) -> None:
        gui, player = self.gui, self.player
        self.button = gui.add_button("Play")
        self.button.on_click(lambda _: player.play(self.button.label == "Play"))  # what it says, not the opposite of what is
        span = max(player.end - player.start, 1e-9)
        self.time = gui.add_slider("time", player.start, player.start + span, span / 2000, player.start)
        by_hand(self.time, player.scrub)
        for label, go in (("step", player.step), ("impact", player.next_impact)):
            group = gui.add_button_group(label, ("back", "on"))
            group.on_click(lambda event, go=go: go(1 if event.target.value == "on" else -1))
        near = min(SPEEDS, key=lambda s: abs(s - player.speed))
        self.speed = gui.add_dropdown("speed", tuple(f"{s:g}×" for s in SPEEDS), initial_value=f"{near:g}×")
        self.speed.on_update(lambda event: setattr(player, "speed", float(event.target.value.rstrip("×"))))

    def _view_controls(self) -> None:
        gui, player = self.gui, self.player
        bodies = player.footage.bodies
        every = {EVERYTHING: ALL} if len(bodies) > 1 else {}
        self.names = every | {f"{i + 1}: {name}": i for i, name in enumerate(bodies[:FEW])}
        first = next((name for name, i in self.names.items() if i == player.follow), NOBODY)
        follow = gui.add_dropdown("follow", (NOBODY, *self.names), initial_value=first)
        follow.on_update(lambda event: setattr(player, "follow", self.names.get(event.target.value)))
        if len(player.footage.forces.t):
            box = gui.add_checkbox("contact forces", True)
            box.on_update(lambda event: setattr(self, "forces", event.target.value))
        gui.add_button("Picture").on_click(_picture)
        if self.films is not None:
            gui.add_button("Film").on_click(self._film)

    def _commands(self) -> None:
        act = {
            ("Play or pause", "space"): lambda: self.player.play(),
            ("Step back", "J"): lambda: self.player.step(-1),
            ("Step on", "L"): lambda: self.player.step(1),
            ("To the impact before", "B"): lambda: self.player.next_impact(-1),
            ("To the next impact", "N"): lambda: self.player.next_impact(1),
            ("To the start", "home"): lambda: self.player.scrub(self.player.start),
            ("To the end", "end"): lambda: self.player.scrub(self.player.end),
        }
        for (label, key), what in act.items():
            self.gui.add_command(label, hotkey=key).on_trigger(lambda _, what=what: what())

    # -- what a hand does --------------------------------------------------------------------------------------------

    def _film(self, event: Any) -> None:
        assert self.films is not None and event.client is not None
        told = event.client.add_notification("Film", "is being drawn …", loading=True, with_close_button=False)
        start = time.perf_counter()

        def tell(done: int, count: int) -> None:
            told.body = film_words(done, count, time.perf_counter() - start)

        try:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "motion.gif"
                self.films(str(path), progress=tell)
                content = path.read_bytes()
        except CaromError as error:
            event.client.add_notification("No film", str(error))
            return
        finally:
            told.remove()
        event.client.send_file_download("motion.gif", content, save_immediately=True)

    # -- what a person sees ------------------------------------------------------------------------------------------

    def show(self) -> None:
        """The state of the player; nothing is sent that was sent before."""
        player = self.player
        name = "Pause" if player.playing else "Play"
        if self.button.label != name:
            self.button.label = name
        if self.time.max < player.end or self.time.min > player.start:
            self.time.min, self.time.max = player.start, player.end
        computing = player.waiting or self.busy()
        news = self.news()
        state = (player.now, player.footage, player.playing, computing, news)
        if state == self._shown:
            return
        self._shown = state
        self.time.value = float(np.clip(player.now, self.time.min, self.time.max))
        note = f"failed: {player.footage.message}\n" if not player.footage.ok else f"{news}\n" if news else ""
        text = f"{note}t = {player.now:.4f}{' (computing …)' if computing else ''}\n{player.words()}"
        if self.status.value != text:
            self.status.value = text
        for chart, curves in zip(self.charts, player.footage.curves, strict=True):
            chart.show(curves, player.now)


def film_words(done: int, count: int, seconds: float) -> str:
    """How far a film is, how fast, and how long it will take."""
    rate = done / max(seconds, 1e-9)
    return f"is being drawn: {100 * done / count:.0f} %, {rate:.0f} pictures/s, {(count - done) / rate:.0f} s left"


def _picture(event: Any) -> None:
    """What this client sees, as a file."""
    from PIL import Image

    client = event.client
    with contextlib.suppress(RuntimeError, TimeoutError):  # a client that has gone needs no picture
        seen = client.get_render(client.camera.image_height, client.camera.image_width, timeout=20.0)
        file = io.BytesIO()
        Image.fromarray(seen).save(file, "png")
        client.send_file_download("motion.png", file.getvalue(), save_immediately=True)
