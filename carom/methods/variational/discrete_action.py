"""The discrete Lagrangian as a function, L_d(q₀, q₁, h), with its discrete momenta and energy.

    L_d(q₀, q₁, h) ≈ ∫ L(q, q̇) dt over the motion from q₀ to q₁ in the time h                                             (1)
    p₀ = −D₁L_d,      p₁ = D₂L_d,      E = −D₃L_d                                                                        (2)

(2) are the discrete Legendre transforms (50) and the discrete energy (55) of [fetecau2003]. Summed over the points of a run and its
impacts this is the discrete action, whose gradient `carom.diagnostics.action_gradient` measures.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from carom.calls import public
from carom.errors import InputError
from carom.methods.method import State
from carom.methods.variational.rules import Rule
from carom.named import frozen
from carom.system.mechanics import Mechanics
from carom.system.system import System


class Legendre(NamedTuple):
    """(2), covectors at the two ends; where L_d depends on time the energies at the two ends differ."""

    p0: Float[Array, " n"]
    p1: Float[Array, " n"]
    energy_start: Float[Array, ""]
    energy_end: Float[Array, ""]


@public
class DiscreteLagrangian:
    """L_d(q0, q1, h, t=0): a pure function that can be jitted, mapped and differentiated twice."""

    def __init__(self, system: System, rule: Rule, params: Any = None):
        if not isinstance(system, System):
            raise InputError(f"system must be a carom.System; got {type(system).__name__}")
        if not isinstance(rule, Rule):
            raise InputError(f"rule must be a carom rule such as carom.Trapezoidal(); got {rule!r}")
        self.system, self.rule, self.params = frozen(system), rule, params

    def bound(self, n: int) -> tuple[Mechanics, Any]:
        """The mechanics without forces, joints and velocity constraints, and L_d(q, q₁, t, h)."""
        mechanics = _bare(self.system).bind(self.params, n, general=not self.rule.steps_nodes).with_lagrangian()
        return mechanics, self.rule.discrete_lagrangian(mechanics)

    def __call__(self, q0: Any, q1: Any, h: Any, t: Any = 0.0) -> Float[Array, ""]:
        q0, q1, h, t = (jnp.asarray(x, float) for x in (q0, q1, h, t))
        return self.bound(q0.shape[0])[1](q0, q1, t, h)

    def legendre(self, q0: Any, q1: Any, h: Any, t: Any = 0.0) -> Legendre:
        """(2): the discrete momenta at both ends, and the discrete energy."""
        q0, q1, h, t = (jnp.asarray(x, float) for x in (q0, q1, h, t))
        mechanics, value = self.bound(q0.shape[0])
        slope = mechanics.functions.slope
        by_t, by_h = jax.grad(lambda t, h: value(q0, q1, t, h), argnums=(0, 1))(t, h)
        return Legendre(
            p0=-slope(lambda q: value(q, q1, t, h), q0),
            p1=slope(lambda q: value(q0, q, t, h), q1),
            energy_start=by_t - by_h,
            energy_end=-by_h,
        )

    def staggered(self, q: Any, v: Any, h: Any, t: Any = 0.0) -> State:
        """The start of §4.1 in [rodriguez2025]: the first two points lie half a step before and half a step after (q, v) at time t,
        q₀ = q − hv/2 and q₁ = q + hv/2. Returned are t − h/2, q₀ and p₀ = −D₁L_d(q₀, q₁, h), for solve(…, q0, p0=p0, t0=t)."""
        q, v, h, t = (jnp.asarray(x, float) for x in (q, v, h, t))
        space = self.system.space
        place = (lambda x: q + x) if space is None or space.size == space.dim else lambda x: space.retract(q, x)
        before, after = place(-0.5 * h * v), place(0.5 * h * v)
        return State(t - 0.5 * h, before, self.legendre(before, after, h, t - 0.5 * h).p0)


@public
def discrete_lagrangian(system: System, rule: Rule, params: Any = None) -> DiscreteLagrangian:
    """The discrete Lagrangian that a rule makes of a system, as a function L_d(q0, q1, h, t=0).

    `.legendre(q0, q1, h)` has its discrete momenta −D₁L_d, D₂L_d and its discrete energy −D₃L_d. Forces, joints and velocity
    constraints are no part of it.
    """
    return DiscreteLagrangian(system, rule, params)


def _bare(system: System) -> System:
    """The system without what has no part in the action."""
    copy = object.__new__(type(system))
    for name, value in vars(system).items():
        object.__setattr__(copy, name, {"force": None, "constraints": None, "joints": ()}.get(name, value))
    return copy
