"""What a step leaves to the next: the impulses to start from, which contacts pressed and which stuck."""

from dataclasses import dataclass, field

import numpy as np

from carom.bodies.velocity import Posed


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
    def of(cls, posed: Posed, impulses, u, pressed: np.ndarray, stuck: np.ndarray, watchful: bool) -> "Memory":
        rows = posed.rows
        rates = rows.by_contact(u)
        sliding = np.einsum("mk,mki->mi", rates[:, 1:], rows.frames[:, 1:])
        push = np.einsum("mk,mki->mi", rows.by_contact(impulses), rows.frames)
        order = np.argsort(posed.contacts.key, kind="stable")
        joints = impulses[rows.contacts * (1 + rows.tangents) :]
        return cls(
            posed.contacts.key[order], push[order], rates[order, 0], sliding[order], pressed[order], stuck[order], joints, watchful
        )

    def _find(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where contacts with these keys are, and which are there at all."""
        if len(self.keys) == 0:
            return np.zeros(len(keys), int), np.zeros(len(keys), bool)
        where = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return where, self.keys[where] == keys

    def states(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of the contacts pressed, and which stuck."""
        where, known = self._find(keys)
        if not np.any(known):
            return known, known
        return known & self.pressed[where], known & self.stuck[where]

    def rates_before(self, posed: Posed) -> np.ndarray:
        """u₁ of the step before, [contacts, 1 + tangents]; nan where it is not known. The normal turns with the contact: what
        slid along it then is no approach now."""
        where, known = self._find(posed.contacts.key)
        found = np.full((len(known), 1 + posed.rows.tangents), np.nan)
        if np.any(known):
            found[known, 0] = self.closing[where[known]]
            found[known, 1:] = np.einsum("mki,mi->mk", posed.rows.frames[known, 1:], self.sliding[where[known]])
        return found

    def start(self, posed: Posed) -> np.ndarray | None:
        """Impulses to start from, in the frames of the contacts as they are now."""
        if len(self.keys) == 0 and len(self.joints) == 0:
            return None
        where, known = self._find(posed.contacts.key)
        found = np.zeros((len(known), 1 + posed.rows.tangents))
        if np.any(known):
            found[known] = np.einsum("mki,mi->mk", posed.rows.frames[known], self.impulses[where[known]])
        joints = self.joints if len(self.joints) == len(posed.joints) else np.zeros(len(posed.joints))
        return np.concatenate([found.ravel(), joints])
