"""The law of impact by itself: from the momentum before to the momentum after."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from carom.calls import public
from carom.contact.laws import SIMULTANEOUS
from carom.errors import CaromError, InputError
from carom.named import frozen, traced_in
from carom.system.one_state import check_leaves, one_state
from carom.system.system import System
from carom.wanted import one_of


@public
def impact_map(
    system: System,
    contact: int | str | None,
    q: Any,
    p: Any,
    *,
    params: Any = None,
    t: Any = 0.0,
    simultaneous: str = "reflections",
) -> Float[Array, " n"]:
    """The momentum after an impact at q, of a system that arrives with momentum p: a pure function.

        p⁺ − p⁻ ∈ (T∂Q)° + Δ°,   v⁺ ∈ Δ,   and the law of the contact: E⁺ = E⁻ (elastic), restitution, friction

    `contact` is an index or a name in the list of contacts (of `solution.impacts`), or None for all whose gap is closed at q.
    Its gap is taken as zero. A contact that is being left changes nothing. First derivatives are exact. It is compiled at the first
    call for a system, and found again at the next.
    """
    check_leaves(params)
    q, p, t = one_state(system, q, p, t, ("q", "p", "t"))
    one_of(simultaneous, SIMULTANEOUS, "simultaneous")
    try:
        m = system.bind(params, q.shape[0])
        if m.contacts.num_contacts == 0:
            raise InputError("this system has no contacts")
        index = None if contact is None else _index(m.contacts.names, contact)
        params = jax.tree.map(lambda x: np.asarray(x) if isinstance(x, float) else x, params)  # other numbers: the same program
        system = frozen(system)
        # A value that JAX is tracing cannot be part of a program's name: with one, the law is part of what is being traced.
        law = _after if traced_in(system) is not None else _compiled
        return law(system, params, q, p, t, index, simultaneous)
    except CaromError:
        raise
    except Exception as error:  # of a function of the system, which nobody has tried before
        raise InputError(f"the law of impact fails with {type(error).__name__}: {str(error).splitlines()[0]}") from error


def _after(system: System, params: Any, q: Array, p: Array, t: Array, contact: int | None, simultaneous: str) -> Array:
    m = system.bind(params, q.shape[0])
    v = m.velocity(q, p, t)
    width = m.gap_rounding(q, v, t, 0.0)
    touching = m.contacts.gaps(q, t) <= width if contact is None else jnp.arange(m.contacts.num_contacts) == contact
    impulse, change = m.impulse(q, v, t, touching, width, simultaneous, True)
    after = m.remove_reaction(q, p, t) + change
    return jnp.where(impulse.settled, after, jnp.nan)  # a law that did not settle is no answer


_compiled = eqx.filter_jit(_after)


def _index(names: tuple[str, ...], contact: int | str) -> int:
    if isinstance(contact, str):
        if contact not in names:
            raise InputError(f"there is no contact {contact!r}; there are: {', '.join(names)}")
        return names.index(contact)
    if not isinstance(contact, (int, np.integer)) or not 0 <= contact < len(names):
        raise InputError(f"contact {contact!r} does not exist; there are {len(names)} ({', '.join(names)})")
    return int(contact)
