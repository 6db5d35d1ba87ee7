"""`python -m benchmarks.against REVISION`: this tree beside an older revision, in one run: is anything slower, or less accurate?

Each tree has one process, which imports its own carom and compiles; then the two take turns, problem by problem and round by
round, so that what else the machine does hits both alike. The older revision is checked out into a temporary worktree. A ratio
is that of one round, new to old; the table has its median and its range, and the ratio of the least times, which a busy machine
disturbs least.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ORDER_4, TRAPEZOIDAL = "order 4", "trapezoidal"
# name: (what, rule, steps); short ones with --quick
PROBLEMS = {
    "P1 particle": ("particle", ORDER_4, 90_000),
    "P1 particle, order 2": ("particle", TRAPEZOIDAL, 90_000),
    "P2 star": ("star", ORDER_4, 90_000),
    "P3 10,000 particles": ("lanes", TRAPEZOIDAL, 2_000),
    "bars, 102 nodes": ("bars 50", TRAPEZOIDAL, 20_000),
    "bars, 10 002 nodes": ("bars 5000", TRAPEZOIDAL, 1_000),
    "beam, 11 nodes": ("beam", TRAPEZOIDAL, 10_000),
}
LANES = 10_000
HEADER = [
    "problem",
    "before",
    "now",
    "ratio",
    "range",
    "ratio of the least",
    "energy error before",
    "now ",
    "compile s before",
    "now  ",
]


# -- in the process of a tree: only what both revisions have -------------------------------------------------------------


def prepare(what: str, rule: str, steps: int) -> Any:
    """A function that runs the problem once and returns (seconds, largest energy error, seconds of compilation)."""
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
            clock = time.perf_counter()
            run = carom.ensemble(model.system, method, q0, v0, dt=0.01, num_steps=steps, params=model.params)
            seconds = time.perf_counter() - clock
            energy = np.asarray(run.energy)
            return seconds, float(np.max(np.abs(energy[:, -1] / energy[:, 0] - 1))) if energy.shape[1] > 1 else 0.0, 0.0

        return lanes
    if kind == "bars":
        model = carom.models.bars(elements=(int(number), int(number)), integrator=1)
        method = carom.VariationalCollision(chosen, elastic="reflection")
    else:
        model = carom.models.beam(height=20.0) if kind == "beam" else getattr(carom.models, kind)()

    def one():
        run = model.solve(method, num_steps=steps, progress=False)
        return run.seconds, float(np.max(np.abs(run.energy_error))), run.compile_seconds

    return one


def work() -> None:
    """Read a request per line, answer with a line: a problem that is new is prepared and run once before it counts."""
    ready: dict[str, Any] = {}
    answers = os.fdopen(os.dup(1), "w")  # what a library prints does not disturb the answers
    os.dup2(2, 1)
    for line in sys.stdin:
        name, what, rule, steps = json.loads(line)
        try:
            if name not in ready:
                clock = time.perf_counter()
                ready[name] = prepare(what, rule, steps)
                first = ready[name]()
                answer = {"error": first[1], "compile": first[2] or time.perf_counter() - clock - first[0]}
            else:
                answer = {"seconds": ready[name]()[0]}
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}"[:150]}
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


@contextlib.contextmanager
def worktree(revision: str):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(place), revision], cwd=ROOT, check=True)
        try:
            yield place
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(place)], cwd=ROOT, check=False)


def compare(old: Tree, new: Tree, problems: dict[str, tuple[str, str, int]], repeats: int) -> list[dict]:
    records = []
    for name, problem in problems.items():
        first = [tree.ask(name, problem) for tree in (old, new)]
        record: dict[str, Any] = {"problem": name, "steps": problem[2], "first": first, "old": [], "new": []}
        failed = [answer["failed"] for answer in first if "failed" in answer]
        for k in range(0 if failed else repeats):
            pair = [("old", old), ("new", new)]
            for key, tree in pair if k % 2 == 0 else pair[::-1]:
                record[key].append(tree.ask(name, problem).get("seconds", float("nan")))
        record |= (
            {"failed": "; ".join(failed)}
            if failed
            else {"ratios": [b / a for a, b in zip(record["old"], record["new"], strict=True)]}
        )
        print(name, record.get("failed") or f"{median(record['ratios']):.2f}", file=sys.stderr, flush=True)
        records.append(record)
    return records


def row(record: dict) -> list[str]:
    if "failed" in record:
        return [record["problem"], record["failed"], *[""] * (len(HEADER) - 2)]
    old, new = ([1e6 * s / record["steps"] for s in record[key]] for key in ("old", "new"))
    ratios, (a, b) = record["ratios"], record["first"]
    cells = [
        f"{median(old):.3g} µs",
        f"{median(new):.3g} µs",
        f"{median(ratios):.2f}",
        f"{min(ratios):.2f}–{max(ratios):.2f}",
        f"{min(new) / min(old):.2f}",
    ]
    return [record["problem"], *cells, f"{a['error']:.1e}", f"{b['error']:.1e}", f"{a['compile']:.1f}", f"{b['compile']:.1f}"]


def markdown(records: list[dict], revision: str, repeats: int) -> str:
    name = lambda rev: subprocess.run(["git", "log", "-1", "--format=%h %s", rev], cwd=ROOT, capture_output=True, text=True).stdout  # noqa: E731
    load = f", load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    lines = [
        "# Beside an older revision",
        "",
        f"Before: {name(revision).strip()}",
        "",
        f"Now: {name('HEAD').strip()} (and what is not committed)",
        "",
    ]
    lines += [f"Time per step, {repeats} rounds in turns{load}; a ratio below 1 is a gain.", ""]
    if load and os.getloadavg()[0] > (os.cpu_count() or 1):
        lines += ["The machine was busier than it has cores: of these ratios only that of the least times means something.", ""]
    lines += ["| " + " | ".join(cell.strip() for cell in HEADER) + " |", "|---" * len(HEADER) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row(record)) + " |" for record in records), ""])


def main(argv: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("revision", nargs="?", default="HEAD", help="the older one")
    options.add_argument("--repeats", type=int, default=7)
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
        trees = Tree(place, subprocess.DEVNULL), Tree(ROOT, subprocess.DEVNULL)
        try:
            records = compare(*trees, problems, chosen.repeats)
        finally:
            for tree in trees:
                tree.process.kill()
    text = markdown(records, chosen.revision, chosen.repeats)
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "against.md").write_text(text)
    (chosen.out / "against.json").write_text(json.dumps(records, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main()
