"""The trial of probe.py, a program of its own: a bouncing particle as one kernel and as many, which it may not survive.

It prints a JSON object: by how much the two differ, and how many times faster the kernel is; and then another, which says as well
whether finished programs load without the computation that they were compiled from (bare.py). It has what the programs of the
methods have: a loop that may end early, loops and branches inside, sealed calls, a history that is written row by row, whole
numbers and truth values among its arguments, an argument that matters only by its witness. Many kernels are certain where
something is sorted in every step, whatever a version of XLA makes of loops by itself.
"""

import json
import os
import sys
import time
import types
from functools import partial
from pathlib import Path
from typing import Any

STEPS, HALVINGS, DT = 1000, 8, 0.01
STAGES = (0.4, 0.4, -0.6, 0.4, 0.4)


def bounce(sorts, witness, q, v, gravity, count, active, unused):
    """A particle above a floor, step by step, the times of its impacts by bisection."""
    import jax
    import jax.numpy as jnp

    from carom.xla.kernel import once, sealed

    @sealed
    def flow(q, v, h):
        for part in STAGES:
            v = v - part * h * (gravity + 0.1 * q) / 2
            q = once(q + part * h * v)
            v = once(v - part * h * (gravity + 0.1 * q) / 2)
        return q, v, jnp.sum(gravity * q + 0.05 * q**2) + 0.5 * v @ v

    def hit(q, v):
        def halve(bracket):
            low, high, k = bracket
            middle = 0.5 * (low + high)
            above = flow(q, v, middle)[0][1] > 0
            return jnp.where(above, middle, low), jnp.where(above, high, middle), k + 1

        bracket = (0.0 * q[0], 0.0 * q[0] + DT, jnp.zeros((), jnp.int32))
        tau, _, _ = jax.lax.while_loop(lambda b: b[2] < HALVINGS, halve, bracket)
        q, v, _ = flow(q, v, tau)
        return flow(q, once(v - 2 * jnp.array([0.0, 1.0]) * v[1]), DT - tau)

    def step(carry):
        i, q, v, hits, middle, history = carry
        q_end, v_end, energy = flow(q, v, DT)
        below = q_end[1] < 0
        q, v, energy = jax.lax.cond(below, lambda: hit(q, v), lambda: (q_end, v_end, energy))
        history = jax.lax.dynamic_update_index_in_dim(history, jnp.concatenate([q, v, energy[None]]), i, 0)
        middle = jnp.sort(jnp.concatenate([q, v]))[1] if sorts else q[0]
        return i + 1, q, v, hits + below, middle, history

    start = (jnp.zeros((), jnp.int32), q, v, count, q[0], jnp.zeros((STEPS, 5)))
    go_on = lambda carry: (carry[0] < STEPS) & active & jnp.isfinite(witness) & jnp.isfinite(carry[4])  # noqa: E731
    return jax.lax.while_loop(go_on, step, start)


def made(hints: bool, sorts: bool) -> tuple[Any, tuple[Any, ...]]:
    """The program and its arguments."""
    import jax
    import jax.numpy as jnp

    from carom.xla.kernel import single_kernel

    os.environ["CAROM_SINGLE_KERNEL"] = str(int(hints))
    q, v, gravity = jnp.array([0.3, 1.0]), jnp.array([0.7, -2.0]), jnp.array([0.0, 9.81])
    args = (q, v, gravity, jnp.zeros((), jnp.int32), jnp.asarray(True), jnp.ones(3))
    return jax.jit(lambda *args: single_kernel(partial(bounce, sorts), *args)), args


def run(hints: bool) -> tuple[Any, float]:
    """Where it went, and the least of some times."""
    import jax
    import numpy as np

    program, args = made(hints, sorts=not hints)
    found, times = jax.block_until_ready(program(*args)), []
    for _ in range(7):
        clock = time.perf_counter()
        jax.block_until_ready(program(*args))
        times.append(time.perf_counter() - clock)
    return np.asarray(found[-1]), min(times)


def loads_bare(hints: bool) -> bool:
    """Is a program, written without its computation and loaded, what it was, bit by bit? (What sorts cannot be written at all.)"""
    import jax
    from jax.experimental.serialize_executable import deserialize_and_load, serialize

    from carom.xla.bare import bare

    program, args = made(hints, sorts=False)
    compiled, device = program.lower(*args).compile(), jax.devices()[0]
    try:
        whole, *trees = serialize(compiled)
        again = deserialize_and_load(bare(whole), *trees, device.client, [device])
        one, other = jax.device_get((compiled(*args), again(*args)))
    except Exception:
        return False
    same = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(a.tobytes() == b.tobytes() for a, b in same)


def main() -> None:
    """Only carom.xla is loaded: the rest of the library takes longer than the trial."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # an abort leaves no file behind
    except ImportError:
        pass
    sys.path[0] = str(Path(__file__).parents[2])  # instead of this folder
    package = types.ModuleType("carom")
    package.__path__ = [str(Path(__file__).parents[1])]
    sys.modules["carom"] = package
    import jax
    import numpy as np

    jax.config.update("jax_enable_x64", True)
    (many, slow), (kernel, fast) = run(False), run(True)
    difference = np.max(np.abs(kernel - many)) / np.max(np.abs(many))
    told = {"difference": float(difference), "gain": slow / fast, "seconds": [slow, fast], "bare": False}
    print(json.dumps(told), flush=True)  # what follows may end this process, too
    print(json.dumps(told | {"bare": loads_bare(False) and loads_bare(True)}))


if __name__ == "__main__":
    main()
