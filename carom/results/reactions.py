"""What holds a system to its constraints: the multipliers of joints and velocity constraints along a run, and at its impacts.

    ṗ = ∂L/∂q + f + A(q)ᵀλ,          A(q) v + ∂g/∂t = 0                                                                    (1)
    p⁺ − p⁻ = Σ Λᵢ ∇φᵢ + A(q̃)ᵀλ̃       at an impact: Λ of the contacts, λ̃ of the constraints                                     (2)

(1) is the implicit equation of motion (1) of [rodriguez2024], ṗ − ∂L/∂q ∈ Δ°, with its multipliers; (2) its jump, (10) there.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom.errors import InputError


@dataclass(frozen=True)
class Reactions:
    """λ, one column per row of A: those of the joints, then those of the velocity constraints."""

    t: np.ndarray  #         [N + 1]
    forces: np.ndarray  #    [N + 1, m]  λ of (1) on the grid
    impact_t: np.ndarray  #  [k]
    impulses: np.ndarray  #  [k, m]      λ̃ of (2)
    residual: float  #       what (2) leaves over, relative to the largest momentum: friction, if there is any


def reactions(solution: Any) -> Reactions:
    """The multipliers of the constraints of a run."""
    system, hits = solution.system, solution.impacts
    if not system.needs & {"constraints", "joints"}:
        raise InputError("the system has neither joints nor velocity constraints: nothing reacts")
    if "rotations" in system.needs:
        raise InputError(
            "reactions are computed on vector spaces; on rotations action_gradient(run).reactions has impulses per step"
        )
    columns = [jnp.asarray(x) for x in (solution.t, solution.q, solution.p)]
    forces = np.asarray(_forces(system, solution.params, *columns))
    if not len(hits):
        return Reactions(solution.t, forces, hits.t, np.zeros((0, forces.shape[1])), 0.0)
    A, normals = (np.asarray(x) for x in _rows(system, solution.params, jnp.asarray(hits.t), jnp.asarray(hits.q)))
    struck = normals * (hits.impulses > 0)[:, :, None]
    basis = np.concatenate([struck, A], axis=1).transpose(0, 2, 1)
    jump = hits.p_after - hits.p_before
    found = np.einsum("kjn,kn->kj", np.linalg.pinv(basis), jump)
    rest = jump - np.einsum("knj,kj->kn", basis, found)
    size = max(float(np.abs(solution.p).max()), 1e-300)
    return Reactions(solution.t, forces, hits.t, found[:, normals.shape[1] :], float(np.abs(rest).max()) / size)


@eqx.filter_jit
def _forces(system, params, t, q, p):
    mechanics = system.bind(params, q.shape[1])

    def at(q, p, t):
        v = mechanics.velocity(q, p, t)
        push = mechanics.node(q, v, t).push
        # The part of p in Δ° stays zero: λ takes away what ∂L/∂q and the motion would add to it.
        return -jax.jvp(lambda q, p, t: mechanics.legendre(q, p, t)[1], (q, p, t), (v, push, jnp.ones_like(t)))[1]

    return jax.vmap(at)(q, p, t)


@eqx.filter_jit
def _rows(system, params, t, q):
    mechanics = system.bind(params, q.shape[1])
    return jax.vmap(lambda q, t: (mechanics.constraints(q, t), mechanics.contacts.normals(q, t)))(q, t)
