"""The functions of `cones` for compiled programs: the Lorentz cone, one row per contact, written out so that it fuses."""

import jax.numpy as jnp
import numpy as np


def norm(x):
    return jnp.sqrt(jnp.sum(x * x))


def lengths(x):
    square = jnp.sum(x * x, axis=1)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def unit(x):
    length = lengths(x)
    return x / jnp.where(length > 0, length, 1.0)[:, None]


def raised(x, amount):
    """x with so much more in its first column."""
    return x + amount * jnp.eye(x.shape[1])[0] if jnp.ndim(amount) == 0 else x + amount[:, None] * jnp.eye(x.shape[1])[0]


def top_row(t):
    """I + e₀tᵀ, in blocks."""
    k, m = t.shape
    row = jnp.concatenate([jnp.zeros((k, 1)), t], axis=1)
    return jnp.eye(1 + m) + jnp.eye(1 + m)[0][:, None] * row[:, None, :]


def times(a, b):
    """Products of blocks, written out."""
    return sum(a[:, :, j, None] * b[:, j, None, :] for j in range(a.shape[2]))


def apply(a, x):
    return sum(a[:, :, j] * x[:, j, None] for j in range(a.shape[2]))


def block_diagonal(blocks):
    k, d, _ = blocks.shape
    return (jnp.eye(k)[:, None, :, None] * blocks[:, :, None, :]).reshape(k * d, k * d)


def project(p):
    height, length = p[:, 0], lengths(p[:, 1:])
    edge = 0.5 * (height + length)[:, None] * jnp.concatenate([jnp.ones((p.shape[0], 1)), unit(p[:, 1:])], axis=1)
    return jnp.where((length <= height)[:, None], p, jnp.where((length <= -height)[:, None], 0.0, edge))


def projection_slope(p):
    k, d = p.shape
    height, length = p[:, 0], lengths(p[:, 1:])
    n = unit(p[:, 1:])
    ratio = (height / jnp.where(length > 0, length, 1.0))[:, None, None]
    tail = (1 + ratio) * jnp.eye(d - 1) - ratio * n[:, :, None] * n[:, None, :]
    top = jnp.concatenate([jnp.ones((k, 1)), n], axis=1)[:, None, :]
    edge = 0.5 * jnp.concatenate([top, jnp.concatenate([n[:, :, None], tail], axis=2)], axis=1)
    inside, polar = (length <= height)[:, None, None], (length <= -height)[:, None, None]
    return jnp.where(inside, jnp.eye(d), jnp.where(polar, 0.0, edge))


def determinant(x):
    length = lengths(x[:, 1:])
    return jnp.maximum(x[:, 0] - length, 1e-16 * x[:, 0]) * (x[:, 0] + length)


def scaling(x, y):
    """Θ, Θ⁻¹ and Θ² of (1)."""
    d = x.shape[1]
    mirror = jnp.asarray(np.r_[1.0, -np.ones(d - 1)])
    det_x, det_y = determinant(x), determinant(y)
    x_bar, y_bar = x / jnp.sqrt(det_x)[:, None], y / jnp.sqrt(det_y)[:, None]
    gamma = jnp.sqrt(0.5 * (1 + jnp.sum(x_bar * y_bar, axis=1)))
    w = (x_bar + y_bar * mirror) / (2 * gamma)[:, None]
    beta = jnp.sqrt(jnp.sqrt(det_x / det_y))[:, None, None]
    v = raised(w, 1.0) / jnp.sqrt(2 * (w[:, :1] + 1))
    outer = lambda a: 2 * a[:, :, None] * a[:, None, :] - jnp.diag(mirror)  # noqa: E731
    return outer(v * mirror) / beta, outer(v) * beta, outer(w * mirror) / beta**2


def product(a, b):
    return jnp.concatenate([jnp.sum(a * b, axis=1, keepdims=True), a[:, :1] * b[:, 1:] + b[:, :1] * a[:, 1:]], axis=1)


def divide(a, b):
    head = ((a[:, 0] * b[:, 0] - jnp.sum(a[:, 1:] * b[:, 1:], axis=1)) / determinant(a))[:, None]
    return jnp.concatenate([head, (b[:, 1:] - head * a[:, 1:]) / a[:, :1]], axis=1)


def longest_step(x, dx):
    root = jnp.sqrt(determinant(x))
    bar = x / root[:, None]
    inner = bar[:, 0] * dx[:, 0] - jnp.sum(bar[:, 1:] * dx[:, 1:], axis=1)
    tail = dx[:, 1:] - ((inner + dx[:, 0]) / (bar[:, 0] + 1))[:, None] * bar[:, 1:]
    shrink = jnp.max((lengths(tail) - inner) / root)
    return jnp.where(shrink > 0, 1 / jnp.where(shrink > 0, shrink, 1.0), jnp.inf)
