"""A film of bodies as an animated GIF: solids with light and shadow, drawn from the back to the front; no window, no graphics card.

Bodies in space are seen from afar (no perspective), lit by one light, and throw their shadow on the floor if there is one: so one
sees what touches. Round bodies are painted in sectors: so one sees them turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from carom.calls import public
from carom.drawing import Film, Part, moving
from carom.errors import InputError

PAPER, FLOOR, SHADOW, INK = (250, 250, 248), (232, 232, 228), (200, 200, 198), (40, 44, 52)
COLOURS = ((66, 110, 180), (214, 120, 60), (90, 150, 90), (180, 80, 90), (130, 110, 170), (150, 140, 90))
LIGHT = np.array([0.35, -0.45, 0.82])
FINE = 2  #       pictures are drawn so many times larger, then shrunk
ROUND = 60  #     a mesh of more triangles is a round body
MARGIN = 0.08  #  around the motion


@public
def save_film(
    film: Film,
    path: str | Path,
    *,
    seconds: float = 5.0,
    fps: int = 15,
    width: int = 360,
    view: tuple[float, float] = (-60.0, 20.0),
) -> Path:
    """Write the film as *.gif: so many seconds long, whatever time it shows. `view`: azimuth and elevation in degrees, in space."""
    path = Path(path)
    if path.suffix.lower() != ".gif":
        raise InputError(f"a film of bodies is saved as *.gif; got {str(path)!r}")
    if not (seconds > 0 and fps >= 1 and width >= 16):
        raise InputError(f"a film needs seconds > 0, fps ≥ 1 and width ≥ 16; got {seconds}, {fps} and {width}")
    pictures = film_pictures(film, max(2, round(seconds * fps)), width=width, view=view)
    path.parent.mkdir(parents=True, exist_ok=True)
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=round(1000 / fps), loop=0, optimize=True)
    return path


def film_pictures(film: Film, count: int, *, width: int = 360, view: tuple[float, float] = (-60.0, 20.0)) -> list[Any]:
    """So many pictures of the film, evenly spread, as PIL images."""
    stage = _Stage.around(film, width, view)
    return [stage.picture(film.at(float(t))) for t in np.linspace(film.t[0], film.t[-1], count)]


def still(film: Film, t: float, *, width: int = 360, view: tuple[float, float] = (-60.0, 20.0)) -> Any:
    """One picture of the film, as a PIL image."""
    return _Stage.around(film, width, view).picture(film.at(t))


@dataclass(frozen=True)
class _Stage:
    """From points of the film to places in the picture."""

    film: Film
    axes: np.ndarray  #   [3, dim]  right, up, towards the eye
    low: np.ndarray  #    [2]       what is seen, along the first two
    high: np.ndarray
    width: int
    floor: float | None  # the height of a horizontal floor

    @classmethod
    def around(cls, film: Film, width: int, view: tuple[float, float]) -> "_Stage":
        azimuth, elevation = np.radians(view)
        if film.dim == 2:
            axes = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
        else:
            eye = np.array([np.cos(azimuth) * np.cos(elevation), np.sin(azimuth) * np.cos(elevation), np.sin(elevation)])
            right = np.array([-np.sin(azimuth), np.cos(azimuth), 0.0])
            axes = np.stack([right, np.cross(eye, right), eye])
        seen = np.concatenate([film.track(i).reshape(-1, film.dim) for i in moving(film.parts)]) @ axes[:2].T
        low, high = seen.min(axis=0), seen.max(axis=0)
        span = max(float(np.max(high - low)), 1e-12)
        high, low = high + MARGIN * span, low - MARGIN * span
        least = 0.45 * (high[0] - low[0])  # not too flat a picture
        if high[1] - low[1] < least:
            high[1] = low[1] + least
        return cls(film, axes, low, high, width, _floor(film.parts))

    @property
    def scale(self) -> float:
        return FINE * self.width / float(self.high[0] - self.low[0])

    def place(self, points: np.ndarray) -> np.ndarray:
        """In pixels of the large picture, from the upper left corner."""
        flat = points @ self.axes[:2].T
        return np.stack([flat[..., 0] - self.low[0], self.high[1] - flat[..., 1]], axis=-1) * self.scale

    def picture(self, points: np.ndarray) -> Any:
        from PIL import Image, ImageDraw

        height = int(np.ceil(self.width * (self.high[1] - self.low[1]) / (self.high[0] - self.low[0])))
        image = Image.new("RGB", (FINE * self.width, FINE * height), PAPER)
        pen = ImageDraw.Draw(image)
        parts = [(part, points[a:b]) for part, a, b in zip(self.film.parts, self.film.starts, self.film.starts[1:], strict=False)]
        if self.film.dim == 2:
            _draw_flat(pen, self, parts)
        else:
            _draw_solid(pen, self, parts)
        return image.resize((self.width, height), Image.Resampling.LANCZOS).quantize(64)


def _floor(parts: Sequence[Part]) -> float | None:
    """The height of the first fixed, horizontal square: the floor of a world in space."""
    for part in parts:
        if part.fixed and part.kind == "mesh" and len(part.points) == 4 and np.ptp(part.points[:, 2]) < 1e-12:
            return float(part.points[0, 2])
    return None


def _draw_flat(pen: Any, stage: _Stage, parts: Sequence[tuple[Part, np.ndarray]]) -> None:
    number = 0
    for part, points in parts:
        at = stage.place(points)
        if part.kind == "wall":
            along = (at[1] - at[0]) / max(float(np.linalg.norm(at[1] - at[0])), 1e-12) * 4 * FINE * stage.width
            pen.line([tuple(at[0] - along), tuple(at[0] + along)], fill=INK, width=2 * FINE)
            continue
        colour = (170, 170, 166) if part.fixed else COLOURS[number % len(COLOURS)]
        number += not part.fixed
        rim, spoke = at, None
        if len(at) > 3 and not np.allclose(at[0], at[-1]) and np.allclose(at[1], at[-1]):  # a disc: its middle, then its rim
            rim, spoke = at[1:], at[:2]
        pen.polygon([tuple(p) for p in rim], fill=colour, outline=INK)
        if spoke is not None:
            pen.line([tuple(p) for p in spoke], fill=INK, width=FINE)


def _draw_solid(pen: Any, stage: _Stage, parts: Sequence[tuple[Part, np.ndarray]]) -> None:
    """Floor, shadows, then all triangles from the back to the front."""
    corners, colours = [], []
    number = 0
    for i, (part, points) in enumerate(parts):
        if part.kind != "mesh" or part.triangles is None:
            if part.kind == "line":
                pen.line([tuple(p) for p in stage.place(points)], fill=INK, width=FINE)
            continue
        if part.fixed and len(points) == 4:
            pen.polygon([tuple(p) for p in stage.place(_shrunk(points, stage))], fill=FLOOR)
            continue
        paint = _painted(stage.film.parts[i], (170, 170, 166) if part.fixed else COLOURS[number % len(COLOURS)])
        lids = _lids(part.triangles)
        corners += [points[part.triangles], points[lids]]
        colours += [paint, np.tile(paint[0], (len(lids), 1))]
        number += not part.fixed
    if not corners:
        return
    every, paint = np.concatenate(corners), np.concatenate(colours)
    if stage.floor is not None:
        below = every - (every[..., 2:] - stage.floor) / LIGHT[2] * LIGHT
        for triangle in stage.place(below):
            pen.polygon([tuple(p) for p in triangle], fill=SHADOW)
    normal = np.cross(every[:, 1] - every[:, 0], every[:, 2] - every[:, 0])
    size = np.linalg.norm(normal, axis=1, keepdims=True)
    normal = normal / np.where(size > 0, size, 1.0)
    normal = normal * np.where(normal @ stage.axes[2] < 0, -1.0, 1.0)[:, None]  # the side that is seen
    shade = 0.55 + 0.45 * np.clip(normal @ (LIGHT / np.linalg.norm(LIGHT)), 0, 1)
    lit = np.clip(paint * shade[:, None], 0, 255).astype(int)
    order = np.argsort(every.mean(axis=1) @ stage.axes[2], kind="stable")
    flat = stage.place(every)
    for k in order:
        pen.polygon([tuple(p) for p in flat[k]], fill=tuple(lit[k]))


def _shrunk(points: np.ndarray, stage: _Stage) -> np.ndarray:
    """As much of a large floor as lies around the motion: with an edge, so that one sees where it is."""
    seen = np.concatenate([stage.film.track(i).reshape(-1, 3) for i in moving(stage.film.parts)])
    low, high = seen[:, :2].min(axis=0), seen[:, :2].max(axis=0)
    more = 0.25 * float(np.max(high - low))
    (a, b), (c, d) = low - more, high + more
    square = np.array([(a, b), (c, b), (c, d), (a, d)])
    return np.column_stack([square, np.full(4, points[0, 2])]) if np.ptp(points[:, 2]) < 1e-12 else points


def _painted(part: Part, colour: tuple[int, int, int]) -> np.ndarray:
    """The colours of the triangles [m, 3]: one, or two that alternate in eighths of a round body."""
    assert part.triangles is not None
    paint = np.tile(np.array(colour, float), (len(part.triangles), 1))
    if len(part.triangles) > ROUND:
        middle = part.points[part.triangles].mean(axis=1) - part.points.mean(axis=0)
        half = len(middle) // 2
        if len(middle) == 2 * half:  # two triangles to a tile, in two halves: a tile has one colour
            middle = np.tile(0.5 * (middle[:half] + middle[half:]), (2, 1))
        paint[np.prod(np.sign(middle), axis=1) < 0] *= 0.72
    return paint


def _lids(triangles: np.ndarray) -> np.ndarray:
    """Fans that close the holes of a mesh [m, 3]: rings of edges that belong to one triangle only."""
    edges = {(int(t[k]), int(t[(k + 1) % 3])) for t in triangles for k in range(3)}
    after = {a: b for a, b in edges if (b, a) not in edges}
    fans = []
    while after:
        first, here = after.popitem()
        ring = [first]
        while here in after:
            ring.append(here)
            here = after.pop(here)
        fans += [(ring[0], ring[k], ring[k + 1]) for k in range(1, len(ring) - 1)]
    return np.array(fans, int).reshape(-1, 3)
