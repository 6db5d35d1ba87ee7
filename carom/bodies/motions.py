"""Motions of bodies that move as they are told: a turntable, a shaken table, or any function of time."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from carom.bodies import quaternions
from carom.bodies.described import number
from carom.bodies.shapes.shape import said_orientation, vector
from carom.calls import public
from carom.errors import InputError
from carom.running.tracing import explained

DELAYS = 7.3e-4 / 3.7 ** np.arange(7)  # spans of the differences that tell velocities: no round numbers, as periods often are
WEIGHTS = np.array([1.0, -8.0, 8.0, -1.0]) / 12  # their error is the fourth power of the span times the fifth derivative,
ROUNDING = 16 * np.finfo(float).eps  #              and rounding over the span


@public
@dataclass(frozen=True)
class Turning:
    """Turning at the rate `spin` about its own origin: a vector in space, a number in the plane."""

    spin: Any

    def pose(self, position: np.ndarray, turn: np.ndarray, dim: int) -> Callable[[float], tuple]:
        spin = (
            np.array([0.0, 0.0, number(self.spin, "Turning: the spin")]) if dim == 2 else vector(self.spin, 3, "Turning: the spin")
        )
        return lambda t: (position, quaternions.multiply(quaternions.exponential(t * spin), turn), np.zeros(3), spin)


@public
@dataclass(frozen=True)
class Shaking:
    """To and fro along `amplitude` (a vector) as a sine of the given frequency (per unit of time) and phase."""

    amplitude: Any
    frequency: float
    phase: float = 0.0

    def pose(self, position: np.ndarray, turn: np.ndarray, dim: int) -> Callable[[float], tuple]:
        reach, rate = (
            vector(self.amplitude, dim, "Shaking: the amplitude"),
            2 * np.pi * number(self.frequency, "Shaking: the frequency"),
        )
        phase = number(self.phase, "Shaking: the phase")
        still = np.zeros(3)

        def at(t: float) -> tuple:
            angle = rate * t + phase
            return position + np.sin(angle) * reach, turn, rate * np.cos(angle) * reach, still

        return at


def from_function(function: Callable[[float], Any], name: str, dim: int) -> Callable[[float], tuple]:
    """A motion from a function of t that returns a position, or a position and an orientation. Velocities are differences."""

    def place(t: float) -> tuple[np.ndarray, np.ndarray]:
        with explained(f"the motion of {name!r}"):
            found = function(t)
        position, orientation = found if isinstance(found, tuple) and len(found) == 2 and np.ndim(found[0]) == 1 else (found, None)
        turn = quaternions.from_user(orientation, dim)
        if turn is None:
            raise InputError(f"the motion of {name!r} must return {said_orientation(dim)} beside the position; got {orientation!r}")
        when = f"at t = {t:.6g} (velocities are differences: it is asked a little before the start, too)"
        return vector(position, dim, f"the position that the motion of {name!r} returns {when}"), turn

    def difference(t: float, q: np.ndarray, delay: float) -> np.ndarray:
        around = [place(t + k * delay) for k in (-2, -1, 1, 2)]
        return WEIGHTS / delay @ np.array([[*x, *(np.sign(turn @ q) * turn)] for x, turn in around])

    @lru_cache(maxsize=8)  # a step asks for its middle and its end more than once
    def at(t: float) -> tuple:
        x, q = place(t)
        rates = _rates(lambda delay: difference(t, q, delay), np.array([*x, *q]))
        spin = 2 * quaternions.multiply(rates[3:], q * np.array([1, -1, -1, -1]))[1:]
        return x, q, rates[:3], spin

    return at


def _rates(difference: Callable[[float], np.ndarray], value: np.ndarray) -> np.ndarray:
    """Derivatives by the first span that the next shorter one agrees with to rounding, or by the two that agree best."""
    rates, best, least = difference(DELAYS[0]), None, np.inf
    for delay in DELAYS[1:]:
        finer = difference(delay)
        apart, blur = float(np.max(np.abs(finer - rates))), ROUNDING * float(np.max(np.abs(value))) / delay
        if apart <= blur:
            return rates
        if not apart >= least:
            best, least = finer, apart
        rates = finer
    return rates if best is None else best
