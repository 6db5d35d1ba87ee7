"""A contact: one function `gap`, positive while apart, and the law that holds when it closes."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from carom.calls import public, real
from carom.errors import InputError
from carom.named import Named
from carom.wanted import one_of

LAWS = ("newton", "poisson")
ELASTIC = 1.0  # what a restitution is that nobody gave


@public
class Contact(eqx.Module):
    """Where two things touch, and what happens then.

    - `gap(q, t, params)`: positive while apart, zero in contact, *negative inside*: a distance with a sign. (`abs(q[1])` or
      `q[1]**2` never notice that something has passed, and are refused.) It may return a vector: one contact per entry (the
      vertices of a polygon, say), all with the same law.
    - `restitution`: e ∈ [0, 1], the ratio of the normal speeds after and before; a number or a function of `params` and `speed`,
      that of approach at the impact (a law of your own: e = departure / approach). 1 is elastic: the impact keeps the (discrete)
      energy.
    - `departure`: instead of `restitution`, the speed of departure as a function of `speed`, that of approach, and `params`: a law
      of impact of one's own, such as `lambda speed: jnp.maximum(0.8 * speed - 0.1, 0.0)` for surfaces that stick. One that departs
      faster than it comes at any speed would add energy, and is refused.
    - `impulse`: instead of `restitution`, the normal impulse as a function of the whole state, `q, v, t, params`, of `speed`, that
      of approach, and of `mass`, the effective mass along the normal: `lambda q, speed, mass: 1.5 * mass * speed`. It must lie
      between mass · speed, which stops the approach, and twice that, which gives it all back: less would go on into the obstacle,
      more would add energy, and a run that comes to such an impact ends there and says so.
    - `law`: "newton", where e is a ratio of speeds, or "poisson", where it is the ratio of the normal impulses of the two phases
      of an impact, compression and restitution. Without friction they are the same for one contact.
    - `friction`, `slip`: Coulomb friction. `slip(q, v, t, params)` is the sliding velocity of the *material points* that touch,
      linear in v: one number in the plane, two in space, one row of them per gap entry if the gap is a vector. A function that
      does not ask for v is read as a coordinate of those points, and its rate taken. For a ball on a floor the point that touches
      is another at each moment and has no such coordinate: write its velocity, v + ω × r (`carom.sliding_velocity` does).
      `friction` is a number or a function of `params` and `speed`, the sliding speed: that before an impact, that at the start of
      a step of `MoreauJean`, that of each moment in `TimeDG`.
    - `static_friction`: the coefficient of a contact whose point does not slide, at least that of one that does.
    - `roll`, `rolling`: resistance against rolling and spinning. `roll(q, v, t, params)` is the angular velocity of the surfaces
      relative to one another, linear in v: one number in the plane, up to three in space. `rolling` is the arm of its moment, a
      length: friction f and moment τ obey (|f|/μ)² + (|τ|/rolling)² ≤ (normal force)², and what moves dissipates most.
    - `obstacle=True`: the entries of `gap` are the faces of *one* convex obstacle, which is entered only where all of
      them are negative (its exterior corners, §5 of [fetecau2003]); otherwise each entry must stay positive by itself.
    """

    gap: Named
    slip: Named | None
    restitution: Float[Array, ""] | Named
    impulse: Named | None
    friction: Float[Array, ""] | Named
    static_friction: Float[Array, ""] | Named | None
    roll: Named | None
    rolling: Float[Array, ""] | Named
    law: str = eqx.field(static=True)
    name: str | None = eqx.field(static=True)
    obstacle: bool = eqx.field(static=True)

    def __init__(
        self,
        gap: Callable[..., Any],
        restitution: float | Callable[..., Any] = ELASTIC,
        *,
        departure: Callable[..., Any] | None = None,
        impulse: Callable[..., Any] | None = None,
        friction: float | Callable[..., Any] = 0.0,
        slip: Callable[..., Any] | None = None,
        static_friction: float | Callable[..., Any] | None = None,
        roll: Callable[..., Any] | None = None,
        rolling: float | Callable[..., Any] = 0.0,
        law: str = "newton",
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
        one_of(law, LAWS, f"{where}: law")
        self.law = law
        if departure is not None and restitution is not ELASTIC:
            raise InputError(f"{where}: departure= says what restitution= would say: pass one of the two")
        if impulse is not None and (departure is not None or restitution is not ELASTIC or law != "newton"):
            raise InputError(f"{where}: impulse= is the whole law of impact: leave restitution, departure and law out")
        self.impulse = None if impulse is None else Named(impulse, ("q", "v", "t", "params", "speed", "mass"), "impulse")
        if departure is not None or impulse is not None:
            restitution = 0.0 if departure is None else _ratio(departure)
        self.restitution = _coefficient(restitution, "restitution", where, upper=1.0, of_speed=True)
        self.friction = _coefficient(friction, "friction", where, upper=None, of_speed=True)
        self.static_friction = None if static_friction is None else _coefficient(static_friction, "static_friction", where, None)
        self.roll = None if roll is None else Named(roll, ("q", "v", "t", "params"), "roll")
        self.rolling = _coefficient(rolling, "rolling", where, None)
        _check_together(self, where)
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
    def depends_on_speed(self) -> bool:
        of_speed = [c for c in (self.restitution, self.friction) if isinstance(c, Named) and c.asks_for("speed")]
        return bool(of_speed) or self.static_friction is not None or self.impulse is not None

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
        if self.depends_on_speed:
            found.add("laws of speed")
        if self.roll is not None:
            found.add("rolling")
        if self.law == "poisson":
            found.add("poisson")
        if self.obstacle:
            found.add("obstacles")
        if self.gap.asks_for("t"):
            found.add("moving walls")
        return frozenset(found)


def _function_name(function: Callable[..., Any]) -> str | None:
    name = getattr(function, "__name__", None)
    return None if name is None or name == "<lambda>" else name


def _ratio(departure: Callable[..., Any]) -> Callable[..., Any]:
    """The speed of departure over that of approach; without approach there is nothing to give back."""
    law = Named(departure, ("speed", "params"), "departure")

    def restitution(speed, params):
        comes = speed > 0
        return jnp.where(comes, law(speed=speed, params=params) / jnp.where(comes, speed, 1.0), 0.0)

    return restitution


def _check_together(contact: Contact, where: str) -> None:
    """What only makes sense with something else, or cannot go with it."""
    frictions = contact.friction, contact.static_friction
    if contact.static_friction is not None:
        if isinstance(contact.friction, Named) and contact.friction.asks_for("speed"):
            raise InputError(
                f"{where}: friction depends on speed, and its value at speed 0 is the static one: leave static_friction out"
            )
        if not any(isinstance(c, Named) for c in frictions) and not float(frictions[1]) >= float(frictions[0]) > 0:  # pyright: ignore[reportArgumentType]
            raise InputError(
                f"{where}: static_friction must be at least friction, and friction positive; got {float(frictions[1])} "  # pyright: ignore[reportArgumentType]
                f"and {float(frictions[0])}"  # pyright: ignore[reportArgumentType]
            )
    resists = isinstance(contact.rolling, Named) or float(contact.rolling) > 0
    if resists != (contact.roll is not None):
        raise InputError(f"{where}: rolling resistance takes both roll=, the angular velocity, and rolling=, a length above 0")
    if resists and contact.depends_on_speed:
        raise InputError(f"{where}: rolling resistance and coefficients that depend on speed do not go together")
    if resists and not isinstance(contact.friction, Named) and not float(contact.friction) > 0:
        raise InputError(f"{where}: rolling resistance needs friction: without it nothing makes the body roll")


def _coefficient(value: Any, what: str, where: str, upper: float | None, of_speed: bool = False) -> Float[Array, ""] | Named:
    if callable(value):
        return Named(value, ("params", "speed") if of_speed else ("params",), what)
    try:
        number = real(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {what} must be a number or a function of params; got {value!r}") from error
    if not number >= 0 or (upper is not None and number > upper):
        limits = "≥ 0" if upper is None else f"in [0, {upper:g}]"
        raise InputError(f"{where}: {what} must be {limits}; got {number}")
    return np.asarray(number)  # pyright: ignore[reportReturnType]  # not yet JAX's: nothing is compiled for it


def contacts_of(contacts: Any) -> tuple[Contact, ...]:
    """The contacts of a system, given as a list or as a single one."""
    contacts = (contacts,) if isinstance(contacts, Contact) or callable(contacts) else contacts
    if not isinstance(contacts, Sequence) or isinstance(contacts, str):
        raise InputError(f"contacts must be a list of carom.Contact; got {contacts!r}")
    for i, contact in enumerate(contacts):
        if not isinstance(contact, Contact):
            raise InputError(f"contacts[{i}] is {contact!r}; wrap the gap function in carom.Contact(...)")
    return tuple(contacts)
