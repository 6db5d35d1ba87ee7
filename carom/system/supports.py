"""Supports: directions of a system with masses at nodes that are held, or moved from outside.

A bar fixed at one end, a beam that is clamped, pinned or guided, an end that a shaker drives. A support takes whole directions of
the space, so that the constraint (1) of mechanics.py is along axes and its inverse mass is M⁻¹ with zeros there:

    v = P M⁻¹ p,      P = 0 along the directions that are held, 1 along the others.                                 (1)

Coordinates that are moved stand at Q(t), whatever happens. Their kinetic energy is a function of time alone and is no part of the
discrete Lagrangian; what they do to the body is the force −F of its elements on them, with the power −F·Q̇, and by (5) of rules.py

    E_start = E + ½ h F(q)·Q̇(t),        E_end = E − ½ h F(q₁)·Q̇(t + h).                                           (2)
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from carom.calls import public
from carom.errors import InputError
from carom.named import Named
from carom.spaces.space import Space
from carom.wanted import Function, Indices


@public
class Supports(eqx.Module):
    """What holds a `LumpedSystem`.

    - `held`: the directions of the space that do not move by themselves, by their indices.
    - `moved`: the coordinates of q that a support moves, by their indices: all those of a node whose directions are all held.
    - `motion(t, params)`: their places, one number each. Without it everything that is held stays where it starts.
    """

    held: tuple[int, ...] = eqx.field(static=True)
    moved: tuple[int, ...] = eqx.field(static=True)
    motion: Named | None

    def __init__(self, held: Indices, moved: Indices = (), motion: Function | None = None):
        self.held, self.moved = (tuple(sorted(set(which))) for which in (held, moved))
        if bool(self.moved) != (motion is not None):
            raise InputError(
                "a support that moves takes both moved=, the coordinates, and motion=, their places as a function of t"
            )
        self.motion = None if motion is None else Named(motion, ("t", "params"), "motion")

    def check(self, space: Space) -> None:
        """That these directions exist; called before anything is compiled."""
        for name, which, number in (("held", self.held, space.dim), ("moved", self.moved, space.size)):
            if which and not 0 <= which[0] <= which[-1] < number:
                raise InputError(
                    f"supports: {name} has the index {which[0] if which[0] < 0 else which[-1]}, but there are {number}"
                )
        if len(self.held) == space.dim:
            raise InputError("supports: every direction is held, so that nothing is left to move")

    def free(self, space: Space) -> np.ndarray:
        """P of (1), as a row of zeros and ones."""
        mask = np.ones(space.dim)
        mask[list(self.held)] = 0.0
        return mask

    def _places(self, t, params) -> Float[Array, " moved"]:
        assert self.motion is not None
        return jnp.asarray(self.motion(t=t, params=params), jnp.float64).reshape(len(self.moved))

    def placed(self, q, t, params) -> Float[Array, " size"]:
        """q with what is moved at its place."""
        return q if self.motion is None else q.at[np.array(self.moved)].set(self._places(t, params))

    def velocity(self, space: Space, q, t, params) -> Float[Array, " dim"]:
        """Q̇ as a velocity of the space; zero along all other directions."""
        if self.motion is None:
            return jnp.zeros(space.dim)
        rates = jax.jvp(lambda s: self._places(s, params), (t,), (jnp.ones_like(t),))[1]
        full = jnp.zeros(space.size).at[np.array(self.moved)].set(rates)
        return jnp.asarray(1.0 - self.free(space)) * space.velocity(q, full)
