"""Rigid bodies in space above a floor, on ℝ³ × SO(3): no angles, no poles.

q = (x, y, z, unit quaternion), v = (velocity of the centre of mass in space, angular velocity in the body). Coordinates of the body
start at its centre of mass and run along its principal axes, so that the inertia is three numbers.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from carom.calls import floats, public
from carom.contact.contact import Contact
from carom.drawing import mesh, plane
from carom.errors import InputError
from carom.models.model import Model
from carom.spaces.groups import SO3
from carom.spaces.rotations import matrix
from carom.spaces.space import Euclidean, Product
from carom.system.lumped import LumpedSystem
from carom.wanted import Number, Positive, PositiveTriple, Triple, Triples

SPACE = Product(Euclidean(3, ("x", "y", "z")), SO3())


def _masses(params):
    return jnp.concatenate([jnp.broadcast_to(params["mass"], (3,)), params["inertia"]])


def _weight(q, params):
    height = q[2]
    return params["mass"] * (params["gravity"] * height + params["cubic"] * height**3)


def _upwards(q):
    """The vertical, seen from the body."""
    w, x, y, z = q[3:]
    return jnp.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)])


def _vertex_heights(q, params):
    return q[2] + jnp.sum(params["vertices"] * _upwards(q), axis=1)


def _ellipsoid_height(q, params):
    return q[2] - jnp.sqrt(jnp.sum((params["half_axes"] * _upwards(q)) ** 2))


_HULL = LumpedSystem(_masses, _weight, SPACE, [Contact(_vertex_heights, name="vertex")])
_ELLIPSOID = LumpedSystem(_masses, _weight, SPACE, [Contact(_ellipsoid_height, name="floor")])
_CUBE = tuple((x, y, z) for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5))


@public
def rigid_body(
    vertices: Triples | None = None,
    half_axes: PositiveTriple = (1.0, 0.7, 0.5),
    mass: Positive = 1.0,
    inertia: Sequence[Any] | None = None,
    gravity: Number = 9.81,
    cubic: Number = 0.0,
    height: Number = 2.0,
    velocity: Triple = (0.3, -0.2, 0.0),
    spin: Triple = (1.0, 2.0, 0.5),
) -> Model:
    """A rigid body bouncing on the plane z = 0: an ellipsoid with `half_axes`, or the convex hull of `vertices`.

    `inertia`: three principal moments, or a symmetric matrix about the centre of mass in the axes of the vertices; without it the
    body is solid and uniform. V = m(g z + cubic·z³). `spin` is the angular velocity in principal axes.
    """
    params: dict[str, Any] = {"mass": mass, "gravity": gravity, "cubic": cubic}
    if vertices is None:
        axes = np.asarray(half_axes, float)
        solid = mass / 5 * np.array([axes[1] ** 2 + axes[2] ** 2, axes[0] ** 2 + axes[2] ** 2, axes[0] ** 2 + axes[1] ** 2])
        moments, turn = _principal(solid if inertia is None else inertia)
        if not np.array_equal(turn, np.eye(3)):
            raise InputError("rigid_body: the inertia of an ellipsoid must be given in its own axes, as three numbers")
        params |= {"inertia": moments, "half_axes": axes}
        system, shape = _ELLIPSOID, _ellipsoid_shape
    else:
        points, solid = _solid_hull(vertices, mass)
        if inertia is not None:
            points = np.asarray(vertices, float)  # the given inertia is about the origin of the given axes
        moments, turn = _principal(solid if inertia is None else inertia)
        params |= {"inertia": moments, "vertices": points @ turn}
        system, shape = _HULL, _hull_shape
    return Model(
        name="rigid_body",
        about="a rigid body in space bouncing on a floor, on the rotation group",
        system=system,
        q0=[0.0, 0.0, height, 1.0, 0.0, 0.0, 0.0],
        v0=[*map(float, velocity), *map(float, spin)],
        params=params,
        dt=0.002,
        num_steps=10_000,
        shape=shape,
    )


@public
def star_in_space(cubic: Number = 0.0) -> Model:
    """The star of [fetecau2003, §4.3] as a body in space: its convex hull is a cube with sides of length 1."""
    body = rigid_body(
        vertices=_CUBE,
        inertia=[29 / 192, 29 / 192, 1 / 6],
        cubic=cubic,
        height=3.5,
        velocity=(-2.0, 0.0, 0.0),
        spin=(0.5, 3.0, 1.0),
    )
    return dataclasses.replace(body, name="star_in_space", about="a star with a cube as its hull, tumbling in space")


def _principal(inertia: Any) -> tuple[np.ndarray, np.ndarray]:
    """Principal moments, and the axes as columns."""
    try:
        tensor = floats(inertia)
    except (TypeError, ValueError):
        tensor = np.zeros(0)
    if tensor.shape == (3,):
        moments, axes = tensor, np.eye(3)
    elif tensor.shape == (3, 3) and np.allclose(tensor, tensor.T):
        moments, axes = np.linalg.eigh(tensor)
        axes = axes * np.sign(np.linalg.det(axes))
        if np.allclose(tensor, np.diag(np.diagonal(tensor))):
            moments, axes = np.diagonal(tensor).copy(), np.eye(3)
    else:
        raise InputError(f"rigid_body: inertia must be three moments or a symmetric 3 × 3 matrix; got {inertia!r}")
    if np.any(moments <= 0) or np.any(2 * np.max(moments) > np.sum(moments) * (1 + 1e-9)):
        raise InputError(
            f"rigid_body: no body has the moments of inertia {moments}: each is positive and at most the sum of the others"
        )
    return moments, axes


def _solid_hull(vertices: Any, mass: float) -> tuple[np.ndarray, np.ndarray]:
    """The vertices about the centre of mass of their convex hull, and its inertia: a sum over tetrahedra, exact."""
    from scipy.spatial import ConvexHull, QhullError

    points = np.asarray(vertices, float)
    if points.ndim != 2 or points.shape[1] != 3 or len(points) < 4:
        raise InputError(f"rigid_body: vertices must be at least four points in space; got shape {points.shape}")
    try:
        hull = ConvexHull(points)
    except QhullError as error:
        raise InputError("rigid_body: the vertices lie in a plane; give a body with a volume, or one with `half_axes`") from error
    inner = points.mean(axis=0)
    corners = points[hull.simplices] - inner  # [faces, 3, 3]: with the inner point these are tetrahedra
    volumes = np.abs(np.linalg.det(corners)) / 6
    centre = np.einsum("f,fi->i", volumes, corners.sum(axis=1)) / (4 * volumes.sum())
    total = corners.sum(axis=1)
    second = np.einsum("f,fai,faj->ij", volumes, corners, corners) + np.einsum("f,fi,fj->ij", volumes, total, total)
    second = mass / volumes.sum() * second / 20 - mass * np.outer(centre, centre)  # ∫ x xᵀ about the centre of mass
    return points[np.unique(hull.simplices)] - inner - centre, np.trace(second) * np.eye(3) - second


def _place(q: Any, points: np.ndarray) -> np.ndarray:
    return points @ np.asarray(matrix(jnp.asarray(q[3:]))).T + np.asarray(q[:3])


_FLOOR = plane((0.0, 0.0, 0.0), (0.0, 0.0, 1.0))


def _hull_shape(q, params):
    from scipy.spatial import ConvexHull

    points = np.asarray(params["vertices"])
    return [mesh(_place(q, points), ConvexHull(points).simplices), _FLOOR]


def _ellipsoid_shape(q, params):
    rows, columns = 12, 24
    polar, around = np.meshgrid(np.linspace(0, np.pi, rows + 1), np.linspace(0, 2 * np.pi, columns, endpoint=False), indexing="ij")
    sphere = np.stack([np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around), np.cos(polar)], axis=-1).reshape(-1, 3)
    i, j = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    a, b = i * columns + j, i * columns + (j + 1) % columns
    triangles = np.concatenate(
        [np.stack([a, a + columns, b], -1).reshape(-1, 3), np.stack([b, a + columns, b + columns], -1).reshape(-1, 3)]
    )
    return [mesh(_place(q, sphere * np.asarray(params["half_axes"])), triangles), _FLOOR]
