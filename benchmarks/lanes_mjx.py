"""MJX on lanes whose starts lie in a file, for `lanes_methods`: without carom, in the interpreter that has MJX.

python -m benchmarks.lanes_mjx particle starts.npz
"""

import json
import sys
import time

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from mujoco import mjx

from benchmarks.problems import GRAVITY
from benchmarks.soft import _option

jax.config.update("jax_enable_x64", True)
CUBE = 0.5 * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
INERTIA = np.array([29 / 192, 29 / 192, 1 / 6])


def particle(dt: float) -> str:
    body = '<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>'
    body += '<geom type="sphere" size="0.1" pos="0 0 0.1" mass="1"/>'
    return _scene(dt, body)


def star_in_space(dt: float) -> str:
    """A cube with sides of length 1, and the star's inertia."""
    inertia = f'<inertial pos="0 0 0" mass="1" diaginertia="{INERTIA[0]} {INERTIA[1]} {INERTIA[2]}"/>'
    return _scene(dt, f'<freejoint/>{inertia}<geom type="box" size="0.5 0.5 0.5"/>')


def _scene(dt: float, body: str) -> str:
    floor = '<geom type="plane" size="0 0 1"/>'
    return f"<mujoco>{_option(dt, GRAVITY, 2 / dt**2)}<worldbody>{floor}<body>{body}</body></worldbody></mujoco>"


def turned(quaternion: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Rows of vectors by rows of unit quaternions."""
    w, r = quaternion[..., :1], quaternion[..., 1:]
    return vectors + 2 * np.cross(r, np.cross(r, vectors) + w * vectors)


def judged(name: str, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Energy and lowest gap of every lane."""
    if name == "particle":
        return 0.5 * np.sum(v**2, 1) + GRAVITY * q[:, 1], q[:, 1]
    energy = 0.5 * np.sum(v[:, :3] ** 2, 1) + 0.5 * v[:, 3:] ** 2 @ INERTIA + GRAVITY * q[:, 2]
    heights = q[:, 2:3] + turned(q[:, None, 3:], CUBE[None])[..., 2]
    return energy, heights.min(axis=1)


def main(name: str, file: str) -> None:
    given = np.load(file)
    steps, dt = int(given["steps"]), float(given["dt"])
    q0s, v0s = given["q0s"], given["v0s"]  # a body in space: place, quaternion; velocity in space, spin in the body, as in carom
    model = mjx.put_model(mujoco.MjModel.from_xml_string(globals()[name](dt)))
    blank = mjx.make_data(model)

    @jax.jit
    @jax.vmap
    def run(q, v):
        start = blank.replace(qpos=q, qvel=v)
        end = jax.lax.fori_loop(0, steps, lambda _, data: mjx.step(model, data), start)
        return end.qpos, end.qvel

    spent = []
    for _ in range(1 + int(given["repeats"])):
        clock, processor = time.perf_counter(), time.process_time()
        q, v = (np.asarray(x) for x in jax.block_until_ready(run(jnp.asarray(q0s), jnp.asarray(v0s))))
        spent.append((time.perf_counter() - clock, time.process_time() - processor))
    (before, _), (after, gaps) = judged(name, q0s, v0s), judged(name, q, v)
    error, work = np.abs(after / before - 1)[gaps >= 0], len(q0s) * steps
    seconds, processor = (min(x[i] for x in spent[1:]) for i in (0, 1))
    print(
        json.dumps({
            "rate": work / seconds,
            "rate_per_core": work / processor,
            "first": spent[0][0],
            "first_processor": spent[0][1],
            "energy_error": float(np.max(error)),
            "penetration": float(max(0.0, -np.min(gaps))),
        })
    )  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
