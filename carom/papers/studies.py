"""Studies: measured orders of the timestepping methods on problems with known solutions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from carom.contact.contact import Contact
from carom.diagnostics import measured_order
from carom.methods.timestepping.moreau import MoreauJean
from carom.methods.timestepping.time_dg import TimeDG
from carom.models.balls import free_ball, resting_ball, zeno_ball
from carom.numerics.quadrature import gauss
from carom.running.solve import solve
from carom.system.system import System

ROUNDING = 1e-13  # L1 errors of this size have no order
PIECES, POINTS = 8, 6  # quadrature of an L1 norm: so many pieces of a step, so many Gauss points in each


@dataclass(frozen=True)
class Exercise:
    """A problem in one coordinate whose position, velocity and interaction are known."""

    key: str
    about: str
    system: System
    q0: float
    v0: float
    params: dict[str, float]
    duration: float
    steps: tuple[int, ...]  #      numbers of steps to measure with
    measured: str  #               which of q, v, i have an error at all
    exact: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]


def _swing(q, v):
    return 0.5 * v[0] ** 2 - 2.0 * q[0] ** 2


def _press(q, v, t):
    return 0.5 * v[0] ** 2 - jnp.exp(1 + t) * q[0]


def _far_floor(q):
    return q[0] + 2.0


def _floor(q):
    return q[0]


_SWING = System(_swing, [Contact(_far_floor)])
_PRESS = System(_press, [Contact(_floor)])


def _oscillation(t):
    return np.cos(2 * t), -2 * np.sin(2 * t), 0 * t


def _growing_press(t):
    return 0 * t, 0 * t, np.e * (np.exp(t) - 1)


def _of_model(key: str, model: Any, duration: float, steps: tuple[int, ...], measured: str) -> Exercise:
    return Exercise(
        key, model.about, model.system, model.q0[0], model.v0[0], model.params, duration, steps, measured, model.exact["solution"]
    )


def problems() -> list[Exercise]:
    """Problems 4.2–4.4 of [schindler2014]; and, since the methods solve the first two exactly from degree 3 on, free flight in a
    spring's force and rest under a growing load."""
    many = tuple(int(300 * 1.13**i) | 1 for i in range(24))  # odd: no impact falls on the grid, where it would be met exactly
    return [
        _of_model("4.2", free_ball(), 1.0, (8, 16, 32, 64), "qv"),
        _of_model("4.3", resting_ball(), 1.0, (8, 16, 32, 64), "i"),
        _of_model("4.4", zeno_ball(), 4.0, many, "qvi"),
        Exercise("swing", "a mass on a spring", _SWING, 1.0, 0.0, {}, 2.0, (8, 12, 16, 24), "qv", _oscillation),
        Exercise("press", "a ball pressed by exp(1 + t)", _PRESS, 0.0, 0.0, {}, 2.0, (4, 6, 8, 12), "i", _growing_press),
    ]


@dataclass(frozen=True)
class Measurement:
    """One method on one problem: L1 errors of q, v and i, and at the end of the run, for each number of steps."""

    method: str
    problem: str
    dt: np.ndarray
    errors: dict[str, np.ndarray]  #  by "q", "v", "i"; "end" is |q − q(T)| + |v − v(T)| there

    def order(self, what: str) -> float | None:
        """The measured order; None where the errors are rounding, so that there is none."""
        errors = self.errors[what]
        good = errors > ROUNDING
        return measured_order(self.dt[good].tolist(), errors[good].tolist()) if np.sum(good) > 1 else None


def methods(degrees: range) -> dict[str, Any]:
    names: dict[str, Any] = {"Moreau–Jean θ=1": MoreauJean(1.0)}
    names |= {f"D{'−' if side == '-' else '+'} M={d}": TimeDG(d, side) for side in ("-", "+") for d in degrees}
    return names


def measure(name: str, method: Any, problem: Exercise) -> Measurement:
    """Errors in L1 over the whole run, by Gauss quadrature on pieces of every step: as exact as the methods themselves."""
    sizes, errors = [], []
    for steps in problem.steps:
        dt = problem.duration / steps
        run = solve(problem.system, method, [problem.q0], [problem.v0], dt=dt, num_steps=steps, params=problem.params)
        errors.append(l1_errors(run, problem.exact))
        sizes.append(dt)
    columns = np.array(errors).T
    return Measurement(name, problem.key, np.array(sizes), dict(zip(("q", "v", "i", "end"), columns, strict=True)))


def l1_errors(run: Any, exact: Callable[[np.ndarray], tuple[np.ndarray, ...]]) -> tuple[float, float, float, float]:
    """∫|q − q(t)|, the same of v and of the interaction of the first contact, and the error of q and v at the end."""
    x, w = gauss(POINTS)
    part = (np.arange(PIECES)[:, None] + x).reshape(-1) / PIECES
    t = (run.t[:-1, None] + run.dt * part).reshape(-1)
    weight = np.tile(np.tile(w, PIECES) * run.dt / PIECES, len(run.t) - 1)
    found = run.dense.q(t)[:, 0], run.dense.v(t)[:, 0], run.dense.interaction(t)[:, 0]
    q, v, i = (float(weight @ np.abs(a - b)) for a, b in zip(found, exact(t), strict=True))
    q_end, v_end, _ = exact(run.t[-1:])
    return q, v, i, float(abs(run.q[-1, 0] - q_end[0]) + abs(run.v[-1, 0] - v_end[0]))


def convergence(degrees: range = range(1, 6)) -> Iterator[Measurement]:
    """All methods on all problems, one measurement after the other: `len(methods(degrees)) * len(problems())` of them."""
    for problem in problems():
        for name, method in methods(degrees).items():
            yield measure(name, method, problem)


def as_numbers(measurement: Measurement) -> dict[str, Any]:
    """A measurement as plain Python."""
    errors = {name: values.tolist() for name, values in measurement.errors.items()}
    orders = {name: measurement.order(name) for name in errors}
    return {
        "method": measurement.method,
        "problem": measurement.problem,
        "dt": measurement.dt.tolist(),
        "errors": errors,
        "orders": orders,
    }
