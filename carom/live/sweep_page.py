"""`carom sweep --live`: a map of the points that fills up as they are done, and a table of the last ones.

Each point is a column, as high and as bright as what was measured there; grey while it waits, red where it failed. A page is a
function of the sweep's store: `carom.sweep(…, watch=SweepPage("mine").show())`.
"""

import html
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from carom.errors import InputError
from carom.live.outlook import NARROW
from carom.live.served import ServedPage

GOOD = ("ok", "impacts_reached")
WAITING, FAILED = (150, 156, 162), (190, 50, 15)
ROWS = 12  #     of the table
RARELY = 5.0  #  times as long as a look at the store takes: until it looks again
HIGH = 0.3  #    of the larger side of the map: the highest column


@dataclass(frozen=True, eq=False)
class Map:
    """What there is so far, by the number of the point."""

    axes: dict[str, np.ndarray]  #      the values of each point, by name
    shape: tuple[int, int]  #           rows and columns of the map
    done: np.ndarray  #                 [m]
    status: np.ndarray  #               [m]
    numbers: dict[str, np.ndarray]  #   [m] each; nan where there is none

    @classmethod
    def of(cls, store: Any) -> "Map":
        if store.flat:
            side = int(np.ceil(np.sqrt(store.size)))
            axes, shape = dict(store.axes), (-(-store.size // side), side)
        else:
            mesh = np.meshgrid(*store.axes.values(), indexing="ij")
            axes = {name: values.ravel() for name, values in zip(store.axes, mesh, strict=True)}
            shape = (store.shape[0], store.size // store.shape[0]) if len(store.shape) > 1 else (1, store.size)
        data = store.read()
        if "done" not in data:
            nothing = np.zeros(store.size, bool)
            return cls(axes, shape, nothing, np.full(store.size, "", dtype=object), {})
        done = data["done"].values.ravel().astype(bool)
        single = [name for name, array in data.data_vars.items() if array.dims == store.dims and array.dtype.kind == "f"]
        return cls(axes, shape, done, data["status"].values.ravel(), {str(n): data[n].values.ravel() for n in single})


class SweepPage(ServedPage):
    """Call it with the store of a sweep, as often as you like: it looks as often as costs little, and once more in the end."""

    def __init__(self, title: str = "sweep", host: str = "127.0.0.1", port: int = 0):
        super().__init__(title, host, port)
        self.map: Map | None = None
        self.shown = ""  #     the measured number that the columns show
        self.columns: Any = None
        self._start, self._before = time.perf_counter(), 0
        self._again = 0.0
        self._lock = threading.Lock()
        gui = self.server.gui
        self.status = gui.add_text("status", "nothing yet", disabled=True, multiline=True, order=0)
        self.bar = gui.add_progress_bar(0.0, order=1)
        self.choice: Any = None
        self.table = gui.add_html("", order=3)
        self.server.on_client_connect(self._come)
        scene = self.server.scene  # soft light: colours mean something here
        scene.configure_default_lights(enabled=False)
        scene.configure_environment_map(hdri=None)
        scene.add_light_ambient("/light/all", intensity=2.2)
        scene.add_light_directional("/light/sun", intensity=0.9, position=(-1.0, -1.0, 2.0))

    def __call__(self, store: Any) -> None:
        if time.perf_counter() > self._again or self._complete(store):
            self.look(store)

    def look(self, store: Any) -> None:
        """Show what there is now."""
        start = time.perf_counter()
        with self._lock:
            first, self.map = self.map is None, Map.of(store)
            if first:
                self._before = int(np.sum(self.map.done))
                self._stand()
            self._offer()
            self._draw()
        now = time.perf_counter()
        self._again = now + RARELY * (now - start)

    @staticmethod
    def _complete(store: Any) -> bool:
        return store.group is not None and bool(np.all(store.group["done"][...]))

    # -- what is seen ------------------------------------------------------------------------------------------------

    def words(self) -> str:
        """How far it is, how fast, and how long it will take."""
        assert self.map is not None
        done, size = int(np.sum(self.map.done)), len(self.map.done)
        bad = int(np.sum(self.map.done & ~np.isin(self.map.status, GOOD)))
        rate = (done - self._before) / max(time.perf_counter() - self._start, 1e-9)
        left = f", {rate:,.1f}/s, {(size - done) / rate:,.0f} s left" if 0 < done < size and rate > 0 else ""
        left = left if done else ": workers start, and compile their programs"
        return f"{done:,} of {size:,} points{left}" + (f"\n{bad:,} did not come to their end" if bad else "")

    def _offer(self) -> None:
        """What can be shown: every single number that was measured."""
        assert self.map is not None
        names = tuple(self.map.numbers)
        if not names or self.choice is not None:
            return
        self.shown = "energy_error_max" if "energy_error_max" in names else names[0]
        self.choice = self.server.gui.add_dropdown("shown", names, initial_value=self.shown, order=2)
        self.choice.on_update(lambda event: self.show_number(event.target.value))

    def show_number(self, name: str) -> None:
        """Let the columns show another number."""
        with self._lock:
            if self.map is None or name not in self.map.numbers:
                raise InputError(f"{name!r} was not measured; there are {', '.join(self.map.numbers) if self.map else 'none yet'}")
            self.shown = name
            self._draw()

    def _stand(self) -> None:
        """The columns at their places, with the names of the axes at the edges, and somebody who looks at them."""
        assert self.map is not None
        rows, columns = self.map.shape
        count = len(self.map.done)
        self.places = np.stack([np.arange(count) % columns, np.arange(count) // columns, np.zeros(count)], axis=1)
        box = np.array([[x, y, z] for x in (-0.45, 0.45) for y in (-0.45, 0.45) for z in (0.0, 1.0)])
        faces = [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1]]
        faces += [[2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]]
        self.high = HIGH * max(rows, columns)
        self.columns = self.server.scene.add_batched_meshes_simple(
            "/map/points",
            box,
            np.array(faces),
            np.tile([1.0, 0.0, 0.0, 0.0], (count, 1)),
            self.places,
            batched_scales=np.ones((count, 3), np.float32),
            batched_colors=np.tile(np.array(WAITING, np.uint8), (count, 1)),
            lod="off",
            flat_shading=True,
        )
        self._name_axes(rows, columns)
        middle, away = np.array([0.5 * columns, 0.5 * rows, 0.0]), 1.6 * max(rows, columns, 3)
        self._seen = middle, away * np.array([0.0, -0.6, 0.85]), away * np.array([0.2, 0.0, 0.0])
        there, back, aside = self._seen
        camera = self.server.initial_camera
        camera.look_at, camera.up = tuple(there + aside), (0.0, 0.0, 1.0)  # the panel lies over the right of the page
        camera.position = tuple(there + aside + back)
        for client in self.server.get_clients().values():
            self._fit(client.camera, anyway=True)

    def _come(self, client: Any) -> None:
        """A page may say how wide it is before it stands where it is told to, or after."""
        self._fit(client.camera, anyway=True)
        client.camera.on_update(self._fit)

    def _fit(self, camera: Any, anyway: bool = False) -> None:
        """Who looks through a narrow page has the panel below: all of the map is in the middle, and a little smaller. One who came
        and has moved since stays there."""
        if self.map is None or not 0 < camera.image_width < NARROW:
            return
        there, back, aside = self._seen
        if anyway or np.allclose(camera.position, there + aside + back, atol=1e-3 * np.linalg.norm(back)):
            camera.position, camera.look_at = there + 1.3 * back, there

    def _name_axes(self, rows: int, columns: int) -> None:
        assert self.map is not None
        names = list(self.map.axes)
        ends = {name: (values[0], values[-1]) for name, values in self.map.axes.items()}
        told = [f"{name}: {low:.4g} … {high:.4g}" for name, (low, high) in ends.items()]
        across = told[:1] if len(names) == 1 else told[1:]
        along = told[:1] if len(names) > 1 else []
        self.sides = f"to the right: {', '.join(across)}" + (f"\naway from you: {along[0]}" if along else "")
        middle = 0.5 * (columns - 1)
        self.server.scene.add_label("/map/across", ", ".join(across), position=(middle, -1.0, 0.0), anchor="top-center")
        for text in along:
            self.server.scene.add_label("/map/along", text, position=(middle, rows, 0.0), anchor="bottom-center")

    def _draw(self) -> None:
        """One message for all columns."""
        assert self.map is not None
        colours, heights = painted(self.map, self.shown)
        scales = np.ones((len(heights), 3), np.float32)
        scales[:, 2] = self.high * heights
        with self.server.atomic():
            self.columns.batched_scales = scales
            self.columns.batched_colors = colours
        self.status.value = "\n".join(filter(None, [self.words(), self.sides, legend(self.map, self.shown)]))
        self.bar.value = 100.0 * float(np.mean(self.map.done))
        self.table.content = table(self.map, self.shown)


def measured(here: Map, values: np.ndarray) -> np.ndarray:
    """Which points came to their end and have a number."""
    return here.done & np.isin(here.status, GOOD) & np.isfinite(values)


def legend(here: Map, shown: str) -> str:
    """What the columns say: from what number on they are low and dark, and up to which high and bright."""
    values = here.numbers.get(shown, np.zeros(0))
    if not len(values) or not np.any(good := measured(here, values)):
        return ""
    low, high = float(values[good].min()), float(values[good].max())
    return f"{shown}: {low:.3g} (dark) … {high:.3g} (bright)" if high > low else f"{shown}: {low:.3g} everywhere"


def painted(here: Map, shown: str) -> tuple[np.ndarray, np.ndarray]:
    """The colours [m, 3] and the heights [m], from 0 to 1, of all points."""
    from matplotlib import colormaps

    colours = np.tile(np.array(WAITING, np.uint8), (len(here.done), 1))
    heights = np.full(len(here.done), 0.02)
    values = here.numbers.get(shown, np.full(len(here.done), np.nan))
    good = measured(here, values)
    if np.any(good):
        low, high = float(values[good].min()), float(values[good].max())
        share = (values[good] - low) / (high - low) if high > low else np.full(int(np.sum(good)), 0.5)
        colours[good] = np.round(255 * colormaps["viridis"](0.1 + 0.85 * share)[:, :3]).astype(np.uint8)
        heights[good] = 0.04 + 0.96 * share
    bad = here.done & ~good
    colours[bad] = FAILED
    return colours, heights


def breakable(name: str) -> str:
    """A name for a narrow column: as text, with breaks after its signs."""
    return html.escape(name).replace("_", "_<wbr>")


def table(here: Map, shown: str) -> str:
    """The last points that were done; whatever a person typed is text."""
    names = [*here.axes, *([shown] if shown else []), "status"]
    rows = []
    for i in np.flatnonzero(here.done)[-ROWS:][::-1]:
        cells = [f"{values[i]:.4g}" for values in here.axes.values()]
        cells += [f"{here.numbers[shown][i]:.3g}"] if shown else []
        rows.append([*cells, str(here.status[i]).replace("_", " ")])
    head = "".join(f'<th scope="col" style="text-align: left; padding-right: .4em">{breakable(name)}</th>' for name in names)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    style = "font-size: .8rem; width: 100%; padding: 0 .6em; font-variant-numeric: tabular-nums; box-sizing: border-box"
    count = f"{int(np.sum(here.done)):,}"
    return f'<table data-carom-done="{count}" style="{style}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
