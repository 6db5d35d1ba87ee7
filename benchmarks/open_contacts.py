"""`python -m benchmarks.open_contacts [--beside TREE]`: what do open contacts cost? Discs with friction in a box, in the plane.

n discs have n (n − 1)/2 gaps between them and 3 n to the floor and two walls; a few of these are closed. The time of a step is that
of a run of many less that of a run of one, which is what a call costs (its checks, its first look at all gaps). It stands beside
that in another tree of carom (a worktree of an older revision), one after the other in one run. Written to `open-contacts.md`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SIZES = {8: 300, 12: 100, 50: 60}  # discs: steps; of 12 and 50 all but a few contacts are open so long
RADIUS, FRICTION, RESTITUTION = 0.1, 0.5, 0.3
LIMIT = 400  # seconds for one size; what takes longer is given up


def discs(n: int) -> tuple[Any, Any, Any]:
    """A system of n discs, its q0 and v0: a loose heap that begins to fall."""
    import jax.numpy as jnp
    import numpy as np

    import carom

    i, j = np.triu_indices(n, 1)
    width, inertia = 3.0 * np.sqrt(n) * RADIUS, 0.5 * RADIUS**2

    def lagrangian(q, v):
        place, speed = q.reshape(n, 3), v.reshape(n, 3)
        return 0.5 * jnp.sum(speed[:, :2] ** 2) + 0.5 * inertia * jnp.sum(speed[:, 2] ** 2) - 9.81 * jnp.sum(place[:, 1])

    def apart(q):
        centres = q.reshape(n, 3)[:, :2]
        return jnp.sqrt(jnp.sum((centres[i] - centres[j]) ** 2, axis=1)) - 2 * RADIUS

    def slide(q, v):
        centres, speed = q.reshape(n, 3)[:, :2], v.reshape(n, 3)
        line = centres[i] - centres[j]
        normal = line / jnp.sqrt(jnp.sum(line**2, axis=1))[:, None]
        u = speed[i, :2] - speed[j, :2]
        return (normal[:, 0] * u[:, 1] - normal[:, 1] * u[:, 0] - RADIUS * (speed[i, 2] + speed[j, 2]))[:, None]

    def from_walls(q):
        place = q.reshape(n, 3)
        return jnp.concatenate([place[:, 1], place[:, 0], width - place[:, 0]]) - RADIUS

    def along_walls(v):
        speed = v.reshape(n, 3)
        turn = RADIUS * speed[:, 2]
        return jnp.concatenate([speed[:, 0] + turn, speed[:, 1] - turn, speed[:, 1] + turn])[:, None]

    contacts = [
        carom.Contact(apart, RESTITUTION, friction=FRICTION, slip=slide, name="disc"),
        carom.Contact(from_walls, RESTITUTION, friction=FRICTION, slip=along_walls, name="wall"),
    ]
    side = int(np.ceil(np.sqrt(n)))
    row, column = np.divmod(np.arange(n), side)
    x = 0.95 * (column + 0.6) * width / side + 0.03 * (row % 2)
    q0 = np.stack([x, 0.15 + 2.6 * RADIUS * row, 0 * x], axis=1)
    return carom.System(lagrangian, contacts), q0.ravel(), 0.3 * np.random.default_rng(1).normal(size=3 * n)


def measure(n: int, steps: int, method: str) -> dict[str, float]:
    """The time of a step and of a call, from the least of up to four runs of many steps and of one, after those that compile."""
    import carom

    system, q0, v0 = discs(n)
    chosen = {"MoreauJean": carom.MoreauJean(), "TimeDG": carom.TimeDG(1)}[method]
    begun, best, energy, gaps = time.perf_counter(), {1: float("inf"), steps: float("inf")}, 0.0, 0
    for _ in range(4):
        for count in best:
            run = carom.solve(system, chosen, q0, v0, dt=1e-3, num_steps=count)
            best[count] = min(best[count], run.seconds)
            energy, gaps = float(run.energy[-1]), len(run.impacts.names)
        if time.perf_counter() - begun > LIMIT / 2:
            break
    step = (best[steps] - best[1]) / (steps - 1)
    return {"ms": 1e3 * step, "call": 1e3 * (best[1] - step), "energy": energy, "gaps": gaps}


def in_tree(tree: Path, n: int, steps: int, method: str) -> dict[str, float] | None:
    """`measure` with the carom of a tree, in a process of its own."""
    code = f"import json, benchmarks.open_contacts as b; print(json.dumps(b.measure({n}, {steps}, {method!r})))"
    lines = f"import sys; sys.path.insert(0, {str(tree)!r}); import carom; sys.path.insert(0, {str(ROOT)!r})\n{code}"
    try:
        done = subprocess.run(
            [sys.executable, "-c", lines],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            env={**os.environ, "PYTHONPATH": ""},
            cwd="/",
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", type=Path, help="another tree of carom")
    parser.add_argument("--method", default="MoreauJean", choices=["MoreauJean", "TimeDG"])
    parser.add_argument("--discs", default=",".join(map(str, SIZES)))
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "open-contacts.md")
    args = parser.parse_args()
    rows = [
        "| discs | gaps | ms per step before | now | before / now | ms per call now | energy at the end differs by |",
        "|---" * 7 + "|",
    ]
    for n in map(int, args.discs.split(",")):
        now = in_tree(ROOT, n, SIZES[n], args.method)
        before = None if args.beside is None else in_tree(args.beside.resolve(), n, SIZES[n], args.method)
        assert now is not None
        old = "–" if before is None else f"{before['ms']:.3g}"
        ratio = "–" if before is None else f"{before['ms'] / now['ms']:.3g}"
        same = "–" if before is None else f"{abs(before['energy'] - now['energy']):.1e}"
        rows.append(f"| {n} | {now['gaps']} | {old} | {now['ms']:.3g} | {ratio} | {max(now['call'], 0):.2g} | {same} |")
        print(rows[-1], flush=True)
    load = os.getloadavg()[0]
    note = f"`{args.method}`, steps of 1 ms; the least of up to four runs, on {os.cpu_count()} cores with a load of {load:.0f}."
    args.out.write_text(
        "# Open contacts\n\n" + "\n".join(rows) + f"\n\n{note}\nA dash: not measured, or given up after {LIMIT} s.\n"
    )


if __name__ == "__main__":
    main()
