"""Dense output of timestepping methods: what happens between the points of the grid, with the degree of the method."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from carom.errors import InputError
from carom.numerics.quadrature import integrals, lagrange_basis


@dataclass(frozen=True)
class Dense:
    """Functions of time, each taking one time or many.

    Columns of `force` and `interaction`: the normal ones of all contact faces, in the order of `solution.impacts.names`, then the
    tangential ones, then the joints.
    """

    t0: float
    dt: float
    nodes: np.ndarray  #       [s]           in a step, from 0 to 1
    starts: np.ndarray  #      [N, n]        where each step starts
    velocities: np.ndarray  #  [N, s, n]
    forces: np.ndarray  #      [N, s, r]
    totals: np.ndarray  #      [N + 1, r]    the interaction at the points of the grid, impulses there included

    @staticmethod
    def of(solution: Any) -> "Dense":
        record = solution.record
        if record is None:
            raise InputError(
                "dense output needs every step of MoreauJean or TimeDG: run with one of these, stride=1 and not resumed"
            )
        nodes = solution.method.nodes
        weights = integrals(nodes, np.ones(1))[0]
        gained = record.impulses + solution.dt * np.einsum("s,asr->ar", weights, record.forces)
        totals = np.concatenate([np.zeros((1, gained.shape[1])), np.cumsum(gained, axis=0)])
        return Dense(float(solution.t[0]), solution.dt, nodes, solution.q[:-1], record.velocities, record.forces, totals)

    def q(self, t: Any) -> np.ndarray:
        step, part = self._find(t)
        return self.starts[step] + self.dt * np.einsum("as,asn->an", integrals(self.nodes, part), self.velocities[step])

    def v(self, t: Any) -> np.ndarray:
        step, part = self._find(t)
        return np.einsum("as,asn->an", lagrange_basis(self.nodes, part), self.velocities[step])

    def force(self, t: Any) -> np.ndarray:
        """Contact forces; impulses at the ends of steps are not forces."""
        step, part = self._find(t)
        return np.einsum("as,asr->ar", lagrange_basis(self.nodes, part), self.forces[step])

    def interaction(self, t: Any) -> np.ndarray:
        """i(t): all forces and impulses up to t, (14) of [schindler2014]."""
        step, part = self._find(t)
        return self.totals[step] + self.dt * np.einsum("as,asr->ar", integrals(self.nodes, part), self.forces[step])

    def _find(self, t: Any) -> tuple[np.ndarray, np.ndarray]:
        """The step a time falls into, and where in it; a time on the grid belongs to the step that starts there."""
        along = (np.atleast_1d(np.asarray(t, float)) - self.t0) / self.dt
        if np.any((along < -1e-9) | (along > len(self.starts) * (1 + 1e-12) + 1e-9)):
            raise InputError(f"dense output reaches from t = {self.t0:g} to {self.t0 + len(self.starts) * self.dt:g}")
        step = np.clip(np.floor(along).astype(int), 0, len(self.starts) - 1)
        return step, along - step
