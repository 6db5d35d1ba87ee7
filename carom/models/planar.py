"""Rigid bodies in the plane above a floor: q = (x, y, θ)."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from carom.calls import public
from carom.contact.contact import Contact
from carom.drawing import disk, wall
from carom.errors import InputError
from carom.models.model import Model
from carom.spaces.space import Euclidean
from carom.system.system import System
from carom.wanted import Flag, NotNegative, Number, Pairs, Positive, Share

_PLANE = Euclidean(3, ("x", "y", "theta"))
_FLOOR = wall((0.0, 0.0), (1.0, 0.0))


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
    return [np.concatenate([turned, turned[:1]]) + np.asarray(q[:2]), _FLOOR]


@public
def star(mass: Positive = 1.0, size: Positive = 1.0, gravity: Number = 9.81, cubic: Number = 0.0) -> Model:
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


def _convex(points: np.ndarray) -> bool:
    """Do the corners turn one way, and once around?"""
    if len(points) < 3:
        return False
    sides = np.roll(points, -1, axis=0) - points
    after = np.roll(sides, -1, axis=0)
    turns = np.arctan2(sides[:, 0] * after[:, 1] - sides[:, 1] * after[:, 0], np.sum(sides * after, axis=1))
    return bool(
        np.all(np.any(sides, axis=1)) and np.min(turns * np.sign(turns.sum())) >= 0 and abs(abs(turns.sum()) - 2 * np.pi) < 1e-9
    )


@public
def polygon(
    corners: Pairs = ((0.0, 0.0), (1.0, 0.0), (0.3, 0.8)),
    mass: Positive = 1.0,
    inertia: Positive | None = None,
    gravity: Number = 9.81,
) -> Model:
    """A convex polygon of uniform density (its corners in order, about any origin), bouncing on a floor."""
    points = np.asarray(corners, float)
    if not _convex(points):
        raise InputError(f"polygon: corners must be those of a convex polygon with an area, in order around it; got {corners!r}")
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


def _torque_free_gap(q, params):
    """The same gap with a normal that does not see the angle."""
    return _ellipse_gap(jnp.stack([q[0], q[1], jax.lax.stop_gradient(q[2])]), params)


_ELLIPSE = System(_falling_body, [Contact(_ellipse_gap, name="floor")], space=_PLANE)
_TORQUE_FREE = System(_falling_body, [Contact(_torque_free_gap, name="floor")], space=_PLANE)


@public
def ellipse(mass: Positive = 1.0, a: Positive = 1.0, b: Positive = 0.5, gravity: Number = 9.8, torque_free: Flag = False) -> Model:
    """A uniform elliptical plate with half axes a, b: one smooth gap.

    `torque_free`: an impulse through the centre, p_θ unchanged, instead of one along the normal ∇φ. It keeps the energy but not
    the law p⁺ − p⁻ ∈ (T∂Q)°. The numbers of impacts printed in the paper, 1 in the first 2 s and 17 in 25 s, come from it. The law
    itself gives 2 and 25 (in 400-bit arithmetic: the motion is chaotic, and double precision loses it after some 20 impacts).
    """
    return Model(
        name="ellipse",
        about="an elliptical plate bouncing on a floor",
        system=_TORQUE_FREE if torque_free else _ELLIPSE,
        q0=[0.0, 3.5, np.pi / 2],
        v0=[2.0, 0.0, -3.0],
        source="rodriguez2025, §4.2",
        params={"mass": mass, "inertia": mass * (a**2 + b**2) / 4, "gravity": gravity, "cubic": 0.0, "a": a, "b": b},
        dt=0.005,
        shape=_ellipse_outline,
    )


def _ellipse_outline(q, params):
    angle = np.linspace(0, 2 * np.pi, 97)
    points = np.stack([float(params["a"]) * np.cos(angle), float(params["b"]) * np.sin(angle)], axis=1)
    return _outline(q, {"corners": points})


def _rolling(q, v, params):
    m = params["mass"]
    return 0.5 * m * (v[0] ** 2 + v[1] ** 2) + 0.5 * params["inertia"] * v[2] ** 2 - m * params["gravity"] * q[1]


def _bottom(q, params):
    return q[1] - params["radius"]


def _slip(q, params):
    """The contact point moves with x′ + r θ′ (θ anticlockwise); rolling is x = −rθ."""
    return q[0] + params["radius"] * q[2]


def _restitution(params):
    return params["restitution"]


def _friction(params):
    return params["friction"]


_DISK = System(_rolling, [Contact(_bottom, _restitution, friction=_friction, slip=_slip, name="floor")], space=_PLANE)


@public
def friction_ball(
    mass: Positive = 1.0,
    radius: Positive = 0.1,
    gravity: Number = 9.81,
    friction: NotNegative = 0.05,
    restitution: Share = 1.0,
    spin: Number = 40.0,
) -> Model:
    """A spinning disk that bounces on a rough floor: each impact trades spin for speed until the contact point no longer slides.

    With restitution 1 it bounces for ever; the friction of the first impacts costs energy, the rolling ones none.
    """
    return Model(
        name="friction_ball",
        about="a spinning disk bouncing on a floor with Coulomb friction",
        system=_DISK,
        q0=[0.0, 1.0, 0.0],
        v0=[0.0, 0.0, spin],
        params={
            "mass": mass,
            "inertia": 0.5 * mass * radius**2,
            "radius": radius,
            "gravity": gravity,
            "friction": friction,
            "restitution": restitution,
        },
        dt=0.005,
        num_steps=2_000,
        shape=_disk_outline,
        exact={"first_impact": rough_impact},
    )


def rough_impact(v: Sequence[float], mass: float, radius: float, inertia: float, friction: float, restitution: float) -> np.ndarray:
    """(x′, y′, θ′) after an impact with (x′, y′, θ′) = v before, by Newton's and Coulomb's laws: exact."""
    normal = -(1 + restitution) * mass * v[1]
    stick = -(v[0] + radius * v[2]) / (1 / mass + radius**2 / inertia)  # the impulse that stops the sliding
    tangential = float(np.clip(stick, -friction * normal, friction * normal))
    return np.array([v[0] + tangential / mass, -restitution * v[1], v[2] + radius * tangential / inertia])


def _disk_outline(q, params):
    r = float(params["radius"])
    spoke = np.array([[q[0], q[1]], [q[0] + r * np.cos(q[2]), q[1] + r * np.sin(q[2])]])
    return [disk(q[0], q[1], r), spoke, _FLOOR]
