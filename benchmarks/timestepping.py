"""`python -m benchmarks.timestepping`: Moreau–Jean of carom and of Siconos on the ball, the cradle and the stack, on one core.

Siconos is optional (Debian: python3-siconos). It is looked for in the interpreter that SICONOS_PYTHON names, or else in this one
and in the system's. The same steps, laws and parameters for both: θ = 1/2, dt as below, and for each the time to step, everything
compiled before.
"""

import argparse
import json
import os
import subprocess
import sys
from functools import cache

from benchmarks import common

GRAVITY = 9.81
SIDE = common.HERE / "siconos_side.py"
SYSTEM_PYTHON = "/usr/bin/python3"
SHARE = {"whole": 1, "quick": 10, "tiny": 100}
HEADER = ["problem", "µs per step", "min", "spread", "times carom", "final positions apart"]
PROBLEMS = {
    "ball": {"about": "ball on a floor, e = 0.9, until it rests", "dt": 0.005, "steps": 20_000},
    "cradle": {"about": "ten touching balls, e = 1, one impulse", "dt": 0.01, "steps": 2_000},
    "stack": {"about": "ten boxes at rest, friction 0.5", "dt": 0.01, "steps": 1_000},
}


def carom_runner(key: str, dt: float, steps: int):
    import carom

    models = {
        "ball": lambda: carom.models.zeno_ball(GRAVITY, 0.9),
        "cradle": lambda: carom.models.cradle(10),
        "stack": lambda: carom.models.stack(10),
    }
    model = models[key]()

    def run() -> dict:
        solution = model.solve(carom.MoreauJean(), dt=dt, num_steps=steps, progress=False)
        return {"seconds": solution.seconds, "start": solution.q[0].tolist(), "end": solution.q[-1].tolist()}

    return run


@cache
def siconos_python() -> str | None:
    """An interpreter that can import Siconos."""
    named = os.environ.get("SICONOS_PYTHON")
    for python in [named] if named else [sys.executable, SYSTEM_PYTHON]:
        try:
            if not subprocess.run([python, "-c", "import siconos.kernel"], capture_output=True).returncode:
                return python
        except OSError:
            continue
    return None


def siconos_runner(key: str, dt: float, steps: int):
    python = siconos_python()
    if python is None:
        raise RuntimeError("Siconos was not found; SICONOS_PYTHON names an interpreter that has it")

    def run() -> dict:
        out = subprocess.run([python, str(SIDE), json.dumps([key, dt, steps])], capture_output=True, text=True)
        if out.returncode:
            raise RuntimeError(out.stderr.strip().splitlines()[-1])
        return json.loads(out.stdout.strip().splitlines()[-1])

    return run


def distance(q: list[float], other: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(q, other, strict=True))


def measure(chosen: argparse.Namespace) -> list[dict]:
    records = []
    for key, problem in PROBLEMS.items():
        dt, steps = problem["dt"], problem["steps"] // SHARE[chosen.size]
        cases = [
            common.Case({"problem": key, "label": label, "dt": dt, "steps": steps}, lambda r=runner, a=(key, dt, steps): r(*a))
            for label, runner in (("carom", carom_runner), ("Siconos", siconos_runner))
        ]
        ours, theirs = common.take_turns(cases, chosen.repeats)
        if "median" in ours and "median" in theirs:
            theirs["ratio"] = theirs["median"] / ours["median"]
            theirs["apart"] = distance(ours["end"], theirs["end"])
        records += [ours, theirs]
    return records


def _cells(r: dict) -> list[str]:
    cells = [f"{1e6 * r['median'] / r['steps']:.3g}", f"{1e6 * r['min'] / r['steps']:.3g}", common.percent(r["spread"])]
    return [*cells, common.short(r["ratio"]) if "ratio" in r else "", f"{r['apart']:.1e}" if "apart" in r else ""]


def sections(records: list[dict], chosen: argparse.Namespace) -> list[common.Section]:
    rows = [common.row(r, f"{PROBLEMS[r['problem']]['about']}: {r['label']}", _cells, len(HEADER)) for r in records]
    stacks = [
        f"{r['label']}'s by {distance(r['start'], r['end']):.1e}" for r in records if r["problem"] == "stack" and "median" in r
    ]
    notes = ["The stack should stay at rest; it moves, " + ", ".join(stacks) + "."] if stacks else []
    return [common.Section("Time stepping: Moreau–Jean of carom and of Siconos", HEADER, rows, notes)]


def main(argv: list[str] | None = None) -> None:
    options = common.parser("timestepping", "Moreau–Jean of carom and of Siconos on one core")
    common.run_part("timestepping", sys.modules[__name__], options.parse_args(argv), one_core=True)


if __name__ == "__main__":
    main()
