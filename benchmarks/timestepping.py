"""`python -m benchmarks.timestepping`: Moreau–Jean of carom and of Siconos on the ball, the cradle and the stack, on one core.

Siconos is optional (Debian: python3-siconos). It is looked for in this interpreter, then in the one that SICONOS_PYTHON names.
The same steps, laws and parameters for both: θ = 1/2, dt as below, and for each the time to step, everything compiled before.
"""

import itertools
import json
import os
import subprocess
import sys
import time

GRAVITY = 9.81
PROBLEMS = {
    "ball": {"about": "ball on a floor, e = 0.9, until it rests", "dt": 0.005, "steps": 20_000},
    "cradle": {"about": "ten touching balls, e = 1, one impulse", "dt": 0.01, "steps": 2_000},
    "stack": {"about": "ten boxes at rest, friction 0.5", "dt": 0.01, "steps": 1_000},
}


def carom_run(key: str, dt: float, steps: int) -> tuple[float, list[float]]:
    import carom

    models = {
        "ball": lambda: carom.models.zeno_ball(GRAVITY, 0.9),
        "cradle": lambda: carom.models.cradle(10),
        "stack": lambda: carom.models.stack(10),
    }
    model, best, end = models[key](), float("inf"), []
    for _ in range(4):  # the first one compiles
        run = model.solve(carom.MoreauJean(), dt=dt, num_steps=steps)
        best, end = min(best, run.seconds), run.q[-1].tolist()
    return best, end


def siconos_run(key: str, dt: float, steps: int) -> tuple[float, list[float]]:
    import siconos.kernel as sk

    bodies, links = {"ball": siconos_ball, "cradle": siconos_cradle, "stack": siconos_stack}[key](sk)
    system = sk.NonSmoothDynamicalSystem(0.0, dt * (steps + 2))
    for body in bodies:
        system.insertDynamicalSystem(body)
    for interaction, members in links:
        system.link(interaction, *members)
    problem = sk.FrictionContact(2) if key == "stack" else sk.LCP()
    simulation = sk.TimeStepping(system, sk.TimeDiscretisation(0.0, dt), sk.MoreauJeanOSI(0.5), problem)
    clock = time.perf_counter()
    for _ in range(steps):
        simulation.computeOneStep()
        simulation.nextStep()
    seconds = time.perf_counter() - clock
    return seconds, [float(x) for body in bodies for x in body.q()]


def siconos_ball(sk):
    body = sk.LagrangianLinearTIDS([1.0], [0.0], [[1.0]])
    body.setFExtPtr([-GRAVITY])
    return [body], [(sk.Interaction(sk.NewtonImpactNSL(0.9), sk.LagrangianLinearTIR([[1.0]])), (body,))]


def siconos_cradle(sk, count: int = 10, radius: float = 0.5):
    places = [0.0] + [3 * radius + 2 * radius * i for i in range(count - 1)]
    bodies = [sk.LagrangianLinearTIDS([x], [1.0 if i == 0 else 0.0], [[1.0]]) for i, x in enumerate(places)]
    law = sk.NewtonImpactNSL(1.0)
    links = []
    for left, right in itertools.pairwise(bodies):
        links.append((sk.Interaction(law, sk.LagrangianLinearTIR([[-1.0, 1.0]], [-2 * radius])), (left, right)))
    return bodies, links


def siconos_stack(sk, count: int = 10):
    """Rows: height of a lower corner above what is below it, and its place along; about the upright stack."""
    mass = [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1 / 6]]
    bodies = [sk.LagrangianLinearTIDS([0.0, i + 0.5, 0.0], [0.0, 0.0, 0.0], mass) for i in range(count)]
    for body in bodies:
        body.setFExtPtr([0.0, -GRAVITY, 0.0])
    law = sk.NewtonImpactFrictionNSL(0.0, 0.0, 0.5, 2)
    links = []
    for i, body in enumerate(bodies):
        for x in (-0.5, 0.5):
            own = [[0.0, 1.0, x], [1.0, 0.0, 0.5]]
            if i == 0:
                links.append((sk.Interaction(law, sk.LagrangianLinearTIR(own, [-0.5, 0.0])), (body,)))
                continue
            below = [[0.0, -1.0, -x], [-1.0, 0.0, 0.5]]
            rows = [a + b for a, b in zip(below, own, strict=True)]
            links.append((sk.Interaction(law, sk.LagrangianLinearTIR(rows, [-1.0, 0.0])), (bodies[i - 1], body)))
    return bodies, links


def peer(key: str, dt: float, steps: int) -> tuple[float, list[float]] | None:
    """Siconos in a process of its own: the interpreter that has it need not be the one that has carom."""
    python = os.environ.get("SICONOS_PYTHON", sys.executable)
    command = [python, os.path.abspath(__file__), "--siconos", json.dumps([key, dt, steps])]
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode:
        return None
    return tuple(json.loads(out.stdout.strip().splitlines()[-1]))


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if "--siconos" in sys.argv:
        print(json.dumps(siconos_run(*json.loads(sys.argv[-1]))))
        return
    print(f"{'problem':<45}{'carom':>12}{'Siconos':>12}   µs per step")
    for key, problem in PROBLEMS.items():
        dt, steps = problem["dt"], problem["steps"]
        ours, q_ours = carom_run(key, dt, steps)
        theirs = peer(key, dt, steps)
        other = "not found" if theirs is None else f"{1e6 * theirs[0] / steps:.2f}"
        apart = ""
        if theirs is not None:
            apart = f"   final positions differ by {max(abs(a - b) for a, b in zip(q_ours, theirs[1], strict=True)):.1e}"
        print(f"{problem['about']:<45}{1e6 * ours / steps:>12.2f}{other:>12}{apart}")


if __name__ == "__main__":
    main()
