"""From where one looks: at two side by side beside the panel, and at bodies that go far, which do not leave the picture."""

import contextlib
from typing import Any

import numpy as np

from carom.live.footage import Footage

PANEL = 350  # pixels of the width of a page that are the panel's,
NARROW = 576  # if it has at least so many
BACK = 0.05  # of its distance: how far a camera steps back in a moment while something is out of sight,
MOMENT = 1 / 8  # seconds; more of them where a page is drawn so slowly that it is looked after less often,
LONGEST = 0.4  # but no more than this at once
ENOUGH = 1e-6  # of what is wanted: nearer to it it stands still
FARTHEST = 8.0  # and in all, times its distance at first
TURNED, ZOOMED = 0.08, 0.15  # a camera that says so much else than it was told, of its distance, was moved by a hand


def step_back(camera: Any, middle: np.ndarray, gap: float, wide: float, letters: float, width: int) -> None:
    """So far that two stages `gap` apart, each so `wide` and with a name of so many pixels above it, are seen beside the panel,
    with `middle` in the middle of that; who stands far enough stays there. `width`: of the picture, in pixels of the page."""
    there, eye = np.asarray(camera.look_at), np.asarray(camera.position)
    free, width = free_width(width), max(width, 1)
    all_of_it = lambda away: 2 * away * np.tan(camera.fov / 2) * camera.image_width / max(camera.image_height, 1)  # noqa: E731
    away = float(np.linalg.norm(eye - there))
    needed = max(
        1.08 * (gap + wide) / free, gap / max(free - letters, 0.25 * free)
    )  # of the length in which things are measured, a pixel
    far = max(away, away * needed * width / all_of_it(away))
    ahead = (there - eye) / away
    right = np.cross(ahead, camera.up_direction)
    right = right / max(float(np.linalg.norm(right)), 1e-12)
    aim = there + right * (float((middle - there) @ right) + 0.5 * (1 - free / width) * all_of_it(far))
    camera.position, camera.look_at = aim - far * ahead, aim


def free_width(width: int) -> float:
    """How much of a page the panel leaves; where the page is narrow the panel lies below."""
    return max(width - PANEL, 0.4 * width) if width >= NARROW else width


def balls(footage: Footage, now: float) -> tuple[np.ndarray, np.ndarray]:
    """All that moves as centres [n, 3] and radii [n]."""
    i, j, w = footage.frame(now)
    solids = [s for s in footage.solids if s.body >= 0]
    centres = [(1 - w) * s.places[i] + w * s.places[j] for s in solids]
    radii = [float(np.max(np.linalg.norm(s.vertices, axis=1))) for s in solids]
    for piece in (piece for piece in footage.loose if piece.body >= 0):
        centres += list((1 - w) * piece.points[i] + w * piece.points[j])
        radii += [0.0] * piece.points.shape[1]
    return np.array(centres).reshape(-1, 3), np.array(radii)


def excess(camera: Any, centres: np.ndarray, radii: np.ndarray, width: int = 0) -> float:
    """How many times as far one would have to stand, at least about, to see all of it: at most 1 where all of it is seen. `width`:
    of the picture, in pixels of the page; those of the camera, where it is 0."""
    width = width or int(camera.image_width)
    eye, there = np.asarray(camera.position), np.asarray(camera.look_at)
    ahead = (there - eye) / max(float(np.linalg.norm(there - eye)), 1e-12)
    right = np.cross(ahead, camera.up_direction)
    right = right / max(float(np.linalg.norm(right)), 1e-12)
    up = np.cross(right, ahead)
    seen = centres - eye
    x, y, z = seen @ right, seen @ up, np.maximum(seen @ ahead, 1e-9)
    high = np.tan(camera.fov / 2)
    wide = high * camera.image_width / max(camera.image_height, 1)
    inside = 2 * free_width(width) / max(width, 1) - 1  # the right edge of what the panel leaves, from −1 to 1
    near = lambda slope: radii * np.sqrt(1 + slope**2)  # noqa: E731  a ball ends where the edge of what is seen touches it
    sides = np.stack([(near(wide) - x) / (wide * z), (near(high) + np.abs(y)) / (high * z)])
    sides = np.concatenate([sides, [(x + near(wide * inside)) / (wide * z * inside) if inside > 0 else sides[0] * 0]])
    return float(np.max(sides, initial=0.0))


class Outlook:
    """Steps back with the cameras that nobody has touched, little by little, while something is out of sight.

    A camera is looked after once it stands where the page wants it at first (`home`: its aim, and where it is); one that is then
    turned, moved or zoomed by a hand is left alone."""

    def __init__(self) -> None:
        self.home = (np.zeros(3), np.zeros(3))
        self.pages: dict[str, tuple[int, int]] = {}  # how large pages say that their pictures are, in pixels of the page
        self._kept: dict[
            int, tuple[np.ndarray, np.ndarray, float]
        ] = {}  # where a camera aims, from which side, from how far at first,
        self._away: dict[int, tuple[float, float]] = {}  #                  and, as it was told, a moment ago and now
        self._touched: set[int] = set()

    def width(self, camera: Any) -> int:
        """Of a picture in pixels of its page. A camera counts those that are drawn: half as many where a processor draws, and twice
        as many on a fine screen; the panel is as wide as ever."""
        shape = camera.image_width / max(camera.image_height, 1)
        found = [wide for wide, high in self.pages.values() if abs(wide - shape * high) < 0.01 * wide]
        return found[-1] if found else camera.image_width

    def look(self, clients: dict[int, Any], centres: np.ndarray, radii: np.ndarray, passed: float = MOMENT) -> bool:
        """Whether any of them has stepped back; `passed`: seconds since it was asked before."""
        stepped = False
        for number, client in clients.items():
            if number not in self._touched:
                with contextlib.suppress(AssertionError), client.atomic():  # it may not yet have said where it looks from
                    stepped |= self._one(number, client.camera, centres, radii, min(BACK * passed / MOMENT, LONGEST))
        return stepped

    def keep(self, number: int, camera: Any) -> None:
        """A camera stands where it should."""
        there, side, away = _stands(camera.look_at, camera.position)
        self._kept[number], self._away[number] = (there, side, away), (away, away)

    def _one(self, number: int, camera: Any, centres: np.ndarray, radii: np.ndarray, back: float) -> bool:
        there, side, away = _stands(camera.look_at, camera.position)
        if number not in self._kept:
            if not _moved((there, side, away), _stands(*self.home)):
                self.keep(number, camera)
            return False
        aim, from_where, first = self._kept[number]
        before, last = self._away[number]
        if _moved((there, side, away), (aim, from_where, float(np.clip(away, before, last)))):  # it may not have heard the last yet
            self._touched.add(number)
        elif last < FARTHEST * first and (more := excess(camera, centres, radii, self.width(camera))) > 1 + ENOUGH:
            self._away[number] = last, last * min(1 + back, more)
            camera.position, camera.look_at = there + self._away[number][1] * side, there  # the aim follows the position
            return True
        return False


def _stands(look_at: Any, position: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """Where a camera aims, from which side, and from how far."""
    there, eye = np.asarray(look_at, float), np.asarray(position, float)
    away = float(np.linalg.norm(eye - there))
    return there, (eye - there) / max(away, 1e-12), away


def _moved(now: tuple[np.ndarray, np.ndarray, float], before: tuple[np.ndarray, np.ndarray, float]) -> bool:
    """Whether a camera was moved, by more than its page has asked for in the moment that it takes to say so."""
    aside = np.linalg.norm(now[0] - before[0]) > TURNED * now[2] or np.linalg.norm(now[1] - before[1]) > TURNED
    return bool(aside or abs(now[2] / max(before[2], 1e-12) - 1) > ZOOMED)
