"""The functions of a system, traced once: wrong shapes, missing and unread parameters, indices out of range, and everything else
that goes wrong in them as a sentence that names the function, the line and what to try."""

import linecache
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from carom.calls import nearest
from carom.drawing import picture
from carom.errors import CaromError, InputError
from carom.methods.stops import Stop, stops_of
from carom.named import Named, frozen, settled
from carom.running.contact_checks import check_rate
from carom.running.repeatable import captured, check_repeatable
from carom.system.system import System
from carom.xla.indices import calls_python, loops, out_of_range
from carom.xla.structure import depends_on

SLOPED = ("lagrangian", "hamiltonian", "gap", "joint")  # functions whose slopes are asked for
_HOME = str(Path(__file__).resolve().parents[1])


class Recorder(dict):
    """A dict that notes which of its keys were read, and says what it holds when one is missing."""

    def __init__(self, values: dict, role: str, where: str = "params"):
        inside = {k: Recorder(v, role, f"{where}[{k!r}]") if type(v) is dict else v for k, v in values.items()}
        super().__init__(inside)
        self.read: set[Any] = set()
        self.role, self.where = role, where

    def __getitem__(self, key):
        self.read.add(key)
        if key not in self:
            known = ", ".join(map(str, self)) or "none"
            raise InputError(f"{self.role} reads {self.where}[{key!r}], which was not given; given: {known}{nearest(key, self)}")
        return super().__getitem__(key)

    def __getattr__(self, name: str):
        if name in self:
            raise InputError(f"{self.role} reads {self.where}.{name}; {self.where} is a dict: write {self.where}[{name!r}]")
        raise AttributeError(name)

    def get(self, key, default=None):
        self.read.add(key)
        return super().get(key, default)

    def items(self):
        self.read |= set(self)
        return super().items()

    def values(self):
        self.read |= set(self)
        return super().values()


jax.tree_util.register_pytree_with_keys(
    Recorder,
    lambda r: ([(jax.tree_util.DictKey(key), r[key]) for key in sorted(r)], tuple(sorted(r))),
    lambda keys, values: dict(zip(keys, values, strict=True)),
)


def check_functions(system: System, q: np.ndarray, params: Any, dim: int | None = None) -> tuple[list[str], list[str]]:
    """Trace each user function once. Which parameters are read, and which are not?"""
    functions = [f for f in (system.lagrangian, system.hamiltonian, system.force, system.constraints) if f is not None]
    read: set[Any] = set()
    held = controlled(system)
    for function in functions:
        shape = _trace(function, q, params, dim, read, **held)
        _check_shape(function.role, shape, q.size if dim is None else dim)
    for function in system.other_functions:
        _trace(function, q, params, dim, read)
    if system.controller is not None:
        system.controller.check(_trace(system.controller.rule, q, params, dim, read, **held))
    for contact in system.contacts:
        gap = _trace(contact.gap, q, params, dim, read)
        where = f"contact {contact.name!r}" if contact.name else "a contact"
        _check_gap(contact.gap, gap, where, q, params, dim)
        for function in (
            contact.slip,
            contact.roll,
            contact.restitution,
            contact.impulse,
            contact.friction,
            contact.static_friction,
            contact.rolling,
        ):
            if isinstance(function, Named):
                _check_law(function.role, _trace(function, q, params, dim, read), gap, where)
        for function in (contact.slip, contact.roll):
            if function is not None:
                with explained(f"the {function.role} of {where}"):
                    check_rate(function, where, _arguments(q, dim, params))
    for joint in system.joints:
        shape = _trace(joint.g, q, params, dim, read)
        if shape.ndim > 1:
            raise InputError(f"joint {joint.name!r} has shape {shape.shape}; it must be a number or a vector")
    return sorted(map(str, read)), [str(key) for key in params if key not in read] if isinstance(params, dict) else []


def check_all_are_read(read: list[str], unread: list[str], q: Any, t: Any, params: Any, dim: int, stop: Any, shape: Any) -> None:
    """A parameter that nobody reads is misspelt. Beside the system's, functions that end the run and that draw it may read some."""
    more: set[Any] = set()
    for each in stops_of(stop):
        _trace(each.function, q, params, dim, more)
    if callable(shape):
        recorder = Recorder(params, "the shape")
        with suppress(Exception):  # it is not drawn yet: what is wrong with it is told when it is
            picture(shape, np.asarray(q), float(t), recorder)
        more |= recorder.read
    for key in unread:
        if key not in set(map(str, more)):
            known = ", ".join(sorted({*read, *map(str, more)})) or "none"
            hint = nearest(key, [name for name in read if name not in params])
            raise InputError(f"params has {key!r}, which no function of the system reads (they read: {known}){hint}")


def check_function(function: Named, q: np.ndarray, params: Any, size: int) -> None:
    """A function that is told of a run and returns as many numbers as there are velocities."""
    shape = _trace(function, q, params, size, set())
    if shape.size != size:
        raise InputError(f"the {function.role} must return {size} numbers, one for each velocity; it returns shape {shape.shape}")


def numbers_along(function: Named, size: int, points: Iterable[dict[str, Any]]) -> np.ndarray:
    """[points, size]: what a function returns that is told of a run, in numbers that are known."""
    rows = []
    for point in points:
        with explained(f"the {function.role}"):
            rows.append(np.asarray(function(**point), float))
        if rows[-1].size != size:
            what = "one number" if size == 1 else f"{size} numbers, one for each velocity"
            raise InputError(f"the {function.role} must return {what}; it returns shape {rows[-1].shape}")
    return np.stack(rows).reshape(len(rows), size)


def checked_stops(stop: Any, q: Any, params: Any, dim: int) -> tuple[Stop, ...]:
    """The functions whose zeros end a run, frozen. Does each return one number?"""
    stops = frozen(stops_of(stop))
    for each in stops:
        shape = _trace(each.function, q, params, dim, set())
        if shape.size != 1:
            raise InputError(f"the stop {each.name!r} must return one number; it returns shape {shape.shape}")
        if np.dtype(shape.dtype).kind != "f":
            raise InputError(
                f"the stop {each.name!r} returns {_kind(shape)}; it must be a number that passes through zero where the run ends: "
                "q[1] - 0.5, and not q[1] < 0.5"
            )
        value = lambda q, v, t, params, f=each.function: jnp.asarray(f(q=q, v=v, p=v, t=t, params=params))  # noqa: E731
        if not any(depends_on(value, *_arguments(q, dim, params))[:3]):
            raise InputError(f"the stop {each.name!r} depends on none of q, v and t: it never passes through zero")
    return settled(stops, q=q, v=np.zeros(dim), t=0.0, params=params)


def controlled(system: System) -> dict[str, Any]:
    """What only functions of controlled systems ask for: u and the memory."""
    controller = system.controller
    if controller is None:
        return {}
    memory = jax.tree.map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x), float), controller.memory)
    return {"u": jax.ShapeDtypeStruct((controller.commands,), float), "memory": memory}


def _trace(function: Named, q: np.ndarray, params: Any, dim: int | None, read: set[Any], **more: Any) -> Any:
    """The shape and type of what a function returns."""
    args = (*_arguments(q, dim, params), more)

    def call(q, v, t, params, more):
        recorder = Recorder(params, function.role) if isinstance(params, dict) else params
        try:
            value = function(q=q, v=v, p=v, t=t, params=recorder, speed=t, mass=t, **more)
        finally:
            if isinstance(recorder, Recorder):
                read.update(recorder.read)
        if value is None:
            raise InputError(f"the {function.role} returns nothing: is a return missing?")
        return jax.tree.map(jnp.asarray, value) if function.role == "controller" else jnp.asarray(value)

    before = captured(function)
    with explained(f"the {function.role}"):
        closed, shape = jax.make_jaxpr(call, return_shape=True)(*args)
        check_repeatable(function, before, closed, lambda: jax.make_jaxpr(lambda *again: call(*again))(*args))
        if function.role in SLOPED and (loops(closed.jaxpr) or calls_python(closed.jaxpr)):
            jax.eval_shape(jax.grad(lambda *again: jnp.sum(call(*again)), argnums=(0, 1)), *args)
    speed = "p" if function.role == "hamiltonian" else "v"
    labels = [f"{name}{jax.tree_util.keystr(path)}" for name, tree in (("params", args[3]), *sorted(more.items()))
              for path, _ in jax.tree.leaves_with_path(tree)]  # fmt: skip
    wrong = out_of_range(closed, ["q", speed, "t", *labels])
    if wrong is not None:
        meant = "; if that is meant, clip the index (jnp.clip)"
        raise InputError(f"the {function.role} reads {wrong}, which JAX would take for the nearest one that exists{meant}")
    if not isinstance(shape, jax.ShapeDtypeStruct):  # of a controller: command and memory
        return shape
    kind = np.dtype(shape.dtype)
    if kind.kind == "c":
        raise InputError(f"the {function.role} returns complex numbers; take the real part, or abs")
    if kind.kind == "f" and kind.itemsize < 8:
        if not jax.config.jax_enable_x64:
            raise InputError(
                "JAX was told to compute in single precision (jax_enable_x64) after carom had been imported; carom computes in "
                'float64: jax.config.update("jax_enable_x64", True)'
            )
        raise InputError(
            f"the {function.role} returns {kind}; carom computes in float64: look for a cast, or an array made with it"
        )
    return shape


def _arguments(q: np.ndarray, dim: int | None, params: Any) -> tuple[Any, ...]:
    abstract = lambda x: jax.ShapeDtypeStruct(np.shape(x), jnp.result_type(x))  # noqa: E731
    speed = jax.ShapeDtypeStruct(q.shape if dim is None else (dim,), float)
    return jax.ShapeDtypeStruct(q.shape, float), speed, jax.ShapeDtypeStruct((), float), jax.tree.map(abstract, params)


def _check_shape(role: str, shape: Any, n: int) -> None:
    if role in ("lagrangian", "hamiltonian") and shape.size != 1:
        raise InputError(f"the {role} must return one number; it returns shape {shape.shape}")
    if role == "constraints" and (shape.ndim not in (1, 2) or shape.shape[-1] != n):
        raise InputError(f"the constraints must be a matrix with {n} columns, one per velocity; they have shape {shape.shape}")
    if role == "force" and shape.size != n:
        raise InputError(f"the force must have {n} entries, one per coordinate; it has shape {shape.shape}")


def _check_gap(gap: Named, shape: Any, where: str, q: np.ndarray, params: Any, dim: int | None) -> None:
    if shape.ndim > 1 or shape.size == 0:
        raise InputError(f"gap of {where} has shape {shape.shape}; it must be a number or a vector")
    if np.dtype(shape.dtype).kind != "f":
        raise InputError(
            f"the gap of {where} returns {_kind(shape)}; it must be a distance: positive outside, zero in contact, negative inside"
        )
    value = lambda q, t, params: jnp.asarray(gap(q=q, t=t, params=params))  # noqa: E731
    at = _arguments(q, dim, params)
    if not any(depends_on(value, at[0], at[2], at[3])[:2]):
        raise InputError(f"the gap of {where} depends neither on q nor on t: it never closes. Ask for q by name")
    rate = lambda q, dq, t, params: jax.jvp(lambda q: value(q, t, params), (q,), (dq,))[1]  # noqa: E731
    with explained(f"the gap of {where}"):
        sloped = depends_on(rate, at[0], at[0], at[2], at[3])[1]
    if not sloped:
        raise InputError(
            f"the gap of {where} has no slope along q (a comparison, sign or floor, or a function of t alone?): no push could open "
            "it. It must be a distance: positive outside, zero in contact, negative inside"
        )


def _kind(shape: Any) -> str:
    return "true or false" if np.dtype(shape.dtype).kind == "b" else "whole numbers"


def _check_law(role: str, shape: Any, gap: Any, where: str) -> None:
    k = max(gap.size, 1)
    if role in ("slip", "roll") and (
        shape.size % k or shape.size == 0 or (gap.ndim == 1 and shape.ndim > 1 and shape.shape[0] != k)
    ):
        rows = f"one row for each of the {k} entries of its gap" if gap.ndim else "the tangential coordinates of one point"
        raise InputError(f"the {role} of {where} has shape {shape.shape}; it must hold {rows}")
    if role == "impulse" and shape.size != 1:
        raise InputError(f"the impulse of {where} must be one number, for each entry of its gap; it has shape {shape.shape}")
    if role in ("restitution", "friction", "static_friction", "rolling") and shape.shape not in ((), (1,), (k,)):
        raise InputError(f"the {role} of {where} must be one number{f' or {k}' if k > 1 else ''}; it has shape {shape.shape}")


# -- errors of others ----------------------------------------------------------------------------------------------------


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Whatever goes wrong inside, as an InputError that says where and what to try."""
    try:
        yield
    except CaromError as error:
        error.__notes__ = []  # JAX puts one to every error that comes through it: how to see its own frames
        raise
    except Exception as error:
        raise InputError(f"{what} {_sentence(error)}{_place(error)}") from error


def _sentence(error: Exception) -> str:
    text = str(error).strip().split("\n")[0].rstrip(".")
    if isinstance(error, jax.errors.TracerArrayConversionError):
        return "hands q, v, t or params to a function of numpy or another library; use jax.numpy (jnp.sin for np.sin)"
    if isinstance(error, jax.errors.TracerBoolConversionError):
        return "decides with if, and, or, min or max on a value that changes along the motion; use jnp.where or jnp.minimum"
    if isinstance(error, jax.errors.TracerIntegerConversionError) or "integer scalar arrays" in text:
        return "uses a value that changes along the motion as an index or as a count; use jnp.take, or a known number"
    if isinstance(error, jax.errors.ConcretizationTypeError) or "math" in text or "must be real number" in text:
        return "makes a plain number of a value that changes along the motion (math.sin, float, int); use jax.numpy instead"
    if isinstance(error, jax.errors.UnexpectedTracerError):
        return "uses a value that another computation was tracing; hand it over through params"
    if isinstance(error, KeyError):
        return f"reads the key {error}, which is not there"
    if isinstance(error, NameError):
        return f"uses a name that is not known: {text}"
    if "lax.while_loop" in text:
        return "uses lax.while_loop, or changing bounds in fori_loop, which JAX cannot differentiate; use lax.scan, or known bounds"
    if isinstance(error, NotImplementedError) or "differentiation rule" in text or "JVP" in text or "reverse-mode" in text.lower():
        return f"cannot be differentiated twice: {text}"
    return f"fails with {type(error).__name__}: {text[:300]}"


def _place(error: Exception) -> str:
    """The line of the user's own code that led there."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if "site-packages" in frame.filename or frame.filename.startswith(_HOME) or not frame.lineno:
            continue
        line = (frame.line or linecache.getline(frame.filename, frame.lineno)).strip()
        return f" (line {frame.lineno}: {line[:100]})" if line else f" (line {frame.lineno})"
    return ""
