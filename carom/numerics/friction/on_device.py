"""The first-order stage (12) in one compiled program, for problems with very many contacts on a GPU (or, slower, on the CPU).

A product with Â is made of two with a sparse matrix, each row by itself: its entries stand in rows of one width, and a row that is
longer takes several, whose sums are summed in the same way. No two threads write to one place, so that the same problem gives
the same answer, and memory is proportional to the entries: for bodies to the contacts.
"""

import time
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from carom.errors import InputError
from carom.numerics.friction.gradient import largest_value
from carom.numerics.friction.problem import FrictionProblem
from carom.numerics.friction.scaled import Scaled, scale_problem
from carom.numerics.friction.stages import FrictionSolution

LOOKS = 50  #        iterations between two looks at the certificate
WIDTHS = (8, 32)  #  of a row of entries, at least and at most
CHUNK = 5000  #      iterations of one call, between which the host looks at the clock
ROUNDING = 1e-13  #  of Âw: what a step shows of ℓ below this is noise


class Ragged(NamedTuple):
    """A sparse matrix: entries of parts of rows, and which parts are summed, and so on until each row is one sum."""

    values: jax.Array  #                  [parts, width]
    columns: jax.Array  #                 [parts, width]  where there is no entry its value is zero
    sums: tuple[jax.Array, ...]  #        each [k, width] of parts before; one beyond the last is zero

    def __matmul__(self, x: jax.Array) -> jax.Array:
        y = jnp.sum(self.values * x[self.columns], axis=1)
        for which in self.sums:
            y = jnp.sum(jnp.append(y, 0.0)[which], axis=1)
        return y


class Placed(NamedTuple):
    """A scaled problem as arrays on a device; rows of contacts with friction stand first, as in `Scaled`."""

    outward: Ragged  #         M^½⁻¹ HΓ, or Â where that is what is given
    inward: Ragged | None  #   its transpose
    q: jax.Array  #            [rows]  Γq over the size
    factor: jax.Array  #       [rows]  Γ
    friction: jax.Array  #     [rough]
    rho: jax.Array  #          ρ of (3)
    size: jax.Array  #         ‖q‖ of (3) over that of `Scaled`

    def apply(self, x: jax.Array) -> jax.Array:
        return self.outward @ x if self.inward is None else self.inward @ (self.outward @ x)


class Position(NamedTuple):
    """Where the iteration (12) is."""

    x: jax.Array
    rate: jax.Array  #   Âx
    last: jax.Array
    last_rate: jax.Array
    momentum: jax.Array
    bound: jax.Array  #  ℓ
    best: jax.Array
    least: jax.Array
    iteration: jax.Array


@dataclass(frozen=True)
class Counts:
    """How many contacts have friction, how many none, and how many tangents they have; what is left is bilateral."""

    rough: int
    smooth: int
    columns: int

    def split(self, x):
        first, second = self.rough * self.columns, self.rough * self.columns + self.smooth
        return x[:first].reshape(self.rough, self.columns), x[first:second], x[second:]


def solve_on_device(
    problem: FrictionProblem,
    start: np.ndarray | None = None,
    tolerance: float = 1e-8,
    *,
    max_iterations: int = 100_000,
    seconds: float = np.inf,
    device: str | None = None,
) -> FrictionSolution:
    """(12) from `start` until E ≤ tolerance, or so many iterations or seconds (compilation apart) are over: what was found then
    is the best of those looked at, with converged = False. `device` is "gpu" or "cpu"; without it JAX chooses. E is computed
    again by the host."""
    begin = time.perf_counter()
    where = choose_device(device)
    scaled = scale_problem(problem, form=False)
    x = np.zeros_like(scaled.q) if start is None else scaled.unknowns(np.asarray(start, float))
    with jax.default_device(where):
        placed, counts = place(scaled)
        position = _begin(placed, jnp.asarray(x), largest_value(scaled), counts)
        position = _advance(placed, position, 0.5 * tolerance, 0, counts)  # compiles, and does nothing
        clock = time.perf_counter()
        while int(position.iteration) < max_iterations and time.perf_counter() - clock < seconds:
            end = min(int(position.iteration) + CHUNK, max_iterations)
            position = _advance(placed, position, 0.5 * tolerance, end, counts)
            if float(position.least) <= 0.5 * tolerance:
                break
    r = scaled.impulses(np.asarray(position.best, float))
    residual = problem.residual(r)
    taken = int(position.iteration)
    return FrictionSolution(
        r, problem.velocities(r), residual, residual <= tolerance, "gradient", taken, time.perf_counter() - begin
    )


def choose_device(name: str | None) -> jax.Device:
    """The first device of that kind; refused with a sentence where there is none, or where JAX computes in single precision."""
    if not jax.config.jax_enable_x64:
        raise InputError("contact problems need double precision: jax.config.update('jax_enable_x64', True), which carom does")
    if name is None:
        return jax.devices()[0]
    if name not in ("gpu", "cpu"):
        raise InputError(f"device is {name!r}: choose 'gpu' or 'cpu'")
    try:
        return jax.devices(name)[0]
    except RuntimeError as error:
        raise InputError(f"there is no {name} that JAX can use here: leave device out, or choose 'cpu' ({error})") from error


def place(scaled: Scaled) -> tuple[Placed, Counts]:
    """The arrays of a problem, on JAX's default device."""
    problem = scaled.problem
    rough, smooth, _ = scaled.counts
    if problem.delassus is not None:
        outward, inward = ragged(scaled.matrix), None
    else:
        root = sparse.csr_matrix(_roots(problem.inverse_mass) @ scaled.H)
        outward, inward = ragged(root), ragged(root.T.tocsr())
    size = max(float(np.linalg.norm(problem.q)), problem.least_size) / scaled.size
    friction = problem.friction[(problem.friction > 0) & (problem.tangents > 0)]
    numbers = (
        jnp.asarray(scaled.q),
        jnp.asarray(scaled.factor),
        jnp.asarray(friction),
        jnp.asarray(problem.step),
        jnp.asarray(size),
    )
    return Placed(outward, inward, *numbers), Counts(rough, smooth, scaled.columns)


def ragged(matrix) -> Ragged:
    """Rows of a sparse matrix in parts of one width."""
    matrix = sparse.csr_matrix(matrix)
    lengths = np.diff(matrix.indptr)
    width = int(np.clip(np.max(lengths, initial=1), *WIDTHS))
    place, sums = _parts(lengths, width), []
    values, columns = np.append(matrix.data, 0.0)[place], np.append(matrix.indices, 0)[place]
    counts = np.maximum(-(-lengths // width), 1)
    while np.any(counts > 1):
        sums.append(jnp.asarray(_parts(counts, width)))
        counts = np.maximum(-(-counts // width), 1)
    return Ragged(jnp.asarray(values), jnp.asarray(columns), tuple(sums))


def _parts(lengths: np.ndarray, width: int) -> np.ndarray:
    """[parts, width] the places of entries that stand row after row, each row in as many parts as it needs, at least one; places
    that are left over point beyond the last."""
    ends = np.cumsum(lengths)
    counts = np.maximum(-(-lengths // width), 1)
    row = np.repeat(np.arange(len(lengths)), counts)
    inner = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = (ends - lengths)[row] + width * inner
    at = first[:, None] + np.arange(width)
    return np.where(at < ends[row][:, None], at, ends[-1] if len(ends) else 0).astype(np.int32)


def _roots(inverse_mass: sparse.csr_matrix) -> sparse.csr_matrix:
    """R with RᵀR = M⁻¹: by Cholesky's method, block by block."""
    number, label = sparse.csgraph.connected_components(inverse_mass, directed=False)
    sizes = np.bincount(label, minlength=number)
    order, starts = np.argsort(label, kind="stable"), np.cumsum(sizes) - sizes
    pieces = []
    for size in np.unique(sizes):
        members = order[starts[sizes == size][:, None] + np.arange(size)]
        rows, columns = np.broadcast_arrays(members[:, :, None], members[:, None, :])
        blocks = np.asarray(inverse_mass[rows.ravel(), columns.ravel()]).reshape(rows.shape)
        pieces.append((np.swapaxes(np.linalg.cholesky(blocks), 1, 2).ravel(), rows.ravel(), columns.ravel()))
    data, rows, columns = (np.concatenate(part) for part in zip(*pieces, strict=True))
    return sparse.csr_matrix((data, (rows, columns)), inverse_mass.shape)


# -- compiled ------------------------------------------------------------------------------------------------------------


@partial(jax.jit, static_argnames="counts")
def _begin(placed: Placed, x: jax.Array, bound, counts: Counts) -> Position:
    rate = placed.apply(x)
    least = certificate(placed, x, rate, counts)
    return Position(x, rate, x, rate, jnp.ones(()), jnp.asarray(bound), x, least, jnp.zeros((), int))


@partial(jax.jit, static_argnames="counts")
def _advance(placed: Placed, position: Position, tolerance, end, counts: Counts) -> Position:
    """(12) until the certificate is below the tolerance, or so many iterations are done."""

    def look(at: Position) -> Position:
        at = jax.lax.fori_loop(0, LOOKS, lambda _, inner: _iterate(placed, inner, counts), at)
        residual = certificate(placed, at.x, at.rate, counts)
        better = residual < at.least
        return at._replace(best=jnp.where(better, at.x, at.best), least=jnp.where(better, residual, at.least))

    return jax.lax.while_loop(lambda at: (at.least > tolerance) & (at.iteration < end), look, position)


def _iterate(placed: Placed, at: Position, counts: Counts) -> Position:
    following = 0.5 * (1 + jnp.sqrt(1 + 4 * at.momentum**2))
    ahead = (at.momentum - 1) / following
    w, rate = at.x + ahead * (at.x - at.last), at.rate + ahead * (at.rate - at.last_rate)
    new = _projected(w, rate + placed.q, at.bound, counts)
    new_rate = placed.apply(new)
    move, moved = new - w, new_rate - rate
    square = move @ move
    steep = move @ moved > 1.01 * at.bound * square + ROUNDING * jnp.sqrt(square * (new_rate @ new_rate))
    restart = move @ (new - at.x) < 0
    keep = lambda old, new: jnp.where(steep, old, new)  # noqa: E731
    return at._replace(
        x=keep(at.x, new),
        rate=keep(at.rate, new_rate),
        last=keep(at.last, at.x),
        last_rate=keep(at.last_rate, at.rate),
        momentum=keep(at.momentum, jnp.where(restart, 1.0, following)),
        bound=jnp.where(steep, 2 * at.bound, at.bound),
        iteration=at.iteration + 1,
    )


def _projected(w: jax.Array, z: jax.Array, bound: jax.Array, counts: Counts) -> jax.Array:
    """P_L(w − y / ℓ)."""
    rough, smooth, free = counts.split(w - z / bound)
    height = rough[:, 0] - _length(counts.split(z)[0][:, 1:]) / bound
    return jnp.concatenate([_cone(height, rough[:, 1:], 1.0).ravel(), jnp.maximum(smooth, 0.0), free])


def _cone(height: jax.Array, across: jax.Array, slope) -> jax.Array:
    """The nearest points of {|across| ≤ slope · height}."""
    length = _length(across)
    normal = (height + slope * length) / (1 + slope**2)
    edge = jnp.concatenate([normal[:, None], (slope * normal / jnp.where(length > 0, length, 1.0))[:, None] * across], axis=1)
    inside = jnp.concatenate([height[:, None], across], axis=1)
    polar = slope * length <= -height
    return jnp.where(polar[:, None], 0.0, jnp.where((length <= slope * height)[:, None], inside, edge))


def _length(across: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum(across**2, axis=1))


def certificate(placed: Placed, x: jax.Array, rate: jax.Array, counts: Counts) -> jax.Array:
    """E of (3), of the unscaled problem, over the size of `Scaled`."""
    r, u = placed.factor * x, (rate + placed.q) / placed.factor
    (rough, smooth, _), (rates, opening, moving) = counts.split(r), counts.split(u)
    height = rates[:, 0] + placed.friction * _length(rates[:, 1:])
    point = rough - placed.rho * jnp.concatenate([height[:, None], rates[:, 1:]], axis=1)
    first = rough - _cone(point[:, 0], point[:, 1:], placed.friction)
    second = smooth - jnp.maximum(smooth - placed.rho * opening, 0.0)
    total = jnp.sqrt(jnp.sum(first**2) + jnp.sum(second**2) + jnp.sum((placed.rho * moving) ** 2))
    return (total + jnp.finfo(float).eps * jnp.sqrt(r @ r)) / (placed.rho * placed.size)
