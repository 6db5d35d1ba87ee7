"""Footage on viser's stage: bodies as batches of equal meshes, lines and dots, a floor, arrows of contact forces."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from carom.live.footage import DEPTH, Footage, Loose, Solid
from carom.live.rigid_fit import wheel

BLUE, RED, GREY, ARROW = (12, 66, 110), (190, 50, 15), (120, 128, 136), (200, 120, 0)  # viser's lights bleach what they fall on
COLOURS = np.array([BLUE, (45, 110, 35), (95, 45, 130), (20, 115, 115), (115, 60, 45), (60, 90, 130)], np.uint8)
LIT = (222, 123, 69)  # that red, for a mesh of its own: see `_own`
THIN = 0.012  # of the size of the scene: the radius of a line that moves,
EDGES = 6  #    which is a prism
SMOOTH = 60  # triangles: rounder than that is shaded round


@dataclass
class _Batch:
    """Bodies of one form, which viser draws in one go."""

    handle: Any
    numbers: list[int]  #    of solids
    bodies: list[int]
    colours: np.ndarray
    places: np.ndarray  #    [k, b, 3]
    turns: np.ndarray  #     [k, b, 4]
    endless: np.ndarray  #   [b, 3] the direction in which each goes on; zero for what has an end

    @property
    def still(self) -> bool:
        """Scenery, and it does not move."""
        return self.bodies[0] < 0 and bool(np.all(self.places == self.places[:1]) and np.all(self.turns == self.turns[:1]))


class Stage:
    """One footage in a scene of viser, under the node `root`."""

    def __init__(self, scene: Any, footage: Footage, root: str = "/motion"):
        self.scene, self.root, self.footage = scene, root, footage
        self.low, self.high = footage.box()
        self.reach = max(float(np.max(self.high - self.low)), 1e-6)
        self.struck = False
        self.aside = np.zeros(3)  # where it stands, beside another one
        self.frame = scene.add_frame(root, show_axes=False, position=tuple(self.aside))
        self.batches = [self._batch(group) for group in _alike(footage.solids)]
        self.loose = [(number, self._loose(piece, number)) for number, piece in enumerate(footage.loose)]
        self.arrows = scene.add_arrows(
            f"{root}/forces",
            np.zeros((1, 2, 3), np.float32),
            ARROW,
            shaft_radius=0.006 * self.reach,
            head_radius=0.014 * self.reach,
            head_length=0.03 * self.reach,
            visible=False,
        )
        if not footage.flat and not any(s.body < 0 for s in footage.solids):
            scene.add_grid(f"{root}/floor", width=4 * self.reach, height=4 * self.reach, cell_size=self.reach / 10)

    def _batch(self, group: list[int]) -> _Batch:
        solids = [self.footage.solids[i] for i in group]
        first, moves = solids[0], solids[0].body >= 0
        sizes = np.array([_size(s) for s in solids])
        colours = np.array([s.shade * COLOURS[s.body % len(COLOURS)] if moves else GREY for s in solids]).astype(np.uint8)
        handle = self.scene.add_batched_meshes_simple(
            f"{self.root}/{'bodies' if moves else 'scenery'}-{group[0]}",
            first.vertices / _size(first),
            first.triangles,
            np.array([s.turns[0] for s in solids]),
            np.array([s.places[0] for s in solids]),
            batched_scales=sizes.astype(np.float32),
            batched_colors=colours,
            lod="off",
            flat_shading=self.footage.flat or len(first.triangles) <= SMOOTH,
            side="front" if all(s.closed for s in solids) else "double",  # half the work where a processor draws
            cast_shadow=moves,
        )
        endless = np.array([np.zeros(3) if s.endless is None else s.endless for s in solids])
        return _Batch(handle, group, [s.body for s in solids], colours, *_stacked(solids), endless)

    def _loose(self, piece: Loose, number: int) -> Any:
        name, colour = f"{self.root}/loose-{number}", BLUE if piece.body >= 0 else GREY
        points = piece.points[0].astype(np.float32)
        if self._filled(piece):
            vertices, triangles = _bar(points)
            return self.scene.add_mesh_simple(name, vertices, triangles, color=_own(piece.body), side="double", flat_shading=True)
        if piece.kind == "mesh":
            return self.scene.add_mesh_simple(
                name, points, piece.triangles, color=_own(piece.body), side="double", flat_shading=True
            )
        if piece.kind == "dots":
            ball, faces = _ball()
            turns = np.tile([1.0, 0.0, 0.0, 0.0], (len(points), 1))
            size = np.full(len(points), 0.025 * self.reach, np.float32)
            look: dict[str, Any] = {"batched_scales": size, "batched_colors": colour, "lod": "off"}
            return self.scene.add_batched_meshes_simple(name, ball, faces, turns, points, **look)
        if piece.body >= 0:  # a hand takes hold of a mesh, and of no line
            vertices, triangles = _tubes(points, THIN * self.reach)
            return self.scene.add_mesh_simple(name, vertices, triangles, color=_own(piece.body), side="double", flat_shading=True)
        return self.scene.add_line_segments(name, _segments(points), colour, thickness=0.008 * self.reach)

    def _filled(self, piece: Loose) -> bool:
        """Whether it is the outline of a body in the plane, as of an elastic bar: drawn as stiff ones are, and a hand finds it."""
        ends = piece.points[0, [0, -1]]
        closed = piece.kind == "line" and piece.points.shape[1] > 3 and np.allclose(ends[0], ends[1])
        return self.footage.flat and piece.body >= 0 and closed

    # -- time --------------------------------------------------------------------------------------------------------

    def draw(self, footage: Footage, now: float, struck: bool, forces: bool) -> None:
        """The moment `now`; bodies light up while an impact is to be seen."""
        if footage is not self.footage:
            self._change(footage)
        i, j, w = footage.frame(now)
        for batch in self.batches:
            if batch.still:
                continue
            turns = (1 - w) * batch.turns[i] + w * batch.turns[j]
            batch.handle.batched_positions = ((1 - w) * batch.places[i] + w * batch.places[j]).astype(np.float32)
            batch.handle.batched_wxyzs = (turns / np.linalg.norm(turns, axis=1, keepdims=True)).astype(np.float32)
            if struck != self.struck and batch.bodies[0] >= 0:
                batch.handle.batched_colors = np.tile(np.array(RED, np.uint8), (len(batch.bodies), 1)) if struck else batch.colours
        for number, handle in self.loose:
            piece = footage.loose[number]
            points = ((1 - w) * piece.points[i] + w * piece.points[j]).astype(np.float32)
            if piece.kind == "dots":
                handle.batched_positions = points
            elif piece.kind == "line" and piece.body < 0:
                handle.points = _segments(points)
            else:
                handle.vertices = self._meshed(piece, points)
                if struck != self.struck and piece.body >= 0:
                    handle.color = LIT if struck else _own(piece.body)
        self.struck = struck
        self._show_forces(footage, now, forces)

    def _meshed(self, piece: Loose, points: np.ndarray) -> np.ndarray:
        """The vertices of what is drawn as a mesh."""
        if piece.kind == "mesh":
            return points
        return _bar(points)[0] if self._filled(piece) else _tubes(points, THIN * self.reach)[0]

    def shift(self, away: np.ndarray) -> None:
        """Move all of it, so that a body that is followed stays where it is; cameras stay in the hands of those who look. A wall
        without an end comes along: whoever travels for minutes does not come to the end of its slab."""
        if not np.any(self.frame.position != self.aside - away):
            return
        self.frame.position = self.aside - away
        for batch in self.batches:
            if batch.still and np.any(batch.endless):
                along = (batch.endless @ away)[:, None] * batch.endless
                batch.handle.batched_positions = (batch.places[0] + along).astype(np.float32)

    def knows(self, footage: Footage) -> bool:
        """Whether this is footage of the same bodies, which only move otherwise."""
        ours, theirs = self.footage.solids, footage.solids
        same = len(ours) == len(theirs) and all(a.vertices is b.vertices for a, b in zip(ours, theirs, strict=True))
        return same and [p.points.shape[1:] for p in self.footage.loose] == [p.points.shape[1:] for p in footage.loose]

    def _change(self, footage: Footage) -> None:
        """More footage of the same bodies."""
        self.footage = footage
        for batch in self.batches:
            batch.places, batch.turns = _stacked([footage.solids[i] for i in batch.numbers])

    def _show_forces(self, footage: Footage, now: float, wanted: bool) -> None:
        t = footage.forces.t
        if not wanted or not len(t):
            if self.arrows.visible:
                self.arrows.visible = False
            return
        k = int(np.searchsorted(footage.t, now - 1e-12))
        here = footage.t[min(k, len(footage.t) - 1)]  # a force belongs to the step that ends here
        rows = slice(*np.searchsorted(t, [here - 1e-9, here + 1e-9]))
        if rows.start == rows.stop:
            self.arrows.visible = False
            return
        self.arrows.points = np.stack([footage.forces.points[rows], footage.forces.ends[rows]], axis=1).astype(np.float32)
        self.arrows.visible = True

    # -- hands -------------------------------------------------------------------------------------------------------

    def on_drag(self, pull: Callable[[int, np.ndarray | None, np.ndarray | None], None]) -> None:
        """`pull(body, from, to)` while a body is held by a hand, and `pull(body, None, None)` when it is let go."""
        held = [(b.handle, b.bodies) for b in self.batches if b.bodies[0] >= 0]
        for number, handle in self.loose:
            piece = self.footage.loose[number]
            if piece.body >= 0:
                held.append((handle, [piece.body] * piece.points.shape[1]))
        for handle, bodies in held:

            @handle.on_drag
            async def _(event: Any, bodies: list[int] = bodies) -> None:
                body = bodies[event.instance_index or 0]
                if event.phase == "end":
                    pull(body, None, None)
                else:
                    there = np.asarray(self.frame.position)
                    pull(body, np.array(event.start_position) - there, np.array(event.end_position) - there)

    def remove(self) -> None:
        self.scene.remove_by_name(self.root)


def _alike(solids: tuple[Solid, ...]) -> list[list[int]]:
    """The numbers of solids that are the same mesh, up to its size."""
    groups: dict[tuple[bytes, bytes, bool], list[int]] = {}
    for i, solid in enumerate(solids):
        form = np.round(solid.vertices / _size(solid), 5) + 0.0
        groups.setdefault((form.tobytes(), np.asarray(solid.triangles).tobytes(), solid.body >= 0), []).append(i)
    return list(groups.values())


def _size(solid: Solid) -> float:
    return max(float(np.max(np.abs(solid.vertices))), 1e-12)


def _stacked(solids: list[Solid]) -> tuple[np.ndarray, np.ndarray]:
    return np.stack([s.places for s in solids], axis=1), np.stack([s.turns for s in solids], axis=1)


def _own(body: int) -> tuple[int, int, int]:
    """The colour of a mesh of its own, so that it looks as one of a batch does: viser takes the numbers of batches as amounts of
    light, and others as what a screen is told."""
    light = np.array(COLOURS[body % len(COLOURS)] if body >= 0 else GREY) / 255
    red, green, blue = (round(255 * (12.92 * x if x <= 0.0031308 else 1.055 * x ** (1 / 2.4) - 0.055)) for x in light)  # sRGB
    return red, green, blue


def _bar(outline: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A closed outline of the plane as a solid with some depth: its vertices, at any moment, and its triangles, always the same."""
    middle = outline[:-1].mean(axis=0)
    vertices, triangles = wheel(outline, middle, DEPTH * float(np.max(np.abs(outline - middle))))
    return vertices.astype(np.float32), triangles


def _segments(points: np.ndarray) -> np.ndarray:
    pairs = points if len(points) > 1 else np.repeat(points, 2, axis=0)
    return np.stack([pairs[:-1], pairs[1:]], axis=1)


def _tubes(points: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """A line as prisms, one for each of its parts: their vertices, at any moment, and their triangles, always the same."""
    parts = _segments(points)
    along = parts[:, 1] - parts[:, 0]
    aside = np.eye(3)[np.argmin(np.abs(along), axis=1)]  # the axis that is most across
    first = np.cross(along, aside)
    first /= np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-12)
    second = np.cross(along, first)
    second /= np.maximum(np.linalg.norm(second, axis=1, keepdims=True), 1e-12)
    angle = 2 * np.pi * np.arange(EDGES) / EDGES
    round_about = np.cos(angle)[:, None] * first[:, None] + np.sin(angle)[:, None] * second[:, None]  # [parts, edges, 3]
    vertices = (parts[:, :, None] + radius * round_about[:, None]).reshape(-1, 3)
    k, after = np.arange(EDGES), (np.arange(EDGES) + 1) % EDGES
    sides = np.concatenate([np.stack([k, after, EDGES + k], axis=1), np.stack([after, EDGES + after, EDGES + k], axis=1)])
    triangles = (2 * EDGES * np.arange(len(parts))[:, None, None] + sides).reshape(-1, 3)
    return vertices.astype(np.float32), triangles


def _ball() -> tuple[np.ndarray, np.ndarray]:
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=2)
    return np.asarray(ball.vertices), np.asarray(ball.faces)
