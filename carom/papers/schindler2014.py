"""Timestepping [schindler2014, §4]."""

from pathlib import Path

import numpy as np

from carom.methods.timestepping.moreau import MoreauJean
from carom.methods.timestepping.time_dg import TimeDG
from carom.models.balls import zeno_ball
from carom.papers.exhibit import DIFFERS, Exhibit, Row, axes, verdict
from carom.papers.studies import Exercise, measure, problems

METHODS = {"Algorithm 1.4, θ = 1 (Moreau–Jean)": (MoreauJean(1.0), 1), "Algorithm 3.4 (D−, degree 1)": (TimeDG(1, "-"), 2)}


def _convergence(key: str, figure: str, order_high: int):
    def make(full: bool, draw: Path | None) -> list[Row]:
        problem = next(p for p in problems() if p.key == key)
        if key == "4.4" and not full:
            problem = _fewer(problem, 8)
        rows, lines = [], []
        for name, (method, high) in METHODS.items():
            found = measure(name, method, problem)
            expected = min(high, order_high)
            orders = {what: found.order(what) for what in problem.measured}
            text = ", ".join(f"{what}: {'exact' if order is None else f'{order:.2f}'}" for what, order in orders.items())
            # Slopes of the combined problem scatter with where the impacts fall in their steps.
            loose = 0.5 if key == "4.4" else 0.25
            holds = all(order is None or order > expected - loose for order in orders.values())
            rows.append(Row(f"{name}: order {expected} in L1", text, verdict(holds)))
            lines += [(f"{name}, {what}", found.dt, found.errors[what]) for what in problem.measured]
        if draw:
            canvas, ((ax,),) = axes(size=(6.0, 3.8))
            for label, dt, errors in lines:
                ax.loglog(dt, np.maximum(errors, 1e-17), ".-", label=label)
            ax.set(xlabel="dt", ylabel="L1 error", title=f"{problem.about} ({figure})")
            ax.legend(fontsize=7)
            canvas.savefig(draw, dpi=120)
        return rows

    return make


def _fewer(problem: Exercise, count: int) -> Exercise:
    from dataclasses import replace

    return replace(problem, steps=problem.steps[:: max(1, len(problem.steps) // count)])


def _rest(full: bool, draw: Path | None) -> list[Row]:
    """Problem 4.4 after the accumulation."""
    model = zeno_ball()
    run = model.solve(TimeDG(1, "-"), dt=0.01, num_steps=400)
    t = np.array([3.5, 4.0])
    interaction = run.dense.interaction(t)[:, 0]
    exact = 6 + 2 * (t - 3)
    speed = float(np.abs(run.v[-1, 0]))
    if draw:
        canvas, row = axes(1, 2)
        row[0][0].plot(run.t, run.q[:, 0], lw=0.7)
        row[0][0].set(xlabel="time", ylabel="height")
        row[0][1].plot(run.t, run.dense.interaction(run.t)[:, 0], lw=0.7)
        row[0][1].set(xlabel="time", ylabel="interaction i(t)")
        canvas.savefig(draw, dpi=120)
    error = float(np.max(np.abs(interaction - exact)))
    return [
        Row("infinitely many impacts until t = 3, then rest", f"velocity at t = 4: {speed:.0e}", verdict(speed == 0.0)),
        Row(
            "(88)–(90) and i(t) = 6 + 2(t − 3) after t = 3 (missing in print)",
            f"error {error:.1e} at dt = 0.01",
            verdict(error < 0.1),
        ),
        Row("(20)", "needs ġ⁺ + εġ⁻ and ġ⁺ ≥ 0 only", DIFFERS, "misprint"),
    ]


EXHIBITS = (
    Exhibit("schindler2014", "fig-5", "convergence in free flight", _convergence("4.2", "Fig. 5", 2)),
    Exhibit("schindler2014", "fig-6", "convergence in a rest phase", _convergence("4.3", "Fig. 6", 2)),
    Exhibit("schindler2014", "fig-7", "convergence with accumulating impacts", _convergence("4.4", "Fig. 7", 1)),
    Exhibit("schindler2014", "problem-4.4", "a bouncing ball comes to rest", _rest),
)
