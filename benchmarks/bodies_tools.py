"""`python -m benchmarks.bodies_tools`: scenes of bodies with known answers, by carom and by other tools, in one run.

Each tool runs in the interpreter that has it: MuJoCo and pymunk in the one that `PEERS_PYTHON` names (or this one), Siconos in the
one that `SICONOS_PYTHON` names (or /usr/bin/python3). One that is missing is a row with the reason. Written to bodies.md here.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.bodies_compiled import MARK as COMPILED
from benchmarks.bodies_gas import MARK as GAS
from benchmarks.bodies_side import BALL, FRICTION, GRAVITY, scene, steps_and_samples
from benchmarks.bodies_steps import MARK

HERE = Path(__file__).parent
ONE = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}  # cores
STEPS = {"slide": 1300, "stack": 300, "balls": 250}
DT = 1e-3
STOP = 6.0**2 / (2 * FRICTION * GRAVITY)
ABOUT = {
    "slide": "a cube of 0.1 m at 6 m/s on a floor with friction 0.5; drift: how far from 3.66972 m it stops",
    "stack": "ten boxes, at rest; drift: the largest way of any of them after 0.3 s",
    "balls": "27 balls that fall into a box of 0.4 m; drift: the same between the last two samples (they have not come to rest)",
}

WORDS = (
    "Penetration and drift are computed alike for all, from the positions at twenty samples, in metres. The residual is what each",
    "tool says of the contact problem it solves: carom's certificate E of Coulomb's law, the error of Siconos' solver (asked for",
    "1e-8, 1000 sweeps at most), the gradient of MuJoCo's soft problem; pymunk says nothing. As they come, but for a friction",
    "of 0.5 without pyramid, and for pymunk a slop of 1e-6 and 50 iterations.",
)


def carom_side(name: str, dim: int, steps: int) -> dict:
    """The same scene by carom.World."""
    import carom
    from carom.bodies import shapes

    what = scene(name)
    world = carom.World(gravity=(0, 0, -GRAVITY) if dim == 3 else (0, -GRAVITY))
    world.fix(shapes.HalfSpace() if dim == 3 else shapes.HalfPlane())
    if what["walls"]:
        for normal in ((1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0)):
            world.fix(shapes.HalfSpace(normal, offset=-what["walls"]))
    for i, (x, y, z) in enumerate(what["places"]):
        flat, box = (x, z), shapes.Polygon.box(0.1, 0.1) if dim == 2 else shapes.Box(0.1, 0.1, 0.1)
        shape = box if what["kind"] == "box" else shapes.Sphere(BALL)
        moving = what["velocity"] if what["velocity"] and i == 0 else (0, 0, 0)
        world.add(shape, density=1000, position=flat if dim == 2 else (x, y, z), velocity=moving[::2] if dim == 2 else moving)
    world.material(friction=FRICTION)
    world.solve(DT, 2)  # what is loaded and compiled once does not count, as for the others
    clock = time.process_time()
    run = world.solve(DT, steps)
    seconds = time.process_time() - clock
    rows = [0, *sorted(steps_and_samples(steps))]
    places = run.x[:, run.free][rows]
    if dim == 2:
        places = np.stack([places[..., 0], 0 * places[..., 0], places[..., 1]], axis=-1)
    if not run.status.ok:
        return {"missing": str(run.status)}
    return {"seconds": seconds, "frames": places, "own_residual": float(run.residual.max())}


def peer(tool: str, name: str, steps: int) -> dict:
    """Another tool, in its interpreter."""
    default = "/usr/bin/python3" if tool == "Siconos" else sys.executable
    python = os.environ.get("SICONOS_PYTHON" if tool == "Siconos" else "PEERS_PYTHON", default)
    command = [python, str(HERE / "bodies_side.py"), tool.lower(), name, str(DT), str(steps)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ | ONE)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"missing": str(error)}
    if done.returncode:
        return {"missing": (done.stderr.strip().splitlines() or ["it failed"])[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def penetration(name: str, frames: np.ndarray) -> float:
    """The largest depth at the samples, from the positions alone: boxes that stay upright, balls, the floor and the walls."""
    what = scene(name)
    half = 0.05 if what["kind"] == "box" else BALL
    depth = half - frames[..., 2].min()
    if what["kind"] == "box" and frames.shape[1] > 1:
        depth = max(depth, float(np.max(0.1 - np.diff(frames[..., 2], axis=1))))
    if what["kind"] == "ball":
        apart = np.linalg.norm(frames[:, :, None] - frames[:, None], axis=-1)
        apart[:, np.arange(frames.shape[1]), np.arange(frames.shape[1])] = np.inf
        depth = max(depth, float(2 * BALL - apart.min()), float(np.max(np.abs(frames[..., :2])) + BALL - what["walls"]))
    return max(float(depth), 0.0)


def drift(name: str, frames: np.ndarray) -> float:
    if name == "slide":
        return float(abs(frames[-1, 0, 0] - STOP))
    since = frames[0] if name == "stack" else frames[-2]
    return float(np.max(np.linalg.norm(frames[-1] - since, axis=-1)))


def row(label: str, name: str, found: dict, steps: int) -> str:
    if "missing" in found:
        return f"| {label} | {found['missing']} | | | |"
    frames = np.asarray(found["frames"], float)
    own = "–" if found["own_residual"] is None else f"{found['own_residual']:.0e}"
    cells = (penetration(name, frames), drift(name, frames))
    return f"| {label} | {1e6 * found['seconds'] / steps:.0f} | " + " | ".join(f"{c:.1e}" for c in cells) + f" | {own} |"


def main(argv: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=HERE / "bodies.md")
    options.add_argument("--scale", type=float, default=1.0, help="so many times as many steps")
    chosen = options.parse_args(argv)
    lines = [
        "# Scenes of bodies, beside other tools",
        "",
        f"Written by `python -m benchmarks.bodies_tools` in one run, steps of {DT:g} s. {platform.machine()}, one core each;",
        f"CPU time, not the clock, since other work shares the machine (load average {os.getloadavg()[0]:.1f} at the start).",
        "",
        *WORDS,
    ]
    for name, about in ABOUT.items():
        steps = max(20, round(STEPS[name] * chosen.scale))
        lines += ["", f"## {name}: {about}", "", "| tool | CPU µs per step | penetration | drift | residual |"]
        lines.append("|---|---|---|---|---|")
        sides = [("carom, in space", lambda n=name, k=steps: carom_side(n, 3, k))]
        sides += [(tool, lambda n=name, k=steps, t=tool: peer(t, n, k)) for tool in ("MuJoCo", "Siconos")]
        if name != "balls":
            sides += [("carom, in the plane", lambda n=name, k=steps: carom_side(n, 2, k))]
            sides += [("pymunk, in the plane", lambda n=name, k=steps: peer("pymunk", n, k))]
        for label, go in sides:
            lines.append(row(label, name, go(), steps))
            print(lines[-1], flush=True)
    page = chosen.out.read_text() if chosen.out.exists() else ""
    marks = sorted(page.find(mark) for mark in (GAS, COMPILED, MARK) if mark in page)  # of other programs
    chosen.out.write_text("\n".join(lines) + "\n" + ("\n" + page[marks[0] :] if marks else ""))


if __name__ == "__main__":
    main()
