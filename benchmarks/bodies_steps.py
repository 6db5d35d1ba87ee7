"""`python -m benchmarks.bodies_steps --before DIR`: what a step of a small scene costs, beside another checkout, in one run.

Each scene runs in its own process, here and there in turn, twice, and short runs several times in it; the least CPU time of each
counts: on a machine that others use it varies by a third. Written into the part of
bodies.md that `benchmarks.bodies_tools` leaves alone.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ONE = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}  # cores
MARK = "## Steps of small scenes"
TURNS = 2
LONG = 5.0  # seconds: a run that takes longer is not repeated in its process, nor in a second one
REPEATS = 4
STEPS = {"slide": 400, "stack": 300, "shaken stack": 25, "dice": 250, "dominoes": 100, "heap": 300, "spheres": 120}
STEPS |= {"grains": 200, "chain": 100}
MODELS = {"dice": "dice", "dominoes": "dominoes", "heap": "dominoes", "grains": "grain_column", "chain": "chain_over_peg"}
ABOUT = {
    "slide": "a cube that slides on a floor",
    "stack": "ten boxes at rest (a state that comes back is not computed again)",
    "shaken stack": "ten boxes on a table that shakes",
    "dice": "three dice that tumble, slide and come to rest",
    "dominoes": "a row of ten that falls, its first 100 steps",
    "heap": "its first 300 steps: they come to lie on each other",
    "spheres": "a hundred that fall into a box",
    "grains": "a column of 55 discs that collapses, in the plane",
    "chain": "33 links over a peg, in the plane",
}

WHERE = """
What made the difference: with numba the points in which pairs of polytopes meet, free motion, corners over half-spaces, rows and W,
Newton's method for a contact problem, and what a step leaves to the next are one compiled call each (`carom/bodies/compiled`): they
were ten to three hundred calls of numpy on arrays of a dozen numbers. Newton's method leaves contacts that are open out of its
matrix and solves by itself what W does not couple, in an order in which the matrix is a band: dominoes that stand apart are small
problems. Without numba a step takes what it took before, the cube some five per cent more.

The heap is chaotic: after some hundred steps both programs follow other motions, and what it takes depends on how many problems it
meets that need the last stages, up to three seconds each, where the rest takes one or two. On the same problems both spend as many
iterations. Five starts that differ by 10⁻⁹ took 2.2 to 14 s with loops, 23 ms a step, and 3.4 to 19 s without, 27 ms.

Where the time goes now (by function, the twentieth percentile of each call, so that other work does not count). Of the 110 µs of
the sliding cube, on a busy machine, contacts and their rows take 27, the contact problem 20, what lasts and is remembered 25, free
motion 8; the kernels take 1 to 4 µs each, and two thirds is what Python makes between them: some 450 calls a step. The shaken stack
needs the path through the inside of the cones and pivots in nearly every step, which are arrays still: Newton's method is a
fifth of it.
"""


def build(name: str):
    """The world, and the length of a step."""
    from carom import models
    from carom.bodies import motions, shapes
    from carom.bodies.world import World

    if name in MODELS:
        model = getattr(models, MODELS[name])()
        return model.world, model.dt
    world = World()
    if name == "shaken stack":
        world.prescribe(shapes.HalfSpace(), motions.Shaking((0.002, 0, 0), 3.0))
    else:
        world.fix(shapes.HalfSpace())
    if name == "spheres":
        for normal in ((1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0)):
            world.fix(shapes.HalfSpace(normal, offset=-0.3))
        for k in range(4):
            for i in range(25):
                where = (0.115 * (i % 5 - 2) + 0.003 * k, 0.115 * (i // 5 - 2) - 0.002 * k, 0.06 + 0.11 * k)
                world.add(shapes.Sphere(0.05), density=1000, position=where)
    else:
        for i in range(1 if name == "slide" else 10):
            moving = (6.0, 0.0, 0.0) if name == "slide" else (0.0, 0.0, 0.0)
            world.add(shapes.Box(0.1, 0.1, 0.1), density=1000, position=(0.003 * (i % 2), 0, 0.05 + 0.1 * i), velocity=moving)
    world.material(friction=0.5)
    return world, 1e-3


def measure(name: str) -> dict:
    """CPU seconds of a run, in this process."""
    world, dt = build(name)
    world.solve(dt, 2, progress=False)  # what is loaded once does not count
    seconds = float("inf")
    for _ in range(REPEATS):
        clock = time.process_time()
        run = world.solve(dt, STEPS[name], progress=False)
        seconds = min(seconds, time.process_time() - clock)
        if seconds > LONG:
            break
    return {"seconds": seconds, "ok": run.status.ok, "residual": float(run.residual.max()), "contacts": len(run.contacts)}


def elsewhere(checkout: Path, name: str) -> dict:
    command = [sys.executable, str(HERE / "bodies_steps.py"), "--measure", name]
    env = os.environ | ONE | {"PYTHONPATH": str(checkout)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=checkout, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def table(before: Path, names: list[str]) -> list[str]:
    head = "| scene | µs before | µs now | ratio | E before | E now |"
    lines = [head, "|---|---|---|---|---|---|"]
    for name in names:
        found = {side: [] for side in (before, HERE.parent)}
        for turn in range(TURNS):
            for side, runs in found.items():
                if turn == 0 or runs[0]["seconds"] <= LONG:
                    runs.append(elsewhere(side, name))
        old, new = (min(runs, key=lambda run: run["seconds"]) for runs in found.values())
        assert old["ok"] and new["ok"], name
        cost = [1e6 * run["seconds"] / STEPS[name] for run in (old, new)]
        cells = (f"{cost[0]:.0f}", f"{cost[1]:.0f}", f"{cost[0] / cost[1]:.1f}", f"{old['residual']:.0e}", f"{new['residual']:.0e}")
        lines.append(f"| {name}: {ABOUT[name]} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return lines


def replace_part(page: Path, mark: str, lines: list[str]) -> None:
    """Put lines, which begin with a mark, in the place of the part of a page that does; a new part comes before the last one."""
    parts = ["## " + part for part in page.read_text().split("\n## ")]
    parts[0] = parts[0].removeprefix("## ")
    new = "\n".join(lines).rstrip("\n") + "\n"
    known = [i for i, part in enumerate(parts) if part.startswith(mark)]
    parts[known[0] if known else len(parts) - 1 : known[0] + 1 if known else len(parts) - 1] = [new]
    page.write_text("\n".join(parts))


def main(argv: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--before", type=Path, help="a checkout of the commit to compare with")
    options.add_argument("--measure", choices=[*STEPS], help="one scene in this process, as JSON")
    options.add_argument("--only", nargs="*", choices=[*STEPS], help="some of the scenes; nothing is written then")
    chosen = options.parse_args(argv)
    if chosen.measure:
        print(json.dumps(measure(chosen.measure)))
        return
    lines = table(chosen.before.resolve(), chosen.only or [*STEPS])
    if chosen.only:
        return
    told = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=chosen.before)
    words = (
        f"CPU time of a step, the least of {TURNS * REPEATS} runs of each (one where it is long), commit {told.stdout.strip()} "
        f"and this one in turn (`python -m benchmarks.bodies_steps`, load average {os.getloadavg()[0]:.1f}); "
        "E is the largest certificate of the run."
    )
    page = HERE / "bodies.md"
    kept = page.read_text().split(MARK)[0].rstrip()
    page.write_text("\n".join([kept, "", MARK, "", words, "", *lines, WHERE]).rstrip() + "\n")


if __name__ == "__main__":
    main()
