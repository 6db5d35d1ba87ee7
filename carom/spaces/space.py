"""Where a system lives: a space is a retraction and its inverse."""

import functools
import itertools
import operator
from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from carom.calls import public
from carom.errors import InputError
from carom.wanted import Dimension


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

    @property
    def directions(self) -> tuple[str, ...]:
        """The names of the entries of a velocity."""
        return self.names if self.dim == self.size else tuple(f"{i}" for i in range(self.dim))

    @property
    def units(self) -> tuple[str, ...]:
        """Of each coordinate, for labels; empty where none is given."""
        return ("",) * self.size

    @property
    def time_unit(self) -> str:
        return ""

    @property
    def energy_unit(self) -> str:
        return ""

    @property
    def momentum_units(self) -> tuple[str, ...]:
        """Of each momentum ∂L/∂v: energy times time over the unit of its coordinate; empty where one of them is not given."""
        if not (self.energy_unit and self.time_unit) or self.dim != self.size:
            return ("",) * self.dim
        return tuple(f"{self.energy_unit} {self.time_unit}" + (f"/{unit}" if unit else "") for unit in self.units)

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
    def velocity(self, q: Float[Array, " size"], rates: Float[Array, " size"]) -> Float[Array, " dim"]:
        """The velocity with these rates of the coordinates: the inverse of `push`."""

    @abstractmethod
    def chart_velocity(self, x: Float[Array, " dim"], rates: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """D(x) ẋ: the velocity of retract(c, x(t)), the same for all c."""

    def straight_velocity(self, W: Float[Array, " dim"], s: Float[Array, ""]) -> Float[Array, " dim"]:
        """D(sW) W: the velocity of retract(c, s W) while s grows with rate 1."""
        return self.chart_velocity(s * W, W)

    @abstractmethod
    def chart_rates(self, x: Float[Array, " dim"], v: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """D(x)⁻¹ v."""

    @abstractmethod
    def chart_momentum(self, x: Float[Array, " dim"], p: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """D(x)⁻ᵀ p: the momentum whose covector in the chart is p."""

    @abstractmethod
    def chart_bending(self, x: Float[Array, " dim"], rates: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Ḋ ẋ: what the velocity D(x) ẋ changes by while ẋ stays as it is."""

    @abstractmethod
    def transport(self, v: Float[Array, " dim"], p: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """ad*_v p: how the body momentum of what is free changes, because the body turns: ṗ = ad*_v p + push."""

    @abstractmethod
    def normalised(self, q: Float[Array, " size"]) -> Float[Array, " size"]:
        """q without what rounding has added to it: quaternions of length 1."""

    @abstractmethod
    def pull(self, q: Float[Array, " size"], slope: Float[Array, " size"]) -> Float[Array, " dim"]:
        """The transpose of `push`: derivatives by coordinates become a covector."""

    def carried(self, q: Float[Array, " size"], turning: Float[Array, "3"], shifting: Float[Array, "3"]) -> Float[Array, " dim"]:
        """The velocity of q when everything is carried along rigidly: turned about the origin and shifted, in axes of space."""
        raise InputError(f"{type(self).__name__} with coordinates {', '.join(self.names)} has no rigid motions of space")

    @abstractmethod
    def drift(self, q: Float[Array, " size"], p: Float[Array, " dim"], mass: Float[Array, " dim"], h: Float[Array, ""]) -> Drift:
        """The free motion of masses by the discrete Lagrangian h ½⟨m ξ, ξ⟩, q₁ = retract(q, h ξ)."""


@public
class Euclidean(Space):
    """ℝⁿ with named coordinates; retraction q + δ.

    - `names`: of the coordinates; `units`: of each of them, or one for all; `time` and `energy`: the units of these, from which
      follow those of momenta (J s/m, J s/rad). Carom computes with numbers and converts nothing: units are what plots, reports
      and tables write beside the names.
    """

    dim: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    given_units: tuple[str, ...] = eqx.field(static=True)
    given_time: str = eqx.field(static=True)
    given_energy: str = eqx.field(static=True)

    def __init__(
        self,
        dim: Dimension,
        names: tuple[str, ...] | list[str] | None = None,
        units: str | tuple[str, ...] | list[str] = "",
        time: str = "",
        energy: str = "",
    ):
        names = tuple(f"q{i}" for i in range(dim)) if names is None else names
        names = tuple(names) if isinstance(names, str) and len(names) == dim else names  # "xy": a letter for each
        if not isinstance(names, (tuple, list)) or not all(isinstance(name, str) for name in names):
            raise InputError(f"names must be a list of texts, one for each coordinate, as ('x', 'y'); got {names!r}")
        names = tuple(names)
        if len(names) != dim:
            raise InputError(f"{len(names)} names for {dim} coordinates: {', '.join(names)}")
        if len(set(names)) != dim:
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"two coordinates have the name {twice!r}: no table and no picture could tell them apart")
        units = (units,) * dim if isinstance(units, str) else tuple(units) if isinstance(units, (tuple, list)) else (units,)
        if len(units) != dim or not all(isinstance(unit, str) for unit in (*units, time, energy)):
            raise InputError(
                f"units must be one text, or one for each of the {dim} coordinates, as units=('m', 'rad'); got {units!r}"
            )
        self.dim, self.size, self.names, self.given_units = dim, dim, names, units
        self.given_time, self.given_energy = time, energy

    @property
    def units(self) -> tuple[str, ...]:
        return self.given_units

    @property
    def time_unit(self) -> str:
        return self.given_time

    @property
    def energy_unit(self) -> str:
        return self.given_energy

    def retract(self, q: Float[Array, " n"], delta: Float[Array, " n"]) -> Float[Array, " n"]:
        return q + delta

    def inverse_retract(self, q: Float[Array, " n"], other: Float[Array, " n"]) -> Float[Array, " n"]:
        return other - q

    def push(self, q: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " n"]:
        return v

    def velocity(self, q: Float[Array, " n"], rates: Float[Array, " n"]) -> Float[Array, " n"]:
        return rates

    def chart_velocity(self, x: Float[Array, " n"], rates: Float[Array, " n"]) -> Float[Array, " n"]:
        return rates

    def straight_velocity(self, W: Float[Array, " n"], s: Float[Array, ""]) -> Float[Array, " n"]:
        return W

    def chart_rates(self, x: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " n"]:
        return v

    def chart_momentum(self, x: Float[Array, " n"], p: Float[Array, " n"]) -> Float[Array, " n"]:
        return p

    def chart_bending(self, x: Float[Array, " n"], rates: Float[Array, " n"]) -> Float[Array, " n"]:
        return jnp.zeros_like(rates)

    def transport(self, v: Float[Array, " n"], p: Float[Array, " n"]) -> Float[Array, " n"]:
        return jnp.zeros_like(p)

    def normalised(self, q: Float[Array, " n"]) -> Float[Array, " n"]:
        return q

    def pull(self, q: Float[Array, " n"], slope: Float[Array, " n"]) -> Float[Array, " n"]:
        return slope

    def carried(self, q: Float[Array, " n"], turning: Float[Array, "3"], shifting: Float[Array, "3"]) -> Float[Array, " n"]:
        if self.dim % 3:
            return super().carried(q, turning, shifting)
        points = q.reshape(-1, 3)  # points in space, one after another
        return (jnp.cross(turning, points) + shifting).reshape(-1)

    def drift(self, q: Float[Array, " n"], p: Float[Array, " n"], mass: Float[Array, " n"], h: Float[Array, ""]) -> Drift:
        v = p * (1.0 / mass)  # a division in every step would cost more than the rest of it; this one leaves the loop
        return Drift(q + h * v, p, 0.5 * jnp.sum(p * v), jnp.asarray(True))


@public
class Power(Space):
    """The same space at `count` nodes, node after node."""

    space: Space
    count: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, space: Space, count: Dimension):
        self.space, self.count = space, count
        self.dim, self.size = count * space.dim, count * space.size
        self.names = tuple(f"{name}{i}" for i in range(count) for name in space.names)

    @property
    def units(self) -> tuple[str, ...]:
        return self.space.units * self.count

    @property
    def time_unit(self) -> str:
        return self.space.time_unit

    @property
    def energy_unit(self) -> str:
        return self.space.energy_unit

    @property
    def directions(self) -> tuple[str, ...]:
        return tuple(f"{name}{i}" for i in range(self.count) for name in self.space.directions)

    def _nodes(self, x: Array) -> Array:
        return x.reshape(self.count, -1)

    def retract(self, q: Array, delta: Array) -> Array:
        return self.space.retract(self._nodes(q), self._nodes(delta)).reshape(-1)

    def inverse_retract(self, q: Array, other: Array) -> Array:
        return self.space.inverse_retract(self._nodes(q), self._nodes(other)).reshape(-1)

    def push(self, q: Array, v: Array) -> Array:
        return self.space.push(self._nodes(q), self._nodes(v)).reshape(-1)

    def velocity(self, q: Array, rates: Array) -> Array:
        return self.space.velocity(self._nodes(q), self._nodes(rates)).reshape(-1)

    def chart_velocity(self, x: Array, rates: Array) -> Array:
        return self.space.chart_velocity(self._nodes(x), self._nodes(rates)).reshape(-1)

    def straight_velocity(self, W: Array, s: Array) -> Array:
        return self.space.straight_velocity(self._nodes(W), s).reshape(-1)

    def chart_rates(self, x: Array, v: Array) -> Array:
        return self.space.chart_rates(self._nodes(x), self._nodes(v)).reshape(-1)

    def chart_momentum(self, x: Array, p: Array) -> Array:
        return self.space.chart_momentum(self._nodes(x), self._nodes(p)).reshape(-1)

    def chart_bending(self, x: Array, rates: Array) -> Array:
        return self.space.chart_bending(self._nodes(x), self._nodes(rates)).reshape(-1)

    def transport(self, v: Array, p: Array) -> Array:
        return self.space.transport(self._nodes(v), self._nodes(p)).reshape(-1)

    def normalised(self, q: Array) -> Array:
        return self.space.normalised(self._nodes(q)).reshape(-1)

    def pull(self, q: Array, slope: Array) -> Array:
        return self.space.pull(self._nodes(q), self._nodes(slope)).reshape(-1)

    def carried(self, q: Array, turning: Array, shifting: Array) -> Array:
        return jnp.concatenate([self.space.carried(node, turning, shifting) for node in self._nodes(q)])

    def drift(self, q: Array, p: Array, mass: Array, h: Array) -> Drift:
        out = self.space.drift(self._nodes(q), self._nodes(p), self._nodes(mass), h)
        return Drift(out.q.reshape(-1), out.p.reshape(-1), out.kinetic, out.converged)


@public
class Product(Space):
    """Several spaces side by side: `Product(Euclidean(3), SO3())` is where a rigid body lives."""

    spaces: tuple[Space, ...]
    dim: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, *spaces: Space):
        if not spaces or not all(isinstance(space, Space) for space in spaces):
            raise InputError(f"a product needs at least one space, and spaces only; got {_told(spaces)}")
        self.spaces = spaces
        self.dim, self.size = sum(s.dim for s in spaces), sum(s.size for s in spaces)
        self.names = tuple(name for space in spaces for name in space.names)

    @property
    def units(self) -> tuple[str, ...]:
        return tuple(unit for space in self.spaces for unit in space.units)

    @property
    def time_unit(self) -> str:
        return next((space.time_unit for space in self.spaces if space.time_unit), "")

    @property
    def energy_unit(self) -> str:
        return next((space.energy_unit for space in self.spaces if space.energy_unit), "")

    @property
    def directions(self) -> tuple[str, ...]:
        return tuple(name for space in self.spaces for name in space.directions)

    def _each(self, kind: str, *values: Array) -> list[tuple[Array, ...]]:
        """The parts of vectors (kind "dim") and of configurations (kind "size") that belong to each space."""
        ends = [0]
        for space in self.spaces:
            ends.append(ends[-1] + getattr(space, kind))
        return [tuple(x[a:b] for x in values) for a, b in itertools.pairwise(ends)]

    def retract(self, q: Array, delta: Array) -> Array:
        return self._join("retract", self._each("size", q), self._each("dim", delta))

    def inverse_retract(self, q: Array, other: Array) -> Array:
        return self._join("inverse_retract", self._each("size", q, other))

    def push(self, q: Array, v: Array) -> Array:
        return self._join("push", self._each("size", q), self._each("dim", v))

    def velocity(self, q: Array, rates: Array) -> Array:
        return self._join("velocity", self._each("size", q, rates))

    def chart_velocity(self, x: Array, rates: Array) -> Array:
        return self._join("chart_velocity", self._each("dim", x, rates))

    def straight_velocity(self, W: Array, s: Array) -> Array:
        parts = zip(self.spaces, self._each("dim", W), strict=True)
        return jnp.concatenate([space.straight_velocity(part[0], s) for space, part in parts])

    def chart_rates(self, x: Array, v: Array) -> Array:
        return self._join("chart_rates", self._each("dim", x, v))

    def chart_momentum(self, x: Array, p: Array) -> Array:
        return self._join("chart_momentum", self._each("dim", x, p))

    def chart_bending(self, x: Array, rates: Array) -> Array:
        return self._join("chart_bending", self._each("dim", x, rates))

    def transport(self, v: Array, p: Array) -> Array:
        return self._join("transport", self._each("dim", v, p))

    def normalised(self, q: Array) -> Array:
        return self._join("normalised", self._each("size", q))

    def pull(self, q: Array, slope: Array) -> Array:
        return self._join("pull", self._each("size", q, slope))

    def carried(self, q: Array, turning: Array, shifting: Array) -> Array:
        parts = zip(self.spaces, self._each("size", q), strict=True)
        return jnp.concatenate([space.carried(part[0], turning, shifting) for space, part in parts])

    def _join(self, method: str, *parts: list[tuple[Array, ...]]) -> Array:
        rows = [sum(group, ()) for group in zip(*parts, strict=True)]
        return jnp.concatenate([getattr(space, method)(*row) for space, row in zip(self.spaces, rows, strict=True)])

    def drift(self, q: Array, p: Array, mass: Array, h: Array) -> Drift:
        rows = zip(self.spaces, self._each("size", q), self._each("dim", p, mass), strict=True)
        outs = [space.drift(there[0], here[0], here[1], h) for space, there, here in rows]
        return Drift(
            jnp.concatenate([out.q for out in outs]),
            jnp.concatenate([out.p for out in outs]),
            functools.reduce(operator.add, [out.kinetic for out in outs]),
            functools.reduce(operator.and_, [out.converged for out in outs]),
        )


def _told(spaces: tuple[Any, ...]) -> str:
    """Spaces by their kind, everything else as it is."""
    return ", ".join(type(space).__name__ if isinstance(space, Space) else repr(space) for space in spaces) or "none"
