"""The Hamiltonian side: the same mechanics, from H(q, p, t) instead of a Lagrangian."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from carom.numerics.linalg import dot, matvec, solve
from carom.numerics.newton import damped_newton, newton
from carom.system.charts import chart_around
from carom.system.contacts import Contacts
from carom.system.functions import Functions
from carom.system.mechanics import Mechanics, Node, reaction_of, traced_once
from carom.xla.structure import depends_on


class HamiltonianMechanics(Mechanics):
    """A system given by a Hamiltonian.

        q̇ = ∂H/∂p ∈ Δ,      ṗ + ∂H/∂q − f ∈ Δ°,      p⁺ − p⁻ ∈ (T∂Q)° + Δ°,  H⁺ = H⁻  at an elastic impact        (1)

    (§5 of [rodriguez2024]). H may be degenerate: the mass matrix is never needed, only ∂²H/∂p², which may be singular. Where it is
    regular, L = p·v − H is the Lagrangian of a discrete one.
    """

    lumped = constant_mass = False

    def __init__(self, functions: Functions, *, regular: bool = False, bilateral: bool = True):
        self.regular, self.bilateral = regular, bilateral  # ∂²H/∂p² has an inverse; velocity constraints are kept
        super().__init__(functions, Contacts(functions))
        q, p, t = jnp.zeros(self.size), jnp.zeros(self.dim), jnp.zeros(())
        self.quadratic = not depends_on(self.second, q, p, t)[1]
        self.autonomous = not depends_on(functions.hamiltonian, q, p, t)[2]
        self.num_constraints = jax.eval_shape(functions.constraints, q, t).shape[0] if bilateral else 0

    def chart(self, q) -> "HamiltonianMechanics":
        return self if self.functions.space is None else self._again(chart_around(self.functions, q))

    def with_lagrangian(self) -> "HamiltonianMechanics":
        return HamiltonianMechanics(self.functions, regular=True, bilateral=self.bilateral)

    def loose(self) -> "HamiltonianMechanics":
        return HamiltonianMechanics(self.functions, regular=self.regular, bilateral=False)

    def _again(self, functions: Functions) -> "HamiltonianMechanics":
        return HamiltonianMechanics(functions, regular=self.regular, bilateral=self.bilateral)

    def constraints(self, q, t) -> Float[Array, "m n"]:
        return self.functions.constraints(q, t)

    @traced_once
    def hamiltonian(self, q, p, t):
        return self.functions.hamiltonian(q, p, t)

    def energy_of(self, q, p, t):
        return self.hamiltonian(q, p, t)

    def energy(self, q, v, t):
        return self.hamiltonian(q, self.momentum(q, v, t), t)

    def lagrangian(self, q, v, t):
        p = self.momentum(q, v, t)
        return jnp.sum(p * v) - self.hamiltonian(q, p, t)

    @traced_once
    def momentum(self, q, v, t):
        """The p with ∂H/∂p = v; the smallest one where H is degenerate and quadratic."""
        zero = jnp.zeros_like(v)
        rate = jax.grad(self.hamiltonian, argnums=1)
        if self.quadratic:
            second, rest = self.second(q, zero, t), v - rate(q, zero, t)
            return self._least(second, rest)
        return damped_newton(lambda p: rate(q, p, t) - v, v).x

    def _least(self, second, columns):
        """H_pp⁻¹ x, or the smallest solution where H may be degenerate."""
        return solve(second, columns) if self.regular else jnp.linalg.pinv(second) @ columns

    def mass(self, q, v, t):
        return self._least(self.second(q, self.momentum(q, v, t), t), jnp.eye(self.dim))

    def second(self, q, p, t) -> Float[Array, "n n"]:
        """∂²H/∂p²."""
        return jax.jacfwd(jax.grad(self.functions.hamiltonian, argnums=1), argnums=1)(q, p, t)

    def velocity(self, q, p, t):
        return self.legendre(q, p, t)[0]

    def legendre(self, q, p, t) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        """v = ∂H/∂p(q, p − Aᵀλ, t) and λ, with A v = 0."""
        rate = jax.grad(self.hamiltonian, argnums=1)
        if self.num_constraints == 0:
            return rate(q, p, t), jnp.zeros(0)
        A = self.constraints(q, t)
        _, guess = self._response(q, jnp.zeros_like(p), t, p, rest=rate(q, jnp.zeros_like(p), t))
        lam = guess if self.quadratic else newton(lambda x: matvec(A, rate(q, p - matvec(A.T, x), t)), guess).x
        return rate(q, p - matvec(A.T, lam), t), lam

    def inverse_mass_times(self, q, v, t, covectors):
        return self._response(q, v, t, covectors)[0]

    def remove_reaction(self, q, p, t):
        if self.num_constraints == 0:
            return p
        return p - matvec(self.constraints(q, t).T, self.legendre(q, p, t)[1])

    def admissible_part(self, q, v, t, covector):
        if self.num_constraints == 0:
            return covector
        return covector - matvec(self.constraints(q, t).T, self._response(q, v, t, covector)[1])

    def _response(self, q, v, t, covectors, rest: Any = 0.0):
        """B x = H_pp (x − Aᵀλ), and λ, with A (H_pp (x − Aᵀλ) + rest) = 0."""
        p = jnp.zeros_like(v) if self.quadratic else self.momentum(q, v, t)
        second = self.second(q, p, t)
        if self.num_constraints == 0:
            return second @ covectors, jnp.zeros((0, *covectors.shape[1:]))
        A = self.constraints(q, t)
        lam = solve(A @ second @ A.T, A @ (second @ covectors + rest))
        return second @ (covectors - A.T @ lam), lam

    @traced_once
    def node(self, q, v, t):
        """The Legendre transform back: ∂L/∂v = p, ∂L/∂q = −∂H/∂q, ∂L/∂t = −∂H/∂t at the p of v."""
        p = self.momentum(q, v, t)
        value, (slope, rate) = jax.value_and_grad(self.hamiltonian, argnums=(0, 2))(q, p, t)
        force = self.functions.force(q, v, t)
        return Node(dot(p, v) - value, p, force - slope, dot(force, v) + rate)

    def power(self, q, v, t) -> Float[Array, ""]:
        """dE/dt = force·v + ∂H/∂t."""
        rate = jax.grad(self.hamiltonian, argnums=2)(q, self.momentum(q, v, t), t)
        return dot(self.functions.force(q, v, t), v) + rate

    def motion(self, q, p, t):
        v = self.velocity(q, p, t)
        push = self.functions.force(q, v, t) - jax.grad(self.hamiltonian, argnums=0)(q, p, t)
        return v, push + reaction_of(self, q, p, t, v, push)
