"""The sliding velocity of a material point: what `slip` of a contact means.

Friction acts on the two material points that touch. On a body with velocity v and angular velocity ω, the point at r from the
centre of mass moves with

    u = v + ω × r,        and slides with the part of u along the surface, u − (u·n) n.                                  (1)

A ball that rolls has u = 0 at the floor although its centre moves: taking the velocity of the centre for the slip stops it dead.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from carom.calls import public
from carom.errors import InputError
from carom.spaces.rotations import join, rotate, split


@public
def sliding_velocity(velocity: Any, angular_velocity: Any, arm: Any, normal: Any) -> Float[Array, " m"]:
    """(1): how fast the material point at `arm` from the centre of mass slides along a surface with this `normal`.

    In the plane `velocity`, `arm` and `normal` have two entries and `angular_velocity` is a number: the result has one. In space
    all have three, and the result has two, along tangents that are perpendicular to one another. All in the frame of the world. For
    two bodies subtract the results, with the same normal.
    """
    given = {"velocity": velocity, "angular_velocity": angular_velocity, "arm": arm, "normal": normal}
    v, w, r, n = (_vector("sliding_velocity", name, value) for name, value in given.items())
    shapes = [x.shape for x in (v, r, n)]
    if shapes == [(2,)] * 3 and w.shape in ((), (1,)):
        w = w.reshape(())
        point = v + w * jnp.stack([-r[1], r[0]])
        return (n[1] * point[0] - n[0] * point[1])[None] / jnp.sqrt(jnp.sum(n**2))
    if shapes == [(3,)] * 3 and w.shape == (3,):
        n = n / jnp.sqrt(jnp.sum(n**2))
        return _tangents(n) @ (v + jnp.cross(w, r))
    raise InputError(
        "sliding_velocity takes vectors of two entries and a number for the angular velocity, or vectors of three entries; got "
        f"shapes {v.shape}, {w.shape}, {r.shape}, {n.shape}"
    )


@public
def rigid_velocity(q: Any, v: Any) -> tuple[Float[Array, " 3"], Float[Array, " 3"]]:
    """The velocity and the angular velocity, in the frame of the world, of a body in `SE3` with configuration q and velocity v."""
    q, v = _vector("rigid_velocity", "q", q), _vector("rigid_velocity", "v", v)
    if q.shape != (7,) or v.shape != (6,):
        raise InputError(
            f"rigid_velocity takes q with 7 entries and v with 6, of a body in SE3; got shapes {q.shape} and {v.shape}"
        )
    turn, (omega, gamma) = split(q)[:4], (split(v)[:3], split(v)[3:])
    return join(rotate(turn, gamma)), join(rotate(turn, omega))


def _vector(function: str, name: str, value: Any) -> Array:
    try:
        return jnp.asarray(value, float)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{function}: {name} must be numbers; got {value!r}") from error


def _tangents(n: Float[Array, " 3"]) -> Float[Array, "2 3"]:
    """Two unit vectors perpendicular to n and to one another; which two does not matter to friction."""
    axis = jnp.where(jnp.abs(n[0]) < 0.9, jnp.asarray([1.0, 0.0, 0.0]), jnp.asarray([0.0, 1.0, 0.0]))
    first = axis - n * jnp.sum(axis * n)
    first = first / jnp.sqrt(jnp.sum(first**2))
    return jnp.stack([first, jnp.cross(n, first)])
