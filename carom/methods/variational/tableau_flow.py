"""The flow of a rule on a vector space: (1)–(6) of `rules`, solved as their structure allows."""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from carom.methods.variational.flow import Flow, FlowMap, Tableau
from carom.numerics.linalg import dot, inverse, matvec, solve
from carom.numerics.newton import implicit_root, newton
from carom.numerics.quadrature import gauss
from carom.system.mechanics import Mechanics
from carom.xla.kernel import sealed
from carom.xla.structure import depends_on


def _combine(coefficients, W) -> Array:
    terms = [c * w for c, w in zip(coefficients, W, strict=True) if c != 0.0]
    return functools.reduce(operator.add, terms)


def _nodes(tableau: Tableau, q, W, t, h):
    c, beta, a, ell, _ = tableau
    for i in range(len(c)):
        yield beta[i], q + h * _combine(a[i], W) if np.any(a[i]) else q, _combine(ell[i], W), t + c[i] * h


def equations(tableau: Tableau, mechanics: Mechanics, where: float):
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
            rows.append(constraint_rows(mechanics, q, _combine(b, W), t, h, where))  # (6)
        return jnp.concatenate(rows)

    return residual


_CHORD = gauss(3)  # nodes and weights for the mean rate of a joint


def constraint_rows(mechanics: Mechanics, q, mean, t, h, where: float):
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
    residual = equations(tableau, mechanics, where)
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


def tableau_lagrangian(tableau: Tableau, mechanics: Mechanics):
    """L_d(q, q₁, t, h) = h Σ βᵢ L(qᵢ, vᵢ, tᵢ): extremal over the controls, where they are several, with Σⱼ bⱼ Wⱼ = (q₁ − q)/h.

    p is the multiplier of that condition.
    """
    b = tableau.ends
    stages, n = len(b), mechanics.dim

    def mean(W, q, t, h):
        return sum(weight * mechanics.lagrangian(q_i, v_i, t_i) for weight, q_i, v_i, t_i in _nodes(tableau, q, W, t, h))

    def value(q, q1, t, h):
        chord = (q1 - q) / h
        if stages == 1:
            return h * mean([chord / b[0]], q, t, h)

        def residual(x):
            W, p = x[:-n].reshape(stages, n), x[-n:]
            slopes = jax.grad(mean)(W, q, t, h) - jnp.asarray(b)[:, None] * p
            return jnp.concatenate([slopes.reshape(-1), _combine(b, W) - chord])

        guess = jnp.concatenate([jnp.tile(chord / b.sum(), stages), mechanics.momentum(q, chord, t)])
        return h * mean(implicit_root(residual, guess)[:-n].reshape(stages, n), q, t, h)

    return value


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
