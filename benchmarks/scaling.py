"""`python -m benchmarks.scaling`: how carom's time grows with the number of lanes, nodes, impacts and bodies, on all cores.

Lanes: an ensemble of particles, 500 steps. Nodes: two elastic bars with a contact between them, few states kept; and by hand, in a
loop of numba that keeps none, which shows what caches alone do to large ones. Impacts: P1, longer and longer. Bodies: discs in a
box for 1 s. A part of the time is the same for all sizes: the curves bend where that ends.
"""

import argparse
import itertools
import sys
import time
from functools import partial

from benchmarks import common

LANE_STEPS = {"whole": 500, "quick": 100, "tiny": 20}
SIZES = {
    "whole": {"lanes": (0, 6), "nodes": (1, 5), "nodes by hand": (1, 5), "impacts": (1, 5), "bodies": (2, 5)},
    "quick": {"lanes": (0, 4), "nodes": (1, 3), "nodes by hand": (1, 3), "impacts": (1, 3), "bodies": (2, 3)},
    "tiny": {"lanes": (1, 2), "nodes": (1, 1), "nodes by hand": (1, 1), "impacts": (1, 1), "bodies": (1, 2)},
}
ABOUT = {
    "lanes": ("particles, trapezoidal rule", "s"),
    "nodes": ("two bars, trapezoidal rule", "µs per step"),
    "nodes by hand": ("a loop in numba that keeps nothing", "µs per step"),
    "impacts": ("P1, default rule", "s"),
    "bodies": ("discs in a box, 1 s", "s"),
}


def lanes_runner(steps: int, count: int):
    from benchmarks.lanes import runner

    return runner("particle", "trapezoidal", count, steps)


def bar_steps(nodes: int) -> int:
    """Enough to measure."""
    return min(max(10_000_000 // nodes, 500), 20_000)


def two_bars(count: int):
    import carom

    return carom.models.bars(elements=(count // 2 - 1, count // 2 - 1), integrator=1)


def hand_runner(count: int):
    import numpy as np

    from benchmarks.loops import leap_bars

    model, steps = two_bars(count), bar_steps(count)
    mass, stiffness, rest = (np.asarray(model.params[name], float) for name in ("mass", "stiffness", "rest"))

    def run() -> dict:
        """In flight: from the start again wherever the ends have met."""
        clock, left = time.perf_counter(), steps
        while left > 0:
            q, p = np.array(model.q0, float), mass * np.asarray(model.v0, float)
            left -= max(leap_bars(q, p, 1 / mass, stiffness, rest, count // 2, float(model.dt), left), 1)
        return {"seconds": time.perf_counter() - clock}

    return run


def nodes_runner(count: int):
    import carom

    model = two_bars(count)
    method, steps = carom.VariationalCollision(carom.Trapezoidal(), elastic="reflection"), bar_steps(count)

    def run() -> dict:
        out = model.solve(method, num_steps=steps, stride=steps // 10, progress=False)
        return {"seconds": out.seconds, "impacts": len(out.impacts)}

    return run


def impacts_runner(count: int):
    from benchmarks.peers import TOOLS
    from benchmarks.problems import PARTICLE

    (tool,) = [tool for tool in TOOLS if tool.key == "carom-4"]
    run_once = tool.prepare(PARTICLE, round(90.3 * count))[1]

    def run() -> dict:
        out = run_once()
        return {"seconds": out.seconds, "impacts": out.impacts, "energy_error": PARTICLE.energy_error(out.q, out.v)}

    return run


def bodies_runner(count: int):
    from benchmarks.crowds import carom_gas

    return carom_gas("discs", count, 1.0, 1.0)


def measure(chosen: argparse.Namespace) -> list[dict]:
    """One size after the other, each with all its rounds: the largest need much memory."""
    lanes = partial(lanes_runner, LANE_STEPS[chosen.size])
    runners = {
        "lanes": lanes,
        "nodes": nodes_runner,
        "nodes by hand": hand_runner,
        "impacts": impacts_runner,
        "bodies": bodies_runner,
    }
    records = []
    for problem, (first, last) in SIZES[chosen.size].items():
        about, unit = ABOUT[problem]
        for power in range(first, last + 1 + (chosen.full and problem == "lanes")):
            count = 10**power
            scale = 1e6 / bar_steps(count) if problem.startswith("nodes") else 1.0
            record = {"problem": problem, "label": f"{count:,}", "size": count, "about": about, "unit": unit, "scale": scale}
            needs = ("numba",) if problem in ("bodies", "nodes by hand") else ()
            records += common.take_turns([common.Case(record, partial(runners[problem], count), needs)], chosen.repeats)
    for before, after in itertools.pairwise(records):
        if before["problem"] == after["problem"] and "median" in before and "median" in after:
            after["growth"] = after["median"] * after["scale"] / (before["median"] * before["scale"])
    return records


def _cells(r: dict) -> list[str]:
    times = [f"{r['median'] * r['scale']:.3g}", f"{r['min'] * r['scale']:.3g}", common.percent(r["spread"])]
    return [*times, f"{r['growth']:.2g}" if "growth" in r else ""]


def sections(records: list[dict], chosen: argparse.Namespace) -> list[common.Section]:
    if any("median" in r for r in records):
        from benchmarks.pictures import scaling

        chosen.out.mkdir(parents=True, exist_ok=True)
        scaling(records, chosen.out / "scaling.png")
    tables = []
    for problem, (about, unit) in ABOUT.items():
        header = [problem, unit, "min", "spread", "times the row above"]
        rows = [common.row(r, r["label"], _cells, len(header)) for r in records if r["problem"] == problem]
        tables.append(common.Section(f"Scaling with the number of {problem}: {about}", header, rows))
    return tables


def main(argv: list[str] | None = None) -> None:
    options = common.parser("scaling", "how the time grows with lanes, nodes, impacts and bodies, on all cores")
    options.add_argument("--full", action="store_true", help="10⁷ lanes too, which need much memory")
    common.run_part("scaling", sys.modules[__name__], options.parse_args(argv), one_core=False)


if __name__ == "__main__":
    main()
