"""Algorithm 3.4 of [schindler2014], the forecasting trapezoidal rule, and nothing beyond it: (72)–(75) there with M = 1.

    r⁺ at (q₀, v₀):  0 ≤ r⁺ ⊥ φ̈ ≥ 0 where φ ≤ 0 and φ̇ ≤ 0;      v̂ = v₀ + h M⁻¹(f₀ + Zᵀr⁺)                       (1)
    q₁ = q₀ + h/2 (v₀ + v̂)                                                                                  (2)
    r⁻ at (q₁, v̂):   the same question, asked there;              v₁ = v₀ + h/2 M⁻¹(f₀ + Zᵀr⁺ + f₁ + Zᵀr⁻) + M⁻¹Zᵀp  (3)
    p: Newton's law, φ̇⁺ = −e φ̇⁻, for all contacts with φ(q₁) ≤ 0                                             (4)

What `TimeDG` does beyond that, and why: a contact keeps for the whole step what it is at its start, or stages of higher degree
alternate; q₁ is projected, or a contact that presses is left by the error of the method and met again and again; and one that meets
slower than the forces explain meets plastically, or a ball that rebounds never rests, and sinks.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool

from carom.contact.laws import friction_law
from carom.methods.method import StepRecord
from carom.methods.status import CONTACT_UNSOLVED, OK
from carom.methods.timestepping.contact_phase import ClosedContacts
from carom.methods.timestepping.motion import Motion, Step
from carom.numerics.linalg import matmul, matvec


def printed_step(motion: Motion, q, v, t, dt, differentiable: bool) -> Step:
    """(1)–(4)."""
    mechanics, contacts, k = motion.mechanics, motion.contacts, motion.contacts.num_faces

    def node(q, v, t):
        closed = ClosedContacts(_closed(motion, q, v, t, dt), jnp.zeros(k, bool), jnp.zeros((k, 0)))
        return closed.accelerate(motion, q, v, t, differentiable)

    first = node(q, v, t)
    forecast = v + dt * first.acceleration  # (1)
    q_end, t_end = q + 0.5 * dt * (v + forecast), t + dt  # (2)
    last = node(q_end, forecast, t_end)
    v_free = v + 0.5 * dt * (first.acceleration + last.acceleration)  # (3)
    velocities, forces = jnp.stack([v, forecast]), jnp.stack([first.forces, last.forces])
    solved = first.solved & last.solved
    if k == 0:
        status = jnp.where(solved, OK, CONTACT_UNSOLVED)
        return Step(q_end, v_free, StepRecord(velocities, forces, jnp.zeros(0)), jnp.zeros_like(v), jnp.zeros(0, bool), status)

    width = contacts.gap_rounding(q_end, v_free, t_end, dt)
    touching = contacts.faces(q_end, t_end) <= width
    closed = contacts.closed(mechanics, q_end, v_free, t_end, touching, width)
    response = mechanics.inverse_mass_times(q_end, v_free, t_end, closed.normals.T)
    target = closed.restitution * jnp.maximum(-closed.rates, 0.0)
    found = friction_law(matmul(closed.normals, response), closed.rates, target, jnp.zeros(k), touching, differentiable)  # (4)
    status = jnp.where(solved & found.converged, OK, CONTACT_UNSOLVED)
    hits = touching & (found.value > 0)
    jump = matvec(closed.normals.T, found.value)
    return Step(q_end, v_free + matvec(response, found.value), StepRecord(velocities, forces, found.value), jump, hits, status)


def _closed(motion: Motion, q, v, t, dt) -> Bool[Array, " k"]:
    """Which contacts are asked for a force: those that touch and do not open."""
    contacts = motion.contacts
    if contacts.num_faces == 0:
        return jnp.zeros(0, bool)
    width = contacts.gap_rounding(q, v, t, dt)
    now = contacts.closed(motion.mechanics, q, v, t, contacts.gaps(q, t) <= width, width)
    return now.touching & (now.rates <= now.rate_rounding)
