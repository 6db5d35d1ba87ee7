"""Formulas of [demoures2017] that cannot be meant as they are printed: each is put to work, beside the one that is meant.

The discrete Lagrangians (4.3), (4.12) and (5.9) are differentiated by machine. What a printed formula leaves over of the equations
that follow from them is its defect, relative to the largest of its terms; it is rounding for the formula that is meant.
"""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from carom.diagnostics.action import action_gradient
from carom.methods.variational.collision import VariationalCollision
from carom.methods.variational.rules import Trapezoidal
from carom.models.bars import bars
from carom.papers.exhibit import Band, Exhibit, Row, axes, judge

EXACT = Band(-1e-10, 1e-10, "an identity holds up to rounding, from either side")
MASS, MODULUS, CELL = (1.0, 5.0), (1.0, 2.0), 0.2  # M and E of the two bars, ℓ of both; S = 1
STEP, SHARE = 0.015, 0.4  # Δt, and α of a contact in it
TIP = 0.25  # ℓ_A2 = ℓ_A/4, ℓ_B1 = ℓ_B/4 (Remark 4.1)
START = np.array([0.0, 0.203, 0.398, 0.605, 0.795])  # nodes of a bar that is stretched and squeezed
SPEED = np.array([0.1, 0.12, 0.07, 0.11, 0.09])


class Found(NamedTuple):
    row: Row
    name: str
    printed: float  # the defect
    meant: float


def _found(name: str, claim: str, measured: str, band: Band, printed: float, meant: float, why: str, value: Any = None) -> Found:
    row = judge(claim, measured, band, printed if value is None else value, why=why)
    return Found(row, name, abs(printed), abs(meant))


def _bar(mass: float, modulus: float) -> Any:
    """The sum of (4.3) over the elements of one bar, as a function of two neighbouring rows of nodes and the time between them."""

    def L_d(x: Any, y: Any, h: Any) -> Any:
        v, e0, e1 = (y - x) / h, jnp.diff(x) / CELL, jnp.diff(y) / CELL
        kinetic = 0.25 * h * CELL * mass * jnp.sum(v[:-1] ** 2 + v[1:] ** 2)
        return kinetic - 0.25 * h * modulus * CELL * jnp.sum((e0 - 1) ** 2 + (e1 - 1) ** 2)

    return L_d


def _next(L_d: Any, x0: Any, x1: Any, h0: float, h1: float, impulse: Any = 0.0) -> np.ndarray:
    """x₂ with D₂L_d(x₀, x₁) + D₁L_d(x₁, x₂) + impulse = 0, which is linear in it."""

    @jax.jit
    def solved(x0: Any, x1: Any) -> Any:
        residual = lambda x2: jax.grad(L_d, 1)(x0, x1, h0) + jax.grad(L_d, 0)(x1, x2, h1) + impulse  # noqa: E731
        return residual(x1), jax.jacfwd(residual)(x1)

    left, slope = solved(jnp.asarray(x0), jnp.asarray(x1))
    return np.asarray(x1) - np.linalg.solve(np.asarray(slope), np.asarray(left))


def multiplier_2_12() -> Found:
    """The sign of λ in (2.12) and in (3.13) at an impact of two bars, with ψ = φ₂ − φ₁ of (4.2)."""
    run = bars(lengths=(1.0, 1.0), elements=(4, 4), integrator=1).solve(VariationalCollision(Trapezoidal()), num_steps=60)
    jump = run.impacts.p_after[0] - run.impacts.p_before[0]
    slope = np.zeros_like(jump)
    slope[4], slope[5] = -1.0, 1.0  # ∇ψ: φ₁ is the last node of bar A, φ₂ the first of bar B
    along = float(jump @ slope / (slope @ slope))
    left = float(np.abs(jump - along * slope).max())
    return _found(
        "(2.12)",
        "(2.12), (3.13): the multiplier “< 0” where ψ = 0, with ψ = φ₂ − φ₁ > 0 of (4.2)",
        f"first impact of two bars: (2.12), momenta after less before, gives λ = {along:.3g}; (3.13), before less after, gives "
        f"{-along:.3g} (their jump is along ∇ψ to {left:.0e})",
        Band(-np.inf, 0.0, "negative, however large"),
        along / abs(along) + 1,
        0.0,
        "(2.12) has its sign for constraints ψ ≤ 0, the set P of §2.2; with ψ ≥ 0 of (4.2) and (5.6) only (3.13) has it",
        value=along,
    )


def end_4_6() -> Found:
    """(4.6) at the end b = B of the second bar, with Δs₁M₁ as printed, of a step that makes the action of (4.3) stationary."""
    L_d, h = _bar(MASS[1], MODULUS[1]), STEP
    x1 = START + h * SPEED
    x2 = _next(L_d, START, x1, h, h)
    jump, strain = float((x2[-1] - 2 * x1[-1] + START[-1]) / h), float(1 - (x1[-1] - x1[-2]) / CELL)
    pull = 2 * h * MODULUS[1] * strain
    defect = {mass: (CELL * mass * jump - pull) / abs(pull) for mass in MASS}
    return _found(
        "(4.6)",
        "(4.6): Δs₁M₁(v_A − v_A) − (Δt + Δt) E S (1 − e_{A−1}) = 0, and “similar boundary conditions are set at […] b = B”",
        f"M_A = 1, M_B = 5: left over at b = B, relative to the traction: {defect[MASS[0]]:.3g} with Δs₁M₁, {defect[MASS[1]]:.0e} "
        "with ℓ_B M_B",
        EXACT,
        defect[MASS[0]],
        defect[MASS[1]],
        "misprint: the mass beside an end is ℓ_A M_A there and ℓ_B M_B here; Δs₁ and M₁ are defined nowhere",
    )


def jump_4_7() -> Found:
    """(4.7) at a = A with an impulse of 0.03, of a leg αΔt and a leg (1 − α)Δt that make the action stationary."""
    L_d, push = _bar(MASS[0], MODULUS[0]), 0.03
    h0, h1 = SHARE * STEP, (1 - SHARE) * STEP
    x1 = START + h0 * SPEED
    x2 = _next(L_d, START, x1, h0, h1, np.array([0, 0, 0, 0, -push]))
    jump = float((x1[-1] - START[-1]) / h0 - (x2[-1] - x1[-1]) / h1)  # −ṽ_A + v_A
    pull = MODULUS[0] * float((x1[-1] - x1[-2]) / CELL - 1)
    left = lambda time: (0.5 * CELL * MASS[0] * jump - time * pull - push) / abs(STEP * pull)  # noqa: E731  # λ = −push
    return _found(
        "(4.7)",
        "(4.7): (ℓ_A/2) M_A (−ṽ_A + v_A) − Δt E_A S (e_A − 1) = −λ_{A,0}, the jump at a = A",
        f"contact at α = {SHARE}, e_A read as e_{{A−1}}: left over, relative to Δt E S (e − 1): {left(STEP):.3g} with Δt, "
        f"{left(h1):.3g} with t^i − t̃ (a tilde may be lost in the text), {left(0.5 * STEP):.0e} with Δt/2",
        EXACT,
        left(STEP),
        left(0.5 * STEP),
        "misprint: half of both legs, Δt/2, pulls at the end; and there is no element e_A, A − 1 is the last",
    )


def _tips() -> dict[str, float]:
    """Stiffnesses and lengths about the contact of (4.12)."""
    k = {"A": MODULUS[0] / CELL, "B": MODULUS[1] / CELL}
    parts = {"A1": MODULUS[0] / (1 - TIP), "A2": MODULUS[0] / TIP, "B1": MODULUS[1] / TIP, "B2": MODULUS[1] / (1 - TIP)}
    k |= {name: value / CELL for name, value in parts.items()}
    return k | {"AB": 1 / (1 / k["A2"] + 1 / k["B1"])}


def force_4_14() -> Found:
    """The force through a contact that is squeezed by δ: from (4.14) at the massless ends, and from the spring k_AB."""
    k, squeeze = _tips(), 0.01
    force = {name: squeeze / (1 / k[a] + 1 / k[b]) for name, a, b in (("printed", "A", "B"), ("meant", "A2", "B1"))}
    spring = k["AB"] * squeeze
    printed, meant = (force[name] / spring - 1 for name in ("printed", "meant"))
    return _found(
        "(4.14)",
        "(4.14): ½ k_A (…)(φ_A − φ_A− − ℓ_A2) = ½ k_B (…)(φ_0+ − φ_0 − ℓ_B1), while the reaction is “the compression of the spring "
        "between A− and 0+”",
        f"E_A = 1, E_B = 2, tips of ℓ/4: the force is {1 + printed:.3g} of k_AB δ with k_A, k_B, {1 + meant:.3g} with k_A2, k_B1",
        EXACT,
        printed,
        meant,
        "misprint: the springs beside the contact are k_A2 and k_B1",
    )


def _contact_cell(x: Any, y: Any, h: Any) -> Any:
    """(4.12) for the two elements beside a closed contact, with k_AB in the place of k_A2 and k_B1: nodes A−1, A−, 0+, 1."""
    k, v = _tips(), (y - x) / h
    masses = 0.5 * CELL * jnp.array([MASS[0], MASS[0], MASS[1], MASS[1]])
    return h * (0.5 * jnp.sum(masses * v**2) - 0.5 * (_squeezed(x, k) + _squeezed(y, k)))


REST = np.array([(1 - TIP) * CELL, 2 * TIP * CELL, (1 - TIP) * CELL])  # ℓ_A1, ℓ_AB, ℓ_B2
NODES = np.array([0.0, 0.152, 0.249, 0.397])


def _squeezed(x: Any, k: dict[str, float]) -> Any:
    return 0.5 * jnp.sum(jnp.array([k["A1"], k["AB"], k["B2"]]) * (jnp.diff(x) - REST) ** 2)


def _printed_energy(x: Any, y: Any, h: float, odd: float) -> float:
    """The last lines of (4.15) and (4.17): kinetic energies, one of them over another time, and ¼ of three springs at both times.
    The contact stands where (4.14), as meant, has it."""
    k = _tips()
    kinetic = 0.25 * CELL * np.array([MASS[0], MASS[0], MASS[1], MASS[1]]) * (y - x) ** 2 / np.array([h, odd, h, h]) ** 2
    total = float(np.sum(kinetic))
    for z in (x, y):
        squeeze = z[2] - z[1] - REST[1]
        contact = z[2] - TIP * CELL - squeeze * k["AB"] / k["B1"]  # φ_0
        springs = k["A1"] * (z[1] - z[0] - REST[0]) ** 2 + k["B1"] * (z[2] - contact - TIP * CELL) ** 2 + k["AB"] * squeeze**2
        total += 0.25 * float(springs)
    return total


def energy_4_15(number: str) -> Found:
    """The energy −D_t L of the two elements beside the contact against the expression for it in (4.15) or (4.17)."""
    first = number == "(4.15)"
    h = (1 - SHARE if first else SHARE) * STEP
    x, y = NODES, NODES + h * np.array([0.1, 0.06, -0.03, -0.08])
    energy = -float(jax.grad(_contact_cell, 2)(jnp.asarray(x), jnp.asarray(y), h))
    k, v = _tips(), (y - x) / h
    meant = 0.25 * CELL * float(np.sum(np.array([*MASS]).repeat(2) * v**2)) + 0.5 * float(_squeezed(x, k) + _squeezed(y, k))
    printed = _printed_energy(x, y, h, h if first else STEP)
    over = "" if first else "; one of its kinetic terms is printed over Δt^{j−1}, a whole step"
    return _found(
        number,
        f"{number}: energy conservation at the “{'beginning' if first else 'end'} of the prolonged contact”, with k_B1 (φ_0+ − φ_0 "
        "− ℓ_B1)² beside k_AB (φ_0+ − φ_A− − ℓ_AB)²",
        f"−D_t L of (4.12) is {energy:.4g}; the printed sum is {printed:.4g}, with k_B2 (φ_1 − φ_0+ − ℓ_B2)² it is {meant:.4g}",
        EXACT,
        printed / energy - 1,
        meant / energy - 1,
        f"misprint: the spring k_B1 is counted twice, in k_AB too, and k_B2 is left out{over}",
    )


def step_4_16() -> Found:
    """(4.16) of a step that makes the action of (4.12) with k_AB stationary, at A−."""
    h, k = STEP, _tips()
    x1 = NODES + h * np.array([0.1, 0.06, -0.03, -0.08])
    x2 = _next(_contact_cell, NODES, x1, h, h)
    jump = float((x2[1] - 2 * x1[1] + NODES[1]) / h)
    pull = 2 * h * float(k["AB"] * (x1[2] - x1[1] - REST[1]) - k["A1"] * (x1[1] - x1[0] - REST[0]))  # S E (e − 1) = k (… − ℓ)
    printed, meant = ((factor * CELL * MASS[0] * jump - pull) / abs(pull) for factor in (2, 1))
    return _found(
        "(4.16)",
        "(4.16): 2 ℓ_A M_A (v_A− − v_A−) − (Δt + Δt) S [E_AB (e_A− − 1) − E_A1 (e_{A−1} − 1)] = 0, with the masses of (4.12)",
        f"left over, relative to the tractions: {printed:.3g} with 2 ℓ_A M_A, {meant:.0e} with ℓ_A M_A as in (4.13)",
        EXACT,
        printed,
        meant,
        "misprint: node A− has the mass ℓ_A M_A/2 of one element in (4.12), in contact as before it",
    )


def too_many_equations() -> Found:
    """λ = 0 of (4.14) and the balance (4.15) together, on the contact of two bars."""
    model, sizes, left = bars(elements=(5, 5), integrator=2), {}, {}
    for crossing in ("free", "balance"):
        run = model.solve(VariationalCollision(Trapezoidal(), crossing=crossing), dt=0.0213, num_steps=60)
        gradient = action_gradient(run)
        at = gradient.impact == 0
        left[crossing], sizes[crossing] = float(gradient.time[at][0] / gradient.energy), float(run.impacts.impulses[0, 0])
    return _found(
        "(4.14), (4.15)",
        "(4.14), (4.15): at the beginning of the prolonged contact λ = 0, and the energy is balanced",
        f"two bars of five elements at Δt = 0.0213: with λ = 0 the discrete energy jumps, by {left['free']:.1e} of it; it is "
        f"balanced, to {left['balance']:.0e}, with ±λ = {sizes['balance']:.1e}",
        EXACT,
        left["free"],
        left["balance"],
        'one equation more than unknowns: either holds alone; the figures here have λ = 0, crossing="balance" the other',
    )


def weight_5_9() -> Found:
    """The fall of a beam that stays straight and level by the cells of (5.9): its acceleration."""
    spacing, gravity, line = 0.05, 10.0, 1e3 * 0.05**2  # M = ρa²

    def fall(share: float, q: float) -> float:
        def L_d(z: Any, w: Any) -> Any:
            v = (w - z) / STEP
            weight = share * q * (z[:-1] + w[:-1] + z[1:] + w[1:])
            return 0.5 * spacing * STEP * jnp.sum(0.5 * line * (v[:-1] ** 2 + v[1:] ** 2) - weight)

        z = jnp.ones(4)
        after = _next(lambda a, b, h: L_d(a, b), z, z, STEP, STEP)
        return float(after[0] - 1) / STEP**2

    density = gravity * line
    found = {name: -fall(*given) / gravity for name, given in
             {"printed": (0.25, spacing * density), "half": (0.25, density), "meant": (0.5, density)}.items()}  # fmt: skip
    return _found(
        "(5.9)",
        "(5.9): Π_d = ¼ Σ ⟨q, g⟩ over four corners and q = Δs gρa²E₃ is “the gravitational potential energy density”",
        f"a level beam with Δs = 0.05 falls with {found['printed']:.3g} g as printed, {found['half']:.3g} g with q = gρa²E₃, and "
        f"{found['meant']:.6g} g with ½ Σ as well",
        EXACT,
        found["printed"] - 1,
        found["meant"] - 1,
        "misprint: a density has no Δs (the text reads ∆gρa²), and the factor ½ before the brace leaves ½ for the corners",
    )


def coadjoint_5_11() -> Found:
    """⟨Ad*(μ, ν), (ω, γ)⟩ = ⟨(μ, ν), Ad(ω, γ)⟩ with Ad of the same line."""
    turn = np.array([[0.36, 0.48, -0.8], [-0.8, 0.6, 0.0], [0.48, 0.64, 0.6]])
    r, mu, nu, omega, gamma = np.array([[0.3, -0.2, 0.5], [1, 2, -1], [0.4, -0.6, 1.1], [0.2, 0.7, -0.3], [-0.5, 0.1, 0.8]])
    right = mu @ (turn @ omega) + nu @ (turn @ gamma + np.cross(r, turn @ omega))
    first = turn.T @ (mu + np.cross(nu, r)) @ omega
    printed, meant = (float((first + turn.T @ last @ gamma) / right - 1) for last in (gamma, nu))
    return _found(
        "(5.11)",
        "(5.11): Ad*(μ, ν) = (Λᵀ(μ + ν × r), Λᵀγ) is dual to Ad(ω, γ) = (Λω, Λγ + r × Λω)",
        f"⟨Ad*(μ, ν), (ω, γ)⟩/⟨(μ, ν), Ad(ω, γ)⟩ − 1 on five vectors: {printed:.3g} with Λᵀγ, {meant:.0e} with Λᵀν",
        EXACT,
        printed,
        meant,
        "misprint: γ is no argument of Ad*; the last entry is Λᵀν",
    )


def extremity_5_2() -> Found:
    """The reaction at an end node by (ii)(c) of §5.2 and at an inner node by (ii)(b): momentum that the beam gains per λ."""
    spacing, line = 0.05, 2.5

    def L_d(z: Any, w: Any) -> Any:
        v = (w - z) / STEP
        return 0.5 * spacing * STEP * 0.5 * line * jnp.sum(v[:-1] ** 2 + v[1:] ** 2)

    mass = -np.diag(np.asarray(jax.jacfwd(jax.grad(L_d, 0), 1)(jnp.ones(3), jnp.ones(3)))) * STEP  # of the nodes
    gains = mass / (spacing * line)  # Δs M Δv = λ at the ends, 2Δs M Δv = 2λ inside
    printed, meant = gains[0] / gains[1] - 1, 2 * gains[0] / gains[1] - 1
    return _found(
        "§5.2 (c)",
        "§5.2 (ii): the contact force is f_cont = λ_a Dψ, with 2λ_a at inner nodes (b) and λ_0, λ_A at the extremities (c)",
        f"momentum per λ at an end over that at an inner node: {1 + printed:.3g} as printed, {1 + meant:.3g} with 2λ_0",
        EXACT,
        float(printed),
        float(meant),
        "misprint: the equations of the extremities are printed twice as large as they follow from (A.2), but for λ",
    )


def _formulas(full: bool, draw: Path | None) -> list[Row]:
    found = [multiplier_2_12(), end_4_6(), jump_4_7(), force_4_14(), too_many_equations(), energy_4_15("(4.15)"), step_4_16(),
             energy_4_15("(4.17)"), weight_5_9(), coadjoint_5_11(), extremity_5_2()]  # fmt: skip
    if draw:
        figure, ((ax,),) = axes(1, 1, size=(8.0, 4.4))
        rows, floor = np.arange(len(found)), 1e-17
        for shift, name, which in ((-0.2, "as printed", 2), (0.2, "as meant", 3)):
            ax.barh(rows + shift, [max(one[which], floor) for one in found], 0.38, label=name, left=floor)
        ax.set(xscale="log", xlim=(floor, 10), xlabel="defect, relative to the terms of the formula", yticks=rows)
        ax.set_yticklabels([one.name for one in found])
        ax.invert_yaxis()
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=8, frameon=False)
        figure.savefig(draw, dpi=110)
    return [one.row for one in found]


EXHIBITS = (Exhibit("demoures2017", "formulas", "printed formulas, put to work", _formulas),)
