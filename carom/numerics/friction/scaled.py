"""A contact problem in the variables in which μ disappears, and the linear systems of Newton's method in them.

    r = Γx,    Γ = s diag(1/μ, 1, 1),    Â = ΓWΓ,    z = Âx + Γq,    y = z + |z_T| e₀,    L ∋ x ⊥ y ∈ L                (5)

L is the Lorentz cone, s one number per contact that brings the diagonal of Â to one, and so takes masses out. Contacts with μ = 0
keep their normal row alone, L is a half-line there; bilateral rows have no cone. Every Newton step here is a system

    (C + EÂ) dx = b,                  C, E block-diagonal, one block per contact, C regular                           (6)

of which SuperLU factorises the sparse matrix, or, for bodies in large islands, the one of the size of the bodies:

    (M + HΓ C⁻¹E ΓHᵀ) dv = HΓ C⁻¹b,        dx = C⁻¹(b − E ΓHᵀ dv).                                                    (7)
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from carom.numerics.friction import cones
from carom.numerics.friction.in_bodies import Bodies, bodies_of
from carom.numerics.friction.problem import FrictionProblem

DENSE = 120  #           up to so many rows a dense factorisation is faster
FORMED = 2000  #         up to so many rows of an island Â is formed, also for bodies
FILLED = 60  #           entries of Â in a row, about, up to which it is formed for larger ones too
ROWS = 1.0  #            rows per coordinate of bodies, up to which Newton's systems are solved in rows and not in bodies
PIVOTS = 1e-3  #         relative to its column, in bodies: one off the diagonal costs fill (8 times the time), refinement little
REFINEMENTS = 2

Groups = list[np.ndarray]  #   what belongs to contacts with friction, to those without, and to bilateral rows, one array each


class Singular(ArithmeticError):
    """A factorisation failed."""


@dataclass(frozen=True, eq=False)
class Factors:
    """Of (6), whichever of (6) and (7) was factorised: C is positive, and so they have the same sign."""

    solve: Callable[[np.ndarray], np.ndarray]
    sign: Callable[[], float]  #  of the determinant


@dataclass(frozen=True, eq=False)
class Scaled:
    """(5), of an island."""

    problem: FrictionProblem
    rows: np.ndarray  #     which rows of the problem, in the order of the groups
    factor: np.ndarray  #   Γ
    size: float  #          of q: x is r over factor · size
    q: np.ndarray
    counts: tuple[int, int, int]  #  contacts with friction, without, bilateral rows
    matrix: sparse.csr_matrix | np.ndarray | None  #  Â
    H: sparse.csr_matrix | None  #                    HΓ, if Â is not formed
    in_blocks: bool = False  #                        Newton's systems are solved in bodies, block by block, where they have blocks

    @property
    def columns(self) -> int:
        return 1 + self.problem.tangents

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Âx."""
        if self.matrix is not None:
            return self.matrix @ x
        return self.H.T @ (self.problem.inverse_mass @ (self.H @ x))

    def rate(self, x: np.ndarray) -> np.ndarray:
        """z of (5)."""
        return self.apply(x) + self.q

    def split(self, x: np.ndarray) -> Groups:
        rough, smooth, _ = self.counts
        first, second = rough * self.columns, rough * self.columns + smooth
        return [x[:first].reshape(rough, self.columns), x[first:second, None], x[second:, None]]

    def impulses(self, x: np.ndarray) -> np.ndarray:
        r = np.zeros(len(self.problem.q))
        r[self.rows] = self.factor * self.size * x
        return r

    def unknowns(self, r: np.ndarray) -> np.ndarray:
        return r[self.rows] / (self.factor * self.size)

    def residual(self, x: np.ndarray) -> float:
        """The certificate of the unscaled problem."""
        return self.problem.residual(self.impulses(x)) if np.all(np.isfinite(x)) else np.inf

    def factorise(self, C: Groups, E: Groups | None) -> Factors:
        """For (6); E = None is the identity."""
        if isinstance(self.matrix, np.ndarray):
            approximate = _dense(diagonal(C).toarray() + (self.matrix if E is None else diagonal(E) @ self.matrix))
        elif E is None:
            approximate = self._solver(C, None, np.arange(len(self.q)))
        elif self.bodies is not None:
            approximate = self._in_bodies(C, E)
        else:
            approximate = self._of_acting(C, E)

        def product(dx):
            rates = self.apply(dx)
            return multiply(C, self.split(dx)) + (rates if E is None else multiply(E, self.split(rates)))

        return Factors(lambda b: _refined(approximate.solve, product, b), approximate.sign)

    def _of_acting(self, C: Groups, E: Groups) -> Factors:
        """Contacts that open, E = 0, are many in a pile: their dx is C⁻¹b, and the system that of the others."""
        acting = [np.any(block != 0, axis=(1, 2)) for block in E]
        mine = np.concatenate([np.repeat(some, block.shape[1]) for some, block in zip(acting, E, strict=True)])
        if mine.all():
            return self._solver(C, E, np.arange(len(mine)))
        rows, others = np.flatnonzero(mine), np.flatnonzero(~mine)
        only = lambda groups, which: [part[some] for part, some in zip(groups, which, strict=True)]  # noqa: E731
        opening = [~some for some in acting]
        open_inverse = _inverses(only(C, opening))
        inner = only(E, acting)
        factors = self._solver(only(C, acting), inner, rows)

        def backward(b):
            dx = np.zeros_like(b)
            dx[others] = multiply(open_inverse, only(self.split(b), opening))
            dx[rows] = factors.solve(b[rows] - multiply(inner, only(self.split(self.apply(dx)), acting)))
            return dx

        return Factors(backward, factors.sign)

    def _solver(self, C: Groups, E: Groups | None, rows: np.ndarray) -> Factors:
        """(6) for some rows: in them, or in bodies where those are fewer."""
        every = len(rows) == len(self.q)
        if self.matrix is not None and (E is None or self.H is None or len(rows) <= ROWS * self.H.shape[0]):
            A = self.matrix if every else self.matrix[rows][:, rows]
            return _sparse(diagonal(C) + (A if E is None else diagonal(E) @ A))
        H = self.H if every else self._by_rows[rows].T
        inverse = _inverses(C)
        both = inverse if E is None else [a @ b for a, b in zip(inverse, E, strict=True)]
        D = diagonal(both)
        factors = _sparse(self.problem.mass + H @ (D @ H.T), PIVOTS)  # (7)
        D_inverse = D if E is None else diagonal(inverse)

        def backward(b):
            start = D_inverse @ b
            return start - D @ (H.T @ factors.solve(H @ start))

        return Factors(backward, factors.sign)

    def _in_bodies(self, C: Groups, E: Groups) -> Factors:
        """(7), block by block: contacts that open, E = 0, have no share in the matrix."""
        inverse = _inverses(C)
        D = [a @ b for a, b in zip(inverse, E, strict=True)]
        known, factors = self.bodies.coordinates, _sparse(self.bodies.matrix(D), PIVOTS, "NATURAL")

        def backward(b):
            start = multiply(inverse, self.split(b))
            dv = np.empty(len(known))
            dv[known] = factors.solve((self.H @ start)[known])
            return start - multiply(D, self.split(self.H.T @ dv))

        return Factors(backward, factors.sign)

    @cached_property
    def bodies(self) -> Bodies | None:
        return None if self.H is None or not self.in_blocks else bodies_of(self.H, self.problem.mass, self.counts, self.columns)

    @cached_property
    def _by_rows(self) -> sparse.csr_matrix:
        return self.H.T.tocsr()


def scale_problem(problem: FrictionProblem, form: bool = True, in_blocks: bool = False) -> Scaled:
    """(5); of bodies Â is formed where that is not too large, if at all."""
    k, d, edge = len(problem.friction), 1 + problem.tangents, problem.contact_rows
    rough = np.flatnonzero((problem.friction > 0) & (d > 1))
    smooth = np.setdiff1d(np.arange(k), rough)
    rows = np.concatenate([(rough[:, None] * d + np.arange(d)).ravel(), smooth * d, np.arange(edge, len(problem.q))])
    shape = np.ones((len(rough), d))
    shape[:, 0] = 1 / problem.friction[rough]
    weight = problem.diagonal
    mean = np.mean(weight[:edge].reshape(k, d)[rough] * shape**2, axis=1)
    factor = np.concatenate([(shape * _inverse_root(mean)[:, None]).ravel(), _inverse_root(weight[rows[len(rough) * d :]])])
    q = factor * problem.q[rows]
    size = float(np.max(np.abs(q), initial=0.0)) or 1.0
    matrix = H = None
    G = sparse.diags(factor)
    if problem.delassus is not None:
        matrix = sparse.csr_matrix(G @ problem.delassus[rows][:, rows] @ G)
    else:
        H = sparse.csr_matrix(problem.jacobian[:, rows] @ G)
        if form and (len(rows) <= FORMED or _entries(H) <= FILLED * len(rows)):
            matrix = sparse.csr_matrix(H.T @ (problem.inverse_mass @ H))
    if form and matrix is not None and len(rows) <= DENSE:
        matrix = matrix.toarray()
    return Scaled(problem, rows, factor, size, q / size, (len(rough), len(smooth), len(problem.q) - edge), matrix, H, in_blocks)


def _entries(H: sparse.csr_matrix) -> float:
    """Of Â, about: rows that share a coordinate, where a body has six of them."""
    return float(np.sum(np.diff(H.indptr).astype(float) ** 2)) / 6


def _inverse_root(diagonal: np.ndarray) -> np.ndarray:
    return 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))


def join(groups: Groups) -> np.ndarray:
    return np.concatenate([group.ravel() for group in groups])


def multiply(blocks: Groups, x: Groups) -> np.ndarray:
    return join([cones.apply(a, b) for a, b in zip(blocks, x, strict=True)])


def _inverses(blocks: Groups) -> Groups:
    try:
        return [np.linalg.inv(block) for block in blocks]
    except np.linalg.LinAlgError as error:
        raise Singular from error


def diagonal(blocks: Groups) -> sparse.csr_matrix:
    """One sparse matrix of all blocks."""
    data, indices, start, width = [], [], 0, []
    for block in blocks:
        count, d, _ = block.shape
        data.append(block.ravel())
        index = start + np.arange(count * d).reshape(count, 1, d)
        indices.append(np.broadcast_to(index, (count, d, d)).ravel())
        width.append(np.full(count * d, d))
        start += count * d
    ends = np.concatenate([[0], np.cumsum(np.concatenate(width))])
    return sparse.csr_matrix((np.concatenate(data), np.concatenate(indices), ends), (start, start))


def _dense(matrix: np.ndarray) -> Factors:
    lu, pivots, info = linalg.lapack.dgetrf(matrix, overwrite_a=True)
    if info != 0 or not np.all(np.isfinite(lu)):
        raise Singular
    exchanges = np.count_nonzero(pivots != np.arange(len(pivots)))
    sign = lambda: _sign(np.diag(lu), exchanges)  # noqa: E731
    return Factors(lambda b: linalg.lapack.dgetrs(lu, pivots, b)[0], sign)


def _sparse(matrix, pivots: float = 0.1, order: str = "MMD_AT_PLUS_A") -> Factors:
    """Pivots stay on the diagonal unless they are small: the pattern is symmetric and its order is chosen for that."""
    try:
        factors = splu(matrix.tocsc(), permc_spec=order, diag_pivot_thresh=pivots, options={"SymmetricMode": True})
    except RuntimeError as error:
        raise Singular from error
    sign = lambda: _sign(factors.U.diagonal(), _exchanges(factors.perm_r) + _exchanges(factors.perm_c))  # noqa: E731
    return Factors(factors.solve, sign)


def _sign(diagonal_of_U: np.ndarray, exchanges: int) -> float:
    """Of a determinant, from its factors."""
    return -1.0 if (np.count_nonzero(diagonal_of_U < 0) + exchanges) % 2 else 1.0


def _exchanges(order: np.ndarray) -> int:
    """Of two, that make this permutation."""
    n = len(order)
    return n - connected_components(sparse.csr_matrix((np.ones(n), (np.arange(n), order)), (n, n)), directed=False)[0]


def _refined(approximate, product, b):
    """The solution, its residual solved for again while that makes it smaller."""
    x = approximate(b)
    rest = b - product(x)
    size = np.linalg.norm(rest)
    for _ in range(REFINEMENTS):
        if size <= 1e-15 * np.linalg.norm(b):
            break
        better = x + approximate(rest)
        rest = b - product(better)
        new = np.linalg.norm(rest)
        if not new < 0.5 * size:
            return better if new < size else x
        x, size = better, new
    if not np.all(np.isfinite(x)):
        raise Singular
    return x
