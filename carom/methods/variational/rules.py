"""Discrete Lagrangians, each as a discrete flow Φ_h : (q, p) ↦ (q₁, p₁) with its discrete energy.

A rule approximates the action over an interval of length h on curves with velocity Σⱼ ℓⱼ Wⱼ, by a quadrature with nodes
cᵢ and weights βᵢ. With the control velocities W as unknowns, nothing is ever divided by h:

    qᵢ = q + h Σⱼ aᵢⱼ Wⱼ,    vᵢ = Σⱼ ℓᵢⱼ Wⱼ,    q₁ = q + h Σⱼ bⱼ Wⱼ                                            (1)
    Σᵢ βᵢ ℓᵢⱼ ∂L/∂v(qᵢ, vᵢ) + h Σᵢ βᵢ (aᵢⱼ − bⱼ) Fᵢ = bⱼ p     for every j,   Fᵢ = ∂L/∂q(qᵢ, vᵢ) + fᵢ            (2)
    p₁ = p + h Σᵢ βᵢ Fᵢ                                                                                       (3)
    E  = Σᵢ βᵢ E(qᵢ, vᵢ)                                                                                      (4)

(2) is p = −D₁L_d together with the stationarity of the inner control velocities, (3) is p₁ = D₂L_d, (4) is E_d = −D₃L_d,
(46), (50), (55) of [fetecau2003]. fᵢ is the force, by the discrete Lagrange–d'Alembert principle with the same nodes.
Forces and an explicit time change the energy within the interval, at the rate πᵢ = fᵢ·vᵢ − ∂L/∂t. The variation of the
time at one end of the interval then gives the energy at that end,

    E_end = E + h Σᵢ βᵢ cᵢ πᵢ,        E_start = E − h Σᵢ βᵢ (1 − cᵢ) πᵢ                                          (5)

and these two are what an impact at that end balances.

Joints g(q, t) = 0 hold at both ends of the interval, g(q₁) = g(q) as the mean of ġ along the chord, by three Gauss points (exact
for g of degree 6, and O(h⁶) otherwise): the multipliers below are those of RATTLE. Velocity constraints A(q) v = 0 act at the ends
of the interval, with one multiplier λ (an impulse) for each,

    p in (2) and (3) is replaced by p − A(q)ᵀλ,      A(q̄) Σⱼ bⱼ Wⱼ = 0,      p₁ is taken up to A(q₁)ᵀλ:                    (6)

p + D₁L_d ∈ Δ°(q) and a discrete constraint on (q, q₁). With q̄ = q this is (1) of [rodriguez2025], the (+) scheme, with q̄ = q₁
its (2), the (−) scheme: `direction` "forward" and "backward". Each is the other's inverse with the sign of h changed, for a
symmetric rule, and of first order. Halfway, q̄ = (q + q₁)/2, the map is its own inverse and of second order: "symmetric".
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from carom.calls import public
from carom.errors import InputError
from carom.methods.method import State
from carom.methods.variational.flow import Flow, FlowMap, Tableau
from carom.methods.variational.group_flow import group_flow, group_lagrangian
from carom.methods.variational.kicks import kicked_flow
from carom.methods.variational.lumped_flow import composed_limit, kick_drift_kick, lumped_lagrangian
from carom.methods.variational.own_flow import own_equations, own_flow
from carom.methods.variational.tableau_flow import equations, tableau_flow, tableau_lagrangian
from carom.named import Named
from carom.numerics.newton import implicit_root
from carom.numerics.quadrature import gauss, integrals
from carom.system.mechanics import Mechanics
from carom.wanted import Count, Share

DIRECTIONS = {"forward": 0.0, "symmetric": 0.5, "backward": 1.0}  # where in the interval a constraint is looked at: q̄ of (6)


class Rule(eqx.Module):
    """A discrete Lagrangian. `order` and `preserves` are declarations; the tests measure them."""

    order: eqx.AbstractVar[int]
    symmetric: eqx.AbstractVar[bool]  # Φ_{−h} inverts Φ_h: composition to higher order asks for it
    preserves = ("momentum", "symplectic")
    steps_nodes = False  #                  knows how to step masses at nodes
    moves_on_groups = True  #               has a discrete Lagrangian on groups; otherwise each step is taken in a chart
    takes_forces = True  #                  knows how forces enter it
    goes_back = False  #                    takes a part of each step backwards in time
    of_parts = False  #                     is made of steps of another rule
    at_corners = False  #                   its discrete Lagrangian of masses at nodes is a sum over cells of space-time, at whose
    #                                       corners it looks at the potential
    kicks = False  #                        is kick, drift, kick where L(q, v) = K(v) − V(q)
    stability_limit = float("inf")  # the largest ωh up to which small vibrations stay bounded, where it is known

    @property
    def name(self) -> str:
        return type(self).__name__

    @abstractmethod
    def matrix(self, mechanics: Mechanics, state: State, h: Array, direction: str = "symmetric") -> Float[Array, "k k"]:
        """The matrix of the equations of one interval, at the start of it: regular where D₁D₂L_d is."""

    @abstractmethod
    def flow(self, mechanics: Mechanics, without_energy: bool = False, direction: str = "symmetric") -> FlowMap:
        """The discrete flow of this rule for a system with its parameters. `without_energy`: without the energies, and unrolled."""

    @abstractmethod
    def discrete_lagrangian(self, mechanics: Mechanics) -> Callable[[Array, Array, Array, Array], Array]:
        """L_d(q, q₁, t, h) of this rule for a system with its parameters, of which forces and constraints are no part."""

    @staticmethod
    def from_discrete_lagrangian(function: Callable[..., Any], *, order: int = 1, symmetric: bool = False) -> "OwnRule":
        """A rule from a discrete Lagrangian of one's own, `function(q0, q1, h, t, params)`: any of these, by name.

        It approximates the action ∫ L dt of the motion from q0 to q1 in the time h, and becomes an integrator with impacts. `order`
        and `symmetric` (L_d(q0, q1, h) = −L_d(q1, q0, −h)) declare what it is; `Composition` asks for order 2 and symmetry.
        """
        return OwnRule(function, order, symmetric)


class _TableauRule(Rule):
    @abstractmethod
    def tableau(self) -> Tableau: ...

    def matrix(self, mechanics: Mechanics, state: State, h: Array, direction: str = "symmetric") -> Float[Array, "k k"]:
        tableau, t, q, p = self.tableau(), state.t, state.q, state.p
        residual = equations(tableau, mechanics, DIRECTIONS[direction])
        velocities = jnp.tile(mechanics.velocity(q, p, t), len(tableau.ends))
        x = jnp.concatenate([velocities, jnp.zeros(mechanics.num_constraints)])
        return jax.jacfwd(residual)(x, q, p, t, h)

    def flow(self, mechanics: Mechanics, without_energy: bool = False, direction: str = "symmetric") -> FlowMap:
        if (self, without_energy, direction) not in mechanics.flows:
            flow = kicked_flow(mechanics, np.ones(1), without_energy) if self.kicks else None
            if flow is not None:
                pass
            elif mechanics.lumped:
                flow = kick_drift_kick(mechanics, without_energy)
            elif mechanics.functions.space is not None:
                numbers = self.tableau()
                flow = group_flow(numbers.nodes, numbers.weights, mechanics, without_energy, DIRECTIONS[direction])
            else:
                flow = tableau_flow(self.tableau(), mechanics, without_energy, DIRECTIONS[direction])
            mechanics.flows[self, without_energy, direction] = flow
        return mechanics.flows[self, without_energy, direction]

    def discrete_lagrangian(self, mechanics: Mechanics) -> Callable[[Array, Array, Array, Array], Array]:
        numbers = self.tableau()
        if mechanics.lumped:
            return lumped_lagrangian(mechanics)
        if mechanics.functions.space is None:
            return tableau_lagrangian(numbers, mechanics)
        if not self.moves_on_groups:
            raise InputError(f"{self.name} has no discrete Lagrangian on rotations: it steps in charts whose centres move along")
        return group_lagrangian(numbers.nodes, numbers.weights, mechanics)


def _straight(*nodes_and_weights: tuple[float, float]) -> Tableau:
    """One control velocity: the curve is the straight line from q to q₁."""
    nodes = np.array([c for c, _ in nodes_and_weights])
    weights = np.array([w for _, w in nodes_and_weights])
    return Tableau(nodes, weights, nodes[:, None], np.ones((len(nodes), 1)), np.ones(1))


class Trapezoidal(_TableauRule):
    """½ at each end, (71) of [fetecau2003]: velocity Verlet. Explicit for constant mass.

    *Order* 2, symmetric. *Choose it* as the cheap workhorse, and as the base of `Composition`.
    """

    order = 2
    symmetric = True
    steps_nodes = True
    at_corners = True
    kicks = True
    stability_limit = 2.0

    def tableau(self) -> Tableau:
        return _straight((0.0, 0.5), (1.0, 0.5))


class Midpoint(_TableauRule):
    """L at the middle, (57) with γ = ½. Implicit.

    *Order* 2, symmetric. *Choose it* for mass that depends on the configuration, or stiff potentials.
    """

    order = 2
    symmetric = True

    def tableau(self) -> Tableau:
        return _straight((0.5, 1.0))


@public
class Gamma(_TableauRule):
    """L at γq + (1 − γ)q₁, (57) of [fetecau2003]. *Order* 1, or 2 for γ = ½."""

    gamma: float = eqx.field(static=True)
    order: int = eqx.field(static=True)
    symmetric: bool = eqx.field(static=True)

    def __init__(self, gamma: Share):
        self.gamma, self.symmetric = float(gamma), gamma == 0.5
        self.order = 2 if self.symmetric else 1

    def tableau(self) -> Tableau:
        return _straight((1.0 - self.gamma, 1.0))


class Left(_TableauRule):
    """L at the start: symplectic Euler, momentum first. Explicit for constant mass. *Order* 1."""

    order = 1
    symmetric = False

    def tableau(self) -> Tableau:
        return _straight((0.0, 1.0))


class Right(_TableauRule):
    """L at the end: symplectic Euler, position first. Explicit for constant mass. *Order* 1."""

    order = 1
    symmetric = False

    def tableau(self) -> Tableau:
        return _straight((1.0, 1.0))


@public
class Galerkin(_TableauRule):
    """Polynomials of degree `stages` with as many Gauss nodes [marsden2001, §2.2.6]: the Gauss collocation methods.

    *Order* 2·stages, symmetric, implicit in stages × n unknowns. *Choose it* for smooth systems whose mass depends on the
    configuration, where compositions of explicit rules do not apply.
    """

    stages: int = eqx.field(static=True)
    order: int = eqx.field(static=True)
    symmetric = True
    moves_on_groups = False

    def __init__(self, stages: Count):
        self.stages, self.order = stages, 2 * stages

    def tableau(self) -> Tableau:
        nodes, weights = gauss(self.stages)
        return Tableau(nodes, weights, integrals(nodes), np.eye(self.stages), weights)


# Coefficients of symmetric compositions Φ_{γ₁h} ∘ … ∘ Φ_{γ_s h}, first half; the rest mirrors it [hairer2006, §V.3.2].
_COMPOSITIONS = {
    4: [1 / (4 - 4 ** (1 / 3))] * 2,  # five stages, Suzuki
    6: [  # nine stages, Kahan and Li
        0.39216144400731413928,
        0.33259913678935943860,
        -0.70624617255763935981,
        0.08221359629355080023,
    ],
    8: [  # seventeen stages, Kahan and Li
        0.13020248308889008088,
        0.56116298177510838456,
        -0.38947496264484728641,
        0.15884190655515560090,
        -0.39590389413323757734,
        0.18453964097831570709,
        0.25837438768632204729,
        0.29501172360931029887,
    ],
}


@public
class Composition(Rule):
    """Φ_{γ₁h} ∘ … ∘ Φ_{γ_s h} of a symmetric rule of order 2: a rule of order 4, 6 or 8 that is explicit if the base is.

    The composition is itself a discrete Lagrangian (the sum of the parts, extremal over the inner points), so it keeps
    momentum maps and the symplectic form, also through impacts, and its discrete energy is Σᵢ γᵢ Eᵢ. Some γᵢ are negative;
    an impact is located on τ ↦ Φ_τ as a whole, never inside the composition.
    *Choose it* by default: order 4 removes nearly all of the energy kicks of second-order rules at impacts.
    """

    base: Rule
    order: int = eqx.field(static=True)
    symmetric = goes_back = of_parts = True

    def __init__(self, base: Rule, order: int = 4):
        if not np.isscalar(order) or order not in _COMPOSITIONS:
            raise InputError(f"Composition: order must be one of {', '.join(map(str, _COMPOSITIONS))}; got {order!r}")
        if not (base.symmetric and base.order == 2):
            raise InputError(
                f"Composition needs a symmetric rule of order 2 (Trapezoidal, Midpoint, Galerkin(1)); "
                f"{type(base).__name__} has order {base.order}" + ("" if base.symmetric else " and is not symmetric")
            )
        self.base, self.order = base, int(order)

    @property
    def steps_nodes(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.base.steps_nodes

    @property
    def moves_on_groups(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.base.moves_on_groups

    @property
    def kicks(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.base.kicks

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def stability_limit(self) -> float:
        return composed_limit(tuple(self.coefficients)) if self.base.stability_limit == 2.0 else float("inf")

    @property
    def coefficients(self) -> np.ndarray:
        half = np.array(_COMPOSITIONS[self.order])
        return np.concatenate([half, [1 - 2 * half.sum()], half[::-1]])

    def matrix(self, mechanics: Mechanics, state: State, h: Array, direction: str = "symmetric") -> Float[Array, "k k"]:
        return self.base.matrix(mechanics, state, self.coefficients[0] * h, direction)

    def flow(self, mechanics: Mechanics, without_energy: bool = False, direction: str = "symmetric") -> FlowMap:
        gammas = self.coefficients
        kicked = kicked_flow(mechanics, gammas, without_energy) if self.kicks else None
        if kicked is not None:
            return kicked
        part = self.base.flow(mechanics, without_energy, direction)
        after = np.cumsum(gammas)
        after[-1] = 1.0
        stages = np.stack([gammas, after - gammas, after], axis=1)

        def flow(q, p, t, h):
            def stage(so_far: Flow, coefficients):
                gamma, c0, c1 = coefficients
                out = part(so_far.q, so_far.p, t + c0 * h, gamma * h)
                # The chain rule for the times t + cᵢh of the inner points; for autonomous systems both are Σ γᵢ Eᵢ.
                energy_end = so_far.energy_end + (c1 * out.energy_end - c0 * out.energy_start)
                energy_start = so_far.energy_start + ((1 - c0) * out.energy_start - (1 - c1) * out.energy_end)
                return Flow(out.q, out.p, energy_start, energy_end, so_far.converged & out.converged)

            flow = Flow(q, p, jnp.zeros_like(h), jnp.zeros_like(h), jnp.asarray(True))
            # Written out it is faster; longer compositions and Newton's iterations would take too long to compile.
            if without_energy and len(stages) <= 5 and not part.implicit:
                for row in stages:
                    flow = stage(flow, row)
                return flow
            return jax.lax.scan(lambda flow, row: (stage(flow, row), None), flow, jnp.asarray(stages))[0]

        return FlowMap(flow, part.implicit)

    def discrete_lagrangian(self, mechanics: Mechanics) -> Callable[[Array, Array, Array, Array], Array]:
        """The sum of the parts, extremal over the points between them. These are found by shooting: from q with that momentum with
        which the composed flow arrives at q₁."""
        part, leg = self.base.discrete_lagrangian(mechanics), self.base.flow(mechanics, without_energy=True)
        space, gammas = mechanics.functions.space, jnp.asarray(self.coefficients)
        apart = (lambda a, b: b - a) if space is None else space.inverse_retract
        starts = jnp.concatenate([jnp.zeros(1), jnp.cumsum(gammas)[:-1]])

        def points(q, p, t, h):  # where the parts end
            def fly(now, row):
                gamma, c = row
                out = leg(*now, t + c * h, gamma * h)
                return (out.q, out.p), out.q

            return jax.lax.scan(fly, (q, p), (gammas, starts))[1]

        def value(q, q1, t, h):
            guess = mechanics.momentum(q, apart(q, q1) / h, t)
            p = implicit_root(lambda p: apart(points(q, p, t, h)[-1], q1) / h, guess)
            ends = jnp.concatenate([q[None], points(q, p, t, h)[:-1], q1[None]])
            return jnp.sum(jax.vmap(part)(ends[:-1], ends[1:], t + starts * h, gammas * h))

        return value


class OwnRule(Rule):
    """A discrete Lagrangian of one's own, from `Rule.from_discrete_lagrangian`.

    The step solves p = −D₁L_d(q, q₁, h) for q₁ by Newton's method, then p₁ = D₂L_d and E = −D₃L_d, (46), (50), (55) of
    [fetecau2003]. Contacts, joints and velocity constraints are those of the system; its Lagrangian gives the energy, the first
    momentum and the law of impact. Forces are refused: how they enter a discrete Lagrangian is not known from it.
    A formula with (q₁ − q)/h in it loses digits on short legs, about eps·|q|/(|q₁ − q|) relative.
    """

    function: Named
    order: int = eqx.field(static=True)
    symmetric: bool = eqx.field(static=True)
    takes_forces = False

    def __init__(self, function: Callable[..., Any], order: int = 1, symmetric: bool = False):
        if not isinstance(order, int) or order < 1:
            raise InputError(f"the order of a discrete Lagrangian is a positive whole number; got {order!r}")
        self.function = Named(function, ("q0", "q1", "h", "t", "params"), "discrete Lagrangian").frozen()
        self.order, self.symmetric = order, bool(symmetric)

    def discrete_lagrangian(self, mechanics: Mechanics) -> Callable[[Array, Array, Array, Array], Array]:
        def value(q, q1, t, h):
            return jnp.asarray(self.function(q0=q, q1=q1, h=h, t=t, params=mechanics.params), q.dtype).reshape(())

        return value

    def matrix(self, mechanics: Mechanics, state: State, h: Array, direction: str = "symmetric") -> Float[Array, "k k"]:
        t, q, p = state.t, state.q, state.p
        residual = own_equations(self.discrete_lagrangian(mechanics), mechanics, DIRECTIONS[direction])
        x = jnp.concatenate([mechanics.velocity(q, p, t), jnp.zeros(mechanics.num_constraints)])
        return jax.jacfwd(residual)(x, q, p, t, h)

    def flow(self, mechanics: Mechanics, without_energy: bool = False, direction: str = "symmetric") -> FlowMap:
        if (self, without_energy, direction) not in mechanics.flows:
            value = self.discrete_lagrangian(mechanics)
            mechanics.flows[self, without_energy, direction] = own_flow(value, mechanics, DIRECTIONS[direction])
        return mechanics.flows[self, without_energy, direction]
