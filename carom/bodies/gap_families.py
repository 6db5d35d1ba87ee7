"""Which pairs of pieces have a smooth gap, and families of them: pairs of one kind and one law in one array."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from carom.bodies import quaternions
from carom.bodies.scene import Scene
from carom.bodies.shapes.fixed import HalfSpace, Plate
from carom.bodies.shapes.round import Ellipsoid
from carom.bodies.shapes.shape import Placed, Polytope
from carom.bodies.shapes.solid import Box
from carom.bodies.smooth_gaps import BallBoxes, Ellipsoids, Points, Polytopes, Rods
from carom.errors import InputError

if TYPE_CHECKING:
    from carom.bodies.as_system import Frame


@dataclass(frozen=True)
class Piece:
    """One shape of a body, in the frame of the body in the system."""

    body: int  #           its number in the system, free ones first
    owner: int  #          its number in the scene
    kind: str  #           wall, ball, rod, polytope, ellipsoid or other
    shape: Any
    where: np.ndarray  #   [3]
    turn: np.ndarray  #    [3, 3]
    core: Polytope | None
    number: int  #         among the pieces of the scene

    @property
    def points(self) -> np.ndarray:
        return self.core.points @ self.turn.T + self.where

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Of a rod; a ball is a rod without length."""
        points = self.points
        return points[0], points[-1]


def pieces_of(body: int, owner: int, placed: Placed, center: np.ndarray, axes: np.ndarray, number: int) -> list[Piece]:
    shape = placed.shape
    turn, where = axes.T @ quaternions.matrix(placed.turn), axes.T @ (placed.where - center)
    core = shape.core
    if isinstance(shape, (HalfSpace, Plate)):
        kind = "wall"
    elif isinstance(shape, Ellipsoid):
        kind = "ellipsoid"
    elif core is None:
        kind = "other"
    elif core.radius > 0:
        kind = {1: "ball", 2: "rod"}.get(len(core.points), "other")
    else:
        kind = "polytope"
    return [Piece(body, owner, kind, shape, where, turn, core, number)]


def families(scene: Scene, frame: "Frame", pieces: list[Piece]) -> Iterator[tuple[Any, str, tuple[float, float]]]:
    """Families of contacts, their names, and friction and restitution of each."""
    found: dict[tuple, list[tuple[Piece, Piece]]] = {}
    for i, p in enumerate(pieces):
        for q in pieces[i + 1 :]:
            pair = (min(p.owner, q.owner), max(p.owner, q.owner))
            if p.body == q.body or (p.body >= frame.count and q.body >= frame.count) or pair in scene.ignored:
                continue
            first, second = (p, q) if ORDER.index(p.kind) <= ORDER.index(q.kind) else (q, p)
            mu, e, *turning = (float(value) for value in scene.materials.between(p.number, q.number))
            if any(turning):
                raise InputError("rolling and spinning friction have no place in a System yet: run this world with world.solve")
            key = (_family(scene, first, second, mu), mu, e)
            found.setdefault(key, []).append((first, second))
    for (kind, mu, e), pairs in found.items():
        names = {f"{scene.names[a.owner]} – {scene.names[b.owner]}" for a, b in pairs}
        label = names.pop() if len(names) == 1 else kind[0]
        yield MAKERS[kind[0]](frame, pairs), label, (mu, e)


ORDER = ("wall", "polytope", "ellipsoid", "other", "rod", "ball")


def _family(scene: Scene, p: Piece, q: Piece, friction: float) -> tuple:
    """The family of a pair (p before q in ORDER): its name, and what its members must share."""
    if p.kind == "wall" and q.kind in ("ball", "rod", "polytope"):
        return ("points over walls",)
    if p.kind == "wall" and q.kind == "ellipsoid":
        return ("ellipsoids over walls",)
    if p.kind in ("rod", "ball") and q.kind in ("rod", "ball"):
        return ("balls and rods",)
    if isinstance(p.shape, Box) and q.kind == "ball":
        return ("balls and boxes",)
    if p.kind == q.kind == "polytope" and friction == 0:
        return ("polytopes", *p.core.signature, *q.core.signature)
    pair = f"{scene.names[p.owner]!r} ({type(p.shape).__name__}) and {scene.names[q.owner]!r} ({type(q.shape).__name__})"
    why = (
        "with friction has no smooth point of contact" if p.kind == q.kind == "polytope" else "has no gap that is a smooth function"
    )
    raise InputError(
        f"the pair {pair} {why}: run this world with world.solve. A System takes spheres, boxes, capsules, polyhedra and "
        "ellipsoids over half-spaces and plates; spheres and capsules with each other; spheres with boxes; and polyhedra with each "
        "other, without friction"
    )


def _stack(values: list[Any]) -> np.ndarray:
    return np.array(values)


def _walls(frame: "Frame", pairs: list[tuple[Piece, Piece]]) -> Iterator[tuple[Piece, np.ndarray, float]]:
    """The other piece, and the normal and offset of the plane that it sees: of a plate, the side on which its body starts."""
    x, R = np.asarray(frame.still.x), np.asarray(frame.still.R)
    for wall, other in pairs:
        k = wall.body - frame.count
        normal = R[k] @ wall.turn @ wall.shape.normal
        origin = x[k] + R[k] @ wall.where
        if isinstance(wall.shape, HalfSpace):
            yield other, normal, float(normal @ origin + wall.shape.offset)
        else:
            side = 1.0 if (frame.start[other.body] - origin) @ normal >= 0 else -1.0
            yield other, side * normal, float(side * (normal @ origin) + 0.5 * wall.shape.thickness)


def _points(frame: "Frame", pairs: list[tuple[Piece, Piece]]) -> Points:
    rows = [(o.body, p, o.core.radius, n, d) for o, n, d in _walls(frame, pairs) for p in o.points]
    return Points(*(_stack([row[k] for row in rows]) for k in range(5)))


def _ellipsoids(frame: "Frame", pairs: list[tuple[Piece, Piece]]) -> Ellipsoids:
    rows = [(o.body, o.shape.axes, o.turn, o.where, n, d) for o, n, d in _walls(frame, pairs)]
    return Ellipsoids(*(_stack([row[k] for row in rows]) for k in range(6)))


def _rods(frame: "Frame", pairs: list[tuple[Piece, Piece]]) -> Rods:
    rows = [(a.body, b.body, *a.ends, *b.ends, a.core.radius, b.core.radius) for a, b in pairs]
    return Rods(*(_stack([row[k] for row in rows]) for k in range(8)))


def _ball_boxes(frame: "Frame", pairs: list[tuple[Piece, Piece]]) -> BallBoxes:
    half = lambda s: 0.5 * np.array([s.x, s.y, s.z])  # noqa: E731
    rows = [(b.body, a.body, b.points[0], b.core.radius, a.where, a.turn, half(a.shape)) for a, b in pairs]
    return BallBoxes(*(_stack([row[k] for row in rows]) for k in range(7)))


def _polytopes(frame: "Frame", pairs: list[tuple[Piece, Piece]]) -> Polytopes:
    def rows(piece: Piece) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        directions = piece.core.directions @ piece.turn.T if frame.dim == 3 else np.zeros((0, 3))
        return piece.points, piece.core.normals @ piece.turn.T, directions

    table = [(a.body, b.body, *rows(a), *rows(b)) for a, b in pairs]
    return Polytopes(*(_stack([row[k] for row in table]) for k in range(8)))


MAKERS = {
    "points over walls": _points,
    "ellipsoids over walls": _ellipsoids,
    "balls and rods": _rods,
    "balls and boxes": _ball_boxes,
    "polytopes": _polytopes,
}
