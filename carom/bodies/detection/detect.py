"""All contacts of a world at one moment."""

from dataclasses import dataclass, replace

import numpy as np

from carom.bodies.compiled import by_loops
from carom.bodies.detection import manifold
from carom.bodies.detection.broad import near_pairs
from carom.bodies.detection.exposed import covered, neighbours
from carom.bodies.detection.geometry import Group, Placement
from carom.bodies.detection.manifold import GUARD, LONE, SAME, meet
from carom.bodies.detection.nearest import ANYWHERE, TIE, nearest_of_edges, nearest_points
from carom.bodies.detection.separation import PARALLEL, PRODUCT, best_axes
from carom.bodies.detection.support import inner_ball, smooth_pair
from carom.bodies.detection.walls import over_wall
from carom.bodies.detection.within import balls, balls_in_space
from carom.bodies.quaternions import lengths

OUT = 1e-6  # relative to the size: how far apart edges that overlap are moved to see where they cross
APART = 1e-9  # relative to the size: below, nearest points are too close to tell the normal, and the best axis does

Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # of `Contacts`


@dataclass(frozen=True)
class Contacts:
    """Points where bodies touch or may touch soon, one row each. The normal points from body a to body b."""

    a: np.ndarray  #        [m]
    b: np.ndarray  #        [m]
    point: np.ndarray  #    [m, 3]  on the body that moves freely, halfway between the surfaces where both do
    normal: np.ndarray  #   [m, 3]
    gap: np.ndarray  #      [m]     negative: the depth
    key: np.ndarray  #      [m]     the same point of the same two pieces has the same key in the next step

    def __len__(self) -> int:
        return len(self.gap)

    def take(self, rows: np.ndarray) -> "Contacts":
        return Contacts(self.a[rows], self.b[rows], self.point[rows], self.normal[rows], self.gap[rows], self.key[rows])


def detect(
    placement: Placement, movable: np.ndarray, margin: np.ndarray, ignored: frozenset[tuple[int, int]] = frozenset()
) -> Contacts:
    """Contacts with a gap below the sum of the margins [n] of the two bodies. `ignored` are pairs of bodies (a < b)."""
    found: list[Contacts] = []
    owner = placement.geometry.owner
    for wall in placement.geometry.walls:
        points = over_wall(wall, placement, movable, margin + margin[wall.body])
        if len(points.gap):
            other, m = owner[points.piece], len(points.gap)
            key = (wall.piece * len(owner) + points.piece) * (2 * LONE) + points.feature
            found.append(Contacts(np.full(m, wall.body), other, points.point, points.normal, points.gap, key))
    found += [_on_free(some, movable) for some in _exposed(placement, _pairs(placement, movable, margin, ignored))]
    if not found:
        none = np.zeros(0, int)
        return Contacts(none, none, np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0), none)
    contacts = found[0]
    if len(found) > 1:
        contacts = Contacts(*(np.concatenate([getattr(f, name) for f in found]) for name in Contacts.__dataclass_fields__))
    if ignored:
        pairs = zip(np.minimum(contacts.a, contacts.b).tolist(), np.maximum(contacts.a, contacts.b).tolist(), strict=True)
        contacts = contacts.take(np.array([pair not in ignored for pair in pairs], bool))
    key = contacts.key
    return contacts if not np.count_nonzero(key[1:] < key[:-1]) else contacts.take(np.argsort(key, kind="stable"))


def _on_free(contacts: Contacts, movable: np.ndarray) -> Contacts:
    """Points of contact with what does not move freely lie on the other body. An impact is taken before its gap has closed, and an
    impulse halfway would turn the body by a lever that is half the gap too long; with two free bodies it must be one point."""
    share = 0.5 * (movable[contacts.b].astype(float) - movable[contacts.a])
    if not share.any():
        return contacts
    return replace(contacts, point=contacts.point + (share * contacts.gap)[:, None] * contacts.normal)


def _keys(first: np.ndarray, second: np.ndarray, feature: np.ndarray, pieces: int) -> np.ndarray:
    return (first.astype(np.int64) * pieces + second) * (2 * LONE) + feature


def pieces_of_keys(key: np.ndarray, pieces: int) -> tuple[np.ndarray, np.ndarray]:
    """The two pieces that a key tells of, that of body a first."""
    pair = key // (2 * LONE)
    return pair // max(pieces, 1), pair % max(pieces, 1)


FEW = 60  # pieces, up to which all pairs are compared in one go
SOME = 100  # boxes that move, up to which a ground of more pieces than that is looked through for each of them


def _near(placement: Placement, movable: np.ndarray, margin: np.ndarray, ignored) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (i, j), i < j, of pieces whose boxes, widened by the margins, meet."""
    geometry, owner = placement.geometry, placement.geometry.owner
    finite = geometry.finite
    if len(finite) > FEW:
        low, high = placement.boxes
        wide = margin[owner[finite]][:, None]
        low, high, moves = low[finite] - wide, high[finite] + wide, movable[owner[finite]]
        kept = _around(low, high, moves)
        i, j = near_pairs(low[kept], high[kept], owner[finite[kept]], moves[kept])
        return finite[kept[i]], finite[kept[j]]
    i, j, reach = geometry.couples(movable, ignored)
    if len(i) == 0:
        return i, j
    a, b = owner[i], owner[j]
    apart, wide = placement.x[a] - placement.x[b], margin[a] + margin[b]
    near = np.flatnonzero(np.vecdot(apart, apart) <= (reach + wide) ** 2)
    if len(near) == 0:
        return i[near], j[near]
    i, j, wide = i[near], j[near], wide[near][:, None]
    low, high = placement.boxes
    meet = ((low[i] <= high[j] + wide) & (low[j] <= high[i] + wide)).all(axis=1)
    return i[meet], j[meet]


def _around(low: np.ndarray, high: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """The boxes that move, and those of the others that are near one of them: of a large ground most are near nothing."""
    near, these = moves.copy(), np.flatnonzero(moves)
    if len(these) > SOME or len(low) - len(these) <= SOME:
        return np.arange(len(low))
    for k in these.tolist():
        near |= ((low <= high[k]) & (low[k] <= high)).all(axis=1)
    return np.flatnonzero(near)


def _pairs(placement: Placement, movable: np.ndarray, margin: np.ndarray, ignored) -> list[Contacts]:
    """Contacts of polytopes and smooth shapes with each other, pairs of one kind in one go."""
    geometry, owner = placement.geometry, placement.geometry.owner
    i, j = _near(placement, movable, margin, ignored)
    if len(i) == 0:
        return []
    gi, gj = geometry.group_of[i], geometry.group_of[j]
    found, kinds = [], len(geometry.groups)
    kind = np.where((gi >= 0) & (gj >= 0), gi * kinds + gj, -1)
    for one in np.unique(kind):
        mine = kind == one
        if one < 0:
            found += [_smooth(placement, p, q, margin) for p, q in zip(i[mine].tolist(), j[mine].tolist(), strict=True)]
            continue
        a, b = placement.groups[one // kinds], placement.groups[one % kinds]
        rows = geometry.row_of[i[mine]], geometry.row_of[j[mine]]
        found.append(_polytopes(a, rows[0], b, rows[1], margin, len(owner)))
        if len(found[-1]) and not a.points.shape[1] == b.points.shape[1] == 1:
            found += _within(placement, a.take(rows[0]), b.take(rows[1]), margin, found[-1])
    return [f for f in found if len(f)]


def _exposed(placement: Placement, found: list[Contacts]) -> list[Contacts]:
    """Those with the surface of bodies of several pieces, not with what lies between the pieces."""
    if not found or not neighbours(placement):
        return found
    kept = []
    for some in found:
        pieces = pieces_of_keys(some.key, len(placement.geometry.owner))
        hidden = covered(placement, *pieces, some.point, some.normal, some.gap)
        kept.append(some.take(~hidden) if hidden.any() else some)
    return [some for some in kept if len(some)]


def polytope_limits() -> tuple[float, ...]:
    """The numbers of the files that `polytope_points` goes through."""
    faces = (manifold.FLAT, manifold.STEEP, manifold.LEAN, manifold.SIDE, SAME, float(LONE))
    return PRODUCT, PARALLEL, APART, OUT, TIE, *faces


def _polytopes(a: Group, rows_a: np.ndarray, b: Group, rows_b: np.ndarray, margin: np.ndarray, pieces: int) -> Contacts:
    return Contacts(*polytope_points(a, rows_a, b, rows_b, margin, pieces, polytope_limits()))


@by_loops("pair_loops")
def polytope_points(
    a: Group, rows_a: np.ndarray, b: Group, rows_b: np.ndarray, margin: np.ndarray, pieces: int, limits: tuple[float, ...]
) -> Columns:
    """Of pairs, by their rows: the best axis, the nearest points where they are apart, and the points where they meet."""
    a, b = a.take(rows_a), b.take(rows_b)
    if a.points.shape[1] == b.points.shape[1] == 1:
        return _balls(a, b, margin, pieces)
    axes = best_axes(a, b)
    limit = margin[a.bodies] + margin[b.bodies]
    radii = a.radius + b.radius
    close = (np.isinf(axes.separation) | (axes.separation - radii < limit)).nonzero()[0]
    separation, normal, crossed = axes.separation, axes.normal, axes.crossed
    if len(close) < len(limit):
        a, b, limit, radii = a.take(close), b.take(close), limit[close], radii[close]
        separation, normal, crossed = separation[close], normal[close], crossed[close]
    x, y = _deepest(a, b, normal)
    away = separation > APART * (a.size + b.size)
    apart, edges = np.flatnonzero(away), np.flatnonzero(crossed & ~away)
    if len(apart):
        near = nearest_points(a.take(apart), b.take(apart))
        normal[apart], x[apart], y[apart] = near.normal, near.x, near.y
    if len(edges):
        x[edges], y[edges] = _crossing(a.take(edges), b.take(edges), separation[edges], normal[edges])
    points = meet(a, b, normal, x, y)
    n, pair = points.normal, points.pair
    gap = np.vecdot(points.y - points.x, n) - radii[pair]
    keep = (gap < limit[pair]).nonzero()[0]
    n, pair, gap = n[keep], pair[keep], gap[keep]
    surface = points.x[keep] + a.radius[pair][:, None] * n
    key = _keys(a.pieces[pair], b.pieces[pair], points.feature[keep], pieces)
    return a.bodies[pair], b.bodies[pair], surface + 0.5 * gap[:, None] * n, n, gap, key


def _within(placement: Placement, a: Group, b: Group, margin: np.ndarray, found: Contacts) -> list[Contacts]:
    """The balls inside the pieces of the pairs (a, b) whose contacts were found, where their centres may come to the other."""
    pieces, within = len(placement.geometry.owner), []
    pair = lambda contacts, of: np.searchsorted(of, contacts.key // (2 * LONE))  # noqa: E731
    base = a.pieces.astype(np.int64) * pieces + b.pieces
    limit, least = margin[a.bodies] + margin[b.bodies], np.full(len(base), np.inf)
    order = np.argsort(base)
    np.minimum.at(least, order[pair(found, base[order])], found.gap)
    for mine, other, number in ((a, b, GUARD), (b, a, GUARD - 1)):
        radius = balls(placement.geometry).radius[mine.pieces]
        rows = np.flatnonzero((radius > 0) & (least + radius < limit))
        if len(rows) == 0:
            continue
        ball = balls_in_space(placement, mine.pieces[rows]), np.arange(len(rows))
        pairs = (*ball, other, rows) if number == GUARD else (other, rows, *ball)
        some = _polytopes(*pairs, margin, pieces)
        row = order[pair(some, base[order])]
        told = (some.gap + radius[row] < limit[row]) & (some.gap > least[row] + SAME * radius[row])
        within.append(replace(some, key=some.key - some.key % (2 * LONE) + number).take(np.flatnonzero(told)))
    return within


def _balls(a: Group, b: Group, margin: np.ndarray, pieces: int) -> Columns:
    """The same for points that are swelled by a radius: balls and discs."""
    apart, radii = b.points[:, 0] - a.points[:, 0], a.radius + b.radius
    distance = lengths(apart)
    near = (distance - radii < margin[a.bodies] + margin[b.bodies]).nonzero()[0]
    if len(near) < len(distance):
        a, b, apart, distance, radii = a.take(near), b.take(near), apart[near], distance[near], radii[near]
    together = distance == 0
    n = apart / np.where(together, 1.0, distance)[:, None]
    if np.count_nonzero(together):
        n[together] = ANYWHERE
    gap = distance - radii
    point = a.points[:, 0] + (a.radius + 0.5 * gap)[:, None] * n
    return a.bodies, b.bodies, point, n, gap, _keys(a.pieces, b.pieces, np.full(len(gap), LONE), pieces)


def _deepest(a: Group, b: Group, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The point of a that is farthest along n, and the point of b farthest against it, moved beside each other."""
    rows = np.arange(len(n))
    x = a.points[rows, np.vecdot(a.points, n[:, None]).argmax(axis=1)]
    y = b.points[rows, np.vecdot(b.points, n[:, None]).argmin(axis=1)]
    across = (y - x) - np.vecdot(y - x, n)[:, None] * n
    return x + 0.5 * across, y - 0.5 * across


def _crossing(a: Group, b: Group, separation: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The points in which edges that overlap along n cross: the nearest ones where b is moved out by a little more than that."""
    out = ((OUT * (a.size + b.size) - separation)[:, None] * n)[:, None]
    near = nearest_of_edges(a, replace(b, points=b.points + out))
    return near.x, near.y - out[:, 0]


def _smooth(placement: Placement, p: int, q: int, margin: np.ndarray) -> Contacts:
    geometry, owner = placement.geometry, placement.geometry.owner
    limit = margin[owner[p]] + margin[owner[q]]
    found = smooth_pair(placement, p, q, limit)
    m = len(found.gap)
    parts = [(found, np.arange(m), 1.0)]
    for one, other, sign in ((p, q, 1.0), (q, p, -1.0)):
        radius = float(balls(geometry).radius[one])
        if m and radius and found.gap.min() + radius < limit:  # its centre may come to the other
            ball = inner_ball(placement, one, other, limit, found.gap.min())
            parts.append((ball, np.full(len(ball.gap), GUARD - (sign < 0)), sign))
    point, gap = (np.concatenate([getattr(part[0], name) for part in parts]) for name in ("point", "gap"))
    normal = np.concatenate([part[2] * part[0].normal for part in parts])
    feature = np.concatenate([part[1] for part in parts])
    m = len(gap)
    key = _keys(np.full(m, p), np.full(m, q), feature, len(owner))
    return Contacts(np.full(m, owner[p]), np.full(m, owner[q]), point, normal, gap, key)


def guards(key: np.ndarray) -> np.ndarray:
    """Which contacts are those of balls inside bodies."""
    return (key >= 0) & (key % (2 * LONE) >= GUARD - 1)
