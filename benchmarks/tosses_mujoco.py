"""`python -m benchmarks.tosses_mujoco FILE`: MuJoCo on the measured tosses of a cube, fitted as `carom study tosses` fits carom.

The same first poses, velocities and errors; friction, and the damping ratio of its soft contact in the place of a restitution, are
found on the even tosses and measured on the odd ones. Prints one line per pair that was tried, and the errors of the best.
"""

import argparse
from pathlib import Path

import numpy as np

from carom.bodies import quaternions
from carom.papers import reality
from carom.papers import tosses as study

SUBSTEPS = 16
FRICTIONS, DAMPINGS = (0.1, 0.15, 0.2, 0.25, 0.3), (0.1, 0.2, 0.35, 0.5, 1.0)
SOFT = 0.004  # seconds: the time constant of the contact, about the shortest that these steps allow


def simulate(toss: study.Toss, friction: float, damping: float):
    import mujoco as mj

    half, inertia = 0.5 * study.WIDTH, study.INERTIA
    law = f'friction="{friction} 0 0" condim="3" solref="{SOFT} {damping}"'
    model = mj.MjModel.from_xml_string(f"""<mujoco><option timestep="{1 / study.RATE / SUBSTEPS}" gravity="0 0 {-study.GRAVITY}"
      cone="elliptic"/><worldbody><geom type="plane" size="0 0 1" {law}/><body><freejoint/>
      <inertial pos="0 0 0" mass="{study.MASS}" diaginertia="{inertia} {inertia} {inertia}"/>
      <geom type="box" size="{half} {half} {half}" {law}/></body></worldbody></mujoco>""")
    data = mj.MjData(model)
    velocity, spin = study.flight(toss)
    data.qpos[:] = [*toss.position[0], *toss.turn[0]]
    data.qvel[:] = [*velocity, *(quaternions.matrix(toss.turn[0]).T @ spin)]
    turn, place = [toss.turn[0]], [toss.position[0]]
    for _ in range(len(toss.turn) - 1):
        mj.mj_step(model, data, SUBSTEPS)
        turn.append(data.qpos[3:].copy())
        place.append(data.qpos[:3].copy())
    return np.array(turn), np.array(place)


def main(argv: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("data", type=Path)
    options.add_argument("--train", type=int, default=50)
    options.add_argument("--test", type=int, default=200)
    chosen = options.parse_args(argv)
    every = study.load_tosses(chosen.data)
    tried = {}
    for pair in ((mu, d) for mu in FRICTIONS for d in DAMPINGS):
        tried[pair] = np.mean([study.errors(toss, *simulate(toss, *pair)).score for toss in every[0::2][: chosen.train]])
        print(f"friction {pair[0]:g}, damping {pair[1]:g}: score {tried[pair]:.3f}", flush=True)
    best = min(tried, key=lambda pair: tried[pair])
    found = [study.errors(toss, *simulate(toss, *best)) for toss in every[1::2][: chosen.test]]
    print(f"friction {best[0]:g}, damping {best[1]:g}: {reality.toss_summary(found)}")


if __name__ == "__main__":
    main()
