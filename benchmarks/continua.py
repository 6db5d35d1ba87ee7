"""`python -m benchmarks.continua`: bars and the beam against plain numba loops (benchmarks/loops.py), on one core."""

import argparse
import time

import numpy as np

from benchmarks.__main__ import pin

TARGETS = {"bars, 102 nodes": 3.0, "bars, 10 002 nodes": 1.5, "beam, 11 nodes": 3.0}


def cases(steps: dict[str, int] | None = None):
    """(name, steps, a run of carom that returns its Solution, a run of the loop that returns its states)."""
    import carom
    from benchmarks import loops

    steps = steps or {"bars, 102 nodes": 26_670, "bars, 10 002 nodes": 1_000, "beam, 11 nodes": 12_500}
    rule = carom.Trapezoidal()
    reflect = carom.VariationalCollision(rule, elastic="reflection")
    for name, elements in (("bars, 102 nodes", 50), ("bars, 10 002 nodes", 5000)):
        model = carom.models.bars(elements=(elements, elements), integrator=1)
        params = {key: np.asarray(value) for key, value in model.params.items()}
        q0, p0 = np.asarray(model.q0), params["mass"] * np.asarray(model.v0)
        arguments = (q0, p0, params["mass"], params["stiffness"], params["rest"], elements + 1, model.dt, steps[name])
        yield (
            name,
            steps[name],
            lambda m=model, n=steps[name]: m.solve(reflect, num_steps=n, progress=False),
            lambda a=arguments: loops.run_bars(*a)[0],
        )
    name = "beam, 11 nodes"
    model = carom.models.beam(height=20.0)
    params = {key: np.asarray(value) for key, value in model.params.items()}
    mass = params["mass"].reshape(-1, 6)
    q0, p0 = np.asarray(model.q0).reshape(-1, 7), mass * np.asarray(model.v0).reshape(-1, 6)
    arguments = (q0, p0, mass, params["stiffness"], float(params["spacing"]), float(params["gravity"]), model.dt, steps[name])
    method = carom.VariationalCollision(rule)
    yield (
        name,
        steps[name],
        lambda m=model, n=steps[name]: m.solve(method, num_steps=n, progress=False),
        lambda a=arguments: loops.run_beam(*a)[0],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    pin()
    print("| problem | carom, µs per step | numba, µs per step | ratio | wanted | compile, s |\n|---|---|---|---|---|---|")
    for name, steps, run, loop in cases():
        compile_seconds = run().compile_seconds
        loop()
        ours, theirs = [], []
        for _ in range(repeats):  # in turns, so that both see the same machine
            ours.append(run().seconds)
            clock = time.perf_counter()
            loop()
            theirs.append(time.perf_counter() - clock)
        a, b = 1e6 * min(ours) / steps, 1e6 * min(theirs) / steps
        print(f"| {name} | {a:.3g} | {b:.3g} | {a / b:.2f} | {TARGETS[name]} | {compile_seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
