"""Dense output: what happens between the points of the grid, with the order of the method.

Timestepping methods leave polynomials in each step (`StepRecord`). A collision integrator leaves states, at the points of the grid
and just after each impact; between two of them its own flow, over a part of a step, says where the motion is. Where steps of the
grid were made of smaller ones, the polynomials are those of the smaller steps (`carom.results.smaller_steps`).

On rotations and rigid motions the polynomials are coordinates of a chart around the start c of the step: the body is at
retract(c, x(t)), with the velocity D(x) ẋ. So poses are poses, and velocities belong to them, at every instant.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom.errors import InputError
from carom.numerics.quadrature import integrals, lagrange_basis
from carom.results.smaller_steps import smaller_steps


@dataclass(frozen=True)
class Dense:
    """Functions of time, each taking one time or many.

    Columns of `force` and `interaction`: the normal ones of all contact faces, in the order of `solution.impacts.names`, then the
    tangential ones, then the joints.
    """

    t: np.ndarray  #           [N + 1]       the grid, or the smaller steps that it was made of
    nodes: np.ndarray  #       [s]           in a step, from 0 to 1
    starts: np.ndarray  #      [N, n]        where each step starts
    velocities: np.ndarray  #  [N, s, n]     not a number in steps that were flown
    forces: np.ndarray  #      [N, s, r]
    totals: np.ndarray  #      [N + 1, r]    the interaction at the points of the grid, without the impacts of flights
    flight: "Flight | None"  # what is known of steps that were flown
    means: np.ndarray | None = None  # [N, r]  impulses over the length of their step, where these are all that presses
    space: Any = None  #       of rotations, where q has more entries than v; None for vectors

    @staticmethod
    def of(solution: Any) -> "Dense":
        record, method = solution.record, solution.method
        steps, n = len(solution.t) - 1, solution.p.shape[1]
        offered = "dense output" in method.offers
        flies = offered and method.replayed_by()[0] is not None
        knows = flies or (record is not None and offered)
        if solution.num_steps != steps or not knows:
            raise InputError(
                "dense output needs every step (stride=1) of MoreauJean, TimeDG, VariationalCollision or Hybrid, or of Adaptive "
                "around one of them; a run that was loaded also needs to be told its method: carom.load(path, system=…, method=…)"
            )
        space = solution.system.space if solution.q.shape[1] != n else None
        contacts = solution.system.contacts
        if flies and any(c.obstacle for c in contacts) and (record is not None or any(c.rough for c in contacts)):
            raise InputError("dense output of flights does not tell the faces of an obstacle apart: use one Contact per face")
        flight = Flight.of(solution) if flies else None
        if record is None:
            assert flight is not None
            nothing, r = np.full((steps, 1, n), np.nan), flight.impulses.shape[1]
            return Dense(
                solution.t, np.zeros(1), solution.q[:-1], nothing, np.zeros((steps, 1, r)),
                np.zeros((steps + 1, r)), flight, None, space,
            )  # fmt: skip
        t, starts, nodes = solution.t, solution.q[:-1], method.nodes
        if method.divides_steps:
            t, starts, record, nodes = smaller_steps(solution)
        weights = integrals(nodes, np.ones(1))[0]
        gained = record.impulses + np.diff(t)[:, None] * np.einsum("s,asr->ar", weights, record.forces)
        totals = np.concatenate([np.zeros((1, gained.shape[1])), np.cumsum(gained, axis=0)])
        means = np.asarray(record.impulses) / np.diff(t)[:, None] if method.pushes_at_ends else None
        return Dense(t, nodes, starts, record.velocities, record.forces, totals, flight, means, space)

    def q(self, t: Any) -> np.ndarray:
        step, part = self._find(t)
        starts, moved = self.starts[step], self._moved(step, part)
        held = starts + moved if self.space is None else np.array(_placed(self.space, starts, moved))
        return self._or_flown(t, held, 0)

    def v(self, t: Any) -> np.ndarray:
        step, part = self._find(t)
        held = np.einsum("as,asn->an", lagrange_basis(self.nodes, part), self.velocities[step])
        if self.space is not None:
            held = np.array(_body_velocities(self.space, self._moved(step, part), held))
        return self._or_flown(t, held, 1)

    def _moved(self, step: np.ndarray, part: np.ndarray) -> np.ndarray:
        """From the start of the step to there: the integral of the velocities."""
        moved = np.einsum("as,asn->an", integrals(self.nodes, part), self.velocities[step])
        return np.diff(self.t)[step, None] * moved

    def force(self, t: Any) -> np.ndarray:
        """Contact forces; impulses are not forces, but with `MoreauJean`, where a block at rest is held by nothing else: there it
        is their mean over the step, which is the weight, and at an impact large."""
        step, part = self._find(t)
        held = np.einsum("as,asr->ar", lagrange_basis(self.nodes, part), self.forces[step])
        return held if self.means is None else held + self.means[step]

    def interaction(self, t: Any) -> np.ndarray:
        """i(t): all forces and impulses up to t, (14) of [schindler2014]."""
        step, part = self._find(t)
        gained = np.einsum("as,asr->ar", integrals(self.nodes, part), self.forces[step])
        held = self.totals[step] + np.diff(self.t)[step, None] * gained
        return held if self.flight is None else held + self.flight.interaction(_times(t))

    def _find(self, t: Any) -> tuple[np.ndarray, np.ndarray]:
        """The step a time falls into, and where in it; a time on the grid belongs to the step that starts there."""
        t, slack = _times(t), 1e-9 * (self.t[1] - self.t[0])
        if not np.all((t >= self.t[0] - slack) & (t <= self.t[-1] + 1e-12 * abs(self.t[-1]) + slack)):
            raise InputError(f"dense output reaches from t = {self.t[0]:g} to {self.t[-1]:g}")
        step = np.clip(np.searchsorted(self.t, t, side="right") - 1, 0, len(self.starts) - 1)
        return step, (t - self.t[step]) / np.diff(self.t)[step]

    def _or_flown(self, t: Any, held: np.ndarray, which: int) -> np.ndarray:
        """Values of a step, or those of the flight where the step was flown."""
        flown = np.isnan(held).any(axis=1)
        if self.flight is not None and flown.any():
            held[flown] = self.flight.at(_times(t)[flown])[which]
        return held


@dataclass(frozen=True)
class Flight:
    """What a collision integrator leaves: states from which its flow goes on, and the impulses between them."""

    t: np.ndarray  #           [m]      points of the grid, and impacts
    q: np.ndarray  #           [m, n]
    p: np.ndarray  #           [m, n]   after the impact
    impact_t: np.ndarray  #    [i]
    impulses: np.ndarray  #    [i + 1, r]  summed up
    commands: np.ndarray  #    [m, u]   of a controller, held from there on
    solution: Any

    @staticmethod
    def of(solution: Any) -> "Flight":
        hits = solution.impacts
        t = np.concatenate([solution.t, hits.t])
        order = np.argsort(t, kind="stable")  # an impact at a point of the grid comes after it
        q, p = np.concatenate([solution.q, hits.q]), np.concatenate([solution.p, hits.p_after])
        record = solution.record
        flown = np.ones(len(hits), bool) if record is None else np.isnan(record.velocities).any(axis=(1, 2))[hits.step]
        impulses = np.asarray(_impulses(solution))[flown]
        summed = np.concatenate([np.zeros((1, impulses.shape[1])), np.cumsum(impulses, axis=0)])
        held = np.zeros((len(solution.t) - 1, 0)) if solution.commands is None else solution.commands
        held = np.concatenate([held, held[-1:], held[np.minimum(hits.step, len(held) - 1)]])
        return Flight(t[order], q[order], p[order], hits.t[flown], summed, held[order], solution)

    def at(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """q and v."""
        last = np.maximum(np.searchsorted(self.t, t, side="right") - 1, 0)
        run = self.solution
        legs = self.q[last], self.p[last], self.t[last], t - self.t[last], self.commands[last]
        q, v = _flown(run.method, run.system, run.params, *legs)
        return np.asarray(q), np.asarray(v)

    def interaction(self, t: np.ndarray) -> np.ndarray:
        return self.impulses[np.searchsorted(self.impact_t, t, side="right")]


@eqx.filter_jit
def _placed(space, centres, x):
    return jax.vmap(lambda centre, x: space.normalised(space.retract(centre, x)))(centres, x)


@eqx.filter_jit
def _body_velocities(space, x, rates):
    return jax.vmap(space.chart_velocity)(x, rates)


def _times(t: Any) -> np.ndarray:
    try:
        return np.atleast_1d(np.asarray(t, float))
    except (TypeError, ValueError) as error:
        raise InputError(f"times must be numbers; got {t!r}") from error


@eqx.filter_jit
def _flown(method, system, params, q, p, t, s, commands):
    """The flow over parts of steps."""
    plain = None if system.controller is not None else method.bind(system, params, q.shape[1])
    if plain is not None and not method.needs_chart(plain):
        method.flow(plain)  # kept there: what is made inside of the map stays inside

    def one(q, p, t, s, u):
        mechanics = method.bind(system.holding(u), params, q.shape[0]) if plain is None else plain
        here = mechanics.chart(q) if method.needs_chart(mechanics) else mechanics
        out = method.flow(here)(here.functions.coordinates(q), p, t, s)
        q, p = here.place(out.q, out.p)
        return q, mechanics.velocity(q, p, t + s)

    return jax.lax.map(lambda args: one(*args), (q, p, t, s, commands), batch_size=256)


def _impulses(solution: Any) -> np.ndarray:
    """Normal and tangential impulses of each impact; the tangential ones are what the normal ones leave of the jump of p."""
    hits = solution.impacts
    mechanics = solution.system.bind(solution.params, solution.q.shape[1])
    if mechanics.contacts.slip_dim == 0 or len(hits) == 0:
        return np.pad(hits.impulses, ((0, 0), (0, mechanics.contacts.num_faces * mechanics.contacts.slip_dim)))
    normals, tangents = _rows(solution.system, solution.params, jnp.asarray(hits.q), jnp.asarray(hits.t))
    rest = hits.p_after - hits.p_before - np.einsum("ik,ikn->in", hits.impulses, np.asarray(normals))
    touched = hits.impulses > 0
    sides = [np.linalg.pinv((rows * on[:, None, None]).reshape(-1, rest.shape[1]).T) @ jump
             for rows, on, jump in zip(np.asarray(tangents), touched, rest, strict=True)]  # fmt: skip
    return np.concatenate([hits.impulses, np.array(sides)], axis=1)


@eqx.filter_jit
def _rows(system, params, q, t):
    m = system.bind(params, q.shape[1])
    return jax.vmap(lambda q, t: (m.contacts.normals(q, t), m.contacts.tangents(q, jnp.zeros(m.dim), t)[0]))(q, t)


def dense_output(solution: Any) -> Dense:
    """The dense output of a solution."""
    return Dense.of(solution)
