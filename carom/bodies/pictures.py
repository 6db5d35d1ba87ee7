"""How a run looks: the outlines of all shapes as parts of a `carom.drawing.Film`, moved with their bodies."""

from typing import TYPE_CHECKING

import numpy as np

from carom.bodies import quaternions
from carom.bodies.shapes.fixed import HalfSpace, HeightField, Plate, TriangleMesh
from carom.bodies.shapes.flat import Disc, Polygon, Segment
from carom.bodies.shapes.round import Capsule, Cylinder, Ellipsoid, Sphere
from carom.bodies.shapes.shape import Placed, Shape
from carom.drawing import FEWEST_FRAMES, MOST_FRAMES, MOST_NUMBERS, Film, Part

if TYPE_CHECKING:
    from carom.bodies.run import WorldRun
    from carom.bodies.world import World

ROUND = 25  # points of a circle


def film(world: "World", run: "WorldRun") -> Film:
    """The world through a run, thinned to a bounded amount of data."""
    d = run.dim
    extent = max(float(np.max(np.abs(run.x[:, run.free]))), 1e-300) if np.any(run.free) else 1.0
    outlines = [(i, *_outline(placed, extent, d)) for i, spec in enumerate(world.bodies) for placed in spec.shapes]
    points = [local - run.center[i] for i, local, _, _ in outlines]  # in the frames of the centres of mass
    total = sum(len(p) for p in points)
    most = max(FEWEST_FRAMES, min(MOST_FRAMES, MOST_NUMBERS // max(d * total, 1)))
    frames = np.unique(np.linspace(0, len(run.t) - 1, most).astype(int))
    R = quaternions.matrix(run.q[frames])
    moved = [p @ np.swapaxes(R[:, i], -1, -2) + run.x[frames, i][:, None, :] for (i, *_), p in zip(outlines, points, strict=True)]
    parts = tuple(
        Part(track[0, :, :d], kind, not run.free[i], triangles)
        for (i, _, kind, triangles), track in zip(outlines, moved, strict=True)
    )
    starts = tuple(np.cumsum([0, *(len(p) for p in points)]).tolist())
    return Film(run.t[frames], np.concatenate(moved, axis=1)[:, :, :d], parts, starts)


def _outline(placed: Placed, extent: float, dim: int) -> tuple[np.ndarray, str, np.ndarray | None]:
    """Points in the frame of the body, the kind of part, and triangles of a mesh."""
    points, kind, triangles = _flat(placed.shape, extent) if dim == 2 else _solid(placed.shape, extent)
    return points @ quaternions.matrix(placed.turn).T + placed.where, kind, triangles


def _flat(shape: Shape, extent: float) -> tuple[np.ndarray, str, None]:
    if isinstance(shape, HalfSpace):
        along = np.array([shape.normal[1], -shape.normal[0], 0.0])
        foot = shape.offset * shape.normal
        return np.array([foot - extent * along, foot + extent * along]), "wall", None
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


def _solid(shape: Shape, extent: float) -> tuple[np.ndarray, str, np.ndarray]:
    if isinstance(shape, (HalfSpace, Plate)):
        height = shape.offset if isinstance(shape, HalfSpace) else 0.5 * shape.thickness
        first = np.cross(shape.normal, np.eye(3)[int(np.argmin(np.abs(shape.normal)))])
        first = first / np.linalg.norm(first)
        second = np.cross(shape.normal, first)
        square = [height * shape.normal + extent * (a * first + b * second) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
        return np.array(square), "mesh", np.array([(0, 1, 2), (0, 2, 3)])
    if isinstance(shape, (TriangleMesh, HeightField)):
        mesh = shape if isinstance(shape, TriangleMesh) else shape.mesh
        return mesh.points, "mesh", mesh.triangles
    if isinstance(shape, (Sphere, Capsule, Cylinder, Ellipsoid)):
        return _turned(shape)
    core = shape.core
    fans = [(loop[0], loop[k], loop[k + 1]) for loop in core.loops for k in range(1, len(loop) - 1) if loop[k] != loop[k + 1]]
    return core.points, "mesh", np.array(fans)


def _turned(shape: Shape) -> tuple[np.ndarray, str, np.ndarray]:
    """A round shape as a grid of meridians and circles: its support points in the directions of a globe."""
    height = np.linspace(-0.5 * np.pi, 0.5 * np.pi, ROUND // 2 + (ROUND // 2) % 2)  # none on the equator: capsules are split there
    around = np.linspace(0, 2 * np.pi, ROUND)[:-1]
    globe = np.array([[np.cos(h) * np.cos(a), np.cos(h) * np.sin(a), np.sin(h)] for h in height for a in around])
    points = np.array([shape.support(d) for d in globe])
    n, rows = len(around), len(height)
    corner = np.array([(i, j) for i in range(rows - 1) for j in range(n)])
    here, right = corner[:, 0] * n + corner[:, 1], corner[:, 0] * n + (corner[:, 1] + 1) % n
    return points, "mesh", np.concatenate([np.stack([here, right, right + n], 1), np.stack([here, right + n, here + n], 1)])
