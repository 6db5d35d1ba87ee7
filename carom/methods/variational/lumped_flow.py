"""The trapezoidal rule for lumped masses: kick, drift, kick, and how long its steps may be.

    μ  = p + ½ h F(q)                                                                                         (1)
    (q₁, μ₁) = the free motion of the masses from (q, μ) over h, on the space's own terms                         (2)
    p₁ = μ₁ + ½ h F(q₁)                                                                                       (3)
    E  = K + ½ (V(q) + V(q₁)),     K the kinetic energy of (2)                                                   (4)

Dry friction of at most f along each coordinate makes a kick by force F over ½h

    p₁ = S(p + ½ h F, ½ h f),     S(x, f) = sign(x) max(|x| − f, 0):                                               (5)

implicit, so that what rests stays at rest exactly where |F| ≤ f, and what slides is slowed by f. What supports hold is left out
of (2) and put in its place; `carom.system.supports` says what that does to (4).

On ℝⁿ (2) is q₁ = q + h μ/m, μ₁ = μ, and (1)–(4) is the rule of (4.3), (4.5)–(4.8) in [demoures2017]. On a group it is the
discrete Lagrangian (5.9) there; `carom.spaces` has the drift.

Small vibrations of frequency ω are multiplied by a matrix A(ωh) each step. They stay bounded while |tr A| ≤ 2; the first ωh
beyond is the `stability_limit` of a rule: 2 for the trapezoidal rule, so that dt ≤ 2/ω, the Courant limit.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from carom.methods.variational.flow import Flow, FlowMap
from carom.system.mechanics import Mechanics
from carom.xla.kernel import once, sealed

KICK_ITERATIONS = 50  # for forces that depend on velocities: a fixed point with the factor ½ h |∂f/∂v| / m


def kick_drift_kick(mechanics: Mechanics, without_energy: bool) -> FlowMap:
    """(1)–(5). `without_energy` leaves the energies out."""
    held = mechanics.supports is not None

    def flow(q, p, t, h):
        force = mechanics.force(q)
        mu, before = _first_kick(mechanics, q, p, t, h, force)  # (1)
        q1, mu1, kinetic, converged = once(mechanics.space.drift(q, once(mechanics.free * mu if held else mu), mechanics.masses, h))
        q1 = mechanics.placed(q1, t + h)  # (2)
        force1 = mechanics.force(q1)
        p1, after, settled = _last_kick(mechanics, q1, mu1 + 0.5 * h * force1, t + h, h)  # (3)
        energy = jnp.zeros_like(h) if without_energy else kinetic + 0.5 * (mechanics.potential(q) + mechanics.potential(q1))  # (4)
        start = end = energy
        if not without_energy:  # (5) of rules.py, with the nodes 0 and 1 and the weights ½
            start = energy - _work(mechanics, q, p, t, before, 0.5 * h * force)
            end = energy + _work(mechanics, q1, p1, t + h, after, 0.5 * h * force1)
        return Flow(q1, p1, start, end, converged & settled & mechanics.admissible(q1))

    return FlowMap(sealed(flow), implicit=False)


def _rubbed(mechanics: Mechanics, q, p, t, h):
    """S of (5): what dry friction leaves of a momentum after half a step."""
    most = 0.5 * h * mechanics.most_friction(q, t)
    return jnp.sign(p) * jnp.maximum(jnp.abs(p) - most, 0.0)


def _first_kick(mechanics: Mechanics, q, p, t, h, force):
    """(1) with external forces and friction, and the impulse of these two."""
    push = 0.5 * h * mechanics.external(q, p, t) if mechanics.functions.forced else jnp.zeros_like(p)
    pushed = p + 0.5 * h * force + push
    if not mechanics.dry:
        return pushed, push
    rubbed = _rubbed(mechanics, q, pushed, t, h)
    return rubbed, push + (rubbed - pushed)


def _last_kick(mechanics: Mechanics, q, p, t, h):
    """(3) from p + ½ h F on: external forces at the momentum they lead to, p₁ = S(p + ½ h f(q, p₁, t)), so that a step undoes its
    reverse; what is held has the momentum of its support. With the impulse of forces and friction, and whether it converged."""
    forced, settled = mechanics.functions.forced, jnp.asarray(True)

    def settle(x):
        rubbed = _rubbed(mechanics, q, x, t, h) if mechanics.dry else x
        return rubbed if mechanics.supports is None else mechanics.remove_reaction(q, rubbed, t)

    if not forced:
        done = settle(p)
        return done, done - p, settled

    def improve(carry):
        now, _, count = carry
        new = settle(p + 0.5 * h * mechanics.external(q, now, t))
        size = jnp.max(jnp.abs(new)) + jnp.max(jnp.abs(p))  # where forces balance, new is small and p, before them, is not
        return new, jnp.max(jnp.abs(new - now)) / (size + 1e-300), count + 1

    start = (jax.lax.stop_gradient(settle(p)), jnp.asarray(jnp.inf, p.dtype), 0)
    frozen = lambda carry: jax.lax.stop_gradient(improve(carry))  # noqa: E731
    found, change, _ = jax.lax.while_loop(lambda c: (c[1] > 1e-15) & (c[2] < KICK_ITERATIONS), frozen, start)
    for _ in range(3):  # derivatives follow by the same fixed point
        found = settle(p + 0.5 * h * mechanics.external(q, found, t))
    push = 0.5 * h * mechanics.external(q, found, t)
    return found, push if not mechanics.dry else found - p, change < 1e-12


def _work(mechanics: Mechanics, q, p, t, push, kick):
    """Of the impulses of forces and friction on what is free, and of supports that move, (2) of supports.py."""
    work = jnp.sum(mechanics.free * push * p / mechanics.masses)
    return work if mechanics.autonomous else work - jnp.sum(kick * mechanics.moved(q, t))


def lumped_lagrangian(mechanics: Mechanics):
    """L_d(q, q₁, t, h) = h ½⟨m ξ, ξ⟩ − ½ h (V(q) + V(q₁)) with q₁ = retract(q, h ξ): (4.2) and (5.9) of [demoures2017]."""

    def value(q, q1, t, h):
        xi = mechanics.space.inverse_retract(q, q1) / h
        return h * (0.5 * jnp.sum(mechanics.masses * xi**2) - 0.5 * (mechanics.potential(q) + mechanics.potential(q1)))

    return value


@functools.cache
def composed_limit(coefficients: tuple[float, ...]) -> float:
    """The largest ωh up to which small vibrations stay bounded under a composition of (1)–(3)."""

    def excess(x):
        """|tr A| − 2 of the product of all stages, each of which is [[a, y], [c, a]] with y = γx; of many x at once."""
        p, q, r, s = 1.0, 0.0, 0.0, 1.0
        for gamma in coefficients:
            y = gamma * x
            a, c = 1 - 0.5 * y * y, y * (0.25 * y * y - 1)
            p, q, r, s = a * p + y * r, a * q + y * s, c * p + a * r, c * q + a * s
        return np.abs(p + s) - 2.0

    grid = np.linspace(1e-3, 20.0, 20_000)
    beyond = grid[excess(grid) > 1e-9]  # 1e-9: |tr A| touches 2 at inner points
    high = float(beyond[0]) if len(beyond) else float("inf")
    low = high - 1e-3
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if excess(middle) > 1e-9 else (middle, high)
    return low
