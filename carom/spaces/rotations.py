"""Rotations and rigid motions: unit quaternions (w, x, y, z), their retractions and what these do to momenta.

A vector or a quaternion is a *tuple of components* here, each an array over all nodes: nothing is sliced and stacked between one
product and the next, which costs more than the arithmetic. `split` and `join` go from the last axis of an array to a tuple and
back.

A *retraction* τ takes a small body displacement ω to a rotation, τ(0) = 1; two are in use,

    Cayley        τ(ω) = (1, ½ω) / √(1 + ¼|ω|²)                    = (I − ½ω̂)⁻¹ (I + ½ω̂) as a matrix               (1)
    exponential   τ(ω) = (cos ½|ω|, sin ½|ω| ω/|ω|)                                                            (2)

With the right-trivialised derivative of τ⁻¹, dτ⁻¹_ω = I − ½ω̂ + …, momenta belong to velocities by its transpose,

    Cayley        (dτ⁻¹_ω)ᵀ μ = μ + ½ ω × μ + ¼ ω (ω·μ)                                                         (3)
    exponential   (dτ⁻¹_ω)ᵀ μ = μ + ½ ω × μ + c(|ω|) ω × (ω × μ),        c(θ) = (1 − ½θ cot ½θ)/θ²                 (4)

On rigid motions (Λ, r) with ξ = (ω, γ) the Cayley map is τ(ξ) = (τ(ω), (I − ½ω̂)⁻¹γ), and

    (dτ⁻¹_ξ)ᵀ (a, b) = (μ, ν),      ν = (I + ½ω̂) b,      μ = (I + ½ω̂ + ¼ωωᵀ) a + ½ γ × ν                            (5)
    Ad*_(Λ,r) (μ, ν) = (Λᵀ(μ + ν × r), Λᵀν)                                                                     (6)

(1), (5), (6) are (5.10), (5.11) and Appendix A of [demoures2017] (whose (5.11) prints Λᵀγ for Λᵀν).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from carom.numerics.linalg import inverse
from carom.xla.kernel import once

Vector = tuple[Array, Array, Array]
Quaternion = tuple[Array, Array, Array, Array]


def split(x: Any) -> tuple[Any, ...]:
    return tuple(x[..., i] for i in range(x.shape[-1]))


def join(*parts: tuple[Any, ...]) -> Float[Array, "*nodes k"]:
    return jnp.stack([component for part in parts for component in part], axis=-1)


# -- vectors -------------------------------------------------------------------------------------------------------------


def cross(a: Vector, b: Vector) -> Vector:
    (a0, a1, a2), (b0, b1, b2) = a, b
    return a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0


def dot(a: Any, b: Any) -> Array:
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total = total + x * y
    return total


def scale(factor: Any, a: Vector) -> Vector:
    return factor * a[0], factor * a[1], factor * a[2]


def add(*terms: Vector) -> Vector:
    first, *rest = terms
    for term in rest:
        first = first[0] + term[0], first[1] + term[1], first[2] + term[2]
    return first


def times(a: Vector, b: Vector) -> Vector:
    """Component by component: a diagonal matrix."""
    return a[0] * b[0], a[1] * b[1], a[2] * b[2]


# -- quaternions ---------------------------------------------------------------------------------------------------------


def multiply(a: Quaternion, b: Quaternion) -> Quaternion:
    """The rotation b, then a."""
    (a0, a1, a2, a3), (b0, b1, b2, b3) = a, b
    return (
        a0 * b0 - a1 * b1 - a2 * b2 - a3 * b3,
        a0 * b1 + a1 * b0 + a2 * b3 - a3 * b2,
        a0 * b2 - a1 * b3 + a2 * b0 + a3 * b1,
        a0 * b3 + a1 * b2 - a2 * b1 + a3 * b0,
    )


def conjugate(a: Quaternion) -> Quaternion:
    """The inverse rotation."""
    return a[0], -a[1], -a[2], -a[3]


def rotate(a: Quaternion, x: Vector) -> Vector:
    """Λ x."""
    twist = scale(2.0, cross(a[1:], x))
    return add(x, scale(a[0], twist), cross(a[1:], twist))


def unrotate(a: Quaternion, x: Vector) -> Vector:
    """Λᵀ x."""
    return rotate(conjugate(a), x)


def matrix(a: Float[Array, "*nodes 4"]) -> Float[Array, "*nodes 3 3"]:
    """Λ. Its columns are orthonormal to rounding as long as the quaternion is a unit to rounding."""
    one, zero = jnp.ones_like(a[..., 0]), jnp.zeros_like(a[..., 0])
    axes = ((one, zero, zero), (zero, one, zero), (zero, zero, one))
    return jnp.stack([join(rotate(split(a), axis)) for axis in axes], axis=-1)


def renormalise(a: Quaternion) -> Quaternion:
    """Back to a unit from rounding away: one step of Newton for 1/√|a|²."""
    factor = 1.5 - 0.5 * dot(a, a)
    return a[0] * factor, a[1] * factor, a[2] * factor, a[3] * factor


# -- retractions of rotations --------------------------------------------------------------------------------------------


def cayley(omega: Vector) -> Quaternion:
    """(1)."""
    half = scale(0.5, omega)
    size = 1.0 / jnp.sqrt(1.0 + dot(half, half))
    return (size, *scale(size, half))


def inverse_cayley(a: Quaternion) -> Vector:
    """ω with τ(ω) = a; it grows beyond all bounds towards half a turn, a₀ = 0."""
    return scale(2.0 / a[0], a[1:])


def cayley_momentum(omega: Vector, mu: Vector) -> Vector:
    """(3)."""
    return add(mu, scale(0.5, cross(omega, mu)), scale(0.25 * dot(omega, mu), omega))


def exponential(omega: Vector) -> Quaternion:
    """(2)."""
    square = dot(omega, omega)
    small = square < 1e-8  # the series below is exact to rounding there
    angle = jnp.sqrt(jnp.where(small, 1.0, square))
    ratio = jnp.where(small, 0.5 - square / 48, jnp.sin(0.5 * angle) / angle)
    return (jnp.where(small, 1.0 - square / 8, jnp.cos(0.5 * angle)), *scale(ratio, omega))


def logarithm(a: Quaternion) -> Vector:
    """ω with exp(ω) = a, |ω| ≤ π."""
    sign = jnp.where(a[0] < 0, -1.0, 1.0)
    square = dot(a[1:], a[1:])
    small = square < 1e-8
    size = jnp.sqrt(jnp.where(small, 1.0, square))
    return scale(sign * jnp.where(small, 2.0 + square / 3.0, 2.0 * jnp.arctan2(size, sign * a[0]) / size), a[1:])


def exponential_momentum(omega: Vector, mu: Vector) -> Vector:
    """(4)."""
    square = dot(omega, omega)
    small = square < 1e-4
    angle = jnp.sqrt(jnp.where(small, 1.0, square))
    c = jnp.where(small, 1 / 12 + square / 720 + square**2 / 30240, (1.0 - 0.5 * angle / jnp.tan(0.5 * angle)) / angle**2)
    return add(mu, scale(0.5, cross(omega, mu)), scale(c, cross(omega, cross(omega, mu))))


# -- rigid motions -------------------------------------------------------------------------------------------------------


def cayley_shift(omega: Vector, gamma: Vector) -> Vector:
    """(I − ½ω̂)⁻¹ γ, the position part of the Cayley map."""
    half = scale(0.5, omega)
    return scale(1.0 / (1.0 + dot(half, half)), add(gamma, cross(half, gamma), scale(dot(half, gamma), half)))


def exponential_shift(omega: Vector, gamma: Vector) -> Vector:
    """γ + (1 − cos θ)/θ² ω × γ + (θ − sin θ)/θ³ ω × (ω × γ), the position part of the exponential."""
    square = dot(omega, omega)
    small = square < 1e-4
    angle = jnp.sqrt(jnp.where(small, 1.0, square))
    first = jnp.where(small, 0.5 - square / 24 + square**2 / 720, (1.0 - jnp.cos(angle)) / angle**2)
    second = jnp.where(small, 1 / 6 - square / 120 + square**2 / 5040, (angle - jnp.sin(angle)) / angle**3)
    across = cross(omega, gamma)
    return add(gamma, scale(first, across), scale(second, cross(omega, across)))


def rigid_cayley_momentum(omega: Vector, gamma: Vector, a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """(5)."""
    nu = add(b, scale(0.5, cross(omega, b)))
    return add(cayley_momentum(omega, a), scale(0.5, cross(gamma, nu))), nu


def coadjoint(turn: Quaternion, shift: Vector, mu: Vector, nu: Vector) -> tuple[Vector, Vector]:
    """(6)."""
    return unrotate(turn, add(mu, cross(nu, shift))), unrotate(turn, nu)


# -- three equations per node --------------------------------------------------------------------------------------------


class Solved(NamedTuple):
    x: Any
    converged: Bool[Array, ""]


def newton_nodes(residual: Callable[[Any], tuple[Any, Any]], guess: Vector, floor: Any = 0.0) -> Solved:
    """Newton for three equations in three unknowns at every node, all nodes at once, to rounding. `residual` returns its value
    and the columns of its Jacobian, which may be approximate. `floor`: unknowns much smaller than that may be
    inexact relative to themselves."""

    def improve(x):
        value, (a, b, c) = once(residual(x))
        bc = cross(b, c)
        inverse = once(-1.0 / dot(a, bc))  # Cramer
        return dot(bc, value) * inverse, dot(cross(c, a), value) * inverse, dot(cross(a, b), value) * inverse

    return _root(lambda x: residual(x)[0], improve, guess, 20, floor)


def fixed_point_nodes(improve: Callable[[Any], Any], guess: Any) -> Solved:
    """x ← x + improve(x) until it stands still."""
    return _root(improve, improve, guess, 200)


def _root(function: Callable[[Any], Any], improve: Callable[[Any], Any], guess: Any, most: int, floor: Any = 0.0) -> Solved:
    """Where the function vanishes, by iteration; derivatives, forwards and backwards, by the theorem on implicit functions."""

    def tangent(slope, wanted):
        """slope(x) = wanted, linear: each node has a matrix of its own, whose columns are the slopes of all nodes at once."""
        zero, one = jnp.zeros_like(wanted[0]), jnp.ones_like(wanted[0])
        size = range(len(wanted))
        columns = [join(slope(tuple(one if i == j else zero for i in size))) for j in size]
        matrix = jnp.stack(columns, axis=-1).reshape(-1, len(size), len(size))
        # The inverse, and not a solution with `wanted` in it, which could not be transposed.
        found = jnp.sum(jax.vmap(inverse)(matrix) * join(wanted).reshape(-1, 1, len(size)), axis=-1)
        return split(found.reshape(*zero.shape, len(size)))

    def iterate(_, guess):
        x, converged = _iterate(improve, guess, most, floor)
        return x, converged.astype(float)  # what comes beside a root has to have a derivative too

    x, converged = jax.lax.custom_root(function, guess, iterate, tangent, has_aux=True)
    return Solved(x, converged > 0)


def _iterate(improve: Callable[[Any], Any], guess: Any, most: int, floor: Any = 0.0) -> Solved:
    eps = float(jnp.finfo(guess[0].dtype).eps)

    def unfinished(carry):
        _, size, last, count = carry
        return (count < most) & (size > 4 * eps) & ~((size < 1e3 * eps) & (size >= last))

    def step(carry):
        x, size, _, count = carry
        update = once(improve(x))
        x = tuple(a + b for a, b in zip(x, update, strict=True))
        largest = jnp.max(jnp.stack([jnp.max(jnp.abs(a)) for a in x]))
        change = jnp.max(jnp.stack([jnp.max(jnp.abs(a)) for a in update]))
        return x, change / (largest + 1e-300), size, count + 1

    large = jnp.asarray(jnp.inf)
    x, size, _, _ = jax.lax.while_loop(unfinished, step, (guess, large, large, 0))
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(a)) for a in x]))
    return Solved(x, (size * largest <= 1e3 * eps * (largest + floor)) & jnp.all(jnp.stack([jnp.all(jnp.isfinite(a)) for a in x])))
