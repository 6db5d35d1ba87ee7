"""Gauss and Clenshaw–Curtis nodes on [0, 1], and the integrals of the Lagrange basis on them."""

import numpy as np


def gauss(stages: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [0, 1], exact for polynomials of degree 2·stages − 1."""
    x, w = np.polynomial.legendre.leggauss(stages)
    return 0.5 * (x + 1.0), 0.5 * w


def clenshaw_curtis(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """degree + 1 nodes on [0, 1], both ends among them, and weights: exact for that degree, and for one more if it is even."""
    nodes = np.sin(0.5 * np.pi * np.arange(degree + 1) / degree) ** 2
    return nodes, integrals(nodes, np.ones(1))[0]


def integrals(nodes: np.ndarray, ends: np.ndarray | None = None) -> np.ndarray:
    """a[i, j] = ∫₀^{cᵢ} ℓⱼ up to each of the ends, by default the nodes; by Gauss quadrature on each [0, cᵢ]: exact, and free of
    the monomials' cancellation."""
    stages = len(nodes)
    x, w = gauss(stages)
    ends = nodes if ends is None else ends
    values = lagrange_basis(nodes, (ends[:, None] * x).reshape(-1)).reshape(len(ends), stages, len(nodes))
    return ends[:, None] * np.einsum("s,asj->aj", w, values)


def lagrange_basis(nodes: np.ndarray, x: np.ndarray) -> np.ndarray:
    """ℓⱼ(xᵢ) as a matrix [i, j]."""
    factors = [
        np.prod([(x - nodes[k]) / (nodes[j] - nodes[k]) for k in range(len(nodes)) if k != j], axis=0, initial=1.0)
        * np.ones_like(x)
        for j in range(len(nodes))
    ]
    return np.stack(factors, axis=-1)
