"""The first-order stage: accelerated projected gradient with De Saxcé's shift, by matrix–vector products alone.

    w = xⁿ + β(xⁿ − xⁿ⁻¹),     xⁿ⁺¹ = P_L(w − y(w) / ℓ),     y(w) = z + |z_T| e₀,   z = Âw + Γq                          (12)

with Nesterov's β, which starts again from zero whenever a step points against the last one; ℓ bounds Â along the steps taken, and
grows when a step shows that it does not. One product with Â an iteration: Âw is made of those before.
"""

import numpy as np

from carom.numerics.friction import cones
from carom.numerics.friction.interior import Iterate
from carom.numerics.friction.scaled import Scaled, join

LOOKS = 25  #       iterations between two looks at the certificate
ROUNDING = 1e-13  # of Âw: what a step shows of ℓ below this is noise


def projected_gradient(scaled: Scaled, x: np.ndarray, tolerance: float, max_iterations: int) -> Iterate:
    """(12) from x; the iterate with the best certificate among those looked at."""
    bound = largest_value(scaled)
    last, momentum, iteration = x, 1.0, 0
    rate = last_rate = scaled.apply(x)  # Âx
    best, least = x, scaled.residual(x)
    for iteration in range(1, max_iterations + 1):
        following = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        ahead = (momentum - 1) / following
        w, rate_ahead = x + ahead * (x - last), rate + ahead * (rate - last_rate)
        new = _projected(scaled, w, rate_ahead + scaled.q, bound)
        new_rate = scaled.apply(new)
        move, moved = new - w, new_rate - rate_ahead
        noise = ROUNDING * np.sqrt((move @ move) * (new_rate @ new_rate))
        if move @ moved > 1.01 * bound * (move @ move) + noise:
            bound *= 2
            continue
        restart = move @ (new - x) < 0
        last, x, momentum = x, new, 1.0 if restart else following
        last_rate, rate = rate, new_rate
        if iteration % LOOKS == 0:
            residual = scaled.residual(x)
            if residual < least:
                best, least = x, residual
            if least <= tolerance:
                break
    return Iterate(best, iteration)


def _projected(scaled: Scaled, w: np.ndarray, z: np.ndarray, bound: float) -> np.ndarray:
    points = scaled.split(w - z / bound)
    points[0][:, 0] -= cones.norm(scaled.split(z)[0][:, 1:]) / bound
    return join([cones.project(points[0]), cones.project(points[1]), points[2]])


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
