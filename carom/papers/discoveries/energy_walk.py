"""Is a nearby energy conserved? The question of [fetecau2003, §4.3], and its answer.

With linear gravity the trapezoidal rule is exact in free flight, and over a time t its discrete energy is

    E_d(t) = ½ m w² + ½ (V(q₀) + V(q₁)) = H − m (g t)²/8.                                                              (1)

An impact cuts a step into αh and (1 − α)h and balances E_d, not H; so H changes by the kick

    H⁺ − H⁻ = K ((1 − α)² − α²) = K (1 − 2α),        K = m (h g)²/8.                                                    (2)

A composition of steps γᵢh has E_d = Σ γᵢ E_d,ᵢ = H − m (g t)²/8 Σ γᵢ³, and Σ γᵢ³ = 0 is the very condition for order 4.      (3)

(4) and (5) of the chapter are (1) and (2) of `carom.papers.star_walk`.
"""

from pathlib import Path
from typing import Any

import numpy as np

from carom.many.ensemble import ensemble
from carom.methods.variational.rules import Composition, Trapezoidal
from carom.models.planar import star
from carom.papers.exhibit import Band, Row, axes, state
from carom.papers.fetecau2003 import FOURTH, TRAPEZOIDAL
from carom.papers.star_walk import Walk, growth, star_kick, walk

STEP = 0.005


def kicks(run: Any) -> tuple[np.ndarray, np.ndarray]:
    """By step with impacts: (2) from where they fall, K (c² − a²) with a before the first and c after the last of them in units of
    the step; and the change of the energy over that step."""
    step, first, count = np.unique(run.impacts.step, return_index=True, return_counts=True)
    before = (run.impacts.t[first] - run.t[step]) / run.dt
    after = (run.t[step + 1] - run.impacts.t[first + count - 1]) / run.dt
    K = star_kick(run.params, run.dt)
    return K * (after**2 - before**2), run.energy[step + 1] - run.energy[step]


def sawtooth(impacts: int, lanes: int, dt: float = 0.01, gravity: float = 9.81) -> tuple[np.ndarray, np.ndarray]:
    """The bouncing particle of §4.2 as the map that it is, t ← t + 2√(2H)/g, H ← H + K (1 − 2 frac(t/h)): counts, and the variance
    of the change of the vertical energy in K² over particles dropped from 0.9 to 1.1."""
    K = (dt * gravity) ** 2 / 8
    height = np.linspace(0.9, 1.1, lanes)
    energy, t = gravity * height, np.sqrt(2 * height / gravity)
    start, counts, variances = energy.copy(), [], []
    marks = set(np.unique(np.geomspace(10, impacts, 40).astype(int)).tolist())
    for n in range(1, impacts + 1):
        energy = energy + K * (1 - 2 * np.mod(t / dt, 1.0))
        t = t + 2 * np.sqrt(2 * energy) / gravity
        if n in marks:
            counts.append(n)
            variances.append(np.var((energy - start) / K))
    return np.array(counts), np.array(variances)


def walk_rows(found: Walk, run: np.ndarray, n: int) -> list[Row]:
    """The variance of an ensemble; and the kicks of one run, in K, step by step with impacts, of which there are n."""
    N, wide = n - 5 / 3 * (n - len(run)), max(0.03, 4 * found.ratio_error)
    squares = float(np.sum(run**2) / (N / 3))
    noise = float(np.std(run**2) * np.sqrt(len(run)) / (N / 3))
    lag, limit = float(np.mean(run[1:] * run[:-1]) / np.mean(run**2)), 4 / np.sqrt(len(run))
    plain = found.variance[-1] / (found.impacts[-1] / 3)
    return [
        state(
            "the variance of the energy of the star grows as the number n of impacts: a random walk",
            f"N^({found.exponent:.3f} ± {found.exponent_error:.3f}), N = n − 5m/3, over the last decade, {found.lanes} stars",
            Band(
                1 - 4 * found.exponent_error,
                1 + 4 * found.exponent_error,
                "1, to four standard errors (5); a conserved energy has 0",
            ),
            found.exponent,
        ),
        state(
            "(4): it is (n − 5m/3) K²/3 to 3 %, m impacts sharing a step with the one before",
            f"{found.ratio:.3f} ± {found.ratio_error:.3f} of it after {found.impacts[-1]:.1f} impacts, m = {found.shared[-1]:.2f}; "
            f"{plain:.3f} of n K²/3",
            Band(1 - wide, 1 + wide, "1 to 3 %, or to four standard errors where stars are few"),
            found.ratio,
        ),
        state(
            "(4) holds along one run as well: the squares of its kicks",
            f"{squares:.3f} ± {noise:.3f} of (n − 5m/3) K²/3 over {n} impacts, m = {n - len(run)}",
            Band(1 - 4 * noise, 1 + 4 * noise, "1, to four standard errors"),
            squares,
        ),
        state(
            "successive kicks are independent",
            f"correlation {lag:+.4f} of neighbours, {len(run)} steps with impacts",
            Band(-limit, limit, "zero, to four standard deviations"),
            lag,
        ),
    ]


def exactness_rows(linear: Any, coefficients: np.ndarray) -> list[Row]:
    """Order 4 with linear gravity, where (3) says that nothing is left."""
    worst, cubes = float(np.max(np.abs(linear.energy_error))), float(np.sum(coefficients**3))
    return [
        state(
            "(3): Σγᵢ = 1 and Σγᵢ³ = 0 for the composition of order 4",
            f"Σγᵢ − 1 = {np.sum(coefficients) - 1:.0e}, Σγᵢ³ = {cubes:.0e}; a single step has 1",
            Band(-1e-14, 1e-14, "zero to rounding, from either side"),
            cubes,
            float(np.sum(coefficients) - 1),
        ),
        state(
            "so order 4 has no kicks at all under linear gravity",
            f"max |ΔH/H| = {worst:.0e} over {len(linear.impacts)} impacts",
            Band(0.0, 1e-11, "rounding of some 10⁵ steps; one kick of order 2 is 8e-6"),
            worst,
        ),
    ]


def cubic_row(lanes: int) -> tuple[Row, dict[str, list[float]]]:
    """In a cubic potential kicks remain, of the order of the rule: their sizes at two steps."""
    model, spreads = star(cubic=0.1), {}
    v0s = np.tile(model.v0, (lanes, 1))
    v0s[:, 2] += np.random.default_rng(5).uniform(-1.0, 1.0, lanes)
    for name, method in (("order 2", TRAPEZOIDAL), ("order 4", FOURTH)):
        spreads[name] = []
        for dt in (2 * STEP, STEP):
            steps = round(40.0 / dt)
            run = ensemble(model.system, method, np.array(model.q0), v0s, dt=dt, num_steps=steps, params=model.params)
            good = run.ok
            spreads[name].append(float(np.std((run.energy - run.energy_start[:, None])[good, -1])))
    orders = {name: float(np.log2(two[0] / two[1])) for name, two in spreads.items()}
    row = state(
        "in a cubic potential the walk stays, with kicks of the order of the rule: h² and h⁴",
        "; ".join(f"{name}: spread {two[0]:.1e} and {two[1]:.1e} at h = 0.01 and 0.005, h^{orders[name]:.2f}"
                  for name, two in spreads.items()),
        Band(-0.3, 0.3, "the exponents are 2 and 4; 0.3 is four standard deviations of the ratio of two spreads of 500 stars"),
        orders["order 2"] - 2,
        orders["order 4"] - 4,
    )  # fmt: skip
    return row, spreads


def energy_walk(full: bool, draw: Path | None) -> list[Row]:
    """The chapter."""
    model = star()
    found = walk(100_000 if full else 1000, 500 if full else 100)
    run = model.solve(TRAPEZOIDAL, num_steps=10**7, max_impacts=20_000 if full else 2000)
    predicted, measured = kicks(run)
    K = star_kick(run.params, run.dt)
    linear = model.solve(FOURTH, num_steps=10**6, max_impacts=1500)
    bounces, spread = sawtooth(100_000 if full else 10_000, 1000)
    rows = [
        state(
            "(2): an impact at the fraction α of a step changes the energy by K(1 − 2α)",
            f"largest difference {np.max(np.abs(predicted - measured)) / K:.0e} K over {len(run.impacts)} impacts",
            Band(0.0, 1e-6, "an identity: energies round to some 1e-14 of H, 1e-9 of K"),
            float(np.max(np.abs(predicted - measured)) / K),
        ),
        *walk_rows(found, predicted / K, len(run.impacts)),
        state(
            "the particle of §4.2 has the same kicks and does not walk",
            f"variance n^{growth(bounces, spread):.2f} over the last decade of {bounces[-1]} impacts, "
            f"{spread[-1]:.1f} K² at the end where a walk has {bounces[-1] / 3:.0f} K²",
            Band(-0.25, 0.25, "exponent 0: half of the way to a square root"),
            growth(bounces, spread),
        ),
        *exactness_rows(linear, Composition(Trapezoidal(), 4).coefficients),  # pyright: ignore[reportCallIssue]
    ]
    if full:
        rows.append(cubic_row(2000)[0])
    if draw:
        _draw(draw, found, (bounces, spread), predicted / K)
    return rows


def _draw(draw: Path, walked: Walk, bounced: tuple[np.ndarray, np.ndarray], found: np.ndarray) -> None:
    figure, ((left, right),) = axes(1, 2, size=(5.2, 3.6))
    n = np.geomspace(1, bounced[0][-1], 50)
    left.loglog(walked.impacts, walked.variance, "o", ms=4, label=f"{walked.lanes:,} stars")
    left.loglog(*bounced, "s", ms=3, label="1,000 particles")
    left.loglog(n, n / 3, color="black", lw=1, label="n/3")
    left.set(xlabel="impacts n", ylabel="variance of the energy / K²", title="the star walks, the particle does not")
    left.legend()
    right.hist(found, np.linspace(-1, 1, 41), density=True, alpha=0.6, label="kicks of one star")
    right.axhline(0.5, color="black", lw=1, label="uniform")
    right.set(xlabel="change of the energy in a step with impacts / K", ylabel="density", title="kicks K(1 − 2α)", ylim=(0.0, 0.75))
    right.legend()
    figure.savefig(draw, dpi=110)
