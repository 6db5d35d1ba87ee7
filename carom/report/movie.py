"""The motion as a film by matplotlib: GIF with nothing more installed, MP4 with ffmpeg, a player in notebooks."""

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.animation import FFMpegWriter, FuncAnimation, PillowWriter
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from carom.drawing import Film
from carom.errors import InputError
from carom.report.plots import COLOURS, STYLE, draw_part
from carom.report.view import view_of
from carom.results.places import file_path
from carom.results.solution import Solution
from carom.running.options import number, whole
from carom.running.progress import Bar

WRITERS = {".gif": PillowWriter, ".mp4": FFMpegWriter}
_BUTTONS = {
    "fa-minus": "−",
    "fa-fast-backward": "⏮",
    "fa-step-backward": "◂|",
    "fa-play fa-flip-horizontal": "◀",
    "fa-play": "▶",
    "fa-pause": "❚❚",
    "fa-step-forward": "|▸",
    "fa-fast-forward": "⏭",
    "fa-plus": "+",
}
FLASH = 0.12  # seconds of the film for which an impact is seen


class Movie(FuncAnimation):
    """A matplotlib animation that notebooks show with a player."""

    def _repr_html_(self) -> str:
        """The player of matplotlib, without the letters that it would fetch from the network for its buttons."""
        page = re.sub(r"<link[^>]*>", "", self.to_jshtml())
        return re.sub(r'<i class="fa ([\w -]+)"></i>', lambda found: _BUTTONS.get(found[1], "•"), page)


def animate(
    solution: Solution,
    path: str | Path | None = None,
    *,
    start: float | None = None,
    stop: float | None = None,
    speed: float | None = None,
    fps: int = 25,
    width: float = 7.0,
    follow: Any = None,
    progress: bool | Callable[[int, int], Any] | None = None,
) -> Movie:
    """The motion from time `start` to `stop`, `speed` times as fast as it is (by default at most ten seconds of film).

    Bodies light up at every impact, also at those that fall between two pictures. Of a world, contact forces are arrows, what has a
    floor throws a shadow, and the view may `follow` a body, by its handle or name. `progress`: a bar on stderr while it is written;
    by default when that is a terminal and it takes longer than a second. A function is told instead, after each picture, how many
    there are and how many there will be.
    """
    if path is not None:
        path = file_path(path, "run.gif")
        check_path(path)
    reel = _film(solution)
    begin = float(solution.t[0]) if start is None else number(start, "start")
    end = float(solution.t[-1]) if stop is None else number(stop, "stop")
    fps, width = whole(fps, "fps", of=" of pictures in a second"), number(width, "width")
    if not end > begin:
        raise InputError(f"a film needs start < stop; got {begin:g} and {end:g}")
    speed = max(1.0, (end - begin) / 10) if speed is None else number(speed, "speed")
    for name, value in {"speed": speed, "width": width}.items():
        if not value > 0:
            raise InputError(f"{name} must be positive; got {value:g}")
    times = np.append(np.arange(begin, end, speed / fps), end)
    with matplotlib.rc_context(STYLE):
        stage = _Stage(reel, solution, width, _followed(reel, follow))
        stage.show(times[0])
        pace = FLASH * speed
        film = Movie(
            stage.figure, lambda t: stage.show(t, pace), frames=times, interval=1000 / fps, blit=False, cache_frame_data=False
        )
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with Bar(False if callable(progress) else progress) as bar:

                def watch(i: int, _: Any) -> None:
                    bar.update((i + 1) / len(times), path.name, i + 1)
                    if callable(progress):
                        progress(i + 1, len(times))

                film.save(path, writer=WRITERS[path.suffix.lower()](fps=fps), dpi=100, progress_callback=watch)
    return film


def _film(solution: Solution) -> Film:
    if solution.film is None:
        raise InputError("this run has no picture: pass shape= to solve (see carom.drawing)")
    return solution.film


def _followed(reel: Film, body: Any) -> list[int]:
    """The parts of the body that the view follows; none where it does not."""
    if body is None:
        return []
    name = getattr(body, "name", body)
    parts = [i for i, part in enumerate(reel.parts) if part.name == name]
    if not parts:
        names = sorted({part.name for part in reel.parts if part.name})
        raise InputError(f"there is no body {name!r} to follow; there are {', '.join(map(repr, names)) or 'none with names'}")
    return parts


def check_path(path: Path) -> None:
    if path.suffix.lower() not in WRITERS:
        raise InputError(f"a film is saved as {' or '.join('*' + s for s in WRITERS)}; got {str(path)!r}")
    if path.suffix.lower() == ".mp4" and shutil.which("ffmpeg") is None:
        raise InputError("*.mp4 needs the program ffmpeg: install it, or save as *.gif")


class _Stage:
    """The figure, and how it changes with time."""

    def __init__(self, reel: Film, solution: Solution, width: float, followed: Sequence[int] = ()):
        self.reel, self.solution, self.view, self.followed = reel, solution, view_of(reel), followed
        self.forces: list[Any] = []
        low, high = np.array(self.view.low), np.array(self.view.high)
        flat = reel.dim == 2
        size = high - low
        if flat and self.view.follow:  # a window twice as wide as it is high
            d = self.view.long
            size[d] = 2.0 * size[1 - d] if d == 0 else size[1 - d]
        height = float(np.clip(width * size[1] / size[0], 0.25 * width, 1.1 * width)) if flat else width
        self.figure = Figure(figsize=(width, height + 0.5), layout="constrained")
        FigureCanvasAgg(self.figure)
        self.axis: Any = self.figure.subplots() if flat else self.figure.add_subplot(projection="3d")
        self.size, self.low, self.high = size, low, high
        self.artists: list[Any] = [None] * len(reel.parts)
        self.axis.set_aspect("equal", adjustable="box") if flat else self.axis.set_box_aspect(size)
        for name, a, b in zip("xyz", low, high, strict=False):
            getattr(self.axis, f"set_{name}lim")(a, b)

    def show(self, t: float, flash: float = 0.0) -> list[Any]:
        points, reel = self.reel.at(float(t)), self.reel
        struck = bool(np.any((self.solution.impacts.t > t - flash) & (self.solution.impacts.t <= t)))
        for i, part in enumerate(reel.parts):
            here = points[reel.starts[i] : reel.starts[i + 1]]
            artist = self.artists[i]
            if artist is not None and part.kind in ("line", "dots"):
                artist.set_data(*here.T[:2])
                if reel.dim == 3:
                    artist.set_3d_properties(here[:, 2])
            else:
                if artist is not None:
                    artist.remove()
                self.artists[i] = artist = draw_part(self.axis, part, here)
            if not part.fixed:
                artist.set_color(COLOURS[0] if struck else COLOURS[1])
        self._show_forces(t)
        if self.followed:
            self._look_at(np.concatenate([points[reel.starts[i] : reel.starts[i + 1]] for i in self.followed]))
        elif self.view.follow:
            d = self.view.long
            body = [points[reel.starts[i] : reel.starts[i + 1], d] for i, part in enumerate(reel.parts) if not part.fixed]
            middle = float(np.mean(np.concatenate(body)))
            (self.axis.set_ylim if d else self.axis.set_xlim)(middle - self.size[d] / 2, middle + self.size[d] / 2)
        count = int(np.sum(self.solution.impacts.t <= t))
        self.axis.set_title(f"{self.solution.name}   t = {t:.2f}   impacts: {count}", loc="left", fontsize=10)
        return [a for a in self.artists if a is not None]

    def _show_forces(self, t: float) -> None:
        """Contact forces as arrows."""
        for artist in self.forces:
            artist.remove()
        self.forces = []
        if self.reel.arrows is None:
            return
        start, end = self.reel.arrows.of(self.reel.frame_at(float(t)))
        if len(start) == 0:
            return
        style: dict[str, Any] = {"color": COLOURS[0], "zorder": 5}
        if self.reel.dim == 3:
            self.forces = [self.axis.quiver(*start.T, *(end - start).T, arrow_length_ratio=0.25, linewidth=1.5, **style)]
        else:
            along = {"angles": "xy", "scale_units": "xy", "scale": 1.0, "width": 0.004}
            self.forces = [self.axis.quiver(*start.T, *(end - start).T, **along, **style)]

    def _look_at(self, body: np.ndarray) -> None:
        """A window around a body, four times as large as it or as much as there is."""
        whole = self.high - self.low
        share = min(1.0, 4 * float(np.max(np.ptp(body, axis=0))) / float(np.max(whole)))
        middle = 0.5 * (body.min(axis=0) + body.max(axis=0))
        for name, c, size in zip("xyz", middle, whole, strict=False):
            getattr(self.axis, f"set_{name}lim")(c - 0.5 * share * size, c + 0.5 * share * size)
