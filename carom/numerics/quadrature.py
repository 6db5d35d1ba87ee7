"""Gauss nodes on [0, 1] and the integrals of the Lagrange basis on them."""

import numpy as np


def gauss(stages: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [0, 1], exact for polynomials of degree 2·stages − 1."""
    x, w = np.polynomial.legendre.leggauss(stages)
    return 0.5 * (x + 1.0), 0.5 * w


def integrals(nodes: np.ndarray) -> np.ndarray:
    """a[i, j] = ∫₀^{cᵢ} ℓⱼ, by Gauss quadrature on each [0, cᵢ]: exact, and free of the monomials' cancellation."""
    stages = len(nodes)
    x, w = gauss(stages)
    return np.array([c * (w @ lagrange_basis(nodes, c * x)) for c in nodes])


def lagrange_basis(nodes: np.ndarray, x: np.ndarray) -> np.ndarray:
    """ℓⱼ(xᵢ) as a matrix [i, j]."""
    factors = [
        np.prod([(x - nodes[k]) / (nodes[j] - nodes[k]) for k in range(len(nodes)) if k != j], axis=0, initial=1.0)
        * np.ones_like(x)
        for j in range(len(nodes))
    ]
    return np.stack(factors, axis=-1)
