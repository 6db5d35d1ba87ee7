"""`python -m benchmarks.continua`: bars and the beam against plain numba loops (benchmarks/loops.py), on one core."""

import argparse
import sys

import numpy as np

from benchmarks import common

HEADER = ["problem", "µs per step", "min", "spread", "times the loop", "wanted", "compile s"]
STEPS = {
    "whole": {"bars, 102 nodes": 26_670, "bars, 10 002 nodes": 1_000, "beam, 11 nodes": 12_500},
    "quick": {"bars, 102 nodes": 2_667, "bars, 10 002 nodes": 200, "beam, 11 nodes": 1_250},
    "tiny": {"bars, 102 nodes": 200, "bars, 10 002 nodes": 20, "beam, 11 nodes": 100},
}
TARGETS = {"bars, 102 nodes": 3.0, "bars, 10 002 nodes": 1.5, "beam, 11 nodes": 3.0}


def cases(steps: dict[str, int]):
    """(name, steps, a run of carom that returns its Solution, a run of the loop that returns its states)."""
    import carom
    from benchmarks import loops

    rule = carom.Trapezoidal()
    reflect = carom.VariationalCollision(rule, elastic="reflection")
    for name, elements in (("bars, 102 nodes", 50), ("bars, 10 002 nodes", 5000)):
        model = carom.models.bars(elements=(elements, elements), integrator=1)
        params = {key: np.asarray(value) for key, value in model.params.items()}
        q0, p0 = np.asarray(model.q0), params["mass"] * np.asarray(model.v0)
        arguments = (q0, p0, params["mass"], params["stiffness"], params["rest"], elements + 1, model.dt, steps[name])
        yield (
            name,
            steps[name],
            lambda m=model, n=steps[name]: m.solve(reflect, num_steps=n, progress=False),
            lambda a=arguments: loops.run_bars(*a)[0],
        )
    name = "beam, 11 nodes"
    model = carom.models.beam(height=20.0)
    params = {key: np.asarray(value) for key, value in model.params.items()}
    mass = params["mass"].reshape(-1, 6)
    q0, p0 = np.asarray(model.q0).reshape(-1, 7), mass * np.asarray(model.v0).reshape(-1, 6)
    arguments = (q0, p0, mass, params["stiffness"], float(params["spacing"]), float(params["gravity"]), model.dt, steps[name])
    method = carom.VariationalCollision(rule)
    yield (
        name,
        steps[name],
        lambda m=model, n=steps[name]: m.solve(method, num_steps=n, progress=False),
        lambda a=arguments: loops.run_beam(*a)[0],
    )


def _facts(solution) -> dict:
    return {"seconds": solution.seconds, "compile_seconds": solution.compile_seconds}


def measure(chosen: argparse.Namespace) -> list[dict]:
    why = common.missing(["numba"])
    if why:
        return [{"problem": name, "label": "carom and numba", "skipped": why} for name in TARGETS]
    records = []
    for name, steps, run, loop in cases(STEPS[chosen.size]):
        known = {"problem": name, "steps": steps}
        turns = [
            common.Case(known | {"label": "carom"}, lambda run=run: lambda: _facts(run())),
            common.Case(known | {"label": "numba loop"}, lambda loop=loop: lambda: {"seconds": common.timed(loop)[0]}),
        ]
        ours, theirs = common.take_turns(turns, chosen.repeats)
        if "median" in ours and "median" in theirs:
            ours["ratio"] = ours["median"] / theirs["median"]
        records += [ours, theirs]
    return records


def _cells(r: dict) -> list[str]:
    cells = [f"{1e6 * r['median'] / r['steps']:.3g}", f"{1e6 * r['min'] / r['steps']:.3g}", common.percent(r["spread"])]
    if "ratio" not in r:
        return [*cells, "", "", ""]
    return [*cells, f"{r['ratio']:.2f}", f"{TARGETS[r['problem']]:g}", f"{r['compile_seconds']:.1f}"]


def sections(records: list[dict], chosen: argparse.Namespace) -> list[common.Section]:
    rows = [common.row(r, f"{r['problem']}: {r['label']}", _cells, len(HEADER)) for r in records]
    return [common.Section("Continua: bars and a beam against plain numba loops", HEADER, rows)]


def main(argv: list[str] | None = None) -> None:
    options = common.parser("continua", "bars and a beam against plain numba loops on one core")
    common.run_part("continua", sys.modules[__name__], options.parse_args(argv), one_core=True)


if __name__ == "__main__":
    main()
