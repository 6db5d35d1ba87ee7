"""What a run that ended well still has to say: contacts passed through, energy from nowhere, indices that left their arrays."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from carom.errors import InputError
from carom.results.along import gap_details_along, gaps_along, masses_along
from carom.results.rises import growth_in_flight, near_breakdown
from carom.results.strayed import strayed

GROWTH = 0.05  # of the energy: more than any method makes of a resolved motion within its stability limits
DEPTH = 1e-6  # of the largest gap seen: penetration that is no rounding
BETWEEN = 33  # points of a step at which its gaps are looked at
MOST_STEPS = 64  # those with the smallest gaps at their ends
MOST_STATES = 16  # at which gaps that are negative are looked at in detail
MOST_MASSES = 64  # points of the grid at which the mass is looked at


def caveats(solution: Any) -> tuple[str, ...]:
    """Sentences about a run; none for most, and none where a run was loaded without its functions."""
    try:
        gaps = _passed_through(solution) or _passed_between(solution)
        return (*gaps, *_grown(solution), *_weightless(solution), *strayed(solution))
    except InputError:
        return ()


def _passed_through(solution: Any) -> list[str]:
    """Contacts with a negative gap at a point of the grid, although nothing pushed for as long as it was negative, neither there
    nor at a contact that moves the same coordinates (a corner that is in the floor for a step, while the box turns on another
    one); or, where the method keeps gaps from becoming negative, with a negative gap at all."""
    system, hits = solution.system, solution.impacts
    if not system.contacts or "interfaces" in system.needs or len(solution.t) != solution.num_steps + 1:
        return []
    gaps = solution.gaps
    deep = gaps < -DEPTH * np.max(np.abs(gaps), initial=1e-300) - _rounding(solution)
    if not deep.any():
        return []
    deepest = np.unique(np.argmin(gaps[:, deep.any(axis=0)], axis=0))
    rows = np.resize(deepest[np.argsort(gaps[deepest].min(axis=1))][:MOST_STATES], MOST_STATES)  # one number: one compilation
    states = (x[rows] for x in (solution.t, solution.q, solution.v))
    rounding, moves = (np.asarray(x) for x in gap_details_along(solution._physics(), solution.params, *states))
    deep &= gaps < -10 * solution.num_steps * rounding.max(axis=0)  # contacts that are closed all the time have no gap but rounding
    if "non-penetration" not in solution.preserved:
        pushed = _pushed(solution, gaps.shape)
        pushed[1:] |= pushed[:-1].copy()  # the step that ends at a point, and the one that begins there
        together = moves.any(axis=0) @ moves.any(axis=0).T
        deep &= ~_meanwhile(pushed @ together, gaps < 0)
    sentences = []
    for contact in np.flatnonzero(deep.any(axis=0)):
        row = int(np.argmin(np.where(deep[:, contact], gaps[:, contact], np.inf)))
        sentences.append(
            f"contact {hits.names[contact]!r} was passed through: its gap is {gaps[row, contact]:.3g} at t = {solution.t[row]:.6g} "
            "and nothing pushed. Take a smaller dt, or a method that locates impacts"
        )
    return sentences


def _rounding(solution: Any) -> float:
    """What the coordinates of a run are good to: a gap of 1e-58 beneath a block that slides from the origin is none."""
    return 10 * solution.num_steps * np.finfo(float).eps * float(np.max(np.abs(solution.q), initial=0.0))


def _meanwhile(happened: np.ndarray, lasting: np.ndarray) -> np.ndarray:
    """Where something lasts, in each column: did the other happen at any time between its beginning and its end?"""
    found = np.zeros_like(happened)
    for column in np.flatnonzero(lasting.any(axis=0)):
        edges = np.diff(np.concatenate([[False], lasting[:, column], [False]]).astype(int))
        for begin, end in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True):
            found[begin:end, column] = happened[begin:end, column].any()
    return found


def _passed_between(solution: Any) -> list[str]:
    """Contacts that were passed within one step: a gap that is smallest between two points of the grid, where nothing pushed, is
    looked at along the way from one to the other. For timestepping, which looks at the ends of its steps only."""
    system, q, v = solution.system, solution.q, solution.v
    if solution.record is None or not system.contacts or len(solution.t) != solution.num_steps + 1 or q.shape != v.shape:
        return []
    gaps = solution.gaps
    scale, pushed = np.max(np.abs(gaps), initial=1e-300), _pushed(solution, gaps.shape)
    pushed[1:-1] = pushed[1:-1] | pushed[:-2] | pushed[2:]  # the steps before and after it
    low = np.pad(gaps, ((1, 1), (0, 0)), constant_values=np.inf)
    least = (gaps <= low[:-2]) & (gaps <= low[2:])
    # To zero and back is as far as both gaps together: too far for most steps.
    length, both = np.linalg.norm(np.diff(q, axis=0), axis=1)[:, None], gaps[:-1] + gaps[1:]
    steepest = np.nanmax(np.abs(np.diff(gaps, axis=0)) / np.where(length > 0, length, np.inf), axis=0, initial=0.0)
    near = both <= 2 * steepest * length
    rounding = DEPTH * scale + _rounding(solution)
    apart = gaps >= -rounding  # at both ends; of deeper ones `_passed_through` tells
    steps, contacts = np.nonzero((least[:-1] | least[1:]) & ~pushed[:-1] & near & apart[:-1] & apart[1:])
    order = np.argsort(np.minimum(gaps[steps, contacts], gaps[steps + 1, contacts]))[:MOST_STEPS]
    steps, contacts = steps[order], contacts[order]
    if not len(steps):
        return []
    part = np.linspace(0.0, 1.0, BETWEEN)
    chosen = np.resize(steps, MOST_STEPS)  # one number of them, so that there is one compilation
    way = (q[chosen + 1] - q[chosen])[:, None]
    along = (q[chosen][:, None] + part[:, None] * way).reshape(-1, q.shape[1])
    times = (solution.t[chosen][:, None] + part * np.diff(solution.t)[chosen][:, None]).ravel()
    seen = np.asarray(gaps_along(solution._physics(), solution.params, times, along)).reshape(MOST_STEPS, BETWEEN, -1)
    seen = seen[np.arange(len(steps)), :, contacts]
    # The way is bent by up to h |Δv| / 8 from its chord, which changes a gap by its slope times as much.
    bend = np.diff(solution.t)[steps] * np.linalg.norm(v[steps + 1] - v[steps], axis=1) / 8
    deepest = seen.min(axis=1)
    through = deepest < -(rounding + steepest[contacts] * bend)
    sentences = []
    for contact in np.unique(contacts[through]):
        row = int(np.argmin(np.where(through & (contacts == contact), deepest, np.inf)))
        sentences.append(
            f"contact {solution.impacts.names[contact]!r} was passed through within a step: its gap is {deepest[row]:.3g} after "
            f"t = {solution.t[steps[row]]:.6g} and nothing pushed. Take a smaller dt, or a method that locates impacts"
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
    with np.errstate(over="ignore", invalid="ignore"):
        return _rises(solution) if _belts(solution) else _growth(solution)


def _belts(solution: Any) -> bool:
    """Friction against something that moves: a slip that is not zero where nothing moves, as v[0] - 0.5 on a belt, or one of time.
    It feeds energy, wherever the contact is closed."""
    rows = np.linspace(0, len(solution.t) - 1, 8).astype(int)
    for function in (f for contact in solution.system.contacts for f in (contact.slip, contact.roll) if f is not None):
        if function.asks_for("t"):
            return True
        for row in rows:
            at_rest = function(q=jnp.asarray(solution.q[row]), v=jnp.zeros(solution.v.shape[1]), params=solution.params)
            if np.any(np.asarray(at_rest) != 0):
                return True
    return False


def _growth(solution: Any) -> list[str]:
    lost = ~np.isfinite(solution.energy)
    if lost.any() and solution.status.ok:
        return [
            f"the energy is beyond all numbers from t = {solution.t[np.argmax(lost)]:.6g} on, with no force to feed it: the "
            "step is too long for the motion, or the method not made for it. Take a smaller dt"
        ]
    growth = np.nanmax(np.nan_to_num(solution.energy_error, nan=np.inf), initial=0.0)
    if not growth > GROWTH:
        return _rises(solution)
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


def _rises(solution: Any) -> list[str]:
    """Energy that is not beyond what it was at the start, because contacts took some, but that rose since."""
    if len(solution.t) != solution.num_steps + 1 or "interfaces" in solution.system.needs or not np.isfinite(solution.energy).all():
        return []
    pushed = _pushed(solution, (len(solution.t), len(solution.impacts.names)))[:-1].any(axis=1)
    return growth_in_flight(solution, pushed, GROWTH) or near_breakdown(solution, pushed)


def _weightless(solution: Any) -> list[str]:
    """Kinetic energy that is negative along some velocity, somewhere on the way: at the start that is refused."""
    system = solution.system
    if system.hamiltonian is not None or "nodes" in system.needs or "massless" in system.needs or "rotations" in system.needs:
        return []
    with np.errstate(over="ignore"):
        backwards = np.flatnonzero(np.sum(solution.p * solution.v, axis=1) < 0)  # magnetic forces do that too
    if not len(backwards):
        return []
    rows = np.resize(backwards[np.linspace(0, len(backwards) - 1, MOST_MASSES).astype(int)], MOST_MASSES)
    masses = np.asarray(masses_along(solution._physics(), solution.params, solution.t[rows], solution.q[rows], solution.v[rows]))
    if not np.all(np.isfinite(masses)):
        return []
    least = np.linalg.eigvalsh(0.5 * (masses + masses.transpose(0, 2, 1)))[:, 0]
    negative = least < -1e-12 * np.max(np.abs(masses), axis=(1, 2))  # rounding of the eigenvalues
    if not negative.any():
        return []
    t = float(np.min(solution.t[rows][negative]))
    return [
        f"the kinetic energy is negative along some velocity, at t = {t:.6g} for example: the mass became zero before that, where "
        "these coordinates, or this Lagrangian, end. Stop the run before (stop=), or choose other coordinates"
    ]


def _autonomous(solution: Any) -> bool:
    found: list[bool] = []
    jax.eval_shape(lambda params: found.append(solution.system.bind(params, solution.q.shape[1]).autonomous) or 0, solution.params)
    return found[0]
