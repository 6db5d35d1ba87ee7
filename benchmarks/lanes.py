"""`python -m benchmarks.lanes`: ensembles on whatever JAX finds, all cores of a CPU or a GPU; trajectory-steps per second.

P3 is 10 000 particles above an elastic floor for 2000 steps of 0.01, each from a height and with a speed of its own. The same is
run with more lanes, with both rules, in float32, and for the star, the pendulum and bodies in space. The time is that of
`carom.ensemble` after compilation: from host arrays to host arrays.
"""

import argparse
import json
import platform
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import carom
from benchmarks.common import statistics

METHODS = {
    "trapezoidal": carom.VariationalCollision(carom.Trapezoidal()),
    "composition:4": carom.VariationalCollision(carom.Composition(carom.Trapezoidal(), 4)),
    "moreau-jean": carom.MoreauJean(),
}
INERTIA = np.array([0.3, 0.5, 0.7])
TIPS = 0.3 * np.array([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]])


def _thrown(q, v, params):
    """Unit mass, in body axes."""
    return 0.5 * v[:3] @ (INERTIA * v[:3]) + 0.5 * v[3:] @ v[3:] - params["gravity"] * q[6]


def _tip_heights(q):
    w, r = q[0], q[1:4]
    return q[6] + (TIPS + 2 * jnp.cross(r, jnp.cross(r, TIPS) + w * TIPS))[:, 2]


def jack() -> carom.models.Model:
    """A jack with six tips on an elastic floor, by its Lagrangian on SE(3): the general way to write a rigid body."""
    system = carom.System(_thrown, [carom.Contact(_tip_heights, name="tip")], space=carom.SE3())
    turn = np.array([0.9, 0.3, -0.2, 0.25]) / np.linalg.norm([0.9, 0.3, -0.2, 0.25])
    start = [*turn, 0.0, 0.0, 0.8]
    return carom.models.Model(
        "jack", "a jack on a floor", system, start, [1.0, -2.0, 0.5, 0.2, 0.1, -0.5], {"gravity": 9.81}, 0.01, 50
    )


def model_of(name: str) -> carom.models.Model:
    return jack() if name == "jack" else getattr(carom.models, name)()


def lanes_of(model, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Starts of a model, each with another height (or angle) and speed."""
    rng = np.random.default_rng(seed)
    q0s, v0s = np.tile(model.q0, (count, 1)).astype(float), np.tile(model.v0, (count, 1)).astype(float)
    if model.name == "pendulum":
        q0s[:, 0] = rng.uniform(-1.5, -0.3, count)
    elif q0s.shape != v0s.shape:  # on rotations, where a pose stays one: another speed
        v0s *= 1 + 0.1 * rng.normal(size=(count, 1))
    else:
        q0s[:, 1] += rng.uniform(-0.5, 0.5, count)
        v0s[:, 0] += rng.normal(size=count)
    return q0s, v0s


def runner(name: str, rule: str, count: int, steps: int, dtype: str = "float64"):
    """A function that runs the ensemble once and tells what it found."""
    model = model_of(name)
    q0s, v0s = lanes_of(model, count)
    method = METHODS[rule]

    def run() -> dict:
        clock = time.process_time()
        out = carom.ensemble(
            model.system, method, q0s, v0s, dt=model.dt, num_steps=steps, params=model.params, dtype=np.dtype(dtype), progress=False
        )
        error = np.abs(out.energy_error[out.ok])
        return {
            "impacts": int(out.num_impacts.sum()),
            "failed": int(np.sum(~out.ok)),
            "energy_error_median": float(np.median(error)),
            "energy_error_max": float(np.max(error)),
            "compile_seconds": out.compile_seconds,
            "processor_seconds": time.process_time() - clock,  # of all of it: what compiling costs on a machine that has other work
            "seconds": out.seconds,
        }

    return run


def measure(name: str, rule: str, count: int, steps: int, dtype: str, repeats: int) -> dict:
    run = runner(name, rule, count, steps, dtype)
    first, again = run(), [run() for _ in range(repeats)]
    seconds, processor = ([one[key] for one in again] for key in ("seconds", "processor_seconds"))
    rates = statistics([count * steps / s for s in seconds])
    known = {"model": name, "rule": rule, "lanes": count, "steps": steps, "dtype": dtype}
    found = {"rate": rates["median"], "rate_best": rates["max"], "spread": rates["spread"]}
    found["rate_per_core"] = count * steps / min(processor)  # in processor time, checks included: what a busy machine cannot change
    return known | found | first | {"seconds": seconds}


def machine() -> dict:
    device = jax.devices()[0]
    return {"device": device.device_kind, "platform": device.platform, "devices": len(jax.devices()), "jax": jax.__version__,
            "python": platform.python_version()}  # fmt: skip


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lanes", description="ensembles, trajectory-steps per second")
    parser.add_argument("cases", nargs="+", help="model,rule,lanes,steps,dtype such as particle,trapezoidal,10000,2000,float64")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="a JSON file; cases are added to what it holds")
    chosen = parser.parse_args(argv)
    records = []
    for case in chosen.cases:
        name, rule, count, steps, dtype = case.split(",")
        record = measure(name, rule, int(count), int(steps), dtype, chosen.repeats)
        print(json.dumps(record), flush=True)
        records.append(record)
        if chosen.out:
            before = json.loads(chosen.out.read_text())["records"] if chosen.out.exists() else []
            same = lambda a, b: all(a[k] == b[k] for k in ("model", "rule", "lanes", "steps", "dtype"))  # noqa: E731
            kept = [r for r in before if not any(same(r, new) for new in records)]
            chosen.out.write_text(json.dumps({"machine": machine(), "records": kept + records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
