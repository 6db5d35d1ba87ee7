"""Which integrator converges to the exact waves? Bars of [demoures2017, §4] under refinement, beside d'Alembert's solution.

The exact velocity has jumps. Waves in elements with lumped masses have the wrong speed, by O((kΔs)²): a scheme of order r = 2 whose
errors are dispersive. A jump, which has half a derivative in L2, is then met at the rate

    ‖v − v*‖ ∼ Δs^(½ r/(r + 1)) = Δs^(1/3),        and its front is Δs^(r/(r + 1)) = Δs^(2/3) wide.                         (1)

The contact is released when such a front comes back, so that the momentum exchanged is off by the width: Δs^(2/3), too.

Integrator 2 joins two half masses by the short spring of both tips, k_AB. Where that mode lies above what either bar can carry,
2c/Δs, it does not radiate: once struck it rings as long as the contact lasts, at a frequency ∼ 1/Δs.                       (2)
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import NullFormatter

from carom.models.bars import BAR_ROWS, bars, end_velocities, highest_frequency
from carom.models.bars_exact import BarsExact, bars_exact
from carom.papers.demoures2017 import TRAPEZOIDAL
from carom.papers.exhibit import Band, Row, axes, state

GAP, TIME, SAMPLES = 0.1, 40.0, 400
COARSE = "5 (Fig. 4.2)"  # two elements in one bar: no wave to converge to before they are many
NORMS = {"v": "velocity in L2", "u": "displacement in L2", "momentum": "exchanged momentum, maximum", "tip": "velocity of the ends"}


@dataclass(frozen=True)
class Errors:
    """One run against the exact waves: relative errors, and how often the ends met."""

    size: float  #          of an element of the first bar
    norms: dict[str, float]
    contacts: int
    open_share: float  #    of the exact contact, in which the bars were apart


def _primitive(wave: Any, x: np.ndarray) -> np.ndarray:
    """∫ of a piecewise constant wave from 0 to x, up to a constant."""
    total = wave.value[0] * x
    for before, after, t in zip(wave.value[:-1], wave.value[1:], wave.t[1:], strict=True):
        total = total + (after - before) * np.maximum(x - t, 0.0)
    return total


def displacement(exact: BarsExact, bar: int, s: np.ndarray, t: float) -> np.ndarray:
    """Of material points, exactly: the waves are constant between jumps."""
    c, length = exact.celerities[bar], exact.lengths[bar]
    right, left = exact.rightward[bar], exact.leftward[bar]
    back = (length - s) / c
    return _primitive(right, t - s / c) - _primitive(right, -s / c) + _primitive(left, t - back) - _primitive(left, -back)


def compare(row: Any, integrator: int, factor: float) -> Errors:
    """A row of Figs 4.2 and 4.3 with `factor` times as many elements, Δt in proportion."""
    given = BAR_ROWS[row]
    spec = given | {"elements": tuple(round(n * factor) for n in given["elements"])}
    model, exact = bars(**spec, gaps=(GAP,), integrator=integrator), bars_exact(**spec, gaps=(GAP,), t_end=TIME)
    stride = max(1, round(TIME / model.dt) // SAMPLES)
    steps = round(TIME / model.dt / stride) * stride
    run = model.solve(TRAPEZOIDAL, dt=TIME / steps, num_steps=steps, stride=stride)
    q0, mass, cut = np.array(model.q0), np.asarray(model.params["mass"]), spec["elements"][0] + 1
    squares, means = {"v": [], "u": [], "v*": [], "u*": []}, []
    for bar, nodes in enumerate((slice(0, cut), slice(cut, None))):
        s, weight = q0[nodes] - (bar * (spec["lengths"][0] + GAP)), mass[nodes]
        v = np.array([exact.velocity(bar, s, t) for t in run.t])
        u = np.array([displacement(exact, bar, s, t) for t in run.t])
        for name, value in (("v", run.v[:, nodes] - v), ("u", run.q[:, nodes] - q0[nodes] - u), ("v*", v), ("u*", u)):
            squares[name].append(float(np.sum(value**2 @ weight)))
        mean = np.array([exact.mean_velocity(bar, t) for t in run.t])
        means.append(float(np.max(np.abs(run.v[:, nodes] @ weight / weight.sum() - mean))))
    first, last = exact.contacts[0][1], exact.contacts[0][2]
    inside = (run.t > first + 1.0) & (run.t < last - 1.5)  # without the fronts at both ends
    tips = end_velocities(run)[inside, 0, 0]
    tip = np.array([float(exact.velocity(0, np.array([spec["lengths"][0]]), t)[0]) for t in run.t[inside]])
    speed = max(map(abs, spec["speeds"]))
    norms = {name: float(np.sqrt(sum(squares[name]) / sum(squares[name + "*"]))) for name in ("v", "u")}
    norms |= {"momentum": max(means) / speed, "tip": float(np.sqrt(np.mean((tips - tip) ** 2))) / speed}
    apart = run.gaps[inside, 0] > 0 if integrator == 2 else np.zeros(1)
    return Errors(spec["lengths"][0] / spec["elements"][0], norms, len(run.impacts), float(np.mean(apart)))


def rate(found: list[Errors], norm: str) -> float:
    sizes = np.log([e.size for e in found])
    return float(np.polyfit(sizes, np.log([max(e.norms[norm], 1e-300) for e in found]), 1)[0])


def rate_error(found: list[Errors], norm: str) -> float:
    """The standard error of the fitted rate."""
    x, y = np.log([e.size for e in found]), np.log([max(e.norms[norm], 1e-300) for e in found])
    rest = y - np.polyval(np.polyfit(x, y, 1), x)
    return float(np.sqrt(np.sum(rest**2) / (len(x) - 2) / np.sum((x - x.mean()) ** 2)))


def rate_rows(found: dict[tuple[Any, int], list[Errors]]) -> list[Row]:
    """Rates of all rows, from both sides."""
    third = Band(1 / 3 - 0.1, 1 / 3 + 0.1, "(1): a third; neither none nor the half of a first-order scheme")
    wide = Band(0.5, 1.1, "two thirds, the width of a front (1), to 1, a kink in L2; four meshes fit a slope to some 0.1")
    rows = []
    for integrator in (1, 2):
        mine = {row: errors for (row, which), errors in found.items() if which == integrator}
        for norm, band in (("v", third), ("u", wide), ("momentum", wide)):
            rates = {row: rate(errors, norm) for row, errors in mine.items()}
            rows.append(
                state(
                    f"integrator {integrator} converges to the exact waves, {NORMS[norm]}: rate "
                    f"{'1/3' if norm == 'v' else 'between 1/2 and 1'}",
                    f"rows {_listed(mine, norm)}",
                    band,
                    *rates.values(),
                )
            )
    return rows


def ringing(row: Any, factor: int) -> tuple[float, float, float]:
    """The end of bar A on the first plateau of the contact, integrator 2: the strongest frequency of its error over that of the
    stiffest mode of the chain; that mode over the most that either bar carries; how strong the second half is over the first."""
    given = BAR_ROWS[row]
    spec = given | {"elements": tuple(n * factor for n in given["elements"])}
    model, exact = bars(**spec, gaps=(GAP,), integrator=2), bars_exact(**spec, gaps=(GAP,), t_end=TIME)
    run = model.solve(TRAPEZOIDAL, num_steps=round(9.0 / model.dt))
    inside = run.t > 1.0  # the contact begins at 0.5, and no wave is back before 9
    end = np.array([spec["lengths"][0]])
    error = end_velocities(run)[inside, 0, 0] - np.array([float(exact.velocity(0, end, t)[0]) for t in run.t[inside]])
    spectrum = np.abs(np.fft.rfft((error - error.mean()) * np.hanning(len(error))))
    strongest = 2 * np.pi * np.fft.rfftfreq(len(error), run.dt)[np.argmax(spectrum)]
    carried = max(
        2 * np.sqrt(y / d) * n / length
        for y, d, n, length in zip(spec["moduli"], spec["densities"], spec["elements"], spec["lengths"], strict=True)
    )
    top, half = highest_frequency(model.params), len(error) // 2
    return float(strongest / top), float(top / carried), float(np.std(error[half:]) / np.std(error[:half]))


def ringing_rows(rows: list[Any], factor: int) -> list[Row]:
    found = {row: ringing(row, factor) for row in rows}
    told = ", ".join(f"{row}: {a:.3f}, {b:.2f}, {c:.2f}" for row, (a, b, c) in found.items())
    return [
        state(
            "(2): what is left with integrator 2 is one trapped mode: its frequency is the highest of the chain",
            f"strongest over highest frequency, highest over what the bars carry, second half of the plateau over first: {told}",
            Band(0.95, 1.05, "the same frequency, to the width 2π/8 of a spectrum over 8 s"),
            *(a for a, _, _ in found.values()),
        ),
        state(
            "which lies above the band of either bar, so that it does not decay",
            f"rows {told}",
            Band(0.9, 1.6, "above 1, and near it; amplitudes of both halves equal to a tenth"),
            *(b for _, b, _ in found.values()),
            *(c for _, _, c in found.values()),
        ),
    ]


def _listed(found: dict[Any, list[Errors]], norm: str) -> str:
    return ", ".join(
        f"{row}: {rate(e, norm):.2f} ± {rate_error(e, norm):.2f} ({e[0].norms[norm]:.1e} to {e[-1].norms[norm]:.1e})"
        for row, e in found.items()
    )


def one_material(row: Any) -> bool:
    """Whether the two ends that meet are alike, so that by symmetry nothing excites the spring between them."""
    given = BAR_ROWS[row]
    sizes = [length / n for length, n in zip(given["lengths"], given["elements"], strict=True)]
    return len(set(given["densities"])) == len(set(given["moduli"])) == 1 and np.isclose(*sizes)


def contact_rows(found: dict[tuple[Any, int], list[Errors]]) -> list[Row]:
    """What happens at the ends, where the two integrators differ."""
    none = Band(-0.15, 0.15, "rate 0: less than half of the third that the waves have")
    bouncing = {row: e for (row, which), e in found.items() if which == 1}
    unlike = {row: e for (row, which), e in found.items() if which == 2 and not one_material(row) and row != COARSE}
    alike = {row: e[-1].norms["tip"] for (row, which), e in found.items() if which == 2 and one_material(row)}
    words = "during contact, velocities of the ends do not converge in the root mean square"
    rows = [
        state(f"{words}: integrator 1", f"rows {_listed(bouncing, 'tip')}", none, *(rate(e, "tip") for e in bouncing.values())),
        state(
            f"{words}: nor with integrator 2, where the ends are unlike",
            f"rows {_listed(unlike, 'tip')}",
            none,
            *(rate(e, "tip") for e in unlike.values()),
        ),
    ]
    if alike:
        rows.append(
            state(
                "where they are alike, integrator 2 has them right",
                "with the finest elements, rows " + ", ".join(f"{row}: {x:.0e}" for row, x in alike.items()),
                Band(0.0, 0.05, "a twentieth of the speed: what is left of waves that ran through a bar"),
                *alike.values(),
            )
        )
    mine = {row: e for (row, which), e in found.items() if which == 2}
    shares = {row: [error.open_share for error in errors] for row, errors in mine.items()}
    told = ", ".join(
        f"{row}: {100 * s[0]:.1f} % to {100 * s[-1]:.1f} %, {mine[row][-1].contacts} events" for row, s in shares.items()
    )
    rows.append(
        state(
            "prolonged contact is stable under refinement: the share of the exact contact during which integrator 2 has the bars "
            "apart does not grow",
            f"rows {told}",
            Band(-1.0, 0.02, "from the coarsest to the finest it may fall, and rise by the few samples of a front"),
            *(s[-1] - s[0] for s in shares.values()),
        )
    )
    counts = {row: [e.contacts for e in errors] for (row, which), errors in found.items() if which == 1}
    growth = [float(np.polyfit(np.log([e.size for e in found[row, 1]]), np.log(c), 1)[0]) for row, c in counts.items()]
    rows.append(
        state(
            "with integrator 1 it is bouncing, ever faster: contacts grow as the number of elements",
            "rows " + ", ".join(f"{row}: {c[0]} to {c[-1]}" for row, c in counts.items()),
            Band(-1.3, -0.7, "one bounce for a wave to cross some elements: Δs^(−1)"),
            *growth,
        )
    )
    return rows


def bar_waves(full: bool, draw: Path | None) -> list[Row]:
    """The chapter."""
    rows = list(BAR_ROWS) if full else [2]
    factors = (1, 2, 4, 8) if full else (0.5, 1, 2)
    found = {(row, integrator): [compare(row, integrator, f) for f in factors] for row in rows for integrator in (1, 2)}
    if draw:
        _draw(draw, found)
    return [*rate_rows(found), *contact_rows(found), *ringing_rows([2, 3, 5] if full else [2], 2 if full else 1)]


def _draw(draw: Path, found: dict[tuple[Any, int], list[Errors]]) -> None:
    figure, (row,) = axes(1, 4, size=(3.6, 3.4))
    for ax, (norm, title) in zip(row, NORMS.items(), strict=True):
        for (name, integrator), errors in found.items():
            sizes = [e.size for e in errors]
            values = [e.norms[norm] for e in errors]
            if max(values) > 1e-9:
                number = list(BAR_ROWS).index(name)
                ax.loglog(sizes, values, "o-" if integrator == 2 else "x--", color=f"C{number}", ms=3, lw=0.8,
                          label=f"row {name}" if integrator == 2 else None)  # fmt: skip
        guide = np.array([found[next(iter(found))][0].size, found[next(iter(found))][-1].size])
        for power, look, words in ((1 / 3, "-", "Δs^(1/3)"), (2 / 3, ":", "Δs^(2/3)")):
            ax.loglog(guide, 0.3 * (guide / guide[0]) ** power, look, color="black", lw=1, label=words)
        ax.set(xlabel="Δs", title=title)
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_xticks(guide, [f"{x:g}" for x in guide])
    row[0].set(ylabel="relative error")
    figure.legend(*row[0].get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    figure.suptitle("dots: integrator 2, crosses: integrator 1")
    figure.savefig(draw, dpi=110)
