"""What a rule makes of a system: a discrete flow (q, p) ↦ (q₁, p₁) over any interval, with its energies."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Float


class Flow(NamedTuple):
    """One interval of a discrete flow."""

    q: Float[Array, " n"]
    p: Float[Array, " n"]
    energy_start: Float[Array, ""]  # (5) of carom/methods/variational/rules.py
    energy_end: Float[Array, ""]
    converged: Bool[Array, ""]


@dataclass(frozen=True)
class FlowMap:
    """(q, p, t, h) ↦ Flow."""

    function: Callable[[Array, Array, Array, Array], Flow]
    implicit: bool  # with an iteration inside
    written_out: bool = False  # number by number, without a loop

    def __call__(self, q, p, t, h) -> Flow:
        return self.function(q, p, t, h)


class Tableau(NamedTuple):
    """The numbers of (1)–(5) of carom/methods/variational/rules.py."""

    nodes: np.ndarray  #       c[i]
    weights: np.ndarray  #     β[i]
    positions: np.ndarray  #   a[i, j]
    velocities: np.ndarray  #  ℓ[i, j]
    ends: np.ndarray  #        b[j]
