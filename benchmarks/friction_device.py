"""`python -m benchmarks.friction_device`: packings of balls with up to 10⁵ contacts, first order plus polish and first order alone,
in compiled programs on the device that JAX has: a GPU, or the CPU.

Written to friction_device.md (or to --out): certificate, the stage that ended it, iterations, seconds with and without compilation,
and memory. `--problems` names a folder of problems of settling heaps (*.pkl: problem, start, …), which are solved in their order.
"""

import argparse
import json
import pickle
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


def measure(size: str, name: str, patience: float, device: str | None, polish: bool) -> dict:
    problem = scenes.packing(np.random.default_rng(0), *SIZES[size], **PACKINGS[name])
    options = {"tolerance": TOLERANCE, "max_iterations": 10**7, "seconds": patience, "device": device, "polish": polish}
    runs = []
    for _ in range(2):  # the second time everything is compiled
        runs.append(solve_on_device(problem, **options))
        if not runs[0].converged:
            break
    first, last = runs[0], runs[-1]
    memory = (jax.devices(device)[0] if device else jax.devices()[0]).memory_stats() or {}
    return {
        "packing": name,
        "polish": polish,
        "contacts": len(problem.friction),
        "bodies": problem.jacobian.shape[0] // 6,
        "E": last.residual,
        "stage": last.stage,
        "iterations": last.iterations,
        "first_s": first.seconds,
        "seconds": last.seconds,
        "same": bool(np.array_equal(first.impulses, last.impulses)) if len(runs) > 1 else None,
        "memory": memory.get("peak_bytes_in_use"),
    }


def table(rows: list[dict]) -> list[str]:
    lines = ["| packing | bodies | contacts | polish | E | ended by | products | s | s with compiling | same again | most memory |"]
    lines.append("|---|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        memory = "–" if row["memory"] is None else f"{row['memory'] / 2**20:.0f} MiB"
        same = {None: "–", True: "yes", False: "no"}[row["same"]]
        lines.append(
            f"| {row['packing']} | {row['bodies']} | {row['contacts']} | {'yes' if row['polish'] else 'no'} | {row['E']:.0e} "
            f"| {row['stage'] if row['E'] <= TOLERANCE else 'missed'} | {row['iterations']} | {row['seconds']:.2f} "
            f"| {row['first_s']:.2f} | {same} | {memory} |"
        )
    return lines


def heaps(folder: Path, patience: float, device: str | None) -> list[str]:
    """Problems of steps of settling heaps, warm started, twice; seconds are of the second time."""
    lines = [
        "",
        "| problem | contacts | E | ended by | products | s | of which the programs | same again |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for file in sorted(folder.glob("*.pkl")):
        problem, start, *_ = pickle.loads(file.read_bytes())
        runs = [solve_on_device(problem, start, TOLERANCE, seconds=patience, device=device) for _ in range(2)]
        found, same = runs[1], np.array_equal(runs[0].impulses, runs[1].impulses)
        stage = found.stage if found.converged else "missed"
        lines.append(
            f"| {file.stem} | {len(problem.friction)} | {found.residual:.0e} | {stage} | {found.iterations} "
            f"| {found.seconds:.3f} | {found.programs:.3f} | {'yes' if same else 'no'} |"
        )
        print(lines[-1], flush=True)
    return lines


def main(argv: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sizes", nargs="*", choices=SIZES, default=list(SIZES))
    options.add_argument("--patience", type=float, default=20.0, help="seconds for each solution")
    options.add_argument("--device", choices=("gpu", "cpu"))
    options.add_argument("--alone", action="store_true", help="first order alone, too")
    options.add_argument("--problems", type=Path, help="a folder of problems")
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "friction_device.md")
    chosen = options.parse_args(argv)
    device = jax.devices(chosen.device)[0] if chosen.device else jax.devices()[0]
    rows, begun = [], time.perf_counter()
    head = [
        "# Contact problems of many contacts: first order plus polish in compiled programs",
        "",
        f"Written by `python -m benchmarks.friction_device`. {device.device_kind}, jax {jax.__version__}, {platform.machine()};",
        f"tolerance of E {TOLERANCE:g}, {chosen.patience:g} s at most for each; friction 0.5. Shaken: velocities of",
        "a fifth of what gravity adds in a step.",
        "",
    ]
    for size in chosen.sizes:
        for name in PACKINGS:
            for polish in (True, False) if chosen.alone else (True,):
                rows.append(measure(size, name, chosen.patience, chosen.device, polish))
                print(json.dumps(rows[-1]), f"{time.perf_counter() - begun:.0f} s", flush=True)
                chosen.out.write_text("\n".join(head + table(rows)) + "\n")
    if chosen.problems:
        lines = head + table(rows) + heaps(chosen.problems, chosen.patience, chosen.device)
        chosen.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
