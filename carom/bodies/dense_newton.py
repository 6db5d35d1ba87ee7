"""Small contact problems from a good start: Newton's method in dense matrices, a fraction of the time of the full solver.

With x = (μ r_N, r_T), y = (u_N/μ + |u_T|, u_T) the law is x, y in the Lorentz cone and orthogonal (x = r_N, y = u_N for μ = 0):

    F(x) = x − P(x − ρ y) = 0,     (F' + λ) dx = −F                                                                        (1)

The steps are taken whether they make F smaller or not. That is the point: a box on its face has four corners and needs three,
F does not change along the impulses that cancel, and where rounding says that one corner must lift, a method that asks F to fall
at each step stays where it is. Whatever comes out is judged by the same certificate E as the answers of the full solver.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from carom.bodies.once import once
from carom.bodies.quaternions import lengths
from carom.numerics.friction import cones
from carom.numerics.friction.problem import project_coulomb

Found = tuple[np.ndarray, float, int]  # impulses, their certificate, and the steps it took

MOST_ROWS = 130
STEPS = 30
PROXIMAL = (1e-8, 1e-6, 1e-11)  # λ, tried in this order: W is singular where bodies touch at more points than they need
GOAL = 1e-14  #      E that rounding allows
GOOD = 1e-13  #      E at which impulses are the answer, those of the step before too
GRADIENT_STEPS = 300
HALF_BIT = 2.0**-53
BLURRED = 1e-7  #    E that rounding is never an excuse for: impulses without end, where there is no solution, make it large
FEW_ROWS = 50  #     up to which pivots are quicker than another start: there are as many as contacts that change their state
PATIENCE = 6  #      steps without progress after which the start is not near enough: a turn of states takes three or four


@dataclass(frozen=True)
class Dense:
    """u = W r + q with contacts first, then bilateral rows."""

    W: np.ndarray  #         [rows, rows]
    q: np.ndarray  #         [rows]
    friction: np.ndarray  #  [contacts]
    tangents: int
    least: float  #          what ‖q‖ counts as at least
    blur: Callable[[], float] = float  # the last bits of q

    @once
    def contact_rows(self) -> int:
        return len(self.friction) * (1 + self.tangents)

    @once
    def rho(self) -> float:
        trace = float(self.W.trace())
        return len(self.q) / trace if trace > 0 else 1.0

    @once
    def size(self) -> float:
        return max(math.sqrt(self.q.dot(self.q)), self.least)

    @once
    def stretched(self) -> "Stretched":
        """In x, with what (1) needs."""
        rough, width = self.friction > 0, 1 + self.tangents
        factor = np.ones(len(self.q))
        factor[: self.contact_rows : width] = np.where(rough, self.friction, 1.0)
        W, q = self.W / factor[:, None] / factor[None, :], self.q / factor
        return Stretched(W, q, factor, len(q) / max(float(np.trace(W)), 1e-300), rough, width)

    def weighted(self, weight: float) -> "Dense":
        """The same problem, with another ρ in (1); the certificate does not change."""
        other = replace(self)
        other.__dict__["stretched"] = replace(self.stretched, rho=weight * self.stretched.rho)
        return other

    def rounding(self, r: np.ndarray) -> float:
        """What the last bits of impulses are in E: half an ε of each moves u by ½ε|W||r|. Where a body lies under one a million
        times heavier its impulses are a million times what its own motion needs, and no numbers have a smaller E. Nor have they
        one that is smaller than those of q, where joints in excess of what is needed say the same but for rounding."""
        moved = HALF_BIT * float(np.linalg.norm(np.abs(self.W) @ np.abs(r))) + self.blur()
        return min(moved / self.size, BLURRED) if self.size > 0 else 0.0

    def residual(self, r: np.ndarray) -> float:
        """The certificate E of `carom.numerics.friction.problem`, in few calls: most steps ask nothing else."""
        rho, size, mu, edge = self.rho, self.size, self.friction, self.contact_rows
        u = self.W @ r + self.q
        total = 0.0
        if edge < len(u):
            total = rho * rho * float(u[edge:] @ u[edge:])
        if edge:
            rows, rates = r[:edge].reshape(len(mu), -1), u[:edge].reshape(len(mu), -1)
            p = rows - rho * rates
            p[:, 0] -= rho * mu * lengths(rates[:, 1:])
            change = rows - _projected(p, mu)
            total += float(np.vdot(change, change))
        total = math.sqrt(total)
        if not math.isfinite(total):
            return math.inf
        return total / (rho * size) if size > 0 else float(total > 0)


def _projected(p: np.ndarray, friction: np.ndarray) -> np.ndarray:
    """`project_coulomb`, the nearest points of K_μ, in few calls: written into p."""
    height, across = p[:, 0], p[:, 1:]
    length = lengths(across)
    outside = (length > friction * height) | (height <= 0)  # with μ = 0 what is below zero has length ≤ μ · height too
    if np.count_nonzero(outside):
        normal = np.maximum(height + friction * length, 0.0) / (1 + friction * friction)  # zero in the polar cone
        share = friction * normal / np.where(length > 0, length, 1.0)
        p[:, 1:] = np.where(outside, share, 1.0)[:, None] * across
        p[:, 0] = np.where(outside, normal, height)
    return p


def solve_small(problem: Dense, start: np.ndarray | None, enough: float = GOOD) -> Found:
    """Impulses, certificate, number of steps of (1) from `start`: none where that is the answer already. Steps that go round in
    circles are given up soon: there are better ways then."""
    begin = np.zeros(len(problem.q)) if start is None else start
    return newton(problem, begin, patience=PATIENCE, enough=enough)


def from_gradient(problem: Dense) -> Found:
    """The same from a projected gradient method, with other and other λ."""
    begin = projected_gradient(problem)
    best, least, taken = best_of((newton(problem, begin, proximal) for proximal in PROXIMAL), (begin, np.inf), GOOD)
    return best, least, taken + GRADIENT_STEPS


def best_of(tries: Iterable[Found], known: tuple[np.ndarray, float], goal: float) -> Found:
    """The best of what is known and of the tries, which end with the first whose certificate is below the goal."""
    (best, least), taken = known, 0
    for r, residual, steps in tries:
        taken += steps
        if residual < least:
            best, least = r, residual
        if least <= goal:
            break
    return best, least, taken


def projected_gradient(problem: Dense, steps: int = GRADIENT_STEPS) -> np.ndarray:
    """Impulses from r ← P_K(r − ρũ), from zero: near a solution where it is not too far, and in the middle of many."""
    k, rows = len(problem.friction), problem.contact_rows
    rho = 1 / max(np.linalg.norm(problem.W, 2), 1e-300)
    r = np.zeros(len(problem.q))
    for _ in range(steps):
        u = problem.W @ r + problem.q
        r = r - rho * u
        rates = u[:rows].reshape(k, 1 + problem.tangents)
        r[: rows : 1 + problem.tangents] -= rho * problem.friction * cones.norm(rates[:, 1:])
        r[:rows] = project_coulomb(r[:rows].reshape(k, 1 + problem.tangents), problem.friction).ravel()
    return r


@dataclass(frozen=True)
class Stretched:
    """The problem in x, with what (1) needs of it."""

    W: np.ndarray
    q: np.ndarray
    factor: np.ndarray  #  r = x / factor
    rho: float
    rough: np.ndarray  #   [contacts]  μ > 0
    width: int

    def shifted(self, rates: np.ndarray) -> np.ndarray:
        """y of rates [contacts, width]."""
        y = rates.copy()
        y[:, 0] += self.rough * lengths(rates[:, 1:])
        return y

    @once
    def all_rough(self) -> bool:
        return bool(self.rough.all())

    def matrix(self, slope: np.ndarray, rates: np.ndarray, proximal: float) -> np.ndarray:
        """F' + λ, where P has the derivative `slope` at each contact."""
        m, k, width = len(self.q), len(self.rough), self.width
        rows = k * width
        lift = np.empty((k, width, width))
        lift[:] = np.eye(width)
        lift[:, 0, 1:] = self.rough[:, None] * cones.unit(rates[:, 1:])
        matrix = np.empty((m, m))
        matrix[:rows] = ((self.rho * slope @ lift) @ self.W[:rows].reshape(k, width, m)).reshape(rows, m)
        matrix[rows:] = self.rho * self.W[rows:]
        every = np.arange(k)
        matrix[:rows, :rows].reshape(k, width, k, width)[every, :, every] += np.eye(width) - slope
        matrix.flat[:: m + 1] += proximal
        return matrix


def newton(
    problem: Dense,
    start: np.ndarray,
    proximal: float = PROXIMAL[0],
    patience: int = STEPS,
    enough: float = GOOD,
) -> Found:
    """Steps of (1) from `start`: the best impulses met, their certificate, and the number of steps. `patience` is how many may pass
    without a better one; below `enough` the first that does not halve the certificate is the last."""
    best, least = start, problem.residual(start)
    if least <= GOOD:
        return best, least, 0
    scaled = problem.stretched
    x = start * scaled.factor
    step = since = 0
    for step in range(1, STEPS + 1):
        try:
            x = x - _direction(scaled, x, proximal)
        except np.linalg.LinAlgError:
            break
        residual = problem.residual(x / scaled.factor)
        last = least <= enough and not residual < 0.5 * least
        if residual < least:
            best, least, since = x / scaled.factor, residual, step
        if last or least <= GOOD or not math.isfinite(residual) or step - since >= patience:
            break
    return best, least, step


def _direction(scaled: Stretched, x: np.ndarray, proximal: float) -> np.ndarray:
    """(F' + λ)⁻¹F at x."""
    k, width, rough = len(scaled.rough), scaled.width, scaled.rough
    edge = k * width
    z = scaled.W @ x + scaled.q
    rates, impulses = z[:edge].reshape(k, width), x[:edge].reshape(k, width)
    points = impulses - scaled.rho * scaled.shifted(rates)
    slope = cones.project_derivative(points)
    if not scaled.all_rough:
        flat = np.zeros((k, width, width))
        flat[:, 0, 0] = points[:, 0] > 0
        slope = np.where(rough[:, None, None], slope, flat)
    projected = cones.apply(slope, points)  # P is homogeneous: P(p) = P'(p) p
    F = np.concatenate([(impulses - projected).ravel(), scaled.rho * z[edge:]])
    return np.linalg.solve(scaled.matrix(slope, rates, proximal), F)
