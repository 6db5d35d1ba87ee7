"""`python -m benchmarks.against REVISION`: this tree beside an older revision, in one run: is anything slower, or less accurate?

For each problem each tree has a process, which imports its own carom and compiles with an empty cache; then the two take turns, run
by run, on one core, so that what else the machine does hits both alike. The older revision is checked out into a temporary
worktree. Counted are processor seconds, which other processes lengthen little: of the whole call, of the run inside it, and of the
first call, which holds the compilation. Of many short runs the least counts: it is the one that was disturbed least.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ORDER_4, TRAPEZOIDAL = "order 4", "trapezoidal"
# name: (what, rule, steps), runs of some ten milliseconds; a tenth of the steps with --quick
PROBLEMS = {
    "P1 particle": ("particle", ORDER_4, 90_000),
    "P1 particle, order 2": ("particle", TRAPEZOIDAL, 90_000),
    "P2 star": ("star", ORDER_4, 90_000),
    "P3 10,000 particles": ("lanes", TRAPEZOIDAL, 400),
    "bars, 102 nodes": ("bars 50", TRAPEZOIDAL, 20_000),
    "bars, 10 002 nodes": ("bars 5000", TRAPEZOIDAL, 256),
    "beam, 11 nodes": ("beam", TRAPEZOIDAL, 10_000),
}
LANES = 10_000
HEADER = [
    "problem",
    "whole call: before",
    "now",
    "ratio",
    "run alone: before",
    "now",
    "ratio",
    "first call s: before",
    "now",
    "ratio",
]
HEADER += ["energy error before", "now"]


# -- in the process of a tree: only what both revisions have -------------------------------------------------------------


def prepare(what: str, rule: str, steps: int) -> Any:
    """A function that runs the problem once and returns (seconds of the run, largest energy error)."""
    import numpy as np

    import carom

    chosen = carom.Composition(carom.Trapezoidal(), 4) if rule == ORDER_4 else carom.Trapezoidal()
    method = carom.VariationalCollision(chosen)
    kind, _, number = what.partition(" ")
    if kind == "lanes":
        model = carom.models.particle()
        rng = np.random.default_rng(1)
        q0 = np.stack([np.zeros(LANES), rng.uniform(0.5, 1.5, LANES)], axis=1)
        v0 = np.stack([rng.normal(size=LANES), np.zeros(LANES)], axis=1)

        def lanes():
            run = carom.ensemble(model.system, method, q0, v0, dt=0.01, num_steps=steps, params=model.params)
            return run.seconds, float(np.max(np.abs(run.energy_error)))

        return lanes
    if kind == "bars":
        model = carom.models.bars(elements=(int(number), int(number)), integrator=1)
        method = carom.VariationalCollision(chosen, elastic="reflection")
    else:
        model = carom.models.beam(height=20.0) if kind == "beam" else getattr(carom.models, kind)()

    def one():
        run = model.solve(method, num_steps=steps, progress=False)
        return run.seconds, float(np.max(np.abs(run.energy_error)))

    return one


def work() -> None:
    """Read a request per line, answer with a line: a problem that is new is prepared and run once before it counts."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    ready: dict[str, Any] = {}
    answers = os.fdopen(os.dup(1), "w")  # what a library prints does not disturb the answers
    os.dup2(2, 1)
    time.perf_counter = time.process_time  # what carom reads: `solution.seconds` are processor seconds here
    import carom  # noqa: F401

    for line in sys.stdin:
        name, what, rule, steps = json.loads(line)
        try:
            ready[name] = ready.get(name) or prepare(what, rule, steps)
            clock = time.process_time()
            seconds, error = ready[name]()
            answer = {"processor": time.process_time() - clock, "seconds": seconds, "error": error}
        except Exception as problem:
            answer = {"failed": f"{type(problem).__name__}: {problem}"[:150]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


# -- here ----------------------------------------------------------------------------------------------------------------


class Tree:
    """A process that works with the carom of one folder."""

    def __init__(self, folder: Path, stderr: Any):
        drop = ("JAX_COMPILATION_CACHE_DIR", "PYTHONPATH")
        environment = {k: v for k, v in os.environ.items() if k not in drop}
        more = os.environ.get("CAROM_AGAINST_PATH", "")  # packages that the interpreter lacks
        environment |= {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), more))), "JAX_ENABLE_COMPILATION_CACHE": "false"}
        environment |= {"CAROM_CACHE_DIR": tempfile.mkdtemp(prefix="carom-against-")}
        self.cache = environment["CAROM_CACHE_DIR"]
        command = [sys.executable, "-P", str(Path(__file__).resolve()), "--work"]
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
        )

    def ask(self, name: str, problem: tuple[str, str, int]) -> dict:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write((json.dumps([name, *problem]) + "\n").encode())
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"failed": "the process has died"}

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.cache, ignore_errors=True)


@contextlib.contextmanager
def worktree(revision: str):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(place), revision], cwd=ROOT, check=True)
        try:
            yield place
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(place)], cwd=ROOT, check=False)


def compare(places: tuple[Path, Path], problems: dict[str, tuple[str, str, int]], processes: int, repeats: int) -> list[dict]:
    records = []
    for name, problem in problems.items():
        record: dict[str, Any] = {"problem": name, "steps": problem[2], "first": [[], []], "runs": [[], []]}
        for _ in range(processes):
            turns(record, places, name, problem, repeats)
            if "failed" in record:
                break
        print(name, *row(record), file=sys.stderr, flush=True)
        records.append(record)
    return records


def turns(record: dict, places: tuple[Path, Path], name: str, problem: tuple[str, str, int], repeats: int) -> None:
    """A new process for each tree, and `repeats` runs of both in turns."""
    trees = [Tree(place, subprocess.DEVNULL) for place in places]
    try:
        for k in range(repeats + 1):
            for side in (0, 1) if k % 2 == 0 else (1, 0):
                answer = trees[side].ask(name, problem)
                if "failed" in answer:
                    record["failed"] = answer["failed"]
                    return
                record["runs" if k else "first"][side].append(answer)
    finally:
        for tree in trees:
            tree.close()


def row(record: dict) -> list[str]:
    """The least of each, before and now, and their ratio."""
    if "failed" in record:
        return [record["problem"], record["failed"], *[""] * (len(HEADER) - 2)]
    cells = [record["problem"]]
    for kind, key in (("runs", "processor"), ("runs", "seconds"), ("first", "processor")):
        old, new = (min(answer[key] for answer in side) for side in record[kind])
        per_step = [f"{1e6 * s / record['steps']:.3g} µs" if kind == "runs" else f"{s:.1f}" for s in (old, new)]
        cells += [*per_step, f"{new / old:.2f}"]
    return [*cells, *(f"{side[0]['error']:.1e}" for side in record["first"])]


def markdown(records: list[dict], revision: str, processes: int, repeats: int) -> str:
    name = lambda rev: subprocess.run(["git", "log", "-1", "--format=%h %s", rev], cwd=ROOT, capture_output=True, text=True).stdout  # noqa: E731
    load = f", load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores" if hasattr(os, "getloadavg") else ""
    how = f"The least of {repeats} runs in each of {processes} processes, in turns, on one core{load}."
    lines = ["# Beside an older revision", "", f"Before: {name(revision).strip()}", "", f"Now: {name('HEAD').strip()}", "", how]
    lines += ["Processor time per step; of the first call, with an empty cache, in all. A ratio below 1 is a gain.", ""]
    lines += ["| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row(record)) + " |" for record in records), ""])


def main(argv: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("revision", nargs="?", default="HEAD", help="the older one")
    options.add_argument("--repeats", type=int, default=15, help="runs in each process")
    options.add_argument("--processes", type=int, default=2, help="for each problem and tree: first calls that are measured")
    options.add_argument("--only", default="", help="problems whose names begin so, with commas")
    options.add_argument("--quick", action="store_true", help="a tenth of the steps")
    options.add_argument("--out", type=Path, default=ROOT / "benchmarks")
    options.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args(argv)
    if chosen.work:
        return work()
    wanted = tuple(filter(None, chosen.only.split(","))) or ("",)
    problems = {k: (a, b, max(n // 10, 100) if chosen.quick else n) for k, (a, b, n) in PROBLEMS.items() if k.startswith(wanted)}
    with worktree(chosen.revision) as place:
        records = compare((place, ROOT), problems, chosen.processes, chosen.repeats)
    text = markdown(records, chosen.revision, chosen.processes, chosen.repeats)
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "against.md").write_text(text)
    (chosen.out / "against.json").write_text(json.dumps(records, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main()
