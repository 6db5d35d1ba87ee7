"""Mechanisms with several frictional contacts: a slider–crank with clearance, and the woodpecker toy."""

import jax
import jax.numpy as jnp
import numpy as np

from carom.calls import public
from carom.contact.contact import Contact
from carom.drawing import wall
from carom.methods.timestepping.moreau import MoreauJean
from carom.models.model import Model
from carom.spaces.space import Euclidean
from carom.system.system import System
from carom.wanted import NotNegative, Number, Positive, Share


def _restitution(params):
    return params["restitution"]


def _friction(params):
    return params["friction"]


def _crank_points(q, params):
    """The centres of crank, rod and slider."""
    crank = jnp.array([jnp.cos(q[0]), jnp.sin(q[0])]) * params["crank"]
    rod = jnp.array([jnp.cos(q[1]), jnp.sin(q[1])]) * params["rod"]
    return 0.5 * crank, crank + 0.5 * rod, crank + rod


def _crank_lagrangian(q, v, params):
    places, speeds = jax.jvp(lambda q: jnp.stack(_crank_points(q, params)), (q,), (v,))
    kinetic = 0.5 * jnp.sum(params["masses"] * jnp.sum(speeds**2, axis=1)) + 0.5 * jnp.sum(params["inertias"] * v**2)
    return kinetic - params["gravity"] * jnp.sum(params["masses"] * places[:, 1])


def _slider_corners(q, params):
    """The four corners of the slider about the crankshaft: upper left, upper right, lower left, lower right."""
    x = params["half_length"] * jnp.array([-1.0, 1.0, -1.0, 1.0])
    y = params["half_height"] * jnp.array([1.0, 1.0, -1.0, -1.0])
    c, s = jnp.cos(q[2]), jnp.sin(q[2])
    centre = _crank_points(q, params)[2]
    return centre[0] + c * x - s * y, centre[1] + s * x + c * y


def _guide_gaps(q, params):
    height = _slider_corners(q, params)[1]
    return params["half_height"] + params["clearance"] - height * jnp.array([1.0, 1.0, -1.0, -1.0])


def _guide_slips(q, params):
    return _slider_corners(q, params)[0]


_CRANK = System(
    _crank_lagrangian,
    [Contact(_guide_gaps, _restitution, friction=_friction, slip=_guide_slips, name="guide")],
    space=Euclidean(3, ("crank", "rod", "slider")),
)


@public
def slider_crank(
    speed: Number = 150.0,
    clearance: Positive = 0.001,
    restitution: Share = 0.4,
    friction: NotNegative = 0.01,
    gravity: Number = 9.81,
) -> Model:
    """A crank drives a slider through a rod; the slider has `clearance` on each side in its guide and hits it with its corners.
    Lengths, masses and inertias are those of Table 1 of [flores2010]."""
    return Model(
        name="slider_crank",
        about="a slider–crank mechanism with clearance in its guide",
        system=_CRANK,
        q0=[0.0, 0.0, 0.0],
        v0=[speed, -0.5 * speed, 0.0],
        params={
            "crank": 0.153,
            "rod": 0.306,
            "half_length": 0.05,
            "half_height": 0.025,
            "clearance": clearance,
            "masses": np.array([0.038, 0.038, 0.076]),
            "inertias": np.array([7.4e-5, 5.9e-4, 2.7e-6]),
            "restitution": restitution,
            "friction": friction,
            "gravity": gravity,
        },
        dt=1e-5,
        num_steps=10_000,
        source="flores2010",
        shape=_crank_outline,
        method=MoreauJean(),
    )


def _crank_outline(q, params):
    joint = params["crank"] * np.array([np.cos(q[0]), np.sin(q[0])])
    pin = joint + params["rod"] * np.array([np.cos(q[1]), np.sin(q[1])])
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]]) * np.array([params["half_length"], params["half_height"]])
    c, s = np.cos(q[2]), np.sin(q[2])
    guide = params["half_height"] + params["clearance"]
    body = corners @ np.array([[c, s], [-s, c]]) + pin
    return [np.stack([np.zeros(2), joint, pin]), body, wall((0.0, guide), (1.0, guide)), wall((0.0, -guide), (1.0, -guide))]


def _bird(q, v, params):
    """Height of the sleeve and the small angles of sleeve and bird."""
    M, S = params["sleeve_mass"], params["bird_mass"]
    rise = v[0] + params["sleeve_arm"] * v[1] + params["bird_arm"] * v[2]  # of the bird's centre
    kinetic = 0.5 * M * v[0] ** 2 + 0.5 * S * rise**2
    kinetic = kinetic + 0.5 * params["sleeve_inertia"] * v[1] ** 2 + 0.5 * params["bird_inertia"] * v[2] ** 2
    height = q[0] + params["sleeve_arm"] * q[1] + params["bird_arm"] * q[2]
    return kinetic - params["gravity"] * (M * q[0] + S * height) - 0.5 * params["spring"] * (q[1] - q[2]) ** 2


def _beak_gap(q, params):
    reach = params["sleeve_arm"] + params["bird_arm"] - params["beak_length"] - params["pole"]
    return reach - params["beak_height"] * q[2]


def _beak_slip(q, params):
    return q[0] + params["sleeve_arm"] * q[1] + (params["bird_arm"] - params["beak_length"]) * q[2]


def _sleeve_gaps(q, params):
    return params["sleeve"] - params["pole"] + params["sleeve_height"] * q[1] * jnp.array([1.0, -1.0])


def _sleeve_slips(q, params):
    return (q[0] + params["sleeve"] * q[1]) * jnp.ones(2)


_WOODPECKER = System(
    _bird,
    [
        Contact(_beak_gap, _restitution, friction=_friction, slip=_beak_slip, name="beak"),
        Contact(_sleeve_gaps, 0.0, friction=_friction, slip=_sleeve_slips, name="sleeve"),
    ],
    space=Euclidean(3, ("y", "sleeve", "bird")),
)


_RING = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]])
# Beak, head, back, tail, belly, throat, beak: around its centre, in lengths and heights of the beak.
_BIRD = np.stack(
    [
        [-1.0, -0.62, -0.40, -0.15, 0.2, 0.5, 0.30, -0.2, -0.40, -0.43, -0.62, -1.0],
        [1.00, 1.15, 1.20, 0.95, 0.3, -0.8, -0.85, -0.4, 0.15, 0.70, 0.93, 1.0],
    ],
    axis=1,
)


@public
def woodpecker(restitution: Share = 0.5, friction: NotNegative = 0.3, gravity: Number = 9.81) -> Model:
    """The woodpecker toy of [glocker1995]: a bird on a spring on a sleeve that jams on its pole. It pecks its way down in a limit
    cycle of sticking, sliding and impacts. `restitution` is that of the beak."""
    return Model(
        name="woodpecker",
        about="the woodpecker toy: jams, pecks and slides down its pole",
        system=_WOODPECKER,
        q0=[0.0, -0.1034, -0.2788],
        v0=[-0.3411, 0.0, -7.4583],
        params={
            "sleeve_mass": 0.0003,
            "sleeve_inertia": 5e-9,
            "bird_mass": 0.0045,
            "bird_inertia": 7e-7,
            "spring": 0.0056,
            "pole": 0.0025,
            "sleeve": 0.0031,
            "sleeve_height": 0.0058,
            "sleeve_arm": 0.010,
            "bird_arm": 0.015,
            "beak_height": 0.02,
            "beak_length": 0.0201,
            "restitution": restitution,
            "friction": friction,
            "gravity": gravity,
        },
        dt=1e-4,
        num_steps=10_000,
        source="glocker1995",
        shape=_woodpecker_outline,
        method=MoreauJean(),
    )


def _woodpecker_outline(q, params):
    """The sleeve around its pole, the spring, and the bird: turned by small angles, as the contacts see them."""
    middle = np.array([0.0, q[0]])
    pivot = middle + params["sleeve_arm"] * np.array([1.0, q[1]])
    centre = pivot + params["bird_arm"] * np.array([1.0, q[2]])
    sleeve = _tilted(_RING * np.array([params["sleeve"], params["sleeve_height"]]), q[1], middle)
    bird = _tilted(_BIRD * np.array([params["beak_length"], params["beak_height"]]), q[2], centre)
    spring = np.stack([middle + params["sleeve"] * np.array([1.0, q[1]]), pivot, 0.7 * pivot + 0.3 * centre])
    pole = [wall((side * params["pole"], 0.0), (side * params["pole"], params["beak_height"])) for side in (-1, 1)]
    return [sleeve, spring, bird, *pole]


def _tilted(points, angle, middle):
    return np.stack([points[:, 0] - angle * points[:, 1], points[:, 1] + angle * points[:, 0]], axis=1) + middle
