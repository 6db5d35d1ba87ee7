"""The trapezoidal rule and its compositions where L(q, v) = K(v) − V(q): kick, drift, kick.

Stage i of a composition has the length hᵢ = γᵢh:

    μᵢ  = pᵢ + ½ hᵢ F(qᵢ)                                                                                     (1)
    (qᵢ₊₁, μᵢ′) = the free motion from (qᵢ, μᵢ) over hᵢ, on the space's own terms                                (2)
    pᵢ₊₁ = μᵢ′ + ½ hᵢ F(qᵢ₊₁)                                                                                 (3)
    E  = Σ γᵢ (Kᵢ + ½ (V(qᵢ) + V(qᵢ₊₁))),     Kᵢ the kinetic energy of (2)                                       (4)

On ℝⁿ (2) is q₁ = q + h M⁻¹μ, μ′ = μ, and this is (1)–(4) of `rules` with W = M⁻¹μ; for masses at nodes it is the rule of (4.3),
(4.5)–(4.8) in [demoures2017], and on a group the discrete Lagrangian (5.9) there; `carom.spaces` has the drift. F(qᵢ₊₁) ends one
stage and begins the next: it is computed once.
"""

import jax
import jax.numpy as jnp
import numpy as np

from carom.methods.variational.flow import Flow, FlowMap
from carom.system.mechanics import Mechanics
from carom.system.splitting import Splitting
from carom.xla.kernel import once, sealed
from carom.xla.structure import operations

FEW = 4  # coordinates
MANY = 4096  # coordinates
SHORT = 150  # operations of a stage: up to here the stages are written out, which is faster; beyond, compiling takes too long


def kicked_flow(mechanics: Mechanics, coefficients: np.ndarray, without_energy: bool) -> FlowMap | None:
    """(1)–(4), where the system is so. `without_energy` leaves (4) out."""
    if "splitting" not in mechanics.flows:
        mechanics.flows["splitting"] = mechanics.splitting()
    split = mechanics.flows["splitting"]
    if split is None:
        return None
    long = mechanics.dim >= MANY
    stage, start = _stages(split, without_energy, long, long and len(coefficients) == 1)
    short = without_energy and len(coefficients) <= 5 and _is_short(mechanics, stage, start)
    if split.inverse_mass is not None and short and mechanics.dim <= FEW:
        return FlowMap(sealed(_by_entries(split, coefficients)), implicit=False, written_out=True)

    def flow(q, p, t, h):
        carry = start(q, p, h)
        if len(coefficients) == 1 or short:
            for gamma in coefficients:
                carry = stage(carry, float(gamma), h)
        else:
            carry = jax.lax.scan(lambda carry, gamma: (stage(carry, gamma, h), None), carry, jnp.asarray(coefficients))[0]
        q, p, _, _, energy, converged = carry
        return Flow(q, p, energy, energy, converged & split.admissible(q))

    return FlowMap(sealed(flow), implicit=False)


def _is_short(mechanics: Mechanics, stage, start) -> bool:
    one, example = jnp.ones(()), (jnp.zeros(mechanics.size), jnp.zeros(mechanics.dim))
    if "operations of a stage" not in mechanics.flows:
        mechanics.flows["operations of a stage"] = operations(lambda q, p: stage(start(q, p, one), 1.0, one), *example)
    return mechanics.flows["operations of a stage"] <= SHORT


def _stages(split: Splitting, without_energy: bool, long: bool, alone: bool):
    """One stage, as (carry, coefficient, h) ↦ carry, and what the first one is handed. A step of `long` systems takes as long as
    going through their nodes some thirty times: there only what is wanted leaves a sealed call, and where a stage is `alone`, its
    last force is wanted once."""

    def stage(carry, coefficient, h):
        q, p, force, potential, energy, converged = carry
        mu = once(p + 0.5 * coefficient * h * force)  # (1)
        q, mu, kinetic, good = split.drift(q, mu, coefficient * h)  # (2)
        q, mu, kinetic, good = once((q, mu, () if long and without_energy else kinetic, good))
        force = split.force(q) if alone else once(split.force(q))
        p = mu + 0.5 * coefficient * h * force  # (3)
        if not without_energy:  # (4)
            before, potential = potential, once(split.potential(q))
            energy = energy + coefficient * (kinetic + 0.5 * (before + potential))
        return q, p, force, potential, energy, converged & good

    def start(q, p, h):
        zero = jnp.zeros_like(h)
        potential = zero if without_energy else split.potential(q)
        return q, p, split.force(q), potential, zero, jnp.asarray(True)

    return stage, start


def _by_entries(split: Splitting, coefficients: np.ndarray):
    """(1)–(3) for a handful of coordinates, number by number, with the two kicks at an inner point as one."""
    assert split.inverse_mass is not None
    inverse_mass, at_rest = split.inverse_mass, split.at_rest
    kicks = 0.5 * (np.append(coefficients, 0.0) + np.insert(coefficients, 0, 0.0))

    def flow(q, p, t, h):
        n = q.shape[0]
        B = [[inverse_mass[i, j] for j in range(n)] for i in range(n)]
        q, p = [q[i] for i in range(n)], [p[i] - at_rest[i] for i in range(n)]
        for k, kick in enumerate(kicks):
            force = once(split.force(jnp.stack(q)))
            p = [p[i] + (kick * h) * force[i] for i in range(n)]
            if k < len(coefficients):
                length = coefficients[k] * h
                # What a step waits for is one number after the other. Each column is added by itself, a coordinate's own last: its
                # momentum is the last to be known, and one operation leads from there to the next force.
                for i in range(n):
                    for j in sorted(range(n), key=lambda j: j == i):
                        q[i] = q[i] + (length * B[i][j]) * p[j]
        q, zero = jnp.stack(q), jnp.zeros_like(h)
        return Flow(q, jnp.stack(p) + at_rest, zero, zero, jnp.asarray(True))

    return flow
