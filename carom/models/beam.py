"""A geometrically exact beam that falls on a plane [demoures2017, §5], on SE(3) at every node.

A node is a cross-section: the rotation Λ of its axes and the position r of its centroid. Between neighbours, Δs apart, the strain
is η = τ⁻¹(gₐ⁻¹gₐ₊₁)/Δs = (Ω, Γ) with the Cayley map τ, (5.8), and the discrete Lagrangian is (5.9) with its potential

    V = Σ ½ Δs ⟨C(η − E₆), η − E₆⟩ + Σ mₐ g zₐ,       C = diag(E I, E I, 2 G I, G S, G S, E S),                     (1)
    masses ρΔs diag(I, I, 2I, S, S, S) at inner nodes, half of them at the ends;   I = a⁴/12, S = a².                (2)

The paper prints I₁ = I₂ = ρa⁴/12 for both J and C; only C with a⁴/12 has the dimension of a stiffness. Its Π_d needs a factor ½
and q no Δs, for V to be the weight. Each node is a contact, zₐ ≥ 0; a vertical impulse leaves p_x, p_y and J_z alone.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from carom.calls import public
from carom.contact.contact import Contact
from carom.errors import InputError
from carom.kept.keep import keep_quick
from carom.models.beam_parts import (
    HELD,
    BeamExtras,
    Section,
    beam_contact,
    beam_external,
    beam_supports,
    check_obstacle,
    masses_and_stiffness,
    own_start,
    settle_ends,
)
from carom.models.body_ends import check_ends
from carom.models.model import Model
from carom.results.solution import Solution
from carom.spaces.groups import SE3
from carom.spaces.rotations import (
    add,
    coadjoint,
    conjugate,
    cross,
    inverse_cayley,
    join,
    matrix,
    multiply,
    rigid_cayley_momentum,
    rotate,
    scale,
    split,
    times,
    unrotate,
)
from carom.spaces.space import Power
from carom.system.chain import Chain
from carom.system.lumped import LumpedSystem
from carom.wanted import (
    Count,
    Damping,
    Function,
    NotNegative,
    Number,
    Poisson,
    Positive,
    PositiveOrFunction,
    Share,
    Six,
    Triple,
)
from carom.xla.kernel import once

_STRAIN = (1.0, 4.5, 1.0, 0.0, 0.0, 1.0)  # η⁰ of §5.3.1
_NEXT_STRAIN = (1.004, 4.522, 0.996, -0.004, 0.0, 1.0)  # η¹ of (5.13)


def _elements(q):
    """Between neighbours: the rotation and the position of the next node as seen from this one."""
    parts = split(q.reshape(-1, 7))
    here, there = tuple(x[:-1] for x in parts), tuple(x[1:] for x in parts)
    return multiply(conjugate(here[:4]), there[:4]), unrotate(here[:4], add(there[4:], scale(-1.0, here[4:])))


def _strain(turn, shift, spacing):
    """Δsη = τ⁻¹ of an element, and η − E₆."""
    omega = once(inverse_cayley(turn))
    gamma = add(shift, scale(-0.5, cross(omega, shift)))
    rate = 1.0 / spacing
    bent, stretched = scale(rate, omega), scale(rate, gamma)
    return omega, gamma, bent, (stretched[0], stretched[1], stretched[2] - 1.0)


def strains(q: Float[Array, " 7n"], spacing: Any) -> Float[Array, "n-1 6"]:
    """η of (5.8) between neighbours."""
    omega, gamma, _, _ = _strain(*_elements(q), spacing)
    return join(omega, gamma) / spacing


def _strain_energies(q, params):
    """Per kind of strain: bending (2), torsion, shear (2), stretching."""
    _, _, bent, stretched = _strain(*_elements(q), params["spacing"])
    if jnp.ndim(params["stiffness"]) == 2:  # its own in each element
        return 0.5 * params["spacing"] * jnp.sum(jnp.asarray(params["stiffness"]) * jnp.stack((*bent, *stretched), 1) ** 2, axis=0)
    squares = jnp.stack([jnp.sum(x**2) for x in (*bent, *stretched)])
    return 0.5 * params["spacing"] * params["stiffness"] * squares


def _weights(q, params):
    return params["gravity"] * params["mass"].reshape(-1, 6)[:, 5] * q.reshape(-1, 7)[:, 6]


def _potential(q, params):  # (1)
    return jnp.sum(_strain_energies(q, params)) + jnp.sum(_weights(q, params))


def _element(left, right, index, params):
    stiffness = jnp.asarray(params["stiffness"])
    own = {"spacing": params["spacing"], "stiffness": stiffness[index] if stiffness.ndim == 2 else stiffness}
    return jnp.sum(_strain_energies(jnp.concatenate([left, right]), own))


def _load(q, index, params):
    return params["gravity"] * jnp.asarray(params["mass"]).reshape(-1, 6)[index, 5] * q[6]


def _force(q, params):
    """−∂V in the body: λ of an element on its first node, −Ad*λ on its second, (A.2), and the weight."""
    turn, shift = once(_elements(q))
    omega, gamma, bent, stretched = once(_strain(turn, shift, params["spacing"]))
    stiffness = split(params["stiffness"])
    mu, nu = once(rigid_cayley_momentum(omega, gamma, times(stiffness[:3], bent), times(stiffness[3:], stretched)))  # λ of (5.10)
    first, second = join(mu, nu), join(*coadjoint(turn, shift, mu, nu))
    w, x, y, z = split(q.reshape(-1, 7)[:, :4])
    down = -params["gravity"] * params["mass"].reshape(-1, 6)[:, 5]
    zero = jnp.zeros_like(w)
    weight = join((zero, zero, zero), (down * 2 * (x * z - w * y), down * 2 * (y * z + w * x), down * (1 - 2 * (x * x + y * y))))
    return (weight + jnp.pad(first, ((0, 1), (0, 0))) - jnp.pad(second, ((1, 0), (0, 0)))).reshape(-1)


def _masses(params):
    return params["mass"]


def _heights(q):
    return q.reshape(-1, 7)[:, 6]


def _less_than_half_a_turn(q):
    """Neighbours nearer than half a turn to each other: beyond, the Cayley map has no inverse, and the strain no meaning."""
    turn = q.reshape(-1, 7)[:, :4]
    return jnp.sum(turn[:-1] * turn[1:], axis=1) > 0


@keep_quick
def _strain_slopes(spacing: Any) -> Float[Array, "6 12"]:
    """∂η of a straight element along the twelve directions of its two nodes."""
    straight = jnp.zeros((2, 7)).at[:, 0].set(1.0).at[1, 6].set(spacing)
    return jax.jacfwd(lambda x: strains(SE3().retract(straight, x.reshape(2, 6)).reshape(-1), spacing)[0])(jnp.zeros(12))


def highest_frequency(params: Any) -> float:
    """Of a long straight beam without strain: the largest over all wave numbers of the 6 × 6 problem that one wave leaves."""
    spacing, stiffness = (np.asarray(params[name], float) for name in ("spacing", "stiffness"))
    mass = np.asarray(params["mass"], float).reshape(-1, 6)
    if stiffness.ndim == 2:  # of the stiffest element with the lightest of its nodes, ends counted twice
        whole = mass * np.where(np.arange(len(mass)) % (len(mass) - 1) == 0, 2.0, 1.0)[:, None]
        return max(
            highest_frequency({"spacing": spacing, "stiffness": row, "mass": np.minimum(whole[i], whole[i + 1])})
            for i, row in enumerate(stiffness)
        )
    inner = np.max(mass, axis=0)
    slopes = np.asarray(_strain_slopes(np.float64(spacing)))  # of a quadratic energy whose strain is zero: its second derivative
    element = spacing * slopes.T @ (stiffness[:, None] * slopes)
    a, b, c = element[:6, :6], element[:6, 6:], element[6:, 6:]
    root = 1 / np.sqrt(inner)
    largest = 0.0
    for angle in np.linspace(0, np.pi, 65):
        wave = a + c + b * np.exp(1j * angle) + b.T * np.exp(-1j * angle)
        largest = max(largest, np.linalg.eigvalsh(root[:, None] * wave * root)[-1])
    return float(np.sqrt(largest))


@functools.lru_cache
def _system(nodes: int, extras: BeamExtras = BeamExtras()) -> LumpedSystem:  # noqa: B008
    plain = extras.obstacle == "plane" and extras.restitution == 1.0 and extras.radius == 0.0
    return LumpedSystem(
        _masses,
        _potential,
        Power(SE3(), nodes),
        [Contact(_heights, name="node")] if plain else beam_contact(extras),
        separate=not extras.rough,
        highest_frequency=highest_frequency,
        admissible=_less_than_half_a_turn,
        force=_force,
        chain=Chain(SE3(), nodes, _element, _load),
        external=beam_external(extras, strains),
        supports=beam_supports(extras.ends, nodes),
    )


@public
def beam(
    elements: Count = 10,
    start_time: NotNegative = 4e-5,
    length: Positive = 0.5,
    side: Positive = 0.05,
    density: PositiveOrFunction = 1e3,
    modulus: PositiveOrFunction = 1e3,
    poisson: Poisson = 0.35,
    gravity: Number = 10.0,
    height: Number = 0.0,
    *,
    section: Any = None,
    strain: Six | None = None,
    turn: Triple | None = None,
    velocity: Triple | None = None,
    ends: Sequence[Any] = ("free", "free"),
    obstacle: Any = "plane",
    restitution: Share = 1.0,
    friction: NotNegative = 0.0,
    radius: NotNegative = 0.0,
    obstacle_velocity: Function | None = None,
    force: Function | None = None,
    damping: Damping = (0.0, 0.0),
) -> Model:
    """A soft beam with a square cross-section, curved and thrown at a plane: the runs of §5.3; or a beam of one's own.

    `start_time` scales the first velocity, ξ⁰ = τ⁻¹((g⁰)⁻¹g¹)/start_time: 4e-5, 8e-5, 2e-4 in (5.14), (5.15), (5.16), for first
    impacts at about 30, 15 and 6 m/s. `height` lifts it above the plane, which its lower end touches otherwise.

    - `section`: a `Section` in the place of the square; it, `density` and `modulus` may be functions of the place s along the beam.
    - `strain`: the six strains of a start of one's own, (0, 0, 0, 0, 0, 1) for a straight beam; `turn`: the rotation vector of
      its first section, whose axis is z otherwise; `velocity`: of all its points, in space. With any of these it starts so, at rest
      unless a velocity is given.
    - `ends`: of the first section and the last: "free", "fixed" (clamped), "pinned" (turns), "guided" (moves, but does not turn),
      or a function of t: the displacement in space, three numbers, and three more where it turns, a rotation vector.
    - `obstacle`: "plane", None, or a function of r, t, params: the signed distance of a point r. `restitution`, `friction`: there;
      `radius`: of the round skin with which each node touches it, where friction acts; `obstacle_velocity(r, t, params)`: of the
      point of the obstacle at r, for friction on one that moves, or on a belt.
    - `force(r, v, t, params)`: from places and velocities of the centroids, all in space, a force on each and a moment: rows of
      3 or 6.
    - `damping`: α and β of Rayleigh's damping, (2) of beam_parts.py.
    """
    if friction > 0 and not radius > 0:
        raise InputError(f"beam: friction acts on the skin, so it asks for a radius; got friction={friction} and radius={radius}")
    if not (section is None or callable(section) or isinstance(section, Section)):
        raise InputError(f"beam: section must be a Section, such as Section.circle(0.02), or a function of s; got {section!r}")
    check_obstacle(obstacle)
    nodes, spacing = elements + 1, length / elements
    section = Section(side**2, (side**4 / 12, side**4 / 12)) if section is None else section
    masses, stiffness = masses_and_stiffness(nodes - 1, spacing, section, density, modulus, poisson)
    own = any(x is not None for x in (strain, turn, velocity))
    q0, v0 = (
        own_start(nodes, spacing, height, strain, turn, velocity) if own else _thrown(nodes, spacing, height, start_time, masses)
    )
    held_at = settle_ends(check_ends("beam", "its first and its last section", ends, HELD), q0, v0)
    extras = BeamExtras(
        tuple(ends), obstacle, float(restitution), friction > 0, float(radius), force, any(damping), obstacle_velocity
    )
    params = {"mass": masses.reshape(-1), "spacing": spacing, "stiffness": stiffness, "gravity": gravity}
    more = {"held_at": held_at, "damping": np.asarray(damping, float), "friction": friction}
    used = {"held_at": len(held_at) > 0, "damping": extras.damped, "friction": extras.rough}
    dt = 4e-5 if elements <= 10 else 2e-5 if elements <= 16 else 1e-5
    return Model(
        name="beam",
        about="a geometrically exact beam bouncing on a plane",
        system=_system(nodes, extras),
        q0=q0.reshape(-1).tolist(),
        v0=v0.reshape(-1).tolist(),
        params=params | {name: more[name] for name, wanted in used.items() if wanted},
        dt=0.5 / highest_frequency(params) if own else dt,
        num_steps=12_500,
        source="demoures2017, §5",
        shape=sections,
    )


def _thrown(nodes: int, spacing: float, height: float, start_time: float, masses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As in §5.3."""
    first, velocity = jax.device_get(_start(nodes, *map(np.float64, (spacing, height, start_time)), masses))
    return np.array(first), np.array(velocity)


@keep_quick
def _start(nodes: int, spacing, height, start_time, masses) -> tuple[Float[Array, "n 7"], Float[Array, "n 6"]]:
    """The first configuration, and its velocity from the second one."""
    place, shift = jnp.zeros(3).at[2].set(height), 2e-5 * np.array([0.0, -np.sin(0.5), np.cos(0.5)])  # (5.12)
    first = _curve(place, _STRAIN, nodes, spacing)
    second = _curve(place + shift, _NEXT_STRAIN, nodes, spacing)
    return first, _velocity(SE3().inverse_retract(first, second), start_time, masses)


def _velocity(displacement: Array, start_time, masses) -> Array:
    """The velocity at t = 0 that belongs to ξ⁰ as the discrete velocity of an interval of 4e-5, by (5.10)."""
    xi = displacement / start_time
    omega, gamma = split(4e-5 * xi)[:3], split(4e-5 * xi)[3:]
    inertia, weight = split(masses * xi)[:3], split(masses * xi)[3:]
    return join(*rigid_cayley_momentum(omega, gamma, inertia, weight)) / masses


def _curve(place: Array, strain: Any, nodes: int, spacing) -> Array:
    """Nodes of constant strain, from a first section turned by 0.5 about x."""
    space, step = SE3(), spacing * jnp.asarray(strain)
    node = jnp.concatenate([jnp.array([np.cos(0.25), np.sin(0.25), 0.0, 0.0]), place])
    _, others = jax.lax.scan(lambda node, _: (space.retract(node, step),) * 2, node, None, length=nodes - 1)
    return jnp.concatenate([node[None], others])


class Energies(NamedTuple):
    """Energies on the grid, by kind."""

    kinetic: np.ndarray
    bending: np.ndarray  #  and torsion
    stretching: np.ndarray  #  and shear
    weight: np.ndarray


def beam_energies(solution: Solution) -> Energies:
    """Where the energy is."""
    strain = np.asarray(jax.vmap(lambda q: _strain_energies(q, solution.params))(jnp.asarray(solution.q)))
    weight = np.asarray(jax.vmap(lambda q: jnp.sum(_weights(q, solution.params)))(jnp.asarray(solution.q)))
    kinetic = 0.5 * np.sum(solution.p * solution.v, axis=1)
    return Energies(kinetic, strain[:, :3].sum(axis=1), strain[:, 3:].sum(axis=1), weight)


def momentum_maps(solution: Solution) -> np.ndarray:
    """Linear and angular momentum in space, (p_x, p_y, p_z, J_x, J_y, J_z) on the grid: p_x, p_y and J_z are kept."""
    q = jnp.asarray(solution.q).reshape(len(solution.q), -1, 7)
    p = jnp.asarray(solution.p).reshape(len(solution.p), -1, 6)
    turn, place = split(q)[:4], split(q)[4:]
    linear = rotate(turn, split(p)[3:])
    angular = add(rotate(turn, split(p)[:3]), cross(place, linear))
    return np.asarray(join(linear, angular).sum(axis=1))


def sections(q, params):
    """The line of centroids and the edges of the sections, in space."""
    nodes = np.asarray(q).reshape(-1, 7)
    mass = np.asarray(params["mass"]).reshape(-1, 6)
    half = 0.5 * np.sqrt(12 * mass[:, [1, 0]] / mass[:, 3:4])  # along the two axes: ρ I Δs over ρ S Δs is a²/12
    frames = np.asarray(matrix(jnp.asarray(nodes[:, :4])))
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]])
    rings = [(corners * size) @ frame[:, :2].T + place for size, frame, place in zip(half, frames, nodes[:, 4:], strict=True)]
    return [nodes[:, 4:], *rings]
