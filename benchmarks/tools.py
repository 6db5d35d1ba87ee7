"""`python -m benchmarks.tools`: P1 and P2, all tools, one after the other in every round, on one core."""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median

from benchmarks import common

COLD_TIMEOUT = 300
COLD_REPEATS = {"whole": 3, "quick": 1, "tiny": 0}
COMPILE_TARGET = 2.0
SPEED = ["tool", "µs per step", "min", "spread", "times carom", "energy error", "penetration", "impacts", "fallbacks"]
COLD = ["tool", "compile s", "first call s", "import s"]


def cold(key: str, problem_key: str, steps: int) -> dict:
    """Import and first call in this process, which has done nothing before."""
    from benchmarks.peers import TOOLS
    from benchmarks.problems import PROBLEMS

    (tool,) = [tool for tool in TOOLS if tool.key == key]
    clock = time.perf_counter()
    for name in tool.needs or ("carom",):
        __import__(name)
    imported = time.perf_counter()
    compile_seconds, run = tool.prepare(PROBLEMS[problem_key], steps)
    if not key.startswith("carom"):  # carom compiles in its first run, which has taken place by now
        run()
    return {"import": imported - clock, "compile": compile_seconds, "first": time.perf_counter() - imported}


def cold_in_subprocess(tool, problem, steps: int) -> dict:
    environment = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    environment["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    command = [sys.executable, "-m", "benchmarks.tools", "--cold", f"{tool.key},{problem.key},{steps}"]
    out = subprocess.run(command, cwd=common.HERE.parent, env=environment, capture_output=True, text=True, timeout=COLD_TIMEOUT)
    if out.returncode:
        raise RuntimeError(out.stderr.strip().splitlines()[-1])
    return json.loads(out.stdout.strip().splitlines()[-1])


def case(tool, problem, steps: int) -> common.Case:
    def prepare():
        run = tool.prepare(problem, steps)[1]
        return lambda: judge(problem, run())

    record = {"problem": problem.key, "tool": tool.key, "label": tool.label, "steps": steps, "cold": []}
    return common.Case(record, prepare, tool.needs)


def judge(problem, run) -> dict:
    return {
        "seconds": run.seconds,
        "energy_error": problem.energy_error(run.q, run.v),
        "penetration": problem.penetration(run.q),
        "impacts": run.impacts,
        "fallbacks": run.fallbacks,
        "rows": len(run.q),
    }


def measure(chosen: argparse.Namespace) -> list[dict]:
    from benchmarks.peers import TOOLS
    from benchmarks.problems import PROBLEMS

    records = []
    for key in chosen.problems:
        problem = PROBLEMS[key]
        tools = [tool for tool in TOOLS if key in tool.problems and (tool.key.startswith("carom") or not chosen.no_peers)]
        steps = problem.sizes[chosen.size]
        mine = common.take_turns([case(tool, problem, steps) for tool in tools], chosen.repeats)
        for i in range(chosen.cold_repeats):
            for tool, record in zip(tools, mine, strict=True):
                if tool.compiles and "skipped" not in record:
                    common.say(f"{key}, {tool.label}: cold start {i + 1} of {chosen.cold_repeats}")
                    record["cold"].append(cold_in_subprocess(tool, problem, steps))
        records += mine
    summarise(records)
    return records


def summarise(records: list[dict]) -> None:
    """Add µs per step, and the ratio to carom's default in the same problem."""
    for record in records:
        if "median" in record:
            record |= {f"us_{name}": 1e6 * record[name] / record["steps"] for name in ("median", "min", "max")}
        if record["cold"]:
            record |= {f"{name}_seconds": median(c[name] for c in record["cold"]) for name in ("import", "compile", "first")}
    for record in records:
        (carom,) = [r for r in records if (r["problem"], r["tool"]) == (record["problem"], "carom-4")]
        if "median" in record and "median" in carom:
            record["ratio"] = record["median"] / carom["median"]


def _speed_cells(r: dict) -> list[str]:
    ratio = common.short(r["ratio"]) if "ratio" in r else ""
    time = [f"{r['us_median']:.3g}", f"{r['us_min']:.3g}", common.percent(r["spread"]), ratio]
    depth = f"{r['penetration']:.1e}" if r["penetration"] else "0"
    fallbacks = "" if r["fallbacks"] is None else str(r["fallbacks"])
    return [*time, f"{r['energy_error']:.1e}", depth, str(r["impacts"]), fallbacks]


def _cold_row(r: dict) -> list[str]:
    return [r["label"], *(f"{r[name + '_seconds']:.2f}" for name in ("compile", "first", "import"))]


def tables(records: list[dict]) -> Iterator[common.Section]:
    from benchmarks.problems import PROBLEMS

    for key in dict.fromkeys(r["problem"] for r in records):
        mine = [r for r in records if r["problem"] == key]
        title = f"{key}: {PROBLEMS[key].about}, {mine[0]['steps']:,} steps"
        yield common.Section(title, SPEED, [common.row(r, r["label"], _speed_cells, len(SPEED)) for r in mine])
        cold = [_cold_row(r) for r in mine if r["cold"]]
        if cold:
            yield common.Section(f"{key}: cold start, each in a process of its own, without a compilation cache", COLD, cold)


def targets(records: list[dict]) -> list[str]:
    from benchmarks.problems import PROBLEMS

    lines = []
    for r in records:
        if r["tool"] != "carom-4":
            continue
        if "median" in r:
            us, goal = r["us_median"], PROBLEMS[r["problem"]].target
            lines.append(f"{r['problem']}: {us:.3g} µs per step, target {goal:g}: {'met' if us <= goal else 'MISSED'}")
        if r["cold"]:
            met = "met" if r["compile_seconds"] <= COMPILE_TARGET else "MISSED"
            lines.append(f"{r['problem']}: {r['compile_seconds']:.2f} s to compile, target {COMPILE_TARGET:g}: {met}")
    return lines


def sections(records: list[dict], chosen: argparse.Namespace) -> list[common.Section]:
    if any("median" in r for r in records):
        from benchmarks.pictures import speed

        chosen.out.mkdir(parents=True, exist_ok=True)
        speed(records, chosen.out / "speed.png")
    goals = common.Section("P1 and P2: targets, for carom with its default rule", [], [], targets(records))
    return [*tables(records), *([goals] if chosen.size == "whole" else [])]


def main(argv: list[str] | None = None) -> None:
    options = common.parser("tools", "P1 and P2: carom and other tools, side by side on one core")
    options.add_argument("--cold-repeats", type=int, help="cold starts per tool and problem, 0 for none (3, quick 1, tiny 0)")
    options.add_argument("--problems", type=lambda text: text.split(","), default=["P1", "P2"], help="P1 or P2 alone")
    options.add_argument("--no-peers", action="store_true", help="carom alone")
    options.add_argument("--cold", help=argparse.SUPPRESS)
    chosen = options.parse_args(argv)
    if chosen.cold:
        common.pin()
        key, problem_key, steps = chosen.cold.split(",")
        print(json.dumps(cold(key, problem_key, int(steps))))
        return
    if not set(chosen.problems) <= {"P1", "P2"}:
        options.error(f"--problems takes P1, P2 or both; got {','.join(chosen.problems)}")
    if chosen.cold_repeats is None:
        chosen.cold_repeats = COLD_REPEATS[chosen.size or "whole"]
    common.run_part("tools", sys.modules[__name__], chosen, one_core=True)


if __name__ == "__main__":
    main()
