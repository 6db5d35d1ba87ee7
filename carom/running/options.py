"""What surrounds a problem: the method, the grid, how much is kept."""

import inspect
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from carom.calls import floats, must_be, real
from carom.closures.per_object import per_object
from carom.errors import InputError
from carom.methods.method import Method
from carom.system.system import System
from carom.xla.forks import refuse_forked

NEGLIGIBLE = 2.0**22  # bytes that are there wherever Python runs: nobody is asked how many are free


def check_system(system: Any) -> None:
    refuse_forked()
    must_be(System, system, "system")


def check_method(method: Any) -> None:
    must_be(Method, method, "method")


def check_untraced(**values: Any) -> None:
    """`solve` is a host loop: it cannot be part of a computation that JAX traces."""
    for name, value in values.items():
        if _traced_inside(value) if isinstance(value, System) else _traced(value):
            raise InputError(
                f"{name} is being traced by jit, grad or vmap, and carom.solve and carom.ensemble run on the host: "
                "inside a transformed function use carom.rollout, which takes the same arguments"
            )


def _traced(value: Any) -> bool:
    if value is None or type(value) in (int, float) or isinstance(value, np.ndarray):
        return False
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))


_traced_inside = per_object(_traced)


def whole(value: Any, name: str, most: int = np.iinfo(np.int64).max, of: str = "") -> int:
    """A positive whole number, given as any kind of number."""
    try:
        number = int(value)
        good = not isinstance(value, (str, bytes, bool, np.bool_)) and np.ndim(value) == 0 and number == value and number >= 1
    except Exception:  # a value may answer with anything when it is asked for its number
        good = False
    if not good:
        raise InputError(f"{name} must be a positive whole number{of}; got {value!r}")
    if number > most:
        raise InputError(f"{name} is {number}, and {most} is the most")
    return number


def number(value: Any, name: str) -> float:
    """A finite number."""
    try:
        result = real(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a finite number; got {value!r}") from error
    if not np.isfinite(result):
        raise InputError(f"{name} must be a finite number; got {value}")
    return result


def check_grid(dt: Any, num_steps: Any) -> tuple[float, int]:
    check_untraced(dt=dt, num_steps=num_steps)
    try:
        step = real(dt)
    except (TypeError, ValueError) as error:
        several = isinstance(dt, (list, tuple)) or np.ndim(dt) > 0
        more = "; steps of different length are for carom.solve" if several else ""
        raise InputError(f"dt must be a positive number; got {dt!r}{more}") from error
    if not (step > 0 and np.isfinite(step)):
        raise InputError(f"dt must be a positive number; got {dt}")
    if step < np.finfo(float).tiny:
        raise InputError(f"dt must be a positive number; got {step:g}, which compiled programs take for zero")
    return step, whole(num_steps, "num_steps", most=np.iinfo(np.int32).max)


def check_clock(step: float, total: int, start: float) -> None:
    """Does time advance? Where it does not, functions of t are asked for the same instant again and again."""
    latest = max(abs(start), abs(start + step * total))
    if not np.isfinite(latest):
        raise InputError(f"{total} steps of dt = {step:g} end beyond all numbers")
    if np.spacing(latest) > 0.5 * step:
        raise InputError(
            f"a step of dt = {step:g} is lost in the rounding of t = {latest:g}: count time from a nearer instant (t0)"
        )


def check_memory(num_steps: int, stride: int, numbers: int) -> None:
    """A run is kept in memory until it ends: refuse one that cannot fit, before hours are spent on it."""
    needed = 8.0 * numbers * (num_steps // stride + 1)
    there = available_memory() if needed > NEGLIGIBLE else None
    if there is not None and needed > there:
        thin = int(np.ceil(stride * needed / (0.25 * there)))
        raise InputError(
            f"{num_steps:,} steps of {numbers} numbers need {needed / 2**30:.3g} GiB, and {there / 2**30:.3g} GiB are free: "
            f"keep every {thin:,}-th step with stride={thin} (all impacts are kept), or ask for fewer steps"
        )


def available_memory() -> float | None:
    """In bytes, as far as the system tells."""
    try:
        with open("/proc/meminfo") as lines:
            known = dict(line.split(":", 1) for line in lines)
        return 1024.0 * int(known["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return None


def check_options(
    method: Any, stride: Any, max_impacts: Any, checkpoint: Any, every: Any, callback: Any = None, callback_every: Any = None
) -> None:
    check_method(method)
    whole(stride, "stride")
    if max_impacts is not None:
        whole(max_impacts, "max_impacts", most=np.iinfo(np.int32).max)
    if checkpoint is not None and (not isinstance(checkpoint, (str, os.PathLike)) or not Path(checkpoint).name):
        raise InputError(f"checkpoint must be the name of a *.zarr; got {checkpoint!r}")
    check_callback(callback, callback_every, "step, t, q, p, num_impacts")
    if every is None:
        return
    whole(every, "every", of=" of steps")
    if checkpoint is None:
        raise InputError("every says how often a checkpoint is written: pass checkpoint= too")


def check_stride(stride: int, total: int) -> None:
    if stride > total:
        raise InputError(f"stride={stride} would keep nothing but the start: there are {total} steps")


def check_callback(callback: Any, every: Any, shown: str) -> None:
    if callback is not None and not callable(callback):
        raise InputError(f"callback must be a function of a snapshot ({shown}); got {callback!r}")
    if callback is not None:
        try:
            inspect.signature(callback).bind(None)
        except TypeError as error:
            raise InputError(f"callback is called with one argument, a snapshot ({shown}); {callback!r} takes others") from error
        except ValueError:  # no signature to be read: built-in functions
            pass
    if every is not None:
        whole(every, "callback_every", of=" of steps")
        if callback is None:
            raise InputError("callback_every says how often the callback is called: pass callback= too")


def refuse_stop(stop: Any, verb: str) -> None:
    """An ensemble has rows of one length for all."""
    if stop is not None:
        raise InputError(
            f"{verb} takes every step that is asked for, and has no stop: carom.solve has, and carom.rollout, under jax.vmap too; "
            "or look for the zero in what comes out"
        )


def check_pure(system: Any, method: Any, num_steps: Any, max_impacts: Any) -> None:
    """What can be said of a rollout, whose numbers may be traced: kinds and counts."""
    check_system(system)
    check_method(method)
    whole(num_steps, "num_steps", most=np.iinfo(np.int32).max)
    whole(max_impacts, "max_impacts", most=np.iinfo(np.int32).max)


def check_ensemble(system: Any, method: Any, dtype: Any, each: Any, **numbers: Any) -> None:
    check_system(system)
    check_method(method)
    check_untraced(each=each, **numbers)
    try:
        good = np.dtype(dtype) in (np.float64, np.float32)
    except TypeError:
        good = False
    if not good:
        name = repr(dtype) if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
        raise InputError(f"dtype must be float64 or float32; got {name}")
    if each is not None and not isinstance(each, dict):
        raise InputError(f"each gives parameters by name, as a dict of arrays; got {type(each).__name__}")
    for key, value in {"dt": numbers["dt"], **{f"each[{key!r}]": value for key, value in (each or {}).items()}}.items():
        try:
            floats(value)
        except (TypeError, ValueError) as error:
            what = "a positive number, or one per lane" if key == "dt" else "an array of numbers with one row per lane"
            raise InputError(f"{key} must be {what}; got {value!r}") from error


def device_list(devices: Any) -> list[jax.Device]:
    """Those of JAX that were asked for, by default all."""
    found = list(devices) if isinstance(devices, (list, tuple)) else [devices]
    if devices is None or not found:
        found = jax.devices()
    for device in found:
        if not isinstance(device, jax.Device):
            raise InputError(f"devices must be a list of JAX's, such as jax.devices(); got {device!r}")
    return found
