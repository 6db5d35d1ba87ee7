"""The Moreau–Jean scheme: forces, contacts and impacts in one impulse per step."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from carom.calls import public, real
from carom.contact.laws import SIMULTANEOUS, Closed, friction_law, impact_impulse, law_without_gain
from carom.errors import InputError
from carom.methods.method import StepRecord
from carom.methods.status import CONTACT_UNSOLVED, NOT_CONVERGED, OK, UNSETTLED
from carom.methods.timestepping.motion import Motion, Step, Timestepping
from carom.numerics.held_fixed import held_fixed
from carom.numerics.linalg import dot, matmul, matvec, solve
from carom.system.contacts_in_step import Near, near_contacts
from carom.wanted import one_of
from carom.xla.kernel import sealed

NEWTON_STEPS = 20
HOVERING = 1e-6  # of the way that forces move a body in a step: a contact that is open by less is closed


@public
class MoreauJean(Timestepping):
    """Timestepping without events: one velocity problem per step holds forces, resting contact, friction and impacts.

    With the acceleration a = M⁻¹f of the forces, the rows Z of contact normals and tangents at q_i + h v_i/2, and
    gap rates s = ∇φ·v + ∂φ/∂t, a step from (q₀, v₀) over h is

        q₁ = q₀ + h [(1 − θ) v₀ + θ v₁]                                                                        (1)
        v₁ = v₀ + h [(1 − θ) a(q₀, v₀) + θ a(q₁, v₁)] + M⁻¹Zᵀλ                                                 (2)
        0 ≤ λ_N ⊥ s₁ − e max(0, −s₀) ≥ 0,   λ_T in Coulomb's cone against the sliding velocity after the step  (3)
        for the contacts with φ(q₀ + h v₀/2) ≤ 10⁻⁶ h²|∇φ·a|, or rounding; joints hold their rates at zero     (4)

    On rotations v and a are those of the body (Euler's and Kirchhoff's equations), and (1) is q₁ = retract(q₀, h […]): a free body
    that turns evenly goes on so, with every θ. (2) is solved by Newton's method where a depends on q₁ or v₁. With
    `simultaneous="reflections"` the impacts are resolved first, by the sequence of `carom.contact.laws`, and (3) is then solved
    with e = 0: a touching row of balls passes the impulse on.

    *Preserves*: what rests, rests: velocities of resting and sticking contacts are zero to rounding. No contact adds energy where
    1/2 ≤ θ ≤ 1/(1 + e), but for h²|f|²/8m where a contact closes that was just opening. Gaps may be violated by O(h).
    *Order*: 1, in L1 through any number of impacts and with joints; smooth motion without joints 2 for θ = 1/2.
    *Choose it for* many contacts, friction, resting contact and accumulating impacts, where nothing but the mean matters.

    (1)–(2) are Algorithm 1.4 of [schindler2014]; (3) its (20) and (21), read as s₁ ≥ 0 and s₁ + e s₀ ≥ 0; (4) is a predictor: with
    the contacts taken at the unknown q₁ a step can have no solution.

    - `theta`: 1/2 is the trapezoidal rule, 1 the implicit, 0 the explicit Euler rule.
    - `simultaneous`: "impulse", one impulse on all contacts, or "reflections", see `carom.contact.laws`.
    """

    takes: ClassVar = Timestepping.takes | {"obstacles", "massless", "contacts along massless directions"}

    theta: Float[Array, ""]
    simultaneous: str = eqx.field(static=True)

    preserves = ("rest",)

    def __init__(self, theta: float = 0.5, *, simultaneous: str = "impulse"):
        try:
            inside = 0 <= real(theta) <= 1
        except (TypeError, ValueError):
            inside = False
        if not inside:
            raise InputError(f"theta must lie in [0, 1]; got {theta!r}")
        one_of(simultaneous, SIMULTANEOUS, "simultaneous")
        self.theta, self.simultaneous = jnp.asarray(theta, float), simultaneous

    @property
    def order(self) -> int:
        return 2 if float(self.theta) == 0.5 else 1

    @property
    def nodes(self) -> np.ndarray:
        return np.zeros(1)  # positions are straight, velocities constant within a step

    @property
    def pushes_at_ends(self) -> bool:
        return True

    def refuses(self, needs: frozenset[str]) -> str | None:
        if "massless" in needs and float(self.theta) != 1.0:
            return "directions without mass take the implicit rule, MoreauJean(theta=1)"
        if "poisson" in needs and self.simultaneous != "reflections":
            return "Poisson's law has two phases, which one impulse per step does not: pass simultaneous='reflections'"
        return super().refuses(needs)

    def near(self, motion: Motion, q, v, t, dt) -> Near | None:
        contacts = motion.mechanics.contacts
        if contacts.has_room:
            return None
        middle = q + 0.5 * dt * v, v, t + 0.5 * dt

        @held_fixed
        def change(q, v, t):  # of the rates of the gaps, by the forces
            return jax.jvp(lambda x: contacts.faces(x, t), (q,), (motion.acceleration(q, v, t),))[1]

        reach = _held_within(change(*middle), dt) if contacts.plain else 0.0
        return near_contacts(contacts, *middle, dt, reach)  # (4)

    def timestep(self, motion: Motion, q, v, t, dt, number, *, differentiable: bool = False) -> Step:
        return _step(self, motion, q, v, t, dt, differentiable)


class _Iterate(NamedTuple):
    """One Newton iterate of (2)–(3)."""

    v: Float[Array, " n"]
    impulses: Float[Array, " r"]
    jump: Float[Array, " n"]  #    Zᵀλ, joints included
    hits: Bool[Array, " k"]  #     contacts that approach faster than the forces of a step explain, and carry an impulse
    solved: Bool[Array, ""]
    settled: Bool[Array, ""]
    pushed: Float[Array, " n"]  #  M⁻¹Zᵀλ; Zᵀλ where some direction has no mass
    missing: Float[Array, ""]  #   in (2)
    rounds: Array


def _step(method: MoreauJean, motion: Motion, q, v, t, dt, differentiable: bool) -> Step:
    theta, t_end, middle = method.theta, t + dt, q + 0.5 * dt * v
    before = sealed(motion.body_acceleration)(q, v, t)
    now_rates = motion.chart_rates(middle, v)  # on rotations the unknown are rates in the chart where the contacts are looked at
    met = None if motion.contacts.num_contacts == 0 else _meet_if_near(motion, middle, now_rates, t + 0.5 * dt, dt, before)
    resolve = sealed(lambda *args: _resolve(method, motion, *args, differentiable))

    def defect(rates):
        """(2), multiplied by M where some direction has none."""
        w = motion.body_velocity(middle, rates)
        moved = q + dt * ((1 - theta) * v + theta * w)
        if motion.massless:
            return matvec(motion.mechanics.mass(q, v, t), w - v) - dt * motion.force(moved, w, t_end)
        missing = w - v - dt * ((1 - theta) * before + theta * motion.body_acceleration(moved, w, t_end))
        return motion.chart_rates(middle, missing)

    def residual(new: _Iterate):
        """What is missing in (2), relative to the velocities. Where contacts depend on one another their impulses, and sometimes
        the velocities, are not unique: that these still change says nothing."""
        size = jnp.max(jnp.abs(new.pushed)) + dt * jnp.max(jnp.abs(before)) + 1e-300
        size = size if motion.massless else size + jnp.max(jnp.abs(new.v))
        return jnp.max(jnp.abs(defect(new.v) - new.pushed)) / size

    def correct(now: _Iterate) -> _Iterate:
        slope = None if motion.explicit else held_fixed(jax.jacfwd(defect))(now.v)
        free = now.v - (defect(now.v) if slope is None else solve(slope, defect(now.v)))
        return resolve(met, now_rates, free, middle, t + 0.5 * dt, slope)

    def improve(now: _Iterate) -> _Iterate:
        new = correct(now)
        return new._replace(missing=jnp.zeros(()) if motion.explicit else residual(new), rounds=now.rounds + 1)

    def unfinished(now: _Iterate):
        settled = (now.missing < 1e-12) & (now.rounds > 3)  # quadratic convergence has ended at rounding
        return (now.missing > 1e-15) & (now.rounds < NEWTON_STEPS) & ~settled

    yes, none = jnp.asarray(True), jnp.zeros(motion.contacts.num_faces, bool)
    still = jnp.zeros_like(v)
    start = _Iterate(now_rates, jnp.zeros(motion.rows), still, none, yes, yes, still, jnp.asarray(jnp.inf), jnp.zeros((), int))
    if motion.explicit:
        now = improve(start)
    else:
        iterate = lambda start: jax.lax.while_loop(unfinished, improve, start)  # noqa: E731
        now = (held_fixed(iterate) if differentiable else iterate)(start)
    converged = now.missing <= 1e-10
    if differentiable and not motion.explicit:
        # At the solution one more iteration changes nothing, and its derivative is that of the solution: what the slope of (2)
        # leaves out is multiplied by a residual of zero.
        now = correct(now)
    v_end = motion.body_velocity(middle, now.v)
    mean = (1 - theta) * v + theta * v_end
    q_end = q + dt * mean  # (1)
    if motion.num_joints:
        q_end = motion.project(q_end, now.v, t_end, lambda q: jnp.zeros(0), jnp.zeros(0, bool))
    status = jnp.select([~converged, ~now.solved, ~now.settled], [NOT_CONVERGED, CONTACT_UNSOLVED, UNSETTLED], OK)
    record = StepRecord(mean[None], jnp.zeros((1, motion.rows)), now.impulses)
    return Step(q_end, motion.chart_rates(q_end, v_end), record, now.jump, now.hits, status)


class _Met(NamedTuple):
    """The contacts of a step, and M⁻¹Zᵀ."""

    closed: Closed
    changes: Float[Array, "n r"]


def _meet_if_near(motion: Motion, q, v, t, dt, before) -> _Met:
    """(4), where one contact is so near that its rows are needed; where there is room for all, they always are computed."""
    meet = sealed(lambda *at: _meet(motion, *at, dt))
    at = q, v, t, motion.chart_rates(q, before)
    if motion.any_near is None:
        return meet(*at)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(meet, *at))
    return jax.lax.cond(motion.any_near, meet, lambda *_: nothing, *at)


def _held_within(change: Float[Array, " faces"], dt) -> Float[Array, " faces"]:
    """How far what rests may be off. The velocity of a resting contact is zero to the rounding of what forces change in a step, and
    that adds up: a block that sticks is lifted by 4e-15 in five seconds. Were its foot open then, it would fall for a step, by
    10¹¹ times as much. `change` is what forces do to the rates."""
    return HOVERING * dt**2 * jnp.abs(change)


def _meet(motion: Motion, q, v, t, acceleration, dt) -> _Met:
    """(4): the contacts of a step. `acceleration` is that of its start, a scale."""
    contacts = motion.contacts
    gap_rounding = contacts.gap_rounding(q, v, t, dt)
    if contacts.plain:
        change = held_fixed(lambda q, t, acceleration: matvec(contacts.normals(q, t), acceleration))
        gap_rounding = gap_rounding + _held_within(change(q, t, acceleration), dt)
    touching = contacts.gaps(q, t) <= gap_rounding
    pace = dt * jnp.max(jnp.abs(acceleration)) if motion.remembers_rest else 0.0
    closed = contacts.closed(motion.mechanics, q, v, t, touching, gap_rounding, pace)
    rows = jnp.concatenate([closed.normals, closed.tangents.reshape(-1, v.shape[0])])
    return _Met(closed, motion.mechanics.inverse_mass_times(q, v, t, rows.T))  # which `closed` has computed, too


def _resolve(method, motion: Motion, met: _Met | None, v, free, q, t, slope, differentiable: bool) -> _Iterate:
    """(3): from the velocity that the forces alone would give to the one that contacts and joints allow."""

    def response(covectors, changes=None):
        """What an implicit step leaves of the change that an impulse makes."""
        if motion.massless:
            return solve(slope, covectors)
        changes = motion.mechanics.inverse_mass_times(q, v, t, covectors) if changes is None else changes
        return changes if slope is None else solve(slope, changes)

    held = motion.held(q, v, t, response)
    reaction = held.reaction(motion.held_rates(q, free, t))
    free = free + matvec(held.response, reaction)
    yes, no_change, count = jnp.asarray(True), jnp.zeros(()), jnp.zeros((), int)

    def pushed_by(jump, of_contacts):
        """M⁻¹Zᵀλ."""
        if motion.massless:
            return jump
        return motion.mechanics.inverse_mass_times(q, v, t, jump) if motion.num_held else of_contacts

    if met is None:
        jump = matvec(held.normals.T, reaction)
        by = pushed_by(jump, jump)
        return _Iterate(free, reaction, jump, jnp.zeros(0, bool), yes, yes, by, no_change, count)
    closed, k = met.closed, met.closed.touching.shape[0]
    rows = jnp.concatenate([closed.normals, closed.tangents.reshape(-1, v.shape[0])])
    loose = response(rows.T, met.changes)
    through = held.through(loose)
    if slope is not None or motion.num_held:  # otherwise it is what it was
        closed = closed._replace(delassus=matmul(rows, through))
    pushed = matvec(rows, free - v)
    solve_it = lambda closed, pushed: _contact_impulse(method, motion, closed, pushed, differentiable)  # noqa: E731
    if motion.any_near is None:
        impulse, solved, settled = solve_it(closed, pushed)
    else:
        yes = jnp.asarray(True)
        nothing = lambda closed, pushed: (jnp.zeros_like(pushed), yes, yes)  # noqa: E731
        impulse, solved, settled = jax.lax.cond(motion.any_near, solve_it, nothing, closed, pushed)
    reaction = reaction + held.reaction(matvec(held.normals, matvec(loose, impulse)))
    calm = 2 * jnp.max(jnp.where(closed.touching, jnp.abs(pushed[:k]), 0.0)) + closed.rate_rounding
    hits = closed.touching & (impulse[:k] > 0) & (closed.rates < -calm)
    jump = matvec(rows.T, impulse) + matvec(held.normals.T, reaction)
    all_impulses = jnp.concatenate([impulse, reaction])
    by = pushed_by(jump, matvec(met.changes, impulse))
    return _Iterate(free + matvec(through, impulse), all_impulses, jump, hits, solved, settled, by, no_change, count)


def _contact_impulse(
    method: MoreauJean, motion: Motion, closed: Closed, pushed, differentiable: bool
) -> tuple[Array, Array, Array]:
    """λ of (3); `pushed` is what the forces of the step add to the rates."""
    k, G = closed.touching.shape[0], closed.delassus
    before = jnp.concatenate([closed.rates, closed.slides.reshape(-1)])
    rates = before + pushed
    approach = jnp.maximum(-closed.rates, 0.0)
    if method.simultaneous == "reflections":
        kick = impact_impulse(closed, "reflections", differentiable=differentiable, poisson=motion.poisson)
        first = jnp.concatenate([kick.normal, kick.tangential.reshape(-1)])
        after = rates + matvec(G, first)
        rest = friction_law(G, after, jnp.zeros(k), closed.friction, closed.touching, differentiable)
        return first + rest.value, rest.converged, kick.settled

    def gain(impulse):
        """What the impulse does, its work on the mean of the rates before and after. Were the work of the forces in it, an elastic
        contact that they pull away from would lose what they give."""
        return 0.5 * dot(impulse, before + rates + matvec(G, impulse))

    tolerance = 1e-14 * jnp.sum(approach**2 / jnp.diagonal(G)[:k])
    target = closed.restitution * approach
    solution = law_without_gain(G, rates, target, closed.friction, closed.touching, gain, tolerance, differentiable)
    return solution.value, solution.converged, jnp.asarray(True)
