"""What works in a joint: stops at the ends of its way, dry friction, a motor, a spring and a damper. All of them act on one
coordinate c, the angle of a hinge or the shift of a slider, of body b against body a, zero as the bodies stand at the start.

    stops      low ≤ c ≤ high           contacts without friction: a finger on b meets a peg on a                              (1)
    motor      ċ = speed, |f| ≤ strength                                                                                       (2)
    friction   ċ = 0,     |f| ≤ friction, and f opposes ċ where that is not enough                                             (3)
    spring     f = −stiffness (c − rest) − damping ċ                                                                           (4)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from carom.errors import InputError


@dataclass(frozen=True)
class Drive:
    """(1) to (4) of one joint; `speed` stands in the joint itself."""

    limits: tuple[float, float] | None = None
    friction: float = 0.0
    strength: float | None = None
    stiffness: float = 0.0
    damping: float = 0.0
    rest: float = 0.0

    @property
    def elastic(self) -> bool:
        return self.stiffness > 0 or self.damping > 0


def drive_of(kind: str, name: str, speed: float | None, said: dict[str, Any]) -> Drive:
    """The drive that a person described, refused where it cannot be."""
    given = {key: value for key, value in said.items() if value is not None}
    if given and kind not in ("hinge", "slider"):
        raise InputError(f"joint {name!r} is a {kind} and has no {', '.join(given)}; hinge and slider have one coordinate for that")
    if "strength" in given and speed is None:
        raise InputError(f"joint {name!r} has a strength but no motor: pass speed=")
    if "friction" in given and speed is not None:
        raise InputError(f"joint {name!r} has a motor, which holds its speed against friction: pass strength= instead of friction=")
    numbers = {}
    for key, value in given.items():
        numbers[key] = np.asarray(value, float)
        wrong = not np.all(np.isfinite(numbers[key])) if key == "rest" else not np.all(numbers[key] >= 0)
        if key != "limits" and (numbers[key].shape != () or wrong):
            raise InputError(f"the {key} of joint {name!r} must be a number{'' if key == 'rest' else ' ≥ 0'}; got {value!r}")
    if "limits" in numbers:
        ends = numbers["limits"]
        if ends.shape != (2,) or not ends[0] <= 0 <= ends[1] or ends[0] == ends[1]:
            raise InputError(f"the limits of joint {name!r} must be (low, high) with low ≤ 0 ≤ high; got {given['limits']!r}")
        if kind == "hinge" and (ends[0] <= -np.pi or ends[1] >= np.pi):
            raise InputError(f"the limits of hinge {name!r} must lie inside (−π, π); got {given['limits']!r}")
    limits = numbers.pop("limits", None)
    return Drive(None if limits is None else (float(limits[0]), float(limits[1])), **{k: float(v) for k, v in numbers.items()})


NOTHING = Drive()
