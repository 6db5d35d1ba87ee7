"""Bifurcation diagrams: what a driven motion settles to, for many values of one parameter."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom.calls import floats, public, public_methods
from carom.diagnostics.begin import begin
from carom.errors import InputError
from carom.methods.loop import Grid, advance
from carom.methods.method import State
from carom.methods.status import OK
from carom.results.views import view
from carom.running.options import whole
from carom.system.system import System
from carom.wanted import Flag

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure


@public_methods
@dataclass(frozen=True)
class Diagram:
    """States seen once in each period, after the motion has settled, for each value of the parameter."""

    vary: str
    values: np.ndarray  #  [values]
    q: np.ndarray  #       [values, kept, n]   not a number where the run failed
    v: np.ndarray  #       [values, kept, n]
    status: np.ndarray  #  [values]            0 is good: `carom.methods.status`
    coordinates: tuple[str, ...]

    @property
    def ok(self) -> np.ndarray:
        return self.status == OK

    def branches(self, tolerance: float = 1e-6) -> np.ndarray:
        """How many different states there are at each value: 1, 2, 4, … along a cascade, and as many as were kept in chaos."""
        x = np.concatenate([self.q, self.v], axis=2)
        scale = np.nanmax(np.abs(x), initial=1e-300)
        counts = []
        for rows in x:
            new = [
                i for i, row in enumerate(rows) if not np.any(np.max(np.abs(rows[:i] - row), axis=1, initial=0) < tolerance * scale)
            ]
            counts.append(len(new) if np.all(np.isfinite(rows)) else 0)
        return np.array(counts)

    def plot(self, path: "str | Path | None" = None, coordinate: int = 0) -> "Figure":
        """The diagram; saved if a path is given."""
        return view("plot_diagram")(self, path, coordinate)


@public
def bifurcation(
    system: System,
    method: Any,
    q0: Any,
    v0: Any,
    *,
    vary: str,
    values: Any,
    dt: float,
    num_steps: int,
    params: Any = None,
    t0: float = 0.0,
    settle: int = 200,
    keep: int = 50,
    follow: Flag = True,
    max_impacts: int = 64,
) -> Diagram:
    """What the motion settles to as one parameter changes: a state per period of num_steps·dt, `keep` of them after `settle`.

    - `vary`, `values`: the name of the parameter, and the values it takes, one after the other.
    - `follow`: start each value where the one before has ended, so that the diagram follows a branch (backwards,
      perhaps another one); otherwise all start from (q0, v0).
    - `max_impacts`: in one period.
    """
    try:
        points = np.atleast_1d(floats(values))
    except (TypeError, ValueError) as error:
        raise InputError(f"values must be a list of finite numbers; got {values!r}") from error
    given = dict(params or {}) if params is None or isinstance(params, dict) else None
    if given is None or not isinstance(vary, str):
        raise InputError("bifurcation varies a parameter by its name: params must be a dict, and vary one of its names")
    if points.ndim != 1 or points.size == 0 or not np.all(np.isfinite(points)):
        raise InputError(f"values must be a list of finite numbers; got {values!r}")
    given[vary] = float(points[0])
    at = begin("bifurcation diagrams", system, method, q0, v0, dt, num_steps, given, t0, max_impacts)
    counts = whole(settle, "settle"), whole(keep, "keep")
    rows = at.rows + method.impacts_reserved
    states, status = _settled(
        method, *at.fixed, vary, jnp.asarray(points), at.x, at.problem.t0, at.dt, at.num_steps, counts, rows, follow
    )
    n = at.problem.q0.size
    x = np.asarray(states)
    v = np.asarray(_velocities(*at.fixed, vary, jnp.asarray(points), states, at.problem.t0))
    space = at.problem.system.space
    names = tuple(space.names) if space is not None else tuple(f"q{i}" for i in range(n))
    return Diagram(vary, points, x[:, :, :n], v, np.asarray(status), names)


@eqx.filter_jit
def _settled(method, system, params, vary: str, values, x0, t0, dt, length: int, counts: tuple[int, int], rows: int, follow: bool):
    n, most = x0.shape[0] // 2, jnp.asarray(np.iinfo(np.int32).max, jnp.int32)

    def one(x, value):
        inside = {**params, vary: value}

        def period(carry, i):
            x, status = carry
            first, limit = (i * length).astype(jnp.int32), jnp.where(status == OK, length, 0).astype(jnp.int32)
            grid = Grid(dt, first, limit, most, length, rows)
            chunk = advance(method, system, inside, State(t0, x[:n], x[n:]), grid)
            lost = (status == OK) & (chunk.steps < length)  # it failed, or there was no room for its impacts
            status = jnp.where(lost, jnp.maximum(chunk.status, 1), status).astype(jnp.int32)
            x = jnp.where(status == OK, jnp.concatenate([chunk.state.q, chunk.state.p]), jnp.nan)
            return (x, status), x

        (end, status), seen = jax.lax.scan(period, (x, jnp.asarray(OK, jnp.int32)), jnp.arange(sum(counts)))
        return end, (seen[counts[0] :], status)

    def after(x, value):
        end, out = one(x, value)
        return jnp.where(follow & jnp.all(jnp.isfinite(end)), end, x0), out

    return jax.lax.scan(after, x0, values)[1]


@eqx.filter_jit
def _velocities(system, params, vary: str, values, states, t0):
    n = states.shape[2] // 2

    def at(value, x):
        return system.bind({**params, vary: value}, n).velocity(x[:n], x[n:], t0)

    return jax.vmap(lambda value, rows: jax.vmap(lambda x: at(value, x))(rows))(values, states)
