"""How a system looks: lines, points, walls and meshes as functions of its configuration.

A *shape* is a function of any of `q, t, params` (by name) that returns the parts of a picture, always the same parts in the same
order; only their points move. Pass it as `carom.solve(..., shape=...)`, or give it to a `Model`: plots, animations and reports draw
what it returns. A part is

- an array `[k, 2]` or `[k, 3]`: a line through k points (a closed one is filled), or a dot where k is 1;
- `dots(points)`: k dots;
- `wall(a, b)`: the endless straight line through two points of the plane;
- `mesh(vertices, triangles)`: a surface in space; `plane(point, normal)`: a floor in space;
- any of them with `fixed=True`: scenery, drawn behind what moves.

    def shape(q, params):
        return [disk(q[0], q[1], params["radius"]), wall((0, 0), (1, 0))]

All parts of one picture lie in the plane, or all in space.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from carom.errors import InputError
from carom.named import Named

KINDS = ("line", "dots", "wall", "mesh")
FEWEST_FRAMES, MOST_FRAMES, MOST_NUMBERS = 120, 20_000, 1_500_000  # of a film


@dataclass(frozen=True)
class Part:
    """One part of a picture."""

    points: np.ndarray  #                    [k, 2] or [k, 3]
    kind: str = "line"  #                    one of KINDS
    fixed: bool = False  #                   scenery
    triangles: np.ndarray | None = None  #   [m, 3] indices of points, of a mesh
    endless: bool = False  #                 a plane: as large as the motion needs
    name: str = ""  #                        whose it is, where there are several bodies


def line(points: Any, fixed: bool = False) -> Part:
    """A line through points; filled if it ends where it starts (in the plane)."""
    return Part(_points(points), "line", fixed)


def dots(points: Any, fixed: bool = False) -> Part:
    return Part(_points(points), "dots", fixed)


def wall(a: Any, b: Any) -> Part:
    """The endless straight line through a and b: a floor, a wall. It belongs to the scenery."""
    return Part(_points([a, b]), "wall", True)


def plane(point: Any, normal: Any) -> Part:
    """The endless plane through a point of space: a floor. A film shows as much of this scenery as it needs."""
    middle = _points(point)[0]
    u, v = _across(np.asarray(normal, float))
    return Part(middle + np.stack([-u - v, u - v, u + v, v - u]), "mesh", True, np.array([[0, 1, 2], [0, 2, 3]]), True)


def _across(normal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two unit vectors that span the plane with this normal."""
    if normal.shape != (3,) or not np.linalg.norm(normal) > 0:
        raise InputError(f"a plane needs a normal of three numbers that are not all zero; got {normal}")
    u = np.cross(normal, np.eye(3)[np.argmin(np.abs(normal))])
    u = u / np.linalg.norm(u)
    v = np.cross(normal, u)
    return u, v / np.linalg.norm(v)


def mesh(vertices: Any, triangles: Any, fixed: bool = False) -> Part:
    """A surface in space: triangles hold three indices of vertices each."""
    corners, faces = _points(vertices), np.asarray(triangles, int)
    if corners.shape[1] != 3 or faces.ndim != 2 or faces.shape[1] != 3:
        raise InputError(f"a mesh needs vertices [k, 3] and triangles [m, 3]; got {corners.shape} and {faces.shape}")
    if faces.size and (faces.min() < 0 or faces.max() >= len(corners)):
        raise InputError(f"a triangle of the mesh names vertex {faces.max()}; there are {len(corners)}")
    return Part(corners, "mesh", fixed, faces)


def disk(x: float, y: float, radius: Any) -> np.ndarray:
    """A circle as an outline to draw."""
    angle = np.linspace(0, 2 * np.pi, 49)
    return np.stack([x + float(radius) * np.cos(angle), y + float(radius) * np.sin(angle)], axis=1)


def _points(value: Any) -> np.ndarray:
    try:
        points = np.atleast_2d(np.asarray(value, float))
    except (TypeError, ValueError) as error:
        raise InputError(f"a part of a picture must be an array [k, 2] or [k, 3] of points; got {value!r}") from error
    if points.ndim != 2 or points.shape[1] not in (2, 3):
        raise InputError(f"a part of a picture must be an array [k, 2] or [k, 3] of points; got shape {np.shape(value)}")
    return points


def picture(shape: Callable[..., Any] | Named, q: Any, t: float, params: Any) -> list[Part]:
    """The parts at one configuration."""
    shape = shape if isinstance(shape, Named) else Named(shape, ("q", "t", "params"), "shape")
    parts: list[Part] = []
    try:
        items = list(shape(q=q, t=t, params=params))
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"the shape fails with {type(error).__name__}: {error}. It returns a list of parts") from error
    for item in items:
        if isinstance(item, Part):
            parts.append(item)
        else:
            points = _points(item)
            parts.append(Part(points, "dots" if len(points) == 1 else "line"))
    if len({part.points.shape[1] for part in parts}) != 1:
        raise InputError("a shape must return at least one part, and all of them in the plane or all in space")
    return parts


@dataclass(frozen=True)
class Arrows:
    """Arrows that come and go, as contact forces do: a row each, in the order of the frames that they belong to."""

    frame: np.ndarray  #  [m]
    start: np.ndarray  #  [m, 2 or 3]
    end: np.ndarray  #    [m, 2 or 3]

    def of(self, frame: int) -> tuple[np.ndarray, np.ndarray]:
        """Where those of a frame start and end."""
        a, b = np.searchsorted(self.frame, [frame, frame + 1])
        return self.start[a:b], self.end[a:b]


@dataclass(frozen=True)
class Film:
    """A picture at many times: the points of all parts in one array."""

    t: np.ndarray  #             [frames]
    points: np.ndarray  #        [frames, points, 2 or 3]
    parts: tuple[Part, ...]  #   at the first time: what each is
    starts: tuple[int, ...]  #   where in `points` each part starts, and the end of the last
    arrows: Arrows | None = None

    @property
    def dim(self) -> int:
        return self.points.shape[2]

    def track(self, i: int) -> np.ndarray:
        """The points of part i at all times."""
        return self.points[:, self.starts[i] : self.starts[i + 1]]

    def at(self, t: float) -> np.ndarray:
        """All points at any time, straight between the frames."""
        j = int(np.clip(np.searchsorted(self.t, t, side="right"), 1, max(len(self.t) - 1, 1)))
        if len(self.t) == 1:
            return self.points[0]
        span = self.t[j] - self.t[j - 1]
        w = float(np.clip((t - self.t[j - 1]) / span, 0.0, 1.0)) if span > 0 else 1.0
        return (1 - w) * self.points[j - 1] + w * self.points[j]

    def part(self, frame: int, i: int) -> np.ndarray:
        return self.points[frame, self.starts[i] : self.starts[i + 1]]

    def frame_at(self, t: float) -> int:
        """The last frame that is not later than t."""
        return max(int(np.searchsorted(self.t, t, side="right")) - 1, 0)

    @property
    def floor(self) -> tuple[np.ndarray, np.ndarray] | None:
        """A point and the normal of the endless plane that lies most level: what throws a shadow throws it there."""
        best, found = 0.5, None
        for i, part in enumerate(self.parts):
            if self.dim == 3 and part.endless and part.fixed:
                corners = self.part(0, i)
                normal = np.cross(corners[1] - corners[0], corners[3] - corners[0])
                normal = normal / np.linalg.norm(normal)
                if abs(normal[2]) > best:
                    best, found = abs(normal[2]), (corners[0], normal * np.sign(normal[2]))
        return found


def film(shape: Callable[..., Any], t: np.ndarray, q: np.ndarray, params: Any) -> Film:
    """The picture at the given times and configurations."""
    named = Named(shape, ("q", "t", "params"), "shape")
    params = _plain(params)
    first = picture(named, q[0], float(t[0]), params)
    sizes = [len(part.points) for part in first]
    points = np.empty((len(t), sum(sizes), first[0].points.shape[1]))
    for i in range(len(t)):
        parts = picture(named, q[i], float(t[i]), params)
        if [len(part.points) for part in parts] != sizes:
            raise InputError(f"the shape returned other parts at t = {t[i]:g} than at the start: only the points may move")
        points[i] = np.concatenate([part.points for part in parts])
    return wide_enough(Film(t, points, tuple(first), tuple(np.cumsum([0, *sizes]).tolist())))


def wide_enough(reel: Film) -> Film:
    """The film with its endless planes as large as the motion needs."""
    for i, part in enumerate(reel.parts):
        if part.endless:
            reel.track(i)[:] = _enough(part, reel)
    parts = tuple(replace(p, points=reel.part(0, i)) if p.endless else p for i, p in enumerate(reel.parts))
    return replace(reel, parts=parts)


def _enough(part: Part, reel: Film) -> np.ndarray:
    """The corners of as much of a plane as lies under the motion, and a little more."""
    seen = np.concatenate([reel.track(i).reshape(-1, 3) for i in moving(reel.parts) if not reel.parts[i].endless] or [part.points])
    origin = part.points.mean(axis=0)
    u, v = part.points[1] - part.points[0], part.points[3] - part.points[0]
    axes = np.stack([u / np.linalg.norm(u), v / np.linalg.norm(v)])
    along = (seen - origin) @ axes.T
    margin = 0.15 * max(float(np.max(np.ptp(along, axis=0))), 1e-9)
    (a, b), (c, d) = along.min(axis=0) - margin, along.max(axis=0) + margin
    return origin + np.array([[a, b], [c, b], [c, d], [a, d]]) @ axes


def film_of_run(
    shape: Callable[..., Any],
    t: np.ndarray,
    q: np.ndarray,
    params: Any,
    t_hit: np.ndarray,
    q_hit: np.ndarray,
    most: int = MOST_FRAMES,
) -> Film:
    """A film of a run: its grid, thinned to a bounded amount of data (and to `most` frames), and its impacts."""
    parts = picture(shape, q[0], float(t[0]), params)
    most = max(FEWEST_FRAMES, min(most, MOST_NUMBERS // sum(part.points.size for part in parts)))
    good = np.flatnonzero(np.all(np.isfinite(q), axis=1))
    chosen = good[np.unique(np.linspace(0, len(good) - 1, most).astype(int))]
    hits = np.unique(np.linspace(0, len(t_hit) - 1, most).astype(int)) if len(t_hit) else np.zeros(0, int)
    times, places = np.concatenate([t[chosen], t_hit[hits]]), np.concatenate([q[chosen], q_hit[hits]])
    order = np.argsort(times, kind="stable")
    return film(shape, times[order], places[order], params)


def _plain(params: Any) -> Any:
    """Numbers of the host: a shape is plain numpy, and reading a device array thousands of times is slow."""
    if isinstance(params, dict):
        return {key: _plain(value) for key, value in params.items()}
    if isinstance(params, (list, tuple)) and not hasattr(params, "_fields"):
        return type(params)(_plain(value) for value in params)
    return np.asarray(params) if hasattr(params, "__array__") else params


def moving(parts: Sequence[Part]) -> list[int]:
    """The numbers of the parts that are not scenery; all of them if everything is."""
    return [i for i, part in enumerate(parts) if not part.fixed] or list(range(len(parts)))
