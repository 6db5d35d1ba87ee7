"""Where a system lives: a space is a retraction and its inverse."""

from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


class Drift(NamedTuple):
    """Free motion over one interval."""

    q: Float[Array, " size"]
    p: Float[Array, " dim"]
    kinetic: Float[Array, ""]
    converged: Bool[Array, ""]


class Space(eqx.Module):
    """A configuration has `size` coordinates with `names`; a velocity, a momentum or a small displacement has `dim` entries."""

    dim: eqx.AbstractVar[int]
    size: eqx.AbstractVar[int]
    names: eqx.AbstractVar[tuple[str, ...]]

    @abstractmethod
    def retract(self, q: Float[Array, " size"], delta: Float[Array, " dim"]) -> Float[Array, " size"]:
        """The configuration that lies δ away from q."""

    @abstractmethod
    def inverse_retract(self, q: Float[Array, " size"], other: Float[Array, " size"]) -> Float[Array, " dim"]:
        """How far `other` lies from q."""

    @abstractmethod
    def push(self, q: Float[Array, " size"], v: Float[Array, " dim"]) -> Float[Array, " size"]:
        """The rates of the coordinates for the velocity v."""

    @abstractmethod
    def pull(self, q: Float[Array, " size"], slope: Float[Array, " size"]) -> Float[Array, " dim"]:
        """The transpose of `push`: derivatives by coordinates become a covector."""

    @abstractmethod
    def drift(self, q: Float[Array, " size"], p: Float[Array, " dim"], mass: Float[Array, " dim"], h: Float[Array, ""]) -> Drift:
        """The free motion of masses by the discrete Lagrangian h ½⟨m ξ, ξ⟩, q₁ = retract(q, h ξ)."""


class Euclidean(Space):
    """ℝⁿ with named coordinates; retraction q + δ."""

    dim: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, dim: int, names: tuple[str, ...] | list[str] | None = None):
        if dim < 1:
            raise ValueError(f"a space needs at least one dimension; got {dim}")
        names = tuple(names) if names is not None else tuple(f"q{i}" for i in range(dim))
        if len(names) != dim:
            raise ValueError(f"{len(names)} names for {dim} coordinates: {', '.join(names)}")
        self.dim, self.size, self.names = dim, dim, names

    def retract(self, q: Float[Array, " n"], delta: Float[Array, " n"]) -> Float[Array, " n"]:
        return q + delta

    def inverse_retract(self, q: Float[Array, " n"], other: Float[Array, " n"]) -> Float[Array, " n"]:
        return other - q

    def push(self, q: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " n"]:
        return v

    def pull(self, q: Float[Array, " n"], slope: Float[Array, " n"]) -> Float[Array, " n"]:
        return slope

    def drift(self, q: Float[Array, " n"], p: Float[Array, " n"], mass: Float[Array, " n"], h: Float[Array, ""]) -> Drift:
        v = p * (1.0 / mass)  # a division in every step would cost more than the rest of it; this one leaves the loop
        return Drift(q + h * v, p, 0.5 * jnp.sum(p * v), jnp.asarray(True))
