"""A first look at the start of a run: everything worth knowing of it, computed in one small program."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from carom.closures.per_object import per_object
from carom.kept.keep import keep_quick
from carom.numerics.linalg import SMALL
from carom.running.admissible import Here, look
from carom.system.system import System


class Probe(NamedTuple):
    lagrangian: jax.Array
    here: Here
    other_mass: jax.Array  # at rest
    force: jax.Array
    gaps: jax.Array
    rounding: jax.Array
    restitution: jax.Array
    friction: jax.Array
    degenerate: Any  # ∂²H/∂p² has no inverse
    normal_slip: jax.Array  # of each face: whether a direction of its slip is that of its gap


@keep_quick
def start_of(system: System, params: Any, q, v_or_p, t, from_momentum: bool):
    return _beginning(system.bind(params, q.shape[0]), q, v_or_p, t, from_momentum)


def _beginning(m: Any, q, v_or_p, t, from_momentum: bool):
    """Momentum and velocity at the start; massless velocities follow from the rest."""
    p = m.remove_reaction(q, v_or_p if from_momentum else m.momentum(q, v_or_p, t), t)
    if from_momentum or m.system.massless is not None:
        return p, m.velocity(q, p, t)
    return p, v_or_p


@keep_quick
def probe_of(system: System, params: Any, q, v, t, v_or_p, from_momentum: bool) -> tuple[Probe, Any]:
    """Everything worth knowing about the start, in one small computation."""
    return _looked(system, params, q, v, t, v_or_p, from_momentum)


@per_object
def is_plain(system: System) -> bool:
    """Whether `is_good` asks all that there is to check."""
    parts = system.hamiltonian, system.constraints, system.massless
    return all(x is None for x in parts) and not system.joints and not system.needs & {"laws of speed", "rolling"}


@keep_quick
def is_good(system: System, params: Any, q, v, t, v_or_p, from_momentum: bool) -> tuple[Any, Any, Any]:
    """Momentum and velocity at the start, and whether all is well there beyond doubt, in one traced yes: then nothing else has to
    be fetched or looked at. Where it is no, each check decides by itself, and says in words what is wrong."""
    probe, begin = _looked(system, params, q, v, t, v_or_p, from_momentum)
    mass = probe.here.mass
    size = jnp.max(jnp.abs(mass))
    quadratic = jnp.max(jnp.abs(mass - probe.other_mass)) <= 1e-8 * size
    finite = [jnp.isfinite(x) for x in (probe.lagrangian, probe.force, mass, probe.restitution, probe.friction)]
    lawful = (probe.restitution >= 0) & (probe.restitution <= 1), probe.friction >= 0
    lawful = (*lawful, ~probe.normal_slip)
    apart = -probe.gaps - probe.rounding <= 1e-14
    positive = _least_eigenvalue(mass) > 1e-9 * size
    return *begin, jnp.stack([jnp.all(x) for x in (positive, quadratic, *finite, *lawful, apart)]).all()


def _least_eigenvalue(mass: jax.Array) -> jax.Array:
    """A lower bound of it: det M = λ₁ Π λᵢ, and the mean of the others is at most tr M / (n − 1). Negative where a pivot of the
    elimination is; of large matrices the bound of Gershgorin."""
    n = mass.shape[0]
    if n > SMALL:
        return jnp.min(2 * jnp.diagonal(mass) - jnp.sum(jnp.abs(mass), axis=1))
    share = jnp.trace(mass) / max(n - 1, 1)

    def eliminate(i, so_far):
        rest, bound = so_far
        pivot = rest[i, i]
        bound = jnp.where((bound > 0) & (pivot > 0), bound * pivot / jnp.where(i > 0, share, 1.0), -1.0)
        return rest - rest[:, i, None] * rest[None, i] / pivot, bound

    return jax.lax.fori_loop(0, n, eliminate, (mass, jnp.ones(())))[1]


def _looked(system: System, params: Any, q, v, t, v_or_p, from_momentum: bool) -> tuple[Probe, Any]:
    m = system.bind(params, q.shape[0])
    if m.contacts.num_contacts:
        gaps, width = m.contacts.gaps(q, t), m.gap_rounding(q, v, t, 0.0)
        coefficients = m.contacts.coefficients("restitution"), m.contacts.coefficients("friction")
    else:
        gaps = width = jnp.zeros(0)
        coefficients = gaps, gaps
    here = look(m, q, v, t)
    probe = Probe(
        m.lagrangian(q, v, t),
        here,
        m.mass(q, jnp.zeros_like(v), t),
        m.functions.force(q, v, t),
        gaps,
        width,
        *coefficients,
        _is_degenerate(m, q, t),
        _slips_along_normals(m, here.normals, q, t),
    )
    return probe, _beginning(m, q, v_or_p, t, from_momentum)


def _slips_along_normals(m: Any, normals, q, t) -> jax.Array:
    """Friction acts along the surface: a slip that is the rate of the gap itself is no sliding, whatever the units are."""
    if "friction" not in m.system.needs or "nodes" in m.system.needs:
        return jnp.zeros(0, bool)
    rows, normals = m.contacts.tangents(q, jnp.zeros(m.dim), t)[0], normals[:, None]
    along, size = jnp.sum(rows * normals, axis=2, keepdims=True), jnp.sum(normals**2, axis=2, keepdims=True)
    rest = rows - along * normals / jnp.where(size > 0, size, 1.0)
    return jnp.any((along[..., 0] != 0) & (jnp.sum(rest**2, axis=2) <= 1e-20 * jnp.sum(rows**2, axis=2)), axis=1)


def _is_degenerate(m: Any, q, t) -> Any:
    if m.system.hamiltonian is None:
        return jnp.asarray(False)
    values = jnp.abs(jnp.linalg.eigvalsh(m.second(q, jnp.zeros(m.dim), t)))
    return jnp.min(values) <= 1e-12 * jnp.max(values)


@keep_quick
def rows_closed_at(system: System, params: Any, q, t) -> jax.Array:
    """How many rows the contacts have that are closed at the start, or nearly."""
    contacts = system.bind(params, q.shape[0]).contacts
    closed = jnp.sum(contacts.gaps(q, t) <= 1e-9 * (1.0 + jnp.max(jnp.abs(q))))
    return closed * (1 + contacts.slip_dim)
