"""Discrete Lagrangians on groups: rotations, rigid motions and products with them.

A rule with one control velocity W goes from q to q₁ = q τ(hW), τ the retraction, and looks at the nodes

    qᵢ = q τ(cᵢhW),    vᵢ = D(cᵢhW) W,      L_d(q, q₁, h) = h Σᵢ βᵢ L(qᵢ, vᵢ, tᵢ)                                 (1)

which is unchanged when q and q₁ are moved by the same element of the group, if L is. With N(s) the derivative of W ↦ D(sW) W, and

    G = Σᵢ βᵢ N(cᵢh)ᵀ ∂L/∂v(qᵢ, vᵢ),        fᵢ = ∂L/∂q(qᵢ, vᵢ) + force, a covector in the body at qᵢ                     (2)

the discrete Euler–Lagrange equations in body momenta p = −D₁L_d at q and p₁ = D₂L_d at q₁ are

    p  = D(−hW)⁻ᵀ (G + h Σᵢ βᵢ cᵢ D(cᵢhW)ᵀ fᵢ) − h Σᵢ βᵢ D(−cᵢhW)⁻ᵀ D(cᵢhW)ᵀ fᵢ                                      (3)
    p₁ = D(hW)⁻ᵀ (G + h Σᵢ βᵢ cᵢ D(cᵢhW)ᵀ fᵢ)                                                                      (4)

since a displacement ζ of q moves qᵢ by D(cᵢhW) D(−cᵢhW)⁻¹ ζ in its own body at fixed W, and W by −D(−hW)⁻¹ ζ/h at fixed q₁. At the
ends of the interval this is little: f at c = 0 enters (3) as it is and (4) not at all, at c = 1 the other way round. So the
trapezoidal rule solves, where the mass is constant, for a W in which no potential is asked for.

The step keeps the symplectic form and the momentum maps of the symmetries, as on vector spaces, and so do compositions of it; on ℝⁿ
(1)–(4) are (1)–(3) of `rules`. Energies and constraints are those of (4)–(6) there.
"""

import jax
import jax.numpy as jnp

from carom.methods.variational.flow import Flow, FlowMap
from carom.numerics.linalg import matvec
from carom.numerics.newton import newton
from carom.numerics.quadrature import gauss
from carom.system.mechanics import Mechanics
from carom.xla.kernel import sealed

_CHORD = gauss(3)  # nodes and weights for the mean rate of a joint


class _Path:
    """(1) for one system."""

    def __init__(self, nodes, weights, mechanics: Mechanics):
        assert mechanics.functions.space is not None
        self.nodes, self.weights, self.mechanics = [float(c) for c in nodes], [float(b) for b in weights], mechanics
        self.space = mechanics.functions.space

    def place(self, q, x):
        return self.space.retract(q, x)

    def node(self, c: float, q, W, h):
        """qᵢ and vᵢ."""
        return (q, W) if c == 0.0 else (self.place(q, c * h * W), self.space.straight_velocity(W, c * h))

    def mean(self, W, q, t, h):
        """Σ βᵢ L."""
        values = [
            b * self.mechanics.lagrangian(*self.node(c, q, W, h), t + c * h) for c, b in zip(self.nodes, self.weights, strict=True)
        ]
        return sum(values)

    def start(self, W, q, t, h):
        """p of (3)."""
        both, late = self._inside(W, q, t, h)
        p = self.space.chart_momentum(-h * W, self._momentum(W, q, t, h) + both) - late
        early = [b * self._push(c, q, W, t, h) for c, b in zip(self.nodes, self.weights, strict=True) if c == 0.0]
        return p - h * sum(early) if early else p

    def end(self, W, q, t, h):
        """p₁ of (4)."""
        p = self.space.chart_momentum(h * W, self._momentum(W, q, t, h) + self._inside(W, q, t, h)[0])
        last = [b * self._push(c, q, W, t, h) for c, b in zip(self.nodes, self.weights, strict=True) if c == 1.0]
        return p + h * sum(last) if last else p

    def _momentum(self, W, q, t, h):
        """G of (2)."""
        total = jnp.zeros_like(W)
        for c, b in zip(self.nodes, self.weights, strict=True):
            momentum = self.mechanics.momentum(*self.node(c, q, W, h), t + c * h)
            if c != 0.0:
                momentum = jax.vjp(lambda W, c=c: self.space.straight_velocity(W, c * h), W)[1](momentum)[0]
            total = total + b * momentum
        return total

    def _push(self, c: float, q, W, t, h):
        """fᵢ of (2): forces work on the displacement of their node, by the principle of Lagrange and d'Alembert."""
        here, v = self.node(c, q, W, h)
        push = self.space.pull(here, jax.grad(self.mechanics.lagrangian)(here, v, t + c * h))
        return push + self.mechanics.functions.force(here, v, t + c * h) if self.mechanics.functions.forced else push

    def _inside(self, W, q, t, h):
        """The two sums of (3) over the nodes within the interval."""
        both = late = jnp.zeros_like(W)
        for c, b in zip(self.nodes, self.weights, strict=True):
            if c in (0.0, 1.0):
                continue
            push = self._push(c, q, W, t, h)
            back = jax.vjp(lambda rates, c=c: self.space.chart_velocity(c * h * W, rates), W)[1](push)[0]
            both, late = both + b * c * h * back, late + b * h * self.space.chart_momentum(-c * h * W, back)
        return both, late

    def held(self, W, q, t, h, where: float):
        """The discrete joints and velocity constraints."""
        functions, rows = self.mechanics.functions, []
        if self.mechanics.system.joints:
            total = 0.0
            for c, b in zip(*_CHORD, strict=True):
                here, rates = jax.jvp(lambda x: self.place(q, x), (c * h * W,), (W,))
                total = total + b * jax.jvp(functions.joints, (here, t + c * h), (rates, jnp.ones_like(t)))[1]
            rows.append(total)
        if self.mechanics.system.constraints is not None:
            here, v = self.node(where, q, W, h)
            rows.append(matvec(functions.constraints(here, t + where * h), v))
        return jnp.concatenate(rows)


def discrete_constraints(mechanics: Mechanics, q, W, t, h, where: float):
    """The discrete joints and velocity constraints of an interval that is gone through with the mean velocity W."""
    return _Path((), (), mechanics).held(W, q, t, h, where)


def group_lagrangian(nodes, weights, mechanics: Mechanics):
    """L_d(q, q₁, t, h) of (1)."""
    path = _Path(nodes, weights, mechanics)

    def value(q, q1, t, h):
        W = path.space.inverse_retract(q, q1) / h
        return h * path.mean(W, q, t, h)

    return value


def group_flow(nodes, weights, mechanics: Mechanics, without_energy: bool, where: float) -> FlowMap:
    """(1)–(4), by Newton's method."""
    path, n, m = _Path(nodes, weights, mechanics), mechanics.dim, mechanics.num_constraints

    def flow(q, p, t, h):
        def residual(x):
            row = path.start(x[:n], q, t, h) - p  # (3)
            if not m:
                return row
            reaction = matvec(mechanics.constraints(q, t).T, x[n:])
            return jnp.concatenate([row + reaction, path.held(x[:n], q, t, h, where)])

        root = newton(residual, jnp.concatenate([mechanics.velocity(q, p, t), jnp.zeros(m)]))
        W = root.x[:n]
        q1 = path.space.normalised(path.place(q, h * W))  # (1)
        p1 = mechanics.remove_reaction(q1, path.end(W, q, t, h), t + h)  # (4)
        energy = start = end = jnp.zeros_like(h)
        for c, b in zip(path.nodes, path.weights, strict=True) if not without_energy else ():
            place, v = path.node(c, q, W, h)
            energy = energy + b * mechanics.energy(place, v, t + c * h)
            power = mechanics.power(place, v, t + c * h)
            start, end = start + b * (1 - c) * power, end + b * c * power
        return Flow(q1, p1, energy - h * start, energy + h * end, root.converged)

    return FlowMap(sealed(flow), implicit=True)
