"""Particles and rigid bodies [fetecau2003, §4]."""

from pathlib import Path
from typing import Any

import numpy as np

from carom.diagnostics import measured_order
from carom.methods.variational.collision import VariationalCollision
from carom.methods.variational.rules import Galerkin, Trapezoidal
from carom.models.particles import particle
from carom.models.planar import star
from carom.papers.exhibit import ANSWERED, UNCLEAR, Band, Exhibit, Row, axes, judge
from carom.papers.misprints import discrete_energy_57, rectangle_rule, step_after_impact
from carom.papers.star_walk import Walk, star_kick, walk

TRAPEZOIDAL = VariationalCollision(Trapezoidal())  # pyright: ignore[reportCallIssue]
FOURTH = VariationalCollision()


def particle_energy(full: bool, draw: Path | None) -> list[Row]:
    """Fig. 2."""
    model = particle()
    count = 100_000 if full else 1000
    run = model.solve(TRAPEZOIDAL, num_steps=100 * count, max_impacts=count)
    kick = float((model.dt * model.params["gravity"]) ** 2 / 8)
    change = np.abs(run.energy - run.energy[0]) / kick
    p_x = float(np.ptp(run.p[:, 0]))
    step = run.impacts.step
    part = (run.impacts.t - run.t[step]) / run.dt
    defect = float(np.max(np.abs(run.energy[step + 1] - run.energy[step] - kick * (1 - 2 * part)))) / kick
    if draw:
        figure, ((ax,),) = axes(size=(7.0, 3.2))
        some = slice(None, None, max(1, len(run.t) // 20_000))
        ax.plot(run.t[some], run.energy[some], lw=0.4)
        ax.set(xlabel="time", ylabel="energy", title="particle on a rigid floor (Fig. 2)")
        figure.savefig(draw, dpi=120)
    marks = [n for n in (1000, 10_000, 100_000) if n <= len(step)]
    largest = [float(np.max(change[: step[n - 1] + 2])) for n in marks]
    told = ", ".join(f"{x:.1f} in {n} impacts" for x, n in zip(largest, marks, strict=True))
    walk = np.sqrt(marks[-1] / 3)
    return [
        judge(
            "Fig. 2: “fluctuating energy behavior”, and “the same pattern […] for essentially arbitrarily long times”",
            f"largest |ΔH| in kicks K = m(hg)²/8: {told}; K/H = {kick / abs(run.energy[0]):.1e}",
            Band(1.0, walk / 2, f"more than one kick, since it fluctuates; half of {walk:.0f}, what a random walk of them reaches"),
            largest[-1],
        ),
        judge(
            "the pattern is that of a map: an impact at the fraction α of its step changes H by K(1 − 2α)",
            f"off by {defect:.0e} K at most",
            Band(0.0, 1e-6, "an identity: energies round to some 1e-14 of H, 1e-10 of K"),
            defect,
        ),
        judge("the horizontal momentum is conserved (§3.4)", f"p_x varies by {p_x:.1e}",
              Band(0.0, 0.0, "nothing acts on it: not even rounding"), p_x),
    ]  # fmt: skip


def star_motion(full: bool, draw: Path | None) -> list[Row]:
    """Fig. 3."""
    model = star()
    run = model.solve(TRAPEZOIDAL, num_steps=700)
    from carom.diagnostics import penetration
    from carom.drawing import picture

    if draw:
        figure, ((ax,),) = axes(size=(7.0, 3.6))
        assert model.shape is not None
        for k in range(0, len(run.t), 20):
            for part in picture(model.shape, run.q[k], float(run.t[k]), model.params):
                if not part.fixed:
                    ax.plot(*part.points.T, color="C0", lw=0.5)
        ax.axhline(0.0, color="black", lw=1)
        ax.set(xlabel="x", ylabel="y", aspect="equal", title="star on a rigid floor (Fig. 3)")
        figure.savefig(draw, dpi=120)
    depth, touch = penetration(run, samples=3), float(np.max(np.abs(np.min(gaps_along(run), axis=1))))
    exact = _first_touch(model)
    return [
        judge(
            "Fig. 3: the star is “colliding and bouncing”: it touches the floor and never enters it",
            f"{len(run.impacts)} impacts; nearest corner at most {touch:.0e} from the floor there; deepest {depth:.1e} anywhere",
            Band(0.0, 1e-12, "not below, by more than rounding; and in contact at an impact"),
            depth,
            touch,
        ),
        judge(
            "(81): the first contact is where 3.5 − gt²/2 = ½(|sin 5t| + |cos 5t|)",
            f"at t = {run.impacts.t[0]:.12f}; by bisection {exact:.12f}",
            Band(-1e-12, 1e-12, "free flight is exact for a linear potential"),
            float(run.impacts.t[0]) - exact,
        ),
    ]


def gaps_along(run: Any) -> np.ndarray:
    """Heights of the corners at the impacts."""
    x, y = np.asarray(run.params["corners"]).T
    q = run.impacts.q
    return q[:, 1:2] + np.sin(q[:, 2:]) * x + np.cos(q[:, 2:]) * y


def _first_touch(model: Any) -> float:
    """Independently of the model's vertices: the height of (81)."""
    from scipy.optimize import brentq

    y0, spin, g = model.q0[1], model.v0[2], float(model.params["gravity"])

    def height(t: float) -> float:
        return y0 - g * t**2 / 2 - 0.5 * (abs(np.sin(spin * t)) + abs(np.cos(spin * t)))

    t = np.linspace(0.0, 1.0, 2001)
    k = next(i for i in range(2000) if height(t[i]) > 0 >= height(t[i + 1]))
    return float(brentq(height, t[k], t[k + 1], xtol=1e-15, rtol=1e-15))  # pyright: ignore[reportArgumentType]


def star_energy(full: bool, draw: Path | None) -> list[Row]:
    """Fig. 4, and the question it leaves open."""
    model = star()
    runs = {"trapezoidal": TRAPEZOIDAL, "order 4": FOURTH}
    runs = {name: model.solve(method, num_steps=10**6, max_impacts=1500) for name, method in runs.items()}
    worst = {name: float(np.max(np.abs(run.energy_error))) for name, run in runs.items()}
    found = walk(100_000 if full else 500, 500 if full else 100)
    kick = star_kick(model.params, model.dt) / abs(float(runs["trapezoidal"].energy[0]))
    if draw:
        figure, row = axes(1, 3)
        for ax, (name, run) in zip(row[0], runs.items(), strict=False):
            ax.plot(run.t[::5], run.energy[::5], lw=0.4)
            ax.set(xlabel="time", ylabel="energy", title=f"star, {name} (Fig. 4)")
        row[0][2].plot(found.impacts, found.variance, "o", ms=4, label=f"{found.lanes:,} stars")
        row[0][2].plot(found.impacts, found.steps / 3, label="(n − 5m/3)/3: a random walk")
        row[0][2].set(xlabel="impacts n", ylabel="variance of the energy / K²")
        row[0][2].legend()
        figure.savefig(draw, dpi=120)
    return [
        judge(
            "Fig. 4: over 1,500 impacts the energy “appears to be reasonably stable” (h = 0.005, q̇₀ = (−2, 0, 5))",
            f"max |ΔH/H| = {worst['trapezoidal']:.1e}; one kick m(hg)²/8 is {kick:.1e}; "
            f"composition of order 4: {worst['order 4']:.0e}",
            Band(kick, 1500 * kick, "fluctuates by more than one kick, and by less than 1500 kicks of one sign"),
            worst["trapezoidal"],
        ),
        walk_row(found),
    ]


def walk_row(found: Walk) -> Row:
    """Which of the two: the variance of the energy, in K², against n − 5m/3. A random walk of kicks K (1 − 2α) with α uniform has a
    third of it, slope 1 in a double logarithm; an energy that stays near a conserved one has a slope of 0."""
    slope, ratio = found.exponent, found.ratio
    wide = max(0.03, 4 * found.ratio_error)
    walks = Band(1 - 4 * found.exponent_error, 1 + 4 * found.exponent_error, "slope 1, over a decade")
    size = Band(1 - wide, 1 + wide, "3 %, or four standard errors where stars are few")
    bounded = Band(-0.1, 0.1, "slope 0")
    answer, why = UNCLEAR, "neither grows as n nor stays"
    if walks.holds(slope) and size.holds(ratio):
        answer, why = ANSWERED, "a random walk, of kicks m(hg)²/8 (1 − 2α) with independent, uniform α"
    elif bounded.holds(slope):
        answer, why = ANSWERED, "a nearby energy is conserved: the variance does not grow"
    return Row(
        "§4.3: “It is not clear […] whether this is an indication of a nearby conserved energy […] or "
        "simply a fairly stable random walk”",
        f"{found.lanes} stars of different spin: the variance of the energy grows as N^({slope:.3f} ± {found.exponent_error:.3f}) "
        f"and is {ratio:.3f} ± {found.ratio_error:.3f} of N K²/3, K = m(hg)²/8, after {found.impacts[-1]:.0f} impacts; "
        f"N = n − 5m/3 = {found.steps[-1]:.1f}, where m impacts share a step with the one before",
        answer,
        why,
        f"random walk: exponent {walks.low:.3f} to {walks.high:.3f}, 1 to four standard errors, and {size.low:.3f} to "
        f"{size.high:.3f} of N/3 ({size.why}); conserved: exponent {bounded.low} to {bounded.high}",
    )


def star_order(full: bool, draw: Path | None) -> list[Row]:
    """Fig. 5."""
    model, reference = star(cubic=0.1), VariationalCollision(Galerkin(4))
    hit = float(model.solve(reference, dt=0.005, num_steps=300).impacts.t[0])
    counts = (20, 40, 80, 160, 320) if full else (20, 40, 80)
    found = {}
    for name, method in (("trapezoidal", TRAPEZOIDAL), ("composition, order 4", FOURTH)):
        sizes, errors = [], []
        for count in counts:
            dt = hit / (count + 0.3)  # the impact at the same fraction of its step each time: the error is ∝ 1 − 2α
            run = model.solve(method, dt=dt, num_steps=count + 4)
            exact = model.solve(reference, dt=float(run.t[-1]) / 512, num_steps=512)
            errors.append(float(np.max(np.abs(np.concatenate([run.q[-1] - exact.q[-1], run.p[-1] - exact.p[-1]])))))
            sizes.append(dt)
        found[name] = (sizes, errors, measured_order(sizes, errors))
    if draw:
        figure, ((ax,),) = axes(size=(5.0, 3.6))
        for name, (sizes, errors, order) in found.items():
            ax.loglog(sizes, errors, "o-", label=f"{name}: {order:.2f}")
        ax.set(xlabel="dt", ylabel="error", title="star, after one collision (Fig. 5)")
        ax.set_xticks([0.002, 0.005, 0.01, 0.02], ["0.002", "0.005", "0.01", "0.02"])
        ax.set_xticks([], minor=True)
        ax.legend()
        figure.savefig(draw, dpi=120)
    second, fourth = (found[name][2] for name in found)
    return [
        judge(
            "Fig. 5: “the integrator is second order accurate” after one collision (trapezoidal rule, nonlinear gravity)",
            f"order {second:.2f} with {counts[0]} to {counts[-1]} steps before the impact",
            Band(1.8, 2.2, "order 2, and neither 1 nor 3: the fit over these steps is off by O(h)"),
            second,
        ),
        judge(
            "§4.3: “we believe that it extends to the nonsmooth setting”, order of L_d and of the method (composition of order 4)",
            f"order {fourth:.2f}",
            Band(3.7, 4.3, "order 4, and neither 3 nor 5"),
            fourth,
        ),
        discrete_energy_57(),
        rectangle_rule(),
        step_after_impact(),
    ]


EXHIBITS = (
    Exhibit("fetecau2003", "fig-2", "energy of a bouncing particle", particle_energy),
    Exhibit("fetecau2003", "fig-3", "a star bounces on a floor", star_motion),
    Exhibit("fetecau2003", "fig-4", "energy of the star over 1500 impacts", star_energy),
    Exhibit("fetecau2003", "fig-5", "order after one collision", star_order),
)
