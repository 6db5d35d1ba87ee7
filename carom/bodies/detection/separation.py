"""The axis that separates two polytopes most, or along which they overlap least, for many pairs at once.

Axes are the normals of the faces of both and the products of their edges. A unit vector n from a to b separates by

    s(n) = min over b of n · y − max over a of n · x                                                                    (1)

Two polytopes are apart iff the largest s is positive; if they overlap, −s is the depth. If they are apart, s is not more than
their distance, and equal to it unless a corner is what is nearest.
"""

from dataclasses import dataclass

import numpy as np

from carom.bodies.detection.geometry import Group
from carom.bodies.quaternions import crossing, lengths

PRODUCT = 1e-9  #  relative to the size: by so much a product of edges must be better than a face
PARALLEL = 1e-9  # the sine of the angle between two edges below which their product says nothing


@dataclass(frozen=True)
class Axes:
    """The best axis of each pair: s of (1), n from a to b, and whether it is a product of edges."""

    separation: np.ndarray  #  [k]
    normal: np.ndarray  #      [k, 3]
    crossed: np.ndarray  #     [k]


def best_axes(a: Group, b: Group) -> Axes:
    """For the pairs (a, b), row by row. Thin cores whose difference has no inside (two balls, two capsules, a ball and a triangle)
    never overlap but by chance, and are told as infinitely far apart: then nearest points decide."""
    k = len(a.pieces)
    if thin(a, b):
        return Axes(np.full(k, np.inf), np.zeros((k, 3)), np.zeros(k, bool))
    found = [_faces(a, b), _turned(_faces(b, a)), _edges(a, b)]
    separation = np.concatenate([s for s, _ in found], axis=1)
    normals = np.concatenate([n for _, n in found], axis=1)
    # A product of edges must be clearly better than a face: for boxes that lie flat, both say the same but for rounding.
    product = np.arange(separation.shape[1]) >= found[0][0].shape[1] + found[1][0].shape[1]
    best = np.argmax(separation - product * PRODUCT * (a.size + b.size)[:, None], axis=1)
    rows = np.arange(k)
    return Axes(separation[rows, best], normals[rows, best], product[best])


def thin(a: Group, b: Group) -> bool:
    """Whether the difference of the cores is flat."""
    faces = sorted((a.normals.shape[1], b.normals.shape[1]))
    return faces[1] == 0 or (faces == [0, 2] and 1 in (a.points.shape[1], b.points.shape[1]))


def _faces(a: Group, b: Group) -> tuple[np.ndarray, np.ndarray]:
    """s of the outward normals of a: [k, F], and the normals."""
    if a.normals.shape[1] == 0:
        return np.zeros((len(a.pieces), 0)), np.zeros((len(a.pieces), 0, 3))
    corner = a.points[np.arange(len(a.pieces))[:, None], a.loops[:, :, 0]]
    return (a.normals @ b.points.swapaxes(1, 2)).min(axis=2) - np.vecdot(a.normals, corner), a.normals


def _turned(found: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return found[0], -found[1]


def _edges(a: Group, b: Group) -> tuple[np.ndarray, np.ndarray]:
    """s of the products of edges, with the sign that separates more."""
    k, da, db = len(a.pieces), a.directions.shape[1], b.directions.shape[1]
    if da * db == 0:
        return np.zeros((k, 0)), np.zeros((k, 0, 3))
    axes = (b.directions[:, None] @ crossing(a.directions)).reshape(k, da * db, 3)
    length = lengths(axes)
    usable = length > PARALLEL
    axes = axes / np.where(usable, length, 1.0)[:, :, None]
    on_a, on_b = axes @ a.points.swapaxes(1, 2), axes @ b.points.swapaxes(1, 2)
    forth, back = on_b.min(axis=2) - on_a.max(axis=2), on_a.min(axis=2) - on_b.max(axis=2)
    separation = np.where(usable, np.maximum(forth, back), -np.inf)
    return separation, np.where((forth >= back)[:, :, None], axes, -axes)
