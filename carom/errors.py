"""The errors a person meets. Each message says what, where, and what to try."""

from typing import Any


class CaromError(Exception):
    """Any error that carom raises on purpose."""


class InputError(CaromError, ValueError, TypeError):
    """The problem as posed cannot be run; nothing was computed. It is a ValueError and a TypeError, whichever is looked for."""


class InsideObstacle(InputError):
    """A run would start inside an obstacle. `nearest` is the closest admissible configuration, where it is known."""

    def __init__(self, message: str, nearest: Any = None):
        super().__init__(message)
        self.nearest = nearest


class NotThere(InputError, KeyError, IndexError):
    """A column, a row or a contact that was asked for does not exist. It is a KeyError and an IndexError, too."""

    __str__ = Exception.__str__  # a KeyError shows its message in quotes


class SolveError(CaromError, RuntimeError):
    """A run ended before its time. `solution` holds everything up to there."""

    def __init__(self, message: str, solution: Any):
        super().__init__(message)
        self.solution = solution


class SweepError(CaromError, RuntimeError):
    """Some points of a sweep could not be computed, however often they were tried. `dataset` holds all the others."""

    def __init__(self, message: str, dataset: Any):
        super().__init__(message)
        self.dataset = dataset

    @classmethod
    def of_blocks(cls, failures: dict[int, Exception], blocks: int, tries: int, dataset: Any) -> "SweepError":
        """What is said of blocks that failed; `failures` in the order in which they were given up."""
        last = next(reversed(failures.values()))
        return cls(
            f"{len(failures)} of {blocks} blocks failed {tries} times, the last with {type(last).__name__}: {last}. "
            "The same call tries them again",
            dataset,
        )
