"""Balances of energy and of configurational forces over any part of space and time, for chains of elements.

Both follow from displacements of the field along time and along the body: (2.6) of [demoures2017]. They are exact for the smooth
motion and hold for a run to the order of its rule, except at contacts, where (2.13) says what jumps. With v the velocities,
Vₐ the elements and Uₐ the loads, node a has

    eₐ = ½⟨pₐ, vₐ⟩ + Uₐ + ½(Vₐ₋₁ + Vₐ)           deₐ/dt = Φₐ₋₁ − Φₐ,    Φₐ = ½(⟨∂ₐVₐ, vₐ⟩ − ⟨∂ₐ₊₁Vₐ, vₐ₊₁⟩)                    (1)
    cₐ = ⟨pₐ, φ'ₐ⟩                                dcₐ/dt = Gₐ − Gₐ₋₁,    Gₐ = Kₐ − Vₐ − Uₐ + ⟨∂ₐ₊₁Vₐ, φ'⟩                        (2)

φ' the difference between neighbours, so that the number of a node is its material coordinate; Kₐ and Uₐ in (2) are means over the
ends of the element. (1) is exact between nodes. (2) has the error of its differences, and where elements or masses change along
the body, or at its ends, what is left over is the configurational force there.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom.calls import public
from carom.diagnostics.fields import checked_chain
from carom.errors import InputError
from carom.results.solution import Solution


@dataclass(frozen=True)
class NodeBalance:
    """A density at nodes, with what flows in from both sides over each leg and what an impact changes."""

    t: np.ndarray  #        [P]            times of the points: the grid and the impacts
    change: np.ndarray  #   [P − 1, nodes]  over each leg
    inflow: np.ndarray  #   [P − 1, nodes]  over each leg, by the trapezoidal rule
    jumps: np.ndarray  #    [P, nodes]      at impacts
    density: np.ndarray  #  [P, nodes]      after them

    @property
    def defect(self) -> np.ndarray:
        """Where the balance is broken, and by how much: change less inflow over each leg, [P − 1, nodes]."""
        return self.change - self.inflow

    def patch(self, start: int, stop: int, left: int, right: int) -> float:
        """The change less the inflow of the nodes left … right from point start to point stop, jumps in between left out."""
        points, nodes = self.jumps.shape
        if not (0 <= start < stop < points and 0 <= left <= right < nodes):
            raise InputError(f"a patch has 0 ≤ start < stop < {points} and 0 ≤ left ≤ right < {nodes}")
        return float(self.defect[start:stop, left : right + 1].sum())


@public
def energy_balance(solution: Solution) -> NodeBalance:
    """(1): the energy of every node, and how it flows along the body. The defects are O(dt³) per leg; jumps are at contacts only,
    and sum to the change of energy by the impact."""
    return _balance(solution, 0)


@public
def configurational_balance(solution: Solution) -> NodeBalance:
    """(2): the material momentum of every node. The end nodes, where the body ends, are not a number."""
    return _balance(solution, 1)


def _balance(solution: Solution, which: int) -> NodeBalance:
    chain = checked_chain(solution)
    hits = solution.impacts
    steps = np.concatenate([np.arange(len(solution.t)), hits.step + 0.5])
    order = np.argsort(steps, kind="stable")
    t, q = (np.concatenate([a, b])[order] for a, b in ((solution.t, hits.t), (solution.q, hits.q)))
    before, after = (np.concatenate([solution.p, p])[order] for p in (hits.p_before, hits.p_after))
    args = chain, solution.params, jnp.asarray(solution.system.masses(params=solution.params), float), jnp.asarray(q)
    density, flux = (np.asarray(x) for x in _densities(*args, jnp.asarray(after), which))
    last, flux_last = (np.asarray(x) for x in _densities(*args, jnp.asarray(before), which))
    gain = lambda flux: -np.diff(np.pad(flux, ((0, 0), (1, 1))), axis=1)  # noqa: E731
    inflow = 0.5 * np.diff(t)[:, None] * (gain(flux)[:-1] + gain(flux_last)[1:])
    return NodeBalance(t, last[1:] - density[:-1], inflow, density - last, density)


@eqx.filter_jit
def _densities(chain, params, masses, q, p, which: int):
    nodes, space = chain.nodes, chain.space
    masses, index = masses.reshape(nodes, -1), jnp.arange(nodes)
    whole = jnp.ones(nodes).at[0].set(2.0).at[-1].set(2.0)  # an end node has half a cell

    def at(q, p):
        x, p = q.reshape(nodes, -1), p.reshape(nodes, -1)
        v = p / masses
        loads = jax.vmap(lambda a, i: chain.load_at(a, i, params))(x, index)
        zero = jnp.zeros(space.dim)

        def element(a, b, i):
            energy = lambda m, n: chain.energy(space.retract(a, m), space.retract(b, n), i, params)  # noqa: E731
            return jax.value_and_grad(energy, argnums=(0, 1))(zero, zero)

        V, (on_left, on_right) = jax.vmap(element)(x[:-1], x[1:], index[:-1])
        kinetic = 0.5 * jnp.sum(p * v, axis=1)
        if which == 0:
            halves = 0.5 * (jnp.pad(V, (1, 0)) + jnp.pad(V, (0, 1)))
            return kinetic + loads + halves, 0.5 * jnp.sum(on_left * v[:-1] - on_right * v[1:], axis=1)  # (1)
        ahead = jax.vmap(space.inverse_retract)(x[:-1], x[1:])
        behind = -jax.vmap(space.inverse_retract)(x[1:], x[:-1])
        slope = jnp.full_like(p, jnp.nan).at[1:-1].set(0.5 * (ahead[1:] + behind[:-1]))
        mean = lambda y: 0.5 * (whole * y)[:-1] + 0.5 * (whole * y)[1:]  # noqa: E731
        along = mean(kinetic) - V - mean(loads) + jnp.sum(on_right * behind, axis=1)
        return jnp.sum(p * slope, axis=1), -along  # (2)

    return jax.vmap(at)(q, p)
