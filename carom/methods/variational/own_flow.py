"""The flow of a discrete Lagrangian that is given as a function of two points and a time.

    p = −D₁L_d(q, q₁, t, h) + A(q)ᵀλ,      q₁ = retract(q, h W),      discrete joints and velocity constraints on W           (1)
    p₁ = D₂L_d(q, q₁, t, h),      E = −D₃L_d                                                                             (2)

On vector spaces D₂L_d = −D₁L_d + S with S the slope when both points are moved alike, in which differences q₁ − q cancel exactly:
p₁ = p − A(q)ᵀλ + S loses no digits on short intervals, as a difference of points over h would. E is the energy at the end of the
interval, −∂L_d/∂h at a fixed start; at the start it is −∂L_d/∂h + ∂L_d/∂t, the same where nothing depends on time.
"""

import jax
import jax.numpy as jnp

from carom.methods.variational.flow import Flow, FlowMap
from carom.methods.variational.group_flow import discrete_constraints
from carom.methods.variational.tableau_flow import constraint_rows
from carom.numerics.linalg import matvec
from carom.numerics.newton import newton
from carom.system.mechanics import Mechanics
from carom.xla.kernel import sealed


def own_equations(value, mechanics: Mechanics, where: float):
    """(1) as a residual of x = (W, λ)."""
    functions, n, m = mechanics.functions, mechanics.dim, mechanics.num_constraints
    place = (lambda q, x: q + x) if functions.space is None else functions.space.retract
    rows = constraint_rows if functions.space is None else discrete_constraints

    def residual(x, q, p, t, h):
        W = x[:n]
        row = -functions.slope(lambda moved: value(moved, place(q, h * W), t, h), q) - p
        if not m:
            return row
        row = row + matvec(mechanics.constraints(q, t).T, x[n:])
        return jnp.concatenate([row, rows(mechanics, q, W, t, h, where)])

    return residual


def own_flow(value, mechanics: Mechanics, where: float) -> FlowMap:
    """(1) by Newton's method, and (2)."""
    functions, n, m = mechanics.functions, mechanics.dim, mechanics.num_constraints
    space, residual = functions.space, own_equations(value, mechanics, where)

    def flow(q, p, t, h):
        root = newton(lambda x: residual(x, q, p, t, h), jnp.concatenate([mechanics.velocity(q, p, t), jnp.zeros(m)]))
        W, reaction = root.x[:n], matvec(mechanics.constraints(q, t).T, root.x[n:]) if m else 0.0
        if space is None:
            q1 = q + h * W
            p1 = p - reaction + jax.jacfwd(lambda d: value(q + d, q1 + d, t, h))(jnp.zeros_like(W))  # (2)
        else:
            q1 = space.normalised(space.retract(q, h * W))
            p1 = functions.slope(lambda moved: value(q, moved, t, h), q1)
        by_t, by_h = jax.grad(lambda t, h: value(q, q1, t, h), argnums=(0, 1))(t, h)
        return Flow(q1, mechanics.remove_reaction(q1, p1, t + h), by_t - by_h, -by_h, root.converged)

    return FlowMap(sealed(flow), implicit=True)
