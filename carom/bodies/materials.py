"""What two surfaces do to each other: friction, restitution, rolling and spinning friction, for all pairs, for some bodies or for
single shapes of them.

    friction     |r_T| ≤ μ r_N                                   a number                                                 (1)
    restitution  u_N ≥ −e u_N⁻                                   a number in [0, 1]
    rolling      |m_T| ≤ ρ r_N, against the rolling ω_T          a length: of the lever by which the ground pushes back
    spinning     |m_N| ≤ σ r_N, against the spin ω_N             a length: two thirds of μ times the radius of a patch
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from carom.bodies.described import number
from carom.bodies.detection.detect import Contacts, pieces_of_keys
from carom.bodies.detection.geometry import Geometry
from carom.errors import InputError

NAMES = ("friction", "restitution", "rolling", "spinning")
ELASTIC = 1.0  # the restitution that takes no energy
Who = tuple[int, int | None]  # a body, or one of its shapes


@dataclass(frozen=True)
class MaterialSpec:
    """A word that was said, and about whom."""

    values: tuple[float, ...]  #           in the order of NAMES
    of: Who | None = None
    between: tuple[Who, Who] | None = None


@dataclass(frozen=True)
class Materials:
    """By the class of each piece."""

    kind: np.ndarray  #    [pieces]
    table: np.ndarray  #   [4, c, c]  in the order of NAMES

    def of(self, contacts: Contacts) -> np.ndarray:
        """[4, contacts]; ropes and stops of joints neither rub nor bounce."""
        if self.table.shape[1] == 1 and len(contacts) and contacts.key[-1] >= 0:  # ropes and stops come last
            known = self.__dict__.setdefault("_alike", {})
            if len(contacts) not in known:
                known[len(contacts)] = np.broadcast_to(self.table[:, :, 0], (4, len(contacts)))
            return known[len(contacts)]
        plain = contacts.key < 0
        first, second = pieces_of_keys(np.where(plain, 0, contacts.key), len(self.kind))
        if len(self.kind) == 0:
            return np.zeros((4, len(contacts.key)))
        return np.where(plain, 0.0, self.table[:, self.kind[first], self.kind[second]])

    def between(self, first: int, second: int) -> np.ndarray:
        """[4] of two pieces."""
        return self.table[:, self.kind[first], self.kind[second]]

    @cached_property
    def bounces(self) -> bool:
        return bool(np.any(self.table[1] > 0))

    @cached_property
    def elastic(self) -> bool:
        return bool(np.any(self.table[1] == ELASTIC))

    @cached_property
    def rolls(self) -> bool:
        return bool(np.any(self.table[2:] > 0))


def material_spec(said: dict[str, Any], of: Any, between: Any, who: Callable[[Any], Who], dim: int) -> MaterialSpec:
    """What a person said, refused where it cannot be."""
    values = [number(said[name], name) for name in NAMES]
    if min(values) < 0 or values[1] > 1:
        raise InputError(f"friction, rolling and spinning must be at least 0 and restitution in [0, 1]; got {said}")
    if dim == 2 and values[3] > 0:
        raise InputError("nothing spins about its normal in the plane: leave `spinning` away")
    if of is not None and between is not None:
        raise InputError("a material is `of` one body or `between` two, not both")
    if between is not None and (isinstance(between, str) or not isinstance(between, (tuple, list))):
        raise InputError(f"`between` needs two bodies; got {between!r}")
    pair = None if between is None else tuple(who(one) for one in between)
    if pair is not None and (len(pair) != 2 or pair[0] == pair[1]):
        raise InputError(f"`between` needs two bodies; got {between!r}")
    return MaterialSpec(tuple(values), None if of is None else who(of), pair)


def build_materials(specs: list[MaterialSpec], geometry: Geometry) -> Materials:
    """Classes of pieces: bodies and shapes that some word was said about have their own, all others share one."""
    named = {one for m in specs for one in ((m.of,) if m.of else m.between or ())}
    split = {body for body, part in named if part is not None}
    key = [
        (body, part) if body in split else (body, None) if (body, None) in named else None
        for body, part in zip(geometry.owner.tolist(), geometry.part.tolist(), strict=True)
    ]
    classes = [None, *sorted({k for k in key if k is not None}, key=lambda k: (k[0], -1 if k[1] is None else k[1]))]
    kind = np.array([classes.index(k) for k in key], int)
    table = np.zeros((len(NAMES), len(classes), len(classes)))
    for m in specs:
        everyone = np.ones(len(classes), bool)
        pairs = [(everyone, everyone)]
        if m.between:
            pairs = [(_mine(classes, m.between[0]), _mine(classes, m.between[1]))]
        elif m.of:
            pairs = [(_mine(classes, m.of), everyone)]
        for first, second in pairs:
            where = (first[:, None] & second[None, :]) | (second[:, None] & first[None, :])
            table[:, where] = np.array(m.values)[:, None]
    return Materials(kind, table)


def _mine(classes: list[Who | None], who: Who) -> np.ndarray:
    """Which classes belong to a body, or to one of its shapes."""
    return np.array([k is not None and k[0] == who[0] and (who[1] is None or k[1] == who[1]) for k in classes])
