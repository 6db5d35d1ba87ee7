"""The laws of impact: from the velocities before to the impulses, for all contacts that are closed at one instant.

The closed contacts span a cone of impulses Nᵀλ, λ ≥ 0 (the normal cone, (86) of [fetecau2003]). One *round* projects the
velocity onto the admissible cone in the kinetic metric and reflects it about the projection:

    0 ≤ λ ⊥ Gλ + s ≥ 0,       s ← s + (1 + e) Gλ                                                            (1)

so a round with e = 1 keeps the kinetic energy exactly. Rounds are repeated while a closed contact still approaches:

- `reflections`: the round takes the contacts that approach now. A touching row of balls hit from one side passes the
  impulse on, (1, 0, 0) → (0, 0, 1): generalised reflections [smith2012].
- `impulse`: the round takes all closed contacts. One simultaneous impulse, (1, 0, 0) → (−⅓, ⅔, ⅔), Moreau's and Newton's law.

Neither depends on the order in which the contacts are listed. Contacts in one round share the restitution of their mean,
weighted by the work of their impulses; this keeps (1) from adding energy, which unequal coefficients otherwise can.

Elastic rounds end by themselves. Dissipative ones may go on for ever, each smaller than the last (balls that are pressed
together); after `PATIENCE` of them one plastic round over all closed contacts, e = 0, ends the sequence.

With friction a round solves s⁺ = −e s and Coulomb's law together (Newton's law of impact). That pair of laws can add
energy in eccentric impacts (Kane's paradox); then e is reduced until it does not. Poisson's law takes e as a ratio of impulses,

    compression  s' ≥ 0 with impulses λ_c of Coulomb's law,     restitution  λ_N = e λ_c,N, and Coulomb's law              (2)

and if contacts approach after that, another round follows.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from carom.numerics import complementarity
from carom.numerics.complementarity import Multipliers, friction_derivative, normal_derivative, normal_impulses
from carom.numerics.friction import small
from carom.numerics.held_fixed import held_fixed
from carom.numerics.linalg import dot, matvec, solve
from carom.xla.trees import choose

SIMULTANEOUS = ("reflections", "impulse")
MAX_ROUNDS = 100
PATIENCE = 20
NO_TARGET = 1e-12  # of the rates: less is no restitution but rounding of a velocity that should be zero
CONTRADICTION = 1e-6  # of the rates: targets that contradict one another by less are made to agree
RIDGE = 1e-9  #          of the Delassus matrix: between the rounding of what depends on one another, and what does not
REPLAYED_ROUNDS = 24  # rounds through which derivatives are carried
FEW = 8  #                contacts in the plane; a thousand pushed stacks of up to six boxes, 12 contacts, missed none without help


class Closed(NamedTuple):
    """The contacts at one instant, as arrays; k normals, each with m tangential directions (m = 0: no friction anywhere)."""

    normals: Float[Array, "k n"]  #      ∇φ
    tangents: Float[Array, "k m n"]  #   ∂slip/∂q
    rates: Float[Array, " k"]  #         s = ∇φ·v + ∂φ/∂t
    slides: Float[Array, "k m"]  #       u = ∂slip/∂q·v + ∂slip/∂t
    delassus: Float[Array, "r r"]  #     Z M⁻¹ Zᵀ, Z = normals, then tangents; r = k (1 + m)
    touching: Bool[Array, " k"]
    restitution: Float[Array, " k"]
    friction: Float[Array, " k"]
    rate_rounding: Float[Array, ""]  #   a rate that is rounding

    def covector(self, impulse: "Impulse") -> Float[Array, " n"]:
        """The sum of the impulses of all contacts, Nᵀλ and what friction adds."""
        total = matvec(self.normals.T, impulse.normal)
        if self.slides.shape[1]:
            total = total + impulse.tangential.reshape(-1) @ self.tangents.reshape(-1, self.tangents.shape[2])
        return total


class Impulse(NamedTuple):
    normal: Float[Array, " k"]  #        λ
    tangential: Float[Array, "k m"]
    elastic: Bool[Array, ""]  #          the kinetic energy is kept: e = 1 and no friction took part
    settled: Bool[Array, ""]  #          no closed contact approaches any more, and every solve converged
    any: Bool[Array, ""]  #              some contact did approach
    full: Bool[Array, ""] | bool = False  # more contacts touch than there was room for: this is no answer


class _Round(NamedTuple):
    rates: Float[Array, " r"]  #         all rows: normals, then tangents
    impulse: Float[Array, " r"]
    elastic: Bool[Array, ""]
    converged: Bool[Array, ""]
    rounds: Array


def impact_impulse(closed: Closed, simultaneous: str, *, differentiable: bool = False, poisson: bool = False) -> Impulse:
    """Rounds of (1) until no closed contact approaches. `differentiable` replays them in a form that autodiff can reverse;
    `poisson` takes restitution as a ratio of impulses."""
    k, m = closed.slides.shape
    rates = jnp.concatenate([closed.rates, closed.slides.reshape(-1)])
    start = _Round(rates, jnp.zeros_like(rates), jnp.asarray(True), jnp.asarray(True), jnp.zeros((), jnp.int32))

    def approaching(state: _Round):
        return closed.touching & (state.rates[:k] < -closed.rate_rounding)

    def again(state: _Round):
        tired = (state.rounds >= PATIENCE) & ~state.elastic
        members = closed.touching if simultaneous == "impulse" else jnp.where(tired, closed.touching, approaching(state))
        now = closed._replace(restitution=jnp.where(tired, 0.0, closed.restitution))
        change, elastic, converged = _round(now, state.rates, members, differentiable, poisson)
        return _Round(
            state.rates + matvec(closed.delassus, change),
            state.impulse + change,
            state.elastic & elastic,
            state.converged & converged,
            state.rounds + 1,
        )

    def unfinished(state: _Round):
        return jnp.any(approaching(state)) & (state.rounds < MAX_ROUNDS)

    if not differentiable:
        final = jax.lax.while_loop(unfinished, again, start)
    elif k == 1:
        final = jax.lax.cond(unfinished(start), again, lambda state: state, start)
    else:
        repeat = lambda state, _: (jax.lax.cond(unfinished(state), again, lambda s: s, state), None)  # noqa: E731
        final, _ = jax.lax.scan(repeat, start, None, length=REPLAYED_ROUNDS)
    return Impulse(
        normal=final.impulse[:k],
        tangential=final.impulse[k:].reshape(k, m),
        elastic=final.elastic,
        settled=final.converged & ~jnp.any(approaching(final)),
        any=final.rounds > 0,
    )


def _round(closed: Closed, rates: Array, members: Array, differentiable: bool, poisson: bool):
    """One round: the impulses of the members, whether it was elastic, whether its solve converged."""
    k, m = closed.slides.shape
    if m == 0:
        solution = (held_fixed(normal_impulses) if differentiable else normal_impulses)(closed.delassus, rates, members)
        lam = solution.value
        if differentiable:
            lam = normal_derivative(lam, closed.delassus, rates, members)
        work = jax.lax.stop_gradient(lam * jnp.maximum(-rates, 0.0))
        total = dot(work, jnp.ones_like(work))
        e = dot(work, closed.restitution) / jnp.where(total > 0, total, 1.0)
        return (1.0 + e) * lam, e >= 1.0, solution.converged

    approach = jnp.minimum(rates[:k], 0.0)

    def gain(lam):
        return dot(lam, rates + 0.5 * matvec(closed.delassus, lam))  # the change of the kinetic energy

    tolerance = 1e-14 * jnp.sum(approach**2 / jnp.diagonal(closed.delassus)[:k])
    target = -closed.restitution * approach
    if poisson:
        search = lambda tolerance: largest_share(lambda s: _two_phases(closed, rates, s, members, False), gain, tolerance)  # noqa: E731
        share, law = (held_fixed(search) if differentiable else search)(tolerance)
        if differentiable:  # a share below 1 depends on everything: no derivative, rather than a wrong one
            known = jnp.where(share >= 1.0, 1.0, jnp.nan)
            law = law._replace(value=known * _two_phases(closed, rates, 1.0, members, True).value)
    else:
        law = law_without_gain(closed.delassus, rates, target, closed.friction, members, gain, tolerance, differentiable)
    elastic = jnp.all(~members | ((closed.restitution >= 1.0) & (closed.friction <= 0.0)))
    return law.value, elastic, law.converged


def _two_phases(closed: Closed, rates: Array, share, members: Array, differentiable: bool) -> Multipliers:
    """(2): Poisson's law. What compression leaves is restored by e times its normal impulses, against friction again. That the
    second phase is given its normal impulses is one more contact problem, whose normal rates are these impulses."""
    k, G, mu = members.shape[0], closed.delassus, closed.friction
    solve = lambda *data: friction_law(*data, mu, members, differentiable)  # noqa: E731
    compression = solve(G, rates, jnp.zeros(k))
    between = rates + matvec(G, compression.value)
    given = G.at[:k].set(jnp.eye(k, G.shape[0], dtype=G.dtype))
    restored = share * closed.restitution * compression.value[:k]
    restitution = solve(given, jnp.concatenate([jnp.zeros(k), between[k:]]), restored)
    violation = jnp.maximum(compression.violation, restitution.violation)
    return Multipliers(compression.value + restitution.value, compression.converged & restitution.converged, violation)


def friction_impulses(G, rates, target, friction, members) -> Multipliers:
    """Coulomb's law for all contacts at once. In the plane sweeps and Newton's method end at rounding, also for most tall stacks.
    In space, where contacts depend on one another more often than not, an interior point finds what these miss; in the plane it
    is asked where they did, among more than a few contacts: six of a hundred stacks of ten boxes that are pushed, and rock."""
    k = members.shape[0]
    tangents = rates.shape[0] // max(k, 1) - 1
    if tangents > 1:
        return small.friction_impulses(G, rates, target, friction, members)
    found = complementarity.friction_impulses(G, rates, target, friction, members)
    if tangents == 0 or k <= FEW:
        return found
    left = members & ~found.converged  # none where nothing is left to find: side by side with others, that takes no steps
    again = lambda: small.friction_impulses(G, rates, target, friction, left)  # noqa: E731
    return jax.lax.cond(found.converged, lambda: found, again)


def friction_law(G, rates, target, friction, members, differentiable: bool = False) -> Multipliers:
    """s⁺ ≥ target, complementary, with Coulomb's law. `differentiable`: the same numbers with their exact first derivatives."""
    if not differentiable:
        return friction_impulses(G, rates, target, friction, members)
    solution = held_fixed(friction_impulses)(G, rates, target, friction, members)
    if rates.shape[0] == members.shape[0]:
        return solution._replace(value=normal_derivative(solution.value, G, rates - target, members))
    return solution._replace(value=friction_derivative(solution.value, G, rates, target, friction, members))


def law_without_gain(G, rates, target, friction, members, gain, tolerance, differentiable: bool = False) -> Multipliers:
    """`friction_law` with the largest share of the target, the rates after an impact, that adds no energy.

    What is gained without a target is gained with any share of it: where contacts only press, and forces close what was just
    opening, no share is looked for."""
    idle = jnp.max(jnp.where(members, jnp.abs(target), 0.0)) <= NO_TARGET * jnp.max(jnp.abs(rates))
    tolerance = jnp.where(idle, jnp.inf, tolerance)
    k = target.shape[0]
    if k > 2 and rates.shape[0] > k:
        target = target + held_fixed(_agreement)(G[:k, :k], rates, target, members & ~idle)
    law = lambda share: friction_impulses(G, rates, share * target, friction, members)  # noqa: E731
    search = lambda tolerance: largest_share(law, gain, tolerance)  # noqa: E731
    if not differentiable:
        return search(tolerance)[1]
    share, solution = held_fixed(search)(tolerance)

    def impulses(share):
        if rates.shape[0] == members.shape[0]:
            return normal_derivative(solution.value, G, rates - share * target, members)
        return friction_derivative(solution.value, G, rates, share * target, friction, members)

    # A share between 0 and 1 is where the gain passes through zero: the implicit function theorem gives its derivative, the states
    # of the contacts (open, sticking, sliding) kept.
    excess, slope = jax.jvp(lambda share: gain(impulses(share)), (share,), (jnp.ones_like(share),))
    excess, slope = excess - jax.lax.stop_gradient(excess), jax.lax.stop_gradient(slope)
    limited = (share > 0.0) & (share < 1.0) & (slope != 0.0)
    share = share - jnp.where(limited, excess / jnp.where(limited, slope, 1.0), 0.0)
    return solution._replace(value=impulses(share))


def _agreement(G, rates, target, members):
    """What makes targets agree that contradict one another by next to nothing.

    Four corners of a face have four rates, and a rigid body gives them three: s₁ − s₂ − s₃ + s₄ = 0. Restitution asks each corner
    that approached for its own rate, and the others for none. Of a face that falls flat, but for a tilt of 1e-8, that is what only
    three corners can have, while the fourth opens by 1e-9: a solution that exists, and that no iteration finds. The target is
    moved into the range of G, over the closed contacts; where that moves it far, it is a contradiction, and stays.
    """

    def moved(_):
        both = members[:, None] & members[None, :]
        inside = jnp.where(both, G, 0.0)
        ridge = jnp.where(members, RIDGE * jnp.max(jnp.abs(jnp.diagonal(inside))), 1.0)
        wanted = jnp.where(members, target, 0.0)
        change = matvec(inside, solve(inside + jnp.diag(ridge), wanted)) - wanted
        return jnp.where(jnp.max(jnp.abs(change)) <= CONTRADICTION * jnp.max(jnp.abs(rates)), change, 0.0)

    return jax.lax.cond(jnp.sum(members) > 2, moved, lambda _: jnp.zeros_like(target), None)


def largest_share(solve, gain, tolerance):
    """The largest share ≤ 1 of the restitution that adds no energy, and the solution with it; a share of 0 (plastic, with friction)
    never adds any. Tried first: 1, then 0, then halves."""

    def unfinished(carry):
        low, _, _, count = carry
        return (low < 1.0) & (count < 42)

    def attempt(carry):
        low, high, best, count = carry
        share = jnp.select([count == 0, count == 1], [1.0, 0.0], 0.5 * (low + high))
        solution = solve(share)
        good = (gain(solution.value) <= tolerance) | (count == 1)
        return jnp.where(good, share, low), jnp.where(good, high, share), choose(good, solution, best), count + 1

    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(solve, jnp.ones(())))
    low, _, best, _ = jax.lax.while_loop(unfinished, attempt, (jnp.zeros(()), jnp.ones(()), nothing, 0))
    return low, best
