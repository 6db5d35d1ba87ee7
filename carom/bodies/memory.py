"""What a step leaves to the next: the impulses to start from, which contacts pressed and which stuck."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from carom.bodies.posed import Posed
from carom.bodies.step_ends import rates_across


@dataclass(frozen=True)
class Memory:
    """Rows are contacts, in the order of their keys."""

    keys: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    impulses: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))  #  [m, 3] in space
    closing: np.ndarray = field(default_factory=lambda: np.zeros(0))  #        [m] u₁ along its normal; nan where there was no step
    sliding: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))  #   [m, 3] u₁ across it, in space
    pressed: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    stuck: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    joints: np.ndarray = field(default_factory=lambda: np.zeros(0))  #         impulses of their rows
    watchful: bool = True  #                                                   something may be about to collide

    @classmethod
    def of(
        cls,
        posed: Posed,
        impulses: np.ndarray,
        pressed: np.ndarray,
        stuck: np.ndarray,
        watchful: bool,
        push: np.ndarray,
        closing: np.ndarray,
        sliding: np.ndarray,
    ) -> "Memory":
        """The last three: what `in_space` tells."""
        rows, keys = posed.rows, posed.contacts.key
        joints = impulses[rows.contacts * (1 + rows.tangents) :]
        columns = (keys, push, closing, sliding, pressed, stuck)
        if len(keys) and keys[-1] < 0:  # ropes and stops stand behind the others, which are in order
            order = np.argsort(keys, kind="stable")
            columns = tuple(column[order] for column in columns)
        return cls(*columns, joints, watchful)

    @staticmethod
    def in_space(posed: Posed, impulses: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What impulses of contacts are in space, and rates along the normals, and across them in space."""
        rates, frames = posed.rows.by_contact(u), posed.rows.frames
        push = np.matmul(posed.rows.by_contact(impulses)[:, None], frames)[:, 0]
        return push, rates[:, 0], np.matmul(rates[:, None, 1:], frames[:, 1:])[:, 0]

    def _find(self, keys: np.ndarray) -> tuple[Any, np.ndarray]:
        """Where contacts with these keys are (a slice, where nothing is new), and which are there at all; the same keys are often
        asked for again."""
        asked = self.__dict__.get("_asked")
        if asked is None or asked[0] is not keys:
            asked = self.__dict__["_asked"] = (keys, *self._searched(keys))
        return asked[1:]

    def _searched(self, keys: np.ndarray) -> tuple[Any, np.ndarray]:
        if len(self.keys) == 0:
            return np.zeros(len(keys), int), np.zeros(len(keys), bool)
        if self.keys.tobytes() == keys.tobytes():  # in most steps nothing is new
            return slice(None), np.ones(len(keys), bool)
        where = np.minimum(self.keys.searchsorted(keys), len(self.keys) - 1)
        return where, self.keys[where] == keys

    def states(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of the contacts pressed, and which stuck."""
        where, known = self._find(keys)
        if len(self.keys) == 0:
            return known, known
        if isinstance(where, slice):
            return self.pressed, self.stuck
        return known & self.pressed[where], known & self.stuck[where]

    def rates_before(self, posed: Posed) -> np.ndarray:
        """u₁ of the step before, [contacts, 1 + tangents]; nan where it is not known. The normal turns with the contact: what
        slid along it then is no approach now."""
        where, known = self._find(posed.contacts.key)
        where = np.arange(len(known)) if isinstance(where, slice) else where
        return rates_across(posed, self.closing, self.sliding, where, known)

    def start(self, posed: Posed) -> np.ndarray | None:
        """Impulses to start from, in the frames of the contacts as they are now."""
        if len(self.keys) == 0 and len(self.joints) == 0:
            return None
        where, known = self._find(posed.contacts.key)
        if np.count_nonzero(known) == len(known):
            found = np.vecdot(posed.rows.frames, self.impulses[where][:, None])
        else:
            found = np.zeros((len(known), 1 + posed.rows.tangents))
            found[known] = np.vecdot(posed.rows.frames[known], self.impulses[where[known]][:, None])
        if not len(posed.joints):
            return found.ravel()
        joints = self.joints if len(self.joints) == len(posed.joints) else np.zeros(len(posed.joints))
        return np.concatenate([found.ravel(), joints])
