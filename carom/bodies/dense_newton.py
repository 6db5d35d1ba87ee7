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
from functools import cache, lru_cache

import numpy as np
from scipy.linalg import lapack

from carom.bodies.compiled import by_loops
from carom.bodies.once import once
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
WORTH = 12  #        rows of open contacts, from which leaving them out of the matrix is quicker than solving for them
NOTHING = 1e-200  #  a length that is none, beside which no other is changed
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
    weight: float = 1.0  #             of ρ in (1)

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
    def surfaces(self) -> "Surfaces":
        return _surfaces(self.friction.tobytes(), self.tangents, len(self.q))

    @once
    def stretched(self) -> "Stretched":
        """In x, with what (1) needs."""
        factor = self.surfaces.factor
        trace = float(self.W.diagonal().dot(self.surfaces.shrinks))
        rho = self.weight * (len(factor) / max(trace, 1e-300))
        return Stretched(self.W, self.q / factor, factor, rho, self.surfaces.rough, 1 + self.tangents)

    def weighted(self, weight: float) -> "Dense":
        """The same problem, with another ρ in (1); the certificate does not change."""
        return replace(self, weight=weight)

    def rounding(self, r: np.ndarray) -> float:
        """What the last bits of impulses are in E: half an ε of each moves u by ½ε|W||r|. Where a body lies under one a million
        times heavier its impulses are a million times what its own motion needs, and no numbers have a smaller E. Nor have they
        one that is smaller than those of q, where joints in excess of what is needed say the same but for rounding."""
        moved = HALF_BIT * float(np.linalg.norm(np.abs(self.W) @ np.abs(r))) + self.blur()
        return min(moved / self.size, BLURRED) if self.size > 0 else 0.0

    def rates(self, r: np.ndarray) -> np.ndarray:
        return self.W.dot(r) + self.q

    def residual(self, r: np.ndarray) -> float:
        return self.judged(r, self.rates(r))

    def judged(self, r: np.ndarray, u: np.ndarray) -> float:
        """The certificate E of `carom.numerics.friction.problem`, in few calls: most steps ask nothing else. u belongs to r."""
        rho, size, edge = self.rho, self.size, self.contact_rows
        total = 0.0
        if edge < len(u):
            total = rho * rho * float(u[edge:].dot(u[edge:]))
        if edge:
            surfaces, shape = self.surfaces, (len(self.friction), 1 + self.tangents)
            rows, rates = r[:edge].reshape(shape), u[:edge].reshape(shape)
            p = rows - rho * rates
            p[:, 0] -= rho * (surfaces.mu * across(rates))
            change = (rows - surfaces.project(p)).ravel()
            total += float(change.dot(change))
        total = math.sqrt(total)
        if not math.isfinite(total):
            return math.inf
        if size == 0:
            return float(total > 0)
        swallowed = (
            2 * HALF_BIT * math.sqrt(float(r.dot(r))) / (rho * size)
        )  # what impulses without end hide: nothing is solved then
        return total / (rho * size) + (swallowed if swallowed > BLURRED else 0.0)


def across(rows: np.ndarray) -> np.ndarray:
    """The lengths of the tangential parts of rows [contacts, 1 + tangents]."""
    if rows.shape[1] == 3:
        return np.hypot(rows[:, 1], rows[:, 2])
    return np.abs(rows[:, 1]) if rows.shape[1] == 2 else np.zeros(len(rows))


@dataclass(frozen=True)
class Surfaces:
    """What depends on friction alone, and is the same in most steps."""

    mu: np.ndarray  #       [contacts]
    share: np.ndarray  #    [contacts]  1 / (1 + μ²)
    rough: np.ndarray  #    [contacts]  μ > 0
    factor: np.ndarray  #   [rows]      x = factor · r
    shrinks: np.ndarray  #  [rows]      1 / factor²
    scale: np.ndarray  #    [contacts]  factor of the normals
    all_rough: bool

    def project(self, p: np.ndarray) -> np.ndarray:
        """The nearest points of K_μ, written into p. With N = (p_N + μ|p_T|)⁺/(1 + μ²), where the way to the surface ends, they are
        (max(p_N, N), min(1, μN/|p_T|) p_T): N is the larger one, and the share the smaller, just outside the cone."""
        height, length = p[:, 0], across(p)
        normal = np.maximum((height + self.mu * length) * self.share, 0.0)
        p[:, 1:] *= np.minimum(self.mu * normal / (length + NOTHING), 1.0)[:, None]
        np.maximum(height, normal, out=height)
        return p


@lru_cache(maxsize=64)
def _surfaces(friction: bytes, tangents: int, rows: int) -> Surfaces:
    mu = np.frombuffer(friction)
    rough, factor = mu > 0, np.ones(rows)
    scale = np.where(rough, mu, 1.0)
    factor[: len(mu) * (1 + tangents) : 1 + tangents] = scale
    return Surfaces(mu, 1 / (1 + mu * mu), rough, factor, 1 / factor**2, scale, bool(rough.all()))


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

    given: np.ndarray  #   [rows, rows]  of the impulses themselves
    q: np.ndarray
    factor: np.ndarray  #  r = x / factor
    rho: float
    rough: np.ndarray  #   [contacts]  μ > 0
    width: int

    @once
    def W(self) -> np.ndarray:
        return self.given / self.factor[:, None] / self.factor

    def shifted(self, rates: np.ndarray) -> np.ndarray:
        """y of rates [contacts, width]."""
        y = rates.copy()
        y[:, 0] += self.rough * across(rates)
        return y

    @once
    def all_rough(self) -> bool:
        return bool(self.rough.all())

    def matrix(self, slope: np.ndarray, rates: np.ndarray, proximal: float) -> np.ndarray:
        """F' + λ, where P has the derivative `slope` at each contact."""
        lift = lifted(slope, self.rough[:, None] * cones.unit(rates[:, 1:]))
        return jacobian(self.W, self.rho * lift, (1 + proximal) * identity(self.width) - slope, self.rho, proximal)


def lifted(slope: np.ndarray, along: np.ndarray) -> np.ndarray:
    """P' times the derivative of y by the rates, which adds t of y_N = u_N + |u_T| in the first row."""
    lift = slope.copy()
    lift[:, :, 1:] += slope[:, :, :1] * along[:, None]
    return lift


def jacobian(W: np.ndarray, lift: np.ndarray, blocks: np.ndarray, rho: float, proximal: float) -> np.ndarray:
    """[m, m] lift · W in the rows of contacts, with blocks on the diagonal, and ρW + λ in the others."""
    m, (k, width) = len(W), lift.shape[:2]
    rows = k * width
    if rows == m:
        matrix = (lift @ W.reshape(k, width, m)).reshape(m, m)
    else:
        matrix = np.empty((m, m))
        matrix[:rows] = (lift @ W[:rows].reshape(k, width, m)).reshape(rows, m)
        matrix[rows:] = rho * W[rows:]
        matrix.reshape(-1)[rows * (m + 1) :: m + 1] += proximal
    if k:
        one = matrix.itemsize  # blocks begin every width · (m + 1) numbers
        np.ndarray((k, width, width), buffer=matrix, strides=(one * width * (m + 1), one * m, one))[...] += blocks
    return matrix


def solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """matrix⁻¹ right; LAPACK called by its name costs a third of what numpy's own function does for a dozen rows."""
    _, _, x, failed = lapack.dgesv(matrix, right)
    if failed:
        raise np.linalg.LinAlgError("singular")
    return x


@cache
def identity(width: int) -> np.ndarray:
    return np.eye(width)


def newton(
    problem: Dense,
    start: np.ndarray,
    proximal: float = PROXIMAL[0],
    patience: int = STEPS,
    enough: float = GOOD,
) -> Found:
    """Steps of (1) from `start`: the best impulses met, their certificate, and the number of steps. `patience` is how many may pass
    without a better one; below `enough` the first that does not halve the certificate is the last."""
    return newton_from(problem, start, proximal, patience, enough, STEPS, (GOOD, 2 * HALF_BIT, BLURRED))


@by_loops("newton_loops")
def newton_from(
    problem: Dense, start: np.ndarray, proximal: float, patience: int, enough: float, most: int, limits: tuple[float, ...]
) -> Found:
    """The same, at most so many steps, by arrays or by compiled loops; the limits are GOOD and those of `judged`."""
    u, good = problem.rates(start), limits[0]
    best, least = start, problem.judged(start, u)
    if least <= good:
        return best, least, 0
    r, step, since = start, 0, 0
    for step in range(1, most + 1):
        try:
            r = r - _direction(problem, r, u, proximal)
        except np.linalg.LinAlgError:
            break
        u = problem.rates(r)
        residual = problem.judged(r, u)
        last = least <= enough and not residual < 0.5 * least
        if residual < least:
            best, least, since = r, residual, step
        if last or least <= good or not math.isfinite(residual) or step - since >= patience:
            break
    return best, least, step


def _direction(problem: Dense, r: np.ndarray, u: np.ndarray, proximal: float) -> np.ndarray:
    """(F' + λ)⁻¹F at x, as a change of r; u are the rates of r.

    With D the factors, x = Dr and W of x is D⁻¹WD⁻¹, so F' dx = (lift D⁻¹ W + (1 − P') D) dr: W is used as it is.
    """
    surfaces, width, rho = problem.surfaces, 1 + problem.tangents, problem.stretched.rho
    k, edge = len(surfaces.mu), problem.contact_rows
    x, z = surfaces.factor * r, u / surfaces.factor
    impulses, rates = x[:edge].reshape(k, width), z[:edge].reshape(k, width)
    sliding = across(rates)
    points = impulses - rho * rates
    points[:, 0] -= rho * (surfaces.rough * sliding)
    slope, opens = _slopes(points, surfaces)
    wrong = impulses - np.matmul(slope, points[:, :, None])[:, :, 0]  # P is homogeneous: P(p) = P'(p) p
    F = np.concatenate([wrong.ravel(), rho * z[edge:]]) if edge < len(x) else wrong.ravel()
    lift = rho * lifted(slope, rates[:, 1:] * (surfaces.rough / (sliding + NOTHING))[:, None])
    lift[:, :, 0] /= surfaces.scale[:, None]
    blocks = (1 + proximal) * identity(width) - slope
    blocks[:, :, 0] *= surfaces.scale[:, None]
    if width * np.count_nonzero(opens) < WORTH:
        return solved(jacobian(problem.W, lift, blocks, rho, proximal), F)
    return _among_closed(problem, r, F, lift, blocks, opens, proximal)


def _slopes(p: np.ndarray, surfaces: Surfaces) -> tuple[np.ndarray, np.ndarray]:
    """P' at p, blocks [contacts, width, width], as `cones.project_derivative`; and which of them are zero.

    With a = ½(f₊ + f₋), b = ½(f₊ − f₋), f± one where p_N ± |p_T| is positive and zero elsewhere, and c = (1 + p_N/|p_T|)/2 within
    [0, 1], it is a in the corner, bn beside it, and c + (a − c) n nᵀ across.
    """
    width, height, length = p.shape[1], p[:, 0], across(p)
    inside = length <= height
    opens = (length <= -height) > inside
    length = length + NOTHING
    a, n = 0.5 * (1.0 + inside - opens), p[:, 1:] / length[:, None]
    c = np.minimum(np.maximum(0.5 + 0.5 * height / length, inside), 1.0)
    slope = np.empty((len(p), width, width))
    slope[:, 0, 0] = a
    slope[:, 0, 1:] = slope[:, 1:, 0] = (0.5 * (inside == opens))[:, None] * n
    slope[:, 1:, 1:] = ((a - c)[:, None] * n)[:, :, None] * n[:, None, :]
    for j in range(1, width):
        slope[:, j, j] += c
    if not surfaces.all_rough:  # the normal row is all there is
        smooth = ~surfaces.rough
        slope[smooth] = 0.0
        slope[smooth, 0, 0] = height[smooth] > 0
        opens[smooth] = height[smooth] <= 0
    return slope, opens


def _among_closed(problem: Dense, r, F, lift, blocks, opens: np.ndarray, proximal: float) -> np.ndarray:
    """The same, where contacts that are open (P' = 0: (1 + λ) dr = r, by themselves) are left out of the matrix."""
    width, edge, rho = 1 + problem.tangents, problem.contact_rows, problem.stretched.rho
    kept = (~opens).nonzero()[0]
    closed = np.ones(len(r), bool)
    closed[:edge] = np.repeat(~opens, width)
    rows, change = closed.nonzero()[0], np.where(closed, 0.0, r / (1 + proximal))
    lift, edge = lift.take(kept, 0), len(kept) * width
    right = F.take(rows)
    if np.count_nonzero(change):
        pushed = problem.W.dot(change).take(rows)
        right[:edge] -= np.matmul(lift, pushed[:edge].reshape(-1, width, 1)).ravel()
        right[edge:] -= rho * pushed[edge:]
    if len(rows):
        part = problem.W.take(rows, 0).take(rows, 1)
        change[rows] = solved(jacobian(part, lift, blocks.take(kept, 0), rho, proximal), right)
    return change
