"""What an argument may be that a person hands over, said where it is declared: `count: Count = 3`, `radius: Positive = 1.0`.

`@public` (`carom.calls`) reads it there, and refuses everything else before the function runs. A number that JAX traces has no
value yet and is let through.
"""

import math
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from carom.errors import InputError


class Wanted(ABC):
    """What an argument must be, in words too."""

    words: str

    def __repr__(self) -> str:  # `help` shows it
        return self.words

    def read(self, value: Any, name: str) -> Any:
        """The value; a number as one of Python's."""
        try:
            return self.fitting(value)
        except Exception:  # a value may answer with anything when it is asked for its number
            got = repr(value)
            got = got if len(got) <= 200 else f"{got[:200]}…"
            raise InputError(f"{name} must be {self.words}; got {got}") from None

    @abstractmethod
    def fitting(self, value: Any) -> Any:
        """The value, or TypeError or ValueError."""


class _Function(Wanted):
    words = "a function"

    def fitting(self, value: Any) -> Any:
        if not callable(value):
            raise TypeError
        return value


class _Flag(Wanted):
    words = "True or False"

    def fitting(self, value: Any) -> bool:
        if getattr(value, "ndim", 0) or isinstance(value, (str, bytes)) or value not in (0, 1):
            raise ValueError
        return bool(value)


class _Text(Wanted):
    words = "a text"

    def fitting(self, value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError
        return value


class _OneOf(Wanted):
    def __init__(self, choices: tuple[str, ...]):
        self.choices = choices

    @property
    def words(self) -> str:
        return " or ".join(map(repr, self.choices))

    def fitting(self, value: Any) -> Any:
        if not isinstance(value, str) or value not in self.choices:
            raise ValueError
        return value


@dataclass(frozen=True, repr=False)
class _Numbers(Wanted):
    """Finite numbers of a range; whole ones, several of them, or rows of several."""

    low: float = -math.inf
    high: float = math.inf
    ends: bool = True  #     do the ends of the range belong to it?
    whole: bool = False
    depth: int = 0  #        1: a list of such numbers, 2: a list of lists, all of one length
    length: int | None = None  #  of the innermost lists
    functions: bool = False  #     do functions stand in for numbers?
    endless: bool = False  #       is infinity one, too?
    alone: bool = False  #         does one stand for a list of them?
    names: str = ""  #             of the entries of a list

    @property
    def words(self) -> str:
        kind = "whole number" if self.whole else "number"
        many, one = f"{kind}s", f"a {kind}"
        if self.low == 0 and self.high == math.inf and not self.ends:
            many, one = f"positive {many}", f"a positive {kind}"
        elif self.low == 0 and self.high == math.inf:
            many, one = (f"{text} that {verb} not negative" for text, verb in ((many, "are"), (one, "is")))
        elif self.high < math.inf:
            within = f"between {self.low:g} and {self.high:g}{'' if self.ends else ', without the two'}"
            many, one = f"{many} {within}", f"{one} {within}"
        elif self.low == 1 and self.whole:
            many, one = f"positive {many}", f"a positive {kind}"
        elif self.low > -math.inf:
            many, one = (f"{text} of at least {self.low:g}" for text in (many, one))
        elif not self.whole:
            many, one = f"finite {many}", f"a finite {kind}"
        each = f"{self.length} " if self.length else ""
        if self.endless:
            one = f"{one}, or infinity"
        if self.functions:
            one, many = f"{one} or a function", f"{many} or functions"
        text = (one, f"a list of {each}{many}", f"a list of rows of {each}{many}")[self.depth]
        text = f"{self.names}, {text}" if self.names else text
        return f"{one}, or {text}" if self.alone else text

    def fitting(self, value: Any) -> Any:
        return self._fitting(value, self.depth)

    def _fitting(self, value: Any, depth: int) -> Any:
        if _traced(value) or (self.functions and callable(value) and (self.alone or not depth)):
            return value
        if depth and self.alone and not isinstance(value, Iterable):
            depth = 0
        if depth:
            if isinstance(value, (str, bytes, dict, set)) or not isinstance(value, Iterable):
                raise TypeError
            entries = [self._fitting(entry, depth - 1) for entry in value]
            if depth == 1 and self.length not in (None, len(entries)):
                raise ValueError
            if depth > 1 and len({len(entry) for entry in entries if not _traced(entry)}) > 1:
                raise ValueError
            return value if hasattr(value, "dtype") and not self.whole else entries
        kind = getattr(getattr(value, "dtype", None), "kind", "f")
        if isinstance(value, (str, bytes, bool, complex)) or is_masked(value) or kind not in "iuf" or getattr(value, "ndim", 0):
            raise TypeError
        number = _python(value, self.whole)
        endless = self.endless and number == math.inf
        inside = self.low <= number <= self.high if self.ends else self.low < number < self.high
        if (self.whole and number != value) or not (endless or (inside and math.isfinite(number))):
            raise ValueError
        return number


def _python(value: Any, whole: bool) -> float:
    return int(value) if whole else float(value)


def is_masked(value: Any) -> bool:
    """Is it the one number of numpy's that is none? Asked without numpy; as a float it would be one that is not a number."""
    return type(value).__name__ == "MaskedConstant"


def _traced(value: Any) -> bool:
    """Is it JAX's, without a value? Asked without JAX."""
    return any(kind.__name__ == "Tracer" for kind in type(value).__mro__)


def one_of(value: Any, known: Iterable[Any], name: str) -> None:
    """Is this one of the choices that there are?"""
    known = list(known)
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{name} must be one of {', '.join(known)}; got {value!r}")


def wanted(annotation: Any) -> tuple[Wanted, bool] | None:
    """What an annotation says, and whether None will do too."""
    for each in getattr(annotation, "__metadata__", ()):
        if isinstance(each, Wanted):
            return each, False
    options = typing.get_args(annotation)
    if typing.get_origin(annotation) is Literal:
        return _OneOf(options), False
    if type(None) in options and len(options) == 2:
        found = wanted(options[0]) or wanted(options[1])
        return found and (found[0], True)
    return None


Function = Annotated[Callable[..., Any], _Function()]
Text = Annotated[str, _Text()]
Flag = Annotated[bool, _Flag()]
Number = Annotated[float, _Numbers()]
Positive = Annotated[float, _Numbers(0, ends=False)]
PositiveOrInfinite = Annotated[float, _Numbers(0, ends=False, endless=True)]
NotNegative = Annotated[float, _Numbers(0)]
Share = Annotated[float, _Numbers(0, 1)]
Poisson = Annotated[float, _Numbers(-1, 0.5, ends=False)]
Whole = Annotated[int, _Numbers(0, whole=True)]
Count = Annotated[int, _Numbers(1, whole=True)]
Dimension = Annotated[int, _Numbers(1, 1e8, whole=True)]  # each has a name: more would not fit into memory
Steps = Annotated[int, _Numbers(1, 1e9, whole=True)]  # counted in 32 bits
AtLeastTwo = Annotated[int, _Numbers(2, whole=True)]

Numbers = Annotated[Sequence[float], _Numbers(depth=1)]
Positives = Annotated[Sequence[float], _Numbers(0, ends=False, depth=1)]
NotNegatives = Annotated[Sequence[float], _Numbers(0, depth=1)]
Indices = Annotated[Sequence[int], _Numbers(whole=True, depth=1)]
Counts = Annotated[Sequence[int], _Numbers(1, whole=True, depth=1)]
Damping = Annotated[Sequence[float], _Numbers(0, depth=1, length=2, names="(α, β)")]
Triple = Annotated[Sequence[float], _Numbers(depth=1, length=3)]
PositiveTriple = Annotated[Sequence[float], _Numbers(0, ends=False, depth=1, length=3)]
Six = Annotated[Sequence[float], _Numbers(depth=1, length=6)]
Pairs = Annotated[Sequence[Sequence[float]], _Numbers(depth=2, length=2)]
Triples = Annotated[Sequence[Sequence[float]], _Numbers(depth=2, length=3)]

PositiveOrFunction = Annotated[Any, _Numbers(0, ends=False, functions=True)]
PositivesOrFunctions = Annotated[Sequence[Any], _Numbers(0, ends=False, depth=1, functions=True)]
OneOrMorePositive = Annotated[Any, _Numbers(0, ends=False, depth=1, functions=True, alone=True)]
