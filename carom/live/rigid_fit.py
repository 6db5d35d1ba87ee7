"""Points that move as one body: the turns and places that carry them from where they were first to where they are."""

import numpy as np

STIFF = 1e-5  # of the size of a part: films keep single precision, and bodies that deform do so by more


def fit(reference: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Centres [k, 3] and unit quaternions [k, 4] (w first) with points[i] = R(i) reference + centre(i); None if there are none.

    `reference` [m, 3] is centred. The best rotation (Kabsch) comes from one small singular value decomposition a frame.
    """
    centres = points.mean(axis=1)
    apart = points - centres[:, None]
    u, _, vt = np.linalg.svd(np.einsum("kma,mb->kab", apart, reference))
    sign = np.sign(np.linalg.det(u @ vt))
    u[:, :, 2] *= sign[:, None]
    turns = u @ vt
    size = max(float(np.max(np.abs(reference), initial=0.0)), 1e-300)
    reach = max(size, 1e-2 * float(np.max(np.abs(centres), initial=0.0)))
    worst = float(np.max(np.abs(apart - np.einsum("kab,mb->kma", turns, reference)), initial=0.0))
    return (centres, quaternions_of(turns)) if worst <= STIFF * reach else None


def quaternions_of(turns: np.ndarray) -> np.ndarray:
    """Unit quaternions [k, 4], w first, each on the side of the one before, so that they can be interpolated."""
    from scipy.spatial.transform import Rotation

    q = Rotation.from_matrix(turns).as_quat()[:, [3, 0, 1, 2]]
    flips = np.sign(np.sum(q[1:] * q[:-1], axis=1))
    q[1:] *= np.cumprod(np.where(flips == 0, 1.0, flips))[:, None]
    return q


def turns_of(quaternions: np.ndarray) -> np.ndarray:
    """The rotations [k, 3, 3] of unit quaternions [k, 4], w first."""
    from scipy.spatial.transform import Rotation

    return Rotation.from_quat(quaternions[:, [1, 2, 3, 0]]).as_matrix()


def prism(outline: np.ndarray, depth: float) -> tuple[np.ndarray, np.ndarray]:
    """A closed outline of the plane x–z [m, 3] as a solid that reaches `depth` to both sides in y: vertices and triangles."""
    ring = outline[:-1] if np.array_equal(outline[0], outline[-1]) else outline
    m = len(ring)
    flat = ring[:, [0, 2]]
    if _area(flat) < 0:
        ring, flat = ring[::-1], flat[::-1]
    cap = ears(flat)
    aside = np.array([0.0, depth, 0.0])
    i, j = np.arange(m), (np.arange(m) + 1) % m
    sides = np.concatenate([np.stack([i, i + m, j + m], axis=1), np.stack([i, j + m, j], axis=1)])
    return np.concatenate([ring - aside, ring + aside]), np.concatenate([cap, cap[:, ::-1] + m, sides])


def wheel(rim: np.ndarray, middle: np.ndarray, depth: float) -> tuple[np.ndarray, np.ndarray]:
    """A closed rim [m, 3] about a middle as a solid like `prism`, its two faces in sectors; as many triangles on each side of any
    line through the middle, so that it can be painted."""
    ring = rim[:-1] if np.allclose(rim[0], rim[-1]) else rim
    m = len(ring)
    aside = np.array([0.0, depth, 0.0])
    i, j = np.arange(m), (np.arange(m) + 1) % m
    hub = np.full(m, 2 * m)
    sides = np.concatenate([np.stack([i, i + m, j + m], axis=1), np.stack([i, j + m, j], axis=1)])
    faces = np.concatenate([np.stack([hub, i, j], axis=1), np.stack([hub + 1, j + m, i + m], axis=1)])
    return np.concatenate([ring - aside, ring + aside, [middle - aside, middle + aside]]), np.concatenate([faces, sides])


def outward(vertices: np.ndarray, triangles: np.ndarray) -> np.ndarray | None:
    """The triangles [f, 3] of a closed surface, all of them looking outwards: what is behind them need not be drawn. None if it is
    not closed, or not one-sided. Corners at one place are one corner: the poles of a globe."""
    places, corner = np.unique(
        np.round(vertices / max(float(np.max(np.abs(vertices))), 1e-300), 9) + 0.0, axis=0, return_inverse=True
    )
    faces = corner.ravel()[triangles]
    true = faces[(faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])]
    there = np.concatenate([true[:, [0, 1]], true[:, [1, 2]], true[:, [2, 0]]]) @ [len(places), 1]
    back = np.concatenate([true[:, [1, 0]], true[:, [2, 1]], true[:, [0, 2]]]) @ [len(places), 1]
    if len(np.unique(there)) != len(there) or not np.array_equal(np.sort(there), np.sort(back)):
        return None
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    return triangles if float(np.sum(a * np.cross(b, c))) > 0 else triangles[:, ::-1]


def _area(ring: np.ndarray) -> float:
    x, y = ring.T
    return 0.5 * float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))


def ears(ring: np.ndarray) -> np.ndarray:
    """Triangles [m − 2, 3] of a simple polygon [m, 2] that runs to the left: one ear after the other is cut off."""
    left, found = list(range(len(ring))), []
    while len(left) > 3:
        for k in range(len(left)):
            a, b, c = left[k - 1], left[k], left[(k + 1) % len(left)]
            if _cross(ring[a], ring[b], ring[c]) <= 0:
                continue
            others = [i for i in left if i not in (a, b, c)]
            if not any(_within(ring[i], ring[a], ring[b], ring[c]) for i in others):
                found.append((a, b, c))
                del left[k]
                break
        else:  # corners on one line, or an outline that crosses itself: what is left is closed as it is
            found += [(left[0], left[k], left[k + 1]) for k in range(1, len(left) - 2)]
            left = [left[0], left[-2], left[-1]]
    return np.array([*found, tuple(left)], int)


def _cross(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def _within(p: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> bool:
    return _cross(a, b, p) >= 0 and _cross(b, c, p) >= 0 and _cross(c, a, p) >= 0
