"""What is the same for all values of the parameters: checked once for each kind of system, and remembered."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from carom.kept.keep import kind_of
from carom.kept.remember import remembered
from carom.running.contact_checks import check_slips
from carom.running.probes import check_signs
from carom.running.tracing import check_all_are_read, check_functions, explained
from carom.system.system import System


class _Structure(NamedTuple):
    """What is the same for all values of the parameters."""

    names: tuple[str, ...]  # of the contacts
    owner: np.ndarray
    read: list[str]  #        parameters that functions of the system read
    unread: list[str]


_STRUCTURES: dict[Any, _Structure] = {}  # what was found before, for systems run again and again


def structure(
    system: System,
    q: Any,
    params: Any,
    start: Any,
    dim: int,
    stop: Any = None,
    shape: Any = None,
    values: bool = True,
    found: Callable[..., None] = lambda names, owner: None,
) -> tuple[tuple[str, ...], np.ndarray]:
    """Names and owners of the contacts, once the functions are checked; with `values` also around the start. `found` is told of
    them before that, where they were not known."""
    key = kind_of((system, params, q))[0] if values else None
    try:
        known = _STRUCTURES.get(key) if key is not None else None
    except TypeError:  # something in the system cannot be hashed
        key = known = None
    if known is None:
        names, owner, read, unread = remembered(_checked_functions, system, q, params)
        known = _Structure(tuple(names), np.asarray(owner, int), read, unread)
        found(*known[:2])
        if values:
            with explained("the derivatives of the system: it"):
                check_slips(system, params, q, start)
            check_signs(system, params, q, start, *known[:2])
    if known.unread:
        check_all_are_read(known.read, known.unread, q, start, params, dim, stop, shape)
    if key is not None:
        if len(_STRUCTURES) > 64:
            _STRUCTURES.clear()
        _STRUCTURES[key] = known
    return known[:2]


def _checked_functions(system: System, q: np.ndarray, params: Any) -> tuple[list[str], list[int], list[str], list[str]]:
    """Names and owners of the contacts, parameters that are read and that are not; nothing of it depends on the values of q and the
    parameters."""
    read, unread = check_functions(system, q, params, None if system.space is None else system.space.dim)
    with explained("the derivatives of the system: it"):
        names, owner = contacts_of(system, params, q.size)
    return list(names), [int(i) for i in owner], read, unread


def contacts_of(system: System, params: Any, dim: int) -> tuple[tuple[str, ...], np.ndarray]:
    names: tuple[str, ...] = ()
    owner = np.zeros(0, int)

    def read(params):
        nonlocal names, owner
        m = system.bind(params, dim)
        names, owner = m.contacts.names, m.contacts.owner
        return 0

    jax.eval_shape(read, params)
    return names, owner
