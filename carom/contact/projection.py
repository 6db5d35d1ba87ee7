"""Closest points of an admissible set, in the kinetic metric: §5 of [fetecau2003].

(90) of the paper says that q̃ is the closest point of a convex obstacle to the point (1 − α)q_{i−1} + αq_i on the chord of an
impact, in the metric of the mass matrix. The same projection, onto the admissible set, says where a bad configuration should be.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from carom.numerics.complementarity import normal_impulses
from carom.numerics.linalg import matmul, matvec, solve


def closest_point(
    gaps: Callable[[Array], Array], mass: Float[Array, "n n"], q: Float[Array, " n"], iterations: int = 50
) -> Float[Array, " n"]:
    """The q̃ with all gaps ≥ 0 that minimises (q̃ − q)ᵀ M (q̃ − q), for smooth gaps.

    Sequential projection: linearise the gaps at the current point, project the original point onto the linearised set

        q̃ ← q + M⁻¹Nᵀλ,     0 ≤ λ ⊥ φ(q̃) + N (q + M⁻¹Nᵀλ − q̃) ≥ 0                                                (1)

    and repeat. Exact in one pass for half-spaces; Gauss–Newton convergence on curved boundaries.
    """

    def again(_, point):
        normals = jax.jacfwd(gaps)(point)
        response = solve(mass, normals.T)
        reach = gaps(point) + matvec(normals, q - point)
        lam = normal_impulses(matmul(normals, response), reach, jnp.ones(reach.shape, bool)).value
        return q + matvec(response, lam)

    return jax.lax.fori_loop(0, iterations, again, q)
