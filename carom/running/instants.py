"""Grids with steps of different length: from what the user says of them to their instants."""

from typing import Any, NamedTuple

import numpy as np

from carom.calls import floats
from carom.errors import InputError
from carom.named import Named
from carom.running.options import check_clock, check_grid, check_untraced, number, whole


class TimeGrid(NamedTuple):
    """The steps of a run."""

    step: float  #                    their length; the mean, where there are several
    longest: float
    total: int
    instants: np.ndarray | None  #    [total + 1], where steps are of different length

    @property
    def lengths(self) -> float | np.ndarray:
        return self.step if self.instants is None else np.diff(self.instants)


def time_grid(dt: Any, num_steps: Any, t0: Any = 0.0) -> TimeGrid:
    """`dt` is a number, or a list with the length of each step, or a function of t, the start of a step, and of its number `step`,
    by name. The instants are summed up once, here: a run does not depend on how it is cut into chunks."""
    check_untraced(dt=dt, num_steps=num_steps)
    if callable(dt):
        lengths = _asked(dt, whole(num_steps, "num_steps", most=np.iinfo(np.int32).max), number(t0, "t0"))
    elif not isinstance(dt, (list, tuple)) and np.ndim(dt) == 0:
        step, total = check_grid(dt, num_steps)
        check_clock(step, total, number(t0, "t0"))
        return TimeGrid(step, step, total, None)
    else:
        lengths = _listed(dt, num_steps)
    instants = number(t0, "t0") + np.concatenate([[0.0], np.cumsum(lengths)])
    if not np.all(np.diff(instants) > 0):
        worst = int(np.argmin(np.diff(instants)))
        raise InputError(f"step {worst} of dt = {lengths[worst]:g} is lost in the rounding of t = {instants[worst]:g}")
    return TimeGrid(float(np.mean(lengths)), float(np.max(lengths)), len(lengths), instants)


def _listed(dt: Any, num_steps: Any) -> np.ndarray:
    try:
        lengths = floats(dt)
    except (TypeError, ValueError) as error:
        raise InputError(f"dt must be a positive number, or a list of them with one for each step; got {dt!r}") from error
    if lengths.ndim != 1 or lengths.size == 0:
        raise InputError(f"dt must be a positive number, or a list of them with one for each step; got shape {lengths.shape}")
    if num_steps is not None and whole(num_steps, "num_steps") != lengths.size:
        raise InputError(f"dt has the lengths of {lengths.size} steps, and num_steps is {num_steps}: leave num_steps out")
    return _positive(lengths)


def _asked(dt: Any, total: int, t: float) -> np.ndarray:
    """What a function says, step after step."""
    length, lengths = Named(dt, ("t", "step"), "dt"), np.empty(total)
    for step in range(total):
        lengths[step] = number(length(t=t, step=step), f"dt at t = {t:g}")
        _positive(lengths[step : step + 1], step)
        t += lengths[step]
    return lengths


def _positive(lengths: np.ndarray, first: int = 0) -> np.ndarray:
    wrong = np.flatnonzero(~((lengths > 0) & np.isfinite(lengths)))
    if wrong.size:
        raise InputError(f"all steps must have a positive length; that of step {first + wrong[0]} is {lengths[wrong[0]]}")
    return lengths
