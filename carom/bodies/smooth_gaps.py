"""Gaps as functions of configurations, for programs that JAX compiles: positive while apart, negative inside, with slopes.

    wall        points of a body, swelled by a radius, over a plane:      n·(x + Rp) − offset − r                               (1)
    ellipsoid   n·x − offset − |diag(a) Rᵀn|                                                                                    (2)
    rods        two segments swelled by radii (balls are segments without length): the distance of the segments, less the radii  (3)
    ball–box    the distance of the centre of the ball from the box, less the radius                                            (4)
    polytopes   the largest separation along the normals of faces and the products of edges                                     (5)

(5) is a lower bound of the distance while two polytopes are apart, and exact where they touch, a corner on a face or edge on edge.
All of them stay the same where both bodies are moved together, so that momentum and angular momentum are kept by what they push.
Bodies are given by centres [N, 3] and rotations [N, 3, 3] of space; what is fixed comes after what is free.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

PARALLEL = 1e-8  # squared sine of an angle below which two edges tell no axis: normals of faces do


class Pose(NamedTuple):
    x: Array  #  [N, 3]
    R: Array  #  [N, 3, 3]


def _dot(a: Array, b: Array) -> Array:
    return jnp.sum(a * b, axis=-1)


def _length(a: Array) -> Array:
    square = _dot(a, a)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def _moved(pose: Pose, body: Any, points: Any) -> Array:
    """Points [..., 3] of bodies [...] in space."""
    return pose.x[body] + jnp.einsum("...ij,...j->...i", pose.R[body], points)


class Points(NamedTuple):
    """Points of bodies over planes, one row each: (1)."""

    body: np.ndarray  #    [m]
    point: np.ndarray  #   [m, 3]  in the body
    radius: np.ndarray  #  [m]
    normal: np.ndarray  #  [m, 3]
    offset: np.ndarray  #  [m]

    def gap(self, pose: Pose) -> Array:
        return _dot(_moved(pose, self.body, self.point), self.normal) - self.offset - self.radius

    def touch(self, pose: Pose) -> tuple[Array, Array, Any, Any]:
        """Where they touch, the normal, and the two bodies (−1: what never moves)."""
        on = _moved(pose, self.body, self.point) - self.radius[:, None] * self.normal
        return on, jnp.asarray(self.normal), np.full(len(self.body), -1), self.body


class Ellipsoids(NamedTuple):
    """(2)."""

    body: np.ndarray  #    [m]
    axes: np.ndarray  #    [m, 3]
    turn: np.ndarray  #    [m, 3, 3]  its axes in the body
    center: np.ndarray  #  [m, 3]
    normal: np.ndarray
    offset: np.ndarray

    def _support(self, pose: Pose) -> Array:
        R = jnp.einsum("mij,mjk->mik", pose.R[self.body], self.turn)
        local = self.axes * jnp.einsum("mij,mi->mj", R, self.normal)
        return _moved(pose, self.body, self.center) - jnp.einsum("mij,mj->mi", R, self.axes * local) / _length(local)[:, None]

    def gap(self, pose: Pose) -> Array:
        return _dot(self._support(pose), self.normal) - self.offset

    def touch(self, pose: Pose) -> tuple[Array, Array, Any, Any]:
        return self._support(pose), jnp.asarray(self.normal), np.full(len(self.body), -1), self.body


class Rods(NamedTuple):
    """(3): two segments each, from `start` to `end` in their bodies."""

    a: np.ndarray  #        [m]
    b: np.ndarray
    start_a: np.ndarray  #  [m, 3]
    end_a: np.ndarray
    start_b: np.ndarray
    end_b: np.ndarray
    radius_a: np.ndarray  #  [m]
    radius_b: np.ndarray

    def _nearest(self, pose: Pose) -> tuple[Array, Array]:
        p, q = _moved(pose, self.a, self.start_a), _moved(pose, self.b, self.start_b)
        u, w = _moved(pose, self.a, self.end_a) - p, _moved(pose, self.b, self.end_b) - q
        return nearest_on_segments(p, u, q, w)

    def gap(self, pose: Pose) -> Array:
        x, y = self._nearest(pose)
        return _length(y - x) - self.radius_a - self.radius_b

    def touch(self, pose: Pose) -> tuple[Array, Array, Any, Any]:
        x, y = self._nearest(pose)
        n = (y - x) / _length(y - x)[:, None]
        return x + self.radius_a[:, None] * n, n, self.a, self.b


def nearest_on_segments(p: Array, u: Array, q: Array, w: Array) -> tuple[Array, Array]:
    """The nearest points of the segments p + s u and q + t w, row by row; a segment without length is a point."""
    uu, ww, uw, r = _dot(u, u), _dot(w, w), _dot(u, w), p - q
    safe_u, safe_w = jnp.where(uu > 0, uu, 1.0), jnp.where(ww > 0, ww, 1.0)
    across = uu * ww - uw * uw
    s = jnp.where(across > PARALLEL * uu * ww, (uw * _dot(r, w) - ww * _dot(r, u)) / jnp.where(across > 0, across, 1.0), 0.5)
    s = jnp.clip(s, 0.0, 1.0)
    t = jnp.clip((uw * s + _dot(r, w)) / safe_w, 0.0, 1.0)  # then s again: where t was clipped, another s is nearer
    s = jnp.clip((uw * t - _dot(r, u)) / safe_u, 0.0, 1.0)
    return p + s[:, None] * u, q + t[:, None] * w


class BallBoxes(NamedTuple):
    """(4)."""

    ball: np.ndarray  #    [m] bodies
    box: np.ndarray
    point: np.ndarray  #   [m, 3]  the centre of the ball in its body
    radius: np.ndarray
    center: np.ndarray  #  [m, 3]  the centre of the box in its body
    turn: np.ndarray  #    [m, 3, 3]
    half: np.ndarray  #    [m, 3]

    def _local(self, pose: Pose) -> tuple[Array, Array]:
        R = jnp.einsum("mij,mjk->mik", pose.R[self.box], self.turn)
        from_center = _moved(pose, self.ball, self.point) - _moved(pose, self.box, self.center)
        return R, jnp.einsum("mij,mi->mj", R, from_center)

    def gap(self, pose: Pose) -> Array:
        beyond = jnp.abs(self._local(pose)[1]) - self.half
        return _length(jnp.maximum(beyond, 0.0)) + jnp.minimum(jnp.max(beyond, axis=-1), 0.0) - self.radius

    def touch(self, pose: Pose) -> tuple[Array, Array, Any, Any]:
        R, d = self._local(pose)
        on = jnp.clip(d, -self.half, self.half)
        out = d - on
        n = jnp.einsum("mij,mj->mi", R, out / _length(out)[:, None])
        return _moved(pose, self.box, self.center) + jnp.einsum("mij,mj->mi", R, on), n, self.box, self.ball


class Polytopes(NamedTuple):
    """(5) for pairs of one kind: the same numbers of corners, faces and edges. No friction: the point of contact is not told."""

    a: np.ndarray  #             [m]
    b: np.ndarray
    corners_a: np.ndarray  #     [m, V, 3]
    normals_a: np.ndarray  #     [m, F, 3]
    directions_a: np.ndarray  #  [m, D, 3]
    corners_b: np.ndarray
    normals_b: np.ndarray
    directions_b: np.ndarray

    def gap(self, pose: Pose) -> Array:
        Ra, Rb = pose.R[self.a], pose.R[self.b]
        turned = lambda R, vectors: jnp.einsum("mij,mvj->mvi", R, vectors)  # noqa: E731
        P, Q = pose.x[self.a][:, None] + turned(Ra, self.corners_a), pose.x[self.b][:, None] + turned(Rb, self.corners_b)
        faces = jnp.concatenate([turned(Ra, self.normals_a), -turned(Rb, self.normals_b)], axis=1)
        best = jnp.max(_separation(faces, P, Q), axis=1)
        if self.directions_a.shape[1] and self.directions_b.shape[1]:
            first, second = turned(Ra, self.directions_a), turned(Rb, self.directions_b)
            axes = jnp.cross(first[:, :, None], second[:, None]).reshape(len(self.a), -1, 3)
            square = _dot(axes, axes)
            good = square > PARALLEL
            axes = axes / jnp.sqrt(jnp.where(good, square, 1.0))[..., None]
            both = jnp.maximum(_separation(axes, P, Q), _separation(-axes, P, Q))
            best = jnp.maximum(best, jnp.max(jnp.where(good, both, -jnp.inf), axis=1))
        return best


def _separation(axes: Array, P: Array, Q: Array) -> Array:
    """How far Q begins beyond where P ends along the axes [m, k, 3]."""
    along = lambda points: jnp.einsum("mki,mvi->mkv", axes, points)  # noqa: E731
    return jnp.min(along(Q), axis=2) - jnp.max(along(P), axis=2)


def across(normal: Array, dim: int) -> Array:
    """[m, dim − 1, 3]: directions across the normals."""
    if dim == 2:
        return jnp.stack([-normal[:, 1], normal[:, 0], jnp.zeros_like(normal[:, 0])], axis=1)[:, None]
    small = jnp.eye(3)[jnp.argmin(jnp.abs(normal), axis=1)]
    first = jnp.cross(normal, small)
    first = first / _length(first)[:, None]
    return jnp.stack([first, jnp.cross(normal, first)], axis=1)


Family = Points | Ellipsoids | Rods | BallBoxes
Gap = Callable[[Pose], Array]
