"""`python -m benchmarks.bodies_gas`: a hundred elastic bodies of mixed shapes in a closed box, through a hundred thousand impacts.

The walls push, so momentum changes; but by what they push, and by nothing else. So beside the energy the balance of momentum and of
angular momentum is told: what the bodies have, less what they had and what the walls gave. Written into the part of bodies.md that
begins with its mark; the run is kept beside `--checkpoint` and goes on from there where it was killed.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import carom
from benchmarks.bodies_steps import replace_part
from carom.bodies import quaternions, shapes

PAGE = Path(__file__).resolve().parent / "bodies.md"
MARK = "## A hundred elastic bodies"
COUNT, DT, CHUNK = 100, 0.03, 500
TETRAHEDRON = [(0.3, 0, 0), (-0.2, 0.25, 0), (-0.2, -0.25, 0), (0, 0, 0.35)]
SHAPES = [shapes.Sphere(0.25), shapes.Box(0.3, 0.4, 0.35), shapes.Capsule(0.12, 0.3), shapes.ConvexPolyhedron(TETRAHEDRON)]


def gas(count: int = COUNT, seed: int = 0) -> carom.World:
    rng, side = np.random.default_rng(seed), int(np.ceil(count ** (1 / 3)))
    world = carom.World(gravity=(0, 0, 0))
    for normal in (*np.eye(3), *-np.eye(3)):
        world.fix(shapes.HalfSpace(normal, offset=-0.5 * side))
    for i, cell in enumerate(list(np.ndindex(side, side, side))[:count]):
        world.add(
            SHAPES[i % len(SHAPES)],
            density=10.0 ** rng.uniform(0, 1),
            position=np.array(cell) - 0.5 * side + 0.5,
            orientation=quaternions.normalise(rng.normal(size=4)),
            velocity=rng.normal(size=3),
            spin=2.0 * rng.normal(size=3),
        )
    world.material(restitution=1.0)
    return world


def balance(run: carom.WorldRun) -> tuple[float, float]:
    """What momentum and angular momentum changed beyond what the walls gave, relative to the sizes of all momenta at the start."""
    hits = run.impacts
    on_b = run.free[hits.b].astype(float) - run.free[hits.a].astype(float)  # 0 between two bodies: what one gets the other gives
    given = on_b[:, None] * hits.impulse
    rows = np.searchsorted(run.steps, hits.step)  # the kept state that is the first after it
    pushed, turned = np.zeros((2, len(run.t), 3))
    np.add.at(pushed, rows, given)
    np.add.at(turned, rows, np.cross(hits.point, given))
    p, x, L = run.mass[run.free][:, None] * run.v[0][run.free], run.x[0][run.free], run.L[0][run.free]
    size = np.sum(np.abs(p)), np.sum(np.abs(np.cross(x, p))) + np.sum(np.abs(L))
    kept = run.momentum - np.cumsum(pushed, axis=0), run.angular_momentum - np.cumsum(turned, axis=0)
    return tuple(float(np.max(np.abs(part - part[0])) / one) for part, one in zip(kept, size, strict=True))


def follow(impacts: int, checkpoint: Path | None) -> tuple[carom.WorldRun, float]:
    """The run, chunk after chunk, until there were so many impacts; and its CPU seconds in this process."""
    world, clock, run = gas(), time.process_time(), None
    if checkpoint is not None and checkpoint.exists():
        run = carom.load(checkpoint)
    else:
        run = world.solve(DT, CHUNK, save_every=10, progress=False)
    while run.status.ok and len(run.impacts) < impacts:
        run = run.extend(CHUNK, world=world, progress=False)
        if checkpoint is not None:
            run.save(checkpoint)
        drift = np.max(np.abs(run.energy / run.energy[0] - 1))
        told = (run.num_steps, len(run.impacts), time.process_time() - clock, drift, *balance(run))
        print("step {} impacts {} CPU s {:.0f} energy {:.2g} momentum {:.2g} angular momentum {:.2g}".format(*told), flush=True)
    return run, time.process_time() - clock


def words(run: carom.WorldRun, seconds: float) -> list[str]:
    change, (momentum, turning) = np.abs(run.energy / run.energy[0] - 1), balance(run)
    hits = run.impacts
    between = int(np.sum(run.free[hits.a] & run.free[hits.b]))
    return [
        f"Spheres, boxes, capsules and tetrahedra of densities 1 to 10 in a closed box, restitution 1, dt = {DT:g}",
        "(`python -m benchmarks.bodies_gas`). The walls change momentum, by what they push: told is what it changed beyond that,",
        "relative to the sum of the sizes of all momenta at the start.",
        "",
        "| impacts | between bodies | steps | energy | momentum | angular momentum | certificate | depth | CPU ms an impact |",
        "|---|---|---|---|---|---|---|---|---|",
        f"| {len(hits)} | {between} | {run.num_steps} | {change.max():.1e} | {momentum:.1e} | {turning:.1e} "
        f"| {run.residual.max():.0e} | {-run.deepest.min():.1e} | {1e3 * seconds / len(hits):.1f} |",
    ]


def main(argv: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--impacts", type=int, default=100_000)
    options.add_argument("--checkpoint", type=Path, help="a *.zarr, *.nc or *.npz to keep the run in")
    options.add_argument("--dry", action="store_true", help="print, and write nothing")
    chosen = options.parse_args(argv)
    run, seconds = follow(chosen.impacts, chosen.checkpoint)
    lines = [MARK, "", *words(run, seconds), "", ""]
    print("\n".join(lines))
    if chosen.dry:
        return
    replace_part(PAGE, MARK, lines)


if __name__ == "__main__":
    main()
