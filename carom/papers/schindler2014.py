"""Timestepping [schindler2014, §4]."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from carom.diagnostics import measured_order
from carom.methods.timestepping.moreau import MoreauJean
from carom.methods.timestepping.time_dg import TimeDG, tableau
from carom.models.balls import zeno_ball
from carom.papers.exhibit import Band, Exhibit, Row, axes, judge
from carom.papers.misprints import newton_law_20
from carom.papers.studies import ROUNDING, Measurement, measure, problems
from carom.running.solve import solve
from carom.system.system import System

METHODS = {"Algorithm 1.4, θ = 1 (Moreau–Jean)": (MoreauJean(1.0), 1), "Algorithm 3.4 (D−, degree 1)": (TimeDG(1, "-"), 2)}


PLACES = {"4.2": "Fig. 5 “During free flight, the state”", "4.3": "Fig. 6 “During rest phase, the interaction”"}
PLACES |= {"4.4": "Fig. 7 “For the combined analysis, the global error of state and interaction”"}
# v and i of one method may have the same error: a wide line below a narrow, dashed one.
STYLES: dict[str, Any] = {
    "q": {"marker": ".", "lw": 1.2},
    "v": {"marker": "s", "lw": 4.5, "alpha": 0.45, "ms": 5},
    "i": {"marker": ".", "lw": 1.2, "ls": "--", "ms": 4},
}


def _convergence(key: str, figure: str, order_high: int):
    def make(full: bool, draw: Path | None) -> list[Row]:
        problem = next(p for p in problems() if p.key == key)
        rows, lines = [], []
        for name, (method, high) in METHODS.items():
            found = measure(name, method, problem)
            rows.append(
                order_row(f"{PLACES[key]}: order {min(high, order_high)}, {name}", found, problem.measured, min(high, order_high))
            )
            lines += [(f"{name}, {what}", what, found.dt, found.errors[what]) for what in problem.measured]
        if draw:
            canvas, ((ax,),) = axes(size=(6.0, 3.8))
            for label, what, dt, errors in lines:
                ax.loglog(dt, np.maximum(errors, 1e-17), label=label, **STYLES[what])
            ax.set(xlabel="dt", ylabel="L1 error", title=f"{problem.about} ({figure})")
            canvas.legend(loc="outside lower center", ncols=2, fontsize=7, frameon=False)
            canvas.savefig(draw, dpi=120)
        return rows

    return make


def order_row(claim: str, found: Measurement, measured: str, expected: int) -> Row:
    """Slopes in L1 with their standard errors, judged from both sides."""
    orders = {what: found.order(what) for what in measured}
    text = "; ".join(f"{what}: {_slope(found, what, order)}" for what, order in orders.items() if order is not None)
    exact = [what for what, order in orders.items() if order is None]
    text += f"; exact: {', '.join(exact)}" if exact else ""
    text = f"L1 slopes ± standard error, {len(found.dt)} steps dt = {found.dt.max():.2g} to {found.dt.min():.2g}: {text}"
    slopes = [order for order in orders.values() if order is not None]
    band = Band(expected - 0.25, expected + 0.25, "this order and no half order beside it: half of the way there on either side")
    return judge(claim, text, band, *slopes, why="all are exact: there is no order" if not slopes else "")


def _slope(found: Measurement, what: str, order: float) -> str:
    constant = found.errors[what] / found.dt ** round(order)
    error = _slope_error(found, what)
    return f"{order:.2f} ± {error:.2f}, error/dt^{round(order)} from {constant.min():.2g} to {constant.max():.2g}"


def _slope_error(found: Measurement, what: str) -> float:
    """The standard error of a fitted slope: how much it owes to where the impacts happen to fall in their steps."""
    good = found.errors[what] > ROUNDING
    x, y = np.log(found.dt[good]), np.log(found.errors[what][good])
    if len(x) < 3:
        return float("nan")
    rest = y - np.polyval(np.polyfit(x, y, 1), x)
    return float(np.sqrt(np.sum(rest**2) / (len(x) - 2) / np.sum((x - x.mean()) ** 2)))


def printed_zeno(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(87)–(90), term by term as printed, for t < 3; n is counted, not computed by a logarithm."""
    n = np.zeros_like(t)
    for k in range(60):
        n = np.where(t >= 3 - 0.5**k, k + 1.0, n)
    part = 0.5**n
    q = -((t - 3) ** 2) - 3 * part * (t - 1) + 2 * part * (3 - part)  # (88)
    v = -2 * (t - 3) - 3 * part  # (89)
    i = np.array([sum(3 / 2**k for k in range(int(top) + 1)) for top in n])  # (90)
    early = t < 1
    return np.where(early, 1 - t**2, q), np.where(early, -2 * t, v), np.where(early, 0.0, i)  # (87)


def zeno_defects() -> float:
    """How far (88)–(90) are from (84)–(86): at the ends of 20 flights, q = 0, v⁺ = −½v⁻, the jump of i that of v; inside,
    v = q′ and v′ = −2 by differences that are exact for parabolas."""
    worst = 0.0
    for n in range(20):
        start, end = 3 - 2.0 ** (1 - n), 3 - 2.0**-n
        inside = start + (end - start) * np.array([0.25, 0.5, 0.75])
        (q, v, _), width = printed_zeno(inside), (end - start) / 4
        before = np.nextafter(start, 0.0)
        (q_at, v_at, i_at) = (x[0] for x in printed_zeno(np.array([start])))
        (_, v_before, i_before) = (x[0] for x in printed_zeno(np.array([before])))
        defects = (q_at, v_at + 0.5 * v_before, (i_at - i_before) - (v_at - v_before), v[1] - (q[2] - q[0]) / (2 * width))
        worst = max(worst, *(abs(d) for d in defects), abs((v[2] - v[0]) / (2 * width) + 2))
    return float(worst)


def _zeno_errors(dt: float) -> np.ndarray:
    """L1 distances of q, v, i from (87)–(90) on 0 ≤ t < 3."""
    run = zeno_ball().solve(TimeDG(1, "-"), dt=dt, num_steps=round(4 / dt))
    t = (np.arange(60_000) + 0.5) / 20_000  # midpoints: none is an impact
    found = run.dense.q(t)[:, 0], run.dense.v(t)[:, 0], run.dense.interaction(t)[:, 0]
    return np.array([np.mean(np.abs(a - b)) * 3 for a, b in zip(found, printed_zeno(t), strict=True)])


def _rest(full: bool, draw: Path | None) -> list[Row]:
    """Problem 4.4, before and after the accumulation."""
    run = zeno_ball().solve(TimeDG(1, "-"), dt=0.01, num_steps=400)
    t = np.linspace(3.1, 4.0, 10)
    late = float(np.max(np.abs(run.dense.interaction(t)[:, 0] - (6 + 2 * (t - 3)))))
    if draw:
        canvas, row = axes(1, 2)
        row[0][0].plot(run.t, run.q[:, 0], lw=0.7)
        row[0][0].set(xlabel="time", ylabel="height")
        row[0][1].plot(run.t, run.dense.interaction(run.t)[:, 0], lw=0.7)
        row[0][1].set(xlabel="time", ylabel="interaction i(t)")
        canvas.savefig(draw, dpi=120)
    first = run.impacts.t[0]
    v = printed_zeno(np.array([np.nextafter(1.0, 0.0), 1.0]))[1]
    sizes = 4 / np.array([401, 567, 801, 1133, 1601, 2265, 3201])  # odd numbers: no impact on the grid
    errors = np.array([_zeno_errors(dt) for dt in sizes])
    slopes = [float(np.polyfit(np.log(sizes), np.log(column), 1)[0]) for column in errors.T]
    defect, speed = zeno_defects(), float(np.max(np.abs(run.v[run.t > 3.1, 0])))
    rounding = Band(0.0, 1e-13, "an identity up to rounding; nothing is below zero")
    return [
        judge("(87)–(90) solve (84)–(86) on t < 3", f"worst defect {defect:.0e} over the first 20 flights", rounding, defect),
        judge(
            "Problem 4.4: q, v, i of (87)–(90) on 0 ≤ t < 3 (Algorithm 3.4, D−, degree 1)",
            f"L1 errors {_three(errors[0])} at dt = {sizes[0]:.2g} and {_three(errors[-1])} at {sizes[-1]:.2g}; "
            f"slopes {_three(slopes)}",
            Band(0.5, 1.5, "they converge, faster than order ½ and not at 2, which jumps do not allow; fig-7 has the order"),
            *slopes,
        ),
        judge(
            "after t = 3 (the text ends there): rest, q = v = 0, and i = 6 + 2(t − 3)",
            f"for t > 3.1 at dt = 0.01: |v| at most {speed:.0e}, i off by {late:.0e}; first impact at t = {first:.3f}",
            Band(0.0, 0.02, "the scheme is of order 1: off by at most the jump 2 dt of i in one step, and rest is exact"),
            speed,
            late,
        ),
        newton_law_20(float(v[0]), float(v[1])),
    ]


def _swing(q, v):
    return 0.5 * v[0] ** 2 + jnp.cos(q[0])


def _drag(q, v, t):
    return jnp.array([-0.3 * v[0] * jnp.cos(q[0]) + 0.2 * jnp.cos(2 * t)])


def _swing_rate(t: float, y: Any) -> list[float]:
    return [y[1], -np.sin(y[0]) - 0.3 * y[1] * np.cos(y[0]) + 0.2 * np.cos(2 * t)]


def _end_errors(method: TimeDG, counts: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Of a driven and damped pendulum at t = 2, whose acceleration depends on all of q, v and t."""
    from scipy.integrate import solve_ivp

    exact = solve_ivp(_swing_rate, (0.0, 2.0), [1.0, 0.5], method="DOP853", rtol=1e-13, atol=1e-14).y[:, -1]
    system, sizes, errors = System(_swing, force=_drag), [], []
    for count in counts:
        run = solve(system, method, [1.0], [0.5], dt=2.0 / count, num_steps=count)
        sizes.append(2.0 / count)
        errors.append(max(abs(run.q[-1, 0] - exact[0]), abs(run.v[-1, 0] - exact[1])))
    return np.array(sizes), np.array(errors)


def _stage_error(degree: int, weighting: str, power: int) -> float:
    """How far the velocities inside a step are from t^(n+1)/(n+1), where the acceleration is t^n."""
    numbers = tableau(degree, "-", weighting)
    exact = numbers.nodes ** (power + 1) / (power + 1)
    return float(np.max(np.abs(numbers.velocities @ numbers.nodes**power - exact)))


def _weighting(full: bool, draw: Path | None) -> list[Row]:
    """§3.2.4: the integrals of (53)–(55) by quadrature, or as they stand."""
    counts = (8, 12, 16, 24) if full else (8, 12, 16)
    found = {(M, how): _end_errors(TimeDG(M, "-", weighting=how), counts) for M in (4, 5) for how in ("reduced", "full")}
    orders = {key: measured_order(*map(np.ndarray.tolist, errors)) for key, errors in found.items()}
    low = [np.max(np.abs(tableau(M, s, "full").velocities - tableau(M, s).velocities)) for M in (1, 2) for s in ("-", "+")]
    if draw:
        canvas, ((ax,),) = axes(size=(6.0, 3.8))
        for (M, how), (dt, errors) in found.items():
            ax.loglog(dt, errors, ".-" if how == "reduced" else "s--", label=f"M = {M}, {how}: slope {orders[M, how]:.1f}")
        ax.set(xlabel="dt", ylabel="error at t = 2", title="a driven pendulum, D− (§3.2.4)")
        ax.legend(fontsize=8)
        canvas.savefig(draw, dpi=120)
    defects = "; ".join(
        f"M = {M}, v̇ = t{'²' if n > 1 else ''}: {_stage_error(M, 'full', n):.0e}, {_stage_error(M, 'reduced', n):.0e} with (60)"
        for M, n in ((5, 1), (4, 1), (4, 2))
    )
    change = [orders[M, "full"] - orders[M, "reduced"] for M in (4, 5)]
    return [
        judge(
            "§3.2.4: (58)–(60) approximate the weighting integrals of (53)–(55) “without changing the order”",
            f"M = 1, 2: the same method, coefficients within {max(low):.0e}. Orders on a driven pendulum, integrals as they stand "
            f"and by (60): M = 4: {orders[4, 'full']:.1f} and {orders[4, 'reduced']:.1f}; "
            f"M = 5: {orders[5, 'full']:.1f} and {orders[5, 'reduced']:.1f}. Error of the stages: {defects}",
            Band(-0.5, 0.5, "the same order: no other one is nearer"),
            *change,
            why="they raise it from M = 3 on: Clenshaw and Curtis are exact for degree M (M + 1 for even M), so that forces "
            "tested by them do not fit integrals of degree 2M − 1; with (60) on both sides the stages collocate, Table 1",
        ),
        judge(
            "(76), Theorem 4.1: order M + 1 “using Clenshaw–Curtis quadrature rules” (Problem 3.2, which has (60))",
            f"M = 4: {orders[4, 'reduced']:.1f}, M = 5: {orders[5, 'reduced']:.1f}",
            Band(0.75, 2.25, "order − M: M + 1, or M + 2 where even M integrate one degree more"),
            *(orders[M, "reduced"] - M for M in (4, 5)),
        ),
    ]


def _three(values: Any) -> str:
    return "/".join(f"{value:.2g}" for value in values)


EXHIBITS = (
    Exhibit("schindler2014", "fig-5", "convergence in free flight", _convergence("4.2", "Fig. 5", 2), "balls"),
    Exhibit("schindler2014", "fig-6", "convergence in a rest phase", _convergence("4.3", "Fig. 6", 2), "balls"),
    Exhibit("schindler2014", "fig-7", "convergence with accumulating impacts", _convergence("4.4", "Fig. 7", 1), "balls"),
    Exhibit("schindler2014", "section-3.2.4", "weighting integrals", _weighting, "balls"),
    Exhibit("schindler2014", "problem-4.4", "a bouncing ball comes to rest", _rest, "balls"),
)
