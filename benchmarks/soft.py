"""MuJoCo's models: contacts are springs there, without a coefficient of restitution.

A contact here has no damping, and nearly no softness of its own (impedance 0.9999). Its stiffness, per mass, is the best of a few
that were tried. Over 1000 bounces, with Euler's steps, a ball keeps its energy to 3 % with 1/dt² and with 2/dt²; with values
between and above it gains energy without end, and with RK4 steps it stops. A gas, where several contacts meet, needs softer ones.
"""

import numpy as np

from benchmarks.problems import GRAVITY


def _option(dt: float, gravity: float, stiffness: float) -> str:
    contact = f'condim="1" solref="{-stiffness} 0" solimp="0.9999 0.9999 1e-6"'
    return f'<option timestep="{dt}" gravity="0 0 {-gravity}"/><size memory="200M"/><default><geom {contact}/></default>'


def particle(dt: float):
    """A ball that slides along x and z, its lowest point at the height z, above a plane."""
    import mujoco

    return mujoco.MjModel.from_xml_string(
        f"""<mujoco>{_option(dt, GRAVITY, 2 / dt**2)}<worldbody>
        <geom type="plane" size="0 0 1"/>
        <body><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
        <geom type="sphere" size="0.1" pos="0 0 0.1" mass="1"/></body>
        </worldbody></mujoco>"""
    )


def discs(dt: float, stiffness: float, count: int, radius: float, side: float):
    """Spheres that slide along x and y, in a box of four planes."""
    import mujoco

    planes = ("0 0 0", "1 0 0"), ("0 0 0", "0 1 0"), (f"{side} 0 0", "-1 0 0"), (f"0 {side} 0", "0 -1 0")
    walls = "".join(f'<geom type="plane" size="0 0 1" pos="{pos}" zaxis="{axis}"/>' for pos, axis in planes)
    body = '<body><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/>'
    body += f'<geom type="sphere" size="{radius}" mass="1"/></body>'
    return mujoco.MjModel.from_xml_string(
        f"<mujoco>{_option(dt, 0.0, stiffness)}<worldbody>{walls}{count * body}</worldbody></mujoco>"
    )


def rollout(model, q0s: np.ndarray, v0s: np.ndarray, steps: int, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """The states after every step, [worlds, steps, n]: positions, velocities."""
    import mujoco
    from mujoco.rollout import rollout

    n = q0s.shape[1]
    start = np.concatenate([np.zeros((len(q0s), 1)), q0s, v0s], axis=1)  # the time comes first
    states, _ = rollout(model, [mujoco.MjData(model) for _ in range(threads)], start, nstep=steps)
    return states[:, :, 1 : 1 + n], states[:, :, 1 + n :]
