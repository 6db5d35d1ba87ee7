"""Where a run is to end: functions of the motion whose zeros are looked for from step to step."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from carom.calls import public
from carom.errors import InputError
from carom.named import Named
from carom.system.system import System
from carom.wanted import Text, one_of

OF_A_SYSTEM = ("q", "v", "t", "params")
DIRECTIONS = {"rising": 1, "falling": -1, "either": 0}


@public
class Stop(eqx.Module):
    """An event that ends a run: the instant at which a function of the motion becomes zero.

        f(q, v, t, params) = 0, from below (`direction="rising"`), from above ("falling"), or "either"

    The sign of f is looked at after each step; a change of it is located within the step, to rounding, by steps of other lengths.
    Two zeros in one step leave the sign as it was, and are not seen: take a dt that keeps them apart. Where f jumps (v does,
    at an impact), the instant of the jump is found. A run that starts at f = 0 goes on until the next zero.

    - `function(q, v, t, params)`: any of these, by name; one number. For a `carom.World`: `function(now, t)`, where `now` is the
      world at an instant (`now.body(handle).position`, …).
    - `name`: what the status calls it.
    """

    function: Named
    direction: int = eqx.field(static=True)
    name: str = eqx.field(static=True)

    def __init__(self, function: Callable[..., Any], direction: str = "either", name: Text = ""):
        self.function = Named(function, (*OF_A_SYSTEM, "now"), "stop")
        one_of(direction, DIRECTIONS, "direction")
        own = getattr(function, "__name__", "")
        self.direction, self.name = DIRECTIONS[direction], name or ("" if own == "<lambda>" else own) or "stop"


def stops_of(given: Any, known: tuple[str, ...] = OF_A_SYSTEM) -> tuple[Stop, ...]:
    """One function or `Stop`, or several, of what is known here: of a system, or of a world."""
    if given is None:
        return ()
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    for one in several:
        if not isinstance(one, Stop) and not callable(one):
            raise InputError(f"stop must be a function of {', '.join(known)} whose zero ends the run, or a carom.Stop; got {one!r}")
    stops = tuple(one if isinstance(one, Stop) else Stop(one) for one in several)
    for stop in stops:
        wrong = [name for name in stop.function.wanted if name not in known]
        if wrong:
            raise InputError(f"the stop {stop.name!r} asks for {wrong[0]!r}; here it can ask for {', '.join(known)} (by name)")
    return stops


def crossed(stops: tuple[Stop, ...], before: Any, after: Any) -> Any:
    """From a sign to another, or to zero, in the direction that was asked for; arrays of numpy or of JAX."""
    wanted = np.array([stop.direction for stop in stops], int)
    rises, falls = (before < 0) & (after >= 0), (before > 0) & (after <= 0)
    return (rises & (wanted >= 0)) | (falls & (wanted <= 0))


class Watch:
    """The signs of all stops along a run."""

    def __init__(self, stops: tuple[Stop, ...], system: System, params: Any, n: int):
        self.stops, self.params = stops, params
        self.mechanics = system.bind(params, n) if stops else None

    def values(self, q, p, t) -> Float[Array, " stops"]:
        if self.mechanics is None:
            return jnp.zeros(0)
        v = self.mechanics.velocity(q, p, t)
        rows = [jnp.asarray(stop.function(q=q, v=v, t=t, params=self.params), float).reshape(()) for stop in self.stops]
        return jnp.stack(rows)

    def signs(self, q, p, t) -> Float[Array, " stops"]:
        return jnp.sign(self.values(q, p, t))

    def crossed(self, before: Float[Array, " stops"], after: Float[Array, " stops"]) -> Bool[Array, " stops"]:
        return crossed(self.stops, before, after)
