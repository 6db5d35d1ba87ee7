"""Looking around the start: masses that are negative, joints that do not hold, gaps that never become negative."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from carom.errors import InputError
from carom.kept.keep import keep_quick
from carom.running.admissible import Here, Kinetic
from carom.system.system import System

MOST_FACES = 24  # of all contacts, and so many of one
FACES_EACH = 6
NEWTON_STEPS = 40
REACHES = 10.0 ** np.arange(-6, 1)  # how far beyond a zero of a gap its sign is looked at, relative to the coordinates
MANY_COORDINATES, FEW_DIRECTIONS = 200, 2  # a bar has a hundred thousand
DIRECTIONS = 16  # chosen at random, beside those that are known


# -- mass ----------------------------------------------------------------------------------------------------------------


def check_mass(system: System, here: Here, kinetic: Kinetic) -> None:
    """Kinetic energy is positive along every velocity (massless ones are another matter: see `find_massless`)."""
    if (system.hamiltonian is not None and not len(here.normals)) or len(here.constraints) >= len(here.mass):
        return  # coordinates and momenta may mean anything there, unless a law of impact needs a metric
    free, values, vectors, scale = kinetic
    if values[0] < -1e-12 * scale:  # rounding of the eigenvalues
        given = "∂²L/∂v²" if system.hamiltonian is None else "the inverse of ∂²H/∂p²"
        along = np.array2string(free @ vectors[:, 0], precision=3, suppress_small=True)
        raise InputError(
            f"the kinetic energy is negative along v = {along}: {given} has the eigenvalue {values[0]:.6g} at the initial state. "
            "A Lagrangian is kinetic minus potential energy; look for a wrong sign or a negative mass"
        )


# -- joints --------------------------------------------------------------------------------------------------------------


class _Held(NamedTuple):
    """The joints at one state."""

    value: Any  #  g
    rows: Any  #   ∂g/∂q
    drift: Any  #  ∂g/∂t
    mass: Any
    reach: Any  #  how large the numbers are that g adds up


@keep_quick
def _held(system: System, params: Any, q, v, t) -> _Held:
    return _joints_at(system, params, q, v, t)


def _joints_at(system: System, params: Any, q, v, t) -> _Held:
    functions = system.bind(params, q.shape[0], general=True).functions
    joints, mass = functions.joints, system.bind(params, q.shape[0]).mass(q, v, t)
    rows = functions.slopes(lambda q: joints(q, t), q)
    reach = jnp.abs(jax.jacfwd(joints)(q, t)) @ jnp.abs(q)
    return _Held(joints(q, t), rows, jax.jacfwd(joints, argnums=1)(q, t), mass, reach)


def _missed(held: _Held, v) -> tuple[Any, Any, Any]:
    """By how much the joints are apart, beyond what counts as none; their rates; and by how much these are too large."""
    # Numbers that a person typed: eight digits of them, and rounding where a joint is at the origin.
    size = jnp.linalg.norm(held.rows, axis=1)
    apart = jnp.abs(held.value) - 1e-8 * held.reach - 1e-10 * size
    speed = held.rows @ v + held.drift
    return apart, speed, jnp.abs(speed) - 1e-8 * (jnp.abs(held.rows) @ jnp.abs(v) + jnp.abs(held.drift)) - 1e-10 * size


def joints_hold(system: System, params: Any, q, v, t) -> Any:
    """The same as `check_joints` asks, as a traced yes or no."""
    apart, _, slipping = _missed(_joints_at(system, params, q, v, t), v)
    return jnp.all(apart <= 0) & jnp.all(slipping <= 0)


def check_joints(system: System, params: Any, q: np.ndarray, v: np.ndarray, t: float) -> None:
    """g(q₀) = 0 and ∇g·v₀ + ∂g/∂t = 0; otherwise the nearest state for which they hold is offered."""
    if not system.joints:
        return
    held = jax.device_get(_held(system, params, jnp.asarray(q), jnp.asarray(v), jnp.asarray(t)))
    if not (np.all(np.isfinite(held.value)) and np.all(np.isfinite(held.rows))):
        raise InputError(f"the joints are {held.value} at the initial state, or their slopes are not finite")
    apart, speed, slipping = map(np.asarray, _missed(held, v))
    if np.all(apart <= 0) and np.all(slipping <= 0):
        _check_independent(system, params, q, t, held.rows)
        return
    near_q, near_v = _nearest(system, params, q, v, t)
    text = lambda x: np.array2string(x, separator=", ", precision=15, max_line_width=10_000, suppress_small=True)  # noqa: E731
    if np.any(apart > 0):
        i = int(np.argmax(apart))
        which = _name(system, params, q, t, i)
        what = f"joint {which} does not hold at the start: it is {held.value[i]:.6g}, and should be 0"
        offer = f"q0 = {text(near_q)}, v0 = {text(near_v)}"
    else:
        i = int(np.argmax(slipping))
        what = f"v0 tears joint {_name(system, params, q, t, i)} apart: its rate is {speed[i]:.6g}, and should be 0"
        offer = f"v0 = {text(near_v)}"
    known = np.all(np.isfinite(near_q)) and np.all(np.isfinite(near_v))
    raise InputError(f"{what}. The nearest admissible state in the kinetic metric is {offer}" if known else what)


def _check_independent(system: System, params: Any, q: np.ndarray, t: float, rows: np.ndarray) -> None:
    """Each row of ∂g/∂q adds a direction that those before it do not have, beyond rounding."""
    basis = np.zeros((0, rows.shape[1]))
    for i, row in enumerate(rows):
        size = np.linalg.norm(row)
        rest = row - basis.T @ (basis @ row)
        rest = rest - basis.T @ (basis @ rest)  # once more: the first time loses digits where little is left
        if not np.linalg.norm(rest) > 1e-12 * size:
            why = "has no slope at the start" if size == 0 else "follows from those before it at the start"
            raise InputError(
                f"joint {_name(system, params, q, t, i)} {why}, so that its force is not determined: leave it out, or write it so "
                "that its slope is not zero (norm(q) - 1, not (norm(q) - 1)**2)"
            )
        basis = np.concatenate([basis, rest[None] / np.linalg.norm(rest)])


def _name(system: System, params: Any, q: np.ndarray, t: float, i: int) -> str:
    """Which joint the i-th number belongs to."""
    start = 0
    for number, joint in enumerate(system.joints):
        size = np.size(jax.eval_shape(lambda j=joint: jnp.asarray(j.g(q=jnp.asarray(q), t=jnp.asarray(t), params=params))))
        if i < start + size:
            label = repr(joint.name) if joint.name else str(number)
            return label if size == 1 else f"{label}[{i - start}]"
        start += size
    return str(i)


def _nearest(system: System, params: Any, q: np.ndarray, v: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray]:
    """Newton's method on g = 0, each step the shortest in the kinetic metric; then the closest velocity."""
    at = q.copy()
    for _ in range(30):
        held = jax.device_get(_held(system, params, jnp.asarray(at), jnp.asarray(v), jnp.asarray(t)))
        step = _shortest(held.mass, held.rows, -held.value)
        at = at + step if system.space is None else np.asarray(system.space.retract(jnp.asarray(at), jnp.asarray(step)))
        if not np.max(np.abs(step), initial=0.0) > 1e-15 * np.max(np.abs(at), initial=1.0):
            break
    held = jax.device_get(_held(system, params, jnp.asarray(at), jnp.asarray(v), jnp.asarray(t)))
    if not np.max(np.abs(held.value), initial=0.0) <= 1e-9 * max(1.0, float(np.max(np.abs(held.rows), initial=0.0))):
        return np.full_like(q, np.nan), v
    return at, v + _shortest(held.mass, held.rows, -(held.rows @ v + held.drift))


def _shortest(mass: np.ndarray, rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The smallest x in the metric of the mass with rows·x = wanted."""
    n, m = mass.shape[0], len(rows)
    block = np.block([[mass, rows.T], [rows, np.zeros((m, m))]])
    return np.linalg.lstsq(block, np.concatenate([np.zeros(n), wanted]), rcond=None)[0][:n]


# -- gaps ----------------------------------------------------------------------------------------------------------------


def check_signs(system: System, params: Any, q: np.ndarray, t: float, names: tuple[str, ...], owner: np.ndarray) -> None:
    """A gap has to become negative somewhere beyond its zero, or nothing can ever be noticed to have passed it.

    From the start, Newton's method looks for a zero of each gap; where it finds one, the gap is evaluated around it, near and far,
    in many directions. Only a gap that is nowhere negative there is refused; one whose zero is not found passes.
    """
    if not system.contacts or system.transmits:
        return
    scale = max(1.0, float(np.max(np.abs(q))))
    dim = q.size if system.space is None else system.space.dim
    many = dim > MANY_COORDINATES
    random = np.random.default_rng(0).normal(size=(FEW_DIRECTIONS if many else DIRECTIONS, dim))
    points = max(0 if many else 2 * dim + 1, len(REACHES) * (len(random) + 2))  # one number, so that there is one compilation

    def gaps(moves: np.ndarray, face: int) -> np.ndarray:
        padded = np.zeros((points, dim))
        padded[: len(moves)] = moves
        return np.asarray(_gaps_at(system, params, q, t, padded))[: len(moves), face]

    def by_differences(x: np.ndarray, near: float, face: int) -> tuple[float, np.ndarray]:  # no derivative has to be compiled
        h = scale * min(max(0.1 * near / scale, 1e-9), 1e-6)  # not across the kink of abs(q[1] - 0.3), as long as numbers allow
        values = gaps(x + h * np.concatenate([np.zeros((1, dim)), np.eye(dim), -np.eye(dim)]), face)
        return float(values[0]), (values[1 : dim + 1] - values[dim + 1 :]) / (2 * h)

    def by_derivative(x: np.ndarray, near: float, face: int) -> tuple[float, np.ndarray]:
        value, slope = jax.device_get(_slope_at(system, params, q, t, x, np.int32(face)))
        return float(value), np.asarray(slope)

    for face in _chosen(owner):
        zero, slope = _zero(partial(by_derivative if many else by_differences, face=face), dim)
        directions = np.concatenate([zero[None], -slope[None], random])
        length = np.linalg.norm(directions, axis=1, keepdims=True)
        directions = directions / np.where(length > 0, length, 1.0)
        around = gaps(zero + (scale * REACHES[:, None, None] * directions).reshape(-1, dim), face)
        # 1e-12: where Newton's method, which halves the way to a double zero, ends; a near miss of more is no zero.
        if abs(gaps(zero[None], face)[0]) <= 1e-12 * scale and not np.any(around < 0):
            contact = int(owner[face])
            where = np.array2string(zero if system.space else q + zero, precision=6, separator=", ", suppress_small=True)
            raise InputError(
                f"the gap of contact {contact} ({names[contact]!r}) does not become negative beyond its zero at q = {where}: "
                "a body would pass unnoticed. A gap is positive outside, zero in contact and negative inside "
                "(q[1], and not abs(q[1]), maximum(q[1], 0) or q[1]**2)"
            )


def _chosen(owner: np.ndarray) -> np.ndarray:
    """Some faces of each contact."""
    faces = [np.flatnonzero(owner == i) for i in np.unique(owner)]
    few = [group[np.unique(np.linspace(0, len(group) - 1, FACES_EACH).astype(int))] for group in faces]
    return np.concatenate(few)[:MOST_FACES]


def _zero(look: Callable[[np.ndarray, float], tuple[float, np.ndarray]], dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Newton's method towards a zero: the nearest point on its way, and the slope there. At a kink it goes to and fro."""
    x, near, best = np.zeros(dim), np.inf, (np.zeros(dim), np.zeros(dim))
    for _ in range(NEWTON_STEPS):
        value, slope = look(x, near)
        if abs(value) < near:
            near, best = abs(value), (x, slope)
        square = float(slope @ slope)
        step = value / square * slope if square > 0 else np.zeros(dim)
        if not np.all(np.isfinite(step)) or np.max(np.abs(step)) <= 1e-15:
            break
        x = x - step
    return best


@keep_quick
def _gaps_at(system: System, params: Any, q, t, moves) -> jax.Array:
    """All faces at configurations around q."""
    return jax.vmap(lambda move: _faces_at(system, params, q, t, move))(jnp.asarray(moves))


@keep_quick
def _slope_at(system: System, params: Any, q, t, move, face) -> tuple[jax.Array, jax.Array]:
    """One face and its derivative, for systems with more coordinates than one would like to move one by one."""
    return jax.value_and_grad(lambda move: _faces_at(system, params, q, t, move)[face])(jnp.asarray(move))


def _faces_at(system: System, params: Any, q, t, move) -> jax.Array:
    at = q + move if system.space is None else system.space.retract(q, move)
    return jnp.concatenate([jnp.atleast_1d(jnp.asarray(c.gap(q=at, t=t, params=params), float)) for c in system.contacts])
