"""Quantities at many points of a run, each as one compiled computation."""

from typing import Any

import equinox as eqx
import jax

from carom.system.system import System


@eqx.filter_jit
def gaps_along(system: System, params: Any, t, q):
    """The gaps of all contacts at each of many times."""
    return jax.vmap(system.bind(params, q.shape[1]).contacts.gaps)(q, t)


@eqx.filter_jit
def smallest_along(system: System, params: Any, t, q):
    mechanics = system.bind(params, q.shape[1])
    return jax.vmap(lambda q, t: mechanics.contacts.gaps(q, t).min())(q, t)


@eqx.filter_jit
def masses_along(system: System, params: Any, t, q, v):
    """∂²L/∂v² at each of many states."""
    return jax.vmap(system.bind(params, q.shape[1]).mass)(q, v, t)


@eqx.filter_jit
def gap_details_along(system: System, params: Any, t, q, v):
    """Of each gap, at each of many states: how far it may be from zero by rounding alone, and which coordinates change it."""
    m = system.bind(params, q.shape[1])
    return jax.vmap(lambda q, v, t: (m.gap_rounding(q, v, t, 0.0), jax.jacfwd(m.contacts.gaps)(q, t) != 0))(q, v, t)
