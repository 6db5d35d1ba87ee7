"""Two methods in one run: a collision integrator for isolated impacts, a timestepping method where contacts rest."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from carom.methods.method import NOT_FINITE, OK, RESTING, TOO_MANY_IMPACTS, Chunk, Grid, ImpactTable, Method, State, StepRecord
from carom.methods.timestepping.motion import Motion, Timestepping, impact_row
from carom.methods.timestepping.time_dg import TimeDG
from carom.methods.variational.collision import VariationalCollision
from carom.methods.variational.rules import FlowMap
from carom.system.system import Mechanics, System
from carom.xla.trees import choose, write_row

FREE_STEPS = 8  # in a row without any contact, after which the collision integrator takes over again


class Hybrid(Method):
    """A collision integrator as long as impacts are isolated, a timestepping method while contacts rest or impacts accumulate.

        hand over   at the start of the step in which the collision integrator meets more impacts than it takes     (1)
        hand back   after 8 steps of the other method without a contact force, an impulse or a closed gap           (2)

    Both hand-overs pass q and p on as they are, so that neither changes the energy.

    *Preserves*: non-penetration, if both methods do. *Order*: that of the collision integrator while impacts are isolated.
    *Choose it for* motion that bounces long and rests at last, or lifts off again.

    The methods are (1)–(4) of `VariationalCollision` [fetecau2003] and of `TimeDG` or `MoreauJean` [schindler2014].

    - `collision`: a `VariationalCollision`; its `max_impacts_per_step` says what accumulates.
    - `contact`: a `TimeDG` or `MoreauJean`.
    """

    collision: VariationalCollision
    contact: Timestepping

    preserves = ("non-penetration",)
    takes_constraints = False

    def __init__(self, collision: VariationalCollision | None = None, contact: Timestepping | None = None):
        self.collision = VariationalCollision(max_impacts_per_step=8) if collision is None else collision
        self.contact = TimeDG(2) if contact is None else contact
        if not isinstance(self.collision, VariationalCollision):
            raise TypeError(f"collision must be a VariationalCollision; got {collision!r}")
        if not isinstance(self.contact, Timestepping):
            raise TypeError(f"contact must be a TimeDG or MoreauJean; got {contact!r}")

    @property
    def order(self) -> int:
        return self.collision.order

    @property
    def max_impacts_per_step(self) -> int:
        return self.collision.max_impacts_per_step

    @property
    def nodes(self) -> np.ndarray:
        return self.contact.nodes

    @property
    def stages(self) -> int:
        return self.contact.stages

    def flow(self, mechanics: Mechanics, quick: bool = False) -> FlowMap:
        """Of the collision integrator."""
        return self.collision.flow(mechanics, quick)

    def check(self, system: System, params: Any, state: State, dt: float) -> None:
        super().check(system, params, state, dt)
        self.collision.check(system, params, state, dt)
        self.contact.check(system, params, state, dt)

    def advance(self, system: System, params: Any, start: State, grid: Grid, *, kernel: bool = False) -> Chunk:
        """The steps of `grid` from `start`, until they are done or a step could overflow the table or fails."""
        motion = Motion(system.bind(params, start.q.shape[0]))
        n, faces = start.q.shape[0], motion.mechanics.num_faces

        def unfinished(run: _Run):
            room = run.num_impacts + self.max_impacts_per_step <= grid.rows
            return (run.steps < grid.limit) & (run.status == OK) & room & (run.num_impacts < grid.most)

        press = _press(self, motion, start, grid)

        def alternate(run: _Run) -> _Run:
            more = lambda run: unfinished(run) & (run.free < FREE_STEPS)  # noqa: E731
            return jax.lax.while_loop(more, press, _fly(self, system, params, start, grid, run))

        zero = jnp.zeros((), jnp.int32)
        zeros = lambda *shape: jnp.zeros((grid.length + 1, *shape))  # noqa: E731
        run = _Run(
            steps=zero,
            q=start.q,
            p=start.p,
            history=jnp.zeros((2 * (grid.length + 1), 2 * n)),
            record=StepRecord(zeros(self.stages, n) + jnp.nan, zeros(self.stages, motion.rows), zeros(motion.rows)),
            table=jax.tree.map(lambda x: jnp.concatenate([x, x]), ImpactTable.empty(grid.rows, n, faces)),
            num_impacts=zero,
            status=jnp.asarray(OK, jnp.int32),
            free=zero,
        )
        run = jax.lax.while_loop(unfinished, alternate, run)
        state = State(grid.time(start, run.steps), run.q, run.p)
        return Chunk(state, run.steps, run.status, run.history, run.table, run.num_impacts, run.record)


class _Run(NamedTuple):
    steps: Int[Array, ""]
    q: Float[Array, " n"]
    p: Float[Array, " n"]
    history: Float[Array, "rows 2n"]  #  twice as long as needed: each flight writes all of its buffer
    record: StepRecord  #                 velocities are not a number in steps of the collision integrator
    table: ImpactTable
    num_impacts: Int[Array, ""]
    status: Int[Array, ""]
    free: Int[Array, ""]  #               steps without contact, in a row


def _fly(method: Hybrid, system: System, params: Any, start: State, grid: Grid, run: _Run) -> _Run:
    """(1): the collision integrator, as far as it gets."""
    spare, first = method.max_impacts_per_step, grid.first + run.steps
    left, room = grid.limit - run.steps, jnp.minimum(grid.most, grid.rows - spare + 1) - run.num_impacts
    flight = method.collision.advance(
        system, params, State(start.t, run.q, run.p), grid._replace(first=first, limit=left, most=room)
    )
    settles = (flight.status == TOO_MANY_IMPACTS) | (flight.status == RESTING)
    # The impacts of a step that is given up do not count.
    known = jnp.sum((jnp.arange(grid.rows + 1) < flight.num_impacts) & (flight.impacts.step < first + flight.steps))
    hits = jnp.where(settles, known, flight.num_impacts).astype(jnp.int32)
    put = lambda whole, part, at: jax.lax.dynamic_update_slice_in_dim(whole, part, at, 0)  # noqa: E731
    return run._replace(
        steps=run.steps + flight.steps,
        q=flight.state.q,
        p=flight.state.p,
        history=put(run.history, flight.states, run.steps),
        table=jax.tree.map(lambda whole, part: put(whole, part, run.num_impacts), run.table, flight.impacts),
        num_impacts=run.num_impacts + hits,
        status=jnp.where(settles, OK, flight.status).astype(jnp.int32),
        free=jnp.zeros((), jnp.int32),
    )


def _press(method: Hybrid, motion: Motion, start: State, grid: Grid) -> Callable[[_Run], _Run]:
    """(2): one step of the contact method."""
    mechanics, faces = motion.mechanics, motion.mechanics.num_faces
    step = method.contact.step_function(motion)

    def press(run: _Run) -> _Run:
        index = grid.first + run.steps
        t, t_end = grid.time(start, run.steps), grid.time(start, run.steps + 1)
        done = step(run.q, mechanics.velocity(run.q, run.p, t), t, grid.dt)
        p = mechanics.momentum(done.q, done.v, t_end)
        finite = jnp.all(jnp.isfinite(done.q)) & jnp.all(jnp.isfinite(p))
        status = jnp.where(finite, done.status, NOT_FINITE).astype(jnp.int32)
        kept = status == OK
        table, hit = impact_row(run.table, run.num_impacts, mechanics, done, p, index, t_end, kept)
        touched = jnp.any(done.record.forces[:, :faces] > 0) | jnp.any(done.record.impulses[:faces] > 0)
        touched = touched | jnp.any(mechanics.gaps(done.q, t_end) <= 0)
        q, p_now = choose(kept, (done.q, p), (run.q, run.p))
        history = write_row(run.history, run.steps, jnp.concatenate([done.q, p]))
        free = jnp.where(touched, 0, run.free + 1).astype(jnp.int32)
        record = write_row(run.record, run.steps, done.record)
        return _Run(run.steps + kept, q, p_now, history, record, table, run.num_impacts + hit, status, free)

    return press
