"""Looking at the laws of contact before a run: coefficients along all speeds, and slips that forget that a body turns."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from carom.errors import InputError
from carom.kept.keep import keep_quick
from carom.named import Named
from carom.system.system import System
from carom.xla.structure import depends_on

OUTSIDE = (
    "impulse is not between mass · speed, which stops the approach, and twice that, which gives all of it back: "
    "more would add energy"
)

# Speeds at which a law of speed is looked at: zero, and from a micrometre per second to a hundred kilometres, in whatever units.
SPEEDS = np.concatenate([[0.0], np.geomspace(1e-6, 1e5, 221), np.linspace(0.05, 20.0, 400)])


def check_laws(system: System, params: Any, q: Any, v: Any, t: Any) -> None:
    """Restitution in [0, 1] and friction ≥ 0 at every speed, static friction at least the kinetic one, and impulses of one's own
    between what stops an approach and what gives it all back."""
    _check_impulses(system, params, q, v, t)
    for contact in system.contacts:
        where = f"contact {contact.name!r}" if contact.name else "a contact"
        for what, law, upper in (("restitution", contact.restitution, 1.0), ("friction", contact.friction, np.inf)):
            if isinstance(law, Named) and law.asks_for("speed"):
                _check_law_of_speed(law, params, what, upper, where)
        if contact.static_friction is not None:
            static, kinetic = _number(contact.static_friction, params), _number(contact.friction, params)
            if not np.all(static >= kinetic):
                raise InputError(f"{where}: static_friction is {static} and friction {kinetic}: it must be at least that")
        if contact.roll is not None:
            arm, friction = _number(contact.rolling, params), _number(contact.friction, params)
            if not (np.all(arm > 0) and np.all(friction > 0)):
                raise InputError(
                    f"{where}: with rolling resistance, rolling and friction must be positive; they are {arm}, {friction}"
                )


def _check_impulses(system: System, params: Any, q: Any, v: Any, t: Any) -> None:
    """At every speed with the velocity across the normal that the run starts with. Laws that ask for q or t are asked at impacts
    only, and so are those of masses at nodes."""
    laws = enumerate(contact.impulse for contact in system.contacts)
    asked = [i for i, law in laws if law is not None and not (law.asks_for("q") or law.asks_for("t"))]
    if not asked or "nodes" in system.needs:
        return
    values = np.asarray(_along_approaches(system, params, *(jnp.asarray(x, float) for x in (q, v, t)), jnp.asarray(SPEEDS[1:])))
    owner = system.bind(params, np.size(q)).contacts.contact_of
    for i in asked:
        wrong = np.isnan(values[:, np.asarray(owner) == i]).any(axis=1)
        if np.any(wrong):
            name = f"contact {system.contacts[i].name!r}" if system.contacts[i].name else "a contact"
            raise InputError(f"{name}: at speed {SPEEDS[1:][wrong][0]:.6g} its {OUTSIDE}")


@keep_quick
def _along_approaches(system: System, params: Any, q, v, t, speeds: jax.Array) -> jax.Array:
    """Restitution of all faces, each approached with these speeds; not a number where the law gives none."""
    m = system.bind(params, q.shape[0])
    normals = m.contacts.normals(q, t)
    columns = m.inverse_mass_times(q, v, t, normals.T)
    delassus = jnp.sum(normals * columns.T, axis=1)

    def at(speed):
        def one(i):
            g = jnp.where(delassus[i] > 0, delassus[i], 1.0)
            velocity = v - columns[:, i] * (normals[i] @ v + m.contacts.wall_speed(q, t)[i] + speed) / g
            rates = normals @ velocity + m.contacts.wall_speed(q, t)
            return m.contacts.restitution(rates, delassus, jnp.ones(len(rates), bool), q, velocity, t)[i]

        return jax.vmap(one)(jnp.arange(normals.shape[0]))

    return jax.vmap(at)(speeds)


def _check_law_of_speed(law: Named, params: Any, what: str, upper: float, where: str) -> None:
    values = np.asarray(_along_speeds(law, params, jnp.asarray(SPEEDS)))
    wrong = ~((values >= 0) & (values <= upper + 1e-12))
    if np.any(wrong):
        i = int(np.argmax(wrong))
        gains = "more than 1 would add energy; " if values[i] > upper else ""
        raise InputError(
            f"{where}: {what} is {values[i]:.6g} at speed {SPEEDS[i]:.6g}; {gains}it must lie in [0, {upper:g}] at every speed"
        )


@keep_quick
def _along_speeds(law: Named, params: Any, speeds: jax.Array) -> jax.Array:
    return jax.vmap(lambda speed: jnp.asarray(law(speed=speed, params=params), float).reshape(()))(speeds)


def _number(coefficient: Any, params: Any) -> np.ndarray:
    return np.asarray(coefficient(params=params) if isinstance(coefficient, Named) else coefficient, float)


def check_slips(system: System, params: Any, q: np.ndarray, t: float) -> None:
    """On rotations: a slip that moves with a body but not with its turning belongs to no material point that touches."""
    space = system.space
    bodies = [] if space is None or "rotations" not in system.needs else _turning_bodies(space.directions)
    if not bodies or "friction" not in system.needs:
        return
    normals, tangents = (np.abs(np.asarray(rows)) for rows in _contact_rows(system, params, jnp.asarray(q), jnp.asarray(t)))
    m = system.bind(params, q.size).contacts
    for contact_index, contact in enumerate(system.contacts):
        faces = np.flatnonzero(m.contact_of == contact_index)
        for turn in bodies if contact.rough else []:
            move = slice(turn.stop, turn.stop + 3)
            touches = np.any(normals[faces][:, move] > 0)
            carried = np.any(tangents[faces][:, :, move] > 0)
            if touches and carried and not np.any(tangents[faces][:, :, turn] > 1e-12):
                name = f"contact {contact.name!r}" if contact.name else "a contact"
                raise InputError(
                    f"the slip of {name} moves with a body but not with its turning: it is the velocity of the centre, which would "
                    "be braked even while the body rolls. Friction acts on the material point that touches, v + ω × r: write "
                    "carom.sliding_velocity(*carom.rigid_velocity(q, v), arm, normal)"
                )


def check_rate(function: Named, where: str, args: tuple[Any, ...]) -> None:
    """A slip is a velocity, with at most a drift beside it (a belt), or a coordinate; `args`: shapes of q, v, t, params."""
    role = function.role
    value = lambda q, v, t, params: jnp.asarray(function(q=q, v=v, t=t, params=params), float)  # noqa: E731
    if not function.asks_for("v"):
        if not depends_on(value, *args)[0]:
            raise InputError(f"the {role} of {where} depends neither on v nor on q: nothing would ever slide. Write a velocity")
        return
    rate = lambda q, v, dv, t, params: jax.jvp(lambda v: value(q, v, t, params), (v,), (dv,))[1]  # noqa: E731
    q, v, t, params = args
    by_v, by_dv = depends_on(rate, q, v, v, t, params)[1:3]
    if not by_dv:
        raise InputError(
            f"the {role} of {where} asks for v and does not change with it: nothing would ever slide. Write the velocity of the "
            "point that touches, or a coordinate of it as a function of q alone"
        )
    if by_v and not _linear(value, args):
        raise InputError(
            f"the {role} of {where} is not linear in v: it is a velocity, with its sign and its size. What friction makes of speed "
            "is said by friction=lambda speed: …"
        )


def _linear(value: Any, args: tuple[Any, ...]) -> bool:
    """What the structure does not show: f(a) + f(b) = f(a + b) + f(0) at some velocities."""
    random = np.random.default_rng(0)
    q, v, t, params = jax.tree.map(lambda x: random.uniform(0.5, 1.5, x.shape), args)
    f = lambda v: np.asarray(value(q, v, t, params))  # noqa: E731
    for a, b in random.normal(size=(4, 2, *v.shape)):
        values = np.stack([f(a), f(b), -f(a + b), -f(0 * v)])
        if np.max(np.abs(values.sum(axis=0)), initial=0.0) > 1e-9 * np.max(
            np.abs(values), initial=0.0
        ):  # rounding; NaN decides nothing
            return False
    return True


def _turning_bodies(directions: tuple[str, ...]) -> list[slice]:
    """Where in a velocity the angular velocities of rigid bodies lie; their velocities follow."""
    starts = [i for i in range(len(directions) - 5) if directions[i].startswith("wx") and directions[i + 3].startswith("vx")]
    return [slice(i, i + 3) for i in starts]


@keep_quick
def _contact_rows(system: System, params: Any, q, t):
    m = system.bind(params, q.shape[0])
    return m.contacts.normals(q, t), m.contacts.tangents(q, jnp.zeros(m.dim), t)[0]
