"""Small contact problems that Newton's method goes round in circles on: a path through the inside of the cones, in dense matrices.

The iteration is that of `carom.numerics.friction.interior`, with its numbers (8) and (9); here it is written for a few dozen
contacts, where the sparse matrices of that one cost ten times what their entries do. The path comes near to a solution from
anywhere, and Θ² makes its matrix regular where bodies touch at more points than they need; it does not end in one, since contacts
that neither carry nor open keep both of their sides small. Newton's method, and contacts that give way one at a time, do that from
points of the path.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from carom.bodies.dense_newton import Dense, Found, newton
from carom.bodies.pivoting import pivot
from carom.bodies.quaternions import lengths

HEIGHTS = (1.0, 0.1)  #  how far above the vertices of the cones paths begin
LONGEST = 60  #          steps of a path
NEAR = 1e-3  #           the certificate from which Newton's method is tried, and again when it has become a hundredth
NEARER = 1e-5  #         the same for a few pivots
NEWTON_STEPS = 2  #      without progress
PIVOTS = 12
VAIN = 8  #              steps that do not improve the certificate
SHORT, CENTRED = 0.1, 0.8  #   below this length of a step one towards the middle is tried, with this σ
STALLED, STALLS = 1e-3, 3  #   a step shorter than this moves nothing; so many in a row are the end
NEAREST = 1e-6  #        of the way to the boundary of the cones is always left
FREE = 1e-12  #          on the diagonal of bilateral rows, where W may be singular
ROUNDING = 1e-16


@dataclass(frozen=True)
class Cones:
    """The problem in x of (5) there: contacts with friction, contacts without, and bilateral rows, in this order."""

    A: np.ndarray  #        [rows, rows]
    q: np.ndarray  #        [rows]
    factor: np.ndarray  #   [rows]  r = factor · x
    rows: np.ndarray  #     [rows]  which rows of the problem; tangents of contacts without friction are none
    kinds: tuple[tuple[slice, int], ...]  # the rows of contacts with friction and without, and how many each has
    contacts: int

    @classmethod
    def of(cls, problem: Dense) -> "Cones":
        width, edge = 1 + problem.tangents, problem.contact_rows
        rubs = (problem.friction > 0) & (width > 1)
        rough, smooth = rubs.nonzero()[0], (~rubs).nonzero()[0]
        rows = np.concatenate(
            [(rough[:, None] * width + np.arange(width)).ravel(), smooth * width, np.arange(edge, len(problem.q))]
        )
        W, between = problem.W[rows[:, None], rows], len(rough) * width
        shape = np.ones(len(rows))
        shape[:between:width] = 1 / problem.friction[rough]
        weight = np.diagonal(W) * shape**2
        weight[:between] = np.repeat(weight[:between].reshape(-1, width).mean(axis=1), width)
        factor = shape / np.sqrt(np.where(weight > 0, weight, 1.0))
        q = factor * problem.q[rows]
        size = float(np.abs(q).max(initial=0.0)) or 1.0
        kinds = ((slice(0, between), width), (slice(between, between + len(smooth)), 1))
        kinds = tuple(kind for kind in kinds if kind[0].stop > kind[0].start)
        return cls(W * factor[:, None] * factor, q / size, size * factor, rows, kinds, max(len(problem.friction), 1))

    def impulses(self, x: np.ndarray, count: int) -> np.ndarray:
        r = np.zeros(count)
        r[self.rows] = self.factor * x
        return r

    def centre(self, height: float) -> np.ndarray:
        x = np.zeros(len(self.q))
        for mine, width in self.kinds:
            x[mine][::width] = height
        return x


def solve_inside(problem: Dense, height: float, goal: float) -> Found:
    """Along a path that begins at so much height: the best impulses met, their certificate, and the number of steps."""
    cones = Cones.of(problem)
    best, least, taken, since, near = np.zeros(len(problem.q)), math.inf, 0, 0, NEAR
    with np.errstate(all="ignore"):  # a path that breaks down ends in a certificate that is not met
        for x in _path(cones, cones.centre(height)):
            r = cones.impulses(x, len(problem.q))
            residual = problem.residual(r)
            taken, since = taken + 1, since + 1
            if residual < least:
                best, least, since = r, residual, 0
            if residual <= near:
                near = 1e-2 * residual
                end, reached, steps = _finish(problem, r, residual, goal)
                taken += steps
                if reached < least:
                    best, least = end, reached
            if least <= goal or since > VAIN:
                break
    return best, least, taken


def _finish(problem: Dense, r: np.ndarray, residual: float, goal: float) -> Found:
    """From a point of the path to a solution, if it is near enough."""
    end, reached, taken = newton(problem, r, patience=NEWTON_STEPS, enough=goal)
    if reached <= goal or residual > NEARER:
        return end, reached, taken
    end, reached, pivots = pivot(problem, end, goal, PIVOTS)
    return end, reached, taken + pivots


@dataclass(frozen=True)
class _Scaled:
    """Contacts of one kind at a point of the path: x, y, and Nesterov and Todd's scaling (1) of `carom.numerics.friction.cones`."""

    mine: slice
    x: np.ndarray  #        [k, d]
    y: np.ndarray  #        [k, d]
    theta: np.ndarray  #    [k, d, d]
    inverse: np.ndarray
    squared: np.ndarray  #  Θ²
    point: np.ndarray  #    λ
    along: np.ndarray  #    [k, d − 1]  t of (8)

    @classmethod
    def of(cls, mine: slice, x: np.ndarray, y: np.ndarray) -> "_Scaled":
        sliding = lengths(y[:, 1:])
        det_x, det_y = _determinant(x), _determinant(y)
        mirror = np.full(x.shape[1], -1.0)
        mirror[0] = 1.0
        J, ratio = np.diag(mirror), np.sqrt(det_x / det_y)[:, None, None]
        x_bar, y_bar = x / np.sqrt(det_x)[:, None], y / np.sqrt(det_y)[:, None]
        w = (x_bar + y_bar * mirror) / np.sqrt(2 * (1 + np.vecdot(x_bar, y_bar)))[:, None]
        v = w.copy()
        v[:, 0] += 1.0
        v /= np.sqrt(2 * v[:, :1])
        outer = lambda a: (2 * a)[:, :, None] * a[:, None, :] - J  # noqa: E731
        theta, root = outer(v * mirror), np.sqrt(ratio)
        theta, inverse, squared = theta / root, outer(v) * root, outer(w * mirror) / ratio
        along = y[:, 1:] / np.where(sliding > 0, sliding, 1.0)[:, None]
        return cls(mine, x, y, theta, inverse, squared, _times(theta, x), along)

    def rows(self, values: np.ndarray) -> np.ndarray:
        return values[self.mine].reshape(self.x.shape)

    def sheared(self, values: np.ndarray) -> np.ndarray:
        """S times rows or blocks [k, d, …]."""
        if self.x.shape[1] == 1:
            return values
        changed, tail = values.copy(), values[:, 1:]
        changed[:, 0] -= np.vecdot(self.along, tail) if values.ndim == 2 else _times(tail.swapaxes(1, 2), self.along)
        return changed

    def target(self, gap: float, step: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
        """c of (9), with the second order of a step that is known."""
        aim = -_product(self.point, self.point)
        if step is not None:
            aim -= _product(_times(self.theta, self.rows(step[0])), _times(self.inverse, self.rows(step[1])))
        aim[:, 0] += gap
        return _quotient(self.point, aim)

    def reach(self, dx: np.ndarray, dy: np.ndarray) -> float:
        return min(_longest(self.x, self.rows(dx)), _longest(self.y, self.rows(dy)))


def _path(cones: Cones, x: np.ndarray) -> Iterator[np.ndarray]:
    """The points x of the path from x = y, until it stalls."""
    y, stalls = x.copy(), 0
    for _ in range(LONGEST):
        dx, dy, share = _step(cones, x, y)
        stalls = 0 if share > STALLED else stalls + 1
        if stalls > STALLS or not math.isfinite(share):
            return
        x, y = x + share * dx, y + share * dy
        yield x


def _step(cones: Cones, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The predictor, the corrector, and how far to go along it; a share that is not a number where there is no step."""
    tau = float(x @ y) / cones.contacts
    parts = [_Scaled.of(mine, x[mine].reshape(-1, d), y[mine].reshape(-1, d)) for mine, d in cones.kinds]
    defect, matrix = cones.A @ x + cones.q - y, cones.A.copy()
    edge = max((part.mine.stop for part in parts), default=0)
    matrix.flat[edge * (len(x) + 1) :: len(x) + 1] += FREE
    for part in parts:
        k, d = part.x.shape
        defect[part.mine][::d] += lengths(part.y[:, 1:])  # (8)
        every = np.arange(k)
        matrix[part.mine, part.mine].reshape(k, d, k, d)[every, :, every] += part.sheared(part.squared)
    factors, pivots, failed = lapack.dgetrf(matrix, overwrite_a=True)
    if failed:
        return x, y, math.nan

    def direction(gap: float, step: tuple[np.ndarray, np.ndarray] | None, plain: bool = False):  # (9)
        right, dy = -defect, np.zeros(len(x))
        pushed = [_times(part.theta, -part.point if plain else part.target(gap, step)) for part in parts]
        for part, push in zip(parts, pushed, strict=True):
            right[part.mine] += part.sheared(push).ravel()
        dx = lapack.dgetrs(factors, pivots, right)[0]
        for part, push in zip(parts, pushed, strict=True):
            dy[part.mine] = (push - _times(part.squared, part.rows(dx))).ravel()
        return dx, dy, min((part.reach(dx, dy) for part in parts), default=math.inf)

    dx, dy, most = direction(0.0, None, plain=True)
    share = min(1.0, most)
    ahead = max(float((x + share * dx) @ (y + share * dy)) / cones.contacts, 0.0)
    sigma = max((ahead / tau) ** 3 if tau > 0 else 0.0, (1 - share) ** 3, 1e-6)
    fraction = min(max(0.99, 1 - tau), 1 - NEAREST)
    dx, dy, most = direction(sigma * tau, (dx, dy))
    if fraction * most < SHORT:  # too near to the boundary: back to the middle
        middle = direction(CENTRED * tau, None)
        if middle[2] > most:
            dx, dy, most = middle
    return dx, dy, min(1.0, fraction * most)


def _times(blocks: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.matmul(blocks, x[:, :, None])[:, :, 0]


def _determinant(x: np.ndarray) -> np.ndarray:
    """x₀² − |x_T|² of points inside; rounding near the boundary does not make it negative."""
    length = lengths(x[:, 1:])
    return np.maximum(x[:, 0] - length, ROUNDING * x[:, 0]) * (x[:, 0] + length)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a ∘ b = (a·b, a₀b_T + b₀a_T)."""
    product = a[:, :1] * b + b[:, :1] * a
    product[:, 0] = np.vecdot(a, b)
    return product


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The x with a ∘ x = b."""
    head = (a[:, 0] * b[:, 0] - np.vecdot(a[:, 1:], b[:, 1:])) / _determinant(a)
    quotient = (b - head[:, None] * a) / a[:, :1]
    quotient[:, 0] = head
    return quotient


def _longest(x: np.ndarray, dx: np.ndarray) -> float:
    """The largest α with x + α dx in the cone (∞ if there is none), for x inside."""
    root = np.sqrt(_determinant(x))
    bar = x / root[:, None]
    inner = bar[:, 0] * dx[:, 0] - np.vecdot(bar[:, 1:], dx[:, 1:])
    tail = dx[:, 1:] - ((inner + dx[:, 0]) / (bar[:, 0] + 1))[:, None] * bar[:, 1:]
    shrink = float(((lengths(tail) - inner) / root).max())
    return math.inf if shrink <= 0 else 1 / shrink
