"""Elastic bodies [demoures2017, §4 and §5]."""

from pathlib import Path
from typing import Any

import numpy as np

from carom.methods.variational.collision import VariationalCollision
from carom.methods.variational.rules import Trapezoidal
from carom.models.bars import BAR_ROWS, bars, end_velocities
from carom.models.beam import beam, momentum_maps
from carom.papers.exhibit import Exhibit, Row, axes, verdict

TRAPEZOIDAL = VariationalCollision(Trapezoidal())  # pyright: ignore[reportCallIssue]
DT, TIME = 0.015, 40.0


def _run_bars(row: Any, integrator: int, dt: float = DT) -> Any:
    gap = 0.1
    model = bars(**BAR_ROWS[row], gaps=(gap,), integrator=integrator)
    return model.solve(TRAPEZOIDAL, dt=dt, num_steps=round(TIME / dt))


def _draw_bars(draw: Path, runs: dict[Any, Any], title: str) -> None:
    figure, grid = axes(len(runs), 3, size=(4.0, 2.0))
    for line, (row, run) in zip(grid, runs.items(), strict=True):
        line[0].plot(run.t[::8], run.q[::8, ::5], lw=0.5, color="C0")
        line[0].set(ylabel=f"row {row}\nposition")
        line[1].plot(run.t, end_velocities(run)[:, 0], lw=0.5)
        line[1].set(ylabel="end velocities")
        line[2].plot(run.t, run.energy_error, lw=0.5)
        line[2].set(ylabel="relative energy error")
    for ax in grid[-1]:
        ax.set(xlabel="time")
    figure.suptitle(title)
    figure.savefig(draw, dpi=100)


def _bars(integrator: int, printed: float, figure: str):
    def make(full: bool, draw: Path | None) -> list[Row]:
        rows = list(BAR_ROWS) if full else [1, 6]
        runs = {row: _run_bars(row, integrator) for row in rows}
        error = max(float(np.max(np.abs(run.energy_error))) for run in runs.values())
        momentum = max(float(np.ptp(run.p.sum(axis=1)) / np.max(np.abs(run.p).sum(axis=1))) for run in runs.values())
        fine = _run_bars(1, integrator, DT / 30)
        small = float(np.max(np.abs(fine.energy_error)))
        if draw:
            _draw_bars(draw, runs, f"two bars, integrator {integrator} ({figure})")
        found = [
            Row(
                f"energy conserved within {printed:.0e} of the original at Δt = 0.015",
                f"{error:.1e}; at Δt = {DT / 30:.0e}: {small:.1e}",
                verdict(error <= 2 * printed),
                ""
                if error <= 2 * printed
                else "the discrete energy that (4.8) balances exceeds the one that leapfrog keeps by O(Δt²)",
            ),
            Row("momentum conserved to machine accuracy", f"relative {momentum:.1e}", verdict(momentum < 1e-13)),
        ]
        ends = end_velocities(runs[1])[:, 0]
        if integrator == 1:
            bounces = len(runs[1].impacts)
            found.append(
                Row("rapid, spurious-looking oscillations while the bars touch", f"{bounces} contacts", verdict(bounces > 20))
            )
        else:
            touching = (runs[1].t > 3) & (runs[1].t < 19)
            rest = float(np.max(np.abs(ends[touching])))
            found.append(
                Row("prolonged contact of equal bars, with the tips at rest", f"tip velocity {rest:.0e}", verdict(rest < 1e-10))
            )
        return found

    return make


def _beam(full: bool, draw: Path | None) -> list[Row]:
    """§5.3.1, Figs 5.1 and 5.2."""
    elements = (5, 10, 20) if full else (5, 10)
    runs = {n: beam(elements=n).solve(TRAPEZOIDAL, num_steps=round(0.015 / beam(elements=n).dt)) for n in elements}
    run = runs[10]
    first = run.impacts
    node = int(first.contact[0])
    mass = np.asarray(run.params["mass"]).reshape(-1, 6)[node, 3]
    speed = float(np.linalg.norm(first.impulse[0] / (2 * mass))) if len(first) else float("nan")
    J = momentum_maps(run)
    kept = float(np.max(np.ptp(J[:, [0, 1, 5]], axis=0)) / np.max(np.abs(J)))
    error = float(np.max(np.abs(run.energy_error)))
    if draw:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4.0 * len(runs), 3.6), layout="constrained")
        for k, (n, one) in enumerate(runs.items()):
            ax = figure.add_subplot(1, len(runs), k + 1, projection="3d")
            for time in (0.0, 0.0053, 0.01, 0.015):
                at = min(round(time / one.dt), len(one.q) - 1)
                ax.plot(*one.q[at].reshape(-1, 7)[:, 4:].T, label=f"t = {time:g}")
            ax.legend(fontsize=6)
            ax.set_title(f"{n} elements (Fig. 5.1)")
        figure.savefig(draw, dpi=110)
    return [
        Row(
            "the speed at the first impact is about 30 m/s",
            f"{speed:.1f} m/s at t = {first.t[0] * 1e3:.3f} ms",
            verdict(abs(speed - 30) < 3),
        ),
        Row("energy is conserved excellently", f"relative error {error:.1e} until t = 0.015", verdict(error < 1e-3)),
        Row("p_x, p_y and J_z are conserved", f"relative {kept:.1e}", verdict(kept < 1e-10)),
        Row(
            "the motion is robust to the discretisation",
            "first impacts at " + ", ".join(f"{one.impacts.t[0] * 1e3:.2f} ms ({n} elements)" for n, one in runs.items()),
            verdict(float(np.ptp([one.impacts.t[0] for one in runs.values()])) < 5e-4),
        ),
    ]


def _long_beam(full: bool, draw: Path | None) -> list[Row]:
    """§5.3.2 and §5.3.3, Figs 5.3 and 5.4; without --full a tenth of the time."""
    share = 1.0 if full else 0.1
    rows, pictures = [], []
    for start, time, figure in ((8e-5, 2.5, "5.3"), (2e-4, 5.0, "5.4")):  # about 15 and 6 m/s at the first impact
        model = beam(elements=10, start_time=start)
        run = model.solve(TRAPEZOIDAL, num_steps=round(time * share / model.dt), throw=False)
        J = momentum_maps(run)
        kept = float(np.max(np.ptp(J[:, [0, 1, 5]], axis=0)) / np.max(np.abs(J)))
        error = float(np.max(np.abs(run.energy_error)))
        pictures.append((figure, run))
        rows.append(
            Row(f"Fig. {figure}: energy conserved over {time * share:g} s", f"relative error {error:.1e}", verdict(error < 1e-3))
        )
        rows.append(
            Row(
                f"Fig. {figure}: p_x, p_y, J_z" + (" conserved, J₁ decays slightly" if figure == "5.3" else " conserved"),
                f"relative {kept:.1e}",
                verdict(kept < 1e-9),
                "the decay is avoidable: a vertical impulse leaves these alone" if figure == "5.3" else "",
            )
        )
        if figure == "5.4" and full:
            count = len(run.impacts)
            rows.append(
                Row("about 200 contacts in 5 s", f"{count}, with C₂ from a⁴/12 and J from ρa⁴/12", verdict(150 <= count <= 250))
            )
    if draw:
        canvas, grid = axes(1, 2)
        for ax, (figure, run) in zip(grid[0], pictures, strict=True):
            ax.plot(run.t[::10], run.energy_error[::10], lw=0.5)
            ax.set(xlabel="time", ylabel="relative energy error", title=f"beam (Fig. {figure})")
        canvas.savefig(draw, dpi=110)
    return rows


EXHIBITS = (
    Exhibit("demoures2017", "fig-4.2", "two bars, contact time integrator 1", _bars(1, 1e-6, "Fig. 4.2")),
    Exhibit("demoures2017", "fig-4.3", "two bars, contact time integrator 2", _bars(2, 2e-7, "Fig. 4.3")),
    Exhibit("demoures2017", "fig-5.1", "a beam hits a plane", _beam),
    Exhibit("demoures2017", "fig-5.4", "longer runs of the beam", _long_beam),
)
