"""The polish for many contacts in one compiled program: proximal points, Newton's method inside, and products alone inside that.

About a point x̄ the problem (5) is made regular, and its natural map (10) is

    F(x) = x − P_L(x − y(z)),           z = Âx + Γq + λ(x − x̄),                                                          (16)
    (C + EÂ) dx = −F,                   C = (1 + ε)I − P' + λE,     E = P'B                                              (17)

with blocks C, E of one contact each. Newton's steps are taken whole until ‖F‖ is a tenth; then x̄ = x and λ is halved. Where a dozen
do not get there, x is the best so far and λ four times as large. (17) is solved to a tenth of ‖F‖ by van der Vorst's BiCGStab, with
the inverses of C + EÂ of each contact by itself before it: in the rows of contacts its condition is that of Â + λ on those that
stick. In the coordinates of bodies, (7), blocks of 1/λ that are not symmetric (a contact that slides is pushed by what closes it)
stand beside ones, and the same method does not end.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from carom.numerics.friction.device_arrays import Counts, Placed, certificate, cone, dot, length_of

FIRST, LARGEST, SMALLEST = 0.1, 10.0, 1e-9  #  λ
LESS, MORE = 0.5, 4.0  #                       after a success and after a failure
STEPS, GOAL = 12, 0.1  #                       Newton's, at most, and what becomes of ‖F‖
LOOSE, PRODUCTS = 0.1, 200  #                  of ‖F‖ is what a solution of (17) may miss, and products that it may take
EPSILON = 1e-8


class Point(NamedTuple):
    """Where the outer iteration is."""

    x: jax.Array  #         also x̄ of the next
    rate: jax.Array  #      Âx
    weight: jax.Array  #    λ
    best: jax.Array
    best_rate: jax.Array
    least: jax.Array  #     its certificate
    products: jax.Array
    steps: jax.Array  #     Newton's


class _Inner(NamedTuple):
    x: jax.Array
    rate: jax.Array
    F: jax.Array
    p: jax.Array  #         what the projection of (16) is applied to
    z: jax.Array
    size: jax.Array  #      ‖F‖
    step: jax.Array
    products: jax.Array


class _Krylov(NamedTuple):
    x: jax.Array
    r: jax.Array
    p: jax.Array
    rho: jax.Array
    best: jax.Array
    least: jax.Array
    size: jax.Array  #      ‖r‖
    products: jax.Array


class Newton(NamedTuple):
    """C and E of (17), and what stands before BiCGStab: blocks of contacts with friction, numbers of the others."""

    C: tuple[jax.Array, jax.Array]
    E: tuple[jax.Array, jax.Array]
    inverse: tuple[jax.Array, jax.Array]


@partial(jax.jit, static_argnames="counts")
def begin(placed: Placed, x: jax.Array, counts: Counts) -> Point:
    rate = placed.apply(x)
    none = jnp.zeros((), int)
    return Point(x, rate, jnp.asarray(FIRST), x, rate, certificate(placed, x, rate, counts), none, none)


@partial(jax.jit, static_argnames="counts")
def advance(placed: Placed, point: Point, tolerance, end, counts: Counts) -> Point:
    """Proximal points until the certificate is below the tolerance, so many products are done, or λ says that it is in vain."""
    go_on = lambda at: (at.least > tolerance) & (at.products < end) & (at.weight <= LARGEST)  # noqa: E731
    return jax.lax.while_loop(go_on, lambda at: _proximal(placed, at, counts), point)


def _proximal(placed: Placed, at: Point, counts: Counts) -> Point:
    first = _mapped(placed, at.x, at.rate, at.x, at.weight, counts, jnp.zeros((), int), jnp.zeros((), int))
    unfinished = lambda now: (now.size > GOAL * first.size) & (now.step < STEPS) & jnp.isfinite(now.size)  # noqa: E731
    last = jax.lax.while_loop(unfinished, lambda now: _step(placed, now, at, counts), first)
    residual = certificate(placed, last.x, last.rate, counts)
    better = residual < at.least  # false where it is not a number
    best, best_rate = jnp.where(better, last.x, at.best), jnp.where(better, last.rate, at.best_rate)
    good = last.size <= GOAL * first.size
    return Point(
        jnp.where(good, last.x, best),
        jnp.where(good, last.rate, best_rate),
        jnp.where(good, jnp.maximum(LESS * at.weight, SMALLEST), MORE * at.weight),
        best,
        best_rate,
        jnp.where(better, residual, at.least),
        at.products + last.products,
        at.steps + last.step,
    )


def _mapped(placed: Placed, x, rate, centre, weight, counts: Counts, step, products) -> _Inner:
    """(16)."""
    z = rate + placed.q + weight * (x - centre)
    p = x - z
    points, (rough, smooth, _) = counts.split(p), counts.split(x)
    rates = counts.split(z)
    height = points[0][:, 0] - length_of(rates[0][:, 1:])
    F = (rough - cone(height, points[0][:, 1:], 1.0)).ravel(), smooth - jnp.maximum(points[1], 0.0), rates[2]
    F = jnp.concatenate(F)
    p = p.at[: rough.size : counts.columns].set(height) if counts.rough else p
    return _Inner(x, rate, F, p, z, jnp.sqrt(dot(F, F)), step, products)


def _step(placed: Placed, now: _Inner, at: Point, counts: Counts) -> _Inner:
    newton = blocks(placed, now.p, now.z, at.weight, counts)
    dx, taken = _solve(placed, newton, now.F, LOOSE * now.size, counts)
    x = now.x + dx
    return _mapped(placed, x, placed.apply(x), at.x, at.weight, counts, now.step + 1, now.products + taken + 1)


def blocks(placed: Placed, p: jax.Array, z: jax.Array, weight, counts: Counts) -> Newton:
    """(17) at a point, with P' and B as in (10)."""
    points, rates = counts.split(p), counts.split(z)
    P = _derivative(points[0])
    across = rates[0][:, 1:]
    t = across / _safe(length_of(across))[:, None]
    E = P.at[:, :, 1:].add(P[:, :, :1] * t[:, None, :])
    C = (1 + EPSILON) * jnp.eye(counts.columns) - P + weight * E
    presses = (points[1] > 0).astype(float)
    others = jnp.concatenate([presses, jnp.ones_like(points[2])])  # bilateral rows have no cone, and F is z
    rest = jnp.concatenate([1 + EPSILON - presses, jnp.full_like(points[2], EPSILON)]) + weight * others
    inverse = _inverses(C + E @ placed.own), 1 / (rest + others * placed.diagonal)
    return Newton((C, rest), (E, others), inverse)


def _derivative(p: jax.Array) -> jax.Array:
    """Of the projection onto L, as `cones.project_derivative`."""
    height, length = p[:, 0], length_of(p[:, 1:])
    n, ratio = p[:, 1:] / _safe(length)[:, None], (height / _safe(length))[:, None, None]
    d = p.shape[1]
    inner = 0.5 * (1 + ratio) * jnp.eye(d - 1) - 0.5 * ratio * n[:, :, None] * n[:, None, :]
    top = jnp.concatenate([jnp.full_like(height, 0.5)[:, None], 0.5 * n], axis=1)[:, None]
    edge = jnp.concatenate([top, jnp.concatenate([0.5 * n[:, :, None], inner], axis=2)], axis=1)
    outside = jnp.where((length <= -height)[:, None, None], 0.0, edge)
    return jnp.where((length <= height)[:, None, None], jnp.eye(d), outside)


def _safe(length: jax.Array) -> jax.Array:
    return jnp.where(length > 0, length, 1.0)


def _inverses(A: jax.Array) -> jax.Array:
    """Of blocks; by cofactors where they are 3 × 3."""
    if A.shape[1] != 3:
        return jnp.linalg.inv(A)
    rows = A[:, 0], A[:, 1], A[:, 2]
    cofactors = jnp.stack([jnp.cross(rows[i - 2], rows[i - 1]) for i in range(3)], axis=2)
    return cofactors / dot_rows(rows[0], cofactors[:, :, 0])[:, None, None]


def dot_rows(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.sum(a * b, axis=1)


def _times(parts: tuple[jax.Array, jax.Array], x: jax.Array) -> jax.Array:
    first, rest = parts
    edge = first.shape[0] * first.shape[1]
    rough = jnp.sum(first * x[:edge].reshape(first.shape[0], 1, first.shape[1]), axis=2)
    return jnp.concatenate([rough.ravel(), rest * x[edge:]])


def _solve(placed: Placed, newton: Newton, F: jax.Array, enough: jax.Array, counts: Counts) -> tuple[jax.Array, jax.Array]:
    """dx of (17) by BiCGStab [vandervorst1992] to |r| ≤ enough, or the best of the way, and the products that were made."""
    product = lambda v: _times(newton.C, v) + _times(newton.E, placed.apply(v))  # noqa: E731
    before = lambda v: _times(newton.inverse, v)  # noqa: E731
    shadow = -F

    def iterate(at: _Krylov) -> _Krylov:
        direction = before(at.p)
        v = product(direction)
        alpha = at.rho / dot(shadow, v)
        s = at.r - alpha * v
        correction = before(s)
        t = product(correction)
        omega = dot(t, s) / dot(t, t)
        x, r = at.x + alpha * direction + omega * correction, s - omega * t
        rho, size = dot(shadow, r), jnp.sqrt(dot(r, r))
        p = r + (rho / at.rho) * (alpha / omega) * (at.p - omega * v)
        better = size < at.least
        return _Krylov(x, r, p, rho, jnp.where(better, x, at.best), jnp.where(better, size, at.least), size, at.products + 2)

    none, size = jnp.zeros_like(F), jnp.sqrt(dot(F, F))
    start = _Krylov(none, shadow, shadow, dot(F, F), none, size, size, jnp.zeros((), int))
    unfinished = lambda at: (at.least > enough) & (at.products < PRODUCTS) & jnp.isfinite(at.size)  # noqa: E731
    found = jax.lax.while_loop(unfinished, iterate, start)
    return found.best, found.products
