"""Whether a system that is handed over with a run from disk is the one that made it: the same energy and gaps where it ends."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from carom.errors import InputError
from carom.results.solution import Solution

SAME = 1e-9  # of the largest that there was: other processors and versions round otherwise, other numbers are farther off


def check_same_system(run: Solution, data: dict[str, np.ndarray], path: Path) -> None:
    """`data` is what the file has. What the two ends do not show (a restitution, a friction) is not looked at."""
    ends = replace(run, **{name: getattr(run, name)[[0, -1]] for name in ("t", "q", "p")})
    kinetic = np.max(np.abs(np.sum(data["p"] * data["v"], axis=1))) if "v" in data else 0.0  # for an energy that is zero
    for name, scale in (("energy", kinetic), ("gaps", np.max(np.abs(data["q"])))):
        if name not in data:
            continue
        told, found = data[name][[0, -1]], getattr(ends, name)
        if told.shape != found.shape:
            raise InputError(f"{path} is a run with {told.shape[-1]} contacts; this system has {found.shape[-1]}")
        scale = max(scale, np.max(np.abs(data[name]), initial=0.0))
        wrong = np.max(np.abs(told - found), initial=0.0) > SAME * scale
        if wrong and np.all(np.isfinite(told)):
            raise InputError(
                f"{path} was made by another system: its {name} at the start and at the end are {_few(told)}, and of this one "
                f"{_few(found)}. Numbers that its functions capture may have changed since: give them the values of then, "
                "or leave system out"
            )


def _few(values: np.ndarray) -> str:
    return np.array2string(values, precision=6, separator=", ", threshold=12)
