"""A bracketed scalar root as an iteration that its owner drives: propose a point, evaluate there, update.

Where the slopes at both ends are known and negative, and agree with the values, the next point is where the inverse function, as
the cubic through both ends with their slopes, comes to zero: two points for a gap in flight. Otherwise, and where three such points
have not shrunk the bracket eightfold, it is regula falsi with the weights of Anderson and Björck, which keeps the sign change and
converges superlinearly on smooth functions, usually in six or seven points. Where that has not shrunk it either, a bisection
follows, so the worst case is bounded.

A value within `tolerance`, which is what rounding does to values, counts as zero; halfway there is aimed at.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class Bracket(NamedTuple):
    """A sign change in [low, high]: value(low) ≥ 0 > value(high)."""

    low: Float[Array, ""]
    value_low: Float[Array, ""]
    at_low: Any  #                     whatever the function computed at `low`: an impact located there does not penetrate
    high: Float[Array, ""]
    value_high: Float[Array, ""]
    weight_low: Float[Array, ""]  #    an end kept twice in a row counts less
    weight_high: Float[Array, ""]
    side: Int[Array, ""]  #            which end moved last: +1 low, −1 high
    age: Int[Array, ""]  #             points since the width was `width_then`
    width_then: Float[Array, ""]
    slope_low: Float[Array, ""]  #     of the function; inf where it is not known
    slope_high: Float[Array, ""]
    tolerance: Float[Array, ""]


def open_bracket(low, value_low, at_low, high, value_high, slopes=(jnp.inf, jnp.inf), tolerance: Any = 0.0) -> Bracket:
    one, zero = jnp.ones_like(low), jnp.zeros((), jnp.int32)
    known = [jnp.asarray(x, low.dtype) for x in (*slopes, tolerance)]
    return Bracket(low, value_low, at_low, high, value_high, one, one, zero, zero, high - low, *known)


def propose(b: Bracket) -> Float[Array, ""]:
    """The next point to look at: strictly inside, where there is an inside."""
    eps = float(jnp.finfo(b.low.dtype).eps)
    width = b.high - b.low
    low, high = b.value_low * b.weight_low, b.value_high * b.weight_high
    fraction = low / (low - high)
    bisect = (b.age >= 6) | ~((fraction >= 0.0) & (fraction <= 1.0))
    by_values = width * jnp.where(bisect, 0.5, fraction)
    fall = b.value_low - b.value_high
    u = (b.value_low - 0.5 * b.tolerance) / fall
    from_ends = (1.0 - u) / b.slope_low - u / b.slope_high
    by_slopes = u * (u * (3.0 - 2.0 * u) * width - (1.0 - u) * fall * from_ends)
    # What slopes and values say has to agree: where the impulse of a leg changes with its length, rates are not quite the slopes.
    agree = jnp.abs(fall + 0.5 * width * (b.slope_low + b.slope_high)) < 0.25 * fall
    falling = (b.slope_low < 0.0) & (b.slope_high < 0.0) & agree & (b.age < 3)
    x = b.low + jnp.where(falling & (by_slopes > 0.0) & (by_slopes < width), by_slopes, by_values)
    inset = jnp.minimum(eps * b.high, 0.5 * width)
    return jnp.clip(x, b.low + inset, b.high - inset)


def update(b: Bracket, x, value, extra, slope: Any = jnp.inf) -> Bracket:
    """The bracket after looking at x. A value that is not a number counts as negative."""
    good = value >= 0.0
    low, high = jnp.where(good, x, b.low), jnp.where(good, b.high, x)
    # The end that stays a second time is weighted by 1 − f/f_before of the end that moved again (Anderson and Björck).
    ratio = 1.0 - value / jnp.where(good, b.value_low, b.value_high)
    weight = jnp.where(ratio > 0.0, ratio, 0.5)
    restart = (b.age >= 6) | (high - low < 0.125 * b.width_then)
    return Bracket(
        low=low,
        value_low=jnp.where(good, value, b.value_low),
        at_low=jax.tree.map(lambda new, old: jnp.where(good, new, old), extra, b.at_low),
        high=high,
        value_high=jnp.where(good, b.value_high, value),
        weight_low=jnp.where(good, 1.0, jnp.where(b.side < 0, weight * b.weight_low, b.weight_low)),
        weight_high=jnp.where(good, jnp.where(b.side > 0, weight * b.weight_high, b.weight_high), 1.0),
        side=jnp.where(good, 1, -1).astype(b.side.dtype),
        age=jnp.where(restart, 0, b.age + 1),
        width_then=jnp.where(restart, high - low, b.width_then),
        slope_low=jnp.where(good, slope, b.slope_low),
        slope_high=jnp.where(good, b.slope_high, slope),
        tolerance=b.tolerance,
    )


def is_narrow(b: Bracket) -> Bool[Array, ""]:
    eps = float(jnp.finfo(b.low.dtype).eps)
    return (b.high - b.low <= eps * b.high) | (b.value_low <= b.tolerance)
