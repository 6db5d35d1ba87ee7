"""Contact problems in the space of the contacts: find impulses λ that the unilateral law and Coulomb's cone allow.

    frictionless:   0 ≤ λ ⊥ Gλ + s ≥ 0                                                                     (1)
    with friction:  0 ≤ λ_N ⊥ s⁺ − b ≥ 0,   λ_T = argmin over |λ_T| ≤ μλ_N of the sliding work u⁺·λ_T        (2)

s are the gap rates before, s⁺ = s + Gλ the ones after, u the sliding velocities, G = Z M⁻¹ Zᵀ (Delassus) with the rows Z of
normals and tangents. (1) projects the velocity onto the cone of admissible velocities in the kinetic metric; that projection
is unique even where G is singular and λ is not. The same problems in accelerations give contact forces instead of impulses.

- `solvers`: the two problems, solved inside compiled computations by Newton steps and sweeps in turn.
- `derivatives`: their solutions as differentiable functions of G, s, b and μ.
- `enumeration`: every combination of states tried, in NumPy. Slow and exact: what the solvers are tested against.
"""

from carom.numerics.complementarity.derivatives import friction_derivative, normal_derivative
from carom.numerics.complementarity.solvers import (
    Multipliers,
    friction_impulses,
    friction_violation,
    normal_impulses,
    normal_violation,
)

__all__ = [
    "Multipliers",
    "friction_derivative",
    "friction_impulses",
    "friction_violation",
    "normal_derivative",
    "normal_impulses",
    "normal_violation",
]
