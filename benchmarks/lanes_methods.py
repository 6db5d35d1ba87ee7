"""`python -m benchmarks.lanes_methods`: ensembles of every method and kind, trajectory-steps per second, beside diffrax and MJX.

Each row runs in a process of its own with an empty cache: its first call is that of a new user. Then it runs some times more, and
the least counts, by the clock on the wall (all cores) and in processor time, which a busy machine cannot change. Beside the speed
stands what is right: how far three lanes are from `carom.solve`, the largest error of the energy at the end (elastic problems
alone), and how deep the deepest contact of all lanes is below zero at the end.

MJX is looked for in the interpreter that MJX_PYTHON names (`pip install mujoco-mjx`, with a jax other than 0.10.2).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common

HEADER = ["problem", "lanes × steps", "M steps/s, {cores} cores", "M steps per processor s", "first call, processor s",
          "apart from solve", "energy error", "penetration"]  # fmt: skip
SHRINK = {"whole": 1, "quick": 10, "tiny": 100}
CHECKED = 3  # lanes that are solved again, one by one


@dataclass(frozen=True)
class Row:
    """A problem, a method, and how much of it."""

    model: str
    method: str
    lanes: int
    steps: int
    elastic: bool = True

    @property
    def key(self) -> str:
        return f"{self.model}:{self.method}"


ROWS = [
    Row("particle", "VariationalCollision, trapezoidal", 10_000, 1000),
    Row("particle", "MoreauJean", 5000, 1000),
    Row("particle", "TimeDG", 2000, 1000),
    Row("particle", "Hybrid", 5000, 1000),
    Row("particle", "EventDriven", 1000, 1000),
    Row("particle", "diffrax", 10_000, 1000),
    Row("particle", "diffrax, steps ≤ dt", 2000, 1000),
    Row("particle", "MJX", 2000, 1000),
    Row("zeno_ball", "MoreauJean", 5000, 500, False),
    Row("zeno_ball", "TimeDG", 2000, 500, False),
    Row("zeno_ball", "Hybrid", 2000, 500, False),
    Row("block", "MoreauJean", 2000, 200, False),
    Row("block", "TimeDG", 1000, 200, False),
    Row("stack", "MoreauJean", 100, 100, False),
    Row("star", "VariationalCollision, trapezoidal", 2000, 1000),
    Row("star", "Hybrid", 1000, 400),
    Row("star", "EventDriven", 500, 400),
    Row("star", "diffrax", 1000, 400),
    Row("star_in_space", "VariationalCollision, trapezoidal", 1000, 1000),
    Row("star_in_space", "EventDriven", 100, 1000),
    Row("star_in_space", "MJX", 200, 1000),
    Row("jack", "MoreauJean", 1000, 50),
    Row("rolling_disk", "VariationalCollision", 200, 500),
    Row("double_pendulum", "VariationalCollision", 500, 400),
    Row("bars", "VariationalCollision, trapezoidal", 200, 500),
    Row("beam", "VariationalCollision, trapezoidal", 100, 500),
]


def method_of(name: str) -> Any:
    import carom

    made: dict[str, Callable[[], Any]] = {
        "VariationalCollision": carom.VariationalCollision,
        "VariationalCollision, trapezoidal": lambda: carom.VariationalCollision(carom.Trapezoidal()),
        "MoreauJean": carom.MoreauJean,
        "TimeDG": lambda: carom.TimeDG(2),
        "Hybrid": carom.Hybrid,
        "EventDriven": carom.EventDriven,
    }
    return made[name]()


def problem_of(row: Row) -> tuple[Any, np.ndarray, np.ndarray]:
    """A model, and starts: those of `lanes_of` where it has some, else speeds that differ by some percent."""
    from benchmarks.lanes import lanes_of, model_of

    model = model_of(row.model)
    if row.model in ("particle", "star", "star_in_space", "jack"):
        return model, *lanes_of(model, row.lanes)
    rng = np.random.default_rng(0)
    q0s, v0s = (np.tile(np.asarray(x, float), (row.lanes, 1)) for x in (model.q0, model.v0))
    if row.model == "zeno_ball":
        q0s *= rng.uniform(0.5, 1.5, (row.lanes, 1))
    elif row.model == "block":
        v0s[:, 0] = rng.uniform(0, 2, row.lanes)  # downhill: most of them slide to a stop
    elif row.model == "stack":
        v0s[:, ::3] = 0.1 * rng.normal(size=(row.lanes, 1))  # all boxes alike, so that the lowest slides
    else:
        v0s *= 1 + 0.05 * rng.normal(size=(row.lanes, 1))
    return model, q0s, v0s


# -- one row, in a process of its own --------------------------------------------------------------------------------------


def carom_row(row: Row) -> tuple[Callable[[], tuple[float, Any]], Callable[[Any], dict]]:
    import carom

    model, q0s, v0s = problem_of(row)
    method = method_of(row.method)

    def run() -> tuple[float, Any]:
        out = carom.ensemble(model.system, method, q0s, v0s, dt=model.dt, num_steps=row.steps, params=model.params, progress=False)
        return out.seconds, out

    def judge(out: Any) -> dict:
        apart = [np.max(np.abs(out.solve(i).q[-1] - out.q_end[i])) for i in range(min(CHECKED, len(out)))]
        depth = deepest(model, out.q_end[out.ok], row.steps * model.dt)
        found = {"apart": float(max(apart)), "failed": int(np.sum(~out.ok)), "penetration": depth}
        return found | ({"energy_error": float(np.max(np.abs(out.energy_error[out.ok])))} if row.elastic else {})

    return run, judge


def deepest(model: Any, qs: np.ndarray, t: float) -> float | None:
    """How far the lowest gap of all states is below zero; None where nothing is kept apart (bars hand their motion on)."""
    import jax

    mechanics = model.system.bind(model.params, qs.shape[1])
    if "interfaces" in model.system.needs or not mechanics.contacts.num_contacts:
        return None
    gaps = jax.jit(jax.vmap(lambda q: mechanics.contacts.gaps(q, t)))(qs)
    return float(max(0.0, -np.min(gaps)))


def diffrax_row(row: Row) -> tuple[Callable[[], tuple[float, Any]], Callable[[Any], dict]]:
    """The restart loop of `crowds`, under vmap."""
    from benchmarks import crowds
    from benchmarks.problems import PARTICLE, STAR

    problem = PARTICLE if row.model == "particle" else STAR
    longest = problem.dt if "dt" in row.method else problem.max_step if problem.turns else None
    made: list[Any] = []

    def run() -> tuple[float, Any]:
        if not made:
            made.append(crowds.diffrax_lanes(longest, row.lanes, row.steps, problem))
        out = made[0]()
        return out["seconds"], out

    return run, lambda out: {"energy_error": out["energy_error_max"], "penetration": out["penetration"]}


def alone(row: Row, repeats: int) -> dict:
    """What `--row` prints: the first call, the least of the others, and what is right."""
    run, judge = diffrax_row(row) if row.method.startswith("diffrax") else carom_row(row)
    clock, processor = time.perf_counter(), time.process_time()
    _, out = run()
    first = {"first": time.perf_counter() - clock, "first_processor": time.process_time() - processor}
    seconds, spent = [], []
    for _ in range(repeats):
        processor = time.process_time()
        took, out = run()
        seconds.append(took)
        spent.append(time.process_time() - processor)
    work = row.lanes * row.steps
    return first | {"rate": work / min(seconds), "rate_per_core": work / min(spent)} | judge(out)


# -- all of them ---------------------------------------------------------------------------------------------------------


def mjx_python() -> str:
    return os.environ.get("MJX_PYTHON", sys.executable)


def command_of(row: Row, repeats: int, folder: Path) -> list[str]:
    """In the interpreter that has it; MJX is told where its lanes start by a file."""
    if row.method != "MJX":
        given = [row.model, row.method, str(row.lanes), str(row.steps), str(int(row.elastic)), str(repeats)]
        return [sys.executable, "-m", "benchmarks.lanes_methods", "--row", *given]
    model, q0s, v0s = problem_of(row)
    file = folder / "starts.npz"
    np.savez(file, q0s=q0s, v0s=v0s, dt=model.dt, steps=row.steps, repeats=repeats)
    return [mjx_python(), "-m", "benchmarks.lanes_mjx", row.model, str(file)]


def record_of(row: Row, repeats: int, limit: float) -> dict:
    record: dict[str, Any] = {"model": row.model, "method": row.method, "lanes": row.lanes, "steps": row.steps}
    with tempfile.TemporaryDirectory() as folder:
        # Under vmap diffrax looks for an impact in lanes that have none, and equinox would take that as a failure of all of them.
        environment = os.environ | {"CAROM_CACHE_DIR": str(Path(folder) / "cache"), "EQX_ON_ERROR": "off"}
        try:
            command = command_of(row, repeats, Path(folder))
            ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=common.HERE.parent, timeout=limit)
            if ran.returncode:
                said = [line for line in ran.stderr.splitlines() if line.strip(" -")]
                last = (said or ["no reason given"])[-1]
                return record | {"skipped": f"failed: {last[:150].replace('|', '/')}"}
            return record | json.loads(ran.stdout.splitlines()[-1])
        except subprocess.TimeoutExpired:
            return record | {"skipped": f"had not ended after {limit:.0f} s"}


def measure(chosen: argparse.Namespace) -> list[dict]:
    file, shrink = chosen.out / "lanes_methods.json", SHRINK[chosen.size]
    before = json.loads(file.read_text())["records"] if chosen.only and file.exists() else []
    known = {f"{r['model']}:{r['method']}": r for r in before}
    records = []
    for row in ROWS:
        if chosen.only and not any(word in row.key for word in chosen.only.split(",")):
            records += [known[row.key]] if row.key in known else []
            continue
        small = Row(row.model, row.method, max(row.lanes // shrink, 2), max(row.steps // shrink, 10), row.elastic)
        load = common.load()
        records.append(record_of(small, chosen.repeats, chosen.limit) | {"load": load})
        common.say(f"{row.key}: {json.dumps(records[-1])}")
    return records


def _cells(r: dict) -> list[str]:
    size = f"{r['lanes']:,} × {r['steps']:,}"
    if "skipped" in r:
        return [size, r["skipped"], *[""] * 5]
    digits = lambda key: f"{r[key]:.1e}" if r.get(key) is not None else ""  # noqa: E731
    failed = f" ({r['failed']} lanes failed)" if r.get("failed") else ""
    rates = [f"{r[key] / 1e6:.3g}" for key in ("rate", "rate_per_core")]
    return [size, *rates, f"{r['first_processor']:.1f}", digits("apart") + failed, digits("energy_error"), digits("penetration")]


def sections(records: list[dict], chosen: argparse.Namespace) -> list[common.Section]:
    header = [name.format(cores=common.cores()) for name in HEADER]
    rows = [[f"{r['model']}: {r['method']}", *_cells(r)] for r in records]
    loads = [r["load"] for r in records]
    notes = [
        f"The load average before a row was {min(loads):.0f} to {max(loads):.0f}: steps per second by the clock on the "
        "wall say little where it is above the number of cores.",
        "A first call holds tracing, compiling and one run, in a new process without a cache; diffrax and MJX compile here, too.",
        "diffrax: Tsit5 with events and a restart loop written for it, tolerances 1e-10 and 1e-12. Without a longest step it leaps "
        "over a particle's flight in a few steps, whatever the grid.",
        "MJX has no elastic impact: its contact is an undamped spring of stiffness 2/dt² (`soft.py`), in double precision. It "
        "cannot do bars, beams and velocity constraints; a stack it can, which was not tried.",
        "The stack slides, all of its boxes alike, until friction ends it. Friction at the floor makes it rock, corners open by "
        "some 1e-8, and what is open falls for one step: g dt² = 9.8e-4 at each of ten interfaces, one after the other from below, "
        "which adds up. At rest none opens.",
    ]
    return [common.Section("Ensembles of every method and kind", header, rows, notes)]


def main(argv: list[str] | None = None) -> None:
    given = sys.argv[1:] if argv is None else argv
    if given[:1] == ["--row"]:
        model, method, lanes, steps, elastic, repeats = given[1:]
        print(json.dumps(alone(Row(model, method, int(lanes), int(steps), bool(int(elastic))), int(repeats))))
        return
    options = common.parser("lanes_methods", "ensembles of every method and kind, all cores")
    options.add_argument(
        "--only", help="rows whose name, such as star:EventDriven, holds one of these words; others stay as the file has them"
    )
    options.add_argument("--limit", type=float, default=600.0, help="seconds that a row may take")
    common.run_part("lanes_methods", sys.modules[__name__], options.parse_args(given), one_core=False)


if __name__ == "__main__":
    main()
