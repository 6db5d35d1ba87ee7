"""What a run that ended well still has to say: contacts that were passed through, energy from nowhere."""

from typing import Any

import jax
import numpy as np

from carom.errors import InputError

GROWTH = 0.05  # of the energy: more than any method makes of a resolved motion within its stability limits
DEPTH = 1e-6  # of the largest gap seen: penetration that is no rounding


def caveats(solution: Any) -> tuple[str, ...]:
    """Sentences about a run; none for most, and none where a run was loaded without its functions."""
    try:
        return (*_passed_through(solution), *_grown(solution))
    except InputError:
        return ()


def _passed_through(solution: Any) -> list[str]:
    """Contacts with a negative gap at a point of the grid, although nothing pushed in the steps before and after it; or, where the
    method keeps gaps from becoming negative, with a negative gap at all."""
    system, hits = solution.system, solution.impacts
    if not system.contacts or "interfaces" in system.needs or len(solution.t) != solution.num_steps + 1:
        return []
    gaps = solution.gaps
    deep = gaps < -DEPTH * np.max(np.abs(gaps), initial=1e-300)
    if "non-penetration" not in solution.preserved:
        pushed = _pushed(solution, gaps.shape)
        pushed[1:] |= pushed[:-1].copy()  # the step that ends at a point, and the one that begins there
        deep &= ~pushed
    sentences = []
    for contact in np.flatnonzero(deep.any(axis=0)):
        row = int(np.argmin(np.where(deep[:, contact], gaps[:, contact], np.inf)))
        sentences.append(
            f"contact {hits.names[contact]!r} was passed through: its gap is {gaps[row, contact]:.3g} at t = {solution.t[row]:.6g} "
            "and nothing pushed. Take a smaller dt, or a method that locates impacts"
        )
    return sentences


def _pushed(solution: Any, shape: tuple[int, ...]) -> np.ndarray:
    """In which steps a contact carried a force or an impulse; row i is the step that begins at point i."""
    pushed = np.zeros(shape, bool)
    hits, record = solution.impacts, solution.record
    pushed[np.minimum(hits.step, len(pushed) - 1)] |= hits.impulses > 0
    if record is not None:
        owner = np.asarray(solution.system.bind(solution.params, solution.q.shape[1]).contacts.owner)
        k = len(owner)
        acting = (np.asarray(record.impulses)[:, :k] > 0) | (np.asarray(record.forces)[:, :, :k] > 0).any(axis=1)
        for face, contact in enumerate(owner):
            pushed[: len(acting), contact] |= acting[:, face]
    return pushed


def _grown(solution: Any) -> list[str]:
    """Energy that came from nowhere: no force, no wall and no joint that moves, no explicit time."""
    system = solution.system
    moving = "moving walls" in system.needs or any(joint.g.asks_for("t") for joint in system.joints)
    if "forces" in system.needs or moving or not _autonomous(solution):
        return []
    growth = np.nanmax(solution.energy_error, initial=0.0)
    if not growth > GROWTH:
        return []
    # A motion that grows without bound is measured by what it was, and not by what it has become.
    kinetic = np.abs(np.sum(solution.p * solution.v, axis=1))
    gained, so_far = solution.energy - solution.energy[0], np.maximum(np.maximum.accumulate(kinetic), abs(solution.energy[0]))
    grown = gained > GROWTH * so_far
    step = int(np.argmax(grown if grown.any() else solution.energy_error > GROWTH))
    at_first = max(abs(float(solution.energy[0])), float(kinetic[0]))
    growth = max(growth, float(np.nanmax(gained)) / at_first) if at_first > 0 else growth
    return [
        f"the energy grew by {growth:.2g} of itself with no force to feed it, first at t = {solution.t[step]:.6g}: the step is too "
        "long for the motion, or the method not made for it. Take a smaller dt"
    ]


def _autonomous(solution: Any) -> bool:
    found: list[bool] = []
    jax.eval_shape(lambda params: found.append(solution.system.bind(params, solution.q.shape[1]).autonomous) or 0, solution.params)
    return found[0]
