"""A pure run and its derivatives, each as a program of its own.

Under `jax.grad` numbers are still numbers while JAX writes down what becomes of their changes. So the run is a program of numbers,
and so is the linear map from changes of what is given to changes of the run, or its transpose: programs that are kept, and found
again in another process (`carom.kept`). Only what moves is differentiated, and of the results only those that somebody has asked
for. Inside `jax.jit` or `jax.vmap` of somebody else all of it becomes part of their program.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from carom.kept.keep import keep_small
from carom.methods.loop import Chunk
from carom.methods.method import State
from carom.methods.replay import Run, advanced, once_only, run
from carom.xla.linear_pair import linear_pair

PLACES = 1  # q, among the columns of a run: what most ask for. With p beside it the program would take twice as long to compile
REVERSED = "LinearizeTracer"  # what JAX traces with under `jax.grad`, `jax.vjp`; under another name nothing is compiled ahead


def pure_run(given: Any, num_steps: int, max_impacts: int) -> Run:
    """`given`: method, system, params, q, v, t and dt."""
    arrays, rest = eqx.partition(given, eqx.is_array)
    leaves, tree = jax.tree.flatten(arrays)
    # Arrays, all of them: which leaves move is told by their places, and the programs below count again.
    whole = lambda leaves: eqx.combine(jax.tree.unflatten(tree, [_array(x) for x in leaves]), rest)  # noqa: E731
    still = [jax.lax.stop_gradient(x) if isinstance(x, jax.core.Tracer) else x for x in leaves]

    def expect(shapes: Any) -> None:
        """The way back will be wanted, most likely from q: it is traced while XLA compiles the way there."""
        out, chunk = jax.tree.map(_stand_in, shapes)
        moving = tuple(i for i, x in enumerate(leaves) if isinstance(x, jax.core.Tracer) and eqx.is_inexact_array(x))
        cotangents = [x if i == PLACES else None for i, x in enumerate(jax.tree.leaves(eqx.filter(out, eqx.is_inexact_array)))]
        _pull.ahead(whole(jax.tree.map(_stand_in, still)), chunk, cotangents, num_steps, max_impacts, moving)

    back = any(type(x).__name__ == REVERSED for x in leaves)
    out, chunk = _forwards(whole(still), num_steps, max_impacts, meanwhile=expect if back else None)
    real, others = eqx.partition(out, eqx.is_inexact_array)
    columns, shape = jax.tree.flatten(real)

    @jax.custom_jvp
    def values(leaves, columns, chunk):
        return columns

    def derivative(primals, tangents):
        leaves, columns, chunk = [_array(x) for x in primals[0]], *primals[1:]
        known = [once_only(x) if eqx.is_inexact_array(x) else x for x in leaves], chunk
        moving = tuple(i for i, x in enumerate(leaves) if _moves(x, tangents[0][i]))

        def push(known: Any, changes: list[Any]) -> list[Any]:
            return _push(whole(known[0]), known[1], changes, num_steps, max_impacts, moving)

        def pull(known: Any, cotangents: list[Any]) -> list[Any]:
            return _pull(whole(known[0]), known[1], cotangents, num_steps, max_impacts, moving)

        return columns, linear_pair(push, pull, known, [_array(tangents[0][i]) for i in moving], columns)

    values.defjvp(derivative, symbolic_zeros=True)
    return eqx.combine(jax.tree.unflatten(shape, values(leaves, columns, chunk)), others)


def _array(x: Any) -> Any:
    """What JAX has found below a tracer may be a plain number, which would be part of the program; so may a tangent."""
    return x if eqx.is_array(x) else np.asarray(x)


def _stand_in(x: Any) -> np.ndarray:
    """Of the same shape and type, in no memory."""
    return np.broadcast_to(np.zeros((), x.dtype), x.shape)


def _moves(x: Any, change: Any) -> bool:
    return eqx.is_inexact_array(x) and not isinstance(change, SymbolicZero)


def _start(method: Any, system: Any, params: Any, q, v, t, dt) -> State:
    return State(t, q, system.bind(params, q.shape[0]).momentum(q, v, t))


@keep_small
def _forwards(given: Any, num_steps: int, max_impacts: int) -> tuple[Run, Chunk]:
    method, system, params, *_, dt = given
    parts = method, system, params, _start(*given), dt, num_steps, max_impacts
    chunk = advanced(*parts, None)
    return run(*parts, chunk=chunk), chunk


def _linearized(given: Any, chunk: Chunk, num_steps: int, max_impacts: int, moving: tuple[int, ...]) -> tuple[Any, list[Any]]:
    """The columns of a run whose steps are known, as a function of what moves; and what moves."""
    arrays, rest = eqx.partition(given, eqx.is_array)
    leaves, tree = jax.tree.flatten(arrays)

    def columns(some: list[Any]) -> list[Any]:
        now = list(leaves)
        for i, x in zip(moving, some, strict=True):
            now[i] = x
        method, system, params, *more, dt = eqx.combine(jax.tree.unflatten(tree, now), rest)
        start = _start(method, system, params, *more, dt)
        out = run(method, system, params, start, dt, num_steps, max_impacts, chunk=chunk)
        return jax.tree.leaves(eqx.filter(out, eqx.is_inexact_array))

    return columns, [leaves[i] for i in moving]


@keep_small
def _push(given: Any, chunk: Chunk, changes: list[Any], num_steps: int, max_impacts: int, moving: tuple[int, ...]) -> list[Any]:
    columns, some = _linearized(given, chunk, num_steps, max_impacts, moving)
    values, rates = jax.jvp(columns, (some,), (changes,))
    return [jnp.where(jnp.isnan(value), jnp.nan, rate) for value, rate in zip(values, rates, strict=True)]


@keep_small
def _pull(given: Any, chunk: Chunk, cotangents: list[Any], num_steps: int, max_impacts: int, moving: tuple[int, ...]) -> list[Any]:
    """None among the cotangents: what nobody has asked for. What depends on numbers that are not there, those after a failure, has
    no derivative; zero would be taken for one."""
    columns, some = _linearized(given, chunk, num_steps, max_impacts, moving)
    wanted = [i for i, cotangent in enumerate(cotangents) if cotangent is not None]
    values, back = jax.vjp(lambda some: [columns(some)[i] for i in wanted], some)
    asked = [cotangents[i] for i in wanted]
    missing = [jnp.any(jnp.isnan(value) & (cotangent != 0)) for value, cotangent in zip(values, asked, strict=True)]
    spoiled = jnp.any(jnp.stack(missing)) if missing else False
    return [jnp.where(spoiled, jnp.nan, change) for change in back(asked)[0]]
