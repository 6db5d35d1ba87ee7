"""Rigid bodies in the plane above a floor: q = (x, y, θ)."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from carom.contact.contact import Contact
from carom.models.model import Model
from carom.spaces import Euclidean
from carom.system import System

_PLANE = Euclidean(3, ("x", "y", "theta"))


def _falling_body(q, v, params):
    m, g = params["mass"], params["gravity"]
    kinetic = 0.5 * m * (v[0] ** 2 + v[1] ** 2) + 0.5 * params["inertia"] * v[2] ** 2
    return kinetic - m * (g * q[1] + params["cubic"] * q[1] ** 3)


def _vertices(q, params):
    """The heights of the corners: one smooth gap each, where |sin θ| + |cos θ| of (81) has kinks."""
    x, y = params["corners"].T
    return q[1] + jnp.sin(q[2]) * x + jnp.cos(q[2]) * y


_POLYGON = System(_falling_body, [Contact(_vertices, name="corner")], space=_PLANE)


def _outline(q, params):
    corners = np.asarray(params["corners"])
    c, s = np.cos(q[2]), np.sin(q[2])
    turned = corners @ np.array([[c, s], [-s, c]])
    return [np.concatenate([turned, turned[:1]]) + np.asarray(q[:2])]


def star(mass: float = 1.0, size: float = 1.0, gravity: float = 9.81, cubic: float = 0.0) -> Model:
    """The four-pointed star of §4.3; its convex hull is a square with sides of length `size`."""
    half = size / 2
    corners = np.array([[half, half], [-half, half], [-half, -half], [half, -half]])
    return Model(
        name="star",
        about="a four-pointed star tumbling on a floor",
        system=_POLYGON,
        q0=[0.0, 3.5, 0.0],
        v0=[-2.0, 0.0, 5.0],
        params={"mass": mass, "inertia": 29 / 192 * mass * size**2, "gravity": gravity, "cubic": cubic, "corners": corners},
        dt=0.005,
        num_steps=20_000,
        source="fetecau2003, §4.3",
        shape=_star_outline,
    )


def _star_outline(q, params):
    """Tips on the corners of the hull, notches halfway between them at a quarter of the size."""
    tips = np.asarray(params["corners"])
    notches = 0.25 * (tips + np.roll(tips, -1, axis=0))
    outline = np.stack([tips, notches], axis=1).reshape(-1, 2)
    return _outline(q, {"corners": outline})


def polygon(corners: Sequence[Sequence[float]], mass: float = 1.0, inertia: float | None = None, gravity: float = 9.81) -> Model:
    """A convex polygon of uniform density (its corners in order, about any origin), bouncing on a floor."""
    points = np.asarray(corners, float)
    following = np.roll(points, -1, axis=0)
    cross = points[:, 0] * following[:, 1] - points[:, 1] * following[:, 0]
    centre = np.sum((points + following) * cross[:, None], axis=0) / (3 * np.sum(cross))
    points = points - centre
    following = np.roll(points, -1, axis=0)
    cross = points[:, 0] * following[:, 1] - points[:, 1] * following[:, 0]
    squares = np.sum(points**2 + points * following + following**2, axis=1)
    if inertia is None:
        inertia = float(mass * np.sum(cross * squares) / (6 * np.sum(cross)))
    reach = float(np.max(np.hypot(*points.T)))
    return Model(
        name="polygon",
        about="a convex polygon bouncing on a floor",
        system=_POLYGON,
        q0=[0.0, 3 * reach, 0.1],
        v0=[1.0, 0.0, 2.0],
        params={"mass": mass, "inertia": inertia, "gravity": gravity, "cubic": 0.0, "corners": points},
        dt=0.005,
        shape=_outline,
    )


def _ellipse_gap(q, params):
    a, b = params["a"], params["b"]
    return q[1] - jnp.sqrt((a * jnp.sin(q[2])) ** 2 + (b * jnp.cos(q[2])) ** 2)


_ELLIPSE = System(_falling_body, [Contact(_ellipse_gap, name="floor")], space=_PLANE)


def ellipse(mass: float = 1.0, a: float = 1.0, b: float = 0.5, gravity: float = 9.81) -> Model:
    """A uniform elliptical plate with half axes a, b: one smooth gap."""
    return Model(
        name="ellipse",
        about="an elliptical plate bouncing on a floor",
        system=_ELLIPSE,
        q0=[0.0, 3.0, 0.3],
        v0=[0.5, 0.0, 2.0],
        params={"mass": mass, "inertia": mass * (a**2 + b**2) / 4, "gravity": gravity, "cubic": 0.0, "a": a, "b": b},
        dt=0.005,
        shape=_ellipse_outline,
    )


def _ellipse_outline(q, params):
    angle = np.linspace(0, 2 * np.pi, 97)
    points = np.stack([float(params["a"]) * np.cos(angle), float(params["b"]) * np.sin(angle)], axis=1)
    return _outline(q, {"corners": points})
