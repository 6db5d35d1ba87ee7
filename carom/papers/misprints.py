"""Formulas that cannot be meant as they are printed: each row computes what the printed one implies, beside the one that is meant.

A row of this kind holds when the printed formula does what its paper says of it. Where the readable text of a paper may have lost
a mark, such as a dot, the row says so: the misprint is then the text's, and the consequence the same.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from carom.models.nonholonomic import rolling_disk
from carom.papers.exhibit import Band, Row, judge
from carom.system.impact_map import impact_map

EXACT = Band(-1e-10, 1e-10, "an identity holds up to rounding, from either side")
MASS, GRAVITY, STEP = 2.0, 9.81, 0.1


def _fall(q: Any, v: Any) -> Any:
    return 0.5 * MASS * jnp.sum(v**2) - MASS * GRAVITY * q[0]


def discrete_energy_57() -> Row:
    """E_d = −D₃L_d against kinetic plus potential energy, which the paper says (57) gives."""
    q0, q1, gamma = jnp.array([1.0]), jnp.array([1.3]), 0.5
    middle, v = gamma * q0 + (1 - gamma) * q1, (q1 - q0) / STEP
    usual = float(v @ v * MASS / 2 + MASS * GRAVITY * middle[0])
    lagrangians: dict[str, Callable[[Any], Any]] = {
        "printed": lambda h: _fall(middle, (q1 - q0) / h),
        "times h": lambda h: h * _fall(middle, (q1 - q0) / h),
    }
    energy = {name: -float(jax.grad(f)(STEP)) for name, f in lagrangians.items()}
    return judge(
        "(57), printed without a factor h: “the discrete energy gets the usual expression”",
        f"E_d − (T + V) = {energy['printed'] - usual:.3g} as printed, {energy['times h'] - usual:.1g} with the factor h; "
        f"T + V = {usual:.3g}",
        EXACT,
        (energy["printed"] - usual) / usual,
        why="misprint: E_d = −D₃L_d is an energy only with the factor",
    )


def _two_steps(kinetic: float) -> float:
    """The acceleration (q₂ − 2q₁ + q₀)/h² of the rectangle rule h[kinetic·vᵀMv − V(q₀)] for a falling mass."""

    def L_d(a: Any, b: Any) -> Any:
        return STEP * (kinetic * MASS * ((b - a) / STEP) ** 2 - MASS * GRAVITY * a)

    q0, q1 = 1.0, 1.0

    def residual(q2: Any) -> Any:
        return jax.grad(L_d, 1)(q0, q1) + jax.grad(L_d, 0)(q1, q2)

    q2 = -residual(0.0) / jax.grad(residual)(0.0)  # the residual is linear in q₂
    return float((q2 - 2 * q1 + q0) / STEP**2)


def rectangle_rule() -> Row:
    """L_d of §1.2 in its own discrete Euler–Lagrange equations."""
    printed, meant = _two_steps(1.0), _two_steps(0.5)
    return judge(
        "§1.2: h[vᵀMv − V(q₀)], printed without ½, “is simply the rectangle rule applied to approximate the action integral”",
        f"a mass falls with {-printed:.4g} as printed, {-meant:.4g} with ½; g = {GRAVITY}",
        EXACT,
        printed / -GRAVITY - 1,
        why="misprint: as printed every mass counts twice",
    )


def step_after_impact() -> Row:
    """The last equation of §1.2, which the paper derives from D₂L_d + D₁L_d = 0 one line above it."""
    h, rest = STEP, 0.4 * STEP  # (1 − α)h
    q_hit, q_i = 0.0, 0.2
    arrival = (q_i - q_hit) / rest
    printed = q_i + h * (arrival - GRAVITY)  #     −∇V(q_i) as printed
    meant = q_i + h * (arrival - h * GRAVITY)  #   −h∇V(q_i)

    def L_d(a: Any, b: Any, t: Any) -> Any:
        return t * (0.5 * MASS * ((b - a) / t) ** 2 - MASS * GRAVITY * a)

    left = [float(jax.grad(L_d, 1)(q_hit, q_i, rest) + jax.grad(L_d, 0)(q_i, q, h)) for q in (printed, meant)]
    return judge(
        "§1.2, the step after the impact, printed with −∇V(q_i): “which is” D₂L_d + D₁L_d = 0",
        f"D₂L_d + D₁L_d = {left[0]:.3g} as printed, {left[1]:.1g} with −h∇V(q_i)",
        EXACT,
        left[0],
        why="misprint: a factor h is missing on the right",
    )


def series_springs(modulus: float = 1.0, section: float = 1.0, length: float = 0.2, share: float = 0.25) -> Row:
    """(4.10) as the rule for the stiffnesses k_A1, k_A2 of two equal springs in the place of one: the energy of a stretch."""
    whole = modulus * section / length
    parts = np.array([1 - share, share]) * length

    def energy(stiffness: np.ndarray) -> float:
        """Of the stretch 1 of both together, at rest between them."""
        return float(0.5 / np.sum(1 / stiffness))

    printed = np.full(2, whole)  # ℓ/k = ℓ₁/k₁ + ℓ₂/k₂ with k₁ = k₂, since ℓ₁ + ℓ₂ = ℓ
    meant = modulus * section / parts  # 1/k = 1/k₁ + 1/k₂ with the modulus of the bar
    left = float(length / whole - np.sum(parts / meant))
    ratio = energy(printed) / (0.5 * whole)
    return judge(
        "(4.10): ℓ_A/k_A = ℓ_A1/k_A1 + ℓ_A2/k_A2 with k_A = E_A S/ℓ_A “in order to induce the same potential energy”",
        f"two equal springs that satisfy it have {ratio:.3g} of the energy; springs E_A S/ℓ_A1, E_A S/ℓ_A2 have "
        f"{energy(meant) / (0.5 * whole):.3g} and miss it by {left:.2g}",
        Band(1 - 1e-10, 1 + 1e-10, "the same energy, up to rounding"),
        ratio,
        why="it holds for moduli in the place of k; for stiffnesses 1/k_A = 1/k_A1 + 1/k_A2",
    )


def newton_law_20(v_before: float, v_after: float) -> Row:
    """The set NI of (20) at the first impact of Problem 4.4, where g = 0: which velocities after does it admit?"""
    restitution = 0.5
    pushing = v_after - v_before > 0
    with_rates = abs(v_after + restitution * v_before)  # ġ⁺ + εġ⁻ = 0 where Λ > 0
    return judge(
        "(20): 0 ≤ g⁺ + ε g⁻ ⊥ Λ ≥ 0, with ġ⁺ and ġ⁻ both ≥ 0",
        f"first impact of Problem 4.4: ġ⁻ = {v_before:.3g}, ġ⁺ = {v_after:.3g}, Λ > 0 is {pushing}; the smaller rate is "
        f"{min(v_before, v_after):.3g}, and |ġ⁺ + ε ġ⁻| = {with_rates:.1g}",
        Band(0.0, np.inf, "(20) as printed asks for no rate below zero; none is too large"),
        min(v_before, v_after),
        why="as printed no impact is admissible: ġ⁺ ≥ 0 alone can be meant. The first line needs rates; their dots may be "
        "lost in the text, since g = 0 on both sides would decide nothing",
    )


def tangent_e2(a: float = 1.0, b: float = 0.5, angle: float = 0.3) -> Row:
    """e₂ must keep y − φ(θ): its rate along e₂."""

    def phi(theta: Any) -> Any:
        return jnp.sqrt((a * jnp.sin(theta)) ** 2 + (b * jnp.cos(theta)) ** 2)

    def rate(up: float) -> float:
        """of y − φ(θ) along ∂θ + up ∂y."""
        return float(jax.jvp(lambda theta, y: y - phi(theta), (angle, 1.0), (1.0, up))[1])

    height = float(phi(angle))
    slope = float((a**2 - b**2) * np.sin(angle) * np.cos(angle) / height)
    return judge(
        "§4.2: e₂ = ∂θ + φ(θ) ∂y is tangent to ∂S = {y = φ(θ)}",
        f"d(y − φ)·e₂ at θ = {angle}: {rate(height):.3g} with φ, {rate(slope):.0g} with φ̇",
        EXACT,
        rate(height),
        why="not tangent. A dot may be lost in the text: Tι_S, two lines below, has φ̇",
    )


def jump_theorem_2() -> Row:
    """Theorem 2 prints πQ(τ̃⁺) − πQ(τ̃⁺): which momenta of the rolling disk with the right energy does it single out?"""
    model, phi = rolling_disk(rim="printed"), 0.7
    keys = ("mass", "mass", "inertia", "turning")
    weight = np.array([float(model.params[k]) for k in keys])
    q = np.array([0.0, 10.0 - np.sin(phi), 0.0, phi])
    rolling = np.array([[np.cos(phi), np.sin(phi), 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])  # a basis of Δ, radius 1
    normal = np.array([0.0, 1.0, 0.0, np.cos(phi)])
    before = weight * ([1.0, 0.5] @ rolling)
    law = np.asarray(impact_map(model.system, 0, q, before, params=model.params))
    along = rolling.T @ np.array([-(rolling[1] @ normal), rolling[0] @ normal])  # in T∂Q ∩ Δ
    # Another momentum with the same energy: the velocity along `along` reversed instead of the one across it.
    v = before / weight
    other = before - 2 * weight * along * (v @ (weight * along)) / (along @ (weight * along))
    energies = [float(p @ (p / weight)) / 2 for p in (before, law, other)]
    meant = [float(abs((p - before) @ along)) for p in (law, other)]
    same = max(abs(e - energies[0]) for e in energies)
    return judge(
        "Theorem 2: πQ(τ̃⁺) − πQ(τ̃⁺) ∈ (T∂Q)° + Δ° and equal H are “the conditions for the elastic impact”",
        f"two momenta of equal H (to {same:.0e}) satisfy it as printed, 0 ∈ (T∂Q)° + Δ°, and are {np.linalg.norm(law - other):.2g} "
        f"apart; with τ̃⁻ in the second place the residuals are {meant[0]:.0e} (the law) and {meant[1]:.2g} (the other)",
        Band(-1e-10, 1e-10, "conditions for an impact leave one momentum, up to rounding"),
        float(np.linalg.norm(law - other)),
        why="misprint: as printed the jump is zero whatever happens, and p⁺ is free up to its energy",
    )
