"""Two convex bodies with corners, as one obstacle in the space of both: §5 of [fetecau2003].

Two convex bodies are apart where some plane separates them, and it is enough to try the planes of their faces and, in space, those
along an edge of each:

    φ_n = min over the corners y of the other, n·y, − max over the corners x of the one, n·x,     for each such normal n    (1)

They overlap where all φ_n are negative, so the φ_n are the faces of an obstacle in the space of both configurations: a contact with
`obstacle=True`. One of them vanishes where a corner touches a face, or an edge an edge. Where a corner touches a corner several
do; their gradients at the closest points span the normal cone of (86), where the impulse of the node inclusion (84) is looked for.
"""

from itertools import combinations
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from carom.calls import floats, public
from carom.errors import InputError

FLAT = 1e-10  # of the size of a body: corners within this of a plane lie on it
PARALLEL = 1e-6  # sine of the angle below which two edges have no common normal: the faces have


@public
class Convex:
    """A convex polygon or polyhedron, the hull of its corners, in axes of its own.

    - `corners`: [k, 2] or [k, 3], in any order. What lies inside of the hull is left out.
    """

    def __init__(self, corners: Any):
        try:
            points = floats(corners)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"corners must be points in the plane or in space, [k, 2] or [k, 3]; got {corners!r}") from error
        if points.ndim != 2 or points.shape[1] not in (2, 3) or not np.all(np.isfinite(points)):
            raise InputError(f"corners must be points in the plane or in space, [k, 2] or [k, 3]; got shape {points.shape}")
        dim, size = points.shape[1], float(np.max(np.ptp(points, axis=0), initial=0.0))
        normals, members = _faces(points, FLAT * size) if size > 0 else (np.zeros((0, dim)), [])
        if len(normals) <= dim:
            raise InputError(f"the corners of a body must span {'an area' if dim == 2 else 'a volume'}; these {len(points)} do not")
        used = sorted(set().union(*members))
        self.corners: np.ndarray = points[used]
        self.normals: np.ndarray = normals  #                     [f, d]  outwards
        self.offsets: np.ndarray = np.max(self.corners @ normals.T, axis=0)
        self.edges: np.ndarray = _edges(normals, members)  #      [e, d]  directions, each once; none in the plane

    def placed(self, x: Array, turn: Array) -> Float[Array, "k d"]:
        """The corners of the body at x, turned: an angle in the plane, a rotation matrix."""
        return x + jnp.asarray(self.corners) @ rotation(turn).T


def rotation(turn: Any) -> Float[Array, "d d"]:
    """The matrix of an angle in the plane; a matrix as it is."""
    turn = jnp.asarray(turn, float)
    if turn.ndim == 2:
        return turn
    c, s = jnp.cos(turn), jnp.sin(turn)
    return jnp.stack([jnp.stack([c, -s]), jnp.stack([s, c])])


@public
def separations(one: Convex, at_one: tuple[Any, Any], other: Convex, at_other: tuple[Any, Any]) -> Float[Array, " faces"]:
    """(1): one entry for each plane that may separate two bodies, each at a place (x, angle or rotation matrix).

    As the gap of a contact with `obstacle=True`:

        Contact(lambda q: separations(square, (q[:2], q[2]), kite, (q[3:5], q[5])), obstacle=True)
    """
    for name, body in {"one": one, "other": other}.items():
        if not isinstance(body, Convex):
            raise InputError(f"separations: {name} must be a carom.Convex; got {body!r}")
    for name, place in {"at_one": at_one, "at_other": at_other}.items():
        if not isinstance(place, (tuple, list)) or len(place) != 2:
            raise InputError(f"separations: {name} must be a place, (x, angle or rotation matrix); got {place!r}")
    if one.corners.shape[1] != other.corners.shape[1]:
        raise InputError("one of the bodies is in the plane, the other in space")
    first, second = one.placed(*at_one), other.placed(*at_other)
    rows = [_beyond(one, at_one, second), _beyond(other, at_other, first)]
    if len(one.edges) and len(other.edges):
        a = jnp.asarray(one.edges) @ rotation(at_one[1]).T
        b = jnp.asarray(other.edges) @ rotation(at_other[1]).T
        across = jnp.cross(a[:, None], b[None]).reshape(-1, 3)
        square = jnp.sum(across**2, axis=1)
        real = square > PARALLEL**2
        normals = across / jnp.sqrt(jnp.where(real, square, 1.0))[:, None]
        near, far = first @ normals.T, second @ normals.T
        # Either side of the pair may be the one that is on top.
        apart = jnp.maximum(jnp.min(far, axis=0) - jnp.max(near, axis=0), jnp.min(near, axis=0) - jnp.max(far, axis=0))
        rows.append(jnp.where(real, apart, -1e3 * (np.ptp(one.corners) + np.ptp(other.corners))))
    return jnp.concatenate(rows)


def _beyond(one: Convex, place: tuple[Any, Any], points: Array) -> Array:
    """How far the points lie beyond each face."""
    normals = jnp.asarray(one.normals) @ rotation(place[1]).T
    return jnp.min((points - place[0]) @ normals.T, axis=0) - jnp.asarray(one.offsets)


def _faces(points: np.ndarray, flat: float) -> tuple[np.ndarray, list[set[int]]]:
    """The outward normals of the hull, and the corners on each face: every plane through d corners that has all on one side."""
    normals: list[np.ndarray] = []
    members: list[set[int]] = []
    for chosen in combinations(range(len(points)), points.shape[1]):
        spans = points[list(chosen[1:])] - points[chosen[0]]
        normal = np.array([spans[0, 1], -spans[0, 0]]) if points.shape[1] == 2 else np.cross(*spans)
        length = np.linalg.norm(normal)
        if length <= flat * np.max(np.abs(spans)) ** (points.shape[1] - 2):
            continue
        heights = (points - points[chosen[0]]) @ normal / length
        for sign in (1.0, -1.0):
            on = set(np.flatnonzero(np.abs(heights) <= flat).tolist())
            if np.all(sign * heights <= flat) and on not in members:
                normals.append(sign * normal / length)
                members.append(on)
    return np.array(normals).reshape(-1, points.shape[1]), members


def _edges(normals: np.ndarray, members: list[set[int]]) -> np.ndarray:
    """The directions of the edges, parallel ones once: where two faces share two corners."""
    found: list[np.ndarray] = []
    for i, j in combinations(range(len(normals)), 2) if normals.shape[1] == 3 else ():
        if len(members[i] & members[j]) < 2:
            continue
        along = np.cross(normals[i], normals[j])
        along = along / np.linalg.norm(along)
        if not any(np.linalg.norm(np.cross(along, other)) < 1e-9 for other in found):
            found.append(along)
    return np.array(found).reshape(-1, normals.shape[1])
