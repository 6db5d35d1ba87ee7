"""How a run looks: the outlines of all shapes as parts of a `carom.drawing.Film`, moved with their bodies; strings; forces."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from carom.bodies import quaternions
from carom.bodies.shapes.fixed import HalfSpace, HeightField, Plate, TriangleMesh
from carom.bodies.shapes.flat import Disc, Polygon, Segment
from carom.bodies.shapes.round import Capsule, Cylinder, Ellipsoid, Sphere
from carom.bodies.shapes.shape import Placed, Shape
from carom.drawing import FEWEST_FRAMES, MOST_FRAMES, MOST_NUMBERS, Arrows, Film, Part, wide_enough

if TYPE_CHECKING:
    from carom.bodies.run import WorldRun

ROUND = 25  # points of a circle; fewer where there are many bodies
ARROW = 0.35  # of the size of the scene: the length of the arrow of a large force (only one in twenty is larger)
LONGEST = 2.0  # in lengths of such an arrow: those of impacts end here


@dataclass(frozen=True)
class Outline:
    """One shape of a body as lines or triangles, in the frame of its centre of mass. An endless one has sides of unit length."""

    body: int
    points: np.ndarray  #            [k, 3]
    kind: str  #                     of `carom.drawing.Part`
    triangles: np.ndarray | None
    endless: bool

    def told(self) -> dict[str, Any]:
        triangles = None if self.triangles is None else self.triangles.tolist()
        return {
            "body": self.body,
            "points": self.points.tolist(),
            "kind": self.kind,
            "triangles": triangles,
            "endless": self.endless,
        }


@dataclass(frozen=True)
class String:
    """A distance or a rope between two points of bodies, each in the frame of its centre of mass."""

    name: str
    a: int
    at_a: np.ndarray  # [3]
    b: int
    at_b: np.ndarray

    def ends(self, x: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Where it begins and ends [k, 2, 3], by the places and turns of all bodies."""
        ends = ((self.a, self.at_a), (self.b, self.at_b))
        return np.stack([x[:, i] + quaternions.matrix(q[:, i]) @ at for i, at in ends], axis=1)

    def told(self) -> dict[str, Any]:
        return {"name": self.name, "a": self.a, "at_a": self.at_a.tolist(), "b": self.b, "at_b": self.at_b.tolist()}


def strings(joints: Iterable[Any]) -> tuple[String, ...]:
    """Those joints that are seen as a line."""
    return tuple(String(j.name, j.a, j.at_a, j.b, j.at_b) for j in joints if j.kind in ("distance", "rope"))


def outlines(bodies: list[tuple[list[Placed], np.ndarray]], dim: int) -> tuple[Outline, ...]:
    """The outlines of bodies, each given by its placed shapes and its centre of mass in their frame."""
    found = []
    many = sum(len(shapes) for shapes, _ in bodies)
    around = ROUND if many <= 30 else 17 if many <= 200 else 9
    for i, (shapes, center) in enumerate(bodies):
        for placed in shapes:
            points, kind, triangles = _flat(placed.shape) if dim == 2 else _solid(placed.shape, around)
            points = points @ quaternions.matrix(placed.turn).T + placed.where - center
            found.append(Outline(i, points, kind, triangles, isinstance(placed.shape, (HalfSpace, Plate))))
    return tuple(found)


def to_text(parts: tuple[Outline, ...], lines: tuple[String, ...] = ()) -> str:
    """Outlines and strings as JSON, to be kept with a run."""
    return json.dumps({"shapes": [part.told() for part in parts], "strings": [line.told() for line in lines]})


def from_text(text: str) -> tuple[tuple[Outline, ...], tuple[String, ...]]:
    """What `to_text` wrote; files of earlier versions have a list of shapes alone."""
    read, parts = json.loads(text), []
    kept = read if isinstance(read, dict) else {"shapes": read, "strings": []}
    lines = [String(one["name"], one["a"], np.array(one["at_a"]), one["b"], np.array(one["at_b"])) for one in kept["strings"]]
    for told in kept["shapes"]:
        triangles = None if told["triangles"] is None else np.array(told["triangles"], int).reshape(-1, 3)
        points = np.array(told["points"], float).reshape(-1, 3)
        parts.append(Outline(told["body"], points, told["kind"], triangles, told["endless"]))
    return tuple(parts), tuple(lines)


def film(run: "WorldRun") -> Film:
    """The world through a run, thinned to a bounded amount of data, with its strings, and the forces of its contacts as arrows."""
    d, parts = run.dim, run.outlines
    total = sum(len(part.points) for part in parts)
    most = max(FEWEST_FRAMES, min(MOST_FRAMES, MOST_NUMBERS // max(d * total, 1)))
    frames = np.unique(np.linspace(0, len(run.t) - 1, most).astype(int))
    R = quaternions.matrix(run.q[frames])
    extent = max(float(np.max(np.abs(run.x[:, run.free]), initial=0.0)), 1e-300)
    moved, made = [], []
    for part in parts:
        i = part.body
        still = not run.free[i] and np.all(run.x[:, i] == run.x[0, i]) and np.all(run.q[:, i] == run.q[0, i])
        size = extent if part.endless and not still else 1.0
        middle = part.points.mean(axis=0)
        points = middle + size * (part.points - middle)
        moved.append(points @ np.swapaxes(R[:, i], -1, -2) + run.x[frames, i][:, None, :])
        endless = bool(part.endless and still and part.kind == "mesh")
        made.append(Part(moved[-1][0, :, :d], part.kind, not run.free[i], part.triangles, endless, run.names[i]))
    for string in run.strings:
        moved.append(string.ends(run.x[frames], run.q[frames]))
        made.append(Part(moved[-1][0, :, :d], "line"))
    starts = tuple(np.cumsum([0, *(points.shape[1] for points in moved)]).tolist())
    reel = Film(run.t[frames], np.concatenate(moved, axis=1)[:, :, :d], tuple(made), starts, _arrows(run, frames))
    return wide_enough(reel)


def _arrows(run: "WorldRun", frames: np.ndarray) -> Arrows | None:
    """The forces (impulses divided by dt) of the steps that end at the frames, drawn away from the point of contact."""
    c, steps = run.contacts, run.steps[frames]
    where = np.minimum(np.searchsorted(steps, c.step), len(steps) - 1) if len(c) else np.zeros(0, int)
    every = np.linalg.norm(c.impulse, axis=1)
    seen_at_all = every > 1e-9 * np.max(every, initial=0.0)  # impulses of nothing have no length to measure others by
    rows = np.flatnonzero((steps[where] == c.step) & seen_at_all) if len(c) else where
    if len(rows) == 0:
        return None
    length = every[rows]
    lasting = length[~c.impact[rows].astype(bool)]
    unit = np.quantile(lasting if len(lasting) else length, 0.95)
    seen = run.x[:, run.free].reshape(-1, 3)
    reach = max((float(np.max(np.ptp(part.points, axis=0))) for part in run.outlines if not part.endless), default=0.0)
    size = ARROW * max(reach, 0.5 * float(np.max(np.ptp(seen, axis=0))))
    factor = size * np.minimum(1 / unit, LONGEST / length)
    start = c.point[rows]
    end = start + factor[:, None] * c.impulse[rows]
    return Arrows(where[rows], start[:, : run.dim], end[:, : run.dim])


def _flat(shape: Shape) -> tuple[np.ndarray, str, None]:
    if isinstance(shape, HalfSpace):
        along = np.array([shape.normal[1], -shape.normal[0], 0.0])
        foot = shape.offset * shape.normal
        return np.array([foot - along, foot + along]), "wall", None
    if isinstance(shape, Disc):
        angle = np.linspace(0, 2 * np.pi, 2 * ROUND)
        rim = shape.radius * np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
        return np.concatenate([[np.zeros(3)], rim]), "line", None  # with a spoke: one sees it turn
    if isinstance(shape, Polygon):
        corners = np.column_stack([shape.corners, np.zeros(len(shape.corners))])
        return np.concatenate([corners, corners[:1]]), "line", None
    if isinstance(shape, Segment):
        along = shape.b - shape.a
        first = np.arctan2(along[1], along[0])
        ends = []
        for end, start in ((shape.a, first + np.pi / 2), (shape.b, first - np.pi / 2)):
            angle = start + np.linspace(0, np.pi, ROUND)
            ends.append(end + shape.radius * np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1))
        outline = np.concatenate(ends)
        return np.concatenate([outline, outline[:1]]), "line", None
    raise AssertionError(f"no picture of {type(shape).__name__}")


def _solid(shape: Shape, around: int) -> tuple[np.ndarray, str, np.ndarray]:
    if isinstance(shape, (HalfSpace, Plate)):
        height = shape.offset if isinstance(shape, HalfSpace) else 0.5 * shape.thickness
        first = np.cross(shape.normal, np.eye(3)[int(np.argmin(np.abs(shape.normal)))])
        first = first / np.linalg.norm(first)
        second = np.cross(shape.normal, first)
        square = [height * shape.normal + a * first + b * second for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
        return np.array(square), "mesh", np.array([(0, 1, 2), (0, 2, 3)])
    if isinstance(shape, (TriangleMesh, HeightField)):
        mesh = shape if isinstance(shape, TriangleMesh) else shape.mesh
        return mesh.points, "mesh", mesh.triangles
    if isinstance(shape, (Sphere, Capsule, Cylinder, Ellipsoid)):
        return _turned(shape, around)
    core = shape.core
    fans = [(loop[0], loop[k], loop[k + 1]) for loop in core.loops for k in range(1, len(loop) - 1) if loop[k] != loop[k + 1]]
    return core.points, "mesh", np.array(fans)


def _turned(shape: Shape, points_around: int) -> tuple[np.ndarray, str, np.ndarray]:
    """A round shape as a grid of meridians and circles: its support points in the directions of a globe."""
    rows = points_around // 2 + (points_around // 2) % 2  # even, none on the equator: capsules are split there
    height = np.linspace(-0.5 * np.pi, 0.5 * np.pi, rows)
    around = np.linspace(0, 2 * np.pi, points_around)[:-1]
    globe = np.array([[np.cos(h) * np.cos(a), np.cos(h) * np.sin(a), np.sin(h)] for h in height for a in around])
    points = np.array([shape.support(d) for d in globe])
    n = len(around)
    points[:n], points[-n:] = points[:n].mean(axis=0), points[-n:].mean(axis=0)  # the poles; of a cylinder, the middles of its lids
    corner = np.array([(i, j) for i in range(rows - 1) for j in range(n)])
    here, right = corner[:, 0] * n + corner[:, 1], corner[:, 0] * n + (corner[:, 1] + 1) % n
    return points, "mesh", np.concatenate([np.stack([here, right, right + n], 1), np.stack([here, right + n, here + n], 1)])
