"""Contact problems with Coulomb's friction, and the number that says how well they are solved.

    u = W r + q,      r ∈ K_μ,      ũ = u + μ|u_T| e_N ∈ K_μ*,      r · ũ = 0       for each contact               (2)
    E(r) = (‖r − P_K(r − ρ ũ)‖ + ε‖r‖) / (ρ ‖q‖),     ρ = rows / tr W,    ε = 2⁻⁵²                                  (3)

r are impulses and u velocities after, in rows (N, T…) contact by contact, K_μ = {|r_T| ≤ μ r_N}. Bilateral rows stand at the end:
u = 0, r free. W is given, or it is made of bodies, and then it is never formed when it is large:

    W = Hᵀ M⁻¹ H,      q = Hᵀ v_free + w,       v = v_free + M⁻¹ H r                                                  (4)
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from carom.numerics.friction.cones import norm, unit

RESTING = 1e-3  # an island with velocities smaller than this part of the usual is solved as exactly as one with this part


@dataclass(frozen=True, eq=False)
class FrictionProblem:
    """(2), with W given or made of bodies (4). `from_delassus` and `from_bodies` check what they are given."""

    q: np.ndarray  #                                [rows]      velocities without impulses
    friction: np.ndarray  #                         [contacts]  μ
    tangents: int = 2  #                            tangential rows of a contact: 2 in space, 1 in the plane, 0
    delassus: sparse.csr_matrix | None = None  #    [rows, rows]
    jacobian: sparse.csc_matrix | None = None  #    [coordinates, rows]: H
    mass: sparse.csr_matrix | None = None  #        [coordinates, coordinates], block-diagonal
    inverse_mass: sparse.csr_matrix | None = field(default=None, repr=False)
    least_size: float = 0.0  #                      ‖q‖ counts as at least this in E: an island may be at rest but for rounding

    @classmethod
    def from_delassus(cls, W, q, friction, *, tangents: int = 2) -> "FrictionProblem":
        """W dense or sparse, not necessarily symmetric. Rows that are left over after the contacts are bilateral."""
        matrix = sparse.csr_matrix(W, dtype=float)
        problem = cls(_vector(q), _vector(friction), tangents, delassus=matrix)
        if matrix.shape != (len(problem.q),) * 2:
            raise ValueError(f"W is {matrix.shape[0]} × {matrix.shape[1]}, but q has {len(problem.q)} rows")
        return problem._checked(matrix.data)

    @classmethod
    def from_bodies(cls, mass, H, v_free, friction, *, offset=0.0, tangents: int = 2, mass_is_inverse=False) -> "FrictionProblem":
        """`mass` as blocks [bodies, d, d], a diagonal, or a block-diagonal (sparse) matrix, or its inverse where `mass_is_inverse`
        says so; H is [coordinates, rows] and `offset` is w of (4)."""
        jacobian = sparse.csc_matrix(H, dtype=float)
        given = _block_diagonal(mass)
        if given.shape != (jacobian.shape[0],) * 2:
            raise ValueError(f"the mass has {given.shape[0]} coordinates, H has {jacobian.shape[0]}")
        M, inverse = (invert_blocks(given), given) if mass_is_inverse else (given, invert_blocks(given))
        q = jacobian.T @ _vector(v_free) + offset
        problem = cls(q, _vector(friction), tangents, jacobian=jacobian, mass=M, inverse_mass=inverse)
        return problem._checked(jacobian.data, given.data)

    def _checked(self, *data) -> "FrictionProblem":
        if self.contact_rows > len(self.q):
            raise ValueError(
                f"{len(self.friction)} contacts with {self.tangents} tangents need {self.contact_rows} rows, not {len(self.q)}"
            )
        if not all(np.all(np.isfinite(a)) for a in (self.q, self.friction, *data)):
            raise ValueError("the contact problem contains numbers that are not finite")
        if np.any(self.friction < 0):
            raise ValueError(f"friction of contact {int(np.argmin(self.friction))} is negative: {np.min(self.friction)}")
        return self

    @property
    def contact_rows(self) -> int:
        return len(self.friction) * (1 + self.tangents)

    @cached_property
    def step(self) -> float:
        """ρ of (3)."""
        trace = self.diagonal.sum()
        return len(self.q) / trace if trace > 0 else 1.0

    @cached_property
    def diagonal(self) -> np.ndarray:
        """Of W."""
        if self.delassus is not None:
            return self.delassus.diagonal()
        return np.asarray(self.jacobian.multiply(self.inverse_mass @ self.jacobian).sum(axis=0)).ravel()

    def velocities(self, r: np.ndarray) -> np.ndarray:
        """u = W r + q."""
        if self.delassus is not None:
            return self.delassus @ r + self.q
        return self.jacobian.T @ (self.inverse_mass @ (self.jacobian @ r)) + self.q

    def residual(self, r: np.ndarray) -> float:
        """The certificate E(r) of (3), from r alone."""
        if len(r) == 0:
            return 0.0
        return natural_residual(self.velocities(r), r, self.q, self.friction, self.tangents, self.step, self.least_size)

    def islands(self) -> list[np.ndarray]:
        """The rows of each connected part: contacts that share a moving body, directly or through others."""
        rows = len(self.q)
        blocks = len(self.friction)
        owner = np.r_[np.repeat(np.arange(blocks), 1 + self.tangents), np.arange(blocks, blocks + rows - self.contact_rows)]
        count = int(owner[-1]) + 1 if rows else 0
        member = sparse.csr_matrix((np.ones(rows), (owner, np.arange(rows))), (count, rows))
        if self.delassus is not None:
            pattern = _pattern(self.delassus)
        else:
            touched = _pattern(self.jacobian)
            pattern = touched.T @ (_pattern(self.inverse_mass) @ touched)
        number, label = connected_components(member @ pattern @ member.T, directed=False)
        order = np.argsort(label[owner], kind="stable")
        return np.split(order, np.cumsum(np.bincount(label[owner], minlength=number))[:-1]) if rows else []

    def part(self, rows: np.ndarray) -> "FrictionProblem":
        """The problem of some islands alone; coordinates that no row touches are left out."""
        contacts = rows[rows < self.contact_rows][:: 1 + self.tangents] // (1 + self.tangents)
        q, friction = self.q[rows], self.friction[contacts]
        size = max(self.least_size, RESTING * np.linalg.norm(self.q) * np.sqrt(len(rows) / len(self.q)))
        if self.delassus is not None:
            return FrictionProblem(q, friction, self.tangents, delassus=self.delassus[rows][:, rows], least_size=size)
        H = self.jacobian[:, rows]
        touched = np.zeros(H.shape[0])
        touched[H.indices] = 1.0
        live = np.flatnonzero(_pattern(self.mass) @ touched)
        inner = lambda A: A[live][:, live]  # noqa: E731
        M, inverse = inner(self.mass), inner(self.inverse_mass)
        return FrictionProblem(q, friction, self.tangents, None, H.tocsr()[live].tocsc(), M, inverse, size)


def natural_residual(
    u: np.ndarray, r: np.ndarray, q: np.ndarray, friction: np.ndarray, tangents: int, rho: float, least_size: float = 0.0
) -> float:
    """E of (3) from velocities u and impulses r; contacts first, then bilateral rows."""
    shape = (len(friction), 1 + tangents)
    edge = len(friction) * (1 + tangents)
    rows, rates = r[:edge].reshape(shape), u[:edge].reshape(shape).copy()
    rates[:, 0] += friction * norm(rates[:, 1:])
    change = rows - project_coulomb(rows - rho * rates, friction)
    total = np.hypot(np.linalg.norm(change), np.linalg.norm(rho * u[edge:]))
    # Impulses beyond 1/eps would swallow ρũ, and an impossible problem look solved.
    total += np.finfo(float).eps * np.linalg.norm(r)
    size = max(np.linalg.norm(q), least_size)
    if not np.isfinite(total):
        return np.inf
    return float(total / (rho * size)) if size > 0 else float(total > 0)


def project_coulomb(p: np.ndarray, friction: np.ndarray) -> np.ndarray:
    """The nearest points of K_μ, row by row."""
    height, length = p[:, 0], norm(p[:, 1:])
    normal = (height + friction * length) / (1 + friction**2)
    edge = np.concatenate([normal[:, None], (friction * normal)[:, None] * unit(p[:, 1:])], axis=1)
    inside, polar = length <= friction * height, friction * length <= -height
    return np.where(polar[:, None], 0.0, np.where(inside[:, None], p, edge))  # polar first: with μ = 0 both may hold below zero


def invert_blocks(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    """The inverse of a matrix that is block-diagonal, its rows in any order; blocks of one size are inverted together."""
    number, label = connected_components(_pattern(matrix), directed=False)
    sizes = np.bincount(label, minlength=number)
    order = np.argsort(label, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)])
    if number and sizes.max() > 500:
        raise ValueError(f"the mass has a block of {sizes.max()} coordinates: it must be block-diagonal, one small block per body")
    pieces = []
    for size in np.unique(sizes):
        members = order[starts[:-1][sizes == size][:, None] + np.arange(size)]
        rows, columns = np.broadcast_arrays(members[:, :, None], members[:, None, :])
        entries = np.asarray(matrix[rows.ravel(), columns.ravel()]).reshape(rows.shape)
        try:
            pieces.append((np.linalg.inv(entries).ravel(), rows.ravel(), columns.ravel()))
        except np.linalg.LinAlgError as error:
            raise ValueError("a body has a singular mass matrix") from error
    data, rows, columns = (np.concatenate(part) for part in zip(*pieces, strict=True))
    return sparse.csr_matrix((data, (rows, columns)), matrix.shape)


def _block_diagonal(mass) -> sparse.csr_matrix:
    if sparse.issparse(mass):
        return sparse.csr_matrix(mass, dtype=float)
    blocks = np.asarray(mass, dtype=float)
    if blocks.ndim == 1:
        return sparse.diags(blocks).tocsr()
    if blocks.ndim == 2:
        return sparse.csr_matrix(blocks)
    bodies, d, _ = blocks.shape
    return sparse.bsr_matrix((blocks, np.arange(bodies), np.arange(bodies + 1)), (bodies * d, bodies * d)).tocsr()


def _pattern(matrix):
    pattern = matrix.copy()
    pattern.data = (matrix.data != 0).astype(float)
    return pattern


def _vector(values) -> np.ndarray:
    return np.atleast_1d(np.asarray(values, dtype=float))
