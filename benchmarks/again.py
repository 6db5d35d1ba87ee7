"""`python -m benchmarks.again [--beside TREE]`: what `solve` takes beyond the run when it is called again with other numbers.

One process for each tree, which take turns, on one core. Counted is processor time, of a call less that of its run
(`solution.seconds`, with the same clock), over many calls: the least, and the median, which a busy machine lengthens.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = ("particle", "star", "pendulum", "double_pendulum", "rolling_disk", "bars")
STEPS, CALLS = 100, 200
PROCESS = """
import json, os, sys, time
if hasattr(os, "sched_setaffinity"):  # threads of XLA that wait for work would be counted, too
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
time.perf_counter = time.process_time  # what carom reads
import numpy as np
import carom

name, steps, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
model = getattr(carom.models, name)()
start = np.asarray(model.q0, float), np.asarray(model.v0, float)
method = model.method if getattr(model, "method", None) is not None else carom.VariationalCollision(carom.Trapezoidal())
whole, over = [], []
for i in range(calls + 3):
    v0 = start[1] * (1 + 1e-9 * i)
    clock = time.process_time()
    run = carom.solve(model.system, method, start[0], v0, dt=model.dt, num_steps=steps, params=model.params, progress=False)
    whole.append(time.process_time() - clock)
    over.append(whole[-1] - run.seconds)
print(json.dumps({"call": whole[3:], "over": over[3:]}))
"""


def measured(tree: Path, model: str) -> dict[str, list[float]]:
    environment = os.environ | {"PYTHONPATH": str(tree)}
    command = [sys.executable, "-c", PROCESS, model, str(STEPS), str(CALLS)]
    ran = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stderr.strip().splitlines()[-1])
    return json.loads(ran.stdout.strip().splitlines()[-1])


def markdown(rows: list[list[str]], beside: bool) -> str:
    sides = ("before", "now") if beside else ("now",)
    header = ["model", *(f"{side}: least, median" for side in sides), *(["ratio of the least"] if beside else [])]
    lines = [
        "# `solve` again, with other numbers",
        "",
        f"Milliseconds of processor beyond the run, {CALLS} calls of {STEPS} steps; wanted: 0.5.",
    ]
    lines += [
        "",
        "| " + " | ".join(header) + " |",
        "|---" * len(header) + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
    ]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--beside", type=Path, help="another checkout")
    options.add_argument("--only", default="", help="models, with commas")
    options.add_argument("--out", type=Path, default=ROOT / "benchmarks")
    chosen = options.parse_args(argv)
    trees = [*([chosen.beside.resolve()] if chosen.beside else []), ROOT]
    rows = []
    for model in filter(None, chosen.only.split(",")) if chosen.only else MODELS:
        found = [[*measured(tree, model)["over"]] for _ in range(2) for tree in trees]
        over = [[*found[i], *found[i + len(trees)]] for i in range(len(trees))]
        cells = [f"{1e3 * min(each):.2f}, {1e3 * statistics.median(each):.2f}" for each in over]
        rows.append([model, *cells, *([f"{min(over[1]) / min(over[0]):.2f}"] if chosen.beside else [])])
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    load = f"- Load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.\n" if hasattr(os, "getloadavg") else ""
    text = markdown(rows, chosen.beside is not None) + "\n" + load
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "again.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
