"""Energy that rises while nothing pushes: after losses, when it is no longer beyond what it was at the start, or where coordinates
nearly break down."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from carom.results.along import masses_along
from carom.xla.structure import depends_on

NEARLY = 1e-2  # of the mass at the start: less is nearly none. Euler angles come here six degrees from their singularity
RISE = 1e-5  # of the kinetic energy, in one step: methods of order 2 stay below it where they resolve a motion
FLIGHT = 20  # steps: in a shorter flight what a contact adds, h²|f|²/8m, is no small part of the kinetic energy
MOST_STATES = 64


def growth_in_flight(solution: Any, pushed: np.ndarray, growth: float) -> list[str]:
    """Flights, between one push and the next, in which the energy grows by more than a share `growth` of the kinetic energy.
    `pushed` says of each step whether a contact acted in it."""
    energy, kinetic = solution.energy, 0.5 * np.abs(np.sum(solution.p * solution.v, axis=1))
    steps = np.flatnonzero(pushed)
    for begin, end in zip(steps + 1, np.append(steps, len(energy) - 1)[1:], strict=True):
        if end - begin < FLIGHT:
            continue
        gained = energy[begin : end + 1] - energy[begin]
        grown = gained > growth * np.maximum.accumulate(kinetic[begin : end + 1])
        if grown.any():
            most = float(np.max(energy[begin : end + 1]))
            return [
                f"the energy grew from {energy[begin]:.3g} to {most:.3g} in free flight, after t = {solution.t[begin]:.6g}, with "
                "no force to feed it: the step is too long for the motion, or the method not made for it. Take a smaller dt"
            ]
    return []


def near_breakdown(solution: Any, pushed: np.ndarray) -> list[str]:
    """Steps in free flight in which the energy rises although nothing feeds it, where the mass matrix is nearly singular: a scheme
    of order k errs by (h/τ)^(k + 1) of the energy in a step, and the time τ in which coordinates turn goes to zero near there."""
    q, v = solution.q, solution.v
    if q.shape != v.shape or not _mass_changes(solution):
        return []
    kinetic = 0.5 * np.abs(np.sum(solution.p * v, axis=1))
    rise = np.where(pushed, 0.0, np.diff(solution.energy))
    if not np.max(rise, initial=0.0) > RISE * np.max(kinetic):
        return []
    rows = np.resize(np.argsort(-rise)[:MOST_STATES], MOST_STATES)  # the largest first; one number of them, so one compilation
    states = (np.concatenate([x[:1], x[rows]]) for x in (solution.t, q, v))
    masses = np.asarray(masses_along(solution._physics(), solution.params, *states))
    if not np.all(np.isfinite(masses)) or np.linalg.eigvalsh(masses[0])[0] <= 0:
        return []
    least = least_masses(masses[0], masses[1:])
    near = np.flatnonzero((least < NEARLY) & (rise[rows] > RISE * np.max(kinetic)))
    if not len(near):
        return []
    worst = near[0]
    return [
        f"the energy rose by {rise[rows[worst]]:.2g} in one step, at t = {solution.t[rows[worst]]:.6g}, where nothing pushed: the "
        f"mass matrix is nearly singular there, in one direction {max(least[worst], 0.0):.1g} of what it was at the start. "
        "Coordinates such as Euler angles have such places, bodies have none: describe one that turns on carom.SE3() or "
        "carom.SO3(), or take a smaller dt"
    ]


def least_masses(first: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """The smallest eigenvalue of M₀⁻¹M of each of many mass matrices, which does not depend on the units of the coordinates."""
    root = np.linalg.cholesky(first)
    return np.linalg.eigvalsh(np.linalg.solve(root, np.linalg.solve(root, seen).transpose(0, 2, 1)))[:, 0]


def _mass_changes(solution: Any) -> bool:
    """Whether ∂L/∂v depends on q."""
    system, n = solution.system, solution.q.shape[1]
    if system.hamiltonian is not None or {"nodes", "massless", "rotations"} & set(system.needs):
        return False
    found: list[bool] = []

    def look(params: Any) -> int:
        momentum = system.bind(params, n).momentum
        found.append(depends_on(momentum, jnp.zeros(n), jnp.zeros(n), jnp.zeros(()))[0])
        return 0

    jax.eval_shape(look, solution.params)
    return found[0]
