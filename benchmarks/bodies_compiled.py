"""`python -m benchmarks.bodies_compiled`: small scenes by `world.solve` and by `carom.solve(world.system, MoreauJean())`, in turn.

The first is numpy, call by call; the second one program that XLA compiles. CPU time of a step (the least of some runs, and what a
longer run takes beyond a shorter one, so that fixed costs do not count), what the first call takes, and how good the motion is:
depth and the error at the end. Written into the part of bodies.md that begins with its mark.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import carom
from benchmarks.bodies_side import BALL, FRICTION, GRAVITY, scene
from benchmarks.bodies_steps import replace_part
from carom.bodies import shapes

PAGE = Path(__file__).resolve().parent / "bodies.md"
MARK = "## Small scenes, compiled"
DT = 1e-3
STEPS = {"slide": 1300, "die": 600, "balls": 100}
REPEATS = 3
ABOUT = {
    "slide": "a cube that slides to a stop; error: of the place where it stops",
    "die": "one die that is thrown and comes to rest; error: of its height at the end, lying on a face",
    "balls": "27 balls that fall into a box",
}


def build(name: str) -> carom.World:
    world = carom.World(gravity=(0, 0, -GRAVITY))
    world.fix(shapes.HalfSpace())
    if name == "die":
        world.add(shapes.Box(0.1, 0.1, 0.1), density=1000, position=(0, 0, 0.12), velocity=(1, 0, 0), spin=(8, 3, 1))
    else:
        what = scene(name)
        for normal in ((1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0)) if what["walls"] else ():
            world.fix(shapes.HalfSpace(normal, offset=-what["walls"]))
        shape = shapes.Box(0.1, 0.1, 0.1) if what["kind"] == "box" else shapes.Sphere(BALL)
        for i, place in enumerate(what["places"]):
            moving = what["velocity"] if what["velocity"] and i == 0 else (0, 0, 0)
            world.add(shape, density=1000, position=place, velocity=moving)
    world.material(friction=FRICTION)
    return world


def by_world(world: carom.World, steps: int) -> np.ndarray:
    """Centres [steps + 1, bodies, 3]."""
    run = world.solve(DT, steps, progress=False)
    assert run.status.ok, run.status
    return run.x[:, run.free]


def by_system(world: carom.World):
    system, start = world.system, world.start
    bodies = len(start["params"]["mass"])

    def go(steps: int) -> np.ndarray:
        solution = carom.solve(system, carom.MoreauJean(), **start, dt=DT, num_steps=steps, progress=False)
        assert solution.status.ok, solution.status
        return np.asarray(solution.q)[:, : 3 * bodies].reshape(-1, bodies, 3)

    return go


def seconds(go, steps: int) -> tuple[float, np.ndarray]:
    clock = time.process_time()
    found = go(steps)
    return time.process_time() - clock, found


def measure(name: str) -> list[tuple[str, float, float, np.ndarray]]:
    """For both ways: the name, CPU seconds of the first call, CPU µs of a step, and the centres."""
    world, steps, rows = build(name), STEPS[name], []
    ways = {"world.solve": lambda n: by_world(world, n), "compiled": by_system(world)}
    first = {way: seconds(go, steps)[0] for way, go in ways.items()}
    best: dict[tuple[str, int], float] = {}
    frames = {}
    for _ in range(REPEATS):
        for way, go in ways.items():
            for n in (steps // 4, steps):
                took, found = seconds(go, n)
                best[way, n] = min(took, best.get((way, n), np.inf))
                if n == steps:
                    frames[way] = found
    for way in ways:
        each = 1e6 * (best[way, steps] - best[way, steps // 4]) / (steps - steps // 4)
        rows.append((way, first[way], each, frames[way]))
    return rows


def cells(name: str, frames: np.ndarray) -> tuple[str, str]:
    """The largest depth, and the error."""
    half = BALL if name == "balls" else 0.05
    if name == "die":  # a corner may be lower than half a side below the centre: depth is not told by the centre alone
        return "–", f"{abs(frames[-1, 0, 2] - half):.1e}"
    depth = f"{max(0.0, half - float(frames[..., 2].min())):.1e}"
    return depth, f"{abs(frames[-1, 0, 0] - 36 / (2 * FRICTION * GRAVITY)):.1e}" if name == "slide" else "–"


def main(argv: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", nargs="*", choices=[*STEPS], default=[*STEPS])
    options.add_argument("--dry", action="store_true", help="print, and write nothing")
    chosen = options.parse_args(argv)
    lines = [MARK, "", "`python -m benchmarks.bodies_compiled`, dt = 0.001, one run for both ways, CPU time.", ""]
    lines += ["| scene | way | first call, s | µs per step | depth | error |", "|---|---|---|---|---|---|"]
    for name in chosen.only:
        for way, first, each, frames in measure(name):
            lines.append(f"| {name}: {ABOUT[name]} | {way} | {first:.1f} | {each:.0f} | " + " | ".join(cells(name, frames)) + " |")
            print(lines[-1], flush=True)
    if not chosen.dry:
        replace_part(PAGE, MARK, [*lines, "", ""])


if __name__ == "__main__":
    main()
