"""Blocks that stick, slide, tip and stack: rectangles in the plane with friction at their corners."""

import jax.numpy as jnp
import numpy as np

from carom.calls import public
from carom.contact.contact import Contact
from carom.drawing import wall
from carom.methods.timestepping.moreau import MoreauJean
from carom.models.model import Model
from carom.spaces.space import Euclidean
from carom.system.system import System
from carom.wanted import Count, NotNegative, Number, Positive, Share


def _restitution(params):
    return params["restitution"]


def _friction(params):
    return params["friction"]


def _on_a_slope(q, v, params):
    """x runs down the slope, y away from it."""
    m, g, slope = params["mass"], params["gravity"], params["slope"]
    kinetic = 0.5 * m * (v[0] ** 2 + v[1] ** 2) + 0.5 * params["inertia"] * v[2] ** 2
    return kinetic - m * g * (jnp.cos(slope) * q[1] - jnp.sin(slope) * q[0])


def _feet(q, params):
    """The two lower corners, about the centre, in the directions of the slope."""
    x = 0.5 * params["width"] * jnp.array([-1.0, 1.0])
    y = -0.5 * params["height"]
    c, s = jnp.cos(q[2]), jnp.sin(q[2])
    return c * x - s * y, s * x + c * y


def _foot_gaps(q, params):
    return q[1] + _feet(q, params)[1]


def _foot_slips(q, params):
    return q[0] + _feet(q, params)[0]


_BLOCK = System(
    _on_a_slope,
    [Contact(_foot_gaps, _restitution, friction=_friction, slip=_foot_slips, name="foot")],
    space=Euclidean(3, ("x", "y", "theta")),
)


@public
def block(
    mass: Positive = 1.0,
    width: Positive = 1.0,
    height: Positive = 0.5,
    gravity: Number = 9.81,
    slope: Number = 0.3,
    friction: NotNegative = 0.4,
    speed: Number = 0.0,
    restitution: Share = 0.0,
) -> Model:
    """A block on an incline, with Coulomb friction at its two feet.

    It sticks up to tan(slope) = friction, slides beyond with the acceleration g(sin α − μ cos α), and tips over its lower foot
    beyond tan(slope) = width/height if friction holds it that long. With `speed` down a slope less steep it stops after
    v²/2g(μ cos α − sin α).
    """
    return Model(
        name="block",
        about="a block on an incline that sticks, slides or tips",
        system=_BLOCK,
        q0=[0.0, height / 2, 0.0],
        v0=[speed, 0.0, 0.0],
        params={
            "mass": mass,
            "inertia": mass * (width**2 + height**2) / 12,
            "width": width,
            "height": height,
            "gravity": gravity,
            "slope": slope,
            "friction": friction,
            "restitution": restitution,
        },
        dt=0.01,
        num_steps=200,
        shape=_block_outline,
        exact={"acceleration": slide_acceleration, "stopping_distance": stopping_distance},
        method=MoreauJean(),
    )


def slide_acceleration(slope: float, friction: float, gravity: float = 9.81) -> float:
    """Down the slope, from rest: zero where friction holds. Exact."""
    return float(gravity * max(np.sin(slope) - friction * np.cos(slope), 0.0))


def stopping_distance(speed: float, slope: float, friction: float, gravity: float = 9.81) -> float:
    """How far a block slides down a slope that is less steep than its friction: exact."""
    return float(speed**2 / (2 * gravity * (friction * np.cos(slope) - np.sin(slope))))


def _rectangle(x, y, angle, width, height) -> np.ndarray:
    corners = 0.5 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]]) * np.array([width, height])
    c, s = np.cos(angle), np.sin(angle)
    return corners @ np.array([[c, s], [-s, c]]) + np.array([x, y])


def _block_outline(q, params):
    turn = -float(params["slope"])
    c, s = np.cos(turn), np.sin(turn)
    turned = np.array([[c, s], [-s, c]])
    body = _rectangle(q[0], q[1], q[2], float(params["width"]), float(params["height"]))
    return [body @ turned, wall((0.0, 0.0), turned[0])]


def _boxes(q, v, params):
    m = params["mass"]
    q, v = q.reshape(-1, 3), v.reshape(-1, 3)
    kinetic = 0.5 * m * jnp.sum(v[:, :2] ** 2) + 0.5 * params["inertia"] * jnp.sum(v[:, 2] ** 2)
    return kinetic - m * params["gravity"] * jnp.sum(q[:, 1])


def _corners_below(q, params):
    """For each box, its two lower corners as the box below sees them (the floor for the first): height above, place along."""
    boxes = q.reshape(-1, 3)
    half = 0.5 * params["size"]
    x = half * jnp.array([-1.0, 1.0])
    c, s = jnp.cos(boxes[:, 2, None]), jnp.sin(boxes[:, 2, None])
    corner_x, corner_y = boxes[:, 0, None] + c * x + s * half, boxes[:, 1, None] + s * x - c * half
    floor = jnp.zeros((1, 3)).at[0, 1].set(-half)
    below = jnp.concatenate([floor, boxes[:-1]])
    dx, dy = corner_x - below[:, 0, None], corner_y - below[:, 1, None]
    c, s = jnp.cos(below[:, 2, None]), jnp.sin(below[:, 2, None])
    return (c * dy - s * dx - half).reshape(-1), (c * dx + s * dy).reshape(-1)


def _stack_gaps(q, params):
    return _corners_below(q, params)[0]


def _stack_slips(q, params):
    return _corners_below(q, params)[1]


_STACKED = Contact(_stack_gaps, _restitution, friction=_friction, slip=_stack_slips, name="corner")


@public
def stack(
    n: Count = 10,
    mass: Positive = 1.0,
    size: Positive = 1.0,
    gravity: Number = 9.81,
    friction: NotNegative = 0.5,
    restitution: Share = 0.0,
) -> Model:
    """A stack of n square boxes at rest: 2n contacts with friction, more of them than the motion can tell apart."""
    names = tuple(f"{name}{i + 1}" for i in range(n) for name in ("x", "y", "theta"))
    return Model(
        name="stack",
        about=f"{n} boxes on top of one another, at rest",
        system=System(_boxes, [_STACKED], space=Euclidean(3 * n, names)),
        q0=[value for i in range(n) for value in (0.0, (i + 0.5) * size, 0.0)],
        v0=[0.0] * (3 * n),
        params={
            "mass": mass,
            "inertia": mass * size**2 / 6,
            "size": size,
            "gravity": gravity,
            "friction": friction,
            "restitution": restitution,
        },
        dt=0.01,
        num_steps=1000,
        shape=_stack_outline,
        exact={"contact_force": stack_force},
        method=MoreauJean(),
    )


def stack_force(n: int, mass: float = 1.0, gravity: float = 9.81) -> np.ndarray:
    """What each box presses on what is below it, from the floor up: exact."""
    return mass * gravity * np.arange(n, 0, -1.0)


def _stack_outline(q, params):
    size = float(params["size"])
    return [_rectangle(x, y, angle, size, size) for x, y, angle in np.asarray(q).reshape(-1, 3)] + [wall((0.0, 0.0), (1.0, 0.0))]
