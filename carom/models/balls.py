"""The three bouncing-ball problems of [schindler2014, §4] and their exact solutions; balls on curved ground."""

import jax.numpy as jnp
import numpy as np

from carom.calls import public
from carom.contact.contact import Contact
from carom.drawing import disk, line, wall
from carom.methods.timestepping.time_dg import TimeDG
from carom.models.model import Model
from carom.spaces.space import Euclidean
from carom.system.system import System
from carom.wanted import NotNegative, Number, Positive, Share


def _pushed(q, v, t, params):
    """A force constant + quadratic·t² on a ball of mass 1."""
    return 0.5 * v[0] ** 2 + (params["constant"] + params["quadratic"] * t**2) * q[0]


def _height(q):
    return q[0]


def _restitution(params):
    return params["restitution"]


_BALL = System(_pushed, [Contact(_height, _restitution, name="floor")], space=Euclidean(1, ("y",)))


def _ball(name: str, about: str, number: str, q0: float, params: dict[str, float], dt: float, num_steps: int, solution) -> Model:
    return Model(
        name=name,
        about=about,
        system=_BALL,
        q0=[q0],
        v0=[0.0],
        params=params,
        dt=dt,
        num_steps=num_steps,
        source=f"schindler2014, Problem {number}",
        shape=_ball_outline,
        exact={"solution": solution},
        method=TimeDG(1),
    )


@public
def free_ball(quadratic: Number = -10.0) -> Model:
    """Free flight from height 1 with the acceleration −10t², up to t = 1: the ball does not reach the floor."""
    params = {"constant": 0.0, "quadratic": quadratic, "restitution": 0.5}
    return _ball("free_ball", "a ball in free flight, pushed by −10t²", "4.2", 1.0, params, 0.02, 50, free_flight)


@public
def resting_ball(quadratic: Number = -10.0) -> Model:
    """A ball that rests on the floor, pressed on it by 10t²: the contact force balances the push."""
    params = {"constant": 0.0, "quadratic": quadratic, "restitution": 0.5}
    return _ball("resting_ball", "a ball at rest, pressed on the floor by 10t²", "4.3", 0.0, params, 0.02, 50, rest_phase)


@public
def zeno_ball(gravity: Positive = 2.0, restitution: Share = 0.5) -> Model:
    """A ball dropped from height 1: with the defaults its impacts accumulate at t = 3, and from then on it rests."""
    params = {"constant": -gravity, "quadratic": 0.0, "restitution": restitution}
    return _ball("zeno_ball", "a ball that comes to rest after infinitely many impacts", "4.4", 1.0, params, 0.01, 500, zeno)


def free_flight(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Position, velocity and accumulated interaction of `free_ball`: (79) of [schindler2014]."""
    t = np.asarray(t, float)
    return 1 - 5 / 6 * t**4, -10 / 3 * t**3, np.zeros_like(t)


def rest_phase(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of `resting_ball`: (83) of [schindler2014]."""
    t = np.asarray(t, float)
    return np.zeros_like(t), np.zeros_like(t), 10 / 3 * t**3


def zeno(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of `zeno_ball`: (87)–(90) of [schindler2014], and rest with i = 6 + 2(t − 3) from t = 3 on."""
    t = np.asarray(t, float)
    left = np.maximum(3 - t, 1e-300)
    n = np.maximum(np.ceil(-np.log2(left)), 0.0)  # 3 − 2^(1−n) ≤ t < 3 − 2^(−n)
    n = np.where(t >= 3 - 2.0 ** -np.minimum(n, 1000.0), n + 1, n)
    part = 2.0 ** -np.minimum(n, 1000.0)
    q = -((t - 3) ** 2) - 3 * part * (t - 1) + 2 * part * (3 - part)
    v = -2 * (t - 3) - 3 * part
    i = 6 - 3 * part
    early, late = t < 1, t >= 3
    q = np.where(early, 1 - t**2, np.where(late, 0.0, q))
    v = np.where(early, -2 * t, np.where(late, 0.0, v))
    return q, v, np.where(early, 0.0, np.where(late, 6 + 2 * (t - 3), i))


def _ball_outline(q, params):
    return [disk(0.0, float(q[0]) + 0.05, 0.05), wall((0.0, 0.0), (1.0, 0.0))]


def _falling(q, v, params):
    return params["mass"] * (0.5 * jnp.sum(v**2) - params["gravity"] * q[1])


def _inside(q, params):
    return params["radius"] - jnp.sqrt(q[0] ** 2 + q[1] ** 2)


def _outside(q, params):
    return jnp.sqrt(q[0] ** 2 + q[1] ** 2) - params["radius"]


def _bowl_slip(q, params):
    return params["radius"] * jnp.arctan2(q[0], -q[1])


def _friction(params):
    return params["friction"]


_ROUND = Euclidean(2, ("x", "y"))
_BOWL = System(_falling, [Contact(_inside, _restitution, friction=_friction, slip=_bowl_slip, name="bowl")], space=_ROUND)
_SPHERE = System(_falling, [Contact(_outside, _restitution, name="sphere")], space=_ROUND)


@public
def bowl(
    mass: Positive = 1.0,
    radius: Positive = 1.0,
    gravity: Number = 9.81,
    angle: Number = 1.0,
    restitution: Share = 0.0,
    friction: NotNegative = 0.0,
) -> Model:
    """A small body released at rest on the inside of a round bowl, `angle` from its lowest point. Without friction it swings as a
    pendulum, pressing on the bowl with m(g cos θ + Rθ′²)."""
    return Model(
        name="bowl",
        about="a small body sliding in a round bowl: a held contact on curved ground",
        system=_BOWL,
        q0=[radius * np.sin(angle), -radius * np.cos(angle)],
        v0=[0.0, 0.0],
        params={"mass": mass, "radius": radius, "gravity": gravity, "restitution": restitution, "friction": friction},
        dt=0.01,
        num_steps=500,
        shape=_round_outline,
        exact={"speed": bowl_speed},
        method=TimeDG(2),
    )


def bowl_speed(height: float, gravity: float = 9.81) -> float:
    """The speed after sliding down by `height` without friction: exact."""
    return float(np.sqrt(2 * gravity * height))


@public
def sphere(
    mass: Positive = 1.0, radius: Positive = 1.0, gravity: Number = 9.81, angle: Number = 0.2, restitution: Share = 0.0
) -> Model:
    """A small body released at rest on top of a sphere, `angle` from the summit: it slides, and lifts off where cos θ has fallen to
    two thirds of its first value."""
    return Model(
        name="sphere",
        about="a small body sliding off a sphere: contact that opens by itself",
        system=_SPHERE,
        q0=[radius * np.sin(angle), radius * np.cos(angle)],
        v0=[0.0, 0.0],
        params={"mass": mass, "radius": radius, "gravity": gravity, "restitution": restitution},
        dt=0.01,
        num_steps=100,
        shape=_round_outline,
        exact={"lift_off": lift_off_angle},
        method=TimeDG(2),
    )


def lift_off_angle(angle: float) -> float:
    """Where a body released at rest at `angle` from the summit leaves a smooth sphere: exact."""
    return float(np.arccos(2 / 3 * np.cos(angle)))


def _round_outline(q, params):
    return [line(disk(0.0, 0.0, params["radius"]), fixed=True), np.array([[q[0], q[1]]])]
