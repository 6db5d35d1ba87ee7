"""Contacts in a step of `TimeDG`: forces while they press, impulses where they strike."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from carom.contact.laws import impact_impulse, largest_share
from carom.methods.timestepping.motion import Held, Motion
from carom.numerics.complementarity import Multipliers, friction_impulses
from carom.numerics.linalg import dot, matmul, matvec, solve

CALM = 2.0  # a contact that meets no faster than so many times what the forces change in a step meets plastically


class Accelerated(NamedTuple):
    acceleration: Float[Array, " n"]
    forces: Float[Array, " r"]  #     normals, tangents, joints
    solved: Bool[Array, ""]


class Pressed(NamedTuple):
    """What is known of the contacts at the start of a step, and stays so within it."""

    closed: Bool[Array, " k"]  #         gap and rate are zero
    sliding: Bool[Array, " k"]  #        closed, and the contact point moves
    direction: Float[Array, "k m"]  #    of the sliding, at the start

    def accelerate(self, motion: Motion, q, v, t) -> Accelerated:
        """(3) of `TimeDG`: the acceleration with the contact forces at one node."""
        mechanics, k = motion.mechanics, motion.mechanics.num_faces
        free = motion.acceleration(q, v, t)
        held = motion.held(q, v, t)
        joints = held.reaction(matvec(held.normals, free) + _second_rates(motion.joints, q, v, t))
        free = free + matvec(held.response, joints)
        if k == 0:
            return Accelerated(free, joints, jnp.asarray(True))
        rows = jax.jacfwd(motion.contact_rows)(q, t)
        slides = jax.jvp(motion.contact_rows, (q, t), (v, jnp.ones_like(t)))[1][k:].reshape(k, -1)
        directions = _along(slides, self.direction)
        push = force_rows(rows, mechanics._coefficients("friction"), self.sliding, directions)
        loose = mechanics.inverse_mass_times(q, v, t, push.T)
        response = held.through(loose)
        wanted = matvec(rows, free) + _second_rates(motion.contact_rows, q, v, t)  # φ̈ without contact forces
        friction = jnp.where(self.sliding, 0.0, mechanics._coefficients("friction"))
        found = friction_impulses(matmul(rows, response), wanted, jnp.zeros(k), friction, self.closed)
        joints = joints + held.reaction(matvec(held.normals, matvec(loose, found.value)))
        forces = spread(found.value, mechanics._coefficients("friction"), self.sliding, directions)
        return Accelerated(free + matvec(response, found.value), jnp.concatenate([forces, joints]), found.converged)

    def stiffness(self, motion: Motion, q, v, t) -> tuple[Float[Array, "n n"], Float[Array, "n n"]]:
        """∂v̇/∂q and ∂v̇/∂v, where joints and closed contacts hold; how their directions change is left out."""
        slopes = jax.jacfwd(motion.acceleration, argnums=(0, 1))(q, v, t)
        held = motion.held(q, v, t)
        slopes = [held.through(slope) for slope in slopes]
        if motion.mechanics.num_faces:
            rows = jnp.where(self.closed[:, None], jax.jacfwd(motion.mechanics.faces)(q, t), 0.0)
            response = held.through(motion.mechanics.inverse_mass_times(q, v, t, rows.T))
            matrix = matmul(rows, response)
            ridge = jnp.where(self.closed, 1e-13 * jnp.max(jnp.diagonal(matrix)), 1.0)  # contacts may depend on one another
            slopes = [slope - matmul(response, solve(matrix + jnp.diag(ridge), matmul(rows, slope))) for slope in slopes]
        return slopes[0], slopes[1]


def press(motion: Motion, q, v, t, dt) -> Pressed:
    """Which contacts are closed at the start of a step: gap and rate are zero to rounding."""
    mechanics, k = motion.mechanics, motion.mechanics.num_faces
    if k == 0:
        return Pressed(jnp.zeros(0, bool), jnp.zeros(0, bool), jnp.zeros((0, 0)))
    width = mechanics.rounding(q, v, t, dt)
    now = mechanics.closed(q, v, t, mechanics.gaps(q, t) <= width, width)
    # The velocity of a resting contact is a solution to 1e-16 of the rates that the forces of a step cause.
    small = now.small + 1e-13 * dt * jnp.max(jnp.abs(matvec(now.normals, motion.acceleration(q, v, t))))
    closed = now.touching & (jnp.abs(now.rates) <= small)
    speed = jnp.sqrt(jnp.sum(now.slides**2, axis=1))
    limit = small + 1e-13 * dt * jnp.max(jnp.abs(motion.acceleration(q, v, t)))
    sliding = closed & (speed > limit) & (now.friction > 0)
    return Pressed(closed, sliding, now.slides / jnp.where(speed > 0, speed, 1.0)[:, None])


class Sets(NamedTuple):
    """Which contacts take part in the end of a step. Its impulse does not change them, but for rounding."""

    presses: Bool[Array, " k"]  #     has a force at the last node
    sunk: Bool[Array, " k"]  #        has to be projected
    touching: Bool[Array, " k"]
    real: Bool[Array, " k"]  #        meets faster than the forces of a step explain


class Struck(NamedTuple):
    """The end of a step."""

    q: Float[Array, " n"]
    kick: Float[Array, " n"]  #       M⁻¹Zᵀp
    impulses: Float[Array, " r"]
    jump: Float[Array, " n"]  #       Zᵀp
    hits: Bool[Array, " k"]
    solved: Bool[Array, ""]
    settled: Bool[Array, ""]
    sets: Sets


def strike(motion: Motion, simultaneous: str, pressed: Pressed, sets: Sets | None, q, v, t, dt, last, carried) -> Struck:
    """(4) of `TimeDG`: project q, then find the impulse p at the end of the step. `last` are the contact forces at the last node,
    `carried` the impulses of all forces over the step; `sets` are those found before, or None."""
    mechanics, k = motion.mechanics, motion.mechanics.num_faces
    yes = jnp.asarray(True)
    if k == 0:
        q = motion.closer(q, v, t, lambda q: jnp.zeros(0), jnp.zeros(0, bool))
        held = motion.held(q, v, t)
        joints = held.reaction(motion.joint_rates(q, v, t))
        none = jnp.zeros(0, bool)
        jump = matvec(held.normals.T, joints)
        return Struck(q, matvec(held.response, joints), joints, jump, none, yes, yes, Sets(none, none, none, none))
    presses = pressed.closed & (last[:k] > 0) if sets is None else sets.presses
    sunk = presses | (mechanics.faces(q, t) < 0) if sets is None else sets.sunk
    q = motion.closer(q, v, t, lambda q: mechanics.faces(q, t), sunk)
    width = mechanics.rounding(q, v, t, dt)
    touching = sunk | (mechanics.faces(q, t) <= width) if sets is None else sets.touching
    held = motion.held(q, v, t)
    joints = held.reaction(motion.joint_rates(q, v, t))
    v = v + matvec(held.response, joints)
    closed = mechanics.closed(q, v, t, touching, width)
    closed = closed._replace(touching=touching)

    change = dt * jnp.max(jnp.where(touching, jnp.abs(matvec(closed.normals, motion.acceleration(q, v, t))), 0.0))
    real = touching & ~presses & (closed.rates < -CALM * change - closed.small) if sets is None else sets.real
    found, impulse, settled = _impulse(motion, simultaneous, pressed, closed, held, q, v, t, carried, real)
    rows = jnp.concatenate([closed.normals, closed.tangents.reshape(-1, mechanics.dim)])
    loose = mechanics.inverse_mass_times(q, v, t, matvec(rows.T, impulse))
    joints_more = held.reaction(matvec(held.normals, loose))
    kick = loose + matvec(held.response, joints + joints_more)
    jump = matvec(rows.T, impulse) + matvec(held.normals.T, joints + joints_more)
    impulses = jnp.concatenate([impulse, joints + joints_more])
    sets_now = Sets(presses, sunk, touching, real)
    return Struck(q, kick, impulses, jump, real & (impulse[:k] > 0), found.converged, settled, sets_now)


def _impulse(motion: Motion, simultaneous, pressed: Pressed, closed, held: Held, q, v, t, carried, real):
    """p of the contacts. The law is asked for the impulse of the whole step, P = carried + p: so P ≥ 0 and in the cone of friction,
    while p, which corrects the forces, may have either sign."""
    k, impact = real.shape[0], jnp.any(real)
    # Contacts that slide on and are not hit keep the direction of their friction; for the others the cone decides.
    onwards = jnp.sum(closed.slides * pressed.direction, axis=1) > 0
    sliding = pressed.sliding & onwards & ~impact
    directions = _along(closed.slides, pressed.direction)
    rows = jnp.concatenate([closed.normals, closed.tangents.reshape(-1, motion.mechanics.dim)])
    push = force_rows(rows, closed.friction, sliding, directions)
    response = held.through(motion.mechanics.inverse_mass_times(q, v, t, push.T))
    plain = held.through(motion.mechanics.inverse_mass_times(q, v, t, rows.T))
    G, full = matmul(rows, response), matmul(rows, plain)
    rates = jnp.concatenate([closed.rates, closed.slides.reshape(-1)])
    mine = jnp.concatenate([closed.touching, jnp.repeat(closed.touching, closed.slides.shape[1])])
    carried = jnp.where(mine, carried[: mine.shape[0]], 0.0)
    share_of = jnp.where(jnp.concatenate([jnp.zeros(k, bool), jnp.repeat(sliding, closed.slides.shape[1])]), 0.0, carried)
    friction = jnp.where(sliding, 0.0, closed.friction)
    restitution = jnp.where(real, closed.restitution, 0.0)

    first, settled = jnp.zeros_like(rates), jnp.asarray(True)
    if simultaneous == "reflections":
        again = closed._replace(delassus=full, restitution=jnp.where(impact, closed.restitution, 0.0), touching=closed.touching)
        kick = impact_impulse(again._replace(touching=closed.touching & impact), "reflections")
        first, settled = jnp.concatenate([kick.normal, kick.tangential.reshape(-1)]), kick.settled
        restitution = jnp.zeros_like(restitution)
    without = rates + matvec(full, first) - matvec(G, share_of)
    approach = jnp.maximum(-closed.rates, 0.0)

    def solve_for(share) -> Multipliers:
        return friction_impulses(G, without, share * restitution * approach, friction, closed.touching)

    def gain(total):
        p = spread(total - share_of, closed.friction, sliding, directions)
        return dot(p, rates + 0.5 * matvec(full, p))  # the change of the kinetic energy

    tolerance = jnp.where(impact, 1e-14 * jnp.sum(approach**2 / jnp.diagonal(full)[:k]), jnp.inf)
    _, found = largest_share(solve_for, gain, tolerance)
    return found, first + spread(found.value - share_of, closed.friction, sliding, directions), settled


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


def _second_rates(function, q, v, t):
    """d²/dt² of a function of (q, t) along a motion without acceleration."""
    rate = lambda q, t: jax.jvp(function, (q, t), (v, jnp.ones_like(t)))[1]  # noqa: E731
    return jax.jvp(rate, (q, t), (v, jnp.ones_like(t)))[1]
