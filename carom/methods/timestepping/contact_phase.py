"""Contacts in a step of `TimeDG`: forces while they press, impulses where they strike."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from carom.contact.laws import Closed, friction_law, impact_impulse, law_without_gain
from carom.methods.timestepping.motion import JointReaction, Motion
from carom.numerics.held_fixed import held_fixed
from carom.numerics.linalg import dot, matmul, matvec, solve

CALM = 2.0  # a contact that meets no faster than so many times what the forces change in a step meets plastically


class Accelerated(NamedTuple):
    acceleration: Float[Array, " n"]
    forces: Float[Array, " r"]  #     normals, tangents, joints
    solved: Bool[Array, ""]


class ClosedContacts(NamedTuple):
    """What is known of the contacts at the start of a step, and stays so within it."""

    closed: Bool[Array, " k"]  #         gap and rate are zero
    sliding: Bool[Array, " k"]  #        closed, and the contact point moves
    direction: Float[Array, "k m"]  #    of the sliding, at the start

    def accelerate(self, motion: Motion, q, v, t, differentiable: bool = False) -> Accelerated:
        """(3) of `TimeDG`: the acceleration with the contact forces at one node."""
        contacts, k = motion.contacts, motion.contacts.num_faces
        free = motion.acceleration(q, v, t)
        held = motion.held(q, v, t)
        joints = held.reaction(matvec(held.normals, free) + _turning(motion.held_rates, q, v, t))
        free = free + matvec(held.response, joints)
        if k == 0:
            return Accelerated(free, joints, jnp.asarray(True))
        rows = contacts.rows(q, v, t)
        slides = contacts.slides(q, v, t)
        friction = contacts.friction(slides, ~self.sliding)
        directions = _along(slides, self.direction)
        push = force_rows(rows, friction, self.sliding, directions)
        loose = motion.mechanics.inverse_mass_times(q, v, t, push.T)
        response = held.through(loose)
        wanted = matvec(rows, free) + _turning(contacts.rates, q, v, t)  # φ̈ without contact forces
        rough = jnp.where(self.sliding, 0.0, friction)
        found = friction_law(matmul(rows, response), wanted, jnp.zeros(k), rough, self.closed, differentiable)
        joints = joints + held.reaction(matvec(held.normals, matvec(loose, found.value)))
        forces = spread(found.value, friction, self.sliding, directions)
        return Accelerated(free + matvec(response, found.value), jnp.concatenate([forces, joints]), found.converged)

    def stiffness(self, motion: Motion, q, v, t) -> tuple[Float[Array, "n n"], Float[Array, "n n"]]:
        """∂v̇/∂q and ∂v̇/∂v, where joints and closed contacts hold; how their directions change is left out."""
        slopes = jax.jacfwd(motion.acceleration, argnums=(0, 1))(q, v, t)
        held = motion.held(q, v, t)
        slopes = [held.through(slope) for slope in slopes]
        if motion.contacts.num_faces:
            rows = jnp.where(self.closed[:, None], motion.contacts.normals(q, t), 0.0)
            response = held.through(motion.mechanics.inverse_mass_times(q, v, t, rows.T))
            matrix = matmul(rows, response)
            ridge = jnp.where(self.closed, 1e-13 * jnp.max(jnp.diagonal(matrix)), 1.0)  # contacts may depend on one another
            slopes = [slope - matmul(response, solve(matrix + jnp.diag(ridge), matmul(rows, slope))) for slope in slopes]
        return slopes[0], slopes[1]


def find_closed(motion: Motion, q, v, t, dt) -> ClosedContacts:
    """Which contacts are closed at the start of a step: gap and rate are zero to rounding."""
    contacts, k = motion.contacts, motion.contacts.num_faces
    if k == 0:
        return ClosedContacts(jnp.zeros(0, bool), jnp.zeros(0, bool), jnp.zeros((0, 0)))
    gap_rounding = contacts.gap_rounding(q, v, t, dt)
    now = contacts.closed(motion.mechanics, q, v, t, contacts.gaps(q, t) <= gap_rounding, gap_rounding)
    # The velocity of a resting contact is a solution to 1e-16 of the rates that the forces of a step cause.
    acceleration = held_fixed(motion.acceleration)(q, v, t)
    rate_rounding = now.rate_rounding + 1e-13 * dt * jnp.max(jnp.abs(matvec(now.normals, acceleration)))
    closed = now.touching & (jnp.abs(now.rates) <= rate_rounding)
    square = jnp.sum(now.slides**2, axis=1)
    speed = jnp.sqrt(jnp.where(square > 0, square, 1.0)) * (square > 0)
    limit = rate_rounding + 1e-13 * dt * jnp.max(jnp.abs(acceleration))
    sliding = closed & (speed > limit) & (now.friction > 0)
    return ClosedContacts(closed, sliding, now.slides / jnp.where(speed > 0, speed, 1.0)[:, None])


class Sets(NamedTuple):
    """Which contacts take part in the end of a step. Its impulse does not change them, but for rounding."""

    presses: Bool[Array, " k"]  #     has a force at the last node
    sunk: Bool[Array, " k"]  #        has to be projected
    touching: Bool[Array, " k"]
    real: Bool[Array, " k"]  #        meets faster than the forces of a step explain


class StepEnding(NamedTuple):
    """The end of a step."""

    q: Float[Array, " n"]
    kick: Float[Array, " n"]  #       M⁻¹Zᵀp
    impulses: Float[Array, " r"]
    jump: Float[Array, " n"]  #       Zᵀp
    hits: Bool[Array, " k"]
    solved: Bool[Array, ""]
    settled: Bool[Array, ""]
    sets: Sets


def finish(motion: Motion, simultaneous: str, differentiable: bool, pressed: ClosedContacts, sets: Sets | None, q, v, t, dt, last,
           carried) -> StepEnding:  # fmt: skip
    """(4) of `TimeDG`: project q, then find the impulse p at the end of the step. `last` are the contact forces at the last node,
    `carried` the impulses of all forces over the step; `sets` are those found before, or None."""
    mechanics, contacts, k = motion.mechanics, motion.contacts, motion.contacts.num_faces
    if k == 0:
        return _finish_without_contacts(motion, q, v, t)

    # Where the step ends: on the contacts that press, and not inside the others.
    presses = pressed.closed & (last[:k] > 0) if sets is None else sets.presses
    sunk = presses | (contacts.faces(q, t) < 0) if sets is None else sets.sunk
    q = motion.project(q, v, t, lambda q: contacts.faces(q, t), sunk)

    # Which contacts take part there, and with which rates once the joints hold.
    gap_rounding = contacts.gap_rounding(q, v, t, dt)
    touching = sunk | (contacts.faces(q, t) <= gap_rounding) if sets is None else sets.touching
    held = motion.held(q, v, t)
    joints = held.reaction(motion.held_rates(q, v, t))
    v = v + matvec(held.response, joints)
    acceleration = held_fixed(motion.acceleration)(q, v, t)  # a scale, for what counts as an impact
    pace = dt * jnp.max(jnp.abs(acceleration)) if motion.remembers_rest else 0.0
    closed = contacts.closed(mechanics, q, v, t, touching, gap_rounding, pace)._replace(touching=touching)
    change = dt * jnp.max(jnp.where(touching, jnp.abs(matvec(closed.normals, acceleration)), 0.0))
    real = touching & ~presses & (closed.rates < -CALM * change - closed.rate_rounding) if sets is None else sets.real

    # Their impulse, and what it does to the joints.
    law = _EndLaw.of(motion, pressed, closed, held, q, v, t, carried, real)
    found, impulse, settled = law.impulse(simultaneous, differentiable, motion.poisson)
    rows = jnp.concatenate([closed.normals, closed.tangents.reshape(-1, mechanics.dim)])
    loose = mechanics.inverse_mass_times(q, v, t, matvec(rows.T, impulse))
    joints = joints + held.reaction(matvec(held.normals, loose))
    kick = loose + matvec(held.response, joints)
    jump = matvec(rows.T, impulse) + matvec(held.normals.T, joints)
    hits = real & (impulse[:k] > 0)
    sets_now = Sets(presses, sunk, touching, real)
    return StepEnding(q, kick, jnp.concatenate([impulse, joints]), jump, hits, found.converged, settled, sets_now)


def _finish_without_contacts(motion: Motion, q, v, t) -> StepEnding:
    """Joints back to zero, in position and rate."""
    q = motion.project(q, v, t, lambda q: jnp.zeros(0), jnp.zeros(0, bool))
    held = motion.held(q, v, t)
    joints = held.reaction(motion.held_rates(q, v, t))
    none, yes = jnp.zeros(0, bool), jnp.asarray(True)
    jump = matvec(held.normals.T, joints)
    return StepEnding(q, matvec(held.response, joints), joints, jump, none, yes, yes, Sets(none, none, none, none))


class _EndLaw(NamedTuple):
    """The problem for p. The law is asked for the impulse of the whole step, P = carried + p: so P ≥ 0 and in the cone of friction,
    while p, which corrects the forces, may have either sign."""

    closed: Closed
    rates: Float[Array, " r"]  #          before p
    G: Float[Array, "r r"]  #             of impulses along `force_rows`
    full: Float[Array, "r r"]  #          of impulses along the plain rows
    carried: Float[Array, " r"]  #        what the forces have brought already; zero along friction that follows them
    sliding: Bool[Array, " k"]  #         keeps the direction of its friction; for the others the cone decides
    directions: Float[Array, "k m"]
    real: Bool[Array, " k"]

    @staticmethod
    def of(motion: Motion, pressed: ClosedContacts, closed: Closed, held: JointReaction, q, v, t, carried, real) -> "_EndLaw":
        k, m = closed.slides.shape
        onwards = jnp.sum(closed.slides * pressed.direction, axis=1) > 0
        sliding = pressed.sliding & onwards & ~jnp.any(real)
        directions = _along(closed.slides, pressed.direction)
        rows = jnp.concatenate([closed.normals, closed.tangents.reshape(-1, motion.mechanics.dim)])
        push = force_rows(rows, closed.friction, sliding, directions)
        response = held.through(motion.mechanics.inverse_mass_times(q, v, t, push.T))
        plain = held.through(motion.mechanics.inverse_mass_times(q, v, t, rows.T))
        mine = jnp.concatenate([closed.touching, jnp.repeat(closed.touching, m)])
        follows = jnp.concatenate([jnp.zeros(k, bool), jnp.repeat(sliding, m)])
        carried = jnp.where(mine & ~follows, carried[: mine.shape[0]], 0.0)
        rates = jnp.concatenate([closed.rates, closed.slides.reshape(-1)])
        return _EndLaw(closed, rates, matmul(rows, response), matmul(rows, plain), carried, sliding, directions, real)

    def impulse(self, simultaneous: str, differentiable: bool, poisson: bool):
        """p, its solver's report, and whether the sequence of impacts settled."""
        closed, impact, k = self.closed, jnp.any(self.real), self.real.shape[0]
        friction = jnp.where(self.sliding, 0.0, closed.friction)
        restitution = jnp.where(self.real, closed.restitution, 0.0)
        first, settled = jnp.zeros_like(self.rates), jnp.asarray(True)
        if simultaneous == "reflections":  # first the sequence, then what presses
            again = closed._replace(
                delassus=self.full,
                restitution=jnp.where(impact, closed.restitution, 0.0),
                touching=closed.touching & impact,
            )
            kick = impact_impulse(again, "reflections", differentiable=differentiable, poisson=poisson)
            first, settled = jnp.concatenate([kick.normal, kick.tangential.reshape(-1)]), kick.settled
            restitution = jnp.zeros_like(restitution)
        without = self.rates + matvec(self.full, first) - matvec(self.G, self.carried)
        approach = jnp.maximum(-closed.rates, 0.0)

        def gain(total):
            p = spread(total - self.carried, closed.friction, self.sliding, self.directions)
            return dot(p, self.rates + 0.5 * matvec(self.full, p))  # the change of the kinetic energy

        tolerance = jnp.where(impact, 1e-14 * jnp.sum(approach**2 / jnp.diagonal(self.full)[:k]), jnp.inf)
        target = restitution * approach
        found = law_without_gain(self.G, without, target, friction, closed.touching, gain, tolerance, differentiable)
        return found, first + spread(found.value - self.carried, closed.friction, self.sliding, self.directions), settled


# -- friction of contacts that slide -------------------------------------------------------------------------------------


def force_rows(rows, friction, sliding, directions):
    """The rows along which contact forces act: the normal force of a contact that slides brings its friction with it."""
    k, m = directions.shape
    if m == 0:
        return rows
    tangents = rows[k:].reshape(k, m, -1)
    drag = jnp.sum(tangents * directions[:, :, None], axis=1) * jnp.where(sliding, friction, 0.0)[:, None]
    return jnp.concatenate([rows[:k] - drag, rows[k:]])


def spread(values, friction, sliding, directions):
    """Normal and tangential parts from forces along `force_rows`."""
    k, m = directions.shape
    if m == 0:
        return values
    drag = -(jnp.where(sliding, friction, 0.0) * values[:k])[:, None] * directions
    return jnp.concatenate([values[:k], values[k:] + drag.reshape(-1)])


def _along(slides, direction):
    """The directions of sliding velocities, or the old ones where these have turned round or stopped."""
    square = jnp.sum(slides**2, axis=1)
    onwards = jnp.sum(slides * direction, axis=1) > 0
    return jnp.where(onwards[:, None], slides / jnp.sqrt(jnp.where(onwards, square, 1.0))[:, None], direction)


def _turning(rates, q, v, t):
    """How rates change along a motion without acceleration: with q and t, not with v."""
    return jax.jvp(lambda q, t: rates(q, v, t), (q, t), (v, jnp.ones_like(t)))[1]
