"""`python -m benchmarks.bodies_heaps`: heaps of balls and boxes in disorder that settle in a box, by carom and by other tools.

Each tool has the same scene, the same step and the same patience in CPU seconds, in the interpreter that has it (see
`benchmarks.bodies_tools`). Depths are computed alike for all, from the last poses, by carom's detection. Written to bodies_heaps.md
here.
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

from benchmarks.bodies_side import BALL, FRICTION, GRAVITY, scene
from benchmarks.bodies_tools import ONE
from carom.bodies import shapes
from carom.bodies.detection.detect import detect
from carom.bodies.scene import Scene, State
from carom.bodies.stepping import Stepper
from carom.bodies.world import World
from carom.numerics.blas_threads import one_thread

HERE = Path(__file__).parent
DT, STEPS, TOLERANCE = 2e-3, 1000, 1e-8
SIZES = {100: (5, 5, 4), 300: (5, 5, 12), 1000: (10, 10, 10)}
PLANE = {100: (10, 0, 10), 300: (15, 0, 20), 1000: (25, 0, 40)}
HEAD = "| tool | steps | contacts | CPU ms per step, all and last | per contact | residual | depth | fastest at the end |"


def world_of(name: str, dim: int) -> World:
    what = scene(name)
    world = World(gravity=(0, 0, -GRAVITY) if dim == 3 else (0, -GRAVITY))
    world.fix(shapes.HalfSpace() if dim == 3 else shapes.HalfPlane())
    for normal in ((1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0)) if dim == 3 else ((1, 0), (-1, 0)):
        world.fix((shapes.HalfSpace if dim == 3 else shapes.HalfPlane)(normal, offset=-what["walls"]))
    for (x, y, z), turn in zip(what["places"], what["turns"], strict=True):
        if what["kind"] == "ball":
            shape = shapes.Sphere(BALL) if dim == 3 else shapes.Disc(BALL)
        else:
            shape = shapes.Box(0.1, 0.1, 0.1) if dim == 3 else shapes.Polygon.box(0.1, 0.1)
        world.add(
            shape,
            density=1000,
            position=(x, y, z) if dim == 3 else (x, z),
            orientation=turn if dim == 3 else 2 * np.arctan2(turn[3], turn[0]),
        )
    world.material(friction=FRICTION)
    return world


def carom_side(name: str, dim: int, patience: float) -> dict:
    what, state = world_of(name, dim).scene()
    stepper = Stepper(what, TOLERANCE)
    stepper.begin(state, DT)
    each, worst, contacts, deepest = [], 0.0, [0], 0.0
    with one_thread():
        while len(each) < STEPS and sum(each) < patience:
            clock = time.process_time()
            state, record = stepper.step(state, DT * len(each), DT)
            each.append(time.process_time() - clock)
            worst, deepest = max(worst, record.residual), min(deepest, record.deepest)
            contacts.append(len(record.tables[-1].contacts))
            if not record.converged:
                return {"missing": f"step {len(each)} missed the tolerance: E = {record.residual:.0e}"}
            if not np.any(state.v):
                break
    free = what.free
    poses = np.concatenate([state.x, state.q], axis=1)[free]
    costs = (
        np.array(each)[np.array(contacts[1:]) >= 0.5 * max(contacts)]
        / np.array(contacts[1:])[np.array(contacts[1:]) >= 0.5 * max(contacts)]
    )
    return {
        "each": each,
        "poses": poses,
        "contacts": contacts[-1],
        "own": worst,
        "speed": float(np.max(np.linalg.norm(state.v, axis=1))),
        "per_contact": float(np.mean(costs)),
        "deepest": deepest,
    }


def peer(tool: str, name: str, patience: float) -> dict:
    python = os.environ.get(
        "SICONOS_PYTHON" if tool == "Siconos" else "PEERS_PYTHON", "/usr/bin/python3" if tool == "Siconos" else ""
    )
    command = [python or sys.executable, str(HERE / "bodies_side.py"), tool.lower(), name, str(DT), str(STEPS), str(patience)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10 * patience + 120, env=os.environ | ONE)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"missing": str(error)[:80]}
    if done.returncode:
        return {"missing": (done.stderr.strip().splitlines() or ["it failed"])[-1][:80]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def depth(what: Scene, state: State, poses: np.ndarray) -> float:
    """The largest depth of the bodies in these poses."""
    x, q = state.x.copy(), state.q.copy()
    x[what.free], q[what.free] = poses[:, :3], poses[:, 3:]
    there = State(x, q, state.v, state.L)
    found = detect(there.placement(what), what.free, np.zeros(len(what.mass)), what.ignored)
    return max(0.0, -float(np.min(found.gap, initial=0.0)))


def row(label: str, found: dict, what: Scene, state: State) -> str:
    if "missing" in found:
        return f"| {label} | {found['missing']} | | | | | | |"
    each, contacts = found["each"], found["contacts"]
    last = float(np.mean(each[-10:]))
    cost = found.get("per_contact", last / contacts if contacts else np.nan)
    own = "–" if found["own"] is None else f"{found['own']:.0e}"
    deep = max(depth(what, state, np.asarray(found["poses"], float)), -found.get("deepest", 0.0))
    return (
        f"| {label} | {len(each)} | {contacts if contacts is not None else '–'} | {1e3 * np.mean(each):.1f}, {1e3 * last:.1f} "
        f"| {'–' if np.isnan(cost) else f'{1e3 * cost:.3f} ms'} | {own} | {deep:.0e} m | {found['speed']:.0e} m/s |"
    )


def main(argv: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--patience", type=float, default=60.0, help="CPU seconds for each tool and scene")
    options.add_argument("--sizes", type=int, nargs="*", choices=SIZES, default=list(SIZES))
    options.add_argument("--alone", action="store_true", help="carom without the other tools, and without the plane")
    options.add_argument("--out", type=Path, default=HERE / "bodies_heaps.md")
    chosen = options.parse_args(argv)
    lines = [
        "# Heaps, beside other tools",
        "",
        f"Written by `python -m benchmarks.bodies_heaps` in one run: steps of {DT:g} s, at most",
    ]
    lines += [
        f"{STEPS}, until all rests, or until {chosen.patience:g} CPU seconds are over. {platform.machine()}, one core, CPU time"
    ]
    lines += [
        f"(load average {os.getloadavg()[0]:.1f} at the start). Bodies of 0.1 m, boxes turned at random, fall in disorder; friction"
    ]
    lines += ["0.5, tolerance of E 1e-8. For carom the residual (E) and the depth are the largest of all steps, and the time per"]
    lines += ["contact is that of steps with half of the most contacts or more; for the others they are those of the last step."]
    beside = ((3, ("MuJoCo", "Siconos"), SIZES), (2, ("pymunk",), PLANE))
    for dim, tools, sizes in ((3, (), SIZES),) if chosen.alone else beside:
        for count in chosen.sizes:
            for kind in ("ball", "box"):
                name = "-".join(map(str, ("heap", kind, *sizes[count])))
                bodies = len(scene(name)["places"])
                shape = {
                    ("ball", 3): "balls",
                    ("ball", 2): "discs in the plane",
                    ("box", 3): "boxes",
                    ("box", 2): "squares in the plane",
                }
                lines += ["", f"## {bodies} {shape[kind, dim]}", "", HEAD, "|---|---|---|---|---|---|---|---|"]
                what, state = world_of(name, dim).scene()
                sides = [("carom", lambda n=name, d=dim: carom_side(n, d, chosen.patience))]
                sides += [(tool, lambda n=name, t=tool: peer(t, n, chosen.patience)) for tool in tools]
                for label, go in sides:
                    lines.append(row(label, go(), what, state))
                    print(f"{name} {lines[-1]}", flush=True)
                    chosen.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
