"""One small system of every kind, with a motion of a second or less that meets its contacts, for tests that walk them all."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

import carom


@dataclass(frozen=True)
class Kind:
    """A system, a start, and a number in its parameters by which runs are differentiated."""

    system: carom.System
    q0: Any
    v0: Any
    params: dict[str, Any]
    by: str  #                       the parameter to differentiate by
    dt: float = 0.01
    num_steps: int = 60
    conserves: bool = True  #        the energy, exactly
    hits: int = 1  #                 at least
    tags: frozenset[str] = field(default_factory=frozenset)


def _falling(q, v, params):
    return 0.5 * v @ v - params["gravity"] * q[1]


def _floor(q):
    return q[1]


def _ball(contact=None, **more: Any) -> Kind:
    contacts = [carom.Contact(_floor) if contact is None else contact]
    system = carom.System(more.pop("lagrangian", _falling), contacts, **more.pop("system", {}))
    return Kind(system, [0.0, 0.5], [0.6, 0.0], {"gravity": 9.81}, "gravity", **more)


def _slip(q, params):
    return q[0] + 0.3 * q[2]  # of the lowest point of a disc


def _disc(q, v, params):
    return 0.5 * (v[0] ** 2 + v[1] ** 2 + 0.045 * v[2] ** 2) - params["gravity"] * q[1]


def elastic() -> Kind:
    return _ball()


def restitution() -> Kind:
    return _ball(carom.Contact(_floor, 0.6), conserves=False)


def friction() -> Kind:
    floor = carom.Contact(lambda q: q[1] - 0.3, 0.5, friction=0.3, slip=_slip, name="floor")
    return Kind(carom.System(_disc, [floor]), [0.0, 0.8, 0.0], [1.0, 0.0, 2.0], {"gravity": 9.81}, "gravity", conserves=False)


def varying_mass() -> Kind:
    """Two coupled angles, one of them with a wall."""

    def lagrangian(q, v, params):
        coupling = 0.5 * jnp.cos(q[0] - q[1]) * v[0] * v[1]
        return v[0] ** 2 + 0.5 * v[1] ** 2 + coupling + params["gravity"] * (2 * jnp.cos(q[0]) + jnp.cos(q[1]))

    wall = carom.Contact(lambda q: 0.2 - q[0], name="wall")
    return Kind(carom.System(lagrangian, [wall]), [-0.8, 0.3], [0.0, 0.0], {"gravity": 3.0}, "gravity", num_steps=120)


def forces() -> Kind:
    return _ball(system={"force": lambda q, v, t, params: -0.2 * v + 0.3 * jnp.sin(5 * t)}, conserves=False)


def moving_wall() -> Kind:
    wall = carom.Contact(lambda q, t: q[1] - 0.05 * jnp.sin(6 * t), name="table")
    return _ball(wall, conserves=False)


def obstacle() -> Kind:
    corner = carom.Contact(lambda q: jnp.stack([q[0] - 0.55, q[1]]), obstacle=True, name="block")
    return _ball(corner, num_steps=40)


def constraints() -> Kind:
    """A skate: it moves along its blade, and its centre meets a wall."""

    def lagrangian(q, v, params):
        return 0.5 * (v[0] ** 2 + v[1] ** 2 + 0.5 * v[2] ** 2) - params["slope"] * q[1]

    def blade(q):
        return jnp.stack([-jnp.sin(q[2]), jnp.cos(q[2]), 0.0])[None]

    wall = carom.Contact(lambda q: 0.5 - q[0], name="wall")
    return Kind(carom.System(lagrangian, [wall], constraints=blade), [0.0, 0.0, 0.0], [1.0, 0.0, 0.8], {"slope": 1.0}, "slope",
                num_steps=80)  # fmt: skip


def joints() -> Kind:
    """A pendulum in the plane on a rod, with a wall."""
    rod = carom.Joint(lambda q: q @ q - 1.0, name="rod")
    wall = carom.Contact(lambda q: 0.3 - q[0], name="wall")
    return Kind(carom.System(_falling, [wall], joints=[rod]), [-0.6, -0.8], [0.0, 0.0], {"gravity": 9.81}, "gravity", num_steps=120)


def hamiltonian() -> Kind:
    def energy(q, p, params):
        return 0.5 * p @ p / 2.0 + 2.0 * params["gravity"] * q[1]

    system = carom.System(hamiltonian=energy, contacts=[carom.Contact(_floor)])
    return Kind(system, [0.0, 0.5], [0.6, 0.0], {"gravity": 9.81}, "gravity")


def relativistic() -> Kind:
    """L = −√(1 − v²) − gravity y: its energy is not quadratic in v."""

    def lagrangian(q, v, params):
        return -jnp.sqrt(1 - v @ v) - params["gravity"] * q[1]

    return Kind(
        carom.System(lagrangian, [carom.Contact(_floor)]), [0.0, 0.5], [0.6, -0.3], {"gravity": 0.5}, "gravity", num_steps=200
    )


def massless() -> Kind:
    """Two springs in a row with no mass where they meet: one spring of half the stiffness, exactly. The mass meets a wall."""

    def lagrangian(q, v, params):
        return 0.5 * v[1] ** 2 - 0.5 * params["stiffness"] * (q[0] ** 2 + (q[1] - q[0]) ** 2)

    wall = carom.Contact(lambda q: q[1] + 0.5, name="wall")
    return Kind(carom.System(lagrangian, [wall]), [0.5, 1.0], [0.0, 0.0], {"stiffness": 20.0}, "stiffness", num_steps=120)


def massless_contact() -> Kind:
    """The same, and the wall is met by the point without mass."""

    def lagrangian(q, v, params):
        return 0.5 * v[1] ** 2 - 0.5 * params["stiffness"] * (q[0] ** 2 + (q[1] - q[0]) ** 2)

    wall = carom.Contact(lambda q: q[0] + 0.2, 0.0, name="wall")
    return Kind(carom.System(lagrangian, [wall]), [0.5, 1.0], [0.0, 0.0], {"stiffness": 20.0}, "stiffness", num_steps=120,
                conserves=True, hits=0)  # fmt: skip


INERTIA = jnp.array([0.3, 0.5, 0.7])


def turned(q, x):
    """Vectors of the body, in space, along the last axis."""
    w, r = q[0], q[1:4]
    return x + 2 * jnp.cross(r, jnp.cross(r, x) + w * x)


def _rigid(q, v, params):
    """Unit mass; body axes."""
    return 0.5 * v[:3] @ (INERTIA * v[:3]) + 0.5 * v[3:] @ v[3:] - params["gravity"] * q[6]


TIPS = 0.3 * jnp.array([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]])


def _heights(q):
    return q[6] + turned(q, TIPS)[:, 2]


def rotations() -> Kind:
    """A jack with six tips, thrown on a floor."""
    floor = carom.Contact(_heights, name="tip")
    system = carom.System(_rigid, [floor], space=carom.SE3())
    q0 = np.array([0.9, 0.3, -0.2, 0.25, 0, 0, 0.8])
    q0[:4] /= np.linalg.norm(q0[:4])
    return Kind(system, q0, [1.0, -2.0, 0.5, 0.2, 0.1, -0.5], {"gravity": 9.81}, "gravity", num_steps=50)


def _tip_slips(q):
    return (q[4:] + turned(q, TIPS))[:, :2]


def rough_rotations() -> Kind:
    """The same on a rough floor, with loss."""
    floor = carom.Contact(_heights, 0.4, friction=0.3, slip=_tip_slips, name="tip")
    kind = rotations()
    return Kind(carom.System(_rigid, [floor], space=carom.SE3()), kind.q0, kind.v0, kind.params, "gravity", num_steps=50,
                conserves=False)  # fmt: skip


def rolling_rotations() -> Kind:
    """A ball that rolls on a floor towards a wall: a velocity constraint on SO(3) × ℝ²."""
    radius = 0.2

    def lagrangian(q, v, params):
        return 0.5 * (v[3] ** 2 + v[4] ** 2) + 0.5 * 0.4 * radius**2 * v[:3] @ v[:3] - params["slope"] * q[4]

    def rolling(q):
        """The point that touches the floor does not move: ẋ = R ω_y, ẏ = −R ω_x, ω in space."""
        columns = jnp.stack([turned(q, e) for e in jnp.eye(3)], axis=1)  # of the body's axes in space
        x = jnp.concatenate([-radius * columns[1], jnp.array([1.0, 0.0])])
        y = jnp.concatenate([radius * columns[0], jnp.array([0.0, 1.0])])
        return jnp.stack([x, y])

    wall = carom.Contact(lambda q: 0.4 - q[4], name="wall")
    system = carom.System(lagrangian, [wall], constraints=rolling, space=carom.Product(carom.SO3(), carom.Euclidean(2, ("x", "y"))))
    spin = np.array([0.0, 1.0 / radius, 1.5])
    return Kind(system, [1.0, 0, 0, 0, 0, 0.1], [*spin, 1.0, 0.0], {"slope": 0.5}, "slope", num_steps=60)


def beam() -> Kind:
    """Order 4 is at an error of 3e-7 with this step (a sixteenth of that with half of it, measured)."""
    model = carom.models.beam(elements=2)
    return Kind(model.system, model.q0, model.v0, dict(model.params), "gravity", dt=5e-5, num_steps=160, conserves=True)


def interfaces() -> Kind:
    model = carom.models.bars(elements=(4, 4), integrator=2)
    return Kind(model.system, model.q0, model.v0, dict(model.params), "contact_rest", dt=0.01, num_steps=100)


KINDS: dict[str, Callable[[], Kind]] = {
    f.__name__.replace("_", " "): f
    for f in (
        elastic, restitution, friction, varying_mass, forces, moving_wall, obstacle, constraints, joints, hamiltonian, relativistic,
        massless, massless_contact, rotations, rough_rotations, rolling_rotations, beam, interfaces,
    )
}  # fmt: skip
METHODS: dict[str, Callable[[], Any]] = {
    "VariationalCollision": carom.VariationalCollision,
    "EventDriven": lambda: carom.EventDriven(),
    "MoreauJean": lambda: carom.MoreauJean(1.0),
    "TimeDG": lambda: carom.TimeDG(2),
    "Hybrid": lambda: carom.Hybrid(),
}


def _model(name: str) -> carom.models.Model:
    kind = KINDS[name]()
    return carom.models.Model(
        name, "a small system for tests", kind.system, list(kind.q0), list(kind.v0), kind.params, kind.dt, kind.num_steps
    )


MODELS: dict[str, Callable[[], carom.models.Model]] = {name: partial(_model, name) for name in KINDS}
