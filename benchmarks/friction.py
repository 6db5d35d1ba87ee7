"""The contact solver on problems of real scenes (a folder of *.npz) and on made-up ones: certificate, stage, time.

`python -m benchmarks.friction FOLDER` writes friction.md beside this file; without a folder only the made-up scenes are measured.
"""

import argparse
import os
import platform
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
from scipy import sparse

from benchmarks import friction_scenes as scenes
from carom.numerics.friction.problem import FrictionProblem
from carom.numerics.friction.stages import solve_friction

HEADER = "| problem | contacts | rows of W | E | stage | iterations | CPU s | least wall s |\n|---|---|---|---|---|---|---|---|"
COUNTED = "| problems | number | missed | worst E of the others | median CPU s | most CPU s |\n|---|---|---|---|---|---|"
FACTORS = (0, 0.1, 0.3, 0.5, 0.7, 1.5, 3, 5)
MADE = {
    "stack of 10 boxes": lambda rng: scenes.stack(rng, 10, 1.5),
    "stack of 30 boxes": lambda rng: scenes.stack(rng, 30),
    "stack of 8 boxes, masses 1e6 : 1": lambda rng: scenes.stack(rng, 8, spread=6),
    "pile of 100 balls": lambda rng: scenes.pile(rng, 100),
    "pile of 30 balls, masses 1e6 : 1": lambda rng: scenes.pile(rng, 30, spread=6),
    "pile of 30 discs": lambda rng: scenes.pile(rng, 30, 1.5, dimension=2),
    "60 rocks, friction 1": lambda rng: scenes.rocks(rng, 60),
    "100 rocks, friction 1": lambda rng: scenes.rocks(rng, 100),
    "wedge of 30 contacts": lambda rng: scenes.wedge(rng, 30),
    "chain of 8 balls with joints": lambda rng: scenes.chain(rng, 8),
}


def load(file: Path) -> FrictionProblem:
    data = np.load(file)
    W = sparse.csr_matrix((data["W_data"], data["W_indices"], data["W_indptr"]), data["W_shape"])
    return FrictionProblem.from_delassus(W, data["q"], data["mu"])


def row(name: str, problem: FrictionProblem, repeats: int) -> str:
    runs, times = [], []
    for _ in range(repeats):
        begin = time.process_time()
        runs.append(solve_friction(problem))
        times.append(time.process_time() - begin)
    best = min(runs, key=lambda run: run.seconds)
    return (
        f"| {name} | {len(problem.friction)} | {len(problem.q)} | {best.residual:.0e} | {best.stage} | {best.iterations} "
        f"| {median(times):.3f} | {best.seconds:.3f} |"
    )


def changed(problem: FrictionProblem) -> list[FrictionProblem]:
    """A real problem as it might have been: other friction, other velocities before (by impulses, so that they fit), half of its
    contacts. Whoever looks at the six alone does not see whether the stages were fitted to them."""
    made = [replace(problem, friction=factor * problem.friction) for factor in FACTORS]
    contacts, size = len(problem.friction), np.linalg.norm(problem.q)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        kick = problem.delassus @ rng.normal(size=len(problem.q))
        made.append(replace(problem, q=problem.q + 0.3 * size / np.linalg.norm(kick) * kick))
        rows = 3 * np.sort(rng.choice(contacts, contacts // 2, replace=False))[:, None] + np.arange(3)
        made.append(problem.part(rows.ravel()))
    return made


def many(name: str, problems: Iterable[FrictionProblem]) -> str:
    runs, times = [], []
    for problem in problems:
        begin = time.process_time()
        runs.append(solve_friction(problem))
        times.append(time.process_time() - begin)
    missed = sum(not run.converged for run in runs)
    worst = max((run.residual for run in runs if run.converged), default=np.nan)
    return f"| {name} | {len(runs)} | {missed} | {worst:.0e} | {median(times):.3f} | {max(times):.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--count", type=int, default=20, help="made-up scenes of each kind")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "friction.md")
    chosen = parser.parse_args()
    load_before = os.getloadavg()[0]
    lines = [
        "# Contact problems with friction",
        "",
        f"`python -m benchmarks.friction`, {platform.machine()}, {os.cpu_count()} cores.",
        "",
    ]
    if chosen.folder:
        lines += ["## Problems of real scenes, tolerance 1e-10, no setting changed between them", "", HEADER]
        for file in sorted(chosen.folder.glob("*.npz")):
            lines.append(row(file.stem, load(file), chosen.repeats))
        lines += [
            "",
            f"## The same with friction times {', '.join(map(str, FACTORS))}, with five kicks, and five halves of each",
            "",
        ]
        lines += [COUNTED, *(many(file.stem, changed(load(file))) for file in sorted(chosen.folder.glob("*.npz")))]
    lines += ["", "## Made-up scenes, one after the other", "", COUNTED]
    for name, make in MADE.items():
        lines.append(many(name, (make(np.random.default_rng(seed)).problem() for seed in range(chosen.count))))
    lines += [
        "",
        f"Load average {load_before:.1f} before and {os.getloadavg()[0]:.1f} after: wall times are those of a shared machine.",
    ]
    chosen.out.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
