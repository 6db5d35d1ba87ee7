"""`python -m benchmarks`: all tools, one after the other in every round, on one core."""

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
COLD_TIMEOUT = 300


def pin() -> int:
    """Stay on one core, so that every tool has the same; before JAX starts its threads."""
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


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
    command = [sys.executable, "-m", "benchmarks", "--cold", f"{tool.key},{problem.key},{steps}"]
    out = subprocess.run(command, cwd=HERE.parent, env=environment, capture_output=True, text=True, timeout=COLD_TIMEOUT)
    if out.returncode:
        raise RuntimeError(out.stderr.strip().splitlines()[-1])
    return json.loads(out.stdout.strip().splitlines()[-1])


def measure(problem, tools, steps: int, repeats: int, cold_repeats: int, say) -> list[dict]:
    """One record per tool. A tool that fails is reported with its message, and the others go on."""
    records, runners = [], {}
    for tool in tools:
        record = {"problem": problem.key, "tool": tool.key, "label": tool.label, "steps": steps, "seconds": [], "cold": []}
        records.append(record)
        if tool.missing():
            record["skipped"] = f"not installed: {', '.join(tool.missing())}"
            continue
        say(f"{problem.key} {tool.key}: compiling and a first run")
        try:
            runners[tool.key] = tool.prepare(problem, steps)[1]
            record |= judge(problem, runners[tool.key]())
        except Exception as error:
            runners.pop(tool.key, None)
            record["skipped"] = f"failed: {error}"
    for i in range(repeats):
        for record in records:
            if record["tool"] in runners:
                say(f"{problem.key} {record['tool']}: round {i + 1} of {repeats}")
                gc.collect()
                record["seconds"].append(runners[record["tool"]]().seconds)
    for i in range(cold_repeats):
        for tool, record in zip(tools, records, strict=True):
            if tool.compiles and "skipped" not in record:
                say(f"{problem.key} {tool.key}: cold start {i + 1} of {cold_repeats}")
                record["cold"].append(cold_in_subprocess(tool, problem, steps))
    return records


def judge(problem, run) -> dict:
    return {
        "energy_error": problem.energy_error(run.q, run.v),
        "penetration": problem.penetration(run.q),
        "impacts": run.impacts,
        "fallbacks": run.fallbacks,
        "rows": len(run.q),
    }


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="carom and other tools, side by side on one core")
    parser.add_argument("--quick", action="store_true", help="a tenth of the steps, 3 rounds, 1 cold start; into out/benchmarks")
    parser.add_argument("--repeats", type=int, help="rounds (7)")
    parser.add_argument("--cold-repeats", type=int, help="cold starts per tool and problem, 0 for none (3)")
    parser.add_argument("--steps", type=int, help="steps of every problem, for trials")
    parser.add_argument("--only", help="problems, such as P1 or P1,P2")
    parser.add_argument("--no-peers", action="store_true", help="carom alone")
    parser.add_argument("--out", type=Path, help="folder for results.md, results.json and speed.png (benchmarks/)")
    parser.add_argument("--cold", help=argparse.SUPPRESS)
    chosen = parser.parse_args(argv)
    chosen.repeats = chosen.repeats or (3 if chosen.quick else 7)
    if chosen.cold_repeats is None:
        chosen.cold_repeats = 1 if chosen.quick else 3
    chosen.out = chosen.out or (HERE.parent / "out" / "benchmarks" if chosen.quick else HERE)
    return chosen


def main(argv: list[str] | None = None) -> None:
    chosen = arguments(argv)
    core = pin()
    if chosen.cold:
        key, problem_key, steps = chosen.cold.split(",")
        print(json.dumps(cold(key, problem_key, int(steps))))
        return
    from benchmarks import report
    from benchmarks.peers import TOOLS
    from benchmarks.problems import PROBLEMS

    keys = chosen.only.split(",") if chosen.only else list(PROBLEMS)
    unknown = [key for key in keys if key not in PROBLEMS]
    if unknown:
        sys.exit(f"no problem {', '.join(unknown)}; there are {', '.join(PROBLEMS)}")
    records = []
    for key in keys:
        problem = PROBLEMS[key]
        tools = [tool for tool in TOOLS if key in tool.problems and (tool.key.startswith("carom") or not chosen.no_peers)]
        steps = chosen.steps or (problem.quick_steps if chosen.quick else problem.steps)
        records += measure(problem, tools, steps, chosen.repeats, chosen.cold_repeats, lambda text: print(text, file=sys.stderr))
    report.write(records, report.machine(core, chosen.repeats, chosen.cold_repeats), chosen.out)


if __name__ == "__main__":
    main()
