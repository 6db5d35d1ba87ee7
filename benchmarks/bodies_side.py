"""Other tools on scenes of bodies, each in the interpreter that has it: nothing of carom is imported here.

Called as `python bodies_side.py TOOL SCENE DT STEPS [PATIENCE]`, it prints one JSON object: the CPU seconds of the steps, the
positions of all bodies at the start and at some later times, and what the tool says of its own contact problem. Of a
heap it tells the CPU seconds of each step until the patience was over, and then the contacts and the poses.
"""

import json
import math
import random
import sys
import time

GRAVITY, FRICTION = 9.81, 0.5
SAMPLES = 20  # times at which positions are kept
BALL = 0.05
UPRIGHT = (1.0, 0.0, 0.0, 0.0)


def scene(name: str) -> dict:
    """What every tool builds: boxes of 0.1 or balls, where they are, and how fast. Sizes are full sizes."""
    if name == "slide":
        return {"kind": "box", "places": [(0.0, 0.0, 0.05)], "velocity": (6.0, 0.0, 0.0), "walls": None}
    if name == "stack":
        return {
            "kind": "box",
            "places": [(0.003 * (i % 2), 0.0, 0.05 + 0.1 * i) for i in range(10)],
            "velocity": None,
            "walls": None,
        }
    if name == "balls":
        row = (-0.11, 0.0, 0.11)
        places = [(x + 0.013 * k, y - 0.007 * k, 0.06 + 0.115 * k) for k in range(3) for x in row for y in row]
        return {"kind": "ball", "places": places, "velocity": None, "walls": 0.2}
    if name.startswith("heap-"):
        return heap(*name.split("-")[1:])
    raise SystemExit(f"there is no scene {name}")


def heap(kind: str, across: str, deep: str, layers: str) -> dict:
    """Bodies of 0.1 in cells with room to turn, between walls: balls at places that vary by 8 mm, boxes turned at random; they fall
    and become one heap. In the plane `deep` is 0."""
    chance, flat = random.Random(0), int(deep) == 0
    cell = 0.12 if kind == "ball" else 0.145 if flat else 0.177
    places, turns = [], []
    for i in range(int(across)):
        for j in range(max(int(deep), 1)):
            for k in range(int(layers)):
                x, y, z = ((8e-3 if kind == "ball" else 1e-3) * chance.uniform(-1, 1) for _ in range(3))
                middle = (cell * (i - 0.5 * (int(across) - 1)), cell * (j - 0.5 * (max(int(deep), 1) - 1)))
                places.append((middle[0] + x, 0.0 if flat else middle[1] + y, 0.5 * cell + 1e-3 + cell * k + z))
                angle = chance.uniform(-math.pi, math.pi)
                turn = [math.cos(angle / 2), 0.0, 0.0, math.sin(angle / 2)] if flat else [chance.gauss(0, 1) for _ in range(4)]
                length = math.sqrt(sum(t * t for t in turn))
                turns.append([t / length for t in turn] if kind == "box" else [1.0, 0.0, 0.0, 0.0])
    return {"kind": kind, "places": places, "turns": turns, "velocity": None, "walls": 0.5 * cell * int(across) + 1e-3}


def march(step, steps: int, patience: float) -> list[float]:
    """CPU seconds of each step, until the patience is over."""
    each: list[float] = []
    while len(each) < steps and sum(each) < patience:
        clock = time.process_time()
        step()
        each.append(time.process_time() - clock)
    return each


def steps_and_samples(steps: int):
    return {round(steps * (k + 1) / SAMPLES) for k in range(SAMPLES)}


# -- MuJoCo --------------------------------------------------------------------------------------------------------------


def mujoco(name: str, dt: float, steps: int, patience: float = 0.0) -> dict:
    import mujoco as mj

    what = scene(name)
    shape = 'type="box" size="0.05 0.05 0.05"' if what["kind"] == "box" else f'type="sphere" size="{BALL}"'
    bodies = "".join(
        f'<body pos="{x} {y} {z}" quat="{" ".join(map(str, turn))}"><freejoint/>'
        f'<geom {shape} density="1000" friction="{FRICTION} 0 0" condim="3"/></body>'
        for (x, y, z), turn in zip(what["places"], what.get("turns") or [UPRIGHT] * len(what["places"]), strict=True)
    )
    walls = ""
    if what["walls"]:
        w = what["walls"]
        for pos, axis in (((-w, 0), "1 0 0"), ((w, 0), "-1 0 0"), ((0, -w), "0 1 0"), ((0, w), "0 -1 0")):
            walls += (
                f'<geom type="plane" size="0 0 1" pos="{pos[0]} {pos[1]} 0" zaxis="{axis}" friction="{FRICTION} 0 0" condim="3"/>'
            )
    xml = f"""<mujoco><option timestep="{dt}" gravity="0 0 {-GRAVITY}" cone="elliptic"/><worldbody>
      <geom type="plane" size="0 0 1" friction="{FRICTION} 0 0" condim="3"/>{walls}{bodies}</worldbody></mujoco>"""
    model = mj.MjModel.from_xml_string(xml)
    data = mj.MjData(model)
    if what["velocity"]:
        data.qvel[:3] = what["velocity"]
    if patience:
        each = march(lambda: mj.mj_step(model, data), steps, patience)
        last = int(data.solver_niter[0]) - 1
        own = float(data.solver.gradient[max(last, 0)]) if last >= 0 else 0.0
        speed = float(abs(data.qvel.reshape(-1, 6)[:, :3]).max())
        return {"each": each, "poses": data.qpos.reshape(-1, 7).tolist(), "contacts": int(data.ncon), "own": own, "speed": speed}
    place = lambda: data.qpos.reshape(-1, 7)[:, :3].tolist()  # noqa: E731
    frames, keep, seconds = [place()], steps_and_samples(steps), 0.0
    for k in range(1, steps + 1):
        clock = time.process_time()
        mj.mj_step(model, data)
        seconds += time.process_time() - clock
        if k in keep:
            frames.append(place())
    last = int(data.solver_niter[0]) - 1
    own = float(data.solver.gradient[max(last, 0)]) if last >= 0 else 0.0
    return {"seconds": seconds, "frames": frames, "own_residual": own, "version": mj.__version__}


# -- pymunk, in the plane: x and the height --------------------------------------------------------------------------------


def pymunk(name: str, dt: float, steps: int, patience: float = 0.0) -> dict:
    import pymunk as pm

    what = scene(name)
    space = pm.Space()
    space.gravity, space.iterations, space.collision_slop = (0.0, -GRAVITY), 50, 1e-6
    root = FRICTION**0.5  # it multiplies the frictions of the two
    floor = pm.Segment(space.static_body, (-100, -1), (100, -1), 1.0)
    floor.friction = root
    space.add(floor)
    for side in (-1, 1) if what["walls"] else ():
        at = side * (what["walls"] + 1)
        wall = pm.Segment(space.static_body, (at, -10), (at, 100), 1.0)
        wall.friction = root
        space.add(wall)
    bodies = []
    for (x, _, z), turn in zip(what["places"], what.get("turns") or [UPRIGHT] * len(what["places"]), strict=True):
        ball = what["kind"] == "ball"
        mass = 1000 * 3.141592653589793 * BALL**2 if ball else 10.0
        body = pm.Body(mass, pm.moment_for_circle(mass, 0, BALL) if ball else pm.moment_for_box(mass, (0.1, 0.1)))
        body.position, body.angle = (x, z), 2 * math.atan2(turn[3], turn[0])
        shape = pm.Circle(body, BALL) if ball else pm.Poly.create_box(body, (0.1, 0.1))
        shape.friction = root
        space.add(body, shape)
        bodies.append(body)
    if what["velocity"]:
        bodies[0].velocity = what["velocity"][::2]
    if patience:
        each = march(lambda: space.step(dt), steps, patience)
        poses = [(b.position.x, b.position.y, 0.0, math.cos(b.angle / 2), 0.0, 0.0, math.sin(b.angle / 2)) for b in bodies]
        return {"each": each, "poses": poses, "contacts": None, "own": None, "speed": max(abs(b.velocity) for b in bodies)}
    place = lambda: [(b.position.x, 0.0, b.position.y) for b in bodies]  # noqa: E731
    frames, keep, seconds = [place()], steps_and_samples(steps), 0.0
    for k in range(1, steps + 1):
        clock = time.process_time()
        space.step(dt)
        seconds += time.process_time() - clock
        if k in keep:
            frames.append(place())
    return {"seconds": seconds, "frames": frames, "own_residual": None, "version": pm.version}


# -- Siconos ---------------------------------------------------------------------------------------------------------------


def siconos(name: str, dt: float, steps: int, patience: float = 0.0) -> dict:
    import numpy as np
    import siconos.kernel as sk
    import siconos.numerics as sn
    from siconos.mechanics.collision import (
        RigidBodyDS,
        SiconosBox,
        SiconosContactor,
        SiconosContactorSet,
        SiconosPlane,
        SiconosSphere,
    )
    from siconos.mechanics.collision.bullet import SiconosBulletCollisionManager, SiconosBulletOptions

    what = scene(name)
    outside = 0.01 if patience else 0.0  # of heaps: without it balls sink through the floor (bodies_heaps.md)
    system = sk.NonSmoothDynamicalSystem(0.0, dt * (steps + 2))
    bodies = []
    for i, where in enumerate(what["places"]):
        mass = 1.0 if what["kind"] == "box" else 1000 * 4 / 3 * np.pi * BALL**3
        moment = mass / 6 * 0.01 if what["kind"] == "box" else 0.4 * mass * BALL**2
        speed = [*what["velocity"], 0, 0, 0] if what["velocity"] and i == 0 else [0] * 6
        body = RigidBodyDS([*where, *(what["turns"][i] if "turns" in what else UPRIGHT)], speed, mass, np.eye(3) * moment)
        shape = SiconosBox(0.1, 0.1, 0.1) if what["kind"] == "box" else SiconosSphere(BALL)
        shape.setInsideMargin(0.005)
        shape.setOutsideMargin(outside)
        parts = SiconosContactorSet()
        parts.append(SiconosContactor(shape))
        body.setContactors(parts)
        body.setFExtPtr([0, 0, -mass * GRAVITY])
        system.insertDynamicalSystem(body)
        bodies.append(body)
    options = SiconosBulletOptions()
    options.worldScale = 1.0
    options.contactBreakingThreshold = 0.01 + outside
    manager = SiconosBulletCollisionManager(options)
    half = np.sqrt(0.5)
    planes = [[0, 0, 0, 1, 0, 0, 0]]
    if what["walls"]:
        w = what["walls"]
        planes += [
            [-w, 0, 0, half, 0, half, 0],
            [w, 0, 0, half, 0, -half, 0],
            [0, -w, 0, half, -half, 0, 0],
            [0, w, 0, half, half, 0, 0],
        ]
    for pose in planes:
        parts = SiconosContactorSet()
        parts.append(SiconosContactor(SiconosPlane()))
        manager.insertStaticContactorSet(parts, pose)
    manager.insertNonSmoothLaw(sk.NewtonImpactFrictionNSL(0.0, 0.0, FRICTION, 3), 0, 0)
    problem = sk.FrictionContact(3, sn.SICONOS_FRICTION_3D_NSGS)
    problem.numericsSolverOptions().dparam[sn.SICONOS_DPARAM_TOL] = 1e-8
    problem.numericsSolverOptions().iparam[sn.SICONOS_IPARAM_MAX_ITER] = 1000
    problem.setMStorageType(1)
    problem.setMaxSize(100000)
    simulation = sk.TimeStepping(system, sk.TimeDiscretisation(0.0, dt))
    simulation.insertIntegrator(sk.MoreauJeanOSI(0.5))
    simulation.insertNonSmoothProblem(problem)
    simulation.insertInteractionManager(manager)
    simulation.setNewtonOptions(sk.SICONOS_TS_LINEAR)
    simulation.setNewtonMaxIteration(2)
    simulation.setNewtonTolerance(1e-10)
    if patience:

        def step():
            simulation.computeOneStep()
            simulation.nextStep()

        each = march(step, steps, patience)
        own = float(problem.numericsSolverOptions().dparam[sn.SICONOS_DPARAM_RESIDU])
        poses = [[float(x) for x in body.q()] for body in bodies]
        speed = max(float(np.linalg.norm(body.twist()[:3])) for body in bodies)
        return {"each": each, "poses": poses, "contacts": problem.getSizeOutput() // 3, "own": own, "speed": speed}
    place = lambda: [[float(x) for x in body.q()[:3]] for body in bodies]  # noqa: E731
    frames, keep, seconds = [place()], steps_and_samples(steps), 0.0
    for k in range(1, steps + 1):
        clock = time.process_time()
        simulation.computeOneStep()
        simulation.nextStep()
        seconds += time.process_time() - clock
        if k in keep:
            frames.append(place())
    own = float(problem.numericsSolverOptions().dparam[sn.SICONOS_DPARAM_RESIDU])
    return {"seconds": seconds, "frames": frames, "own_residual": own, "version": "4.4"}


if __name__ == "__main__":
    tool, name, dt, steps, *patience = sys.argv[1:]
    found = {"mujoco": mujoco, "pymunk": pymunk, "siconos": siconos}[tool]
    print(json.dumps(found(name, float(dt), int(steps), *map(float, patience))))
