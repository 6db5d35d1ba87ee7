"""A joint: one function that stays zero."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx

from carom.calls import public
from carom.errors import InputError
from carom.named import Named


@public
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


def joints_of(joints: Any) -> tuple[Joint, ...]:
    """The joints of a system, given as a list or as a single one."""
    joints = (joints,) if isinstance(joints, Joint) or callable(joints) else joints
    if not isinstance(joints, Sequence) or isinstance(joints, str):
        raise InputError(f"joints must be a list of carom.Joint; got {joints!r}")
    for i, joint in enumerate(joints):
        if not isinstance(joint, Joint):
            raise InputError(f"joints[{i}] is {joint!r}; wrap the function that stays zero in carom.Joint(...)")
    return tuple(joints)
