"""The first-order stage: accelerated projected gradient with De Saxcé's shift, by matrix–vector products alone.

    w = xⁿ + β(xⁿ − xⁿ⁻¹),     xⁿ⁺¹ = P_L(w − y(w) / ℓ),     y(w) = z + |z_T| e₀,   z = Âw + Γq                          (12)

with Nesterov's β, which starts again from zero whenever a step points against the last one; ℓ bounds Â along the steps taken, and
grows when a step shows that it does not. One product with Â an iteration: Âw is made of those before.
"""

import math

import numpy as np

from carom.numerics.friction import cones
from carom.numerics.friction.interior import Iterate
from carom.numerics.friction.scaled import Scaled

LOOKS = 25  #       iterations between two looks at the certificate
ROUNDING = 1e-13  # of Âw: what a step shows of ℓ below this is noise


def projected_gradient(scaled: Scaled, x: np.ndarray, tolerance: float, max_iterations: int) -> Iterate:
    """(12) from x; the iterate with the best certificate among those looked at."""
    bound = largest_value(scaled)
    momentum, iteration = 1.0, 0
    rate = scaled.apply(x)  # Âx
    step, change = np.zeros_like(x), np.zeros_like(x)  # xⁿ − xⁿ⁻¹, and Â times that
    best, least = x, scaled.residual(x)
    for iteration in range(1, max_iterations + 1):
        following = 0.5 * (1 + math.sqrt(1 + 4 * momentum**2))
        ahead = (momentum - 1) / following
        w, rate_ahead = x + ahead * step, rate + ahead * change
        new = _projected(scaled, w, rate_ahead + scaled.q, bound)
        new_rate = scaled.apply(new)
        move, moved = new - w, new_rate - rate_ahead
        length = move @ move
        noise = ROUNDING * math.sqrt(length * (new_rate @ new_rate))
        if move @ moved > 1.01 * bound * length + noise:
            bound *= 2
            continue
        step, change = new - x, new_rate - rate
        momentum = 1.0 if move @ step < 0 else following
        x, rate = new, new_rate
        if iteration % LOOKS == 0:
            residual = scaled.residual(x)
            if residual < least:
                best, least = x, residual
            if least <= tolerance:
                break
    return Iterate(best, iteration)


def _projected(scaled: Scaled, w: np.ndarray, z: np.ndarray, bound: float) -> np.ndarray:
    points = w - z / bound
    rough, smooth, _ = scaled.split(points)
    rough[:, 0] -= cones.norm(scaled.split(z)[0][:, 1:]) / bound
    rough[:] = cones.project(rough)
    np.maximum(smooth, 0.0, out=smooth)
    return points


def largest_value(scaled: Scaled) -> float:
    """About the largest singular value of Â, by the power method from a fixed start."""
    x = 1.0 + 0.5 * np.cos(np.arange(len(scaled.q)))
    size = np.linalg.norm(x)
    for _ in range(20):
        x = scaled.apply(x / size)
        size = np.linalg.norm(x)
        if size == 0:
            return 1.0
    return float(1.1 * size)
