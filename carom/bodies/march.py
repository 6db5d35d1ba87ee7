"""The loop over steps: states kept, contacts collected, and a sentence about how it ended."""

import math
import time
from typing import TYPE_CHECKING

import numpy as np

from carom.bodies.contact_table import ContactLog
from carom.bodies.ending import Ending
from carom.bodies.large_on_device import placed_on
from carom.bodies.memory import Memory
from carom.bodies.run import Recorder, Settings, WorldRun, joined
from carom.bodies.scene import Scene, State
from carom.bodies.stepping import Stepper, StepRecord
from carom.errors import InputError
from carom.numerics.blas_threads import one_thread
from carom.results.solution import Status
from carom.running.interrupts import Interrupt
from carom.running.options import whole
from carom.running.progress import Bar

if TYPE_CHECKING:
    from carom.bodies.world import World


def march(
    scene: Scene,
    state: State,
    dt: float,
    num_steps: int,
    settings: Settings,
    progress: bool | None,
    done: int = 0,
    memory: Memory | None = None,
    ending: Ending | None = None,
    since: tuple[int, float] = (0, 0.0),
) -> WorldRun:
    """Steps done + 1 … num_steps. Without a memory of the step before, contacts that touch at the start count as pressed.

    `since`: a step and its time, from which steps have been dt long.
    """
    when = lambda step: since[1] + (step - since[0]) * dt  # noqa: E731  never added up
    ending = Ending() if ending is None else ending
    stepper = Stepper(placed_on(scene, settings.device), settings.tolerance)
    if memory is None:
        stepper.begin(state, dt)
    else:
        stepper.memory = memory
    recorder, log = Recorder(scene), ContactLog()
    recorder.keep(done, when(done), state)
    ending.begin(scene, state, when(done), done)
    status = None
    clock = time.perf_counter()
    same: StepRecord | None = None  # the record of a step that changed nothing: all that follow are alike
    step, interrupt = done, Interrupt()
    try:
        with Bar(progress) as bar, interrupt, one_thread():
            for step in range(done + 1, num_steps + 1):
                if interrupt.asked:
                    raise KeyboardInterrupt  # between two steps, where all that is kept belongs together
                t, t_end, before = when(step - 1), when(step), stepper.memory
                if same is None:
                    new, record = stepper.step(state, t, dt)
                    if scene.autonomous and record.converged and step > 1 and new.same(state):
                        same = record
                else:
                    new, record = state, same
                status = _trouble(scene, new, record, step, t + dt, settings.tolerance)
                if status is None and ending.met(new, t_end, step):
                    stepper.memory = before
                    new, record, t_end, stopped = ending.locate(stepper, state, t, dt, step)
                    status = _trouble(scene, new, record, step, t_end, settings.tolerance) or stopped
                kept = step % settings.save_every == 0 or step == num_steps or status is not None
                log.add(
                    step,
                    t + dt if status is None else t_end,
                    record.tables if kept else [table for table in record.tables if table.impact],
                )
                recorder.note(record)
                ending.count(record)
                if status is not None and not status.ok:
                    break
                state = new
                status = status or ending.look(state, t_end, step, num_steps)
                if kept or status is not None:
                    recorder.keep(step, t_end, state)
                bar.update(step / num_steps, f"step {step} of {num_steps}")
                if status is not None:
                    break
    except KeyboardInterrupt:
        taken = done + len(recorder.residual)
        status = Status("interrupted", f"interrupted by hand at step {taken} (t = {when(taken):.9g})", True, taken, when(taken))
        if recorder.steps[-1] != taken:
            recorder.keep(taken, when(taken), state)
    if status is None:
        status = Status("done", f"all {num_steps} steps were taken", True, num_steps, when(num_steps))
    return WorldRun.from_parts(scene, dt, recorder, log, status, time.perf_counter() - clock, settings, stepper.memory)


def last_state(run: WorldRun) -> State:
    return State(run.x[-1], run.q[-1], run.v[-1], run.L[-1], run.turns[-1])


def extend(run: WorldRun, num_steps: int, world: "World | None", progress: bool | None) -> WorldRun:
    """`run` and so many steps more, as if they had been asked for at once."""
    more = whole(num_steps, "num_steps")
    if not run.status.ok:
        raise InputError(f"a run that failed has no end to go on from: {run.status.message}")
    scene = run.scene
    if scene is None:
        if world is None:
            raise InputError(
                "this run was read from a file, which holds no functions and no joints: pass world=, described as for the run"
            )
        scene = world.scene()[0]
        if scene.names != run.names or not np.array_equal(scene.mass, run.mass):
            raise InputError("the world that was given is not that of the run: its bodies have other names or masses")
    done, t = run.num_steps, float(run.t[-1])
    since = (0, 0.0) if t == done * run.dt else (done, t)  # after a stop another grid begins
    rest = march(scene, last_state(run), run.dt, done + more, run.settings, progress, done, run.memory, since=since)
    return joined(run, rest)


def _finite(state: State) -> bool:
    parts = (state.x, state.q, state.v, state.L)
    if math.isfinite(sum(np.vdot(part, part) for part in parts)):
        return True
    return all(np.isfinite(part).all() for part in parts)  # finite numbers may have no finite square


def _trouble(scene: Scene, state: State, record: StepRecord, step: int, t: float, tolerance: float) -> Status | None:
    """What went wrong in a step, if anything."""
    if not _finite(state):
        bad = next(
            scene.names[i] for i in range(len(scene.names)) if not np.all(np.isfinite([*state.x[i], *state.v[i], *state.L[i]]))
        )
        text = (
            f"step {step} (t = {t:.9g}): the motion of {bad!r} became infinite or not a number. Check forces, and try a smaller dt"
        )
        return Status("not_finite", text, False, step, t)
    if record.resisted:
        text = (
            f"step {step} (t = {t:.9g}): a force given by a function changes so fast with the velocity that a step of dt, or a "
            "sixteenth of it, does not resolve it. Try a smaller dt; for a damper pass damping= to a spring or a joint instead"
        )
        return Status("force_unresolved", text, False, step, t)
    if not record.converged:
        text = (
            f"step {step} (t = {t:.9g}): the contact problem was solved to a certificate of {record.residual:.2g} only, "
            f"not {tolerance:.2g}, in halves of the step too. Try a smaller dt, less friction, or a larger tolerance; "
            "bodies squeezed by what moves as prescribed, and joints that contradict one another, have no solution"
        )
        return Status("contact_unsolved", text, False, step, t)
    return None
