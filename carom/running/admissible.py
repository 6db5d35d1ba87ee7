"""Does a problem make sense with its velocity constraints, and along which directions has it no kinetic energy?"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom.errors import InputError
from carom.kept.keep import keep_quick
from carom.system.massless import imbalance, settles_at_once
from carom.system.mechanics import Mechanics
from carom.system.system import System

PLACES = 3  # configurations near the start at which a structural property is looked at, besides the start itself


class Here(NamedTuple):
    """The system at one configuration."""

    mass: Any  #          M
    constraints: Any  #   A
    normals: Any  #       ∇φ, one row per face


def look(mechanics: Mechanics, q, v, t) -> Here:
    return Here(mechanics.mass(q, v, t), mechanics.functions.constraints(q, t), mechanics.contacts.normals(q, t))


@keep_quick
def _look(system: System, params, q, v, t) -> Here:
    return look(system.bind(params, q.shape[0]), q, v, t)


def _nearby(system: System, q: np.ndarray) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    if system.space is None:
        return [q + 0.1 * random.uniform(-1, 1, q.shape) for _ in range(PLACES)]
    away = [0.1 * random.uniform(-1, 1, system.space.dim) for _ in range(PLACES)]
    return [np.asarray(system.space.retract(jnp.asarray(q), jnp.asarray(x))) for x in away]


def check_constraints(system: System, params, here: Here, q: np.ndarray, v: np.ndarray | None, t: float, names, owner) -> None:
    """Rank, the initial velocity (if it is given), and contacts that no admissible velocity reaches."""
    if system.constraints is None:
        return
    A = here.constraints
    m, n = A.shape
    _check_finite(A)
    if m >= n:
        raise InputError(f"there are {m} constraints on {n} velocities: nothing could move. Leave at least one velocity free")
    singular = np.linalg.svd(A, compute_uv=False)
    rank = int(np.sum(singular > 1e-12 * singular[0])) if singular.size and singular[0] > 0 else 0
    if rank < m:
        raise InputError(
            f"the constraints are not independent: A has {m} rows but rank {rank} at the initial configuration. {_culprit(A)}"
        )
    if v is not None:
        _check_velocity(A, here.mass, v)
    blocked = _unreachable(here)
    if blocked.any():  # at one place it may be so by chance
        for at in _nearby(system, q):
            blocked = blocked & _unreachable(_look_at(system, params, at, t))
    if blocked.any():
        name = names[owner[int(np.argmax(blocked))]]
        raise InputError(
            f"contact {name!r} is tangent to every velocity that the constraints allow (T∂Q ⊇ Δ): it can neither be reached nor "
            "left by an admissible motion. Remove it, or the constraint that rules out its normal direction"
        )


def _check_finite(A: np.ndarray) -> None:
    """Before anything is decomposed."""
    if not np.isfinite(A).all():
        raise InputError(f"the constraints are not finite at the initial configuration:\n{A}")


def _look_at(system: System, params, q, t) -> Here:
    v = jnp.zeros(q.size if system.space is None else system.space.dim)
    return jax.device_get(_look(system, params, jnp.asarray(q), v, jnp.asarray(t)))


def _culprit(A: np.ndarray) -> str:
    for i in range(len(A)):
        if np.linalg.matrix_rank(A[: i + 1]) <= i:
            return f"Row {i} is zero" if not A[i].any() else f"Row {i} follows from the rows before it: leave it out"
    return ""


def _check_velocity(A: np.ndarray, mass: np.ndarray, v: np.ndarray) -> None:
    """A v = 0, to rounding; otherwise the closest velocity in the kinetic metric is offered."""
    slip = A @ v
    allowed = 1e-9 * (np.abs(A) @ np.abs(v) + 1e-300)  # angles and products that a user typed, not rounding of ours
    if np.all(np.abs(slip) <= allowed):
        return
    n, m = len(v), len(A)
    block = np.block([[mass, A.T], [A, np.zeros((m, m))]])
    closest = np.linalg.lstsq(block, np.concatenate([mass @ v, np.zeros(m)]), rcond=None)[0][:n]
    row = int(np.argmax(np.abs(slip) - allowed))
    where = np.array2string(closest, separator=", ", precision=15, max_line_width=10_000)
    raise InputError(
        f"v0 violates the constraints: row {row} of A v0 is {slip[row]:.6g}, and should be 0. "
        f"The closest admissible velocity in the kinetic metric is v0 = {where}"
    )


def _unreachable(here: Here) -> np.ndarray:
    """Which normals lie in Δ°, the span of the rows of A."""
    basis = np.linalg.qr(here.constraints.T)[0]
    rest = here.normals - (here.normals @ basis) @ basis.T
    size = np.linalg.norm(here.normals, axis=1)
    return np.linalg.norm(rest, axis=1) <= 1e-10 * size


class Kinetic(NamedTuple):
    """The kinetic energy of the velocities that the constraints allow."""

    free: np.ndarray  #     their basis, in columns
    values: np.ndarray  #   eigenvalues of M there, the least one first
    vectors: np.ndarray
    scale: float  #         the largest entry of M


def kinetic_energy(here: Here) -> Kinetic:
    _check_finite(here.constraints)
    if len(here.constraints) >= len(here.mass):  # nothing could move: that is said by `check_constraints`
        return Kinetic(np.zeros((len(here.mass), 0)), np.zeros(0), np.zeros((0, 0)), 0.0)
    free = null_space(here.constraints)
    values, vectors = np.linalg.eigh(free.T @ (0.5 * (here.mass + here.mass.T)) @ free)
    return Kinetic(free, values, vectors, np.max(np.abs(here.mass), initial=0.0))


def find_massless(
    system: System, params, here: Here, kinetic: Kinetic, q: np.ndarray, v: np.ndarray, t: float
) -> tuple[System, bool]:
    """The system with the directions in Δ that have no kinetic energy, if there are any, and whether a gap changes along them.
    They must not depend on q."""
    if system.hamiltonian is not None:
        return system, False
    if system.massless is not None:
        return system, _touches(here, np.asarray(system.massless))
    massless, scale = np.abs(kinetic.values) <= 1e-13 * kinetic.scale, kinetic.scale
    if not massless.any():
        return system, False
    directions = (kinetic.free @ kinetic.vectors[:, massless]).T
    text = np.array2string(directions[0], precision=3, suppress_small=True)
    for at in _nearby(system, q):
        there = _look_at(system, params, at, t)
        if np.max(np.abs(there.mass @ directions.T), initial=0.0) > 1e-10 * scale:
            raise InputError(
                "the lagrangian is singular in the velocities: at the initial state ∂²L/∂v² has no inverse (no kinetic energy "
                f"along v = {text}), and elsewhere that direction is another. Start somewhere else, or use other coordinates"
            )
    system = eqx.tree_at(lambda s: s.massless, system, jnp.asarray(directions), is_leaf=lambda x: x is None)
    _check_balance(system, params, q, v, t, text)
    return system, _touches(here, directions)


def _touches(here: Here, directions: np.ndarray) -> bool:
    """Does a gap change along a direction without mass?"""
    return bool((np.abs(here.normals @ directions.T) > 1e-12).any())


def null_space(A: np.ndarray) -> np.ndarray:
    if not len(A):
        return np.eye(A.shape[1])
    _, values, vectors = np.linalg.svd(A)
    return vectors[int(np.sum(values > 1e-12 * values[0])) :].T


def _check_balance(system: System, params, q, v, t, text: str) -> None:
    """A massless coordinate in a potential has to start where the force on it is zero."""
    defect, scale = jax.device_get(_balance(system, params, jnp.asarray(q), jnp.asarray(v), jnp.asarray(t)))
    if not np.all(np.abs(defect) <= 1e-8 * (1.0 + scale)):
        raise InputError(
            f"the lagrangian has no kinetic energy along v = {text}, so the force on that direction must be zero at all times; "
            f"at the initial state it is {float(np.max(np.abs(defect))):.6g}. Start at an equilibrium of that coordinate"
        )


@keep_quick
def _balance(system: System, params, q, v, t):
    m = system.bind(params, q.shape[0])
    assert system.massless is not None
    if settles_at_once(m, system.massless):
        return jnp.zeros(1), jnp.zeros(())
    v = v - system.massless.T @ (system.massless @ v)
    return imbalance(m, system.massless, q, v, t), jnp.max(jnp.abs(m.node(q, v, t).push))
