"""A run that goes on: the same system and method from where it ended, and one solution of both parts."""

from dataclasses import fields, replace

import jax
import numpy as np

from carom.errors import InputError, SolveError
from carom.results.solution import Impacts, Solution, Status
from carom.running.options import whole
from carom.running.solve import solve


def extend(solution: Solution, num_steps: int, *, throw: bool = True, progress: bool | None = None) -> Solution:
    """`solution` and `num_steps` more steps, as one run. Time goes on, and so do the numbers of steps in the table of impacts."""
    more = whole(num_steps, "num_steps")
    if not solution.status.ok:
        raise InputError(f"a run that failed has no end to go on from: {solution.status.message}")
    stride = max(1, round((solution.t[-1] - solution.t[0]) / solution.dt / max(len(solution.t) - 1, 1)))
    if solution.num_steps % stride:
        raise InputError(f"this run kept every {stride}-th step, and not its last: run it again for a multiple of {stride} steps")
    rest = solve(
        solution.system,
        solution.method,
        solution.q[-1],
        p0=solution.p[-1],
        t0=float(solution.t[-1]),
        dt=solution.dt,
        num_steps=more,
        params=solution.params,
        stride=stride,
        throw=False,
        progress=progress,
    )
    whole_run = _joined(solution, rest, stride)
    if throw and not whole_run.status.ok:
        raise SolveError(f"{whole_run.status.message}. What was computed before is in .solution of this error", whole_run)
    return whole_run


def _joined(first: Solution, rest: Solution, stride: int) -> Solution:
    done = first.num_steps
    names = [f.name for f in fields(Impacts) if f.name not in ("names", "step")]
    table = {name: np.concatenate([getattr(first.impacts, name), getattr(rest.impacts, name)]) for name in names}
    hits = Impacts(**table, step=np.concatenate([first.impacts.step, rest.impacts.step + done]), names=first.impacts.names)
    record = None
    if first.record is not None and rest.record is not None:
        record = jax.tree.map(lambda a, b: np.concatenate([a, b]), first.record, rest.record)
    count = len(first.t) + len(rest.t) - 1
    return replace(
        first,
        t=first.t[0] + first.dt * stride * np.arange(count),
        q=np.concatenate([first.q, rest.q[1:]]),
        p=np.concatenate([first.p, rest.p[1:]]),
        impacts=hits,
        status=_later(rest.status, done),
        steps=done + rest.num_steps,
        seconds=first.seconds + rest.seconds,
        compile_seconds=first.compile_seconds + rest.compile_seconds,
        record=record,
    )


def _later(status: Status, done: int) -> Status:
    step = status.step + done
    text = status.message.replace(f"step {status.step} ", f"step {step} ").replace(
        f"{status.step} steps taken", f"{step} steps taken"
    )
    return replace(status, step=step, message=text)
