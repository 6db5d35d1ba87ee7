"""The trial of probe.py, a program of its own: a bouncing particle as one kernel and as many, which it may not survive.

It prints one JSON object: by how much the two differ, and how many times faster the kernel is. It has what the programs of the methods
have: a loop that may end early, loops and branches inside, sealed calls, a history that is written row by row, whole numbers and
truth values among its arguments, an argument that matters only by its witness.
"""

import json
import os
import sys
import time
import types
from pathlib import Path
from typing import Any

STEPS = 1000


def bounce(witness, q, v, gravity, count, active, unused):
    """A particle above a floor, step by step, the times of its impacts by bisection."""
    import jax
    import jax.numpy as jnp

    from carom.xla.kernel import once, sealed

    dt = 0.01
    flow = sealed(lambda q, v, h: (q + h * v - 0.5 * h**2 * gravity, v - h * gravity, jnp.sum(jnp.sin(q) ** 2) + 0.5 * v @ v))

    def hit(q, v):
        def halve(bracket):
            low, high, k = bracket
            middle = 0.5 * (low + high)
            above = flow(q, v, middle)[0][1] > 0
            return jnp.where(above, middle, low), jnp.where(above, high, middle), k + 1

        tau, _, _ = jax.lax.while_loop(lambda b: b[2] < 50, halve, (0.0 * q[0], 0.0 * q[0] + dt, jnp.zeros((), jnp.int32)))
        q, v, _ = flow(q, v, tau)
        v = once(v - 2 * jnp.array([0.0, 1.0]) * v[1])
        return flow(q, v, dt - tau)

    def step(carry):
        i, q, v, hits, history = carry
        q_end, v_end, energy = flow(q, v, dt)
        below = q_end[1] < 0
        q, v, energy = jax.lax.cond(below, lambda: hit(q, v), lambda: (q_end, v_end, energy))
        history = jax.lax.dynamic_update_index_in_dim(history, jnp.concatenate([q, v, energy[None]]), i, 0)
        return i + 1, q, v, hits + below, history

    start = (jnp.zeros((), jnp.int32), q, v, count, jnp.zeros((STEPS, 5)))
    go_on = lambda carry: (carry[0] < STEPS) & active & jnp.isfinite(witness)  # noqa: E731
    return jax.lax.while_loop(go_on, step, start)


def run(hints: bool) -> tuple[Any, float]:
    """Where it went, and the least of some times."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from carom.xla.kernel import single_kernel

    os.environ["CAROM_SINGLE_KERNEL"] = str(int(hints))
    program = jax.jit(lambda *args: single_kernel(bounce, *args))
    args = (
        jnp.array([0.3, 1.0]),
        jnp.array([0.7, -2.0]),
        jnp.array([0.0, 9.81]),
        jnp.zeros((), jnp.int32),
        jnp.asarray(True),
        jnp.ones(3),
    )
    found, times = jax.block_until_ready(program(*args)), []
    for _ in range(7):
        clock = time.perf_counter()
        jax.block_until_ready(program(*args))
        times.append(time.perf_counter() - clock)
    return np.asarray(found[-1]), min(times)


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
    (plain, slow), (kernel, fast) = run(False), run(True)
    difference = np.max(np.abs(kernel - plain)) / np.max(np.abs(plain))
    print(json.dumps({"difference": float(difference), "gain": slow / fast, "us": [1e6 * slow / STEPS, 1e6 * fast / STEPS]}))


if __name__ == "__main__":
    main()
