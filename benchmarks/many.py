"""`python -m benchmarks.many`: P3 (ensembles) and P5 (a gas of discs) beside other tools, on all cores.

P3: 10 000 particles above an elastic floor, 2000 steps of 0.01, each from a height and with a speed of its own; trajectory-steps
per second. The same for the star and the pendulum. The limit is a program for P3 alone: Verlet in numba on all cores, the impact in
closed form, nothing kept but the last state. P5: 1000 discs in a box for 10 s, about 65 000 pair collisions.
"""

import argparse
import sys
from functools import partial

from benchmarks import common

SIZES = {
    "whole": {"lanes": 10_000, "steps": 2000, "bodies": 1000, "end": 10.0},
    "quick": {"lanes": 2_000, "steps": 200, "bodies": 1000, "end": 1.0},
    "tiny": {"lanes": 100, "steps": 100, "bodies": 30, "end": 0.5},
}
LANES = ["tool", "M trajectory-steps/s", "best", "spread", "times carom, trapezoidal", "median energy error", "largest"]
GASES = ["tool", "s", "min", "spread", "pair collisions", "µs each", "energy error", "smallest gap"]
QUOTED = "An event-driven program for discs alone, by hand in numba, once took 0.096 s for P5 on one core: quoted, not run here."
SOFT = (
    "MuJoCo's energy is the kinetic one at the end, the springs' left out. The discs have radius 0.5: at a gap of -1 two lie on "
    "one another, and below that one has left the box."
)
SPEED = 5.42  # of the discs of P5, so that there are about 65 000 collisions


def ensembles(size: str, count: int, steps: int) -> list[common.Case]:
    from benchmarks import crowds, lanes
    from benchmarks.peers import DIFFRAX
    from benchmarks.problems import PARTICLE

    rules = {"trapezoidal": "carom, trapezoidal rule", "composition:4": "carom, composition of order 4"}
    cases = []
    for model in ("particle",) if size == "tiny" else ("particle", "star", "pendulum"):
        known = {"problem": "P3" if model == "particle" else model, "lanes": count, "steps": steps}
        for rule, label in list(rules.items())[: 1 if size == "tiny" else 2]:
            prepare = partial(lanes.runner, model, rule, count, steps)
            cases.append(common.Case(known | {"label": label, "key": rule}, prepare))
    known = {"problem": "P3", "lanes": count, "steps": steps}
    peers = {
        "diffrax": ("diffrax, Tsit5, events, own restart loop, vmap", DIFFRAX, partial(crowds.diffrax_lanes, None)),
        "diffrax-dt": ("diffrax, the same with steps of at most dt", DIFFRAX, partial(crowds.diffrax_lanes, PARTICLE.dt)),
        "mujoco": ("MuJoCo, rollout, undamped contact of stiffness 2/dt²", ("mujoco",), crowds.mujoco_lanes),
        "numba": ("numba by hand: the limit for this one problem", ("numba",), crowds.numba_lanes),
    }
    for key, (label, needs, prepare) in peers.items():
        cases.append(common.Case(known | {"label": label, "key": key}, partial(prepare, count, steps), needs))
    return cases


def gases(bodies: int, end: float) -> list[common.Case]:
    from benchmarks import crowds

    discs = ("discs", bodies, end, SPEED)
    known = {"problem": "P5", "bodies": bodies, "end": end}
    cases = [common.Case(known | {"label": "carom, discs", "key": "carom"}, partial(crowds.carom_gas, *discs), ("numba",))]
    for dt, stiffness in ((0.01, 200), (0.001, 100_000)):
        known = known | {"label": f"MuJoCo, dt = {dt:g}, stiffness {stiffness:,}", "key": f"mujoco-{dt:g}"}
        cases.append(common.Case(known, partial(crowds.mujoco_gas, dt, stiffness, *discs), ("mujoco",)))
    return cases


def measure(chosen: argparse.Namespace) -> list[dict]:
    size = SIZES[chosen.size]
    records = common.take_turns(ensembles(chosen.size, size["lanes"], size["steps"]), chosen.repeats)
    for record in records:
        (ours,) = [r for r in records if (r["problem"], r["key"]) == (record["problem"], "trapezoidal")]
        if "median" in record:
            work = record["lanes"] * record["steps"]
            record |= {"rate": work / record["median"], "rate_best": work / record["min"]}
            record |= {"ratio": record["median"] / ours["median"]} if "median" in ours else {}
    return records + common.take_turns(gases(size["bodies"], size["end"]), chosen.repeats)


def _lane_cells(r: dict) -> list[str]:
    rates = [f"{r['rate'] / 1e6:.3g}", f"{r['rate_best'] / 1e6:.3g}", common.percent(r["spread"])]
    ratio = common.short(r["ratio"]) if "ratio" in r else ""
    return [*rates, ratio, f"{r['energy_error_median']:.1e}", f"{r['energy_error_max']:.1e}"]


def _gas_cells(r: dict) -> list[str]:
    pairs = [f"{r['pairs']:,}", f"{1e6 * r['median'] / max(r['pairs'], 1):.2f}"] if "pairs" in r else ["", ""]
    times = [f"{r['median']:.3g}", f"{r['min']:.3g}", common.percent(r["spread"])]
    return [*times, *pairs, f"{r['energy_error']:.1e}", f"{r['smallest_gap']:.1e}"]


def sections(records: list[dict], chosen: argparse.Namespace) -> list[common.Section]:
    tables = []
    for key in dict.fromkeys(r["problem"] for r in records if "lanes" in r):
        mine = [r for r in records if r["problem"] == key]
        model = "particle" if key == "P3" else key
        title = f"{key if key == 'P3' else 'Ensembles'}: {mine[0]['lanes']:,} lanes of the {model}, {mine[0]['steps']:,} steps"
        tables.append(common.Section(title, LANES, [common.row(r, r["label"], _lane_cells, len(LANES)) for r in mine]))
    gas = [r for r in records if r["problem"] == "P5"]
    rows = [common.row(r, r["label"], _gas_cells, len(GASES)) for r in gas]
    title = f"P5: {gas[0]['bodies']:,} discs in a box, {gas[0]['end']:g} s"
    return [*tables, common.Section(title, GASES, rows, [SOFT, QUOTED])]


def main(argv: list[str] | None = None) -> None:
    options = common.parser("many", "P3 and P5: ensembles and gases on all cores")
    common.run_part("many", sys.modules[__name__], options.parse_args(argv), one_core=False)


if __name__ == "__main__":
    main()
