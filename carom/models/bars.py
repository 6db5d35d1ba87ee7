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

from carom.contact.contact import Contact
from carom.errors import InputError
from carom.models.model import Model
from carom.results.solution import Solution
from carom.spaces.space import Euclidean
from carom.system.chain import Chain
from carom.system.lumped import LumpedSystem

# The six rows of Figs 4.2 and 4.3, Δt = 0.015, T = 40. Speeds have the signs that make the bars meet (printed the other way
# round); row 5 is printed with ℓ_B = 5 in Fig. 4.2 and 0.4 in Fig. 4.3, and both are here.
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


def _weight(q, params):
    return params["gravity"] * jnp.sum(params["mass"] * q)


@functools.lru_cache
def _system(sizes: tuple[int, ...], wall: bool, massless: bool) -> LumpedSystem:
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
    contacts = [Contact(gaps, name="contact")] if wall or len(firsts) else []
    return LumpedSystem(
        _masses,
        potential,
        Euclidean(n, tuple(f"x{i}" for i in range(n))),
        contacts,
        separate=True,
        transmits=massless,
        highest_frequency=highest_frequency,
        chain=Chain(Euclidean(1), n, element, load) if n > 1 else None,
    )


def highest_frequency(params: Any) -> float:
    """The largest frequency of the chain, all contacts closed: a tridiagonal eigenvalue, exact."""
    from scipy.linalg import eigh_tridiagonal

    mass, spring = (np.asarray(params[name], float) for name in ("mass", "stiffness"))
    spring, wall = spring.copy(), 0.0
    if "compliance" in params:
        contact = 1.0 / np.asarray(params["compliance"], float).sum(1)
        joints = _joints(params) - 1
        wall = contact[0] if len(contact) > len(joints) else 0.0
        spring[joints] = contact[len(contact) - len(joints) :]
    diagonal = (np.append(spring, 0.0) + np.concatenate([[wall], spring])) / mass
    beside = -spring / np.sqrt(mass[:-1] * mass[1:])
    last = len(mass) - 1
    return float(np.sqrt(eigh_tridiagonal(diagonal, beside, eigvals_only=True, select="i", select_range=(last, last))[0]))


def bars(
    lengths: Sequence[float] = (10.0, 10.0),
    densities: Sequence[float] = (1.0, 1.0),
    moduli: Sequence[float] = (1.0, 1.0),
    elements: Sequence[int] = (50, 50),
    speeds: Sequence[float] = (0.1, -0.1),
    gaps: Sequence[float] = (0.1,),
    section: float = 1.0,
    integrator: int = 2,
    tip: float = 0.25,
    wall: int = 0,
    gravity: float = 0.0,
) -> Model:
    """Bars in a row, from left to right, that collide: one entry per bar of length, mass per length, Young's modulus, number of
    elements and initial speed, one gap between each and the next. With wall=1 a rigid wall stands left of the first bar, and the
    first gap is to it.

    `integrator` 1 lets end nodes bounce, 2 (default) has massless ends at the fraction `tip` of an element and prolonged contact.
    """
    count = len(lengths)
    _check(count, {"densities": densities, "moduli": moduli, "elements": elements, "speeds": speeds}, gaps, wall, integrator, tip)
    if min(*lengths, *densities, *moduli, section) <= 0:
        raise InputError("lengths, densities, moduli and the section must be positive")
    massless = integrator == 2
    columns, edge = [], 0.0
    for i in range(count):
        left = massless and (i > 0 or bool(wall))
        right = massless and i < count - 1
        edge += gaps[i - 1 + bool(wall)] if i > 0 or wall else 0.0
        columns.append(
            _bar(edge, lengths[i], densities[i], moduli[i] * section, int(elements[i]), tip if left else 0.0, tip if right else 0.0)
        )
        edge += lengths[i]
    q0, mass, stiffness, rest = [], [], [], []
    for i, bar in enumerate(columns):
        q0, mass = [*q0, *bar["q"]], [*mass, *bar["mass"]]
        joint = i < count - 1
        stiffness += [*bar["stiffness"], *([0.0] if joint else [])]
        rest += [*bar["rest"], *([0.0] if joint else [])]
    ends = [(0.0, 0.0)] * bool(wall) + [(b["right"], b["right"] / y / section) for b, y in zip(columns, moduli, strict=True)][:-1]
    starts = [(b["left"], b["left"] / y / section) for b, y in zip(columns, moduli, strict=True)][(0 if wall else 1) :]
    params = {
        "mass": np.array(mass),
        "stiffness": np.array(stiffness),
        "rest": np.array(rest),
        "gravity": gravity,
    }
    if ends:
        params["contact_rest"] = np.array([a[0] + b[0] for a, b in zip(ends, starts, strict=True)])
    if massless and ends:
        params["compliance"] = np.array([[a[1], b[1]] for a, b in zip(ends, starts, strict=True)])
    sizes = tuple(int(e) + 1 for e in elements)
    dt = 0.075 * min(length / e * np.sqrt(d / y) for length, e, d, y in zip(lengths, elements, densities, moduli, strict=True))
    return Model(
        name="bars",
        about="elastic bars that collide end to end",
        system=_system(sizes, bool(wall), massless and bool(ends)),
        q0=q0,
        v0=np.repeat(np.asarray(speeds, float), sizes).tolist(),
        params=params,
        dt=dt,
        num_steps=2_700,
        source="demoures2017, §4",
        shape=_outline,
    )


def _bar(edge: float, length: float, density: float, stiffness: float, elements: int, left: float, right: float) -> dict[str, Any]:
    """One bar from `edge` on: nodes, masses, springs; `left` and `right` are the fractions of an element that the massless ends
    take."""
    size = length / elements
    q = edge + size * np.arange(elements + 1)
    mass = np.full(elements + 1, size * density)
    mass[[0, -1]] *= 0.5
    q[0] += left * size
    q[-1] -= right * size
    rest = np.diff(q)
    return {
        "q": q,
        "mass": mass,
        "rest": rest,
        "stiffness": stiffness / rest,
        "left": left * size,
        "right": right * size,
    }


def _check(count: int, columns: dict[str, Any], gaps: Any, wall: int, integrator: int, tip: float) -> None:
    for name, values in columns.items():
        if len(values) != count:
            raise InputError(f"bars: {count} lengths but {len(values)} {name}; give one per bar")
    expected = count - 1 + bool(wall)
    if len(gaps) != expected:
        raise InputError(f"bars: {count} bars{' and a wall' if wall else ''} have {expected} gaps; got {len(gaps)}")
    if any(gap < 0 for gap in gaps):
        raise InputError(f"bars: gaps must not be negative; got {tuple(gaps)}")
    if any(int(e) != e or e < 1 for e in columns["elements"]):
        raise InputError(f"bars: elements must be positive whole numbers; got {tuple(columns['elements'])}")
    if integrator not in (1, 2):
        raise InputError(f"bars: integrator must be 1 (ends with mass) or 2 (massless ends); got {integrator}")
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
