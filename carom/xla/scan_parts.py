"""Which operands of a `scan` are constants, and which are carried: by shapes, since versions of JAX name the numbers otherwise."""

from typing import Any


def scan_counts(eqn: Any) -> tuple[int, int]:
    """How many constants, and how many are carried. What is scanned over, and what is stacked, has one axis more outside than
    inside; the rest is constants and the carry."""
    inner = eqn.params["jaxpr"].jaxpr
    scanned = sum(o.aval.shape != i.aval.shape for o, i in zip(eqn.invars, inner.invars, strict=True))
    carried = sum(o.aval.shape == i.aval.shape for o, i in zip(eqn.outvars, inner.outvars, strict=True))
    return len(eqn.invars) - scanned - carried, carried
