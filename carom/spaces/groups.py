"""Rotations and rigid motions as spaces: quaternions for configurations, body velocities and body momenta beside them."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from carom.errors import InputError
from carom.spaces.rotations import (
    add,
    cayley,
    cayley_shift,
    coadjoint,
    conjugate,
    cross,
    dot,
    exponential,
    exponential_momentum,
    exponential_shift,
    fixed_point_nodes,
    inverse_cayley,
    join,
    logarithm,
    multiply,
    newton_nodes,
    renormalise,
    rotate,
    scale,
    split,
    times,
    unrotate,
)
from carom.spaces.space import Drift, Space
from carom.xla.kernel import once

RETRACTIONS = ("cayley", "exponential")


def _known(retraction: str) -> str:
    if retraction not in RETRACTIONS:
        raise InputError(f"retraction must be one of {', '.join(RETRACTIONS)}; got {retraction!r}")
    return retraction


class _Group(Space):
    """What the groups share. They work on the last axis of their arguments, so that many nodes are handled at once."""

    retraction: eqx.AbstractVar[str]

    @property
    def _is_cayley(self) -> bool:
        return self.retraction == "cayley"

    def _rotation(self, omega):
        return cayley(omega) if self._is_cayley else exponential(omega)

    def _displacement(self, a):
        return inverse_cayley(a) if self._is_cayley else logarithm(a)


def _spin(a, omega):
    """The rate of a quaternion that turns with ω."""
    zero = jnp.zeros_like(omega[0])
    return tuple(0.5 * x for x in multiply(a, (zero, *omega)))


def _torque(a, slope):
    """The transpose of `_spin`."""
    return tuple(0.5 * x for x in multiply(conjugate(a), slope)[1:])


def _gyration(omega, inertia, h):
    """μ(ω) = (dτ⁻¹_{hω})ᵀJω for the Cayley map, and the columns of its derivative."""
    (x, y, z), momentum = omega, once(times(inertia, omega))
    (jx, jy, jz), (lx, ly, lz) = inertia, momentum
    c, energy = 0.5 * h, once(0.25 * h * h * dot(omega, momentum))
    wx, wy, wz = scale(0.5 * h * h, omega)
    value = add(momentum, scale(c, cross(omega, momentum)), scale(energy, omega))
    # J + ½h(ω̂J − (Jω)^) + ¼h²((ω·Jω)I + 2ω(Jω)ᵀ)
    columns = (
        (jx + energy + wx * lx, c * (z * jx - lz) + wy * lx, c * (ly - y * jx) + wz * lx),
        (c * (lz - z * jy) + wx * ly, jy + energy + wy * ly, c * (x * jy - lx) + wz * ly),
        (c * (y * jz - ly) + wx * lz, c * (lx - x * jz) + wy * lz, jz + energy + wz * lz),
    )
    return value, columns


class SO3(_Group):
    """Rotations: q is a unit quaternion (w, x, y, z) that turns body axes into space, v the angular velocity in the body.

    *Drift*: with τ the retraction and J the moments of inertia, ω solves (dτ⁻¹_{hω})ᵀ J ω = p, then q₁ = q τ(hω), p₁ = τ(hω)ᵀ p:
    the discrete Euler–Lagrange equations of a free body. Angular momentum in space, Λp, is kept to rounding.
    """

    retraction: str = eqx.field(static=True)
    dim, size = 3, 4
    names = ("qw", "qx", "qy", "qz")
    directions = ("wx", "wy", "wz")

    def __init__(self, retraction: str = "cayley"):
        self.retraction = _known(retraction)

    def retract(self, q: Array, delta: Array) -> Array:
        return join(multiply(split(q), self._rotation(split(delta))))

    def inverse_retract(self, q: Array, other: Array) -> Array:
        return join(self._displacement(multiply(conjugate(split(q)), split(other))))

    def push(self, q: Array, v: Array) -> Array:
        return join(_spin(split(q), split(v)))

    def pull(self, q: Array, slope: Array) -> Array:
        return join(_torque(split(q), split(slope)))

    def drift(self, q: Array, p: Array, mass: Array, h: Array) -> Drift:
        mu, inertia = split(p), split(mass)
        guess = times(mu, tuple(1.0 / j for j in inertia))

        def residual(omega):
            value, columns = _gyration(omega, inertia, h)
            return add(value, scale(-1.0, mu)), columns

        def improve(omega):
            defect = add(mu, scale(-1.0, exponential_momentum(scale(h, omega), times(inertia, omega))))
            return times(defect, tuple(1.0 / j for j in inertia))

        omega, converged = newton_nodes(residual, guess) if self._is_cayley else fixed_point_nodes(improve, guess)
        turn = once(self._rotation(scale(h, omega)))
        kinetic = 0.5 * jnp.sum(dot(omega, times(inertia, omega)))
        return Drift(join(renormalise(multiply(split(q), turn))), join(unrotate(turn, mu)), kinetic, converged)


class SE3(_Group):
    """Rigid motions: q = (unit quaternion, position), v = (angular velocity, velocity), both in the body.

    *Drift*: as on SO(3), with (5) and (6) of spaces/rotations.py. For the Cayley map the velocity is eliminated,
    γ = (I + ½hω̂)⁻¹ν/M, and three equations for ω remain at each node; for the exponential all six are iterated.
    """

    retraction: str = eqx.field(static=True)
    dim, size = 6, 7
    names = ("qw", "qx", "qy", "qz", "x", "y", "z")
    directions = ("wx", "wy", "wz", "vx", "vy", "vz")

    def __init__(self, retraction: str = "cayley"):
        self.retraction = _known(retraction)

    def _shift(self, omega, gamma):
        return cayley_shift(omega, gamma) if self._is_cayley else exponential_shift(omega, gamma)

    def retract(self, q: Array, delta: Array) -> Array:
        parts, (omega, gamma) = split(q), _halves(delta)
        turn, shift = self._rotation(omega), self._shift(omega, gamma)
        return join(multiply(parts[:4], turn), add(parts[4:], rotate(parts[:4], shift)))

    def inverse_retract(self, q: Array, other: Array) -> Array:
        here, there = split(q), split(other)
        omega = self._displacement(multiply(conjugate(here[:4]), there[:4]))
        shift = unrotate(here[:4], add(there[4:], scale(-1.0, here[4:])))
        if self._is_cayley:
            return join(omega, add(shift, scale(-0.5, cross(omega, shift))))
        return join(omega, exponential_momentum(scale(-1.0, omega), shift))

    def push(self, q: Array, v: Array) -> Array:
        parts, (omega, gamma) = split(q), _halves(v)
        return join(_spin(parts[:4], omega), rotate(parts[:4], gamma))

    def pull(self, q: Array, slope: Array) -> Array:
        parts, slopes = split(q), split(slope)
        return join(_torque(parts[:4], slopes[:4]), unrotate(parts[:4], slopes[4:]))

    def drift(self, q: Array, p: Array, mass: Array, h: Array) -> Drift:
        parts, (mu, nu), (inertia, weight) = split(q), _halves(p), _halves(mass)
        solver = self._solve_cayley if self._is_cayley else self._solve_exponential
        (omega, gamma), converged = solver(mu, nu, inertia, weight, h)
        turn, shift = once((self._rotation(scale(h, omega)), self._shift(scale(h, omega), scale(h, gamma))))
        q1 = join(renormalise(multiply(parts[:4], turn)), add(parts[4:], rotate(parts[:4], shift)))
        kinetic = 0.5 * jnp.sum(dot(omega, times(inertia, omega)) + dot(gamma, times(weight, gamma)))
        return Drift(q1, join(*coadjoint(turn, shift, mu, nu)), kinetic, converged)

    def _solve_cayley(self, mu, nu, inertia, weight, h):
        lighter = tuple(1.0 / m for m in weight)

        def velocity(omega):  # (I + ½hω̂)⁻¹ν/M
            return times(cayley_shift(scale(-h, omega), nu), lighter)

        def residual(omega):
            value, columns = _gyration(omega, inertia, h)
            gamma = once(velocity(omega))
            # ½hγ(ω) × ν, and of its derivative the leading part, −¼h²ν̂γ̂.
            value = add(value, scale(0.5 * h, cross(gamma, nu)), scale(-1.0, mu))
            along, c = dot(nu, gamma), 0.25 * h * h
            columns = tuple(
                tuple(column[i] + c * ((along if i == j else 0.0) - gamma[i] * nu[j]) for i in range(3))
                for j, column in enumerate(columns)
            )
            return value, columns

        omega, converged = newton_nodes(residual, times(mu, tuple(1.0 / j for j in inertia)))
        return (omega, once(velocity(omega))), converged

    def _solve_exponential(self, mu, nu, inertia, weight, h):
        mass, wanted = (*inertia, *weight), (*mu, *nu)
        identity = (jnp.ones_like(mu[0]), *[jnp.zeros_like(mu[0])] * 6)

        def momentum(x, covector):
            """(dτ⁻¹_x)ᵀ, by differentiating ζ ↦ τ⁻¹(τ(ζ)⁻¹ τ(x)) at 0, which is −dτ⁻¹_x."""
            there = self.retract(join(identity), x)
            away = lambda zeta: self.inverse_retract(self.retract(join(identity), zeta), there)  # noqa: E731
            return -jax.vjp(away, jnp.zeros_like(x))[1](covector)[0]

        def improve(xi):
            found = split(momentum(h * join(xi), join(xi) * join(mass)))
            return tuple((want - have) / m for want, have, m in zip(wanted, found, mass, strict=True))

        xi, converged = fixed_point_nodes(improve, tuple(w / m for w, m in zip(wanted, mass, strict=True)))
        return (xi[:3], xi[3:]), converged


def _halves(x: Array):
    """(ω, γ) of an element of se(3), or (μ, ν) of its dual."""
    parts = split(x)
    return parts[:3], parts[3:]
