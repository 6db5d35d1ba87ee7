"""`python -m benchmarks.lanes_cluster`: an ensemble of 10⁸ particles over workers of dask, one of which is killed on the way.

The starts lie in a file that is read in slices, and the results go to a zarr store: what is measured is the time, and the memory of
the process that hands out the work beside that of the same call with a hundredth of the lanes. Lanes drawn at random are computed
again by one process alone and must be the same, bit by bit. Written to lanes_cluster.json and .md here.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np

import carom

HERE = Path(__file__).parent
METHOD = carom.VariationalCollision(carom.Trapezoidal())
SLICE = 1 << 20  # lanes written to the file of starts at once


def starts(path: Path, count: int) -> np.ndarray:
    """Heights and speeds of their own, in a file."""
    rng = np.random.default_rng(0)
    rows = np.memmap(path, float, "w+", shape=(count, 2))
    for i in range(0, count, SLICE):
        rows[i : i + SLICE, 0] = 0.0
        rows[i : i + SLICE, 1] = rng.uniform(0.5, 1.5, len(rows[i : i + SLICE]))
    rows.flush()
    return np.memmap(path, float, "r", shape=(count, 2))


class Watch:
    """The most memory that a process of its own uses, from now until it is asked, in MiB: files that are mapped do not count."""

    def __init__(self) -> None:
        self.most, self.going = 0.0, True
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def _look(self) -> None:
        while self.going:
            with open("/proc/self/status") as file:
                anonymous = next(line for line in file if line.startswith("RssAnon"))
            self.most = max(self.most, int(anonymous.split()[1]) / 1024)
            time.sleep(0.05)

    def end(self) -> float:
        self.going = False
        self.thread.join()
        return self.most


def once(
    folder: Path, count: int, workers: int, steps: int, block: int, kill_after: float | None
) -> tuple[dict, object, np.ndarray]:
    from distributed import LocalCluster

    folder.mkdir(parents=True, exist_ok=True)
    q0s, model = starts(folder / f"q0s-{count}", count), carom.models.particle()
    options = {"dt": model.dt, "num_steps": steps, "params": model.params}
    with LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        killed = cluster.workers[0].process.process.pid
        if kill_after is not None:
            threading.Timer(kill_after, os.kill, (killed, signal.SIGKILL)).start()
        watch, clock = Watch(), time.perf_counter()
        where = {"cluster": cluster.scheduler_address, "out": folder / f"lanes-{count}.zarr", "block": block}
        found = carom.ensemble(model.system, METHOD, q0s, [1.0, 0.0], **options, **where)
        seconds, most = time.perf_counter() - clock, watch.end()
    size = sum(file.stat().st_size for file in where["out"].rglob("*") if file.is_file())
    row = {"lanes": count, "steps": steps, "workers": workers, "seconds": seconds, "memory_MiB": most, "store_GiB": size / 2**30}
    return row | {"killed": kill_after is not None}, found, q0s


def same(found, q0s: np.ndarray, steps: int, sample: int) -> int:
    """How many of a sample of lanes differ in any bit from what one process finds."""
    model, rng = carom.models.particle(), np.random.default_rng(1)
    lanes = np.sort(rng.choice(len(q0s), min(sample, len(q0s)), replace=False))
    alone = carom.ensemble(
        model.system, METHOD, np.array(q0s[lanes]), [1.0, 0.0], dt=model.dt, num_steps=steps, params=model.params
    )
    q, p = (found[name].isel(lane=lanes).values for name in "qp")
    return int(np.sum(np.any((q != alone.q) | (p != alone.p), axis=tuple(range(1, q.ndim)))))


def main(argv: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--lanes", type=float, default=1e8)
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    options.add_argument("--block", type=int, default=1 << 18)
    options.add_argument("--sample", type=int, default=10_000)
    options.add_argument(
        "--folder", type=Path, default=Path("out/lanes-cluster"), help="for the starts and the store; emptied before"
    )
    options.add_argument("--out", type=Path, default=HERE)
    chosen = options.parse_args(argv)
    shutil.rmtree(chosen.folder, ignore_errors=True)
    rows = []
    for count, kill in ((int(chosen.lanes / 100), None), (int(chosen.lanes), 20.0)):
        row, found, q0s = once(chosen.folder, count, chosen.workers, chosen.steps, chosen.block, kill)
        row["complete"] = bool(np.all(found.steps_taken.values == chosen.steps))
        row["sample"], row["differ"] = chosen.sample, same(found, q0s, chosen.steps, chosen.sample)
        rows.append(row)
        print(json.dumps(row), flush=True)
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "lanes_cluster.json").write_text(json.dumps(rows, indent=1) + "\n")
    (chosen.out / "lanes_cluster.md").write_text(table(rows))


def table(rows: list[dict]) -> str:
    lines = [
        "# Lanes over a cluster",
        "",
        f"`python -m benchmarks.lanes_cluster`: particles, trapezoidal rule, {rows[0]['steps']} steps; one machine with",
        f"{os.cpu_count()} cores of {platform.machine()}, Python {sys.version.split()[0]}. Memory: the most that the process takes",
        "which hands out blocks and writes results. The last column: lanes drawn at random that differ in any bit from what one",
        "process finds.",
        "",
        "| lanes | workers | s | M trajectory-steps/s | memory MiB | store GiB | a worker killed | all there | differ |",
    ]
    lines += ["|---|---|---|---|---|---|---|---|---|"]
    lines += [
        f"| {r['lanes']:,} | {r['workers']} | {r['seconds']:.0f} | {1e-6 * r['lanes'] * r['steps'] / r['seconds']:.0f} "
        f"| {r['memory_MiB']:.0f} | {r['store_GiB']:.2f} | {'yes' if r['killed'] else 'no'} | {'yes' if r['complete'] else 'NO'} "
        f"| {r['differ']} of {r['sample']:,} |"
        for r in rows
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
