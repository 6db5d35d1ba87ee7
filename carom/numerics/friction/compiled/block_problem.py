"""The contact problem of bodies in blocks, in the variables without μ.

    r = Γx,    Γ = s diag(1/μ, 1, 1),    Â = ΓHᵀM⁻¹HΓ + γΓ²,    z = Âx + Γq                                              (5)

as in `carom.numerics.friction.scaled`, with G = M^(−½) HΓ, so that Â = GᵀG but for γ, what gives way in a row. A *unit* is a
contact with its rows, or one bilateral row; of its rows a unit without friction, or a bilateral one, has the first.
"""

from dataclasses import dataclass

import numpy as np

from carom.numerics.friction.problem import FrictionProblem

ROUGH, SMOOTH, BILATERAL = 0, 1, 2


@dataclass(frozen=True, eq=False)
class BlockProblem:
    """(5); made by `in_blocks`."""

    G: np.ndarray  #         [units, w, 2 d]  of the first and the second body
    pair: np.ndarray  #      [units, 2]       their numbers; `bodies` where there is none
    bodies: int
    kind: np.ndarray  #      [units]
    q: np.ndarray  #         [units, w]       Γq over size
    factor: np.ndarray  #    [units, w]       Γ
    friction: np.ndarray  #  [units]          μ, zero but for rough ones
    soft: np.ndarray  #      [units]          γΓ², of the first row
    rho: float  #            ρ of the certificate (3)
    norm: float  #           ‖q‖ of (3) over size
    size: float  #           x is r over factor · size
    contacts: int

    @property
    def dims(self) -> tuple[tuple, tuple]:
        """Coordinates of a body and rows of a contact, as the lengths of tuples."""
        return (0,) * (self.G.shape[2] // 2), (0,) * self.G.shape[1]

    def unknowns(self, r: np.ndarray) -> np.ndarray:
        """x [units, w] of impulses [rows]."""
        return self._units(r) / (self.factor * self.size)

    def impulses(self, x: np.ndarray) -> np.ndarray:
        r = self.factor * self.size * x
        return np.concatenate([r[: self.contacts].ravel(), r[self.contacts :, 0]])

    def _units(self, values: np.ndarray) -> np.ndarray:
        return as_units(values, self.contacts, self.G.shape[1])


def as_units(values: np.ndarray, contacts: int, width: int) -> np.ndarray:
    """[rows] as [units, w], zero where a unit has no row."""
    edge = contacts * width
    units = np.zeros((contacts + len(values) - edge, width))
    units[:contacts] = values[:edge].reshape(contacts, width)
    units[contacts:, 0] = values[edge:]
    return units


def in_blocks(
    rows: tuple[np.ndarray, np.ndarray],
    pair: np.ndarray,
    inverse_mass: np.ndarray,
    q: np.ndarray,
    friction: np.ndarray,
    width: int,
    soft: np.ndarray | None = None,
    least: float = 0.0,
) -> BlockProblem:
    """`rows`: Hᵀ of the first and of the second body of each row [r, d]; `pair` [r, 2] their numbers, as many as there are bodies
    where there is none; `inverse_mass` [bodies, d, d]; `width`: rows of a contact; `soft`: what gives way [r]; `least`: ‖q‖ counts
    as at least this."""
    n, d = inverse_mass.shape[:2]
    contacts, edge = len(friction), len(friction) * width
    root = np.concatenate([np.linalg.cholesky(inverse_mass), np.zeros((1, d, d))])  # M⁻¹ = root rootᵀ
    half = [(part[:, None] @ root[pair[:, k]])[:, 0] for k, part in enumerate(rows)]
    weight = np.vecdot(half[0], half[0]) + np.vecdot(half[1], half[1]) + (0.0 if soft is None else soft)
    kind = np.full(contacts + len(q) - edge, BILATERAL)
    kind[:contacts] = np.where((friction > 0) & (width > 1), ROUGH, SMOOTH)
    rough = kind[:contacts] == ROUGH
    shape = np.ones((contacts, width))
    shape[rough, 0] = 1 / friction[rough]
    scale = np.where(rough, np.mean(weight[:edge].reshape(contacts, width) * shape**2, axis=1), weight[:edge:width])
    units = lambda values: as_units(values, contacts, width)  # noqa: E731
    factor = np.ones((len(kind), width))
    factor[:contacts] = shape * _inverse_root(scale)[:, None]
    factor[contacts:, 0] = _inverse_root(weight[edge:])
    present = np.ones((len(kind), width), bool)  # rows that a unit has
    present[kind != ROUGH, 1:] = False
    scaled = np.where(present, factor * units(q), 0.0)
    size = float(np.max(np.abs(scaled), initial=0.0)) or 1.0
    G = np.stack([np.stack([units(column) for column in part.T], axis=-1) for part in half], axis=2)  # [units, w, 2, d]
    G *= np.where(present, factor, 0.0)[:, :, None, None]
    trace = float(weight.sum())
    norm = max(float(np.linalg.norm(q)), least) / size
    return BlockProblem(
        G=np.ascontiguousarray(G.reshape(len(kind), width, 2 * d)),
        pair=np.concatenate([pair[:edge:width], pair[edge:]]).astype(np.int64),
        bodies=n,
        kind=kind,
        q=scaled / size,
        factor=factor,
        friction=np.where(kind == ROUGH, np.concatenate([friction, np.zeros(len(kind) - contacts)]), 0.0),
        soft=np.zeros(len(kind)) if soft is None else units(soft)[:, 0] * factor[:, 0] ** 2,
        rho=len(q) / trace if trace > 0 else 1.0,
        norm=norm,
        size=size,
        contacts=contacts,
    )


def _inverse_root(diagonal: np.ndarray) -> np.ndarray:
    return 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))


def blocks_of(problem: FrictionProblem) -> BlockProblem:
    """The blocks of a problem of bodies, each with as many coordinates as the first and each row with two bodies at most."""
    mass, H = problem.inverse_mass, problem.jacobian
    d = int(mass.indptr[1]) if mass is not None and mass.shape[0] else 0
    if d == 0 or mass.shape[0] % d or mass.nnz != mass.shape[0] * d:
        raise ValueError("the problem has no bodies with as many coordinates each: W alone was given, or something gives way")
    n, entries = mass.shape[0] // d, H.T.tocoo()
    body = entries.col // d
    first, last = np.full(len(problem.q), n), np.full(len(problem.q), -1)
    np.minimum.at(first, entries.row, body)
    np.maximum.at(last, entries.row, body)
    if np.any((body != first[entries.row]) & (body != last[entries.row])):
        raise ValueError("a row has more than two bodies")
    width = 1 + problem.tangents
    for end in (first, last):  # all rows of a contact have the same two, though one of them may not feel one of the bodies
        whole = end[: problem.contact_rows].reshape(-1, width)
        whole[:] = (np.min if end is first else np.max)(whole, axis=1, keepdims=True)
    rows = np.zeros((2, len(problem.q), d))
    rows[(body != first[entries.row]).astype(int), entries.row, entries.col % d] = entries.data
    pair = np.stack([first, np.where(last > first, last, n)], axis=1)
    blocks = mass.toarray() if n == 1 else mass.data
    return in_blocks(
        (rows[0], rows[1]), pair, blocks.reshape(n, d, d), problem.q, problem.friction, width, None, problem.least_size
    )
