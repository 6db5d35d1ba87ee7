"""Steps of the grid that a method made of smaller ones, taken once more for dense output.

A run of `Adaptive` keeps the points of its grid and the impacts, not the steps in between. They are found again one step of the
grid at a time: from the state that was kept the method goes on once more and notes where its smaller steps end; then the method
inside goes through these, and leaves the polynomials that it always leaves (`StepRecord`).

The run had come into the step with a pace from the step before, which nobody kept. So the smaller steps are not the same ones, and
the last of them ends at the next point of the grid up to the tolerance, not to rounding. Nothing adds up: each step of the grid
starts from where the run was, also where the motion is chaotic.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom.errors import InputError
from carom.methods.loop import Grid, advance
from carom.methods.method import State, StepRecord
from carom.methods.status import CONTACTS_FULL, OK, TABLE_FULL, Outcome

LARGEST = 1 << 20  # smaller steps in one step of the grid: more is no matter of room


class SmallerSteps(NamedTuple):
    """All of a run, one after the other."""

    t: np.ndarray  #       [m + 1]  where they begin and end
    starts: np.ndarray  #  [m, size]
    record: StepRecord  #  [m, …]   of the method inside
    nodes: np.ndarray  #   [s]      where in a step it holds velocities and forces


class _Room(NamedTuple):
    """In one step of the grid, to begin with; what is full is taken again with more."""

    parts: int = 256
    impacts: int = 256
    contacts: int = 64

    def after(self, code: int, t: float) -> "_Room":
        """More of what was full."""
        if code == CONTACTS_FULL:
            return self._replace(contacts=4 * self.contacts)
        if code == TABLE_FULL and self.parts < LARGEST:
            return self._replace(parts=8 * self.parts, impacts=8 * self.impacts)
        why = Outcome(code).sentence
        raise InputError(f"dense output: the step of the grid at t = {t:.9g} cannot be taken again: {why}; run with a shorter dt")


def smaller_steps(solution: Any) -> SmallerSteps:
    """The smaller steps of a run whose method chose them itself."""
    room, ends, starts, records = _Room(), [solution.t[:1]], [], []
    for k, (t, t_end) in enumerate(pairwise(solution.t)):
        system = solution.system if solution.commands is None else _held(solution.system, solution.commands[k])
        state = State(*(jnp.asarray(x) for x in (t, solution.q[k], solution.p[k])))
        code = TABLE_FULL
        while code != OK:
            found = _taken(solution.method, system, solution.params, state, jnp.asarray(t_end), room)
            code, count = int(found.status), int(found.count)
            room = room if code == OK else room.after(code, t)
        ends.append(np.append(np.asarray(found.ends)[: count - 1], t_end))
        starts.append(np.asarray(found.starts)[:count])
        records.append(jax.tree.map(lambda rows, count=count: np.asarray(rows)[:count], found.record))
    record = jax.tree.map(lambda *rows: np.concatenate(rows), *records)
    return SmallerSteps(np.concatenate(ends), np.concatenate(starts), record, solution.method.replayed_by()[1].nodes)


def _held(system: Any, command: np.ndarray) -> Any:
    """While a command is held, nobody is asked."""
    return eqx.tree_at(lambda s: s.controller, system.holding(jnp.asarray(command)), None)


class _Taken(NamedTuple):
    """One step of the grid, with room for its smaller steps."""

    count: Any
    status: Any
    ends: Any
    starts: Any
    record: Any


@eqx.filter_jit
def _taken(method, system, params, state: State, t_end, room: _Room) -> _Taken:
    """Once with the steps that the method chooses, and once through these, for what is in them."""
    dt, zero, one, most = t_end - state.t, jnp.zeros((), jnp.int32), jnp.ones((), jnp.int32), jnp.asarray(2**31 - 1, jnp.int32)
    chosen = advance(method.noting(room.parts), system, params, state, Grid(dt, zero, one, most, 1, room.impacts, room.contacts))
    parts = chosen.parts
    assert parts is not None
    within = jnp.arange(room.parts) < parts.count
    ends = jnp.where(within, t_end - (1 - parts.end[: room.parts]) * dt, t_end)
    times = jnp.concatenate([state.t[None], ends, t_end[None]])
    grid = Grid(dt, zero, jnp.minimum(parts.count, room.parts), most, room.parts, room.impacts, room.contacts, times=times)
    again = advance(method.replayed_by()[1], system, params, state, grid)
    cut = jnp.where(again.steps < parts.count, TABLE_FULL, OK)
    status = jnp.where(chosen.status != OK, chosen.status, jnp.where(again.status != OK, again.status, cut))
    starts = jnp.concatenate([state.q[None], again.states[: room.parts, : state.q.shape[0]]])
    return _Taken(parts.count, status, ends, starts, again.record)
