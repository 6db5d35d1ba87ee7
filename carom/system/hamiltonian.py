"""The Hamiltonian side: the same mechanics, from H(q, p, t) instead of a Lagrangian."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from carom.errors import InputError
from carom.named import Named
from carom.numerics.linalg import matvec, solve
from carom.numerics.newton import newton
from carom.system.system import Mechanics, Node
from carom.xla.structure import depends_on


class HamiltonianMechanics(Mechanics):
    """A System given by a Hamiltonian, with its parameters.

        q̇ = ∂H/∂p ∈ Δ,      ṗ + ∂H/∂q − f ∈ Δ°,      p⁺ − p⁻ ∈ (T∂Q)° + Δ°,  H⁺ = H⁻  at an elastic impact

    (§5 of [rodriguez2024]). H may be degenerate: the mass matrix is never needed, only ∂²H/∂p², which may be singular.
    """

    def _read_structure(self) -> None:
        system, (q, _, t, _) = self.system, self._shapes
        assert system.hamiltonian is not None
        self.quadratic = not depends_on(_inverse_mass, system.hamiltonian, *self._shapes)[2]
        self.autonomous = not depends_on(_hamiltonian, system.hamiltonian, *self._shapes)[3]
        self.num_constraints = 0 if system.constraints is None else jax.eval_shape(self.constraints, q, t).shape[0]
        self.constant_mass, self._inverse_mass = False, None

    def hamiltonian(self, q, p, t) -> Float[Array, ""]:
        assert self.system.hamiltonian is not None
        return _hamiltonian(self.system.hamiltonian, q, p, t, self.params)

    def energy_of(self, q, p, t) -> Float[Array, ""]:
        return self.hamiltonian(q, p, t)

    def energy(self, q, v, t) -> Float[Array, ""]:
        return self.hamiltonian(q, self.momentum(q, v, t), t)

    def lagrangian(self, q, v, t) -> Float[Array, ""]:
        p = self.momentum(q, v, t)
        return jnp.sum(p * v) - self.hamiltonian(q, p, t)

    def momentum(self, q, v, t) -> Float[Array, " n"]:
        """The smallest p with ∂H/∂p = v."""
        zero = jnp.zeros_like(v)
        rate = jax.grad(self.hamiltonian, argnums=1)
        if self.quadratic:
            return jnp.linalg.pinv(self._second(q, zero, t)) @ (v - rate(q, zero, t))
        return newton(lambda p: rate(q, p, t) - v, v).x

    def mass(self, q, v, t) -> Float[Array, "n n"]:
        return jnp.linalg.pinv(self._second(q, self.momentum(q, v, t), t))

    def _second(self, q, p, t) -> Float[Array, "n n"]:
        assert self.system.hamiltonian is not None
        return _inverse_mass(self.system.hamiltonian, q, p, t, self.params)

    def _legendre(self, q, p, t) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        """v = ∂H/∂p(q, p − Aᵀλ, t) and λ, with A v = 0."""
        rate = jax.grad(self.hamiltonian, argnums=1)
        if self.num_constraints == 0:
            return rate(q, p, t), jnp.zeros(0)
        A = self.constraints(q, t)
        _, guess = self._response(q, jnp.zeros_like(p), t, p, rest=rate(q, jnp.zeros_like(p), t))
        lam = guess if self.quadratic else newton(lambda x: matvec(A, rate(q, p - matvec(A.T, x), t)), guess).x
        return rate(q, p - matvec(A.T, lam), t), lam

    def _response(self, q, v, t, covectors, rest=0.0):
        """B x = H_pp (x − Aᵀλ), and λ, with A (H_pp (x − Aᵀλ) + rest) = 0; for H quadratic in p."""
        second = self._second(q, jnp.zeros_like(q), t)
        if self.num_constraints == 0:
            return second @ covectors, jnp.zeros((0, *covectors.shape[1:]))
        A = self.constraints(q, t)
        lam = solve(A @ second @ A.T, A @ (second @ covectors + rest))
        return second @ (covectors - A.T @ lam), lam

    def node(self, q, v, t) -> Node:
        raise InputError("a system given by a hamiltonian has no discrete Lagrangian; choose carom.EventDriven()")

    def motion(self, q, p, t) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        v = self.velocity(q, p, t)
        push = self.force(q, v, t) - jax.grad(self.hamiltonian, argnums=0)(q, p, t)
        return v, push + self._reaction(q, p, t, v, push)


def _hamiltonian(function: Named, q, p, t, params) -> Float[Array, ""]:
    return jnp.asarray(function(q=q, p=p, t=t, params=params), q.dtype).reshape(())


def _inverse_mass(function: Named, q, p, t, params) -> Float[Array, "n n"]:
    """∂²H/∂p²."""
    return jax.jacfwd(jax.grad(_hamiltonian, argnums=2), argnums=2)(function, q, p, t, params)
