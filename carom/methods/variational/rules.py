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

import functools
import operator
from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from carom.methods.method import State
from carom.methods.variational.flow import Flow, FlowMap
from carom.methods.variational.group_flow import group_flow
from carom.methods.variational.kicks import composed_limit, kick_drift_kick
from carom.numerics.linalg import dot, inverse, matvec, solve
from carom.numerics.newton import newton
from carom.numerics.quadrature import gauss, integrals
from carom.system.mechanics import Mechanics
from carom.xla.kernel import sealed
from carom.xla.structure import depends_on

DIRECTIONS = {"forward": 0.0, "symmetric": 0.5, "backward": 1.0}  # where in the interval a constraint is looked at: q̄ of (6)


class Rule(eqx.Module):
    """A discrete Lagrangian. `order` and `preserves` are declarations; the tests measure them."""

    order: eqx.AbstractVar[int]
    symmetric: eqx.AbstractVar[bool]  # Φ_{−h} inverts Φ_h: composition to higher order asks for it
    preserves = ("momentum", "symplectic")
    steps_nodes = False  #                  knows how to step masses at nodes
    moves_on_groups = True  #               has a discrete Lagrangian on groups; otherwise each step is taken in a chart
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


class Tableau(NamedTuple):
    """The numbers of (1)–(5)."""

    nodes: np.ndarray  #       c[i]
    weights: np.ndarray  #     β[i]
    positions: np.ndarray  #   a[i, j]
    velocities: np.ndarray  #  ℓ[i, j]
    ends: np.ndarray  #        b[j]


class _TableauRule(Rule):
    @abstractmethod
    def tableau(self) -> Tableau: ...

    def matrix(self, mechanics: Mechanics, state: State, h: Array, direction: str = "symmetric") -> Float[Array, "k k"]:
        tableau, (t, q, p) = self.tableau(), state
        residual = _equations(tableau, mechanics, DIRECTIONS[direction])
        velocities = jnp.tile(mechanics.velocity(q, p, t), len(tableau.ends))
        x = jnp.concatenate([velocities, jnp.zeros(mechanics.num_constraints)])
        return jax.jacfwd(residual)(x, q, p, t, h)

    def flow(self, mechanics: Mechanics, without_energy: bool = False, direction: str = "symmetric") -> FlowMap:
        if (self, without_energy, direction) not in mechanics.flows:
            if mechanics.lumped:
                flow = kick_drift_kick(mechanics, without_energy)
            elif mechanics.functions.space is not None:
                numbers = self.tableau()
                flow = group_flow(numbers.nodes, numbers.weights, mechanics, without_energy, DIRECTIONS[direction])
            else:
                flow = tableau_flow(self.tableau(), mechanics, without_energy, DIRECTIONS[direction])
            mechanics.flows[self, without_energy, direction] = flow
        return mechanics.flows[self, without_energy, direction]


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


class Gamma(_TableauRule):
    """L at γq + (1 − γ)q₁, (57) of [fetecau2003]. *Order* 1, or 2 for γ = ½."""

    gamma: float = eqx.field(static=True)
    order: int = eqx.field(static=True)
    symmetric: bool = eqx.field(static=True)

    def __init__(self, gamma: float):
        if not 0.0 <= gamma <= 1.0:
            raise ValueError(f"Gamma: γ must lie in [0, 1]; got {gamma}")
        self.gamma = float(gamma)
        self.symmetric = self.gamma == 0.5
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


class Galerkin(_TableauRule):
    """Polynomials of degree `stages` with as many Gauss nodes [marsden2001, §2.2.6]: the Gauss collocation methods.

    *Order* 2·stages, symmetric, implicit in stages × n unknowns. *Choose it* for smooth systems whose mass depends on the
    configuration, where compositions of explicit rules do not apply.
    """

    stages: int = eqx.field(static=True)
    order: int = eqx.field(static=True)
    symmetric = True
    moves_on_groups = False

    def __init__(self, stages: int):
        if stages < 1:
            raise ValueError(f"Galerkin needs at least one stage; got {stages}")
        self.stages, self.order = int(stages), 2 * int(stages)

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


class Composition(Rule):
    """Φ_{γ₁h} ∘ … ∘ Φ_{γ_s h} of a symmetric rule of order 2: a rule of order 4, 6 or 8 that is explicit if the base is.

    The composition is itself a discrete Lagrangian (the sum of the parts, extremal over the inner points), so it keeps
    momentum maps and the symplectic form, also through impacts, and its discrete energy is Σᵢ γᵢ Eᵢ. Some γᵢ are negative;
    an impact is located on τ ↦ Φ_τ as a whole, never inside the composition.
    *Choose it* by default: order 4 removes nearly all of the energy kicks of second-order rules at impacts.
    """

    base: Rule
    order: int = eqx.field(static=True)
    symmetric = True

    def __init__(self, base: Rule, order: int = 4):
        if order not in _COMPOSITIONS:
            raise ValueError(f"Composition: order must be one of {', '.join(map(str, _COMPOSITIONS))}; got {order}")
        if not (base.symmetric and base.order == 2):
            raise ValueError(
                f"Composition needs a symmetric rule of order 2 (Trapezoidal, Midpoint, Galerkin(1)); "
                f"{type(base).__name__} has order {base.order}" + ("" if base.symmetric else " and is not symmetric")
            )
        self.base, self.order = base, order

    @property
    def steps_nodes(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.base.steps_nodes

    @property
    def moves_on_groups(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.base.moves_on_groups

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def stability_limit(self) -> float:
        return composed_limit(self.coefficients) if self.base.stability_limit == 2.0 else float("inf")

    @property
    def coefficients(self) -> np.ndarray:
        half = np.array(_COMPOSITIONS[self.order])
        return np.concatenate([half, [1 - 2 * half.sum()], half[::-1]])

    def matrix(self, mechanics: Mechanics, state: State, h: Array, direction: str = "symmetric") -> Float[Array, "k k"]:
        return self.base.matrix(mechanics, state, self.coefficients[0] * h, direction)

    def flow(self, mechanics: Mechanics, without_energy: bool = False, direction: str = "symmetric") -> FlowMap:
        part = self.base.flow(mechanics, without_energy, direction)
        gammas = self.coefficients
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


def _combine(coefficients, W) -> Array:
    terms = [c * w for c, w in zip(coefficients, W, strict=True) if c != 0.0]
    return functools.reduce(operator.add, terms)


def _nodes(tableau: Tableau, q, W, t, h):
    c, beta, a, ell, _ = tableau
    for i in range(len(c)):
        yield beta[i], q + h * _combine(a[i], W) if np.any(a[i]) else q, _combine(ell[i], W), t + c[i] * h


def _equations(tableau: Tableau, mechanics: Mechanics, where: float):
    """(2) and (6) as a residual of x = (W, λ)."""
    _, _, a, ell, b = tableau
    stages, n, m = len(b), mechanics.dim, mechanics.num_constraints

    def residual(x, q, p, t, h):  # the zeros of the tableau are left out, so that the structure shows
        W = x[: stages * n].reshape(stages, n)
        if m:
            p = p - matvec(mechanics.constraints(q, t).T, x[stages * n :])
        rows = [-b[j] * p for j in range(stages)]
        for i, (weight, q_i, v_i, t_i) in enumerate(_nodes(tableau, q, W, t, h)):
            node = mechanics.node(q_i, v_i, t_i)
            for j in range(stages):
                if ell[i, j] != 0.0:
                    rows[j] = rows[j] + weight * ell[i, j] * node.momentum
                if a[i, j] != b[j]:
                    rows[j] = rows[j] + h * weight * (a[i, j] - b[j]) * node.push
        if m:
            rows.append(_constraint_rows(mechanics, q, _combine(b, W), t, h, where))  # (6)
        return jnp.concatenate(rows)

    return residual


_CHORD = gauss(3)  # nodes and weights for the mean rate of a joint


def _constraint_rows(mechanics: Mechanics, q, mean, t, h, where: float):
    """The discrete joints and velocity constraints of an interval that is gone through with the mean velocity."""
    functions, rows = mechanics.functions, []
    if mechanics.system.joints:
        rate = lambda c: jax.jvp(functions.joints, (q + c * h * mean, t + c * h), (mean, jnp.ones_like(t)))[1]  # noqa: E731
        rows.append(functools.reduce(operator.add, [w * rate(c) for c, w in zip(*_CHORD, strict=True)]))
    if mechanics.system.constraints is not None:
        between = functions.constraints(q + where * h * mean if where else q, t + where * h)
        rows.append(matvec(between, mean))
    return jnp.concatenate(rows)


def tableau_flow(tableau: Tableau, mechanics: Mechanics, without_energy: bool, where: float) -> FlowMap:
    """(1)–(6) for one tableau. Where (2) is affine in W, it is solved by one linear solve, and with a matrix inverted
    once for the whole run where that is constant: then the rule is explicit."""
    c, b = tableau.nodes, tableau.ends
    stages, n, m = len(b), mechanics.dim, mechanics.num_constraints
    residual = _equations(tableau, mechanics, where)
    solve_controls, implicit = _control_solver(residual, mechanics, stages)

    def flow(q, p, t, h):
        x, converged = solve_controls(q, p, t, h)
        W = x[: stages * n].reshape(stages, n)
        q1 = q + h * _combine(b, W)  # (1)
        energy = power_end = power_start = jnp.zeros_like(h)
        p1 = p - matvec(mechanics.constraints(q, t).T, x[stages * n :]) if m else p  # (6)
        for i, (weight, q_i, v_i, t_i) in enumerate(_nodes(tableau, q, W, t, h)):
            node = mechanics.node(q_i, v_i, t_i)
            p1 = p1 + h * weight * node.push  # (3)
            if without_energy:
                continue
            energy = energy + weight * (dot(node.momentum, v_i) - node.lagrangian)  # (4)
            power_end = power_end + weight * c[i] * node.power
            power_start = power_start + weight * (1 - c[i]) * node.power
        p1 = mechanics.remove_reaction(q1, p1, t + h)  # (6)
        return Flow(q1, p1, energy - h * power_start, energy + h * power_end, converged)  # (5)

    return FlowMap(sealed(flow), implicit)


def _control_solver(residual, mechanics: Mechanics, stages: int):
    """The solver for (2) and (6) that their structure allows: a constant matrix, one linear solve, or Newton."""
    n, m = mechanics.dim, mechanics.num_constraints
    zero_x, zero_q, zero_t = jnp.zeros(stages * n + m), jnp.zeros(n), jnp.zeros(())
    matrix = jax.jacfwd(residual)
    on_x, on_q, on_p, on_t, on_h = depends_on(matrix, zero_x, zero_q, zero_q, zero_t, zero_t)
    always = jnp.asarray(True)

    if not (on_x or on_q or on_p or on_t or on_h):
        inverse_matrix = inverse(matrix(zero_x, zero_q, zero_q, zero_t, zero_t))

        def constant(q, p, t, h):
            return matvec(inverse_matrix, -residual(zero_x, q, p, t, h)), always

        return constant, False

    if not on_x:

        def affine(q, p, t, h):
            return solve(matrix(zero_x, q, p, t, h), -residual(zero_x, q, p, t, h)), always

        return affine, False

    def implicit(q, p, t, h):
        guess = jnp.concatenate([jnp.tile(mechanics.velocity(q, p, t), stages), jnp.zeros(m)])
        root = newton(lambda x: residual(x, q, p, t, h), guess)
        return root.x, root.converged

    return implicit, True
