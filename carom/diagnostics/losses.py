"""The balance of energy at impacts, with what the law of contact takes away.

(39) of [fetecau2003] is E⁺ − E⁻ = f_t: the energy changes by the work of the contact. For a discrete flow the energies are those of
the legs before and after the impact, −D₃L_d of (55), and

    E_d⁺ − E_d⁻ = W + R,        W = (p⁺ − p⁻) · (v⁺ + v⁻) / 2                                                             (1)

W is what the impulse does to the kinetic energy, from momenta and velocities alone: λ (s⁺ + s⁻)/2 = −(1 − e²) s⁻² / 2c for one
contact without friction (c = ∇φ·M⁻¹∇φ), and less with it. R is what the rule adds, of its order. An elastic impact with its
balance has E_d⁺ = E_d⁻ to rounding, by the choice of its impulse; W itself is then −R.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom.calls import public
from carom.diagnostics.action import points_of
from carom.errors import InputError
from carom.results.solution import Solution


@dataclass(frozen=True)
class ImpactEnergies:
    """One row per impact."""

    t: np.ndarray
    before: np.ndarray  #  E_d⁻, of the leg that ends there
    after: np.ndarray  #   E_d⁺, of the leg that starts there
    normal: np.ndarray  #  W of the normal impulses: Σ λ (s⁺ + s⁻) / 2
    friction: np.ndarray  # W of all else: friction, joints and constraints

    @property
    def work(self) -> np.ndarray:
        """W of (1)."""
        return self.normal + self.friction

    @property
    def residual(self) -> np.ndarray:
        """R of (1): what is neither kept nor taken by the law."""
        return self.after - self.before - self.work


@public
def impact_energies(solution: Solution) -> ImpactEnergies:
    """(1) at all impacts of a run with `VariationalCollision` on a vector space, for a kinetic energy that is quadratic in v."""
    if "discrete action" not in solution.method.offers:
        raise InputError("discrete energies belong to VariationalCollision; this run has another method")
    if len(solution.t) != solution.num_steps + 1:
        raise InputError("the legs between impacts need every state of the grid; run again with stride=1")
    if solution.q.shape[1] != solution.p.shape[1] or solution.system.controller is not None:
        raise InputError("the balance of energy at impacts is computed on vector spaces, without a controller")
    t, q, p, rows = points_of(solution)
    ends = _ends(solution.method, solution.system, solution.params, *(jnp.asarray(x[:-1]) for x in (t, q, p)), np.diff(t))
    starts, ends = (np.asarray(x) for x in ends)
    struck, hits = rows >= 0, solution.impacts
    order = rows[struck]
    momenta = hits.q[order], hits.p_before[order], hits.p_after[order], hits.t[order], hits.impulses[order]
    normal, work = _works(solution.system, solution.params, *map(jnp.asarray, momenta))
    return ImpactEnergies(
        hits.t[order], ends[:-1][struck], starts[1:][struck], np.asarray(normal), np.asarray(work) - np.asarray(normal)
    )


@eqx.filter_jit
def _ends(method, system, params, t, q, p, lengths):
    """The discrete energies at both ends of each leg."""
    flow = method.flow(method.bind(system, params, q.shape[1]))
    return jax.vmap(lambda t, q, p, s: (out := flow(q, p, t, s)) and (out.energy_start, out.energy_end))(t, q, p, lengths)


@eqx.filter_jit
def _works(system, params, q, before, after, t, impulses):
    m = system.bind(params, q.shape[1])

    def one(q, before, after, t, impulses):
        v = m.velocity(q, before, t) + m.velocity(q, after, t)
        rates = m.contacts.normals(q, t) @ v
        return 0.5 * jnp.sum(impulses * rates), 0.5 * (after - before) @ v

    return jax.vmap(one)(q, before, after, t, impulses)
