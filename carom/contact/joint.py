"""A joint: one function that stays zero."""

from collections.abc import Callable
from typing import Any

import equinox as eqx

from carom.named import Named


class Joint(eqx.Module):
    """A bilateral constraint g(q, t) = 0 with the force λ∇g, λ of either sign: (17) of [schindler2014].

    `g(q, t, params)` is zero where the joint holds; it may return a vector, one constraint per entry. The constraints of a
    system must be independent.
    """

    g: Named
    name: str | None = eqx.field(static=True)

    def __init__(self, g: Callable[..., Any], name: str | None = None):
        self.g = Named(g, ("q", "t", "params"), "joint")
        self.name = name
