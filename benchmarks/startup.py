"""`python -m benchmarks.startup [--beside TREE]`: how long a new process takes to its first result, with an empty and with a filled
cache; and so in another tree of carom, in turns.

Each measurement is a process of its own that imports carom, builds a model and solves it. The cache is a temporary folder; the
trial that asks whether programs run as one kernel, once per machine and version, is made before and listed apart. Modules are
compiled to bytecode before, as those of an installed package are.
"""

import argparse
import compileall
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import common

GRADIENT = """
import jax
model = carom.models.particle()
method = carom.VariationalCollision(carom.Composition(carom.Trapezoidal(), 4))
def height(x):
    return carom.rollout(model.system, method, [0.0, x], [0.0, 0.0], dt=0.01, num_steps=100, params=model.params).q[-1][1]
float(jax.grad(height)(1.0))
"""
# name, what it does after the import, and the seconds wanted with an empty cache
PENDULUM_GRADIENT = """
import jax, jax.numpy as jnp
model = carom.models.double_pendulum()
q0, v0 = jnp.asarray(model.q0, float), jnp.asarray(model.v0, float)
def angle(x):
    options = {"dt": model.dt, "num_steps": 100, "params": model.params}
    return carom.rollout(model.system, carom.VariationalCollision(), q0.at[0].add(x), v0, **options).q[-1][1]
float(jax.grad(angle)(0.0))
"""
CASES = (
    ("particle", "carom.models.particle().solve(num_steps=2000)", 1.0),
    ("star", "carom.models.star().solve(num_steps=2000)", 1.0),
    ("double pendulum", "carom.models.double_pendulum().solve(num_steps=500)", 2.5),
    ("rolling disk", "carom.models.rolling_disk().solve(num_steps=500)", 2.5),
    ("beam", "carom.models.beam(height=20.0).solve(num_steps=200)", 5.0),
    ("gradient through a ball", GRADIENT, 2.0),
    ("gradient through a double pendulum", PENDULUM_GRADIENT, 6.0),
    ("Hybrid", "carom.models.particle().solve(carom.Hybrid(), num_steps=500)", 3.0),
    ("slider-crank", "carom.models.slider_crank().solve(num_steps=200)", 10.0),
    ("woodpecker", "carom.models.woodpecker().solve(num_steps=200)", 10.0),
)
WARM = 0.5  # seconds wanted with a filled cache
IMPORT = 0.6
PROCESS = """
import json, sys, time
start = time.perf_counter()
import jax
jax_ready = time.perf_counter()
import carom
ready, cpu = time.perf_counter(), time.process_time()
exec(sys.argv[1])
end, busy = time.perf_counter(), time.process_time()
print(json.dumps({"jax": jax_ready - start, "import": ready - start, "first": end - ready, "cpu": busy - cpu}))
"""
HEADER = [
    "first result of",
    "empty cache s",
    "wanted",
    "filled cache s",
    "wanted ",
    "processor s, empty",
    "filled",
    "import s",
    "of which jax",
]


def first_result(code: str, cache: Path, tree: Path = common.HERE.parent) -> dict[str, float]:
    drop = ("JAX_COMPILATION_CACHE_DIR", "CAROM_CACHE", "CAROM_SINGLE_KERNEL")
    environment = {k: v for k, v in os.environ.items() if k not in drop}
    environment |= {"CAROM_CACHE_DIR": str(cache), "PYTHONPATH": str(tree)}
    command = [sys.executable, "-c", PROCESS, code]
    ran = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stderr.strip().splitlines()[-1])
    if "SIGILL" in ran.stderr:
        common.say(f"on stderr: {len(ran.stderr)} characters of XLA's loader")
    return json.loads(ran.stdout.strip().splitlines()[-1])


def beside(tree: Path, code: str) -> list[float]:
    """Processor seconds of the same in another tree, with an empty and with a filled cache."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        first_result("from carom.xla.kernel import kernel_state; kernel_state()", Path(folder), tree)
        return [first_result(code, Path(folder), tree)["cpu"] for _ in range(2)]


def measure(repeats: int, other: Path | None = None) -> list[dict]:
    records = []
    for name, code, wanted in CASES:
        record = {
            "name": name,
            "wanted": wanted,
            "cold": [],
            "warm": [],
            "cpu_cold": [],
            "cpu_warm": [],
            "import": [],
            "jax": [],
            "trial": [],
            "beside": [],
        }
        try:
            for _ in range(repeats):
                with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                    trial = first_result("from carom.xla.kernel import kernel_state; kernel_state()", Path(folder))
                    record["trial"].append(trial["first"])
                    runs = [first_result(code, Path(folder)) for _ in range(2)]
                record["cold"].append(runs[0]["first"])
                record["warm"].append(runs[1]["first"])
                record["cpu_cold"].append(runs[0]["cpu"])
                record["cpu_warm"].append(runs[1]["cpu"])
                record["import"] += [run["import"] for run in runs]
                record["jax"] += [run["jax"] for run in runs]
                record["beside"] += [] if other is None else [beside(other, code)]
                common.say(f"{name}: empty {runs[0]['first']:.2f} s, filled {runs[1]['first']:.2f} s")
        except RuntimeError as error:
            record["failed"] = str(error)[:200]
            common.say(f"{name}: failed: {error}")
        records.append(record)
    return records


def table(records: list[dict], repeats: int, before: float) -> common.Section:
    rows = []
    for r in records:
        if "failed" in r:
            rows.append([r["name"], r["failed"], *[""] * (len(HEADER) - 2)])
            continue
        seconds = [f"{min(r['cold']):.2f}", f"{r['wanted']:g}", f"{min(r['warm']):.2f}", f"{WARM:g}"]
        more = [f"{min(r[key]):.2f}" for key in ("cpu_cold", "cpu_warm", "import", "jax")]
        if r.get("beside"):  # both caches: that tree's, then this one's
            more[:2] = [f"{min(b[i] for b in r['beside']):.2f} → {more[i]}" for i in range(2)]
        rows.append([r["name"], *seconds, *more])
    trials = [t for r in records for t in r["trial"]]
    notes = [
        f"The least of {repeats} rounds, in seconds after the import, but for the last two columns; import wanted: {IMPORT:g}.",
        f"Asking whether programs run as one kernel, once per machine and version: {min(trials):.1f} s more (in another process)."
        if trials
        else "",
        f"Load average {before:.1f} before and {common.load():.1f} after: above the number of cores, only the "
        "processor times, summed over threads, mean something.",
        common.describe(common.machine()),
    ]
    return common.Section("A new process, up to its first result", HEADER, rows, notes)


def main(argv: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--only", default="", help="names, with commas")
    options.add_argument("--beside", type=Path, help="another tree of carom")
    options.add_argument("--out", type=Path, default=common.HERE)
    chosen = options.parse_args(argv)
    global CASES
    CASES = tuple(case for case in CASES if not chosen.only or case[0] in chosen.only.split(","))
    before, clock = common.load(), time.perf_counter()
    compileall.compile_dir(common.HERE.parent / "carom", quiet=1)
    if chosen.beside is not None:
        compileall.compile_dir(chosen.beside / "carom", quiet=1)
    records = measure(chosen.repeats, chosen.beside)
    section = table(records, chosen.repeats, before)
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "startup.md").write_text(section.markdown())
    (chosen.out / "startup.json").write_text(json.dumps({"machine": common.machine(), "records": records}, indent=1) + "\n")
    common.show([section], f"{time.perf_counter() - clock:.0f} s")


if __name__ == "__main__":
    main()
