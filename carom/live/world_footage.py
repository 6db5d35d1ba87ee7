"""The footage of a world: bodies with their shapes from a run, strings between them, and arrows for contact forces."""

from dataclasses import replace

import numpy as np

from carom.bodies import quaternions
from carom.bodies.contact_table import WorldContacts, meetings
from carom.bodies.pictures import Outline
from carom.bodies.run import WorldRun
from carom.live.footage import DEPTH, NO_FORCES, Curves, Footage, Forces, Loose, Solid, faced, slab, upright
from carom.live.rigid_fit import prism, wheel

WIDE = 6.0  #    of the motion: how far an endless floor is drawn
PAINTED = 300  # solids: where there are more, round ones are painted in one colour
ROUND = 60  #    triangles: a mesh of more belongs to a round body
DARK = 0.55  #   the second colour of a round body, times the first


def of_world(run: WorldRun, like: Footage | None = None, before: WorldContacts | None = None) -> Footage:
    """The footage of a run at every state that was kept. `like`: earlier footage of the same bodies, whose looks are taken over.
    `before`: the contacts of the run that this one goes on with."""
    looks = looks_of(run) if like is None else like.solids
    flat = run.dim == 2
    places = [_places(run, i) for i in range(len(run.names))]
    solids = tuple(replace(s, places=places[s.owner][0], turns=places[s.owner][1]) for s in looks)
    c = run.contacts
    struck = meetings(c, run.steps, before)
    lines = {axis: run.momentum[:, k] for k, axis in enumerate("xyz"[: run.dim])}
    return Footage(
        name=run.name,
        flat=flat,
        t=run.t,
        solids=solids,
        loose=_strings(run),
        hits=np.clip(c.t[struck], run.t[0], run.t[-1]),
        hit_names=tuple(f"{run.names[c.a[i]]} – {run.names[c.b[i]]}" for i in struck),
        curves=(
            Curves("energy", run.t, {"energy": run.energy}),
            Curves("depth of contacts", run.t, {"depth": _depths(run)}),
            Curves("momentum", run.t, lines),
        ),
        forces=_forces(run, flat),
        message=run.status.message,
        ok=run.status.ok,
    )


# -- looks ---------------------------------------------------------------------------------------------------------------


def looks_of(run: WorldRun) -> tuple[Solid, ...]:
    """Every shape as a solid in the frame of the centre of mass of its body. Free bodies are numbered; all else is scenery."""
    number = np.where(run.free, np.cumsum(run.free) - 1, -1)
    ways = run.x[:: max(1, len(run.t) // 50), run.free].reshape(-1, 3)
    seen = np.concatenate([ways, *(_reaching(run, part) for part in run.outlines if not part.endless)])
    painted = len(run.outlines) <= PAINTED
    found: list[Solid] = []
    for part in run.outlines:
        for solid in _looks(run, part, seen, painted):
            found.append(replace(solid, name=run.names[part.body], body=int(number[part.body]), owner=part.body))
    return tuple(found)


def _reaching(run: WorldRun, part: Outline) -> np.ndarray:
    """The points of a shape at the start."""
    return part.points @ quaternions.matrix(run.q[0, part.body]).T + run.x[0, part.body]


def _looks(run: WorldRun, part: Outline, seen: np.ndarray, painted: bool) -> list[Solid]:
    nowhere = (np.zeros((1, 3)), np.array([[1.0, 0.0, 0.0, 0.0]]))
    if part.kind == "wall":
        ends = _reaching(run, part)
        wall = slab(upright(ends[:, :2]), upright(seen[:, :2]), "")
        place, turn = _places(run, part.body)
        local = _turned(_back(turn[0]), wall.vertices + wall.places[0] - place[0])
        return [replace(wall, vertices=local)]
    if part.endless:
        return [Solid("", -1, _floor(run, part, seen), np.asarray(part.triangles), *nowhere)]
    if run.dim == 3:
        solid = faced(Solid("", 0, part.points, np.asarray(part.triangles), *nowhere))
        return _painted(solid, [0, 1, 2]) if painted else [solid]
    flat = upright(part.points[:, :2])
    depth = DEPTH * float(np.max(np.abs(flat - flat.mean(axis=0))))
    spoked = len(flat) > 3 and not np.allclose(flat[0], flat[-1])  # a disc comes with a spoke, from its middle to its rim
    if spoked:
        solid = faced(Solid("", 0, *wheel(flat[1:], flat[0], depth), *nowhere))
        return _painted(solid, [0, 2]) if painted else [solid]
    return [faced(Solid("", 0, *prism(flat, depth), *nowhere))]


def _floor(run: WorldRun, part: Outline, seen: np.ndarray) -> np.ndarray:
    """As much of an endless plane as lies around the motion, in the frame of its body."""
    R, x = quaternions.matrix(run.q[0, part.body]), run.x[0, part.body]
    square = part.points
    middle = square.mean(axis=0)
    first, second = 0.5 * (square[1] - square[0]), 0.5 * (square[2] - square[1])
    about = R.T @ (seen.mean(axis=0) - x) - middle
    foot = middle + (about @ first) * first + (about @ second) * second
    wide = WIDE * max(float(np.max(np.ptp(seen, axis=0))), 1e-9)
    return np.stack([foot + wide * (a * first + b * second) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))])


def _painted(solid: Solid, axes: list[int]) -> list[Solid]:
    """A round body in two colours, by eighths of space or quarters of the plane; others in one."""
    if len(solid.triangles) <= ROUND:
        return [solid]
    middle = solid.vertices[solid.triangles].mean(axis=1) - solid.vertices.mean(axis=0)
    edge = -1e-9 * np.max(np.abs(middle))  # slivers at the poles lie on it
    dark = np.prod(np.where(middle[:, axes] < edge, -1, 1), axis=1) < 0
    return [replace(solid, triangles=solid.triangles[~dark]), replace(solid, triangles=solid.triangles[dark], shade=DARK)]


# -- motion --------------------------------------------------------------------------------------------------------------


def _places(run: WorldRun, i: int) -> tuple[np.ndarray, np.ndarray]:
    """Centres [k, 3] and turns [k, 4] of a body, neighbours on the same side of the sphere of quaternions."""
    flat = run.dim == 2
    places = upright(run.x[:, i, :2]) if flat else run.x[:, i]
    w, x, y, z = run.q[:, i].T
    turns = np.stack([w, x, -z, y], axis=1) if flat else run.q[:, i]  # the plane stands upright: its z is our −y
    flips = np.sign(np.sum(turns[1:] * turns[:-1], axis=1))
    return places, turns * np.concatenate([[1.0], np.cumprod(np.where(flips == 0, 1.0, flips))])[:, None]


def _depths(run: WorldRun) -> np.ndarray:
    """How deep bodies were in one another, at most, since the state that was kept before; gaps that are open are not recorded."""
    if len(run.t) < 2 or not len(run.deepest):
        return np.zeros(len(run.t))
    since = np.clip(run.steps[:-1] - run.steps[0], 0, len(run.deepest) - 1)
    return np.concatenate([[0.0], np.maximum.reduceat(np.maximum(-run.deepest, 0.0), since)])


def _strings(run: WorldRun) -> tuple[Loose, ...]:
    """A line for each distance and rope."""
    lines = [(string.name, string.ends(run.x, run.q)) for string in run.strings]
    return tuple(Loose(name, -1, "line", upright(points[..., :2]) if run.dim == 2 else points) for name, points in lines)


def _forces(run: WorldRun, flat: bool) -> Forces:
    """The impulses of all contacts as arrows; a usual one is as long as a tenth of the scene, and none longer than three such."""
    c = run.contacts
    size = np.linalg.norm(c.impulse, axis=1)
    rows = np.flatnonzero(size > 0)
    if not len(rows):
        return NO_FORCES
    point, push, size = c.point[rows], c.impulse[rows], size[rows]
    if flat:
        point, push = upright(point[:, :2]), upright(push[:, :2])
    seen = np.concatenate([run.x[0, run.free], *(_reaching(run, part) for part in run.outlines if run.free[part.body])])
    length = 0.1 * float(np.max(np.ptp(seen, axis=0))) * np.minimum(size / np.median(size), 3.0)
    return Forces(c.t[rows], point, point + (length / size)[:, None] * push)


def _back(turn: np.ndarray) -> np.ndarray:
    return turn * np.array([1.0, -1.0, -1.0, -1.0])


def _turned(turn: np.ndarray, points: np.ndarray) -> np.ndarray:
    """R(q) points."""
    return points @ quaternions.matrix(turn).T
