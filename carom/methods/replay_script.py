"""What a replay goes by: the run that is differentiated, as a script, and the state that goes through it."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from carom.methods.loop import Chunk
from carom.methods.method import ImpactTable, Parts, State
from carom.methods.variational.impulse import Pending
from carom.system.controller import sampler
from carom.system.mechanics import Mechanics


class Now(NamedTuple):
    """Where the replay has come to."""

    centre: Float[Array, " size"]  #  of the chart: where the step started
    q: Float[Array, " n"]  #          in that chart
    p: Float[Array, " n"]
    t: Float[Array, ""]
    step: Int[Array, ""]
    part: Int[Array, ""]  #           the same, unless steps are made of parts
    row: Int[Array, ""]  #            the next impact of the table
    pending: Pending
    control: Float[Array, " c"]  #    command and memory of the controller in this step


class Seen(NamedTuple):
    """What a slot leaves: a state where it ends a step, an impact where it holds one; `step` and `row` say where they belong."""

    step: Int[Array, ""]
    q: Float[Array, " size"]
    p: Float[Array, " n"]
    row: Int[Array, ""]
    impact: tuple[Array, Array, Array, Array, Array]
    control: Float[Array, " c"]


class Script(NamedTuple):
    """What is known of the run, and the system to be differentiated."""

    legs: Any  #                       the method of legs, or None
    steps: Any  #                      the method of steps, or None
    mechanics: Mechanics
    flat: bool
    start: State
    dt: Array
    table: ImpactTable
    states: Float[Array, "steps n+d"]
    used: Int[Array, " rows"]  #       the part (the step) of each impact; beyond the last one, none
    num_steps: int
    max_impacts: int
    bind: Any  #                       the system under a command, where there is a controller
    pressed: Any  #                    of a hybrid: which steps are steps and not legs
    sample: Any  #                     (row of the controller, q, p, t, step) → its row in this step
    parts: Parts | None  #             the parts of the steps of the grid, whose lengths are fixed fractions of them

    def here(self, now: Now) -> Mechanics:
        """The system in the chart of the step."""
        mechanics = self.mechanics if self.sample is None else self.bind(now.control)
        return mechanics if self.flat else mechanics.chart(now.centre)

    def end_of(self, part) -> Array:
        if self.parts is None:
            return self._end_of_step(part)
        step = self.parts.step[part]
        return self._end_of_step(step) - (1 - self.parts.end[part]) * self._length_of_step(step)

    def length_of(self, part) -> Array:
        if self.parts is None:
            return self._length_of_step(part)
        step, before = self.parts.step[part], jnp.maximum(part - 1, 0)
        begin = jnp.where((part > 0) & (self.parts.step[before] == step), self.parts.end[before], 0.0)
        return (self.parts.end[part] - begin) * self._length_of_step(step)

    def step_of(self, part) -> Int[Array, ""]:
        """The step of the grid; num_steps after the last part."""
        if self.parts is None:
            return part
        return jnp.where(part < self.parts.count, self.parts.step[part], self.num_steps).astype(jnp.int32)

    def row_of(self, now: "Now") -> Int[Array, ""]:
        """Where the state at the end of a part belongs; between points of the grid, nowhere."""
        if self.parts is None:
            return now.step
        return jnp.where(self.parts.end[now.part] == 1, now.step, self.num_steps).astype(jnp.int32)

    def _end_of_step(self, step) -> Array:
        return self.start.t + ((step + 1) * self.dt if self.dt.ndim == 0 else jnp.cumsum(self.dt)[step])

    def _length_of_step(self, step) -> Array:
        return self.dt if self.dt.ndim == 0 else self.dt[step]


def script_of(
    functions: Any, args: Any, chunk: Chunk, table: ImpactTable, pressed: Any, num_steps: int, max_impacts: int
) -> Script:
    arrays, params, start, dt = args
    method, system = eqx.combine(arrays, functions)
    n = start.q.shape[0]
    legs, steps = method.replayed_by()
    mechanics = method.bind(system, params, n)
    bind, sample = _controlled(method, system, params, n)
    flat, parts = not method.replayed_in_chart(mechanics), chunk.parts
    pressed = None if legs is None else pressed
    known = (start, dt, table, chunk.states, table.step, num_steps, max_impacts)
    script = Script(legs, steps, mechanics, flat, *known, bind, pressed, sample, parts)
    where, beyond = table.step, num_steps
    if parts is not None:
        ends = jnp.where(jnp.arange(len(parts.end)) < parts.count, jax.vmap(script.end_of)(jnp.arange(len(parts.end))), jnp.inf)
        ends = jax.lax.stop_gradient(ends)
        ends = ends + 8 * jnp.finfo(ends.dtype).eps * jnp.abs(ends)  # an impact at the end of a part belongs to that part
        where, beyond = jnp.searchsorted(ends, table.t), len(parts.end)
    return script._replace(used=jnp.where(jnp.arange(max_impacts) < chunk.num_impacts, where, beyond))


def _controlled(method: Any, system: Any, params: Any, n: int) -> tuple[Any, Any]:
    """The system under a command, and the controller at the start of a step."""
    ask, controller = sampler(system, params, n), system.controller
    if ask is None:
        return None, None

    def bind(row):
        return method.bind(system.holding(controller.command(row)), params, n)

    def sample(row, q, p, t, step):
        return jnp.where(step % controller.every == 0, ask(row, q, p, t), row)

    return bind, sample
