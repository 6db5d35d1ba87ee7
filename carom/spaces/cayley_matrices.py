"""Quaternions and the Cayley map of one body with small matrices: the same formulas as in `rotations`, in far fewer operations.

`rotations` writes every component out, which is right for the many nodes of a beam, where each component is a long array. For one
body a component is a single number, and a retraction is two hundred operations on single numbers; in a chart
(`carom.system.charts`) every acceleration, gap and derivative is full of them, and compiling them is what programs on rotations
spend their time on. With small matrices it is a quarter as many. Products are sums over the last axis and no matrix products of the
compiler's own, which would be calls of a library, and cannot be part of a kernel.

With ω̂ x = ω × x, c = 1 + ¼|ω|² and

    K(ω) = I + ½ω̂ + ¼ωωᵀ                                                                                        (1)

the Cayley map has D = K⁻¹ = (I − ½ω̂)/c, D⁻¹ = K, D⁻ᵀ = Kᵀ on rotations, and (I − ½ω̂)⁻¹ = K/c, (I + ½ω̂)⁻¹ = Kᵀ/c. On rigid motions
with ξ = (ω, γ) the lever is s = (I − ½ω̂)⁻¹γ, and the velocity in the body (I + ½ω̂)⁻¹(γ̇ + ½ω̇ × s).
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

# ω̂ and the matrix of b ↦ a b, as numbers to be multiplied with ω and a along the last axis.
_CROSS = np.zeros((3, 3, 3))
for _i, _j, _k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
    _CROSS[_i, _k, _j], _CROSS[_i, _j, _k] = 1.0, -1.0
_LEFT = np.zeros((4, 4, 4))
_LEFT[np.arange(4), np.arange(4), 0] = 1.0
_LEFT[1:, 0, 1:], _LEFT[0, 1:, 1:] = np.eye(3), -np.eye(3)
_LEFT[1:, 1:, 1:] = _CROSS


def _total(x: Array, axis: int) -> Array:
    return lax.reduce(x, np.zeros((), x.dtype), lax.add, (axis % x.ndim,))


def _along_last(numbers: np.ndarray, x: Array) -> Array:
    """Σ_k numbers[i, j, k] x[…, k]."""
    shape = (*x.shape[:-1], *numbers.shape)
    spread = lax.broadcast_in_dim(x, shape, (*range(x.ndim - 1), len(shape) - 1))
    return _total(spread * numbers.astype(x.dtype), -1)


def times(A: Float[Array, "*nodes m n"], x: Float[Array, "*nodes n"]) -> Float[Array, "*nodes m"]:
    """A x."""
    return _total(A * lax.expand_dims(x, (x.ndim - 1,)), -1)


def back(A: Float[Array, "*nodes m n"], x: Float[Array, "*nodes m"]) -> Float[Array, "*nodes n"]:
    """Aᵀ x."""
    return _total(A * lax.expand_dims(x, (x.ndim,)), -2)


def cross_matrix(a: Float[Array, "*nodes 3"]) -> Float[Array, "*nodes 3 3"]:
    """â."""
    return _along_last(_CROSS, a)


def cross(a: Float[Array, "*nodes 3"], b: Float[Array, "*nodes 3"]) -> Float[Array, "*nodes 3"]:
    return times(cross_matrix(a), b)


# -- quaternions ---------------------------------------------------------------------------------------------------------


def product(a: Float[Array, "*nodes 4"], b: Float[Array, "*nodes 4"]) -> Float[Array, "*nodes 4"]:
    """The rotation b, then a."""
    return times(_along_last(_LEFT, a), b)


def spin_matrix(a: Float[Array, "*nodes 4"]) -> Float[Array, "*nodes 4 3"]:
    """What takes an angular velocity in the body to twice the rates of a quaternion. Its columns are orthonormal."""
    return _along_last(_LEFT[:, 1:], a)


def rotated(a: Float[Array, "*nodes 4"], x: Float[Array, "*nodes 3"], sign: float = 1.0) -> Float[Array, "*nodes 3"]:
    """Λ x; Λᵀ x for the other sign."""
    turn = cross_matrix(a[..., 1:])
    twist = 2.0 * times(turn, x)
    return x + sign * a[..., :1] * twist + times(turn, twist)


def renormalised(a: Float[Array, "*nodes 4"]) -> Float[Array, "*nodes 4"]:
    """Back to a unit from rounding away: one step of Newton for 1/√|a|²."""
    return a * lax.expand_dims(1.5 - 0.5 * _total(a * a, -1), (a.ndim - 1,))


# -- the Cayley map ------------------------------------------------------------------------------------------------------


class Turn(NamedTuple):
    """A displacement ω, ready to be used."""

    half: Float[Array, "*nodes 3"]  #    ½ω
    cross: Float[Array, "*nodes 3 3"]  # ½ω̂
    K: Float[Array, "*nodes 3 3"]  #     (1)
    share: Float[Array, "*nodes 1"]  #   1/c

    @staticmethod
    def of(omega: Float[Array, "*nodes 3"]) -> "Turn":
        half = 0.5 * omega
        matrix = cross_matrix(half)
        outer = lax.expand_dims(half, (half.ndim,)) * lax.expand_dims(half, (half.ndim - 1,))
        share = 1.0 / (1.0 + lax.expand_dims(_total(half * half, -1), (half.ndim - 1,)))
        return Turn(half, matrix, np.eye(3) + matrix + outer, share)

    @property
    def quaternion(self) -> Float[Array, "*nodes 4"]:
        return jnp.sqrt(self.share) * jnp.concatenate([jnp.ones_like(self.share), self.half], axis=-1)

    def velocity(self, rates):
        """D ω̇."""
        return self.share * (rates - times(self.cross, rates))

    def bending(self, rates):
        """Of D ω̇ = (ω̇ − ½ω × ω̇)/c nothing changes but c: Ḋ ω̇ = −ċ/c D ω̇, ċ = ½ω·ω̇."""
        slower = -self.share * lax.expand_dims(_total(self.half * rates, -1), (rates.ndim - 1,))
        return slower * self.velocity(rates)

    def ahead(self, x):
        """(I − ½ω̂)⁻¹ x."""
        return self.share * times(self.K, x)

    def behind(self, x):
        """(I + ½ω̂)⁻¹ x."""
        return self.share * back(self.K, x)


def turned(q: Float[Array, "*nodes 4"], delta: Float[Array, "*nodes 3"]) -> Float[Array, "*nodes 4"]:
    """q τ(δ) on SO(3)."""
    return product(q, Turn.of(delta).quaternion)


def moved(q: Float[Array, "*nodes 7"], delta: Float[Array, "*nodes 6"]) -> Float[Array, "*nodes 7"]:
    """q τ(δ) on SE(3)."""
    here, turn = q[..., :4], Turn.of(delta[..., :3])
    return jnp.concatenate([product(here, turn.quaternion), q[..., 4:] + rotated(here, turn.ahead(delta[..., 3:]))], axis=-1)


def turning_along(omega: Float[Array, "*nodes 3"], s: Any) -> Float[Array, "*nodes 3"]:
    """D(sω) ω on SO(3): slower than ω, in its direction."""
    half = 0.5 * s * omega
    return omega / (1.0 + lax.expand_dims(_total(half * half, -1), (half.ndim - 1,)))


def moving_along(xi: Float[Array, "*nodes 6"], s: Any) -> Float[Array, "*nodes 6"]:
    """D(sξ) ξ on SE(3): with a = ½sω the two inverses are (I + â)⁻¹(I − â)⁻¹ = (I − â²)⁻¹ = (I + aaᵀ)/c."""
    omega, gamma = xi[..., :3], xi[..., 3:]
    half = 0.5 * s * omega
    along = gamma + half * lax.expand_dims(_total(half * gamma, -1), (half.ndim - 1,))
    slower = 1.0 / (1.0 + lax.expand_dims(_total(half * half, -1), (half.ndim - 1,)))
    return slower * jnp.concatenate([omega, along], axis=-1)


def rigid_velocity(x: Float[Array, "*nodes 6"], rates: Float[Array, "*nodes 6"]) -> Float[Array, "*nodes 6"]:
    """D(x) ẋ on SE(3)."""
    turn, turning = Turn.of(x[..., :3]), rates[..., :3]
    along = rates[..., 3:] + 0.5 * cross(turning, turn.ahead(x[..., 3:]))
    return jnp.concatenate([turn.velocity(turning), turn.behind(along)], axis=-1)


def rigid_rates(x: Float[Array, "*nodes 6"], v: Float[Array, "*nodes 6"]) -> Float[Array, "*nodes 6"]:
    """D(x)⁻¹ v on SE(3)."""
    turn, speed = Turn.of(x[..., :3]), v[..., 3:]
    turning = times(turn.K, v[..., :3])
    along = speed + times(turn.cross, speed) - 0.5 * cross(turning, turn.ahead(x[..., 3:]))
    return jnp.concatenate([turning, along], axis=-1)


def rigid_momentum(x: Float[Array, "*nodes 6"], p: Float[Array, "*nodes 6"]) -> Float[Array, "*nodes 6"]:
    """D(x)⁻ᵀ p on SE(3)."""
    turn, nu = Turn.of(x[..., :3]), p[..., 3:]
    turning = back(turn.K, p[..., :3] - 0.5 * cross(turn.ahead(x[..., 3:]), nu))
    return jnp.concatenate([turning, nu - times(turn.cross, nu)], axis=-1)


def rigid_bending(x: Float[Array, "*nodes 6"], rates: Float[Array, "*nodes 6"]) -> Float[Array, "*nodes 6"]:
    """Ḋ ẋ on SE(3). With u = (I + ½ω̂)⁻¹ along and ṡ = (I − ½ω̂)⁻¹ along, (I + ½ω̂)u̇ = ½ω̇ × (ṡ − u)."""
    turn, turning = Turn.of(x[..., :3]), rates[..., :3]
    matrix = cross_matrix(0.5 * turning)
    along = rates[..., 3:] + times(matrix, turn.ahead(x[..., 3:]))
    apart = turn.ahead(along) - turn.behind(along)
    return jnp.concatenate([turn.bending(turning), turn.behind(times(matrix, apart))], axis=-1)
