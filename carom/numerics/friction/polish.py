"""The polish: a semi-smooth Newton method with a proximal term, from near a solution to rounding.

    F(x) = x − P_L(x − ρ y(x)) = 0,        F' = I − P'(I − ρBÂ),        B = I + e₀tᵀ,  t = z_T/|z_T|                       (10)
    (λI + F') dx = −F,                     λ ← 0.6 λ after a step that makes ‖F‖ smaller, 3 λ otherwise                    (11)

F' is singular wherever Â is on the contacts that stick; λ picks a step there and vanishes as the iteration converges.
ρ only matters on the way: a contact with x = 1e-7 and y = 1e-9 counts as carrying with ρ = 1 and as open with ρ = 1000.
"""

import numpy as np

from carom.numerics.friction import cones
from carom.numerics.friction.interior import Iterate
from carom.numerics.friction.scaled import Groups, Scaled, Singular, join

FIRST, SMALLEST, LARGEST = 1e-6, 1e-13, 1e3  #   λ
MAX_STEPS = 60
PATIENCE = 12  #                                 failures in a row
LEAPS, LEAPS_IN_VAIN, LEAPING = 40, 12, 1e-8  #  steps that are always taken, those of them without progress, and their λ
HELD = 0.1  #                                    the largest λ of such a step


def polish(scaled: Scaled, x: np.ndarray, tolerance: float, rho: float = 1.0, max_steps: int = MAX_STEPS) -> Iterate:
    """(11) from x until the certificate is below the tolerance, or nothing improves any more."""
    damping, failures = FIRST, 0
    F, p, z = natural_map(scaled, x, rho)
    size = np.linalg.norm(F)
    best, least = x, scaled.residual(x)
    step = 0
    while least > tolerance and step < max_steps and failures < PATIENCE:
        step += 1
        try:
            dx = _newton(scaled, F, p, z, rho, damping)
        except Singular:
            dx = np.full_like(x, np.nan)
        trial = x + dx
        new = natural_map(scaled, trial, rho)
        new_size = np.linalg.norm(new[0])
        if new_size < size:
            x, size, (F, p, z) = trial, new_size, new
            residual = scaled.residual(x)
            if residual < least:
                best, least = x, residual
            damping, failures = max(0.6 * damping, SMALLEST), 0
        else:
            damping, failures = min(3 * damping, LARGEST), failures + 1
    return Iterate(best, step)


def leap(
    scaled: Scaled,
    x: np.ndarray,
    tolerance: float,
    rho: float = 1.0,
    max_steps: int = LEAPS,
    in_vain: int = LEAPS_IN_VAIN,
    slope: float = 0.0,
) -> Iterate:
    """(11) with a small λ from x, its steps taken whether they make F smaller or not, until the certificate is below the tolerance.
    Where many contacts change their state at once F grows before it vanishes, and a method that forbids that stays where it is.
    λ is larger by ‖F‖ times the slope: impulses are not unique in a heap, and along those that may be added to others without
    moving anything a step with a small λ is so long that contacts far from any change leave their cones."""
    best, least = x, scaled.residual(x)
    step, since = 0, 0
    while least > tolerance and step < max_steps and step - since < in_vain:
        step += 1
        F, p, z = natural_map(scaled, x, rho)
        try:
            x = x + _newton(scaled, F, p, z, rho, min(LEAPING + slope * float(np.linalg.norm(F)), HELD))
        except Singular:
            break
        residual = scaled.residual(x)
        if not np.isfinite(residual):
            break
        if residual < least:
            best, least, since = x, residual, step
    return Iterate(best, step)


def natural_map(scaled: Scaled, x: np.ndarray, rho: float = 1.0):
    """F of (10), the points p = x − ρy that it projects, and z, all in groups."""
    z = scaled.rate(x)
    groups, rates = scaled.split(x), scaled.split(z)
    points = [a - rho * b for a, b in zip(groups, rates, strict=True)]
    points[0][:, 0] -= rho * cones.norm(rates[0][:, 1:])
    F = [groups[0] - cones.project(points[0]), groups[1] - cones.project(points[1]), rho * rates[2]]
    return join(F), points, rates


def _newton(scaled: Scaled, F: np.ndarray, points: Groups, rates: Groups, rho: float, damping: float) -> np.ndarray:
    first, second = cones.project_derivative(points[0]), cones.project_derivative(points[1])
    lift = np.broadcast_to(np.eye(scaled.columns), first.shape).copy()
    lift[:, 0, 1:] += cones.unit(rates[0][:, 1:])
    free = np.ones((scaled.counts[2], 1, 1))
    E = [rho * first @ lift, rho * second, rho * free]
    C = [(1 + damping) * np.eye(scaled.columns) - first, (1 + damping) - second, damping * free]
    return scaled.factorise(C, E).solve(-F)
