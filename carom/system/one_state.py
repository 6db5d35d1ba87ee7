"""One state of a system as a person hands it over: arrays, which may be traced, of the lengths that the system has."""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from carom.calls import floats
from carom.errors import InputError
from carom.system.system import System
from carom.xla.linear_pair import stacked


def pure_number(value: Any, name: str) -> Any:
    """As an array; it may be traced."""
    try:
        return _floats(value)
    except (TypeError, ValueError) as error:
        what = "number" if name in ("dt", "t0", "t") else "list of numbers"
        raise InputError(f"{name} must be a {what}; got {value!r}") from error


def _floats(value: Any) -> Any:
    """As an array. Outside of `jit` each operation of JAX while it differentiates is a program of its own, compiled in every
    process: what need not be one is none."""
    if isinstance(value, (list, tuple)) and any(isinstance(x, jax.core.Tracer) for x in value):
        return stacked(*value) if all(np.ndim(x) == 0 for x in value) else jax.numpy.asarray(value, float)
    if isinstance(value, jax.Array):
        return value if value.dtype == float and not value.weak_type else jax.numpy.asarray(value, float)
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        return jax.numpy.asarray(floats(value))  # or its error
    return jax.device_put(array.astype(float))


def one_state(system: System, q: Any, v: Any, t: Any, names: tuple[str, str, str]) -> tuple[Any, Any, Any]:
    """Configuration, velocity or momentum, and time; a mistake is told by their names."""
    q, v, t = (pure_number(value, name) for value, name in zip((q, v, t), names, strict=True))
    if t.ndim:
        raise InputError(f"{names[2]} must be one number; got shape {t.shape}")
    space = system.space
    wanted = (q.shape[0] if q.ndim else 0,) * 2 if space is None else (space.size, space.dim)
    if q.ndim != 1 or v.ndim != 1 or not q.size or (q.shape[0], v.shape[0]) != wanted:
        lengths = "vectors of the same length" if space is None else f"vectors of lengths {space.size} and {space.dim}"
        raise InputError(f"{names[0]} and {names[1]} must be {lengths}; got shapes {q.shape} and {v.shape} (use jax.vmap for many)")
    return q, v, t


def check_leaves(params: Any) -> None:
    """Parameters are numbers or arrays; they may be traced."""
    for path, leaf in jax.tree.leaves_with_path(params):
        texts = isinstance(leaf, np.ma.MaskedArray) or (
            isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind not in "fiub"
        )
        if texts or not eqx.is_array_like(leaf) or (isinstance(leaf, int) and abs(leaf) >= 2**1024):
            raise no_number(path, leaf)


def no_number(path: Any, leaf: Any) -> InputError:
    hint = ". An object with attributes is handed over as a dict: vars(…)" if hasattr(leaf, "__dict__") else ""
    if callable(leaf):
        hint = (
            ". A network is handed over by its arrays, arrays, rest = eqx.partition(network, eqx.is_array), and put together in "
            "the function that asks it: eqx.combine(params['network'], rest)"
        )
    return InputError(f"params{jax.tree_util.keystr(path)} must be a number or an array; got {leaf!r}{hint}")
