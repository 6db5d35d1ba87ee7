"""Is a run a critical point of the discrete action? The gradient over all its points, its impact points and its impact times.

Between the points of the grid and the impacts, in their order in time, the action of a run is the sum over its legs

    G = Σ L_d(x_j, x_{j+1}, s_{j+1} − s_j),      x = (q₀, …, q_{i−1}, q̃, q_i, …, q_N),   s = (t₀, …, t_{i−1}, t̃, t_i, …)     (1)

with s fixed at the grid and free at impacts: (43) of [fetecau2003], with any number of impacts in any step. A run is critical where

    ∂G/∂q_k ∈ Δ°(q_k)                                 at inner points of the grid                                        (2)
    ∂G/∂q̃ + Σ λᵢ ∇φᵢ ∈ Δ°(q̃),      ∂G/∂t̃ + Σ λᵢ ∂φᵢ/∂t = 0      at impacts, i over the contacts with an impulse                  (3)

for some λ, which is the impulse. Without constraints Δ° = {0}, and (2), (3) are (46)–(49) there; with velocity constraints they are
Theorem 3.1 of [rodriguez2025], for both of its schemes; summed over the nodes of an elastic body, (3.11)–(3.13) of [demoures2017].
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom.calls import public
from carom.errors import InputError
from carom.methods.variational.discrete_action import discrete_lagrangian
from carom.results.solution import Solution

PROBE = 1e-6  # a relative change of the points: how much of it the gradient sees is how much it sees of their rounding
SHORTEST = 1e-12  # of a step: legs shorter than this are taken as none


@dataclass(frozen=True)
class ActionGradient:
    """What is left of (2) and (3): one row per inner point of a run, in the order of time."""

    t: np.ndarray  #          [m]
    impact: np.ndarray  #     [m]     the row of the impact table, −1 at points of the grid
    q: np.ndarray  #          [m, n]  ∂G/∂q less its parts along constraints and normals; not a number beside a leg of no length
    time: np.ndarray  #       [m]     ∂G/∂t̃ + Σ λ ∂φ/∂t; 0 at points of the grid, whose times are fixed
    impulses: np.ndarray  #   [m, k]  λ of (3), found from the points alone
    reactions: np.ndarray  #  [m, c]  of joints, then of velocity constraints: ∂G/∂q has the part −Aᵀ·reaction
    momentum: float  #        the largest discrete momentum, to compare q with
    energy: float  #          the largest discrete energy, to compare time with
    rounding: np.ndarray  #   [m]     what rounding the points makes of q
    time_rounding: np.ndarray  # [m]

    @property
    def largest(self) -> float:
        """The largest entry, relative to the largest discrete momentum and energy."""
        return max(_most(np.abs(self.q)) / self.momentum, _most(np.abs(self.time)) / self.energy)

    @property
    def in_roundings(self) -> float:
        """The largest entry in units of what rounding the points of the run makes of it: of order 1 for a critical point.

        Points divided by short legs carry large rounding errors; here they do not look like violations."""
        q = np.max(np.abs(self.q), axis=1, initial=0.0) / self.rounding
        return max(_most(q), _most(np.abs(self.time) / self.time_rounding))

    @property
    def unjudged(self) -> int:
        """Points beside a leg of no length, of which nothing can be said."""
        return int(np.isnan(self.q).any(axis=1).sum())


def _most(values: np.ndarray) -> float:
    return float(np.nanmax(values, initial=0.0))


@public
def action_gradient(solution: Solution) -> ActionGradient:
    """The gradient of the discrete action (1) of a run with `VariationalCollision`.

    It vanishes to rounding for runs with elastic impacts, with joints and velocity constraints too; not where energy is lost, where
    an impact took the exact reflection (`elastic="reflection"`, fallbacks), or where a state is changed by hand.
    """
    method = solution.method
    if "discrete action" not in method.offers:
        raise InputError("the discrete action belongs to VariationalCollision; this run has another method")
    if len(solution.t) != solution.num_steps + 1:
        raise InputError("the discrete action needs every state of the grid; run again with stride=1")
    needs = solution.system.needs
    if "forces" in needs:
        raise InputError("forces have no action: the gradient would not vanish")
    if "dry friction" in needs or ("supports" in needs and solution.system.supports.motion is not None):
        raise InputError("friction and supports that move have no action: the gradient would not vanish")
    if needs & {"constraints", "joints"} and method.rule.of_parts:
        raise InputError("with constraints the parts of a Composition are steps of their own: look at a run with its base rule")
    t, q, p, rows = points_of(solution)
    out = _legs(method.rule, solution.system, solution.params, q[:-1], q[1:], t[:-1], np.diff(t))
    before, after = [np.asarray(x)[:-1] for x in out.ends], [np.asarray(x)[1:] for x in out.starts]
    free = solution.system.supports.free(solution.system.space) if "supports" in needs else 1.0  # what is held does not vary
    slope, by_time = (before[0] + after[0]) * free, np.where(rows >= 0, before[1] + after[1], 0.0)
    short = np.diff(t) <= SHORTEST * solution.dt
    none = short[:-1] | short[1:]
    A, normals, drifts = (np.asarray(x) for x in _bases(solution.system, solution.params, q[1:-1], t[1:-1]))
    struck = solution.impacts.impulses[rows] != 0 if len(solution.impacts) else np.zeros((len(rows), normals.shape[1]), bool)
    struck = struck & (rows >= 0)[:, None]
    left, impulses, reactions = _apart(slope, A, normals * struck[:, :, None])
    by_time = by_time + np.where(rows >= 0, np.einsum("mk,mk->m", impulses, drifts), 0.0)
    eps = float(np.finfo(float).eps)
    return ActionGradient(
        t=t[1:-1],
        impact=rows,
        q=np.where(none[:, None], np.nan, left),
        time=np.where(none, np.nan, by_time),
        impulses=impulses,
        reactions=reactions,
        momentum=float(np.nanmax(np.abs(np.where(none[:, None], np.nan, after[0])))),
        energy=float(np.nanmax(np.abs(np.where(none, np.nan, after[1])))),
        rounding=eps * (np.max(np.abs(before[2]), axis=1) + np.max(np.abs(after[2]), axis=1) + np.max(np.abs(p[1:-1]), axis=1)),
        time_rounding=eps * (np.abs(before[3]) + np.abs(after[3]) + np.abs(after[1]) + np.abs(before[1])),
    )


def points_of(solution: Solution) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Times, configurations, momenta of all points in their order, and for the inner ones the row of the impact table or −1."""
    hits = solution.impacts
    steps = np.concatenate([np.arange(len(solution.t)), hits.step + 0.5])
    order = np.argsort(steps, kind="stable")  # impacts of a step, in the order of the table, after the state it starts from
    t, q = np.concatenate([solution.t, hits.t]), np.concatenate([solution.q, hits.q])
    p = np.concatenate([solution.p, hits.p_after])
    rows = np.concatenate([np.full(len(solution.t), -1), np.arange(len(hits))])
    return t[order], q[order], p[order], rows[order][1:-1]


class _Legs(eqx.Module):
    starts: Any  # per leg: ∂L_d/∂q and ∂L_d/∂(time) at its start, and how much each moves per relative change of the points
    ends: Any


@eqx.filter_jit
def _legs(rule, system, params, q0, q1, t, h) -> _Legs:
    mechanics, value = discrete_lagrangian(system, rule, params).bound(q0.shape[1])
    space = mechanics.functions.space
    pull = (lambda q, slope: slope) if space is None else space.pull

    def slopes(q0, q1, t, h):
        by_q0, by_q1, by_t, by_h = jax.grad(value, argnums=(0, 1, 2, 3))(q0, q1, t, h)
        return pull(q0, by_q0), by_t - by_h, pull(q1, by_q1), by_h

    def one(args):
        q0, q1, t, h = args
        h = jnp.where(h > 0, h, 1.0)
        signs = PROBE * jnp.where(jnp.arange(q0.shape[0]) % 3 == 1, 1.0, -1.0)  # neighbours are rounded differently
        trial = (jnp.stack([q0, q0 * (1 + signs), q0]), jnp.stack([q1, q1 * (1 - signs), q1]), jnp.stack([h, h, h * (1 + PROBE)]))
        here, by_q, by_h = zip(*jax.vmap(slopes, (0, 0, None, 0))(trial[0], trial[1], t, trial[2]), strict=True)
        late = jnp.maximum(1.0, jnp.abs(t) / h)  # times are rounded as such, and subtracted
        jolt = [(jnp.abs(q - x) + late * jnp.abs(s - x)) / PROBE for x, q, s in zip(here, by_q, by_h, strict=True)]
        return _Legs((here[0], here[1], jolt[0], jolt[1]), (here[2], here[3], jolt[2], jolt[3]))

    return jax.lax.map(one, tuple(jnp.asarray(x) for x in (q0, q1, t, h)))


@eqx.filter_jit
def _bases(system, params, q, t):
    """Rows of A, normals of the contacts and the rates of the gaps with time alone, at each point."""
    mechanics = system.bind(params, q.shape[1], general=True).with_lagrangian()
    contacts = mechanics.contacts

    def at(q, t):
        A = mechanics.constraints(q, t) if mechanics.num_constraints else jnp.zeros((0, mechanics.dim))
        if not contacts.num_faces:
            return A, jnp.zeros((0, mechanics.dim)), jnp.zeros(0)
        return A, contacts.normals(q, t), contacts.wall_speed(q, t)

    return jax.vmap(at)(jnp.asarray(q), jnp.asarray(t))


def _apart(slope: np.ndarray, A: np.ndarray, normals: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """∂G/∂q less its best fit by normals and constraints: −Σ λ ∇φ − Aᵀ·reaction."""
    basis = np.concatenate([normals, A], axis=1)
    k = normals.shape[1]
    if basis.shape[1] == 0:
        return slope, np.zeros((len(slope), 0)), np.zeros((len(slope), 0))
    fitted = -np.einsum("mjn,mn->mj", np.linalg.pinv(basis.transpose(0, 2, 1)), slope)
    return slope + np.einsum("mj,mjn->mn", fitted, basis), fitted[:, :k], fitted[:, k:]
