"""What a player shows, as arrays: bodies with their places and turns, lines, impacts, contact forces, and curves against time.

Footage is made of a run (`of_solution` here, `of_world` in `world_footage`) and grows while one is computed (`followed_by`).
Everything lies in space: a picture of the plane stands upright in x and z, and its outlines are given some depth.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from carom.drawing import Film
from carom.errors import InputError
from carom.live.rigid_fit import fit, outward, prism, turns_of
from carom.results.labels import momentum_labels

CURVE_POINTS = 400  # of a curve in the page
DEPTH = 0.25  #       of an outline, in its own size
MANY = 8  #           curves in one panel
MOST_NUMBERS = 1_000_000  # kept of what goes on and on,
ALONG = 12.0  #            of what is seen: how far a wall goes to each side
LEAST_FRAMES = 900  #        but never fewer frames: what is computed in advance must not push out what is seen now


@dataclass(frozen=True, eq=False)
class Solid:
    """Something that moves as a whole."""

    name: str
    body: int  #              which body it belongs to; −1 for scenery
    vertices: np.ndarray  #   [m, 3] about its own centre
    triangles: np.ndarray  #  [f, 3]
    places: np.ndarray  #     [k, 3]
    turns: np.ndarray  #      [k, 4] w first
    outline: np.ndarray | None = None  # what later frames are compared with, where it is not the vertices
    closed: bool = False  #   its triangles look outwards all around: nobody sees them from behind
    owner: int = -1  #        its number in a run of a world, where bodies and scenery are counted together
    endless: np.ndarray | None = None  # of a wall that stands still: the direction in which it goes on, [3]
    shade: float = 1.0  #     of its colour: a round body is painted in sectors, so that one sees it turn


@dataclass(frozen=True, eq=False)
class Loose:
    """Something whose points move one by one: a line, dots, an elastic surface."""

    name: str
    body: int
    kind: str  #              line, dots or mesh
    points: np.ndarray  #     [k, m, 3]
    triangles: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Curves:
    """Some numbers against time."""

    title: str
    t: np.ndarray  #                 [n]
    lines: dict[str, np.ndarray]  #  [n] each


@dataclass(frozen=True, eq=False)
class Forces:
    """Contact forces: each is seen at its own moment."""

    t: np.ndarray  #       [m]
    points: np.ndarray  #  [m, 3]
    ends: np.ndarray  #    [m, 3]


NO_FORCES = Forces(np.zeros(0), np.zeros((0, 3)), np.zeros((0, 3)))


@dataclass(frozen=True, eq=False)
class Footage:
    name: str
    flat: bool  #               a picture of the plane
    t: np.ndarray  #            [k] of the frames; impacts are among them
    solids: tuple[Solid, ...]
    loose: tuple[Loose, ...]
    hits: np.ndarray  #         [m] times of impacts
    hit_names: tuple[str, ...]  # [m]
    curves: tuple[Curves, ...]
    forces: Forces = NO_FORCES
    message: str = ""  #        how the run ended
    ok: bool = True

    @property
    def bodies(self) -> tuple[str, ...]:
        """The names of what moves."""
        named = {piece.body: piece.name for piece in (*self.loose, *self.solids) if piece.body >= 0}
        return tuple(named[i] for i in sorted(named))

    def frame(self, now: float) -> tuple[int, int, float]:
        """The frames before and after, and how far between them."""
        j = int(np.clip(np.searchsorted(self.t, now, side="right"), 1, max(len(self.t) - 1, 1)))
        if len(self.t) == 1:
            return 0, 0, 0.0
        span = self.t[j] - self.t[j - 1]
        return j - 1, j, float(np.clip((now - self.t[j - 1]) / span, 0.0, 1.0)) if span > 0 else 1.0

    def pose(self, solid: Solid, now: float) -> tuple[np.ndarray, np.ndarray]:
        """Where a solid is at any time, and how it is turned."""
        i, j, w = self.frame(now)
        turn = (1 - w) * solid.turns[i] + w * solid.turns[j]
        return (1 - w) * solid.places[i] + w * solid.places[j], turn / max(float(np.linalg.norm(turn)), 1e-12)

    def points(self, piece: Loose, now: float) -> np.ndarray:
        i, j, w = self.frame(now)
        return (1 - w) * piece.points[i] + w * piece.points[j]

    def centre(self, body: int, now: float) -> np.ndarray:
        """The middle of a body, or of all that move where that is −1."""
        own = lambda piece: piece.body >= 0 if body < 0 else piece.body == body  # noqa: E731
        found = [self.pose(solid, now)[0] for solid in self.solids if own(solid)]
        found += [self.points(piece, now).mean(axis=0) for piece in self.loose if own(piece)]
        return np.mean(found, axis=0)

    def box(self, follow: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The corners of the part of space in which something moves, with the walls and lines that are there for it to meet; as
        seen by somebody who goes along with a body."""
        away, both = np.zeros((len(self.t), 1, 3)), np.array([[-1.0], [1.0]])
        if follow is not None:
            own = lambda piece: piece.body >= 0 if follow < 0 else piece.body == follow  # noqa: E731
            middles = [s.places for s in self.solids if own(s)] + [p.points.mean(axis=1) for p in self.loose if own(p)]
            middle = np.mean(middles, axis=0)
            away[:, 0, :2] = (middle - middle[0])[:, :2]  # up and down is seen
        seen = [s.places[:, None] - away + both * np.max(np.abs(s.vertices)) for s in self.solids if s.body >= 0]
        seen += [piece.points - away for piece in self.loose if piece.body >= 0]
        every = np.concatenate([points.reshape(-1, 3) for points in seen] or [np.zeros((1, 3))])
        every = every[np.all(np.isfinite(every), axis=1)]
        middle = 0.5 * (every.min(axis=0) + every.max(axis=0))
        every = np.concatenate([every, *self.met(middle)])
        return every.min(axis=0), every.max(axis=0)

    def met(self, point: np.ndarray) -> list[np.ndarray]:
        """The walls and lines of the plane that are there to be met: their points, of an endless wall the one next to `point`."""
        lines = [piece.points[0] for piece in self.loose if self.flat and piece.body < 0]
        return lines + [_foot(s, point)[None] for s in self.solids if s.endless is not None]

    def followed_by(self, rest: "Footage") -> "Footage":
        """This, and what happens after it."""
        if len(rest.solids) != len(self.solids):
            return _loosened(self, rest).followed_by(rest)
        skip = int(abs(self.t[-1] - rest.t[0]) < 1e-12)  # the first frame of `rest` is mostly the last one of this
        join = lambda a, b: np.concatenate([a, b[skip:]])  # noqa: E731
        solids = tuple(
            replace(a, places=join(a.places, b.places), turns=join(a.turns, _near(a.turns[-1], b.turns)))
            for a, b in zip(self.solids, rest.solids, strict=True)
        )
        loose = tuple(replace(a, points=join(a.points, b.points)) for a, b in zip(self.loose, rest.loose, strict=True))
        curves = tuple(Curves(a.title, *_joined(a, b)) for a, b in zip(self.curves, rest.curves, strict=True))
        forces = Forces(*(np.concatenate([getattr(self.forces, n), getattr(rest.forces, n)]) for n in ("t", "points", "ends")))
        return replace(
            rest,
            name=self.name,
            t=join(self.t, rest.t),
            solids=solids,
            loose=loose,
            curves=curves,
            forces=forces,
            hits=np.concatenate([self.hits, rest.hits]),
            hit_names=(*self.hit_names, *rest.hit_names),
        )

    @property
    def numbers(self) -> int:
        """How much there is to keep for every frame."""
        return 7 * len(self.solids) + sum(piece.points[0].size for piece in self.loose)

    def since(self, first: int) -> "Footage":
        """From a frame on: what lies before it is forgotten."""
        start = self.t[first]
        after = lambda t: int(np.searchsorted(t, start, side="left"))  # noqa: E731
        m, f = after(self.hits), after(self.forces.t)
        return replace(
            self,
            t=self.t[first:],
            solids=tuple(replace(s, places=s.places[first:], turns=s.turns[first:]) for s in self.solids),
            loose=tuple(replace(piece, points=piece.points[first:]) for piece in self.loose),
            curves=tuple(Curves(c.title, c.t[after(c.t) :], {n: y[after(c.t) :] for n, y in c.lines.items()}) for c in self.curves),
            forces=Forces(self.forces.t[f:], self.forces.points[f:], self.forces.ends[f:]),
            hits=self.hits[m:],
            hit_names=self.hit_names[m:],
        )

    def recent(self, most: int | None = None) -> "Footage":
        """So much of the end that it fits; what plays for hours would fill any memory."""
        frames = max(LEAST_FRAMES, MOST_NUMBERS // max(self.numbers, 1)) if most is None else max(2, most // max(self.numbers, 1))
        return self if len(self.t) <= 2 * frames else self.since(len(self.t) - frames)

    def until(self, now: float) -> "Footage":
        """What happens up to a frame, and nothing after it."""
        k = int(np.searchsorted(self.t, now, side="right"))
        upto = lambda t: int(np.searchsorted(t, now, side="right"))  # noqa: E731
        m, f = upto(self.hits), upto(self.forces.t)
        return replace(
            self,
            t=self.t[:k],
            solids=tuple(replace(s, places=s.places[:k], turns=s.turns[:k]) for s in self.solids),
            loose=tuple(replace(piece, points=piece.points[:k]) for piece in self.loose),
            curves=tuple(Curves(c.title, c.t[: upto(c.t)], {n: y[: upto(c.t)] for n, y in c.lines.items()}) for c in self.curves),
            forces=Forces(self.forces.t[:f], self.forces.points[:f], self.forces.ends[:f]),
            hits=self.hits[:m],
            hit_names=self.hit_names[:m],
        )


def _joined(a: Curves, b: Curves) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Curves one after the other; of the moment that both have, what the first knows: how deep contacts were before it."""
    skip = int(len(b.t) > 1 and abs(a.t[-1] - b.t[0]) < 1e-12)
    return np.concatenate([a.t, b.t[skip:]]), {name: np.concatenate([a.lines[name], b.lines[name][skip:]]) for name in a.lines}


def _near(turn: np.ndarray, turns: np.ndarray) -> np.ndarray:
    return turns if float(turn @ turns[0]) >= 0 else -turns


# -- from a film ---------------------------------------------------------------------------------------------------------


def pieces(reel: Film, like: Footage | None = None) -> tuple[tuple[Solid, ...], tuple[Loose, ...]]:
    """The parts of a film; with `like`, seen from the first frame of an earlier one, so that the two can be joined."""
    solids: list[Solid] = []
    loose: list[Loose] = []
    body = 0
    for i, part in enumerate(reel.parts):
        track = upright(reel.track(i))
        moves = not part.fixed
        number, name = (body, f"body {body + 1}") if moves else (-1, f"scenery {i + 1}")
        body += moves
        before = None if like is None else next((s for s in like.solids if s.name == name), None)
        solid = _solid(part, track, number, name, reel, before) if like is None or before is not None else None
        if solid is not None:
            solids.append(solid)
        else:
            loose.append(Loose(name, number, "line" if part.kind == "wall" else part.kind, track, part.triangles))
    return tuple(solids), tuple(loose)


def upright(points: np.ndarray) -> np.ndarray:
    if points.shape[-1] == 3:
        return points
    return np.stack([points[..., 0], np.zeros(points.shape[:-1]), points[..., 1]], axis=-1)


def _solid(part: Any, track: np.ndarray, body: int, name: str, reel: Film, before: Solid | None) -> Solid | None:
    closed = part.kind == "line" and reel.dim == 2 and track.shape[1] > 3 and np.array_equal(track[0, 0], track[0, -1])
    if part.kind == "wall":
        return _behind(track, reel, name) if before is None else held(before, len(track))
    if part.kind != "mesh" and not closed:
        return None
    if before is None and part.fixed and closed:
        return None  # scenery that is drawn as a line may be hollow: a bowl
    reference = track[0] - track[0].mean(axis=0) if before is None else _reference(before)
    found = fit(reference, track)
    if found is None:
        return None  # also what was stiff so far, and was struck
    if before is not None:
        return replace(before, places=found[0], turns=found[1])
    if part.kind == "mesh":
        return faced(Solid(name, body, reference, part.triangles, *found))
    vertices, triangles = prism(reference, DEPTH * float(np.max(np.abs(reference))))
    return faced(Solid(name, body, vertices, triangles, *found, outline=reference))


def _loosened(footage: Footage, like: Footage) -> Footage:
    """The same footage, with what is loose in `like` as points that move one by one: an elastic body that was stiff until it was
    struck."""
    loose = {piece.name: piece for piece in footage.loose}
    struck = [s for s in footage.solids if s.name in {piece.name for piece in like.loose} - set(loose)]
    if not struck:
        return footage
    for solid in struck:
        points = solid.places[:, None] + np.einsum("kab,mb->kma", turns_of(solid.turns), _reference(solid))
        kind, triangles = ("mesh", solid.triangles) if solid.outline is None else ("line", None)
        loose[solid.name] = Loose(solid.name, solid.body, kind, points, triangles)
    solids = tuple(s for s in footage.solids if s not in struck)
    return replace(footage, solids=solids, loose=tuple(loose[piece.name] for piece in like.loose))


def faced(solid: Solid) -> Solid:
    """The same solid, with triangles that look outwards if it is closed."""
    found = outward(solid.vertices, np.asarray(solid.triangles))
    return solid if found is None else replace(solid, triangles=found, closed=True)


def _reference(solid: Solid) -> np.ndarray:
    return solid.vertices if solid.outline is None else solid.outline


def _behind(track: np.ndarray, reel: Film, name: str) -> Solid:
    moving = [upright(reel.track(i)).reshape(-1, 3) for i, part in enumerate(reel.parts) if not part.fixed]
    return held(slab(track[0], np.concatenate(moving or [track[0]]), name), len(track))


def slab(ends: np.ndarray, seen: np.ndarray, name: str) -> Solid:
    """A wall of the plane as a long slab behind its line, on the side where nothing of what is seen [m, 3] moves; one frame."""
    middle, reach = seen.mean(axis=0), max(float(np.max(np.ptp(seen, axis=0))), 1e-9)
    a, b = ends
    along = (b - a) / np.linalg.norm(b - a)
    across = np.array([-along[2], 0.0, along[0]])
    across = -across if float((middle - a) @ across) > 0 else across  # away from the motion
    foot = a + along * float((middle - a) @ along)
    thick, wide, long = 0.03 * reach, 0.35 * reach, ALONG * reach
    ends = np.stack([foot - long * along, foot + long * along])
    ring = np.concatenate([ends, ends[::-1] + thick * across])
    centre = ring.mean(axis=0)
    vertices, triangles = prism(ring - centre, wide)
    return Solid(name, -1, vertices, triangles, centre[None], np.array([[1.0, 0.0, 0.0, 0.0]]), endless=along)


def _foot(wall: Solid, point: np.ndarray) -> np.ndarray:
    """The point of an endless wall that is nearest to another one."""
    assert wall.endless is not None
    middle = wall.places[0] + turns_of(wall.turns[:1])[0] @ wall.vertices.mean(axis=0)
    return middle + wall.endless * float((point - middle) @ wall.endless)


def held(solid: Solid, frames: int) -> Solid:
    """The same for so many frames."""
    return replace(solid, places=np.repeat(solid.places[:1], frames, 0), turns=np.repeat(solid.turns[:1], frames, 0))


# -- from runs -----------------------------------------------------------------------------------------------------------


def of_solution(solution: Any, like: Footage | None = None) -> Footage:
    """The footage of a run; it needs a picture (see `carom.drawing`)."""
    if solution.film is None:
        raise InputError("this run has no picture to look at: pass shape= to solve (see carom.drawing), or make its report")
    reel, hits = solution.film, solution.impacts
    solids, loose = pieces(reel, like)
    return Footage(
        name=solution.name,
        flat=reel.dim == 2,
        t=reel.t,
        solids=solids,
        loose=loose,
        hits=hits.t,
        hit_names=tuple(hits.names[c] for c in hits.contact),
        curves=curves_of(solution),
        message=solution.status.message,
        ok=solution.status.ok,
    )


def curves_of(solution: Any) -> tuple[Curves, ...]:
    """Energy, gaps and momenta along the grid."""
    found = [Curves("energy", solution.t, {"energy": solution.energy})]
    if solution.smallest_gap is not None:
        found.append(Curves("smallest gap", solution.t, {"smallest gap": solution.smallest_gap}))
    shown = range(min(solution.p.shape[1], MANY))
    found.append(Curves("momenta", solution.t, {momentum_labels(solution)[i]: solution.p[:, i] for i in shown}))
    return tuple(found)
