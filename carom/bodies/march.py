"""The loop over steps: states kept, contacts collected, and a sentence about how it ended."""

import time

import numpy as np

from carom.bodies.run import ContactLog, Recorder, WorldRun
from carom.bodies.scene import Scene, State
from carom.bodies.stepping import Stepper, StepRecord
from carom.results.solution import Status
from carom.running.progress import Bar


def march(
    scene: Scene, state: State, dt: float, num_steps: int, tolerance: float, save_every: int, progress: bool | None
) -> WorldRun:
    stepper = Stepper(scene, tolerance)
    stepper.begin(state, dt)
    recorder, log = Recorder(scene, save_every), ContactLog()
    recorder.keep(0, 0.0, state)
    status = None
    clock = time.perf_counter()
    same: StepRecord | None = None  # the record of a step that changed nothing: all that follow are alike
    step = 0
    try:
        with Bar(progress) as bar:
            for step in range(1, num_steps + 1):
                t = (step - 1) * dt
                if same is None:
                    new, record = stepper.step(state, t, dt)
                    if scene.autonomous and record.converged and step > 1 and new.same(state):
                        same = record
                else:
                    new, record = state, same
                status = _trouble(scene, new, record, step, t + dt, tolerance)
                kept = step % save_every == 0 or step == num_steps or status is not None
                log.add(step, t + dt, record.tables if kept else [table for table in record.tables if table.impact])
                recorder.note(record)
                if status is not None:
                    break
                state = new
                if kept:
                    recorder.keep(step, step * dt, state)
                bar.update(step / num_steps, f"step {step} of {num_steps}")
    except KeyboardInterrupt:
        status = Status("interrupted", f"interrupted by hand at step {step} (t = {step * dt:.9g})", True, step, step * dt)
    if status is None:
        status = Status("done", f"all {num_steps} steps were taken", True, num_steps, num_steps * dt)
    return WorldRun.from_parts(scene, dt, recorder, log, status, time.perf_counter() - clock)


def _trouble(scene: Scene, state: State, record: StepRecord, step: int, t: float, tolerance: float) -> Status | None:
    """What went wrong in a step, if anything."""
    at = f"step {step} (t = {t:.9g})"
    if not all(np.all(np.isfinite(a)) for a in (state.x, state.q, state.v, state.L)):
        bad = next(
            scene.names[i] for i in range(len(scene.names)) if not np.all(np.isfinite([*state.x[i], *state.v[i], *state.L[i]]))
        )
        return Status(
            "not_finite",
            f"{at}: the motion of {bad!r} became infinite or not a number. Check forces, and try a smaller dt",
            False,
            step,
            t,
        )
    if not record.converged:
        text = (
            f"{at}: the contact problem was solved to a certificate of {record.residual:.2g} only, not {tolerance:.2g}, "
            "in halves of the step too. Try a smaller dt, less friction, or a larger tolerance; "
            "joints that contradict one another have no solution"
        )
        return Status("contact_unsolved", text, False, step, t)
    return None
