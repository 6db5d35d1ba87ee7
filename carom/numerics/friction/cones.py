"""The Lorentz cone L = {x : x₀ ≥ |x_T|} in arrays: one row per contact, the first column is the normal direction.

With a single column L is the half-line x ≥ 0, so contacts without friction use the same functions. Of two points x, y inside
the cone, Nesterov and Todd's scaling Θ (one symmetric block per contact) makes the same point of both:

    λ = Θx = Θ⁻¹y,     Θ⁻² = β² (2 w wᵀ − J),    Θ² = β⁻² (2 Jw (Jw)ᵀ − J),    J = diag(1, −1, …, −1)          (1)
    β = (det x / det y)^¼,   w = (x̄ + Jȳ) / (2γ),   γ² = (1 + x̄·ȳ)/2,   x̄ = x / √det x,   det x = x₀² − |x_T|².
"""

from typing import NamedTuple

import numpy as np

ROUNDING = 1e-16

Blocks = np.ndarray  #   [contacts, d, d]
Rows = np.ndarray  #     [contacts, d]


class Scaling(NamedTuple):
    """Θ of (1), its inverse, their squares, and λ."""

    theta: Blocks
    inverse: Blocks
    theta_squared: Blocks
    inverse_squared: Blocks
    point: Rows


def apply(blocks: Blocks, x: Rows) -> Rows:
    return (blocks @ x[:, :, None])[:, :, 0]


def norm(x: Rows) -> np.ndarray:
    return np.sqrt(np.vecdot(x, x))


def unit(x: Rows) -> Rows:
    """Each row divided by its length; rows of zeros stay."""
    length = norm(x)
    return x / np.where(length > 0, length, 1.0)[:, None]


def project(p: Rows) -> Rows:
    """The nearest points of L."""
    height, length = p[:, 0], norm(p[:, 1:])
    middle = 0.5 * (height + length)
    direction = np.concatenate([np.ones((len(p), 1)), unit(p[:, 1:])], axis=1)
    return np.where((length <= height)[:, None], p, np.where((length <= -height)[:, None], 0.0, middle[:, None] * direction))


def project_derivative(p: Rows) -> Blocks:
    """An element of the generalised derivative of `project`: symmetric, with eigenvalues between 0 and 1."""
    k, d = p.shape
    height, n = p[:, 0], p[:, 1:]
    length = norm(n)
    safe = np.where(length > 0, length, 1.0)
    n, ratio = n / safe[:, None], (height / safe)[:, None, None]
    block = np.empty((k, d, d))
    block[:, 0, 0] = 0.5
    block[:, 0, 1:] = block[:, 1:, 0] = 0.5 * n
    block[:, 1:, 1:] = 0.5 * (1 + ratio) * np.eye(d - 1) - (0.5 * ratio) * n[:, :, None] * n[:, None, :]
    inside = length <= height
    if inside.any():
        block[inside] = np.eye(d)
    polar = (length <= -height) & ~inside
    if polar.any():
        block[polar] = 0.0
    return block


def determinant(x: Rows) -> np.ndarray:
    """Of points inside L; rounding near its boundary does not make it negative."""
    length = norm(x[:, 1:])
    return np.maximum(x[:, 0] - length, ROUNDING * x[:, 0]) * (x[:, 0] + length)


def scale(x: Rows, y: Rows) -> Scaling:
    """Nesterov and Todd's scaling (1) of points inside the cone."""
    d = x.shape[1]
    mirror = np.r_[1.0, -np.ones(d - 1)]
    J, e = np.diag(mirror), np.eye(d)[0]
    det_x, det_y = determinant(x), determinant(y)
    x_bar, y_bar = x / np.sqrt(det_x)[:, None], y / np.sqrt(det_y)[:, None]
    gamma = np.sqrt(0.5 * (1 + np.sum(x_bar * y_bar, axis=1)))
    w = (x_bar + y_bar * mirror) / (2 * gamma)[:, None]
    beta = (det_x / det_y)[:, None, None] ** 0.25
    v = (w + e) / np.sqrt(2 * (w[:, :1] + 1))
    outer = lambda a: 2 * a[:, :, None] * a[:, None, :] - J  # noqa: E731
    theta, inverse = outer(v * mirror) / beta, outer(v) * beta
    return Scaling(theta, inverse, outer(w * mirror) / beta**2, outer(w) * beta**2, apply(theta, x))


def product(a: Rows, b: Rows) -> Rows:
    """a ∘ b = (a·b, a₀b_T + b₀a_T)."""
    return np.concatenate([np.sum(a * b, axis=1, keepdims=True), a[:, :1] * b[:, 1:] + b[:, :1] * a[:, 1:]], axis=1)


def divide(a: Rows, b: Rows) -> Rows:
    """The x with a ∘ x = b."""
    head = (a[:, 0] * b[:, 0] - np.sum(a[:, 1:] * b[:, 1:], axis=1)) / determinant(a)
    return np.concatenate([head[:, None], (b[:, 1:] - head[:, None] * a[:, 1:]) / a[:, :1]], axis=1)


def longest_step(x: Rows, dx: Rows) -> float:
    """The largest α with x + α dx in the cone (∞ if there is none), for x inside."""
    if len(x) == 0:
        return np.inf
    root = np.sqrt(determinant(x))
    bar = x / root[:, None]
    inner = bar[:, 0] * dx[:, 0] - np.sum(bar[:, 1:] * dx[:, 1:], axis=1)
    tail = dx[:, 1:] - ((inner + dx[:, 0]) / (bar[:, 0] + 1))[:, None] * bar[:, 1:]
    shrink = np.max((norm(tail) - inner) / root)
    return 1 / shrink if shrink > 0 else np.inf
