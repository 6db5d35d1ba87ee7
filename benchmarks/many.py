"""`python -m benchmarks.many`: P3 (an ensemble) and P5 (a gas of discs), on all cores, and how the time grows with their size.

P3: 10 000 particles above an elastic floor, 2000 steps of 0.01, heights from 0.5 to 1.5; trajectory-steps per second. The limit is
a program for this one problem: Verlet in numba on all cores, the impact in closed form, nothing kept but the last state.
P5: 1000 discs in a box for 10 s, about 66 000 pair collisions.
"""

import argparse
import json
import math
import os
import time
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.lanes import lanes_of, machine, measure

HERE = Path(__file__).resolve().parent
GRAVITY = 9.81


def limit(count: int, steps: int, repeats: int) -> dict:
    """numba by hand."""
    import numba

    import carom

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

    seconds = []
    for _ in range(repeats + 1):
        q, v = lanes_of(carom.models.particle(), count)
        clock = time.perf_counter()
        fall(q, v, 0.01, steps)
        seconds.append(time.perf_counter() - clock)
    rates = [count * steps / s for s in seconds[1:]]
    return {"model": "particle", "rule": "numba by hand", "lanes": count, "steps": steps, "dtype": "float64", "rate": median(rates),
            "rate_best": max(rates), "spread": (max(rates) - min(rates)) / median(rates), "seconds": seconds[1:]}  # fmt: skip


def gas(kind: str, count: int, end: float, speed: float, repeats: int) -> dict:
    import carom

    billiard = getattr(carom.models, kind)(count, speed=speed)
    runs = [billiard.solve(dt=end / 4, num_steps=4) for _ in range(repeats)]
    seconds = [run.seconds for run in runs]
    return {
        "model": kind,
        "bodies": count,
        "seconds": seconds,
        "median": median(seconds),
        "best": min(seconds),
        "spread": (max(seconds) - min(seconds)) / median(seconds),
        "pairs": int(runs[-1].pairs[-1]),
        "walls": int(runs[-1].walls[-1]),
        "energy_error": float(np.max(np.abs(runs[-1].energy_error))),
        "momentum_error": float(np.max(runs[-1].momentum_error)),
        "smallest_gap": float(runs[-1].smallest_gap.min()),
    }


def markdown(data: dict) -> str:
    where = f"{data['machine']['device']}, {data['cores']} cores; load average at the start {data['load']:.1f} (below 1: quiet)."
    lines = ["# Many trajectories, many bodies", "", f"Written by `python -m benchmarks.many`. {where}", ""]
    lines += [
        "## P3 and larger ensembles",
        "",
        "| model | rule | lanes | M trajectory-steps/s, median | best | spread | largest energy error |",
    ]
    lines += ["|---|---|---|---|---|---|---|"]
    for r in data["lanes"]:
        error = f"{r['energy_error_max']:.1e}" if "energy_error_max" in r else ""
        lines.append(
            f"| {r['model']} | {r['rule']} | {r['lanes']:,} | {r['rate'] / 1e6:.1f} | {r['rate_best'] / 1e6:.1f} "
            f"| {100 * r['spread']:.0f} % | {error} |"
        )
    lines += [
        "",
        "## P5 and larger gases",
        "",
        "| bodies | s, median | best | pair collisions | µs per collision | energy error | smallest gap |",
    ]
    lines += ["|---|---|---|---|---|---|---|"]
    for r in data["gases"]:
        each = 1e6 * r["best"] / r["pairs"]
        lines.append(
            f"| {r['bodies']:,} {r['model']} | {r['median']:.3f} | {r['best']:.3f} | {r['pairs']:,} | {each:.2f} "
            f"| {r['energy_error']:.1e} | {r['smallest_gap']:.1e} |"
        )
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many", description="P3 and P5, and their scaling")
    parser.add_argument("--quick", action="store_true", help="P3 and P5 alone, small")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE, help="folder for many.json and many.md")
    chosen = parser.parse_args(argv)
    load, repeats = os.getloadavg()[0], chosen.repeats
    sizes = [1_000] if chosen.quick else [10_000, 1_000, 100_000]
    steps = 200 if chosen.quick else 2000
    lanes = [measure("particle", "trapezoidal", size, steps, "float64", repeats) for size in sizes]
    lanes.append(limit(sizes[0], steps, repeats))
    gases = [gas("discs", 1000, 10.0, 5.42, repeats)]
    if not chosen.quick:
        lanes.append(measure("particle", "composition:4", 10_000, 2000, "float64", repeats))
        gases += [gas("discs", n, 1.0, 1.0, 2) for n in (1_000, 10_000, 100_000)]
        gases += [gas("spheres", n, 1.0, 1.0, 2) for n in (1_000, 10_000, 100_000)]
    cores = len(os.sched_getaffinity(0))
    data = {"machine": machine(), "cores": cores, "load": load, "repeats": repeats, "lanes": lanes, "gases": gases}
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "many.json").write_text(json.dumps(data, indent=1) + "\n")
    (chosen.out / "many.md").write_text(markdown(data))
    print(markdown(data))


if __name__ == "__main__":
    main()
