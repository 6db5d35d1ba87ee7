"""Systems that roll, skate or wind: velocity constraints A(q) v = 0, and walls."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from carom.calls import public
from carom.contact.contact import Contact
from carom.drawing import disk, line, plane, wall
from carom.models.model import Model
from carom.spaces.space import Euclidean
from carom.system.system import System
from carom.wanted import Function, Number, Positive

# -- the pendulum inside a cylinder --------------------------------------------------------------------------------------


def _winding_pendulum(q, v, params):
    m, g, length = params["mass"], params["gravity"], params["length"]
    return 0.5 * m * length**2 * (v[0] ** 2 + (v[1] * jnp.sin(q[0])) ** 2) - m * g * length * jnp.cos(q[0])


def _printed_winding(theta):
    return jnp.pi + jnp.cos(theta) ** 2


def _cylinder(q, params):
    """ℓ |sin θ| ≤ R: the wall is reached on either side of the axis."""
    swing = params["length"] * jnp.sin(q[0])
    return jnp.stack([params["radius"] - swing, params["radius"] + swing])


def _one_side(q, params):
    """ℓ sin θ ≤ R, as printed: for negative θ there is no wall."""
    return params["radius"] - params["length"] * jnp.sin(q[0])


_CYLINDERS = {"cylinder": _cylinder, "printed": _one_side}


def _pendulum(winding: Callable[[Any], Any], wall: str) -> System:
    """The polar angle drives the azimuth: φ′ = f(θ) θ′."""

    def constraint(q):
        return jnp.stack([jnp.asarray(winding(q[0]), float), jnp.asarray(-1.0)])

    space = Euclidean(2, ("theta", "phi"))
    return System(_winding_pendulum, [Contact(_CYLINDERS[wall], name="cylinder")], space=space, constraints=constraint)


_PENDULUM = _pendulum(_printed_winding, "cylinder")


@public
def nonholonomic_pendulum(
    mass: Positive = 1.0,
    length: Positive = 2.0,
    radius: Positive = 1.5,
    gravity: Number = 9.8,
    winding: Function | None = None,
    wall: Literal["cylinder", "printed"] = "cylinder",
) -> Model:
    """A spherical pendulum that winds, φ′ = f(θ) θ′, inside a cylinder. θ is measured from the top.

    `winding` is f, by default π + cos² θ; with `lambda theta: 0.0` it is a pendulum in a plane. `wall="printed"` is ℓ sin θ ≤ R as
    in the paper, on one side only.
    """
    f = _printed_winding if winding is None else winding
    start = 0.75 * np.pi
    return Model(
        name="nonholonomic_pendulum",
        about="a winding spherical pendulum inside a cylinder",
        system=_PENDULUM if winding is None and wall == "cylinder" else _pendulum(f, wall),
        q0=[start, 0.0],
        v0=[0.25 * np.pi, 0.25 * np.pi * float(f(start))],
        params={"mass": mass, "length": length, "radius": radius, "gravity": gravity},
        dt=0.001,
        num_steps=5_000,
        source="rodriguez2025, §4.3",
        shape=_pendulum_outline,
    )


def _pendulum_outline(q, params):
    """In space: the rod and the bob, inside the cylinder."""
    length, radius = float(params["length"]), float(params["radius"])
    bob = length * np.array([np.sin(q[0]) * np.cos(q[1]), np.sin(q[0]) * np.sin(q[1]), np.cos(q[0])])
    ring = np.concatenate([disk(0.0, 0.0, radius), np.zeros((49, 1))], axis=1)
    rings = [line(ring + np.array([0.0, 0.0, z]), fixed=True) for z in (-length, -0.5 * length, 0.0)]
    return [np.stack([np.zeros(3), bob]), bob[None], *rings]


# -- the rolling disk ----------------------------------------------------------------------------------------------------


def _disk(q, v, params):
    return (
        0.5 * params["mass"] * (v[0] ** 2 + v[1] ** 2) + 0.5 * params["inertia"] * v[2] ** 2 + 0.5 * params["turning"] * v[3] ** 2
    )


def _disk_hamiltonian(q, p, params):
    return (
        0.5 * (p[0] ** 2 + p[1] ** 2) / params["mass"] + 0.5 * p[2] ** 2 / params["inertia"] + 0.5 * p[3] ** 2 / params["turning"]
    )


def _rolling(q, params):
    """The contact point moves along the heading: x′ = R θ′ cos φ, y′ = R θ′ sin φ."""
    radius = params["radius"]
    return jnp.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]) - radius * jnp.stack(
        [jnp.zeros(4).at[2].set(jnp.cos(q[3])), jnp.zeros(4).at[2].set(jnp.sin(q[3]))]
    )


def _printed_wall(q, params):
    return params["wall"] - q[1] - params["radius"] * jnp.sin(q[3])


def _physical_wall(q, params):
    """y + R |sin φ|: the front and the back rim, one smooth gap each."""
    reach = params["radius"] * jnp.sin(q[3])
    return params["wall"] - q[1] - jnp.stack([reach, -reach])


_DISK_SPACE = Euclidean(4, ("x", "y", "theta", "phi"))
_DISKS = {
    (side, wall): System(
        _disk if side == "lagrangian" else None,
        [Contact(_physical_wall if wall == "physical" else _printed_wall, name="wall")],
        space=_DISK_SPACE,
        constraints=_rolling,
        hamiltonian=_disk_hamiltonian if side == "hamiltonian" else None,
    )
    for side in ("lagrangian", "hamiltonian")
    for wall in ("physical", "printed")
}


@public
def rolling_disk(
    mass: Positive = 1.0,
    radius: Positive = 1.0,
    inertia: Positive = 0.5,
    turning: Positive = 0.25,
    wall: Number = 10.0,
    rim: Literal["physical", "printed"] = "physical",
    side: Literal["lagrangian", "hamiltonian"] = "lagrangian",
) -> Model:
    """A vertical disk that rolls and turns on a floor, and hits a wall at y = `wall`.

    `rim`: "physical", the front and the back of the disk hit the wall, y + R |sin φ| ≤ wall; "printed", y + R sin φ ≤ wall as in
    the paper, where the disk passes the wall backwards. `side`: from the "lagrangian" or the "hamiltonian"; both move alike, and
    the second is for `EventDriven`. Between impacts the disk runs on circles; the map at an impact is known in closed form.
    """
    return Model(
        name="rolling_disk",
        about="a disk that rolls and turns on a floor, and hits a wall",
        system=_DISKS[side, rim],
        q0=[0.0, 0.0, 0.0, 1.2],
        v0=[3.0 * radius * np.cos(1.2), 3.0 * radius * np.sin(1.2), 3.0, 0.3],
        params={"mass": mass, "radius": radius, "inertia": inertia, "turning": turning, "wall": wall},
        dt=0.01,
        num_steps=3_000,
        source="rodriguez2024, §6",
        shape=_disk_in_space,
        exact={"impact": disk_impact, "rolling": disk_rolling},
    )


def disk_impact(v_theta, v_phi, phi, mass: float, radius: float, inertia: float, turning: float):
    """(θ′, φ′) after an elastic impact at heading φ: exact."""
    A, J, s, c = inertia + mass * radius**2, turning, np.sin(phi), np.cos(phi)
    D = J * s**2 + A * c**2
    return (
        ((A * c**2 - J * s**2) * v_theta - 2 * J * s * c * v_phi) / D,
        ((J * s**2 - A * c**2) * v_phi - 2 * A * s * c * v_theta) / D,
    )


def disk_rolling(q: Sequence[float], v_theta: float, v_phi: float, t, radius: float) -> np.ndarray:
    """(x, y, θ, φ) after rolling for t, along a circle: exact."""
    half = 0.5 * v_phi * t
    chord = radius * v_theta * t * np.sinc(half / np.pi)
    heading = q[3] + half
    return np.stack([q[0] + chord * np.cos(heading), q[1] + chord * np.sin(heading), q[2] + v_theta * t, q[3] + v_phi * t], axis=-1)


def _disk_in_space(q, params):
    """The disk with a spoke, on the floor along the wall."""
    r, y = float(params["radius"]), float(params["wall"])
    rim = np.linspace(0, 2 * np.pi, 49)
    points = np.concatenate([[[0.0, 0.0]], r * np.stack([np.sin(rim + q[2]), -np.cos(rim + q[2])], axis=1)])  # along, up
    body = np.stack([q[0] + points[:, 0] * np.cos(q[3]), q[1] + points[:, 0] * np.sin(q[3]), r + points[:, 1]], axis=1)
    corners = np.array([[-1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [-1.0, 1.0], [-1.0, 0.0]])
    wall = np.stack([y * corners[:, 0], np.full(5, y), 2 * r * corners[:, 1]], axis=1)
    return [body, line(wall, fixed=True), plane((0.0, 0.0, 0.0), (0.0, 0.0, 1.0))]


# -- the sleigh between walls --------------------------------------------------------------------------------------------


def _sleigh(q, v, params):
    """x, y: the blade; the mass centre lies `offset` ahead of it."""
    a, s, c = params["offset"], jnp.sin(q[2]), jnp.cos(q[2])
    speed = (v[0] - a * s * v[2]) ** 2 + (v[1] + a * c * v[2]) ** 2
    return 0.5 * params["mass"] * speed + 0.5 * params["inertia"] * v[2] ** 2


def _blade(q):
    """The blade does not move sideways."""
    return jnp.stack([jnp.sin(q[2]), -jnp.cos(q[2]), jnp.zeros(())])


def _channel(q, params):
    """Front and back end of the body, against both walls."""
    front = q[1] + params["front"] * jnp.sin(q[2])
    back = q[1] - params["back"] * jnp.sin(q[2])
    width = params["width"]
    return jnp.stack([width - front, width + front, width - back, width + back])


_SLEIGH = System(_sleigh, [Contact(_channel, name="wall")], space=Euclidean(3, ("x", "y", "theta")), constraints=_blade)


@public
def chaplygin_sleigh(
    mass: Positive = 1.0,
    inertia: Positive = 0.3,
    offset: Number = 0.3,
    front: Number = 0.8,
    back: Number = 0.4,
    width: Positive = 1.0,
) -> Model:
    """Chaplygin's sleigh, a body on one skate, between two walls y = ±`width`; its ends hit them.

    Free, it turns until its mass centre runs ahead of the blade and goes straight on: the walls keep it turning.
    """
    return Model(
        name="chaplygin_sleigh",
        about="a body on one skate between two walls",
        system=_SLEIGH,
        q0=[0.0, 0.0, 0.4],
        v0=[2 * np.cos(0.4), 2 * np.sin(0.4), 1.0],
        params={"mass": mass, "inertia": inertia, "offset": offset, "front": front, "back": back, "width": width},
        dt=0.01,
        num_steps=3_000,
        shape=_sleigh_outline,
    )


def _sleigh_outline(q, params):
    along = np.array([np.cos(q[2]), np.sin(q[2])])
    at = np.asarray(q[:2])
    body = np.stack([at - float(params["back"]) * along, at + float(params["front"]) * along])
    walls = [wall((0.0, y), (1.0, y)) for y in (-float(params["width"]), float(params["width"]))]
    centre = at + float(params["offset"]) * along
    return [body, disk(centre[0], centre[1], 0.06), disk(at[0], at[1], 0.03), *walls]


# -- the nonholonomic particle in a box ----------------------------------------------------------------------------------


def _free(v, params):
    return 0.5 * params["mass"] * jnp.sum(v**2)


def _contact_plane(q):
    """z′ = y x′: the contact distribution of Heisenberg's group, the plainest constraint that is not integrable."""
    return jnp.stack([q[1], jnp.zeros(()), -jnp.ones(())])


def _box(q, params):
    side = params["side"]
    return jnp.concatenate([side - q, side + q])


_PARTICLE = System(_free, [Contact(_box, name="wall")], space=Euclidean(3, ("x", "y", "z")), constraints=_contact_plane)


@public
def nonholonomic_particle(mass: Positive = 1.0, side: Positive = 1.0) -> Model:
    """A free particle with z′ = y x′ in a cube |x|, |y|, |z| ≤ `side`. Its speed never changes."""
    return Model(
        name="nonholonomic_particle",
        about="a particle with z' = y x' in a cube",
        system=_PARTICLE,
        q0=[0.0, 0.3, 0.2],
        v0=[1.0, 0.7, 0.3],
        params={"mass": mass, "side": side},
        dt=0.01,
        num_steps=3_000,
        shape=_particle_outline,
    )


def _particle_outline(q, params):
    side = float(params["side"])
    square = side * np.array([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0], [-1, -1, 0]])
    ends = [line(square + np.array([0.0, 0.0, z]), fixed=True) for z in (-side, side)]
    return [np.asarray(q)[None], *ends]
