"""Siconos, in the interpreter that has it, which need not be the one that has carom: nothing else is imported here.

Called with a problem, a step and a number of steps as JSON, it prints the seconds and the first and last positions.
"""

import itertools
import json
import sys
import time

GRAVITY = 9.81


def run(key: str, dt: float, steps: int) -> dict:
    import siconos.kernel as sk

    bodies, links = {"ball": ball, "cradle": cradle, "stack": stack}[key](sk)
    system = sk.NonSmoothDynamicalSystem(0.0, dt * (steps + 2))
    for body in bodies:
        system.insertDynamicalSystem(body)
    for interaction, members in links:
        system.link(interaction, *members)
    problem = sk.FrictionContact(2) if key == "stack" else sk.LCP()
    simulation = sk.TimeStepping(system, sk.TimeDiscretisation(0.0, dt), sk.MoreauJeanOSI(0.5), problem)
    start = [float(x) for body in bodies for x in body.q()]
    clock = time.perf_counter()
    for _ in range(steps):
        simulation.computeOneStep()
        simulation.nextStep()
    seconds = time.perf_counter() - clock
    return {"seconds": seconds, "start": start, "end": [float(x) for body in bodies for x in body.q()]}


def ball(sk):
    body = sk.LagrangianLinearTIDS([1.0], [0.0], [[1.0]])
    body.setFExtPtr([-GRAVITY])
    return [body], [(sk.Interaction(sk.NewtonImpactNSL(0.9), sk.LagrangianLinearTIR([[1.0]])), (body,))]


def cradle(sk, count: int = 10, radius: float = 0.5):
    places = [0.0] + [3 * radius + 2 * radius * i for i in range(count - 1)]
    bodies = [sk.LagrangianLinearTIDS([x], [1.0 if i == 0 else 0.0], [[1.0]]) for i, x in enumerate(places)]
    law = sk.NewtonImpactNSL(1.0)
    links = []
    for left, right in itertools.pairwise(bodies):
        links.append((sk.Interaction(law, sk.LagrangianLinearTIR([[-1.0, 1.0]], [-2 * radius])), (left, right)))
    return bodies, links


def stack(sk, count: int = 10):
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


if __name__ == "__main__":
    print(json.dumps(run(*json.loads(sys.argv[1]))))
