"""Particles and rigid bodies [fetecau2003, §4]."""

from pathlib import Path

import numpy as np

from carom.diagnostics import measured_order
from carom.methods.variational.collision import VariationalCollision
from carom.methods.variational.rules import Galerkin, Trapezoidal
from carom.models.particles import particle
from carom.models.planar import star
from carom.papers.exhibit import DIFFERS, Exhibit, Row, axes, verdict

TRAPEZOIDAL = VariationalCollision(Trapezoidal())  # pyright: ignore[reportCallIssue]
FOURTH = VariationalCollision()


def particle_energy(full: bool, draw: Path | None) -> list[Row]:
    """Fig. 2."""
    model = particle()
    count = 100_000 if full else 1000
    run = model.solve(TRAPEZOIDAL, num_steps=100 * count, max_impacts=count)
    error = run.energy_error
    exact = 1.0 * (0.01 * 9.81) ** 2 / 8  # the kick at an impact is m(hg)²/8 (1 − 2α)
    largest = float(np.max(np.abs(error)))
    p_x = float(np.ptp(run.p[:, 0]))
    if draw:
        figure, ((ax,),) = axes(size=(7.0, 3.2))
        ax.plot(run.t[:: max(1, len(run.t) // 20_000)], run.energy[:: max(1, len(run.t) // 20_000)], lw=0.4)
        ax.set(xlabel="time", ylabel="energy", title="particle on a rigid floor (Fig. 2)")
        figure.savefig(draw, dpi=120)
    bound = 25 * exact / abs(run.energy[0])
    return [
        Row(
            f"the energy fluctuates within bounds over {count} impacts",
            f"max |ΔH/H| = {largest:.2e} over {run.num_steps} steps; drift {run.energy_drift:.1e}",
            verdict(largest < bound),
            "" if largest < bound else "it is a bounded sawtooth map, with kicks m(hg)²/8 (1 − 2α)",
        ),
        Row("the horizontal momentum is conserved", f"p_x varies by {p_x:.1e}", verdict(p_x == 0.0)),
    ]


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
    depth = penetration(run)
    return [
        Row(
            "the star bounces and never penetrates the floor",
            f"{len(run.impacts)} impacts, deepest {depth:.1e}",
            verdict(depth < 1e-12),
        )
    ]


def star_energy(full: bool, draw: Path | None) -> list[Row]:
    """Fig. 4, and the question it leaves open."""
    model = star()
    runs = {"trapezoidal": TRAPEZOIDAL, "order 4": FOURTH}
    runs = {name: model.solve(method, num_steps=10**6, max_impacts=1500) for name, method in runs.items()}
    worst = {name: float(np.max(np.abs(run.energy_error))) for name, run in runs.items()}
    kick = (0.005 * 9.81) ** 2 / 8
    spreads = _walk(30 if full else 8)
    predicted = kick * np.sqrt(np.array([100, 400]) / 3)
    if draw:
        figure, row = axes(1, 2)
        for ax, (name, run) in zip(row[0], runs.items(), strict=True):
            ax.plot(run.t[::5], run.energy[::5], lw=0.4)
            ax.set(xlabel="time", ylabel="energy", title=f"star, {name} (Fig. 4)")
        figure.savefig(draw, dpi=120)
    ratio = spreads / predicted
    return [
        Row(
            "1500 impacts: the energy is reasonably stable",
            f"max |ΔH/H| = {worst['trapezoidal']:.1e}; with the composition of order 4: {worst['order 4']:.0e}",
            verdict(worst["trapezoidal"] < 1e-3),
        ),
        Row(
            "it is not clear whether a nearby energy is conserved, or it is a fairly stable random walk",
            f"spread of the energy over runs after 100 and 400 impacts: {spreads[0]:.1e}, {spreads[1]:.1e}; a random walk of the "
            f"kicks m(hg)²/8 (1 − 2α) predicts {predicted[0]:.1e}, {predicted[1]:.1e}",
            verdict(bool(np.all((ratio > 0.4) & (ratio < 2.5)))),
            "a random walk; order 4 removes it",
        ),
    ]


def _walk(runs: int) -> np.ndarray:
    """The root mean square of the change of energy after 100 and 400 impacts, over runs from nearby heights."""
    model, changes = star(), []
    for k in range(runs):
        q0 = [0.0, 3.5 + 0.01 * k, 0.0]
        run = model.solve(TRAPEZOIDAL, q0=q0, num_steps=10**5, max_impacts=400)
        at = np.minimum(run.impacts.step[[99, 399]] + 1, len(run.energy) - 1)
        changes.append(run.energy[at] - run.energy[0])
    return np.sqrt(np.mean(np.square(changes), axis=0))


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
        ax.legend()
        figure.savefig(draw, dpi=120)
    second, fourth = (found[name][2] for name in found)
    return [
        Row("the order of the discrete Lagrangian, 2, survives a collision", f"{second:.2f}", verdict(abs(second - 2) < 0.3)),
        Row("so it should for other discrete Lagrangians (a conjecture)", f"order 4: {fourth:.2f}", verdict(abs(fourth - 4) < 0.5)),
        Row("(57) and §1.2 as printed", "a factor h is missing in (57), ½ in L_d of §1.2", DIFFERS, "misprints"),
    ]


EXHIBITS = (
    Exhibit("fetecau2003", "fig-2", "energy of a bouncing particle", particle_energy),
    Exhibit("fetecau2003", "fig-3", "a star bounces on a floor", star_motion),
    Exhibit("fetecau2003", "fig-4", "energy of the star over 1500 impacts", star_energy),
    Exhibit("fetecau2003", "fig-5", "order after one collision", star_order),
)
