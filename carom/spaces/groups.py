"""Rotations and rigid motions as spaces: quaternions for configurations, body velocities and body momenta beside them."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from carom.calls import public
from carom.spaces import cayley_matrices as one_body
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
from carom.wanted import one_of
from carom.xla.kernel import once

RETRACTIONS = ("cayley", "exponential")


def _known(retraction: str) -> str:
    one_of(retraction, RETRACTIONS, "retraction")
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

    @property
    @abstractmethod
    def _identity(self) -> Array: ...

    def _by_derivative(self, x: Array) -> Array:
        """D(x) for one node, column by column: for retractions without a closed form here."""

        def velocity(column):
            place, rates = jax.jvp(lambda x: self.retract(self._identity, x), (x,), (column,))
            return self.velocity(place, rates)

        return jax.vmap(velocity, out_axes=1)(jnp.eye(self.dim))

    def chart_velocity(self, x: Array, rates: Array) -> Array:
        if not self._is_cayley:
            return _each_node(lambda x, w: self._by_derivative(x) @ w, x, rates)
        return self._cayley_velocity(x, rates)

    def straight_velocity(self, W: Array, s: Array) -> Array:
        return self._cayley_straight(W, s) if self._is_cayley else W  # the exponential of a line is a subgroup

    def chart_rates(self, x: Array, v: Array) -> Array:
        if not self._is_cayley:
            return _each_node(lambda x, v: jnp.linalg.solve(self._by_derivative(x), v), x, v)
        return self._cayley_rates(x, v)

    def chart_momentum(self, x: Array, p: Array) -> Array:
        if not self._is_cayley:
            return _each_node(lambda x, p: jnp.linalg.solve(self._by_derivative(x).T, p), x, p)
        return self._cayley_momentum(x, p)

    def chart_bending(self, x: Array, rates: Array) -> Array:
        if not self._is_cayley:
            return jax.jvp(lambda x: self.chart_velocity(x, rates), (x,), (rates,))[1]
        return self._cayley_bending(x, rates)

    @abstractmethod
    def _cayley_velocity(self, x: Array, rates: Array) -> Array: ...

    @abstractmethod
    def _cayley_straight(self, W: Array, s: Array) -> Array: ...

    @abstractmethod
    def _cayley_rates(self, x: Array, v: Array) -> Array: ...

    @abstractmethod
    def _cayley_momentum(self, x: Array, p: Array) -> Array: ...

    @abstractmethod
    def _cayley_bending(self, x: Array, rates: Array) -> Array: ...


def _each_node(function, x, y):
    return function(x, y) if x.ndim == 1 else jax.vmap(function)(x, y)


def _spin(a, omega):
    """The rate of a quaternion that turns with ω."""
    zero = jnp.zeros_like(omega[0])
    return tuple(0.5 * x for x in multiply(a, (zero, *omega)))


def _turning(a, rates):
    """The angular velocity of a quaternion with these rates: the inverse of `_spin`."""
    return tuple(2.0 * x for x in multiply(conjugate(a), rates)[1:])


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


@public
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
        if self._is_cayley and q.ndim == 1:
            return one_body.turned(q, delta)
        return join(multiply(split(q), self._rotation(split(delta))))

    def inverse_retract(self, q: Array, other: Array) -> Array:
        return join(self._displacement(multiply(conjugate(split(q)), split(other))))

    def push(self, q: Array, v: Array) -> Array:
        if q.ndim == 1:
            return 0.5 * one_body.times(one_body.spin_matrix(q), v)
        return join(_spin(split(q), split(v)))

    def velocity(self, q: Array, rates: Array) -> Array:
        if q.ndim == 1:
            return 2.0 * one_body.back(one_body.spin_matrix(q), rates)
        return join(_turning(split(q), split(rates)))

    @property
    def _identity(self) -> Array:
        return jnp.eye(4)[0]

    def _cayley_velocity(self, x: Array, rates: Array) -> Array:
        return one_body.Turn.of(x).velocity(rates)

    def _cayley_straight(self, W: Array, s: Array) -> Array:
        return one_body.turning_along(W, s)

    def _cayley_rates(self, x: Array, v: Array) -> Array:
        return one_body.times(one_body.Turn.of(x).K, v)

    def _cayley_momentum(self, x: Array, p: Array) -> Array:
        return one_body.back(one_body.Turn.of(x).K, p)

    def _cayley_bending(self, x: Array, rates: Array) -> Array:
        return one_body.Turn.of(x).bending(rates)

    def transport(self, v: Array, p: Array) -> Array:
        return one_body.cross(p, v)  # Euler: μ × ω

    def normalised(self, q: Array) -> Array:
        return one_body.renormalised(q)

    def pull(self, q: Array, slope: Array) -> Array:
        if q.ndim == 1:
            return 0.5 * one_body.back(one_body.spin_matrix(q), slope)
        return join(_torque(split(q), split(slope)))

    def carried(self, q: Array, turning: Array, shifting: Array) -> Array:
        return join(unrotate(split(q), split(turning)))  # shifting turns nothing

    def drift(self, q: Array, p: Array, mass: Array, h: Array) -> Drift:
        mu, inertia = split(p), split(mass)
        guess = times(mu, tuple(1.0 / j for j in inertia))

        def residual(omega):
            value, columns = _gyration(omega, inertia, h)
            return add(value, scale(-1.0, mu)), columns

        def improve(omega):
            defect = add(mu, scale(-1.0, exponential_momentum(scale(h, omega), times(inertia, omega))))
            return times(defect, tuple(1.0 / j for j in inertia))

        omega, converged = newton_nodes(residual, guess, 1.0 / jnp.abs(h)) if self._is_cayley else fixed_point_nodes(improve, guess)
        turn = once(self._rotation(scale(h, omega)))
        kinetic = 0.5 * jnp.sum(dot(omega, times(inertia, omega)))
        return Drift(join(renormalise(multiply(split(q), turn))), join(unrotate(turn, mu)), kinetic, converged)


@public
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
        if self._is_cayley and q.ndim == 1:
            return one_body.moved(q, delta)
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
        if q.ndim == 1:
            spin = 0.5 * one_body.times(one_body.spin_matrix(q[:4]), v[:3])
            return jnp.concatenate([spin, one_body.rotated(q[:4], v[3:])])
        parts, (omega, gamma) = split(q), _halves(v)
        return join(_spin(parts[:4], omega), rotate(parts[:4], gamma))

    def velocity(self, q: Array, rates: Array) -> Array:
        if q.ndim == 1:
            turning = 2.0 * one_body.back(one_body.spin_matrix(q[:4]), rates[:4])
            return jnp.concatenate([turning, one_body.rotated(q[:4], rates[4:], -1.0)])
        parts, change = split(q), split(rates)
        return join(_turning(parts[:4], change[:4]), unrotate(parts[:4], change[4:]))

    @property
    def _identity(self) -> Array:
        return jnp.eye(7)[0]

    def _cayley_velocity(self, x: Array, rates: Array) -> Array:
        return one_body.rigid_velocity(x, rates)

    def _cayley_straight(self, W: Array, s: Array) -> Array:
        return one_body.moving_along(W, s)

    def _cayley_rates(self, x: Array, v: Array) -> Array:
        return one_body.rigid_rates(x, v)

    def _cayley_momentum(self, x: Array, p: Array) -> Array:
        return one_body.rigid_momentum(x, p)

    def _cayley_bending(self, x: Array, rates: Array) -> Array:
        return one_body.rigid_bending(x, rates)

    def transport(self, v: Array, p: Array) -> Array:
        mu, nu = one_body.cross_matrix(p[..., :3]), one_body.cross_matrix(p[..., 3:])
        torque = one_body.times(mu, v[..., :3]) + one_body.times(nu, v[..., 3:])
        return jnp.concatenate([torque, one_body.times(nu, v[..., :3])], axis=-1)  # Kirchhoff: μ × ω + ν × γ, ν × ω

    def normalised(self, q: Array) -> Array:
        return jnp.concatenate([one_body.renormalised(q[..., :4]), q[..., 4:]], axis=-1)

    def pull(self, q: Array, slope: Array) -> Array:
        if q.ndim == 1:
            torque = 0.5 * one_body.back(one_body.spin_matrix(q[:4]), slope[:4])
            return jnp.concatenate([torque, one_body.rotated(q[:4], slope[4:], -1.0)])
        parts, slopes = split(q), split(slope)
        return join(_torque(parts[:4], slopes[:4]), unrotate(parts[:4], slopes[4:]))

    def carried(self, q: Array, turning: Array, shifting: Array) -> Array:
        parts, axis = split(q), split(turning)
        along = add(cross(axis, parts[4:]), split(shifting))
        return join(unrotate(parts[:4], axis), unrotate(parts[:4], along))

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

        # hω is an angle: a body that flies and hardly turns has an ω of the size of the rounding of ½hγ × ν.
        omega, converged = newton_nodes(residual, times(mu, tuple(1.0 / j for j in inertia)), 1.0 / jnp.abs(h))
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
