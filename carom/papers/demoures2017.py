"""Bars in collision [demoures2017, §4]."""

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from carom.methods.variational.collision import VariationalCollision
from carom.methods.variational.rules import Trapezoidal
from carom.models.bars import BAR_ROWS, bars, end_velocities
from carom.papers.exhibit import Band, Exhibit, Row, axes, judge
from carom.papers.misprints import series_springs

TRAPEZOIDAL = VariationalCollision(Trapezoidal())  # pyright: ignore[reportCallIssue]
FOURTH = VariationalCollision()
DT, TIME, FINE = 0.015, 40.0, 30
QUOTED = {1: "0.0001%", 2: "0.00002%"}
ROUNDED = Band(0.0, 1e-13, "machine accuracy: a sum over 102 nodes and 2667 steps rounds to some 1e-15; nothing is below zero")


@functools.lru_cache(maxsize=40)  # figures share their runs
def _run_bars(row: Any, integrator: int, dt: float = DT, method: Any = TRAPEZOIDAL) -> Any:
    model = bars(**BAR_ROWS[row], gaps=(0.1,), integrator=integrator)
    return model.solve(method, dt=dt, num_steps=round(TIME / dt))


def _worst(run: Any) -> float:
    return float(np.max(np.abs(run.energy_error)))


def leapfrog_invariant(run: Any) -> np.ndarray:
    """H − (Δt²/8) FᵀM⁻¹F: what leapfrog keeps of a quadratic potential, up to rounding, while H oscillates by O(Δt²)."""
    bound = run.system.bind(run.params, run.q.shape[1])
    force = -np.asarray(jax.vmap(jax.grad(lambda q: bound.potential(q)))(jnp.asarray(run.q)))
    return run.energy - run.dt**2 / 8 * np.sum(force**2 / np.asarray(run.params["mass"]), axis=1)


def _wander(run: Any) -> tuple[float, float]:
    """How far leapfrog's invariant moves, relatively: at most, and in all steps without an event together."""
    value = leapfrog_invariant(run) / run.energy[0]
    quiet = np.ones(run.num_steps, bool)
    quiet[np.unique(run.impacts.step)] = False
    return float(np.max(np.abs(value - value[0]))), float(np.sum(np.abs(np.diff(value))[quiet]))


def _draw_bars(draw: Path, runs: dict[Any, Any], title: str) -> None:
    figure, grid = axes(len(runs), 4, size=(4.0, 2.0))
    for line, (row, run) in zip(grid, runs.items(), strict=True):
        for nodes in shown_nodes(run):
            line[0].plot(run.t[::8], run.q[::8, nodes], lw=0.5, color="C0")
        line[0].set(ylabel=f"row {row}\nposition")
        line[1].plot(run.t, end_velocities(run)[:, 0], lw=0.5)
        line[1].set(ylabel="end velocities")
        line[2].plot(run.t, run.energy, lw=0.5)
        line[2].set(ylabel="energy")
        line[3].plot(run.t, run.energy_error, lw=0.5)
        line[3].set(ylabel="relative energy error")
    for ax in grid[-1]:
        ax.set(xlabel="time")
    figure.suptitle(title)
    figure.savefig(draw, dpi=100)


def shown_nodes(run: Any) -> list[np.ndarray]:
    """Some ten nodes of each bar, both ends among them, however few it has."""
    joints = np.flatnonzero(np.asarray(run.params["stiffness"]) == 0) + 1
    parts = np.split(np.arange(run.q.shape[1]), joints)
    return [np.unique(np.linspace(part[0], part[-1], min(len(part), 11)).round().astype(int)) for part in parts]


def energy_row(figure: str, integrator: int, printed: float, runs: dict[Any, Any], better: dict[Any, Any], fine: Any) -> Row:
    """The printed bound against every row that was run; why it differs, by leapfrog's own invariant."""
    errors, fourth = ({row: _worst(run) for row, run in many.items()} for many in (runs, better))
    moved, quiet = _wander(runs[1])
    within = [str(row) for row, error in fourth.items() if error <= printed]
    if integrator == 1:
        reason = f"its own invariant moves by {moved:.1e}, of which {quiet:.0e} outside of the steps with contacts"
        why = "the energy changes where a step is cut at a contact, Δt to αΔt, and nowhere else"
    else:
        reason = f"its own invariant H − (Δt²/8) FᵀM⁻¹F holds to {moved:.1e}"
        why = "H oscillates about what leapfrog keeps, by O(Δt²)"
    return judge(
        f"{figure}: energy conserved “within {QUOTED[integrator]}”, {printed:.0e}, at Δt = {DT}",
        f"rows {_listed(errors)}. Row 1: {reason}; at Δt = {DT / FINE:.0e} the energy is off by {_worst(fine):.1e}. "
        f"Composition of order 4 at Δt = {DT}: rows {_listed(fourth)}; within {printed:.0e}: rows {', '.join(within) or 'none'}",
        Band(printed / 100, 2 * printed, "the printed size, at most twice it; a hundredth of it would be another method"),
        *errors.values(),
        why=why,
    )


def _listed(values: dict[Any, float]) -> str:
    return ", ".join(f"{row}: {value:.1e}" for row, value in values.items())


def _bars(integrator: int, printed: float, figure: str):
    def make(full: bool, draw: Path | None) -> list[Row]:
        rows = list(BAR_ROWS) if full else [1, 6]
        runs = {row: _run_bars(row, integrator) for row in rows}
        better = {row: _run_bars(row, integrator, method=FOURTH) for row in rows}
        fine = _run_bars(1, integrator, DT / FINE)
        if draw:
            _draw_bars(draw, runs, f"two bars, integrator {integrator} ({figure})")
        momentum = [float(np.ptp(run.p.sum(axis=1)) / np.max(np.abs(run.p).sum(axis=1))) for run in runs.values()]
        kept = f"relative {max(momentum):.1e}, the worst of rows {', '.join(map(str, runs))}"
        found = [energy_row(figure, integrator, printed, runs, better, fine)]
        if integrator == 1:
            found += [
                judge("§4.2: momentum (for Fig. 4.3 “conserved to within machine accuracy”)", kept, ROUNDED, *momentum),
                _chatter_row(runs[1]),
                _signs_row(),
            ]
        else:
            found += [
                judge(f"{figure}: momentum “conserved to within machine accuracy”", kept, ROUNDED, *momentum),
                _tip_row(runs[1]),
            ]
        return found

    return make


def _chatter_row(run: Any) -> Row:
    """Contacts while the bars touch: exactly, waves need 2L/c = 20 for it, and a node answers within some Δs/c = 0.2."""
    bounces = len(run.impacts)
    return judge(
        "Fig. 4.2: “rapid and spurious-looking velocity oscillations during the persistent contact phase” (row 1)",
        f"{bounces} contacts from t = {run.impacts.t[0]:.2f} to {run.impacts.t[-1]:.2f}",
        Band(10, 200, "more than a few bounces; at most one per crossing of half an element, 20/0.1"),
        bounces,
    )


def _signs_row() -> Row:
    """The captions print v₁ = −0.1, v₂ = 0.1."""
    row = BAR_ROWS[1] | {"speeds": (-0.1, 0.1)}
    run = bars(**row, gaps=(0.1,), integrator=1).solve(TRAPEZOIDAL, dt=DT, num_steps=round(TIME / DT))
    return judge(
        "Figs 4.2, 4.3: v₁ = −0.1, v₂ = 0.1 with bar A on the left lead to an impact (row 1)",
        f"{len(run.impacts)} contacts with the printed signs, bar A left of bar B",
        Band(1, 200, "an impact has a contact"),
        len(run.impacts),
        why="as printed the bars move apart: all rows here have the opposite signs",
    )


def _tip_row(run: Any) -> Row:
    touching = (run.t > 3) & (run.t < 19)  # contact lasts from 0.5 to 0.5 + 2L/c = 20.5
    rest = float(np.max(np.abs(end_velocities(run)[touching, 0])))
    return judge(
        "§4.2: “we obtain a zero velocity for the nodes at contact, see Figs. 4.3 and 4.4” (row 1, equal bars)",
        f"largest tip velocity for 3 < t < 19: {rest:.0e}, against 0.1 before",
        Band(0.0, 1e-11, "zero by symmetry, up to the rounding of 2667 steps"),
        rest,
    )


def match_row(first: dict[Any, Any], second: dict[Any, Any]) -> Row:
    """Displacements of the inner nodes, which both integrators have at the same places, in L2 of space and time."""
    apart, energies = {}, {}
    for row, one in first.items():
        two, cut = second[row], np.asarray(one.params["stiffness"]).tolist().index(0.0)
        inner = np.r_[0:cut, cut + 2 : one.q.shape[1]]  # all but the two ends that meet
        u, w = (run.q[:, inner] - run.q[0, inner] for run in (one, two))
        apart[row] = float(np.sqrt(np.sum((u - w) ** 2) / np.sum(u**2)))
        energies[row] = float(np.max(np.abs(one.energy / one.energy[0] - two.energy / two.energy[0])))
    worst = max(energies.values())
    return judge(
        "§4.2: “Fig. 4.3 matches Fig. 4.2 very well in terms of displacements and energy for all the tests”",
        f"displacements differ in L2 by, rows {_listed(apart)}; energies at most by {worst:.1e} of the first",
        Band(1e-6, 0.05, "two discretisations are not the same; very well is 5 % for displacements, and energies are closer still"),
        *apart.values(),
        worst,
        why="the two discretisations are farther apart than that",
    )


def _ends(full: bool, draw: Path | None) -> list[Row]:
    """Fig. 4.4, and what is said of Figs 4.2 and 4.3 together."""
    rows = [row for row in BAR_ROWS if row != "5 (Fig. 4.2)"] if full else [1, 6]  # those with the same elements in both figures
    first, second = ({row: _run_bars(row, integrator) for row in rows} for integrator in (1, 2))
    bounces = len(first[1].impacts)
    run = second[1]
    touching = (run.t > 0.6) & (run.t < 20.0)
    shut = float(np.mean(run.gaps[touching, 0] < 0))
    if draw:
        figure, ((left, right),) = axes(1, 2)
        for ax, one, title in ((left, first[1], "without"), (right, second[1], "with")):
            cut = np.asarray(one.params["stiffness"]).tolist().index(0.0)
            ax.plot(one.t, one.q[:, cut : cut + 2], lw=0.6)
            ax.set(xlabel="time", ylabel="positions of the last nodes", title=f"{title} modification of the mass matrix (Fig. 4.4)")
            ax.set(xlim=(0, 24), ylim=(9.8, 10.3))
        figure.savefig(draw, dpi=110)
    return [
        judge(
            "Fig. 4.4: “the two different behaviors of the nodes at contact”: they bounce with integrator 1 (row 1)",
            f"{bounces} contacts",
            Band(10, 200, "more than a few bounces; at most one per crossing of half an element, 20/0.1"),
            bounces,
        ),
        judge(
            "Fig. 4.4: and stay in contact with integrator 2 (row 1)",
            f"closed for {100 * shut:.1f} % of 0.6 < t < 20; exactly, contact lasts from 0.5 to 20.5",
            Band(0.98, 1.0, "all of it, but for the width of the wave front that ends it"),
            shut,
        ),
        match_row(first, second),
        series_springs(),
    ]


EXHIBITS = (
    Exhibit("demoures2017", "fig-4.2", "two bars, contact time integrator 1", _bars(1, 1e-6, "Fig. 4.2"), "bars"),
    Exhibit("demoures2017", "fig-4.3", "two bars, contact time integrator 2", _bars(2, 2e-7, "Fig. 4.3"), "bars"),
    Exhibit("demoures2017", "fig-4.4", "the nodes at contact", _ends, "bars"),
)
