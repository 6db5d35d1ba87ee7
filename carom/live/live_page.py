"""The page: viser's server behind the gate, a stage and a panel, and a clock that moves them."""

import contextlib
import threading
import time
from collections.abc import Callable

import numpy as np

from carom.live.footage import Footage
from carom.live.outlook import Outlook, balls, step_back
from carom.live.pacing import Pace, next_beat
from carom.live.panel import Films, Panel
from carom.live.player import ALL, Player
from carom.live.served import ServedPage
from carom.live.stage import Stage

CHARTS = 8  #  of the panel, a second
LETTER = 6.0  # pixels of a letter in the name above a stage
FRONT, ASLANT = np.array([0.0, -1.05, 0.15]), np.array([0.8, -1.1, 0.6])  # from where one looks, by the size of what is seen
SIDES = (-0.7, 0.3)  # where two stages stand, by their distance: the panel lies over the right of the page


class LivePage(ServedPage):
    """A player in the browser.

    - `host`: who may come: by default this machine alone. `port`: 0 for any that is free.
    - `plain`: no shadows and no reflections, for machines without a graphics processor; where it is not said, a page that is drawn
      in software asks for it.
    """

    def __init__(
        self,
        player: Player,
        *,
        title: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        films: Films | None = None,
        plain: bool | None = None,
    ):
        super().__init__(title or player.footage.name, host, port)
        self.player = player
        self.plain = plain
        if plain:
            self._dim()
        self.cast: Callable[[], list[Player]] = lambda: [player]  # one player, or two side by side,
        self.names: Callable[[], tuple[str, ...]] = tuple  #        and what they are then called
        self._named: tuple[str, ...] = ()
        self.drag: Callable[[int, np.ndarray | None, np.ndarray | None], None] | None = None
        self.held: Callable[[], bool] = lambda: False  # a hand has taken hold of a body
        self.outlook = Outlook()
        self._stepping = False  # back, as long as something is out of sight
        self.stages: list[Stage] = []
        self._set_stages()
        self.panel = Panel(self.server.gui, player, films)
        self.trouble = ""
        self.frames = 0  # drawn since the page was opened
        self.work: list[Callable[[float], None]] = []  # what else happens at every frame
        self.pace = Pace()
        self.gate.seen = self._heard
        self._number = self.server.gui.add_html('<i data-carom-frame="0"></i>', order=1e8)
        self._homes: dict[int, np.ndarray] = {}  # where bodies that are followed were first
        self._look()
        self._clock = threading.Thread(target=self._run, name="carom live page", daemon=True)
        self._clock.start()

    def _look(self) -> None:
        """Where the first look falls: all of the motion, from the front in the plane, from above and aside in space."""
        low, high = self.player.footage.box(self.player.follow)
        middle, away = (low + high) / 2, max(float(np.linalg.norm(high - low)), 1e-6)
        if self.player.growing and self._goes_far(away):  # nobody knows yet where, but for what it meets there
            away = (1.3 if self.player.footage.met(middle) else 2.0) * away
        side = FRONT if self.player.footage.flat else ASLANT
        middle = middle + 0.15 * away * self._right  # the panel lies over the right of the page
        camera = self.server.initial_camera
        camera.look_at, camera.position, camera.up = tuple(middle), tuple(middle + away * side), (0.0, 0.0, 1.0)
        self.outlook.home = (middle, middle + away * side)
        camera.near, camera.far = 1e-3 * away, 1e3 * away

    @property
    def _right(self) -> np.ndarray:
        """What is to the right at the first look."""
        right = np.cross(-(FRONT if self.player.footage.flat else ASLANT), [0.0, 0.0, 1.0])
        return right / np.linalg.norm(right)

    def _goes_far(self, reach: float) -> bool:
        """Whether it moves, in what is seen so far, by more than a small part of its size; what is followed does not."""
        footage = self.player.footage
        moved = footage.centre(ALL, self.player.end) - footage.centre(ALL, self.player.start)
        return self.player.follow != ALL and float(np.linalg.norm(moved)) > 0.05 * reach

    def _dim(self) -> None:
        """What a processor draws as fast as it can: one light, and some from everywhere, instead of shadows and reflections."""
        self.plain = True
        self.server.scene.configure_default_lights(cast_shadow=False)
        self.server.scene.configure_environment_map(hdri=None)
        self.server.scene.add_light_ambient("/light", intensity=1.2)

    def _heard(self, said: dict[str, str]) -> None:
        """A page says which frame it has drawn, how many milliseconds a picture takes, how large it is, and whether it is drawn in
        software."""
        if all(said.get(name, "").isdigit() for name in ("wide", "high")):
            self.outlook.pages = {**self.outlook.pages, said.get("who", ""): (int(said["wide"]), int(said["high"]))}
        if said.get("frame", "").isdigit():
            gap = int(said["gap"]) / 1000 if said.get("gap", "").isdigit() else 0.0
            self.pace.seen(said.get("who", ""), int(said["frame"]), gap=gap)
        if said.get("soft") == "1" and self.plain is None:
            self._dim()

    def _set_stages(self) -> list[tuple[Player, Footage]]:
        """A stage for each player; a new one where other bodies have come. Returns what is to be seen on each: another thread may
        give a player other footage at any moment, for which its stage is not made."""
        scenes = [(player, player.footage) for player in self.cast()]
        for i, (_, footage) in enumerate(scenes):
            if i < len(self.stages) and self.stages[i].knows(footage):
                continue
            aside = np.zeros(3)
            for old in self.stages[i : i + 1]:
                aside = old.aside
                old.remove()
            self.stages[i : i + 1] = [Stage(self.server.scene, footage, f"/motion-{i}")]
            self.stages[i].aside = aside
            if self.drag is not None:
                self.stages[i].on_drag(self.drag)
        while len(self.stages) > len(scenes):
            self.stages.pop().remove()
        self._set_apart()
        return scenes

    def _set_apart(self) -> None:
        """Two stages stand to the left and to the right of where one would stand, each with its name above it."""
        names = self.names()
        if names == self._named:
            return
        low, high = self.player.footage.box(self.player.follow)
        wide, reach = float((high - low) @ np.abs(self._right)), self.stages[0].reach
        gap = 1.15 * wide + 0.5 * reach
        if self._named:
            self.server.scene.remove_by_name("/names")
        for stage, name, side in zip(self.stages, names, SIDES, strict=False):
            stage.aside = side * gap * self._right
            above = stage.aside + np.array([*(0.5 * (low + high))[:2], high[2] + 0.15 * reach])
            self.server.scene.add_label(
                f"/names/{'left' if side < 0 else 'right'}", name, position=tuple(above), anchor="bottom-center"
            )
        if not names:
            self.stages[0].aside = np.zeros(3)
        elif not self._named:
            middle = 0.5 * (low + high) + 0.5 * sum(SIDES) * gap * self._right
            for number, client in self.server.get_clients().items():
                with contextlib.suppress(AssertionError):  # it has not yet said where it looks from
                    width = self.outlook.width(client.camera)
                    step_back(client.camera, middle, gap, wide, LETTER * max(map(len, names)), width)
                    self.outlook.keep(number, client.camera)
        self._named = names

    # -- the clock ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        last, charts = time.perf_counter(), 0.0
        due = last
        while not self._stop.wait(max(0.0, due - time.perf_counter())):
            now = time.perf_counter()
            passed, last = now - last, now
            due = next_beat(due, now, self.pace.rate)
            try:
                charts = self._beat(now, passed, charts)
            except Exception as error:  # a page that stands still without a word would be worse
                self.trouble = f"{type(error).__name__}: {error}"
                self.panel.status.value = f"this page failed: {self.trouble}"
                raise

    def _beat(self, now: float, passed: float, charts: float) -> float:
        """One frame; when the charts were drawn last."""
        for job in self.work:
            job(passed)
        first, *others = self.cast()
        first.tick(min(passed, 0.25))  # after a long pause of the machine time does not leap
        for other in others:  # whatever a hand does with the controls, it does with both
            other.go_with(first, min(passed, 0.25))
        if not self.server.get_clients() and self.frames:
            return charts
        if self.pace.waiting(self.frames):
            return charts
        self._draw()
        if now - charts > max(1 / CHARTS, 4 / self.pace.rate):
            self.panel.show()
            self._keep_in_sight(now - charts)
            self._number.content = f'<i data-carom-frame="{self.frames}"></i>'
            self.pace.sent(self.frames)
            return now
        return charts

    def _keep_in_sight(self, passed: float) -> None:
        """What plays does not leave the picture of those who have not chosen another one; what was still outside when it was paused
        comes in."""
        if not (self.player.playing or self._stepping) or self.held():
            return
        seen = [
            (centres + np.asarray(stage.frame.position), radii)
            for player, stage in zip(self.cast(), self.stages, strict=False)
            for centres, radii in [balls(player.footage, player.now)]
        ]
        centres, radii = (np.concatenate(part) for part in zip(*seen, strict=True))
        self._stepping = self.outlook.look(self.server.get_clients(), centres, radii, passed)

    def _draw(self) -> None:
        scenes = self._set_stages()
        with self.server.atomic():
            for (player, footage), stage in zip(scenes, self.stages, strict=True):
                stage.draw(footage, player.now, player.struck, self.panel.forces)
            self._follow()
        self.frames += 1

    def _follow(self) -> None:
        """What is followed stays where it was at the start; all the rest moves. Of two that are side by side each is followed."""
        body = self.player.follow
        for player, stage in zip(self.cast(), self.stages, strict=False):
            away = np.zeros(3)
            if body is not None:
                away = player.footage.centre(body, player.now) - self._home(body)
                away[2] = 0.0  # up and down is what one wants to see
            stage.shift(away)

    def _home(self, body: int) -> np.ndarray:
        if self._homes.get(body) is None:
            self._homes[body] = self.player.footage.centre(body, self.player.start)
        return self._homes[body]

    def _ending(self) -> None:
        self._clock.join(2.0)

    def __repr__(self) -> str:
        return f"<a live page of {self.player.footage.name!r}: {self.address}>"
