"""Balances over any part of space and time, for bodies that are chains of elements: bars and beams [demoures2017].

A run of a chain is a field over the points (j, a): times s_j (the grid and the impacts, in their order) and nodes a. Cell (j, a)
lies between two times and two neighbouring nodes. With half of the mass and the load of an inner node in each of its two elements,
its discrete Lagrangian is, at the corners x¹ = (j, a), x² = (j + 1, a), x³ = (j, a + 1), x⁴ = (j + 1, a + 1),

    L = h (½⟨m ξₐ, ξₐ⟩ + ½⟨m ξₐ₊₁, ξₐ₊₁⟩ − ½ [V(x¹, x³) + V(x², x⁴)] − loads),     ξ the velocities along both edges,           (1)

and their sum is the discrete action (3.10). A generator ξ of a symmetry has four momentum maps on a cell, (3.14):

    Jᵏ = ⟨∂L/∂xᵏ, ξ·xᵏ⟩,    k = 1, …, 4.                                                                                  (2)

Over a patch of space and time, the sum of (2) over its boundary and over the contacts in it (D') is the sum of dL·ξ over its cells,
which is zero where L is invariant: the discrete covariant Noether theorem. With two variations V, W of a run in the place of ξ,

    Ωᵏ(V, W) = ⟨d(∂L/∂xᵏ)·V, W⟩ − ⟨d(∂L/∂xᵏ)·W, V⟩                                                                        (3)

sums to zero over the boundary of a patch: the multisymplectic form formula. A patch over all nodes gives the symplectic form in
time, one over all times that in space. The time of an impact varies along, for all nodes at once: where a patch with some of the
nodes meets an impact, what is left over is its part of dE ∧ dt, which is the `source` then.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom.calls import public
from carom.diagnostics.action import points_of
from carom.errors import InputError
from carom.methods import replay
from carom.methods.method import State
from carom.named import Named, frozen
from carom.results.solution import Solution


@dataclass(frozen=True)
class CellSums:
    """One number per corner of each cell, to be summed over patches. `at_contact`: points that carry an impulse."""

    t: np.ndarray  #           [P]            times of the points: the grid and the impacts
    corners: np.ndarray  #     [P − 1, A, 4]  of cells between them, for A elements
    at_contact: np.ndarray  #  [P, A + 1]
    lost: np.ndarray  #        [P − 1, A, 4]  how many roundings large the terms were from which a corner is a difference

    @property
    def at_points(self) -> np.ndarray:
        """The sum over the cells around each point, [P, A + 1]."""
        return _gathered(self.corners)

    @property
    def sources(self) -> np.ndarray:
        """The sum over the corners of each cell, [P − 1, A]: zero where it is invariant."""
        return self.corners.sum(axis=2)

    @property
    def defect(self) -> np.ndarray:
        """Where the balance is broken, and by how much: the sum around each inner point without a contact, [P − 2, A + 1]."""
        return np.where(self.at_contact, 0.0, self.at_points)[1:-1]

    @property
    def rounding(self) -> np.ndarray:
        """What the terms of `defect` lose by rounding."""
        return np.finfo(float).eps * _gathered(np.abs(self.corners) + self.lost)[1:-1]

    def patch(self, start: int, stop: int, left: int, right: int) -> "Patch":
        """The balance over the points start … stop (of `t`) and the nodes left … right."""
        points, nodes = self.at_contact.shape
        if not (0 <= start < stop < points and 0 <= left < right < nodes):
            raise InputError(f"a patch has 0 ≤ start < stop < {points} and 0 ≤ left < right < {nodes}")
        cells = self.corners[start:stop, left:right]
        sums = _gathered(cells)
        inside = np.zeros_like(sums, bool)
        inside[1:-1, 1:-1] = True
        contact = self.at_contact[start : stop + 1, left : right + 1] & inside
        size = float(np.abs(sums)[~inside].sum())
        return Patch(float(sums[~inside].sum()), float(sums[contact].sum()), float(cells.sum()), size)


@dataclass(frozen=True)
class Patch:
    """The balance over a patch: boundary + contacts = source."""

    boundary: float
    contacts: float  #  at inner points with an impulse
    source: float  #    of cells that are not invariant
    size: float  #      of the terms on the boundary

    @property
    def residual(self) -> float:
        return self.boundary + self.contacts - self.source


def _gathered(corners: np.ndarray) -> np.ndarray:
    steps, elements = corners.shape[:2]
    out = np.zeros((steps + 1, elements + 1))
    for k, (later, right) in enumerate([(0, 0), (1, 0), (0, 1), (1, 1)]):
        out[later : later + steps, right : right + elements] += corners[:, :, k]
    return out


@public
def field_balance(solution: Solution, generator: Callable[..., Any]) -> CellSums:
    """The momentum maps (2) of every cell of a run, for a generator(q, params) of node configurations: the velocity with which the
    symmetry moves a node (on SE(3) in the body; `carom.SE3().carried(q, turning, shifting)` has rigid motions).

    `.patch(…)` is the balance over any part of space and time, through contacts; `.defect` shows where it is broken.
    """
    chain = checked_chain(solution)
    t, q, _, rows = points_of(solution)
    xi = Named(generator, ("q", "params"), "generator").frozen()
    args = chain, solution.params, _masses(solution), xi, jnp.asarray(q), jnp.asarray(t)
    corners, along = (np.asarray(x) for x in _momenta(*args))
    return CellSums(t, corners, _struck(solution, rows), _lost(solution, q, t, along))


def _lost(solution: Solution, q: np.ndarray, t: np.ndarray, along: np.ndarray) -> np.ndarray:
    """Momenta are differences of places over the length of a leg: m |q| / h, in the direction of the generator."""
    reach = np.max(np.abs(q)) * np.max(np.asarray(_masses(solution)))
    return reach / np.maximum(np.diff(t), 1e-300)[:, None, None] * along


def checked_chain(solution: Solution) -> Any:
    """The chain of a run that balances can be drawn up for."""
    chain = getattr(solution.system, "chain", None) if "nodes" in solution.system.needs else None
    method = solution.method
    if chain is None:
        raise InputError("balances over parts of a body need a LumpedSystem(chain=…): carom.models.bars and beam have one")
    if "discrete action" not in method.offers or not method.rule.at_corners:
        raise InputError("cells have the discrete Lagrangian of the trapezoidal rule: run with VariationalCollision(Trapezoidal())")
    if len(solution.t) != solution.num_steps + 1:
        raise InputError("this needs every state of the grid; run again with stride=1")
    return chain


def _masses(solution: Solution):
    return jnp.asarray(solution.system.masses(params=solution.params), float)


def _struck(solution: Solution, rows: np.ndarray) -> np.ndarray:
    """Points at which a momentum jumps."""
    nodes = solution.system.chain.nodes
    jump = (solution.impacts.p_after - solution.impacts.p_before).reshape(len(solution.impacts), nodes, -1)
    hit = np.abs(jump).max(axis=2, initial=0.0) > 1e-12 * (1 + np.abs(solution.p).max())
    out = np.zeros((len(rows) + 2, nodes), bool)
    inner = np.flatnonzero(rows >= 0)
    out[inner + 1] = hit[rows[inner]]
    return out


def _cell(chain, params, masses):
    """(1) as a function of displacements of the four corners and of the two times."""
    nodes, space = chain.nodes, chain.space
    masses = masses.reshape(nodes, -1)
    share = jnp.full(nodes, 0.5).at[0].set(1.0).at[-1].set(1.0)  # of a node's mass in each of its elements

    def value(moves, times, corners, index):
        x = [space.retract(corner, move) for corner, move in zip(corners, moves, strict=True)]
        h, nearby = times[1] - times[0], (index, index + 1)
        kinetic = load = 0.0
        for i, (before, after) in zip(nearby, ((x[0], x[1]), (x[2], x[3])), strict=True):
            xi = space.inverse_retract(before, after) / h
            kinetic = kinetic + 0.5 * share[i] * jnp.sum(masses[i] * xi**2)
            load = load + 0.5 * share[i] * (chain.load_at(before, i, params) + chain.load_at(after, i, params))
        strain = 0.5 * (chain.energy(x[0], x[2], index, params) + chain.energy(x[1], x[3], index, params))
        return h * (kinetic - strain - load)

    return value


def _corners(chain, q):
    """[P − 1, A, 4, size]."""
    x = q.reshape(q.shape[0], chain.nodes, -1)
    return jnp.stack([x[:-1, :-1], x[1:, :-1], x[:-1, 1:], x[1:, 1:]], axis=2)


def _over_cells(function, chain, q, t):
    """A function of (corners, times, index) at every cell."""
    times, index = jnp.stack([t[:-1], t[1:]], axis=1), jnp.arange(chain.nodes - 1)
    across = jax.vmap(function, (0, None, 0))
    return jax.lax.map(lambda row: across(row[0], row[1], index), (_corners(chain, q), times))


@eqx.filter_jit
def _momenta(chain, params, masses, xi, q, t):
    value, still = _cell(chain, params, masses), jnp.zeros((4, chain.space.dim))

    def at(corners, times, index):
        slopes = jax.grad(value)(still, times, corners, index)
        along = jnp.stack([jnp.asarray(xi(q=x, params=params), float).reshape(-1) for x in corners])
        return jnp.sum(slopes * along, axis=1), jnp.sum(jnp.abs(along), axis=1)

    return _over_cells(at, chain, q, t)


# -- the multisymplectic form ----------------------------------------------------------------------------------------------


@public
def multisymplectic_form(solution: Solution, first: Any, second: Any) -> CellSums:
    """(3) on two variations of a run, given as variations (δq, δp) of its start in one row each, [2, dim].

    The run is repeated with its exact derivative, so that all its points, its impact points and its impact times vary along.
    """
    chain, method = checked_chain(solution), solution.method
    t, q, _, rows = points_of(solution)
    start = [jnp.asarray(x, float) for x in (solution.t[0], solution.q[0], solution.p[0])]
    variations = jnp.asarray(np.stack([first, second]), float)
    lengths = jnp.asarray(np.diff(solution.t) if solution.uneven else solution.dt)
    args = method, frozen(solution.system), solution.params, *start, lengths, variations
    grid, impacts, times = (np.asarray(x) for x in _varied(*args, solution.num_steps, max(len(solution.impacts), 1)))
    moves, shifts = np.zeros((2, len(t), grid.shape[2])), np.zeros((2, len(t)))
    table = np.concatenate([[-1], rows, [-1]])
    moves[:, table < 0], moves[:, table >= 0] = grid, impacts[:, : (table >= 0).sum()]
    shifts[:, table >= 0] = times[:, : (table >= 0).sum()]
    corners = _forms(
        chain, solution.params, _masses(solution), jnp.asarray(q), jnp.asarray(t), jnp.asarray(moves), jnp.asarray(shifts)
    )
    corners = np.asarray(corners)
    return CellSums(t, corners, _struck(solution, rows), np.zeros_like(corners))


@eqx.filter_jit
def _varied(method, system, params, t, q, p, dt, variations, num_steps: int, rows: int):
    """How grid, impact points and impact times vary with the start; displacements in the axes of each node."""
    space = system.space

    def run(move):
        moved = space.retract(q, move[0])
        out = replay.run(method, system, params, State(t, moved, p + move[1]), dt, num_steps, rows)
        return out.q, out.impacts.q, out.impacts.t

    def one(move):
        (grid, hits, _), (d_grid, d_hits, d_times) = jax.jvp(run, (jnp.zeros_like(move),), (move,))
        velocity = jax.vmap(space.velocity)
        return velocity(grid, d_grid), velocity(hits, d_hits), d_times

    return jax.lax.map(one, variations)


@eqx.filter_jit
def _forms(chain, params, masses, q, t, moves, shifts):
    value, still = _cell(chain, params, masses), jnp.zeros((4, chain.space.dim))
    parts = [_corners(chain, move) for move in moves]
    times = [jnp.stack([s[:-1], s[1:]], axis=1) for s in shifts]

    def at(corners, when, index, V, W, v_time, w_time):
        slope = lambda moves, times: jax.grad(value)(moves, times, corners, index)  # noqa: E731
        along = lambda X, x_time: jax.jvp(slope, (still, when), (X, x_time))[1]  # noqa: E731
        return jnp.sum(along(V, v_time) * W - along(W, w_time) * V, axis=1)

    index = jnp.arange(chain.nodes - 1)
    across = jax.vmap(at, (0, None, 0, 0, 0, None, None))
    row = lambda r: across(r[0], r[1], index, *r[2:])  # noqa: E731
    when = jnp.stack([t[:-1], t[1:]], axis=1)
    return jax.lax.map(row, (_corners(chain, q), when, *parts, *times))
