"""`python -m benchmarks.friction_device`: packings of balls with up to 10⁵ contacts by the first-order stage in one compiled
program, on the device that JAX has: a GPU, or the CPU.

Written to friction_device.md (or to --out): certificate, iterations, seconds with and without compilation, and memory.
"""

import argparse
import json
import platform
import time
from pathlib import Path

import jax
import numpy as np

import carom  # noqa: F401  (double precision)
from benchmarks import friction_scenes as scenes
from carom.numerics.friction.on_device import solve_on_device

SIZES = {"1e3": (5, 8), "1e4": (11, 16), "1e5": (24, 34)}
PACKINGS = {
    "regular, at rest": {"disorder": 0.0, "speed": 0.0},
    "disordered, at rest": {"disorder": 0.1, "speed": 0.0},
    "regular, shaken": {"disorder": 0.0, "speed": 0.02},
    "disordered, shaken": {"disorder": 0.1, "speed": 0.02},
}
TOLERANCE = 1e-8


def measure(size: str, name: str, patience: float, device: str | None) -> dict:
    problem = scenes.packing(np.random.default_rng(0), *SIZES[size], **PACKINGS[name])
    runs = []
    for _ in range(2):  # the second time everything is compiled
        runs.append(solve_on_device(problem, tolerance=TOLERANCE, max_iterations=10**7, seconds=patience, device=device))
        if not runs[0].converged:
            break
    first, last = runs[0], runs[-1]
    memory = (jax.devices(device)[0] if device else jax.devices()[0]).memory_stats() or {}
    return {
        "packing": name,
        "contacts": len(problem.friction),
        "bodies": problem.jacobian.shape[0] // 6,
        "E": last.residual,
        "iterations": last.iterations,
        "first_s": first.seconds,
        "seconds": last.seconds,
        "same": bool(np.array_equal(first.impulses, last.impulses)),
        "memory": memory.get("peak_bytes_in_use"),
    }


def table(rows: list[dict]) -> list[str]:
    lines = ["| packing | bodies | contacts | E | iterations | s | s with compiling | µs per iteration | most memory so far |"]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        memory = "–" if row["memory"] is None else f"{row['memory'] / 2**20:.0f} MiB"
        each = 1e6 * row["seconds"] / max(row["iterations"], 1)
        lines.append(
            f"| {row['packing']} | {row['bodies']} | {row['contacts']} | {row['E']:.0e} | {row['iterations']} "
            f"| {row['seconds']:.2f} | {row['first_s']:.2f} | {each:.0f} | {memory} |"
        )
    return lines


def main(argv: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sizes", nargs="*", choices=SIZES, default=list(SIZES))
    options.add_argument("--patience", type=float, default=20.0, help="seconds for each solution")
    options.add_argument("--device", choices=("gpu", "cpu"))
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "friction_device.md")
    chosen = options.parse_args(argv)
    device = jax.devices(chosen.device)[0] if chosen.device else jax.devices()[0]
    rows, begun = [], time.perf_counter()
    head = [
        "# Contact problems of many contacts, first order in one compiled program",
        "",
        f"Written by `python -m benchmarks.friction_device`. {device.device_kind}, jax {jax.__version__}, {platform.machine()};",
        f"tolerance of E {TOLERANCE:g}, {chosen.patience:g} s at most for each; friction 0.5. Shaken: velocities of",
        "a fifth of what gravity adds in a step.",
        "",
    ]
    for size in chosen.sizes:
        for name in PACKINGS:
            rows.append(measure(size, name, chosen.patience, chosen.device))
            print(json.dumps(rows[-1]), f"{time.perf_counter() - begun:.0f} s", flush=True)
            chosen.out.write_text("\n".join(head + table(rows)) + "\n")


if __name__ == "__main__":
    main()
