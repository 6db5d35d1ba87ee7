"""`python -m benchmarks.bodies_scale`: many bodies that settle in a box; what a step costs, and how well it is solved.

Written to bodies_scale.md here. CPU time, one core; the clock would tell what else the machine does.
"""

import argparse
import platform
import time
from pathlib import Path

import numpy as np

from benchmarks.friction_scenes import packing
from carom.bodies import shapes
from carom.bodies.detection.broad import near_pairs
from carom.bodies.stepping import Stepper
from carom.bodies.world import World
from carom.numerics.blas_threads import one_thread
from carom.numerics.friction.compiled.block_problem import blocks_of
from carom.numerics.friction.compiled.block_solver import solve_in_blocks
from carom.numerics.friction.together import solve_together

HERE = Path(__file__).parent
SIDE, ROOM, JITTER = 0.1, {"columns": 0.1005, "heap": 0.12}, {"columns": 2e-4, "heap": 8e-3}  # metres: a body, its cell, disorder
ARRAYS = 12  # across: larger packings by compiled loops alone
DT, STEPS, TOLERANCE = {"columns": 1e-3, "heap": 2e-3}, {"columns": 45, "heap": 120}, 1e-8


def packed(kind: str, order: str, across: int, layers: int) -> World:
    """Bodies in cells wider than they are, over a floor between four walls."""
    rng, room, jitter = np.random.default_rng(0), ROOM[order], JITTER[order]
    world = World()
    world.fix(shapes.HalfSpace())
    for normal in ((1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0)):
        world.fix(shapes.HalfSpace(normal, offset=-0.5 * room * across - 1e-3))
    for cell in np.ndindex(across, across, layers):
        middle = room * (np.array(cell) - [0.5 * (across - 1), 0.5 * (across - 1), 0.0]) + [0, 0, 0.5 * SIDE + jitter + 3e-4]
        shape = shapes.Sphere(0.5 * SIDE) if kind == "spheres" else shapes.Box(SIDE, SIDE, SIDE)
        world.add(shape, density=1000, position=middle + jitter * rng.uniform(-1, 1, 3))
    world.material(friction=0.5)
    return world


def settle(kind: str, order: str, across: int, layers: int, patience: float) -> dict[str, float]:
    """Steps until all contacts carry, or the patience in seconds is over."""
    scene, state = packed(kind, order, across, layers).scene()
    stepper, h = Stepper(scene, TOLERANCE), DT[order]
    stepper.begin(state, h)
    rows, begun = [], time.process_time()
    with one_thread():
        for i in range(STEPS[order]):
            clock = time.process_time()
            state, record = stepper.step(state, h * i, h)
            rows.append((time.process_time() - clock, len(record.tables[-1].contacts), record.residual, record.deepest))
            if not record.converged or time.process_time() - begun > patience:
                break
    seconds, contacts, residual, deepest = np.array(rows).T
    busy = contacts >= 0.5 * contacts.max()
    return {
        "bodies": int(np.sum(scene.free)),
        "steps": len(rows),
        "contacts": int(contacts.max()),
        "mean": float(np.mean(seconds[busy])),
        "worst": float(seconds.max()),
        "each": float(np.mean(seconds[busy] / contacts[busy])),
        "residual": float(residual.max()),
        "depth": abs(float(deepest.min())),
    }


def pairs(count: int) -> float:
    """Seconds to find the pairs among so many boxes, each near a handful of others."""
    low = np.random.default_rng(0).uniform(0, count ** (1 / 3), (count, 3))
    clock = time.process_time()
    near_pairs(low, low + 1.0, np.arange(count), np.ones(count, bool))
    return time.process_time() - clock


def growth(across: int) -> str:
    """One problem of a packing of balls in disorder, from nothing."""
    problem = packing(np.random.default_rng(0), across, across, 0.1)
    contacts, cells = len(problem.friction), []
    ways = [lambda: solve_in_blocks(blocks_of(problem), None, TOLERANCE).impulses]
    if across <= ARRAYS:
        ways.append(lambda: solve_together(problem, None, TOLERANCE).x)
    with one_thread():
        for way in ways:
            way()  # compiles
            clock = time.process_time()
            r = way()
            seconds = time.process_time() - clock
            cells.append(f"{seconds:.3f} s | {1e3 * seconds / contacts:.3f} ms | {problem.residual(r):.0e}")
    return f"| {across**3} | {contacts} | " + " | ".join(cells + ["– | – | –"] * (2 - len(cells))) + " |"


def main(argv: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--patience", type=float, default=60.0, help="CPU seconds for each scene")
    chosen = options.parse_args(argv)
    lines = ["# Many bodies", "", f"Written by `python -m benchmarks.bodies_scale`. {platform.machine()}, one core, CPU time.", ""]
    lines += [
        "Bodies of 0.1 m settle in a box, friction 0.5, tolerance of E 1e-8. Columns: they fall by half a millimetre, steps of"
    ]
    lines += [
        "0.001 s, and each column is an island. Heap: they fall some centimetres, steps of 0.002 s, and become one island.",
        "",
    ]
    lines += ["| | bodies | steps | contacts | a step, when half of them touch | worst step | per contact | largest E | depth |"]
    lines += ["|---|---|---|---|---|---|---|---|---|"]
    columns = [(kind, "columns", *size) for kind in ("spheres", "boxes") for size in ((4, 6), (10, 10))]
    for kind, order, across, layers in [*columns, ("spheres", "heap", 5, 8)]:
        row = settle(kind, order, across, layers, chosen.patience)
        lines.append(
            f"| {kind}, {order} | {row['bodies']} | {row['steps']} | {row['contacts']} | {row['mean']:.3f} s "
            f"| {row['worst']:.2f} s | {1e3 * row['each']:.2f} ms | {row['residual']:.0e} | {row['depth']:.0e} m |"
        )
        print(lines[-1], flush=True)
    lines += ["", "Finding the pairs that come near each other:", "", "| boxes | per box |", "|---|---|"]
    lines += [f"| {count} | {1e6 * pairs(count) / count:.0f} µs |" for count in (100, 1000, 10_000, 100_000)]
    lines += ["", "One contact problem of a close packing of balls in disorder, from nothing:", ""]
    lines += ["| balls | contacts | compiled: time | per contact | E | in arrays: time | per contact | E |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for across in (3, 6, 10, 12, 20, 27):
        lines.append(growth(across))
        print(lines[-1], flush=True)
    (HERE / "bodies_scale.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
