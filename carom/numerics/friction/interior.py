"""The interior-point stage: Newton's method on a path through the inside of the cones, De Saxcé's term included.

With x, y inside L the iteration goes to R = 0 and x ∘ y = 0 (numbers as in this package's other files),

    R = Âx + Γq + |y_T| e₀ − y,     S = I − e₀ tᵀ,     t = y_T / |y_T|                                                   (8)
    (Â + SΘ²) dx = SΘc − R,         dy = Θc − Θ²dx,    c = λ \\ (στ e₀ − λ∘λ − (Θdx_aff) ∘ (Θ⁻¹dy_aff))                    (9)

where Θ, λ are those of (1), τ = x·y / contacts, and (dx, dy)_aff is the step with σ = 0 and without the last term. Θ² makes (9)
regular where Â is not. Without S the stage would solve the convex problem in which sliding contacts dilate.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from carom.numerics.friction import cones
from carom.numerics.friction.scaled import Groups, Scaled, Singular, join, multiply

MAX_ITERATIONS = 60
STALLED, PATIENCE = 1e-3, 3  #   a step shorter than this moves nothing; so many in a row are the end
SHORT, CENTRED = 0.1, 0.8  #     below this step length one towards the middle is tried, with this σ
NEAREST = 1e-6  #       of the way to the boundary of the cones is always left
FREE = 1e-12  #         on the diagonal of bilateral rows, where Â may be singular


class Iterate(NamedTuple):
    x: np.ndarray
    iterations: int


def interior_point(scaled: Scaled, x: np.ndarray, y: np.ndarray) -> Iterator[Iterate]:
    """The iterates of (9) from x and y inside the cones, until they stall.

    Where contacts carry nothing and do not open either, x and y both vanish like √τ, so τ alone does not say when to stop; the
    caller looks at the certificate."""
    contacts = max(sum(scaled.counts[:2]), 1)
    stalled = 0
    for iteration in range(1, MAX_ITERATIONS + 1):
        tau = float(x @ y) / contacts
        try:
            dx, dy, alpha = _step(scaled, x, y, _defect(scaled, x, y), tau)
        except Singular:
            return
        stalled = stalled + 1 if not alpha > STALLED else 0
        if stalled > PATIENCE or not np.isfinite(alpha):
            return
        x, y = x + alpha * dx, y + alpha * dy
        yield Iterate(x, iteration)


def lifted(scaled: Scaled, x: np.ndarray, height: float):
    """x and y(x) in their cones and then higher by so much: a start inside, near x if the height is small."""
    impulses, rates = scaled.split(x.copy()), scaled.split(scaled.rate(x))
    rates[0][:, 0] += cones.norm(rates[0][:, 1:])
    inside = [[cones.project(part) for part in groups[:2]] for groups in (impulses, rates)]
    for part in inside[0] + inside[1]:
        part[:, 0] += height
    return join([*inside[0], impulses[2]]), join([*inside[1], 0 * rates[2]])


def centre(scaled: Scaled, height: float):
    """x = y = height · e₀."""
    rough, smooth, free = scaled.counts
    x = np.concatenate([np.tile(np.eye(scaled.columns)[0], rough), np.ones(smooth), np.zeros(free)])
    return height * x, height * x


def _defect(scaled: Scaled, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """R of (8); y of the bilateral rows is zero."""
    R = scaled.rate(x) - y
    sliding = scaled.split(y)[0]
    scaled.split(R)[0][:, 0] += cones.norm(sliding[:, 1:])
    return R


def _step(scaled: Scaled, x, y, R, tau):
    """The predictor, the corrector and how far to go along it."""
    pairs = list(zip(scaled.split(x)[:2], scaled.split(y)[:2], strict=True))
    scalings = [cones.scale(a, b) for a, b in pairs]
    shear = [_shear(b) for _, b in pairs]
    free = np.ones((scaled.counts[2], 1, 1))
    solve = scaled.factorise([s @ n.theta_squared for s, n in zip(shear, scalings, strict=True)] + [FREE * free], None).solve

    def direction(c: Groups):
        pushed = [cones.apply(n.theta, part) for n, part in zip(scalings, c, strict=True)]
        none = np.zeros((scaled.counts[2], 1))
        dx = solve(multiply([*shear, free], [*pushed, none]) - R)
        moved = scaled.split(dx)
        dy = [a - cones.apply(n.theta_squared, b) for a, n, b in zip(pushed, scalings, moved[:2], strict=True)]
        return dx, join([*dy, none])

    def reach(dx, dy):
        steps = [cones.longest_step(a, d) for (a, _), d in zip(pairs, scaled.split(dx)[:2], strict=True)]
        return min(steps + [cones.longest_step(b, d) for (_, b), d in zip(pairs, scaled.split(dy)[:2], strict=True)])

    dx, dy = direction([-n.point for n in scalings])
    alpha = min(1.0, reach(dx, dy))
    ahead = float((x + alpha * dx) @ (y + alpha * dy)) / max(sum(scaled.counts[:2]), 1)
    sigma = max((max(ahead, 0.0) / tau) ** 3 if tau > 0 else 0.0, (1 - alpha) ** 3, 1e-6)
    moves = list(zip(scaled.split(dx)[:2], scaled.split(dy)[:2], strict=True))
    dx, dy = direction([_target(n, a, b, sigma * tau) for n, (a, b) in zip(scalings, moves, strict=True)])
    fraction = min(max(0.99, 1 - tau), 1 - NEAREST)
    alpha = min(1.0, fraction * reach(dx, dy))
    if alpha < SHORT:  # the iterate is too near to the boundary: back to the middle
        middle = direction([_target(n, 0 * a, 0 * b, CENTRED * tau) for n, (a, b) in zip(scalings, moves, strict=True)])
        other = min(1.0, fraction * reach(*middle))
        if other > alpha:
            return *middle, other
    return dx, dy, alpha


def _shear(y: np.ndarray) -> np.ndarray:
    """S of (8)."""
    shear = np.broadcast_to(np.eye(y.shape[1]), (len(y), y.shape[1], y.shape[1])).copy()
    shear[:, 0, 1:] -= cones.unit(y[:, 1:])
    return shear


def _target(scaling: cones.Scaling, dx, dy, gap: float) -> np.ndarray:
    """c of (9)."""
    second = cones.product(cones.apply(scaling.theta, dx), cones.apply(scaling.inverse, dy))
    aim = -cones.product(scaling.point, scaling.point) - second
    aim[:, 0] += gap
    return cones.divide(scaling.point, aim)
