"""The functions of a system with its parameters filled in: what mechanics computes with, on any space."""

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from carom.closures.frozen_function import Frozen
from carom.closures.per_object import per_object
from carom.contact.contact import Contact
from carom.named import Named
from carom.numerics.held_fixed import held_fixed
from carom.numerics.slopes import slopes
from carom.spaces.space import Space

_answers = per_object(lambda function: {})  # to what was asked of a Lagrangian before
EPS_PER_GAP = 64  # roundings in a gap: a few operations per coordinate, and a root found to one rounding


class Functions:
    """What a system is made of, as functions of arrays; `space` is None on plain vectors.

    Covectors, velocities and displacements have `dim` entries, configurations `size`.
    """

    is_chart = False
    contact_rows = sys.maxsize  # there is room for in a step: see carom/system/contacts_in_step.py

    def __init__(self, system: Any, params: Any, dim: int):
        self.system, self.params = system, params
        self.space: Space | None = system.space if system.space is not None and system.space.size != system.space.dim else None
        self.size = dim if self.space is None else self.space.size
        self.dim = dim if self.space is None else self.space.dim

    def asked_once(self, what: str, ask: Callable[[], Any]) -> Any:
        """`ask()`, for an answer that the text of the Lagrangian and the kind of its parameters decide: a system is bound several
        times before its first step, and reading its derivatives is a tenth of the time up to there."""
        function = self.system.lagrangian.function if isinstance(self.system.lagrangian, Named) else None
        if self.is_chart or not isinstance(function, Frozen):
            return ask()
        leaves, tree = jax.tree.flatten(self.params)
        kinds = [(x.shape, x.dtype) if isinstance(x, (np.ndarray, np.generic, jax.Array)) else (type(x), x) for x in leaves]
        known, key = _answers(function), (what, self.size, self.dim, jax.config.jax_enable_x64, tree, *kinds)
        try:
            if key not in known:
                known[key] = ask()
        except TypeError:  # something among the parameters cannot be hashed
            return ask()
        return known[key]

    # -- the formulas of the user ------------------------------------------------------------------------------------------

    def lagrangian(self, q, v, t) -> Float[Array, ""]:
        return jnp.asarray(self.system.lagrangian(q=q, v=v, t=t, params=self.params), q.dtype).reshape(())

    def hamiltonian(self, q, p, t) -> Float[Array, ""]:
        return jnp.asarray(self.system.hamiltonian(q=q, p=p, t=t, params=self.params), q.dtype).reshape(())

    @property
    def forced(self) -> bool:
        return self.system.force is not None

    def force(self, q, v, t) -> Float[Array, " dim"]:
        if not self.forced:
            return jnp.zeros(self.dim, q.dtype)
        force = self.system.force(q=q, v=v, t=t, params=self.params, u=self.command)
        return jnp.asarray(force, q.dtype).reshape(self.dim)

    @property
    def command(self) -> Float[Array, " m"] | None:
        """What the controller has told the actuators, held at the moment; zero outside of a run."""
        system = self.system
        if system.command is None and system.controller is not None:
            return jnp.zeros(system.controller.commands)
        return system.command

    def constraints(self, q, t) -> Float[Array, "m dim"]:
        """A of the velocity constraints A v = 0."""
        if self.system.constraints is None:
            return jnp.zeros((0, self.dim), q.dtype)
        return jnp.asarray(self.system.constraints(q=q, t=t, params=self.params), q.dtype).reshape(-1, self.dim)

    def joints(self, q, t) -> Float[Array, " j"]:
        """What the joints keep at zero."""
        values = [jnp.atleast_1d(jnp.asarray(joint.g(q=q, t=t, params=self.params))) for joint in self.system.joints]
        return jnp.concatenate(values).astype(q.dtype) if values else jnp.zeros(0, q.dtype)

    def faces(self, q, t) -> Float[Array, " faces"]:
        """The gaps of all contacts in one row; an obstacle has several."""
        values = [jnp.atleast_1d(jnp.asarray(c.gap(q=q, t=t, params=self.params))) for c in self.system.contacts]
        return jnp.concatenate(values).astype(q.dtype) if values else jnp.zeros(0, q.dtype)

    def slide(self, contact: Contact, size: int, q, v, t) -> Float[Array, "size m"]:
        """How fast the touching points of one contact slide: given as a velocity, or as the coordinate whose rate it is."""
        assert contact.slip is not None
        slip = contact.slip
        if slip.asks_for("v"):
            value = jnp.asarray(slip(q=q, v=v, t=t, params=self.params))
        else:
            place = lambda q, t: jnp.asarray(slip(q=q, t=t, params=self.params), q.dtype)  # noqa: E731
            value = jax.jvp(place, (q, t), (self.rates(q, v), jnp.ones_like(t)))[1]
        value = value.astype(q.dtype).reshape(size, -1)
        if contact.roll is None:
            return value
        # Friction along the row (rolling / μ) roll, at most μ λ_N, is a moment of at most rolling · λ_N.
        turning = jnp.asarray(contact.roll(q=q, v=v, t=t, params=self.params)).astype(q.dtype).reshape(size, -1)
        return jnp.concatenate([value, turning * (self._number(contact.rolling) / self._number(contact.friction))], axis=1)

    def _number(self, coefficient: Any) -> Any:
        return coefficient(params=self.params) if isinstance(coefficient, Named) else coefficient

    # -- the space ---------------------------------------------------------------------------------------------------------

    def rates(self, q, v) -> Float[Array, " size"]:
        """How the coordinates change with a velocity."""
        return v if self.space is None else self.space.push(q, v)

    def along(self, function: Callable[[Array], Any], q, v) -> tuple[Any, Any]:
        """A function of q, and its rate along a velocity."""
        return jax.jvp(function, (q,), (self.rates(q, v),))

    def slopes(self, function: Callable[[Array], Array], q) -> Float[Array, "rows dim"]:
        """The derivatives of a vector of functions of q, one covector per row."""
        rows = slopes(function, q)
        return rows if self.space is None else jax.vmap(lambda row: self.space.pull(q, row))(rows)  # pyright: ignore[reportOptionalMemberAccess]

    def normals(self, q, t) -> Float[Array, "faces dim"]:
        """∇φ of all faces, one covector per row."""
        return self.slopes(lambda x: self.faces(x, t), q)

    def slope(self, function: Callable[[Array], Array], q) -> Float[Array, " dim"]:
        """The derivative of one function of q as a covector, backwards: its cost does not grow with the dimension."""
        gradient = jax.grad(function)(q)
        return gradient if self.space is None else self.space.pull(q, gradient)

    def gap_rounding(self, q, v, t, dt, index: Array | None = None) -> Float[Array, " faces"]:
        """How far a gap may be from zero by rounding alone: of the coordinates it reads, and of the time dt. `index`: of these."""
        eps = float(jnp.finfo(q.dtype).eps)
        wanted = lambda q, t: self.faces(q, t) if index is None else self.faces(q, t)[index]  # noqa: E731

        @held_fixed
        def rounding(q, v, t, dt):
            size = jnp.sum(jnp.abs(slopes(lambda x: wanted(x, t), q)) * self._reach(q, v, dt), axis=1)
            drift = jax.jvp(lambda s: wanted(q, s), (t,), (jnp.ones_like(t),))[1]
            return EPS_PER_GAP * eps * (size + jnp.abs(drift) * (jnp.abs(t) + dt))

        return rounding(q, v, t, dt)

    def gap_rounding_estimate(self, q, v, t, dt) -> Float[Array, " faces"]:
        """About `gap_rounding`, from two derivatives instead of one for each coordinate: along directions with random entries,
        in which what the coordinates add does not cancel but by chance."""
        eps, reach = float(jnp.finfo(q.dtype).eps), self._reach(q, v, dt)
        rng = np.random.default_rng(0)
        signs = rng.choice([-1.0, 1.0], (2, q.shape[0])) * rng.uniform(0.5, 1.5, (2, q.shape[0]))
        along = lambda sign: jnp.abs(jax.jvp(lambda x: self.faces(x, t), (q,), (sign * reach,))[1])  # noqa: E731
        drift = jax.jvp(lambda s: self.faces(q, s), (t,), (jnp.ones_like(t),))[1]
        size = jnp.maximum(along(jnp.asarray(signs[0])), along(jnp.asarray(signs[1])))
        return EPS_PER_GAP * eps * (size + jnp.abs(drift) * (jnp.abs(t) + dt))

    def _reach(self, q, v, dt) -> Float[Array, " size"]:
        return jnp.abs(q) + jnp.abs(self.rates(q, v)) * dt

    # -- back to the space -------------------------------------------------------------------------------------------------

    def place(self, q) -> Float[Array, " size"]:
        """The configuration with these coordinates."""
        return q

    def body_velocity(self, q, v) -> Float[Array, " dim"]:
        return v

    def chart_rates(self, q, v) -> Float[Array, " dim"]:
        """The rates of the coordinates with a velocity: the inverse of `body_velocity`."""
        return v

    def body_momentum(self, q, p) -> Float[Array, " dim"]:
        return p

    def coordinates(self, q) -> Float[Array, " size"]:
        """What a chart calls its centre."""
        return q
