"""The two ends of an elastic body: free, held in some way, or moved."""

from collections.abc import Iterable, Sequence
from typing import Any

from carom.errors import InputError


def check_ends(body: str, whose: str, ends: Any, known: Iterable[str]) -> tuple[Any, Any]:
    """Two of `known` or functions of t; `whose` says which two they are."""
    if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 2:
        raise InputError(f"{body}: ends are two, of {whose}, as ('fixed', 'free'); got {ends!r}")
    for end in ends:
        if not (callable(end) or (isinstance(end, str) and end in known)):
            raise InputError(
                f"{body}: each of ends is {', '.join(map(repr, known))} or a function of t, its displacement; got {end!r}"
            )
    return ends[0], ends[1]
