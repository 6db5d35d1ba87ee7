"""P3 and P5 with other tools. Each function prepares one of them and returns a function that runs once and tells what it found.

The ensembles are split evenly over the cores, as carom does it.
"""

import math
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks import soft
from benchmarks.common import cores, timed
from benchmarks.peers import flights
from benchmarks.problems import GRAVITY, PARTICLE, Problem

WORLDS = 1000  # of MuJoCo at once: its rollout keeps all states


def starts(count: int, model: str = "particle") -> tuple[np.ndarray, np.ndarray]:
    import carom
    from benchmarks.lanes import lanes_of

    return lanes_of(carom.models.ALL[model](), count)


def verdict(seconds: float, q: np.ndarray, v: np.ndarray, q0s: np.ndarray, v0s: np.ndarray, problem: Problem = PARTICLE) -> dict:
    """Of the last states: the energy error of those in flight, and the mean height, in which tools that are right agree."""
    masses = np.array(problem.masses)
    before, after = (0.5 * b**2 @ masses + masses[1] * GRAVITY * a[:, 1] for a, b in ((q0s, v0s), (q, v)))
    error = np.abs(after / before - 1)[np.all(problem.gaps(q) >= 0, axis=1)]
    return {
        "seconds": seconds,
        "energy_error_median": float(np.median(error)),
        "energy_error_max": float(np.max(error)),
        "mean_height": float(np.mean(q[:, 1])),
        "penetration": problem.penetration(q),
    }


def numba_lanes(count: int, steps: int):
    """The limit: a program for this one problem."""
    import numba

    @numba.njit(parallel=True)
    def fall(q, v, dt, steps):
        for lane in numba.prange(len(q)):
            x, y, vx, vy = q[lane, 0], q[lane, 1], v[lane, 0], v[lane, 1]
            for _ in range(steps):
                x += dt * vx
                rest = dt
                below = y + rest * vy - 0.5 * GRAVITY * rest**2
                while below < 0:
                    tau = (vy + math.sqrt(vy**2 + 2 * GRAVITY * y)) / GRAVITY
                    vy, y, rest = GRAVITY * tau - vy, 0.0, rest - tau
                    below = rest * vy - 0.5 * GRAVITY * rest**2
                y = below
                vy -= GRAVITY * rest
            q[lane, 0], q[lane, 1], v[lane, 0], v[lane, 1] = x, y, vx, vy

    q0s, v0s = starts(count)

    def run() -> dict:
        q, v = q0s.copy(), v0s.copy()
        seconds, _ = timed(lambda: fall(q, v, PARTICLE.dt, steps))
        return verdict(seconds, q, v, q0s, v0s)

    return run


def diffrax_lanes(longest: float | None, count: int, steps: int, problem: Problem = PARTICLE):
    """The restart loop under vmap: all lanes wait for the last one. One thread per core, each with its share of lanes."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    flight, bounce = flights(problem, "Tsit5", dense=False, longest=longest, room=steps + 16)
    end, n = steps * problem.dt, len(problem.q0)

    def go_on(carry):
        fine, t, state = carry
        solution = flight(state, end - t)
        hit, after = solution.event_mask, solution.ys[-1]
        stop = jnp.where(hit, t + solution.ts[-1], end)
        fine &= hit | (t + solution.ts[-1] >= end)
        return fine, stop, jnp.where(hit, bounce(after), after)

    def simulate(state):
        fine, _, state = jax.lax.while_loop(lambda carry: carry[0] & (carry[1] < end), go_on, (True, 0.0, state))
        return fine, state

    q0s, v0s = starts(count, problem.model)
    parts = np.array_split(np.concatenate([q0s, v0s], axis=1), min(cores(), count))
    compiled = {len(part): jax.jit(jax.vmap(simulate)).lower(part).compile() for part in parts}

    def work(part):
        return [np.asarray(x) for x in compiled[len(part)](part)]

    def run() -> dict:
        clock = time.perf_counter()
        with ThreadPoolExecutor(len(parts)) as workers:
            fine, states = (np.concatenate(x) for x in zip(*workers.map(work, parts), strict=True))
        seconds = time.perf_counter() - clock
        if not fine.all():
            raise RuntimeError(f"{np.sum(~fine)} lanes needed more steps in a flight than there is room for")
        return verdict(seconds, states[:, :n], states[:, n:], q0s, v0s, problem)

    return run


def mujoco_lanes(count: int, steps: int):
    """`mujoco.rollout` with one thread per core."""
    model, (q0s, v0s) = soft.particle(PARTICLE.dt), starts(count)

    def run() -> dict:
        clock, last = time.perf_counter(), []
        for i in range(0, count, WORLDS):
            q, v = soft.rollout(model, q0s[i : i + WORLDS], v0s[i : i + WORLDS], steps, cores())
            last.append((q[:, -1].copy(), v[:, -1].copy()))
        seconds = time.perf_counter() - clock
        return verdict(seconds, *(np.concatenate(x) for x in zip(*last, strict=True)), q0s, v0s)

    return run


def carom_gas(kind: str, count: int, end: float, speed: float):
    import carom

    billiard = getattr(carom.models, kind)(count, speed=speed)

    def run() -> dict:
        out = billiard.solve(dt=end / 4, num_steps=4)
        return {
            "seconds": out.seconds,
            "pairs": int(out.pairs[-1]),
            "walls": int(out.walls[-1]),
            "energy_error": float(np.max(np.abs(out.energy_error))),
            "momentum_error": float(np.max(out.momentum_error)),
            "smallest_gap": float(out.smallest_gap.min()),
        }

    return run


def mujoco_gas(dt: float, stiffness: float, kind: str, count: int, end: float, speed: float):
    """The same discs with springs between them, in steps of dt, on one core. The energy is the kinetic one, at the end."""
    import carom

    billiard = getattr(carom.models, kind)(count, speed=speed)
    steps, radius, side = round(end / dt), float(billiard.radius[0]), float(billiard.box[0])
    model = soft.discs(dt, stiffness, count, radius, side)
    q0, v0 = billiard.q0.reshape(1, -1), billiard.v0.reshape(1, -1)

    def run() -> dict:
        seconds, (q, v) = timed(lambda: soft.rollout(model, q0, v0, steps))
        frames = q[0].reshape(steps, count, 2)[:: max(steps // 20, 1)]
        return {
            "seconds": seconds,
            "energy_error": float(np.sum(v[0, -1] ** 2) / np.sum(v0**2) - 1),
            "smallest_gap": min(_smallest_gap(frame, radius, side) for frame in frames),
        }

    return run


def _smallest_gap(q: np.ndarray, radius: float, side: float) -> float:
    """Between discs, and to the walls; below zero they overlap."""
    apart = np.linalg.norm(q[:, None] - q, axis=-1)
    np.fill_diagonal(apart, np.inf)
    return float(min(apart.min() - 2 * radius, q.min() - radius, side - q.max() - radius))
