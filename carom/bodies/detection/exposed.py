"""Contacts with what is not on the surface: edges between triangles of a flat ground, sides of tiles that lie side by side.

Each piece of a body is convex and knows nothing of the others. A box that slides over a flat field of triangles is near the edge of
the next one, and the nearest points of the two say that a wall stands there. A contact with the normal n (out of the body) at the
point p of piece A is one with the body only if no other piece B that holds p reaches beyond it:

    max over B of n · x  ≤  n · p     for all B of the body with p ∈ B                                                        (1)

Where n is the normal of a face of A, p may lie on the border of that face, where it stands up from another piece (a wall on a
floor). So (1) is asked a little inside the face then: a side that another tile covers is covered there too, a wall is not.
Bodies that are fixed are one body here.
"""

import numpy as np

from carom.bodies.detection.broad import near_pairs
from carom.bodies.detection.geometry import Group, Placement
from carom.bodies.detection.manifold import LEAN, SAME
from carom.bodies.detection.nearest import inside

INWARDS = 1e-3  # of the way to the middle of a face
BEYOND = 1e-6  #  relative to the size: less is rounding of the normal


def covered(
    placement: Placement, a: np.ndarray, b: np.ndarray, point: np.ndarray, normal: np.ndarray, gap: np.ndarray
) -> np.ndarray:
    """Which contacts break (1), on either side; a and b are their pieces."""
    beside = neighbours(placement)
    found = np.zeros(len(gap), bool)
    if not beside:
        return found
    for i in range(len(gap)):
        for piece, sign in ((int(a[i]), 1.0), (int(b[i]), -1.0)):
            if piece in beside and not found[i]:
                found[i] = _hidden(placement, piece, beside[piece], point[i] - 0.5 * sign * gap[i] * normal[i], sign * normal[i])
    return found


def neighbours(placement: Placement) -> dict[int, np.ndarray]:
    """The pieces that touch each piece and never move against it, of those that have some; found once."""
    geometry, still = placement.geometry, placement.still
    known = geometry.__dict__.get("_beside")
    if known is None or known[0] is not still:
        flat = np.flatnonzero(geometry.group_of >= 0)
        label = geometry.owner[flat]
        if still is not None:
            label = np.where(still[label], -1, label)
        beside: dict[int, list[int]] = {}
        for one in np.unique(label):
            mine = flat[label == one]
            if len(mine) > 1:
                low, high = placement.boxes
                wide = SAME * np.max(high[mine] - low[mine])
                pairs = near_pairs(low[mine] - wide, high[mine] + wide, np.arange(len(mine)), np.ones(len(mine), bool))
                for i, j in zip(mine[pairs[0]].tolist(), mine[pairs[1]].tolist(), strict=True):
                    beside.setdefault(i, []).append(j)
                    beside.setdefault(j, []).append(i)
        known = geometry.__dict__["_beside"] = (still, {i: np.array(others) for i, others in beside.items()})
    return known[1]


def _hidden(placement: Placement, piece: int, others: np.ndarray, p: np.ndarray, n: np.ndarray) -> bool:
    """Whether another piece that holds the point reaches beyond it."""
    group, row = _group(placement, piece)
    radius, size = group.radius[row], group.size[row]
    p = p - radius * n  # on the core
    low, high = placement.boxes
    near = others[((low[others] <= p + SAME * size) & (p - SAME * size <= high[others])).all(axis=1)]
    if len(near) == 0:
        return False
    p = _inwards(group, row, p, n)
    for other in near.tolist():
        theirs, k = _group(placement, other)
        beyond = float(np.max(theirs.points[k] @ n)) - float(n @ p)
        if theirs.radius[k] == radius and beyond > BEYOND * theirs.size[k] and _holds(theirs, k, p, SAME * (size + theirs.size[k])):
            return True
    return False


def _group(placement: Placement, piece: int) -> tuple[Group, int]:
    geometry = placement.geometry
    return placement.groups[geometry.group_of[piece]], int(geometry.row_of[piece])


def _inwards(group: Group, row: int, p: np.ndarray, n: np.ndarray) -> np.ndarray:
    """A little inside the face whose normal is n, where there is one."""
    if group.normals.shape[1] == 0:
        return p
    cosine = group.normals[row] @ n
    face = int(cosine.argmax())
    if cosine[face] < np.cos(LEAN):
        return p
    return p + INWARDS * (group.points[row][group.loops[row, face]].mean(axis=0) - p)


def _holds(group: Group, row: int, p: np.ndarray, slack: float) -> bool:
    """Whether the core of a piece holds a point, up to some slack."""
    points, normals, loops = group.points[row], group.normals[row], group.loops[row]
    if len(normals) == 0:
        return len(points) == 1 and bool(np.max(np.abs(points[0] - p)) <= slack)
    if np.any(np.vecdot(normals, p - points[loops[:, 0]]) > slack):
        return False
    if len(normals) > 2:
        return True
    return bool(inside(points[loops[:1]], normals[:1], p[None, None], slack)[0, 0])  # flat: a triangle, or a side in the plane
