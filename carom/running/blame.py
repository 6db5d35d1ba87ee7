"""Why a run ended: which function of its system is not finite there, or whether its coordinates break down."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom.named import Named
from carom.results.rises import NEARLY, least_masses
from carom.running.contact_checks import OUTSIDE
from carom.system.system import System

AHEAD = (0.0, 0.5, 1.0, 2.0)  # of a step beyond the last good state
BEHIND = 64  # states before it: where coordinates break down, a run may last a few steps more


def blame(system: System, params: Any, q: Any, v: Any, t: float, dt: float) -> str:
    """The function that is not finite on the way that the motion was taking, or whose slope is not; "" if all of them are."""
    functions: list[tuple[str, Named]] = [
        (f"the {f.role}", f) for f in (system.force, system.constraints, system.lagrangian, system.hamiltonian) if f is not None
    ]
    if system.controller is not None:  # its command may be at fault, but that is asked for at its own instants
        functions = [(name, f) for name, f in functions if not f.asks_for("u")]
    functions += [(f"the gap of contact {c.name or i!r}", c.gap) for i, c in enumerate(system.contacts)]
    functions += [(f"joint {j.name or i!r}", j.g) for i, j in enumerate(system.joints)]
    q, v = jnp.asarray(q), jnp.asarray(v)
    if q.shape != v.shape or not (np.all(np.isfinite(q)) and np.all(np.isfinite(v))):
        return ""
    for part in AHEAD:
        at, time = q + part * dt * v, jnp.asarray(t + part * dt)
        for name, function in functions:
            value, slope = _value_and_slope(function, params, at, v, time)
            for what, found in ((name, value), (f"the slope of {name}", slope)):
                if not np.all(np.isfinite(found)):
                    where = np.array2string(np.asarray(at), precision=6, separator=", ")
                    return f"{what} is {_sign(found)} at q = {where}, t = {float(time):.9g}"
    return _outside_the_law(system, params, q, v, jnp.asarray(t), dt)


def _outside_the_law(system: System, params: Any, q, v, t, dt: float) -> str:
    """A contact on the way whose impulse, a law of the user's own, no impact can have."""
    if all(contact.impulse is None for contact in system.contacts) or "nodes" in system.needs:
        return ""
    contacts = (m := system.bind(params, q.shape[0])).contacts
    for part in AHEAD:
        at, time = q + part * dt * v, t + part * dt
        normals = contacts.normals(at, time)
        delassus = jnp.sum(normals * m.inverse_mass_times(at, v, time, normals.T).T, axis=1)
        rates = normals @ v + contacts.wall_speed(at, time)
        wrong = np.isnan(contacts.restitution(rates, delassus, jnp.ones(len(rates), bool), at, v, time))
        if np.any(wrong):
            contact = system.contacts[int(np.asarray(contacts.contact_of)[int(np.argmax(wrong))])]
            return f"contact {contact.name!r} is met with a speed of {float(-rates[int(np.argmax(wrong))]):.6g}, and its {OUTSIDE}"
    return ""


def _value_and_slope(function: Named, params: Any, q, v, t) -> tuple[np.ndarray, np.ndarray]:
    of = lambda q: jnp.atleast_1d(jnp.asarray(function(q=q, v=v, p=v, t=t, params=params), float)).reshape(-1)  # noqa: E731
    value, slope = jax.jvp(of, (q,), (v,))
    return np.asarray(value), np.asarray(slope)


def _sign(values: np.ndarray) -> str:
    return "not a number" if np.any(np.isnan(values)) else "infinite"


def breaking_down(system: System, params: Any, grid: np.ndarray, n: int, t: float, dt: float) -> str:
    """Whether the mass matrix is nearly singular where a run ended, seen from its start; "" if it is not. `grid` has a row (q, p)
    for each state that was kept.

    The smallest eigenvalue of M₀⁻¹M is asked for. Euler angles near a right angle and polar coordinates near their origin have such
    places, and the bodies have not: other coordinates go through.
    """
    if grid.shape[1] != 2 * n or "nodes" in system.needs or system.massless is not None:
        return ""
    rows = grid[-BEHIND:][np.all(np.isfinite(grid[-BEHIND:]), axis=1)]
    rows = np.concatenate([np.repeat(grid[:1], BEHIND - len(rows), axis=0), rows])  # always as many: one program for all runs
    start, time = jnp.asarray(grid[0, :n]), jnp.asarray(t, float)
    first, seen = map(np.asarray, _masses(system, params, start, jnp.asarray(rows), time, jnp.asarray(dt, float)))
    if not np.all(np.isfinite(first)) or np.linalg.eigvalsh(first)[0] <= 0:  # an energy that is not quadratic in the velocities
        return ""
    smallest = float(np.min(least_masses(first, seen[np.all(np.isfinite(seen), axis=(1, 2))]), initial=1.0))
    if smallest > NEARLY:
        return ""
    return (
        f"the mass matrix is nearly singular there, in one direction {max(smallest, 0.0):.1g} of what it was at the start. "
        "Coordinates such as Euler angles have such places, bodies have none: describe one that turns on carom.SE3() or carom.SO3()"
    )


@eqx.filter_jit
def _masses(system: System, params: Any, first, rows, t, dt):
    """The mass matrix at the start, and at some states and on the way that the last of them takes."""
    n = first.shape[0]
    mechanics = system.bind(params, n)
    mass = lambda q: mechanics.mass(q, jnp.zeros(n), t)  # noqa: E731
    q, v = rows[-1, :n], mechanics.velocity(rows[-1, :n], rows[-1, n:], t)
    return mass(first), jax.vmap(mass)(jnp.concatenate([rows[:, :n], jnp.stack([q + part * dt * v for part in AHEAD])]))
