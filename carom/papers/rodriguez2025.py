"""Constrained systems [rodriguez2025, §4; rodriguez2024, §6]."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from carom.contact.contact import Contact
from carom.methods.variational.collision import VariationalCollision
from carom.methods.variational.rules import Left, Midpoint
from carom.models.nonholonomic import disk_impact, nonholonomic_pendulum, rolling_disk
from carom.models.particles import particle
from carom.models.planar import ellipse
from carom.papers.exhibit import Band, Exhibit, Row, axes, judge
from carom.papers.misprints import jump_theorem_2, tangent_e2
from carom.running.solve import solve
from carom.system.impact_map import impact_map
from carom.system.system import System

PLUS = VariationalCollision(Left(), direction="forward")  # pyright: ignore[reportCallIssue]
MIDPOINT = VariationalCollision(Midpoint())  # pyright: ignore[reportCallIssue]


def _ellipse(full: bool, draw: Path | None) -> list[Row]:
    """Figs 1 and 2."""
    law, variant = (ellipse(torque_free=free).solve(MIDPOINT, dt=0.01, num_steps=2500) for free in (False, True))
    counts = [(int(np.sum(run.impacts.t < 2)), len(run.impacts)) for run in (law, variant)]
    if draw:
        figure, row = axes(1, 3)
        for ax, run, title in ((row[0][0], variant, "without torque"), (row[0][1], law, "by the law")):
            _draw_plate(ax, run)
            ax.set(xlabel="x", ylabel="y", title=f"{title} (Fig. 1)", aspect="equal", ylim=(-0.2, 4.7))
        row[0][2].plot(variant.t, variant.energy, lw=0.6, label="without torque")
        row[0][2].plot(law.t, law.energy, lw=0.6, label="by the law")
        row[0][2].set(xlabel="time", ylabel="energy", title="Fig. 2")
        row[0][2].legend()
        figure.savefig(draw, dpi=110)
    why = "the printed counts belong to an impulse without torque, p_θ unchanged, not the law of impact: with it they come out"
    # The reason would be wrong if the torque-free counts came out with the printed step alone: finer steps beside it.
    finer = {
        free: [ellipse(torque_free=free).solve(MIDPOINT, dt=0.01 / n, num_steps=2500 * n) for n in (2, 4)] for free in (False, True)
    }
    rows = []
    for k, (claim, printed, until) in enumerate(
        (("Fig. 1: “one impact” in 2 s", 1, 2.0), ("Fig. 2: “17 impacts” in 25 s", 17, 25.0))
    ):
        others = {free: [int(np.sum(run.impacts.t < until)) for run in many] for free, many in finer.items()}
        measured = (
            f"by the law {counts[0][k]}, without torque {counts[1][k]} at h = 0.01; at h = 0.005 and 0.0025 by the law "
            f"{others[False][0]} and {others[False][1]}, without torque {others[True][0]} and {others[True][1]}"
        )
        rows.append(judge(claim, measured, Band(printed, printed, "a count, judged on the law"), counts[0][k], why=why))
    for run, name, count in ((law, "by the law", counts[0][1]), (variant, "without torque", counts[1][1])):
        rows.append(_energy_row(run, name, count))
    return [*rows, tangent_e2()]


def _draw_plate(ax: Any, run: Any) -> None:
    """As in Fig. 1: the centre in black and the principal axes in red, both dashed, for two seconds; the plate itself."""
    a, b = float(run.params["a"]), float(run.params["b"])
    angle = np.linspace(0, 2 * np.pi, 97)
    for *centre, turn in run.q[0:201:25]:
        along, across = np.array([np.cos(turn), np.sin(turn)]), np.array([-np.sin(turn), np.cos(turn)])
        rim = np.array(centre) + a * np.cos(angle)[:, None] * along + b * np.sin(angle)[:, None] * across
        ax.plot(*rim.T, color="tab:blue", lw=0.8)
        for axis in (a * along, b * across):
            ax.plot(*np.array([np.subtract(centre, axis), np.add(centre, axis)]).T, "--", color="tab:red", lw=0.7)
    ax.plot(run.q[:201, 0], run.q[:201, 1], "--", color="black", lw=1)
    ax.axhline(0.0, color="black", lw=1)


def _energy_row(run: Any, name: str, count: int) -> Row:
    """An impact at the fraction α of a step changes the energy by K (1 − 2α), K = m(hg)²/8."""
    start = float(abs(run.energy[0]))
    kick = float(run.params["mass"] * (run.dt * run.params["gravity"]) ** 2 / 8) / start
    error = float(np.max(np.abs(run.energy_error)))
    low = 10 * run.num_steps * np.finfo(float).eps
    return judge(
        f"§4.2 and Fig. 2: “slight energy fluctuation”, the energy “remains nearly constant” ({name})",
        f"max |ΔH/H| = {error:.1e} in 25 s and {count} impacts; one kick is at most {kick:.1e}",
        Band(low, count * kick, "more than a walk of rounding, since it fluctuates; at most all kicks m(hg)²/8 of one sign"),
        error,
    )


def _pendulum(full: bool, draw: Path | None) -> list[Row]:
    """Figs 3 and 4; without --full, 10 s instead of 100 s."""
    model = nonholonomic_pendulum()
    short = model.solve(PLUS, dt=1e-3, num_steps=5_000)
    time, printed = (100.0, 76) if full else (10.0, None)
    long = model.solve(PLUS, dt=1e-4, num_steps=round(time / 1e-4), stride=10)
    better = model.solve(VariationalCollision(), dt=1e-3, num_steps=round(time / 1e-3))
    if draw:
        figure, row = axes(1, 2)
        row[0][0].plot(short.t, short.q, label=["θ", "φ"])
        row[0][0].set(xlabel="time", ylabel="angle", title="angles (Fig. 3)")
        row[0][0].legend()
        row[0][1].plot(long.t, long.energy, lw=0.6, label="L at the left end, (+)")
        row[0][1].plot(better.t, better.energy, lw=0.6, label="order 4, symmetric")
        row[0][1].set(xlabel="time", ylabel="energy", title="energy (Fig. 4)")
        row[0][1].legend()
        figure.savefig(draw, dpi=110)
    rise, fourth = float(long.energy_error[-1]), float(np.max(np.abs(better.energy_error)))
    halves = [float(model.solve(PLUS, dt=dt, num_steps=round(10 / dt)).energy_error[-1]) for dt in (8e-4, 4e-4, 2e-4)]
    order = float(np.polyfit(np.log([8e-4, 4e-4, 2e-4]), np.log(np.abs(halves)), 1)[0])
    noise = 10 * len(long.t) * np.finfo(float).eps
    rows = [
        judge(
            "Fig. 3: three impacts in 5 s at h = 1e-3 (+), with the wall on both sides, ℓ|sin θ| ≤ R",
            f"{len(short.impacts)}",
            Band(3, 3, "a count"),
            len(short.impacts),
        ),
        judge(
            "Fig. 4: the energy is almost constant “with a slight increase” at h = 1e-4 (+)",
            f"{rise:+.1e} in {time:g} s, and at most {fourth:.0e} with order 4 at h = 1e-3",
            Band(noise, 0.05, "it rises, by more than a walk of rounding; slight is at most 5 %"),
            rise,
        ),
        judge(
            "why: this L_d and its constraint are of first order",
            "rise in 10 s at h = 8e-4, 4e-4, 2e-4: " + ", ".join(f"{x:+.1e}" for x in halves) + f"; order {order:.2f}",
            Band(0.75, 1.25, "order 1, and neither none nor 2"),
            order,
        ),
        _one_sided_row(model),
    ]
    if printed is not None:
        rows.insert(
            1,
            judge(f"Fig. 4: {printed} impacts in 100 s at h = 1e-4", f"{len(long.impacts)}", Band(printed, printed, "a count"),
                  len(long.impacts)),
        )  # fmt: skip
    return rows


def _one_side(q: Any, params: Any) -> Any:
    return params["radius"] - params["length"] * jnp.sin(q[0])


def _one_sided_row(model: Any) -> Row:
    """S = {ℓ sin θ ≤ R}, as printed, in the same run."""
    whole = model.system
    system = System(whole.lagrangian.function, [Contact(_one_side)], space=whole.space, constraints=whole.constraints.function)
    run = solve(system, PLUS, model.q0, model.v0, dt=1e-3, num_steps=5_000, params=model.params)
    reach = float(np.max(np.abs(np.sin(run.q[:, 0]))) * model.params["length"])
    return judge(
        "§4.3: S = {ℓ sin θ ≤ R} keeps the pendulum inside the cylinder of radius R",
        f"in 5 s it reaches ℓ|sin θ| = {reach:.3f}, R = {model.params['radius']:g}; {len(run.impacts)} impacts",
        Band(0.0, float(model.params["radius"]) + 1e-9, "within the radius, up to rounding"),
        reach,
        why="θ goes to both sides of the axis, and the printed wall stands on one: two-sided, all counts come out",
    )


def _particle(full: bool, draw: Path | None) -> list[Row]:
    """§4.1: the staggered start, q₀ = q(0) − (h/2) v(0), v₀ = q(0) + (h/2) v(0)."""
    sizes = 0.1 / 2.0 ** np.arange(6)
    found = {name: [_staggered(h, name) for h in sizes] for name in ("−D₁L_d", "D₂L_d")}
    orders = {}
    for name, many in found.items():
        orders[name] = [float(np.polyfit(np.log(sizes), np.log(column), 1)[0]) for column in np.array(many).T]
    first = [errors[0] for errors in found["−D₁L_d"]]
    if draw:
        canvas, ((ax,),) = axes(size=(5.0, 3.6))
        for name, many in found.items():
            for column, what in zip(
                np.array(many).T, ("time of the impact", "velocity after an impact in the first step"), strict=True
            ):
                ax.loglog(sizes, column, "o-", ms=3, label=f"p₀ = {name}: {what}")
        ax.set(xlabel="h", ylabel="error", title="the particle of §4.1, staggered start")
        ax.legend(fontsize=6)
        canvas.savefig(draw, dpi=110)
    return [
        judge(
            "§4.1: q₀ = q(0) − (h/2)v(0), v₀ = q(0) + (h/2)v(0) relate “the continuous and the discrete initial conditions”",
            f"time of the first impact off by {first[0]:.1e} to {first[-1]:.1e}: order {orders['−D₁L_d'][0]:.2f}",
            Band(1.75, 2.25, "order 2, that of the midpoint rule"),
            orders["−D₁L_d"][0],
        ),
        judge(
            "Algorithm 1: the input p₀ = D₂L_d(q₀, v₀, h), where an impact falls into the first step",
            f"velocity after it: order {orders['D₂L_d'][1]:.2f} as printed, {orders['−D₁L_d'][1]:.2f} with p₀ = −D₁L_d(q₀, v₀, h)",
            Band(1.75, 2.25, "order 2, that of the midpoint rule"),
            orders["D₂L_d"][1],
            why="D₂L_d is the momentum at the end of the first interval: at its start it is off by h m g",
        ),
    ]


def _staggered(h: float, start: str) -> tuple[float, float]:
    """Errors of the first impact's time, and of the velocity after an impact in the first step."""
    g = 9.81
    lift = g * h / 2 if start == "−D₁L_d" else -g * h / 2  # p₀/m over (v₀ − q₀)/h
    errors = []
    for y, v in ((1.0, -0.5), (0.6 * h, -2.0)):  # (y, v) at t = 0; the second has its impact within h
        q0 = np.array([0.0 - h / 2 * 1.0, y - h / 2 * v])
        run = particle(gravity=g).solve(MIDPOINT, q0=q0, v0=np.array([1.0, v + lift]), dt=h, num_steps=round(1.0 / h), t0=-h / 2)
        exact = (v + np.sqrt(v**2 + 2 * g * y)) / g
        errors.append((abs(run.impacts.t[0] - exact), abs(run.impacts.p_after[0, 1] - np.sqrt(v**2 + 2 * g * y))))
    return errors[0][0], errors[1][1]


def _disk(full: bool, draw: Path | None) -> list[Row]:
    """§6: the conditions for the impact."""
    model = rolling_disk(rim="printed")
    numbers = {k: model.params[k] for k in ("mass", "radius", "inertia", "turning")}
    random, worst = np.random.default_rng(0), 0.0
    weight = np.array([numbers["mass"], numbers["mass"], numbers["inertia"], numbers["turning"]])

    def after(phi, v_theta, v_phi):
        q = np.array([0.0, 10.0 - np.sin(phi), 0.0, phi])
        v = np.array([v_theta * np.cos(phi), v_theta * np.sin(phi), v_theta, v_phi])
        return np.asarray(impact_map(model.system, 0, q, weight * v, params=model.params)) / weight

    for _ in range(20):
        phi, v_theta, v_phi = random.uniform(-3, 3, 3)
        sign = 1.0 if np.sin(phi) * v_theta + np.cos(phi) * v_phi > 0 else -1.0
        exact = disk_impact(sign * v_theta, sign * v_phi, phi, **numbers)
        worst = max(worst, float(np.max(np.abs(after(phi, sign * v_theta, sign * v_phi)[2:] - exact))))
    square = after(np.pi / 2, 1.0, 0.5)
    runs = {rim: rolling_disk(rim=rim).solve(dt=0.01, num_steps=3000) for rim in ("printed", "physical")}
    reach, kept = (float(np.max(run.q[:, 1] + np.abs(np.sin(run.q[:, 3])))) for run in runs.values())
    if draw:
        figure, ((ax,),) = axes()
        for rim, run in runs.items():
            ax.plot(run.q[:, 0], run.q[:, 1], lw=0.8, label=f"{rim} wall")
        ax.axhline(10.0, color="black", lw=1)
        ax.set(xlabel="x", ylabel="y", aspect="equal", title="the contact point of the disk")
        figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
        figure.savefig(draw, dpi=110)
    return [
        judge(
            "§6: orthogonal hit: p_θ⁺ = −p_θ⁻, p_φ⁺ = p_φ⁻ is the only admissible solution",
            f"(θ′, φ′): (1, 0.5) → ({square[2]:.15g}, {square[3]:.15g})",
            Band(-1e-12, 1e-12, "the difference from (−1, 0.5), up to rounding"),
            square[2] + 1,
            square[3] - 0.5,
        ),
        judge(
            "§6: the conditions for the impact determine p⁺",
            f"closed form against the law, 20 random states: {worst:.0e}",
            Band(0.0, 1e-11, "the same, up to rounding of some 10"),
            worst,
        ),
        judge(
            "§6: Q = {y + R sin ϕ ≤ 10} keeps the disk in front of a wall at y = 10",
            f"in 30 s the rim reaches y = {reach:.2f} with the printed wall, {kept:.2f} with y + R|sin ϕ| ≤ 10",
            Band(9.0, 10.0 + 1e-9, "it must come to the wall, within its radius 1, and not pass it by more than rounding"),
            reach,
            why="backwards, sin ϕ < 0, the disk passes it; with |sin ϕ| it does not",
        ),
        jump_theorem_2(),
    ]


EXHIBITS = (
    Exhibit("rodriguez2025", "section-4.1", "a bouncing particle, staggered", _particle),
    Exhibit("rodriguez2025", "fig-1-2", "a bouncing ellipse", _ellipse),
    Exhibit("rodriguez2025", "fig-3-4", "a nonholonomic pendulum in a cylinder", _pendulum),
    Exhibit("rodriguez2024", "section-6", "a rolling disk hits a wall", _disk),
)
