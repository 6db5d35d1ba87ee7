"""Small contact problems from a good start: Newton's method in dense matrices, a fraction of the time of the full solver.

With x = (μ r_N, r_T), y = (u_N/μ + |u_T|, u_T) the law is x, y in the Lorentz cone and orthogonal (x = r_N, y = u_N for μ = 0):

    F(x) = x − P(x − ρ y) = 0,     (F' + λ) dx = −F                                                                        (1)

The steps are taken whether they make F smaller or not. That is the point: a box on its face has four corners and needs three,
F does not change along the impulses that cancel, and where rounding says that one corner must lift, a method that asks F to fall
at each step stays where it is. Whatever comes out is judged by the same certificate E as the answers of the full solver.
"""

from dataclasses import dataclass

import numpy as np

from carom.numerics.friction import cones
from carom.numerics.friction.problem import project_coulomb

MOST_ROWS = 130
STEPS = 30
PROXIMAL = (1e-8, 1e-6, 1e-11)  # λ, tried in this order: W is singular where bodies touch at more points than they need
GOAL = 1e-14  #      E that rounding allows
GOOD = 1e-13  #      E at which a step that brings no progress is the last
GRADIENT_STEPS = 300


@dataclass(frozen=True)
class Dense:
    """u = W r + q with contacts first, then bilateral rows."""

    W: np.ndarray  #         [rows, rows]
    q: np.ndarray  #         [rows]
    friction: np.ndarray  #  [contacts]
    tangents: int
    least: float  #          what ‖q‖ counts as at least

    @property
    def contact_rows(self) -> int:
        return len(self.friction) * (1 + self.tangents)

    def residual(self, r: np.ndarray) -> float:
        """The certificate E of `carom.numerics.friction.problem`."""
        trace = np.trace(self.W)
        rho = len(self.q) / trace if trace > 0 else 1.0
        u = self.W @ r + self.q
        shape = (len(self.friction), 1 + self.tangents)
        rows, rates = r[: self.contact_rows].reshape(shape), u[: self.contact_rows].reshape(shape).copy()
        rates[:, 0] += self.friction * cones.norm(rates[:, 1:])
        change = rows - project_coulomb(rows - rho * rates, self.friction)
        total = np.hypot(np.linalg.norm(change), rho * np.linalg.norm(u[self.contact_rows :]))
        size = max(float(np.linalg.norm(self.q)), self.least)
        if not np.isfinite(total):
            return np.inf
        return float(total / (rho * size)) if size > 0 else float(total > 0)


def solve_small(problem: Dense, start: np.ndarray | None) -> tuple[np.ndarray, float, int]:
    """Impulses, certificate, number of steps: from `start`, and if that fails from a projected gradient method, by (1)."""
    best, least, taken = np.zeros(len(problem.q)), problem.residual(np.zeros(len(problem.q))), 0
    starts = [lambda: best if start is None else start, lambda: projected_gradient(problem)]
    for number, begin in enumerate(starts):
        point = begin()
        for proximal in PROXIMAL if number else PROXIMAL[:1]:
            r, residual, steps = newton(problem, point, proximal)
            taken += steps
            if residual < least:
                best, least = r, residual
            if least <= GOOD:
                return best, least, taken
    return best, least, taken


def projected_gradient(problem: Dense) -> np.ndarray:
    """Impulses from r ← P_K(r − ρũ), from zero: near a solution where it is not too far, and in the middle of many."""
    k, rows = len(problem.friction), problem.contact_rows
    rho = 1 / max(np.linalg.norm(problem.W, 2), 1e-300)
    r = np.zeros(len(problem.q))
    for _ in range(GRADIENT_STEPS):
        u = problem.W @ r + problem.q
        r = r - rho * u
        rates = u[:rows].reshape(k, 1 + problem.tangents)
        r[: rows : 1 + problem.tangents] -= rho * problem.friction * cones.norm(rates[:, 1:])
        r[:rows] = project_coulomb(r[:rows].reshape(k, 1 + problem.tangents), problem.friction).ravel()
    return r


def newton(problem: Dense, start: np.ndarray, proximal: float = PROXIMAL[0]) -> tuple[np.ndarray, float, int]:
    """Steps of (1) from `start`: the best impulses met, their certificate, and the number of steps."""
    best, least = start, problem.residual(start)
    if least <= GOAL:
        return best, least, 0
    rough = problem.friction > 0
    width, k = 1 + problem.tangents, len(problem.friction)
    stretch = np.ones(len(problem.q))  # r = x / stretch
    stretch[: problem.contact_rows : width] = np.where(rough, problem.friction, 1.0)
    W, q = problem.W / stretch[:, None] / stretch[None, :], problem.q / stretch
    rho = len(q) / max(np.trace(W), 1e-300)
    x = start * stretch
    step = 0
    for step in range(1, STEPS + 1):  # noqa: B007
        try:
            x = x - _direction(W, q, x, rho, rough, width, k, proximal)
        except np.linalg.LinAlgError:
            break
        residual = problem.residual(x / stretch)
        if not residual < least and least <= GOOD:
            break
        if residual < least:
            best, least = x / stretch, residual
        if least <= GOAL or not np.isfinite(residual):
            break
    return best, least, step


def _direction(
    W: np.ndarray, q: np.ndarray, x: np.ndarray, rho: float, rough: np.ndarray, width: int, k: int, proximal: float
) -> np.ndarray:
    """(F' + λ)⁻¹F at x."""
    rows, m = width * k, len(q)
    y = W @ x + q
    lift = np.zeros((k, width, width))
    lift[:] = np.eye(width)
    rates = y[:rows].reshape(k, width)
    lift[:, 0, 1:] = np.where(rough[:, None], cones.unit(rates[:, 1:]), 0.0)
    shifted = rates.copy()
    shifted[:, 0] += np.where(rough, cones.norm(rates[:, 1:]), 0.0)
    points = x[:rows].reshape(k, width) - rho * shifted
    smooth = np.concatenate([np.maximum(points[:, :1], 0.0), np.zeros((k, width - 1))], axis=1)
    projected = np.where(rough[:, None], cones.project(points), smooth)
    flat = np.zeros((k, width, width))
    flat[:, 0, 0] = points[:, 0] > 0
    slope = np.where(rough[:, None, None], cones.project_derivative(points), flat)
    F = np.concatenate([(x[:rows].reshape(k, width) - projected).ravel(), rho * y[rows:]])
    matrix = np.zeros((m, m))
    matrix[:rows] = ((rho * slope @ lift) @ W[:rows].reshape(k, width, m)).reshape(rows, m)
    matrix[rows:] = rho * W[rows:]
    spots = np.arange(rows).reshape(k, width)
    matrix[spots[:, :, None], spots[:, None, :]] += np.eye(width) - slope
    matrix[np.arange(m), np.arange(m)] += proximal
    return np.linalg.solve(matrix, F)
