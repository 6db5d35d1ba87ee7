"""Discrete Lagrangians on groups: rotations, rigid motions and products with them.

A rule with one control velocity W goes from q to q₁ = q τ(hW), τ the retraction, and looks at the nodes

    qᵢ = q τ(cᵢhW),    vᵢ = D(cᵢhW) W,      L_d(q, q₁, h) = h Σᵢ βᵢ L(qᵢ, vᵢ, tᵢ)                                 (1)

which is unchanged when q and q₁ are moved by the same element of the group, if L is. With G = Σᵢ βᵢ ∂L(qᵢ, vᵢ)/∂W, and S the
derivative of h Σᵢ βᵢ L(qᵢ, vᵢ) along displacements of q at fixed W, the discrete Euler–Lagrange equations in body momenta are

    D(−hW)⁻ᵀ G − S = p,      p₁ = D(hW)⁻ᵀ G                                                                    (2)

p = −D₁L_d and p₁ = D₂L_d, covectors at q and q₁. The step keeps the symplectic form and the momentum maps of the symmetries, as on
vector spaces, and so do compositions of it; on ℝⁿ (1) and (2) are (1)–(3) of `rules`. Forces, energies and constraints are those of
(4)–(6) there.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array

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
        return (q, W) if c == 0.0 else (self.place(q, c * h * W), self.space.chart_velocity(c * h * W, W))

    def mean(self, zeta, W, q, t, h):
        """Σ βᵢ L, with q displaced by ζ."""
        moved = self.place(q, zeta)
        values = [
            b * self.mechanics.lagrangian(*self.node(c, moved, W, h), t + c * h)
            for c, b in zip(self.nodes, self.weights, strict=True)
        ]
        return sum(values)

    def slopes(self, W, q, t, h) -> tuple[Array, Array]:
        """S and G, with the forces by the principle of Lagrange and d'Alembert: they work on the displacements of the nodes."""
        zero = jnp.zeros_like(W)
        S, G = jax.grad(self.mean, argnums=(0, 1))(zero, W, q, t, h)
        if self.mechanics.functions.forced:
            for c, b in zip(self.nodes, self.weights, strict=True):
                by_zeta, by_W = self._work(c, W, q, t, h)
                S, G = S + b * by_zeta, G + b * by_W
        return h * S, G

    def _work(self, c: float, W, q, t, h) -> tuple[Array, Array]:
        """The force at one node, along displacements of q and along W."""
        here, v = self.node(c, q, W, h)
        force, fixed = self.mechanics.functions.force(here, v, t + c * h), jax.lax.stop_gradient(here)
        shift = lambda zeta, W: self.space.inverse_retract(fixed, self.node(c, self.place(q, zeta), W, h)[0])  # noqa: E731
        return jax.vjp(shift, jnp.zeros_like(W), W)[1](force)

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
        return h * path.mean(jnp.zeros_like(W), W, q, t, h)

    return value


def group_flow(nodes, weights, mechanics: Mechanics, without_energy: bool, where: float) -> FlowMap:
    """(1) and (2), by Newton's method."""
    path, n, m = _Path(nodes, weights, mechanics), mechanics.dim, mechanics.num_constraints

    def flow(q, p, t, h):
        def residual(x):
            S, G = path.slopes(x[:n], q, t, h)
            row = path.space.chart_momentum(-h * x[:n], G) - S - p  # (2)
            if not m:
                return row
            reaction = matvec(mechanics.constraints(q, t).T, x[n:])
            return jnp.concatenate([row + reaction, path.held(x[:n], q, t, h, where)])

        root = newton(residual, jnp.concatenate([mechanics.velocity(q, p, t), jnp.zeros(m)]))
        W = root.x[:n]
        _, G = path.slopes(W, q, t, h)
        q1 = path.space.normalised(path.place(q, h * W))  # (1)
        p1 = mechanics.remove_reaction(q1, path.space.chart_momentum(h * W, G), t + h)  # (2)
        energy = start = end = jnp.zeros_like(h)
        for c, b in zip(path.nodes, path.weights, strict=True) if not without_energy else ():
            place, v = path.node(c, q, W, h)
            energy = energy + b * mechanics.energy(place, v, t + c * h)
            power = mechanics.power(place, v, t + c * h)
            start, end = start + b * (1 - c) * power, end + b * c * power
        return Flow(q1, p1, energy - h * start, energy + h * end, root.converged)

    return FlowMap(sealed(flow), implicit=True)
