"""`python -m benchmarks.bodies_device`: 1000 and more balls settle in a box, large contact problems on a device or on the host.

Each goes on for --patience seconds; the table has what steps took on the clock, the worst certificate, and how many programs were
compiled. Written to --out, if given.
"""

import argparse
import time
from collections import Counter
from pathlib import Path

import jax
import numpy as np

from benchmarks.bodies_heaps import DT, TOLERANCE, world_of
from carom.bodies.large_on_device import placed_on
from carom.bodies.stepping import Stepper
from carom.numerics.blas_threads import one_thread
from carom.numerics.friction import device_proximal, on_device


def settle(name: str, device: str | None, patience: float, steps: int) -> dict:
    scene, state = world_of(name, 3).scene()
    stepper = Stepper(placed_on(scene, device), TOLERANCE)
    stepper.begin(state, DT)
    each, contacts, stages, worst, missed = [], [], Counter(), 0.0, 0
    with one_thread():
        while len(each) < steps and sum(each) < patience:
            clock = time.perf_counter()
            state, record = stepper.step(state, DT * len(each), DT)
            each.append(time.perf_counter() - clock)
            contacts.append(len(record.tables[-1].contacts))
            stages[record.stage] += 1
            worst, missed = max(worst, record.residual), missed + (not record.converged)
            if not np.any(state.v):
                break
    return {"each": each, "contacts": contacts, "stages": stages, "worst": worst, "missed": missed}


def row(name: str, device: str | None, found: dict) -> str:
    each, contacts = np.array(found["each"]), np.array(found["contacts"])
    full = contacts >= 0.5 * contacts.max(initial=0)
    stages = ", ".join(f"{stage} {count}" for stage, count in found["stages"].most_common())
    programs = on_device._advance._cache_size() + device_proximal.advance._cache_size()
    return (
        f"| {name} | {device or 'host alone'} | {len(each)} | {contacts[-1]} | {1e3 * np.median(each[full]):.0f} "
        f"| {1e3 * each.max():.0f} | {1e3 * np.mean(each[-10:]):.0f} | {found['worst']:.0e} "
        f"| {found['missed']} | {stages} | {programs} |"
    )


def main(argv: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--names", nargs="*", default=["heap-ball-10-10-10"], help="heap-ball-ACROSS-ALONG-LAYERS")
    options.add_argument("--devices", nargs="*", choices=("gpu", "cpu", "host"), default=["gpu", "host"])
    options.add_argument("--patience", type=float, default=60.0)
    options.add_argument("--steps", type=int, default=1000)
    options.add_argument("--out", type=Path)
    chosen = options.parse_args(argv)
    lines = [
        f"{jax.devices()[0].device_kind}, jax {jax.__version__}; steps of {DT} s, tolerance of E {TOLERANCE:g}, at most",
        f"{chosen.patience:g} s each. Median: of steps with at least half as many contacts as the most; the slowest compiles.",
        "",
        "| scene | device | steps | contacts | ms a step, median | slowest | last ten | worst E | missed | stages | programs |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in chosen.names:
        for device in chosen.devices:
            device = None if device == "host" else device
            lines.append(row(name, device, settle(name, device, chosen.patience, chosen.steps)))
            print(lines[-1], flush=True)
            if chosen.out:
                chosen.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
