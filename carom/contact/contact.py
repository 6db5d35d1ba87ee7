"""A contact: one function `gap`, positive while apart, and the law that holds when it closes."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from carom.errors import InputError
from carom.named import Named


class Contact(eqx.Module):
    """Where two things touch, and what happens then.

    - `gap(q, t, params)`: positive while apart, zero in contact, *negative inside*: a distance with a sign. (`abs(q[1])` or
      `q[1]**2` never notice that something has passed, and are refused.) It may return a vector: one contact per entry (the
      vertices of a polygon, say), all with the same law.
    - `restitution`: e ∈ [0, 1], the ratio of the normal speeds after and before; a number or a function of `params`.
      1 is elastic: the impact keeps the (discrete) energy.
    - `friction`, `slip`: Coulomb friction. `slip(q, v, t, params)` is the sliding velocity of the *material points* that touch,
      linear in v: one number in the plane, two in space, one row of them per gap entry if the gap is a vector. A function that
      does not ask for v is read as a coordinate of those points, and its rate taken. For a ball on a floor the point that touches
      is another at each moment and has no such coordinate: write its velocity, v + ω × r.
    - `obstacle=True`: the entries of `gap` are the faces of *one* convex obstacle, which is entered only where all of
      them are negative (its exterior corners, §5 of [fetecau2003]); otherwise each entry must stay positive by itself.
    """

    gap: Named
    slip: Named | None
    restitution: Float[Array, ""] | Named
    friction: Float[Array, ""] | Named
    name: str | None = eqx.field(static=True)
    obstacle: bool = eqx.field(static=True)

    def __init__(
        self,
        gap: Callable[..., Any],
        restitution: float | Callable[..., Any] = 1.0,
        *,
        friction: float | Callable[..., Any] = 0.0,
        slip: Callable[..., Any] | None = None,
        name: str | None = None,
        obstacle: bool = False,
    ):
        if name is not None and not isinstance(name, str):
            raise InputError(f"the name of a contact must be a text; got {name!r}")
        if not isinstance(obstacle, bool):
            raise InputError(f"obstacle must be True or False; got {obstacle!r}")
        known = ("q", "t", "params")
        self.gap = Named(gap, known, "gap")
        self.name = name if name is not None else _function_name(gap)
        where = f"contact {self.name!r}" if self.name else "contact"
        self.restitution = _coefficient(restitution, "restitution", where, upper=1.0)
        self.friction = _coefficient(friction, "friction", where, upper=None)
        self.slip = None if slip is None else Named(slip, ("q", "v", "t", "params"), "slip")
        rough = isinstance(self.friction, Named) or bool(self.friction > 0)
        if rough and slip is None:
            raise InputError(f"{where} has friction but no slip: pass slip=, the tangential coordinate of the contact point")
        if rough and obstacle:
            raise InputError(
                f"{where}: friction on the faces of one obstacle is not defined at its corners; use one Contact per face"
            )
        self.obstacle = obstacle

    @property
    def rough(self) -> bool:
        return self.slip is not None

    @property
    def needs(self) -> frozenset[str]:
        """What this contact asks of a method."""
        found = set()
        if self.rough:
            found.add("friction")
        if isinstance(self.restitution, Named | jax.core.Tracer) or float(self.restitution) < 1.0:
            found.add("restitution")
        if self.obstacle:
            found.add("obstacles")
        if self.gap.asks_for("t"):
            found.add("moving walls")
        return frozenset(found)


def _function_name(function: Callable[..., Any]) -> str | None:
    name = getattr(function, "__name__", None)
    return None if name is None or name == "<lambda>" else name


def _coefficient(value: Any, what: str, where: str, upper: float | None) -> Float[Array, ""] | Named:
    if callable(value):
        return Named(value, ("params",), what)
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {what} must be a number or a function of params; got {value!r}") from error
    if not number >= 0 or (upper is not None and number > upper):
        limits = "≥ 0" if upper is None else f"in [0, {upper:g}]"
        raise InputError(f"{where}: {what} must be {limits}; got {number}")
    return jnp.asarray(np.asarray(number))  # by way of numpy, or JAX compiles a program to convert it


def contacts_of(contacts: Any) -> tuple[Contact, ...]:
    """The contacts of a system, given as a list or as a single one."""
    contacts = (contacts,) if isinstance(contacts, Contact) or callable(contacts) else contacts
    if not isinstance(contacts, Sequence) or isinstance(contacts, str):
        raise InputError(f"contacts must be a list of carom.Contact; got {contacts!r}")
    for i, contact in enumerate(contacts):
        if not isinstance(contact, Contact):
            raise InputError(f"contacts[{i}] is {contact!r}; wrap the gap function in carom.Contact(...)")
    return tuple(contacts)
