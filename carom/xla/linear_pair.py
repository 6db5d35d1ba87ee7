"""Functions that behave otherwise under a transformation: a fast form that `vmap` must not see, a linear map with its transpose, a
vector of numbers.

**Relies on** `jax.custom_batching.custom_vmap`, and on the three tables of rules that JAX documents for primitives of one's own
(`jax.interpreters`: `ad`, `batching`, `mlir`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

_Function = Callable[..., Any]


class unless_batched:
    """`fast`, and `plain` under `vmap`. Neither may close over traced values; derivatives are not taken of them."""

    def __init__(self, fast: _Function, plain: _Function):
        self.plain, self.call = plain, jax.custom_batching.custom_vmap(fast)

        @self.call.def_vmap
        def _(axis_size, in_batched, *args):
            axes = jax.tree.map(lambda batched: 0 if batched else None, in_batched)
            out = jax.vmap(plain, in_axes=tuple(axes), axis_size=axis_size)(*args)
            return out, jax.tree.map(lambda _: True, out)

    def __call__(self, *args):
        return self.call(*args)


def linear_pair(forward: _Function, backward: _Function, known: Any, tangent: list[Any], like: list[Any]) -> list[Any]:
    """forward(known, tangent), linear in `tangent`, with backward(known, cotangent) as its transpose; `like` are arrays, or shapes,
    like the results.

    `tangent` and the result are lists of arrays. Both functions may be wrapped by `unless_batched`: second derivatives are not
    taken, and under `vmap` each is mapped as it is. Neither is traced before it is needed. Where it is known that a cotangent is
    zero, `backward` is handed None in its place, and need not compute what comes of it.
    """
    leaves, tree = jax.tree.flatten(known)
    shapes, inputs = _shapes(like), _shapes(tangent)
    more = {"count": len(leaves), "shapes": shapes, "inputs": inputs, "given": (True,) * len(inputs)}
    return _pair.bind(*leaves, *tangent, forward=forward, backward=backward, tree=tree, **more)


def _shapes(arrays: Sequence[Any]) -> tuple[Any, ...]:
    return tuple((x.shape, x.dtype) for x in arrays)


_pair = Primitive("linear_pair")
_pair.multiple_results = True


def _apply(*args, forward, backward, tree, count, shapes, inputs, given):
    # JAX hands over numbers that it has written into a program (literals) as numbers: the functions were promised arrays.
    args = [x if isinstance(x, jax.Array | np.ndarray) else np.asarray(x) for x in args]
    moving = iter(args[count:])
    return forward(jax.tree.unflatten(tree, args[:count]), [next(moving) if there else None for there in given])


def _abstract(*args, shapes, **_):
    return [jax.core.ShapedArray(*shape) for shape in shapes]


def _jvp(primals, tangents, **params):
    count = params["count"]
    changes = [ad.instantiate_zeros(t) for t in tangents[count:]]
    return _pair.bind(*primals, **params), _pair.bind(*primals[:count], *changes, **params)


def _transpose(cotangents, *args, forward, backward, tree, count, shapes, inputs, given):
    there = tuple(type(c) is not ad.Zero for c in cotangents)
    if not any(there):
        return [None] * len(args)
    some = [c for c in cotangents if type(c) is not ad.Zero]
    pair = {"forward": backward, "backward": forward, "tree": tree, "count": count}
    out = _pair.bind(*args[:count], *some, **pair, shapes=inputs, inputs=shapes, given=there)
    return [None] * count + [x for x, wanted in zip(out, given, strict=True) if wanted]


def _batch(args, axes, *, forward, backward, tree, count, shapes, inputs, given):
    # None: not mapped. (Its name in `batching` is not in every version.)
    size = next(x.shape[axis] for x, axis in zip(args, axes, strict=True) if axis is not None)
    front = [x if a is None else jnp.moveaxis(x, a, 0) for x, a in zip(args, axes, strict=True)]
    known = jax.tree.unflatten(tree, [None if a is None else 0 for a in axes[:count]])
    moving = zip(front[count:], axes[count:], strict=True)
    tangent = [jnp.broadcast_to(x, (size, *x.shape)) if a is None else x for x, a in moving]
    # Straight to the plain form: `custom_vmap` would trace the fast one first, which takes as long, and nobody would run it.
    plain = lambda function: function.plain if isinstance(function, unless_batched) else function  # noqa: E731
    over = lambda function: jax.vmap(plain(function), in_axes=(known, 0), axis_size=size)  # noqa: E731
    shapes, inputs = (tuple(((size, *shape), dtype) for shape, dtype in which) for which in (shapes, inputs))
    pair = {"forward": over(forward), "backward": over(backward), "tree": tree, "count": count, "given": given}
    out = _pair.bind(*front[:count], *tangent, **pair, shapes=shapes, inputs=inputs)
    return out, [0] * len(out)


def stacked(*numbers: Any) -> Any:
    """A vector of numbers, some of which JAX is tracing. Where these are known, as they are under `jax.grad` alone, neither the
    vector nor its derivative is a program to be compiled."""
    moving = [i for i, x in enumerate(numbers) if isinstance(x, jax.core.Tracer)]
    if any(numbers[i].dtype != float for i in moving):
        return jnp.stack([jnp.asarray(x, float) for x in numbers])

    def filled(some: Sequence[Any], rest: Sequence[Any]) -> Any:
        whole = list(rest)
        for i, x in zip(moving, some, strict=True):
            whole[i] = x
        if any(isinstance(x, jax.core.Tracer) for x in whole):
            return jnp.stack([jnp.asarray(x, float) for x in whole])
        return jax.device_put(np.array([float(x) for x in whole]))

    def pull(_: Any, cotangents: list[Any]) -> list[Any]:
        known = not isinstance(cotangents[0], jax.core.Tracer)
        vector = np.asarray(cotangents[0]) if known else cotangents[0]
        return [jax.device_put(vector[i]) if known else vector[i] for i in moving]

    @jax.custom_jvp
    def vector(*some):
        return filled(some, numbers)

    @vector.defjvp
    def _(some, changes):
        out = filled(some, numbers)
        push = lambda _, changes: [filled(changes, [0.0] * len(numbers))]  # noqa: E731
        return out, linear_pair(push, pull, [], [x if hasattr(x, "dtype") else np.asarray(x) for x in changes], [out])[0]

    return vector(*(numbers[i] for i in moving))


_pair.def_impl(_apply)  # with numbers: the functions are programs of their own
_pair.def_abstract_eval(_abstract)
ad.primitive_jvps[_pair] = _jvp
ad.primitive_transposes[_pair] = _transpose
batching.primitive_batchers[_pair] = _batch
mlir.register_lowering(_pair, mlir.lower_fun(_apply, multiple_results=True))
