"""The normal of a contact to rounding, from one that is near: polytopes that grow towards a smooth surface know the distance to
their tolerance and the normal to its root only, 10⁻⁵, which is too little to tell whether what is balanced holds.

With the support points x of a along n and y of b against it, a unit vector n from a to b separates the two by

    s(n) = n · (y − x)                                                                                                        (1)

The distance is the largest s; where they overlap, −s of a local maximum is the depth. On the sphere of unit vectors

    grad s = P(y − x),   −Hess s = P(Hₐ + H_b + s)P   with the bends H = ∂x/∂n of both and P across n                         (2)

so that Newton's method meets it. s has kinks where a whole edge, or the whole side of a cylinder, is met: there n is at right
angles to that ridge, and (2) is asked along the circle of such n; with a ridge of both, n is their product; or it is that of a
face. All that are near are tried: in the largest s there is nothing to be wrong about.
"""

from itertools import product

import numpy as np

from carom.bodies.detection.smooth_pieces import NEAR, Ridge, SmoothPiece
from carom.bodies.quaternions import cross

ROUNDS = 8
ROUNDING = 1e-15  # relative to the size


def sharpen(
    a: SmoothPiece, b: SmoothPiece, n: np.ndarray, gap: float, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    """The normal, the signed distance and the points of both, from those that `separate` found."""
    size = ROUNDING * (a.size + b.size)
    pairs = list(product([*a.ridges(n), None], [*b.ridges(-n), None]))
    best = None
    for ridge_a, ridge_b in sorted(pairs, key=lambda pair: pair.count(None)):  # where two say the same, that of more ridges
        found = _along(a, b, n, ridge_a, ridge_b, x, y)
        best = found if best is None or (found is not None and found[1] > best[1] + size) else best
    tops = [m for m, _ in a.faces if m @ n > np.cos(NEAR)] + [-m for m, _ in b.faces if m @ n < -np.cos(NEAR)]
    for m in (n, *tops):
        s = _separation(a, b, m)
        best = (m, s, x, y) if best is None or s > best[1] + size else best
    return best if best is not None and best[1] > gap - NEAR * (a.size + b.size) else (n, gap, x, y)


def _separation(a: SmoothPiece, b: SmoothPiece, n: np.ndarray) -> float:
    return float(n @ (b.support(-n) - a.support(n)))  # (1)


def _along(a: SmoothPiece, b: SmoothPiece, n: np.ndarray, ridge_a: Ridge | None, ridge_b: Ridge | None, x, y) -> tuple | None:
    """The best n at right angles to these ridges; None where there is none near."""
    start, ridges = n, [ridge[0] for ridge in (ridge_a, ridge_b) if ridge is not None]
    if len(ridges) == 2:
        n = cross(*ridges)
        length = np.linalg.norm(n)
        if length < NEAR:  # side by side: one of them is enough
            return None
        n = n / (length if n @ start > 0 else -length)
    else:
        n = _climb(a, b, n, *ridges)
    if n @ start < np.cos(NEAR):
        return None
    s = _separation(a, b, n)
    if ridge_a is not None and ridge_b is not None:
        x, y = _crossing(ridge_a, ridge_b, n, s)
    elif ridge_a is not None:
        y = b.support(-n)
        x = y - s * n
    else:
        x = a.support(n)
        y = b.support(-n) if ridge_b is None else x + s * n
    return n, s, x, y


def _climb(a: SmoothPiece, b: SmoothPiece, n: np.ndarray, ridge: np.ndarray | None = None) -> np.ndarray:
    """Newton's method by (2), on the sphere, or along the circle at right angles to a ridge."""
    if ridge is not None:
        n = n - (n @ ridge) * ridge
        n = n / np.linalg.norm(n)
    for _ in range(ROUNDS):
        across = _across(n) if ridge is None else cross(ridge, n)[None]
        x, y = a.support(n), b.support(-n)
        slope = across @ (y - x)
        bend = across @ (a.bend(n) + b.bend(-n)) @ across.T + n @ (y - x) * np.eye(len(across))
        try:
            move = across.T @ np.linalg.solve(bend, slope)
        except np.linalg.LinAlgError:  # two flat things
            return n
        size = np.linalg.norm(move)
        if not size < NEAR:  # away from here
            return n
        n = n + move
        n = n / np.linalg.norm(n)
        if size < ROUNDING:
            break
    return n


def _across(n: np.ndarray) -> np.ndarray:
    """Two unit vectors at right angles to n and to each other [2, 3]."""
    first = cross(n, np.eye(3)[np.argmin(np.abs(n))])
    first = first / np.linalg.norm(first)
    return np.array([first, cross(n, first)])


def _crossing(a: Ridge, b: Ridge, n: np.ndarray, s: float) -> tuple[np.ndarray, np.ndarray]:
    """Where two ridges pass each other along n, at the distance s."""
    (u, root_a, radius_a), (v, root_b, radius_b) = a, b
    apart = root_b - radius_b * n - (root_a + radius_a * n)
    uv, across = u @ v, apart - s * n
    along = (u @ across - uv * (v @ across)) / (1 - uv * uv)
    x = root_a + radius_a * n + along * u
    return x, x + s * n
