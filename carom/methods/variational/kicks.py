"""The trapezoidal rule for lumped masses: kick, drift, kick, and how long its steps may be.

    μ  = p + ½ h F(q)                                                                                         (1)
    (q₁, μ₁) = the free motion of the masses from (q, μ) over h, on the space's own terms                         (2)
    p₁ = μ₁ + ½ h F(q₁)                                                                                       (3)
    E  = K + ½ (V(q) + V(q₁)),     K the kinetic energy of (2)                                                   (4)

On ℝⁿ (2) is q₁ = q + h μ/m, μ₁ = μ, and (1)–(4) is the rule of (4.3), (4.5)–(4.8) in [demoures2017]. On a group it is the
discrete Lagrangian (5.9) there; `carom.spaces` has the drift.

Small vibrations of frequency ω are multiplied by a matrix A(ωh) each step. They stay bounded while |tr A| ≤ 2; the first ωh
beyond is the *reach* of a rule: 2 for the trapezoidal rule, so that dt ≤ 2/ω, the Courant limit.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from carom.methods.variational.rules import Composition, Flow, FlowMap, Trapezoidal
from carom.system.lumped import LumpedMechanics
from carom.xla.kernel import once, sealed


def kick_drift_kick(mechanics: LumpedMechanics, quick: bool) -> FlowMap:
    """(1)–(4). `quick` leaves the energies out."""

    def flow(q, p, t, h):
        mu = once(p + 0.5 * h * mechanics.force(q))  # (1)
        q1, mu1, kinetic, converged = once(mechanics.space.drift(q, mu, mechanics.masses, h))  # (2)
        p1 = mu1 + 0.5 * h * mechanics.force(q1)  # (3)
        energy = jnp.zeros_like(h) if quick else kinetic + 0.5 * (mechanics.potential(q) + mechanics.potential(q1))  # (4)
        return Flow(q1, p1, energy, energy, converged & mechanics.admissible(q1))

    return FlowMap(sealed(flow), implicit=False)


def reach(rule: Any) -> float:
    """The largest ωh up to which small vibrations stay bounded; infinite where none is known."""
    if isinstance(rule, Trapezoidal):
        return 2.0
    if not (isinstance(rule, Composition) and isinstance(rule.base, Trapezoidal)):
        return float("inf")

    def excess(x: float) -> float:
        product = np.eye(2)
        for gamma in rule.coefficients:
            y = gamma * x
            kick = np.array([[1.0, 0.0], [-0.5 * y, 1.0]])
            product = kick @ np.array([[1.0, y], [0.0, 1.0]]) @ kick @ product
        return abs(np.trace(product)) - 2.0

    grid = np.linspace(1e-3, 20.0, 20_000)
    low, high = 0.0, next((x for x in grid if excess(x) > 1e-9), float("inf"))  # 1e-9: |tr A| touches 2 at inner points
    low = high - 1e-3
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if excess(middle) > 1e-9 else (middle, high)
    return low
