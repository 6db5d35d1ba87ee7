"""A short look at an installation, without pytest: one run of each kind, held against what mechanics says."""

import sys
import time

import jax
import numpy as np

import carom
from carom.xla import probe
from carom.xla.kernel import kernel_state

ORDER_4 = carom.VariationalCollision(carom.Composition(carom.Trapezoidal(), 4))


def particle() -> tuple[float, float]:
    """Energy over 200 impacts: the composition of order 4 keeps it to rounding."""
    return np.max(np.abs(carom.models.particle().solve(ORDER_4, num_steps=20_000).energy_error)), 1e-11  # 20 000 steps of rounding


def star() -> tuple[float, float]:
    """Four gaps, and sines."""
    return np.max(np.abs(carom.models.star().solve(ORDER_4, num_steps=5000).energy_error)), 1e-11  # the same, fewer steps


def gradient() -> tuple[float, float]:
    """Through a bounce, against a difference quotient."""
    model = carom.models.particle()

    def height(x):
        return carom.rollout(model.system, ORDER_4, [0.0, x], [0.0, 0.0], dt=0.01, num_steps=100, params=model.params).q[-1][1]

    slope = (height(1.0 + 1e-5) - height(1.0 - 1e-5)) / 2e-5
    return abs(float(jax.grad(height)(1.0) - slope)), 1e-6  # of the quotient: 1e-10 times the third derivative, and rounding / 1e-5


def ensemble() -> tuple[float, float]:
    """Every lane is its own run."""
    model = carom.models.particle()
    q0, v0 = np.array([[0.0, 1.0], [0.0, 0.7], [0.0, 1.3]]), np.zeros((3, 2))
    many = carom.ensemble(model.system, ORDER_4, q0, v0, dt=0.01, num_steps=200, params=model.params)
    one = carom.solve(model.system, ORDER_4, q0[1], v0[1], dt=0.01, num_steps=200, params=model.params)
    return np.max(np.abs(np.asarray(many.q)[1, -1] - one.q[-1])), 1e-9  # four impacts; other order of operations


def zeno() -> tuple[float, float]:
    """Infinitely many impacts, then rest: TimeDG against the exact answer."""
    model = carom.models.zeno_ball()
    run = model.solve()
    return float(np.mean(np.abs(run.q[:, 0] - model.exact["solution"](run.t)[0]))), 2 * model.dt  # first order across impacts


def moreau() -> tuple[float, float]:
    """The same with Moreau–Jean."""
    model = carom.models.zeno_ball()
    run = model.solve(carom.MoreauJean())
    return float(np.mean(np.abs(run.q[:, 0] - model.exact["solution"](run.t)[0]))), 2 * model.dt  # first order


def event_driven() -> tuple[float, float]:
    """diffrax between impacts."""
    return np.max(np.abs(carom.models.particle().solve(carom.EventDriven(), num_steps=500).energy_error)), 1e-6  # its tolerance


def rigid() -> tuple[float, float]:
    """A body that turns in space."""
    return float(np.max(np.abs(carom.models.rigid_body().solve(num_steps=200).energy_error))), 1e-6  # what its rule leaves


CHECKS = (particle, star, gradient, ensemble, zeno, moreau, event_driven, rigid)


def main() -> int:
    state, failed = kernel_state(), 0
    print(
        f"carom {carom.__version__}, Python {sys.version.split()[0]}, jax {jax.__version__}, one kernel: {state.on} ({state.why}), "
        f"kept without their computation: {probe.verdict().bare}"
    )
    for check in CHECKS:
        clock = time.perf_counter()
        try:
            error, limit = check()
            verdict = f"{error:.1e} of {limit:.0e}" if error <= limit else f"FAILED: {error:.1e} > {limit:.0e}"
        except Exception as problem:
            error, limit, verdict = 1.0, 0.0, f"FAILED: {type(problem).__name__}: {str(problem)[:150]}"
        failed += not error <= limit
        print(f"  {check.__name__:14} {verdict:24} {time.perf_counter() - clock:6.1f} s", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
