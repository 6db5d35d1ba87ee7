"""Elastic bars on a line that collide end to end [demoures2017, §4].

Each bar is cut into elements with lumped masses. Two ways to let ends meet:

- integrator 1: the end nodes have mass and bounce, (4.3)–(4.8);
- integrator 2: the ends are massless. Each bar ends in a node at the distance ℓ₂ = `tip`·ℓ from its end, and the two short
  springs between such nodes act as one, k_AB = 1/(1/k_A2 + 1/k_B1), as long as they are compressed, (4.12)–(4.17). The contact
  lasts as long as waves make it, and ends when the force does: no rule of release.

The potential: springs within the bars, of stiffness 0 across a contact, and for integrator 2 springs that push and never pull,

    V = ½ Σ kₐ (qₐ₊₁ − qₐ − ℓₐ)² + ½ Σ k_AB min(0, q₀₊ − q_A₋ − ℓ_AB)² + Σ m g q                                     (1)
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from carom.calls import public
from carom.contact.contact import Contact
from carom.errors import InputError
from carom.methods.variational.collision import VariationalCollision
from carom.methods.variational.rules import Trapezoidal
from carom.models.bar_parts import Extras, check_bar_ends, crossing_time, external_of, one_bar, starts_of, supports_of
from carom.models.model import Model
from carom.results.solution import Solution
from carom.spaces.space import Euclidean
from carom.system.chain import Chain
from carom.system.lumped import LumpedSystem
from carom.wanted import (
    Count,
    Counts,
    Damping,
    Function,
    NotNegative,
    NotNegatives,
    Number,
    Numbers,
    OneOrMorePositive,
    Positive,
    Positives,
    PositivesOrFunctions,
)

# The six rows of Figs 4.2 and 4.3, Δt = 0.015, T = 40. Speeds have the signs that make the bars meet (printed the other way
# round); row 5 is printed with ℓ_B = 5 in Fig. 4.2 and 0.4 in Fig. 4.3, and both are here.
REMEMBERED = 4096  # nodes of bars, up to which their highest frequency is remembered
_EQUAL = {"lengths": (10.0, 10.0), "densities": (1.0, 1.0), "moduli": (1.0, 1.0), "elements": (50, 50), "speeds": (0.1, -0.1)}
BAR_ROWS: dict[Any, dict[str, Any]] = {
    1: _EQUAL,
    2: _EQUAL | {"densities": (1.0, 5.0)},
    3: _EQUAL | {"moduli": (1.0, 5.0)},
    4: _EQUAL | {"lengths": (10.0, 5.0), "elements": (50, 25)},
    5: _EQUAL | {"elements": (50, 25)},
    "5 (Fig. 4.2)": _EQUAL | {"elements": (50, 2)},
    6: _EQUAL | {"speeds": (1.0, 0.0)},
}


def _masses(params):
    return params["mass"]


def _friction(params):
    return params["friction"] * params["mass"]


def _weight(q, params):
    return params["gravity"] * jnp.sum(params["mass"] * q)


@functools.lru_cache
def _system(sizes: tuple[int, ...], wall: bool, massless: bool, extras: Extras = Extras()) -> LumpedSystem:  # noqa: B008
    """One System per layout, so that it is compiled once: `sizes` are the numbers of nodes of the bars."""
    firsts = np.cumsum(sizes)[:-1]  # the first node of each bar but the first

    def potential(q, params):  # (1)
        stretch = q[1:] - q[:-1] - params["rest"]
        energy = 0.5 * jnp.sum(params["stiffness"] * stretch**2) + _weight(q, params)
        if massless:
            squeeze = jnp.minimum(gaps(q, params), 0.0)
            energy = energy + 0.5 * jnp.sum(squeeze**2 / params["compliance"].sum(1))
        return energy

    def gaps(q, params):
        pairs = [q[i] - q[i - 1] - params["contact_rest"][j + wall] for j, i in enumerate(firsts)]
        return jnp.stack(([q[0] - params["contact_rest"][0]] if wall else []) + pairs)

    def gaps_in_time(q, t, params):
        assert extras.wall is not None
        first = jnp.zeros(len(firsts) + 1).at[0].set(jnp.asarray(extras.wall(t), float))
        return gaps(q, params) - first

    def element(left, right, index, params):  # (1), spring by spring
        params = {name: jnp.asarray(value) for name, value in params.items()}
        stretch = right[0] - left[0] - params["rest"][index]
        energy = 0.5 * params["stiffness"][index] * stretch**2
        if massless and len(firsts):
            j = jnp.argmax(firsts - 1 == index)  # across a contact
            squeeze = jnp.minimum(right[0] - left[0] - params["contact_rest"][j + wall], 0.0)
            contact = 0.5 * squeeze**2 / params["compliance"].sum(1)[j + wall]
            energy = energy + jnp.where(jnp.any(firsts - 1 == index), contact, 0.0)
        return energy

    def load(q, index, params):
        energy = params["gravity"] * jnp.asarray(params["mass"])[index] * q[0]
        if massless and wall:
            squeeze = jnp.minimum(q[0] - params["contact_rest"][0], 0.0)
            energy = energy + jnp.where(index == 0, 0.5 * squeeze**2 / params["compliance"].sum(1)[0], 0.0)
        return energy

    n = sum(sizes)
    contacts = [Contact(gaps if extras.wall is None else gaps_in_time, name="contact")] if wall or len(firsts) else []
    return LumpedSystem(
        _masses,
        potential,
        Euclidean(n, tuple(f"x{i}" for i in range(n))),
        contacts,
        separate=True,
        transmits=massless,
        highest_frequency=highest_frequency,
        chain=Chain(Euclidean(1), n, element, load) if n > 1 else None,
        external=external_of(extras),
        supports=supports_of(extras.ends, n),
        dry_friction=_friction if extras.rubs else None,
    )


def highest_frequency(params: Any) -> float:
    """The largest frequency of the chain, all contacts closed: a tridiagonal eigenvalue, exact."""
    mass, spring = (np.asarray(params[name], float) for name in ("mass", "stiffness"))
    contact = 1.0 / np.asarray(params["compliance"], float).sum(1) if "compliance" in params else np.zeros(0)
    find = _highest if mass.size <= REMEMBERED else _highest.__wrapped__
    return find(mass.tobytes(), spring.tobytes(), contact.tobytes())


@functools.lru_cache(16)  # a run is often made again with the same bars
def _highest(*columns: bytes) -> float:
    from scipy.linalg import eigh_tridiagonal

    mass, spring, contact = (np.frombuffer(column) for column in columns)
    spring, wall = spring.copy(), 0.0
    if contact.size:
        joints = np.flatnonzero(spring == 0)
        wall = contact[0] if len(contact) > len(joints) else 0.0
        spring[joints] = contact[len(contact) - len(joints) :]
    diagonal = (np.append(spring, 0.0) + np.concatenate([[wall], spring])) / mass
    beside = -spring / np.sqrt(mass[:-1] * mass[1:])
    last = len(mass) - 1
    return float(np.sqrt(eigh_tridiagonal(diagonal, beside, eigvals_only=True, select="i", select_range=(last, last))[0]))


@public
def bars(
    lengths: Positives = (10.0, 10.0),
    densities: PositivesOrFunctions = (1.0, 1.0),
    moduli: PositivesOrFunctions = (1.0, 1.0),
    elements: Counts = (50, 50),
    speeds: Numbers = (0.1, -0.1),
    gaps: NotNegatives = (0.1,),
    section: OneOrMorePositive = 1.0,
    integrator: Count = 2,
    tip: Positive = 0.25,
    wall: Any = 0,
    gravity: Number = 0.0,
    *,
    ends: Sequence[Any] = ("free", "free"),
    force: Function | None = None,
    damping: Damping = (0.0, 0.0),
    friction: NotNegative = 0.0,
) -> Model:
    """Bars in a row, from left to right, that collide: one entry per bar of length, mass per length, Young's modulus, number of
    elements and initial speed, one gap between each and the next. With wall=1 a rigid wall stands left of the first bar, and the
    first gap is to it.

    `integrator` 1 lets end nodes bounce, 2 (default) has massless ends at the fraction `tip` of an element and prolonged contact.

    - `densities`, `moduli`: numbers, or functions of the place s along the bar, from 0 to its length; `section`: one of these for
      all bars, or a list with one for each.
    - `wall`: 1, or a function of t, the place of a wall that moves (integrator 1).
    - `ends`: of the first bar on the left and the last on the right: "free", "fixed", or a function of t, its displacement.
    - `force(q, v, t, params)`: a force on each node.
    - `damping`: α and β of Rayleigh's damping −α m v − β K v. `friction`: μg, the deceleration of a bar that slides on a table.
    """
    count = len(lengths)
    moving: Any = wall if callable(wall) else None
    check_counts("bars", count, {"densities": densities, "moduli": moduli, "elements": elements, "speeds": speeds}, gaps, wall)
    _check_ends(wall, integrator, tip)
    walls, ends = bool(wall), check_bar_ends(ends, wall)
    parts = [section] * count if callable(section) or np.ndim(section) == 0 else list(section)
    if len(parts) != count:
        raise InputError(f"bars: {count} bars but {len(parts)} sections; give one for all or one for each")
    massless = integrator == 2
    columns, edge = [], 0.0 if moving is None else float(moving(0.0))
    for i in range(count):
        left = tip if massless and (i > 0 or walls) else 0.0
        right = tip if massless and i < count - 1 else 0.0
        edge += gaps[i - 1 + walls] if i > 0 or walls else 0.0
        columns.append(one_bar(edge, lengths[i], densities[i], moduli[i], parts[i], elements[i], left, right))
        edge += lengths[i]
    q0, params = _assembled(columns, walls, massless)
    sizes = tuple(e + 1 for e in elements)
    v0 = np.repeat(np.asarray(speeds, float), sizes)
    held_at = starts_of(ends, q0, v0)
    params["gravity"] = gravity
    extras = Extras(ends, force, any(x > 0 for x in damping), friction > 0, moving)
    used = {"held_at": len(held_at) > 0, "damping": extras.damped, "friction": extras.rubs}
    more = {"held_at": held_at, "damping": np.asarray(damping, float), "friction": friction}
    params |= {name: more[name] for name, wanted in used.items() if wanted}
    crossing = [crossing_time(*bar) for bar in zip(lengths, elements, densities, moduli, parts, strict=True)]
    return Model(
        name="bars",
        about="elastic bars that collide end to end",
        system=_system(sizes, walls, massless and "contact_rest" in params, extras),
        q0=q0.tolist(),
        v0=v0.tolist(),
        params=params,
        dt=0.075 * min(crossing),
        num_steps=2_700,
        source="demoures2017, §4",
        shape=_outline,
        method=VariationalCollision(Trapezoidal()) if extras.rubs else None,  # pyright: ignore[reportCallIssue]
    )


def _assembled(columns: list[dict[str, Any]], walls: bool, massless: bool) -> tuple[np.ndarray, dict[str, Any]]:
    """The bars one after another: places, and parameters with a spring of stiffness 0 across each contact."""
    stiffness, rest = [], []
    for i, bar in enumerate(columns):
        between = [0.0] * (i < len(columns) - 1)
        stiffness, rest = [*stiffness, *bar["stiffness"], *between], [*rest, *bar["rest"], *between]
    ends = [(0.0, 0.0)] * walls + [(b["right"], b["tips"][1]) for b in columns][:-1]
    starts = [(b["left"], b["tips"][0]) for b in columns][(0 if walls else 1) :]
    q0, mass = (np.concatenate([bar[name] for bar in columns]) for name in ("q", "mass"))
    params = {"mass": mass, "stiffness": np.array(stiffness), "rest": np.array(rest), "gravity": 0.0}
    if ends:
        params["contact_rest"] = np.array([a[0] + b[0] for a, b in zip(ends, starts, strict=True)])
    if massless and ends:
        params["compliance"] = np.array([[a[1], b[1]] for a, b in zip(ends, starts, strict=True)])
    return q0, params


def check_counts(model: str, count: int, columns: dict[str, Any], gaps: Any, wall: Any) -> None:
    """One entry for each bar, and one gap between each and the next."""
    if not count:
        raise InputError(f"{model}: there must be at least one; got no lengths")
    for name, values in columns.items():
        if len(values) != count:
            raise InputError(f"{model}: {count} lengths but {len(values)} {name}; give one per bar")
    expected = count - 1 + bool(wall)
    if len(gaps) != expected:
        raise InputError(f"{model}: {count} bars{' and a wall' if wall else ''} have {expected} gaps; got {len(gaps)}")


def _check_ends(wall: Any, integrator: int, tip: float) -> None:
    if not callable(wall) and wall not in (0, 1):
        raise InputError(f"bars: wall must be 0, 1 or a function of t, the place of a wall that moves; got {wall!r}")
    if integrator not in (1, 2):
        raise InputError(f"bars: integrator must be 1 (ends with mass) or 2 (massless ends); got {integrator}")
    if callable(wall) and integrator == 2:
        raise InputError(
            "bars: a wall that moves is for integrator=1: the springs of massless ends are part of a potential, which knows no "
            "time. A short stiff first bar with ends=(function of t, 'free') comes near to one"
        )
    if not 0 < tip < 0.5:
        raise InputError(f"bars: tip must lie between 0 and 0.5 of an element; got {tip}")


def contact_force(solution: Solution) -> np.ndarray:
    """The pressure in each contact on the grid, one column per contact (integrator 2; bars with massive ends push by impulses
    only)."""
    if "compliance" not in solution.params:
        raise InputError("contact_force is for integrator 2; with integrator 1 look at solution.impacts.impulses")
    return np.maximum(-_gaps(solution), 0.0) / np.asarray(solution.params["compliance"]).sum(1)


def _joints(params: Any) -> np.ndarray:
    """The first node of each bar but the first."""
    return np.flatnonzero(np.asarray(params["stiffness"]) == 0) + 1


def _gaps(solution: Solution) -> np.ndarray:
    q, rest, first = solution.q, np.asarray(solution.params["contact_rest"]), _joints(solution.params)
    pairs = q[:, first] - q[:, first - 1]
    return (np.concatenate([q[:, :1], pairs], axis=1) if len(rest) > len(first) else pairs) - rest


def end_velocities(solution: Solution) -> np.ndarray:
    """The velocities of the two ends that meet in each contact, on the grid: [num_steps + 1, contacts, 2]; a wall is the first of
    its two."""
    v, params = solution.v, solution.params
    first = _joints(params)
    pairs = np.stack([v[:, first - 1], v[:, first]], axis=2)
    if len(np.asarray(params["contact_rest"])) > len(first):
        pairs = np.concatenate([np.stack([np.zeros_like(v[:, 0]), v[:, 0]], axis=1)[:, None], pairs], axis=1)
    if "compliance" in params:  # massless ends: each moves with its node, and in contact they share the squeeze
        shares = np.asarray(params["compliance"]) / np.asarray(params["compliance"]).sum(1, keepdims=True)
        touching = (_gaps(solution) < 0)[..., None]
        across = (pairs[..., 1:] - pairs[..., :1]) * shares * np.array([1.0, -1.0])
        pairs = pairs + np.where(touching, across, 0.0)
    return pairs


def _outline(q, params):
    """The bars seen from the side, with a height that can be seen."""
    q = np.asarray(q)
    half = 0.02 * float(np.sum(params["rest"]))
    sides = ((part, np.full_like(part, half)) for part in np.split(q, _joints(params)))
    return [np.concatenate([np.stack([x, h], 1), np.stack([x, -h], 1)[::-1], [[x[0], half]]]) for x, h in sides]
